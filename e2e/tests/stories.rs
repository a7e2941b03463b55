//! The stories: what a user does with Refrain and what comes of it, on a real Kubernetes.
//!
//! One cluster serves them all. It is the embedded one, or with `REFRAIN_KUBECONFIG` and `REFRAIN_IMAGE_PREFIX` one
//! the user has. A new story is an `async fn(&World) -> anyhow::Result<()>` in a module of `stories/`, and a line here.

#[path = "stories/examples.rs"]
mod examples;
#[path = "stories/harness.rs"]
mod harness;
#[path = "stories/install.rs"]
mod install;
#[path = "stories/leases.rs"]
mod leases;
#[path = "stories/objects.rs"]
mod objects;
#[path = "stories/platform.rs"]
mod platform;
#[path = "stories/scaling.rs"]
mod scaling;

use std::process::ExitCode;

use e2e::images::{ENGINE, OPERATOR, ROUTER, TOOLBOX};
use harness::{Kind, Story, stories};

const IMAGES: &[&str] = &[OPERATOR, ROUTER, ENGINE, TOOLBOX];

const STORIES: &[Story] = stories![
    Shared scaling::a_pool_scales_up_and_down_under_streams_and_nothing_is_lost,
    Shared scaling::a_pool_scales_while_the_operator_is_down_and_nothing_is_lost,
    Shared install::a_new_user_gets_an_answer_by_sdk,
    Shared install::without_any_route_routers_are_ready_and_say_what_is_missing,
    Shared install::what_is_uninstalled_leaves_nothing_but_the_users_objects,
    Shared objects::the_api_server_refuses_what_is_wrong_and_says_why,
    Shared objects::a_bad_route_does_not_stop_a_good_one,
    Shared objects::a_missing_secret_is_used_once_it_is_created_and_followed_when_it_changes,
    Shared objects::each_kind_of_auth_sends_what_it_says,
    Shared objects::of_two_routes_in_conflict_the_older_serves_and_the_other_says_so,
    Shared objects::a_revoked_grant_takes_its_backend_out,
    Shared leases::a_router_cannot_write_anothers_lease_nor_the_leaders,
    Shared examples::every_example_does_what_it_says,
    Shared examples::the_engines_example_is_one_that_the_api_server_takes,
    Node examples::the_standalone_example_serves_without_a_cluster,
    Shared platform::a_restricted_pod_runs_and_finds_a_service_by_name,
    Shared platform::a_privileged_pod_is_refused,
    Node platform::a_killed_container_is_started_again,
    Node platform::a_frozen_container_does_not_answer,
    Alone platform::pods_serve_on_while_the_api_server_is_down,
];

fn main() -> anyhow::Result<ExitCode> {
    harness::tell(STORIES, IMAGES)
}
