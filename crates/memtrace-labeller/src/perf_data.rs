//! `perf.data` read directly.
//!
//! The layout is that of `tools/perf/Documentation/perf.data-file-format.txt` and of `perf_event_open(2)`. Samples keep their
//! data source, which the text of `perf script` rounds off; symbols are not resolved, since the objects are on another machine.

use std::collections::VecDeque;
use std::io::Read;

use byte_source::{Reader, Source};
use rustc_hash::FxHashMap;

use crate::access::{Access, PAGE_BITS};
use crate::data_source::DataSource;
use crate::error::{Error, Result};
use crate::names::{Name, Names};
use crate::perf_text::Skip;
use crate::report::ReadReport;

const BATCH_ROWS: usize = 16_384;
/// First address of the kernel's half.
const KERNEL_START: u64 = 0x0000_8000_0000_0000;
/// Generations of processes that are looked at for a mapping.
const MAX_FORKS: usize = 16;
/// The type of hardware breakpoints in an attribute.
const BREAKPOINT: u32 = 5;

/// The type of software events in an attribute, and those of its events that are page faults: all, minor, major.
const SOFTWARE: u32 = 1;
const PAGE_FAULTS: [u64; 3] = [2, 5, 6];

/// The flag of an attribute that makes its period a frequency.
const FREQUENCY: u32 = 10;

/// A breakpoint on stores.
const WRITES: u32 = 2;
/// A breakpoint on loads and stores.
const READS_AND_WRITES: u32 = 3;

/// A row whose place is not certain yet.
#[derive(Debug)]
struct Held {
    row: Access,
    /// What its breakpoint waits for.
    breakpoint: Option<u32>,
}

/// Takes out the samples of a breakpoint on loads and stores that one on stores alone also took: same thread, instruction and
/// address. What stays of them is the loads. Gives how many were taken out.
fn pair(held: &mut Vec<Held>) -> usize {
    /// Places of samples that have not found their other.
    #[derive(Default)]
    struct Waiting {
        both: VecDeque<usize>,
        stores: usize,
    }
    let mut waiting: FxHashMap<(Option<u32>, u64, Name), Waiting> = FxHashMap::default();
    let mut twice = vec![false; held.len()];
    for (at, one) in held.iter().enumerate() {
        let key = (one.row.thread_id, one.row.address, one.row.symbol);
        let other = match one.breakpoint {
            Some(WRITES) => {
                let waiting = waiting.entry(key).or_default();
                let other = waiting.both.pop_front();
                waiting.stores += usize::from(other.is_none());
                other
            }
            Some(READS_AND_WRITES) => {
                let waiting = waiting.entry(key).or_default();
                if waiting.stores > 0 {
                    waiting.stores -= 1;
                    Some(at)
                } else {
                    waiting.both.push_back(at);
                    None
                }
            }
            _ => None,
        };
        if let Some(twice) = other.and_then(|other| twice.get_mut(other)) {
            *twice = true;
        }
    }
    let before = held.len();
    let mut twice = twice.into_iter();
    held.retain(|_| twice.next() != Some(true));
    before - held.len()
}

/// What is recorded with each sample of an event.
#[derive(Debug, Clone, Default)]
struct Attribute {
    kind: u32,
    config: u64,
    /// Fixed period; 0 where perf varies it.
    period: u64,
    breakpoint: u32,
    sample_type: u64,
    read_format: u64,
    branch_type: u64,
    user_registers: u32,
    ids: Vec<u64>,
}

/// Objects in memory, later ones over earlier ones.
#[derive(Debug, Clone, Copy)]
struct Mapping {
    pid: u32,
    start: u64,
    end: u64,
    file: Name,
}

/// Reads samples with data addresses, in order of time.
#[derive(Debug)]
pub(crate) struct PerfDataRows {
    name: String,
    reader: Reader,
    offset: u64,
    left: u64,
    attributes: Vec<Attribute>,
    mappings: Vec<Mapping>,
    /// The process that each process was forked from.
    parents: FxHashMap<u32, u32>,
    drop_kernel: bool,
    /// Samples whose order is not certain yet.
    held: Vec<Held>,
    /// Whether breakpoints of both kinds were recorded, so that a store is there twice.
    has_pairs: bool,
    round_end: u64,
    newest: u64,
    report: ReadReport,
}

/// A cursor over a record.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn skip(&mut self, count: u64, size: u64) -> Option<()> {
        let bytes = usize::try_from(count.checked_mul(size)?).ok()?;
        self.take(bytes).map(|_| ())
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    Fields(bytes.get(at..).unwrap_or_default())
        .u64()
        .unwrap_or(0)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    Fields(bytes.get(at..).unwrap_or_default())
        .u32()
        .unwrap_or(0)
}

