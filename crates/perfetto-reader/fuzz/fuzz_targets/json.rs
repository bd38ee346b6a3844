//! Reads arbitrary bytes as Chrome JSON, in both modes and with some slices in outline, and visits every row.
//!
//! Run with `cargo xtask fuzz json SECONDS`.
#![no_main]

mod walk;

use libfuzzer_sys::fuzz_target;
use perfetto_reader::{ArgPolicy, Outlining, ReadOptions};
use trace_model::{TimeRange, Trace};

fn read(data: &[u8], options: &ReadOptions) -> Option<Trace> {
    perfetto_reader::json::read(walk::source(data).ok()?, options).ok()
}

fuzz_target!(|data: &[u8]| {
    for compat in [false, true] {
        let mut options = walk::options(compat);
        read(data, &options).iter().for_each(walk::all);
        // Arguments and stacks of outlines are not read, so what is wrong with these is not known.
        options.args = ArgPolicy::Only(vec!["x".to_owned()]);
        let whole = read(data, &options);
        let outlining = Outlining::new(|_, name| name.len() % 2 == 1);
        for outlining in [outlining.clone(), outlining.keeping()] {
            options.outline = Some(outlining);
            let lean = read(data, &options);
            let (Some(whole), Some(lean)) = (&whole, &lean) else {
                assert_eq!(whole.is_some(), lean.is_some());
                continue;
            };
            let outlines = lean.outlines();
            assert_eq!(lean.len() as u64 + outlines.len(), whole.len() as u64);
            assert_eq!(lean.tracks().len(), whole.tracks().len());
            assert_eq!(lean.diagnostics(), whole.diagnostics());
            let ranges: Vec<_> = lean.track_ids().map(|id| (id, TimeRange::ALL)).collect();
            let shown = lean.excerpts(&ranges);
            assert!(shown.iter().map(Trace::len).sum::<usize>() <= whole.len());
        }
    }
});
