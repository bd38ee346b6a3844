//! Registers temporary files and folders that must not outlive the process, even if a signal ends
//! it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Existing temporary files.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Hook called before the first of them is created.
static AT_FIRST: OnceLock<fn()> = OnceLock::new();

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary file registered for [`remove_all`]; dropping this unregisters the file without
/// removing it.
#[derive(Debug)]
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// Creates a temporary file with `make` and registers it; no signal can come in between.
    ///
    /// # Errors
    ///
    /// Errors of `make`.
    pub fn made<T, E>(
        make: impl FnOnce() -> Result<T, E>,
        path: impl FnOnce(&T) -> &Path,
    ) -> Result<(T, Self), E> {
        if let Some(prepare) = AT_FIRST.get() {
            prepare();
        }
        let mut files = live();
        let file = make()?;
        let path = path(&file).to_owned();
        files.push(path.clone());
        Ok((file, Self(path)))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        live().retain(|path| *path != self.0);
    }
}

/// Sets a hook that is called before a file is created: a tool handles signals only if there is
/// something to remove. Only the first call in a process has an effect; `prepare` may be called
/// several times.
pub fn at_first(prepare: fn()) {
    AT_FIRST.get_or_init(|| prepare);
}

/// Removes all unfinished files and calls `last` while no other file can be registered or finished.
/// Call it before a signal ends the process.
pub fn remove_all(last: impl FnOnce()) {
    let files = live();
    for path in files.iter() {
        // There is no one to report an error to.
        let _ = match path.is_dir() {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
    }
    last();
    drop(files);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_finished_stays() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["kept", "removed"].map(|name| folder.path().join(name));
        let [kept, removed] = paths.each_ref().map(|path| {
            let write = || std::fs::write(path, "x").map(|()| path.clone());
            Unfinished::made(write, PathBuf::as_path).unwrap().1
        });
        drop(kept);
        remove_all(|| {});
        assert_eq!(paths.map(|path| path.exists()), [true, false]);
        drop(removed);
    }
}
