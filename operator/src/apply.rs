//! The snapshot, written to its Secret.
//!
//! Every write says which version of the Secret it was computed against, so that an operator that
//! has lost its Lease without noticing conflicts instead of overwriting.

use std::time::Duration;

use crds::snapshot::Sealed;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::NAME;
use crate::answer::said;
use crate::stores::{DIGEST, GENERATION, Held, SNAPSHOT_KEY, SNAPSHOT_TYPE};

/// The longest that one write may take.
const PATIENCE: Duration = Duration::from_secs(10);
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Why a snapshot was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    /// The Secret is not the one that this snapshot was computed against.
    #[error("the snapshot Secret has changed meanwhile")]
    Conflict,
    /// A Role is missing.
    #[error(
        "{NAME} may not write the snapshot Secret: give its ServiceAccount the verbs create and patch on secrets in its own namespace ({0})"
    )]
    Forbidden(String),
    /// No answer in time.
    #[error("the API server did not answer within {} s", PATIENCE.as_secs())]
    Timeout,
    /// Anything else.
    #[error("the snapshot Secret could not be written: {}", said(.0))]
    Api(#[source] kube::Error),
}

impl ApplyError {
    /// As a metric's label.
    pub(crate) const fn result(&self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Forbidden(_) => "forbidden",
            Self::Timeout => "timeout",
            Self::Api(_) => "error",
        }
    }
}

/// Writes snapshots.
#[derive(Clone, Debug)]
pub(crate) struct Applier {
    secrets: Api<Secret>,
    name: String,
}

impl Applier {
    pub(crate) fn new(client: &Client, namespace: &str, name: &str) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
        }
    }

    /// Writes `sealed` over `held`, or as a new Secret when there is none. It goes when `owner`
    /// goes.
    pub(crate) async fn apply(
        &self,
        sealed: &Sealed,
        generation: i64,
        held: Option<&Held>,
        owner: Option<OwnerReference>,
    ) -> Result<Held, ApplyError> {
        let secret = secret(&self.name, (sealed, generation), held, owner);
        let write = async {
            if held.is_some() {
                let params = PatchParams::apply(NAME).force();
                let patch = Patch::Apply(&secret);
                self.secrets.patch(&self.name, &params, &patch).await
            } else {
                let params = PostParams {
                    field_manager: Some(NAME.to_owned()),
                    ..PostParams::default()
                };
                self.secrets.create(&params, &secret).await
            }
        };
        let written = timeout(PATIENCE, write)
            .await
            .map_err(|_| ApplyError::Timeout)?
            .map_err(refused)?;
        Ok(Held {
            resource_version: written.metadata.resource_version.unwrap_or_default(),
            generation,
            uid: written.metadata.uid.unwrap_or_default(),
            bytes: sealed.bytes.clone(),
        })
    }
}

fn refused(error: kube::Error) -> ApplyError {
    match error {
        kube::Error::Api(status) if status.code == 409 => ApplyError::Conflict,
        kube::Error::Api(status) if status.code == 403 => {
            ApplyError::Forbidden(status.message.clone())
        }
        error => ApplyError::Api(error),
    }
}

/// The whole Secret as this operator wants it.
fn secret(
    name: &str,
    (sealed, generation): (&Sealed, i64),
    held: Option<&Held>,
    owner: Option<OwnerReference>,
) -> Secret {
    let annotations = [
        (DIGEST.to_owned(), sealed.digest.to_string()),
        (GENERATION.to_owned(), generation.to_string()),
    ];
    let data = (SNAPSHOT_KEY.to_owned(), ByteString(sealed.bytes.clone()));
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([(MANAGED_BY.to_owned(), NAME.to_owned())].into()),
            annotations: Some(annotations.into()),
            owner_references: owner.map(|owner| vec![owner]),
            resource_version: held.map(|held| held.resource_version.clone()),
            uid: held.map(|held| held.uid.clone()),
            ..ObjectMeta::default()
        },
        type_: Some(SNAPSHOT_TYPE.to_owned()),
        data: Some([data].into()),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use crds::snapshot::Snapshot;
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    fn held() -> Held {
        Held {
            resource_version: "41".into(),
            generation: 6,
            uid: "u".into(),
            bytes: vec![],
        }
    }

    fn owner() -> Option<OwnerReference> {
        let owner = json!({ "apiVersion": "v1", "kind": "Service", "name": "s", "uid": "o" });
        serde_json::from_value(owner).unwrap()
    }

    /// One write against an API server that answers with `code`, and the request that it got.
    async fn write(
        held: Option<&Held>,
        code: u16,
    ) -> (Result<Held, ApplyError>, http::Method, String, Value) {
        let (service, mut asked) =
            tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
        let applier = Applier::new(&Client::new(service, "own"), "own", "snap");
        let sealed = Snapshot::empty().seal();
        let server = async move {
            let (request, send) = asked.next_request().await.unwrap();
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let answer = if code == 200 {
                json!({ "metadata": { "name": "snap", "resourceVersion": "42", "uid": "u" } })
            } else {
                json!({ "kind": "Status", "status": "Failure", "reason": "r", "code": code,
                    "message": "m", "metadata": {} })
            };
            let answer = Body::from(answer.to_string().into_bytes());
            send.send_response(http::Response::builder().status(code).body(answer).unwrap());
            (
                parts.method,
                parts.uri.to_string(),
                serde_json::from_slice(&body).unwrap(),
            )
        };
        let (result, (method, uri, body)) =
            tokio::join!(applier.apply(&sealed, 7, held, owner()), server);
        (result, method, uri, body)
    }

    #[tokio::test]
    async fn a_write_carries_the_version_it_was_computed_against() {
        let (result, method, uri, body) = write(Some(&held()), 200).await;
        assert_eq!(method, http::Method::PATCH);
        assert!(uri.contains("force=true") && uri.contains("fieldManager=refrain-operator"));
        assert_eq!(body["metadata"]["resourceVersion"], "41");
        assert_eq!(body["metadata"]["annotations"][GENERATION], "7");
        assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "o");
        assert_eq!(body["type"], SNAPSHOT_TYPE);
        let after = result.unwrap();
        assert_eq!(
            (after.resource_version.as_str(), after.generation),
            ("42", 7)
        );
    }

    #[tokio::test]
    async fn the_first_snapshot_is_created_and_never_overwrites_another_ones() {
        let (result, method, _, body) = write(None, 409).await;
        assert_eq!(method, http::Method::POST);
        assert_eq!(body["metadata"].get("resourceVersion"), None);
        assert!(matches!(result, Err(ApplyError::Conflict)));
    }

    #[tokio::test]
    async fn a_deposed_leader_conflicts() {
        let (result, ..) = write(Some(&held()), 409).await;
        assert!(matches!(result, Err(ApplyError::Conflict)));
    }

    #[tokio::test]
    async fn a_missing_role_is_said_in_words() {
        let (result, ..) = write(Some(&held()), 403).await;
        let error = result.unwrap_err().to_string();
        assert!(error.contains("create and patch on secrets"), "{error}");
    }
}
