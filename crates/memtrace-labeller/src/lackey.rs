//! Valgrind Lackey with `--trace-mem=yes`: every load and store, without a clock.

use std::ops::Range;
use std::sync::Arc;

use byte_source::Source;

use crate::access::{Access, PAGE_BITS};
use crate::error::Result;
use crate::input::InputOptions;
use crate::lines::{Line, Lines};
use crate::names::{Name, Names};
use crate::perf_text::Skip;
use crate::report::ReadReport;
use crate::symbols::SymbolTable;

const BATCH_ROWS: usize = 16_384;
/// Longer lines are no records.
const MAX_LINE: usize = 4096;
/// Bytes of an access, at most: no instruction touches more, and a piece of each cache line becomes a row.
const MAX_SIZE: u32 = 1 << 16;

/// Reads ` L ADDR,SIZE`, ` S ...`, ` M ...` (a load, then a store) and `I  ...`, which moves the clock.
#[derive(Debug)]
pub(crate) struct LackeyRows {
    lines: Lines,
    line: Vec<u8>,
    ns_per_instruction: u64,
    split_bytes: u64,
    instructions: u64,
    functions: Option<Functions>,
    report: ReadReport,
}

/// The function of the instruction that was fetched last.
#[derive(Debug)]
struct Functions {
    table: Arc<SymbolTable>,
    /// Where it lies: instructions stay in a function for a while.
    within: Range<u64>,
    name: Name,
}

impl Functions {
    fn fetch(&mut self, address: u64, names: &mut Names) {
        if self.within.contains(&address) {
            return;
        }
        (self.name, self.within) = match self.table.place(address) {
            Some((name, within)) => (names.intern(name), within),
            None => (Name::EMPTY, 0..0),
        };
    }
}

impl LackeyRows {
    pub(crate) fn new(source: Source, options: &InputOptions) -> Result<Self> {
        Ok(Self {
            lines: Lines::new(source, MAX_LINE)?,
            line: Vec::new(),
            ns_per_instruction: options.ns_per_instruction,
            split_bytes: options.split_bytes,
            instructions: 0,
            functions: options.symbols.as_ref().map(|table| Functions {
                table: Arc::clone(table),
                within: 0..0,
                name: Name::EMPTY,
            }),
            report: ReadReport::new("lackey", "instructions"),
        })
    }

    pub(crate) fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        let before = rows.len();
        while rows.len() - before < BATCH_ROWS {
            let record = match self.lines.read(&mut self.line)? {
                Line::End => return Ok(rows.len() > before),
                Line::Overlong => Err(Skip::Truncated),
                Line::Whole => self.record(names, rows),
            };
            self.report.lines += 1;
            if let Err(reason) = record {
                self.report.skip(reason, self.report.lines);
            }
        }
        Ok(true)
    }

    fn record(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<(), Skip> {
        let line = self.line.trim_ascii_end();
        if line.is_empty() {
            return Err(Skip::Blank);
        }
        if line.starts_with(b"==") || line.starts_with(b"--") {
            return Err(Skip::Comment);
        }
        let (kind, rest) = match line {
            [b'I', b' ', rest @ ..] => (b'I', rest),
            [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] => (*kind, rest),
            _ => return Err(Skip::NoEvent),
        };
        if kind == b'I' {
            self.instructions += 1;
            if let Some(functions) = &mut self.functions {
                let (address, _) = address_and_size(rest)?;
                functions.fetch(address, names);
            }
            return Ok(());
        }
        let (address, size) = address_and_size(rest)?;
        if size > MAX_SIZE {
            return Err(Skip::BadAddress);
        }
        if kind != b'S' {
            self.push(address, size, Name::LOAD, rows);
        }
        if kind != b'L' {
            self.push(address, size, Name::STORE, rows);
        }
        Ok(())
    }

    /// One row, or one for each piece that a straddling access touches.
    fn push(&mut self, address: u64, size: u32, op: Name, rows: &mut Vec<Access>) {
        let end = address.saturating_add(u64::from(size.max(1)));
        let mut at = address;
        while at < end {
            let next = match self.split_bytes {
                0 => end,
                bytes => (at / bytes + 1).saturating_mul(bytes).min(end),
            };
            let time = self.instructions.saturating_mul(self.ns_per_instruction);
            let mut row = Access::new(time, at);
            row.address_page = at >> PAGE_BITS;
            row.op = op;
            if let Some(functions) = &self.functions {
                row.symbol = functions.name;
            }
            row.size_bytes = u32::try_from(next - at).unwrap_or(size);
            self.report.take(row, rows);
            at = next;
        }
    }

    pub(crate) fn report(&self) -> ReadReport {
        let mut report = self.report.clone();
        report.damage = self.lines.damage();
        report
    }
}

/// `ADDR,SIZE`: hexadecimal and decimal.
fn address_and_size(text: &[u8]) -> Result<(u64, u32), Skip> {
    let text = std::str::from_utf8(text.trim_ascii()).map_err(|_| Skip::BadAddress)?;
    let (address, size) = text.split_once(',').ok_or(Skip::Truncated)?;
    let address = u64::from_str_radix(address, 16).map_err(|_| Skip::BadAddress)?;
    Ok((address, size.parse().map_err(|_| Skip::BadAddress)?))
}
