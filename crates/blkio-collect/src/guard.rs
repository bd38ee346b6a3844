//! Ends the helper processes of a recording, also when the recorder is killed.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Waits until nobody holds the other end of its standard input open. Unless the last line said that all is done, it then
/// ends what the lines before have named.
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

/// Ends a recording's helpers when the recorder goes without having done so: by an error, a second interrupt, or a
/// signal that nothing can catch.
///
/// A tracer that stays behind would record for ever, and an instance of tracefs keeps its events enabled. So a shell watches
/// a pipe that is closed with this process, however that ends. Where no shell can be started there is no watch.
pub(crate) struct Guard(Option<(Child, ChildStdin)>);

impl Guard {
    /// Begins to watch; nothing is named yet.
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
            // A watch that has ended is no reason not to record.
            let _ = pipe.write_all(line.as_bytes());
        }
    }

    /// A process to interrupt, and to kill if that is in vain.
    pub(crate) fn process(&mut self, child: &Child) {
        self.say(&format!("process {}\n", child.id()));
    }

    /// A process that was started [`alone`], to end with all that it started.
    pub(crate) fn group(&mut self, child: &Child) {
        self.say(&format!("group {}\n", child.id()));
    }

    /// An instance of tracefs to remove.
    pub(crate) fn instance(&mut self, path: &Path) {
        self.say(&format!("instance {}\n", path.display()));
    }

    /// Nothing is left to end.
    pub(crate) fn finish(mut self) {
        self.say("done\n");
        if let Some((mut child, pipe)) = self.0.take() {
            drop(pipe);
            let _ = child.wait();
        }
    }
}

/// Puts a command into a group of its own, so that an interrupt of the terminal is for us alone.
pub(crate) fn alone(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

/// Sends a signal to a process, or with a minus before its number to its group. One that is gone needs none.
pub(crate) fn signal(name: &str, target: &str) {
    // The shell has it where the program is not installed.
    let _ = Command::new("sh")
        .args(["-c", "kill -s \"$1\" -- \"$2\"", "sh", name, target])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Removes a folder that holds nothing worth keeping.
pub(crate) fn discard(folder: &Path) {
    // Best effort: the reason for leaving is told anyway.
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
        // Where interrupts are ignored, as they are behind an ampersand, it is killed.
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
