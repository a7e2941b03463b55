//! Images and containers on the node, by way of containerd.

use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use super::parts::socket;
use super::{Cluster, command, output};

/// The main process of a running container.
#[derive(Debug, Clone)]
pub struct Container {
    id: String,
    pid: Pid,
}

impl Cluster {
    /// `ctr` in the namespace that kubelet uses.
    pub(super) fn ctr(&self) -> Command {
        let mut ctr = command(self.programs.join("ctr"));
        ctr.arg("--address")
            .arg(socket(&self.run))
            .args(["--namespace", "k8s.io"]);
        ctr
    }

    /// Loads the images of an archive onto the node.
    pub async fn import(&self, archive: &Path) -> Result<()> {
        output(
            self.ctr()
                .args(["images", "import", "--local"])
                .arg(archive),
        )
        .await
        .map(drop)
    }

    /// Finds a running container of a pod.
    pub async fn container(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<Container> {
        let filter = format!(
            r#"labels."io.kubernetes.pod.namespace"=={namespace},labels."io.kubernetes.pod.name"=={pod},labels."io.kubernetes.container.name"=={container}"#
        );
        let ids = output(self.ctr().args(["containers", "ls", "--quiet", &filter])).await?;
        let tasks = output(self.ctr().args(["tasks", "ls"])).await?;
        for id in ids.lines() {
            let task = tasks.lines().find_map(|line| running(line, id));
            if let Some(pid) = task {
                return Ok(Container {
                    id: id.to_owned(),
                    pid,
                });
            }
        }
        bail!("the container {container} of the pod {namespace}/{pod} is not running")
    }
}

/// The process number in a line of `ctr tasks ls`: id, process, status.
fn running(line: &str, id: &str) -> Option<Pid> {
    let mut fields = line.split_whitespace();
    if fields.next()? != id {
        return None;
    }
    let pid = fields.next()?.parse().ok()?;
    (fields.next()? == "RUNNING")
        .then_some(pid)
        .and_then(Pid::from_raw)
}

impl Container {
    /// Its id in containerd.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its process number, in the namespace that the stories run in.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// Ends it at once, as running out of memory would.
    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// Stops it in its tracks: its connections stay open and nothing answers.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid, signal)
            .with_context(|| format!("signalling the container {}", self.id))
    }
}

#[cfg(test)]
mod tests {
    use super::running;

    #[test]
    fn a_task_is_found_by_its_whole_id_and_only_while_it_runs() {
        let pid = |line, id| running(line, id).map(rustix::process::Pid::as_raw_pid);
        assert_eq!(pid("abc    4711    RUNNING", "abc"), Some(4711));
        assert_eq!(pid("abcd   4711    RUNNING", "abc"), None);
        assert_eq!(pid("abc    4711    STOPPED", "abc"), None);
        assert_eq!(pid("TASK   PID     STATUS", "abc"), None);
    }
}
