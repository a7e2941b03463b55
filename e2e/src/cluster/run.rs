//! The folder of one run, its owner, and the sweep of runs whose owner is gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use super::cgroup;

const END_WITHIN: Duration = Duration::from_mins(1);

/// The process a run belongs to. A process number is used again some day, so the start time goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pid: u32,
    started: u64,
}

impl Owner {
    fn current() -> Result<Self> {
        let pid = std::process::id();
        let started = started(pid).context("reading the start time of this process")?;
        Ok(Self { pid, started })
    }

    /// The owner that a run's name tells.
    pub(super) fn of(name: &str) -> Option<Self> {
        let (pid, started) = name.strip_prefix("refrain-")?.split_once('-')?;
        Some(Self {
            pid: pid.parse().ok()?,
            started: started.parse().ok()?,
        })
    }

    pub(super) fn is_alive(self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// When a process started, in ticks since boot.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may hold anything; the 22nd is the start time.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    // A zombie has ended, though its parent has not noticed.
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// One run's name and folder.
#[derive(Debug, Clone)]
pub(super) struct Run {
    name: String,
    folder: PathBuf,
}

impl Run {
    /// Makes the folder of this process's run.
    pub(super) fn create() -> Result<Self> {
        let owner = Owner::current()?;
        let name = format!("refrain-{}-{}", owner.pid, owner.started);
        let folder = parent().join(&name);
        fs::create_dir(&folder)
            .with_context(|| format!("making the run folder {}", folder.display()))?;
        for part in ["pki", "log", "cni"] {
            fs::create_dir(folder.join(part))?;
        }
        Ok(Self { name, folder })
    }

    /// The run that the host side of this process has made.
    pub(super) fn at(folder: &Path) -> Result<Self> {
        let name = folder
            .file_name()
            .and_then(|name| name.to_str())
            .context("a run folder has a name")?;
        Ok(Self {
            name: name.to_owned(),
            folder: folder.to_owned(),
        })
    }

    /// Also the name of its cgroup root.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn path(&self, inner: &str) -> PathBuf {
        self.folder.join(inner)
    }

    /// Asks the owner to end, and waits until it has cleaned up. What a dead owner has left is removed.
    pub(super) async fn end(&self) -> Result<()> {
        let owner = Owner::of(&self.name)
            .with_context(|| format!("{} is no run folder", self.folder.display()))?;
        if owner.is_alive() {
            let pid =
                Pid::from_raw(owner.pid.try_into()?).context("a process number is not zero")?;
            kill_process(pid, Signal::TERM)?;
        }
        let deadline = Instant::now() + END_WITHIN;
        while owner.is_alive() {
            ensure!(
                Instant::now() < deadline,
                "process {} does not end",
                owner.pid
            );
            sleep(Duration::from_millis(100)).await;
        }
        sweep().await
    }

    /// Removes all traces, once the namespaces are gone.
    pub(super) async fn remove(&self) -> Result<()> {
        cgroup::remove(&self.name).await?;
        remove_folder(&self.folder)
    }
}

/// Removes what runs whose owner was killed have left behind.
pub(super) async fn sweep() -> Result<()> {
    for name in cgroup::leftovers() {
        cgroup::remove(&name).await?;
    }
    for entry in fs::read_dir(parent())?.flatten() {
        let name = entry.file_name();
        if name
            .to_str()
            .and_then(Owner::of)
            .is_some_and(|owner| !owner.is_alive())
        {
            remove_folder(&entry.path())?;
        }
    }
    Ok(())
}

fn remove_folder(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))
}

/// Where the run folders are. Sockets have short names and the namespace has a `/run` of its own, so a temporary folder
/// in there will not do.
fn parent() -> PathBuf {
    let temporary = std::env::temp_dir();
    if temporary.starts_with("/run") || temporary.as_os_str().len() > 40 {
        return PathBuf::from("/tmp");
    }
    temporary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_belongs_to_the_process_its_name_tells() {
        let me = Owner::current().unwrap();
        let name = format!("refrain-{}-{}", me.pid, me.started);
        assert_eq!(Owner::of(&name), Some(me));
        assert!(me.is_alive());
    }

    #[test]
    fn a_process_number_that_is_used_again_is_another_owner() {
        let me = Owner::current().unwrap();
        assert!(
            !Owner {
                started: me.started + 1,
                ..me
            }
            .is_alive()
        );
    }

    #[test]
    fn other_names_belong_to_nobody() {
        for name in [
            "refrain",
            "refrain-probe-12",
            "refrain-12",
            "docker-1-2",
            "refrain-1-2-3",
        ] {
            assert_eq!(Owner::of(name), None, "{name}");
        }
    }
}
