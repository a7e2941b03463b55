//! Stories of objects that are wrong, in each other's way, or not there yet.

use anyhow::{Context as _, Result, bail, ensure};
use e2e::client::Client;
use e2e::engines::Engines;
use e2e::manifest::{provider, route};
use e2e::reach::Reach;
use e2e::release::Release;
use e2e::world::{World, eventually};
use serde_json::{Value, json};

use crate::install::apply;

const SOON: std::time::Duration = std::time::Duration::from_secs(30);

pub(crate) async fn the_api_server_refuses_what_is_wrong_and_says_why(world: &World) -> Result<()> {
    let table = include_str!("../../../crds/tests/data/refused.yaml");
    let cases: Vec<Value> = serde_saphyr::from_multiple(table)?;
    for case in &cases {
        let words = case["refusedWith"]
            .as_str()
            .context("a case says its words")?;
        match world.apply(&case["object"].to_string()).await {
            Ok(_) => bail!("{} was let in", case["object"]),
            Err(error) => ensure!(
                error.to_string().contains(words),
                "{words:?} is not in {error}"
            ),
        }
    }
    Ok(())
}

pub(crate) async fn a_bad_route_does_not_stop_a_good_one(world: &World) -> Result<()> {
    let release = Release::install(world).await?;
    Engines::start(world, "llama", 1).await?;
    apply(
        world,
        &[
            route("bad", "gone", "nobody"),
            provider("llama"),
            route("good", "llama", "llama"),
        ],
    )
    .await?;
    release.condition("route/good", "Ready", "True").await?;
    release.answers("llama").await?;
    let (reason, message) = release
        .condition("route/bad", "ResolvedRefs", "False")
        .await?;
    ensure!(
        reason == "ProviderNotFound" && message.contains("nobody"),
        "{reason}: {message}"
    );
    release.condition("route/bad", "Ready", "False").await?;
    let told = release.refuses("gone", 503).await?;
    ensure!(told.contains("nobody"), "{told}");

    // It recovers by itself when what it needs appears.
    Engines::start(world, "nobody", 1).await?;
    apply(world, &[provider("nobody")]).await?;
    release.condition("route/bad", "Ready", "True").await?;
    release.answers("gone").await?;
    Ok(())
}

pub(crate) async fn a_missing_secret_is_used_once_it_is_created_and_followed_when_it_changes(
    world: &World,
) -> Result<()> {
    let release = Release::install(world).await?;
    Engines::start(world, "llama", 1).await?;
    let engine = Client::new(Reach::to(world, "llama").await?.url());
    let mut closed = provider("llama");
    closed["spec"]["auth"] = json!({ "type": "BearerToken", "secretRef": { "name": "key" } });
    apply(world, &[closed, route("llama", "llama", "llama")]).await?;
    let (reason, message) = release
        .condition("provider/llama", "ResolvedRefs", "False")
        .await?;
    ensure!(
        reason == "SecretNotFound" && message.contains("key"),
        "{reason}: {message}"
    );
    release.refuses("llama", 503).await?;

    for secret in ["sk-first", "sk-second"] {
        let object = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key" },
                             "stringData": { "api-key": secret } });
        apply(world, &[object]).await?;
        let expected = format!("Bearer {secret}");
        eventually("the engine gets the new key", SOON, async || {
            release
                .client()
                .chat_with("llama", &[("authorization", "Bearer of-the-client")])
                .await?
                .engine()?;
            let seen = engine.get("/stand-in").await?.json();
            ensure!(
                seen["headers"]["authorization"] == expected,
                "it got {}",
                seen["headers"]
            );
            Ok(())
        })
        .await?;
    }
    release.condition("route/llama", "Ready", "True").await?;
    let everything = world
        .kubectl(&["get", "providers,routes,events", "-o", "yaml"])
        .await?;
    ensure!(!everything.contains("sk-"), "a credential is shown");
    Ok(())
}

