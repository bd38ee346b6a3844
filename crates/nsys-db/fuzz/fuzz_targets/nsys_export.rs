//! Reads arbitrary bytes as an export of Nsight Systems.
#![no_main]

use byte_source::Source;
use libfuzzer_sys::fuzz_target;
use nsys_db::{Export, LoadOptions, communicating_processes, load, pass};

fuzz_target!(|data: &[u8]| {
    let Ok(source) = Source::from_bytes("fuzzed", data.to_vec()) else {
        return;
    };
    let Ok(export) = Export::from_source(source, None) else {
        return;
    };
    let _ = load(&export, &LoadOptions::default());
    let _ = communicating_processes(&export);
    let mut options = LoadOptions::default();
    options.host_names = Some(Vec::new());
    options.threads = 2;
    let mut last = i64::MIN;
    let deciding = |name: &str| name.contains("nccl");
    let _ = pass(&export, &options, Some(&deciding), |work| {
        assert!(last <= work.start_ns && work.start_ns <= work.end_ns);
        last = work.start_ns;
    });
});
