//! Pseudonyms in place of what tells whose trace it is.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use trace_model::step_name::STEP_PATTERNS;
use trace_model::{BuildError, Trace, TraceBuilder, is_profiler_label};

use crate::copy::{Edit, Text, copy};

/// Keys of the properties of a recording that are kept: they describe devices and the profiler.
const KEPT: &[&str] = &[
    "schemaVersion",
    "deviceProperties",
    "distributedInfo",
    "displayTimeUnit",
    "cupti_version",
    "roctracer_version",
    "with_stack",
    "with_flops",
    "with_modules",
    "record_shapes",
    "profile_memory",
];

/// Returns a copy in which names of hosts, users, processes and ranges, and the UUIDs of GPUs are pseudonyms, equal for equal ones.
/// Paths lose their folders everywhere. Names of kernels, calls, operators and steps stay, as do numbers.
///
/// # Errors
/// As [`TraceBuilder::finish`](trace_model::TraceBuilder::finish).
pub fn redact(trace: &Trace) -> Result<Trace, BuildError> {
    let mut names = Pseudonyms::default();
    let entries: Vec<(String, String)> = trace
        .meta()
        .entries
        .iter()
        .filter(|(key, _)| is_kept(key))
        .map(|(key, text)| (key.clone(), names.plain(text).into_owned()))
        .collect();
    copy(trace, &mut names, |builder: &mut TraceBuilder| {
        builder.meta.entries = entries;
        builder.meta.sections.clear();
        builder.meta.limits.clear();
    })
}

fn is_kept(key: &str) -> bool {
    KEPT.contains(&key) || key.ends_with("_version")
}

/// Pseudonyms that were given.
#[derive(Default)]
struct Pseudonyms {
    known: FxHashMap<(&'static str, String), usize>,
    counts: FxHashMap<&'static str, usize>,
}

impl Pseudonyms {
    fn of(&mut self, kind: &'static str, text: &str) -> String {
        let next = self.counts.entry(kind).or_default();
        let number = *self
            .known
            .entry((kind, text.to_owned()))
            .or_insert_with(|| {
                *next += 1;
                *next
            });
        format!("{kind}-{number}")
    }

    /// A text without folders and UUIDs of GPUs.
    fn plain<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let text = without_folders(text);
        match uuids(&text) {
            found if found.is_empty() => text,
            found => {
                let mut out = String::new();
                let mut from = 0;
                for (start, end) in found {
                    out.push_str(&text[from..start]);
                    out.push_str(&self.of("gpu", &text[start..end]));
                    from = end;
                }
                out.push_str(&text[from..]);
                Cow::Owned(out)
            }
        }
    }
}

impl Edit for Pseudonyms {
    fn text<'t>(&mut self, what: Text<'_>, text: &'t str) -> Cow<'t, str> {
        let kind = match what {
            Text::Process if is_profiler_label(text) => return Cow::Borrowed(text),
            Text::Process => "process",
            Text::Slice(Some(category)) if is_range(category) => {
                if is_step(text) {
                    return Cow::Borrowed(text);
                }
                "range"
            }
            Text::Slice(_) | Text::Argument | Text::Thread | Text::Track => {
                return self.plain(text);
            }
        };
        match text.is_empty() {
            true => Cow::Borrowed(text),
            false => Cow::Owned(self.of(kind, text)),
        }
    }
}

/// Categories whose names are those of the user's own ranges and marks, in recordings of PyTorch, Nsight Systems and ROCm.
fn is_range(category: &str) -> bool {
    let category = category.to_ascii_lowercase();
    matches!(
        category.as_str(),
        "user_annotation" | "gpu_user_annotation" | "nvtx" | "nvtxt" | "roctx" | "rocpd_sample"
    ) || category.starts_with("marker")
}

/// Annotations of steps consist of an engine's words and numbers.
fn is_step(text: &str) -> bool {
    STEP_PATTERNS.iter().any(|pattern| {
        let mut rest = text;
        for (n, piece) in pattern.split('*').enumerate() {
            match rest.find(piece) {
                Some(at) if n > 0 || at == 0 => rest = &rest[at + piece.len()..],
                _ => return false,
            }
        }
        true
    })
}

