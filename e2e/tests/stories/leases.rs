//! Stories of routers that report what is not theirs.

use anyhow::{Context as _, Result, ensure};
use e2e::release::Release;
use e2e::world::World;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

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
    let patch = r#"{"metadata":{"annotations":{"refrain.dev/report":"{}"}}}"#;
    let write = async |lease: &str| {
        // The administrator's certificate would win over the token.
        let bare = [
            "--kubeconfig",
            "/dev/null",
            "--token",
            token.trim(),
            "--insecure-skip-tls-verify",
        ];
        let server = world.server().await?;
        let target = [
            "--server", &server, "patch", "lease", lease, "--type", "merge", "-p", patch,
        ];
        let arguments: Vec<&str> = bare.into_iter().chain(target).collect();
        world.kubectl(&arguments).await
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
