//! Splits chunks of bytes into packets: the top level of a trace is a list of length-delimited
//! fields.

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

/// Maximum size of a packet in bytes; larger ones are skipped. Real packets are far smaller.
pub(crate) const MAX_PACKET: u64 = 256 << 20;

/// The tag of field 1, length-delimited.
const PACKET_TAG: u8 = 0x0a;

/// Description and offset of an error at the top level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadFrame {
    pub(crate) what: &'static str,
    pub(crate) at: u64,
}

/// Header of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    /// More bytes are needed.
    Short,
    /// A packet of `body` bytes after `head` bytes.
    Packet {
        head: usize,
        body: u64,
    },
    /// Another field with this total length in bytes.
    Other(u64),
    Bad(&'static str),
}

/// Splits chunks into packets.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    /// Start of a field that continues in the next chunk.
    carry: Vec<u8>,
    /// Offset of the first byte of `carry`, or of the next chunk.
    offset: u64,
    /// Number of bytes to skip.
    skip: u64,
    /// Offsets of packets that were too large.
    oversized: Vec<u64>,
    /// Only packets may occur (inside bundles).
    packets_only: bool,
    pub(crate) packets: u64,
}

/// An incomplete field at the end of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Offset of the incomplete field.
    pub(crate) at: u64,
    /// Number of missing bytes; `None` if even the length is truncated.
    pub(crate) missing: Option<u64>,
}

impl Framer {
    /// Creates a framer for the inside of a bundle, where fields other than packets are errors.
    pub(crate) fn of_bundle() -> Self {
        Self {
            packets_only: true,
            ..Self::default()
        }
    }

    /// Passes all complete packets to `sink` with the offset of their field.
    pub(crate) fn push<E: From<BadFrame>>(
        &mut self,
        mut chunk: &[u8],
        mut sink: impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        while !chunk.is_empty() {
            if self.skip > 0 {
                let step = usize::try_from(self.skip).map_or(chunk.len(), |n| n.min(chunk.len()));
                chunk = chunk.get(step..).unwrap_or_default();
                self.skip -= step as u64;
                self.offset += step as u64;
            } else if self.carry.is_empty() {
                chunk = self.fields(chunk, &mut sink)?;
                self.carry.extend_from_slice(chunk);
                return Ok(());
            } else {
                chunk = self.complete(chunk, &mut sink)?;
            }
        }
        Ok(())
    }

    /// Reads complete fields; returns the start of an incomplete one.
    fn fields<'c, E: From<BadFrame>>(
        &mut self,
        mut chunk: &'c [u8],
        sink: &mut impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<&'c [u8], E> {
        loop {
            match self.head(chunk) {
                Head::Short => return Ok(chunk),
                Head::Bad(what) => {
                    let at = self.offset;
                    return Err(BadFrame { what, at }.into());
                }
                Head::Packet { head, body } if body <= MAX_PACKET => {
                    #[expect(clippy::cast_possible_truncation, reason = "below MAX_PACKET")]
                    let end = head + body as usize;
                    let Some((field, rest)) = chunk.split_at_checked(end) else {
                        return Ok(chunk);
                    };
                    let at = self.offset;
                    self.offset += end as u64;
                    self.packets += 1;
                    if body > 0 {
                        sink(field.get(head..).unwrap_or_default(), at)?;
                    }
                    chunk = rest;
                }
                Head::Packet { head, body } => {
                    self.oversized.push(self.offset);
                    return Ok(self.pass_over(chunk, body.saturating_add(head as u64)));
                }
                Head::Other(len) => {
                    chunk = self.pass_over(chunk, len);
                    if self.skip > 0 {
                        return Ok(chunk);
                    }
                }
            }
        }
    }

    fn pass_over<'c>(&mut self, chunk: &'c [u8], len: u64) -> &'c [u8] {
        let here = usize::try_from(len).map_or(chunk.len(), |n| n.min(chunk.len()));
        self.offset += here as u64;
        self.skip = len - here as u64;
        chunk.get(here..).unwrap_or_default()
    }

    /// Takes the bytes from `chunk` that complete the field in `carry`; returns the rest of the
    /// chunk.
    fn complete<'c, E: From<BadFrame>>(
        &mut self,
        chunk: &'c [u8],
        sink: &mut impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<&'c [u8], E> {
        let want = match self.head(&self.carry) {
            Head::Packet { head, body } if body <= MAX_PACKET => body.saturating_add(head as u64),
            // One more byte, then try the header again.
            _ => self.carry.len() as u64 + 1,
        };
        let missing = usize::try_from(want)
            .map_or(chunk.len(), |n| n.saturating_sub(self.carry.len()))
            .min(chunk.len());
        let (part, rest) = chunk.split_at_checked(missing).unwrap_or((chunk, &[]));
        self.carry.extend_from_slice(part);
        let carry = std::mem::take(&mut self.carry);
        let left = self.fields(&carry, sink)?.len();
        if left > 0 {
            self.carry = carry;
            self.carry.drain(..self.carry.len() - left);
        } else {
            // Keep the buffer for the next truncated field.
            self.carry = carry;
            self.carry.clear();
        }
        Ok(rest)
    }

    fn head(&self, bytes: &[u8]) -> Head {
        let (tag, after) = match bytes {
            [] => return Head::Short,
            [PACKET_TAG, after @ ..] => (u64::from(PACKET_TAG), after),
            _ => match varint(bytes) {
                Ok(Some(found)) => found,
                Ok(None) => return Head::Short,
                Err(()) => return Head::Bad("a field tag longer than ten bytes"),
            },
        };
        let tag_len = (bytes.len() - after.len()) as u64;
        if self.packets_only && tag != u64::from(PACKET_TAG) {
            return Head::Bad("something else than packets in a bundle of compressed packets");
        }
        if tag >> 3 == 0 {
            return Head::Bad("a field with number 0");
        }
        match tag & 7 {
            0 => match varint(after) {
                Ok(Some((_, rest))) => Head::Other((bytes.len() - rest.len()) as u64),
                Ok(None) => Head::Short,
                Err(()) => Head::Bad("an integer longer than ten bytes"),
            },
            1 => Head::Other(tag_len + 8),
            5 => Head::Other(tag_len + 4),
            2 => match varint(after) {
                Ok(Some((body, rest))) => {
                    let head = bytes.len() - rest.len();
                    if tag == u64::from(PACKET_TAG) {
                        Head::Packet { head, body }
                    } else {
                        Head::Other(body.saturating_add(head as u64))
                    }
                }
                Ok(None) => Head::Short,
                Err(()) => Head::Bad("a length longer than ten bytes"),
            },
            _ => Head::Bad("a wire type that does not exist"),
        }
    }

    /// Returns the offsets of oversized packets since the last call.
    pub(crate) fn take_oversized(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.oversized)
    }

    /// Returns the offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset + self.carry.len() as u64
    }

    /// Returns the incomplete field at the end of the input, if any.
    pub(crate) fn tail(&self) -> Option<Tail> {
        if self.skip > 0 {
            return Some(Tail {
                at: self.offset,
                missing: Some(self.skip),
            });
        }
        if self.carry.is_empty() {
            return None;
        }
        let missing = match self.head(&self.carry) {
            Head::Packet { head, body } => {
                Some(body.saturating_add(head as u64) - self.carry.len() as u64)
            }
            _ => None,
        };
        Some(Tail {
            at: self.offset,
            missing,
        })
    }
}

