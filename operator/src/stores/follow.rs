//! One watch: it fills a shelf, wakes the cycle, and tells the board how it goes. It never ends by
//! itself, and never empties its shelf because of an error.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crds::snapshot::Key;
use futures::StreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::keep::Keep;
use super::shelf::{Change, Shelf, Span};
use super::{Stores, advice};
use crate::backoff::Backoff;
use crate::board::{Board, Need, Trouble};
use crate::debounce::Wake;
use crate::metrics::Metrics;

const FIRST_DELAY: Duration = Duration::from_millis(250);
const MOST_DELAY: Duration = Duration::from_secs(5);

/// What to watch, and what to keep of it.
pub(crate) struct Follow<K, V> {
    pub(crate) api: Api<K>,
    pub(crate) config: watcher::Config,
    pub(crate) keep: fn(K) -> Option<V>,
    pub(crate) shelf: fn(&Stores) -> &Shelf<V>,
}

/// Where a watch stands among the others.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    pub(crate) need: Need,
    pub(crate) span: Span,
    pub(crate) board: Arc<Board>,
    pub(crate) wake: Arc<Wake>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stop: CancellationToken,
}

impl Room {
    pub(super) fn changed(&self, change: Change) {
        match change {
            Change::Nothing => {}
            Change::Report => self.wake.nudge(),
            Change::Inputs => self.wake.inputs(),
        }
    }

    /// The need is met. The first time is news for the cycle too: it may be the last one missing.
    pub(super) fn met(&self) {
        if self.board.met(&self.need) {
            tracing::info!(need = %self.need, "works again");
        }
        self.wake.nudge();
    }

    pub(super) fn trouble(&self, trouble: Trouble) {
        self.metrics.watch_error(self.need.resource);
        let text = trouble.text().to_owned();
        if self.board.trouble(&self.need, trouble, Instant::now()) {
            tracing::warn!(need = %self.need, "{text}");
            self.wake.nudge();
        }
    }
}

/// Why a watch has to be started afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Its place in time is gone.
    Lost,
    /// The API server does not serve the resource.
    NotServed,
}

impl<K, V> Follow<K, V>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Clone + Send + Sync + 'static,
    V: Keep + Send + Sync + 'static,
{
    /// Watches on `tasks` until told to stop.
    pub(super) fn start(
        self,
        room: Room,
        stores: &Arc<Stores>,
        tasks: &mut JoinSet<anyhow::Result<()>>,
    ) {
        let stores = Arc::clone(stores);
        tasks.spawn(async move {
            let stop = room.stop.clone();
            stop.run_until_cancelled(self.for_ever(&room, &stores))
                .await;
            Ok(())
        });
    }

    async fn for_ever(&self, room: &Room, stores: &Stores) {
        let mut backoff = Backoff::new(FIRST_DELAY, MOST_DELAY);
        loop {
            self.until_ended(room, stores, &mut backoff).await;
            sleep(backoff.next()).await;
        }
    }

    /// Watches until it has to be started afresh.
    pub(super) async fn until_ended(
        &self,
        room: &Room,
        stores: &Stores,
        backoff: &mut Backoff,
    ) -> Ended {
        let mut events = pin!(watcher(self.api.clone(), self.config.clone()));
        let mut listed = Vec::new();
        while let Some(event) = events.next().await {
            let error = match event {
                Ok(event) => {
                    self.take(event, stores, &mut listed, room, backoff);
                    continue;
                }
                Err(error) => error,
            };
            let ended = ended(&error);
            if ended != Some(Ended::Lost) {
                room.trouble(trouble(&error, &room.need));
            }
            match ended {
                Some(ended) => return ended,
                None => sleep(backoff.next()).await,
            }
        }
        Ended::Lost
    }

    fn take(
        &self,
        event: Event<K>,
        stores: &Stores,
        listed: &mut Vec<(Key, V)>,
        room: &Room,
        backoff: &mut Backoff,
    ) {
        let kept = (self.shelf)(stores);
        match event {
            // The list has yet to succeed.
            Event::Init => return listed.clear(),
            Event::InitApply(object) => {
                let key = key(&object);
                listed.extend((self.keep)(object).map(|value| (key, value)));
            }
            Event::InitDone => {
                room.changed(kept.replace(&room.span, std::mem::take(listed)));
                room.met();
            }
            Event::Apply(object) => {
                let key = key(&object);
                room.changed(kept.set(key, (self.keep)(object)));
                room.board.met(&room.need);
            }
            Event::Delete(object) => room.changed(kept.set(key(&object), None)),
        }
        backoff.reset();
    }
}

