//! Decoders for gzip members (RFC 1952) and the bare deflate streams of zip archives.
//!
//! The framing is parsed here rather than by the inflater, to distinguish and locate damage: an
//! inflater that also checks the trailer only reports "corrupt".

use flate2::{Crc, Decompress, FlushDecompress, Status};

use crate::damage::DamageKind;
use crate::decode::{Decode, Step, StepState};

/// Number of bytes inflated before their checksum is updated: few enough to be still in the cache.
const STEP_BYTES: usize = 128 << 10;

/// Inflates raw deflate data and computes its checksum.
struct Inflater {
    inflate: Decompress,
    crc: Crc,
    len: u64,
}

impl Inflater {
    fn new() -> Self {
        Self {
            inflate: Decompress::new(false),
            crc: Crc::new(),
            len: 0,
        }
    }

    fn reset(&mut self) {
        self.inflate.reset(false);
        self.crc.reset();
        self.len = 0;
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let (in_before, out_before) = (self.inflate.total_in(), self.inflate.total_out());
        let (output, _) = output.split_at_mut(output.len().min(STEP_BYTES));
        let result = self
            .inflate
            .decompress(input, output, FlushDecompress::None);
        let count = |after: u64, before: u64| usize::try_from(after - before).unwrap_or(0);
        let consumed = count(self.inflate.total_in(), in_before);
        let produced = count(self.inflate.total_out(), out_before);
        self.crc.update(output.get(..produced).unwrap_or_default());
        self.len += self.inflate.total_out() - out_before;
        let state = match result {
            Ok(Status::StreamEnd) => StepState::End(None),
            Ok(Status::Ok | Status::BufError) => StepState::More,
            Err(_) => StepState::Broken(DamageKind::Corrupt),
        };
        Step {
            consumed,
            produced,
            state,
        }
    }
}

/// Position of the decoder within a member.
enum Place {
    /// Collecting the fixed part of the header.
    Header,
    /// Collecting the length of the extra field.
    ExtraLength,
    /// Skipping this many bytes of the extra field, or of the header checksum.
    Skip(usize),
    /// Skipping up to and including a zero byte.
    Text,
    /// Inside the deflate data.
    Body,
    /// Collecting checksum and length.
    Trailer,
}

const FLAG_HEADER_CRC: u8 = 1 << 1;
const FLAG_EXTRA: u8 = 1 << 2;
const FLAG_NAME: u8 = 1 << 3;
const FLAG_COMMENT: u8 = 1 << 4;
/// Reserved flags, set by no valid member (RFC 1952 section 2.3.1.2).
const FLAGS_RESERVED: u8 = 0xe0;

/// Decodes consecutive gzip members.
pub(crate) struct GzipDecoder {
    place: Place,
    /// Flags of the header fields that are still to be read.
    flags: u8,
    collected: Vec<u8>,
    inflater: Inflater,
}

impl GzipDecoder {
    pub(crate) fn new() -> Self {
        Self {
            place: Place::Header,
            flags: 0,
            collected: Vec::with_capacity(10),
            inflater: Inflater::new(),
        }
    }

    /// Collects bytes until there are `wanted`; returns the number consumed.
    fn collect(&mut self, input: &[u8], wanted: usize) -> usize {
        let missing = wanted.saturating_sub(self.collected.len());
        let (taken, _) = input.split_at(missing.min(input.len()));
        self.collected.extend_from_slice(taken);
        taken.len()
    }

    /// Returns the place of the next optional header field, or the body after the last.
    fn next_field(&mut self) -> Place {
        let mut take = |flag: u8| {
            let present = self.flags & flag != 0;
            self.flags &= !flag;
            present
        };
        if take(FLAG_EXTRA) {
            Place::ExtraLength
        } else if take(FLAG_NAME) || take(FLAG_COMMENT) {
            Place::Text
        } else if take(FLAG_HEADER_CRC) {
            Place::Skip(2)
        } else {
            Place::Body
        }
    }

    /// Compares the collected trailer with the data; returns the damage, if any.
    fn verdict(&self) -> Option<DamageKind> {
        let &[c0, c1, c2, c3, l0, l1, l2, l3] = self.collected.as_slice() else {
            return Some(DamageKind::Truncated);
        };
        let len = u64::from(u32::from_le_bytes([l0, l1, l2, l3]));
        if u32::from_le_bytes([c0, c1, c2, c3]) != self.inflater.crc.sum() {
            Some(DamageKind::Checksum)
        } else if len != self.inflater.len & u64::from(u32::MAX) {
            Some(DamageKind::Length)
        } else {
            None
        }
    }
}

