//! memray captures, read without Python.
//!
//! The format is that of memray 1.20 (`src/memray/_memray/records.h`, header version 13): tagged records, numbers as LEB128,
//! addresses as differences, perhaps all in an LZ4 frame.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read as _};

use byte_source::Source;

use crate::access::Access;
use crate::error::{Error, Result};
use crate::names::{Name, Names};
use crate::perf_text::Skip;
use crate::report::ReadReport;

const BATCH_ROWS: usize = 16_384;
/// The only header version that is known.
const VERSION: i32 = 13;
/// Longest text of a record.
const MAX_TEXT: u64 = 1 << 20;
/// Deepest stack that is kept.
const MAX_DEPTH: usize = 1 << 16;
const LZ4_FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// Names of the allocators, by their number.
const ALLOCATORS: [&str; 16] = [
    "",
    "PYMALLOC_FREE",
    "PYMALLOC_MALLOC",
    "PYMALLOC_CALLOC",
    "PYMALLOC_REALLOC",
    "FREE",
    "MALLOC",
    "REALLOC",
    "CALLOC",
    "POSIX_MEMALIGN",
    "ALIGNED_ALLOC",
    "MEMALIGN",
    "VALLOC",
    "PVALLOC",
    "MMAP",
    "MUNMAP",
];

/// An allocation or a release, as the capture has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllocEvent {
    /// Address.
    pub address: u64,
    /// Bytes; 0 for releases other than `munmap`.
    pub size_bytes: u64,
    /// Which function, as memray numbers them.
    pub allocator: u8,
    /// Thread.
    pub thread_id: u64,
    /// Milliseconds since 1970 of the memory record before it; the true time is up to about 10 ms later.
    pub time_ms: u64,
    /// Memory records before it.
    pub memory_records: u64,
    /// Innermost Python function, for allocations.
    pub function: Name,
    /// Its file.
    pub file: Name,
}

impl AllocEvent {
    /// Name of the allocator.
    #[must_use]
    pub fn allocator_name(&self) -> &'static str {
        ALLOCATORS
            .get(usize::from(self.allocator))
            .copied()
            .unwrap_or_default()
    }

    /// Whether memory is given back.
    #[must_use]
    pub const fn is_release(&self) -> bool {
        matches!(self.allocator, 1 | 5 | 15)
    }
}

/// Reads the allocations of a capture in order.
pub struct MemrayReader {
    name: String,
    input: Box<dyn BufRead + Send>,
    offset: u64,
    native: bool,
    start_ms: i64,
    thread: u64,
    stacks: HashMap<u64, Vec<u64>>,
    code: HashMap<u64, (Name, Name)>,
    recent: [u64; 15],
    pointer: u64,
    now_ms: u64,
    memory_records: u64,
    ended: bool,
}

