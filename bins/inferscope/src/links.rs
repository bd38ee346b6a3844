//! Creates links by which each tool can be called by its own name.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::tools;

/// Creates a link to this executable in a folder for each name of a tool. Existing files are left
/// unchanged.
///
/// Returns the names that already existed.
pub(crate) fn make(folder: &Path) -> Result<Vec<String>> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let executable = std::env::current_exe()?.canonicalize()?;
    let folder = folder.canonicalize()?;
    // A relative link next to the executable stays valid when both are moved.
    let target = match executable.parent() == Some(folder.as_path()) {
        true => PathBuf::from(executable.file_name().unwrap_or_default()),
        false => executable,
    };
    let mut present = Vec::new();
    for name in tools::names() {
        let link = folder
            .join(&name)
            .with_extension(std::env::consts::EXE_EXTENSION);
        match link_to(&target, &link) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => present.push(name),
            Err(error) => return Err(error).context(link.display().to_string()),
        }
    }
    Ok(present)
}

#[cfg(unix)]
fn link_to(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Symbolic links need rights that users of Windows do not have.
#[cfg(not(unix))]
fn link_to(target: &Path, link: &Path) -> io::Result<()> {
    let folder = link.parent().unwrap_or(Path::new("."));
    std::fs::hard_link(folder.join(target), link)
}
