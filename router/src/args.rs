//! Every setting of the process. Nothing else reads the environment.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::telemetry::Format;

/// Sends each LLM request to the engine replica that has already done the work.
///
/// In a cluster it serves the snapshot that the operator writes, and follows the engines'
/// EndpointSlices itself. With --manifests it serves from files: no cluster is needed.
#[derive(Parser, Clone, Debug)]
#[command(name = "refrain-router", version, max_term_width = 100)]
pub struct Args {
    /// Address for clients' requests.
    #[arg(
        long,
        env = "REFRAIN_LISTEN",
        value_name = "IP:PORT",
        default_value = "0.0.0.0:8080"
    )]
    #[arg(value_parser = address)]
    pub listen: SocketAddr,

    /// Address for /livez, /readyz and /metrics.
    #[arg(
        long,
        env = "REFRAIN_ADMIN",
        value_name = "IP:PORT",
        default_value = "0.0.0.0:9090"
    )]
    #[arg(value_parser = address)]
    pub admin: SocketAddr,

    /// Serve from the *.yaml, *.yml and *.json files in this folder instead of a cluster.
    ///
    /// They hold Providers and Routes, and the Services, EndpointSlices, Secrets, ConfigMaps and
    /// ReferenceGrants that these refer to. The folder is followed; a bad edit keeps the last good
    /// form.
    #[arg(long, env = "REFRAIN_MANIFESTS", value_name = "DIR")]
    pub manifests: Option<PathBuf>,

    /// Largest request body; larger ones get 413. Bytes, or a number with Ki or Mi.
    #[arg(
        long,
        env = "REFRAIN_MAX_BODY_BYTES",
        value_name = "BYTES",
        default_value = "33554432"
    )]
    #[arg(value_parser = bytes)]
    pub max_body_bytes: usize,

    /// How long running requests may take to end at shutdown, for example 300s or 5m.
    #[arg(
        long,
        env = "REFRAIN_SHUTDOWN_GRACE",
        value_name = "DURATION",
        default_value = "300s"
    )]
    #[arg(value_parser = duration)]
    pub shutdown_grace: Duration,

    /// How long new requests are still taken at shutdown after /readyz has said no, so that load
    /// balancers notice first.
    #[arg(
        long,
        env = "REFRAIN_DRAIN_DELAY",
        value_name = "DURATION",
        default_value = "0s"
    )]
    #[arg(value_parser = duration)]
    pub drain_delay: Duration,

    /// Namespace of this pod, where the snapshot Secret is and the Lease goes. Default: the one
    /// of the service account or kubeconfig.
    #[arg(long, env = "REFRAIN_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,

    /// Name of this pod, and so of its Lease. Without it nothing is reported to the operator.
    #[arg(long, env = "REFRAIN_POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,

    /// UID of this pod, by which its Lease goes when the pod goes.
    #[arg(long, env = "REFRAIN_POD_UID", value_name = "UID")]
    pub pod_uid: Option<String>,

    /// Name of the routers' Service: the operator finds their Leases by it.
    #[arg(long, env = "REFRAIN_ROUTER_SERVICE", value_name = "NAME")]
    #[arg(default_value = "refrain-router")]
    pub router_service: String,

    /// Name of the Secret with the snapshot.
    #[arg(long, env = "REFRAIN_SNAPSHOT_SECRET", value_name = "NAME")]
    #[arg(default_value = "refrain-snapshot")]
    pub snapshot_secret: String,

    /// Folder for copies of the last snapshot and endpoints, so that a restart serves while the
    /// API server is away. They hold credentials: use an emptyDir with medium Memory.
    #[arg(long, env = "REFRAIN_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// error, warn, info, debug or trace; or directives such as info,hyper=debug.
    #[arg(
        long,
        env = "REFRAIN_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    pub log_level: String,

    /// How log lines look.
    #[arg(long, env = "REFRAIN_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t = Format::Json)]
    pub log_format: Format,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "write an IP address and a port, for example 0.0.0.0:8080".to_owned())
}

fn bytes(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let (number, unit) = match (text.strip_suffix("Ki"), text.strip_suffix("Mi")) {
        (Some(number), _) => (number, 1024),
        (_, Some(number)) => (number, 1024 * 1024),
        _ => (text, 1),
    };
    let bytes = number
        .parse::<usize>()
        .ok()
        .and_then(|n| n.checked_mul(unit));
    bytes.filter(|&bytes| bytes > 0).ok_or_else(|| {
        "write a number of bytes above 0, alone or with Ki or Mi, for example 32Mi".to_owned()
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    let millis = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    match millis {
        Some(millis) if unit > 0 => Ok(Duration::from_millis(millis)),
        _ => Err("write a whole number with a unit, for example 500ms, 30s, 5m or 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(args: &[&str]) -> Result<Args, String> {
        let args = std::iter::once(&"refrain-router").chain(args);
        Args::try_parse_from(args).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_is_sound_and_its_defaults_are_the_documented_ones() {
        Args::command().debug_assert();
        let args = parse(&[]).unwrap();
        assert_eq!(args.listen.to_string(), "0.0.0.0:8080");
        assert_eq!(args.admin.to_string(), "0.0.0.0:9090");
        assert_eq!(args.max_body_bytes, 32 * 1024 * 1024);
        assert_eq!(args.shutdown_grace, Duration::from_mins(5));
        assert_eq!(args.drain_delay, Duration::ZERO);
        assert_eq!(args.snapshot_secret, "refrain-snapshot");
        assert_eq!(args.log_format, Format::Json);
    }

    #[test]
    fn every_flag_has_its_environment_twin() {
        for arg in Args::command().get_arguments() {
            let Some(long) = arg.get_long().filter(|l| !["help", "version"].contains(l)) else {
                continue;
            };
            let twin = format!("REFRAIN_{}", long.replace('-', "_").to_uppercase());
            assert_eq!(arg.get_env(), Some(twin.as_ref()), "{long}");
        }
    }

    #[test]
    fn sizes_and_durations_are_read_with_their_units() {
        for (text, value) in [("1", 1), ("64Ki", 65_536), ("32Mi", 33_554_432)] {
            assert_eq!(bytes(text), Ok(value));
        }
        for (text, millis) in [
            ("0s", 0),
            ("500ms", 500),
            ("5m", 300_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)));
        }
    }

    #[test]
    fn a_wrong_value_is_answered_with_what_to_write() {
        let table = [
            (["--max-body-bytes", "32MB"], "for example 32Mi"),
            (["--max-body-bytes", "0"], "above 0"),
            (["--max-body-bytes", "-1"], "above 0"),
            (
                ["--max-body-bytes", "99999999999999999999Mi"],
                "for example 32Mi",
            ),
            (["--shutdown-grace", "300"], "for example 500ms"),
            (["--shutdown-grace", "1d"], "for example 500ms"),
            (["--drain-delay", "-5s"], "for example 500ms"),
            (["--listen", "8080"], "0.0.0.0:8080"),
            (["--admin", "localhost:9090"], "0.0.0.0:8080"),
            (["--log-format", "xml"], "json, text"),
        ];
        for (args, word) in table {
            let args = [format!("{}={}", args[0], args[1])];
            let error = parse(&[args[0].as_str()]).unwrap_err();
            assert!(error.contains(word), "{args:?}: {error}");
        }
    }
}
