//! Refrain, installed as users install it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::client::Client;
use crate::environment;
use crate::images::{OPERATOR, ROUTER};
use crate::reach::Reach;
use crate::world::{World, eventually};

const SOON: Duration = Duration::from_secs(30);

/// A Helm release of the chart in the story's namespace.
#[derive(Debug)]
pub struct Release<'a> {
    world: &'a World,
    client: Client,
    _reach: Reach,
}

impl<'a> Release<'a> {
    /// Installs the chart with its defaults and waits until it is up.
    pub async fn install(world: &'a World) -> Result<Self> {
        Self::install_with(world, &json!({})).await
    }

    /// Installs the chart with values of the story's own.
    pub async fn install_with(world: &'a World, values: &Value) -> Result<Self> {
        let chart = environment::repository().join("charts/refrain");
        let mut all = images(world)?;
        merge(&mut all, values);
        let chart = chart
            .to_str()
            .context("the repository's path is not text")?;
        let install = [
            "upgrade",
            "--install",
            "refrain",
            chart,
            "--wait",
            "--timeout",
            "120s",
        ];
        let arguments: Vec<&str> = install.into_iter().chain(["--values", "-"]).collect();
        world.helm_with(&arguments, &all.to_string()).await?;
        let reach = Reach::to(world, "refrain-router").await?;
        Ok(Self {
            world,
            client: Client::new(reach.url()),
            _reach: reach,
        })
    }

    /// A client of the routers.
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Waits until a condition of an object has a status, and returns its reason and message.
    pub async fn condition(
        &self,
        object: &str,
        condition: &str,
        status: &str,
    ) -> Result<(String, String)> {
        self.condition_in(self.world.namespace(), object, condition, status)
            .await
    }

    /// The same in another namespace.
    pub async fn condition_in(
        &self,
        namespace: &str,
        object: &str,
        condition: &str,
        status: &str,
    ) -> Result<(String, String)> {
        let what = format!("{object} has {condition}={status}");
        eventually(&what, SOON, async || {
            let found = self.look(namespace, object, condition).await?;
            ensure!(found["status"] == status, "it is {found}");
            let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
            Ok((text("reason"), text("message")))
        })
        .await
    }

    async fn look(&self, namespace: &str, object: &str, condition: &str) -> Result<Value> {
        let json = self
            .world
            .kubectl(&["-n", namespace, "get", object, "-o", "json"])
            .await?;
        let object: Value = serde_json::from_str(&json)?;
        let generation = &object["metadata"]["generation"];
        let conditions = object["status"]["conditions"]
            .as_array()
            .context("no conditions yet")?;
        let found = conditions
            .iter()
            .find(|c| c["type"] == condition)
            .context("no such condition")?;
        ensure!(
            found["observedGeneration"] == *generation,
            "it is of an older generation: {found}"
        );
        Ok(found.clone())
    }

    /// Waits until a model is answered, and returns the engine that did.
    pub async fn answers(&self, model: &str) -> Result<String> {
        let what = format!("an answer from {model}");
        eventually(&what, SOON, async || {
            self.client.chat(model).await?.engine()
        })
        .await
    }

    /// Waits until a model is refused with a status, and returns the message.
    pub async fn refuses(&self, model: &str, status: u16) -> Result<String> {
        let what = format!("{status} for {model}");
        eventually(&what, SOON, async || {
            let reply = self.client.chat(model).await?;
            ensure!(
                reply.status == status,
                "it is {}: {}",
                reply.status,
                reply.json()
            );
            reply.error()
        })
        .await
    }
}

/// The values that name the images under test.
fn images(world: &World) -> Result<Value> {
    let parts = |name: &str| -> Result<(String, Value)> {
        let reference = world.image(name)?;
        let (path, tag) = reference.rsplit_once(':').context("an image has a tag")?;
        let (registry, repository) = path.split_once('/').context("an image has a registry")?;
        Ok((
            registry.to_owned(),
            json!({ "repository": repository, "tag": tag }),
        ))
    };
    let (registry, operator) = parts(OPERATOR)?;
    let (_, router) = parts(ROUTER)?;
    Ok(json!({ "image": { "registry": registry },
               "operator": { "image": operator, "logLevel": "debug" },
               "router": { "image": router, "preStopSleepSeconds": 1 } }))
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}
