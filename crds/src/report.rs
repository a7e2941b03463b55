//! What a router says back, in one annotation on the Lease that it owns.

use serde::{Deserialize, Serialize};

use crate::snapshot::{Digest, Key, Kind};

/// The annotation on a router pod's Lease that carries a [`Report`].
pub const ANNOTATION: &str = "refrain.dev/report";
/// The label that marks the Leases of router pods; its value is the name of the routers' Service.
pub const LABEL: &str = "refrain.dev/router";
/// The most that an encoded report weighs, in bytes.
pub const MAX_BYTES: usize = 16 * 1024;

/// The state of one router pod.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The snapshot that it serves.
    pub digest: Digest,
    /// What it refuses of that snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<Refusal>,
    /// What it saw of each Provider.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observations: Vec<Observation>,
    /// Something was left out to keep within [`MAX_BYTES`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// An object, or a rule of one, that a router does not serve.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The object's kind.
    pub kind: Kind,
    /// The object's namespace and name.
    #[serde(flatten)]
    pub key: Key,
    /// CamelCase, as in a condition.
    pub reason: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// What a router saw of one Provider.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// The Provider.
    #[serde(flatten)]
    pub provider: Key,
    /// Endpoints that take new requests.
    pub ready: u32,
    /// All endpoints.
    pub total: u32,
    /// The engine, as it names itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The first models that it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
}

impl Report {
    /// Encodes it within [`MAX_BYTES`]: model names go first, then observations, then refusals
    /// from the end; the digest always stays.
    pub fn encode(&self) -> String {
        let mut report = self.clone();
        loop {
            let json = serde_json::to_string(&report).unwrap_or_default();
            if json.len() <= MAX_BYTES {
                return json;
            }
            report.truncated = true;
            if report.observations.iter().any(|o| !o.models.is_empty()) {
                report
                    .observations
                    .iter_mut()
                    .for_each(|o| o.models.clear());
            } else if report.observations.pop().is_none() && report.refusals.pop().is_none() {
                return json;
            }
        }
    }

    /// Reads what [`Report::encode`] wrote, by this version or another.
    pub fn decode(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observation(i: usize) -> Observation {
        Observation {
            provider: Key::new("namespace", format!("provider-{i}")),
            ready: 3,
            total: 4,
            engine: Some("vllm".into()),
            models: vec!["m".repeat(100); 4],
        }
    }

    #[test]
    fn a_report_of_many_providers_fits_and_keeps_its_digest_and_refusals() {
        let refusal = Refusal {
            kind: Kind::Route,
            key: Key::new("n", "r"),
            reason: "Unsupported".into(),
            message: "upgrade".into(),
        };
        let report = Report {
            digest: Digest("d".into()),
            refusals: vec![refusal],
            observations: (0..1000).map(observation).collect(),
            truncated: false,
        };
        let json = report.encode();
        assert!(json.len() <= MAX_BYTES);
        let read = Report::decode(&json).unwrap();
        assert!(read.truncated && read.digest == report.digest);
        assert_eq!(read.refusals, report.refusals);
        assert!(read.observations.len() > 50);
    }
}
