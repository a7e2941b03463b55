//! The programs a cluster consists of, and what each is started with.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::json;

use super::network::{NODE, SERVICES};
use super::supported::CNI;

/// The name of the one node.
pub const NODE_NAME: &str = "node";

/// A program of the cluster that can be stopped, frozen and started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    Etcd,
    ApiServer,
    ControllerManager,
    Scheduler,
    Containerd,
    Kubelet,
    Proxy,
    Dns,
}

impl Part {
    /// The program's name, which is also the name of its log.
    pub fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::Proxy => "kube-proxy",
            Self::Dns => "coredns",
        }
    }

    /// Its arguments, in a run whose folder is `run`.
    pub(super) fn arguments(self, run: &Path) -> Vec<String> {
        let at = |inner: &str| run.join(inner).display().to_string();
        match self {
            Self::Etcd => etcd(&at("etcd")),
            Self::ApiServer => api_server(&at),
            Self::ControllerManager => controller_manager(&at),
            Self::Scheduler => client_of_api(&at("scheduler.kubeconfig")),
            Self::Containerd => vec!["--config".to_owned(), at("containerd.toml")],
            Self::Kubelet => vec![
                format!("--config={}", at("kubelet.json")),
                format!("--kubeconfig={}", at("kubelet.kubeconfig")),
                format!("--root-dir={}", at("kubelet")),
                format!("--hostname-override={NODE_NAME}"),
                format!("--node-ip={NODE}"),
            ],
            Self::Proxy => vec![
                format!("--kubeconfig={}", at("proxy.kubeconfig")),
                "--proxy-mode=nftables".to_owned(),
                format!("--hostname-override={NODE_NAME}"),
                format!("--bind-address={NODE}"),
                // The limit is a setting of the host's kernel, which is not ours to change.
                "--conntrack-max-per-core=0".to_owned(),
            ],
            Self::Dns => vec!["-conf".to_owned(), at("Corefile")],
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}

fn etcd(data: &str) -> Vec<String> {
    let (clients, peers) = (format!("http://{NODE}:2379"), format!("http://{NODE}:2380"));
    vec![
        format!("--data-dir={data}"),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        // A run's data is worth nothing after the run.
        "--unsafe-no-fsync".to_owned(),
    ]
}

fn api_server(at: &dyn Fn(&str) -> String) -> Vec<String> {
    let pki = |name: &str| at(&format!("pki/{name}"));
    vec![
        format!("--etcd-servers=http://{NODE}:2379"),
        format!("--advertise-address={NODE}"),
        format!("--bind-address={NODE}"),
        format!("--service-cluster-ip-range={SERVICES}"),
        format!("--tls-cert-file={}", pki("apiserver.crt")),
        format!("--tls-private-key-file={}", pki("apiserver.key")),
        format!("--client-ca-file={}", pki("ca.crt")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", pki("accounts.pub")),
        format!("--service-account-signing-key-file={}", pki("accounts.key")),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--kubelet-certificate-authority={}", pki("ca.crt")),
        format!(
            "--kubelet-client-certificate={}",
            pki("apiserver-kubelet.crt")
        ),
        format!("--kubelet-client-key={}", pki("apiserver-kubelet.key")),
        // The node's name resolves nowhere: without this, exec and logs hang.
        "--kubelet-preferred-address-types=InternalIP".to_owned(),
        format!(
            "--requestheader-client-ca-file={}",
            pki("front-proxy-ca.crt")
        ),
        "--requestheader-allowed-names=front-proxy-client".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--proxy-client-cert-file={}", pki("front-proxy.crt")),
        format!("--proxy-client-key-file={}", pki("front-proxy.key")),
    ]
}

fn controller_manager(at: &dyn Fn(&str) -> String) -> Vec<String> {
    let pki = |name: &str| at(&format!("pki/{name}"));
    let mut arguments = client_of_api(&at("controller-manager.kubeconfig"));
    arguments.extend([
        "--use-service-account-credentials=true".to_owned(),
        format!("--service-account-private-key-file={}", pki("accounts.key")),
        format!("--root-ca-file={}", pki("ca.crt")),
        format!("--cluster-signing-cert-file={}", pki("ca.crt")),
        format!("--cluster-signing-key-file={}", pki("ca.key")),
        "--horizontal-pod-autoscaler-sync-period=5s".to_owned(),
        format!("--flex-volume-plugin-dir={}", at("kubelet/plugins")),
    ]);
    arguments
}

/// What the controller manager and the scheduler have in common.
fn client_of_api(kubeconfig: &str) -> Vec<String> {
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        format!("--bind-address={NODE}"),
        "--leader-elect=false".to_owned(),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
    ]
}

/// What differs between runs and machines.
pub(super) struct Settings<'a> {
    pub(super) cgroup: &'a str,
    pub(super) snapshotter: &'a str,
    /// The image that holds a pod's namespaces open.
    pub(super) pause: &'a str,
}

