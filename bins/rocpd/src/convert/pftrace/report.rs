//! What the manifest says of a part.

use serde_json::json;

use super::part::Span;

/// Numbers of a part for the manifest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Report {
    pub(super) events: u64,
    /// Of the trace, before it is packed.
    pub(super) bytes: u64,
    /// Of the file.
    pub(super) file_bytes: u64,
    pub(super) first_ns: Option<i64>,
    pub(super) last_ns: Option<i64>,
    pub(super) clipped: u64,
    pub(super) unmatched_frees: u64,
    /// Records that begin before time 0, which the format cannot say.
    pub(super) before_zero: u64,
}

impl Report {
    /// Counts a slice.
    pub(super) fn add(&mut self, span: Span) {
        self.clipped += u64::from(span.clipped);
        self.events += 1;
        let first = self
            .first_ns
            .map_or(span.start, |first| first.min(span.start));
        self.first_ns = Some(first);
        self.last_ns = Some(self.last_ns.map_or(span.end, |last| last.max(span.end)));
    }

    pub(super) fn json(&self, file: &str) -> serde_json::Value {
        json!({
            "file": file,
            "events": self.events,
            "bytes": self.file_bytes,
            "trace_bytes": self.bytes,
            "start_ns": self.first_ns,
            "end_ns": self.last_ns,
            "clipped": self.clipped,
            "unmatched_frees": self.unmatched_frees,
            "before_zero": self.before_zero,
        })
    }
}
