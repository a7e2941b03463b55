use std::sync::Arc;

use super::Variant;
use crate::fleet::{Endpoint, InFlight};
use crate::pick;

/// An endpoint with the request counted in, and why it was chosen.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) in_flight: InFlight,
    pub(super) choice: pick::Choice,
}

impl Chosen {
    pub(super) const fn endpoint(&self) -> &Arc<Endpoint> {
        self.in_flight.endpoint()
    }
}

/// Chooses an endpoint that was not tried yet and counts the request in.
pub(super) fn pick(variant: &Variant, tried: &[Arc<Endpoint>]) -> Option<Chosen> {
    let pool = &variant.backend.pool;
    let members = pool.members();
    let usable = &members.usable;
    let turn = || pool.turn();
    let choice = pick::pick(variant.rule.strategy, usable, tried, turn, &mut rand::rng())?;
    let in_flight = usable.get(choice.index)?.enter();
    Some(Chosen { in_flight, choice })
}
