//! GGUF, the format of llama.cpp: key-value pairs, then a table of tensors, then their data.
//!
//! The layout is that of `docs/gguf.md` of ggml. Version 1 has 32-bit counts and lengths, versions 2 and 3 have 64-bit ones;
//! version 3 may be big-endian, which its version number shows.

use std::io::Read;

use super::header::Header;
use super::{Tensor, TensorTable};
use crate::error::{Error, Result};

/// Arrays inside one another, at most.
const MAX_DEPTH: u32 = 4;
/// Dimensions of a tensor, at most (ggml knows four).
const MAX_DIMENSIONS: u32 = 8;
const ALIGNMENT_KEY: &str = "general.alignment";
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// Elements and bytes of a block, by ggml's number of the type.
const fn block_of(kind: u32) -> Option<(u64, u64)> {
    Some(match kind {
        0 | 26 => (1, 4),
        1 | 25 | 30 => (1, 2),
        24 => (1, 1),
        27 | 28 => (1, 8),
        2 | 20 => (32, 18),
        3 => (32, 20),
        6 => (32, 22),
        7 => (32, 24),
        8 => (32, 34),
        9 => (32, 36),
        10 => (256, 84),
        11 | 21 => (256, 110),
        12 => (256, 144),
        13 => (256, 176),
        14 => (256, 210),
        15 => (256, 292),
        16 | 35 => (256, 66),
        17 => (256, 74),
        18 => (256, 98),
        19 => (256, 50),
        22 => (256, 82),
        23 => (256, 136),
        29 => (256, 56),
        34 => (256, 54),
        39 => (32, 17),
        _ => return None,
    })
}

/// A tensor before the place of the data is known.
struct Entry {
    name: String,
    offset: u64,
    bytes: Option<u64>,
}

pub(super) fn read<R: Read>(
    header: &mut Header<R>,
    file_bytes: Option<u64>,
) -> Result<TensorTable> {
    header.skip(4)?;
    let mut version = header.u32()?;
    if version.swap_bytes() < 0x1_0000 && version >= 0x1_0000 {
        header.big_endian = true;
        version = version.swap_bytes();
    }
    if !(1..=3).contains(&version) {
        return Err(Error::Version {
            name: header.name().to_owned(),
            format: "GGUF",
            found: i64::from(version),
            supported: "1 to 3",
        });
    }
    let long = version > 1;
    let tensors = length(header, long)?;
    let pairs = length(header, long)?;
    let mut alignment = 32;
    for _ in 0..pairs {
        let count = length(header, long)?;
        let key = header.text(count)?;
        let kind = header.u32()?;
        if key == ALIGNMENT_KEY && kind == 4 {
            alignment = u64::from(header.u32()?);
            if !alignment.is_power_of_two() {
                return Err(header.broken("the alignment is no power of two"));
            }
        } else {
            value(header, kind, long, 0)?;
        }
    }
    let mut entries = Vec::new();
    for _ in 0..tensors {
        entries.push(entry(header, long)?);
    }
    let data_start = header
        .offset()
        .checked_next_multiple_of(alignment)
        .ok_or_else(|| header.broken("the alignment is too large"))?;
    Ok(TensorTable {
        format: "gguf",
        data_start,
        tensors: place(header, entries, data_start, file_bytes)?,
    })
}

fn length<R: Read>(header: &mut Header<R>, long: bool) -> Result<u64> {
    if long {
        header.u64()
    } else {
        header.u32().map(u64::from)
    }
}

/// Skips a value of a pair.
fn value<R: Read>(header: &mut Header<R>, kind: u32, long: bool, depth: u32) -> Result<()> {
    match kind {
        STRING => {
            let count = length(header, long)?;
            header.skip(count)
        }
        ARRAY => {
            if depth >= MAX_DEPTH {
                return Err(header.broken("arrays are nested too deeply"));
            }
            let element = header.u32()?;
            let count = length(header, long)?;
            match width(element) {
                Some(width) => match count.checked_mul(width) {
                    Some(bytes) => header.skip(bytes),
                    None => Err(header.broken("an array is longer than any file")),
                },
                // Each element takes bytes of its own, so the limit of the header ends this.
                None => (0..count).try_for_each(|_| value(header, element, long, depth + 1)),
            }
        }
        _ => match width(kind) {
            Some(width) => header.skip(width),
            None => Err(header.broken("a value of an unknown type")),
        },
    }
}

