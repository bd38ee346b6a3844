//! The five-column issue log: `nsecs, rwbs, bytes, sector, nr_sector`.

use super::{Line, Sink};
use crate::event::Event;
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

/// Parses one line.
#[inline]
pub(super) fn line(line: &[u8], sink: &mut Sink) -> Line {
    let mut cursor = Cursor::new(line);
    cursor.blanks();
    if !cursor.peek().is_some_and(|b| b.is_ascii_digit()) {
        return Line::Not;
    }
    let Some(t_ns) = cursor.uint() else {
        return Line::Malformed("time above 64 bits");
    };
    if !separator(&mut cursor) {
        return Line::Malformed("no comma after the time");
    }
    let Some(rwbs) = Rwbs::new(letters(&mut cursor)) else {
        return Line::Malformed("no operation letters");
    };
    if !separator(&mut cursor) {
        return Line::Malformed("no comma after the operation");
    }
    let Some(bytes) = cursor.wrapped32() else {
        return Line::Malformed("no number of bytes");
    };
    if !separator(&mut cursor) {
        return Line::Malformed("no comma after the bytes");
    }
    let Some(sector) = cursor.uint() else {
        return Line::Malformed("no sector");
    };
    if !separator(&mut cursor) {
        return Line::Malformed("no comma after the sector");
    }
    let Some(nr_sector) = cursor.wrapped32() else {
        return Line::Malformed("no number of sectors");
    };
    if !cursor.at_end() {
        return Line::Malformed("more than five columns");
    }
    let Some((rwbs, direction)) = sink.symbols.rwbs(rwbs) else {
        return Line::Malformed("too many different operations");
    };
    sink.events.push(Event {
        t_ns,
        sector,
        nr_sector,
        bytes,
        rwbs,
        direction,
        ..Event::BLANK
    });
    Line::Event
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
