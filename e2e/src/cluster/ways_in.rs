//! Scripts in the run folder that lead into the namespaces from a shell on the host.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Result;

use crate::environment;

/// Writes `enter` (any program, or a shell), `kubectl` and `helm`. `unshare` is the process that made the namespaces: it
/// is in all of them but the one of processes, which is its children's.
pub(super) fn write(folder: &Path, programs: &Path, unshare: u32) -> Result<()> {
    let kubeconfig = folder.join("admin.kubeconfig");
    let path = format!("{}:{}", programs.display(), environment::search_path());
    let enter = format!(
        "#!/bin/sh\n\
         # Runs a program, or a shell, inside the cluster's namespaces.\n\
         [ $# -gt 0 ] || set -- \"${{SHELL:-sh}}\"\n\
         export KUBECONFIG='{}' PATH='{path}'\n\
         exec nsenter --target {unshare} --net --mount --uts --ipc --pid=/proc/{unshare}/ns/pid_for_children \\\n    --wdns=\"$PWD\" -- \"$@\"\n",
        kubeconfig.display(),
    );
    script(&folder.join("enter"), &enter)?;
    for program in ["kubectl", "helm"] {
        let text = format!(
            "#!/bin/sh\nexec '{}' {program} \"$@\"\n",
            folder.join("enter").display()
        );
        script(&folder.join(program), &text)?;
    }
    Ok(())
}

fn script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}
