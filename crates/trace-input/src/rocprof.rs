//! Tables of rocprofv3 (`--output-format csv`): the files of one process are one recording.

use std::path::{Path, PathBuf};

use byte_source::remote::{files_in, is_file};
use byte_source::{OpenOptions, Source, logical_name};
use perfetto_reader::rocprof_csv::{begins, split_name};

/// The table of agents, which has no records.
const AGENTS: &str = "agent_info.csv";

/// Returns what the files of a process have in common, and the end of the name of this one.
fn split(path: &Path) -> Option<(String, &'static str)> {
    let name = path.file_name()?.to_str()?;
    let (prefix, end) = split_name(logical_name(name))?;
    Some((prefix.to_owned(), end))
}

/// Returns the files of the process whose records `path` has, that of kernels first; `None` for every other file.
pub(crate) fn files(path: &Path) -> Option<Vec<PathBuf>> {
    let (prefix, end) = split(path)?;
    if end == AGENTS || !is_file(path) || !is_table(path) {
        return None;
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let entries = files_in(folder.unwrap_or(Path::new("."))).ok()?;
    let names = entries
        .iter()
        .filter_map(|file| Some(path.with_file_name(file.file_name()?)));
    let is_own = |file: &PathBuf| split(file).is_some_and(|(own, _)| own == prefix);
    let mut files: Vec<PathBuf> = names.filter(is_own).collect();
    files.sort_by_key(|file| {
        let end = split(file).map_or("", |(_, end)| end);
        (end != "kernel_trace.csv", end == AGENTS, file.clone())
    });
    Some(files)
}

fn is_table(path: &Path) -> bool {
    let source = Source::open(path, &OpenOptions::default());
    source.is_ok_and(|mut source| source.head(Source::HEAD_BYTES).is_ok_and(begins))
}

/// Returns `true` for the file that stands for all of its process in a folder.
pub(crate) fn is_first(path: &Path) -> bool {
    let files = files(path);
    files.is_some_and(|files| files.first().is_some_and(|first| first == path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_process_are_one_recording() {
        let folder = tempfile::tempdir().unwrap();
        let header = "Kind,Correlation_Id,Start_Timestamp,End_Timestamp\n";
        for name in [
            "7_kernel_trace.csv",
            "7_hip_api_trace.csv",
            "8_hip_api_trace.csv",
            "7_agent_info.csv",
            "notes.csv",
        ] {
            std::fs::write(folder.path().join(name), header).unwrap();
        }
        std::fs::write(folder.path().join("9_kernel_trace.csv"), "a,b\n").unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(
            files(&at("7_hip_api_trace.csv")).unwrap(),
            [
                at("7_kernel_trace.csv"),
                at("7_hip_api_trace.csv"),
                at("7_agent_info.csv")
            ]
        );
        assert!(is_first(&at("7_kernel_trace.csv")) && is_first(&at("8_hip_api_trace.csv")));
        for name in [
            "7_hip_api_trace.csv",
            "7_agent_info.csv",
            "notes.csv",
            "9_kernel_trace.csv",
        ] {
            assert!(!is_first(&at(name)), "{name}");
        }
    }
}
