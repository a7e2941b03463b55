//! Which endpoint gets a request: filters → scorers → picker. It is pure: candidates, what was
//! tried and chance go in, a choice and its reasons come out; nothing is counted here.
//!
//! ```text
//!  filters   who may get it          eligible: not tried for this request yet
//!  scorers   how good each would be  load
//!  picker    who gets it             round_robin, random, least_load, power_of_two
//! ```

mod eligible;
mod least_load;
mod load;
mod power_of_two;
mod random;
mod round_robin;

use std::sync::Arc;

use crds::snapshot::Strategy;
use rand::RngExt;

use self::eligible::Eligible;
use crate::fleet::Endpoint;

/// Where a request goes, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The place of the endpoint among the candidates.
    pub(crate) index: usize,
    /// How many could have been chosen.
    pub(crate) eligible: usize,
    /// The load of the one chosen, as it was compared.
    pub(crate) load: u32,
}

/// Chooses among `candidates` that are not `tried`; `None` when nothing is left. `turn` counts the
/// picks of a pool.
pub(crate) fn pick(
    strategy: Strategy,
    candidates: &[Arc<Endpoint>],
    tried: &[Arc<Endpoint>],
    turn: impl FnOnce() -> usize,
    chance: &mut impl RngExt,
) -> Option<Choice> {
    let eligible = Eligible::of(candidates, |endpoint| is_untried(endpoint, tried));
    let load = |index: usize| candidates.get(index).map_or(u32::MAX, |e| load::score(e));
    let index = match strategy {
        Strategy::RoundRobin => round_robin::pick(&eligible, turn()),
        Strategy::Random => random::pick(&eligible, chance),
        Strategy::PowerOfTwo => power_of_two::pick(&eligible, load, chance),
        // A rule with an unknown strategy is refused before it comes here.
        Strategy::LeastLoad | Strategy::Unknown => least_load::pick(&eligible, load, turn()),
    }?;
    Some(Choice {
        index,
        eligible: eligible.len(),
        load: load(index),
    })
}

fn is_untried(endpoint: &Arc<Endpoint>, tried: &[Arc<Endpoint>]) -> bool {
    !tried.iter().any(|one| Arc::ptr_eq(one, endpoint))
}

#[cfg(test)]
mod tests;
