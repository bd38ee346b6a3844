//! Location of the reference data.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns the folder of the reference data of these tests.
pub(crate) fn data() -> PathBuf {
    test_data::reference("memtrace")
}

/// Returns the file, decompressed if it is gzip.
pub(crate) fn read(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(&bytes[..])
        .read_to_end(&mut out)
        .unwrap();
    out
}

/// Reads a JSON file, compressed or not.
pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&read(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
