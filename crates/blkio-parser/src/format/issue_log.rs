//! The five-column issue log: `nsecs, rwbs, bytes, sector, nr_sector`.

use super::{Line, MAX_LINE, Sink};
use crate::event::{Event, Symbols};
use crate::rwbs::Rwbs;
use crate::scan::Cursor;

/// Skips blanks, a comma, blanks.
#[inline]
fn separator(cursor: &mut Cursor<'_>) -> bool {
    // As the tracer writes it.
    if let [b',', b' ', rest @ ..] = cursor.rest
        && !matches!(rest, [b' ' | b'\t', ..])
    {
        cursor.rest = rest;
        return true;
    }
    cursor.blanks();
    let found = cursor.eat(b',');
    cursor.blanks();
    found
}

/// Takes the letters of an operation.
#[inline]
fn letters<'a>(cursor: &mut Cursor<'a>) -> &'a [u8] {
    let end = cursor
        .rest
        .iter()
        .position(|b| !b.is_ascii_uppercase())
        .unwrap_or(cursor.rest.len());
    let (word, rest) = cursor.rest.split_at(end);
    cursor.rest = rest;
    word
}

/// Parses the columns of an event; the reason is what is wrong.
#[inline]
fn columns(cursor: &mut Cursor<'_>, symbols: &mut Symbols) -> Result<Event, &'static str> {
    let t_ns = cursor.uint().ok_or("time above 64 bits")?;
    if !separator(cursor) {
        return Err("no comma after the time");
    }
    let rwbs = Rwbs::new(letters(cursor)).ok_or("no operation letters")?;
    if !separator(cursor) {
        return Err("no comma after the operation");
    }
    let bytes = cursor.wrapped32().ok_or("no number of bytes")?;
    if !separator(cursor) {
        return Err("no comma after the bytes");
    }
    let sector = cursor.uint().ok_or("no sector")?;
    if !separator(cursor) {
        return Err("no comma after the sector");
    }
    let nr_sector = cursor.wrapped32().ok_or("no number of sectors")?;
    // What is behind the columns is no event, whatever its letters are.
    if !matches!(cursor.peek(), None | Some(b'\n')) && !cursor.at_end() {
        return Err("more than five columns");
    }
    let found = symbols.rwbs(rwbs);
    let (rwbs, direction) = found.ok_or("too many different operations")?;
    Ok(Event {
        t_ns,
        sector,
        nr_sector,
        bytes,
        rwbs,
        direction,
        ..Event::BLANK
    })
}

/// Parses one line.
pub(super) fn line(line: &[u8], sink: &mut Sink) -> Line {
    let mut cursor = Cursor::new(line);
    cursor.blanks();
    if !cursor.peek().is_some_and(|b| b.is_ascii_digit()) {
        return Line::Not;
    }
    match columns(&mut cursor, &mut sink.symbols) {
        Ok(event) => {
            sink.events.push(event);
            Line::Event
        }
        Err(reason) => Line::Malformed(reason),
    }
}

/// Parses events as long as each line is one and nothing else, and returns the bytes read.
pub(super) fn events(block: &[u8], sink: &mut Sink) -> usize {
    let mut rest = block;
    let before = sink.events.len();
    loop {
        let mut cursor = Cursor::new(rest);
        match columns(&mut cursor, &mut sink.symbols) {
            Ok(event)
                if cursor.peek() == Some(b'\n') && rest.len() - cursor.rest.len() <= MAX_LINE =>
            {
                sink.events.push(event);
                cursor.skip(1);
                rest = cursor.rest;
            }
            _ => break,
        }
    }
    let count = (sink.events.len() - before) as u64;
    sink.counts.lines += count;
    sink.counts.event_lines += count;
    block.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Format, parse_block};

    fn parse(text: &[u8]) -> Sink {
        let mut sink = Sink::default();
        parse_block(Format::FiveColumn, text, !text.ends_with(b"\n"), &mut sink);
        sink
    }

    #[test]
    fn the_grammar_allows_blanks_and_wrapped_counters() {
        let text = b"45502109053447, W, 4096, 170104688, 8\n 45502109053447,W,4096 ,170104688\t,8 \r\n45502109053447, W, -2147483648, 100, 4194304\n45502109053447, FF, 0, 18446744073709551615, 0\n";
        let sink = parse(text);
        assert_eq!(sink.counts.event_lines, 4);
        assert_eq!(sink.events[0], sink.events[1]);
        assert_eq!(sink.events[2].bytes, 1 << 31);
        assert_eq!(sink.events[3].sector, u64::MAX);
    }

    #[test]
    fn reasons_name_line_and_byte() {
        let text = b"1, W, 4096, 8, 8\n2, R\n3 W 4096 8 8\n4, W, 4096, 8, 8, 9\n99999999999999999999999, W, 1, 1, 1\n5, w, 1, 1, 1\n\xff\xfe\n";
        let sink = parse(text);
        let found: Vec<_> = sink
            .counts
            .malformed_samples
            .iter()
            .map(|m| (m.line, m.offset, m.reason))
            .collect();
        assert_eq!(
            found,
            [
                (2, 17, "no comma after the operation"),
                (3, 22, "no comma after the time"),
                (4, 35, "more than five columns"),
                (5, 55, "time above 64 bits"),
                (6, 91, "no operation letters"),
            ]
        );
        assert_eq!((sink.counts.malformed, sink.counts.other), (5, 1));
        assert_eq!(sink.counts.lines, 7);
    }

    #[test]
    fn a_cut_number_at_the_end_is_told_from_a_whole_one() {
        assert_eq!(parse(b"1, W, 131072, 8, 256").counts.event_lines, 1);
        let cut = parse(b"1, W, 131072, 8, 25");
        assert_eq!((cut.counts.event_lines, cut.counts.malformed), (0, 1));
        assert!(cut.counts.unterminated_last_line && cut.events.is_empty());
        let shorter = parse(b"1, W, 131072, 13");
        assert_eq!(shorter.counts.malformed_samples[0].reason, "truncated");
    }
}
