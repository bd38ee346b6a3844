//! Files of heaptrack: allocations and releases, raw (`heaptrack --raw`) or interpreted, as text.
//!
//! One record a line, a letter and numbers in hexadecimal (the writers are `heaptrack_preload` and `heaptrack_interpret` of
//! heaptrack 1.0 to 1.5):
//!
//! ```text
//! v VERSION FORMAT          c MILLISECONDS               since the start
//! raw:          + SIZE TRACE ADDRESS    - ADDRESS    t IP PARENT    m LENGTH FILE START (OFFSET SIZE)*
//! interpreted:  a SIZE TRACE    + INFO    - INFO     t IP-INDEX PARENT    i IP MODULE (FUNCTION FILE LINE)*    s LENGTH TEXT
//! ```
//!
//! Indices count from 1, and 0 is none. Formats before 3 have no lengths before texts.

use std::collections::VecDeque;
use std::sync::Arc;

use byte_source::Source;
use rustc_hash::FxHashMap;

use crate::access::Access;
use crate::error::{Error, Result};
use crate::lines::{Line, Lines};
use crate::names::{Name, Names};
use crate::perf_text::Skip;
use crate::report::ReadReport;
use crate::symbols::SymbolTable;

const BATCH_LINES: usize = 16_384;
/// Longer lines are none of heaptrack's.
const MAX_LINE: usize = 1 << 20;
/// Newest format that is read.
const NEWEST: u64 = 3;
/// Where made-up addresses begin, and what they are multiples of, as those of an allocator.
const POOLS: u64 = 0x1000_0000_0000;
const ALIGNMENT: u64 = 16;

/// Whether a text begins as heaptrack's files do.
pub(crate) fn is_heaptrack(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Some(numbers) = line.strip_prefix(b"v ") else {
        return false;
    };
    let mut count = 0;
    let is_hex = numbers.split(|byte| *byte == b' ').all(|word| {
        count += 1;
        !word.is_empty() && word.iter().all(u8::is_ascii_hexdigit)
    });
    is_hex && count <= 2 && head.len() > line.len()
}

/// Allocations of one size from one call stack, in a file that has no addresses.
#[derive(Debug, Default)]
struct Pool {
    size: u64,
    trace: u64,
    /// Addresses that are in use, the oldest first.
    live: VecDeque<u64>,
    /// Addresses to be used again.
    free: Vec<u64>,
}

/// A mapped part of an object file.
#[derive(Debug, Clone, Copy)]
struct Part {
    start: u64,
    end: u64,
    file: Name,
}

/// Where an instruction is, as an interpreted file says it.
#[derive(Debug, Clone, Copy)]
struct Place {
    function: Name,
    module: Name,
}

/// A file as rows: an allocation is a store to its address and a release a load, so the retention of the value is the life of the
/// allocation.
///
/// A raw file has the addresses. An interpreted one has the functions instead; its allocations get made-up addresses, from a pool
/// for each size and call stack in which the oldest allocation is released first. Which one it was does not matter for the mean
/// of their lives.
#[derive(Debug)]
pub(crate) struct HeaptrackRows {
    lines: Lines,
    line: Vec<u8>,
    report: ReadReport,
    symbols: Option<Arc<SymbolTable>>,
    format: u64,
    time_ns: u64,
    /// Text of an interpreted file, by index.
    strings: Vec<Name>,
    places: Vec<Place>,
    /// The innermost instruction of each stack: its address, or its index in an interpreted file.
    traces: Vec<u64>,
    pools: Vec<Pool>,
    next_address: u64,
    /// Sizes by address, of what was not released yet.
    live: FxHashMap<u64, (u64, u64)>,
    parts: Vec<Part>,
    is_sorted: bool,
    /// The program itself, which its modules call `x`.
    program: Option<Name>,
}

impl HeaptrackRows {
    pub(crate) fn new(source: Source, symbols: Option<Arc<SymbolTable>>) -> Result<Self> {
        Ok(Self {
            lines: Lines::new(source, MAX_LINE)?,
            line: Vec::new(),
            report: ReadReport::new("heaptrack", "since the start, 10 ms"),
            symbols,
            format: NEWEST,
            time_ns: 0,
            strings: Vec::new(),
            places: Vec::new(),
            traces: Vec::new(),
            pools: Vec::new(),
            next_address: POOLS,
            live: FxHashMap::default(),
            parts: Vec::new(),
            is_sorted: true,
            program: None,
        })
    }

