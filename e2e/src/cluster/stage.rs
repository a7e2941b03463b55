//! How a program gets into namespaces of its own: it runs itself again.
//!
//! ```text
//! host      the program as it was started; makes the run folder, waits, cleans up
//!  └─ unshare
//!      └─ init     PID 1 of the namespaces: reaps orphans, ends when the host does
//!          └─ inside     starts the cluster and does the work
//! ```
//!
//! When PID 1 ends, the kernel ends every process of the namespace and drops its mounts and network. PID 1 ends when
//! the work is done, when it is killed, and when the pipe on its standard input closes, which happens whenever and
//! however the host ends.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{WaitOptions, WaitStatus, wait};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::run::Run;
use crate::environment;

const STAGE: &str = "REFRAIN_CLUSTER_STAGE";
const FOLDER: &str = "REFRAIN_CLUSTER_RUN";
/// What `unshare` is asked for.
pub(super) const NAMESPACES: [&str; 8] = [
    "--net",
    "--mount",
    "--pid",
    "--uts",
    "--ipc",
    "--fork",
    "--kill-child=SIGKILL",
    "--mount-proc",
];
const END_WITHIN: Duration = Duration::from_secs(10);

/// What this process is.
#[derive(Debug)]
pub(super) enum Stage {
    Host,
    Init,
    Inside(Run),
}

pub(super) fn current() -> Result<Stage> {
    Ok(match environment::read(STAGE).as_deref() {
        None => Stage::Host,
        Some("init") => Stage::Init,
        Some("inside") => {
            let folder =
                environment::read(FOLDER).with_context(|| format!("{FOLDER} is not set"))?;
            Stage::Inside(Run::at(Path::new(&folder))?)
        }
        Some(other) => bail!("{STAGE}={other} is not a stage"),
    })
}

/// Whether this process runs in a cluster's namespaces.
pub fn is_inside() -> bool {
    environment::read(STAGE).is_some()
}

/// Runs this program again in new namespaces, and returns with its exit code or when this process is told to end.
/// `entered` gets the number of the process that made the namespaces.
pub(super) async fn enter(
    run: &Run,
    interrupts: &mut Interrupts,
    entered: impl FnOnce(u32) -> Result<()>,
) -> Result<ExitCode> {
    let mut child = tokio::process::Command::new("unshare")
        .args(NAMESPACES)
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env("PATH", environment::search_path())
        .env(STAGE, "init")
        .env(FOLDER, run.folder())
        .stdin(Stdio::piped())
        // Ctrl-C reaches the host alone, which then ends the rest in order.
        .process_group(0)
        .spawn()
        .context("starting unshare")?;
    // Waiting for a child closes its input, which would end it: the pipe is held here.
    let lifeline = child.stdin.take();
    entered(child.id().context("unshare has ended already")?)?;
    tokio::select! {
        status = child.wait() => Ok(code_of(status?)),
        name = interrupts.next() => {
            drop(lifeline);
            end(&mut child).await?;
            #[expect(clippy::print_stderr, reason = "the one who pressed Ctrl-C is told what came of it")]
            { eprintln!("ended by {name}"); }
            Ok(ExitCode::from(130))
        }
    }
}

/// Waits for the namespaces to end after the pipe is closed.
async fn end(child: &mut Child) -> Result<()> {
    if timeout(END_WITHIN, child.wait()).await.is_err() {
        child.kill().await?;
    }
    Ok(())
}

/// The signals that end the host.
pub(super) struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Interrupts {
    /// From now on these signals do not end this process by themselves.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

/// PID 1: runs the work, reaps whatever dies, and returns the work's exit code.
pub(super) fn init() -> Result<ExitCode> {
    std::thread::spawn(end_with_host);
    let work = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(STAGE, "inside")
        .stdin(Stdio::null())
        .spawn()
        .context("starting the work in the namespaces")?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if u32::try_from(pid.as_raw_pid()) == Ok(work.id()) => {
                return Ok(code_inside(status));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the work in the namespaces"),
        }
    }
}

fn code_inside(status: WaitStatus) -> ExitCode {
    let code = status
        .exit_status()
        .and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the end of PID 1 is what ends the namespaces"
)]
fn end_with_host() {
    let mut nothing = [0; 64];
    while std::io::stdin()
        .read(&mut nothing)
        .is_ok_and(|read| read > 0)
    {}
    std::process::exit(1);
}
