use std::sync::Arc;

use rand::RngExt;

use crate::api::{ApiError, Ask, models};
use crate::table::{Backend, Rule, Table};

/// What a request is served as: the rule that takes it, the backend drawn, the model to ask for.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    pub(crate) rule: Arc<Rule>,
    pub(crate) backend: Arc<Backend>,
    /// The engine's name of the model; absent when the client named none.
    pub(crate) upstream_model: Option<Arc<str>>,
}

/// Finds the rule for the model that is asked for, and draws one of its backends.
pub(super) fn resolve(table: &Table, ask: &Ask) -> Result<Variant, ApiError> {
    variant(table, ask.model(), &mut rand::rng())
}

fn variant(
    table: &Table,
    model: Option<&Arc<str>>,
    chance: &mut impl RngExt,
) -> Result<Variant, ApiError> {
    let name = model.map(|model| &**model);
    let Some(rule) = table.rule(name) else {
        return Err(unknown(table, name));
    };
    if let Some(why) = &rule.refused {
        return Err(ApiError::rejected(format!("Route {}: {why}", rule.route)));
    }
    let Some(backend) = draw(&rule.backends, name, chance) else {
        return Err(undrawable(table, rule, name));
    };
    Ok(Variant {
        rule: Arc::clone(rule),
        backend: Arc::clone(backend),
        upstream_model: backend.upstream_model(model),
    })
}

/// One of those that can serve `model`, by weight.
fn draw<'a>(
    backends: &'a [Arc<Backend>],
    model: Option<&str>,
    chance: &mut impl RngExt,
) -> Option<&'a Arc<Backend>> {
    if let [only] = backends {
        return (only.is_usable() && only.has(model)).then_some(only);
    }
    let able = || backends.iter().filter(|b| b.is_usable() && b.has(model));
    let total: u64 = able().map(|backend| u64::from(backend.weight)).sum();
    if total == 0 {
        return None;
    }
    let mut left = chance.random_range(0..total);
    able().find(|backend| {
        let weight = u64::from(backend.weight);
        let found = left < weight;
        left = left.saturating_sub(weight);
        found
    })
}

fn unknown(table: &Table, model: Option<&str>) -> ApiError {
    model.map_or_else(ApiError::no_model, |model| {
        ApiError::unknown_model(model, &models::names(table))
    })
}

/// Why no backend can be drawn.
fn undrawable(table: &Table, rule: &Rule, model: Option<&str>) -> ApiError {
    if rule.backends.iter().any(|backend| backend.is_usable()) {
        return unknown(table, model);
    }
    let route = &rule.route;
    let why = rule.backends.iter().find_map(|b| b.refused.as_ref());
    ApiError::rejected(match why {
        Some(why) => format!("Route {route}: {why}"),
        None => format!("Route {route} has no backend with a weight above 0"),
    })
}

#[cfg(test)]
mod tests;
