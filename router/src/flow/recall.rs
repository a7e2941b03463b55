use super::admit::Caller;
use super::{Reply, Variant};
use crate::api::Ask;

/// An earlier reply to the same request; caches answer here.
#[expect(
    clippy::unused_async,
    reason = "a shared store is asked over the network"
)]
pub(super) async fn recall(_caller: &Caller, _ask: &Ask, _variant: &Variant) -> Option<Reply> {
    None
}
