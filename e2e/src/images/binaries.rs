//! The programs that go into images, compiled so that they need no file beside them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::{ENGINE, OPERATOR, PAUSE, ROUTER, TOOLBOX};
use crate::environment;

/// Debian's statically linked BusyBox.
const BUSYBOX: &str = "/bin/busybox";

/// Where an image's program comes from.
enum Origin {
    /// A program of this workspace.
    Cargo(&'static str),
    /// A file of this machine.
    File(&'static str),
}

fn origin(image: &str) -> Result<Origin> {
    Ok(match image {
        OPERATOR => Origin::Cargo("refrain-operator"),
        ROUTER => Origin::Cargo("refrain-router"),
        ENGINE => Origin::Cargo("stand-in-engine"),
        PAUSE => Origin::Cargo("pause"),
        TOOLBOX => Origin::File(BUSYBOX),
        other => bail!("there is no image {other}"),
    })
}

/// Compiles what the images need; returns a program for each, in their order.
pub(super) fn compile(images: &[&str]) -> Result<Vec<PathBuf>> {
    let origins: Vec<Origin> = images
        .iter()
        .map(|image| origin(image))
        .collect::<Result<_>>()?;
    cargo(&origins)?;
    Ok(origins.iter().map(program).collect())
}

/// Where an image's program is once it is compiled.
pub(super) fn built(image: &str) -> Result<PathBuf> {
    Ok(program(&origin(image)?))
}

fn program(origin: &Origin) -> PathBuf {
    match origin {
        Origin::Cargo(program) => folder().join(target()).join("e2e").join(program),
        Origin::File(path) => PathBuf::from(path),
    }
}

fn target() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// A target folder of its own: other flags in the usual one would compile everything anew each time.
fn folder() -> PathBuf {
    environment::repository().join("target/static")
}

fn cargo(origins: &[Origin]) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo
        .args([
            "build",
            // All members, so that a dependency has the same features whichever programs are asked for.
            "--workspace",
            "--locked",
            "--profile",
            "e2e",
            "--target",
            &target(),
            "--target-dir",
        ])
        .arg(folder())
        .current_dir(environment::repository())
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        // The repository's toolchain, whichever this program was built with.
        .env_remove("RUSTUP_TOOLCHAIN")
        .stdin(Stdio::null())
        .stdout(Stdio::inherit());
    for name in environment::told_by_cargo() {
        cargo.env_remove(name);
    }
    for origin in origins {
        if let Origin::Cargo(program) = origin {
            cargo.args(["--bin", program]);
        }
    }
    let status = cargo.status().context("starting cargo")?;
    if !status.success() {
        bail!("compiling the programs for the images failed");
    }
    Ok(())
}
