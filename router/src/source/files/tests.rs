use std::path::Path;

use crds::snapshot::Key;
use tokio::task::JoinSet;

use super::*;
use crate::fleet::Fleet;
use crate::source::stand_in::eventually;

const PROVIDER: &str = "
apiVersion: refrain.dev/v1alpha1
kind: Provider
metadata: {name: engines}
spec:
  service: {name: engines, port: 8000}
";
const ROUTE: &str = "
apiVersion: refrain.dev/v1alpha1
kind: Route
metadata: {name: chat}
spec:
  rules:
    - name: all
      matches: [{model: {value: llama}}]
      backendRefs: [{providerRef: {name: engines}}]
";
const SLICE: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: engines-1
  labels: {kubernetes.io/service-name: engines}
addressType: IPv4
ports: [{name: http, port: 8000}]
endpoints: [{addresses: [127.0.0.1]}]
";

struct Desk {
    dir: tempfile::TempDir,
    followed: Followed,
}

impl Desk {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let followed = Followed::new(dir.path().into());
        Self { dir, followed }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// One look at the folder.
    fn look(&mut self) -> Option<Compiled> {
        self.followed.step()
    }

    /// Looks until what is there counts.
    fn settle(&mut self) -> &Snapshot {
        self.look();
        self.look();
        &self.followed.snapshot
    }

    fn said(&self, words: &[&str]) -> bool {
        let all = |problem: &&String| words.iter().all(|word| problem.contains(word));
        self.followed.problems.iter().any(|problem| all(&problem))
    }
}

fn documents(parts: &[&str]) -> String {
    parts.join("\n---\n")
}

fn names(snapshot: &Snapshot) -> Vec<String> {
    snapshot
        .origins()
        .map(|(kind, origin)| format!("{kind} {}", origin.key.name))
        .collect()
}

#[test]
fn objects_are_read_from_several_documents_and_files() {
    let mut desk = Desk::new(&[("a.yaml", &documents(&[PROVIDER, SLICE])), ("b.yml", ROUTE)]);
    assert_eq!(names(desk.settle()), ["Provider engines", "Route chat"]);
    assert!(
        desk.followed.problems.is_empty(),
        "{:?}",
        desk.followed.problems
    );
    assert_eq!(desk.followed.world.slices()["default"].len(), 1);
    let origin = &desk.followed.snapshot.providers[0].origin;
    assert_eq!(
        (origin.uid.as_str(), origin.generation),
        ("file:Provider/default/engines", 1)
    );
}

#[test]
fn a_good_edit_counts_at_the_next_look_and_is_a_new_generation() {
    let mut desk = Desk::new(&[("a.yaml", PROVIDER), ("b.yaml", ROUTE)]);
    let before = desk.look().unwrap().sealed.digest;
    assert!(desk.look().is_none(), "nothing has changed");
    desk.write("b.yaml", &ROUTE.replace("llama", "qwen"));
    let after = desk.look().unwrap();
    assert_ne!(before, after.sealed.digest);
    assert_eq!(after.snapshot.routes[0].origin.generation, 2);
    assert_eq!(after.snapshot.providers[0].origin.generation, 1);
    desk.write(
        "b.yaml",
        &format!("# a comment\n{}", ROUTE.replace("llama", "qwen")),
    );
    assert_eq!(desk.look().unwrap().sealed.digest, after.sealed.digest);
}

#[test]
fn a_bad_object_keeps_its_last_good_form_and_the_others_move_on() {
    let mut desk = Desk::new(&[("a.yaml", PROVIDER), ("b.yaml", ROUTE)]);
    desk.settle();
    desk.write("b.yaml", &ROUTE.replace("value: llama", "velue: llama"));
    desk.write("a.yaml", &PROVIDER.replace("8000", "9000"));
    let snapshot = desk.settle();
    assert_eq!(snapshot.routes[0].origin.generation, 1, "the last good one");
    assert_eq!(snapshot.routes[0].rules[0].matches[0].to_string(), "llama");
    assert_eq!(snapshot.providers[0].origin.generation, 2);
    let words = [
        "b.yaml, document 1",
        "Route default/chat",
        "velue",
        "last good form",
    ];
    assert!(desk.said(&words), "{:?}", desk.followed.problems);
    desk.write("b.yaml", &ROUTE.replace("llama", "qwen"));
    assert_eq!(
        desk.settle().routes[0].rules[0].matches[0].to_string(),
        "qwen"
    );
    assert!(desk.followed.problems.is_empty());
}

