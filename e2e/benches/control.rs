//! How long a change takes to arrive, on the embedded cluster:
//!
//! - `apply → Programmed`: from the request that changes a Route to the watch event that says
//!   `Programmed=True` for that generation.
//! - `EndpointSlice → routed`: from the request that replaces an endpoint to the first reply of
//!   the new one.
//!
//! What is measured runs in other processes, so the profile of this one does not matter:
//! `cargo test --package e2e --bench control`
#![expect(clippy::print_stdout, reason = "figures are what a bench is for")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::{self, Cluster};
use e2e::engines::Engines;
use e2e::images::{self, ENGINE, OPERATOR, ROUTER};
use e2e::manifest::{provider, route};
use e2e::release::Release;
use e2e::world::{Ground, World};
use futures::TryStreamExt as _;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, WatchEvent, WatchParams,
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

const ROUNDS: usize = 50;
const IMAGES: &[&str] = &[OPERATOR, ROUTER, ENGINE];
const PATIENCE: Duration = Duration::from_secs(20);

fn main() -> Result<ExitCode> {
    if !cluster::is_inside() {
        cluster::supported()?;
    }
    cluster::inside(|| images::build(IMAGES), run)
}

async fn run(cluster: Cluster) -> Result<ExitCode> {
    let ground = Arc::new(Ground::embedded(cluster));
    let mut helm = ground.helm();
    helm.args(["install", "refrain-crds"])
        .arg(e2e::environment::repository().join("charts/refrain-crds"));
    ensure!(
        helm.status().await?.success(),
        "the kinds could not be installed"
    );
    let world = World::open(ground, "bench").await?;
    let release = Release::install(&world).await?;
    Engines::start(&world, "llama", 2).await?;
    apply(&world, &provider("llama")).await?;
    print("apply → Programmed", programmed(&world).await?);
    print("EndpointSlice → routed", routed(&world, &release).await?);
    world.close(false).await?;
    Ok(ExitCode::SUCCESS)
}

fn print(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let at = |percent: usize| {
        took.get((took.len() * percent / 100).min(took.len() - 1))
            .copied()
    };
    let (count, p50, p99) = (
        took.len(),
        at(50).unwrap_or_default(),
        at(99).unwrap_or_default(),
    );
    println!("{what}: p50 {p50:.1?}, p99 {p99:.1?} of {count}");
}

async fn apply(world: &World, object: &Value) -> Result<()> {
    world.apply(&object.to_string()).await.map(drop)
}

fn routes(world: &World) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("refrain.dev", "v1alpha1", "Route");
    Api::namespaced_with(
        world.client().clone(),
        world.namespace(),
        &ApiResource::from_gvk(&kind),
    )
}

/// Changes one Route again and again.
async fn programmed(world: &World) -> Result<Vec<Duration>> {
    let routes = routes(world);
    let mut took = Vec::with_capacity(ROUNDS);
    // The first rounds warm up connections on both sides.
    for round in 0..ROUNDS + 3 {
        let version = routes
            .list_metadata(&kube::api::ListParams::default())
            .await?
            .metadata
            .resource_version;
        let events = routes
            .watch(&WatchParams::default(), &version.unwrap_or_default())
            .await?;
        let start = Instant::now();
        let object = route("bench", &format!("model-{round}"), "llama");
        let applied = routes
            .patch(
                "bench",
                &PatchParams::apply("bench").force(),
                &Patch::Apply(&object),
            )
            .await?;
        let generation = applied.metadata.generation;
        let is_behind = |event: &WatchEvent<DynamicObject>| match event {
            WatchEvent::Added(route) | WatchEvent::Modified(route) => {
                !is_programmed(&route.data, generation)
            }
            _ => true,
        };
        let behind = |event: &_| std::future::ready(Ok(is_behind(event)));
        let mut arrived = std::pin::pin!(events.try_skip_while(behind));
        let seen = async { arrived.try_next().await?.context("the watch ended") };
        timeout(PATIENCE, seen)
            .await
            .context("not programmed in time")??;
        if round >= 3 {
            took.push(start.elapsed());
        }
    }
    Ok(took)
}

fn is_programmed(object: &Value, generation: Option<i64>) -> bool {
    let conditions = object["status"]["conditions"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    conditions.iter().any(|c| {
        c["type"] == "Programmed"
            && c["status"] == "True"
            && c["observedGeneration"].as_i64() == generation
    })
}

/// Moves a hand-written endpoint from one engine to another and back.
async fn routed(world: &World, release: &Release<'_>) -> Result<Vec<Duration>> {
    let pods = Engines::start(world, "pair", 2).await?.pods().await?;
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "moving" },
                          "spec": { "ports": [{ "name": "http", "port": 80 }] } });
    apply(world, &service).await?;
    apply(world, &provider("moving")).await?;
    apply(world, &route("moving", "moving", "moving")).await?;
    let slices = world.api::<k8s_openapi::api::discovery::v1::EndpointSlice>();
    let mut took = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS + 3 {
        let pod = pods.get(round % 2).context("two engines")?;
        let name = pod.metadata.name.clone().unwrap_or_default();
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": "moving", "labels": { "kubernetes.io/service-name": "moving" } },
            "addressType": "IPv4", "ports": [{ "name": "http", "port": 8000 }],
            "endpoints": [{ "addresses": [address], "conditions": { "ready": true },
                            "targetRef": { "kind": "Pod", "name": name, "uid": pod.metadata.uid } }],
        });
        let start = Instant::now();
        slices
            .patch(
                "moving",
                &PatchParams::apply("bench").force(),
                &Patch::Apply(&slice),
            )
            .await?;
        let answered = async {
            while release
                .client()
                .chat("moving")
                .await?
                .engine()
                .ok()
                .as_ref()
                != Some(&name)
            {}
            anyhow::Ok(())
        };
        timeout(PATIENCE, answered)
            .await
            .context("not routed in time")??;
        if round >= 3 {
            took.push(start.elapsed());
        }
    }
    Ok(took)
}
