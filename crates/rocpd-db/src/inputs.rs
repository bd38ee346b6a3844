//! Which files are meant: databases, folders, patterns, packages and their indexes.

use std::fs;
use std::path::{Path, PathBuf};

use byte_source::remote::{exists, files_in, is_dir, is_file, read};

use crate::error::{Error, Result};

/// Turns what was named into database files, in order, each once.
///
/// * a file stays as it is;
/// * a folder with an `index.yaml` (a `.rpdb` package) gives what the index lists, any other folder its `*.db`, compressed
///   ones too (`*.db.gz`, `*.db.xz`, `*.db.zst`, ...) unless the plain one is beside them, sorted;
/// * a `.yaml` or `.yml` file is such an index: paths in it count from its folder, patterns are allowed;
/// * a path that does not exist and has `*` or `?` in it is a pattern.
///
/// # Errors
///
/// When something named does not exist, an index cannot be understood, or a folder or pattern gives no file.
pub fn expand<P: AsRef<Path>>(inputs: &[P]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for input in inputs {
        one(input.as_ref(), &mut files, 0)?;
    }
    let mut seen = Vec::new();
    files.retain(|file: &PathBuf| {
        let real = fs::canonicalize(file).unwrap_or_else(|_| file.clone());
        let new = !seen.contains(&real);
        if new {
            seen.push(real);
        }
        new
    });
    Ok(files)
}

/// Packages may hold packages, to this depth.
const MAX_DEPTH: usize = 8;

fn one(input: &Path, files: &mut Vec<PathBuf>, depth: usize) -> Result<()> {
    let none = || Error::NoInput {
        name: input.display().to_string(),
    };
    if depth > MAX_DEPTH {
        return Err(none());
    }
    if is_dir(input) {
        let index = input.join("index.yaml");
        if is_file(&index) {
            return one(&index, files, depth + 1);
        }
        let before = files.len();
        let mut found = files_in(input).map_err(|e| Error::io(input, "list the folder", e))?;
        found.retain(|path| is_database_name(path));
        // What was packed and kept as it was is the same data again.
        let plain: Vec<PathBuf> = found
            .iter()
            .filter(|path| !is_packed(path))
            .cloned()
            .collect();
        found.retain(|path| !is_packed(path) || !plain.contains(&unpacked(path)));
        found.sort();
        files.append(&mut found);
        return if files.len() > before {
            Ok(())
        } else {
            Err(none())
        };
    }
    let is_index = input
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("yaml") || e.eq_ignore_ascii_case("yml"));
    if is_index && is_file(input) {
        let folder = input.parent().unwrap_or(Path::new(""));
        for entry in index_entries(input)? {
            one(&folder.join(entry), files, depth + 1)?;
        }
        return Ok(());
    }
    if exists(input) {
        files.push(input.to_owned());
        return Ok(());
    }
    let found = byte_source::expand_inputs([input].as_slice(), is_database_name)?;
    if found.is_empty() {
        return Err(none());
    }
    // A pattern may also name packages.
    for path in found {
        if path == input {
            return Err(Error::Source(byte_source::Error::NotFound {
                name: input.display().to_string(),
            }));
        }
        one(&path, files, depth + 1)?;
    }
    Ok(())
}

fn is_database_name(path: &Path) -> bool {
    unpacked(path)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("db"))
}

/// The path without the ends that compression adds.
fn unpacked(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str());
    // What stands before a `!` names an archive elsewhere; here it is part of the name.
    let shorter = name.map(byte_source::logical_name);
    match (name, shorter) {
        (Some(name), Some(shorter)) if name.starts_with(shorter) => path.with_file_name(shorter),
        _ => path.to_owned(),
    }
}

fn is_packed(path: &Path) -> bool {
    unpacked(path) != path
}

/// The files an index lists.
fn index_entries(path: &Path) -> Result<Vec<String>> {
    let text = read(path).map_err(|e| Error::io(path, "read the index", e))?;
    let text = String::from_utf8_lossy(&text);
    let name = path.display().to_string();
    parse_index(&text).map_err(|(line, what)| Error::BadIndex { name, line, what })
}

