//! What one kind of watch keeps, by namespace and name.

use std::collections::HashMap;
use std::sync::Arc;

use crds::snapshot::Key;
use parking_lot::Mutex;

use super::keep::Keep;

/// Which part of a shelf one watch fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    All,
    Namespace(String),
}

impl Span {
    fn covers(&self, key: &Key) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => key.namespace == *namespace,
        }
    }
}

/// What a change concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    Nothing,
    /// Only what statuses are decided from.
    Report,
    /// What a compile reads.
    Inputs,
}

type Items<V> = HashMap<Key, Arc<V>>;

/// The kept values. The map is shared until it changes, so that reading it copies nothing.
pub(crate) struct Shelf<V>(Mutex<Arc<Items<V>>>);

impl<V> std::fmt::Debug for Shelf<V> {
    /// How many, never what: some hold credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shelf({})", self.all().len())
    }
}

impl<V> Default for Shelf<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V> Shelf<V> {
    /// All values as they are now.
    pub(crate) fn all(&self) -> Arc<Items<V>> {
        Arc::clone(&self.0.lock())
    }
}

impl<V: Keep> Shelf<V> {
    /// Puts one value, or takes it away.
    pub(crate) fn set(&self, key: Key, value: Option<V>) -> Change {
        let mut items = self.0.lock();
        let change = change(items.get(&key).map(AsRef::as_ref), value.as_ref());
        if change == Change::Nothing {
            return change;
        }
        let items = Arc::make_mut(&mut *items);
        match value {
            Some(value) => items.insert(key, Arc::new(value)),
            None => items.remove(&key),
        };
        change
    }

    /// Replaces everything in the span: what is not listed is gone.
    pub(crate) fn replace(&self, span: &Span, listed: Vec<(Key, V)>) -> Change {
        let listed: HashMap<Key, V> = listed.into_iter().collect();
        let gone: Vec<Key> = {
            let items = self.all();
            let gone = |key: &&Key| span.covers(key) && !listed.contains_key(*key);
            items.keys().filter(gone).cloned().collect()
        };
        let gone = gone.into_iter().map(|key| (key, None));
        let listed = listed.into_iter().map(|(key, value)| (key, Some(value)));
        gone.chain(listed)
            .map(|(key, value)| self.set(key, value))
            .max()
            .unwrap_or(Change::Nothing)
    }
}

fn change<V: Keep>(before: Option<&V>, after: Option<&V>) -> Change {
    match (before, after) {
        (None, None) => Change::Nothing,
        (Some(before), Some(after)) if before == after => Change::Nothing,
        (Some(before), Some(after)) if before.reads_same(after) => Change::Report,
        (Some(value), _) | (None, Some(value)) => value.concerns(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Thing {
        input: u8,
        status: u8,
    }

    impl Keep for Thing {
        fn reads_same(&self, other: &Self) -> bool {
            self.input == other.input
        }
    }

    const fn thing(input: u8, status: u8) -> Thing {
        Thing { input, status }
    }

    fn key(namespace: &str, name: &str) -> Key {
        Key::new(namespace, name)
    }

    #[test]
    fn only_a_change_of_inputs_asks_for_a_compile() {
        let shelf = Shelf::default();
        assert_eq!(shelf.set(key("n", "a"), Some(thing(1, 1))), Change::Inputs);
        assert_eq!(shelf.set(key("n", "a"), Some(thing(1, 1))), Change::Nothing);
        assert_eq!(shelf.set(key("n", "a"), Some(thing(1, 2))), Change::Report);
        assert_eq!(shelf.set(key("n", "a"), Some(thing(2, 2))), Change::Inputs);
        assert_eq!(shelf.set(key("n", "a"), None), Change::Inputs);
        assert_eq!(shelf.set(key("n", "a"), None), Change::Nothing);
    }

    #[test]
    fn a_fresh_list_drops_what_is_gone_in_its_own_namespace_only() {
        let shelf = Shelf::default();
        shelf.set(key("n", "gone"), Some(thing(1, 1)));
        shelf.set(key("n", "stays"), Some(thing(1, 1)));
        shelf.set(key("other", "a"), Some(thing(1, 1)));
        let listed = vec![(key("n", "stays"), thing(1, 1))];
        let span = Span::Namespace("n".into());
        assert_eq!(shelf.replace(&span, listed.clone()), Change::Inputs);
        assert_eq!(shelf.replace(&span, listed), Change::Nothing);
        let mut names: Vec<String> = shelf.all().keys().map(ToString::to_string).collect();
        names.sort();
        assert_eq!(names, ["n/stays", "other/a"]);
    }
}
