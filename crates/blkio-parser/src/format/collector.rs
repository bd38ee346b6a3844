//! Lines of our collector: `I` and `C` for issue and completion, `R` for a request written when it completes, and at the
//! end the maps of requests whose completion was never seen.

use super::{Line, Sink};
use crate::event::{Event, EventKind};
use crate::rwbs::Rwbs;
use crate::scan::{Cursor, device_number, trim};

/// Returns the value up to the next comma; the comma is consumed.
fn column<'a>(cursor: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let end = memchr::memchr(b',', cursor.rest)?;
    let value = cursor.rest.get(..end)?;
    cursor.skip(end + 1);
    Some(trim(value))
}

/// Returns the comma behind a value that was read.
#[inline]
fn comma<T>(cursor: &mut Cursor<'_>, value: Option<T>) -> Option<T> {
    cursor.blanks();
    value.filter(|_| cursor.eat(b','))
}

#[inline]
fn number(cursor: &mut Cursor<'_>) -> Option<u64> {
    cursor.blanks();
    let value = cursor.uint();
    comma(cursor, value)
}

#[inline]
fn wrapped(cursor: &mut Cursor<'_>) -> Option<u32> {
    cursor.blanks();
    let value = cursor.wrapped32();
    comma(cursor, value)
}

/// Parses one line.
pub(super) fn line(line: &[u8], sink: &mut Sink) -> Line {
    let text = trim(line);
    let kind = match text {
        [b'I', b',', ..] => Some(EventKind::Issue),
        [b'C', b',', ..] => Some(EventKind::Complete),
        [b'R', b',', ..] => None,
        // Maps of other programs are what they are elsewhere: output of no interest.
        [b'@', ..] => return unfinished(text, sink).map_or(Line::Not, |()| Line::Event),
        _ => return Line::Not,
    };
    let mut cursor = Cursor::new(text.get(2..).unwrap_or_default());
    match columns(&mut cursor, kind, sink) {
        Some(()) => Line::Event,
        None => Line::Malformed("not the columns of a collector line"),
    }
}

fn columns(cursor: &mut Cursor<'_>, kind: Option<EventKind>, sink: &mut Sink) -> Option<()> {
    let issue_ns = match kind {
        Some(_) => 0,
        None => number(cursor)?,
    };
    let t_ns = number(cursor)?;
    let cpu = u16::try_from(number(cursor)?).ok()?;
    let dev = device_number(number(cursor)?, number(cursor)?)?;
    let (rwbs, direction) = sink.symbols.rwbs(Rwbs::new(column(cursor)?)?)?;
    let bytes = wrapped(cursor)?;
    let sector = number(cursor)?;
    let nr_sector = wrapped(cursor)?;
    cursor.blanks();
    let error = cursor.int();
    let error = i32::try_from(comma(cursor, error)?).ok()?;
    let pid = wrapped(cursor)?;
    // The name comes last because it may hold commas.
    let comm = sink.symbols.comm(trim(cursor.rest));
    let event = Event {
        t_ns,
        sector,
        nr_sector,
        bytes,
        dev,
        pid,
        error,
        comm,
        cpu,
        rwbs,
        other_ns: issue_ns,
        kind: kind.unwrap_or(EventKind::Complete),
        direction,
    };
    if kind.is_none() && issue_ns > 0 {
        sink.events.push(Event {
            t_ns: issue_ns,
            other_ns: t_ns,
            error: 0,
            kind: EventKind::Issue,
            // A flush is issued at no sector and completes at the last one.
            sector: if sector == u64::MAX && nr_sector == 0 {
                0
            } else {
                sector
            },
            ..event
        });
    }
    sink.events.push(event);
    Some(())
}

