//! Every environment variable that this crate reads, in one place.

use std::path::PathBuf;

/// A cluster the user has: the stories run there and no cluster is started.
pub fn kubeconfig() -> Option<PathBuf> {
    read("REFRAIN_KUBECONFIG").map(PathBuf::from)
}

/// Where the user's cluster pulls the images from.
pub fn image_prefix() -> Option<String> {
    read("REFRAIN_IMAGE_PREFIX")
}

/// The tag of those images.
pub fn image_tag() -> Option<String> {
    read("REFRAIN_IMAGE_TAG")
}

/// Under CI a story that cannot run is a failure.
pub fn is_ci() -> bool {
    read("CI").is_some_and(|value| value == "true" || value == "1")
}

/// The folder for what is expensive to make again: programs, images, the Python environment.
pub fn cache() -> PathBuf {
    let base = || read("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(read("HOME").unwrap_or_else(|| "/root".to_owned()));
    read("REFRAIN_CACHE").map_or_else(
        || {
            base()
                .unwrap_or_else(|| home().join(".cache"))
                .join("refrain")
        },
        PathBuf::from,
    )
}

/// The repository this crate was built in.
pub fn repository() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.clone(), PathBuf::from)
}

/// The search path, with the folders added where Debian keeps programs for root.
pub fn search_path() -> String {
    format!(
        "{}:/usr/local/sbin:/usr/sbin:/sbin",
        read("PATH").unwrap_or_default()
    )
}

/// What cargo tells the program that it runs about its package. Build scripts look at the same
/// names, and would run again for each program that starts a build.
pub(crate) fn told_by_cargo() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let prefixes = [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
    ];
    names
        .filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this module is where this crate's settings are read"
)]
pub(crate) fn read(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
