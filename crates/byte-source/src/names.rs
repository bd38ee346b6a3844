//! Names of inputs: file names without wrapping, and expansion of paths to files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::remote;

const SUFFIXES: [&str; 5] = [".gz", ".gzip", ".zst", ".zstd", ".xz"];

/// Maximum depth of a directory search.
const MAX_DEPTH: usize = 16;

/// Returns the file name without directories, archive and compression suffixes.
///
/// For matching names and deriving output names only; the content of a file is never derived from
/// it.
///
/// ```
/// use byte_source::logical_name;
///
/// assert_eq!(logical_name("runs/rank0.json.gz"), "rank0.json");
/// assert_eq!(logical_name("all.zip!host-a/rank1.pftrace.zst"), "rank1.pftrace");
/// assert_eq!(logical_name(".gz"), ".gz");
/// ```
pub fn logical_name(name: &str) -> &str {
    let mut rest = name;
    if let Some((_, member)) = rest.rsplit_once('!')
        && !member.is_empty()
    {
        rest = member;
    }
    if let Some((_, file)) = rest.rsplit_once(['/', std::path::MAIN_SEPARATOR])
        && !file.is_empty()
    {
        rest = file;
    }
    loop {
        let shorter = SUFFIXES.iter().find_map(|suffix| {
            let at = rest.len().checked_sub(suffix.len())?;
            let (stem, end) = (rest.get(..at)?, rest.get(at..)?);
            (!stem.is_empty() && end.eq_ignore_ascii_case(suffix)).then_some(stem)
        });
        match shorter {
            Some(stem) => rest = stem,
            None => return rest,
        }
    }
}

/// Expands the paths of a command line to files, in a stable order.
///
/// * A file, `-`, or a member name (`archive.zip!member`) stays as it is.
/// * A directory yields its files and those of its subdirectories down to 16 levels for which
///   `accept` returns `true`, sorted by path. Hidden entries and linked directories are left out.
/// * A path that does not exist and contains `*` (any characters) or `?` (one character) is a
///   pattern, for shells that do not expand it: `runs/*/rank?.json`. Wildcards do not match a
///   leading dot or a separator.
///
/// The order is that of the paths given; a file named twice is returned twice.
///
/// # Errors
///
/// [`Error::NotFound`] for a plain path without a file, [`Error::NoInputs`] for a directory or
/// pattern that matches none, [`Error::Denied`] and [`Error::Read`] when a directory cannot be
/// listed.
pub fn expand_inputs<P: AsRef<Path>>(
    paths: impl IntoIterator<Item = P>,
    mut accept: impl FnMut(&Path) -> bool,
) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in paths {
        let path = path.as_ref();
        let before = files.len();
        if let Some(url) = remote::url(path) {
            expand_url(url, path, &mut accept, &mut files)?;
        } else if path.is_dir() {
            walk(path, 0, &mut accept, &mut files)?;
        } else if path.as_os_str() == "-"
            || path.exists()
            || crate::archive::split_member(path).is_some()
        {
            files.push(path.to_owned());
        } else if path.to_string_lossy().contains(['*', '?']) {
            expand_pattern(path, &mut files)?;
        } else {
            return Err(Error::NotFound {
                name: path.display().to_string(),
            });
        }
        if files.len() == before {
            return Err(Error::NoInputs {
                name: path.display().to_string(),
            });
        }
    }
    Ok(files)
}

/// Expands a URL: an object, a folder of some, or a pattern.
fn expand_url(
    url: &str,
    path: &Path,
    accept: &mut impl FnMut(&Path) -> bool,
    files: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    if remote::is_file(path) || crate::archive::split_member(path).is_some() {
        files.push(path.to_owned());
        return Ok(());
    }
    let wanted: Vec<Vec<char>> = url.split('/').map(|part| part.chars().collect()).collect();
    let is_wild = |part: &&str| part.contains(['*', '?']);
    if let Some(first) = url.split('/').position(|part| is_wild(&part)) {
        let folder: String = url.split_inclusive('/').take(first).collect();
        for object in remote::list(Path::new(&folder))? {
            let found = object.url.to_string_lossy().into_owned();
            let parts: Vec<&str> = found.split('/').collect();
            let fits = |(wanted, part): (&Vec<char>, &&str)| {
                let is_hidden = part.starts_with('.') && wanted.first() != Some(&'.');
                !is_hidden && matches_pattern(wanted, &part.chars().collect::<Vec<_>>())
            };
            if parts.len() == wanted.len() && wanted.iter().zip(&parts).all(fits) {
                files.push(object.url);
            }
        }
        return Ok(());
    }
    let folder = match url.ends_with('/') {
        true => path.to_owned(),
        // Joining would not add it.
        false => PathBuf::from(format!("{url}/")),
    };
    let objects = remote::list(&folder)?;
    if objects.is_empty() && !url.ends_with('/') {
        return Err(Error::NoObject {
            name: url.to_owned(),
        });
    }
    let base = folder.components().count();
    for object in objects {
        let below: Vec<_> = object.url.components().skip(base).collect();
        let is_hidden = below
            .iter()
            .any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."));
        if !is_hidden && below.len() <= MAX_DEPTH + 1 && accept(&object.url) {
            files.push(object.url);
        }
    }
    Ok(())
}