/// `@open[DEV, SECTOR, NR]: (ISSUE_NS, PID, BYTES, RWBS, COMM)`, an issue without completion; `@unfinished` is the same
/// with the time of issue as fourth key.
fn unfinished(text: &[u8], sink: &mut Sink) -> Option<()> {
    let is_superseded = text.starts_with(b"@unfinished[");
    let keys = text
        .strip_prefix(b"@open[")
        .or_else(|| text.strip_prefix(b"@unfinished["))?;
    let middle = memchr::memmem::find(keys, b"]: (")?;
    let (keys, values) = keys.split_at(middle);
    let mut keys = keys.split(|b| *b == b',').map(trim);
    let dev = u32::try_from(crate::scan::whole_uint(keys.next()?)?).ok()?;
    let sector = crate::scan::whole_uint(keys.next()?)?;
    let nr_sector = u32::try_from(crate::scan::whole_uint(keys.next()?)?).ok()?;
    if keys.next().is_some() != is_superseded || keys.next().is_some() {
        return None;
    }
    let mut cursor = Cursor::new(values.strip_prefix(b"]: (")?.strip_suffix(b")")?);
    let t_ns = number(&mut cursor)?;
    let pid = wrapped(&mut cursor)?;
    let bytes = wrapped(&mut cursor)?;
    let (rwbs, direction) = sink.symbols.rwbs(Rwbs::new(column(&mut cursor)?)?)?;
    let comm = sink.symbols.comm(trim(cursor.rest));
    sink.events.push(Event {
        t_ns,
        sector,
        nr_sector,
        bytes,
        dev,
        pid,
        comm,
        rwbs,
        direction,
        ..Event::BLANK
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_dialects_give_the_same_events() {
        let mut two = Sink::default();
        assert_eq!(
            line(
                b"I, 100, 1, 7, 0, WS, 4096, 64, 8, 0, 42, my, job",
                &mut two
            ),
            Line::Event
        );
        assert_eq!(
            line(
                b"C, 900, 1, 7, 0, WS, 4096, 64, 8, -5, 42, my, job",
                &mut two
            ),
            Line::Event
        );
        let mut one = Sink::default();
        assert_eq!(
            line(
                b"R, 100, 900, 1, 7, 0, WS, 4096, 64, 8, -5, 42, my, job",
                &mut one
            ),
            Line::Event
        );
        // A line of both states which belong together.
        assert_eq!((one.events[0].other_ns, one.events[1].other_ns), (900, 100));
        one.events.iter_mut().for_each(|event| event.other_ns = 0);
        assert_eq!(one.events, two.events);
        assert_eq!(one.symbols.comm_of(one.events[0].comm), b"my, job");
        assert_eq!(one.events[1].error, -5);
    }

    #[test]
    fn an_unknown_issue_gives_a_completion_only() {
        let mut sink = Sink::default();
        line(b"R, 0, 900, 1, 7, 0, WS, 0, 64, 0, 0, 0, ", &mut sink);
        assert_eq!(sink.events.len(), 1);
        assert_eq!(sink.events[0].kind, EventKind::Complete);
        assert_eq!(
            line(b"I, 100, 1, 7, 0, WS, 4096", &mut sink),
            Line::Malformed("not the columns of a collector line")
        );
    }
    #[test]
    fn what_was_open_at_the_end_is_an_issue() {
        let mut sink = Sink::default();
        let open = b"@open[7340032, 472, 8]: (1572010564881, 24700, 4096, WS, my, (job))";
        assert_eq!(line(open, &mut sink), Line::Event);
        let old = b"@unfinished[7340032, 472, 8, 99]: (99, 24700, 4096, WS, my, (job))";
        assert_eq!(line(old, &mut sink), Line::Event);
        let (open, old) = (sink.events[0], sink.events[1]);
        assert_eq!(
            (open.t_ns, open.dev, open.sector),
            (1_572_010_564_881, 7 << 20, 472)
        );
        assert_eq!((old.t_ns, old.kind), (99, EventKind::Issue));
        assert_eq!(sink.symbols.comm_of(open.comm), b"my, (job)");
        for other in [
            &b"@count: 5"[..],
            b"@open[1, 2]: (3)",
            b"@open[7340032, 472, 8]: 5",
        ] {
            assert_eq!(line(other, &mut sink), Line::Not);
        }
        assert_eq!(sink.events.len(), 2);
    }
}