impl Decode for GzipDecoder {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let more = |consumed| Step {
            consumed,
            produced: 0,
            state: StepState::More,
        };
        match self.place {
            Place::Header => {
                let taken = self.collect(input, 10);
                if let &[_, _, _, flags, _, _, _, _, _, _] = self.collected.as_slice() {
                    if flags & FLAGS_RESERVED != 0 {
                        return Step {
                            consumed: taken,
                            produced: 0,
                            state: StepState::Broken(DamageKind::Corrupt),
                        };
                    }
                    self.flags = flags;
                    self.collected.clear();
                    self.place = self.next_field();
                }
                more(taken)
            }
            Place::ExtraLength => {
                let taken = self.collect(input, 2);
                if let &[low, high] = self.collected.as_slice() {
                    self.collected.clear();
                    self.place = match u16::from_le_bytes([low, high]) {
                        0 => self.next_field(),
                        length => Place::Skip(usize::from(length)),
                    };
                }
                more(taken)
            }
            Place::Skip(left) => {
                let taken = left.min(input.len());
                self.place = if taken == left {
                    self.next_field()
                } else {
                    Place::Skip(left - taken)
                };
                more(taken)
            }
            Place::Text => match input.iter().position(|&byte| byte == 0) {
                Some(end) => {
                    self.place = self.next_field();
                    more(end + 1)
                }
                None => more(input.len()),
            },
            Place::Body => {
                let mut step = self.inflater.step(input, output);
                if let StepState::End(_) = step.state {
                    self.place = Place::Trailer;
                    step.state = StepState::More;
                    if step.consumed == 0 && step.produced == 0 {
                        // The end was detected late, after the output was filled exactly.
                        return self.step(input, output);
                    }
                }
                step
            }
            Place::Trailer => {
                let taken = self.collect(input, 8);
                if self.collected.len() < 8 {
                    return more(taken);
                }
                Step {
                    consumed: taken,
                    produced: 0,
                    state: StepState::End(self.verdict()),
                }
            }
        }
    }

    fn restart(&mut self) -> std::io::Result<()> {
        self.place = Place::Header;
        self.collected.clear();
        self.inflater.reset();
        Ok(())
    }
}

/// Decodes a deflated zip member; its checksum and length come from the archive's directory.
pub(crate) struct ZipDecoder {
    inflater: Inflater,
    crc: u32,
    len: u64,
}

impl ZipDecoder {
    pub(crate) fn new(crc: u32, len: u64) -> Self {
        Self {
            inflater: Inflater::new(),
            crc,
            len,
        }
    }
}

impl Decode for ZipDecoder {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let mut step = self.inflater.step(input, output);
        if let StepState::End(verdict) = &mut step.state {
            if self.inflater.crc.sum() != self.crc {
                *verdict = Some(DamageKind::Checksum);
            } else if self.inflater.len != self.len {
                *verdict = Some(DamageKind::Length);
            }
        }
        step
    }

    fn restart(&mut self) -> std::io::Result<()> {
        self.inflater.reset();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_flags_are_damage() {
        for bit in 0..8 {
            let header = [0x1f, 0x8b, 8, 1 << bit, 0, 0, 0, 0, 0, 3];
            let step = GzipDecoder::new().step(&header, &mut [0; 16]);
            let is_broken = matches!(step.state, StepState::Broken(DamageKind::Corrupt));
            assert_eq!(is_broken, bit >= 5, "bit {bit}");
        }
    }

    #[test]
    fn lengths_are_compared_modulo_two_to_the_32() {
        let verdict = |len: u64, stated: u32| {
            let mut decoder = GzipDecoder::new();
            decoder.inflater.len = len;
            // The checksum of no data is 0.
            decoder.collected.extend([0; 4]);
            decoder.collected.extend(stated.to_le_bytes());
            decoder.verdict()
        };
        for len in [5, (1 << 32) + 5, (7 << 32) + 5] {
            assert_eq!(verdict(len, 5), None, "{len}");
            assert_eq!(verdict(len, 6), Some(DamageKind::Length), "{len}");
        }
    }
}
