//! What objects refer to: Service ports, Secrets, Providers and grants. It starts from the
//! accepted forms at each compile, so that what is gone is out at once.

use std::collections::HashMap;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::accept::Accepted;
use super::verdict::{Outcome, reason};
use super::{Objects, Scope};
use crate::api::{Port, SecretRef};
use crate::snapshot::{
    Auth, Backend, Key, Match, Provider, Refused, Route, Rule, Service, ServicePort,
};

/// Resolves a Provider's Service and Secret, in place.
pub(super) fn provider(form: &mut Provider, objects: &Objects) -> Outcome {
    let namespace = form.origin.key.namespace.clone();
    form.service.slice_port = None;
    if let Some(Auth::Header { secret, .. }) = &mut form.auth {
        secret.clear();
    }
    let outcome = match resolve_provider(form, &namespace, objects) {
        Ok(()) => Outcome::good(reason::RESOLVED),
        Err(problem) => problem,
    };
    form.refused = refused(&outcome);
    outcome
}

fn refused(outcome: &Outcome) -> Option<Refused> {
    (!outcome.ok).then(|| Refused {
        reason: outcome.reason.to_owned(),
        message: outcome.message.clone(),
    })
}

fn resolve_provider(
    form: &mut Provider,
    namespace: &str,
    objects: &Objects,
) -> Result<(), Outcome> {
    form.service.slice_port = Some(slice_port(&form.service, namespace, objects)?);
    if let Some(Auth::Header {
        secret_ref, secret, ..
    }) = &mut form.auth
    {
        *secret = credential(secret_ref, namespace, objects)?;
    }
    Ok(())
}

/// The port as the Service's EndpointSlices say it.
fn slice_port(
    service: &Service,
    namespace: &str,
    objects: &Objects,
) -> Result<ServicePort, Outcome> {
    let Some(found) = objects.services.get(&Key::new(namespace, &service.name)) else {
        return match (objects.scope, &service.port) {
            (Scope::Files, Port::Number(number)) => Ok(ServicePort::Number(*number)),
            (Scope::Files, Port::Name(name)) => Ok(ServicePort::Name(name.clone())),
            (Scope::Cluster, _) => Err(Outcome::bad(
                reason::SERVICE_NOT_FOUND,
                format!(
                    "there is no Service {} in namespace {namespace}: create it",
                    service.name
                ),
            )),
        };
    };
    let ports = found
        .spec
        .as_ref()
        .and_then(|s| s.ports.as_deref())
        .unwrap_or_default();
    let asked = |port: &&core::ServicePort| match &service.port {
        Port::Number(number) => port.port == i32::from(*number),
        Port::Name(name) => port.name.as_deref() == Some(name),
    };
    match ports.iter().find(asked) {
        Some(port) => Ok(ServicePort::Name(port.name.clone().unwrap_or_default())),
        None => Err(Outcome::bad(
            reason::PORT_NOT_FOUND,
            no_port(service, ports),
        )),
    }
}

fn no_port(service: &Service, ports: &[core::ServicePort]) -> String {
    let shown = |p: &core::ServicePort| match &p.name {
        Some(name) => format!("{name} ({})", p.port),
        None => p.port.to_string(),
    };
    let has = if ports.is_empty() {
        "no ports".to_owned()
    } else {
        ports.iter().map(shown).collect::<Vec<_>>().join(", ")
    };
    let target = |p: &core::ServicePort| match (&p.target_port, &service.port) {
        (Some(IntOrString::Int(target)), Port::Number(asked)) => *target == i32::from(*asked),
        _ => false,
    };
    let hint = if ports.iter().any(target) {
        " (that is its targetPort: write the Service's own port)"
    } else {
        ""
    };
    format!(
        "Service {} has {has} and not {}{hint}: correct spec.service.port",
        service.name, service.port
    )
}

