//! Ways to a Service from where the stories are told.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Service;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;

use crate::world::World;

/// A URL that leads to a Service for as long as this lives.
#[derive(Debug)]
pub struct Reach {
    url: String,
    _forward: Option<Child>,
}

impl Reach {
    /// The way to port 80 of a Service: its cluster address on the embedded cluster, where the
    /// stories are told inside, else a port that kubectl forwards.
    pub async fn to(world: &World, service: &str) -> Result<Self> {
        if world.cluster().is_ok() {
            let spec = world
                .api::<Service>()
                .get(service)
                .await?
                .spec
                .unwrap_or_default();
            let address = spec.cluster_ip.context("the Service has no address")?;
            return Ok(Self {
                url: format!("http://{address}"),
                _forward: None,
            });
        }
        let mut kubectl = world.tool_kubectl();
        kubectl.args(["port-forward", &format!("service/{service}"), ":80"]);
        kubectl
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut child = kubectl.spawn().context("starting kubectl port-forward")?;
        let output = child.stdout.take().context("kubectl has an output")?;
        let mut lines = BufReader::new(output).lines();
        let said = lines
            .next_line()
            .await?
            .context("kubectl port-forward ended")?;
        let address = said
            .split_whitespace()
            .find(|word| word.starts_with("127.0.0.1:"));
        let address = address.with_context(|| format!("no address in {said:?}"))?;
        Ok(Self {
            url: format!("http://{address}"),
            _forward: Some(child),
        })
    }

    /// The URL, without a path.
    pub fn url(&self) -> &str {
        &self.url
    }
}
