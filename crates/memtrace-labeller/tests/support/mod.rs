//! Where the reference data is.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The folder of the reference data, or `None`, said aloud.
pub(crate) fn data() -> Option<PathBuf> {
    let root = std::env::var_os("INFERSCOPE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folder = root.join("memtrace");
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!(
        "SKIPPED: no reference data at {} (set INFERSCOPE_DATA)",
        folder.display()
    );
    None
}

/// The file, unpacked when it is gzip.
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

/// A JSON file, packed or not.
pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&read(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
