//! Destinations of results.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

use byte_source::output::AtomicFile;

use crate::in_process::{self, Call};
use crate::run::{OrExit as _, Outcome, WriteFailed};

/// Buffer size for standard output in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output, locked and buffered, or a file that appears whole or not at all.
///
/// Call [`Output::finish`]: only then are failures of the last bytes reported, and only then does a
/// file replace its target.
#[derive(Debug)]
pub struct Output {
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Stdout(BufWriter<StdoutLock<'static>>),
    /// The program that runs the tool.
    Caller(Call),
    File(AtomicFile),
}

impl Output {
    /// Returns standard output, locked until this is dropped.
    pub fn stdout() -> Self {
        let sink = match in_process::current() {
            Some(call) => Sink::Caller(call),
            None => Sink::Stdout(BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock())),
        };
        Self { sink }
    }

    /// Creates a temporary file that replaces `path` on [`Output::finish`].
    ///
    /// The temporary file is removed when this is dropped early, and when the process is
    /// interrupted or terminated by a signal.
    ///
    /// # Errors
    ///
    /// Same as [`AtomicFile::create`].
    pub fn file(path: impl AsRef<Path>) -> anyhow::Result<Self> {
        Ok(Self {
            sink: Sink::File(AtomicFile::create(path).or_exit(Outcome::OutputFailed)?),
        })
    }

    /// Returns `true` if the destination is standard output (a terminal or pipe) rather than a
    /// file.
    pub fn is_stdout(&self) -> bool {
        matches!(self.sink, Sink::Stdout(_) | Sink::Caller(_))
    }

    /// Flushes the buffer, and moves a file to its target.
    ///
    /// # Errors
    ///
    /// Returns an error if the last bytes cannot be written or the file cannot be renamed.
    pub fn finish(self) -> anyhow::Result<()> {
        match self.sink {
            Sink::Stdout(mut stdout) => stdout.flush().or_exit(Outcome::OutputFailed),
            Sink::Caller(_) => Ok(()),
            Sink::File(file) => file.commit().or_exit(Outcome::OutputFailed),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Stdout(stdout) => stdout.write(bytes),
            Sink::Caller(call) => {
                call.collected().output.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            Sink::File(file) => file.write(bytes),
        }
        .map_err(marked)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Stdout(stdout) => stdout.flush(),
            Sink::Caller(_) => Ok(()),
            Sink::File(file) => file.flush(),
        }
        .map_err(marked)
    }
}

/// Marks an error as one of the output. Interrupted writes are left as they are, because callers
/// retry them.
fn marked(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, WriteFailed(error)),
    }
}
