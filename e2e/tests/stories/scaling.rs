//! Stories of pools that grow and shrink under traffic.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::engines::Engines;
use e2e::manifest::{provider, route};
use e2e::release::Release;
use e2e::sdk::{self, Streams};
use e2e::world::{World, eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::json;

use crate::install::apply;

const STREAMS: usize = 50;
const SOON: Duration = Duration::from_secs(30);

/// A release that serves from a pool of one engine.
async fn one_engine(world: &World) -> Result<(Release<'_>, Engines<'_>)> {
    let release = Release::install(world).await?;
    let pool = Engines::start(world, "llama", 1).await?;
    let objects = [provider("llama"), route("llama", "llama", "llama")];
    apply(world, &objects).await?;
    release.condition("route/llama", "Ready", "True").await?;
    Ok((release, pool))
}

/// Scales the pool up and down under streams, each step until the streams use every engine.
async fn scale_under_streams(
    world: &World,
    release: &Release<'_>,
    pool: &Engines<'_>,
) -> Result<Streams> {
    let streams = sdk::streams(world, release.client().url(), "llama", STREAMS)?;
    for replicas in [1, 3, 1] {
        pool.scale(replicas).await?;
        let pods = pool.ready(replicas).await?;
        let before = streams.so_far().engines;
        eventually("the streams use every engine", SOON, async || {
            let now = streams.so_far();
            now.all_well(0)?;
            let gone = |pod: &String| {
                let count = |of: &BTreeMap<String, usize>| of.get(pod).copied().unwrap_or_default();
                count(&now.engines) - count(&before)
            };
            let used: Vec<usize> = pods.iter().map(gone).collect();
            ensure!(used.iter().all(|gone| *gone >= STREAMS / 5), "{used:?}");
            Ok(())
        })
        .await?;
        only(release, &pods).await?;
    }
    streams.end().await
}

/// Checks that new requests go to these engines and to no other.
async fn only(release: &Release<'_>, pods: &[String]) -> Result<()> {
    for _ in 0..20 {
        let engine = release.client().chat("llama").await?.engine()?;
        ensure!(pods.contains(&engine), "{engine} is not of {pods:?}");
    }
    Ok(())
}

pub(crate) async fn a_pool_scales_up_and_down_under_streams_and_nothing_is_lost(
    world: &World,
) -> Result<()> {
    let (release, pool) = one_engine(world).await?;
    let streams = scale_under_streams(world, &release, &pool).await?;
    streams.all_well(2 * STREAMS)?;
    ensure!(streams.engines.len() == 3, "{:?}", streams.engines);
    Ok(())
}

pub(crate) async fn a_pool_scales_while_the_operator_is_down_and_nothing_is_lost(
    world: &World,
) -> Result<()> {
    let (release, pool) = one_engine(world).await?;

    let operators = ListParams::default().labels("app.kubernetes.io/component=operator");
    world
        .kubectl(&["scale", "deployment/refrain-operator", "--replicas=0"])
        .await?;
    eventually("the operator is gone", SOON, async || {
        let left = world.api::<Pod>().list(&operators).await?.items.len();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await?;
    scale_under_streams(world, &release, &pool)
        .await?
        .all_well(2 * STREAMS)?;

    // What was applied meanwhile counts when it is back.
    let mut alias = route("alias", "alias", "llama");
    alias["spec"]["rules"][0]["backendRefs"][0]["model"] = json!("llama");
    apply(world, &[alias]).await?;
    world
        .kubectl(&["scale", "deployment/refrain-operator", "--replicas=1"])
        .await?;
    release.answers("alias").await?;
    Ok(())
}
