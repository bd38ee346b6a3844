//! Sets of databases with an index.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::inputs::expand;

/// How to make a package.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct PackageOptions {
    /// Put the databases into the folder.
    pub consolidate: bool,
    /// Copy them there instead of moving them.
    pub copy: bool,
}

/// Writes `index.yaml` into a folder, which is made if need be, and returns its path.
///
/// # Errors
///
/// When an input is missing, two inputs to be put into the folder have the same name, or something cannot be written.
pub fn package<P: AsRef<Path>>(
    inputs: &[P],
    folder: &Path,
    options: &PackageOptions,
) -> Result<PathBuf> {
    let files = expand(inputs)?;
    fs::create_dir_all(folder).map_err(|e| Error::io(folder, "make the folder", e))?;
    let base = fs::canonicalize(folder).map_err(|e| Error::io(folder, "find the folder", e))?;
    let mut entries = Vec::new();
    let mut moves = Vec::new();
    for file in &files {
        let real = fs::canonicalize(file).map_err(|e| Error::io(file, "find the file", e))?;
        if !options.consolidate {
            entries.push(relative(&real, &base));
            continue;
        }
        let name = real.file_name().unwrap_or_default().to_owned();
        let to = base.join(&name);
        if real != to && (to.exists() || moves.iter().any(|(_, other)| *other == to)) {
            return Err(Error::Merge {
                name: file.display().to_string(),
                what: format!("{} is in the package already", name.to_string_lossy()),
            });
        }
        entries.push(PathBuf::from(&name));
        moves.push((real, to));
    }
    for (from, to) in moves {
        if from == to {
            continue;
        }
        // Another file system takes a copy.
        let moved = !options.copy && fs::rename(&from, &to).is_ok();
        if !moved {
            copy(&from, &to)?;
            if !options.copy {
                fs::remove_file(&from).map_err(|e| Error::io(&from, "remove after copying", e))?;
            }
        }
    }
    let mut text = String::from(
        "rocprofiler-sdk:\n  rocpd:\n    rocpd_package_version: \"1.0\"\n    path: .\n    files:\n",
    );
    for entry in entries {
        let quoted = serde_json::Value::from(entry.to_string_lossy().as_ref()).to_string();
        text.push_str(&format!("    - {quoted}\n"));
    }
    let index = folder.join("index.yaml");
    let mut file = byte_source::output::AtomicFile::create(&index)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    file.commit()?;
    Ok(index)
}

/// Copies a file, which appears complete or not at all.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let failed = |e| Error::io(from, "copy into the package", e);
    let mut source = fs::File::open(from).map_err(failed)?;
    let mut file = byte_source::output::AtomicFile::create(to)?;
    std::io::copy(&mut source, &mut file).map_err(failed)?;
    file.commit()?;
    Ok(())
}

/// The way from a folder to a file.
fn relative(file: &Path, folder: &Path) -> PathBuf {
    let mut ups = PathBuf::new();
    let mut from = folder;
    loop {
        if let Ok(rest) = file.strip_prefix(from) {
            return ups.join(rest);
        }
        match from.parent() {
            Some(parent) => {
                from = parent;
                ups.push("..");
            }
            None => return file.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_between_folders() {
        let way = |file: &str, folder: &str| relative(Path::new(file), Path::new(folder));
        assert_eq!(way("/a/b/c.db", "/a/b"), Path::new("c.db"));
        assert_eq!(way("/a/b/c.db", "/a/x/y"), Path::new("../../b/c.db"));
    }
}
