//! `testdata/MANIFEST.json`: every file with its hash, origin and purpose.

use super::catalogue::Made;
use super::json::{Json, object};
use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::Path;

/// The manifest's file name in `testdata/`.
pub(crate) const NAME: &str = "MANIFEST.json";

/// One parsed entry.
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) sha256: String,
    pub(crate) bytes: u64,
    pub(crate) shows: String,
}

/// Returns the manifest of `made`.
pub(crate) fn render(made: &[Made]) -> String {
    let file = |made: &Made| {
        object! {
            "path": &made.fixture.path,
            "sha256": sha256(&made.fixture.bytes),
            "bytes": made.fixture.bytes.len(),
            "generator": format!("cargo xtask dataset generate ({})", made.generator),
            "seed": made.seed,
            "licence": "MIT OR Apache-2.0",
            "shows": &made.fixture.shows,
        }
    };
    object! { "schema": 1, "files": Json::Arr(made.iter().map(file).collect()) }.pretty()
}

/// Returns the entries of a manifest.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>> {
    let value: serde_json::Value =
        serde_json::from_str(text).context("testdata/MANIFEST.json is no JSON")?;
    let files = value["files"]
        .as_array()
        .context("testdata/MANIFEST.json has no list of files")?;
    let entry = |file: &serde_json::Value| {
        let text = |key: &str| {
            file[key]
                .as_str()
                .map(str::to_owned)
                .with_context(|| format!("an entry of testdata/MANIFEST.json lacks {key}"))
        };
        let bytes = file["bytes"]
            .as_u64()
            .context("an entry of testdata/MANIFEST.json lacks bytes")?;
        Ok(Entry {
            path: text("path")?,
            sha256: text("sha256")?,
            bytes,
            shows: text("shows")?,
        })
    };
    files.iter().map(entry).collect()
}

/// Returns the files in `folder` that no generator makes.
pub(crate) fn orphans(folder: &Path, made: &[Made]) -> Result<Vec<String>> {
    let known = |path: &String| path == NAME || made.iter().any(|made| made.fixture.path == *path);
    Ok(files(folder)?
        .into_iter()
        .filter(|path| !known(path))
        .collect())
}

/// Returns all files under `folder`, relative to it, with `/`, sorted.
pub(crate) fn files(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(relative) = folders.pop() {
        let here = folder.join(&relative);
        for entry in
            std::fs::read_dir(&here).with_context(|| format!("listing {}", here.display()))?
        {
            let entry = entry?;
            let name = format!("{relative}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                folders.push(format!("{name}/"));
            } else {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the SHA-256 of `bytes` in lower-case hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
