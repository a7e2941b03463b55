//! Whether this machine can run the cluster, and what to do if not.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::cgroup;
use super::stage::NAMESPACES;
use crate::environment;

/// What is missing, said as what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Reason {}

/// The programs the cluster calls, and the Debian package each comes from.
const PROGRAMS: [(&str, &str); 9] = [
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("mount", "mount"),
    ("ip", "iproute2"),
    ("nft", "nftables"),
    ("iptables", "iptables"),
    ("conntrack", "conntrack"),
    ("runc", "runc"),
    ("buildah", "buildah"),
];

/// The network plugins pods are connected with.
pub(super) const CNI: &str = "/usr/lib/cni";

/// Checks everything the cluster needs from the machine.
pub fn supported() -> Result<(), Reason> {
    if super::stage::is_inside() {
        return Err(Reason(
            "this process already runs inside a test cluster: start it from outside".to_owned(),
        ));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(Reason(
            "the test cluster makes namespaces and cgroups: run as root, or point REFRAIN_KUBECONFIG and \
             REFRAIN_IMAGE_PREFIX at a cluster you have"
                .to_owned(),
        ));
    }
    for (program, package) in PROGRAMS {
        if find(program).is_none() {
            return Err(Reason(format!(
                "`{program}` is not installed: run scripts/setup.sh, or install the package {package}"
            )));
        }
    }
    for plugin in ["ptp", "host-local", "portmap", "loopback"] {
        if !Path::new(CNI).join(plugin).exists() {
            return Err(Reason(format!(
                "{CNI}/{plugin} is missing: run scripts/setup.sh, or install the package containernetworking-plugins"
            )));
        }
    }
    namespaces()?;
    cgroup::probe().map_err(|error| {
        Reason(format!(
            "the cgroup tree cannot be written ({error:#}): run on the host itself or in a container with \
             --privileged --cgroupns=host"
        ))
    })
}

fn namespaces() -> Result<(), Reason> {
    let tried = Command::new("unshare")
        .args(NAMESPACES)
        .args([
            "sh",
            "-c",
            "mount -n -t tmpfs none /tmp && ip link add a0 type veth peer name a1 && nft list tables",
        ])
        .stdin(Stdio::null())
        .output();
    let said = match tried {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr)
            .trim()
            .replace('\n', "; "),
        Err(error) => error.to_string(),
    };
    Err(Reason(format!(
        "the kernel does not let this process make net, mount and pid namespaces with veth and nftables in them \
         ({said}): run on the host itself or in a container with --privileged"
    )))
}

fn find(program: &str) -> Option<PathBuf> {
    let path = environment::search_path();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