/// Bytes of a value of fixed size.
const fn width(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

fn entry<R: Read>(header: &mut Header<R>, long: bool) -> Result<Entry> {
    let count = length(header, long)?;
    let name = header.text(count)?;
    let dimensions = header.u32()?;
    if dimensions > MAX_DIMENSIONS {
        return Err(header.broken("a tensor has more than eight dimensions"));
    }
    let mut elements = 1_u64;
    for _ in 0..dimensions {
        let size = length(header, long)?;
        elements = elements
            .checked_mul(size)
            .ok_or_else(|| header.broken("a tensor has more elements than 64 bits can count"))?;
    }
    let kind = header.u32()?;
    let offset = header.u64()?;
    let bytes = match block_of(kind) {
        Some((block, bytes)) => Some(
            elements
                .div_ceil(block)
                .checked_mul(bytes)
                .ok_or_else(|| header.broken("a tensor is larger than any file"))?,
        ),
        None => None,
    };
    Ok(Entry {
        name,
        offset,
        bytes,
    })
}

/// Offsets in the file; a tensor of an unknown type goes as far as the next one.
fn place<R: Read>(
    header: &Header<R>,
    mut entries: Vec<Entry>,
    data_start: u64,
    file_bytes: Option<u64>,
) -> Result<Vec<Tensor>> {
    entries.sort_by_key(|entry| entry.offset);
    let mut tensors = Vec::with_capacity(entries.len());
    let mut next = file_bytes;
    for entry in entries.into_iter().rev() {
        let offset = data_start
            .checked_add(entry.offset)
            .ok_or_else(|| header.broken("a tensor begins beyond any file"))?;
        let room = next.unwrap_or(offset).saturating_sub(offset);
        next = Some(offset);
        tensors.push(Tensor {
            name: entry.name,
            offset,
            bytes: entry.bytes.unwrap_or(room),
        });
    }
    Ok(tensors)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file in either byte order and version.
    struct Writer {
        bytes: Vec<u8>,
        big: bool,
        long: bool,
    }

    impl Writer {
        fn new(version: u32, big: bool, tensors: u64, pairs: u64) -> Self {
            let mut writer = Self {
                bytes: b"GGUF".to_vec(),
                big,
                long: version > 1,
            };
            writer.u32(version).length(tensors).length(pairs);
            writer
        }

        fn put(&mut self, mut bytes: Vec<u8>) -> &mut Self {
            if self.big {
                bytes.reverse();
            }
            self.bytes.extend(bytes);
            self
        }

        fn u32(&mut self, value: u32) -> &mut Self {
            self.put(value.to_le_bytes().to_vec())
        }

        fn u64(&mut self, value: u64) -> &mut Self {
            self.put(value.to_le_bytes().to_vec())
        }

        fn length(&mut self, value: u64) -> &mut Self {
            if self.long {
                self.u64(value)
            } else {
                self.u32(u32::try_from(value).unwrap())
            }
        }

        fn text(&mut self, text: &str) -> &mut Self {
            self.length(text.len() as u64);
            self.bytes.extend(text.as_bytes());
            self
        }

        fn tensor(&mut self, name: &str, sizes: &[u64], kind: u32, offset: u64) -> &mut Self {
            self.text(name).u32(u32::try_from(sizes.len()).unwrap());
            for size in sizes {
                self.length(*size);
            }
            self.u32(kind).u64(offset)
        }
    }

    fn table(bytes: &[u8], size: Option<u64>) -> Result<TensorTable> {
        TensorTable::read("m.gguf", bytes, size)
    }

    #[test]
    fn tensors_are_where_the_header_says_in_every_version_and_order() {
        for (version, big) in [(1, false), (2, false), (3, false), (3, true)] {
            let mut file = Writer::new(version, big, 2, 4);
            file.text("general.architecture").u32(8).text("llama");
            file.text("general.alignment").u32(4).u32(64);
            file.text("tokens")
                .u32(9)
                .u32(8)
                .length(2)
                .text("a")
                .text("bc");
            file.text("nested").u32(9).u32(9).length(1);
            file.u32(5).length(3).u32(1).u32(2).u32(3);
            // Listed in another order than they lie.
            file.tensor("blk.0.ffn_up.weight", &[256, 2], 12, 128);
            file.tensor("token_embd.weight", &[33], 2, 0);
            let header = file.bytes.len() as u64;
            let start = header.next_multiple_of(64);
            let found = table(&file.bytes, Some(start + 128 + 288)).unwrap();
            assert_eq!(found.data_start, start);
            let places: Vec<_> = found
                .tensors
                .iter()
                .map(|tensor| (&*tensor.name, tensor.offset - start, tensor.bytes))
                .collect();
            assert_eq!(
                places,
                [
                    ("token_embd.weight", 0, 36),
                    ("blk.0.ffn_up.weight", 128, 288)
                ]
            );
            // One byte less, and the last tensor is cut off.
            let short = table(&file.bytes, Some(start + 128 + 287)).unwrap_err();
            assert!(short.to_string().contains("blk.0.ffn_up.weight"), "{short}");
            // Every cut of the header is an error with a place.
            for end in 9..file.bytes.len() {
                let error = table(&file.bytes[..end], None).unwrap_err();
                assert!(matches!(error, Error::Broken { .. }), "{end}: {error}");
            }
        }
    }

    #[test]
    fn unknown_types_reach_to_the_next_tensor() {
        let mut file = Writer::new(3, false, 2, 0);
        file.tensor("new", &[7], 999, 0)
            .tensor("known", &[8], 0, 64);
        let size = (file.bytes.len() as u64).next_multiple_of(32) + 96;
        let found = table(&file.bytes, Some(size)).unwrap();
        assert_eq!((found.tensors[0].bytes, found.tensors[1].bytes), (64, 32));
    }

    #[test]
    fn what_cannot_be_is_said() {
        let says = |file: &Writer, what: &str| {
            let error = table(&file.bytes, Some(1 << 40)).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        says(&Writer::new(9, false, 0, 0), "version 9");
        // Counts of a file that ends at once allocate nothing.
        says(
            &Writer::new(3, false, u64::MAX, 0),
            "ends within its header",
        );
        says(
            &Writer::new(3, false, 0, u64::MAX),
            "ends within its header",
        );
        let mut file = Writer::new(3, false, 0, 1);
        file.length(1 << 50);
        says(&file, "longer than 64 KiB");
        let mut file = Writer::new(3, false, 0, 1);
        file.text("k").u32(9).u32(12).length(u64::MAX);
        says(&file, "longer than any file");
        let mut file = Writer::new(3, false, 0, 1);
        file.text("k").u32(9).u32(12).length(1 << 40);
        says(&file, "longer than any known one");
        let mut file = Writer::new(3, false, 0, 1);
        file.text("k").u32(77);
        says(&file, "unknown type");
        let mut file = Writer::new(3, false, 0, 1);
        file.text(ALIGNMENT_KEY).u32(4).u32(0);
        says(&file, "power of two");
        let mut file = Writer::new(3, false, 0, 1);
        file.text("deep").u32(9);
        for _ in 0..6 {
            file.u32(9).length(1);
        }
        says(&file, "nested too deeply");
        let mut file = Writer::new(3, false, 1, 0);
        file.tensor("w", &[1 << 33, 1 << 33], 0, 0);
        says(&file, "64 bits");
        let mut file = Writer::new(3, false, 1, 0);
        file.tensor("w", &[1 << 62], 0, 0);
        says(&file, "larger than any file");
        let mut file = Writer::new(3, false, 1, 0);
        file.tensor("w", &[8], 0, u64::MAX - 3);
        says(&file, "beyond any file");
        let mut file = Writer::new(3, false, 1, 0);
        file.tensor("w", &[1; 9], 0, 0);
        says(&file, "eight dimensions");
    }
}
