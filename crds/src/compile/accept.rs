//! Each object alone → the form in which a snapshot holds it.

use std::collections::{HashMap, HashSet};

use super::verdict::{Outcome, reason};
use super::{Entry, Objects};
use crate::api::{self, AuthType, MatchType};
use crate::snapshot::{
    Auth, Backend, Key, Match, Origin, Provider, Route, Rule, Service, Snapshot, Strategy,
};

/// The UIDs of objects whose change is refused because it does not fit.
pub(super) type TooLarge = HashSet<String>;

/// An object, its form, and what is to be said of it.
pub(super) struct Accepted<F> {
    /// The object at the generation that was read.
    pub(super) origin: Origin,
    /// The form to serve: of this generation, or the last good one.
    pub(super) form: Option<F>,
    /// The condition `Accepted`.
    pub(super) outcome: Outcome,
}

/// Accepts every Provider.
pub(super) fn providers(
    objects: &Objects,
    previous: &Snapshot,
    too_large: &TooLarge,
) -> Vec<Accepted<Provider>> {
    let served: HashMap<&str, &Provider> = previous
        .providers
        .iter()
        .map(|p| (p.origin.uid.as_str(), p))
        .collect();
    let last_good = |uid: &str| served.get(uid).map(|&p| p.clone());
    let accept = |entry| one(entry, provider, last_good, too_large);
    objects.providers.iter().map(accept).collect()
}

/// Accepts every Route.
pub(super) fn routes(
    objects: &Objects,
    previous: &Snapshot,
    too_large: &TooLarge,
) -> Vec<Accepted<Route>> {
    let served: HashMap<&str, &Route> = previous
        .routes
        .iter()
        .map(|r| (r.origin.uid.as_str(), r))
        .collect();
    let last_good = |uid: &str| served.get(uid).map(|&r| reclaim(r.clone()));
    let accept = |entry| one(entry, route, last_good, too_large);
    objects.routes.iter().map(accept).collect()
}

/// A last good form claims again what it had lost.
fn reclaim(mut route: Route) -> Route {
    for rule in &mut route.rules {
        rule.matches.append(&mut rule.lost);
    }
    route
}

fn one<K, F: HasOrigin>(
    entry: &Entry<K>,
    read: fn(Origin, &K) -> Result<F, String>,
    last_good: impl Fn(&str) -> Option<F>,
    too_large: &TooLarge,
) -> Accepted<F>
where
    K: kube::Resource<DynamicType = ()>,
{
    let origin = entry.origin();
    let refused = |reason, message: String| {
        let form = last_good(&origin.uid);
        let tail = match form.as_ref().map(|f| f.origin().generation) {
            Some(old) if old == origin.generation => String::new(),
            Some(old) => format!("; generation {old}, the last good one, is served until then"),
            None => "; nothing of it is served until then".to_owned(),
        };
        let outcome = Outcome::bad(reason, message + &tail);
        Accepted {
            origin: origin.clone(),
            form,
            outcome,
        }
    };
    if too_large.contains(&origin.uid) {
        return refused(
            reason::SNAPSHOT_TOO_LARGE,
            "with this change the compiled configuration would exceed what one Secret holds: \
             make it smaller, or remove other Routes and Providers"
                .to_owned(),
        );
    }
    match entry {
        Entry::Unreadable { error, .. } => refused(reason::UNREADABLE, unreadable(error)),
        Entry::Read(object) => match read(origin.clone(), object) {
            Err(problem) => refused(reason::INVALID, problem),
            Ok(form) => Accepted {
                origin,
                form: Some(form),
                outcome: Outcome::good(reason::ACCEPTED),
            },
        },
    }
}

fn unreadable(error: &str) -> String {
    format!(
        "the object does not have the shape of its kind ({error}): correct it, and check that the \
         installed CRDs are those of this release"
    )
}

/// What has an origin.
trait HasOrigin {
    fn origin(&self) -> &Origin;
}

