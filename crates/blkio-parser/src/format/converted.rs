//! The table that `blkio convert` writes as CSV: one event a row, columns as in [`HEADING`].

use super::{Line, Sink};
use crate::event::{Event, EventKind, NAMED_DEVICE};
use crate::rwbs::Rwbs;

/// The first line of such a table.
const HEADING: &[u8] = b"t_ns,kind,device,rwbs,direction,sector,nr_sector,bytes,cpu,pid,comm,error";
/// Number of columns.
const COLUMNS: usize = 12;

/// Parses one line.
pub(super) fn line(line: &[u8], sink: &mut Sink) -> Line {
    if line == HEADING {
        return Line::Header;
    }
    if !line.first().is_some_and(u8::is_ascii_digit) {
        return Line::Not;
    }
    match columns(line) {
        // Lines of other formats have commas, too.
        Some(columns) if columns.len() == COLUMNS => match event(&columns, sink) {
            Some(()) => Line::Event,
            None => Line::Malformed("not the columns of a row of blkio convert"),
        },
        _ => Line::Not,
    }
}

/// Returns the fields of a row, quotes taken off; `None` where a quote is not closed.
fn columns(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut columns = vec![Vec::new()];
    let mut is_quoted = false;
    let mut rest = line;
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'"' if is_quoted && rest.first() == Some(&b'"') => {
                rest = rest.get(1..).unwrap_or_default();
                columns.last_mut()?.push(b'"');
            }
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => columns.push(Vec::new()),
            byte => columns.last_mut()?.push(*byte),
        }
    }
    (!is_quoted).then_some(columns)
}

fn event(columns: &[Vec<u8>], sink: &mut Sink) -> Option<()> {
    let text = |at: usize| std::str::from_utf8(columns.get(at)?).ok();
    // What the trace did not record is empty.
    let number = |at: usize| match text(at)? {
        "" => Some(0),
        text => text.parse::<u64>().ok(),
    };
    let kind = text(1)?;
    let kind = EventKind::ALL.into_iter().find(|of| of.name() == kind)?;
    let (rwbs, direction) = sink.symbols.rwbs(Rwbs::new(columns.get(3)?)?)?;
    let dev = match columns.get(2)?.as_slice() {
        b"" => 0,
        name => match crate::scan::device(name) {
            Some(number) => number,
            None => NAMED_DEVICE | sink.symbols.comm(name),
        },
    };
    let error = match text(11)? {
        "" => 0,
        text => text.parse().ok()?,
    };
    sink.events.push(Event {
        other_ns: 0,
        t_ns: text(0)?.parse().ok()?,
        sector: number(5)?,
        nr_sector: u32::try_from(number(6)?).ok()?,
        bytes: u32::try_from(number(7)?).ok()?,
        dev,
        pid: u32::try_from(number(9)?).ok()?,
        error,
        comm: sink.symbols.comm(columns.get(10)?),
        cpu: u16::try_from(number(8)?).ok()?,
        rwbs,
        kind,
        direction,
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_what_was_recorded_and_leave_open_what_was_not() {
        let mut sink = Sink::default();
        assert_eq!(line(HEADING, &mut sink), Line::Header);
        for row in [
            &b"7,issue,259:0,RA,read,4096,8,4096,3,42,\"a \"\"b\"\", c\","[..],
            b"9,complete,259:0,RA,read,4096,8,4096,3,42,\"a \"\"b\"\", c\",-5",
            b"9,queue,dm-0,W,write,8,8,4096,,,,",
        ] {
            assert_eq!(line(row, &mut sink), Line::Event);
        }
        let [issue, complete, queue] = sink.events[..] else {
            panic!("three events");
        };
        assert_eq!(sink.symbols.comm_of(issue.comm), b"a \"b\", c");
        assert_eq!((issue.t_ns, issue.cpu, issue.pid), (7, 3, 42));
        assert_eq!((complete.kind, complete.error), (EventKind::Complete, -5));
        assert_eq!(sink.symbols.device_name(issue.dev), "259:0");
        assert_eq!(sink.symbols.device_name(queue.dev), "dm-0");
        assert_eq!((queue.cpu, queue.comm), (0, 0));
        for other in [&b"7, R, 4096, 8, 8"[..], b"7,issue", b"t,kind"] {
            assert_eq!(line(other, &mut sink), Line::Not);
        }
        assert!(matches!(
            line(b"7,eaten,259:0,R,read,8,8,4096,,,,", &mut sink),
            Line::Malformed(_)
        ));
    }
}
