//! The unchanged OpenAI SDK as a client, in a Python process of its own.

use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};

use crate::environment;
use crate::world::World;

/// What became of many streams.
#[derive(Debug, Deserialize)]
pub struct Streams {
    /// Streams that ended, well or not.
    pub streams: usize,
    /// Those that failed, each with its error.
    pub failures: Vec<String>,
    /// Streams per engine.
    pub engines: std::collections::BTreeMap<String, usize>,
}

/// Streams that are under way until they are told to end.
#[derive(Debug)]
pub struct Running {
    child: Child,
    input: ChildStdin,
}

fn script(world: &World, name: &str, arguments: &[&str]) -> Result<Command> {
    let mut python = world.python()?;
    python
        .arg(environment::repository().join("e2e/python").join(name))
        .args(arguments);
    python
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    Ok(python)
}

/// Sends one chat, one completion and one stream of each, and lists the models. Returns what each
/// of them gave.
pub async fn first_requests(world: &World, url: &str, model: &str) -> Result<Value> {
    let mut python = script(world, "first_requests.py", &[url, model])?;
    let done = python
        .stdin(Stdio::null())
        .output()
        .await
        .context("starting Python")?;
    ensure!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr).trim()
    );
    Ok(serde_json::from_slice(&done.stdout)?)
}

/// Keeps `count` streams under way at a time.
pub fn streams(world: &World, url: &str, model: &str, count: usize) -> Result<Running> {
    let mut python = script(world, "streams.py", &[url, model, &count.to_string()])?;
    let mut child = python.spawn().context("starting Python")?;
    let input = child.stdin.take().context("Python takes input")?;
    Ok(Running { child, input })
}

impl Running {
    /// Lets the streams under way end, and returns what became of all.
    pub async fn end(mut self) -> Result<Streams> {
        self.input.write_all(b"end\n").await?;
        drop(self.input);
        let done = self.child.wait_with_output().await?;
        if !done.status.success() {
            bail!("{}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(serde_json::from_slice(&done.stdout)?)
    }
}

impl Streams {
    /// Fails unless all of at least `expected` streams ended well.
    pub fn all_well(&self, expected: usize) -> Result<()> {
        let first: Vec<&String> = self.failures.iter().take(3).collect();
        ensure!(
            first.is_empty(),
            "{} of {} failed: {first:?}",
            self.failures.len(),
            self.streams
        );
        ensure!(self.streams >= expected, "only {} streams", self.streams);
        Ok(())
    }
}
