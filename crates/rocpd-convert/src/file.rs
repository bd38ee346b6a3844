//! Files that appear complete or not at all.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use byte_source::output::AtomicFile;

use crate::Result;

/// A file under construction; write errors name it.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    file: Option<AtomicFile>,
}

impl OutputFile {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: Some(AtomicFile::create(path)?),
        })
    }

    /// Creates a file that exists only if something is written to it.
    pub(crate) fn if_written(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Moves the file to its path.
    pub(crate) fn finish(self) -> Result<()> {
        match self.file {
            Some(file) => Ok(file.commit()?),
            None => Ok(()),
        }
    }

    fn open(&mut self) -> io::Result<&mut AtomicFile> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => {
                let file = AtomicFile::create(&self.path).map_err(io::Error::other)?;
                Ok(none.insert(file))
            }
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open()?
            .write(bytes)
            .map_err(|error| match error.kind() {
                // Callers retry on this error.
                io::ErrorKind::Interrupted => error,
                kind => io::Error::new(kind, format!("{}: {error}", self.path.display())),
            })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}
