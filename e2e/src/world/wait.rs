//! Waiting for something to become so.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::{Instant, sleep, timeout_at};

const EVERY: Duration = Duration::from_millis(100);

/// Asks until the answer is good, and returns it. When `within` is over, the last answer's error says what was wrong.
pub async fn eventually<T, F>(what: &str, within: Duration, ask: F) -> Result<T>
where
    F: AsyncFn() -> Result<T>,
{
    let deadline = Instant::now() + within;
    let mut last = None;
    loop {
        match timeout_at(deadline, ask()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => last = Some(error),
            Err(_) => {}
        }
        if Instant::now() + EVERY > deadline {
            let last = last.unwrap_or_else(|| anyhow::anyhow!("no answer"));
            return Err(last).with_context(|| format!("{what}: not so within {within:?}"));
        }
        sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn the_first_good_answer_is_returned() {
        let asked = Cell::new(0);
        let answer = eventually("counting", Duration::from_secs(5), async || {
            asked.set(asked.get() + 1);
            anyhow::ensure!(asked.get() > 2, "only {}", asked.get());
            Ok(asked.get())
        })
        .await;
        assert_eq!(answer.unwrap(), 3);
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn giving_up_tells_the_last_error() {
        let never = eventually("it", Duration::from_secs(1), async || -> Result<()> {
            anyhow::bail!("not yet")
        })
        .await;
        assert_eq!(
            format!("{:#}", never.unwrap_err()),
            "it: not so within 1s: not yet"
        );
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn a_question_that_hangs_does_not_hang_the_story() {
        let never = eventually("it", Duration::from_secs(1), async || {
            std::future::pending::<()>().await;
            Ok(())
        })
        .await;
        assert!(never.is_err());
    }
}
