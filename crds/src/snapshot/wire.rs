//! Snapshot ↔ bytes. Small ones are plain JSON, so that `kubectl get secret` shows what runs;
//! larger ones are zstd.

use std::io::Read as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{BrokenSnapshot, Snapshot};

/// The most that a sealed snapshot may weigh. A Secret holds 1 MiB; the rest is for its metadata.
pub const MAX_BYTES: usize = 1_000_000;
/// JSON up to this size is left as it is.
const PLAIN_BYTES: usize = 64 * 1024;
/// What a snapshot may unpack to: a guard against a crafted Secret, far above any real one.
const MAX_UNPACKED: u64 = 64 * 1024 * 1024;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Above zstd's default: snapshots are written rarely and the size limit is hard.
const ZSTD_LEVEL: i32 = 9;

/// SHA-256 of a snapshot's JSON, in lower-case hex. It covers the uid and generation of every
/// object in it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash, Default)]
#[serde(transparent)]
pub struct Digest(pub String);

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A snapshot as it travels.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed {
    /// Names the content.
    pub digest: Digest,
    /// JSON, or zstd of JSON.
    pub bytes: Vec<u8>,
}

impl std::fmt::Debug for Sealed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealed({}, {} bytes)", self.digest, self.bytes.len())
    }
}

/// Bytes that are not a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// Not zstd, or it unpacks to too much.
    #[error("snapshot does not unpack: {0}")]
    Unpack(#[source] std::io::Error),
    /// Not the JSON of a snapshot.
    #[error("snapshot is not valid JSON of this layout: {0}")]
    Json(#[source] serde_json::Error),
    /// Readable, but not servable.
    #[error(transparent)]
    Broken(#[from] BrokenSnapshot),
}

impl Snapshot {
    /// Encodes it and names its content.
    pub fn seal(&self) -> Sealed {
        let json = serde_json::to_vec(self).unwrap_or_default();
        let digest = digest(&json);
        let bytes = if json.len() <= PLAIN_BYTES {
            json
        } else {
            zstd::encode_all(json.as_slice(), ZSTD_LEVEL).unwrap_or(json)
        };
        Sealed { digest, bytes }
    }

    /// Decodes and checks what [`Snapshot::seal`] wrote, by this version or another.
    pub fn open(bytes: &[u8]) -> Result<(Self, Digest), DecodeError> {
        let json = unpack(bytes).map_err(DecodeError::Unpack)?;
        let snapshot: Self = serde_json::from_slice(&json).map_err(DecodeError::Json)?;
        snapshot.check()?;
        Ok((snapshot, digest(&json)))
    }
}

fn digest(json: &[u8]) -> Digest {
    use std::fmt::Write as _;
    let hash = Sha256::digest(json);
    let mut hex = String::with_capacity(64);
    for byte in hash {
        // Writing to a String cannot fail.
        let _ok = write!(hex, "{byte:02x}");
    }
    Digest(hex)
}

fn unpack(bytes: &[u8]) -> std::io::Result<std::borrow::Cow<'_, [u8]>> {
    if !bytes.starts_with(&ZSTD_MAGIC) {
        return Ok(bytes.into());
    }
    let mut json = Vec::new();
    let read = zstd::Decoder::new(bytes)?
        .take(MAX_UNPACKED + 1)
        .read_to_end(&mut json)?;
    if read as u64 > MAX_UNPACKED {
        return Err(std::io::Error::other(format!(
            "it unpacks to more than {MAX_UNPACKED} bytes"
        )));
    }
    Ok(json.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Key, Origin, Route, Rule, Strategy};

    fn route(name: String) -> Route {
        let rule = Rule {
            name: "r".into(),
            requires: vec![],
            matches: vec![],
            lost: vec![],
            backends: vec![],
            strategy: Strategy::LeastLoad,
            attempts: 2,
        };
        let origin = Origin {
            key: Key::new("ns", name),
            uid: "u".into(),
            generation: 1,
            created: String::new(),
        };
        Route {
            origin,
            rules: vec![rule],
        }
    }

    #[test]
    fn a_small_snapshot_is_readable_json() {
        let sealed = Snapshot {
            routes: vec![route("a".into())],
            ..Snapshot::empty()
        }
        .seal();
        assert!(sealed.bytes.starts_with(br#"{"format":1"#));
    }

    #[test]
    fn a_large_snapshot_is_packed_and_opens_to_itself() {
        let routes = (0..1000).map(|i| route(format!("route-{i:04}"))).collect();
        let snapshot = Snapshot {
            routes,
            ..Snapshot::empty()
        };
        let sealed = snapshot.seal();
        assert!(sealed.bytes.starts_with(&ZSTD_MAGIC));
        let (opened, digest) = Snapshot::open(&sealed.bytes).unwrap();
        assert_eq!((opened, digest), (snapshot, sealed.digest));
    }

    #[test]
    fn the_digest_tells_generations_apart() {
        let one = Snapshot {
            routes: vec![route("a".into())],
            ..Snapshot::empty()
        };
        let mut two = one.clone();
        two.routes[0].origin.generation = 2;
        assert_ne!(one.seal().digest, two.seal().digest);
    }

    #[test]
    fn a_newer_format_is_refused_with_what_to_do() {
        let newer = Snapshot {
            format: FORMAT_AFTER_THIS,
            ..Snapshot::empty()
        };
        let error = Snapshot::open(&newer.seal().bytes).unwrap_err();
        assert!(error.to_string().contains("upgrade the routers"), "{error}");
    }

    const FORMAT_AFTER_THIS: u32 = crate::snapshot::FORMAT + 1;

    #[test]
    fn a_snapshot_of_a_newer_operator_opens_without_what_is_new_in_it() {
        let json = br#"{"format":1,"future":{},"routes":[{"origin":{"namespace":"n","name":"r","uid":"u",
            "generation":1},"rules":[{"name":"x","requires":["strategy/Future"],"matches":[{"exact":"m"}],
            "backends":[],"strategy":"Future","attempts":1,"later":true}]}]}"#;
        let (snapshot, _) = Snapshot::open(json).unwrap();
        let rule = &snapshot.routes[0].rules[0];
        assert_eq!(rule.strategy, Strategy::Unknown);
        assert_eq!(rule.supported().unwrap_err().missing, ["strategy/Future"]);
    }

    #[test]
    fn a_bomb_does_not_unpack() {
        let bomb = zstd::encode_all(std::io::repeat(b' ').take(MAX_UNPACKED + 10), 1).unwrap();
        assert!(matches!(Snapshot::open(&bomb), Err(DecodeError::Unpack(_))));
    }

    #[test]
    fn a_credential_does_not_show_in_debug_output() {
        let auth = crate::snapshot::Auth::Header {
            name: "authorization".into(),
            prefix: "Bearer ".into(),
            secret_ref: crate::api::SecretRef {
                name: "s".into(),
                key: "k".into(),
            },
            secret: "sk-hidden".into(),
        };
        assert!(!format!("{auth:?}").contains("sk-hidden"));
    }
}
