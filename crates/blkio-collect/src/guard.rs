//! Ends the helper processes of a recording, even if the recorder is killed.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Waits until the other end of its standard input is closed. Unless the last line was `done`, it
/// then ends everything named by earlier lines.
const WATCH: &str = r#"
trap '' HUP INT TERM
while read -r what which; do
    case $what in
        done) exit 0 ;;
        process) processes="$processes $which" ;;
        group) groups="$groups $which" ;;
        instance) instance=$which ;;
    esac
done
for group in $groups; do kill -s TERM -- "-$group"; done
for process in $processes; do kill -s INT "$process"; done
[ -z "$instance" ] || echo 0 > "$instance/events/enable"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ -z "$instance" ] || rmdir "$instance" && instance=
    left=$instance
    for process in $processes; do kill -s 0 "$process" && left=$process; done
    [ -n "$left" ] || exit 0
    sleep 0.5
done
for process in $processes; do kill -s KILL "$process"; done
"#;

/// Ends a recording's helpers if the recorder ends without doing so: by an error, a second
/// interrupt, or a signal that cannot be caught.
///
/// A leftover tracer would record forever, and an instance of tracefs keeps its events enabled.
/// Therefore a shell watches a pipe that is closed with this process, however it ends. If no shell
/// can be started, there is no guard.
pub(crate) struct Guard(Option<(Child, ChildStdin)>);

impl Guard {
    /// Starts the guard without any helper.
    pub(crate) fn start() -> Self {
        let mut command = Command::new("sh");
        command
            .args(["-c", WATCH])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        alone(&mut command);
        let started = command.spawn().ok().and_then(|mut child| {
            let pipe = child.stdin.take()?;
            Some((child, pipe))
        });
        Self(started)
    }

    fn say(&mut self, line: &str) {
        if let Some((_, pipe)) = &mut self.0 {
            // A guard that has ended is no reason not to record.
            let _ = pipe.write_all(line.as_bytes());
        }
    }

    /// Registers a process to interrupt, and to kill if it does not end.
    pub(crate) fn process(&mut self, child: &Child) {
        self.say(&format!("process {}\n", child.id()));
    }

    /// Registers a process that was started with [`alone`], to end with all its children.
    pub(crate) fn group(&mut self, child: &Child) {
        self.say(&format!("group {}\n", child.id()));
    }

    /// Registers an instance of tracefs to remove.
    pub(crate) fn instance(&mut self, path: &Path) {
        self.say(&format!("instance {}\n", path.display()));
    }

    /// Ends the guard: there is nothing left to end.
    pub(crate) fn finish(mut self) {
        self.say("done\n");
        if let Some((mut child, pipe)) = self.0.take() {
            drop(pipe);
            let _ = child.wait();
        }
    }
}

/// Puts a command into its own process group, so that an interrupt of the terminal reaches only
/// this process.
pub(crate) fn alone(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

/// Sends a signal to a process, or, with a minus before the number, to its group. A process that
/// has ended is ignored.
pub(crate) fn signal(name: &str, target: &str) {
    // The shell has `kill` built in if the program is not installed.
    let _ = Command::new("sh")
        .args(["-c", "kill -s \"$1\" -- \"$2\"", "sh", name, target])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Removes a folder without useful contents.
pub(crate) fn discard(folder: &Path) {
    // Best effort: the reason for ending is reported in any case.
    let _ = fs::remove_dir_all(folder);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000");
        alone(&mut command);
        command.spawn().unwrap()
    }

    #[test]
    fn what_is_named_ends_with_the_recorder_and_not_when_all_is_done() {
        use std::os::unix::process::ExitStatusExt as _;
        let (mut process, mut group) = (sleeper(), sleeper());
        let mut guard = Guard::start();
        guard.process(&process);
        guard.group(&group);
        drop(guard);
        // If interrupts are ignored, as for background jobs, it is killed.
        let interrupted = process.wait().unwrap().signal();
        assert!(matches!(interrupted, Some(2 | 9)), "{interrupted:?}");
        assert_eq!(group.wait().unwrap().signal(), Some(15));

        let mut other = sleeper();
        let mut guard = Guard::start();
        guard.process(&other);
        guard.finish();
        assert!(other.try_wait().unwrap().is_none());
        signal("KILL", &format!("-{}", other.id()));
        assert_eq!(other.wait().unwrap().signal(), Some(9));
    }

    #[test]
    fn an_instance_is_switched_off_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let instance = dir.path().join("blkio-1");
        fs::create_dir(&instance).unwrap();
        let mut guard = Guard::start();
        guard.instance(&instance);
        let (mut child, pipe) = guard.0.take().unwrap();
        drop(pipe);
        assert!(child.wait().unwrap().success());
        assert!(!instance.exists());
    }
}
