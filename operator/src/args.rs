//! The settings of the process. Nothing else reads the environment.

use std::net::SocketAddr;

use clap::{Parser, ValueEnum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// Compiles Routes and Providers into the snapshot that Refrain's routers serve from.
#[derive(Parser, Clone, Debug)]
#[command(version, about)]
pub struct Args {
    /// Namespace of this operator: where the snapshot, the Leases and the routers are.
    #[arg(long, env = "REFRAIN_NAMESPACE", value_parser = namespace)]
    pub namespace: String,

    /// Namespaces to watch besides its own, separated by commas. Not used with --scope Cluster.
    #[arg(long, env = "REFRAIN_WATCH_NAMESPACES", default_value = "", value_parser = namespaces)]
    pub watch_namespaces: Namespaces,

    /// Namespaced watches its own namespace and --watch-namespaces; Cluster watches them all.
    #[arg(
        long,
        env = "REFRAIN_SCOPE",
        default_value = "Namespaced",
        ignore_case = true
    )]
    pub scope: Scope,

    /// Name of this replica, unique among them: its pod's name.
    #[arg(long, env = "REFRAIN_IDENTITY", value_parser = identity)]
    pub identity: String,

    /// UID of this replica's pod. It keeps a recreated pod of the same name apart.
    #[arg(long, env = "REFRAIN_POD_UID")]
    pub pod_uid: Option<String>,

    /// Name of the Secret that carries the snapshot.
    #[arg(long, env = "REFRAIN_SNAPSHOT_SECRET", default_value = "refrain-snapshot", value_parser = name)]
    pub snapshot_secret: String,

    /// Name of the Lease whose holder writes.
    #[arg(long, env = "REFRAIN_LEASE", default_value = "refrain-operator", value_parser = name)]
    pub lease: String,

    /// Name of the Service whose EndpointSlices list the router pods.
    #[arg(long, env = "REFRAIN_ROUTER_SERVICE", default_value = "refrain-router", value_parser = namespace)]
    pub router_service: String,

    /// Where livez, readyz and metrics are served.
    #[arg(long, env = "REFRAIN_ADMIN", default_value = "0.0.0.0:9090", value_parser = address)]
    pub admin: SocketAddr,

    /// error, warn, info, debug or trace; or directives such as `info,refrain_operator=debug`.
    #[arg(long, env = "REFRAIN_LOG_LEVEL", default_value = "info", value_parser = level)]
    pub log_level: String,

    /// json for machines, text for people.
    #[arg(
        long,
        env = "REFRAIN_LOG_FORMAT",
        default_value = "json",
        ignore_case = true
    )]
    pub log_format: LogFormat,
}

impl Args {
    /// The namespaces to watch; none means all of them.
    pub fn namespaces(&self) -> Vec<Option<String>> {
        match self.scope {
            Scope::Cluster => vec![None],
            Scope::Namespaced => {
                let mut all = self.watch_namespaces.0.clone();
                all.push(self.namespace.clone());
                all.sort();
                all.dedup();
                all.into_iter().map(Some).collect()
            }
        }
    }

    /// The pod that this process runs in, if it was told.
    pub fn pod(&self) -> Option<OwnerReference> {
        let uid = self.pod_uid.clone().filter(|uid| !uid.is_empty())?;
        Some(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: self.identity.clone(),
            uid,
            ..OwnerReference::default()
        })
    }

    /// What the Lease and Events call this replica.
    pub fn holder(&self) -> String {
        match self.pod_uid.as_deref().filter(|uid| !uid.is_empty()) {
            Some(uid) => format!("{}_{uid}", self.identity),
            None => self.identity.clone(),
        }
    }
}

/// Which namespaces are watched.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The operator's own and those it is told.
    #[value(name = "Namespaced")]
    Namespaced,
    /// All.
    #[value(name = "Cluster")]
    Cluster,
}

/// How log lines look.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// Readable lines.
    Text,
}

/// Names of namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(pub Vec<String>);

fn namespaces(text: &str) -> Result<Namespaces, String> {
    let names = text.split(',').map(str::trim).filter(|n| !n.is_empty());
    names
        .map(namespace)
        .collect::<Result<_, _>>()
        .map(Namespaces)
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn namespace(text: &str) -> Result<String, String> {
    if is_label(text) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "write a name of at most 63 lower-case letters, digits and '-', such as team-a, not {text:?}"
        ))
    }
}

fn name(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(is_label) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "write a name of lower-case letters, digits, '-' and '.', such as refrain-snapshot, not {text:?}"
        ))
    }
}

fn identity(text: &str) -> Result<String, String> {
    name(text)
        .map_err(|_| format!("write the pod's name, such as refrain-operator-0, not {text:?}"))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("write an IP address and a port, such as 0.0.0.0:9090, not {text:?}"))
}

fn level(text: &str) -> Result<String, String> {
    tracing_subscriber::EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| format!("write error, warn, info, debug or trace ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(more: &[&str]) -> Result<Args, clap::Error> {
        let base = [
            "refrain-operator",
            "--namespace",
            "own",
            "--identity",
            "pod-0",
        ];
        Args::try_parse_from(base.iter().chain(more))
    }

    #[test]
    fn the_own_namespace_is_watched_once_beside_the_others() {
        let args = parse(&["--watch-namespaces", "b, own,a,"]).unwrap();
        let watched: Vec<_> = args.namespaces().into_iter().flatten().collect();
        assert_eq!(watched, ["a", "b", "own"]);
    }

    #[test]
    fn cluster_scope_watches_everything() {
        let args = parse(&["--scope", "cluster", "--watch-namespaces", "a"]).unwrap();
        assert_eq!(args.namespaces(), [None]);
    }

    #[test]
    fn a_pod_uid_keeps_holders_of_one_name_apart() {
        assert_eq!(parse(&[]).unwrap().holder(), "pod-0");
        assert_eq!(parse(&["--pod-uid", "u1"]).unwrap().holder(), "pod-0_u1");
    }

    #[test]
    fn a_bad_value_says_what_to_write() {
        let table = [
            (["--watch-namespaces", "Team_A"], "team-a"),
            (["--snapshot-secret", "Bad Name"], "refrain-snapshot"),
            (["--admin", "9090"], "0.0.0.0:9090"),
            (["--log-level", "loud=x=y"], "error, warn, info"),
            (["--scope", "Some"], "Namespaced, Cluster"),
            (["--log-format", "xml"], "json, text"),
        ];
        for (args, hint) in table {
            let error = parse(&args).unwrap_err().to_string();
            assert!(error.contains(hint), "{args:?}: {error}");
        }
    }
}
