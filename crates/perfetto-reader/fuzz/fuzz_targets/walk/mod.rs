//! Shared by the targets: a source of bytes, small limits, and a visit of every row of a trace.

use byte_source::{OpenOptions, Source};
use perfetto_reader::ReadOptions;
use trace_model::Trace;

pub(crate) fn source(data: &[u8]) -> Result<Source, byte_source::Error> {
    let mut options = OpenOptions::default();
    options.limits.max_uncompressed_bytes = 8 << 20;
    options.limits.max_decoder_bytes = 8 << 20;
    Source::from_bytes_with("fuzz", data.to_vec(), &options)
}

pub(crate) fn options(compat: bool) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.compat = compat;
    options.threads = 1;
    options.max_bundle_bytes = 4 << 20;
    options
}

pub(crate) fn all(trace: &Trace) {
    let mut last = i64::MIN;
    for slice in trace.slices() {
        assert!(slice.ts().nanos() >= last, "slices come in ascending time");
        last = slice.ts().nanos();
        if let Some(parent) = slice.parent() {
            assert!(parent.id() < slice.id());
            assert_eq!(parent.depth() + 1, slice.depth());
        }
        for (key, value) in slice.args() {
            let _ = (key.len(), value.as_str(), value.as_f64());
        }
        let _ = (
            slice.name(),
            slice.category(),
            slice.end(),
            slice.thread_time(),
        );
    }
    for flow in trace.flows() {
        let _ = (trace.slice(flow.from), trace.slice(flow.to));
    }
    for sample in trace.counters().iter() {
        let _ = trace.track(sample.track);
    }
}
