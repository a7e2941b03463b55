//! What is still to be written: the latest status per object, one write at a time for each, a few
//! at a time in all, with growing delays for an object whose writes fail.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use crds::snapshot::{Key, Kind};
use kube::runtime::events::Event;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::decide::Memory;
use super::write::{WriteError, Writer, Written};
use crate::backoff::Backoff;
use crate::stores::Status;

/// Writes under way at once.
const AT_ONCE: usize = 16;
/// A status that was written is believed for this long without having been seen.
const BELIEVED: Duration = Duration::from_secs(10);
const FIRST_DELAY: Duration = Duration::from_millis(500);
const MOST_DELAY: Duration = Duration::from_mins(1);

/// A status to write.
pub(super) struct Job {
    pub(super) kind: Kind,
    pub(super) key: Key,
    pub(super) uid: String,
    /// What the object shows now.
    pub(super) seen: Status,
    pub(super) status: Status,
    pub(super) news: Vec<Event>,
    /// Its last write, if any, did not fail.
    pub(super) is_first: bool,
}

struct Entry {
    memory: Memory,
    /// What was written while the object showed this, and when.
    written: Option<(Status, Status, Instant)>,
    job: Option<Job>,
    is_queued: bool,
    is_writing: bool,
    backoff: Backoff,
    retry_at: Option<Instant>,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            memory: Memory::default(),
            written: None,
            job: None,
            is_queued: false,
            is_writing: false,
            backoff: Backoff::new(FIRST_DELAY, MOST_DELAY),
            retry_at: None,
        }
    }
}

impl Entry {
    /// The status that the object has: what was last written, until the watch shows a change.
    fn current(&mut self, seen: &Status, now: Instant) -> Status {
        match &self.written {
            Some((before, status, at)) if before == seen && now < *at + BELIEVED => status.clone(),
            _ => {
                self.written = None;
                seen.clone()
            }
        }
    }

    /// Whether its job can go into the queue now.
    fn is_due(&self, now: Instant) -> bool {
        let waits = self.retry_at.is_some_and(|at| now < at);
        self.job.is_some() && !self.is_queued && !self.is_writing && !waits
    }
}

/// All objects, and whose turn it is.
pub(super) struct Queue {
    writer: Writer,
    entries: HashMap<String, Entry>,
    order: VecDeque<String>,
    writes: JoinSet<Written>,
}

impl Queue {
    pub(super) fn new(writer: Writer) -> Self {
        Self {
            writer,
            entries: HashMap::new(),
            order: VecDeque::new(),
            writes: JoinSet::new(),
        }
    }

    /// The status that an object has, and what is remembered of it.
    pub(super) fn current(
        &mut self,
        uid: &str,
        seen: &Status,
        now: Instant,
    ) -> (Status, &mut Memory) {
        let entry = self.entries.entry(uid.to_owned()).or_default();
        (entry.current(seen, now), &mut entry.memory)
    }

    /// Sets what is to be written to an object: the latest word counts. Returns when to ask again,
    /// if it has to wait.
    pub(super) fn want(&mut self, uid: &str, job: Option<Job>, now: Instant) -> Option<Instant> {
        let entry = self.entries.entry(uid.to_owned()).or_default();
        entry.job = job;
        if entry.is_due(now) {
            entry.is_queued = true;
            self.order.push_back(uid.to_owned());
            return None;
        }
        entry.retry_at.filter(|at| entry.job.is_some() && now < *at)
    }

    /// Drops objects that are gone.
    pub(super) fn forget_all_but(&mut self, alive: &HashSet<&str>) {
        self.entries.retain(|uid, _| alive.contains(uid.as_str()));
    }

    /// Starts as many writes as may be under way.
    pub(super) fn start(&mut self) {
        while self.writes.len() < AT_ONCE {
            let Some(uid) = self.order.pop_front() else {
                return;
            };
            let Some(entry) = self.entries.get_mut(&uid) else {
                continue;
            };
            entry.is_queued = false;
            if let Some(mut job) = entry.job.take() {
                entry.is_writing = true;
                job.is_first = entry.retry_at.is_none();
                self.writes.spawn(self.writer.clone().write(job));
            }
        }
    }

    /// Waits until a write has ended; for ever when none is under way.
    pub(super) async fn written(&mut self) -> Written {
        loop {
            match self.writes.join_next().await {
                Some(Ok(written)) => return written,
                Some(Err(error)) => tracing::error!(%error, "a write broke off"),
                None => std::future::pending().await,
            }
        }
    }

    /// Takes note of a write that has ended, and starts the next.
    pub(super) fn done(&mut self, written: Written, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&written.uid) {
            entry.note(&written.result, now);
            if written.result.is_ok() {
                entry.written = Some((written.seen, written.status, now));
            }
            if entry.is_due(now) {
                entry.is_queued = true;
                self.order.push_back(written.uid);
            }
        }
        self.start();
    }

    /// Forgets what was to be written and believed.
    pub(super) fn stand_down(&mut self) {
        self.order.clear();
        self.entries.clear();
    }

    /// Waits for the writes that are under way.
    pub(super) async fn finish(&mut self) {
        self.order.clear();
        while self.writes.join_next().await.is_some() {}
    }
}

impl Entry {
    fn note(&mut self, result: &Result<(), WriteError>, now: Instant) {
        self.is_writing = false;
        match result {
            Ok(()) | Err(WriteError::Gone | WriteError::Deposed) => {
                self.backoff.reset();
                self.retry_at = None;
            }
            Err(WriteError::Timeout | WriteError::Api(_)) => {
                self.retry_at = Some(now + self.backoff.next());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(engine: &str) -> Status {
        Status {
            engine: Some(engine.to_owned()),
            ..Status::default()
        }
    }

    #[test]
    fn what_was_written_is_believed_until_the_watch_shows_a_change() {
        let now = Instant::now();
        let (old, mine, foreign) = (status("old"), status("mine"), status("foreign"));
        let mut entry = Entry {
            written: Some((old.clone(), mine.clone(), now)),
            ..Entry::default()
        };
        assert_eq!(entry.current(&old, now), mine, "the watch is behind");
        assert_eq!(entry.current(&foreign, now), foreign);
        assert_eq!(entry.current(&old, now), old, "and then the watch counts");
    }

    #[test]
    fn what_was_written_is_not_believed_for_ever() {
        let now = Instant::now();
        let mut entry = Entry {
            written: Some((status("old"), status("mine"), now)),
            ..Entry::default()
        };
        assert_eq!(entry.current(&status("old"), now + BELIEVED), status("old"));
    }

    #[test]
    fn an_object_whose_writes_fail_waits_longer_each_time_and_a_gone_one_does_not() {
        let now = Instant::now();
        let mut entry = Entry::default();
        let failed = Err(WriteError::Timeout);
        entry.note(&failed, now);
        let first = entry.retry_at.unwrap() - now;
        entry.note(&failed, now);
        let second = entry.retry_at.unwrap() - now;
        assert!(second > first, "{first:?} {second:?}");
        entry.note(&Err(WriteError::Gone), now);
        assert_eq!(entry.retry_at, None);
    }
}
