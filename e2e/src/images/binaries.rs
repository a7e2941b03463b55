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
    Cargo {
        package: &'static str,
        program: &'static str,
    },
    File(&'static str),
}

fn origin(image: &str) -> Result<Origin> {
    let cargo = |package, program| Origin::Cargo { package, program };
    Ok(match image {
        OPERATOR => cargo("refrain-operator", "refrain-operator"),
        ROUTER => cargo("refrain-router", "refrain-router"),
        ENGINE => cargo("e2e", "stand-in-engine"),
        PAUSE => cargo("e2e", "pause"),
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
        Origin::Cargo { program, .. } => folder().join(target()).join("e2e").join(program),
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
    let mut cargo = Command::new(environment::read("CARGO").as_deref().unwrap_or("cargo"));
    cargo
        .args([
            "build",
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
        .stdin(Stdio::null())
        .stdout(Stdio::inherit());
    for origin in origins {
        if let Origin::Cargo { package, program } = origin {
            cargo.args(["--package", package, "--bin", program]);
        }
    }
    let status = cargo.status().context("starting cargo")?;
    if !status.success() {
        bail!("compiling the programs for the images failed");
    }
    Ok(())
}
