//! A plain HTTP client, for what an SDK would hide.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// A client of one server.
#[derive(Clone, Debug)]
pub struct Client {
    url: String,
    pool: Pool<HttpConnector, Full<Bytes>>,
}

/// A whole reply.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Client {
    /// A client of the server at `url`, which has no path.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            pool: Pool::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// Where the server is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks for a path.
    pub async fn get(&self, path: &str) -> Result<Reply> {
        self.send(Request::get(format!("{}{path}", self.url)), Bytes::new())
            .await
    }

    /// Sends JSON to a path.
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Result<Reply> {
        let mut request = Request::post(format!("{}{path}", self.url));
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request, body.to_string().into()).await
    }

    /// One chat message to a model.
    pub async fn chat(&self, model: &str) -> Result<Reply> {
        self.chat_with(model, &[]).await
    }

    /// One chat message to a model, with headers.
    pub async fn chat_with(&self, model: &str, headers: &[(&str, &str)]) -> Result<Reply> {
        let body = json!({ "model": model, "messages": [{ "role": "user", "content": "hello" }] });
        self.post("/v1/chat/completions", headers, &body).await
    }

    async fn send(&self, request: http::request::Builder, body: Bytes) -> Result<Reply> {
        let request = request.body(Full::new(body))?;
        let exchange = async {
            let response = self.pool.request(request).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            anyhow::Ok(Reply {
                status: head.status,
                headers: head.headers,
                body,
            })
        };
        let reply = timeout(PATIENCE, exchange)
            .await
            .context("no reply in time")?;
        reply.with_context(|| format!("asking {}", self.url))
    }
}

impl Reply {
    /// The body as JSON; null when it is something else.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The engine that answered, or what went wrong.
    pub fn engine(&self) -> Result<String> {
        ensure!(
            self.status == StatusCode::OK,
            "{} {}",
            self.status,
            self.json()
        );
        let json = self.json();
        let name = json["system_fingerprint"].as_str();
        name.map(str::to_owned)
            .with_context(|| format!("no engine is named in {json}"))
    }

    /// The message of an error in the OpenAI shape.
    pub fn error(&self) -> Result<String> {
        let json = self.json();
        let message = json["error"]["message"].as_str();
        message
            .map(str::to_owned)
            .with_context(|| format!("{} {json} is not an error", self.status))
    }
}
