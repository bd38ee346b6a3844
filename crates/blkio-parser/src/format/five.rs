//! The five-column issue log: `nsecs, rwbs, bytes, sector, nr_sector`.

use super::{Format, Line, Sink, one_line};
use crate::event::Event;
use crate::rwbs::{Direction, Rwbs};
use crate::scan::Cursor;

/// Skips blanks, a comma, blanks.
#[inline]
fn separator(cursor: &mut Cursor<'_>) -> bool {
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

/// The value of eight decimal digits, the first in the lowest byte: pairs, then fours, then all.
#[inline(always)]
fn eight(digits: u64) -> u64 {
    const PAIRS: u64 = 0x0000_00ff_0000_00ff;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let low = (pairs & PAIRS).wrapping_mul(100 + (1_000_000 << 32));
    let high = ((pairs >> 16) & PAIRS).wrapping_mul(1 + (10_000 << 32));
    low.wrapping_add(high) >> 32
}

/// Reads digits from `at`, eight at a time where there is room; gives the value and where they end. Wraps beyond 19 digits,
/// which the caller leaves to the slow way.
#[inline(always)]
fn digits(block: &[u8], mut at: usize) -> (u64, usize) {
    const TENS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    let mut value = 0_u64;
    while let Some(text) = block.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let digits = u64::from_le_bytes(*text) ^ 0x3030_3030_3030_3030;
        // The top bit of each byte that is no digit; a carry only reaches bytes behind the first of them.
        let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
        if others == 0 {
            value = value.wrapping_mul(100_000_000).wrapping_add(eight(digits));
            at += 8;
            continue;
        }
        let count = others.trailing_zeros() >> 3;
        if count == 0 {
            return (value, at);
        }
        let count = count as usize;
        let scale = TENS.get(count).copied().unwrap_or(1);
        value = value
            .wrapping_mul(scale)
            .wrapping_add(eight(digits << (64 - 8 * count)));
        return (value, at + count);
    }
    while let Some(byte) = block.get(at) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    (value, at)
}

/// Operation letters that were seen before, with the comma and blank behind them.
#[derive(Clone, Copy, Default)]
struct Seen {
    text: u64,
    mask: u64,
    /// Bytes of `text`.
    length: usize,
    operation: Option<(u16, Direction)>,
}

/// The last of them. Few operations make up nearly all lines.
#[derive(Default)]
struct Recent {
    seen: [Seen; 4],
    oldest: usize,
}

impl Recent {
    /// The operation at `at`, and where the number behind it begins.
    #[inline(always)]
    fn operation(&self, block: &[u8], at: usize) -> Option<((u16, Direction), usize)> {
        let text = block.get(at..)?.first_chunk::<8>()?;
        let text = u64::from_le_bytes(*text);
        let seen = self
            .seen
            .iter()
            .find(|seen| text & seen.mask == seen.text)?;
        Some((seen.operation?, at + seen.length))
    }

    /// Remembers the operation of a line that is an event.
    fn learn(&mut self, line: &[u8], event: &Event) {
        let mut columns = line.split_inclusive(|byte| *byte == b' ');
        let letters = columns.nth(1).filter(|column| column.ends_with(b", "));
        let Some(letters) = letters.filter(|column| column.len() <= 8) else {
            return;
        };
        let mut text = [0; 8];
        for (to, from) in text.iter_mut().zip(letters) {
            *to = *from;
        }
        if let Some(seen) = self.seen.get_mut(self.oldest) {
            *seen = Seen {
                text: u64::from_le_bytes(text),
                mask: u64::MAX >> (64 - 8 * letters.len()),
                length: letters.len(),
                operation: Some((event.rwbs, event.direction)),
            };
            self.oldest = (self.oldest + 1) % self.seen.len();
        }
    }
}

