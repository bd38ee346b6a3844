//! Cutting an input into blocks of whole lines, and what becomes of a block on a thread of its own.

use byte_source::Chunks;

use crate::error::Result;
use crate::event::{Event, Symbols};
use crate::format::{Format, MAX_LINE, Sink, parse_block};
use crate::order::Piece;
use crate::quality::LineCounts;

/// An unfinished line that grows beyond this is not kept.
const LONGEST_CARRY: usize = 16 * MAX_LINE;

/// What a block of the input turned out to be.
pub(crate) struct Parsed {
    pub(crate) piece: Piece,
    pub(crate) symbols: Symbols,
}

impl Parsed {
    pub(crate) fn new(mut events: Vec<Event>, symbols: Symbols, device: Option<u32>) -> Self {
        if let Some(device) = device {
            events.retain(|e| e.dev == device || e.dev == 0);
        }
        Self {
            piece: Piece::new(events),
            symbols,
        }
    }
}

/// A run of whole lines.
pub(crate) struct Block {
    pub(crate) number: usize,
    pub(crate) offset: u64,
    bytes: Vec<u8>,
    /// The last line has no line feed because the input ends.
    last_is_open: bool,
    /// Memory for its events.
    pub(crate) spare: Vec<Event>,
}

/// A block and what was in it.
pub(crate) struct Done {
    pub(crate) number: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) counts: LineCounts,
    pub(crate) parsed: Parsed,
}

impl Block {
    pub(crate) fn parse(self, format: Format, device: Option<u32>) -> Done {
        let mut sink = Sink {
            events: self.spare,
            ..Sink::default()
        };
        parse_block(format, &self.bytes, self.last_is_open, &mut sink);
        Done {
            number: self.number,
            offset: self.offset,
            bytes: self.bytes,
            counts: sink.counts,
            parsed: Parsed::new(sink.events, sink.symbols, device),
        }
    }
}

/// Cuts a source into blocks of whole lines.
pub(crate) struct Blocks {
    chunks: Chunks,
    carry: Vec<u8>,
    /// Where `carry` begins.
    offset: u64,
    number: usize,
    /// In the middle of a line that is too long.
    skipping: bool,
    ended: bool,
}

impl Blocks {
    pub(crate) fn new(chunks: Chunks) -> Self {
        Self {
            chunks,
            carry: Vec::new(),
            offset: 0,
            number: 0,
            skipping: false,
            ended: false,
        }
    }

    /// Bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.offset()
    }

    /// The next block, in `buffer`; the second part says that a line too long ended before it.
    pub(crate) fn next(&mut self, mut buffer: Vec<u8>) -> Result<Option<(Block, bool)>> {
        let mut too_long = false;
        while !self.ended {
            let Some(chunk) = self.chunks.next()? else {
                self.ended = true;
                if self.carry.is_empty() {
                    break;
                }
                let bytes = std::mem::take(&mut self.carry);
                return Ok(Some((self.block(bytes, true), too_long)));
            };
            let mut data = chunk.data();
            if self.skipping {
                let Some(end) = memchr::memchr(b'\n', data) else {
                    self.offset += data.len() as u64;
                    continue;
                };
                self.skipping = false;
                self.offset += end as u64 + 1;
                data = data.get(end + 1..).unwrap_or_default();
            }
            let Some(end) = memchr::memrchr(b'\n', data) else {
                self.carry.extend_from_slice(data);
                if self.carry.len() > LONGEST_CARRY {
                    self.offset += self.carry.len() as u64;
                    self.carry.clear();
                    self.skipping = true;
                    too_long = true;
                }
                continue;
            };
            let (lines, rest) = data.split_at(end + 1);
            buffer.clear();
            buffer.extend_from_slice(&self.carry);
            buffer.extend_from_slice(lines);
            self.carry.clear();
            self.carry.extend_from_slice(rest);
            return Ok(Some((self.block(buffer, false), too_long)));
        }
        if too_long {
            return Ok(Some((self.block(Vec::new(), false), true)));
        }
        Ok(None)
    }

    fn block(&mut self, bytes: Vec<u8>, last_is_open: bool) -> Block {
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        self.number += 1;
        Block {
            number: self.number - 1,
            offset,
            bytes,
            last_is_open,
            spare: Vec::new(),
        }
    }
}
