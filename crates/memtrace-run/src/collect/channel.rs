//! Channels for phase marks from a running command: a named pipe and a socket.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use super::RunOptions;
use super::clock::monotonic_ns;
use super::marks::Marks;
use crate::error::{Error, Result, io_error};

/// Maximum length of a line in bytes.
const MAX_LINE: usize = 4096;
/// Written to the pipe by this process to end it; no line of the protocol contains it.
const END: u8 = 0;
/// Environment variable with the path of the pipe.
const PIPE_VARIABLE: &str = "MEMTRACE_PHASES";
/// Environment variable with the path of the socket.
const SOCKET_VARIABLE: &str = "MEMTRACE_PHASE_SOCKET";

/// Reads marks from lines until [`END`] or the end of input.
fn take_lines(input: impl Read, marks: &Marks) {
    let mut reader = BufReader::with_capacity(MAX_LINE, input);
    let mut line = Vec::new();
    loop {
        let bytes = match reader.fill_buf() {
            Ok([]) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let end = bytes.iter().position(|byte| matches!(*byte, b'\n' | END));
        let taken = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        let room = MAX_LINE.saturating_sub(line.len());
        line.extend_from_slice(taken.get(..room).unwrap_or(taken));
        let last = end.and_then(|at| bytes.get(at)).copied();
        let used = taken.len() + usize::from(end.is_some());
        reader.consume(used);
        if last.is_some() {
            marks.line(&line);
            line.clear();
        }
        if last == Some(END) {
            return;
        }
    }
    marks.line(&line);
}

/// Channels on which a command can mark phases.
#[derive(Debug)]
pub(super) struct Channels {
    pipe: Option<PhasePipe>,
    #[cfg(unix)]
    socket: Option<socket::PhaseSocket>,
}

impl Channels {
    /// Opens the requested channels; the others are created in a temporary place, if possible.
    pub(super) fn open(options: &RunOptions, marks: &Marks) -> Result<Self> {
        let temporary = |suffix: &str| {
            let (pid, now) = (std::process::id(), monotonic_ns());
            std::env::temp_dir().join(format!("memtrace-{pid}-{now}.{suffix}"))
        };
        Ok(Self {
            pipe: match &options.phase_pipe {
                Some(path) => Some(PhasePipe::open(path, marks)?),
                None => PhasePipe::open(&temporary("phases"), marks).ok(),
            },
            #[cfg(unix)]
            socket: match &options.phase_socket {
                Some(path) => Some(socket::PhaseSocket::open(path, marks)?),
                None => socket::PhaseSocket::open(&temporary("socket"), marks).ok(),
            },
        })
    }

    /// Passes the paths to a command in its environment.
    pub(super) fn tell(&self, command: &mut Command) {
        if let Some(pipe) = &self.pipe {
            command.env(PIPE_VARIABLE, &pipe.path);
        }
        #[cfg(unix)]
        if let Some(socket) = &self.socket {
            command.env(SOCKET_VARIABLE, socket.path());
        }
    }

    /// Reads the marks written so far, and removes the channels.
    pub(super) fn close(self) {
        drop(self);
    }
}

/// A named pipe that receives marks while a command runs; dropping it removes the pipe.
#[derive(Debug)]
struct PhasePipe {
    path: PathBuf,
    reader: Option<thread::JoinHandle<()>>,
}

impl PhasePipe {
    /// Creates the pipe and starts to read from it.
    fn open(path: &Path, marks: &Marks) -> Result<Self> {
        let made = Command::new("mkfifo")
            .arg("--")
            .arg(path)
            .stdin(Stdio::null())
            .output()
            .map_err(io_error("mkfifo"))?;
        if !made.status.success() {
            let said = String::from_utf8_lossy(&made.stderr);
            return Err(Error::PhasePipe {
                what: said.lines().next().unwrap_or("mkfifo failed").to_owned(),
            });
        }
        let mut pipe = Self {
            path: path.to_owned(),
            reader: None,
        };
        // Open for reading and writing, so that neither opening nor reading depends on a writer.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(io_error(path))?;
        let marks = marks.clone();
        pipe.reader = Some(thread::spawn(move || take_lines(file, &marks)));
        Ok(pipe)
    }

    /// Reads the marks written so far.
    fn end(&mut self) {
        let Some(reader) = self.reader.take() else {
            return;
        };
        let told = OpenOptions::new()
            .write(true)
            .open(&self.path)
            .and_then(|mut pipe| pipe.write_all(&[END]));
        // If the pipe was removed, there are no more marks; its reader ends with the process.
        if told.is_ok() {
            let _ = reader.join();
        }
    }
}

impl Drop for PhasePipe {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(unix)]
mod socket {
    use std::net::Shutdown;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{Error, Marks, Path, PathBuf, Result, fs, take_lines, thread};

    /// Maximum number of simultaneous connections; an engine has one, or one per worker.
    const MOST: usize = 256;

    /// A Unix socket that receives marks while a command runs, over any number of connections;
    /// dropping it removes the socket.
    #[derive(Debug)]
    pub(super) struct PhaseSocket {
        path: PathBuf,
        stop: Arc<AtomicBool>,
        acceptor: Option<thread::JoinHandle<()>>,
    }

    impl PhaseSocket {
        /// Creates the socket and starts to read from every connection.
        pub(super) fn open(path: &Path, marks: &Marks) -> Result<Self> {
            let listener = UnixListener::bind(path).map_err(|error| Error::PhasePipe {
                what: format!("{}: {error}", path.display()),
            })?;
            let stop = Arc::new(AtomicBool::new(false));
            let (stopped, marks) = (Arc::clone(&stop), marks.clone());
            Ok(Self {
                path: path.to_owned(),
                stop,
                acceptor: Some(thread::spawn(move || accept(&listener, &marks, &stopped))),
            })
        }

        /// Returns the path of the socket.
        pub(super) fn path(&self) -> &Path {
            &self.path
        }
    }

    fn accept(listener: &UnixListener, marks: &Marks, stop: &AtomicBool) {
        let mut readers: Vec<(thread::JoinHandle<()>, UnixStream)> = Vec::new();
        while let Ok((stream, _)) = listener.accept() {
            // Connections made before the stop are still accepted; after that, do not wait.
            if stop.load(Ordering::Relaxed) && listener.set_nonblocking(true).is_err() {
                break;
            }
            readers.retain(|(reader, _)| !reader.is_finished());
            let ends = stream
                .set_nonblocking(false)
                .and_then(|()| stream.try_clone());
            if let Ok(end) = ends
                && readers.len() < MOST
            {
                let marks = marks.clone();
                readers.push((thread::spawn(move || take_lines(stream, &marks)), end));
            }
        }
        for (reader, end) in readers {
            // Data written so far is still read; then the connection ends.
            let _ = end.shutdown(Shutdown::Read);
            let _ = reader.join();
        }
    }

    impl Drop for PhaseSocket {
        fn drop(&mut self) {
            self.stop.store(true, Ordering::Relaxed);
            // Wakes the acceptor. If the socket was removed, there are no more marks; its threads
            // end with the process.
            let woken = UnixStream::connect(&self.path).is_ok();
            if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
                let _ = acceptor.join();
            }
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn shown(marks: &Marks) -> Vec<String> {
        let (phases, _) = marks.phases(0, 9);
        phases
            .iter()
            .map(|phase| format!("{} {} {}", phase.phase, phase.start_ns, phase.end_ns))
            .collect()
    }

    #[test]
    fn everything_that_was_written_is_read_and_the_pipe_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("phases");
        let marks = Marks::default();
        let pipe = PhasePipe::open(&path, &marks).unwrap();
        assert!(PhasePipe::open(&path, &marks).is_err());
        fs::write(&path, "phase a start 1\nphase a end 2\n").unwrap();
        fs::write(&path, "phase b start 3").unwrap();
        drop(pipe);
        assert!(!path.exists());
        assert_eq!(shown(&marks), ["a 1 2", "b 3 9"]);
    }

    #[test]
    fn everything_that_was_sent_is_read_and_the_socket_goes() {
        use std::os::unix::net::UnixStream;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let marks = Marks::default();
        let socket = socket::PhaseSocket::open(&path, &marks).unwrap();
        assert!(socket::PhaseSocket::open(&path, &marks).is_err());
        let mut first = UnixStream::connect(&path).unwrap();
        let mut second = UnixStream::connect(&path).unwrap();
        first
            .write_all(b"phase a start 1\nphase a end 2\n")
            .unwrap();
        // Both are still open at the end, and the last line is not terminated.
        second.write_all(b"phase b start 3").unwrap();
        drop(socket);
        assert!(!path.exists());
        assert_eq!(shown(&marks), ["a 1 2", "b 3 9"]);
    }
}
