use std::collections::HashMap;
use std::hash::Hash;

use tokio::task::{AbortHandle, JoinSet};

/// One task per key, for as long as the key is wanted. A task that ends by itself is started anew.
#[derive(Debug)]
pub(crate) struct Keyed<K, V> {
    tasks: JoinSet<()>,
    running: HashMap<K, (V, AbortHandle)>,
}

impl<K: Hash + Eq, V> Keyed<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
            running: HashMap::new(),
        }
    }

    /// Ends the tasks that are not wanted any more, or whose value is not the same, and starts
    /// those that are missing.
    pub(crate) fn keep<F>(
        &mut self,
        wanted: impl IntoIterator<Item = (K, V)>,
        same: impl Fn(&V, &V) -> bool,
        start: impl Fn(&K, &V) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut before = std::mem::take(&mut self.running);
        for (key, value) in wanted {
            let goes_on = |(old, task): &(V, AbortHandle)| same(old, &value) && !task.is_finished();
            let task = match before.remove(&key).filter(goes_on) {
                Some((_, task)) => task,
                None => self.tasks.spawn(start(&key, &value)),
            };
            self.running.insert(key, (value, task));
        }
        for (_, task) in before.into_values() {
            task.abort();
        }
    }

    /// Waits until a task ends by itself.
    pub(crate) async fn ended(&mut self) {
        loop {
            match self.tasks.join_next().await {
                Some(Err(error)) if error.is_cancelled() => {}
                Some(_) => return,
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn tasks_start_and_end_with_their_keys() {
        let (send, mut receive) = mpsc::unbounded_channel();
        let mut keyed = Keyed::new();
        let start = |key: &&'static str, value: &u32| {
            let (key, value, send) = (*key, *value, send.clone());
            send.send((key, value)).unwrap();
            // A future of the last value ends by itself.
            futures::future::poll_fn(move |_| match value {
                10 => std::task::Poll::Ready(()),
                _ => std::task::Poll::Pending,
            })
        };
        keyed.keep([("a", 1), ("b", 2)], u32::eq, start);
        let mut started = [receive.recv().await.unwrap(), receive.recv().await.unwrap()];
        started.sort_unstable();
        assert_eq!(started, [("a", 1), ("b", 2)]);
        keyed.keep([("a", 1), ("b", 3)], u32::eq, start);
        assert_eq!(
            receive.recv().await,
            Some(("b", 3)),
            "another value is another task"
        );
        keyed.keep([("c", 10)], u32::eq, start);
        assert_eq!(receive.recv().await, Some(("c", 10)));
        keyed.ended().await;
        keyed.keep([("c", 10)], u32::eq, start);
        assert_eq!(
            receive.recv().await,
            Some(("c", 10)),
            "one that ended is started anew"
        );
        assert_eq!(keyed.running.len(), 1);
    }
}
