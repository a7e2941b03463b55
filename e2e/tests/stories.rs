//! The stories: what a user does with Refrain and what comes of it, on a real Kubernetes.
//!
//! One cluster serves them all. It is the embedded one, or with `REFRAIN_KUBECONFIG` and `REFRAIN_IMAGE_PREFIX` one
//! the user has. A new story is an `async fn(&World) -> anyhow::Result<()>` in a module of `stories/`, and a line here.

#[path = "stories/harness.rs"]
mod harness;
#[path = "stories/platform.rs"]
mod platform;

use std::process::ExitCode;

use e2e::images::TOOLBOX;
use harness::{Kind, Story, stories};

const IMAGES: &[&str] = &[TOOLBOX];

const STORIES: &[Story] = stories![
    Shared platform::a_restricted_pod_runs_and_finds_a_service_by_name,
    Shared platform::a_privileged_pod_is_refused,
    Node platform::a_killed_container_is_started_again,
    Node platform::a_frozen_container_does_not_answer,
    Alone platform::pods_serve_on_while_the_api_server_is_down,
];

fn main() -> anyhow::Result<ExitCode> {
    harness::tell(STORIES, IMAGES)
}
