//! Writes and verifies `manifest.json`: the files of a run and their hashes.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use byte_source::output::AtomicFile;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result, io_error};

/// Files of a run that have a schema version.
pub(crate) const VERSIONED: [&str; 5] = [
    "trace.parquet",
    "region_map.parquet",
    "kv_block_lifecycle.parquet",
    "metrics.csv",
    "metadata.json",
];
/// File name of the manifest.
pub const MANIFEST_FILE: &str = "manifest.json";

/// A file of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ManifestFile {
    /// Path within the run's folder, with slashes.
    pub path: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Version of its schema, for the standard files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<String>,
}

/// The manifest of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// Version of the manifest's own schema.
    pub manifest_schema_version: String,
    /// Name of the run.
    pub run_id: String,
    /// Time of writing, ISO 8601.
    pub created_at_utc: String,
    /// The files, sorted by path.
    pub files: Vec<ManifestFile>,
}

/// Problem with a file of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileFinding {
    /// The file.
    pub path: String,
    /// Problem: `missing`, `size`, `sha256`, `not_listed`, `left_over`.
    pub problem: &'static str,
}

/// Writes the manifest of all files in the folder, including `raw/` and other subfolders.
///
/// # Errors
///
/// Returns an error if a file cannot be read or the manifest cannot be written.
pub fn write_manifest(folder: &Path, run_id: &str) -> Result<Manifest> {
    let mut files = Vec::new();
    for path in files_below(folder)? {
        let name = relative(folder, &path);
        if name == MANIFEST_FILE || is_temporary(&name) {
            continue;
        }
        let (size_bytes, sha256) = hash(&path)?;
        let schema_version = VERSIONED
            .contains(&&*name)
            .then(|| memtrace_labeller::SCHEMA_VERSION.to_owned());
        files.push(ManifestFile {
            path: name,
            size_bytes,
            sha256,
            schema_version,
        });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let manifest = Manifest {
        manifest_schema_version: memtrace_labeller::SCHEMA_VERSION.to_owned(),
        run_id: run_id.to_owned(),
        created_at_utc: iso_now(),
        files,
    };
    write_json(&folder.join(MANIFEST_FILE), &manifest)?;
    Ok(manifest)
}

/// Compares a folder with its manifest.
///
/// # Errors
///
/// Returns an error if the manifest or a file cannot be read.
pub fn verify_manifest(folder: &Path) -> Result<(Manifest, Vec<FileFinding>)> {
    let path = folder.join(MANIFEST_FILE);
    let text = fs::read(&path).map_err(io_error(&path))?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|source| Error::Json {
        name: path.display().to_string(),
        source,
    })?;
    let mut findings = Vec::new();
    for file in &manifest.files {
        let path = folder.join(&file.path);
        let problem = if !path.is_file() {
            Some("missing")
        } else {
            let (size, sha256) = hash(&path)?;
            if size != file.size_bytes {
                Some("size")
            } else if sha256 != file.sha256 {
                Some("sha256")
            } else {
                None
            }
        };
        if let Some(problem) = problem {
            findings.push(FileFinding {
                path: file.path.clone(),
                problem,
            });
        }
    }
    findings.extend(unlisted(folder, Some(&manifest))?);
    Ok((manifest, findings))
}

/// Returns the files that are not in the manifest; all of them without a manifest, as after an
/// interrupted run.
///
/// # Errors
///
/// Returns an error if the folder cannot be read.
pub fn unlisted(folder: &Path, manifest: Option<&Manifest>) -> Result<Vec<FileFinding>> {
    let mut findings = Vec::new();
    for path in files_below(folder)? {
        let name = relative(folder, &path);
        let listed =
            manifest.is_some_and(|manifest| manifest.files.iter().any(|file| file.path == name));
        if is_temporary(&name) {
            findings.push(FileFinding {
                path: name,
                problem: "left_over",
            });
        } else if !listed && name != MANIFEST_FILE {
            findings.push(FileFinding {
                path: name,
                problem: "not_listed",
            });
        }
    }
    Ok(findings)
}

