//! From empty namespaces to a node that is ready.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::api::{Api, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::ApiResource;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::parts::{self, NODE_NAME, Part, Settings, socket};
use super::process::Process;
use super::run::Run;
use super::{
    Cluster,
    command::{self, mount, output},
    network, pki,
};
use crate::environment;
use crate::images::{Image, PAUSE};

/// Where kubelet and the network plugins keep what they insist on keeping there.
const STATE: &str = "/var/lib";
const WITHIN: Duration = Duration::from_mins(1);

/// Starts everything; returns when pods can run.
pub(super) async fn start(run: &Run) -> Result<Cluster> {
    let folder = run.folder();
    let programs = PathBuf::from(fs::read_to_string(run.path("programs"))?);
    let images: Vec<Image> = serde_json::from_slice(&fs::read(run.path("images.json"))?)?;

    keep_off_the_host(folder).await?;
    network::set_up(folder).await?;
    network::plugins(folder)?;
    pki::write(folder)?;
    let pause = images
        .iter()
        .find(|image| image.name == PAUSE)
        .context("the pause image is not among the images")?;
    let settings = Settings {
        cgroup: run.name(),
        snapshotter: snapshotter(folder).await?,
        pause: &pause.reference,
    };
    parts::write(folder, &settings)?;

    let client = client(&folder.join("admin.kubeconfig")).await?;
    let cluster = Cluster {
        run: folder.to_owned(),
        programs,
        client,
        images,
        running: Mutex::new(BTreeMap::new()),
    };
    cluster
        .launch([Part::Etcd, Part::ApiServer, Part::Containerd])
        .await?;
    let loaded = async {
        cluster.ready(Part::Containerd).await?;
        for image in &cluster.images {
            cluster.import(&image.archive).await?;
        }
        Ok(())
    };
    tokio::try_join!(loaded, cluster.control_plane())?;
    cluster.ready(Part::Kubelet).await?;
    Ok(cluster)
}

/// Some folders are fixed in the programs: they get private ones in this mount namespace.
async fn keep_off_the_host(folder: &Path) -> Result<()> {
    mount(["-t", "tmpfs", "tmpfs", "/run"]).await?;
    let logs = folder.join("log");
    mount(["--bind".as_ref(), logs.as_os_str(), "/var/log".as_ref()]).await?;
    // An overlay keeps what else is in there visible. A repository in there has to stay writable.
    if !environment::repository().starts_with(STATE) {
        // Without overlays two empty folders stay behind, which is better than no cluster.
        drop(overlay(&folder.join("state"), Path::new(STATE), Path::new(STATE)).await);
    }
    fs::write("/proc/sys/kernel/hostname", NODE_NAME).context("naming the node")
}

/// Mounts a writable layer, kept in `layer`, over `lower`.
async fn overlay(layer: &Path, lower: &Path, at: &Path) -> Result<()> {
    let (upper, work) = (layer.join("upper"), layer.join("work"));
    for part in [&upper, &work] {
        fs::create_dir_all(part)?;
    }
    let (lower, upper, work) = (lower.display(), upper.display(), work.display());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    mount([
        "-t",
        "overlay",
        "overlay",
        "-o",
        &options,
        &at.display().to_string(),
    ])
    .await
}

/// What containerd unpacks images with. An overlay cannot lie on another one, as it would have to in some containers.
async fn snapshotter(folder: &Path) -> Result<&'static str> {
    let trial = folder.join("trial");
    let lower = trial.join("lower");
    fs::create_dir_all(&lower)?;
    let name = match overlay(&trial, &lower, &lower).await {
        Ok(()) => {
            command::run("umount", ["--no-mtab".as_ref(), lower.as_os_str()]).await?;
            "overlayfs"
        }
        Err(_) => "native",
    };
    fs::remove_dir_all(&trial)?;
    Ok(name)
}

async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let config = Kubeconfig::read_from(kubeconfig)?;
    let config =
        kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}

impl Cluster {
    async fn launch(&self, parts: impl IntoIterator<Item = Part>) -> Result<()> {
        let mut running = self.running.lock().await;
        for part in parts {
            running.insert(part, Process::start(part, &self.programs, &self.run)?);
        }
        Ok(())
    }

    /// Everything that needs the API server.
    async fn control_plane(&self) -> Result<()> {
        self.ready(Part::ApiServer).await?;
        for object in dns_rights() {
            self.apply(object).await?;
        }
        self.ready(Part::Containerd).await?;
        self.launch([
            Part::ControllerManager,
            Part::Scheduler,
            Part::Kubelet,
            Part::Proxy,
            Part::Dns,
        ])
        .await
    }

    /// Waits until a part answers.
    pub(super) async fn ready(&self, part: Part) -> Result<()> {
        let what = format!("starting {part}");
        match part {
            Part::ApiServer => {
                self.wait_for(&what, part, WITHIN, async || {
                    let request = http::Request::get("/readyz").body(Vec::new())?;
                    Ok(self.client.request_text(request).await? == "ok")
                })
                .await
            }
            Part::Containerd => {
                self.wait_for(&what, part, WITHIN, async || {
                    // The socket is there before the service that images are loaded through.
                    output(self.ctr().args(["images", "ls", "-q"]))
                        .await
                        .map(|_| socket(&self.run).exists())
                })
                .await
            }
            Part::Kubelet => {
                self.wait_for(&what, part, WITHIN, async || self.can_run_pods().await)
                    .await
            }
            Part::Etcd | Part::ControllerManager | Part::Scheduler | Part::Proxy | Part::Dns => {
                self.check().await
            }
        }
    }

    /// The node is ready, and the service account that pods run as unless they say otherwise is there.
    async fn can_run_pods(&self) -> Result<bool> {
        let Some(node) = Api::<Node>::all(self.client.clone())
            .get_opt(NODE_NAME)
            .await?
        else {
            return Ok(false);
        };
        let conditions = node
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let ready = conditions
            .iter()
            .any(|c| c.type_ == "Ready" && c.status == "True");
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), "default");
        Ok(ready && accounts.get_opt("default").await?.is_some())
    }

    async fn apply(&self, object: Value) -> Result<()> {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().context("an object has a kind")?;
        let kind = GroupVersionKind::try_from(types)?;
        let api =
            Api::<DynamicObject>::all_with(self.client.clone(), &ApiResource::from_gvk(&kind));
        let name = object
            .metadata
            .name
            .clone()
            .context("an object has a name")?;
        api.patch(
            &name,
            &PatchParams::apply("refrain-e2e"),
            &Patch::Apply(&object),
        )
        .await?;
        Ok(())
    }
}

/// What DNS may read.
fn dns_rights() -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let api = format!("{group}/v1");
    let verbs = ["list", "watch"];
    [
        json!({
            "apiVersion": api,
            "kind": "ClusterRole",
            "metadata": { "name": "dns" },
            "rules": [
                { "apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": verbs },
                { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": verbs },
            ],
        }),
        json!({
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            "metadata": { "name": "dns" },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "dns" },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": "dns" }],
        }),
    ]
}
