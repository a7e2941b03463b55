//! What the operator still waits for, and what it is refused: the text of `/readyz`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long a refused optional watch is waited for. Roles are often created after the pod.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something that the operator needs of the API server: a watch, or a write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Need {
    /// The resource, as in a Role.
    pub(crate) resource: &'static str,
    /// What it is for, where one resource is needed twice.
    pub(crate) purpose: &'static str,
    /// The namespace; none for all.
    pub(crate) namespace: Option<String>,
}

/// What happens while a need is not met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Nothing is compiled before it is met.
    Required,
    /// When it is refused, what depends on it is left out.
    Optional,
    /// Nothing waits for it; a refusal shows in `/readyz`.
    Later,
}

/// Why a need is not met now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The API server says no: it takes a Role or a CRD to change that.
    Refused(String),
    /// It may pass by itself.
    Failing(String),
}

impl Trouble {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Refused(text) | Self::Failing(text) => text,
        }
    }
}

#[derive(Debug)]
struct State {
    weight: Weight,
    met: bool,
    trouble: Option<Trouble>,
    refused_since: Option<Instant>,
}

/// Every need and its state.
#[derive(Debug, Default)]
pub(crate) struct Board {
    needs: Mutex<BTreeMap<Need, State>>,
    synced: AtomicBool,
}

impl Board {
    /// Registers a need before anything is known of it.
    pub(crate) fn expect(&self, need: Need, weight: Weight) {
        let state = State {
            weight,
            met: false,
            trouble: None,
            refused_since: None,
        };
        self.needs.lock().insert(need, state);
    }

    /// The need is met. True when that ends a trouble.
    pub(crate) fn met(&self, need: &Need) -> bool {
        let mut needs = self.needs.lock();
        let Some(state) = needs.get_mut(need) else {
            return false;
        };
        state.met = true;
        state.refused_since = None;
        state.trouble.take().is_some()
    }

    /// The need is not met now. True when that is news.
    pub(crate) fn trouble(&self, need: &Need, trouble: Trouble, now: Instant) -> bool {
        let mut needs = self.needs.lock();
        let Some(state) = needs.get_mut(need) else {
            return false;
        };
        match trouble {
            Trouble::Refused(_) => {
                state.refused_since.get_or_insert(now);
            }
            Trouble::Failing(_) => state.refused_since = None,
        }
        let news = state.trouble.as_ref() != Some(&trouble);
        state.trouble = Some(trouble);
        news
    }

    /// Whether everything was listed once, apart from optional things that are refused. Stays true:
    /// caches outlive an API server that goes away.
    pub(crate) fn synced(&self, now: Instant) -> bool {
        if self.synced.load(Ordering::Acquire) {
            return true;
        }
        let all = self.needs.lock().values().all(|state| state.settled(now));
        if all {
            self.synced.store(true, Ordering::Release);
        }
        all
    }

    /// What stands in the way of readiness, one line each; empty when ready.
    pub(crate) fn missing(&self, now: Instant) -> Vec<String> {
        let synced = self.synced(now);
        let needs = self.needs.lock();
        let line = |(need, state): (&Need, &State)| state.line(need, synced, now);
        let lines: BTreeSet<String> = needs.iter().filter_map(line).collect();
        lines.into_iter().collect()
    }

    /// Troubles that do not stand in the way of readiness, one line each.
    pub(crate) fn degraded(&self, now: Instant) -> Vec<String> {
        let synced = self.synced(now);
        let needs = self.needs.lock();
        let ready = needs
            .iter()
            .filter(|(need, state)| state.line(need, synced, now).is_none());
        ready
            .filter_map(|(_, state)| Some(state.trouble.as_ref()?.text().to_owned()))
            .collect()
    }

