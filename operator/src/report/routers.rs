//! The router pods as a status sees them: who is expected, what each serves, refuses and observes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crds::report::{Observation, Report};
use crds::snapshot::{Key, Kind};

use super::history::{Form, Forms, History};
use crate::stores::RouterReport;

/// What the routers saw of one Provider, put together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) ready: u32,
    pub(crate) total: u32,
    pub(crate) engine: Option<String>,
    pub(crate) models: Vec<String>,
}

/// One ready router pod.
#[derive(Debug)]
struct Pod {
    name: String,
    /// What it serves; none when it reports nothing that is known.
    forms: Option<Arc<Forms>>,
    report: Option<Arc<RouterReport>>,
}

/// All ready router pods, by name.
#[derive(Debug, Default)]
pub(crate) struct Routers {
    pods: Vec<Pod>,
    seen: HashMap<Key, Seen>,
    truncated: bool,
}

impl Routers {
    pub(crate) fn new(
        ready: BTreeMap<String, Option<Arc<RouterReport>>>,
        history: &History,
    ) -> Self {
        let mut routers = Self::default();
        for (name, report) in ready {
            let mut forms = None;
            if let Some(report) = report.as_deref() {
                forms = history.forms(&report.0.digest).cloned();
                routers.truncated |= report.0.truncated;
                report
                    .0
                    .observations
                    .iter()
                    .for_each(|o| routers.observe(o));
            }
            routers.pods.push(Pod {
                name,
                forms,
                report,
            });
        }
        routers
    }

    fn observe(&mut self, observation: &Observation) {
        let seen = self.seen.entry(observation.provider.clone()).or_default();
        seen.ready = seen.ready.max(observation.ready);
        seen.total = seen.total.max(observation.total);
        if seen.engine.is_none() {
            seen.engine.clone_from(&observation.engine);
        }
        if seen.models.is_empty() {
            seen.models.clone_from(&observation.models);
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// What was seen of a Provider. None when it may have been left out of the reports.
    pub(crate) fn seen(&self, provider: &Key) -> Option<Seen> {
        match self.seen.get(provider) {
            Some(seen) => Some(seen.clone()),
            None if self.truncated => None,
            None => Some(Seen::default()),
        }
    }

    /// The pods that do not serve this form yet.
    pub(crate) fn behind(&self, form: Form) -> Vec<&str> {
        let behind = self.pods.iter().filter(|pod| !pod.serves(form));
        behind.map(|pod| pod.name.as_str()).collect()
    }

    /// Why a router that has this form refuses it or a part of it.
    pub(crate) fn refusal(&self, kind: Kind, key: &Key, form: Form) -> Option<String> {
        let have = self.pods.iter().filter(|pod| pod.serves(form));
        let reports = have.filter_map(|pod| pod.report.as_deref());
        let mut refusals = reports.flat_map(|RouterReport(Report { refusals, .. })| refusals);
        let refusal = refusals.find(|r| r.kind == kind && r.key == *key)?;
        Some(format!("{} ({})", refusal.message, refusal.reason))
    }
}

impl Pod {
    fn serves(&self, form: Form) -> bool {
        self.forms
            .as_deref()
            .is_some_and(|forms| forms.contains(form))
    }
}
