use std::collections::HashMap;
use std::sync::Arc;

use crds::snapshot::Match;

use super::Rule;

/// Which rule takes which models. The work of a lookup grows with the number of different prefix
/// lengths, not with the number of rules.
#[derive(Debug, Default)]
pub(super) struct Claims {
    exact: HashMap<Box<str>, Arc<Rule>>,
    prefixes: HashMap<Box<str>, Arc<Rule>>,
    /// The lengths of the prefixes, longest first.
    lengths: Vec<usize>,
}

impl Claims {
    /// The first to claim something has it.
    pub(super) fn add(&mut self, claim: &Match, rule: &Arc<Rule>) {
        let (claims, text) = match claim {
            Match::Exact(text) => (&mut self.exact, text),
            Match::Prefix(text) => (&mut self.prefixes, text),
            Match::Unknown => return,
        };
        claims
            .entry(text.as_str().into())
            .or_insert_with(|| Arc::clone(rule));
    }

    pub(super) fn sorted(mut self) -> Self {
        self.lengths = self.prefixes.keys().map(|prefix| prefix.len()).collect();
        self.lengths.sort_unstable_by(|a, b| b.cmp(a));
        self.lengths.dedup();
        self
    }

    pub(super) fn find(&self, model: Option<&str>) -> Option<&Arc<Rule>> {
        let Some(model) = model else {
            return self.prefixes.get("");
        };
        let by_prefix = || {
            let mut prefixes = self
                .lengths
                .iter()
                .filter_map(|&length| model.get(..length));
            prefixes.find_map(|prefix| self.prefixes.get(prefix))
        };
        self.exact.get(model).or_else(by_prefix)
    }

    pub(super) fn exact(&self) -> impl Iterator<Item = (&str, &Arc<Rule>)> {
        self.exact.iter().map(|(model, rule)| (&**model, rule))
    }

    pub(super) fn prefixes(&self) -> impl Iterator<Item = (&str, &Arc<Rule>)> {
        self.prefixes.iter().map(|(prefix, rule)| (&**prefix, rule))
    }
}
