//! However the owner of a cluster ends, nothing of the cluster is left, and clusters beside it do not notice.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::cluster;
use e2e::images;
use e2e::world::eventually;
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::process::{Pid, Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_refrain-cluster");
/// With this argument, this program is the owner of a cluster and panics in it.
const PANICS: &str = "panic-inside";
const SOON: Duration = Duration::from_secs(30);

#[expect(
    clippy::print_stderr,
    reason = "what is skipped is said where it is seen"
)]
fn main() -> Result<ExitCode> {
    if std::env::args().nth(1).as_deref() == Some(PANICS) {
        return cluster::inside(|| images::build(&[]), panic_inside);
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let missing = cluster::supported().err().filter(|_| !arguments.list);
    if let Some(reason) = &missing {
        eprintln!("NO CLUSTER IS STARTED: {reason}");
    }
    let tests: [(&str, Test); 4] = [
        (
            "a_killed_owner_leaves_nothing_running_and_the_next_start_removes_its_files",
            killed,
        ),
        ("an_interrupted_owner_leaves_nothing", interrupted),
        ("an_owner_that_panics_leaves_nothing", panicked),
        ("two_clusters_live_side_by_side", side_by_side),
    ];
    let trials = tests
        .into_iter()
        .map(|(name, test)| trial(name, test, missing.clone()))
        .collect();
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

type Test = fn() -> Result<()>;

/// A machine that cannot run the cluster skips these, with the reason; under CI that is a failure.
fn trial(name: &str, test: Test, missing: Option<cluster::Reason>) -> Trial {
    let is_skipped = missing.is_some() && !e2e::environment::is_ci();
    Trial::test(name, move || match missing {
        Some(reason) => Err(Failed::from(reason.to_string())),
        None => test().map_err(|error| Failed::from(format!("{error:#}"))),
    })
    .with_ignored_flag(is_skipped)
}

#[expect(
    clippy::panic,
    clippy::print_stdout,
    reason = "what this process is started for"
)]
async fn panic_inside(cluster: cluster::Cluster) -> Result<ExitCode> {
    println!("{}/kubectl", cluster.run().display());
    panic!("as the test wants it");
}

fn killed() -> Result<()> {
    let mut owner = Owner::up()?;
    owner.run_a_pod()?;
    owner.signal(Signal::KILL)?;
    owner.child.wait()?;
    wait_for("every process to end", || {
        let alive = processes(&owner.name)?;
        ensure!(alive.is_empty(), "still there: {alive:?}");
        Ok(())
    })?;
    ensure!(
        !traces(&owner.name)?.is_empty(),
        "a killed owner cannot have cleaned up"
    );
    let next = Command::new(PROGRAM)
        .args(["run", "--", "kubectl", "get", "nodes"])
        .output()?;
    ensure!(next.status.success(), "{next:?}");
    nothing_is_left(&owner.name)
}

fn interrupted() -> Result<()> {
    let mut owner = Owner::up()?;
    owner.run_a_pod()?;
    owner.signal(Signal::INT)?;
    let status = owner.child.wait()?;
    ensure!(status.code() == Some(130), "{status}");
    nothing_is_left(&owner.name)
}

fn panicked() -> Result<()> {
    let mut owner = Owner::start(
        Command::new(std::env::current_exe()?)
            .arg(PANICS)
            .env("RUST_BACKTRACE", "0"),
    )?;
    let status = owner.child.wait()?;
    ensure!(status.code() == Some(101), "{status}");
    nothing_is_left(&owner.name)
}

fn side_by_side() -> Result<()> {
    let mut first = Owner::up()?;
    first.run_a_pod()?;
    let mut second = Owner::up()?;
    second.run_a_pod()?;
    // Kubelets look for pods that are not theirs every two seconds.
    wait(Duration::from_secs(6))?;
    for owner in [&first, &second] {
        let restarts =
            "--output=jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}";
        ensure!(owner.kubectl(&["get", "pod", "pause", restarts])? == "Running 0");
    }
    let down = Command::new(PROGRAM)
        .arg("down")
        .arg(&first.folder)
        .output()?;
    ensure!(down.status.success(), "{down:?}");
    first.child.wait()?;
    nothing_is_left(&first.name)?;
    second.kubectl(&["delete", "pod", "pause"])?;
    second.signal(Signal::TERM)?;
    second.child.wait()?;
    nothing_is_left(&second.name)
}

