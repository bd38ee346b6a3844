//! Reads arbitrary bytes as every format of traces, labels what comes of it, and reads them as every file beside a trace.
#![no_main]

#[path = "../body.rs"]
mod body;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| body::try_all(data));
