//! A real one-node Kubernetes in private namespaces of this machine: etcd, the API server, its controllers and
//! scheduler, kubelet with containerd and runc, kube-proxy and DNS. Nothing of it can be reached from outside, and
//! nothing of it is left when its owner ends, however that happens.
//!
//! [`inside`] is the door: the program that wants a cluster runs itself again in new namespaces (see `stage`) and
//! does its work there.

mod cgroup;
mod command;
mod container;
mod network;
mod parts;
mod pki;
mod process;
mod run;
mod stage;
mod start;
mod supported;
mod ways_in;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

pub use command::command;
pub(crate) use command::output;
pub use container::Container;
pub use network::NODE;
pub use parts::{NODE_NAME, Part};
pub use stage::is_inside;
pub use supported::{Reason, supported};

use crate::environment;
use crate::images::Image;
use process::Process;
use run::Run;
use stage::{Interrupts, Stage};

/// A running cluster, seen from inside its namespaces.
pub struct Cluster {
    run: PathBuf,
    programs: PathBuf,
    client: kube::Client,
    images: Vec<Image>,
    running: Mutex<BTreeMap<Part, Process>>,
}

/// Runs `work` inside a new cluster and returns the exit code it gives.
///
/// Everything before this call happens three times, once in each stage of the program, so it should do no more than
/// read arguments. `prepare` runs once, on the host, where networks and caches are: it builds the images that are
/// loaded into the cluster. Call it from a thread without a tokio runtime, in a program without other threads.
pub fn inside<P, W>(prepare: P, work: W) -> Result<ExitCode>
where
    P: FnOnce() -> Result<Vec<Image>>,
    W: AsyncFnOnce(Cluster) -> Result<ExitCode>,
{
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
    };
    match stage::current()? {
        Stage::Host => {
            let programs = build_programs()?;
            let images = prepare()?;
            runtime()?.block_on(host(&programs, &images))
        }
        Stage::Init => stage::init(),
        Stage::Inside(run) => runtime()?.block_on(async {
            let cluster = start::start(&run).await?;
            work(cluster).await
        }),
    }
}

/// Builds what the cluster consists of, or finds it built.
fn build_programs() -> Result<PathBuf> {
    let script = environment::repository().join("e2e/cluster/build.sh");
    let built = std::process::Command::new(&script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", script.display()))?;
    if !built.status.success() {
        bail!("{} ended with {}", script.display(), built.status);
    }
    let said = String::from_utf8_lossy(&built.stdout);
    Ok(PathBuf::from(
        said.lines().last().context("the build printed no folder")?,
    ))
}

/// The host's part: a run folder and cgroups, the namespaces, and the clean-up.
async fn host(programs: &Path, images: &[Image]) -> Result<ExitCode> {
    run::sweep().await?;
    let mut interrupts = Interrupts::new()?;
    let run = Run::create()?;
    let ended = async {
        fs::write(run.path("images.json"), serde_json::to_vec(images)?)?;
        fs::write(
            run.path("programs"),
            programs.as_os_str().as_encoded_bytes(),
        )?;
        cgroup::create(run.name())?;
        stage::enter(&run, &mut interrupts, |unshare| {
            ways_in::write(run.folder(), programs, unshare)
        })
        .await
    }
    .await;
    run.remove().await?;
    ended
}

fn variables(run: &Path, programs: &Path) -> Vec<(&'static str, OsString)> {
    let mut path = programs.as_os_str().to_owned();
    path.push(":");
    path.push(environment::search_path());
    vec![
        ("PATH", path),
        ("KUBECONFIG", run.join("admin.kubeconfig").into()),
        // Every run has the same address and kinds of its own: what kubectl remembers of one is wrong for the next.
        ("KUBECACHEDIR", run.join("tools/kubectl").into()),
        ("HELM_CACHE_HOME", run.join("tools/helm/cache").into()),
        ("HELM_CONFIG_HOME", run.join("tools/helm/config").into()),
        ("HELM_DATA_HOME", run.join("tools/helm/data").into()),
    ]
}

/// Ends the cluster with this run folder, and returns when nothing of it is left.
pub fn end(folder: &Path) -> Result<()> {
    let run = Run::at(folder)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run.end())
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.run.join("admin.kubeconfig")
    }

    /// The folder with kubectl, helm, ctr and the cluster's own programs.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// What programs need to know to work with this cluster and to leave the user's own settings alone.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        variables(&self.run, &self.programs)
    }

    /// The folder of this run; it is gone after the run. The programs' logs are in `log`.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// A client with the administrator's rights.
    pub fn client(&self) -> &kube::Client {
        &self.client
    }

    /// The images that were loaded at the start.
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    /// Stops a part of the cluster as an orderly shutdown would.
    pub async fn stop(&self, part: Part) -> Result<()> {
        self.take(part).await?.stop().await
    }

    /// Ends a part of the cluster as a crash would.
    pub async fn kill(&self, part: Part) -> Result<()> {
        self.take(part).await?.kill().await
    }

    /// Starts a part that was stopped or killed, and waits until it answers.
    pub async fn start(&self, part: Part) -> Result<()> {
        {
            let mut running = self.running.lock().await;
            if running.contains_key(&part) {
                bail!("{part} is running already");
            }
            running.insert(part, Process::start(part, &self.programs, &self.run)?);
        }
        self.ready(part).await
    }

    /// Stops a part in its tracks: its connections stay open and nothing answers.
    pub async fn freeze(&self, part: Part) -> Result<()> {
        self.signal(part, Signal::STOP).await
    }

    /// Lets a frozen part go on.
    pub async fn thaw(&self, part: Part) -> Result<()> {
        self.signal(part, Signal::CONT).await
    }

    async fn signal(&self, part: Part, signal: Signal) -> Result<()> {
        let running = self.running.lock().await;
        running
            .get(&part)
            .with_context(|| format!("{part} is not running"))?
            .signal(signal)
    }

    async fn take(&self, part: Part) -> Result<Process> {
        self.running
            .lock()
            .await
            .remove(&part)
            .with_context(|| format!("{part} is not running"))
    }

    /// Waits for `is_so`, and gives up when it takes too long or when a part of the cluster has ended by itself.
    async fn wait_for<F>(&self, what: &str, part: Part, within: Duration, is_so: F) -> Result<()>
    where
        F: AsyncFn() -> Result<bool>,
    {
        let deadline = Instant::now() + within;
        loop {
            let reason = match is_so().await {
                Ok(true) => return Ok(()),
                Ok(false) => None,
                Err(error) => Some(error),
            };
            self.check().await?;
            if Instant::now() > deadline {
                let reason = reason.map_or_else(String::new, |error| format!(" ({error:#})"));
                bail!(
                    "{what} took longer than {within:?}{reason}\n{}",
                    process::tail(&self.run, part)
                );
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn check(&self) -> Result<()> {
        let mut running = self.running.lock().await;
        running
            .values_mut()
            .try_for_each(|process| process.check(&self.run))
    }
}
