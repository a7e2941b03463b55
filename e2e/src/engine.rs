//! A stand-in engine: the OpenAI API as vLLM serves it, with faults on demand and without a model.
//!
//! A request may carry a `stand_in` object in its body ([`Ask`]), which says how this one reply
//! comes about; `POST /stand-in` sets the same for every request without one. Every reply names
//! the engine in `system_fingerprint`. `GET /stand-in` tells what the engine saw ([`Seen`]).

mod ask;
mod listen;
mod reply;
mod seen;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::sleep;

pub use self::ask::{Ask, Moment};
pub use self::listen::listen;
pub use self::seen::Seen;

/// A body that may break on purpose.
type Body = UnsyncBoxBody<Bytes, Broken>;

/// The connection breaks here because the request asked for it.
#[derive(Debug, thiserror::Error)]
#[error("broken on demand")]
pub struct Broken;

/// One engine.
#[derive(Debug)]
pub struct Engine {
    /// What replies call it.
    name: String,
    /// The models it lists; the first one's card is vLLM's in every field.
    models: Vec<String>,
    default: Mutex<Ask>,
    seen: Arc<Mutex<Seen>>,
}

impl Engine {
    /// An engine that serves `models`.
    pub fn new(name: impl Into<String>, models: Vec<String>) -> Self {
        Self {
            name: name.into(),
            models,
            default: Mutex::default(),
            seen: Arc::default(),
        }
    }

    /// Answers one request. An error closes the connection without a reply.
    pub async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Broken> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
        match (&head.method, head.uri.path()) {
            (&Method::POST, "/v1/chat/completions") => self.complete(&head, &body, true).await,
            (&Method::POST, "/v1/completions") => self.complete(&head, &body, false).await,
            (&Method::GET, "/v1/models") => Ok(json_reply(StatusCode::OK, &self.cards())),
            (&Method::GET, "/health") => {
                let healthy = !self.default.lock().unhealthy;
                Ok(empty(if healthy {
                    StatusCode::OK
                } else {
                    StatusCode::SERVICE_UNAVAILABLE
                }))
            }
            (&Method::GET, "/metrics") => Ok(text(self.seen.lock().metrics())),
            (&Method::GET, "/stand-in") => {
                Ok(json_reply(StatusCode::OK, &self.seen.lock().clone()))
            }
            (&Method::POST, "/stand-in") => Ok(self.set_default(&body)),
            _ => Ok(json_reply(
                StatusCode::NOT_FOUND,
                &json!({ "detail": "Not Found" }),
            )),
        }
    }

    fn set_default(&self, body: &[u8]) -> Response<Body> {
        match serde_json::from_slice(body) {
            Ok(ask) => {
                *self.default.lock() = ask;
                empty(StatusCode::OK)
            }
            Err(error) => {
                let error = json!({ "error": error.to_string() });
                json_reply(StatusCode::BAD_REQUEST, &error)
            }
        }
    }

    fn cards(&self) -> Value {
        let card = |id: &String| {
            json!({ "id": id, "object": "model", "created": 1_764_547_200, "owned_by": "vllm",
                    "root": id, "parent": null, "max_model_len": 4096, "permission": [] })
        };
        json!({ "object": "list", "data": self.models.iter().map(card).collect::<Vec<_>>() })
    }

    async fn complete(
        &self,
        head: &http::request::Parts,
        body: &Bytes,
        chat: bool,
    ) -> Result<Response<Body>, Broken> {
        let Ok(request) = serde_json::from_slice::<Value>(body) else {
            let error = json!({ "error": { "message": "not JSON", "type": "BadRequestError" } });
            return Ok(json_reply(StatusCode::BAD_REQUEST, &error));
        };
        let ask = Ask::of(&request).unwrap_or_else(|| self.default.lock().clone());
        let visit = seen::Visit::new(Arc::clone(&self.seen), head, body);
        if let Some(status) = ask.status.and_then(|s| StatusCode::from_u16(s).ok()) {
            visit.done();
            return Ok(refusal(status, &self.name));
        }
        sleep(ask.first).await;
        ask.reach(Moment::BeforeHeaders).await?;
        let reply = reply::Reply::new(&self.name, &request, &ask, chat);
        if request["stream"] == true {
            Ok(stream(&reply, ask, visit))
        } else {
            whole(&reply, ask, visit).await
        }
    }
}

async fn whole(
    reply: &reply::Reply,
    ask: Ask,
    visit: seen::Visit,
) -> Result<Response<Body>, Broken> {
    if ask.breaks_at(Moment::AfterHeaders) || ask.breaks_at(Moment::MidStream) {
        // Headers first, then silence or a break where the body should be.
        let body = futures::stream::once(async move {
            ask.reach(Moment::AfterHeaders).await?;
            ask.reach(Moment::MidStream).await?;
            drop(visit);
            Ok(Frame::data(Bytes::new()))
        });
        return Ok(respond(
            "application/json",
            StreamBody::new(body).boxed_unsync(),
        ));
    }
    let pace = ask.interval * u32::try_from(ask.tokens).unwrap_or(u32::MAX);
    sleep(pace).await;
    visit.done();
    let text = if ask.garble {
        "{\"choices\":[{\"mess".to_owned()
    } else {
        reply.whole().to_string()
    };
    Ok(respond("application/json", full(text)))
}

fn stream(reply: &reply::Reply, ask: Ask, visit: seen::Visit) -> Response<Body> {
    let events = reply.events();
    let middle = events.len() / 2;
    let state = (events.into_iter().enumerate(), ask, Some(visit));
    let frames = futures::stream::unfold(state, move |(mut events, ask, mut visit)| async move {
        let (at, event) = events.next()?;
        if at == 0
            && let Err(broken) = ask.reach(Moment::AfterHeaders).await
        {
            return Some((Err(broken), (events, ask, visit)));
        }
        if at == middle
            && let Err(broken) = ask.reach(Moment::MidStream).await
        {
            return Some((Err(broken), (events, ask, visit)));
        }
        if at > 0 {
            sleep(ask.interval).await;
        }
        let event = if ask.garble && at == middle {
            "data: {\"choi\n\n".to_owned()
        } else {
            event
        };
        if events.len() == 0
            && let Some(visit) = visit.take()
        {
            visit.done();
        }
        Some((Ok(Frame::data(Bytes::from(event))), (events, ask, visit)))
    });
    respond(
        "text/event-stream; charset=utf-8",
        StreamBody::new(frames.fuse()).boxed_unsync(),
    )
}

fn respond(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let value = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}

fn refusal(status: StatusCode, name: &str) -> Response<Body> {
    let error = json!({ "error": { "message": format!("{name} answers {status} on demand"),
                                   "type": "StandIn", "code": status.as_u16() } });
    let mut response = json_reply(status, &error);
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    response
}

fn json_reply(status: StatusCode, value: &impl serde::Serialize) -> Response<Body> {
    let mut response = respond(
        "application/json",
        full(serde_json::to_string(value).unwrap_or_default()),
    );
    *response.status_mut() = status;
    response
}

fn text(text: String) -> Response<Body> {
    respond("text/plain; version=0.0.4; charset=utf-8", full(text))
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(full(String::new()));
    *response.status_mut() = status;
    response
}

fn full(text: String) -> Body {
    let never = |never: Infallible| match never {};
    Full::new(Bytes::from(text)).map_err(never).boxed_unsync()
}
