//! The manifest: versions, and what is there of each input.

use std::fs;
use std::path::{Path, PathBuf};

use byte_source::remote;
use serde::{Deserialize, Serialize};
use trace_tables::catalogue::CATALOGUE_VERSION;

use crate::error::Error;

/// Name of the manifest in the folder of a data set.
pub const MANIFEST: &str = "manifest.json";

/// Folder for the state of an export. Readers of partitioned files ignore names that begin with `_`.
const STATE: &str = "_inferscope";

/// Returns `true` for the folder of a data set.
#[must_use]
pub fn is_data_set(folder: &Path) -> bool {
    // Of a bucket that does not answer nothing is known: its reader reports the reason.
    let is_folder = !remote::is_url(folder) || remote::is_dir(folder);
    let text = is_folder.then(|| remote::read(&folder.join(MANIFEST)));
    let text = text.and_then(Result::ok).unwrap_or_default();
    serde_json::from_slice::<Manifest>(&text).is_ok()
}

/// The manifest of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// Version of the tables.
    pub schema_version: String,
    /// Version of the tool that wrote it last.
    pub tool_version: String,
    /// Files, by their number; those without `done` were not exported yet, or failed.
    pub inputs: Vec<ManifestInput>,
}

/// A file of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ManifestInput {
    /// `files.file_id`.
    pub file_id: u32,
    /// Path as given.
    pub file: String,
    /// What was exported of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<Done>,
    /// Why it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What was exported of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Done {
    /// SHA-256 of the file as stored.
    pub hash: Option<String>,
    /// ETag and size of an object when it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// SHA-256 of the rules of the user that its files were made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// Version of the tables when it was exported.
    pub schema_version: String,
    /// Files written, relative to the folder, with their number of rows.
    pub parts: Vec<Part>,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Part {
    /// Table.
    pub table: String,
    /// Path relative to the folder.
    pub path: String,
    /// Number of rows.
    pub rows: u64,
    /// Size of the file; manifests of earlier versions do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl Part {
    pub(crate) fn new(table: &str, path: String, rows: u64, bytes: u64) -> Self {
        Self {
            table: table.to_owned(),
            path,
            rows,
            bytes: Some(bytes),
        }
    }

    /// Returns what is wrong with the file; `None` if it is there in its size.
    fn damage(&self, folder: &Path) -> Option<String> {
        let path = folder.join(&self.path);
        let found = match remote::is_url(&path) {
            true => remote::stat(&path)
                .ok()
                .flatten()
                .map(|object| object.bytes),
            false => fs::metadata(&path).ok().map(|found| found.len()),
        };
        let Some(found) = found else {
            return Some("is missing".to_owned());
        };
        let bytes = self.bytes.filter(|bytes| *bytes != found)?;
        Some(format!("has {found} bytes instead of {bytes}"))
    }
}

impl Done {
    pub(crate) fn new(hash: Option<String>, schema_version: String, parts: Vec<Part>) -> Self {
        Self {
            hash,
            tag: None,
            rules: None,
            schema_version,
            parts,
        }
    }

    /// Returns `true` if the tables of an equal input are all there.
    pub(crate) fn is_current(
        &self,
        folder: &Path,
        (hash, tag): (Option<&str>, Option<&str>),
        tables: &[String],
        (schema_version, rules): (&str, Option<String>),
    ) -> bool {
        let has = |table: &String| self.parts.iter().any(|part| part.table == *table);
        let is_equal = |own: &Option<String>, other| own.is_some() && own.as_deref() == other;
        (is_equal(&self.hash, hash) || is_equal(&self.tag, tag))
            && self.schema_version == schema_version
            && self.rules == rules
            && tables.iter().all(has)
            && self.parts.iter().all(|part| part.damage(folder).is_none())
    }
}

