//! Finds the jobs among files, and names them.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use byte_source::remote;

/// A trace to analyze.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Refuses a missing path as an unreadable input, in every command. `-` is standard input.
pub(crate) fn must_exist(path: &Path) -> anyhow::Result<()> {
    if path.as_os_str() == "-" || remote::exists(path) {
        return Ok(());
    }
    Err(anyhow::anyhow!(
        "{}: no such file: check the path",
        path.display()
    ))
}

/// Returns the traces of the command line. Folders are searched recursively; earlier outputs of
/// this tool are left out. Jobs of one name in different folders are distinguished by their path,
/// except with `compat`, where the later replaces the earlier.
pub(crate) fn jobs(
    given: &[PathBuf],
    output: Option<&Path>,
    compat: bool,
) -> anyhow::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for path in given {
        // A package of databases is one recording of several processes.
        let is_package = !compat && trace_input::is_package(path);
        if !remote::is_dir(path) || is_package {
            must_exist(path)?;
            jobs.push((job_name(path), String::new(), path.clone()));
            continue;
        }
        let mut found = Vec::new();
        match remote::is_url(path) {
            true => {
                let is_job = |file: &Path| is_input(file, compat);
                found = byte_source::expand_inputs([path], is_job)?;
            }
            false => search(path, output, compat, &mut found)?,
        }
        for file in found {
            let relative = file.strip_prefix(path).unwrap_or(&file);
            let folder = relative.parent().map_or_else(String::new, |p| {
                let parts = p.components().map(|c| c.as_os_str().to_string_lossy());
                parts.collect::<Vec<_>>().join("_")
            });
            jobs.push((job_name(&file), folder, file));
        }
    }
    if jobs.is_empty() {
        let none = "no specified trace files: name traces or folders that hold some";
        let why: Vec<String> = given
            .iter()
            .filter(|path| !compat && path.is_dir())
            .filter_map(|path| trace_input::explain_folder(path))
            .collect();
        return Err(match why.is_empty() {
            true => {
                let names: Vec<String> = given
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                cli::usage(format!("{}: {none}", names.join(", ")))
            }
            false => cli::usage(format!("{}\n{none}", why.join("\n"))),
        });
    }
    let clashes = |name: &str| jobs.iter().filter(|j| j.0 == name).count() > 1;
    let mut named: Vec<Job> = Vec::new();
    for (name, folder, path) in &jobs {
        let mut unique = if !compat && clashes(name) && !folder.is_empty() {
            format!("{folder}_{name}")
        } else {
            name.clone()
        };
        if !compat {
            let base = unique.clone();
            let mut n = 2;
            while named.iter().any(|j| j.name == unique) {
                unique = format!("{base}_{n}");
                n += 1;
            }
        }
        named.push(Job {
            name: unique,
            path: path.clone(),
        });
    }
    Ok(named)
}

fn search(
    folder: &Path,
    output: Option<&Path>,
    compat: bool,
    found: &mut Vec<PathBuf>,
) -> anyhow::Result<()> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|e| e.ok().map(|e| e.path()))
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            let is_output = output.is_some_and(|o| {
                o.canonicalize().ok() == path.canonicalize().ok() && o.canonicalize().is_ok()
            });
            if !compat && trace_input::is_package(&path) {
                found.push(path);
            } else if compat || !is_output {
                search(&path, output, compat, found)?;
            }
        } else if is_input(&path, compat) {
            found.push(path);
        }
    }
    Ok(())
}

fn is_input(path: &Path, compat: bool) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if compat {
        return name.ends_with(".json") || name.ends_with(".json.gz");
    }
    let is_own = name.contains("_representative_cycle_");
    trace_input::is_trace(path) && !is_own && !trace_input::without_events(path)
}

/// Returns the file's name without `.gz` and without its last extension.
fn job_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut name = name.as_ref();
    for ending in [".gz", ".xz", ".zst"] {
        name = name.strip_suffix(ending).unwrap_or(name);
    }
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem.to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_named_after_files() {
        for (path, name) in [
            ("a/result.json.gz", "result"),
            ("rank0.pt.trace.json", "rank0.pt.trace"),
            ("x.pftrace", "x"),
            ("-", "-"),
        ] {
            assert_eq!(job_name(Path::new(path)), name);
        }
    }
}
