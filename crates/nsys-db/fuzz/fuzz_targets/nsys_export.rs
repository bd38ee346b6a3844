//! Reads arbitrary bytes as an export of Nsight Systems.
#![no_main]

use byte_source::Source;
use libfuzzer_sys::fuzz_target;
use nsys_db::{Export, LoadOptions, communicating_processes, load};

fuzz_target!(|data: &[u8]| {
    let Ok(source) = Source::from_bytes("fuzzed", data.to_vec()) else {
        return;
    };
    let Ok(export) = Export::from_source(source, None) else {
        return;
    };
    let _ = load(&export, &LoadOptions::default());
    let _ = communicating_processes(&export);
});