/// A process that has a cluster.
struct Owner {
    child: Child,
    folder: PathBuf,
    name: String,
    pause: Option<String>,
}

impl Owner {
    fn up() -> Result<Self> {
        Self::start(Command::new(PROGRAM).arg("up"))
    }

    /// Starts a program and reads where its cluster is from what it prints.
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let said = BufReader::new(child.stdout.take().context("the output is piped")?);
        let mut folder = None;
        let mut pause = None;
        for line in said.lines() {
            let line = line?;
            if let Some((run, _)) = line.trim().split_once("/kubectl") {
                folder = Some(PathBuf::from(run));
            }
            pause = pause.or_else(|| line.trim().strip_prefix("image ").map(str::to_owned));
            if line.contains("Ctrl-C") {
                break;
            }
        }
        let folder = folder.context("the program did not say where its cluster is")?;
        let name = folder
            .file_name()
            .and_then(|name| name.to_str())
            .context("a run has a name")?
            .to_owned();
        Ok(Self {
            child,
            folder,
            name,
            pause,
        })
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let done = Command::new(self.folder.join("kubectl"))
            .args(arguments)
            .output()?;
        if !done.status.success() {
            bail!(
                "kubectl {arguments:?}: {}",
                String::from_utf8_lossy(&done.stderr)
            );
        }
        Ok(String::from_utf8(done.stdout)?)
    }

    fn run_a_pod(&self) -> Result<()> {
        let image = self
            .pause
            .as_ref()
            .context("the program did not name the pause image")?;
        self.kubectl(&["run", "pause", &format!("--image={image}")])?;
        self.kubectl(&[
            "wait",
            "pod/pause",
            "--for=condition=Ready",
            "--timeout=60s",
        ])?;
        ensure!(
            processes(&self.name)?.len() > 8,
            "a cluster has more processes"
        );
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(Pid::from_child(&self.child), signal)?;
        Ok(())
    }
}

/// An owner whose test has failed must not stay.
impl Drop for Owner {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) && self.signal(Signal::TERM).is_ok() {
            drop(self.child.wait());
        }
    }
}

fn nothing_is_left(name: &str) -> Result<()> {
    let traces = traces(name)?;
    ensure!(traces.is_empty(), "left behind: {traces:?}");
    Ok(())
}

/// Files, cgroups, mounts and processes of a run.
fn traces(name: &str) -> Result<Vec<String>> {
    let mut traces = processes(name)?;
    let cgroups = fs::read_dir("/sys/fs/cgroup")?
        .flatten()
        .map(|entry| entry.path().join(name));
    let folders = [
        std::env::temp_dir().join(name),
        Path::new("/sys/fs/cgroup").join(name),
    ];
    let found = folders
        .into_iter()
        .chain(cgroups)
        .filter(|path| path.exists());
    traces.extend(found.map(|path| path.display().to_string()));
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    traces.extend(
        mounts
            .lines()
            .filter(|mount| mount.contains(name))
            .map(str::to_owned),
    );
    Ok(traces)
}

/// Processes that were started with a path of the run, or are in a cgroup of it.
fn processes(name: &str) -> Result<Vec<String>> {
    let belongs = |folder: &Path| {
        ["cmdline", "cgroup"].iter().any(|file| {
            let text = fs::read(folder.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&text).contains(name)
        })
    };
    let numbered = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|n| n.to_string_lossy().parse::<u32>().is_ok())
    };
    let found = fs::read_dir("/proc")?
        .flatten()
        .map(|entry| entry.path())
        .filter(numbered);
    Ok(found
        .filter(|path| belongs(path))
        .map(|path| path.display().to_string())
        .collect())
}

fn wait_for(what: &str, ask: impl Fn() -> Result<()>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(eventually(what, SOON, async || ask()))
}

fn wait(time: Duration) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(async { tokio::time::sleep(time).await });
    Ok(())
}
