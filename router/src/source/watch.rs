//! Every watch of the router. Errors are waited out, a silent watch ends by itself, and a list
//! that the API server never finishes is asked for again.

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{BoxStream, Stream, StreamExt as _, unfold};
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::{Backoff, Metrics};

/// The API server ends a watch after so long, and the client does shortly after. Between two
/// watches nothing is lost, so this bounds how long a silent one can hide changes.
const WATCH_SECONDS: u32 = 120;
/// The most between two steps of a list.
const LIST_DEADLINE: Duration = Duration::from_secs(15);
/// After so long without a failure the next one is waited out as if it were the first.
const CALM: Duration = Duration::from_secs(30);

/// What a watch tells.
#[derive(Debug)]
pub enum Heard<K> {
    /// An event. Everything between [`Event::Init`] and [`Event::InitDone`] is one list.
    Event(Event<K>),
    /// It does not work now; it goes on after a wait. True when the API server forbids it.
    Failed {
        /// The API server answered that this is forbidden.
        forbidden: bool,
        /// The error, for people.
        error: String,
    },
}

/// Watches objects without end. `resource` is what logs and metrics call them.
pub fn watch<K>(
    api: Api<K>,
    config: Config,
    resource: &'static str,
    metrics: Metrics,
) -> impl Stream<Item = Heard<K>> + Send
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let config = config.timeout(WATCH_SECONDS);
    let start = move || watcher(api.clone(), config.clone()).boxed();
    let watch = Watch {
        events: start(),
        start,
        listing: true,
        failing: false,
        backoff: Backoff::API,
        wait: None,
        failed_at: None,
        resource,
        metrics,
    };
    unfold(watch, |mut watch| async move {
        let heard = watch.next().await;
        Some((heard, watch))
    })
}

type Events<K> = BoxStream<'static, watcher::Result<Event<K>>>;

struct Watch<K, S> {
    events: Events<K>,
    start: S,
    listing: bool,
    failing: bool,
    backoff: Backoff,
    /// Before the next step.
    wait: Option<Duration>,
    failed_at: Option<Instant>,
    resource: &'static str,
    metrics: Metrics,
}

impl<K: Resource, S: Fn() -> Events<K>> Watch<K, S> {
    async fn next(&mut self) -> Heard<K> {
        if let Some(wait) = self.wait.take() {
            sleep(wait).await;
        }
        match self.step().await {
            Some(Ok(event)) => self.heard(event),
            Some(Err(error)) => {
                if is_gone(&error) {
                    self.restart();
                }
                let forbidden = is_forbidden(&error);
                self.failed(forbidden, explain(&error))
            }
            None => {
                self.restart();
                self.failed(false, "the API server does not finish the list".to_owned())
            }
        }
    }

    fn restart(&mut self) {
        self.events = (self.start)();
        self.listing = true;
    }

    /// The next event; none when a list has come to a halt.
    async fn step(&mut self) -> Option<watcher::Result<Event<K>>> {
        if self.listing {
            let next = tokio::time::timeout(LIST_DEADLINE, self.events.next());
            next.await.ok().flatten()
        } else {
            self.events.next().await
        }
    }

    fn heard(&mut self, mut event: Event<K>) -> Heard<K> {
        match &mut event {
            Event::Init => self.listing = true,
            Event::InitDone => self.listing = false,
            Event::Apply(object) | Event::Delete(object) | Event::InitApply(object) => {
                object.managed_fields_mut().clear();
            }
        }
        if self.failing && !matches!(event, Event::Init) {
            self.failing = false;
            info!(resource = self.resource, "watch works again");
        }
        Heard::Event(event)
    }

    fn failed(&mut self, forbidden: bool, error: String) -> Heard<K> {
        self.metrics.watch_error(self.resource);
        // Each attempt begins well, so that only time tells a new failure from one that lasts.
        let last = self.failed_at.replace(Instant::now());
        if last.is_none_or(|at| at.elapsed() > CALM) {
            self.backoff.reset();
        }
        self.wait = Some(self.backoff.wait());
        if !self.failing {
            self.failing = true;
            let resource = self.resource;
            warn!(
                resource,
                error, "watch failed; serving on with what is known"
            );
        }
        Heard::Failed { forbidden, error }
    }
}

/// The watcher lists again by itself when it is told 410 inside a watch, not in place of one.
fn is_gone(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 410)
}

fn is_forbidden(error: &watcher::Error) -> bool {
    let of = |error: &kube::Error| matches!(error, kube::Error::Api(status) if status.code == 403);
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => of(error),
        watcher::Error::WatchError(status) => status.code == 403,
        watcher::Error::NoResourceVersion => false,
    }
}

fn explain(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error) => format!("list: {}", say(error)),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => {
            format!("watch: {}", say(error))
        }
        watcher::Error::WatchError(status) => format!("watch: {}", status.message),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

/// An error of the API server in words: its own message without the debug output that kube adds,
/// or the whole chain of causes.
pub(crate) fn say(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        let more = next.to_string();
        // Some errors repeat their cause in their own text.
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        cause = next.source();
    }
    text
}
