//! Reads arbitrary bytes as Chrome JSON, in both modes, and visits every row.
//!
//! Run with `cargo xtask fuzz json SECONDS`.
#![no_main]

mod walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for compat in [false, true] {
        let options = walk::options(compat);
        if let Ok(source) = walk::source(data)
            && let Ok(trace) = perfetto_reader::json::read(source, &options)
        {
            walk::all(&trace);
        }
    }
});