/// Reads `rocprofiler-sdk: rocpd: {path, files}` out of the little YAML that indexes are written in: mappings by
/// indentation, and a list of texts in block or flow form.
fn parse_index(text: &str) -> std::result::Result<Vec<String>, (usize, &'static str)> {
    let mut parents: Vec<(usize, String)> = Vec::new();
    let mut files = Vec::new();
    let mut base = String::new();
    let mut found = false;
    for (number, line) in text.lines().enumerate() {
        let line_number = number + 1;
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') || content == "---" {
            continue;
        }
        let indent = line.len() - content.len();
        if let Some(item) = content
            .strip_prefix("- ")
            .or((content == "-").then_some(""))
        {
            // Items may stand at the indentation of their key.
            while parents.last().is_some_and(|(depth, _)| *depth > indent) {
                parents.pop();
            }
            if is_at(&parents, "files") {
                files.push(scalar(item).ok_or((line_number, "a text without its closing quote"))?);
            }
            continue;
        }
        while parents.last().is_some_and(|(depth, _)| *depth >= indent) {
            parents.pop();
        }
        let Some((key, value)) = split_key(content) else {
            return Err((line_number, "neither `key: value` nor `- item`"));
        };
        parents.push((indent, key));
        let value = value.trim();
        if is_at(&parents, "path") && !value.is_empty() {
            base = scalar(value).ok_or((line_number, "a text without its closing quote"))?;
        }
        if is_at(&parents, "files") {
            found = true;
            if let Some(list) = value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) {
                for item in list.split(',').filter(|item| !item.trim().is_empty()) {
                    files.push(
                        scalar(item).ok_or((line_number, "a text without its closing quote"))?,
                    );
                }
            } else if !value.is_empty() {
                files.push(scalar(value).ok_or((line_number, "a text without its closing quote"))?);
            }
        }
    }
    if !found {
        return Err((text.lines().count(), "no list of files"));
    }
    if !base.is_empty() && base != "." {
        for file in &mut files {
            *file = Path::new(&base).join(&file).display().to_string();
        }
    }
    Ok(files)
}

fn is_at(parents: &[(usize, String)], key: &str) -> bool {
    let path: Vec<&str> = parents.iter().map(|(_, key)| key.as_str()).collect();
    path == ["rocprofiler-sdk", "rocpd", key]
}

/// `key: value`, the key perhaps quoted.
fn split_key(content: &str) -> Option<(String, &str)> {
    let (key, value) = content
        .split_once(": ")
        .or_else(|| content.strip_suffix(':').map(|key| (key, "")))?;
    Some((scalar(key)?, value))
}

/// A plain or quoted text.
fn scalar(text: &str) -> Option<String> {
    let text = text.trim();
    if let Some(rest) = text.strip_prefix('\'') {
        return Some(rest.strip_suffix('\'')?.replace("''", "'"));
    }
    if text.starts_with('"') {
        // The escapes of JSON are among those of YAML.
        return serde_json::from_str(text).ok();
    }
    let end = text.find(" #").unwrap_or(text.len());
    Some(text.get(..end)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_in_both_forms() {
        let block = "rocprofiler-sdk:\n  rocpd:\n    rocpd_package_version: \"1.0\"\n    path: .\n    files:\n    - a.db\n    - 'it''s.db'\n    - \"c \\\"d\\\".db\"\n";
        assert_eq!(
            parse_index(block).unwrap(),
            ["a.db", "it's.db", "c \"d\".db"]
        );
        let flow = "rocprofiler-sdk:\n  rocpd:\n    path: sub\n    files: [a.db, b*.db]\n";
        assert_eq!(parse_index(flow).unwrap(), ["sub/a.db", "sub/b*.db"]);
        let single = "rocprofiler-sdk:\n  rocpd:\n    files: one.db # the only one\n";
        assert_eq!(parse_index(single).unwrap(), ["one.db"]);
        assert_eq!(parse_index("other: 1\n"), Err((1, "no list of files")));
        assert!(parse_index("rocprofiler-sdk\n").is_err());
    }
}
