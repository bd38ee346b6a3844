//! Detects a container from its first bytes. Names and suffixes are ignored.

use std::fmt;

/// A container this crate opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Container {
    /// RFC 1952, one or more members.
    Gzip,
    /// RFC 8878, one or more frames.
    Zstd,
    /// The `.xz` format, one or more streams.
    Xz,
    /// A zip archive.
    Zip,
    /// A tar archive (v7, ustar, GNU, pax).
    Tar,
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Zip => "zip",
            Self::Tar => "tar",
        })
    }
}

/// Result of detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detected {
    /// No known container: the bytes are the content.
    Plain,
    /// A container that this crate opens.
    Container(Container),
    /// A container that this crate does not open: a description, and a command that unpacks it.
    Foreign(&'static str, &'static str),
}

/// Number of bytes that [`detect`] needs: one tar header.
pub(crate) const LOOK: usize = 512;

const GZIP: &[u8] = &[0x1f, 0x8b, 0x08];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

/// Length of the longest stream signature in bytes.
pub(crate) const LONGEST_SIGNATURE: usize = XZ.len();

/// Returns the container that `head` begins with; `head` is the first [`LOOK`] bytes, or all if
/// there are fewer.
pub(crate) fn detect(head: &[u8]) -> Detected {
    for container in [Container::Gzip, Container::Zstd, Container::Xz] {
        if begins_stream(container, head) {
            return Detected::Container(container);
        }
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return Detected::Container(Container::Zip);
    }
    if is_tar_header(head) {
        return Detected::Container(Container::Tar);
    }
    if head.starts_with(b"BZh") && head.get(4..10) == Some(b"1AY&SY") {
        return Detected::Foreign("bzip2", "bzip2 -d");
    }
    if head.starts_with(&[0x04, 0x22, 0x4d, 0x18]) {
        return Detected::Foreign("lz4", "lz4 -d");
    }
    if head.starts_with(b"7z\xbc\xaf\x27\x1c") {
        return Detected::Foreign("7-zip", "7z x");
    }
    if head.starts_with(b"Rar!\x1a\x07") {
        return Detected::Foreign("rar", "unrar x");
    }
    Detected::Plain
}

/// Returns `true` if `head` begins a stream of a compression format; `false` for archives.
pub(crate) fn begins_stream(container: Container, head: &[u8]) -> bool {
    match container {
        Container::Gzip => head.starts_with(GZIP),
        // Skippable frames (RFC 8878 section 3.1.2) may precede other frames.
        Container::Zstd => {
            head.starts_with(ZSTD)
                || matches!(head, [low, 0x2a, 0x4d, 0x18, ..] if low & 0xf0 == 0x50)
        }
        Container::Xz => head.starts_with(XZ),
        Container::Zip | Container::Tar => false,
    }
}

/// Returns `true` if the block is a tar header: it has a name and a valid checksum.
///
/// The checksum is the sum of all bytes with its own field taken as blanks, in octal at byte 148
/// (POSIX pax, "ustar Interchange Format"). The check also finds old v7 headers, which have no
/// signature, and text does not pass it by accident.
fn is_tar_header(head: &[u8]) -> bool {
    let Some(block) = head.get(..LOOK) else {
        return false;
    };
    let (Some(before), Some(field), Some(after)) =
        (block.get(..148), block.get(148..156), block.get(156..))
    else {
        return false;
    };
    if block.first() == Some(&0) {
        return false;
    }
    let mut stated = 0_u32;
    let mut digits = 0;
    for &byte in field {
        match byte {
            b'0'..=b'7' => {
                stated = stated * 8 + u32::from(byte - b'0');
                digits += 1;
            }
            b' ' | 0 if digits == 0 => {}
            b' ' | 0 => break,
            _ => return false,
        }
    }
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    digits > 0 && stated == sum(before) + sum(after) + 8 * u32::from(b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar_block(name: &str) -> Vec<u8> {
        let mut header = tar::Header::new_old();
        header.set_path(name).unwrap();
        header.set_size(0);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    #[test]
    fn signatures_are_recognised() {
        let of = |head: &[u8]| detect(head);
        assert_eq!(
            of(b"\x1f\x8b\x08\x00"),
            Detected::Container(Container::Gzip)
        );
        assert_eq!(of(b"\x1f\x8b\x07\x00"), Detected::Plain);
        assert_eq!(
            of(b"\x28\xb5\x2f\xfd"),
            Detected::Container(Container::Zstd)
        );
        assert_eq!(
            of(b"\x5e\x2a\x4d\x18"),
            Detected::Container(Container::Zstd)
        );
        assert_eq!(of(b"\xfd7zXZ\0"), Detected::Container(Container::Xz));
        assert_eq!(of(b"PK\x03\x04"), Detected::Container(Container::Zip));
        assert_eq!(of(b"BZh91AY&SY"), Detected::Foreign("bzip2", "bzip2 -d"));
        assert_eq!(of(b"{\"traceEvents\":[]}"), Detected::Plain);
        assert_eq!(of(b""), Detected::Plain);
    }

    #[test]
    fn tar_needs_a_right_checksum() {
        let mut block = tar_block("rank0.json");
        assert_eq!(detect(&block), Detected::Container(Container::Tar));
        block[0] ^= 1;
        assert_eq!(detect(&block), Detected::Plain);
        assert_eq!(detect(&[0; LOOK]), Detected::Plain);
        assert_eq!(detect(&[b' '; LOOK]), Detected::Plain);
    }
}
