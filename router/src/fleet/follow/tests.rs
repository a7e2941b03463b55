use crds::api::Port;
use crds::snapshot::{Digest, Key, Origin, Provider, Service, ServicePort, Snapshot};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::*;
use crate::fleet::Fleet;
use crate::source::stand_in::{StandIn, eventually};

fn snapshot(namespaces: &[&str]) -> Snapshot {
    let provider = |namespace: &&str| Provider {
        origin: Origin {
            key: Key::new(*namespace, "p"),
            uid: (*namespace).into(),
            generation: 1,
            created: String::new(),
        },
        service: Service {
            name: "engines".into(),
            port: Port::Name("http".into()),
            slice_port: Some(ServicePort::Name("http".into())),
        },
        auth: None,
        models: vec![],
        refused: None,
    };
    Snapshot {
        providers: namespaces.iter().map(provider).collect(),
        ..Snapshot::empty()
    }
}

fn slice(name: &str, last: &[u8]) -> Value {
    let endpoint = |last: &u8| {
        json!({"addresses": [format!("10.0.0.{last}")], "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "name": format!("pod-{last}"), "uid": format!("u{last}")}})
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "ns", "labels": {SERVICE_NAME: "engines"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000}],
        "endpoints": last.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

struct World {
    api: StandIn,
    fleet: Arc<Fleet>,
    roster: Arc<Roster>,
    served: channel::Sender<Option<Arc<Served>>>,
    tasks: JoinSet<()>,
}

impl World {
    fn start(api: StandIn, disk: Option<Arc<Disk>>) -> Self {
        let fleet = Arc::new(Fleet::default());
        let roster = Arc::new(Roster::new(Arc::clone(&fleet)));
        let (served, follow) = channel::channel(None);
        let mut tasks = JoinSet::new();
        tasks.spawn(
            Follow {
                client: api.client(),
                roster: Arc::clone(&roster),
                disk,
                patience: Instant::now() + Duration::from_secs(1),
                metrics: Metrics::default(),
            }
            .run(follow),
        );
        let world = Self {
            api,
            fleet,
            roster,
            served,
            tasks,
        };
        world.serve(&["ns"]);
        world
    }

    fn serve(&self, namespaces: &[&str]) {
        let snapshot = snapshot(namespaces);
        self.roster.want(&snapshot);
        self.served.send_replace(Some(Arc::new(Served {
            snapshot,
            digest: Digest::default(),
            stale: false,
        })));
    }

    fn usable(&self) -> Vec<String> {
        let pool = self.fleet.pool(&Key::new("ns", "p"));
        let members = pool.members();
        members.usable.iter().map(|e| e.name().to_owned()).collect()
    }

    async fn becomes(&self, pods: &[&str]) {
        eventually(&format!("{pods:?}"), || self.usable() == pods).await;
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_follow_the_slices() {
    let world = World::start(StandIn::default(), None);
    eventually("listed", || world.roster.missing().is_empty()).await;
    let start = Instant::now();
    world.api.apply(slice("a", &[1]));
    world.becomes(&["pod-1"]).await;
    world.api.apply(slice("b", &[2]));
    world.becomes(&["pod-1", "pod-2"]).await;
    world.api.delete("a");
    world.becomes(&["pod-2"]).await;
    assert!(
        start.elapsed() < Duration::from_millis(100),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_missed_while_the_watch_was_away_is_found_by_listing_again() {
    for gone_as_status in [false, true] {
        let world = World::start(StandIn::default(), None);
        world.api.apply(slice("a", &[1]));
        world.api.apply(slice("b", &[2]));
        world.becomes(&["pod-1", "pod-2"]).await;
        world.api.set(|s| s.silent = true);
        world.api.delete("b");
        world.api.compact();
        world
            .api
            .set(|s| (s.silent, s.gone_as_status) = (false, gone_as_status));
        world.api.cut();
        world.becomes(&["pod-1"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_end_of_the_watch_loses_nothing() {
    let world = World::start(StandIn::default(), None);
    world.api.apply(slice("a", &[1]));
    world.becomes(&["pod-1"]).await;
    world.api.set(|s| s.fails = Some(500));
    world.api.cut();
    world.api.apply(slice("a", &[2]));
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(world.usable(), ["pod-1"], "an error never empties a pool");
    world.api.set(|s| s.fails = None);
    world.becomes(&["pod-2"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_heals_by_itself() {
    let world = World::start(StandIn::default(), None);
    world.api.apply(slice("a", &[1]));
    world.becomes(&["pod-1"]).await;
    world.api.set(|s| s.silent = true);
    world.api.apply(slice("a", &[2]));
    let start = Instant::now();
    world.becomes(&["pod-2"]).await;
    assert!(start.elapsed() < Duration::from_secs(290));
    assert!(
        world
            .api
            .get(|s| s.asked.iter().any(|q| q.contains("timeoutSeconds=120")))
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_ends_is_asked_for_again() {
    let api = StandIn::default();
    api.apply(slice("a", &[1]));
    api.set(|s| s.hangs = true);
    let world = World::start(api, None);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.roster.missing(), ["ns"]);
    world.api.set(|s| s.hangs = false);
    world.becomes(&["pod-1"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_watched_only_while_a_provider_is_in_it() {
    let mut world = World::start(StandIn::default(), None);
    world.api.apply(slice("a", &[1]));
    world.becomes(&["pod-1"]).await;
    world.serve(&[]);
    let pool = world.fleet.pool(&Key::new("ns", "p"));
    world.api.apply(slice("a", &[1, 2]));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(pool.members().usable.len(), 1);
    world.serve(&["ns"]);
    world.becomes(&["pod-1", "pod-2"]).await;
    world.tasks.abort_all();
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_is_not_stormed() {
    let api = StandIn::default();
    api.set(|s| s.fails = Some(500));
    let world = World::start(api, None);
    tokio::time::sleep(Duration::from_mins(1)).await;
    let asked = world.api.get(|s| s.failed);
    assert!((12..40).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn the_copy_keeps_what_it_had_of_a_namespace_that_is_not_listed_yet() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::new(folder.path()));
    let kept = async |namespaces: &[&str]| loop {
        let copy = disk.endpoints().await.unwrap_or_default();
        if copy.keys().eq(namespaces) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    for (listed, both) in [("a", false), ("b", true)] {
        let roster = Arc::new(Roster::new(Arc::new(Fleet::default())));
        let mut tasks = JoinSet::new();
        roster.want(&snapshot(&["a", "b"]));
        tasks.spawn(Arc::clone(&disk).follow(Arc::clone(&roster)));
        tokio::time::sleep(Duration::from_millis(100)).await;
        roster.replace(listed, vec![], Known::Fresh);
        kept(if both { &["a", "b"] } else { &["a"] }).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_was_out_of_use_for_a_moment_is_listed_anew() {
    let world = World::start(StandIn::default(), None);
    world.api.apply(slice("a", &[1]));
    world.becomes(&["pod-1"]).await;
    // The follower only sees the last of these.
    world.serve(&[]);
    world.serve(&["ns"]);
    assert_eq!(world.roster.missing(), ["ns"]);
    eventually("listed", || world.roster.missing().is_empty()).await;
    assert_eq!(world.usable(), ["pod-1"]);
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_copy_is_used_and_the_first_list_replaces_it() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Disk::new(folder.path()));
    {
        let mut world = World::start(StandIn::default(), None);
        world.api.apply(slice("a", &[1]));
        world
            .tasks
            .spawn(Arc::clone(&disk).follow(Arc::clone(&world.roster)));
        world.becomes(&["pod-1"]).await;
        while disk.endpoints().await.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    let api = StandIn::default();
    api.apply(slice("a", &[2]));
    api.set(|s| s.fails = Some(503));
    let world = World::start(api, Some(disk));
    world.becomes(&["pod-1"]).await;
    assert!(world.roster.missing().is_empty(), "enough to be ready");
    assert_eq!(world.roster.heard("ns"), Known::Stale);
    world.api.set(|s| s.fails = None);
    world.becomes(&["pod-2"]).await;
    assert_eq!(world.roster.heard("ns"), Known::Fresh);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_stays_forbidden_does_not_keep_the_router_from_being_ready() {
    let api = StandIn::default();
    api.set(|s| s.fails = Some(403));
    let world = World::start(api, None);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.roster.missing(), ["ns"], "a Role may just be new");
    eventually("denied", || world.roster.missing().is_empty()).await;
    assert!(world.roster.denied()[0].1.contains("watchNamespaces"));
    world.api.apply(slice("a", &[1]));
    world.api.set(|s| s.fails = None);
    world.becomes(&["pod-1"]).await;
    assert!(world.roster.denied().is_empty());
}
