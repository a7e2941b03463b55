//! Runs stories as tests: one cluster, a few at a time, then those that need it for themselves.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use e2e::world::{Ground, World};
use e2e::{cluster, environment, images};
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use tokio::runtime::Handle;
use tokio::sync::RwLock;
use tokio::time::timeout;

/// Where a story can be told, and beside what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// On any cluster, beside others.
    Shared,
    /// Beside others, on the embedded cluster: it reaches for the node.
    Node,
    /// Alone, on the embedded cluster: it breaks what others stand on.
    Alone,
}

type Telling<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Story {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) tell: for<'a> fn(&'a World) -> Telling<'a>,
}

macro_rules! stories {
    ($($kind:ident $module:ident::$name:ident,)*) => {
        &[$(Story {
            name: concat!(stringify!($module), "::", stringify!($name)),
            kind: Kind::$kind,
            tell: |world| Box::pin($module::$name(world)),
        }),*]
    };
}
pub(crate) use stories;

/// How many stories are told at a time.
const AT_A_TIME: usize = 3;
const STORY_WITHIN: Duration = Duration::from_mins(5);

/// Tells the stories that the command line selects.
pub(crate) fn tell(stories: &'static [Story], images: &'static [&'static str]) -> Result<ExitCode> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(AT_A_TIME));
    if arguments.list || !stories.iter().any(|story| is_selected(story, &arguments)) {
        return Ok(run(&arguments, skipped(stories, "it is only listed")).exit_code());
    }
    if let Some(kubeconfig) = environment::kubeconfig() {
        let runtime = tokio::runtime::Runtime::new()?;
        return runtime.block_on(async {
            tell_on(
                Ground::their_own(kubeconfig, images).await?,
                stories,
                arguments,
            )
            .await
        });
    }
    if !cluster::is_inside()
        && let Err(reason) = cluster::supported()
    {
        return Ok(run(&arguments, without_cluster(stories, &reason)).exit_code());
    }
    cluster::inside(
        || images::build(images),
        async |cluster| tell_on(Ground::embedded(cluster), stories, arguments).await,
    )
}

async fn tell_on(
    ground: Ground,
    stories: &'static [Story],
    arguments: Arguments,
) -> Result<ExitCode> {
    install_kinds(&ground).await?;
    let ground = Arc::new(ground);
    let quiet = Arc::new(RwLock::new(()));
    // Those that need the cluster for themselves come last, so that the others need not wait for them.
    let (alone, shared): (Vec<Story>, Vec<Story>) =
        stories.iter().partition(|story| story.kind == Kind::Alone);
    let trials = shared
        .into_iter()
        .chain(alone)
        .map(|story| trial(story, &ground, &quiet))
        .collect();
    // Trials wait for futures, which the threads of the runtime may not.
    let conclusion = tokio::task::spawn_blocking(move || run(&arguments, trials)).await?;
    Ok(conclusion.exit_code())
}

fn run(arguments: &Arguments, trials: Vec<Trial>) -> Conclusion {
    libtest_mimic::run(arguments, trials)
}

/// The kinds are the same for all stories: they are installed once.
async fn install_kinds(ground: &Ground) -> Result<()> {
    let chart = environment::repository().join("charts/refrain-crds");
    if !chart.exists() {
        return Ok(());
    }
    let mut helm = ground.helm();
    helm.args(["upgrade", "--install", "refrain-crds"])
        .arg(&chart);
    let done = helm
        .args(["--namespace", "default", "--wait"])
        .output()
        .await?;
    if !done.status.success() {
        bail!(
            "installing {}: {}",
            chart.display(),
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(())
}

fn trial(story: Story, ground: &Arc<Ground>, quiet: &Arc<RwLock<()>>) -> Trial {
    if story.kind != Kind::Shared && ground.cluster().is_none() {
        say(&format!(
            "SKIPPED {}: it reaches for the node of the embedded cluster",
            story.name
        ));
        return skip(
            story,
            "it reaches for the node of the embedded cluster".to_owned(),
        );
    }
    let (ground, quiet) = (Arc::clone(ground), Arc::clone(quiet));
    let runtime = Handle::current();
    Trial::test(story.name, move || {
        let is_alone = story.kind == Kind::Alone;
        let _alone = is_alone.then(|| runtime.block_on(quiet.write()));
        let _together = (!is_alone).then(|| runtime.block_on(quiet.read()));
        tell_one(story, &ground, &runtime).map_err(|error| Failed::from(format!("{error:#}")))
    })
}

/// Tells one story in a namespace of its own. A panic counts as a failure that leaves evidence, too.
fn tell_one(story: Story, ground: &Arc<Ground>, runtime: &Handle) -> Result<()> {
    let world = runtime.block_on(World::open(Arc::clone(ground), story.name))?;
    let evidence = world.evidence();
    let told = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let limit = format!("the story took longer than {STORY_WITHIN:?}");
            timeout(STORY_WITHIN, (story.tell)(&world))
                .await
                .context(limit)?
        })
    }));
    let failed = !matches!(told, Ok(Ok(())));
    let closed = runtime.block_on(world.close(failed));
    match told {
        Ok(Ok(())) => closed,
        Ok(Err(error)) => Err(error.context(see(&evidence))),
        Err(panic) => resume_unwind(panic),
    }
}

fn see(evidence: &Path) -> String {
    format!(
        "events, descriptions and logs are in {}",
        evidence.display()
    )
}

/// Without a cluster no story is told: loudly, and under CI as failures.
fn without_cluster(stories: &[Story], reason: &cluster::Reason) -> Vec<Trial> {
    if environment::is_ci() {
        let reason = reason.to_string();
        let failing = |story: &Story| {
            let reason = reason.clone();
            Trial::test(story.name, move || Err(Failed::from(reason)))
        };
        return stories.iter().map(failing).collect();
    }
    say(&format!("NO STORY IS TOLD: {reason}"));
    skipped(stories, &reason.to_string())
}

#[expect(
    clippy::print_stderr,
    reason = "what is skipped is said where it is seen"
)]
fn say(what: &str) {
    eprintln!("{what}");
}

fn skipped(stories: &[Story], reason: &str) -> Vec<Trial> {
    stories
        .iter()
        .map(|&story| skip(story, reason.to_owned()))
        .collect()
}

fn skip(story: Story, reason: String) -> Trial {
    Trial::test(story.name, move || Err(Failed::from(reason))).with_ignored_flag(true)
}

/// Whether the command line's filters let a story through, as the test harness understands them.
fn is_selected(story: &Story, arguments: &Arguments) -> bool {
    let matches = |filter: &String| {
        if arguments.exact {
            story.name == filter
        } else {
            story.name.contains(filter.as_str())
        }
    };
    arguments.filter.as_ref().is_none_or(matches)
        && !arguments.skip.iter().any(matches)
        && !arguments.ignored
}
