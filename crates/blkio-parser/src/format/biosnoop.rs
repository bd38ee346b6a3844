//! `biosnoop` of bcc and libbpf: one line per request, printed when it completes.

use super::{Line, Sink};
use crate::event::{Event, EventKind, NAMED_DEVICE};
use crate::num::whole;
use crate::rwbs::Rwbs;
use crate::scan::{Cursor, real, whole_uint};

/// Added to all times: the tool counts from its first line, and that request was issued before.
pub(crate) const SHIFT_NS: u64 = 1_000_000_000_000;

/// Parses one line.
pub(super) fn line(line: &[u8], sink: &mut Sink) -> Line {
    let mut cursor = Cursor::new(line);
    let mut words: Vec<&[u8]> = Vec::with_capacity(12);
    loop {
        let word = cursor.word();
        if word.is_empty() {
            break;
        }
        words.push(word);
    }
    match words.first() {
        Some(first) if first.starts_with(b"TIME(") => return Line::Header,
        Some(first) if first.first().is_some_and(u8::is_ascii_digit) => {}
        _ => return Line::Not,
    }
    match columns(&words, sink) {
        Some(()) => Line::Event,
        None => Line::Malformed("not the columns of a biosnoop line"),
    }
}

/// The columns counted from the end, because a name may hold blanks.
fn columns(words: &[&[u8]], sink: &mut Sink) -> Option<()> {
    let from_end = |n: usize| words.len().checked_sub(n).and_then(|at| words.get(at));
    let is_letters = |word: &&[u8]| Rwbs::new(word).is_some();
    // With the queue time there is one more column.
    let letters = if from_end(4).is_some_and(is_letters) {
        4
    } else {
        5
    };
    let rwbs = Rwbs::new(from_end(letters)?)?;
    let sector = match *from_end(letters - 1)? {
        b"-1" | b"?" => u64::MAX,
        text => whole_uint(text)?,
    };
    let bytes = u32::try_from(whole_uint(from_end(letters - 2)?)?).ok()?;
    let latency_ms = real(from_end(1)?)?;
    let disk = *from_end(letters + 1)?;
    let pid = u32::try_from(whole_uint(from_end(letters + 2)?)?).ok()?;
    let name = words.get(1..words.len().checked_sub(letters + 2)?)?;
    let end_ns = SHIFT_NS.checked_add(whole(real(words.first()?)? * 1e9 + 0.5))?;
    let issue_ns = end_ns.checked_sub(whole(latency_ms * 1e6 + 0.5))?;
    let (rwbs, direction) = sink.symbols.rwbs(rwbs)?;
    let comm = sink.symbols.comm(&name.join(&b' '));
    // Devices are told apart by name only.
    let dev = NAMED_DEVICE | sink.symbols.comm(disk);
    let event = Event {
        t_ns: issue_ns,
        sector,
        nr_sector: bytes.div_ceil(512),
        bytes,
        dev,
        pid,
        comm,
        rwbs,
        direction,
        ..Event::BLANK
    };
    sink.events.push(event);
    sink.events.push(Event {
        t_ns: end_ns,
        kind: EventKind::Complete,
        ..event
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_queue_time() {
        let mut sink = Sink::default();
        let rows: [&[u8]; 3] = [
            b"0.000004       supervise      1950   xvda1   W 13092560   4096       0.74",
            b"0.000178       my job         1950   xvda1   WS 13092432   4096  0.10   0.61",
            b"0.5            fio            7      sda     FF -1   0  0.05",
        ];
        for row in rows {
            assert_eq!(line(row, &mut sink), Line::Event);
        }
        assert_eq!(sink.events[1].t_ns - sink.events[0].t_ns, 740_000);
        assert_eq!(sink.events[3].t_ns - sink.events[2].t_ns, 610_000);
        assert_eq!(sink.symbols.comm_of(sink.events[2].comm), b"my job");
        assert_eq!(sink.events[2].nr_sector, 8);
        assert_ne!(sink.events[4].dev, sink.events[0].dev);
        assert_eq!(line(b"TIME(s)  COMM  PID", &mut sink), Line::Header);
        assert!(matches!(
            line(b"0.5 fio 7 sda R", &mut sink),
            Line::Malformed(_)
        ));
    }
}
