//! Objects in → one [`Snapshot`] and a [`Verdict`] per object. Pure: no clock, no client.
//!
//! ```text
//!  accept   each object alone → its snapshot form, or its last good form from the snapshot before
//!  claim    which Route may serve which model
//!  resolve  Service ports, Secrets, Providers, grants; again at each compile, so that what is
//!           gone is out at once, for last good forms too
//!  fit      the change that would make the snapshot too large is the one refused
//! ```

mod accept;
mod claim;
mod fit;
mod grant;
mod object;
mod resolve;
mod verdict;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use self::accept::{Accepted, TooLarge};
pub use self::grant::Grant;
pub use self::object::{Entry, Objects, Scope};
pub use self::verdict::{Outcome, Verdict, reason};
use crate::snapshot::{FORMAT, Key, Kind, Provider, Route, Sealed, Snapshot};

/// What came out of a compile.
#[derive(Debug)]
pub struct Compiled {
    /// What routers are to serve.
    pub snapshot: Snapshot,
    /// The same, as it travels.
    pub sealed: Sealed,
    /// One per object that went in, Providers first, each kind in the order of the input.
    pub verdicts: Vec<Verdict>,
}

/// Compiles all objects. `previous` is the snapshot that routers serve now: last good forms and
/// standing claims come from it. The sealed snapshot never weighs more than
/// [`crate::snapshot::MAX_BYTES`].
pub fn compile(objects: &Objects, previous: &Snapshot) -> Compiled {
    fit::fit(objects, previous, |too_large| {
        attempt(objects, previous, too_large)
    })
}

/// One compile in which the changes of `too_large` objects are refused.
fn attempt(objects: &Objects, previous: &Snapshot, too_large: &TooLarge) -> Compiled {
    let mut providers = accept::providers(objects, previous, too_large);
    let mut routes = accept::routes(objects, previous, too_large);
    claim::claim(&mut routes, previous);

    let mut verdicts = Vec::with_capacity(providers.len() + routes.len());
    for provider in &mut providers {
        let resolved = provider
            .form
            .as_mut()
            .map(|form| resolve::provider(form, objects));
        let served = provider.form.as_ref().map(|form| form.origin.generation);
        verdicts.push(verdict(Kind::Provider, provider, resolved, served));
    }
    let by_key: HashMap<Key, &Accepted<Provider>> = providers
        .iter()
        .map(|p| (p.origin.key.clone(), p))
        .collect();
    for route in &mut routes {
        let resolved = route
            .form
            .as_mut()
            .map(|form| resolve::route(form, &by_key, objects));
        let served = route.form.as_ref().map(|form| form.origin.generation);
        let models = route.form.as_ref().map(models).unwrap_or_default();
        verdicts.push(Verdict {
            models,
            ..verdict(Kind::Route, route, resolved, served)
        });
    }
    let snapshot = assemble(providers, routes);
    let sealed = snapshot.seal();
    Compiled {
        snapshot,
        sealed,
        verdicts,
    }
}

fn verdict<F>(
    kind: Kind,
    accepted: &Accepted<F>,
    resolved: Option<Outcome>,
    served: Option<i64>,
) -> Verdict {
    Verdict {
        kind,
        origin: accepted.origin.clone(),
        accepted: accepted.outcome.clone(),
        // Nothing is known of the references of an object that has no form.
        resolved: resolved.unwrap_or_else(|| accepted.outcome.clone()),
        served,
        models: Vec::new(),
    }
}

fn models(route: &Route) -> Vec<String> {
    route
        .rules
        .iter()
        .flat_map(|rule| &rule.matches)
        .map(ToString::to_string)
        .collect()
}

fn assemble(providers: Vec<Accepted<Provider>>, routes: Vec<Accepted<Route>>) -> Snapshot {
    let mut providers: Vec<Provider> = providers.into_iter().filter_map(|p| p.form).collect();
    let mut routes: Vec<Route> = routes.into_iter().filter_map(|r| r.form).collect();
    providers.sort_by(|a, b| a.origin.key.cmp(&b.origin.key));
    routes.sort_by(|a, b| a.origin.key.cmp(&b.origin.key));
    Snapshot {
        format: FORMAT,
        providers,
        routes,
    }
}
