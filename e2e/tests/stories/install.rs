//! Stories of a new user.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::engines::Engines;
use e2e::manifest::{provider, route};
use e2e::release::Release;
use e2e::sdk;
use e2e::world::{World, eventually};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

/// Applies objects as one file.
pub(crate) async fn apply(world: &World, objects: &[Value]) -> Result<()> {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    world.apply(&list.to_string()).await?;
    Ok(())
}

pub(crate) async fn a_new_user_gets_an_answer_by_sdk(world: &World) -> Result<()> {
    let release = Release::install(world).await?;
    Engines::start(world, "llama", 2).await?;
    apply(
        world,
        &[provider("llama"), route("llama", "llama", "llama")],
    )
    .await?;
    release.condition("route/llama", "Ready", "True").await?;
    release.condition("provider/llama", "Ready", "True").await?;

    let gave = sdk::first_requests(world, release.client().url(), "llama").await?;
    let text = "tok0 tok1 tok2 tok3 tok4 tok5 tok6 tok7 ";
    for kind in ["chat", "completion", "chat_stream", "completion_stream"] {
        ensure!(gave[kind] == text, "{kind} gave {}", gave[kind]);
    }
    let models = &gave["models"];
    ensure!(
        models[0]["id"] == "llama" && models[0]["max_model_len"] == 4096,
        "{models}"
    );

    // What a user reads. The engine's own words arrive with the routers' next report.
    eventually(
        "the Provider's columns",
        Duration::from_secs(30),
        async || {
            let printed = world
                .kubectl(&["get", "providers.refrain.dev", "llama"])
                .await?;
            let row: Vec<&str> = printed
                .lines()
                .nth(1)
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            ensure!(
                row.starts_with(&["llama", "llama", "vllm", "2", "True", "True"]),
                "{printed}"
            );
            Ok(())
        },
    )
    .await?;
    let printed = world
        .kubectl(&["get", "routes.refrain.dev", "llama"])
        .await?;
    ensure!(
        printed
            .lines()
            .next()
            .is_some_and(|head| head.contains("MODELS")),
        "{printed}"
    );
    let explained = world
        .kubectl(&["explain", "routes.refrain.dev.spec.rules.backendRefs"])
        .await?;
    ensure!(explained.contains("weight"), "{explained}");
    Ok(())
}

pub(crate) async fn without_any_route_routers_are_ready_and_say_what_is_missing(
    world: &World,
) -> Result<()> {
    // `helm install --wait` has seen every router pod ready.
    let release = Release::install(world).await?;
    let snapshot = world.api::<Secret>().get("refrain-snapshot").await?;
    let bytes = snapshot
        .data
        .and_then(|mut data| data.remove("snapshot"))
        .unwrap_or_default();
    ensure!(
        serde_json::from_slice::<Value>(&bytes.0)?["routes"] == json!([]),
        "{bytes:?}"
    );
    let message = release.refuses("llama", 404).await?;
    ensure!(message.contains("llama"), "{message}");
    Ok(())
}

pub(crate) async fn what_is_uninstalled_leaves_nothing_but_the_users_objects(
    world: &World,
) -> Result<()> {
    Release::install(world).await?;
    Engines::start(world, "llama", 1).await?;
    apply(
        world,
        &[provider("llama"), route("llama", "llama", "llama")],
    )
    .await?;
    world.helm(&["uninstall", "refrain", "--wait"]).await?;
    let deleted = world
        .kubectl(&["delete", "route/llama", "provider/llama", "--timeout=20s"])
        .await?;
    ensure!(deleted.contains("llama"), "{deleted}");
    eventually("nothing is left", Duration::from_secs(30), async || {
        let kinds = "deployments,services,secrets,roles,rolebindings,leases,poddisruptionbudgets";
        let left = world.kubectl(&["get", kinds, "-o", "name"]).await?;
        let ours = left.lines().any(|line| line.contains("refrain"));
        ensure!(!ours, "{left}");
        Ok(())
    })
    .await
}
