//! Stops a command before it ends by itself.

use std::fmt;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which the command is checked.
const POLL: Duration = Duration::from_millis(20);
/// Time for a command to end before it is killed: collectors write their data.
const PATIENCE: Duration = Duration::from_secs(30);

/// Decides when a run must stop; by default never.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.0.is_some()).finish()
    }
}

impl Stop {
    /// Stops when the function returns `true`; it is called several times per second.
    #[must_use]
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(asked)))
    }

    /// Returns `true` if the run must stop.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| asked())
    }

    /// Waits for a command that was started with [`alone`]. To stop it, interrupts it and its
    /// children, and kills them if they do not end. Returns `true` if the command was stopped.
    pub(super) fn wait(&self, child: &mut Child) -> io::Result<(ExitStatus, bool)> {
        let mut since: Option<Instant> = None;
        let mut killed = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((status, since.is_some()));
            }
            match since {
                None if self.is_asked() => {
                    since = Some(Instant::now());
                    signal("INT", child);
                }
                Some(since) if !killed && since.elapsed() > PATIENCE => {
                    killed = true;
                    signal("KILL", child);
                    // Without process groups, kill the process itself.
                    let _ = child.kill();
                }
                _ => {}
            }
            thread::sleep(POLL);
        }
    }
}

/// Sends a signal to the group of a process. A process that has ended needs none.
fn signal(name: &str, child: &Child) {
    let _ = Command::new("kill")
        .args(["-s", name, "--", &format!("-{}", child.id())])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Starts a command in its own process group: an interrupt of the terminal reaches it only through
/// this process, once.
pub(super) fn alone(command: &mut Command) {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        command.process_group(0);
    }
    #[cfg(not(unix))]
    let _ = command;
}
