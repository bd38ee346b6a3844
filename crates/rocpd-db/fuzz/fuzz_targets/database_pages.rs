//! Reads arbitrary bytes as the pages of a rocPD database.
#![no_main]

#[path = "../body.rs"]
mod body;

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// The file that each input is written to; the folder outlives the process, since nothing ends a fuzzer but a signal.
static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    folder.keep().join("fuzzed.db")
});

fuzz_target!(|data: &[u8]| {
    std::fs::write(&*FILE, data).expect("writing a temporary file");
    body::try_all(&FILE);
});
