//! The snapshot as it is in the cluster, as far as this replica knows.

use std::sync::Arc;

use crds::compile::{Verdict, reason};
use crds::snapshot::{DecodeError, Digest, Kind, Snapshot};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder};

use super::Read;
use crate::board::Board;
use crate::report::Forms;
use crate::stores::Held;

/// The Secret, and the last snapshot that was read or written here.
#[derive(Debug, Default)]
pub(super) struct View {
    held: Option<Arc<Held>>,
    /// The highest that was seen: it goes on when the Secret is deleted.
    generation: i64,
    /// Absent while the Secret is missing or does not hold a snapshot.
    digest: Option<Digest>,
    /// Outlives a Secret that is deleted or broken, so that last good forms do.
    last: Option<Arc<Snapshot>>,
}

impl View {
    /// Takes what the watch shows. True when its content has to be read.
    pub(super) fn take(&mut self, held: Option<Arc<Held>>) -> bool {
        let known = held.as_deref().map_or(0, |held| held.generation);
        self.generation = self.generation.max(known);
        let (Some(now), Some(before)) = (&held, &self.held) else {
            let changed = held.is_some() || self.held.is_some();
            self.held = held;
            return changed;
        };
        if now.resource_version == before.resource_version {
            return false;
        }
        // The watch may still show what was there before this replica wrote.
        if now.uid == before.uid && now.is_older_than(before) {
            return false;
        }
        let changed = now.bytes != before.bytes;
        self.held = held;
        changed
    }

    /// Reads the content that [`View::take`] has found.
    pub(super) fn decode(&mut self) -> Result<Option<(Digest, Arc<Forms>)>, DecodeError> {
        self.digest = None;
        let Some(held) = &self.held else {
            return Ok(None);
        };
        let (snapshot, digest) = Snapshot::open(&held.bytes)?;
        let forms = Arc::new(Forms::of(&snapshot));
        self.read((Arc::new(snapshot), digest.clone()));
        Ok(Some((digest, forms)))
    }

    /// This replica has written it.
    pub(super) fn wrote(&mut self, held: Held, snapshot: Arc<Snapshot>, digest: Digest) {
        self.generation = held.generation;
        self.held = Some(Arc::new(held));
        self.read((snapshot, digest));
    }

    fn read(&mut self, (snapshot, digest): Read) {
        self.digest = Some(digest);
        self.last = Some(snapshot);
    }

    /// What the next compile starts from.
    pub(super) fn previous(&self) -> Arc<Snapshot> {
        self.last
            .clone()
            .unwrap_or_else(|| Arc::new(Snapshot::empty()))
    }

    /// The generation of what is written next.
    pub(super) const fn next_generation(&self) -> i64 {
        self.generation.saturating_add(1)
    }

    pub(super) fn held(&self) -> Option<&Held> {
        self.held.as_deref()
    }

    /// Whether the Secret holds the snapshot of this digest.
    pub(super) fn holds(&self, digest: &Digest) -> bool {
        self.digest.as_ref() == Some(digest)
    }
}

/// A Secret that cannot be read is not a Secret that does not exist: say which.
pub(super) fn explain_refusals(verdicts: &mut [Verdict], board: &Board) {
    let blind = |verdict: &&mut Verdict| {
        verdict.kind == Kind::Provider
            && verdict.resolved.reason == reason::SECRET_NOT_FOUND
            && board.is_refused("secrets", &verdict.origin.key.namespace)
    };
    for verdict in verdicts.iter_mut().filter(blind) {
        verdict.resolved.message = format!(
            "the operator may not read Secrets in namespace {}: give its ServiceAccount the verbs \
             get, list and watch on secrets in a Role there",
            verdict.origin.key.namespace
        );
    }
}

/// Tells about the snapshot Secret itself.
#[derive(Clone)]
pub(crate) struct Alarm {
    pub(crate) recorder: Recorder,
    pub(crate) secret: ObjectReference,
}

impl Alarm {
    /// It does not hold a snapshot.
    pub(super) async fn unreadable(&self, error: &DecodeError) {
        let event = Event {
            type_: EventType::Warning,
            reason: "SnapshotUnreadable".to_owned(),
            note: Some(format!("it is written anew: {error}")),
            action: "Apply".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &self.secret).await {
            tracing::warn!(%error, "Event not written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::snapshot;

    fn held(version: &str, generation: i64, bytes: Vec<u8>) -> Held {
        Held {
            resource_version: version.into(),
            generation,
            uid: "secret".into(),
            bytes,
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "what the watch shows is optional")]
    fn shown(version: &str, generation: i64, bytes: Vec<u8>) -> Option<Arc<Held>> {
        Some(Arc::new(held(version, generation, bytes)))
    }

    #[test]
    fn last_good_forms_are_found_in_the_secret_after_a_restart() {
        let sealed = snapshot(1).seal();
        let mut view = View::default();
        assert!(view.take(shown("1", 1, sealed.bytes)));
        view.decode().unwrap();
        assert_eq!(*view.previous(), snapshot(1));
        assert!(view.holds(&sealed.digest));
    }

    #[test]
    fn a_deleted_or_broken_secret_is_written_anew_from_what_is_known() {
        let sealed = snapshot(1).seal();
        let mut view = View::default();
        view.take(shown("1", 1, sealed.bytes.clone()));
        view.decode().unwrap();
        assert!(view.take(shown("2", 0, b"garbage".to_vec())));
        view.decode().unwrap_err();
        assert!(!view.holds(&sealed.digest));
        assert_eq!(*view.previous(), snapshot(1));
        assert!(view.take(None));
        assert!(view.decode().unwrap().is_none());
        assert!(view.held().is_none() && !view.holds(&sealed.digest));
        assert_eq!(view.next_generation(), 2, "it goes on");
        assert_eq!(*view.previous(), snapshot(1));
    }

    #[test]
    fn the_echo_of_a_write_and_what_came_before_it_are_no_news() {
        let (old, new) = (snapshot(1).seal(), snapshot(2).seal());
        let mut view = View::default();
        view.take(shown("1", 1, old.bytes.clone()));
        view.decode().unwrap();
        let written = held("2", 2, new.bytes.clone());
        view.wrote(written, Arc::new(snapshot(2)), new.digest.clone());
        assert!(!view.take(shown("1", 1, old.bytes)), "the watch is behind");
        assert!(!view.take(shown("2", 2, new.bytes.clone())), "the echo");
        assert!(!view.take(shown("3", 2, new.bytes)), "a new label");
        assert_eq!(view.held().map(|h| h.resource_version.as_str()), Some("3"));
        assert!(view.holds(&new.digest));
    }

    #[test]
    fn a_secret_that_someone_has_stripped_is_read_again() {
        let sealed = snapshot(1).seal();
        let mut view = View::default();
        let written = held("9", 5, sealed.bytes);
        view.wrote(written, Arc::new(snapshot(1)), sealed.digest.clone());
        assert!(view.take(shown("10", 0, vec![])));
        view.decode().unwrap_err();
        assert!(!view.holds(&sealed.digest));
        assert_eq!(view.next_generation(), 6);
    }

    #[test]
    fn what_another_leader_wrote_is_read() {
        let (mine, theirs) = (snapshot(1).seal(), snapshot(2).seal());
        let mut view = View::default();
        let written = held("1", 1, mine.bytes);
        view.wrote(written, Arc::new(snapshot(1)), mine.digest);
        assert!(view.take(shown("2", 2, theirs.bytes)));
        view.decode().unwrap();
        assert!(view.holds(&theirs.digest));
    }
}
