//! Which Route may serve which model.
//!
//! A claim is one match of one rule. Claims that stand in the previous snapshot come first, then
//! those of older Routes. The same claim goes to the first that asks. Across namespaces a prefix
//! also covers everything below it, so that nobody takes a model out of another's range; inside a
//! namespace the more specific match simply wins at request time.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::accept::Accepted;
use super::verdict::{Outcome, reason};
use crate::snapshot::{Key, Match, Route, Rule, Snapshot};

/// Takes lost claims out of the Routes' rules and says so in their outcome.
pub(super) fn claim(routes: &mut [Accepted<Route>], previous: &Snapshot) {
    let held: HashSet<(&str, &Match)> = previous
        .routes
        .iter()
        .flat_map(|route| {
            let uid = route.origin.uid.as_str();
            route
                .rules
                .iter()
                .flat_map(move |rule| rule.matches.iter().map(move |m| (uid, m)))
        })
        .collect();
    let lost = lost(routes, &held);
    for (at, route) in routes.iter_mut().enumerate() {
        let rules = route.form.iter_mut().flat_map(|form| form.rules.iter_mut());
        let losses: Vec<String> = rules
            .enumerate()
            .flat_map(|(rule_at, rule)| part(rule, |match_at| lost.get(&(at, rule_at, match_at))))
            .collect();
        if !losses.is_empty() && route.outcome.ok {
            route.outcome = Outcome::bad(reason::CONFLICTED, message(&losses));
        }
    }
}

/// Moves what the rule lost out of what it matches, and says to whom.
fn part<'a>(rule: &mut Rule, winner: impl Fn(usize) -> Option<&'a Key>) -> Vec<String> {
    let mut losses = Vec::new();
    for (at, claim) in std::mem::take(&mut rule.matches).into_iter().enumerate() {
        match winner(at) {
            Some(winner) => {
                losses.push(format!("{claim} is served by Route {winner}"));
                rule.lost.push(claim);
            }
            None => rule.matches.push(claim),
        }
    }
    losses
}

fn message(losses: &[String]) -> String {
    const SHOWN: usize = 3;
    let more = losses.len().saturating_sub(SHOWN);
    let mut text = losses
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join("; ");
    if more > 0 {
        text.push_str("; and more");
    }
    text.push_str(": rename the model in one of them; what this Route does not share is served");
    text
}

/// A claim's place: Route, rule and match, by index.
type Place = (usize, usize, usize);

/// The claims that lose, and the Route that each loses to.
fn lost(routes: &[Accepted<Route>], held: &HashSet<(&str, &Match)>) -> HashMap<Place, Key> {
    let mut claims: Vec<(Place, &Route, &Match)> = Vec::new();
    for (at, route) in routes.iter().enumerate() {
        let Some(form) = &route.form else { continue };
        for (rule_at, rule) in form.rules.iter().enumerate() {
            for (match_at, claim) in rule.matches.iter().enumerate() {
                claims.push(((at, rule_at, match_at), form, claim));
            }
        }
    }
    claims.sort_by_cached_key(|&(place, route, claim)| {
        let origin = &route.origin;
        let standing = held.contains(&(origin.uid.as_str(), claim));
        (
            Reverse(standing),
            origin.created.clone(),
            origin.key.clone(),
            place,
        )
    });
    let mut ledger = Ledger::default();
    let mut lost = HashMap::new();
    for (place, route, claim) in claims {
        if let Some(winner) = ledger.enter(&route.origin.key, claim) {
            lost.insert(place, winner.clone());
        }
    }
    lost
}

/// Claims granted so far.
#[derive(Default)]
struct Ledger<'a> {
    owners: HashMap<&'a Match, &'a Key>,
    prefixes: HashMap<&'a str, &'a Key>,
}

impl<'a> Ledger<'a> {
    /// Grants the claim, or says who has it.
    fn enter(&mut self, route: &'a Key, claim: &'a Match) -> Option<&'a Key> {
        if let Some(&owner) = self.owners.get(claim) {
            return Some(owner);
        }
        if let Some(owner) = self.covering(route, claim) {
            return Some(owner);
        }
        self.owners.insert(claim, route);
        if let Match::Prefix(prefix) = claim {
            self.prefixes.insert(prefix, route);
        }
        None
    }

    /// The Route of another namespace whose prefix covers the claim.
    fn covering(&self, route: &Key, claim: &Match) -> Option<&'a Key> {
        let (Match::Exact(value) | Match::Prefix(value)) = claim else {
            return None;
        };
        let cuts = value.char_indices().map(|(at, _)| at).chain([value.len()]);
        cuts.filter_map(|at| self.prefixes.get(value.get(..at)?))
            .find(|owner| owner.namespace != route.namespace)
            .copied()
    }
}
