//! The evidence of a story that failed: everything a person would ask kubectl for first.

use std::fs;
use std::path::Path;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

use super::World;

const QUESTIONS: [(&str, &[&str]); 4] = [
    ("events.txt", &["get", "events", "--sort-by=.lastTimestamp"]),
    (
        "overview.txt",
        &[
            "get",
            "all,endpointslices,leases,configmaps",
            "--output=wide",
        ],
    ),
    ("pods.txt", &["describe", "pods"]),
    ("refrain.yaml", &["get", "refrain", "--output=yaml"]),
];

pub(super) async fn write(world: &World, folder: &Path) -> Result<()> {
    drop(fs::remove_dir_all(folder));
    fs::create_dir_all(folder)?;
    for (file, question) in QUESTIONS {
        answer(world, &folder.join(file), question).await?;
    }
    for pod in world.api::<Pod>().list(&ListParams::default()).await? {
        let name = pod.metadata.name.unwrap_or_default();
        for container in pod.spec.into_iter().flat_map(|spec| spec.containers) {
            let wanted = [
                "logs",
                &name,
                "--container",
                &container.name,
                "--timestamps",
            ];
            answer(
                world,
                &folder.join(format!("{name}.{}.log", container.name)),
                &wanted,
            )
            .await?;
            let before = [&wanted[..], &["--previous"]].concat();
            if let Ok(log) = world.kubectl(&before).await {
                fs::write(
                    folder.join(format!("{name}.{}.before.log", container.name)),
                    log,
                )?;
            }
        }
    }
    Ok(())
}

/// A question that cannot be answered leaves the reason in its file: the others may still tell something.
async fn answer(world: &World, file: &Path, question: &[&str]) -> Result<()> {
    let text = match world.kubectl(question).await {
        Ok(text) => text,
        Err(error) => format!("{error:#}\n"),
    };
    fs::write(file, text)?;
    Ok(())
}
