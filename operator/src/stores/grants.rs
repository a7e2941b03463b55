//! ReferenceGrants come from the Gateway API, which may be absent, may come later, and serves them
//! as `v1` or as `v1beta1`.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::follow::{Ended, Follow, Room};
use super::{Stores, config, dynamic, keep};
use crate::answer::said;
use crate::backoff::Backoff;
use crate::board::Trouble;

const GROUP: &str = "gateway.networking.k8s.io";
/// The resource as in a Role.
pub(super) const RESOURCE: &str = "referencegrants.gateway.networking.k8s.io";
/// The newest first.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// How often an absent Gateway API is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Watches the grants of a namespace on `tasks`.
pub(super) fn start(
    client: &Client,
    namespace: Option<&str>,
    room: Room,
    stores: &Arc<Stores>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) {
    let grants = Grants {
        client: client.clone(),
        namespace: namespace.map(ToOwned::to_owned),
        stores: Arc::clone(stores),
        room,
    };
    tasks.spawn(async move {
        let stop = grants.room.stop.clone();
        stop.run_until_cancelled(grants.run()).await;
        Ok(())
    });
}

struct Grants {
    client: Client,
    namespace: Option<String>,
    stores: Arc<Stores>,
    room: Room,
}

impl Grants {
    async fn run(&self) {
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(10));
        loop {
            match served(&self.client).await {
                Ok(Some(resource)) => {
                    tracing::debug!(version = resource.version, "ReferenceGrants are served");
                    self.follow(&resource, &mut backoff).await;
                    sleep(backoff.next()).await;
                }
                Ok(None) => {
                    backoff.reset();
                    self.absent();
                    sleep(LOOK_AGAIN).await;
                }
                Err(error) => {
                    let text = format!("cannot ask which resources are served: {}", said(&error));
                    self.room.trouble(Trouble::Failing(text));
                    sleep(backoff.next()).await;
                }
            }
        }
    }

    async fn follow(&self, resource: &ApiResource, backoff: &mut Backoff) {
        let follow = Follow::<DynamicObject, _> {
            api: dynamic(&self.client, self.namespace.as_deref(), resource),
            config: config(),
            keep: keep::grant,
            shelf: |stores| &stores.grants,
        };
        while follow.until_ended(&self.room, &self.stores, backoff).await != Ended::NotServed {
            sleep(backoff.next()).await;
        }
    }

    /// Where nothing can be granted, nothing is.
    fn absent(&self) {
        let change = self.stores.grants.replace(&self.room.span, Vec::new());
        self.room.changed(change);
        self.room.met();
    }
}

/// The newest version of ReferenceGrant that is served, if any.
async fn served(client: &Client) -> Result<Option<ApiResource>, kube::Error> {
    for version in VERSIONS {
        let listed = client
            .list_api_group_resources(&format!("{GROUP}/{version}"))
            .await;
        match listed {
            Ok(list) if list.resources.iter().any(|r| r.name == "referencegrants") => {
                let gvk = GroupVersionKind::gvk(GROUP, version, "ReferenceGrant");
                return Ok(Some(ApiResource::from_gvk_with_plural(
                    &gvk,
                    "referencegrants",
                )));
            }
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    type Serving = Vec<(&'static str, &'static str)>;

    /// What is found at an API server that serves these versions and resources, and nothing else.
    async fn ask(serving: Serving) -> Option<ApiResource> {
        let (service, mut asked) =
            tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
        let client = Client::new(service, "default");
        let server = async move {
            while let Some((request, send)) = asked.next_request().await {
                send.send_response(answer(request.uri().path(), &serving));
            }
        };
        tokio::select! {
            found = served(&client) => found.unwrap(),
            () = server => None,
        }
    }

    fn answer(path: &str, serving: &Serving) -> http::Response<Body> {
        let found = serving.iter().find(|(version, _)| path.ends_with(version));
        let (code, json) = match found {
            Some((version, name)) => (200, list(version, name)),
            None => (404, missing()),
        };
        let body = Body::from(json.to_string().into_bytes());
        http::Response::builder().status(code).body(body).unwrap()
    }

    fn list(version: &str, name: &str) -> Value {
        json!({ "groupVersion": format!("{GROUP}/{version}"), "resources": [{ "name": name,
            "kind": "Any", "namespaced": true, "singularName": "", "verbs": ["list"] }] })
    }

    fn missing() -> Value {
        json!({ "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
            "message": "not found", "metadata": {} })
    }

    #[tokio::test]
    async fn an_absent_gateway_api_is_no_error() {
        assert!(ask(vec![]).await.is_none());
    }

    #[tokio::test]
    async fn whichever_version_is_served_is_used_and_the_newer_one_of_two() {
        let both = ask(vec![
            ("/v1", "referencegrants"),
            ("/v1beta1", "referencegrants"),
        ])
        .await;
        assert_eq!(both.unwrap().version, "v1");
        let older = ask(vec![("/v1", "gateways"), ("/v1beta1", "referencegrants")]).await;
        assert_eq!(older.unwrap().version, "v1beta1");
    }
}