    pub(crate) fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        for _ in 0..BATCH_LINES {
            let mut line = std::mem::take(&mut self.line);
            let found = self.lines.read(&mut line)?;
            if found == Line::End {
                return Ok(false);
            }
            self.report.lines += 1;
            let record = match found {
                Line::Overlong => Err(Skip::Truncated),
                _ => self.record(&line, names)?,
            };
            self.line = line;
            self.report.take_line(record, rows);
        }
        Ok(true)
    }

    /// Takes a line; the row it gives, or why it cannot be used.
    fn record(&mut self, line: &[u8], names: &mut Names) -> Result<Result<Option<Access>, Skip>> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (Some(kind), rest) = (line.first(), line.get(2..).unwrap_or_default()) else {
            return Ok(Err(Skip::Blank));
        };
        let mut numbers = rest.split(|byte| *byte == b' ').map(hex);
        let mut next = || numbers.next().flatten();
        Ok(match kind {
            b'v' => {
                let (_, format) = (next(), next().unwrap_or(0));
                if format > NEWEST {
                    return Err(Error::Version {
                        name: self.lines.name().to_owned(),
                        format: "heaptrack",
                        found: i64::try_from(format).unwrap_or(i64::MAX),
                        supported: "0 to 3",
                    });
                }
                self.format = format;
                Ok(None)
            }
            b'c' => match next() {
                Some(milliseconds) => {
                    self.time_ns = milliseconds.saturating_mul(1_000_000);
                    Ok(None)
                }
                None => Err(Skip::BadTime),
            },
            b's' => {
                let text = if self.format < NEWEST {
                    rest
                } else {
                    self.text(rest).0
                };
                self.strings.push(names.intern_bytes(text));
                Ok(None)
            }
            b'i' => {
                let (_, module, function) = (next(), next(), next());
                let named = |index: Option<u64>| self.string(index.unwrap_or(0));
                self.places.push(Place {
                    function: named(function),
                    module: named(module),
                });
                Ok(None)
            }
            b't' => match next() {
                Some(instruction) => {
                    self.traces.push(instruction);
                    Ok(None)
                }
                None => Err(Skip::Truncated),
            },
            b'x' => {
                self.program = Some(names.intern_bytes(self.text(rest).0));
                Ok(None)
            }
            b'm' => Ok(self.module(rest, names)),
            b'a' => match (next(), next()) {
                (Some(size), Some(trace)) => {
                    self.pools.push(Pool {
                        size,
                        trace,
                        ..Pool::default()
                    });
                    Ok(None)
                }
                _ => Err(Skip::Truncated),
            },
            b'+' => match (next(), next(), next()) {
                (Some(size), Some(trace), Some(address)) => {
                    self.live.insert(address, (size, trace));
                    Ok(Some(self.row(Name::STORE, address, size, trace, names)))
                }
                (Some(info), None, None) => Ok(self.taken(info, names)),
                _ => Err(Skip::Truncated),
            },
            b'-' => match next() {
                Some(number) if self.pools.is_empty() => match self.live.remove(&number) {
                    Some((size, trace)) => {
                        Ok(Some(self.row(Name::LOAD, number, size, trace, names)))
                    }
                    // It was allocated before heaptrack looked.
                    None => Err(Skip::OtherRecord),
                },
                Some(info) => Ok(self.released(info, names)),
                None => Err(Skip::BadAddress),
            },
            b'#' => Err(Skip::Comment),
            // Command line, system, memory in use, suppressions, attaching, embedded debug files.
            b'X' | b'I' | b'R' | b'S' | b'A' => Ok(None),
            _ => Err(Skip::NoEvent),
        })
    }

    /// An allocation of a file without addresses.
    fn taken(&mut self, info: u64, names: &mut Names) -> Option<Access> {
        self.report.note = Some(
            "an interpreted file has no addresses: they are made up, one pool for each size and call stack; \
             heaptrack --raw records them",
        );
        let at = usize::try_from(info).ok()?;
        let pool = self.pools.get_mut(at)?;
        let (size, trace) = (pool.size, pool.trace);
        let address = pool.free.pop().unwrap_or_else(|| {
            let address = self.next_address;
            let room = size.max(1).div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT);
            self.next_address = address.wrapping_add(room);
            address
        });
        pool.live.push_back(address);
        Some(self.row(Name::STORE, address, size, trace, names))
    }

    /// A release in it.
    fn released(&mut self, info: u64, names: &mut Names) -> Option<Access> {
        let pool = self.pools.get_mut(usize::try_from(info).ok()?)?;
        let address = pool.live.pop_front()?;
        pool.free.push(address);
        let (size, trace) = (pool.size, pool.trace);
        Some(self.row(Name::LOAD, address, size, trace, names))
    }

    fn row(&mut self, op: Name, address: u64, size: u64, trace: u64, names: &mut Names) -> Access {
        let mut row = Access::new(self.time_ns, address);
        row.op = op;
        row.size_bytes = u32::try_from(size).unwrap_or(u32::MAX);
        // Who allocated; a release does not say where it comes from.
        if op == Name::STORE {
            (row.symbol, row.dso) = self.place(trace, names);
        }
        row
    }

    /// Function and object of the innermost frame of a stack.
    fn place(&mut self, trace: u64, names: &mut Names) -> (Name, Name) {
        let nothing = (Name::EMPTY, Name::EMPTY);
        let at = usize::try_from(trace).ok().and_then(|at| at.checked_sub(1));
        let Some(instruction) = at.and_then(|at| self.traces.get(at)).copied() else {
            return nothing;
        };
        if !self.places.is_empty() {
            let at = usize::try_from(instruction)
                .ok()
                .and_then(|at| at.checked_sub(1));
            let place = at.and_then(|at| self.places.get(at));
            return place.map_or(nothing, |place| (place.function, place.module));
        }
        if !self.is_sorted {
            self.parts.sort_by_key(|part| part.start);
            self.is_sorted = true;
        }
        let symbol = self
            .symbols
            .as_ref()
            .and_then(|table| table.at(instruction));
        let symbol = match symbol {
            Some(symbol) => names.intern(symbol),
            None => names.intern(&format!("{instruction:#x}")),
        };
        let after = self.parts.partition_point(|part| part.start <= instruction);
        let part = after.checked_sub(1).and_then(|at| self.parts.get(at));
        let file = part
            .filter(|part| instruction < part.end)
            .map(|part| part.file);
        (symbol, file.unwrap_or(Name::EMPTY))
    }

    /// `LENGTH FILE START (OFFSET SIZE)*`; `-` says that all are to come again.
    fn module(&mut self, rest: &[u8], names: &mut Names) -> Option<Access> {
        let (file, numbers) = self.text(rest);
        if file == b"-" {
            self.parts.clear();
            return None;
        }
        let file = match self.program {
            Some(program) if file == b"x" => program,
            _ => names.intern_bytes(file),
        };
        let mut numbers = numbers.split(|byte| *byte == b' ').filter_map(hex);
        let base = numbers.next()?;
        while let (Some(offset), Some(size)) = (numbers.next(), numbers.next()) {
            let start = base.wrapping_add(offset);
            self.parts.push(Part {
                start,
                end: start.wrapping_add(size),
                file,
            });
            self.is_sorted = false;
        }
        None
    }

    /// A text and what follows it.
    fn text<'a>(&self, rest: &'a [u8]) -> (&'a [u8], &'a [u8]) {
        if self.format < NEWEST {
            // Only numbers follow a file, and nothing a string.
            return rest
                .iter()
                .position(|byte| *byte == b' ')
                .map_or((rest, b""), |end| {
                    let (text, after) = rest.split_at(end);
                    (text, after.get(1..).unwrap_or_default())
                });
        }
        let end = rest
            .iter()
            .position(|byte| *byte == b' ')
            .unwrap_or(rest.len());
        let (length, after) = rest.split_at(end);
        let after = after.get(1..).unwrap_or_default();
        let length = hex(length).and_then(|length| usize::try_from(length).ok());
        let length = length.unwrap_or(0).min(after.len());
        let (text, numbers) = after.split_at(length);
        (text, numbers.strip_prefix(b" ").unwrap_or(numbers))
    }

    fn string(&self, index: u64) -> Name {
        let at = usize::try_from(index).ok().and_then(|at| at.checked_sub(1));
        at.and_then(|at| self.strings.get(at))
            .copied()
            .unwrap_or(Name::EMPTY)
    }

    pub(crate) fn report(&self) -> ReadReport {
        let mut report = self.report.clone();
        report.damage = self.lines.damage();
        report
    }
}

