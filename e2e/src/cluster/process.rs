//! One running program of the cluster: started with its output in a log, stopped, frozen, thawed.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::time::timeout;

use super::command::command;
use super::parts::Part;

/// How long a program may take to end when asked to.
const GRACE: Duration = Duration::from_secs(10);
const LINES_OF_LOG: usize = 30;

#[derive(Debug)]
pub(super) struct Process {
    part: Part,
    child: Child,
}

impl Process {
    pub(super) fn start(part: Part, programs: &Path, run: &Path) -> Result<Self> {
        let path = log(run, part);
        let log = OpenOptions::new().create(true).append(true).open(&path)?;
        let child = command(programs.join(part.program()))
            .args(part.arguments(run))
            .env(
                "PATH",
                format!(
                    "{}:{}",
                    programs.display(),
                    crate::environment::search_path()
                ),
            )
            .stdout(log.try_clone()?)
            .stderr(Stdio::from(log))
            .spawn()
            .with_context(|| format!("starting {part}"))?;
        Ok(Self { part, child })
    }

    /// Fails if the program has ended by itself.
    pub(super) fn check(&mut self, run: &Path) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!(
                "{} ended with {status}\n{}",
                self.part,
                tail(run, self.part)
            );
        }
        Ok(())
    }

    pub(super) async fn stop(mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        // A frozen program ends only once it runs again.
        self.signal(Signal::CONT)?;
        if timeout(GRACE, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    pub(super) async fn kill(mut self) -> Result<()> {
        self.child.kill().await?;
        Ok(())
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self
            .child
            .id()
            .with_context(|| format!("{} is not running", self.part))?;
        let pid = Pid::from_raw(pid.try_into()?).context("a process number is not zero")?;
        kill_process(pid, signal)?;
        Ok(())
    }
}

fn log(run: &Path, part: Part) -> PathBuf {
    run.join("log").join(format!("{part}.log"))
}

/// The last lines that a program wrote.
pub(super) fn tail(run: &Path, part: Part) -> String {
    let path = log(run, part);
    let text = std::fs::read(&path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines
        .get(lines.len().saturating_sub(LINES_OF_LOG)..)
        .unwrap_or_default();
    format!("last lines of {}:\n  {}", path.display(), last.join("\n  "))
}
