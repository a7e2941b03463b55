//! The unchanged OpenAI SDK as a client, in a Python process of its own.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinSet;

use crate::environment;
use crate::world::World;

/// What became of many streams.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// Streams that ended well, per engine.
    pub engines: BTreeMap<String, usize>,
    /// The errors of those that did not.
    pub failures: Vec<String>,
}

/// Streams that are under way until they are told to end.
#[derive(Debug)]
pub struct Running {
    child: Child,
    input: ChildStdin,
    so_far: Arc<Mutex<Streams>>,
    reader: JoinSet<()>,
}

/// What the script says of one stream.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ended {
    Engine(String),
    Failure(String),
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
    let mut lines = BufReader::new(child.stdout.take().context("Python gives output")?).lines();
    let so_far = Arc::new(Mutex::new(Streams::default()));
    let noted = Arc::clone(&so_far);
    let mut reader = JoinSet::new();
    reader.spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            noted.lock().note(&line);
        }
    });
    Ok(Running {
        child,
        input,
        so_far,
        reader,
    })
}

impl Running {
    /// What became of those that have ended.
    pub fn so_far(&self) -> Streams {
        self.so_far.lock().clone()
    }

    /// Lets the streams under way end, and returns what became of all.
    pub async fn end(mut self) -> Result<Streams> {
        self.input.write_all(b"end\n").await?;
        drop(self.input);
        let done = self.child.wait_with_output().await?;
        while self.reader.join_next().await.is_some() {}
        if !done.status.success() {
            bail!("{}", String::from_utf8_lossy(&done.stderr).trim());
        }
        let ended = self.so_far.lock().clone();
        Ok(ended)
    }
}

impl Streams {
    fn note(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(Ended::Engine(name)) => *self.engines.entry(name).or_default() += 1,
            Ok(Ended::Failure(error)) => self.failures.push(error),
            Err(_) => self.failures.push(format!("the script said {line:?}")),
        }
    }

    /// Fails unless all of at least `expected` streams ended well.
    pub fn all_well(&self, expected: usize) -> Result<()> {
        let well: usize = self.engines.values().sum();
        let first: Vec<&String> = self.failures.iter().take(3).collect();
        let failed = self.failures.len();
        ensure!(first.is_empty(), "{failed} failed beside {well}: {first:?}");
        ensure!(well >= expected, "only {well} streams");
        Ok(())
    }
}
