//! What a file is, by its content.

use std::path::{Path, PathBuf};

use blkio_companions::Companion;
use blkio_parser::Kind;
use byte_source::{OpenOptions, Source};
use findings::Role;

/// Bytes that tell what a file is.
const HEAD: usize = 64 << 10;

/// Returns what a file is used for; a recording unless its content is that of something else.
pub(crate) fn role(path: &Path) -> Role {
    if path.as_os_str() == "-" || !path.is_file() {
        return Role::Trace;
    }
    let Ok(mut source) = Source::open(path, &OpenOptions::default()) else {
        return Role::Trace;
    };
    let head = match source.head(HEAD) {
        Ok(head) => head.to_vec(),
        Err(_) => return Role::Trace,
    };
    let text = head.trim_ascii_start();
    // Objects and lists of JSON, protobuf and databases are left to the readers of traces.
    if matches!(text.first(), Some(b'{' | b'[')) {
        return match Companion::detect(&head) {
            Some(Companion::Clock | Companion::FioJson) => Role::Unused,
            _ => Role::Trace,
        };
    }
    if matches!(blkio_parser::detect(&head), Kind::Events(_)) {
        return Role::BlockIo;
    }
    match Companion::detect(&head) {
        Some(Companion::GpuCsv) => Role::GpuLog,
        Some(Companion::EngineLog) => Role::EngineLog,
        Some(_) => Role::Unused,
        None => Role::Trace,
    }
}

/// Returns the files of a folder that do not have the name of a trace, two levels deep, in the order of their names.
pub(crate) fn others_in(folder: &Path) -> Vec<PathBuf> {
    fn walk(folder: &Path, depth: u32, out: &mut Vec<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return;
        };
        let mut entries: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() && depth > 0 {
                walk(&path, depth - 1, out);
            } else if path.is_file() && !trace_input::is_trace(&path) {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    walk(folder, 2, &mut out);
    out
}
