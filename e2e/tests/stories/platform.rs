//! Stories about the ground the others stand on.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::Part;
use e2e::images::TOOLBOX;
use e2e::world::{World, eventually};
use k8s_openapi::api::core::v1::Pod;

const SOON: Duration = Duration::from_secs(30);

/// A pod of the restricted standard.
fn pod(world: &World, name: &str, command: &[&str]) -> Result<String> {
    let manifest = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "main",
                "image": world.image(TOOLBOX)?,
                "imagePullPolicy": "IfNotPresent",
                "command": command,
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": { "drop": ["ALL"] },
                },
            }],
        },
    });
    Ok(manifest.to_string())
}

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: { name: web }
spec:
  selector: { app: web }
  ports: [{ port: 80, targetPort: 8080 }]
";

/// Starts a web server behind a Service.
async fn serve(world: &World) -> Result<()> {
    let command = [
        "/bin/busybox",
        "httpd",
        "-f",
        "-v",
        "-p",
        "8080",
        "-h",
        "/etc",
    ];
    world.apply(&pod(world, "web", &command)?).await?;
    world.apply(SERVICE).await?;
    world
        .kubectl(&["wait", "pod/web", "--for=condition=Ready", "--timeout=60s"])
        .await?;
    Ok(())
}

/// Asks the web server for a file that kubelet writes, by way of its Service.
async fn ask(world: &World) -> Result<String> {
    let url = format!(
        "http://web.{}.svc.cluster.local/hostname",
        world.namespace()
    );
    // wget has a time limit of its own, which ends it with a segmentation fault.
    let wget = [
        "timeout",
        "2",
        "/bin/busybox",
        "wget",
        "-q",
        "-O",
        "-",
        &url,
    ];
    world
        .kubectl(&[&["exec", "asker", "--", "/bin/busybox"][..], &wget].concat())
        .await
}

pub(crate) async fn a_restricted_pod_runs_and_finds_a_service_by_name(world: &World) -> Result<()> {
    serve(world).await?;
    let url = format!(
        "http://web.{}.svc.cluster.local/hostname",
        world.namespace()
    );
    world
        .apply(&pod(
            world,
            "asker",
            &["/bin/busybox", "wget", "-q", "-O", "-", &url],
        )?)
        .await?;
    let said = eventually("an answer in the asker's log", SOON, async || {
        let log = world.kubectl(&["logs", "asker"]).await?;
        ensure!(!log.is_empty(), "the log is empty");
        Ok(log)
    })
    .await?;
    ensure!(said.trim() == "web", "{said}");
    let served = world.kubectl(&["logs", "web"]).await?;
    ensure!(
        served.contains("/hostname") || served.contains("response:200"),
        "{served}"
    );
    Ok(())
}

pub(crate) async fn a_privileged_pod_is_refused(world: &World) -> Result<()> {
    let manifest = pod(world, "rude", &["/bin/busybox", "sleep", "1"])?
        .replace("\"allowPrivilegeEscalation\":false", "\"privileged\":true");
    let refusal = world
        .apply(&manifest)
        .await
        .err()
        .context("a privileged pod was let in")?;
    ensure!(
        refusal
            .to_string()
            .contains("violates PodSecurity \"restricted"),
        "{refusal}"
    );
    Ok(())
}

pub(crate) async fn a_killed_container_is_started_again(world: &World) -> Result<()> {
    serve(world).await?;
    let first = world
        .cluster()?
        .container(world.namespace(), "web", "main")
        .await?;
    first.kill()?;
    eventually("a second container", SOON, async || {
        let pod = world.api::<Pod>().get("web").await?;
        let restarts = pod
            .status
            .and_then(|status| status.container_statuses)
            .unwrap_or_default();
        ensure!(
            restarts
                .first()
                .is_some_and(|container| container.restart_count == 1),
            "{restarts:?}"
        );
        let second = world
            .cluster()?
            .container(world.namespace(), "web", "main")
            .await?;
        ensure!(second.pid() != first.pid(), "the process is the same");
        Ok(())
    })
    .await
}

pub(crate) async fn a_frozen_container_does_not_answer(world: &World) -> Result<()> {
    serve(world).await?;
    world
        .apply(&pod(world, "asker", &["/bin/busybox", "sleep", "1000"])?)
        .await?;
    eventually("an answer", SOON, async || ask(world).await).await?;
    let server = world
        .cluster()?
        .container(world.namespace(), "web", "main")
        .await?;
    server.freeze()?;
    ensure!(ask(world).await.is_err(), "a frozen server has answered");
    server.thaw()?;
    eventually("an answer again", SOON, async || ask(world).await).await?;
    Ok(())
}

pub(crate) async fn pods_serve_on_while_the_api_server_is_down(world: &World) -> Result<()> {
    serve(world).await?;
    let address = world
        .kubectl(&[
            "get",
            "service",
            "web",
            "--output=jsonpath={.spec.clusterIP}",
        ])
        .await?;
    let cluster = world.cluster()?;
    cluster.stop(Part::ApiServer).await?;
    ensure!(
        world.kubectl(&["get", "pods"]).await.is_err(),
        "the API server is still there"
    );
    let fetched = tokio::process::Command::new("/bin/busybox")
        .args([
            "timeout",
            "5",
            "/bin/busybox",
            "wget",
            "-q",
            "-O",
            "-",
            &format!("http://{address}/hostname"),
        ])
        .output()
        .await?;
    cluster.start(Part::ApiServer).await?;
    ensure!(fetched.stdout.starts_with(b"web"), "{fetched:?}");
    world.kubectl(&["get", "pods"]).await?;
    Ok(())
}
