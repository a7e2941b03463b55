//! One status, written, and the Events that go with it.

use std::sync::Arc;
use std::time::Duration;

use crds::api::{Provider, Route};
use crds::snapshot::{Key, Kind};
use crds::{GROUP, VERSION};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::runtime::events::{Event, Recorder};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use super::queue::Job;
use crate::answer::said;
use crate::lease::Leadership;
use crate::metrics::Metrics;
use crate::stores::Status;

/// Field manager of statuses.
const FIELD_MANAGER: &str = "refrain-operator-status";
/// The longest that one write may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a status was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// Another replica writes now.
    #[error("another replica writes now")]
    Deposed,
    /// The object was deleted, or recreated under its name.
    #[error("the object is gone")]
    Gone,
    /// No answer in time.
    #[error("the API server did not answer within {} s", PATIENCE.as_secs())]
    Timeout,
    /// Anything else.
    #[error("{}", said(.0))]
    Api(#[from] kube::Error),
}

impl WriteError {
    /// An object that its own schema forbids has no status; Events are all there is to tell.
    fn is_invalid(&self) -> bool {
        matches!(self, Self::Api(kube::Error::Api(status)) if status.code == 422)
    }

    const fn result(&self) -> &'static str {
        match self {
            Self::Deposed => "deposed",
            Self::Gone => "gone",
            Self::Timeout => "timeout",
            Self::Api(_) => "error",
        }
    }
}

/// A write that has ended.
#[derive(Debug)]
pub(crate) struct Written {
    pub(super) uid: String,
    /// What the object showed before.
    pub(super) seen: Status,
    pub(super) status: Status,
    pub(super) result: Result<(), WriteError>,
}

/// Writes statuses.
#[derive(Clone)]
pub(super) struct Writer {
    client: Client,
    recorder: Recorder,
    leadership: Leadership,
    metrics: Arc<Metrics>,
}

impl Writer {
    pub(super) const fn new(
        client: Client,
        recorder: Recorder,
        leadership: Leadership,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            client,
            recorder,
            leadership,
            metrics,
        }
    }

    /// Writes one status, then tells its Events.
    pub(super) async fn write(self, job: Job) -> Written {
        let result = if self.leadership.is_held() {
            let patched = timeout(PATIENCE, self.patch(&job)).await;
            patched.unwrap_or(Err(WriteError::Timeout))
        } else {
            Err(WriteError::Deposed)
        };
        let label = result.as_ref().err().map_or("ok", WriteError::result);
        self.metrics.wrote(job.kind.as_str(), label);
        let is_told = match &result {
            Ok(()) => true,
            Err(error) => {
                not_written(&job, error);
                job.is_first && error.is_invalid()
            }
        };
        if is_told {
            self.tell(&job).await;
        }
        Written {
            uid: job.uid,
            seen: job.seen,
            status: job.status,
            result,
        }
    }

    /// A JSON patch, since it alone can tie a status to a UID: the API server takes the rest of the
    /// metadata from the live object. It also works on an object without its kind's shape.
    async fn patch(&self, job: &Job) -> Result<(), WriteError> {
        let resource = resource(job.kind);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &job.key.namespace, &resource);
        let patch = json!([
            { "op": "test", "path": "/metadata/uid", "value": job.uid },
            { "op": "add", "path": "/status", "value": job.status },
        ]);
        let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = api
            .patch_status(&job.key.name, &params, &Patch::<()>::Json(patch))
            .await;
        match patched {
            Ok(_) => Ok(()),
            Err(error) if is_gone(&error) => Err(WriteError::Gone),
            Err(error) => Err(error.into()),
        }
    }

    async fn tell(&self, job: &Job) {
        let reference = reference(job.kind, &job.key, &job.uid);
        for event in &job.news {
            self.publish(event, &reference).await;
        }
    }

    async fn publish(&self, event: &Event, reference: &ObjectReference) {
        let told = timeout(PATIENCE, self.recorder.publish(event, reference)).await;
        let error = match told {
            Ok(Ok(())) => return self.metrics.wrote("Event", "ok"),
            Ok(Err(error)) => error.to_string(),
            Err(_) => WriteError::Timeout.to_string(),
        };
        self.metrics.wrote("Event", "error");
        tracing::warn!(reason = event.reason, error, "Event not written");
    }
}

/// Said once, not at each attempt.
fn not_written(job: &Job, error: &WriteError) {
    let is_failure = matches!(error, WriteError::Timeout | WriteError::Api(_));
    if job.is_first && is_failure {
        let (kind, object) = (job.kind.as_str(), job.key.to_string());
        tracing::warn!(kind, object, %error, "status not written: will try again");
    }
}

/// 404, or the UID test of the patch failed.
fn is_gone(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let other_uid = || status.message.contains("/metadata/uid") || status.message.contains("test");
    status.code == 404 || status.code == 422 && other_uid()
}

fn resource(kind: Kind) -> ApiResource {
    match kind {
        Kind::Provider => ApiResource::erase::<Provider>(&()),
        Kind::Route => ApiResource::erase::<Route>(&()),
    }
}

fn reference(kind: Kind, key: &Key, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(format!("{GROUP}/{VERSION}")),
        kind: Some(kind.as_str().to_owned()),
        name: Some(key.name.clone()),
        namespace: Some(key.namespace.clone()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}
