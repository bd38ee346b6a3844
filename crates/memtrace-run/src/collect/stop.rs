//! Ending a command before it ends by itself.

use std::fmt;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How often the command is looked at.
const POLL: Duration = Duration::from_millis(20);
/// What a command has to end in before it is killed: collectors write what they have.
const PATIENCE: Duration = Duration::from_secs(30);

/// Says when a run is to be stopped; without anything else, never.
#[derive(Clone, Default)]
pub struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.0.is_some()).finish()
    }
}

impl Stop {
    /// Stops when the function says so; it is asked some times a second.
    #[must_use]
    pub fn when(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(asked)))
    }

    /// Whether it is time.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|asked| asked())
    }

    /// Waits for a command that was started [`alone`]. When it is to stop, it and what it started are interrupted, and killed
    /// if they go on; says whether that was so.
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
                    // Where there are no groups, the process itself.
                    let _ = child.kill();
                }
                _ => {}
            }
            thread::sleep(POLL);
        }
    }
}

/// Sends a signal to the group of a process. One that is gone needs none.
fn signal(name: &str, child: &Child) {
    let _ = Command::new("kill")
        .args(["-s", name, "--", &format!("-{}", child.id())])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Starts a command in a group of its own: an interrupt of the terminal reaches it through us alone, once.
pub(super) fn alone(command: &mut Command) {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        command.process_group(0);
    }
    #[cfg(not(unix))]
    let _ = command;
}
