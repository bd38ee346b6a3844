//! Finds the files of a trace from paths: folders of recordings, parts by processor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use blkio_companions::parts::part;

use crate::error::{Error, Result};

/// The log in a folder that `blkio collect` writes.
const COLLECTED: &str = "events.txt";

/// Parts of recordings by name of the recording, in order of processors.
type Recordings = BTreeMap<String, BTreeMap<u32, PathBuf>>;

fn recordings(folder: &Path) -> Result<Recordings> {
    let entries = std::fs::read_dir(folder).map_err(|error| {
        Error::Input(format!(
            "{}: cannot look into the folder: {error}",
            folder.display()
        ))
    })?;
    let mut found = Recordings::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if let Some((recording, cpu)) = part(&path) {
            found.entry(recording).or_default().insert(cpu, path);
        }
    }
    Ok(found)
}

/// Returns the recording of a folder: that of blktrace, if there is one, or of `blkio collect`.
fn of_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    let found = recordings(folder)?;
    let mut names = found.keys();
    match (names.next(), names.next()) {
        (Some(one), Some(other)) => Err(Error::Input(format!(
            "{}: several recordings of blktrace ({one}, {other}): name one as {}",
            folder.display(),
            folder.join(one).display()
        ))),
        (Some(_), None) => Ok(found
            .into_values()
            .flat_map(BTreeMap::into_values)
            .collect()),
        _ => {
            let log = folder.join(COLLECTED);
            if log.is_file() {
                return Ok(vec![log]);
            }
            Err(Error::Input(format!(
                "{}: a folder without NAME.blktrace.N and without {COLLECTED} of `blkio collect`: name the files",
                folder.display()
            )))
        }
    }
}

/// Returns the parts of the recording whose name, with its folder, this is: what `blktrace -o NAME` wrote.
fn of_name(path: &Path) -> Option<Vec<PathBuf>> {
    let folder = match path.parent()? {
        folder if folder.as_os_str().is_empty() => Path::new("."),
        folder => folder,
    };
    let name = path.file_name()?.to_str()?;
    let mut found = recordings(folder).ok()?;
    Some(found.remove(name)?.into_values().collect())
}

/// Returns the parts that a path stands for which is no file but the name of a recording of blktrace.
#[must_use]
pub fn parts_of(path: &Path) -> Option<Vec<PathBuf>> {
    (!path.exists() && path.as_os_str() != "-").then(|| of_name(path))?
}

/// Returns the files of a trace. A folder stands for the recording in it, and the name of a recording of blktrace for its parts by
/// processor; everything else is a file. `note` gets a sentence for each recording of
/// which parts are left out.
///
/// # Errors
///
/// A folder that holds no recording, or several.
pub fn trace_files(paths: &[PathBuf], note: &mut dyn FnMut(String)) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(of_folder(path)?);
        } else {
            files.extend(parts_of(path).unwrap_or_else(|| vec![path.clone()]));
        }
    }
    let mut given: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for path in &files {
        if let Some((recording, _)) = part(path) {
            *given.entry(path.with_file_name(recording)).or_default() += 1;
        }
    }
    for (recording, count) in given {
        let all = of_name(&recording).map_or(0, |parts| parts.len());
        if all > count {
            note(format!(
                "{count} of the {all} parts of {}: requests of other processors are missing",
                recording.display()
            ));
        }
    }
    Ok(files)
}

/// Returns a name for several files, in a few words.
#[must_use]
pub fn name_of(files: &[PathBuf]) -> String {
    match files {
        [] => String::new(),
        [one] => one.display().to_string(),
        [first, rest @ ..] => format!("{} and {} more", first.display(), rest.len()),
    }
}