fn key<K: Resource>(object: &K) -> Key {
    Key::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// The API server's answer, if the error is one.
fn status(error: &watcher::Error) -> Option<(u16, &'static str, &str)> {
    let (error, verb) = match error {
        watcher::Error::InitialListFailed(error) => (error, "list"),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            (error, "watch")
        }
        watcher::Error::WatchError(status) => {
            return Some((status.code, "watch", status.message.as_str()));
        }
        watcher::Error::NoResourceVersion => return None,
    };
    match error {
        kube::Error::Api(status) => Some((status.code, verb, status.message.as_str())),
        _ => None,
    }
}

/// A place in time that is gone is not found again by asking again, whichever way it was said.
fn ended(error: &watcher::Error) -> Option<Ended> {
    match status(error) {
        Some((410, ..)) => Some(Ended::Lost),
        Some((404, ..)) => Some(Ended::NotServed),
        _ => None,
    }
}

fn trouble(error: &watcher::Error, need: &Need) -> Trouble {
    match status(error) {
        Some((401 | 403, verb, _)) => Trouble::Refused(advice(verb, need)),
        Some((404, ..)) => Trouble::Refused(format!(
            "the API server does not serve {}: install the CRDs (chart refrain-crds)",
            need.resource
        )),
        Some((code, verb, message)) => {
            Trouble::Failing(format!("cannot {verb} {need}: {code} {message}"))
        }
        None => Trouble::Failing(format!("cannot watch {need}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn answer(code: u16) -> kube::Error {
        kube::Error::Api(Box::new(Status::failure("no", "Reason").with_code(code)))
    }

    fn need() -> Need {
        Need {
            resource: "routes.refrain.dev",
            purpose: "",
            namespace: Some("ns".into()),
        }
    }

    #[test]
    fn a_lost_place_in_time_is_listed_afresh_also_when_it_comes_as_an_http_status() {
        let table = [
            (
                watcher::Error::WatchStartFailed(answer(410)),
                Some(Ended::Lost),
            ),
            (watcher::Error::WatchFailed(answer(410)), Some(Ended::Lost)),
            (
                watcher::Error::InitialListFailed(answer(404)),
                Some(Ended::NotServed),
            ),
            (watcher::Error::WatchStartFailed(answer(500)), None),
            (watcher::Error::NoResourceVersion, None),
        ];
        for (error, wanted) in table {
            assert_eq!(ended(&error), wanted, "{error}");
        }
    }

    #[test]
    fn a_refusal_names_verb_resource_and_namespace() {
        let error = watcher::Error::InitialListFailed(answer(403));
        let Trouble::Refused(text) = trouble(&error, &need()) else {
            panic!("not a refusal");
        };
        for word in ["list", "routes.refrain.dev", "namespace ns", "Role"] {
            assert!(text.contains(word), "{word} is not in {text}");
        }
    }

    #[test]
    fn a_missing_crd_says_how_to_install_it() {
        let error = watcher::Error::InitialListFailed(answer(404));
        assert!(trouble(&error, &need()).text().contains("refrain-crds"));
    }

    #[test]
    fn an_api_server_in_trouble_is_not_a_refusal() {
        let error = watcher::Error::WatchStartFailed(answer(503));
        assert!(matches!(trouble(&error, &need()), Trouble::Failing(_)));
    }
}
