//! Helpers for readers that detect the format of a source.

use std::fmt::Write as _;

/// Returns `true` if the bytes begin an SQLite 3 database file.
///
/// Compares the sixteen bytes of section 1.3.1 of the SQLite file format.
pub fn looks_like_sqlite(head: &[u8]) -> bool {
    head.starts_with(b"SQLite format 3\0")
}

/// Returns the bytes after a UTF-8 byte order mark, if there is one.
pub fn skip_utf8_bom(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head)
}

/// Returns the first byte that is not JSON white space (blank, tab, line feed, carriage return).
pub fn first_non_blank(head: &[u8]) -> Option<u8> {
    head.iter()
        .copied()
        .find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
}

/// Returns the first sixteen bytes in hexadecimal, for "unknown format" messages.
///
/// ```
/// assert_eq!(byte_source::magic::hex_preview(b"\x0a\xff{"), "0a ff 7b");
/// ```
pub fn hex_preview(head: &[u8]) -> String {
    let mut text = String::new();
    for (index, byte) in head.iter().take(16).enumerate() {
        let blank = if index == 0 { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{blank}{byte:02x}");
    }
    text
}
