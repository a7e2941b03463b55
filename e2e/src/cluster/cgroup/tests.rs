use std::fs;
use std::path::Path;

use super::{create_under, remove_tree, roots};

fn folder(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("cgroup-test-{}-{name}", std::process::id()));
    drop(fs::remove_dir_all(&path));
    fs::create_dir_all(&path).unwrap();
    path
}

fn file(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn with_v1_every_hierarchy_gets_a_root_and_a_cpuset_that_can_run_something() {
    let mount = folder("v1");
    for controller in ["cpu", "cpuset", "memory"] {
        file(&mount.join(controller).join("cgroup.procs"), "");
    }
    file(&mount.join("cpuset/cpuset.cpus"), "0-1\n");
    file(&mount.join("cpuset/cpuset.mems"), "0\n");
    std::os::unix::fs::symlink(mount.join("cpu"), mount.join("cpuacct")).unwrap();

    create_under(&mount, "run").unwrap();

    assert_eq!(
        roots(&mount).len(),
        3,
        "a symlink to a hierarchy is not another one"
    );
    assert_eq!(
        fs::read_to_string(mount.join("cpuset/run/cpuset.cpus")).unwrap(),
        "0-1"
    );
    assert_eq!(
        fs::read_to_string(mount.join("cpuset/run/cpuset.mems")).unwrap(),
        "0"
    );
    assert!(mount.join("memory/run").is_dir());
    fs::remove_dir_all(mount).unwrap();
}

#[test]
fn with_v2_there_is_one_root() {
    let mount = folder("v2");
    file(
        &mount.join("cgroup.controllers"),
        "cpuset cpu memory pids\n",
    );
    file(
        &mount.join("run/cgroup.controllers"),
        "cpuset cpu memory pids\n",
    );

    create_under(&mount, "run").unwrap();

    assert_eq!(roots(&mount), std::slice::from_ref(&mount));
    assert_eq!(
        fs::read_to_string(mount.join("run/cgroup.subtree_control")).unwrap(),
        "+pids"
    );
    fs::remove_dir_all(mount).unwrap();
}

#[test]
fn a_tree_goes_deepest_first_and_an_absent_one_is_no_error() {
    let mount = folder("tree");
    fs::create_dir_all(mount.join("run/kubepods/burstable/pod1")).unwrap();
    remove_tree(&mount.join("run")).unwrap();
    assert!(!mount.join("run").exists());
    remove_tree(&mount.join("run")).unwrap();
    fs::remove_dir_all(mount).unwrap();
}
