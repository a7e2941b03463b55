//! The pause container: holds a pod's namespaces open until it is told to end.

use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // As PID 1 of a pod that shares its process namespace it inherits orphans, which have to be reaped.
    let mut child = signal(SignalKind::child())?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = child.recv() => while let Ok(Some(_)) = reap() {},
        }
    }
}

fn reap() -> rustix::io::Result<Option<(rustix::process::Pid, rustix::process::WaitStatus)>> {
    rustix::process::wait(rustix::process::WaitOptions::NOHANG)
}
