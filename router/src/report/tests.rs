use crds::report::{ANNOTATION, LABEL};
use crds::snapshot::{Key, Snapshot};
use serde_json::Value;
use tokio::task::JoinSet;

use super::*;
use crate::fleet::Discovered;
use crate::fleet::roster::Heard;
use crate::fleet::slices::{Entry, Family, Slice, State as EndpointState};
use crate::source::stand_in::{StandIn, eventually, snapshot_of};

fn snapshot(namespace: &str, generation: i64) -> Snapshot {
    snapshot_of(Key::new(namespace, "p"), generation)
}

fn slice(last: &[u8]) -> Slice {
    let entry = |&last: &u8| Entry {
        address: [10, 0, 0, last].into(),
        pod: None,
        state: EndpointState::Ready,
    };
    Slice {
        name: "s".into(),
        service: "engines".into(),
        family: Family::Ip,
        ports: vec![("http".into(), 8000)],
        entries: last.iter().map(entry).collect(),
    }
}

struct World {
    api: StandIn,
    live: Arc<Live>,
    roster: Arc<Roster>,
    fleet: Arc<Fleet>,
    _tasks: JoinSet<()>,
}

impl World {
    fn start() -> Self {
        let api = StandIn::default();
        let fleet = Arc::new(Fleet::default());
        let roster = Arc::new(Roster::new(Arc::clone(&fleet)));
        let live = Live::new(Arc::clone(&fleet), Arc::clone(&roster), Metrics::default());
        let live = Arc::new(live);
        let pod = Pod {
            namespace: "system".into(),
            name: "router-1".into(),
            uid: Some("uid-1".into()),
            service: "refrain-router".into(),
        };
        let parts = (Arc::clone(&roster), Arc::clone(&fleet));
        let client = api.client();
        let reporter = Reporter::new(client, pod, Arc::clone(&live), parts, Metrics::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(reporter.run());
        Self {
            api,
            live,
            roster,
            fleet,
            _tasks: tasks,
        }
    }

    async fn serve(&self, namespace: &str, generation: i64) -> Digest {
        let snapshot = snapshot(namespace, generation);
        let digest = snapshot.seal().digest;
        self.live.publish(snapshot, digest.clone(), false).await;
        digest
    }

    fn written(&self) -> Vec<Value> {
        self.api.get(|s| s.written.clone())
    }

    fn report(&self) -> Report {
        let written = self.written();
        let lease = written.last().cloned().unwrap_or_default();
        let report = lease["metadata"]["annotations"][ANNOTATION].as_str();
        report
            .map(|r| Report::decode(r).unwrap())
            .unwrap_or_default()
    }

    async fn reports(&self, digest: &Digest) {
        eventually("reported", || self.report().digest == *digest).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_tells_whose_it_is_and_what_is_served() {
    let world = World::start();
    world.roster.want(&snapshot("ns", 1));
    world
        .roster
        .replace("ns", vec![slice(&[1, 2])], Heard::Fresh);
    let digest = world.serve("ns", 1).await;
    world.reports(&digest).await;
    let lease = world.written().remove(0);
    assert_eq!(lease["metadata"]["name"], "router-1");
    assert_eq!(lease["metadata"]["labels"][LABEL], "refrain-router");
    let owner = &lease["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&"Pod".into(), &"uid-1".into())
    );
    assert_eq!(lease["spec"]["holderIdentity"], "router-1");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    let seen = &world.report().observations[0];
    assert_eq!((seen.ready, seen.total), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_new_digest_is_written_at_once_and_nothing_before_the_first() {
    let world = World::start();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.written().is_empty());
    world.roster.want(&snapshot("ns", 1));
    world.roster.replace("ns", vec![], Heard::Fresh);
    for generation in 1..4 {
        let digest = world.serve("ns", generation).await;
        let start = Instant::now();
        world.reports(&digest).await;
        assert!(start.elapsed() < Duration::from_millis(50));
    }
}

#[tokio::test(start_paused = true)]
async fn a_digest_waits_for_the_endpoints_that_it_needs_but_not_for_long() {
    let world = World::start();
    let first = world.serve("ns", 1).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(world.written().is_empty());
    world.roster.replace("ns", vec![], Heard::Fresh);
    let start = Instant::now();
    world.reports(&first).await;
    assert!(start.elapsed() < Duration::from_millis(50));
    let second = world.serve("other", 1).await;
    let start = Instant::now();
    world.reports(&second).await;
    assert!(start.elapsed() >= LISTS && start.elapsed() < LISTS + Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn it_is_renewed_and_observations_gather_for_a_moment() {
    let world = World::start();
    world.roster.want(&snapshot("ns", 1));
    world.roster.replace("ns", vec![], Heard::Fresh);
    let digest = world.serve("ns", 1).await;
    world.reports(&digest).await;
    tokio::time::sleep(Duration::from_secs(35)).await;
    let renewed = world.written().len();
    assert!((4..=5).contains(&renewed), "{renewed}");
    for count in 1..=50 {
        let last: Vec<u8> = (1..=count).collect();
        world.roster.replace("ns", vec![slice(&last)], Heard::Fresh);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    world
        .fleet
        .pool(&Key::new("ns", "p"))
        .set_discovered(Discovered {
            engine: Some("vllm".into()),
            models: vec![],
        });
    world.roster.touch();
    eventually("seen", || world.report().observations[0].ready == 50).await;
    assert_eq!(
        world.report().observations[0].engine.as_deref(),
        Some("vllm")
    );
    assert!(world.written().len() <= renewed + 2);
}

#[tokio::test(start_paused = true)]
async fn errors_are_waited_out_and_the_newest_state_is_written_then() {
    let world = World::start();
    world.api.set(|s| s.fails = Some(403));
    world.roster.want(&snapshot("ns", 1));
    world.roster.replace("ns", vec![], Heard::Fresh);
    world.serve("ns", 1).await;
    let digest = world.serve("ns", 2).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(world.written().is_empty());
    let start = Instant::now();
    world.api.set(|s| s.fails = None);
    world.reports(&digest).await;
    assert!(start.elapsed() <= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn what_keeps_the_newest_snapshot_from_being_served_is_told() {
    let world = World::start();
    world.roster.want(&snapshot("ns", 1));
    world.roster.replace("ns", vec![], Heard::Fresh);
    let digest = world.serve("ns", 1).await;
    world.reports(&digest).await;
    world.live.reject("upgrade the routers");
    let problem = || {
        let lease = world.written().pop().unwrap();
        lease["metadata"]["annotations"]["refrain.dev/problem"].clone()
    };
    eventually("told", || problem() == "upgrade the routers").await;
    assert_eq!(world.report().digest, digest);
    let digest = world.serve("ns", 2).await;
    world.reports(&digest).await;
    assert_eq!(problem(), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_provider_whose_endpoints_may_not_be_read_is_refused() {
    let world = World::start();
    let digest = world.serve("ns", 1).await;
    world.roster.deny("ns", "add the namespace".into());
    world.reports(&digest).await;
    let refusal = &world.report().refusals[0];
    assert_eq!(
        (&refusal.key, refusal.message.as_str()),
        (&Key::new("ns", "p"), "add the namespace")
    );
}
