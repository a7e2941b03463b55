//! Sends a request to an endpoint, and to others while nothing of a reply has been relayed. The
//! head of a reply is held back until the first byte of its body: engines send it before they have
//! done any work.

mod fault;
mod outgoing;

use std::future::poll_fn;
use std::sync::Arc;

use http::StatusCode;

use self::fault::Fault;
pub(super) use self::outgoing::Outgoing;
use super::pick::{self, Chosen};
use super::relay::Live;
use super::{Record, Reply, Variant};
use crate::api::ApiError;
use crate::fleet::Endpoint;
use crate::upstream::{self, Via};

/// The reply of the first endpoint that gives one.
pub(super) async fn forward(
    outgoing: &Outgoing,
    variant: &Variant,
    record: &mut Record,
) -> Result<Reply, ApiError> {
    let provider = &variant.backend.provider.label;
    let first = pick::pick(variant, &[]);
    let mut chosen = first.ok_or_else(|| ApiError::no_endpoint(provider))?;
    let mut via = Via::Any;
    let mut tried = Vec::new();
    let mut busy = None;
    loop {
        record.sent(&chosen);
        let mut fault = match attempt(outgoing, &chosen, via).await {
            Ok(reply) => return Ok(reply.counted(chosen.in_flight)),
            Err(fault) => fault,
        };
        busy = fault.take_reply().or(busy);
        let reason = fault.reason();
        if let Some(next) = elsewhere(variant, &chosen, &mut tried) {
            chosen = next;
            via = Via::Any;
        } else if via == Via::Any && fault.is_stale() {
            via = Via::New;
        } else {
            return busy.ok_or_else(|| ApiError::upstream(provider, &fault.to_string()));
        }
        record.retried(reason);
    }
}

/// Another endpoint, while the rule allows for one.
fn elsewhere(variant: &Variant, failed: &Chosen, tried: &mut Vec<Arc<Endpoint>>) -> Option<Chosen> {
    let allowed = usize::try_from(variant.rule.attempts).unwrap_or(usize::MAX);
    if !tried.iter().any(|one| Arc::ptr_eq(one, failed.endpoint())) {
        tried.push(Arc::clone(failed.endpoint()));
    }
    (tried.len() <= allowed).then(|| pick::pick(variant, tried))?
}

/// One endpoint's reply, up to the first byte of its body.
async fn attempt(outgoing: &Outgoing, chosen: &Chosen, via: Via) -> Result<Reply, Fault> {
    let endpoint = chosen.endpoint();
    let request = outgoing.request(endpoint);
    let (response, mut lease) = upstream::send(endpoint, request, via).await?;
    let (head, mut rest) = response.into_parts();
    let first = match poll_fn(|cx| lease.poll_frame(&mut rest, cx)).await {
        Some(frame) => frame.map_err(Fault::Cut)?.into_data().ok(),
        None => None,
    };
    let status = head.status;
    let is_stream = super::relay::is_event_stream(&head.headers);
    if first.is_none() && is_stream && status.is_success() {
        return Err(Fault::Empty);
    }
    let reply = Reply::live(head, Live::new(first, rest, lease));
    match status {
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            Err(Fault::Busy(status, Some(Box::new(reply))))
        }
        _ => Ok(reply),
    }
}
