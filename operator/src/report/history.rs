//! Which object forms the latest snapshots hold: what a router serves follows from the digest that
//! it reports.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crds::snapshot::{Digest, Kind, Origin, Snapshot};
use serde::Serialize;

/// Snapshots remembered. A router that reports an older one counts as behind.
const REMEMBERED: usize = 32;

/// One object in the exact form that a snapshot holds: changes of what it refers to count too.
pub(crate) type Form = u64;

/// The forms of one snapshot.
#[derive(Debug, Default)]
pub(crate) struct Forms {
    by_uid: HashMap<String, Form>,
    all: HashSet<Form>,
}

impl Forms {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let mut forms = Self::default();
        for provider in &snapshot.providers {
            forms.add(Kind::Provider, &provider.origin, provider);
        }
        for route in &snapshot.routes {
            forms.add(Kind::Route, &route.origin, route);
        }
        forms
    }

    fn add(&mut self, kind: Kind, origin: &Origin, form: &impl Serialize) {
        let mut hasher = DefaultHasher::new();
        kind.hash(&mut hasher);
        origin.uid.hash(&mut hasher);
        serde_json::to_vec(form)
            .unwrap_or_default()
            .hash(&mut hasher);
        let form = hasher.finish();
        self.by_uid.insert(origin.uid.clone(), form);
        self.all.insert(form);
    }

    /// The form of an object, if the snapshot holds it.
    pub(crate) fn get(&self, uid: &str) -> Option<Form> {
        self.by_uid.get(uid).copied()
    }

    pub(crate) fn contains(&self, form: Form) -> bool {
        self.all.contains(&form)
    }
}

/// The forms of the latest snapshots, by digest.
#[derive(Debug, Default)]
pub(crate) struct History(VecDeque<(Digest, Arc<Forms>)>);

impl History {
    /// Remembers a snapshot as the latest.
    pub(crate) fn record(&mut self, digest: &Digest, forms: &Arc<Forms>) {
        self.0.retain(|(known, _)| known != digest);
        self.0.push_front((digest.clone(), Arc::clone(forms)));
        self.0.truncate(REMEMBERED);
    }

    /// What a router that serves `digest` serves, if that is still known.
    pub(crate) fn forms(&self, digest: &Digest) -> Option<&Arc<Forms>> {
        let found = self.0.iter().find(|(known, _)| known == digest);
        found.map(|(_, forms)| forms)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use crds::snapshot::{Key, Route};

    use super::*;

    /// A snapshot of one Route.
    pub(crate) fn snapshot(generation: i64) -> Snapshot {
        let origin = Origin {
            key: Key::new("ns", "r"),
            uid: "u".into(),
            generation,
            created: String::new(),
        };
        let rules = vec![];
        Snapshot {
            routes: vec![Route { origin, rules }],
            ..Snapshot::empty()
        }
    }

    #[test]
    fn a_form_changes_with_the_object_and_is_found_by_its_digest() {
        let (one, two) = (Forms::of(&snapshot(1)), Forms::of(&snapshot(2)));
        let form = one.get("u").unwrap();
        assert!(one.contains(form) && !two.contains(form));
        let mut history = History::default();
        history.record(&snapshot(1).seal().digest, &Arc::new(one));
        let found = history.forms(&snapshot(1).seal().digest).unwrap();
        assert!(found.contains(form));
        assert!(history.forms(&snapshot(2).seal().digest).is_none());
    }

    #[test]
    fn old_snapshots_are_forgotten_and_the_latest_kept() {
        let mut history = History::default();
        let digest = |i: usize| Digest(i.to_string());
        let forms = Arc::new(Forms::default());
        (0..REMEMBERED).for_each(|i| history.record(&digest(i), &forms));
        history.record(&digest(0), &forms);
        history.record(&digest(REMEMBERED), &forms);
        assert!(history.forms(&digest(1)).is_none());
        assert!(history.forms(&digest(0)).is_some());
    }
}
