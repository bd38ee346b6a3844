//! The formats of block I/O traces, and the parsing of their lines.

mod biosnoop;
mod blkparse;
pub(crate) mod blktrace;
mod classify;
mod collector;
mod converted;
mod detect;
mod fields;
mod ftrace;
mod issue_log;
mod prefix;

use crate::event::{Event, Symbols};
use crate::quality::LineCounts;

pub use detect::{Kind, detect};

pub(crate) use crate::scan::BYTE_ORDER_MARK;
/// Longest line that can be an event; longer ones are malformed.
pub(crate) const MAX_LINE: usize = 4096;

/// A format of block I/O events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Format {
    /// `nsecs, rwbs, bytes, sector, nr_sector`: the published pipeline's issue log.
    FiveColumn,
    /// `I, ...`, `C, ...` and `R, ...` lines of our collector.
    Collector,
    /// `trace` and `trace_pipe` of tracefs.
    Tracefs,
    /// `perf script`.
    PerfScript,
    /// `trace-cmd report`.
    TraceCmd,
    /// The ftrace `blk` tracer's text in the default layout.
    BlkTracer,
    /// The same in the `blk_classic` layout.
    BlkTracerClassic,
    /// `blkparse` text.
    Blkparse,
    /// Binary blktrace records.
    Blktrace,
    /// Binary records as the ftrace `blk` tracer writes them, with context.
    BlktraceFtrace,
    /// `biosnoop` of bcc or libbpf; that of bpftrace for its latencies, since it prints neither place nor size.
    Biosnoop,
    /// The table that `blkio convert` writes as CSV.
    Converted,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 12] = [
        Self::FiveColumn,
        Self::Collector,
        Self::Tracefs,
        Self::PerfScript,
        Self::TraceCmd,
        Self::BlkTracer,
        Self::BlkTracerClassic,
        Self::Blkparse,
        Self::Blktrace,
        Self::BlktraceFtrace,
        Self::Biosnoop,
        Self::Converted,
    ];

    /// Returns the name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FiveColumn => "five-column",
            Self::Collector => "collector",
            Self::Tracefs => "tracefs",
            Self::PerfScript => "perf-script",
            Self::TraceCmd => "trace-cmd",
            Self::BlkTracer => "blk-tracer",
            Self::BlkTracerClassic => "blk-tracer-classic",
            Self::Blkparse => "blkparse",
            Self::Blktrace => "blktrace",
            Self::BlktraceFtrace => "blktrace-ftrace",
            Self::Biosnoop => "biosnoop",
            Self::Converted => "converted",
        }
    }

    /// Returns the format of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns which clock its times are of, where the trace does not say it itself: `boottime`, the trace clock `local` of the
    /// kernel's tracing, `perf`, `blktrace`, `rebased` to the first event, or `unrecorded`.
    #[must_use]
    pub const fn clock(self) -> &'static str {
        match self {
            Self::FiveColumn | Self::Collector => "boottime",
            Self::Tracefs | Self::TraceCmd | Self::BlkTracer | Self::BlkTracerClassic => "local",
            Self::PerfScript => "perf",
            Self::Blkparse => "rebased",
            Self::Blktrace | Self::BlktraceFtrace => "blktrace",
            Self::Biosnoop => "rebased",
            Self::Converted => "unrecorded",
        }
    }

    /// Returns `true` if it is a sequence of binary records rather than lines.
    #[must_use]
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::Blktrace | Self::BlktraceFtrace)
    }
}

/// What one line turned out to be; counted by the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// An event, which was pushed.
    Event,
    /// No event: classify it.
    Not,
    /// An event of another subsystem, or one that carries nothing for us.
    Foreign,
    /// A frame of a call chain.
    Stack,
    /// A column heading.
    Header,
    /// A report of so many lost events.
    Lost(u64),
    /// It should be an event.
    Malformed(&'static str),
}

/// Where parsers put what they find.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) events: Vec<Event>,
    pub(crate) symbols: Symbols,
    pub(crate) counts: LineCounts,
}

/// Returns the number behind the process of an unplug, `[COMM] N`; 0 without one.
fn behind_bracket(rest: &[u8]) -> i32 {
    let behind = memchr::memrchr(b']', rest).and_then(|at| rest.get(at + 1..));
    let number = behind.and_then(|text| std::str::from_utf8(text).ok());
    number
        .and_then(|text| text.trim().parse::<i32>().ok())
        .map_or(0, |count| count.max(0))
}

/// Returns the device that a bio was remapped from, in `<- (MAJ,MIN) SECTOR`.
fn remapped_from(rest: &[u8]) -> Option<u32> {
    let at = memchr::memmem::find(rest, b"<- (")?;
    let mut cursor = crate::scan::Cursor::new(rest.get(at + 4..)?);
    let major = u32::try_from(cursor.uint()?).ok()?;
    if !cursor.eat(b',') {
        return None;
    }
    cursor.blanks();
    let minor = u32::try_from(cursor.uint()?).ok()?;
    cursor.eat(b')').then_some(major << 20 | minor & 0xf_ffff)
}

