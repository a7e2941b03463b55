//! The list of models: one for all pools, under the names by which clients ask.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{ApiError, json};
use crate::table::{Backend, Rule, Table};

/// The body of `GET /v1/models`.
pub(crate) fn list(table: &Table) -> Bytes {
    let cards: Vec<String> = cards(table).into_values().collect();
    format!(r#"{{"object":"list","data":[{}]}}"#, cards.join(",")).into()
}

/// The body of `GET /v1/models/{id}`.
pub(crate) fn one(table: &Table, id: &str) -> Result<Bytes, ApiError> {
    let mut cards = cards(table);
    match cards.remove(id) {
        Some(card) => Ok(card.into()),
        None => Err(ApiError::unknown_model(
            id,
            &cards.into_keys().collect::<Vec<_>>(),
        )),
    }
}

/// The names of all models, sorted.
pub(crate) fn names(table: &Table) -> Vec<String> {
    cards(table).into_keys().collect()
}

/// Each model's card, by its public name.
fn cards(table: &Table) -> BTreeMap<String, String> {
    let mut cards = BTreeMap::new();
    for (model, rule) in table.exact() {
        if let Some(card) = card(model, rule) {
            cards.insert(model.to_owned(), card);
        }
    }
    for (prefix, rule) in table.prefixes() {
        for model in rule.backends.iter().flat_map(|b| known(b)) {
            let is_taken_here = |taker: &Arc<Rule>| Arc::ptr_eq(taker, rule);
            if model.starts_with(prefix)
                && table.rule(Some(&model)).is_some_and(is_taken_here)
                && let Some(card) = card(&model, rule)
            {
                cards.entry(model).or_insert(card);
            }
        }
    }
    cards
}

/// The models that a backend is known to have, as clients ask for them.
fn known(backend: &Backend) -> Vec<String> {
    if let Some(only) = &backend.model {
        return vec![only.clone()];
    }
    if !backend.provider.models.is_empty() {
        return backend.provider.models.keys().cloned().collect();
    }
    let discovered = backend.pool.discovered();
    discovered.models.iter().map(|(id, _)| id.clone()).collect()
}

/// The card of a model that a rule can serve: the engine's own under the public name, else one
/// that says no more than that there is such a model.
fn card(model: &str, rule: &Rule) -> Option<String> {
    if rule.refused.is_some() {
        return None;
    }
    let able = || {
        rule.backends
            .iter()
            .filter(|b| b.is_usable() && b.has(Some(model)))
    };
    able().next()?;
    let of_engine = able().find_map(|backend| engine_card(model, backend));
    Some(of_engine.unwrap_or_else(|| {
        let (id, created) = (json::quote(model), rule.created);
        format!(r#"{{"id":{id},"object":"model","created":{created},"owned_by":"refrain"}}"#)
    }))
}

fn engine_card(model: &str, backend: &Backend) -> Option<String> {
    let public: Arc<str> = model.into();
    let upstream = backend.upstream_model(Some(&public))?;
    let discovered = backend.pool.discovered();
    let (_, card) = discovered.models.iter().find(|(id, _)| **id == *upstream)?;
    let card = card.get().as_bytes();
    let mut ids = Vec::new();
    json::members(card, |name, place| {
        if name == "id" {
            ids.push(place);
        }
    })
    .ok()?;
    String::from_utf8(json::splice(card, &ids, &json::quote(model))).ok()
}
