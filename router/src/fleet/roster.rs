//! The EndpointSlices as they were last heard, and the pools made from them. Whoever hears of
//! slices (a watch, files, the copy on disk) tells the roster; the roster keeps the pools of the
//! Providers that the current snapshot has in step with them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crds::snapshot::{Key, ServicePort, Snapshot};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{info, warn};

use super::slices::{Merged, Slice, merge};
use super::{Fleet, Members};

/// Slices by namespace.
pub type ByNamespace = BTreeMap<String, Vec<Slice>>;

/// Keeps pools in step with slices.
#[derive(Debug)]
pub struct Roster {
    fleet: Arc<Fleet>,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    wanted: Vec<Wanted>,
    namespaces: HashMap<String, Namespace>,
    /// Namespaces that came into use so far.
    uses: u64,
}

/// A Provider whose pool is kept.
#[derive(Debug)]
struct Wanted {
    provider: Key,
    service: String,
    port: Option<ServicePort>,
    /// What was last said to be wrong with it.
    problem: Option<String>,
}

impl Wanted {
    fn say(&mut self, problem: Option<String>) {
        if let Some(problem) = &problem
            && self.problem.as_ref() != Some(problem)
        {
            warn!(provider = %self.provider, "{problem}");
        }
        self.problem = problem;
    }
}

#[derive(Debug, Default)]
struct Namespace {
    slices: BTreeMap<String, Slice>,
    heard: Heard,
    /// Tells one use of the namespace from an earlier one, whose slices are forgotten.
    of: Use,
}

/// One stretch of time over which a namespace is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use(u64);

/// How a namespace's slices are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Heard {
    /// Not at all yet.
    #[default]
    Nothing,
    /// The API server refuses to tell, for this reason.
    Denied(String),
    /// From a copy of an earlier run.
    Stale,
    /// Whole, from where they come from.
    Fresh,
}

impl State {
    fn enter(&mut self, namespace: String) {
        let uses = &mut self.uses;
        self.namespaces.entry(namespace).or_insert_with(|| {
            *uses += 1;
            Namespace {
                of: Use(*uses),
                ..Namespace::default()
            }
        });
    }
}

