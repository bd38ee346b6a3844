//! Reads arbitrary bytes as Perfetto protobuf, in both modes, visits every row, and writes the
//! trace back.
//!
//! Run with `cargo xtask fuzz proto SECONDS`.
#![no_main]

mod walk;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for compat in [false, true] {
        let options = walk::options(compat);
        if let Ok(source) = walk::source(data)
            && let Ok(trace) = perfetto_reader::proto::read(source, &options)
        {
            walk::all(&trace);
            let mut written = Vec::new();
            if perfetto_reader::write::write_trace(&trace, &mut written).is_ok()
                && let Ok(source) = walk::source(&written)
            {
                let again = perfetto_reader::proto::read(source, &options);
                assert!(again.is_ok(), "what we write must be readable");
            }
        }
    }
});
