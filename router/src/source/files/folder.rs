//! What is in the folder: names and contents, looked at again and again. Files are looked at
//! rather than notified of, since that works alike for editors, ConfigMap volumes (whose files
//! are links into a folder that is swapped) and network file systems.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Content by file name, or why it cannot be read.
pub(super) type Contents = BTreeMap<String, Arc<Result<String, String>>>;

const ENDINGS: [&str; 3] = [".yaml", ".yml", ".json"];
/// Far above what people write by hand.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Two writes within the clock's tick leave the same stamp, so a young file is read again.
const YOUNG: Duration = Duration::from_secs(3);

/// The folder that `--manifests` names.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    seen: BTreeMap<String, (Stamp, Arc<Result<String, String>>)>,
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    file: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: BTreeMap::new(),
        }
    }

    /// Every manifest in the folder now. Hidden files and subfolders are not looked into.
    pub(super) fn look(&mut self) -> std::io::Result<Contents> {
        let mut seen = BTreeMap::new();
        for entry in std::fs::read_dir(&self.path)? {
            let Ok(name) = entry?.file_name().into_string() else {
                continue;
            };
            if name.starts_with('.') || !ENDINGS.iter().any(|ending| name.ends_with(ending)) {
                continue;
            }
            // Links are followed; one that leads nowhere is a file that is not there.
            let Ok(metadata) = std::fs::metadata(self.path.join(&name)) else {
                continue;
            };
            if metadata.is_file() {
                let found = self.content(&name, &metadata);
                seen.insert(name, found);
            }
        }
        self.seen = seen;
        let contents = self.seen.iter();
        Ok(contents
            .map(|(name, (_, content))| (name.clone(), Arc::clone(content)))
            .collect())
    }

    fn content(&self, name: &str, metadata: &Metadata) -> (Stamp, Arc<Result<String, String>>) {
        let stamp = Stamp {
            device: metadata.dev(),
            file: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        let age = metadata
            .modified()
            .ok()
            .and_then(|at| SystemTime::now().duration_since(at).ok());
        let old = age.is_some_and(|age| age > YOUNG);
        match self.seen.get(name) {
            Some((before, content)) if *before == stamp && old => (stamp, Arc::clone(content)),
            _ => (stamp, Arc::new(self.read(name, metadata.len()))),
        }
    }

    fn read(&self, name: &str, bytes: u64) -> Result<String, String> {
        if bytes > MAX_BYTES {
            return Err(format!(
                "it has {bytes} bytes, more than {MAX_BYTES}: split it"
            ));
        }
        let mut text = String::new();
        let file = std::fs::File::open(self.path.join(name));
        let read = file.and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        read.map(|_| text).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn texts(folder: &mut Folder) -> Vec<(String, String)> {
        let contents = folder.look().unwrap();
        let text = |(name, content): (String, Arc<Result<String, String>>)| {
            (name, content.as_ref().clone().unwrap())
        };
        contents.into_iter().map(text).collect()
    }

    fn pair(name: &str, text: &str) -> (String, String) {
        (name.to_owned(), text.to_owned())
    }

    #[test]
    fn manifests_are_seen_and_other_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "b.yaml",
            "a.yml",
            "c.json",
            ".hidden.yaml",
            "notes.txt",
            "b.yaml~",
        ] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        std::fs::create_dir(dir.path().join("folder.yaml")).unwrap();
        symlink("nowhere", dir.path().join("dangling.yaml")).unwrap();
        let mut folder = Folder::new(dir.path().into());
        let names: Vec<_> = texts(&mut folder)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["a.yml", "b.yaml", "c.json"]);
    }

    #[test]
    fn an_edit_of_the_same_length_right_after_another_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = Folder::new(dir.path().into());
        for text in ["one", "two", "six"] {
            std::fs::write(dir.path().join("a.yaml"), text).unwrap();
            assert_eq!(texts(&mut folder), [pair("a.yaml", text)]);
        }
    }

    #[test]
    fn a_config_map_volume_is_seen_as_it_is_swapped() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for (version, text) in [("..v1", "one"), ("..v2", "two")] {
            std::fs::create_dir(path(version)).unwrap();
            std::fs::write(path(version).join("a.yaml"), text).unwrap();
        }
        symlink("..v1", path("..data")).unwrap();
        symlink("..data/a.yaml", path("a.yaml")).unwrap();
        let mut folder = Folder::new(dir.path().into());
        assert_eq!(texts(&mut folder), [pair("a.yaml", "one")]);
        symlink("..v2", path("..data_tmp")).unwrap();
        std::fs::rename(path("..data_tmp"), path("..data")).unwrap();
        assert_eq!(texts(&mut folder), [pair("a.yaml", "two")]);
    }

    #[test]
    fn bytes_that_are_not_text_are_a_problem_of_that_file_only() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.yaml"), [0xff, 0xfe]).unwrap();
        std::fs::write(dir.path().join("b.yaml"), "fine").unwrap();
        let contents = Folder::new(dir.path().into()).look().unwrap();
        assert!(contents["a.yaml"].is_err() && contents["b.yaml"].is_ok());
    }
}