/// A line in the tracer's own layout with an operation that was seen before, from its first byte to behind its line feed.
/// What is written in any other way is left to [`fn@line`], which knows the whole grammar.
#[inline(always)]
fn usual(block: &[u8], start: usize, recent: &Recent, sink: &mut Sink) -> Option<usize> {
    let (t_ns, at) = digits(block, start);
    let time_digits = at - start;
    if time_digits == 0 || time_digits > 19 || block.get(at..at + 2)? != b", " {
        return None;
    }
    let ((rwbs, direction), bytes_start) = recent.operation(block, at + 2)?;
    let (bytes, at) = digits(block, bytes_start);
    if at == bytes_start || at - bytes_start > 10 || block.get(at..at + 2)? != b", " {
        return None;
    }
    let sector_start = at + 2;
    let (sector, at) = digits(block, sector_start);
    if at == sector_start || at - sector_start > 19 || block.get(at..at + 2)? != b", " {
        return None;
    }
    let count_start = at + 2;
    let (count, at) = digits(block, count_start);
    if at == count_start || at - count_start > 10 || *block.get(at)? != b'\n' {
        return None;
    }
    let bytes = u32::try_from(bytes).ok()?;
    let nr_sector = u32::try_from(count).ok()?;
    sink.events.push(Event {
        t_ns,
        sector,
        nr_sector,
        bytes,
        rwbs,
        direction,
        ..Event::BLANK
    });
    Some(at + 1)
}

/// Parses a block of whole lines.
pub(super) fn block(block: &[u8], sink: &mut Sink) {
    sink.events.reserve(block.len() / 36);
    let mut recent = Recent::default();
    let mut start = 0;
    let mut usual_lines = 0;
    while start < block.len() {
        if let Some(next) = usual(block, start, &recent, sink) {
            usual_lines += 1;
            start = next;
            continue;
        }
        let rest = block.get(start..).unwrap_or_default();
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        // Line numbers of malformed lines count the usual ones, too.
        sink.counts.lines += usual_lines;
        sink.counts.event_lines += usual_lines;
        usual_lines = 0;
        let line = rest.get(..end).unwrap_or_default();
        let before = sink.events.len();
        one_line(Format::FiveColumn, line, start, false, sink);
        if let Some(event) = sink.events.get(before) {
            recent.learn(line, event);
        }
        start += end + 1;
    }
    sink.counts.lines += usual_lines;
    sink.counts.event_lines += usual_lines;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::parse_block;

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

    #[test]
    fn the_quick_way_and_the_grammar_agree() {
        let lines: [&[u8]; 6] = [
            b"1, R, 1, 2, 3",
            b"18446744073709551615, RA, 4294967295, 18446744073709551615, 4294967295",
            b"1, R, 4294967296, 2, 3",
            b"1, R, 1, 2, ",
            b"1, , 1, 2, 3",
            b"7, ABCDEFGHIJKLMNOP, 1, 2, 3",
        ];
        for text in lines {
            let mut quick = Sink::default();
            let block = [text, b"\n"].concat();
            super::block(&block, &mut quick);
            let mut slow = Sink::default();
            super::super::lines(Format::FiveColumn, &block, false, &mut slow);
            assert_eq!(quick.events, slow.events);
            assert_eq!(quick.counts, slow.counts);
        }
    }

    proptest::proptest! {
        #[test]
        fn eight_digits_at_a_time_are_those_of_the_grammar(
            numbers in proptest::collection::vec((0_u64..u64::MAX, 0_u32..64, 0_usize..7), 1..60)
        ) {
            let operations = ["R", "RA", "W", "WS", "FWFSM", "ABCDEFGH", "D"];
            let mut text = String::new();
            for (number, shift, operation) in numbers {
                let n = number >> shift;
                let operation = operations[operation];
                text += &format!("{n}, {operation}, {}, {n}, {}\n", n % 5_000_000_000, n & 0xffff);
            }
            let mut quick = Sink::default();
            super::block(text.as_bytes(), &mut quick);
            let mut slow = Sink::default();
            super::super::lines(Format::FiveColumn, text.as_bytes(), false, &mut slow);
            proptest::prop_assert_eq!(quick.events, slow.events);
            proptest::prop_assert_eq!(quick.counts, slow.counts);
        }
    }
}
