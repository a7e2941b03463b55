//! Programs that run to their end.

use std::ffi::OsStr;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::environment;

/// A command that finds the programs for root, is not asked anything, and ends when nobody waits for it any more.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .env("PATH", environment::search_path())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Runs a program; what it said on stderr becomes the error.
pub(crate) async fn run<I, S>(program: &str, args: I) -> Result<()>
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut asked = command(program);
    asked.args(args);
    output(&mut asked).await.map(drop)
}

/// Mounts without a note in `/run/mount`.
pub(super) async fn mount<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Result<()> {
    let mut mount = command("mount");
    mount.arg("--no-mtab").args(arguments);
    output(&mut mount).await.map(drop)
}

/// Runs a command and returns what it printed.
pub(crate) async fn output(command: &mut Command) -> Result<String> {
    let done = command
        .output()
        .await
        .with_context(|| format!("starting {}", shown(command)))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!(
            "{} ended with {}: {}",
            shown(command),
            done.status,
            said.trim()
        );
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn shown(command: &Command) -> String {
    let command = command.as_std();
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    words.join(" ")
}
