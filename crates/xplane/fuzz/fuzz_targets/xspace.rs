//! Reads arbitrary bytes as an XSpace.
#![no_main]

use byte_source::Source;
use libfuzzer_sys::fuzz_target;
use xplane::{LoadOptions, read};

fuzz_target!(|data: &[u8]| {
    if let Ok(source) = Source::from_bytes("fuzzed", data.to_vec()) {
        let _ = read(source, &LoadOptions::default());
    }
});
