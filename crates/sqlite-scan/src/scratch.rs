//! A temporary folder that goes away however the process ends.

use std::io;
use std::path::Path;

use byte_source::unfinished::Unfinished;
use tempfile::TempDir;

/// A temporary folder: removed when dropped, and by tools that listen for signals when one ends them.
#[derive(Debug)]
pub struct Scratch {
    // Removed before it is forgotten.
    folder: TempDir,
    _unfinished: Unfinished,
}

impl Scratch {
    /// Creates an empty folder.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses.
    pub fn new() -> io::Result<Self> {
        let (folder, unfinished) = Unfinished::made(TempDir::new, TempDir::path)?;
        Ok(Self {
            folder,
            _unfinished: unfinished,
        })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}
