//! `refrain-cluster`: the test cluster for a person, or around a program.

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use e2e::cluster::{self, Cluster};
use e2e::images;
use tokio::process::Command;

/// A real one-node Kubernetes in private namespaces of this machine.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Starts a cluster that stays until Ctrl-C.
    Up {
        /// Images to build and load: operator, router, stand-in-engine, toolbox.
        #[arg(long, value_delimiter = ',')]
        images: Vec<String>,
    },
    /// Starts a cluster, runs a program inside it, and ends with its exit code.
    Run {
        /// Images to build and load: operator, router, stand-in-engine, toolbox.
        #[arg(long, value_delimiter = ',')]
        images: Vec<String>,
        /// Keeps the cluster after the program has ended, until Ctrl-C.
        #[arg(long)]
        keep: bool,
        /// The program. It gets KUBECONFIG, and for each image `REFRAIN_IMAGE_<NAME>`.
        #[arg(last = true, required = true)]
        program: Vec<String>,
    },
    /// Ends the cluster with this run folder.
    Down { run: PathBuf },
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().what {
        What::Up { images } => inside(&images, async |cluster| {
            say_how_to_reach(&cluster);
            std::future::pending().await
        }),
        What::Run {
            images,
            keep,
            program,
        } => inside(&images, async |cluster| {
            let code = run(&cluster, &program).await?;
            if keep {
                say_how_to_reach(&cluster);
                std::future::pending::<()>().await;
            }
            Ok(code)
        }),
        What::Down { run } => cluster::end(&run).map(|()| ExitCode::SUCCESS),
    }
}

fn inside(
    names: &[String],
    work: impl AsyncFnOnce(Cluster) -> Result<ExitCode>,
) -> Result<ExitCode> {
    if !cluster::is_inside() {
        cluster::supported()?;
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    cluster::inside(|| images::build(&names), work)
}

async fn run(cluster: &Cluster, program: &[String]) -> Result<ExitCode> {
    let (name, arguments) = program
        .split_first()
        .context("there is no program to run")?;
    let mut command = Command::new(name);
    command
        .args(arguments)
        .envs(cluster.variables())
        .stdin(Stdio::null());
    for image in cluster.images() {
        let variable = format!(
            "REFRAIN_IMAGE_{}",
            image.name.to_uppercase().replace('-', "_")
        );
        command.env(variable, &image.reference);
    }
    let status = command
        .status()
        .await
        .with_context(|| format!("starting {name}"))?;
    let Some(code) = status.code() else {
        bail!("{name} ended with {status}")
    };
    Ok(ExitCode::from(u8::try_from(code)?))
}

#[expect(clippy::print_stdout, reason = "this is what the program is asked for")]
fn say_how_to_reach(cluster: &Cluster) {
    let run = cluster.run().display();
    println!("The cluster is up. From another shell:");
    println!("  {run}/kubectl get pods --all-namespaces");
    println!("  {run}/helm list --all-namespaces");
    println!(
        "  {run}/enter            a shell inside, where Services have their names and addresses"
    );
    for image in cluster.images() {
        println!("  image {}", image.reference);
    }
    println!("Ctrl-C ends it without a trace.");
}