    /// Whether the API server refuses `resource` in `namespace`.
    pub(crate) fn is_refused(&self, resource: &str, namespace: &str) -> bool {
        let here = |need: &Need| {
            need.resource == resource && need.namespace.as_deref().is_none_or(|n| n == namespace)
        };
        let needs = self.needs.lock();
        needs
            .iter()
            .any(|(need, state)| here(need) && matches!(state.trouble, Some(Trouble::Refused(_))))
    }
}

impl State {
    fn settled(&self, now: Instant) -> bool {
        let waited = || self.refused_since.is_some_and(|at| now >= at + PATIENCE);
        match self.weight {
            Weight::Required => self.met,
            Weight::Optional => self.met || waited(),
            Weight::Later => true,
        }
    }

    fn line(&self, need: &Need, synced: bool, now: Instant) -> Option<String> {
        let refused = matches!(self.trouble, Some(Trouble::Refused(_)));
        let blocks = if synced {
            refused && self.weight != Weight::Optional
        } else {
            refused && self.weight == Weight::Later || !self.settled(now)
        };
        blocks.then(|| match &self.trouble {
            Some(trouble) => trouble.text().to_owned(),
            None => format!("waiting for the first answer about {need}"),
        })
    }
}

impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.resource)?;
        if !self.purpose.is_empty() {
            write!(f, " ({})", self.purpose)?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => f.write_str(" in all namespaces"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(resource: &'static str) -> Need {
        Need {
            resource,
            purpose: "",
            namespace: Some("ns".into()),
        }
    }

    fn board() -> Board {
        let board = Board::default();
        board.expect(need("routes"), Weight::Required);
        board.expect(need("secrets"), Weight::Optional);
        board
    }

    fn refused() -> Trouble {
        Trouble::Refused("may not list it".into())
    }

    #[test]
    fn it_is_not_synced_before_every_first_list() {
        let board = board();
        let now = Instant::now();
        board.met(&need("secrets"));
        assert!(!board.synced(now));
        assert_eq!(
            board.missing(now),
            ["waiting for the first answer about routes in namespace ns"]
        );
        board.met(&need("routes"));
        assert!(board.synced(now) && board.missing(now).is_empty());
    }

    #[test]
    fn refused_secrets_hold_it_up_for_a_bounded_time() {
        let board = board();
        let now = Instant::now();
        board.met(&need("routes"));
        board.trouble(&need("secrets"), refused(), now);
        assert!(!board.synced(now + PATIENCE / 2));
        assert!(board.synced(now + PATIENCE));
        assert!(board.missing(now + PATIENCE).is_empty());
        assert_eq!(board.degraded(now + PATIENCE), ["may not list it"]);
        assert!(board.is_refused("secrets", "ns") && !board.is_refused("secrets", "other"));
    }

    #[test]
    fn secrets_that_fail_for_another_reason_are_waited_for() {
        let board = board();
        let now = Instant::now();
        board.met(&need("routes"));
        board.trouble(&need("secrets"), Trouble::Failing("500".into()), now);
        assert!(!board.synced(now + 10 * PATIENCE));
    }

    #[test]
    fn a_refused_required_watch_makes_it_unready_and_names_itself() {
        let board = board();
        let now = Instant::now();
        assert!(board.trouble(&need("routes"), refused(), now), "news");
        assert!(!board.trouble(&need("routes"), refused(), now), "no news");
        board.met(&need("secrets"));
        assert_eq!(board.missing(now), ["may not list it"]);
        assert!(board.met(&need("routes")), "the end of a trouble is news");
        board.trouble(&need("routes"), refused(), now);
        assert!(
            board.synced(now),
            "caches stay warm when a Role is taken away"
        );
        assert_eq!(board.missing(now), ["may not list it"]);
    }

    #[test]
    fn an_api_server_that_goes_away_leaves_it_ready() {
        let board = board();
        let now = Instant::now();
        board.met(&need("routes"));
        board.met(&need("secrets"));
        assert!(board.synced(now));
        board.trouble(
            &need("routes"),
            Trouble::Failing("connection refused".into()),
            now,
        );
        assert!(board.missing(now).is_empty());
    }
}
