use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::Broken;

/// How a reply comes about.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Time before anything of the reply is sent, in milliseconds.
    #[serde(
        rename = "first_ms",
        deserialize_with = "from_millis",
        serialize_with = "to_millis"
    )]
    pub first: Duration,
    /// Time between tokens, in milliseconds.
    #[serde(
        rename = "interval_ms",
        deserialize_with = "from_millis",
        serialize_with = "to_millis"
    )]
    pub interval: Duration,
    /// How many tokens the reply has.
    pub tokens: usize,
    /// Answer this status instead.
    pub status: Option<u16>,
    /// Go silent at this moment, for ever.
    pub hang: Option<Moment>,
    /// Break the connection at this moment.
    pub cut: Option<Moment>,
    /// Send something that is not what it should be.
    pub garble: bool,
    /// `/health` answers 503.
    pub unhealthy: bool,
}

/// A moment of a reply.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// Nothing was sent yet.
    BeforeHeaders,
    /// The headers were sent, and no byte of the body.
    AfterHeaders,
    /// Half of the events were sent.
    MidStream,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            first: Duration::ZERO,
            interval: Duration::ZERO,
            tokens: 8,
            status: None,
            hang: None,
            cut: None,
            garble: false,
            unhealthy: false,
        }
    }
}

impl Ask {
    /// What the request itself asks for.
    pub(super) fn of(request: &Value) -> Option<Self> {
        Self::deserialize(request.get("stand_in")?).ok()
    }

    pub(super) fn breaks_at(&self, moment: Moment) -> bool {
        self.hang == Some(moment) || self.cut == Some(moment)
    }

    /// Passes the moment, or does what was asked for it.
    pub(super) async fn reach(&self, moment: Moment) -> Result<(), Broken> {
        if self.hang == Some(moment) {
            std::future::pending::<()>().await;
        }
        if self.cut == Some(moment) {
            Err(Broken)
        } else {
            Ok(())
        }
    }
}

fn from_millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

fn to_millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    u64::try_from(duration.as_millis())
        .unwrap_or(u64::MAX)
        .serialize(serializer)
}
