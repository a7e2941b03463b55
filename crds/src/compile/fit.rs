//! A snapshot travels in one Secret, so it has a limit. The changes that pass it are refused,
//! newest objects first; what is served already stays.

use std::collections::HashMap;

use super::accept::TooLarge;
use super::{Compiled, Objects};
use crate::snapshot::{MAX_BYTES, Origin, Snapshot};

/// Compiles with as few changes refused as make it fit.
pub(super) fn fit(
    objects: &Objects,
    previous: &Snapshot,
    attempt: impl Fn(&TooLarge) -> Compiled,
) -> Compiled {
    fit_within(MAX_BYTES, objects, previous, attempt)
}

pub(super) fn fit_within(
    limit: usize,
    objects: &Objects,
    previous: &Snapshot,
    attempt: impl Fn(&TooLarge) -> Compiled,
) -> Compiled {
    let all = attempt(&TooLarge::new());
    if all.sealed.bytes.len() <= limit {
        return all;
    }
    let changed = changed(objects, previous);
    let refuse = |count: usize| {
        let uids = changed.iter().take(count).map(|origin| origin.uid.clone());
        attempt(&uids.collect())
    };
    // Refusing more never makes the snapshot larger, so the smallest number that fits is found by
    // halving.
    let (mut low, mut high) = (1, changed.len());
    while low < high {
        let middle = low.midpoint(high);
        if refuse(middle).sealed.bytes.len() <= limit {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    refuse(high)
}

/// Objects that are new or edited since `previous`, newest first.
fn changed(objects: &Objects, previous: &Snapshot) -> Vec<Origin> {
    let served: HashMap<&str, i64> = previous
        .origins()
        .map(|(_, o)| (o.uid.as_str(), o.generation))
        .collect();
    let providers = objects.providers.iter().map(super::Entry::origin);
    let routes = objects.routes.iter().map(super::Entry::origin);
    let mut changed: Vec<Origin> = providers
        .chain(routes)
        .filter(|o| served.get(o.uid.as_str()) != Some(&o.generation))
        .collect();
    changed.sort_by(|a, b| (&b.created, &b.key).cmp(&(&a.created, &a.key)));
    changed
}
