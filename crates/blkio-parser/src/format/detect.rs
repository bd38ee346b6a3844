//! Detects what a file is, by its content.

use super::blktrace::{CONTEXT, magic};
use super::classify::TRACE_CLOCK;
use super::{BYTE_ORDER_MARK, Format, Sink, parse_block};
use crate::scan::{contains, trim};
use blkio_companions::Companion;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Block I/O events.
    Events(Format),
    /// A file of another kind that is recorded beside a trace.
    Companion(Companion),
    /// JSON of another kind.
    Json,
    /// A Git LFS pointer in place of a file.
    LfsPointer,
    /// Lines of a tracer without any event.
    NoEvents,
    /// Text of another kind.
    Text,
    /// Nothing known.
    Unknown,
}

impl Kind {
    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events(format) => format.name(),
            Self::Companion(companion) => companion.name(),
            Self::Json => "json",
            Self::LfsPointer => "git-lfs-pointer",
            Self::NoEvents => "no-events",
            Self::Text => "text",
            Self::Unknown => "unknown",
        }
    }
}

/// Text formats in order of preference at equal score.
const TEXT: [Format; 7] = [
    Format::Converted,
    Format::FiveColumn,
    Format::Collector,
    Format::Tracefs,
    Format::Blkparse,
    Format::Biosnoop,
    Format::PerfScript,
];

/// Says what a file is from its first bytes (64 KiB are plenty).
#[must_use]
pub fn detect(head: &[u8]) -> Kind {
    if magic(head).is_some() {
        return Kind::Events(Format::Blktrace);
    }
    if head.get(CONTEXT..).and_then(magic).is_some() {
        return Kind::Events(Format::BlktraceFtrace);
    }
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    if head.starts_with(b"version https://git-lfs") {
        return Kind::LfsPointer;
    }
    // A line that the head cuts says nothing.
    let whole = match memchr::memrchr(b'\n', head) {
        Some(end) => head.get(..=end).unwrap_or_default(),
        None => head,
    };
    let companion = Companion::detect(whole);
    // Programs print events and, at their end, maps.
    let may_be_printed_at_end =
        matches!(companion, Some(Companion::Stacks | Companion::Histograms));
    if let Some(companion) = companion.filter(|_| !may_be_printed_at_end) {
        return Kind::Companion(companion);
    }
    let mut best: Option<(u64, Format)> = None;
    for format in TEXT {
        let mut sink = Sink::default();
        parse_block(format, whole, !whole.ends_with(b"\n"), &mut sink);
        let events = sink.counts.event_lines;
        let score = events.saturating_sub(sink.counts.malformed / 2);
        if events > 0 && score > 0 && best.is_none_or(|(most, _)| score > most) {
            best = Some((score, format));
        }
    }
    if let (Some(companion), None | Some((_, Format::Biosnoop))) = (companion, best) {
        return Kind::Companion(companion);
    }
    match best {
        Some((_, Format::Tracefs)) => Kind::Events(ftrace_dialect(whole)),
        Some((_, Format::Blkparse)) => Kind::Events(blkparse_dialect(whole)),
        Some((_, format)) => Kind::Events(format),
        None => nothing(whole),
    }
}

/// Returns which of the layouts with an ftrace prefix this is.
fn ftrace_dialect(head: &[u8]) -> Format {
    if contains(head, b" block:block_") {
        Format::PerfScript
    } else if head.starts_with(b"cpus=") || contains(head, b"\ncpus=") {
        Format::TraceCmd
    } else if contains(head, b": block_") {
        Format::Tracefs
    } else {
        Format::BlkTracer
    }
}

/// With or without a sequence number.
fn blkparse_dialect(head: &[u8]) -> Format {
    let with_sequence = lines(head).find_map(|line| {
        let mut cursor = crate::scan::Cursor::new(line);
        crate::scan::device(cursor.word())?;
        cursor.word();
        Some(!cursor.word().contains(&b'.'))
    });
    match with_sequence {
        Some(false) => Format::BlkTracerClassic,
        _ => Format::Blkparse,
    }
}

fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|b| *b == b'\n').map(trim)
}

/// Returns `true` if a line begins as one of the pipeline's log does: a time, then operation letters.
fn begins_as_event(line: &[u8]) -> bool {
    let mut cursor = crate::scan::Cursor::new(line);
    if cursor.uint().is_none() {
        return false;
    }
    let is_separator = |b: &u8| *b == b',' || b.is_ascii_whitespace();
    let blank = cursor.rest.iter().take_while(|b| is_separator(b)).count();
    cursor.skip(blank);
    let letters = cursor.rest.iter().take_while(|b| b.is_ascii_uppercase());
    let letters = letters.count();
    let ends = cursor.rest.get(letters).is_none_or(is_separator);
    blank > 0 && (1..=15).contains(&letters) && ends
}

/// Returns what tracers and collectors write before the first event.
fn is_heading(line: &[u8]) -> bool {
    let comment = line.strip_prefix(b"#").map(trim).unwrap_or_default();
    let begins = [TRACE_CLOCK, b"tracer: ", b"blkio-events "];
    begins.iter().any(|begin| comment.starts_with(begin)) || line.starts_with(b"cpus=")
}

/// Returns a tracer that saw nothing, or something foreign.
fn nothing(head: &[u8]) -> Kind {
    let mut sink = Sink::default();
    parse_block(Format::FiveColumn, head, !head.ends_with(b"\n"), &mut sink);
    let counts = sink.counts;
    if counts.lfs_pointer >= 2 {
        Kind::LfsPointer
    } else if counts.header + counts.error + counts.warning + counts.lost_lines > 0
        || head.starts_with(b"TIME(")
        || lines(head).any(is_heading)
        || counts.blank == counts.lines
    {
        Kind::NoEvents
    } else if lines(head).any(begins_as_event) {
        // The log of the pipeline, in a bad state.
        Kind::Events(Format::FiveColumn)
    } else if Companion::is_blkparse_summary(head) {
        Kind::Companion(Companion::BlkparseSummary)
    } else {
        foreign(head)
    }
}

/// Returns what nothing here reads.
fn foreign(head: &[u8]) -> Kind {
    let is_control = |b: &u8| b.is_ascii_control() && !b.is_ascii_whitespace() && *b != 0x1b;
    let is_text = !head.is_empty() && !head.iter().any(is_control);
    match trim(head).first() {
        _ if !is_text => Kind::Unknown,
        Some(b'{' | b'[') if is_json(head) => Kind::Json,
        _ => Kind::Text,
    }
}

/// Returns `true` if a text is JSON as far as it goes.
fn is_json(head: &[u8]) -> bool {
    let mut values = serde_json::Deserializer::from_slice(head).into_iter::<serde_json::Value>();
    match values.next() {
        Some(Ok(_)) => true,
        Some(Err(error)) => error.is_eof(),
        None => false,
    }
}