pub(crate) async fn each_kind_of_auth_sends_what_it_says(world: &World) -> Result<()> {
    let release = Release::install(world).await?;
    Engines::start(world, "llama", 1).await?;
    let engine = Client::new(Reach::to(world, "llama").await?.url());
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "key" },
                         "stringData": { "token": "sk-1" } });
    apply(
        world,
        &[secret, provider("llama"), route("llama", "llama", "llama")],
    )
    .await?;
    let from = json!({ "name": "key", "key": "token" });
    let cases = [
        (json!(null), [Value::Null, Value::Null, Value::Null]),
        (
            json!({ "type": "Passthrough" }),
            [json!("Bearer client"), json!("client"), Value::Null],
        ),
        (
            json!({ "type": "BearerToken", "secretRef": from }),
            [json!("Bearer sk-1"), Value::Null, Value::Null],
        ),
        (
            json!({ "type": "APIKeyHeader", "secretRef": from }),
            [Value::Null, json!("sk-1"), Value::Null],
        ),
        (
            json!({ "type": "APIKeyHeader", "secretRef": from, "headerName": "X-Engine-Key" }),
            [Value::Null, Value::Null, json!("sk-1")],
        ),
    ];
    for (auth, expected) in cases {
        let mut object = provider("llama");
        object["spec"]["auth"] = auth;
        apply(world, &[object]).await?;
        eventually("the engine gets what the Provider says", SOON, async || {
            let own = [("authorization", "Bearer client"), ("x-api-key", "client")];
            release.client().chat_with("llama", &own).await?.engine()?;
            let seen = engine.get("/stand-in").await?.json();
            let got = ["authorization", "x-api-key", "x-engine-key"]
                .map(|name| seen["headers"][name].clone());
            ensure!(got == expected, "{got:?} in place of {expected:?}");
            Ok(())
        })
        .await?;
    }
    Ok(())
}

pub(crate) async fn of_two_routes_in_conflict_the_older_serves_and_the_other_says_so(
    world: &World,
) -> Result<()> {
    let release = Release::install(world).await?;
    for name in ["one", "two"] {
        Engines::start(world, name, 1).await?;
        apply(world, &[provider(name)]).await?;
    }
    apply(world, &[route("first", "chat", "one")]).await?;
    release.condition("route/first", "Ready", "True").await?;
    apply(world, &[route("second", "chat", "two")]).await?;
    let (reason, message) = release
        .condition("route/second", "Accepted", "False")
        .await?;
    ensure!(
        reason == "Conflicted" && message.contains("first"),
        "{reason}: {message}"
    );
    ensure!(
        release.answers("chat").await?.starts_with("one-"),
        "the newer Route serves"
    );

    world.kubectl(&["delete", "route/first"]).await?;
    release.condition("route/second", "Ready", "True").await?;
    eventually("the other serves", SOON, async || {
        let engine = release.client().chat("chat").await?.engine()?;
        ensure!(engine.starts_with("two-"), "{engine} does");
        Ok(())
    })
    .await
}

pub(crate) async fn a_revoked_grant_takes_its_backend_out(world: &World) -> Result<()> {
    let other = world.neighbour("providers").await?;
    let release = Release::install_with(world, &json!({ "watchNamespaces": [other] })).await?;
    Engines::start_in(world, &other, "llama", 1).await?;
    let mut theirs = provider("llama");
    theirs["metadata"]["namespace"] = json!(other);
    let mut ours = route("chat", "llama", "llama");
    ours["spec"]["rules"][0]["backendRefs"][0]["providerRef"]["namespace"] = json!(other);
    world.apply_across(&theirs.to_string()).await?;
    apply(world, &[ours]).await?;
    let (reason, message) = release
        .condition("route/chat", "ResolvedRefs", "False")
        .await?;
    ensure!(
        reason == "RefNotPermitted" && message.contains("ReferenceGrant"),
        "{reason}: {message}"
    );
    release.refuses("llama", 503).await?;

    // The operator started without the kind; it is picked up when it comes.
    world.install_grants().await?;
    let grant = json!({
        "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": { "name": "routes", "namespace": other },
        "spec": { "from": [{ "group": "refrain.dev", "kind": "Route", "namespace": world.namespace() }],
                  "to": [{ "group": "refrain.dev", "kind": "Provider" }] },
    });
    let grant = grant.to_string();
    eventually("the grant is taken", SOON, async || {
        world.apply_across(&grant).await
    })
    .await?;
    eventually("the grant counts", 2 * SOON, async || {
        release.client().chat("llama").await?.engine()
    })
    .await?;
    release.condition("route/chat", "Ready", "True").await?;

    world
        .kubectl(&["-n", &other, "delete", "referencegrant", "routes"])
        .await?;
    release.refuses("llama", 503).await?;
    release
        .condition("route/chat", "ResolvedRefs", "False")
        .await?;
    Ok(())
}
