//! The cgroup root of a run. Every cluster has its own, since two kubelets on one root kill each other's pods, and it
//! outlives the processes in it, so removing it is the host's task.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::run::Owner;

const MOUNT: &str = "/sys/fs/cgroup";
/// What a kubelet insists on under cgroup v2.
const REQUIRED: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];
const EMPTY_WITHIN: Duration = Duration::from_secs(20);

/// The folders under which every run has one of its own: one with cgroup v2, one per controller with v1.
fn roots(mount: &Path) -> Vec<PathBuf> {
    if is_v2(mount) {
        return vec![mount.to_owned()];
    }
    let Ok(entries) = fs::read_dir(mount) else {
        return Vec::new();
    };
    let mut roots: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").exists())
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    roots.sort();
    roots.dedup();
    roots
}

fn is_v2(mount: &Path) -> bool {
    mount.join("cgroup.controllers").exists()
}

/// Makes the run's cgroup root in every hierarchy.
pub(super) fn create(name: &str) -> Result<()> {
    create_under(Path::new(MOUNT), name)
}

fn create_under(mount: &Path, name: &str) -> Result<()> {
    let roots = roots(mount);
    if roots.is_empty() {
        bail!("no cgroup hierarchy is mounted at {}", mount.display());
    }
    if is_v2(mount) {
        delegate(mount)?;
    }
    for root in roots {
        let own = root.join(name);
        fs::create_dir_all(&own).with_context(|| format!("making the cgroup {}", own.display()))?;
        if is_v2(mount) {
            delegate(&own)?;
        }
        // A new cpuset of cgroup v1 has no processors and no memory: nothing could run in it.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if root.join(file).exists() {
                let all = fs::read_to_string(root.join(file))?;
                fs::write(own.join(file), all.trim())?;
            }
        }
    }
    Ok(())
}

/// Hands the controllers of a v2 cgroup on to its children.
fn delegate(group: &Path) -> Result<()> {
    let control = group.join("cgroup.subtree_control");
    let available = fs::read_to_string(group.join("cgroup.controllers"))?;
    for controller in available.split_whitespace() {
        let given = fs::write(&control, format!("+{controller}"));
        if REQUIRED.contains(&controller) {
            given.with_context(|| format!("enabling {controller} in {}", control.display()))?;
        }
    }
    Ok(())
}

/// Whether a run could have its cgroups here.
pub(super) fn probe() -> Result<()> {
    let name = format!("refrain-probe-{}", std::process::id());
    let made = create(&name);
    for root in roots(Path::new(MOUNT)) {
        drop(fs::remove_dir(root.join(&name)));
    }
    made
}

/// Removes the run's cgroups once they are empty. A process that is still in one after a while is killed: nothing but
/// the run's pods was ever in there.
pub(super) async fn remove(name: &str) -> Result<()> {
    let deadline = Instant::now() + EMPTY_WITHIN;
    let mut tries = 0;
    for tree in roots(Path::new(MOUNT))
        .into_iter()
        .map(|root| root.join(name))
    {
        while let Err(reason) = remove_tree(&tree) {
            if Instant::now() > deadline {
                return Err(reason)
                    .with_context(|| format!("removing the cgroup {}", tree.display()));
            }
            tries += 1;
            if tries > 20 {
                kill_all(&tree);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

fn remove_tree(tree: &Path) -> io::Result<()> {
    for child in children(tree)? {
        remove_tree(&child)?;
    }
    absent_is_fine(fs::remove_dir(tree))
}

fn children(tree: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(tree) {
        Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    Ok(entries
        .flatten()
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
        .map(|e| e.path())
        .collect())
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(gone) if gone.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn kill_all(tree: &Path) {
    for child in children(tree).unwrap_or_default() {
        kill_all(&child);
    }
    let members = fs::read_to_string(tree.join("cgroup.procs")).unwrap_or_default();
    for pid in members
        .lines()
        .filter_map(|line| line.parse().ok())
        .filter_map(Pid::from_raw)
    {
        // One that has just ended is as good as one that is killed.
        match kill_process(pid, Signal::KILL) {
            Ok(()) | Err(_) => {}
        }
    }
}

/// The names of cgroups whose run is over.
pub(super) fn leftovers() -> Vec<String> {
    let mut names: Vec<String> = roots(Path::new(MOUNT))
        .iter()
        .flat_map(|root| children(root).unwrap_or_default())
        .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
        .filter(|name| Owner::of(name).is_some_and(|owner| !owner.is_alive()))
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests;
