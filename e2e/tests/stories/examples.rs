//! Every file in `examples/` is applied as it stands, and does what it says.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::client::Client;
use e2e::engine::Engine;
use e2e::engines::Engines;
use e2e::release::Release;
use e2e::world::{World, eventually, fed};
use e2e::{cluster, environment, images, sdk};
use serde_json::json;
use tokio::net::TcpListener;

const SOON: Duration = Duration::from_secs(30);

/// A model that clients ask for, the pool that answers, and the model that its engines are asked for.
type Expected = (&'static str, &'static str, &'static str);

const FILES: &[(&str, &[Expected])] = &[
    (
        "01-one-model.yaml",
        &[("llama-3.1-8b", "llama", "llama-3.1-8b")],
    ),
    (
        "02-aliases.yaml",
        &[
            ("llama-3.1-8b", "llama", "meta-llama/Llama-3.1-8B-Instruct"),
            ("gpt-4o-mini", "llama", "meta-llama/Llama-3.1-8B-Instruct"),
        ],
    ),
    (
        "03-weighted.yaml",
        &[
            ("llama", "llama", "llama-3.1-8b"),
            ("llama", "llama-tuned", "llama-3.1-8b-tuned"),
        ],
    ),
    (
        "04-auth.yaml",
        &[
            ("llama-bearer", "llama", "llama-3.1-8b"),
            ("llama-header", "llama", "llama-3.1-8b"),
            ("llama-passthrough", "llama", "llama-3.1-8b"),
        ],
    ),
    (
        "05-other-namespace.yaml",
        &[("llama-3.1-8b", "llama", "llama-3.1-8b")],
    ),
    (
        "06-prefix-and-balancing.yaml",
        &[
            ("llama-lora", "llama", "llama-lora"),
            ("llama-batch", "llama", "llama-batch"),
            ("anything", "small", "small-1b"),
        ],
    ),
];

pub(crate) async fn every_example_does_what_it_says(world: &World) -> Result<()> {
    let (models, apps) = (
        world.neighbour("models").await?,
        world.neighbour("apps").await?,
    );
    world.install_grants().await?;
    let release =
        Release::install_with(world, &json!({ "watchNamespaces": [models, apps] })).await?;
    for pool in ["llama", "llama-tuned", "small"] {
        Engines::start(world, pool, 1).await?;
    }
    Engines::start_in(world, &models, "llama", 1).await?;
    let folder = environment::repository().join("examples");
    let known: BTreeSet<&str> = FILES.iter().map(|(file, _)| *file).collect();
    ensure!(
        yaml_files(&folder)? == known,
        "a file has no line in this story"
    );
    for (file, expected) in FILES {
        let text = std::fs::read_to_string(folder.join(file))?
            .replace("namespace: models", &format!("namespace: {models}"))
            .replace("namespace: apps", &format!("namespace: {apps}"));
        // Only some of the files name namespaces.
        let kubectl = || {
            if text.contains("namespace:") {
                world.kubectl_across()
            } else {
                world.tool_kubectl()
            }
        };
        fed(kubectl().args(["apply", "-f", "-"]), &text)
            .await
            .with_context(|| (*file).to_owned())?;
        for one in *expected {
            meets(&release, one)
                .await
                .with_context(|| format!("{file}: {one:?}"))?;
        }
        fed(kubectl().args(["delete", "-f", "-"]), &text).await?;
    }
    Ok(())
}

fn yaml_files(folder: &Path) -> Result<BTreeSet<&'static str>> {
    let paths = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let yaml = paths.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    let names = yaml.filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
    names
        .map(|name| {
            let known = FILES.iter().find(|(file, _)| *file == name);
            known
                .map(|(file, _)| *file)
                .with_context(|| format!("{name} has no line in this story"))
        })
        .collect()
}

/// Asks until the pool has answered with what its engines were asked for.
async fn meets(release: &Release<'_>, (asked, pool, upstream): &Expected) -> Result<()> {
    eventually("an answer of the pool", 2 * SOON, async || {
        let reply = release.client().chat(asked).await?;
        let (engine, json) = (reply.engine()?, reply.json());
        let of_pool = engine
            .strip_prefix(pool)
            .is_some_and(|rest| rest.matches('-').count() == 2);
        ensure!(
            of_pool && json["model"] == *upstream,
            "{engine} was asked for {}",
            json["model"]
        );
        Ok(())
    })
    .await
}

pub(crate) async fn the_engines_example_is_one_that_the_api_server_takes(
    world: &World,
) -> Result<()> {
    let file = environment::repository().join("examples/engines/vllm.yaml");
    let file = file.to_str().context("the repository's path is not text")?;
    world
        .kubectl(&["apply", "--dry-run=server", "-f", file])
        .await?;
    Ok(())
}

pub(crate) async fn the_standalone_example_serves_without_a_cluster(world: &World) -> Result<()> {
    let mut engines = tokio::task::JoinSet::new();
    for port in [8000, 8001] {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let engine = Arc::new(Engine::new(
            format!("engine-{port}"),
            vec!["tiny".to_owned()],
        ));
        engines.spawn(e2e::engine::listen(
            engine,
            listener,
            std::future::pending(),
        ));
    }
    let folder = environment::repository().join("examples/standalone");
    let mut router = cluster::command(images::program(images::ROUTER)?);
    router.arg("--manifests").arg(folder).args([
        "--listen",
        "127.0.0.1:8080",
        "--admin",
        "127.0.0.1:9090",
    ]);
    let _router = router
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("starting the router")?;

    let client = Client::new("http://127.0.0.1:8080");
    let used = eventually("both engines are used", SOON, async || {
        let mut used = BTreeSet::new();
        for _ in 0..10 {
            used.insert(client.chat("tiny").await?.engine()?);
        }
        ensure!(used.len() == 2, "{used:?}");
        Ok(used)
    })
    .await?;
    ensure!(used.iter().eq(["engine-8000", "engine-8001"]), "{used:?}");
    let gave = sdk::first_requests(world, client.url(), "tiny").await?;
    ensure!(gave["models"][0]["id"] == "tiny", "{gave}");
    Ok(())
}
