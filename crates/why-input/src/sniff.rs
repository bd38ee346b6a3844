//! What a file is, by its content.

use std::path::{Path, PathBuf};

use blkio_companions::Companion;
use blkio_parser::Kind;
use byte_source::{OpenOptions, Source};
use findings::Role;

/// Bytes that tell what a file is.
const HEAD: usize = 64 << 10;

/// Bytes of a text in which an engine states its requests for the first time.
const LONG_HEAD: usize = 1 << 20;

/// Returns what a file is used for; a recording unless its content is that of something else.
pub fn role(path: &Path) -> Role {
    if path.as_os_str() == "-" || !byte_source::remote::is_file(path) {
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
            _ if serving_logs::is_bench(&head) => Role::Samples,
            _ => Role::Trace,
        };
    }
    if matches!(blkio_parser::detect(&head), Kind::Events(_)) {
        return Role::BlockIo;
    }
    match Companion::detect(&head) {
        Some(Companion::GpuCsv) => return Role::GpuLog,
        Some(Companion::EngineLog) => return Role::EngineLog,
        Some(_) => return Role::Unused,
        None => {}
    }
    // An engine begins with its settings, which may be long.
    let head = match source.head(LONG_HEAD) {
        Ok(head) => head,
        Err(_) => return Role::Trace,
    };
    match text_of(head) {
        Some(text) if serving_logs::is_engine_log(text) => Role::EngineLog,
        Some(text) if serving_logs::is_prometheus(text.as_bytes()) => Role::Samples,
        _ => Role::Trace,
    }
}

/// Returns `true` if a file is text, other than JSON.
pub(crate) fn is_text(path: &Path) -> bool {
    let source = Source::open(path, &OpenOptions::default());
    let Ok(mut source) = source else { return false };
    let Ok(head) = source.head(HEAD) else {
        return false;
    };
    let begin = head.trim_ascii_start().first();
    !matches!(begin, Some(b'{' | b'[')) && text_of(head).is_some_and(|text| !text.is_empty())
}

/// Returns the text of the first bytes of a file, whose last character may be cut; `None` if they are no text.
fn text_of(head: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(head.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

/// Depth to which folders are searched for traces.
const DEPTH: u32 = 16;

/// Returns the folders within a folder that cannot be listed, with the reason, in the order of their names.
pub(crate) fn unreadable_in(folder: &Path) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, depth: u32, out: &mut Vec<(PathBuf, String)>) {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                let reason = match error.kind() {
                    std::io::ErrorKind::PermissionDenied => {
                        "permission denied: the folder cannot be listed".to_owned()
                    }
                    _ => format!("the folder cannot be listed: {error}"),
                };
                out.push((folder.to_owned(), reason));
                return;
            }
        };
        let own = entries.filter_map(Result::ok).filter(|entry| {
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            !is_hidden && entry.file_type().is_ok_and(|kind| kind.is_dir())
        });
        let mut own: Vec<PathBuf> = own.map(|entry| entry.path()).collect();
        own.sort();
        for path in own {
            if depth > 0 {
                walk(&path, depth - 1, out);
            }
        }
    }
    let mut out = Vec::new();
    if byte_source::remote::is_url(folder) {
        return out;
    }
    walk(folder, DEPTH, &mut out);
    // The folder that was given is an error of its own.
    out.retain(|(path, _)| path != folder);
    out
}

/// Depth to which they are searched for other files.
const DEPTH_OF_OTHERS: u32 = 2;

/// Returns the files of a folder that do not have the name of a trace, two levels deep, in the order of their names.
pub fn others_in(folder: &Path) -> Vec<PathBuf> {
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
    if byte_source::remote::is_url(folder) {
        // What cannot be listed is reported by the search for traces.
        let objects = byte_source::remote::list(folder).unwrap_or_default();
        let depth = folder.components().count() + DEPTH_OF_OTHERS as usize + 1;
        let own = objects.into_iter().map(|object| object.url);
        let own = own.filter(|url| url.components().count() <= depth);
        return own.filter(|url| !trace_input::is_trace(url)).collect();
    }
    walk(folder, DEPTH_OF_OTHERS, &mut out);
    out
}