/// Cuts absolute paths to the names of their files.
fn without_folders(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let is_edge = |b: u8| b.is_ascii_whitespace() || b"\"'([{<=,;:|".contains(&b);
    let mut out = String::new();
    let (mut from, mut at) = (0, 0);
    while at < bytes.len() {
        let starts = at == 0 || is_edge(bytes[at - 1]);
        let is_windows = bytes[at].is_ascii_alphabetic()
            && bytes.get(at + 1) == Some(&b':')
            && matches!(bytes.get(at + 2), Some(b'\\' | b'/'));
        let is_root =
            bytes[at] == b'/' && bytes.get(at + 1).is_some_and(|b| !b.is_ascii_whitespace());
        let is_home = bytes[at] == b'~' && bytes.get(at + 1) == Some(&b'/');
        if !(starts && (is_root || is_windows || is_home)) {
            at += 1;
            continue;
        }
        let first = if is_windows { at + 2 } else { at };
        let length = bytes[first..]
            .iter()
            .position(|b| is_edge(*b) || b")]}>".contains(b));
        let end = length.map_or(bytes.len(), |length| first + length);
        let name = bytes[first..end]
            .iter()
            .rposition(|b| matches!(b, b'/' | b'\\'));
        let name = name.map_or(first, |slash| first + slash + 1);
        out.push_str(&text[from..at]);
        out.push_str(&text[name..end]);
        (from, at) = (end, end.max(at + 1));
    }
    match from {
        0 => Cow::Borrowed(text),
        _ => {
            out.push_str(&text[from..]);
            Cow::Owned(out)
        }
    }
}

/// Where UUIDs are in a text, with the word `GPU-` or `MIG-` before them.
fn uuids(text: &str) -> Vec<(usize, usize)> {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    const LENGTH: usize = 36;
    let bytes = text.as_bytes();
    let is_uuid = |part: &[u8]| {
        let mut groups = part.split(|b| *b == b'-');
        let right = GROUPS.iter().all(|length| {
            groups.next().is_some_and(|group| {
                group.len() == *length && group.iter().all(u8::is_ascii_hexdigit)
            })
        });
        right && groups.next().is_none()
    };
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(part) = bytes.get(at..at + LENGTH) {
        if !is_uuid(part) {
            at += 1;
            continue;
        }
        let before = bytes.get(at.saturating_sub(4)..at);
        let start = match before {
            Some(b"GPU-" | b"MIG-") => at - 4,
            _ => at,
        };
        found.push((start, at + LENGTH));
        at += LENGTH;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_their_folders_and_nothing_else_changes() {
        for (text, wanted) in [
            ("/Users/u/x/model.py(12): forward", "model.py(12): forward"),
            ("C:\\Users\\u\\a.py(3): f", "a.py(3): f"),
            ("~/x/y.py", "y.py"),
            ("a/b and 3 / 4", "a/b and 3 / 4"),
            ("[\"/a/b.so\", \"/c/d.so\"]", "[\"b.so\", \"d.so\"]"),
            ("vllm/worker.py(1): run", "vllm/worker.py(1): run"),
            ("void f<int>(float*, int)", "void f<int>(float*, int)"),
            ("/", "/"),
            ("dir:/x/é/ü.py", "dir:ü.py"),
        ] {
            assert_eq!(without_folders(text), wanted, "{text}");
        }
    }

    #[test]
    fn equal_uuids_get_equal_names() {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        let mut names = Pseudonyms::default();
        let text = format!("a GPU-{uuid} b {uuid} é GPU-{uuid}");
        assert_eq!(names.plain(&text), "a gpu-1 b gpu-2 é gpu-1");
        assert_eq!(
            names.plain("01234567-89ab-cdef-0123-456789abcde"),
            "01234567-89ab-cdef-0123-456789abcde"
        );
    }

    #[test]
    fn ranges_of_all_profilers_are_known() {
        for category in [
            "user_annotation",
            "nvtx",
            "marker_api",
            "MARKER_CORE_RANGE_API",
        ] {
            assert!(is_range(category), "{category}");
        }
        assert!(!is_range("kernel_dispatch") && !is_range("cpu_op"));
    }

    #[test]
    fn steps_keep_their_names() {
        assert!(is_step("execute_context_1(512)_generation_3(3)"));
        assert!(is_step("ProfilerStep#12"));
        assert!(!is_step("my secret range"));
        assert!(!is_step("not ProfilerStep#12"));
    }
}