/// Returns the entries of a directory, sorted by name.
fn list(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let name = || directory.display().to_string();
    let mut entries = fs::read_dir(directory)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<std::io::Result<Vec<_>>>()
        })
        .map_err(|error| Error::opening(&name(), error))?;
    entries.sort();
    Ok(entries)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn walk(
    directory: &Path,
    depth: usize,
    accept: &mut impl FnMut(&Path) -> bool,
    files: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    for path in list(directory)? {
        if is_hidden(&path) {
            continue;
        }
        if path.is_dir() {
            if depth < MAX_DEPTH && !path.is_symlink() {
                walk(&path, depth + 1, accept, files)?;
            }
        } else if accept(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// Expands a pattern component by component.
fn expand_pattern(pattern: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let text = component.as_os_str().to_string_lossy();
        let mut next = Vec::new();
        if text.contains(['*', '?']) {
            let wanted: Vec<char> = text.chars().collect();
            for base in found {
                let base_is_here = base.as_os_str().is_empty();
                let directory = if base_is_here { Path::new(".") } else { &base };
                if !directory.is_dir() {
                    continue;
                }
                for path in list(directory)? {
                    let Some(name) = path.file_name() else {
                        continue;
                    };
                    if is_hidden(&path) && !text.starts_with('.') {
                        continue;
                    }
                    let chars: Vec<char> = name.to_string_lossy().chars().collect();
                    if matches_pattern(&wanted, &chars) {
                        next.push(base.join(name));
                    }
                }
            }
        } else {
            next.extend(found.into_iter().map(|base| base.join(component)));
        }
        found = next;
    }
    files.extend(found.into_iter().filter(|path| path.is_file()));
    Ok(())
}

/// Matches one name against `*` and `?`, in time of at most the product of the lengths.
fn matches_pattern(pattern: &[char], name: &[char]) -> bool {
    let (mut at_pattern, mut at_name) = (0, 0);
    // Position to retry from when a star has to match one more character.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(at_pattern), name.get(at_name)) {
            (Some('*'), _) => {
                retry = Some((at_pattern + 1, at_name));
                at_pattern += 1;
            }
            (Some(wanted), Some(found)) if *wanted == '?' || wanted == found => {
                at_pattern += 1;
                at_name += 1;
            }
            (None, None) => return true,
            _ => match retry {
                Some((after_star, taken)) if taken < name.len() => {
                    retry = Some((after_star, taken + 1));
                    at_pattern = after_star;
                    at_name = taken + 1;
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        matches_pattern(&chars(pattern), &chars(name))
    }

    #[test]
    fn wildcards() {
        assert!(matches("*.json", "rank0.json"));
        assert!(matches("rank?.json*", "rank0.json.gz"));
        assert!(matches("*a*b*", "xxaxxbab"));
        assert!(matches("*", ""));
        assert!(!matches("?", ""));
        assert!(!matches("*.json", "rank0.json.gz"));
        assert!(!matches("a*b", "ab c"));
    }

    #[test]
    fn suffixes_come_off_repeatedly_and_in_any_case() {
        assert_eq!(logical_name("T.JSON.GZ"), "T.JSON");
        assert_eq!(logical_name("a/b/t.json.gz.xz"), "t.json");
        assert_eq!(logical_name("t.json"), "t.json");
        assert_eq!(logical_name("gz"), "gz");
        assert_eq!(logical_name("dir/"), "dir/");
    }
}
