//! Pools of stand-in engines on a cluster.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::images::ENGINE;
use crate::world::{World, eventually};

/// A pool: a Deployment of engines and the Service `name`, port `http` (80 → 8000).
#[derive(Debug)]
pub struct Engines<'a> {
    world: &'a World,
    namespace: String,
    name: String,
}

impl<'a> Engines<'a> {
    /// Starts a pool in the story's namespace and waits until it is ready.
    pub async fn start(world: &'a World, name: &str, replicas: usize) -> Result<Self> {
        Self::start_in(world, world.namespace(), name, replicas).await
    }

    /// Starts a pool in another namespace.
    pub async fn start_in(
        world: &'a World,
        namespace: &str,
        name: &str,
        replicas: usize,
    ) -> Result<Self> {
        let image = world.image(ENGINE)?;
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "selector": { "app": name },
                      "ports": [{ "name": "http", "port": 80, "targetPort": "http" }] },
        });
        let list = json!({ "apiVersion": "v1", "kind": "List",
            "items": [service, deployment(namespace, name, replicas, image)] });
        world.apply_across(&list.to_string()).await?;
        let engines = Self {
            world,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        engines.ready(replicas).await?;
        Ok(engines)
    }

    /// Changes the number of replicas without waiting for it.
    pub async fn scale(&self, replicas: usize) -> Result<()> {
        let (target, count) = (
            format!("deployment/{}", self.name),
            format!("--replicas={replicas}"),
        );
        self.world
            .kubectl(&["--namespace", &self.namespace, "scale", &target, &count])
            .await?;
        Ok(())
    }

    /// Waits until just so many pods are there, all of them ready.
    pub async fn ready(&self, replicas: usize) -> Result<Vec<String>> {
        let what = format!("{replicas} ready pods of {}", self.name);
        eventually(&what, Duration::from_mins(2), async || {
            let pods = self.pods().await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            ensure!(
                pods.len() == replicas && ready == replicas,
                "{ready} of {} are ready",
                pods.len()
            );
            Ok(pods
                .into_iter()
                .filter_map(|pod| pod.metadata.name)
                .collect())
        })
        .await
    }

    /// The pods now, terminating ones included.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let pods = kube::Api::<Pod>::namespaced(self.world.client().clone(), &self.namespace);
        let selector = format!("app={}", self.name);
        Ok(pods
            .list(&ListParams::default().labels(&selector))
            .await?
            .items)
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.is_some_and(|c| c.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

fn deployment(namespace: &str, name: &str, replicas: usize, image: &str) -> Value {
    let container = json!({
        "name": "engine", "image": image, "imagePullPolicy": "IfNotPresent",
        "args": ["--models", format!("{name},org/{name}")],
        "ports": [{ "name": "http", "containerPort": 8000 }],
        "readinessProbe": { "httpGet": { "path": "/health", "port": "http" }, "periodSeconds": 1 },
        "lifecycle": { "preStop": { "sleep": { "seconds": 2 } } },
        "securityContext": { "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                             "capabilities": { "drop": ["ALL"] } },
    });
    let pod = json!({
        "terminationGracePeriodSeconds": 60,
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [container],
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "replicas": replicas, "selector": { "matchLabels": { "app": name } },
                  "template": { "metadata": { "labels": { "app": name } }, "spec": pod } },
    })
}
