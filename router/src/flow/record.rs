use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, StatusCode, Uri, request};
use tokio::time::Instant;

use super::admit::Caller;
use super::pick::Chosen;
use super::{Reply, Variant};
use crate::access;
use crate::api::{ApiError, Ask};
use crate::fleet::Endpoint;
use crate::metrics::Outcome;
use crate::serve::State;

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is known of a request. It writes the access line and counts the request when it drops,
/// which it does on every path: with no outcome by then, the client has gone away.
#[derive(Debug)]
pub(crate) struct Record {
    state: Arc<State>,
    started: Instant,
    outcome: Option<Outcome>,
    pub(crate) request_id: HeaderValue,
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) caller: Option<Caller>,
    pub(crate) model: Option<Arc<str>>,
    pub(crate) stream: bool,
    pub(crate) variant: Option<Variant>,
    pub(crate) choice: Option<Choice>,
    /// Endpoints that the request was sent to.
    pub(crate) attempts: u32,
    pub(crate) status: Option<StatusCode>,
    pub(crate) bytes_in: usize,
    pub(crate) bytes_out: usize,
    pub(crate) first_byte: Option<Duration>,
}

/// The endpoint last chosen, and why.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) eligible: usize,
    pub(crate) load: u32,
}

impl Record {
    pub(super) fn begin(state: &Arc<State>, head: &request::Parts) -> Box<Self> {
        state.metrics.enter();
        Box::new(Self {
            state: Arc::clone(state),
            started: Instant::now(),
            outcome: None,
            request_id: request_id(head),
            method: head.method.clone(),
            uri: head.uri.clone(),
            caller: None,
            model: None,
            stream: false,
            variant: None,
            choice: None,
            attempts: 0,
            status: None,
            bytes_in: 0,
            bytes_out: 0,
            first_byte: None,
        })
    }

    pub(super) fn admitted(&mut self, caller: &Caller) {
        self.caller = Some(caller.clone());
    }

    pub(super) fn asked(&mut self, ask: &Ask) {
        self.model = ask.model().cloned();
        self.stream = ask.is_stream();
        self.bytes_in = ask.len();
    }

    pub(super) fn resolved(&mut self, variant: &Variant) {
        self.variant = Some(variant.clone());
    }

    /// The request goes to an endpoint.
    pub(super) fn sent(&mut self, chosen: &Chosen) {
        self.attempts += 1;
        self.choice = Some(Choice {
            endpoint: Arc::clone(chosen.endpoint()),
            eligible: chosen.choice.eligible,
            load: chosen.choice.load,
        });
    }

    /// It goes out again, since the last endpoint failed.
    pub(super) fn retried(&self, reason: &'static str) {
        if let Some(variant) = &self.variant {
            let provider = &variant.backend.provider.label;
            self.state.metrics.retried(provider, reason);
        }
    }

    /// The client gets an error of ours.
    pub(super) fn refused(&mut self, error: &ApiError) -> Reply {
        self.outcome = Some(error.outcome());
        Reply::error(error)
    }

    pub(super) const fn replied(&mut self, status: StatusCode) {
        self.status = Some(status);
    }

    pub(super) fn relayed(&mut self, bytes: usize) {
        if self.first_byte.is_none() {
            self.first_byte = Some(self.started.elapsed());
        }
        self.bytes_out += bytes;
    }

    /// The reply broke off.
    pub(super) const fn broke(&mut self) {
        self.outcome = Some(Outcome::BrokenStream);
    }

    /// All of the reply was handed to the client's connection.
    pub(super) fn ended(&mut self) {
        let is_engine_error = self.status.is_some_and(|status| status.is_server_error());
        let outcome = if is_engine_error {
            Outcome::EngineError
        } else {
            Outcome::Ok
        };
        self.outcome = self.outcome.or(Some(outcome));
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let outcome = self.outcome.unwrap_or(Outcome::ClientClosed);
        let duration = self.started.elapsed();
        let meters = self.variant.as_ref().map(|variant| &variant.backend.meters);
        let metrics = &self.state.metrics;
        metrics.leave(meters, outcome, duration, self.first_byte);
        access::log(self, outcome, duration);
    }
}

/// The client's, else a new one.
fn request_id(head: &request::Parts) -> HeaderValue {
    if let Some(id) = head.headers.get(REQUEST_ID)
        && id.to_str().is_ok_and(|id| (1..=256).contains(&id.len()))
    {
        return id.clone();
    }
    let id = format!("{:032x}", rand::random::<u128>());
    // Hexadecimal digits always make a header value.
    HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("0"))
}
