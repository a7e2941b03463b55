//! The cluster that all stories share: the embedded one, or one the user has.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::process::Command;

use crate::cluster::{Cluster, command};
use crate::environment;

/// Where stories are told.
pub struct Ground {
    client: kube::Client,
    kubeconfig: PathBuf,
    kind: Kind,
}

enum Kind {
    Embedded(Box<Cluster>),
    /// The references of its images, by name.
    TheirOwn(Vec<(String, String)>),
}

impl fmt::Debug for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ground")
            .field("kubeconfig", &self.kubeconfig)
            .finish_non_exhaustive()
    }
}

impl Ground {
    pub fn embedded(cluster: Cluster) -> Self {
        Self {
            client: cluster.client().clone(),
            kubeconfig: cluster.kubeconfig(),
            kind: Kind::Embedded(Box::new(cluster)),
        }
    }

    /// The cluster that `REFRAIN_KUBECONFIG` leads to, which pulls its images from `REFRAIN_IMAGE_PREFIX`.
    pub async fn their_own(kubeconfig: PathBuf, images: &[&str]) -> Result<Self> {
        let config = Kubeconfig::read_from(&kubeconfig)
            .with_context(|| format!("reading REFRAIN_KUBECONFIG={}", kubeconfig.display()))?;
        let config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let prefix = environment::image_prefix().context(
            "REFRAIN_IMAGE_PREFIX is not set: push the images where your cluster can pull them and say where, \
             such as registry.example.org/refrain",
        )?;
        let tag = environment::image_tag().unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
        let reference = |name: &&str| ((*name).to_owned(), format!("{prefix}/{name}:{tag}"));
        let images = images.iter().map(reference).collect();
        Ok(Self {
            client: kube::Client::try_from(config)?,
            kubeconfig,
            kind: Kind::TheirOwn(images),
        })
    }

    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The embedded cluster, if it is that.
    pub fn cluster(&self) -> Option<&Cluster> {
        match &self.kind {
            Kind::Embedded(cluster) => Some(cluster),
            Kind::TheirOwn(_) => None,
        }
    }

    pub fn image(&self, name: &str) -> Result<&str> {
        let found = match &self.kind {
            Kind::Embedded(cluster) => cluster
                .images()
                .iter()
                .find(|image| image.name == name)
                .map(|image| &image.reference),
            Kind::TheirOwn(images) => images
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, reference)| reference),
        };
        found
            .map(String::as_str)
            .with_context(|| format!("the image {name} is not on this cluster"))
    }

    /// kubectl, of the cluster's version where it is ours.
    pub fn kubectl(&self) -> Command {
        self.tool("kubectl")
    }

    pub fn helm(&self) -> Command {
        self.tool("helm")
    }

    fn tool(&self, name: &str) -> Command {
        let Some(cluster) = self.cluster() else {
            let mut tool = command(name);
            tool.env("KUBECONFIG", &self.kubeconfig);
            return tool;
        };
        let mut tool = command(cluster.programs().join(name));
        tool.envs(cluster.variables());
        tool
    }
}