impl Roster {
    /// A roster that has heard nothing.
    pub fn new(fleet: Arc<Fleet>) -> Self {
        Self {
            fleet,
            state: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// Follows from now on the Providers of this snapshot. Their pools are filled, as far as
    /// slices are known, when this returns.
    pub fn want(&self, snapshot: &Snapshot) {
        let mut state = self.state.lock();
        let mut said: HashMap<Key, Option<String>> = std::mem::take(&mut state.wanted)
            .into_iter()
            .map(|wanted| (wanted.provider, wanted.problem))
            .collect();
        let wanted = |provider: &crds::snapshot::Provider| Wanted {
            provider: provider.origin.key.clone(),
            service: provider.service.name.clone(),
            port: provider.service.slice_port.clone(),
            problem: said.remove(&provider.origin.key).flatten(),
        };
        state.wanted = snapshot.providers.iter().map(wanted).collect();
        let names = namespaces(snapshot);
        state.namespaces.retain(|name, _| names.contains(name));
        for name in names {
            state.enter(name);
        }
        self.settle(&mut state, |_| true);
    }

    /// The namespaces that have to be followed. One that was out of use in between has to be
    /// followed anew.
    pub fn uses(&self) -> Vec<(String, Use)> {
        let state = self.state.lock();
        let namespaces = state.namespaces.iter();
        namespaces
            .map(|(name, entry)| (name.clone(), entry.of))
            .collect()
    }

    /// Replaces all slices of a namespace, if a Provider of the snapshot is in it.
    pub fn replace(&self, namespace: &str, slices: Vec<Slice>, heard: Heard) {
        let mut state = self.state.lock();
        let Some(entry) = state.namespaces.get_mut(namespace) else {
            return;
        };
        let first = entry.heard != heard;
        entry.heard = heard;
        entry.slices = slices
            .into_iter()
            .map(|slice| (slice.name.clone(), slice))
            .collect();
        let changed = self.settle(&mut state, |w| w.provider.namespace == namespace);
        if first && !changed {
            self.touch();
        }
    }

    /// A slice is there, or has changed.
    pub fn apply(&self, namespace: &str, slice: Slice) {
        let mut state = self.state.lock();
        let service = slice.service.clone();
        let Some(entry) = state.namespaces.get_mut(namespace) else {
            return;
        };
        let before = entry.slices.insert(slice.name.clone(), slice);
        let before = before.map(|slice| slice.service);
        self.settle(&mut state, |w| {
            let concerns = w.service == service || Some(&w.service) == before.as_ref();
            w.provider.namespace == namespace && concerns
        });
    }

    /// A slice is gone.
    pub fn remove(&self, namespace: &str, name: &str) {
        let mut state = self.state.lock();
        let entry = state.namespaces.get_mut(namespace);
        if let Some(gone) = entry.and_then(|entry| entry.slices.remove(name)) {
            self.settle(&mut state, |w| {
                w.provider.namespace == namespace && w.service == gone.service
            });
        }
    }

    /// The slices of a namespace cannot be had. What is known of it stays.
    pub fn deny(&self, namespace: &str, reason: String) {
        let mut state = self.state.lock();
        if let Some(entry) = state.namespaces.get_mut(namespace)
            && entry.heard == Heard::Nothing
        {
            entry.heard = Heard::Denied(reason);
            self.touch();
        }
    }

    /// Namespaces of which nothing is known yet, in order.
    pub fn missing(&self) -> Vec<String> {
        let state = self.state.lock();
        let nothing = state
            .namespaces
            .iter()
            .filter(|(_, entry)| entry.heard == Heard::Nothing);
        let mut names: Vec<String> = nothing.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// How a namespace is known.
    pub fn heard(&self, namespace: &str) -> Heard {
        let state = self.state.lock();
        let entry = state.namespaces.get(namespace);
        entry.map(|entry| entry.heard.clone()).unwrap_or_default()
    }

    /// Providers whose namespace cannot be read, with the reason.
    pub fn denied(&self) -> Vec<(Key, String)> {
        let state = self.state.lock();
        let denied = |w: &Wanted| match &state.namespaces.get(&w.provider.namespace)?.heard {
            Heard::Denied(reason) => Some((w.provider.clone(), reason.clone())),
            Heard::Nothing | Heard::Stale | Heard::Fresh => None,
        };
        state.wanted.iter().filter_map(denied).collect()
    }

    /// The slices that pools are made from, of each namespace that is known.
    pub fn slices(&self) -> ByNamespace {
        let state = self.state.lock();
        let wanted: BTreeSet<(&str, &str)> = state
            .wanted
            .iter()
            .map(|w| (w.provider.namespace.as_str(), w.service.as_str()))
            .collect();
        let of = |(name, entry): (&String, &Namespace)| {
            let used = |slice: &&Slice| wanted.contains(&(name.as_str(), slice.service.as_str()));
            let slices = entry.slices.values().filter(used).cloned().collect();
            (name.clone(), slices)
        };
        let known =
            |(_, entry): &(&String, &Namespace)| matches!(entry.heard, Heard::Stale | Heard::Fresh);
        state.namespaces.iter().filter(known).map(of).collect()
    }

    /// Wakes whenever a pool, or how a namespace is known, has changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Says that something of a pool has changed which the roster does not hold itself.
    pub fn touch(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Makes the pools that `concerned` picks anew. The lock is held meanwhile, so that of two
    /// changes the later one stays.
    fn settle(&self, state: &mut State, concerned: impl Fn(&Wanted) -> bool) -> bool {
        let mut changed = false;
        for wanted in state.wanted.iter_mut().filter(|w| concerned(w)) {
            let Some(entry) = state.namespaces.get(&wanted.provider.namespace) else {
                continue;
            };
            changed |= self.fill(wanted, entry);
        }
        if changed {
            self.touch();
        }
        changed
    }

    fn fill(&self, wanted: &mut Wanted, entry: &Namespace) -> bool {
        let Merged { members, problem } = merged(wanted, entry);
        wanted.say(problem);
        let pool = self.fleet.pool(&wanted.provider);
        if same(&pool.members(), &members) {
            return false;
        }
        let (ready, total) = (members.usable.len(), members.iter().count());
        info!(provider = %wanted.provider, ready, total, "endpoints changed");
        pool.set_members(members);
        true
    }
}

fn merged(wanted: &Wanted, entry: &Namespace) -> Merged {
    let Some(port) = &wanted.port else {
        return Merged::default();
    };
    let of_service = |slice: &&Slice| slice.service == wanted.service;
    let slices: Vec<&Slice> = entry.slices.values().filter(of_service).collect();
    if slices.is_empty() && entry.heard == Heard::Fresh {
        let service = &wanted.service;
        let problem = format!(
            "no EndpointSlice has the label kubernetes.io/service-name: {service}, so there is \
             no endpoint: check that Service {service} exists and selects pods, or write the \
             slice by hand"
        );
        return Merged {
            problem: Some(problem),
            ..Merged::default()
        };
    }
    merge(slices, port)
}

fn same(a: &Members, b: &Members) -> bool {
    let sides = [(&a.usable, &b.usable), (&a.unusable, &b.unusable)];
    sides.iter().all(|(a, b)| {
        a.len() == b.len()
            && a.iter()
                .zip(b.iter())
                .all(|(a, b)| (a.id(), a.address(), a.name()) == (b.id(), b.address(), b.name()))
    })
}

/// The namespaces whose EndpointSlices a snapshot needs.
pub fn namespaces(snapshot: &Snapshot) -> BTreeSet<String> {
    let providers = snapshot.providers.iter();
    providers.map(|p| p.origin.key.namespace.clone()).collect()
}

#[cfg(test)]
mod tests;