/// Returns the files of a data set that are missing or cut, each with one sentence.
///
/// # Errors
///
/// Returns an error for a manifest that is damaged, or of another version.
pub fn damaged(folder: &Path) -> Result<Vec<(PathBuf, String)>, Error> {
    if remote::is_url(folder) {
        // One request instead of one for each file.
        let listed = remote::list(folder).map_err(std::io::Error::from);
        listed.map_err(Error::io("list the folder", folder))?;
    }
    let Some(manifest) = Manifest::read(folder)? else {
        return Ok(Vec::new());
    };
    let parts = manifest.inputs.iter().filter_map(|input| {
        let done = input.done.as_ref()?;
        Some(done.parts.iter().map(move |part| (input, part)))
    });
    let found = parts.flatten().filter_map(|(input, part)| {
        let what = part.damage(folder)?;
        let path = folder.join(&part.path);
        let text = format!(
            "{} {what}: `inferscope export {} -o {}` writes it again",
            path.display(),
            input.file,
            folder.display()
        );
        Some((path, text))
    });
    Ok(found.collect())
}

impl Manifest {
    /// Reads the manifest of a data set with the newest state of each input; `None` for a new or empty folder.
    ///
    /// # Errors
    ///
    /// Returns an error for a folder that holds something else, and for a manifest of another version.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, Error> {
        Self::read_version(folder, &CATALOGUE_VERSION.to_string())
    }

    /// Reads the manifest of a folder of version `own`, with the newest state of each input; `None` for a new or empty folder.
    ///
    /// # Errors
    ///
    /// Returns an error for a folder that holds something else, and for a manifest of another major version.
    pub fn read_version(folder: &Path, own: &str) -> Result<Option<Self>, Error> {
        let path = folder.join(MANIFEST);
        let text = match remote::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let mut entries = match fs::read_dir(folder) {
                    Ok(entries) => entries.flatten(),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(Error::io("list the folder", folder)(error)),
                };
                // A run that was killed at once leaves the folder of its state.
                return match entries.any(|entry| entry.file_name() != STATE) {
                    true => Err(Error::NotOurs {
                        path: folder.to_owned(),
                    }),
                    false => Ok(None),
                };
            }
            Err(error) => return Err(Error::io("read the manifest", &path)(error)),
        };
        let broken = |text: String| Error::Manifest {
            path: path.clone(),
            text,
        };
        let mut manifest: Self = serde_json::from_slice(&text).map_err(|error| {
            broken(format!(
                "the manifest is damaged ({error}): export to a new folder"
            ))
        })?;
        let major = |version: &str| version.split('.').next().map(str::to_owned);
        if major(&manifest.schema_version) != major(own) {
            return Err(broken(format!(
                "the data set has tables of version {}, this tool writes {own}: export to a new folder",
                manifest.schema_version
            )));
        }
        // What was copied to a bucket is whole, or states what is missing.
        let is_local = !remote::is_url(folder);
        for input in &mut manifest.inputs {
            let is_open = is_local || (input.done.is_none() && input.error.is_none());
            if is_open && let Some(done) = read_done(folder, input.file_id) {
                input.done = Some(done);
                input.error = None;
            }
        }
        Ok(Some(manifest))
    }

    /// Replaces the manifest.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        replace(
            &folder.join(MANIFEST),
            &state(folder).join("manifest.new"),
            &text,
        )
    }
}

/// Returns the folder of the state.
pub(crate) fn state(folder: &Path) -> PathBuf {
    folder.join(STATE)
}

fn done_path(folder: &Path, file_id: u32) -> PathBuf {
    state(folder)
        .join("inputs")
        .join(format!("{file_id:06}.json"))
}

fn read_done(folder: &Path, file_id: u32) -> Option<Done> {
    let text = remote::read(&done_path(folder, file_id)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// States that an input is exported.
pub(crate) fn write_done(folder: &Path, file_id: u32, done: &Done) -> Result<(), Error> {
    let path = done_path(folder, file_id);
    let text = serde_json::to_string(done).unwrap_or_default();
    replace(&path, &path.with_extension("new"), &text)
}

/// States that an input is not exported.
pub(crate) fn remove_done(folder: &Path, file_id: u32) -> Result<(), Error> {
    let path = done_path(folder, file_id);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", &path)(error))
        }
        _ => Ok(()),
    }
}

/// Writes a file aside and moves it over its target.
fn replace(target: &Path, aside: &Path, text: &str) -> Result<(), Error> {
    fs::write(aside, text).map_err(Error::io("write", aside))?;
    fs::rename(aside, target).map_err(Error::io("write", target))
}
