//! Which host, process and thread an event belongs to, whichever way the producer wrote it.

use rustc_hash::FxHashMap;
use trace_model::{Slice, Trace, TrackId, is_profiler_label};

/// Host, process number and thread text of one track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Name of the host, if the producer wrote it.
    pub host: Option<String>,
    /// Number of the process, -1 if unknown.
    pub pid: i64,
    /// The thread: its number as text, or the text that stood in its place.
    pub tid: String,
}

/// The [`Origin`] of every track of a trace.
#[derive(Clone, Debug)]
pub struct Origins {
    tracks: Vec<Origin>,
}

impl Origins {
    /// Reads processes and threads of `trace`. With `compat` a text of digits alone in place of a
    /// process number also names the host, as the reference has it.
    pub fn new(trace: &Trace, compat: bool) -> Self {
        let tracks = trace.tracks().iter().map(|track| {
            let thread = track.thread.map(|t| trace.thread(t));
            let process = track
                .process
                .or_else(|| thread.and_then(|t| t.process))
                .map(|p| trace.process(p));
            let (pid, host) = match process {
                Some(p) if p.artificial => {
                    let text = p.name.map_or("", |n| trace.text(n));
                    let own = !compat && is_profiler_label(text);
                    (pid_of(text), if own { None } else { host_of(text, compat) })
                }
                Some(p) if compat => (p.pid.0, None),
                Some(p) => (p.pid.0, p.labels.and_then(|l| labelled(trace.text(l)))),
                None => (-1, None),
            };
            let tid = match thread {
                Some(t) if t.artificial => t.name.map_or("", |n| trace.text(n)).to_owned(),
                Some(t) => t.tid.0.to_string(),
                None => String::new(),
            };
            Origin { host, pid, tid }
        });
        Self {
            tracks: tracks.collect(),
        }
    }

    /// That of one track.
    pub fn of(&self, track: TrackId) -> &Origin {
        &self.tracks[track.index()]
    }

    /// That of a slice's track.
    pub fn of_slice(&self, slice: Slice<'_>) -> &Origin {
        self.of(slice.track_id())
    }
}

/// The host that a process is labelled with. PyTorch labels what stands for devices.
fn labelled(label: &str) -> Option<String> {
    let device = is_profiler_label(label) || label.starts_with("GPU");
    (!device && !label.is_empty()).then(|| label.to_owned())
}

/// A number written as text, else the first digits in brackets, else -1.
fn pid_of(text: &str) -> i64 {
    if let Ok(pid) = text.trim().parse() {
        return pid;
    }
    let mut rest = text;
    while let Some(open) = rest.find('(') {
        rest = &rest[open + 1..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && rest[digits..].starts_with(')') {
            return rest[..digits].parse().unwrap_or(-1);
        }
    }
    -1
}

/// The last word, without `(digits)` behind it.
fn host_of(text: &str, compat: bool) -> Option<String> {
    let mut head = text;
    if let Some(inner) = text.strip_suffix(')')
        && let Some(open) = inner.rfind('(')
        && open + 1 < inner.len()
        && inner[open + 1..].bytes().all(|b| b.is_ascii_digit())
    {
        head = &inner[..open];
    }
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    let start = head
        .char_indices()
        .rev()
        .take_while(|&(_, c)| is_word(c))
        .last()
        .map(|(i, _)| i)?;
    let word = &head[start..];
    let is_number = word.bytes().all(|b| b.is_ascii_digit());
    (compat || !is_number).then(|| word.to_owned())
}

/// The value of `key` in an object that a producer wrote as a text: a number, or a text of one.
pub(crate) fn nested<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut rest = text;
    loop {
        let at = rest.find(key)?;
        let before = rest[..at].ends_with('"');
        rest = &rest[at + key.len()..];
        if !before || !rest.starts_with('"') {
            continue;
        }
        let value = rest[1..].trim_start().strip_prefix(':')?.trim_start();
        if let Some(text) = value.strip_prefix('"') {
            return text.split('"').next();
        }
        let end = value.find([',', '}', ' ']).unwrap_or(value.len());
        return Some(&value[..end]);
    }
}

/// As [`nested`], an integer.
pub(crate) fn nested_int(text: &str, key: &str) -> Option<i64> {
    nested(text, key)?.parse().ok()
}

/// Texts as small numbers, for grouping.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    texts: Vec<String>,
    index: FxHashMap<String, u32>,
}

impl Names {
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        if let Some(&at) = self.index.get(text) {
            return at;
        }
        let at = crate::num::row(self.texts.len());
        self.texts.push(text.to_owned());
        self.index.insert(text.to_owned(), at);
        at
    }

    pub(crate) fn get(&self, at: u32) -> &str {
        self.texts.get(at as usize).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_model::{FinishOptions, Pid, Process, Thread, Tid, TraceBuilder, Track, TrackKind};

    #[test]
    fn arguments_in_a_text_are_found() {
        let text = r#"{"correlation_id": 9, "correlation": 17, "hostname":"node1"}"#;
        assert_eq!(nested_int(text, "correlation"), Some(17));
        assert_eq!(nested(text, "hostname"), Some("node1"));
        assert_eq!(nested(text, "device"), None);
    }

    #[test]
    fn what_a_profiler_calls_its_rows_is_no_host() {
        let mut builder = TraceBuilder::new();
        for name in ["Spans", "node0(4000)"] {
            let mut process = Process::new(Pid(-1));
            process.name = Some(builder.string(name));
            process.artificial = true;
            let process = builder.process(process);
            let thread = builder.thread(Thread::new(Tid(1), Some(process)));
            let mut track = Track::new(TrackKind::Thread);
            track.thread = Some(thread);
            builder.track(track);
        }
        let trace = builder.finish(&FinishOptions::default()).unwrap();
        for (compat, spans) in [(false, None), (true, Some("Spans"))] {
            let origins = Origins::new(&trace, compat);
            let hosts: Vec<_> = origins.tracks.iter().map(|o| o.host.as_deref()).collect();
            assert_eq!(hosts, [spans, Some("node0")]);
        }
    }

    #[test]
    fn process_texts_are_numbers_and_hosts() {
        for (text, pid, host, compat_host) in [
            ("node0(4000)", 4000, Some("node0"), Some("node0")),
            ("node0", -1, Some("node0"), Some("node0")),
            ("4000", 4000, None, Some("4000")),
            ("python host-1.x(7)", 7, Some("host-1.x"), Some("host-1.x")),
            ("(12)", 12, None, None),
        ] {
            assert_eq!(pid_of(text), pid, "{text}");
            assert_eq!(host_of(text, false).as_deref(), host, "{text}");
            assert_eq!(host_of(text, true).as_deref(), compat_host, "{text}");
        }
    }
}
