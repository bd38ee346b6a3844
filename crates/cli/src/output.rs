//! Where results go.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

use byte_source::output::AtomicFile;

use crate::run::{OrExit as _, Outcome, WriteFailed};

/// Bytes held back on the way to standard output.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output, locked and buffered, or a file that appears whole or not at all.
///
/// Call [`Output::finish`]: only then are failures of the last bytes known, and only then does
/// a file take its place.
#[derive(Debug)]
pub struct Output {
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Stdout(BufWriter<StdoutLock<'static>>),
    File(AtomicFile),
}

impl Output {
    /// Standard output, locked until this is dropped.
    pub fn stdout() -> Self {
        Self {
            sink: Sink::Stdout(BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock())),
        }
    }

    /// A file next to which a temporary one is written until [`Output::finish`].
    ///
    /// The temporary file is removed when this is dropped early, and when the process is
    /// interrupted or terminated by a signal.
    ///
    /// # Errors
    ///
    /// As [`AtomicFile::create`].
    pub fn file(path: impl AsRef<Path>) -> anyhow::Result<Self> {
        Ok(Self {
            sink: Sink::File(AtomicFile::create(path).or_exit(Outcome::OutputFailed)?),
        })
    }

    /// Whether this goes to a terminal or pipe rather than a file.
    pub fn is_stdout(&self) -> bool {
        matches!(self.sink, Sink::Stdout(_))
    }

    /// Writes everything that was held back, and puts a file in its place.
    ///
    /// # Errors
    ///
    /// When the last bytes cannot be written or the file cannot be renamed.
    pub fn finish(self) -> anyhow::Result<()> {
        match self.sink {
            Sink::Stdout(mut stdout) => stdout.flush().or_exit(Outcome::OutputFailed),
            Sink::File(file) => file.commit().or_exit(Outcome::OutputFailed),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Stdout(stdout) => stdout.write(bytes),
            Sink::File(file) => file.write(bytes),
        }
        .map_err(marked)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Stdout(stdout) => stdout.flush(),
            Sink::File(file) => file.flush(),
        }
        .map_err(marked)
    }
}

/// Marks an error as one of the output. An interrupted write is left as it is, since callers try it again.
fn marked(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Interrupted => error,
        kind => io::Error::new(kind, WriteFailed(error)),
    }
}
