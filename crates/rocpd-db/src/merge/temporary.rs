//! The temporary file of a merge, and those of merges that did not end.

use std::fs::File;
use std::path::Path;

use byte_source::unfinished::Unfinished;
use tempfile::NamedTempFile;

use crate::error::{Error, Result};

const PREFIX: &str = ".merge.";
const SUFFIX: &str = ".tmp";

/// A temporary file that is locked as long as its merge lives, and removed should a signal end it.
#[derive(Debug)]
pub(super) struct Temporary {
    file: NamedTempFile,
    _unfinished: Unfinished,
}

impl Temporary {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let failed = |e| Error::io(folder, "make a temporary file", e);
        let make = || {
            tempfile::Builder::new()
                .prefix(PREFIX)
                .suffix(SUFFIX)
                .tempfile_in(folder)
        };
        let (file, unfinished) = Unfinished::made(make, NamedTempFile::path).map_err(failed)?;
        // Where locks are not supported the file is merely not recognised as left over later on.
        let _ = file.as_file().try_lock();
        Ok(Self {
            file,
            _unfinished: unfinished,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Forces the file to the disk and gives it its name.
    pub(super) fn put_in_place(self, path: &Path) -> Result<()> {
        self.file
            .as_file()
            .sync_all()
            .map_err(|e| Error::io(path, "force the file to the disk", e))?;
        open_to_others(&self.file, path)?;
        self.file
            .persist(path)
            .map_err(|e| Error::io(path, "put the file in place", e.error))?;
        Ok(())
    }
}

/// Removes what killed merges left in a folder; locks end with their process, so those of running ones stay.
pub(super) fn remove_stale(folder: &Path) -> Vec<String> {
    let mut removed = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return removed;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_ours = name.starts_with(PREFIX) && name.ends_with(SUFFIX);
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        let stale = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .is_ok_and(|file| file.try_lock().is_ok());
        if stale && std::fs::remove_file(&path).is_ok() {
            removed.push(path.display().to_string());
        }
    }
    removed.sort();
    removed
}

/// Temporary files are private; the result is as readable as any new file.
#[cfg(unix)]
fn open_to_others(file: &NamedTempFile, path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).map_or(0o644, |found| found.permissions().mode());
    file.as_file()
        .set_permissions(std::fs::Permissions::from_mode(mode))
        .map_err(|e| Error::io(path, "set the mode of the file", e))
}

#[cfg(not(unix))]
fn open_to_others(_: &NamedTempFile, _: &Path) -> Result<()> {
    Ok(())
}
