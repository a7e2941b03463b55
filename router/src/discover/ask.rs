use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use crds::snapshot::Auth;
use http::header::{ACCEPT, HeaderName, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::fleet::Discovered;

const DEADLINE: Duration = Duration::from_secs(5);
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);
/// Far above any real list of models.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// Why an endpoint gave no models.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    #[error("no answer within {} s", DEADLINE.as_secs())]
    Late,
    #[error("not reached: {0}")]
    Send(#[from] legacy::Error),
    #[error("answered {0}")]
    Status(StatusCode),
    #[error("body broke off or has more than {MAX_BYTES} bytes: {0}")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("not a list of models: {0}")]
    Content(#[from] serde_json::Error),
    #[error("the request cannot be written: {0}")]
    Request(#[from] http::Error),
}

/// Asks engines.
#[derive(Clone, Debug)]
pub(super) struct Client(legacy::Client<HttpConnector, Empty<Bytes>>);

impl Client {
    pub(super) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_DEADLINE));
        // Engines close idle connections within seconds, long before the next question.
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(connector);
        Self(client)
    }

    /// Asks one endpoint for its models.
    pub(super) async fn models(
        &self,
        address: SocketAddr,
        auth: Option<&Auth>,
    ) -> Result<Discovered, AskError> {
        let reply = timeout(DEADLINE, self.fetch(address, auth)).await;
        let body = reply.map_err(|_| AskError::Late)??;
        Ok(parse(&body)?)
    }

    async fn fetch(&self, address: SocketAddr, auth: Option<&Auth>) -> Result<Bytes, AskError> {
        let request = Request::get(format!("http://{address}/v1/models"))
            .header(ACCEPT, HeaderValue::from_static("application/json"));
        let mut request = request.body(Empty::new())?;
        if let Some(Auth::Header {
            name,
            prefix,
            secret,
            ..
        }) = auth
            && !secret.is_empty()
        {
            let name: HeaderName = name.parse().map_err(http::Error::from)?;
            let value = format!("{prefix}{secret}");
            let mut value = HeaderValue::from_str(&value).map_err(http::Error::from)?;
            value.set_sensitive(true);
            request.headers_mut().insert(name, value);
        }
        let reply = self.0.request(request).await?;
        if reply.status() != StatusCode::OK {
            return Err(AskError::Status(reply.status()));
        }
        let body = Limited::new(reply.into_body(), MAX_BYTES).collect().await;
        Ok(body.map_err(AskError::Body)?.to_bytes())
    }
}

#[derive(Deserialize)]
struct List {
    data: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Card {
    id: String,
    #[serde(default)]
    owned_by: Option<String>,
}

/// Cards that are not a model's are left out; the others keep their own text.
fn parse(body: &[u8]) -> Result<Discovered, serde_json::Error> {
    let list: List = serde_json::from_slice(body)?;
    let mut discovered = Discovered::default();
    for raw in list.data {
        let Ok(card) = serde_json::from_str::<Card>(raw.get()) else {
            continue;
        };
        if discovered.models.is_empty() {
            discovered.engine = card.owned_by;
        }
        discovered.models.push((card.id, raw));
    }
    Ok(discovered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_keep_their_own_text_and_the_first_names_the_engine() {
        let body = br#"{"object":"list","data":[
            {"id":"a", "owned_by":"vllm","max_model_len":4096}, {"no":"id"}, 7, {"id":"b","owned_by":null}]}"#;
        let discovered = parse(body).unwrap();
        assert_eq!(discovered.engine.as_deref(), Some("vllm"));
        let cards: Vec<_> = discovered
            .models
            .iter()
            .map(|(id, raw)| (id.as_str(), raw.get()))
            .collect();
        assert_eq!(
            cards,
            [
                ("a", r#"{"id":"a", "owned_by":"vllm","max_model_len":4096}"#),
                ("b", r#"{"id":"b","owned_by":null}"#),
            ]
        );
    }

    #[test]
    fn what_is_not_a_list_of_models_is_an_error() {
        for body in [
            "",
            "{}",
            "[]",
            r#"{"data":null}"#,
            r#"{"error":{"message":"no"}}"#,
        ] {
            assert!(parse(body.as_bytes()).is_err(), "{body}");
        }
        assert!(parse(br#"{"data":[]}"#).unwrap().models.is_empty());
    }
}
