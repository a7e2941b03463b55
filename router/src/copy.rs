//! What an earlier run of this pod knew: the last snapshot and the last EndpointSlices, kept in a
//! memory-backed folder so that a restart serves while the API server is away.
//!
//! A copy is one file: a line with the layout and the SHA-256 of the rest, then the rest. Files
//! hold credentials: only the owner may read them, and they never leave the pod.

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;
use tracing::warn;

use crate::fleet::roster::{ByNamespace, Roster};

const LAYOUT: &str = "refrain-copy-1";
const SNAPSHOT: &str = "snapshot";
const ENDPOINTS: &str = "endpoints.json";
/// Endpoints come and go in bursts; the copy may lag behind so much.
const SETTLE: Duration = Duration::from_secs(1);

/// The folder of copies.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
}

/// A copy that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// It cannot be read or written.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It is not what was written, or another version wrote it.
    #[error("its checksum or layout is wrong")]
    Corrupt,
    /// Its content has another shape.
    #[error("its content is not what this version writes: {0}")]
    Content(#[from] serde_json::Error),
}

impl Disk {
    /// Keeps copies in `folder`, which must exist.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The snapshot of an earlier run.
    pub async fn snapshot(&self) -> Option<Vec<u8>> {
        self.take(SNAPSHOT, Ok).await
    }

    /// Keeps a snapshot for the next run.
    pub async fn keep_snapshot(&self, bytes: Vec<u8>) {
        self.keep(SNAPSHOT, bytes).await;
    }

    /// The EndpointSlices of an earlier run.
    pub async fn endpoints(&self) -> Option<ByNamespace> {
        let parse = |bytes: Vec<u8>| Ok(serde_json::from_slice(&bytes)?);
        self.take(ENDPOINTS, parse).await
    }

    /// Keeps the EndpointSlices up to date for the next run, without end.
    pub async fn follow(self: Arc<Self>, roster: Arc<Roster>) {
        let mut changes = roster.changes();
        let mut kept = self.endpoints().await.unwrap_or_default();
        while changes.changed().await.is_ok() {
            tokio::time::sleep(SETTLE).await;
            changes.mark_unchanged();
            let mut slices = roster.slices();
            // A namespace that is not listed yet stays as the last run knew it.
            let before = |name: String| {
                let slices = kept.get(&name)?.clone();
                Some((name, slices))
            };
            slices.extend(roster.missing().into_iter().filter_map(before));
            if slices.is_empty() || slices == kept {
                continue;
            }
            if let Ok(json) = serde_json::to_vec(&slices) {
                self.keep(ENDPOINTS, json).await;
                kept = slices;
            }
        }
    }

    async fn take<T, F>(&self, name: &'static str, parse: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce(Vec<u8>) -> Result<T, CopyError> + Send + 'static,
    {
        let path = self.folder.join(name);
        let shown = path.display().to_string();
        let read = spawn_blocking(move || read(&path).and_then(parse)).await;
        match read.ok()? {
            Ok(copy) => Some(copy),
            Err(CopyError::Io(error)) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                warn!(file = shown, %error, "copy of an earlier run is ignored");
                None
            }
        }
    }

    async fn keep(&self, name: &'static str, bytes: Vec<u8>) {
        let folder = self.folder.clone();
        let written = spawn_blocking(move || write(&folder, name, &bytes)).await;
        if let Ok(Err(error)) = written {
            let folder = self.folder.display();
            warn!(%folder, %error, "no copy kept: check that --state-dir can be written");
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, CopyError> {
    let mut bytes = std::fs::read(path)?;
    let end = bytes
        .iter()
        .position(|&b| b == b'\n')
        .ok_or(CopyError::Corrupt)?;
    let content = bytes.split_off(end + 1);
    bytes.pop();
    if bytes == head(&content).as_bytes() {
        Ok(content)
    } else {
        Err(CopyError::Corrupt)
    }
}

fn head(content: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut head = format!("{LAYOUT} ");
    for byte in Sha256::digest(content) {
        // Writing to a String cannot fail.
        let _ok = write!(head, "{byte:02x}");
    }
    head
}

/// Readers see the old file or the new one, never a part.
fn write(folder: &Path, name: &str, content: &[u8]) -> std::io::Result<()> {
    let temporary = folder.join(format!(".{name}.new"));
    // A leftover of a crash could have other permissions.
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)?;
    writeln!(file, "{}", head(content))?;
    file.write_all(content)?;
    std::fs::rename(&temporary, folder.join(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn what_was_kept_is_read_back_and_is_for_the_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path());
        assert!(disk.snapshot().await.is_none());
        for content in [b"one\nwith lines".to_vec(), vec![0, 255, b'\n']] {
            disk.keep_snapshot(content.clone()).await;
            assert_eq!(disk.snapshot().await, Some(content));
        }
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(files.len(), 1, "no temporary file is left");
        let mode = files[0].as_ref().unwrap().metadata().unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_damaged_copy_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path());
        disk.keep_snapshot(b"content".to_vec()).await;
        let path = folder.path().join(SNAPSHOT);
        let whole = std::fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let cut = whole[..whole.len() - 1].to_vec();
        let newer = String::from_utf8(whole)
            .unwrap()
            .replace("copy-1", "copy-2");
        for bytes in [
            flipped,
            cut,
            newer.into_bytes(),
            vec![],
            b"content".to_vec(),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert!(disk.snapshot().await.is_none());
        }
    }

    #[tokio::test]
    async fn endpoints_of_another_shape_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::new(folder.path());
        disk.keep(ENDPOINTS, br#"{"ns":[{"other":1}]}"#.to_vec())
            .await;
        assert!(disk.endpoints().await.is_none());
    }
}
