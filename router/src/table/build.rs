use std::collections::HashMap;
use std::sync::Arc;

use crds::report::Refusal;
use crds::snapshot::{self, Auth, Key, Kind, Snapshot};
use http::{HeaderName, HeaderValue};

use super::claims::Claims;
use super::{Backend, Credential, Provider, Rule};
use crate::fleet::Fleet;
use crate::metrics::Meters;

pub(super) fn claims(snapshot: &Snapshot, fleet: &Fleet) -> (Claims, Vec<Refusal>) {
    let mut refusals = Vec::new();
    let providers: HashMap<&Key, Arc<Provider>> = snapshot
        .providers
        .iter()
        .map(|p| (&p.origin.key, Arc::new(provider(p, &mut refusals))))
        .collect();
    let mut claims = Claims::default();
    for route in &snapshot.routes {
        for written in &route.rules {
            let backend = |b| backend(b, route, &providers, fleet);
            let backends = written.backends.iter().map(backend).collect();
            let rule = Arc::new(rule(written, route, backends, &mut refusals));
            for claim in &written.matches {
                claims.add(claim, &rule);
            }
        }
    }
    (claims.sorted(), refusals)
}

fn rule(
    written: &snapshot::Rule,
    route: &snapshot::Route,
    backends: Vec<Arc<Backend>>,
    refusals: &mut Vec<Refusal>,
) -> Rule {
    let refused = written.supported().err().map(|unsupported| {
        let message = unsupported.to_string();
        refusals.push(Refusal {
            kind: Kind::Route,
            key: route.origin.key.clone(),
            reason: "Unsupported".to_owned(),
            message: message.clone(),
        });
        message
    });
    Rule {
        route: route.origin.key.to_string(),
        name: written.name.clone(),
        created: unix_seconds(&route.origin.created),
        strategy: written.strategy,
        attempts: written.attempts,
        backends,
        refused,
    }
}

fn backend(
    written: &snapshot::Backend,
    route: &snapshot::Route,
    providers: &HashMap<&Key, Arc<Provider>>,
    fleet: &Fleet,
) -> Arc<Backend> {
    let provider = providers.get(&written.provider);
    let provider = provider.map_or_else(|| Arc::new(absent(&written.provider)), Arc::clone);
    let refused = written
        .refused
        .as_ref()
        .map(|refused| refused.message.clone());
    Arc::new(Backend {
        refused: refused.or_else(|| provider.refused.clone()),
        pool: fleet.pool(&written.provider),
        model: written.model.clone(),
        weight: written.weight,
        meters: Meters::new(&route.origin.key.to_string(), &provider.label),
        provider,
    })
}

fn absent(key: &Key) -> Provider {
    Provider {
        label: key.to_string(),
        models: HashMap::new(),
        credential: Credential::None,
        refused: Some(format!("there is no Provider {key}")),
    }
}

fn provider(written: &snapshot::Provider, refusals: &mut Vec<Refusal>) -> Provider {
    let mut refused = written
        .refused
        .as_ref()
        .map(|refused| refused.message.clone());
    let credential = match credential(written.auth.as_ref()) {
        Ok(credential) => credential,
        Err(message) => {
            // Without its Secret the Provider is refused already, and the operator says why.
            if refused.is_none() {
                refusals.push(Refusal {
                    kind: Kind::Provider,
                    key: written.origin.key.clone(),
                    reason: "InvalidCredential".to_owned(),
                    message: message.clone(),
                });
                refused = Some(message);
            }
            Credential::None
        }
    };
    let model = |(name, upstream): &(String, String)| (name.clone(), Arc::from(upstream.as_str()));
    Provider {
        label: written.origin.key.to_string(),
        models: written.models.iter().map(model).collect(),
        credential,
        refused,
    }
}

fn credential(auth: Option<&Auth>) -> Result<Credential, String> {
    let (name, prefix, secret_ref, secret) = match auth {
        None => return Ok(Credential::None),
        Some(Auth::Passthrough) => return Ok(Credential::Passthrough),
        Some(Auth::Header {
            name,
            prefix,
            secret_ref,
            secret,
        }) => (name, prefix, secret_ref, secret),
    };
    let (secret_name, key) = (&secret_ref.name, &secret_ref.key);
    if secret.is_empty() {
        return Err(format!(
            "Secret {secret_name} has no credential at key {key}"
        ));
    }
    let header = HeaderName::try_from(name.as_str())
        .map_err(|_| format!("{name} is not a header name: correct spec.auth.headerName"))?;
    let mut value = HeaderValue::try_from(format!("{prefix}{secret}")).map_err(|_| {
        format!(
            "the credential at key {key} of Secret {secret_name} holds characters that no header \
             carries: correct it (a trailing line break, perhaps)"
        )
    })?;
    value.set_sensitive(true);
    Ok(Credential::Header(header, value))
}

fn unix_seconds(rfc3339: &str) -> i64 {
    rfc3339
        .parse::<jiff::Timestamp>()
        .map_or(0, jiff::Timestamp::as_second)
}