/// Returns the name of the block layer's event on a line with an ftrace prefix; `None` for any other line.
#[must_use]
pub fn block_event(line: &[u8]) -> Option<&[u8]> {
    let prefix::Found::Prefix(found) = prefix::find(line) else {
        return None;
    };
    let name = crate::scan::Cursor::new(found.rest)
        .word()
        .strip_suffix(b":")?;
    let name = name.strip_prefix(b"block:").unwrap_or(name);
    name.starts_with(b"block_").then_some(name)
}

/// Parses one line (without line feed) of a text format.
#[inline]
fn line_of(format: Format, line: &[u8], sink: &mut Sink) -> Line {
    match format {
        Format::FiveColumn => issue_log::line(line, sink),
        Format::Collector => collector::line(line, sink),
        Format::Tracefs | Format::PerfScript | Format::TraceCmd | Format::BlkTracer => {
            ftrace::line(line, sink)
        }
        Format::BlkTracerClassic | Format::Blkparse => blkparse::line(line, sink),
        Format::Biosnoop => biosnoop::line(line, sink),
        Format::Converted => converted::line(line, sink),
        Format::Blktrace | Format::BlktraceFtrace => Line::Not,
    }
}

/// Parses a block of whole lines. `last_is_open` says that the last line has no line feed because the input ends there.
pub(crate) fn parse_block(format: Format, block: &[u8], last_is_open: bool, sink: &mut Sink) {
    // Short lines, so that memory for all is had at once; other formats have few shorter ones.
    sink.events
        .reserve(block.len() / if format == Format::FiveColumn { 36 } else { 80 });
    let mut start = 0;
    while start < block.len() {
        let mut rest = block.get(start..).unwrap_or_default();
        if format == Format::FiveColumn {
            start += issue_log::events(rest, sink);
            rest = block.get(start..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
        }
        let end = memchr::memchr(b'\n', rest);
        let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let open = end.is_none() && last_is_open;
        read_line(format, line, start as u64, open, sink);
        start += line.len() + 1;
    }
}

/// Parses and counts one line (without line feed) that begins at `offset`; gives the reason if it is malformed. `open` says that
/// it has no line feed because the input ends there.
pub(crate) fn read_line(
    format: Format,
    line: &[u8],
    offset: u64,
    open: bool,
    sink: &mut Sink,
) -> Option<&'static str> {
    sink.counts.lines += 1;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let before = sink.events.len();
    let mut line = line;
    let mut found = if line.len() > MAX_LINE {
        Line::Malformed("line longer than 4 KiB")
    } else {
        line_of(format, line, sink)
    };
    // Editors put a mark before the first line.
    if let (Line::Not, Some(marked)) = (found, line.strip_prefix(BYTE_ORDER_MARK)) {
        line = marked;
        found = line_of(format, line, sink);
    }
    if open {
        sink.counts.unterminated_last_line = true;
        let pushed = sink.events.get(before..).unwrap_or_default();
        let is_cut = match found {
            Line::Event => !is_whole(format, line, pushed),
            Line::Malformed(_) => true,
            _ => false,
        };
        if is_cut {
            found = Line::Malformed("truncated");
        }
    }
    if !matches!(found, Line::Event) {
        sink.events.truncate(before);
    }
    let counts = &mut sink.counts;
    match found {
        Line::Event => counts.event_lines += 1,
        Line::Not => classify::count(line, counts),
        Line::Foreign => counts.other += 1,
        Line::Stack => counts.stack += 1,
        Line::Header => counts.header += 1,
        Line::Lost(events) => {
            counts.lost_lines += 1;
            counts.lost_events = counts.lost_events.saturating_add(events);
        }
        Line::Malformed(reason) => {
            let line_number = counts.lines;
            counts.malformed(line_number, offset, reason);
            return Some(reason);
        }
    }
    None
}

/// Returns `true` if the last line, which has no line feed, is complete: where bytes and sectors are both printed they must agree, and
/// a number with a point must have its digits; the other formats end in a bracket or a name, of which nothing can be told, and
/// are believed.
fn is_whole(format: Format, line: &[u8], events: &[Event]) -> bool {
    match format {
        // Where the format ends in a name or a bracket, both agree in any case.
        Format::FiveColumn | Format::Blkparse => events.iter().all(|event| {
            u64::from(event.bytes) == (u64::from(event.nr_sector) * 512) & u64::from(u32::MAX)
                || (format == Format::Blkparse && event.nr_sector == 0)
        }),
        Format::Biosnoop => biosnoop::ends_whole(line),
        _ => true,
    }
}
