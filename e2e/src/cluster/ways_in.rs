//! Scripts in the run folder that lead into the namespaces from a shell on the host.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Result;

/// Writes `enter` (any program, or a shell), `kubectl` and `helm`. `unshare` is the process that made the namespaces: it
/// is in all of them but the one of processes, which is its children's.
pub(super) fn write(folder: &Path, programs: &Path, unshare: u32) -> Result<()> {
    let mut enter = String::from(
        "#!/bin/sh\n\
         # Runs a program, or a shell, inside the cluster's namespaces.\n\
         [ $# -gt 0 ] || set -- \"${SHELL:-sh}\"\n",
    );
    for (name, value) in super::variables(folder, programs) {
        writeln!(enter, "export {name}='{}'", value.display())?;
    }
    writeln!(
        enter,
        "exec nsenter --target {unshare} --net --mount --uts --ipc \\\n  \
         --pid=/proc/{unshare}/ns/pid_for_children --wdns=\"$PWD\" -- \"$@\""
    )?;
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