/// Returns `true` if a file is the unfinished form of another.
fn is_temporary(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.starts_with('.') && file.ends_with(".tmp")
}

fn relative(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder)
        .unwrap_or(path)
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(io_error(&folder))? {
            let entry = entry.map_err(io_error(&folder))?;
            let kind = entry.file_type().map_err(io_error(&folder))?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Removes the manifest before its files are rewritten: the run is incomplete until the next
/// manifest.
pub(crate) fn remove_manifest(folder: &Path) -> Result<()> {
    let path = folder.join(MANIFEST_FILE);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(&path)(error)),
        _ => Ok(()),
    }
}

/// Returns size and SHA-256 (hexadecimal) of a file.
pub(crate) fn hash(path: &Path) -> Result<(u64, String)> {
    let mut file = File::open(path).map_err(io_error(path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    let mut size = 0;
    loop {
        let read = file.read(&mut buffer).map_err(io_error(path))?;
        if read == 0 {
            break;
        }
        size += read as u64;
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
    let hex = hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok((size, hex))
}

/// Writes a value as JSON with an indent of two, whole or not at all.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(value).map_err(|source| Error::Json {
        name: path.display().to_string(),
        source,
    })?;
    write_whole(path, &text)
}

/// Copies a file, whole or not at all; creates its folder if missing.
///
/// # Errors
///
/// Returns an error if the source cannot be read or the copy cannot be written.
pub fn copy_whole(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(io_error(folder))?;
    }
    let mut source = File::open(from).map_err(io_error(from))?;
    let mut file = AtomicFile::create(to)?;
    std::io::copy(&mut source, &mut file).map_err(io_error(to))?;
    Ok(file.commit()?)
}

/// Writes a file whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes).map_err(io_error(path))?;
    Ok(file.commit()?)
}

/// Returns the current time, as `2026-11-20T12:56:57+00:00`.
pub(crate) fn iso_now() -> String {
    let (date, time) = civil(unix_seconds());
    let ([year, month, day], [hour, minute, second]) = (date, time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00")
}

pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Converts seconds since 1970 to date and time of day, with Howard Hinnant's days-to-civil
/// algorithm.
pub(crate) fn civil(seconds: u64) -> ([u64; 3], [u64; 3]) {
    let days = seconds / 86_400 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let rest = seconds % 86_400;
    ([year, month, day], [rest / 3600, rest / 60 % 60, rest % 60])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(civil(0), ([1970, 1, 1], [0, 0, 0]));
        assert_eq!(civil(951_827_696), ([2000, 2, 29], [12, 34, 56]));
        assert_eq!(civil(1_795_178_508), ([2026, 11, 20], [12, 41, 48]));
    }

    #[test]
    fn damage_to_a_run_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("raw")).unwrap();
        for name in ["metrics.csv", "raw/perf.data", "a.txt"] {
            fs::write(at(name), name).unwrap();
        }
        let manifest = write_manifest(folder.path(), "run").unwrap();
        let paths: Vec<&str> = manifest.files.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["a.txt", "metrics.csv", "raw/perf.data"]);
        assert_eq!(manifest.files[1].schema_version.as_deref(), Some("1.0"));
        assert!(verify_manifest(folder.path()).unwrap().1.is_empty());

        fs::write(at("metrics.csv"), "METRICS.CSV").unwrap();
        fs::write(at("raw/perf.data"), "shorter").unwrap();
        fs::remove_file(at("a.txt")).unwrap();
        fs::write(at(".trace.parquet.x.tmp"), "half").unwrap();
        let (_, findings) = verify_manifest(folder.path()).unwrap();
        let told: Vec<(&str, &str)> = findings
            .iter()
            .map(|finding| (&*finding.path, finding.problem))
            .collect();
        assert_eq!(
            told,
            [
                ("a.txt", "missing"),
                ("metrics.csv", "sha256"),
                ("raw/perf.data", "size"),
                (".trace.parquet.x.tmp", "left_over"),
            ]
        );
    }
}
