//! Every watch, in one place. Each keeps only what is needed of its objects, and wakes the cycle
//! only when that changes: a router that renews its Lease wakes nobody.

mod follow;
mod grants;
mod keep;
mod shelf;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crds::api::{Provider, Route};
use crds::compile::{Entry, Grant, Objects, Scope};
use crds::report;
use crds::snapshot::{Key, Kind};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::runtime::watcher::Config;
use kube::{Api, Client, Resource};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::follow::{Follow, Room};
pub(crate) use self::keep::{DIGEST, GENERATION, Held, RouterReport, SNAPSHOT_KEY, Status};
use self::keep::{Object, RouterSlice};
use self::shelf::{Shelf, Span};
use crate::NAME;
use crate::args::Args;
use crate::board::{Board, Need, Weight};
use crate::debounce::Wake;
use crate::metrics::Metrics;

/// The type of the Secret that carries the snapshot.
pub(crate) const SNAPSHOT_TYPE: &str = "refrain.dev/snapshot";
/// The label by which EndpointSlices name their Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Watches end after this long, and one that is silent for longer is started again.
const WATCH_SECONDS: u32 = 120;

/// What the watches have found.
#[derive(Debug, Default)]
pub(crate) struct Stores {
    providers: Shelf<Object<Provider>>,
    routes: Shelf<Object<Route>>,
    services: Shelf<Service>,
    secrets: Shelf<Secret>,
    grants: Shelf<Grant>,
    reports: Shelf<RouterReport>,
    slices: Shelf<RouterSlice>,
    snapshot: Shelf<Held>,
}

impl Stores {
    /// Everything that a compile reads, in a stable order.
    pub(crate) fn gather(&self) -> Objects {
        Objects {
            providers: entries(&self.providers),
            routes: entries(&self.routes),
            services: by_key(&self.services),
            secrets: by_key(&self.secrets),
            grants: self.grants.all().values().map(|g| (**g).clone()).collect(),
            scope: Scope::Cluster,
        }
    }

    /// The status that an object has, by UID.
    pub(crate) fn statuses(&self) -> HashMap<String, (Kind, Status)> {
        let mut statuses = HashMap::new();
        collect_statuses(Kind::Provider, &self.providers, &mut statuses);
        collect_statuses(Kind::Route, &self.routes, &mut statuses);
        statuses
    }

    /// The snapshot Secret.
    pub(crate) fn snapshot(&self) -> Option<Arc<Held>> {
        self.snapshot.all().values().next().cloned()
    }

    /// The ready router pods by name, each with its report.
    pub(crate) fn routers(&self) -> BTreeMap<String, Option<Arc<RouterReport>>> {
        let slices = self.slices.all();
        let reports = self.reports.all();
        let report = |pod: &str| {
            let mut of_name = reports.iter().filter(|(key, _)| key.name == pod);
            of_name.next().map(|(_, report)| Arc::clone(report))
        };
        keep::ready_pods(slices.values().flat_map(|slice| slice.pods.iter()))
            .into_iter()
            .map(|name| (name.to_owned(), report(name)))
            .collect()
    }
}

impl Stores {
    /// Whether there is a Service of routers, with pods or without.
    pub(crate) fn has_routers(&self) -> bool {
        !self.slices.all().is_empty()
    }

    /// The Service of the routers, as the owner of what is there for them alone.
    pub(crate) fn router_service(&self) -> Option<OwnerReference> {
        let slices = self.slices.all();
        slices.values().find_map(|slice| slice.service.clone())
    }
}

fn entries<K: Resource<DynamicType = ()>>(shelf: &Shelf<Object<K>>) -> Vec<Entry<K>>
where
    Entry<K>: Clone,
{
    let objects = shelf.all();
    let mut sorted: Vec<_> = objects.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(b.0));
    sorted
        .into_iter()
        .map(|(_, object)| object.entry.clone())
        .collect()
}

fn by_key<K>(shelf: &Shelf<K>) -> HashMap<Key, Arc<K>> {
    let objects = shelf.all();
    objects
        .iter()
        .map(|(key, object)| (key.clone(), Arc::clone(object)))
        .collect()
}

fn collect_statuses<K: Resource<DynamicType = ()>>(
    kind: Kind,
    shelf: &Shelf<Object<K>>,
    into: &mut HashMap<String, (Kind, Status)>,
) {
    for object in shelf.all().values() {
        let uid = object.entry.origin().uid;
        into.insert(uid, (kind, object.status.clone()));
    }
}

/// What starting the watches takes.
pub(crate) struct Start<'a> {
    pub(crate) client: &'a Client,
    pub(crate) args: &'a Args,
    pub(crate) board: &'a Arc<Board>,
    pub(crate) wake: &'a Arc<Wake>,
    pub(crate) metrics: &'a Arc<Metrics>,
    pub(crate) stop: &'a CancellationToken,
}