impl PerfDataRows {
    pub(crate) fn new(source: Source, drop_kernel: bool) -> Result<Self> {
        let name = source.name().to_owned();
        let mut rows = Self {
            name,
            reader: source.into_read()?,
            offset: 0,
            left: 0,
            attributes: Vec::new(),
            mappings: Vec::new(),
            parents: FxHashMap::default(),
            drop_kernel,
            held: Vec::new(),
            has_pairs: false,
            round_end: 0,
            newest: 0,
            report: ReadReport::new("perf-data", "perf"),
        };
        rows.header()?;
        Ok(rows)
    }

    fn broken(&self, what: &'static str) -> Error {
        Error::Broken {
            name: self.name.clone(),
            offset: self.offset,
            what,
        }
    }

    fn read(&mut self, count: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = Read::by_ref(&mut self.reader)
            .take(count)
            .read_to_end(&mut bytes)
            .map_err(|source| Error::Io {
                name: self.name.clone(),
                source,
            })?;
        self.offset += read as u64;
        if (read as u64) < count {
            return Err(self.broken("the file ends too early"));
        }
        Ok(bytes)
    }

    /// Moves forward to a place in the file.
    fn seek(&mut self, to: u64) -> Result<()> {
        let mut left = to
            .checked_sub(self.offset)
            .ok_or_else(|| self.broken("sections overlap"))?;
        while left > 0 {
            let step = left.min(1 << 20);
            self.read(step)?;
            left -= step;
        }
        Ok(())
    }

    fn header(&mut self) -> Result<()> {
        let head = self.read(16)?;
        if head.starts_with(b"2ELIFREP") {
            return Err(self.broken("a big-endian perf.data; only little-endian is read"));
        }
        if !head.starts_with(b"PERFILE2") {
            return Err(self.broken("no perf.data"));
        }
        if u64_at(&head, 8) < 104 {
            return Err(self.broken("a piped perf.data; write it with perf record -o FILE"));
        }
        let head = self.read(56)?;
        let entry = u64_at(&head, 0);
        let (attributes, attributes_size) = (u64_at(&head, 8), u64_at(&head, 16));
        let (data, data_size) = (u64_at(&head, 24), u64_at(&head, 32));
        if !(64 + 16..=4096).contains(&entry) || attributes_size / entry > 65_536 {
            return Err(self.broken("attributes of an impossible size"));
        }
        // Lists of ids stand before the attributes.
        let before = self.read(attributes.saturating_sub(self.offset).min(16 << 20))?;
        let base = self.offset - before.len() as u64;
        let section = self.read(attributes_size)?;
        for bytes in section.chunks_exact(usize::try_from(entry).unwrap_or(usize::MAX)) {
            let split = bytes.len().saturating_sub(16);
            let (at, size) = (u64_at(bytes, split), u64_at(bytes, split + 8));
            let ids = at
                .checked_sub(base)
                .and_then(|at| usize::try_from(at).ok())
                .and_then(|at| before.get(at..at.checked_add(usize::try_from(size).ok()?)?))
                .map(|ids| ids.chunks_exact(8).map(|id| u64_at(id, 0)).collect())
                .unwrap_or_default();
            self.attributes.push(Attribute {
                kind: u32_at(bytes, 0),
                config: u64_at(bytes, 8),
                period: match u64_at(bytes, 40) >> FREQUENCY & 1 {
                    0 => u64_at(bytes, 16),
                    _ => 0,
                },
                sample_type: u64_at(bytes, 24),
                read_format: u64_at(bytes, 32),
                breakpoint: u32_at(bytes, 52),
                branch_type: u64_at(bytes, 72),
                user_registers: u64_at(bytes, 80).count_ones(),
                ids,
            });
        }
        if self.attributes.is_empty() {
            return Err(self.broken("no events"));
        }
        let has = |kind: u32| {
            let mut points = self.attributes.iter().filter(|one| one.kind == BREAKPOINT);
            points.any(|one| one.breakpoint == kind)
        };
        self.has_pairs = has(WRITES) && has(READS_AND_WRITES);
        self.seek(data)?;
        self.left = data_size;
        Ok(())
    }

    pub(crate) fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        let before = rows.len();
        while rows.len() - before < BATCH_ROWS {
            if self.left < 8 {
                self.flush(u64::MAX, rows);
                return Ok(false);
            }
            let head = match self.read(8) {
                Ok(head) => head,
                Err(Error::Broken { .. }) => {
                    self.cut(rows);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            };
            let (kind, size) = (u32_at(&head, 0), u64::from(u32_at(&head, 4) >> 16));
            if size < 8 || size > self.left {
                self.cut(rows);
                return Ok(false);
            }
            let Ok(body) = self.read(size - 8) else {
                self.cut(rows);
                return Ok(false);
            };
            self.left -= size;
            self.report.lines += 1;
            self.record(kind, &body, names, rows)?;
        }
        Ok(true)
    }

