//! The body that blkparse and the ftrace `blk` tracer print, and blkparse's own line.

use super::{Line, Sink};
use crate::event::{Event, EventKind};
use crate::rwbs::Rwbs;
use crate::scan::{Cursor, device, seconds_ns, trim, whole_uint};

/// What stands before the body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) t_ns: u64,
    pub(super) dev: u32,
    pub(super) cpu: u16,
    pub(super) pid: u32,
    /// Name from the prefix, 0 if the prefix has none.
    pub(super) comm: u32,
}

/// One line of `blkparse` in its default format, or of the tracer's classic layout, which has no sequence number.
pub(super) fn line(line: &[u8], sink: &mut Sink) -> Line {
    let mut cursor = Cursor::new(line);
    let first = cursor.word();
    let Some(dev) = device(first) else {
        return Line::Not;
    };
    let malformed = Line::Malformed("not the columns of a blkparse line");
    let Some(cpu) = whole_uint(cursor.word()).and_then(|n| u16::try_from(n).ok()) else {
        return malformed;
    };
    let mut time = cursor.word();
    if !time.contains(&b'.') {
        time = cursor.word();
    }
    let Some(t_ns) = time.contains(&b'.').then(|| seconds_ns(time)).flatten() else {
        return malformed;
    };
    let Some(pid) = whole_uint(cursor.word()).and_then(|n| u32::try_from(n).ok()) else {
        return malformed;
    };
    let before = Before {
        t_ns,
        dev,
        cpu,
        pid,
        comm: 0,
    };
    body(&mut cursor, before, sink).unwrap_or(malformed)
}

/// `ACTION RWBS ...`
pub(super) fn body(cursor: &mut Cursor<'_>, before: Before, sink: &mut Sink) -> Option<Line> {
    let kind = match cursor.word() {
        b"Q" => EventKind::Queue,
        b"G" => EventKind::GetRq,
        b"I" => EventKind::Insert,
        b"D" => EventKind::Issue,
        b"C" => EventKind::Complete,
        b"M" | b"F" => EventKind::Merge,
        b"R" => EventKind::Requeue,
        b"P" => EventKind::Plug,
        b"U" | b"UT" => EventKind::Unplug,
        b"X" => EventKind::Split,
        b"A" => EventKind::Remap,
        b"S" | b"B" => EventKind::Note,
        // A message is free text.
        b"m" => return Some(Line::Foreign),
        _ => return None,
    };
    let (rwbs, direction) = sink.symbols.rwbs(Rwbs::new(cursor.word())?)?;
    let mut event = Event {
        t_ns: before.t_ns,
        sector: 0,
        dev: before.dev,
        pid: before.pid,
        comm: before.comm,
        cpu: before.cpu,
        rwbs,
        kind,
        direction,
        ..Event::BLANK
    };
    cursor.blanks();
    if cursor.peek().is_some_and(|b| b.is_ascii_digit()) {
        let number = cursor.uint()?;
        cursor.blanks();
        if cursor.peek() == Some(b'(') {
            // Passthrough: bytes and the dump of the command.
            event.bytes = u32::try_from(number).ok()?;
            let end = memchr::memchr(b')', cursor.rest)?;
            cursor.skip(end + 1);
        } else {
            event.sector = number;
            if cursor.eat(b'+') {
                cursor.blanks();
                event.nr_sector = cursor.wrapped32()?;
                event.bytes = event.nr_sector.wrapping_mul(512);
            } else if cursor.eat(b'/') {
                cursor.blanks();
                cursor.uint()?;
            }
        }
    }
    bracket(cursor.rest, &mut event, sink)?;
    sink.events.push(event);
    Some(Line::Event)
}

/// `[COMM]`, or `[ERROR]` of a completion.
fn bracket(rest: &[u8], event: &mut Event, sink: &mut Sink) -> Option<()> {
    let text = trim(rest);
    if event.kind == EventKind::Remap {
        return Some(());
    }
    let Some(open) = memchr::memchr(b'[', text) else {
        // A cut line has no bracket; only plugs may do without.
        return matches!(event.kind, EventKind::Plug | EventKind::Note).then_some(());
    };
    let close = memchr::memrchr(b']', text).filter(|close| *close > open)?;
    let inside = text.get(open + 1..close)?;
    if event.kind == EventKind::Complete {
        let mut cursor = Cursor::new(trim(inside));
        event.error = i32::try_from(cursor.int()?).ok()?;
    } else if inside != b"(null)" {
        event.comm = sink.symbols.comm(inside);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event {
        let mut sink = Sink::default();
        assert_eq!(line(text.as_bytes(), &mut sink), Line::Event, "{text}");
        sink.events[0]
    }

    #[test]
    fn lines_of_both_layouts() {
        let full = event("  7,0    1        5     0.000037285 28449  D  RM 68872 + 8 [(null)]");
        assert_eq!(
            (full.t_ns, full.sector, full.nr_sector),
            (37_285, 68_872, 8)
        );
        assert_eq!((full.pid, full.cpu, full.comm), (28_449, 1, 0));
        let classic = event("  7,0    1  1164.868519932 28449  D  RM 68872 + 8 [fio]");
        assert_eq!(classic.t_ns, 1_164_868_519_932);
        assert_eq!(classic.bytes, 4096);
        let end = event("  7,0    1     4855    14.822563486    22  C WSM 2884304 [0]");
        assert_eq!((end.sector, end.nr_sector), (2_884_304, 0));
        let failed = event("  7,0    1     4855    14.822563486    22  C  WS 2048 + 2048 [-95]");
        assert_eq!(failed.error, -95);
        assert_eq!(event("8,0 0 1 0.1 7 D R 512 (12 00) [dd]").bytes, 512);
    }

    #[test]
    fn cut_lines_are_malformed() {
        let mut sink = Sink::default();
        let whole = "  7,0    1        5     0.000037285 28449  D  RM 68872 + 8 [fio]";
        for end in 10..whole.len() {
            let found = line(&whole.as_bytes()[..end], &mut sink);
            assert!(matches!(found, Line::Malformed(_)), "{end}: {found:?}");
        }
        assert_eq!(line(b"CPU0 (blk):", &mut sink), Line::Not);
    }
}
