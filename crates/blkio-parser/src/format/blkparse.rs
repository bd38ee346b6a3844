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
        return bare(first, &mut cursor, sink);
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

/// `SECONDS.NANOS ACTION RWBS SECTOR NR BYTES`, which is what `blkparse -f "%T.%9t %a %d %S %n %N\n"` prints.
fn bare(time: &[u8], cursor: &mut Cursor<'_>, sink: &mut Sink) -> Line {
    let Some(t_ns) = time.contains(&b'.').then(|| seconds_ns(time)).flatten() else {
        return Line::Not;
    };
    let Some(kind) = action(cursor.word()) else {
        return Line::Not;
    };
    let Some(kind) = kind else {
        return Line::Foreign;
    };
    let rwbs = Rwbs::new(cursor.word());
    let mut number = || whole_uint(cursor.word());
    let numbers = (number(), number(), number());
    let operation = rwbs.and_then(|rwbs| sink.symbols.rwbs(rwbs));
    let (Some((rwbs, direction)), (Some(sector), Some(sectors), Some(bytes)), true) =
        (operation, numbers, cursor.at_end())
    else {
        return Line::Malformed("not the columns of a blkparse line");
    };
    let (Ok(nr_sector), Ok(bytes)) = (u32::try_from(sectors), u32::try_from(bytes)) else {
        return Line::Malformed("sectors or bytes above 32 bits");
    };
    sink.events.push(Event {
        t_ns,
        sector,
        nr_sector,
        bytes,
        rwbs,
        kind,
        direction,
        ..Event::BLANK
    });
    Line::Event
}

/// Returns what the letters of an action mean, or its name, which the kernel's tracer prints with `verbose`; the inner `None` is a
/// message, which is free text.
fn action(letters: &[u8]) -> Option<Option<EventKind>> {
    Some(Some(match letters {
        b"Q" | b"queue" => EventKind::Queue,
        b"G" | b"getrq" => EventKind::GetRq,
        b"I" | b"insert" => EventKind::Insert,
        b"D" | b"issue" => EventKind::Issue,
        b"C" | b"complete" => EventKind::Complete,
        b"M" | b"F" | b"backmerge" | b"frontmerge" => EventKind::Merge,
        b"R" | b"requeue" => EventKind::Requeue,
        b"P" | b"plug" => EventKind::Plug,
        b"U" | b"UT" | b"unplug_io" | b"unplug_timer" => EventKind::Unplug,
        b"X" | b"split" => EventKind::Split,
        b"A" | b"remap" => EventKind::Remap,
        b"S" | b"B" | b"sleeprq" | b"bounce" => EventKind::Note,
        b"m" => return Some(None),
        _ => return None,
    }))
}

/// `ACTION RWBS ...`
pub(super) fn body(cursor: &mut Cursor<'_>, before: Before, sink: &mut Sink) -> Option<Line> {
    let mut word = cursor.word();
    // The control group, by its path or by two hexadecimal numbers (`blk_cgroup`, `blk_cgname` of the kernel's tracer).
    if word.starts_with(b"/") || word.contains(&b',') || word == b"<...>" {
        word = cursor.word();
    }
    let Some(kind) = action(word)? else {
        return Some(Line::Foreign);
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
            let end = memchr::memchr(b')', cursor.rest)?;
            let inside = cursor.rest.get(1..end)?;
            cursor.skip(end + 1);
            if is_elapsed(inside) {
                event.sector = number;
            } else {
                // Passthrough: bytes and the dump of the command.
                event.bytes = u32::try_from(number).ok()?;
            }
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
    if event.kind == EventKind::Remap
        && let Some(upper) = super::remapped_from(cursor.rest)
    {
        sink.counts.remapped(upper, event.dev);
    }
    bracket(cursor.rest, &mut event, sink)?;
    if event.kind == EventKind::Unplug {
        event.error = super::behind_bracket(cursor.rest);
    }
    sink.events.push(event);
    Some(Line::Event)
}

/// Returns `true` if what stands in parentheses is the time that `blkparse -t` prints, aligned to the right, and no dump of a command.
fn is_elapsed(inside: &[u8]) -> bool {
    let number = trim(inside);
    // A dump is of pairs of digits with blanks between; one of a single byte has no blank before it.
    let is_dump = number.len() == 2 && inside.len() == 2;
    !is_dump && !number.is_empty() && number.iter().all(|b| b.is_ascii_digit() || *b == b'.')
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
        let error = i32::try_from(cursor.int()?).ok()?;
        // Records have 16 bits for it, which are printed without sign.
        event.error = match u16::try_from(error) {
            Ok(error) => error.cast_signed().into(),
            Err(_) => error,
        };
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
        assert_eq!(event("8,0 0 1 0.1 7 D R 512 (12) [dd]").bytes, 512);
    }

    #[test]
    fn times_of_requests_are_no_sizes() {
        let end = event("8,0 0 1 0.1 7  C  WSM 2884304 (  123456) [0]");
        assert_eq!((end.sector, end.bytes), (2_884_304, 0));
        let end = event("8,0 0 1 0.1 7  C  WS 2884304 + 8 (  123.45) [0]");
        assert_eq!((end.sector, end.bytes), (2_884_304, 4096));
    }

    #[test]
    fn errors_are_printed_without_sign() {
        let error = |text: &str| event(&format!("8,0 0 1 0.1 7 C WS 8 + 8 [{text}]")).error;
        assert_eq!((error("65441"), error("-95"), error("0")), (-95, -95, 0));
    }

    #[test]
    fn the_format_of_bare_columns() {
        let issue = event("14.822347496 D WS 6000000000 256 131072");
        assert_eq!((issue.t_ns, issue.sector), (14_822_347_496, 6_000_000_000));
        assert_eq!((issue.nr_sector, issue.bytes), (256, 131_072));
        assert_eq!(
            event("    0.000000005 C FN 0 0 0").kind,
            EventKind::Complete
        );
        let mut sink = Sink::default();
        assert_eq!(line(b"0.1 m N 0 0 0", &mut sink), Line::Foreign);
        assert_eq!(line(b"0.1 fio 7 sda R 8 4096 0.5", &mut sink), Line::Not);
        let whole = b"14.822347496 D WS 6000000000 256 131072";
        for end in 14..whole.len() - 7 {
            let found = line(&whole[..end], &mut sink);
            assert!(matches!(found, Line::Malformed(_)), "{end}: {found:?}");
        }
        assert!(sink.events.is_empty());
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
