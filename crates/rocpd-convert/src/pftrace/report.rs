//! What the manifest says of a part.

use serde_json::json;

use super::part::Span;

/// One file of a conversion.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PartReport {
    /// Its name in the folder.
    pub file: String,
    /// Slices.
    pub events: u64,
    /// Bytes of the trace, before it is packed.
    pub trace_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Begin of the first slice.
    pub start_ns: Option<i64>,
    /// Last end of a slice.
    pub end_ns: Option<i64>,
    /// Slices cut at the edges of the part, or since they overlapped.
    pub clipped: u64,
    /// Frees of addresses that were not allocated in the recording.
    pub unmatched_frees: u64,
    /// Records left out since they begin before time 0, which the format does not have.
    pub before_zero: u64,
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
        })
    }
}
