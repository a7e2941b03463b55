//! The images that run on the test cluster: static binaries on `scratch`, by the Dockerfile that users build with. Its
//! compile stage is replaced by binaries compiled here, so no image is ever pulled.

mod binaries;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::environment;

/// The image that holds a pod's namespaces open.
pub const PAUSE: &str = "pause";
/// A shell and small network programs for stories to look around with.
pub const TOOLBOX: &str = "toolbox";
/// Refrain's operator.
pub const OPERATOR: &str = "operator";
/// Refrain's router.
pub const ROUTER: &str = "router";
/// What stands in for an inference engine.
pub const ENGINE: &str = "stand-in-engine";

/// An archive of those of older builds is kept this long.
const KEPT: Duration = Duration::from_hours(48);

/// A built image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Image {
    pub name: String,
    /// What a pod names it by. The tag is a digest of what is inside.
    pub reference: String,
    pub archive: PathBuf,
}

/// Builds the named images and the pause image, or finds them built.
pub fn build(names: &[&str]) -> Result<Vec<Image>> {
    let mut names = names.to_vec();
    names.push(PAUSE);
    names.sort_unstable();
    names.dedup();
    let binaries = binaries::compile(&names)?;
    let folder = environment::cache().join("images");
    fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join(".lock"))?;
    lock.lock()?;
    names
        .iter()
        .zip(binaries)
        .map(|(name, binary)| image(name, &binary, &folder))
        .collect()
}

/// The program of an image that was built, for stories that run it as it is.
pub fn program(name: &str) -> Result<PathBuf> {
    let program = binaries::built(name)?;
    if !program.exists() {
        bail!("{} is not built", program.display());
    }
    Ok(program)
}

fn image(name: &str, binary: &Path, folder: &Path) -> Result<Image> {
    let dockerfile = dockerfile(name);
    let digest = digest(&[binary, &dockerfile])?;
    let reference = format!("localhost/refrain/{name}:{digest}");
    let archive = folder.join(format!("{name}-{digest}.tar"));
    if !archive.exists() {
        forget_old(folder, name)?;
        package(name, &dockerfile, binary, &reference)?;
        let partial = folder.join(format!(".{name}.partial"));
        drop(fs::remove_file(&partial));
        buildah([
            "push",
            "--quiet",
            &reference,
            &format!("docker-archive:{}:{reference}", partial.display()),
        ])?;
        buildah(["rmi", "--force", &reference])?;
        fs::rename(partial, &archive)?;
    }
    Ok(Image {
        name: name.to_owned(),
        reference,
        archive,
    })
}

/// What users build is described at the top; what only stories need, here.
fn dockerfile(name: &str) -> PathBuf {
    let repository = environment::repository();
    match name {
        OPERATOR | ROUTER => repository.join("Dockerfile"),
        _ => repository.join("e2e/Dockerfile"),
    }
}

fn package(name: &str, dockerfile: &Path, binary: &Path, reference: &str) -> Result<()> {
    let context = environment::cache().join("buildah").join("context");
    drop(fs::remove_dir_all(&context));
    fs::create_dir_all(&context)?;
    let file = binary.file_name().context("a binary has a name")?;
    fs::copy(binary, context.join(file))?;
    let binaries = format!("binaries={}", context.display());
    let (dockerfile, context) = (
        dockerfile.display().to_string(),
        context.display().to_string(),
    );
    // With a timestamp of its own an image would differ from itself at every build.
    let fixed = [
        "build",
        "--quiet",
        "--pull=never",
        "--timestamp=0",
        "--build-context",
        &binaries,
    ];
    let named = [
        "--target",
        name,
        "--tag",
        reference,
        "--file",
        &dockerfile,
        &context,
    ];
    buildah(fixed.into_iter().chain(named))
}

/// buildah with a store of its own, so that the user's images are not touched.
fn buildah<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let store = environment::cache().join("buildah");
    let mut command = Command::new("buildah");
    command
        .arg("--root")
        .arg(store.join("root"))
        .arg("--runroot")
        .arg(store.join("runroot"))
        .args(arguments)
        .env("PATH", environment::search_path())
        .env("STORAGE_DRIVER", "vfs")
        .env("BUILDAH_ISOLATION", "chroot")
        .stdin(Stdio::null());
    let done = command
        .output()
        .context("starting buildah: run scripts/setup.sh to install it")?;
    if !done.status.success() {
        bail!(
            "{command:?} ended with {}: {}",
            done.status,
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(())
}

fn digest(files: &[&Path]) -> Result<String> {
    let mut hash = Sha256::new();
    for path in files {
        hash.update(fs::read(path).with_context(|| format!("reading {}", path.display()))?);
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        write!(text, "{byte:02x}")?;
    }
    text.truncate(16);
    Ok(text)
}

fn forget_old(folder: &Path, name: &str) -> Result<()> {
    let prefix = format!("{name}-");
    for entry in fs::read_dir(folder)?.flatten() {
        let is_ours = entry
            .file_name()
            .to_str()
            .is_some_and(|file| file.starts_with(&prefix));
        let age = SystemTime::now()
            .duration_since(entry.metadata()?.modified()?)
            .unwrap_or_default();
        if is_ours && age > KEPT {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
