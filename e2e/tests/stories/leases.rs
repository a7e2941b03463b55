//! Stories of routers that report what is not theirs.

use anyhow::{Context as _, Result, ensure};
use e2e::release::Release;
use e2e::world::{World, fed};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::json;

pub(crate) async fn a_router_cannot_write_anothers_lease_nor_the_leaders(
    world: &World,
) -> Result<()> {
    Release::install(world).await?;
    let routers = ListParams::default().labels("app.kubernetes.io/component=router");
    let pods = world.api::<Pod>().list(&routers).await?.items;
    let names: Vec<String> = pods
        .into_iter()
        .filter_map(|pod| pod.metadata.name)
        .collect();
    let [one, two, ..] = names.as_slice() else {
        anyhow::bail!("{names:?} are too few")
    };
    let token = world
        .kubectl(&[
            "create",
            "token",
            "refrain-router",
            "--bound-object-kind",
            "Pod",
            "--bound-object-name",
            one,
        ])
        .await?;
    let server = world.server().await?;
    let write = async |lease: &str| {
        let manifest = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": lease, "annotations": { "refrain.dev/report": "{}" } },
        });
        let mut kubectl = world.tool_kubectl();
        // The administrator's certificate would win over the token.
        kubectl.args(["--kubeconfig", "/dev/null", "--token", token.trim()]);
        kubectl.args(["--server", &server, "--insecure-skip-tls-verify"]);
        // The one verb that a router has, and so no look at what is there before.
        kubectl.args([
            "apply",
            "--server-side",
            "--force-conflicts",
            "--validate=false",
        ]);
        kubectl.args(["--field-manager", "refrain-router", "--filename", "-"]);
        fed(&mut kubectl, &manifest.to_string()).await
    };
    write(one).await.context("its own Lease")?;
    for other in [two.as_str(), "refrain-operator"] {
        let refusal = write(other)
            .await
            .err()
            .with_context(|| format!("{other} was written"))?;
        let refusal = refusal.to_string();
        ensure!(
            refusal.contains("Lease") && refusal.contains("ValidatingAdmissionPolicy"),
            "{refusal}"
        );
    }
    Ok(())
}
