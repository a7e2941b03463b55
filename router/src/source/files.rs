//! Snapshots from a folder of manifests, compiled here with the operator's own code: no cluster
//! is needed. The folder is followed; a bad edit keeps the last good form and says so.

mod document;
mod folder;
mod object;
mod world;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crds::compile::{Compiled, compile, reason};
use crds::snapshot::Snapshot;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use self::folder::{Contents, Folder};
use self::world::World;
use super::{Live, Metrics};
use crate::fleet::roster::{Heard, Roster, namespaces};

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Follows a folder of manifests.
#[derive(Debug)]
pub struct FileSource {
    /// The folder.
    pub folder: PathBuf,
    /// Is told of the EndpointSlices in it.
    pub roster: Arc<Roster>,
    /// Counts problems.
    pub metrics: Metrics,
}

/// What was made of the folder so far.
#[derive(Debug)]
struct Followed {
    folder: Folder,
    world: World,
    /// What the world was read from.
    applied: Option<Contents>,
    /// Newer contents that may be half written.
    pending: Option<Contents>,
    snapshot: Snapshot,
    /// What is wrong now: each is said once.
    problems: BTreeSet<String>,
}

impl FileSource {
    /// Follows it without end.
    pub async fn run(self, live: Arc<Live>) {
        let mut followed = Followed::new(self.folder.clone());
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Reading and compiling may take a while; requests are served meanwhile.
            let step = spawn_blocking(move || {
                let compiled = followed.step();
                (followed, compiled)
            });
            let Ok((next, compiled)) = step.await else {
                warn!("reading the manifests failed unexpectedly; starting over with them");
                followed = Followed::new(self.folder.clone());
                continue;
            };
            followed = next;
            if let Some(compiled) = compiled {
                self.metrics.manifest_problems(followed.problems.len());
                self.serve(&live, &followed, compiled).await;
            }
        }
    }

    async fn serve(&self, live: &Arc<Live>, followed: &Followed, compiled: Compiled) {
        self.roster.want(&compiled.snapshot);
        let mut slices = followed.world.slices();
        for namespace in namespaces(&compiled.snapshot) {
            let here = slices.remove(&namespace).unwrap_or_default();
            self.roster.replace(&namespace, here, Heard::Fresh);
        }
        let Compiled {
            snapshot, sealed, ..
        } = compiled;
        live.publish(snapshot, sealed.digest, false).await;
    }
}

impl Followed {
    fn new(folder: PathBuf) -> Self {
        Self {
            folder: Folder::new(folder),
            world: World::default(),
            applied: None,
            pending: None,
            snapshot: Snapshot::empty(),
            problems: BTreeSet::new(),
        }
    }

    /// Looks at the folder, and compiles it when it has changed.
    fn step(&mut self) -> Option<Compiled> {
        let contents = match self.folder.look() {
            Ok(contents) => contents,
            Err(error) => {
                let problem = format!(
                    "the folder of --manifests cannot be read ({error}): what it held before is \
                     served until it can"
                );
                self.say(BTreeSet::from([problem]));
                // It may come back as it was; its problems are then to be said again.
                self.applied = None;
                return None;
            }
        };
        if self.applied.as_ref() == Some(&contents) {
            self.pending = None;
            return None;
        }
        let next = self.world.next(&contents);
        if self.applied.is_some() && self.may_be_half_written(&contents, &next) {
            self.pending = Some(contents);
            return None;
        }
        self.pending = None;
        self.world = next;
        let compiled = compile(&self.world.objects(), &self.snapshot);
        self.snapshot.clone_from(&compiled.snapshot);
        let mut problems = self.world.problems.clone();
        problems.extend(verdicts(&compiled));
        if contents.is_empty() {
            problems.insert(
                "the folder of --manifests has no *.yaml, *.yml or *.json: put a Provider and a \
                 Route there"
                    .to_owned(),
            );
        }
        self.applied = Some(contents);
        self.say(problems);
        Some(compiled)
    }

    /// What takes something away or does not parse is believed when it is seen twice.
    fn may_be_half_written(&self, contents: &Contents, next: &World) -> bool {
        if self.pending.as_ref() == Some(contents) {
            return false;
        }
        let here = |file: &String| contents.contains_key(file);
        let lost = self
            .applied
            .iter()
            .flat_map(Contents::keys)
            .any(|file| !here(file));
        lost || !next.problems.is_subset(&self.world.problems)
    }

    fn say(&mut self, problems: BTreeSet<String>) {
        let new = problems.difference(&self.problems);
        new.for_each(|problem| warn!("{problem}"));
        if problems.is_empty() && !self.problems.is_empty() {
            info!("no problem is left in the manifests");
        }
        self.problems = problems;
    }
}

/// What the compiler says against objects, apart from those whose document already told why.
fn verdicts(compiled: &Compiled) -> BTreeSet<String> {
    let mut said = BTreeSet::new();
    for verdict in &compiled.verdicts {
        let told = verdict.accepted.reason == reason::UNREADABLE;
        let outcomes = [&verdict.accepted, &verdict.resolved];
        for outcome in outcomes.into_iter().filter(|o| !o.ok && !told) {
            let (kind, key) = (verdict.kind, &verdict.origin.key);
            said.insert(format!("{kind} {key}: {}", outcome.message));
        }
    }
    said
}

#[cfg(test)]
mod tests;
