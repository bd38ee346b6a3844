//! Phase 1: normal against abnormal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::discover::{job_and_suffix, plain_name};
use super::markdown::{self, Heading};
use super::measure::compare;
use super::{Note, Options, Sink, rows};
use crate::error::{Error, Result};
use crate::table::{Names, PerfRow, PerfTable, Strictness};

const NORMAL: &str = "normal_perf_data";
const ABNORMAL: &str = "abnormal_perf_data";

/// Files and processes that pairs have used.
pub(super) type Used = BTreeSet<(PathBuf, i64)>;

pub(super) fn run(
    inputs: &[PathBuf],
    files: &[PathBuf],
    options: &Options,
    sink: &mut Sink<'_>,
) -> Result<Used> {
    let mut used = Used::new();
    for file in files {
        if !file.iter().any(|part| part == NORMAL) {
            continue;
        }
        let Some(partner) = partner(file, files) else {
            sink.note(Note::NoPartner { file: file.clone() });
            continue;
        };
        match pair(inputs, file, partner, options, sink, &mut used) {
            Ok(()) => {}
            // A result that cannot be written is no matter of this pair alone.
            Err(error @ (Error::Io { .. } | Error::Bytes(byte_source::Error::Write { .. }))) => {
                return Err(error);
            }
            Err(error) => sink.note(Note::Failed {
                file: file.clone(),
                error,
            }),
        }
    }
    Ok(used)
}

/// The folder that holds both sides.
fn case_folder(file: &Path) -> Option<&Path> {
    file.parent()?.parent()
}

fn partner<'f>(file: &Path, files: &'f [PathBuf]) -> Option<&'f Path> {
    let (job, suffix) = job_and_suffix(file)?;
    let same = plain_name(file);
    let names = match suffix.as_str() {
        "_prefill" => vec![same],
        "_decode" => vec![same, format!("{job}_perf_data.csv")],
        "" => vec![same, format!("{job}_decode_perf_data.csv")],
        _ => Vec::new(),
    };
    let folder = case_folder(file)?.join(ABNORMAL);
    names.iter().find_map(|name| {
        files
            .iter()
            .find(|other| other.parent() == Some(&folder) && plain_name(other) == *name)
            .map(PathBuf::as_path)
    })
}

/// What names of results are relative to: the parent of the first input if that is a folder, else here.
fn case_id(inputs: &[PathBuf], case: &Path) -> Result<String> {
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|source| Error::Io {
            path: path.to_owned(),
            step: "find the absolute path",
            source,
        })
    };
    let base = match inputs.first() {
        Some(first) if first.is_dir() => {
            let first = absolute(first)?;
            first.parent().map_or(first.clone(), Path::to_owned)
        }
        _ => absolute(Path::new("."))?,
    };
    let base: PathBuf = base.components().collect();
    let case = absolute(case)?;
    let inside = case.strip_prefix(&base).map_err(|_| Error::OutsideBase {
        case: case.clone(),
        base: base.clone(),
    })?;
    let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
    Ok(parts.join("/"))
}

/// A name for files: separators and anything unusual become underscores.
pub(super) fn file_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    text.chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect()
}

fn pair(
    inputs: &[PathBuf],
    normal: &Path,
    abnormal: &Path,
    options: &Options,
    sink: &mut Sink<'_>,
    used: &mut Used,
) -> Result<()> {
    let case = case_folder(normal).unwrap_or(normal);
    let case = case_id(inputs, case)?;
    let suffix = job_and_suffix(normal)
        .map(|(_, suffix)| suffix)
        .unwrap_or_default();
    let mut names = Names::default();
    let one = PerfTable::read(normal, &options.open, &mut names, Strictness::Refuse)?.rows;
    let two = PerfTable::read(abnormal, &options.open, &mut names, Strictness::Refuse)?.rows;
    for (rows, file) in [(&one, normal), (&two, abnormal)] {
        if rows.is_empty() {
            sink.note(Note::NoRows {
                file: file.to_owned(),
            });
            return Ok(());
        }
    }
    let (pids1, pids2) = (pids(&one), pids(&two));
    let mut write = |kind: &str, ids: &str, who: &str, labels: [&str; 2], a: i64, b: i64| {
        let comparison = compare(&of(&one, a), &of(&two, b), &names);
        let lower = kind.to_ascii_lowercase();
        let base = file_name(&format!("{case}{suffix}{ids}_{lower}_comparison"));
        let heading = Heading {
            title: format!("{kind} Performance Comparison: {case} ({who})"),
            labels,
        };
        let text = markdown::report(&comparison, &heading);
        sink.write(&format!("{base}.md"), text.as_bytes())?;
        sink.write(&format!("{base}.csv"), &rows::csv(&comparison, labels))?;
        sink.summary.pairs += 1;
        Ok::<(), Error>(())
    };
    for &pid in pids1.intersection(&pids2) {
        write(
            "Strict",
            &format!("_pid{pid}"),
            &format!("PID: {pid}"),
            ["normal", "abnormal"],
            pid,
            pid,
        )?;
    }
    for &a in pids1.difference(&pids2) {
        for &b in pids2.difference(&pids1) {
            let labels = [format!("normal_pid_{a}"), format!("abnormal_pid_{b}")];
            write(
                "Cross",
                &format!("_n_pid{a}_vs_a_pid{b}"),
                &format!("Normal PID:{a} vs Abnormal PID:{b}"),
                [&labels[0], &labels[1]],
                a,
                b,
            )?;
        }
    }
    used.extend(pids1.into_iter().map(|pid| (normal.to_owned(), pid)));
    used.extend(pids2.into_iter().map(|pid| (abnormal.to_owned(), pid)));
    Ok(())
}

fn pids(rows: &[PerfRow]) -> BTreeSet<i64> {
    rows.iter().map(|row| row.pid).collect()
}

fn of(rows: &[PerfRow], pid: i64) -> Vec<PerfRow> {
    rows.iter().filter(|row| row.pid == pid).copied().collect()
}
