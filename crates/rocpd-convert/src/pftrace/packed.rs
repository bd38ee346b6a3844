//! The file of a trace, optionally compressed.

use std::io::{self, Write};
use std::path::Path;

use crate::Result;
use crate::file::OutputFile;
use byte_source::output::Gzip;

/// The file of a trace.
#[derive(Debug)]
pub(super) enum TraceFile {
    Plain(Counted),
    Packed(Box<Gzip<Counted>>),
}

/// A file with the number of bytes written.
#[derive(Debug)]
pub(super) struct Counted {
    out: OutputFile,
    bytes: u64,
}

impl TraceFile {
    pub(super) fn create(path: &Path, packed: bool) -> Result<Self> {
        let out = Counted {
            out: OutputFile::create(path)?,
            bytes: 0,
        };
        Ok(match packed {
            true => Self::Packed(Box::new(Gzip::new(out))),
            false => Self::Plain(out),
        })
    }

    /// Moves the file to its path and returns its size in bytes.
    pub(super) fn finish(self) -> Result<u64> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Packed(gzip) => gzip.finish()?,
        };
        file.out.finish()?;
        Ok(file.bytes)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Write for TraceFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.write(bytes),
            Self::Packed(gzip) => gzip.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.flush(),
            Self::Packed(gzip) => gzip.flush(),
        }
    }
}
