use std::time::Duration;

use base64_of::encode;
use crds::snapshot::{FORMAT, Key};
use serde_json::json;
use tokio::task::JoinSet;

use super::*;
use crate::fleet::Fleet;
use crate::fleet::roster::Roster;
use crate::source::stand_in::{StandIn, eventually, snapshot_of};

/// Secrets carry base64; the API types write it.
mod base64_of {
    pub(super) fn encode(bytes: Vec<u8>) -> serde_json::Value {
        serde_json::to_value(k8s_openapi::ByteString(bytes)).unwrap()
    }
}

fn snapshot(name: &str) -> Snapshot {
    snapshot_of(Key::new("ns", name), 1)
}

fn secret(bytes: Vec<u8>) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "snap", "namespace": "ns"},
        "data": {"snapshot": encode(bytes)}})
}

struct World {
    api: StandIn,
    live: Arc<Live>,
    _tasks: JoinSet<()>,
}

impl World {
    fn start(api: StandIn, disk: Option<Arc<Disk>>) -> Self {
        let fleet = Arc::new(Fleet::default());
        let roster = Arc::new(Roster::new(Arc::clone(&fleet)));
        let live = Arc::new(Live::new(fleet, roster, Metrics::default()));
        let source = SecretSource {
            client: api.client(),
            namespace: "ns".into(),
            name: "snap".into(),
            disk,
            patience: Instant::now() + Duration::from_secs(1),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(source.run(Arc::clone(&live), Metrics::default()));
        Self {
            api,
            live,
            _tasks: tasks,
        }
    }

    fn serves(&self) -> Option<(String, bool)> {
        let served = self.live.served().borrow().clone()?;
        let first = served.snapshot.providers.first()?;
        Some((first.origin.key.name.clone(), served.stale))
    }

    async fn becomes(&self, name: &str, stale: bool) {
        let wanted = Some((name.to_owned(), stale));
        eventually(name, || self.serves() == wanted).await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_good_snapshot_is_served_and_only_the_one_secret_is_asked_for() {
    let world = World::start(StandIn::default(), None);
    world.api.apply(secret(snapshot("one").seal().bytes));
    world.becomes("one", false).await;
    let digest = snapshot("one").seal().digest;
    assert_eq!(world.live.table().load_full().unwrap().digest(), &digest);
    world.api.apply(secret(snapshot("two").seal().bytes));
    world.becomes("two", false).await;
    let asked = world.api.get(|s| s.asked.clone());
    assert!(
        asked.iter().all(|q| q.contains("/namespaces/ns/secrets?")),
        "{asked:?}"
    );
    assert!(
        asked
            .iter()
            .all(|q| q.contains("fieldSelector=metadata.name%3Dsnap")),
        "{asked:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_said_and_the_last_good_one_stays() {
    let world = World::start(StandIn::default(), None);
    world.api.apply(secret(snapshot("one").seal().bytes));
    world.becomes("one", false).await;
    let newer = Snapshot {
        format: FORMAT + 1,
        ..Snapshot::empty()
    };
    let problem = world.live.problem();
    for (bytes, word) in [
        (b"{".to_vec(), "JSON"),
        (newer.seal().bytes, "upgrade the routers"),
        (vec![], "no key snapshot"),
    ] {
        world.api.apply(secret(bytes));
        let said = || {
            problem
                .borrow()
                .as_deref()
                .is_some_and(|p| p.contains(word))
        };
        eventually(word, said).await;
        assert_eq!(world.serves(), Some(("one".into(), false)));
    }
    world.api.apply(secret(snapshot("two").seal().bytes));
    world.becomes("two", false).await;
    assert!(problem.borrow().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_secret_takes_nothing_away() {
    let world = World::start(StandIn::default(), None);
    world.api.apply(secret(snapshot("one").seal().bytes));
    world.becomes("one", false).await;
    world.api.delete("snap");
    world.api.compact();
    world.api.cut();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(world.serves(), Some(("one".into(), false)));
}

#[tokio::test(start_paused = true)]
async fn without_a_snapshot_it_says_what_is_missing() {
    let world = World::start(StandIn::default(), None);
    eventually("absent", || world.live.missing().contains("is it running?")).await;
    world.api.set(|s| s.fails = Some(403));
    world.api.cut();
    eventually("refused", || {
        world.live.missing().contains("stand-in says 403")
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_copy_is_served_and_the_first_list_replaces_it() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::new(folder.path()));
    {
        let world = World::start(StandIn::default(), Some(Arc::clone(&disk)));
        world.api.apply(secret(snapshot("one").seal().bytes));
        world.becomes("one", false).await;
        while disk.snapshot().await.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let api = StandIn::default();
    api.set(|s| s.hangs = true);
    let world = World::start(api, Some(disk));
    world.becomes("one", true).await;
    world.api.apply(secret(snapshot("one").seal().bytes));
    world.api.set(|s| s.hangs = false);
    world.becomes("one", false).await;
}

#[tokio::test(start_paused = true)]
async fn a_start_with_an_unreadable_secret_serves_the_copy_and_still_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::new(folder.path()));
    disk.keep_snapshot(snapshot("one").seal().bytes).await;
    let api = StandIn::default();
    api.apply(secret(b"{".to_vec()));
    let world = World::start(api, Some(disk));
    world.becomes("one", true).await;
    assert!(world.live.problem().borrow().is_some());
}
