//! Cuts an input into blocks of whole lines, and parses them.

use std::ops::Range;

use byte_source::{Chunk, Chunks};

use crate::error::Result;
use crate::event::{Event, Symbols};
use crate::first_sizes::FirstSizes;
use crate::format::{Format, MAX_LINE, Sink, parse_block};
use crate::order::Piece;
use crate::quality::LineCounts;

/// An unfinished line that grows beyond this is not kept.
const LONGEST_CARRY: usize = 16 * MAX_LINE;

/// What a block of the input turned out to be.
pub(crate) struct Parsed {
    pub(crate) piece: Piece,
    pub(crate) symbols: Symbols,
    /// Which sizes come first, if that is wanted.
    pub(crate) first_sizes: Option<FirstSizes>,
}

impl Parsed {
    pub(crate) fn new(
        mut events: Vec<Event>,
        symbols: Symbols,
        device: Option<u32>,
        wants_first_sizes: bool,
    ) -> Self {
        if let Some(device) = device {
            events.retain(|e| e.dev == device || e.dev == 0);
        }
        let first_sizes = wants_first_sizes.then(|| FirstSizes::of(&events));
        Self {
            piece: Piece::new(events),
            symbols,
            first_sizes,
        }
    }
}

/// A run of whole lines: one that began in an earlier chunk of the input, and those of a chunk.
pub(crate) struct Block {
    pub(crate) offset: u64,
    head: Vec<u8>,
    lines: Option<(Chunk, Range<usize>)>,
    /// The last line has no line feed because the input ends.
    last_is_open: bool,
    /// The texts known before it.
    pub(crate) symbols: Symbols,
    /// `true` if it is to be noted which sizes come first.
    pub(crate) wants_first_sizes: bool,
    /// `true` if a line that is too long ended before it.
    is_behind_too_long: bool,
}

/// A block and what was in it.
pub(crate) struct Done {
    pub(crate) offset: u64,
    pub(crate) is_behind_too_long: bool,
    pub(crate) counts: LineCounts,
    pub(crate) parsed: Parsed,
}

impl Block {
    pub(crate) fn parse(self, format: Format, device: Option<u32>) -> Done {
        let mut sink = Sink {
            symbols: self.symbols,
            ..Sink::default()
        };
        parse_block(format, &self.head, self.last_is_open, &mut sink);
        let mut counts = std::mem::take(&mut sink.counts);
        if let Some((chunk, range)) = self.lines {
            let lines = chunk.data().get(range).unwrap_or_default();
            parse_block(format, lines, false, &mut sink);
            let before = counts.lines;
            counts.append(sink.counts, before, self.head.len() as u64);
        }
        Done {
            offset: self.offset,
            is_behind_too_long: self.is_behind_too_long,
            counts,
            parsed: Parsed::new(sink.events, sink.symbols, device, self.wants_first_sizes),
        }
    }
}

/// Cuts a source into blocks of whole lines.
pub(crate) struct Blocks {
    chunks: Chunks,
    crc: crc32fast::Hasher,
    carry: Vec<u8>,
    /// Where `carry` begins.
    offset: u64,
    /// In the middle of a line that is too long.
    skipping: bool,
    /// `true` if one that was too long ended since the last block.
    is_behind_too_long: bool,
    ended: bool,
}

impl Blocks {
    pub(crate) fn new(chunks: Chunks) -> Self {
        Self {
            chunks,
            crc: crc32fast::Hasher::new(),
            carry: Vec::new(),
            offset: 0,
            skipping: false,
            is_behind_too_long: false,
            ended: false,
        }
    }

    /// Returns the bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.offset()
    }

    /// CRC-32 of what was read so far.
    pub(crate) fn crc32(&self) -> u32 {
        self.crc.clone().finalize()
    }

    /// Returns the next block.
    pub(crate) fn next(&mut self) -> Result<Option<Block>> {
        while !self.ended {
            let Some(chunk) = self.chunks.next()? else {
                self.ended = true;
                if self.carry.is_empty() {
                    break;
                }
                return Ok(Some(self.block(None, true)));
            };
            let data = chunk.data();
            self.crc.update(data);
            let mut start = 0;
            if self.skipping {
                let Some(end) = memchr::memchr(b'\n', data) else {
                    self.offset += data.len() as u64;
                    continue;
                };
                self.skipping = false;
                start = end + 1;
                self.offset += start as u64;
            }
            let data = data.get(start..).unwrap_or_default();
            let Some(last) = memchr::memrchr(b'\n', data) else {
                self.carry.extend_from_slice(data);
                if self.carry.len() > LONGEST_CARRY {
                    self.offset += self.carry.len() as u64;
                    self.carry.clear();
                    self.skipping = true;
                    self.is_behind_too_long = true;
                }
                continue;
            };
            let (lines, rest) = data.split_at(last + 1);
            let rest = rest.to_vec();
            let mut head = 0;
            if !self.carry.is_empty() {
                head = memchr::memchr(b'\n', lines).map_or(lines.len(), |first| first + 1);
                self.carry
                    .extend_from_slice(lines.get(..head).unwrap_or_default());
            }
            let range = start + head..start + lines.len();
            let block = self.block(Some((chunk, range)), false);
            self.carry = rest;
            return Ok(Some(block));
        }
        Ok(self.is_behind_too_long.then(|| self.block(None, false)))
    }

    /// Returns what was carried over, and these lines.
    fn block(&mut self, lines: Option<(Chunk, Range<usize>)>, last_is_open: bool) -> Block {
        let head = std::mem::take(&mut self.carry);
        let offset = self.offset;
        let length = lines.as_ref().map_or(0, |(_, range)| range.len());
        self.offset += (head.len() + length) as u64;
        Block {
            offset,
            head,
            lines,
            last_is_open,
            symbols: Symbols::default(),
            wants_first_sizes: false,
            is_behind_too_long: std::mem::take(&mut self.is_behind_too_long),
        }
    }
}