type Varint<'a> = Option<(u64, &'a [u8])>;

/// Returns a varint and the bytes after it; `None` if the bytes end inside it.
fn varint(bytes: &[u8]) -> Result<Varint<'_>, ()> {
    let mut value = 0_u64;
    for (i, &b) in bytes.iter().take(10).enumerate() {
        value |= u64::from(b & 0x7f) << (7 * i).min(63);
        if b < 0x80 {
            return Ok(Some((value, bytes.get(i + 1..).unwrap_or_default())));
        }
    }
    if bytes.len() < 10 { Ok(None) } else { Err(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packets with their offsets.
    type Packets = Vec<(Vec<u8>, u64)>;

    fn all(chunks: &[&[u8]]) -> (Packets, Result<(), BadFrame>, Option<Tail>) {
        let mut framer = Framer::default();
        let mut out = Vec::new();
        for chunk in chunks {
            let result = framer.push(chunk, |packet, at| {
                out.push((packet.to_vec(), at));
                Ok::<(), BadFrame>(())
            });
            if result.is_err() {
                return (out, result, None);
            }
        }
        let tail = framer.tail();
        (out, Ok(()), tail)
    }

    const SAMPLE: &[u8] = &[
        0x0a, 2, 0x50, 1, // a packet
        0x0a, 0, // an empty one
        0x10, 0xff, 0x01, // field 2, a varint
        0x1a, 3, 9, 9, 9, // field 3, bytes
        0x21, 1, 2, 3, 4, 5, 6, 7, 8, // field 4, fixed64
        0x2d, 1, 2, 3, 4, // field 5, fixed32
        0x0a, 4, 0x50, 2, 0x50, 3, // a packet
    ];

    fn expected() -> Packets {
        vec![(vec![0x50, 1], 0), (vec![0x50, 2, 0x50, 3], 28)]
    }

    proptest! {
        #[test]
        fn chunk_boundaries_do_not_matter(mut cuts in prop::collection::vec(0..=SAMPLE.len(), 0..6)) {
            cuts.sort();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&SAMPLE[from..cut]);
                from = cut;
            }
            chunks.push(&SAMPLE[from..]);
            prop_assert_eq!(all(&chunks), (expected(), Ok(()), None));
        }
    }

    #[test]
    fn truncation_says_where_and_how_much() {
        for cut in 29..SAMPLE.len() {
            let (packets, result, tail) = all(&[&SAMPLE[..cut]]);
            assert_eq!((packets.len(), result), (1, Ok(())));
            let missing = (cut > 29).then_some((SAMPLE.len() - cut) as u64);
            assert_eq!(tail, Some(Tail { at: 28, missing }));
        }
        let (_, _, tail) = all(&[&[0x1a, 100, 1, 2]]);
        assert_eq!(tail.unwrap().missing, Some(98));
    }

    #[test]
    fn corruption_says_where() {
        let (packets, result, _) = all(&[&[0x0a, 1, 0, 0x0b]]);
        assert_eq!(packets.len(), 1);
        assert_eq!(result.unwrap_err().at, 3);
        let (_, result, _) = all(&[&[0x0a; 1], &[0xff; 12]]);
        assert_eq!(result.unwrap_err().what, "a length longer than ten bytes");
    }

    #[test]
    fn a_giant_length_takes_no_memory() {
        let mut framer = Framer::default();
        let mut giant = vec![0x0a];
        giant.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
        giant.resize(1 << 16, 0);
        for _ in 0..4 {
            framer.push(&giant, |_, _| Ok::<(), BadFrame>(())).unwrap();
        }
        assert_eq!(framer.take_oversized(), [0]);
        assert!(framer.carry.capacity() < 64);
        assert!(framer.tail().unwrap().missing.unwrap() > 1 << 60);
    }
}