/// Writes the files that the arguments name.
pub(super) fn write(run: &Path, settings: &Settings<'_>) -> Result<()> {
    fs::write(
        run.join("kubelet.json"),
        kubelet(run, settings.cgroup).to_string(),
    )?;
    fs::write(run.join("containerd.toml"), containerd(run, settings))?;
    fs::write(run.join("Corefile"), corefile(run))?;
    Ok(())
}

/// Where containerd listens.
pub(super) fn socket(run: &Path) -> PathBuf {
    run.join("containerd.sock")
}

fn kubelet(run: &Path, cgroup: &str) -> serde_json::Value {
    let endpoint = format!("unix://{}", socket(run).display());
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE,
        "healthzBindAddress": NODE,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{cgroup}"),
        "failCgroupV1": false,
        "failSwapOn": false,
        "containerRuntimeEndpoint": endpoint,
        "authentication": {
            "x509": { "clientCAFile": run.join("pki/ca.crt") },
            "anonymous": { "enabled": false },
            "webhook": { "enabled": true },
        },
        "authorization": { "mode": "Webhook" },
        "tlsCertFile": run.join("pki/kubelet.crt"),
        "tlsPrivateKeyFile": run.join("pki/kubelet.key"),
        "clusterDNS": [NODE],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "podLogsDir": run.join("log/pods"),
        "volumePluginDir": run.join("kubelet/plugins"),
        "serializeImagePulls": false,
        // Images come from archives and could not be pulled again.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "nodefs.available": "1%",
            "nodefs.inodesFree": "1%",
            "imagefs.available": "1%",
            "memory.available": "50Mi",
        },
        "maxPods": 250,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
    })
}

fn containerd(run: &Path, settings: &Settings<'_>) -> String {
    let Settings {
        snapshotter, pause, ..
    } = settings;
    let data = run.join("containerd").display().to_string();
    let plugins = run.join("cni").display().to_string();
    let socket = socket(run).display().to_string();
    // restrict_oom_score_adj: without CAP_SYS_RESOURCE runc may not lower a container's score, and dies with
    // "can't get final child's PID from pipe: EOF".
    format!(
        r#"version = 3
root = "{data}/root"
state = "{data}/state"
imports = []
disabled_plugins = [
  "io.containerd.nri.v1.nri",
  "io.containerd.internal.v1.tracing",
  "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "{socket}"
[ttrpc]
  address = "{socket}.ttrpc"
[plugins.'io.containerd.metadata.v1.bolt']
  no_sync = true
[plugins.'io.containerd.internal.v1.opt']
  path = "{data}/opt"
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{snapshotter}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{CNI}"]
    conf_dir = "{plugins}"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"#
    )
}

fn corefile(run: &Path) -> String {
    let kubeconfig = run.join("dns.kubeconfig").display().to_string();
    format!(
        "cluster.local:53 {{
  bind {NODE}
  errors
  kubernetes cluster.local {{
    kubeconfig {kubeconfig}
    ttl 1
  }}
}}
"
    )
}