fn hex(word: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> (Vec<Access>, Names, ReadReport) {
        let source = Source::from_bytes("heaptrack", text.as_bytes().to_vec()).unwrap();
        let (mut names, mut rows) = (Names::new(), Vec::new());
        let mut reader = HeaptrackRows::new(source, None).unwrap();
        while reader.next_batch(&mut names, &mut rows).unwrap() {}
        (rows, names, reader.report())
    }

    #[test]
    fn raw_files_have_addresses_and_instructions() {
        let text = "v 10400 3\nx 4 /a b\nX ./a b\nI 1000 5e298d\nm 1 -\nm 1 x 5000 0 100 1000 200\n\
            t 6010 0\n+ 1000 1 7f0010\nc b\nR 4b0\n- 7f0010\n- 99\n+ 10 1 7f0010\n";
        assert!(is_heaptrack(text.as_bytes()));
        let (rows, names, report) = rows(text);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.timestamp_ns,
                    row.address,
                    names.text(row.op),
                    row.size_bytes,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (0, 0x7f_0010, "store", 4096),
                (11_000_000, 0x7f_0010, "load", 4096),
                (11_000_000, 0x7f_0010, "store", 16),
            ]
        );
        assert_eq!(
            (names.text(rows[0].symbol), names.text(rows[0].dso)),
            ("0x6010", "/a b")
        );
        assert_eq!(
            (report.rows, report.skipped_total(), report.note),
            (3, 1, None)
        );
        assert!(report.is_complete());
    }

    #[test]
    fn interpreted_files_have_functions_and_get_addresses() {
        let text = "v 10400 3\nX ./a\ns 4 /a b\ns 4 keep\ns 3 a.c\ni 6010 1 2 3 4\nt 1 0\na 1000 1\n\
            + 0\nc a\n+ 0\n- 0\nc 14\n+ 0\n- 0\n- 0\n- 0\n+ 7\nq 1\n";
        let (rows, names, report) = rows(text);
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.timestamp_ns / 1_000_000,
                    row.address - POOLS,
                    names.text(row.op),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (0, 0, "store"),
                (10, 0x1000, "store"),
                (10, 0, "load"),
                (20, 0, "store"),
                (20, 0x1000, "load"),
                (20, 0, "load"),
            ]
        );
        assert_eq!(
            (names.text(rows[0].symbol), names.text(rows[0].dso)),
            ("keep", "/a b")
        );
        assert!(report.note.is_some() && report.is_damaged());
        assert_eq!(report.skipped[&Skip::NoEvent].first, [19]);
    }

    #[test]
    fn other_versions_and_other_texts_are_told_apart() {
        let source = Source::from_bytes("h", b"v 20000 4\nX ./a\n".to_vec()).unwrap();
        let mut reader = HeaptrackRows::new(source, None).unwrap();
        let error = reader
            .next_batch(&mut Names::new(), &mut Vec::new())
            .unwrap_err();
        assert!(error.to_string().contains("version 4"), "{error}");
        let (rows, names, _) =
            rows("v 10100 2\ns /a\ns keep (int)\ni 6010 1 2\nt 1 0\na 10 1\n+ 0\n");
        assert_eq!(
            (names.text(rows[0].symbol), names.text(rows[0].dso)),
            ("keep (int)", "/a")
        );
        for text in [
            "v 10400 3",
            "v 1 2 3\nX\n",
            "vmlinux 1 [0] 1.5: x: 1 a\n",
            "v \n",
        ] {
            assert!(!is_heaptrack(text.as_bytes()), "{text}");
        }
    }
}