#[test]
fn a_document_that_is_no_yaml_keeps_what_its_file_held() {
    let text = documents(&[PROVIDER, ROUTE]);
    let mut desk = Desk::new(&[("a.yaml", &text)]);
    desk.settle();
    desk.write("a.yaml", &text.replace("kind: Route\n", "kind: [Route\n"));
    assert_eq!(names(desk.settle()), ["Provider engines", "Route chat"]);
    assert!(
        desk.said(&["a.yaml, document 2", "kept"]),
        "{:?}",
        desk.followed.problems
    );
    desk.write("a.yaml", PROVIDER);
    assert_eq!(
        names(desk.settle()),
        ["Provider engines"],
        "removed on purpose"
    );
}

#[test]
fn a_bad_service_secret_or_slice_keeps_its_last_good_form() {
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {api-key: sk-1}\n";
    let provider = format!("{PROVIDER}  auth: {{type: BearerToken, secretRef: {{name: key}}}}\n");
    let mut desk = Desk::new(&[("a.yaml", &provider), ("s.yaml", secret), ("e.yaml", SLICE)]);
    let good = desk.settle().clone();
    assert!(good.providers[0].refused.is_none());
    desk.write(
        "s.yaml",
        &secret.replace("stringData: {api-key: sk-1}", "data: {api-key: sk-2}"),
    );
    desk.write("e.yaml", &SLICE.replace("127.0.0.1", "localhost"));
    assert_eq!(desk.settle(), &good);
    assert_eq!(desk.followed.world.slices()["default"].len(), 1);
    assert!(desk.said(&["s.yaml", "base64"]) && desk.said(&["e.yaml", "IPv4"]));
    assert!(!desk.said(&["sk-2"]), "a credential never shows");
    std::fs::remove_file(desk.path().join("s.yaml")).unwrap();
    assert!(desk.settle().providers[0].refused.is_some(), "gone is gone");
    assert!(desk.said(&["Provider default/engines", "Secret key"]));
}

#[test]
fn each_wrong_document_is_a_problem_with_file_document_and_what_to_do() {
    let table = [
        (
            "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: d}",
            "kind Deployment",
        ),
        (
            "kind: Route\napiVersion: route.openshift.io/v1\nmetadata: {name: r}",
            "openshift",
        ),
        ("hello: world", "apiVersion and kind must be set"),
        ("just text", "apiVersion and kind must be set"),
        (
            "kind: Provider\napiVersion: refrain.dev/v1alpha1\nspec: {}",
            "metadata.name",
        ),
        (
            "kind: Provider\napiVersion: refrain.dev/v1alpha1\nmetadata: {name: x}\nspec: {}",
            "service must be set",
        ),
        (PROVIDER, "is already in a.yaml"),
        (
            "kind: EndpointSlice\napiVersion: discovery.k8s.io/v1\nmetadata: {name: e}\naddressType: IPv4\nendpoints: []",
            "service-name",
        ),
        (
            "kind: ReferenceGrant\napiVersion: gateway.networking.k8s.io/v1\nmetadata: {name: g}",
            "from and to",
        ),
        (
            "kind: Service\napiVersion: v1\nmetadata: {name: s}\nspec: {ports: 80}",
            "shape of its kind",
        ),
    ];
    for (document, word) in table {
        let text = documents(&[SLICE, document]);
        let mut desk = Desk::new(&[("a.yaml", PROVIDER), ("b.yaml", &text)]);
        assert_eq!(names(desk.settle()), ["Provider engines"], "{word}");
        assert!(
            desk.said(&["b.yaml, document 2", word]),
            "{word}: {:?}",
            desk.followed.problems
        );
    }
}