impl Start<'_> {
    /// Starts every watch on `tasks`.
    pub(crate) fn watches(&self, tasks: &mut JoinSet<anyhow::Result<()>>) -> Arc<Stores> {
        let stores = Arc::new(Stores::default());
        for namespace in self.args.namespaces() {
            self.kinds(namespace.as_deref(), &stores, tasks);
            self.references(namespace.as_deref(), &stores, tasks);
        }
        self.own(&stores, tasks);
        stores
    }

    /// The kinds that users write.
    fn kinds(
        &self,
        namespace: Option<&str>,
        stores: &Arc<Stores>,
        tasks: &mut JoinSet<anyhow::Result<()>>,
    ) {
        let room = |resource| self.room(resource, "", namespace, Weight::Required);
        let providers = Follow {
            api: self.erased::<Provider>(namespace),
            config: config(),
            keep: keep::object::<Provider>,
            shelf: |stores| &stores.providers,
        };
        providers.start(room("providers.refrain.dev"), stores, tasks);
        let routes = Follow {
            api: self.erased::<Route>(namespace),
            config: config(),
            keep: keep::object::<Route>,
            shelf: |stores| &stores.routes,
        };
        routes.start(room("routes.refrain.dev"), stores, tasks);
    }

    /// What those may refer to.
    fn references(
        &self,
        namespace: Option<&str>,
        stores: &Arc<Stores>,
        tasks: &mut JoinSet<anyhow::Result<()>>,
    ) {
        let services = Follow {
            api: self.api::<Service>(namespace),
            config: config(),
            keep: keep::service,
            shelf: |stores| &stores.services,
        };
        let room = self.room("services", "", namespace, Weight::Required);
        services.start(room, stores, tasks);

        // Helm's Secrets are large and many, and hold no credentials of engines.
        let fields = format!("type!={SNAPSHOT_TYPE},type!=helm.sh/release.v1");
        let secrets = Follow {
            api: self.api::<Secret>(namespace),
            config: config().fields(&fields),
            keep: keep::secret,
            shelf: |stores| &stores.secrets,
        };
        let room = self.room("secrets", "", namespace, Weight::Optional);
        secrets.start(room, stores, tasks);

        let room = self.room(grants::RESOURCE, "", namespace, Weight::Optional);
        grants::start(self.client, namespace, room, stores, tasks);
    }

    /// What is beside the operator: the routers' reports, their pods, the snapshot.
    fn own(&self, stores: &Arc<Stores>, tasks: &mut JoinSet<anyhow::Result<()>>) {
        let own = Some(self.args.namespace.as_str());
        let router = &self.args.router_service;
        let reports = Follow {
            api: self.api::<Lease>(own),
            config: config().labels(&format!("{}={router}", report::LABEL)),
            keep: keep::report,
            shelf: |stores| &stores.reports,
        };
        let room = self.room("leases", "of routers", own, Weight::Required);
        reports.start(room, stores, tasks);

        let slices = Follow {
            api: self.api::<EndpointSlice>(own),
            config: config().labels(&format!("{SERVICE_NAME}={router}")),
            keep: keep::router_slice,
            shelf: |stores| &stores.slices,
        };
        let room = self.room("endpointslices", "of routers", own, Weight::Required);
        slices.start(room, stores, tasks);

        let name = &self.args.snapshot_secret;
        let snapshot = Follow {
            api: self.api::<Secret>(own),
            config: config().fields(&format!("metadata.name={name}")),
            keep: keep::snapshot,
            shelf: |stores| &stores.snapshot,
        };
        let room = self.room("secrets", "the snapshot", own, Weight::Required);
        snapshot.start(room, stores, tasks);
    }

    fn room(
        &self,
        resource: &'static str,
        purpose: &'static str,
        namespace: Option<&str>,
        weight: Weight,
    ) -> Room {
        let namespace = namespace.map(ToOwned::to_owned);
        let need = Need {
            resource,
            purpose,
            namespace: namespace.clone(),
        };
        self.board.expect(need.clone(), weight);
        Room {
            need,
            span: namespace.map_or(Span::All, Span::Namespace),
            board: Arc::clone(self.board),
            wake: Arc::clone(self.wake),
            metrics: Arc::clone(self.metrics),
            stop: self.stop.clone(),
        }
    }

    fn api<K>(&self, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    /// Objects of one of our kinds as they are, so that one without its kind's shape stops nothing.
    fn erased<K: Resource<DynamicType = ()>>(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        dynamic(self.client, namespace, &resource)
    }
}

fn dynamic(client: &Client, namespace: Option<&str>, resource: &ApiResource) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, resource),
        None => Api::all_with(client.clone(), resource),
    }
}

fn config() -> Config {
    Config::default().timeout(WATCH_SECONDS)
}

/// What to do about a 403, in words.
fn advice(verb: &str, need: &Need) -> String {
    let (place, role) = match &need.namespace {
        Some(namespace) => (format!("in namespace {namespace}"), "Role there"),
        None => ("in all namespaces".to_owned(), "ClusterRole"),
    };
    format!(
        "{NAME} may not {verb} {} {place}: give its ServiceAccount the verbs list and watch on them \
         in a {role}",
        need.resource
    )
}