    /// The file was cut off: what is there is given out.
    fn cut(&mut self, rows: &mut Vec<Access>) {
        self.report.skip(Skip::Truncated, self.report.lines + 1);
        self.report
            .damage
            .push(format!("cut off at byte {}", self.offset));
        self.left = 0;
        self.flush(u64::MAX, rows);
    }

    fn record(
        &mut self,
        kind: u32,
        body: &[u8],
        names: &mut Names,
        rows: &mut Vec<Access>,
    ) -> Result<()> {
        match kind {
            9 => match self.sample(body, names) {
                Ok(held) => {
                    self.newest = self.newest.max(held.row.timestamp_ns);
                    self.held.push(held);
                }
                Err(reason) => self.report.skip(reason, self.report.lines),
            },
            1 => self.mapping(body, 32, names),
            10 => self.mapping(body, 64, names),
            7 => {
                let (child, parent) = (u32_at(body, 0), u32_at(body, 4));
                // Threads share the process' mappings anyway.
                if child != parent {
                    self.parents.insert(child, parent);
                }
            }
            2 => self.report.lost += u64_at(body, 8),
            13 => self.report.lost += u64_at(body, 0),
            // Whatever comes after two ends of a round is later than what came before the first.
            68 => {
                let certain = self.round_end;
                self.flush(certain, rows);
                self.round_end = self.newest;
            }
            81 | 83 => {
                return Err(self.broken("a compressed perf.data; record without -z"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Gives out what is held up to a time, in order.
    fn flush(&mut self, upto: u64, rows: &mut Vec<Access>) {
        self.held.sort_by_key(|held| held.row.timestamp_ns);
        let count = self
            .held
            .partition_point(|held| held.row.timestamp_ns <= upto);
        let mut ready: Vec<Held> = self.held.drain(..count).collect();
        let pairs = if self.has_pairs { pair(&mut ready) } else { 0 };
        if pairs > 0 {
            let skipped = self.report.skipped.entry(Skip::OtherRecord).or_default();
            skipped.count += pairs as u64;
        }
        for Held { row, .. } in ready {
            self.report.take(row, rows);
        }
    }

    fn mapping(&mut self, body: &[u8], name_at: usize, names: &mut Names) {
        let file = body.get(name_at..).unwrap_or_default();
        let end = memchr::memchr(0, file).unwrap_or(file.len());
        let mut file = file.get(..end).unwrap_or_default();
        // The kernel's mapping names the symbol that its addresses count from.
        if file.starts_with(b"[")
            && let Some(close) = memchr::memchr(b']', file)
        {
            file = file.get(..=close).unwrap_or(file);
        }
        let (start, length) = (u64_at(body, 8), u64_at(body, 16));
        self.mappings.push(Mapping {
            pid: u32_at(body, 0),
            start,
            end: start.saturating_add(length),
            file: names.intern_bytes(file),
        });
    }

    /// What is mapped at an address: in the process, or in the one that it was forked from.
    fn object_of(&self, pid: u32, ip: u64) -> Name {
        let mut process = pid;
        for _ in 0..MAX_FORKS {
            let found = self.mappings.iter().rev().find(|map| {
                (map.pid == process || map.pid == u32::MAX) && map.start <= ip && ip < map.end
            });
            match (found, self.parents.get(&process)) {
                (Some(map), _) => return map.file,
                (None, Some(parent)) => process = *parent,
                (None, None) => break,
            }
        }
        Name::EMPTY
    }

    fn sample(&self, body: &[u8], names: &mut Names) -> Result<Held, Skip> {
        let first = self.attributes.first().ok_or(Skip::NoEvent)?;
        // The id comes first, or behind instruction, thread, time and address where all events have the same fields.
        let place = match first.sample_type {
            kinds if kinds & 1 << 16 != 0 => Some(0),
            kinds if kinds & 1 << 6 != 0 => Some((kinds & 0xf).count_ones() as usize * 8),
            _ => None,
        };
        let attribute = match (place, self.attributes.len()) {
            (Some(place), 2..) => {
                let id = u64_at(body, place);
                self.attributes
                    .iter()
                    .find(|attribute| attribute.ids.contains(&id))
                    .unwrap_or(first)
            }
            _ => first,
        };
        let (row, ip, pid) = fields(attribute, body).ok_or(Skip::Truncated)?;
        let mut row = row?;
        if self.drop_kernel && row.address >= KERNEL_START {
            return Err(Skip::KernelAddress);
        }
        row.dso = self.object_of(pid, ip);
        if attribute.kind == SOFTWARE && PAGE_FAULTS.contains(&attribute.config) {
            row.op = Name::PAGE_FAULT;
        }
        if attribute.kind == BREAKPOINT {
            // Without symbols the instruction tells loads from stores.
            row.symbol = names.intern(&format!("{ip:#x}"));
            if attribute.breakpoint == WRITES {
                row.op = Name::STORE;
            }
        }
        Ok(Held {
            row,
            breakpoint: (attribute.kind == BREAKPOINT).then_some(attribute.breakpoint),
        })
    }

    pub(crate) fn report(&self) -> ReadReport {
        let mut report = self.report.clone();
        report
            .damage
            .extend(crate::lines::damage(&self.reader.damage()));
        report
    }
}

/// The fields of a sample in the kernel's order; `None` when the record is too short for them.
fn fields(attribute: &Attribute, body: &[u8]) -> Option<(Result<Access, Skip>, u64, u32)> {
    let mut fields = Fields(body);
    let has = |bit: u32| attribute.sample_type >> bit & 1 == 1;
    let mut row = Access::new(0, 0);
    let (mut ip, mut pid) = (0, 0);
    if has(16) {
        fields.u64()?;
    }
    if has(0) {
        ip = fields.u64()?;
    }
    if has(1) {
        pid = fields.u32()?;
        row.process_id = Some(pid);
        row.thread_id = Some(fields.u32()?);
    }
    if has(2) {
        row.timestamp_ns = fields.u64()?;
    }
    if has(3) {
        row.address = fields.u64()?;
        row.address_page = row.address >> PAGE_BITS;
    }
    if has(6) {
        fields.u64()?;
    }
    if has(9) {
        fields.u64()?;
    }
    if has(7) {
        row.cpu_id = u16::try_from(fields.u32()?).ok();
        fields.u32()?;
    }
    if has(8) {
        row.period = fields.u64()?.max(1);
    } else {
        row.period = attribute.period;
    }
    if has(4) {
        let format = attribute.read_format;
        let times = u64::from((format & 1).count_ones() + (format & 2).count_ones());
        let each = 1 + u64::from((format & 4).count_ones() + (format & 16).count_ones());
        let count = if format & 8 != 0 { fields.u64()? } else { 1 };
        fields.skip(times, 8)?;
        fields.skip(count, each * 8)?;
    }
    if has(5) {
        let count = fields.u64()?;
        fields.skip(count, 8)?;
    }
    if has(10) {
        let size = fields.u32()?;
        fields.skip(size.into(), 1)?;
    }
    if has(11) {
        let count = fields.u64()?;
        fields.skip(attribute.branch_type >> 17 & 1, 8)?;
        fields.skip(count, 24)?;
    }
    if has(12) && fields.u64()? != 0 {
        fields.skip(attribute.user_registers.into(), 8)?;
    }
    if has(13) {
        let size = fields.u64()?;
        fields.skip(size, 1)?;
        if size > 0 {
            fields.u64()?;
        }
    }
    if has(14) || has(24) {
        // The low half is the latency, also where the word has parts.
        let weight = fields.u64()? & 0xffff_ffff;
        row.access_latency_ns = u32::try_from(weight).ok();
    }
    if has(15) {
        let source = DataSource::new(fields.u64()?);
        row.cache_level = source.level();
        row.numa_node = source.remote();
        row.hops = source.hops();
        if source.is_store() == Some(true) {
            row.op = Name::STORE;
        }
    }
    if !has(3) {
        return Some((Err(Skip::BadAddress), ip, pid));
    }
    if !has(2) {
        return Some((Err(Skip::BadTime), ip, pid));
    }
    Some((Ok(row), ip, pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_two_breakpoints_took_is_one() {
        let sample = |time: u64, thread: u32, instruction: u32, breakpoint: u32| {
            let mut row = Access::new(time, 0x40_4020);
            row.thread_id = Some(thread);
            let mut names = Names::new();
            row.symbol = (0..=instruction)
                .map(|at| names.intern(&at.to_string()))
                .last()
                .unwrap();
            if breakpoint == WRITES {
                row.op = Name::STORE;
            }
            Held {
                row,
                breakpoint: Some(breakpoint),
            }
        };
        let both = READS_AND_WRITES;
        let mut held = vec![
            sample(1, 7, 1, both),
            sample(2, 7, 1, WRITES),
            // In the other order, with another thread between.
            sample(3, 7, 1, WRITES),
            sample(3, 8, 1, both),
            sample(4, 7, 1, both),
            // A load by another instruction, and one of the other thread's store.
            sample(5, 7, 2, both),
            sample(6, 8, 1, WRITES),
        ];
        assert_eq!(pair(&mut held), 3);
        let left: Vec<(u64, bool)> = held
            .iter()
            .map(|held| (held.row.timestamp_ns, held.row.is_store()))
            .collect();
        assert_eq!(left, [(2, true), (3, true), (5, false), (6, true)]);
    }
}
