//! What a story gets: a Kubernetes namespace of its own, the tools to change and to watch it, and, on the embedded
//! cluster, the node itself.

mod dump;
mod ground;
mod wait;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::cluster::{Cluster, output};
use crate::environment;

pub use ground::Ground;
pub use wait::eventually;

/// The label of a story's namespaces; its value is the first of them.
const STORY: &str = "refrain.dev/story";

/// One story's part of the cluster.
#[derive(Debug)]
pub struct World {
    ground: Arc<Ground>,
    story: String,
    namespace: String,
}

impl World {
    /// Makes the story's namespace, in which only pods of the restricted standard are let in.
    pub async fn open(ground: Arc<Ground>, story: &str) -> Result<Self> {
        let namespace = namespace_of(story);
        let world = Self {
            ground,
            story: story.to_owned(),
            namespace,
        };
        world.make_namespace(&world.namespace).await?;
        Ok(world)
    }

    /// Makes another namespace, which goes when the story's own goes. Returns its name.
    pub async fn neighbour(&self, suffix: &str) -> Result<String> {
        let name = format!("{}-{suffix}", self.namespace);
        self.make_namespace(&name).await?;
        Ok(name)
    }

    async fn make_namespace(&self, name: &str) -> Result<()> {
        let object: Namespace = serde_json::from_value(json!({
            "metadata": {
                "name": name,
                "labels": {
                    STORY: self.namespace,
                    "pod-security.kubernetes.io/enforce": "restricted",
                    "pod-security.kubernetes.io/warn": "restricted",
                },
            },
        }))?;
        let api: Api<Namespace> = Api::all(self.client().clone());
        api.create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("making the namespace {name}"))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().clone(), name);
        eventually(
            "the namespace's service account",
            Duration::from_secs(30),
            async || accounts.get("default").await.map_err(Into::into),
        )
        .await?;
        Ok(())
    }

    /// Writes down what can be seen if the story has failed, and deletes the namespace.
    pub async fn close(self, failed: bool) -> Result<()> {
        if failed {
            let folder = self.evidence();
            dump::write(&self, &folder)
                .await
                .with_context(|| format!("writing {}", folder.display()))?;
        }
        let api: Api<Namespace> = Api::all(self.client().clone());
        let of_story = ListParams::default().labels(&format!("{STORY}={}", self.namespace));
        for namespace in api.list(&of_story).await?.items {
            api.delete(&namespace.name_any(), &DeleteParams::background())
                .await
                .context("deleting the namespace")?;
        }
        Ok(())
    }

    /// Where a failed story's evidence goes.
    pub fn evidence(&self) -> PathBuf {
        environment::repository()
            .join("target/stories")
            .join(&self.story)
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A client with the administrator's rights.
    pub fn client(&self) -> &kube::Client {
        self.ground.client()
    }

    /// The objects of one kind in the story's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client().clone(), &self.namespace)
    }

    /// What a pod names an image by.
    pub fn image(&self, name: &str) -> Result<&str> {
        self.ground.image(name)
    }

    /// The embedded cluster. Stories that are told on any cluster do not ask for it.
    pub fn cluster(&self) -> Result<&Cluster> {
        self.ground
            .cluster()
            .context("this story needs the embedded cluster")
    }

    /// Runs kubectl in the story's namespace; returns what it printed.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        output(
            self.ground
                .kubectl()
                .args(["--namespace", &self.namespace])
                .args(arguments),
        )
        .await
    }

    /// kubectl in the story's namespace, for what runs beside the story.
    pub fn tool_kubectl(&self) -> Command {
        let mut kubectl = self.ground.kubectl();
        kubectl.args(["--namespace", &self.namespace]);
        kubectl
    }

    /// Installs the Gateway API's kind ReferenceGrant, unless the cluster has it.
    pub async fn install_grants(&self) -> Result<()> {
        let kind = "referencegrants.gateway.networking.k8s.io";
        if self.kubectl(&["get", "crd", kind]).await.is_err() {
            let file = self.cluster()?.programs().join("referencegrants.yaml");
            let file = file.to_str().context("the cache's path is not text")?;
            // Another story may be at it, too.
            self.kubectl(&["apply", "--server-side", "--filename", file])
                .await?;
        }
        Ok(())
    }

    /// The URL of the API server.
    pub async fn server(&self) -> Result<String> {
        self.kubectl(&[
            "config",
            "view",
            "--minify",
            "--output=jsonpath={.clusters[0].cluster.server}",
        ])
        .await
    }

    /// Applies manifests as a user would. Returns what kubectl printed, or its refusal as the error.
    pub async fn apply(&self, manifests: &str) -> Result<String> {
        let mut kubectl = self.ground.kubectl();
        kubectl.args(["--namespace", &self.namespace, "apply", "--filename", "-"]);
        fed(&mut kubectl, manifests).await
    }

    /// Applies manifests that all name their namespaces, which need not be the story's own.
    pub async fn apply_across(&self, manifests: &str) -> Result<String> {
        let mut kubectl = self.kubectl_across();
        kubectl.args(["apply", "--filename", "-"]);
        fed(&mut kubectl, manifests).await
    }

    /// kubectl for manifests that all name their namespaces.
    pub fn kubectl_across(&self) -> Command {
        self.ground.kubectl()
    }

    /// Runs helm in the story's namespace.
    pub async fn helm(&self, arguments: &[&str]) -> Result<String> {
        output(
            self.ground
                .helm()
                .args(["--namespace", &self.namespace])
                .args(arguments),
        )
        .await
    }

    /// Runs helm with values on its standard input: pass `--values -` among the arguments.
    pub async fn helm_with(&self, arguments: &[&str], values: &str) -> Result<String> {
        let mut helm = self.ground.helm();
        helm.args(["--namespace", &self.namespace]).args(arguments);
        fed(&mut helm, values).await
    }

    /// A Python interpreter that has the client libraries, ready to be given a script. It reaches Services by their
    /// names and addresses as pods do.
    pub fn python(&self) -> Result<Command> {
        let python = environment::cache().join("python/bin/python");
        if !python.exists() {
            bail!("{} is missing: run scripts/setup.sh", python.display());
        }
        let mut command = crate::cluster::command(python);
        command.env("KUBECONFIG", self.ground.kubeconfig());
        Ok(command)
    }
}

/// Runs a command with text on its standard input.
pub async fn fed(command: &mut Command, text: &str) -> Result<String> {
    use std::process::Stdio;
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("starting a program")?;
    let mut input = child.stdin.take().context("the program takes input")?;
    let write = async {
        // A program that ends early says why on stderr.
        drop(input.write_all(text.as_bytes()).await);
        drop(input);
    };
    let ((), done) = tokio::join!(write, child.wait_with_output());
    let done = done?;
    if !done.status.success() {
        bail!("{}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// A namespace's name tells the story, and differs from one run to the next on a cluster that stays.
fn namespace_of(story: &str) -> String {
    let words = story
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let name: String = words
        .collect::<Vec<_>>()
        .join("-")
        .to_ascii_lowercase()
        .chars()
        .take(40)
        .collect();
    let name = name.trim_end_matches('-');
    format!("{name}-{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::namespace_of;

    #[test]
    fn a_namespace_is_a_dns_label() {
        let name = namespace_of("scale_1_to_3_to_1_under_50_streams_that_all_end_well::");
        assert!(name.len() <= 63);
        assert!(name.starts_with("scale-1-to-3"), "{name}");
        assert!(!name.contains("--"), "{name}");
    }
}