impl std::fmt::Debug for MemrayReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemrayReader")
            .field("name", &self.name)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl MemrayReader {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// [`Error::Version`] for another header version, [`Error::Broken`] for no capture.
    pub fn new(mut source: Source) -> Result<Self> {
        let name = source.name().to_owned();
        let packed = source.head(4)?.starts_with(&LZ4_FRAME);
        let input: Box<dyn BufRead + Send> = if packed {
            let frame = lz4_flex::frame::FrameDecoder::new(source.into_read()?);
            Box::new(BufReader::with_capacity(1 << 18, frame))
        } else {
            Box::new(source.into_read()?)
        };
        let mut reader = Self {
            name,
            input,
            offset: 0,
            native: false,
            start_ms: 0,
            thread: 0,
            stacks: HashMap::new(),
            code: HashMap::new(),
            recent: [0; 15],
            pointer: 0,
            now_ms: 0,
            memory_records: 0,
            ended: false,
        };
        reader.header()?;
        Ok(reader)
    }

    fn header(&mut self) -> Result<()> {
        if self.bytes::<7>()? != *b"memray\0" {
            return Err(self.broken("no memray capture"));
        }
        let version = i32::from_le_bytes(self.bytes()?);
        if version != VERSION {
            return Err(Error::Version {
                name: self.name.clone(),
                format: "memray",
                found: version.into(),
                supported: "13",
            });
        }
        self.bytes::<4>()?;
        self.native = self.byte()? != 0;
        if self.byte()? != 0 {
            return Err(self.broken("an aggregated capture; record without --aggregate"));
        }
        self.bytes::<16>()?;
        self.start_ms = i64::from_le_bytes(self.bytes()?);
        self.bytes::<8>()?;
        self.text()?;
        self.bytes::<4>()?;
        self.thread = u64::from_le_bytes(self.bytes()?);
        self.bytes::<8>()?;
        self.bytes::<3>()?;
        self.text()?;
        for _ in 0..2 {
            while !self.text()?.is_empty() {}
        }
        self.now_ms = u64::try_from(self.start_ms).unwrap_or(0);
        Ok(())
    }

    fn broken(&self, what: &'static str) -> Error {
        Error::Broken {
            name: self.name.clone(),
            offset: self.offset,
            what,
        }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input
            .read_exact(&mut bytes)
            .map_err(|_| self.broken("the capture ends within a record"))?;
        self.offset += N as u64;
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8> {
        let [byte] = self.bytes::<1>()?;
        Ok(byte)
    }

    /// Unsigned LEB128.
    fn number(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.broken("a number of more than 64 bits"))
    }

    /// A difference: zig-zag, then LEB128.
    fn difference(&mut self) -> Result<u64> {
        let value = self.number()?;
        Ok((value >> 1) ^ (value & 1).wrapping_neg())
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        let limit = self.input.by_ref().take(MAX_TEXT);
        let mut limited = BufReader::with_capacity(1, limit);
        // One byte at a time, so that nothing behind the text is taken.
        let read = limited.read_until(0, &mut text);
        if read.is_err() || text.pop() != Some(0) {
            return Err(self.broken("a text without an end"));
        }
        self.offset += text.len() as u64 + 1;
        Ok(text)
    }

    /// The next allocation or release; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Broken`] with the place, also when the capture was cut off.
    pub fn next(&mut self, names: &mut Names) -> Result<Option<AllocEvent>> {
        while !self.ended {
            let at_end = match self.input.fill_buf() {
                Ok(buffer) => buffer.is_empty(),
                Err(_) => return Err(self.broken("the LZ4 frame is damaged")),
            };
            if at_end {
                return Err(self.broken("the capture has no end; the program was killed"));
            }
            let tag = self.byte()?;
            match tag {
                128.. => return self.allocation(tag & 127, names).map(Some),
                64..=127 => {
                    let code = self.number()?;
                    self.difference()?;
                    let stack = self.stacks.entry(self.thread).or_default();
                    if stack.len() < MAX_DEPTH {
                        stack.push(code);
                    }
                }
                32..=63 => self.object(tag & 31)?,
                16..=31 => {
                    let stack = self.stacks.entry(self.thread).or_default();
                    for _ in 0..=(tag & 15) {
                        stack.pop();
                    }
                }
                0 | 6 => {}
                1 => self.ended = true,
                2 => {
                    self.number()?;
                    let since = self.number()?;
                    self.now_ms = u64::try_from(self.start_ms)
                        .unwrap_or(0)
                        .saturating_add(since);
                    self.memory_records += 1;
                }
                5 => {
                    self.difference()?;
                    self.difference()?;
                }
                7 => {
                    self.text()?;
                    self.number()?;
                    self.bytes::<8>()?;
                }
                8 => {
                    self.bytes::<8>()?;
                    self.number()?;
                }
                10 => {
                    self.text()?;
                }
                12 => self.thread = u64::from_le_bytes(self.bytes()?),
                14 => self.code_object(names)?,
                _ => return Err(self.broken("a record of unknown kind")),
            }
        }
        Ok(None)
    }

    /// The address that an index of the list of recent addresses stands for.
    fn address(&mut self, index: u8) -> Result<u64> {
        if let Some(address) = self.recent.get(usize::from(index)) {
            return Ok(*address);
        }
        self.pointer = self.pointer.wrapping_add(self.difference()?);
        let address = self.pointer << 3;
        self.recent.rotate_right(1);
        if let Some(first) = self.recent.first_mut() {
            *first = address;
        }
        Ok(address)
    }

    fn allocation(&mut self, flags: u8, _names: &mut Names) -> Result<AllocEvent> {
        let address = self.address(flags >> 3)?;
        let allocator = match flags & 7 {
            0 => self.byte()?,
            allocator => allocator,
        };
        let plain_release = matches!(allocator, 1 | 5);
        if self.native && !plain_release {
            self.difference()?;
        }
        let size_bytes = if plain_release { 0 } else { self.number()? };
        let (function, file) = if plain_release || allocator == 15 {
            (Name::EMPTY, Name::EMPTY)
        } else {
            self.stacks
                .get(&self.thread)
                .and_then(|stack| self.code.get(stack.last()?))
                .copied()
                .unwrap_or((Name::EMPTY, Name::EMPTY))
        };
        Ok(AllocEvent {
            address,
            size_bytes,
            allocator,
            thread_id: self.thread,
            time_ms: self.now_ms,
            memory_records: self.memory_records,
            function,
            file,
        })
    }

    fn object(&mut self, flags: u8) -> Result<()> {
        self.address(flags >> 1 & 15)?;
        if self.native && flags & 1 != 0 {
            self.difference()?;
        }
        Ok(())
    }

    fn code_object(&mut self, names: &mut Names) -> Result<()> {
        let id = self.number()?;
        let function = self.text()?;
        let file = self.text()?;
        self.difference()?;
        let mut left = self.number()?;
        while left > 0 {
            self.byte()?;
            left -= 1;
        }
        let named = (names.intern_bytes(&function), names.intern_bytes(&file));
        self.code.insert(id, named);
        Ok(())
    }
}

/// A capture as rows: an allocation is a store to its address and a release a load, so the retention of the value is the
/// life of the allocation.
#[derive(Debug)]
pub(crate) struct MemrayRows {
    reader: MemrayReader,
    report: ReadReport,
}

impl MemrayRows {
    pub(crate) fn new(source: Source) -> Result<Self> {
        Ok(Self {
            reader: MemrayReader::new(source)?,
            report: ReadReport::new("memray", "epoch, 10 ms"),
        })
    }

    pub(crate) fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        for _ in 0..BATCH_ROWS {
            let event = match self.reader.next(names) {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(false),
                Err(error) => {
                    // What came before the damage is good.
                    self.report.skip(Skip::Truncated, self.report.lines + 1);
                    self.report.damage.push(error.to_string());
                    self.reader.ended = true;
                    return Ok(false);
                }
            };
            self.report.lines += 1;
            let mut row = Access::new(event.time_ms.saturating_mul(1_000_000), event.address);
            row.op = if event.is_release() {
                Name::LOAD
            } else {
                Name::STORE
            };
            row.symbol = event.function;
            row.dso = event.file;
            row.thread_id = u32::try_from(event.thread_id).ok();
            row.size_bytes = u32::try_from(event.size_bytes).unwrap_or(u32::MAX);
            self.report.take(row, rows);
        }
        Ok(true)
    }

    pub(crate) fn report(&self) -> ReadReport {
        self.report.clone()
    }
}
