//! Entries of the manifest.

use serde_json::json;

use super::part::Span;

/// One file of a conversion.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PartReport {
    /// Name in the folder.
    pub file: String,
    /// Number of slices.
    pub events: u64,
    /// Size of the trace before compression, in bytes.
    pub trace_bytes: u64,
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// Begin of the first slice.
    pub start_ns: Option<i64>,
    /// Latest end of a slice.
    pub end_ns: Option<i64>,
    /// Number of slices cut at the edges of the part, or because they overlapped.
    pub clipped: u64,
    /// Number of frees of addresses that were not allocated in the recording.
    pub unmatched_frees: u64,
    /// Number of records left out since they begin before time 0, which the format cannot
    /// represent.
    pub before_zero: u64,
    /// Number of records that end before they start, which are instants in the trace.
    pub reversed: u64,
}

impl PartReport {
    /// Counts a slice.
    pub(super) fn add(&mut self, span: Span) {
        self.clipped += u64::from(span.clipped);
        self.events += 1;
        let first = self
            .start_ns
            .map_or(span.start, |first| first.min(span.start));
        self.start_ns = Some(first);
        self.end_ns = Some(self.end_ns.map_or(span.end, |last| last.max(span.end)));
    }

    pub(super) fn json(&self) -> serde_json::Value {
        json!({
            "file": self.file,
            "events": self.events,
            "bytes": self.file_bytes,
            "trace_bytes": self.trace_bytes,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "clipped": self.clipped,
            "unmatched_frees": self.unmatched_frees,
            "before_zero": self.before_zero,
            "reversed": self.reversed,
        })
    }
}