impl HasOrigin for Provider {
    fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl HasOrigin for Route {
    fn origin(&self) -> &Origin {
        &self.origin
    }
}

fn provider(origin: Origin, object: &api::Provider) -> Result<Provider, String> {
    let spec = &object.spec;
    let Some(service) = &spec.service else {
        return Err("service must be set: name the Service whose endpoints are the engines".into());
    };
    let auth = spec.auth.as_ref().map(auth).transpose()?;
    let service = Service {
        name: service.name.clone(),
        port: service.port.clone(),
        slice_port: None,
    };
    let names = |m: &api::ProviderModel| {
        (
            m.name.clone(),
            m.upstream_name.clone().unwrap_or_else(|| m.name.clone()),
        )
    };
    let models = spec.models.iter().map(names).collect();
    Ok(Provider {
        origin,
        service,
        auth,
        models,
        refused: None,
    })
}

fn auth(auth: &api::Auth) -> Result<Auth, String> {
    let (name, prefix) = match auth.r#type {
        AuthType::Passthrough => return Ok(Auth::Passthrough),
        AuthType::BearerToken => ("authorization".to_owned(), "Bearer ".to_owned()),
        AuthType::APIKeyHeader => {
            let name = auth.header_name.as_deref().unwrap_or("x-api-key");
            (name.to_ascii_lowercase(), String::new())
        }
    };
    let secret_ref = auth
        .secret_ref
        .clone()
        .ok_or("auth.secretRef must be set")?;
    Ok(Auth::Header {
        name,
        prefix,
        secret_ref,
        secret: String::new(),
    })
}

fn route(origin: Origin, object: &api::Route) -> Result<Route, String> {
    let mut claimed = HashSet::new();
    let mut rules = Vec::with_capacity(object.spec.rules.len());
    for rule in &object.spec.rules {
        let rule = self::rule(&origin.key, rule)?;
        for claim in &rule.matches {
            if !claimed.insert(claim.clone()) {
                return Err(format!(
                    "two rules match the model {claim}: leave it in one of them (the second is {})",
                    rule.name
                ));
            }
        }
        rules.push(rule);
    }
    Ok(Route { origin, rules })
}

fn rule(route: &Key, rule: &api::RouteRule) -> Result<Rule, String> {
    let name = &rule.name;
    let mut matches = Vec::with_capacity(rule.matches.len().max(1));
    for one in &rule.matches {
        let model = one
            .model
            .as_ref()
            .ok_or_else(|| format!("rule {name}: a match must set model"))?;
        let claim = match model.r#type {
            MatchType::Exact => Match::Exact(model.value.clone()),
            MatchType::Prefix => Match::Prefix(model.value.clone()),
        };
        if !matches.contains(&claim) {
            matches.push(claim);
        }
    }
    if matches.is_empty() {
        matches.push(Match::Prefix(String::new()));
    }
    let backends: Vec<Backend> = rule
        .backend_refs
        .iter()
        .map(|b| backend(route, name, b))
        .collect::<Result<_, _>>()?;
    if backends.iter().all(|b| b.weight == 0) {
        return Err(format!(
            "rule {name}: at least one of backendRefs must have a weight above 0"
        ));
    }
    let attempts = u32::try_from(rule.retry.attempts)
        .map_err(|_| format!("rule {name}: retry.attempts must be 0 or more"))?;
    let strategy = strategy(rule.balancing.strategy);
    let requires = requires(&matches, rule.balancing.strategy);
    Ok(Rule {
        name: name.clone(),
        requires,
        matches,
        lost: vec![],
        backends,
        strategy,
        attempts,
    })
}

fn backend(route: &Key, rule: &str, backend: &api::BackendRef) -> Result<Backend, String> {
    let weight = u32::try_from(backend.weight)
        .map_err(|_| format!("rule {rule}: a weight must be 0 or more"))?;
    let target = &backend.provider_ref;
    let namespace = target.namespace.as_ref().unwrap_or(&route.namespace);
    let provider = Key::new(namespace, &target.name);
    Ok(Backend {
        provider,
        model: backend.model.clone(),
        weight,
        refused: None,
    })
}

const fn strategy(strategy: api::Strategy) -> Strategy {
    match strategy {
        api::Strategy::LeastLoad => Strategy::LeastLoad,
        api::Strategy::PowerOfTwo => Strategy::PowerOfTwo,
        api::Strategy::RoundRobin => Strategy::RoundRobin,
        api::Strategy::Random => Strategy::Random,
    }
}

/// The features that a router must have to serve such a rule; the names are those of the API.
fn requires(matches: &[Match], strategy: api::Strategy) -> Vec<String> {
    let exact = matches.iter().any(|m| matches!(m, Match::Exact(_)));
    let prefix = matches.iter().any(|m| matches!(m, Match::Prefix(_)));
    let kinds = [(exact, "match/Exact"), (prefix, "match/Prefix")];
    let mut requires: Vec<String> = kinds
        .into_iter()
        .filter(|(used, _)| *used)
        .map(|(_, name)| name.to_owned())
        .collect();
    requires.push(format!("strategy/{strategy:?}"));
    requires
}