#[test]
fn what_may_be_half_written_waits_for_a_second_look() {
    let mut desk = Desk::new(&[("a.yaml", PROVIDER), ("b.yaml", ROUTE)]);
    desk.settle();
    desk.write("a.yaml", PROVIDER.split_at(PROVIDER.len() / 2).0);
    assert!(desk.look().is_none());
    desk.write("a.yaml", &PROVIDER.replace("8000", "9000"));
    assert!(desk.look().is_some(), "the rest has come");
    std::fs::remove_file(desk.path().join("b.yaml")).unwrap();
    assert!(desk.look().is_none());
    assert!(desk.look().unwrap().snapshot.routes.is_empty());
}

#[test]
fn an_empty_or_unreadable_folder_is_said_and_takes_nothing_away_by_accident() {
    let mut desk = Desk::new(&[]);
    assert_eq!(desk.look().unwrap().snapshot, Snapshot::empty());
    assert!(desk.said(&["no *.yaml"]));
    desk.write("a.yaml", PROVIDER);
    desk.settle();
    let away = desk.path().with_extension("away");
    std::fs::rename(desk.path(), &away).unwrap();
    assert_eq!(names(desk.settle()), ["Provider engines"]);
    assert!(desk.said(&["cannot be read"]));
    std::fs::rename(&away, desk.path()).unwrap();
    desk.settle();
    assert!(desk.followed.problems.is_empty());
}

#[test]
fn grants_are_followed() {
    let grant = "
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: g}
spec:
  from: [{group: refrain.dev, kind: Route, namespace: team}]
  to: [{group: refrain.dev, kind: Provider}]
";
    let route = ROUTE
        .replace("{name: chat}", "{name: chat, namespace: team}")
        .replace("{name: engines}", "{name: engines, namespace: default}");
    let mut desk = Desk::new(&[("a.yaml", PROVIDER), ("b.yaml", &route), ("g.yaml", grant)]);
    let refused = |s: &Snapshot| s.routes[0].rules[0].backends[0].refused.is_some();
    assert!(!refused(desk.settle()));
    std::fs::remove_file(desk.path().join("g.yaml")).unwrap();
    assert!(refused(desk.settle()));
}

#[test]
fn a_null_is_as_if_the_field_were_not_there() {
    let mut desk = Desk::new(&[("a.yaml", &format!("{PROVIDER}  auth:\n"))]);
    assert_eq!(names(desk.settle()), ["Provider engines"]);
    assert!(
        desk.followed.problems.is_empty(),
        "{:?}",
        desk.followed.problems
    );
}

#[tokio::test(start_paused = true)]
async fn files_are_served_and_followed() {
    let desk = Desk::new(&[("a.yaml", &documents(&[PROVIDER, ROUTE, SLICE]))]);
    let fleet = Arc::new(Fleet::default());
    let roster = Arc::new(Roster::new(Arc::clone(&fleet)));
    let live = Arc::new(Live::new(
        Arc::clone(&fleet),
        Arc::clone(&roster),
        Metrics::default(),
    ));
    let source = FileSource {
        folder: desk.path().into(),
        roster: Arc::clone(&roster),
        metrics: Metrics::default(),
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(source.run(Arc::clone(&live)));
    let key = Key::new("default", "engines");
    let addresses = || -> Vec<String> {
        let pool = fleet.pool(&key);
        let members = pool.members();
        members
            .usable
            .iter()
            .map(|e| e.address().to_string())
            .collect()
    };
    eventually("served", || live.table().load().is_some()).await;
    assert_eq!(addresses(), ["127.0.0.1:8000"]);
    assert!(roster.missing().is_empty());
    let more = SLICE.replace("[{addresses: [127.0.0.1]}]", "[{addresses: [127.0.0.2]}]");
    desk.write("a.yaml", &documents(&[PROVIDER, ROUTE, &more]));
    eventually("moved", || addresses() == ["127.0.0.2:8000"]).await;
}