fn credential(secret: &SecretRef, namespace: &str, objects: &Objects) -> Result<String, Outcome> {
    let SecretRef { name, key } = secret;
    let Some(found) = objects.secrets.get(&Key::new(namespace, name)) else {
        return Err(Outcome::bad(
            reason::SECRET_NOT_FOUND,
            format!(
                "there is no Secret {name} in namespace {namespace}: create it with the key {key}"
            ),
        ));
    };
    let text = found
        .string_data
        .as_ref()
        .and_then(|data| data.get(key))
        .map(String::as_bytes);
    let data = found
        .data
        .as_ref()
        .and_then(|data| data.get(key))
        .map(|bytes| bytes.0.as_slice());
    let Some(bytes) = text.or(data) else {
        return Err(Outcome::bad(
            reason::SECRET_NOT_FOUND,
            format!("Secret {name} has no key {key}: add it, or name another in secretRef.key"),
        ));
    };
    let value = bytes.trim_ascii();
    let sendable = |b: &u8| (0x21..=0x7e).contains(b) || *b == b' ';
    match std::str::from_utf8(value) {
        Ok(value) if !value.is_empty() && value.bytes().all(|b| sendable(&b)) => {
            Ok(value.to_owned())
        }
        _ => Err(Outcome::bad(
            reason::INVALID_SECRET,
            format!("key {key} of Secret {name} must hold one line of printable ASCII"),
        )),
    }
}

/// Resolves a Route's backends, in place.
pub(super) fn route(
    form: &mut Route,
    providers: &HashMap<Key, &Accepted<Provider>>,
    objects: &Objects,
) -> Outcome {
    let namespace = form.origin.key.namespace.clone();
    let mut first = None;
    for rule in &mut form.rules {
        let exact = exact_models(rule);
        for backend in &mut rule.backends {
            let outcome = backend_outcome(backend, &namespace, providers, objects);
            backend.refused = refused(&outcome);
            let told = if outcome.ok {
                unlisted(backend, &exact, providers)
            } else {
                Some(outcome)
            };
            if let Some(Outcome {
                reason, message, ..
            }) = told
                && first.is_none()
            {
                first = Some(Outcome::bad(
                    reason,
                    format!("rule {}: {message}", rule.name),
                ));
            }
        }
    }
    first.unwrap_or_else(|| Outcome::good(reason::RESOLVED))
}

fn exact_models(rule: &Rule) -> Vec<String> {
    let exact = |m: &Match| {
        if let Match::Exact(name) = m {
            Some(name.clone())
        } else {
            None
        }
    };
    rule.matches.iter().filter_map(exact).collect()
}

fn backend_outcome(
    backend: &Backend,
    namespace: &str,
    providers: &HashMap<Key, &Accepted<Provider>>,
    objects: &Objects,
) -> Outcome {
    let key = &backend.provider;
    let granted = |g: &super::Grant| g.namespace == key.namespace && g.allows(namespace, &key.name);
    // Consent comes first: without it nothing is said of what exists in the other namespace.
    if key.namespace != namespace && !objects.grants.iter().any(granted) {
        return Outcome::bad(
            reason::REF_NOT_PERMITTED,
            format!(
                "no ReferenceGrant in namespace {} allows Routes of namespace {namespace} to use \
                 Provider {}: create one there",
                key.namespace, key.name
            ),
        );
    }
    let Some(provider) = providers.get(key) else {
        return Outcome::bad(
            reason::PROVIDER_NOT_FOUND,
            format!(
                "there is no Provider {} in namespace {}: create it",
                key.name, key.namespace
            ),
        );
    };
    match &provider.form {
        None => Outcome::bad(
            reason::PROVIDER_NOT_READY,
            format!("Provider {key} is not accepted: see its condition Accepted"),
        ),
        Some(form) => match (&form.refused, &backend.model) {
            (Some(refused), _) => Outcome::bad(
                reason::PROVIDER_NOT_READY,
                format!(
                    "Provider {key} cannot be used ({}): see its condition ResolvedRefs",
                    refused.reason
                ),
            ),
            (None, Some(model)) if !serves(form, model) => not_listed(key, model),
            (None, _) => Outcome::good(reason::RESOLVED),
        },
    }
}

/// A model that the rule takes and the Provider's list lacks. The router leaves the backend out
/// for that model only.
fn unlisted(
    backend: &Backend,
    exact: &[String],
    providers: &HashMap<Key, &Accepted<Provider>>,
) -> Option<Outcome> {
    let form = providers.get(&backend.provider)?.form.as_ref()?;
    let missing = exact
        .iter()
        .find(|model| backend.model.is_none() && !serves(form, model))?;
    Some(not_listed(&backend.provider, missing))
}

fn serves(provider: &Provider, model: &str) -> bool {
    provider.models.is_empty() || provider.models.iter().any(|(name, _)| name == model)
}

fn not_listed(provider: &Key, model: &str) -> Outcome {
    Outcome::bad(
        reason::MODEL_NOT_FOUND,
        format!(
            "Provider {provider} does not list the model {model}: add it to its models, or set backendRefs[].model"
        ),
    )
}
