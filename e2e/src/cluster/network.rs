//! Addresses and network of the namespace. Nothing leads out of it: the default route ends in a veth pair nobody
//! listens on, and exists because kubelet and the network plugins look for one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::command::{mount, run};

/// The address of the node, of the API server and of DNS.
pub const NODE: &str = "10.77.0.1";
/// The addresses of Services.
pub(super) const SERVICES: &str = "10.96.0.0/16";
/// The address of the Service `kubernetes`.
pub(super) const SERVICE_API: &str = "10.96.0.1";
/// The addresses of pods.
pub(super) const PODS: &str = "10.78.0.0/16";

pub(super) async fn set_up(folder: &Path) -> Result<()> {
    let steps = [
        "link set lo up".to_owned(),
        format!("addr add {NODE}/32 dev lo"),
        "link add up0 type veth peer name up1".to_owned(),
        "addr add 10.77.0.2/24 dev up0".to_owned(),
        "link set up0 up".to_owned(),
        "link set up1 up".to_owned(),
        "route add default via 10.77.0.254 dev up0".to_owned(),
    ];
    for step in steps {
        run("ip", step.split(' ')).await?;
    }
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("turning on IP forwarding")?;
    names(folder).await
}

/// Programs in the namespace resolve Services as pods do.
async fn names(folder: &Path) -> Result<()> {
    let resolver = folder.join("resolv.conf");
    fs::write(
        &resolver,
        format!("nameserver {NODE}\nsearch svc.cluster.local cluster.local\noptions ndots:3\n"),
    )?;
    let target = fs::canonicalize("/etc/resolv.conf").context("following /etc/resolv.conf")?;
    mount(["--bind".as_ref(), resolver.as_os_str(), target.as_os_str()]).await
}

/// Pods are connected by routes, not by a bridge: that needs no bridge netfilter in the host's kernel.
pub(super) fn plugins(folder: &Path) -> Result<()> {
    let addresses = serde_json::json!({
        "type": "host-local",
        "ranges": [[{ "subnet": PODS }]],
        "routes": [{ "dst": "0.0.0.0/0" }],
        "dataDir": folder.join("addresses"),
    });
    let list = serde_json::json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            { "type": "ptp", "ipam": addresses },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    });
    fs::write(folder.join("cni/10-pods.conflist"), list.to_string())?;
    Ok(())
}
