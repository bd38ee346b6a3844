//! The five-column issue log: `nsecs, rwbs, bytes, sector, nr_sector`.

use wide::u8x16;

use super::{Format, Line, Sink, read_line};
use crate::event::Event;
use crate::num::{low32, spread};
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

/// Operation letters that were seen before.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// At most eight letters, the first in the lowest byte.
    text: u64,
    operation: Option<(u16, Direction)>,
}

/// Bits of the number of texts that are remembered: many more than the operations of any trace, so that hardly two share a
/// place.
const SEEN_BITS: u32 = 7;

/// The last of them, by a hash of the text.
struct Recent {
    seen: [Seen; 1 << SEEN_BITS],
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            seen: [Seen::default(); 1 << SEEN_BITS],
        }
    }
}

impl Recent {
    #[inline(always)]
    fn operation(&self, text: u64) -> Option<(u16, Direction)> {
        let seen = self.seen.get(spread(text, SEEN_BITS))?;
        seen.operation.filter(|_| seen.text == text)
    }

    /// Remembers the operation of a line that is an event.
    fn learn(&mut self, line: &[u8], event: &Event) {
        let column = line.split(|byte| *byte == b',').nth(1);
        let Some(letters) = column.map(<[u8]>::trim_ascii).filter(|l| l.len() <= 8) else {
            return;
        };
        let mut text = [0; 8];
        text.iter_mut()
            .zip(letters)
            .for_each(|(to, from)| *to = *from);
        let text = u64::from_le_bytes(text);
        if let Some(seen) = self.seen.get_mut(spread(text, SEEN_BITS)) {
            *seen = Seen {
                text,
                operation: Some((event.rwbs, event.direction)),
            };
        }
    }
}

/// Bytes of a line that are looked at together; few lines are longer.
const LINE: usize = 64;

/// A line and what is behind it, so that eight bytes can be read from anywhere in it.
type Window = [u8; LINE + 8];

/// The places of a line, as bits, where no digit or letter is: blanks, commas, line feeds.
#[inline(always)]
fn separators(window: &Window) -> u64 {
    let (parts, _) = window.as_chunks::<16>();
    let largest = u8x16::splat(b'0' - 1);
    parts.iter().rev().fold(0, |bits, part| {
        let part = u8x16::new(*part);
        bits << 16 | u64::from(part.min(largest).simd_eq(part).to_bitmask())
    })
}

/// The lowest bit's place, which is taken off.
#[inline(always)]
fn next_place(bits: &mut u64) -> usize {
    let place = bits.trailing_zeros() as usize;
    *bits &= bits.wrapping_sub(1);
    place
}

/// `N` bytes of a window, from a place below [`LINE`].
#[inline(always)]
fn bytes_at<const N: usize>(window: &Window, place: usize) -> [u8; N] {
    let rest = window.get(place % LINE..).unwrap_or_default();
    rest.first_chunk().copied().unwrap_or([0; N])
}

/// The number of up to eight digits, the first in the lowest byte and the last in the highest, zeros for those that are
/// missing. The top bit of a byte of `wrong` is set when it is no digit.
#[inline(always)]
fn checked(digits: u64, wrong: &mut u64) -> u64 {
    // A carry only reaches bytes behind the first that is no digit.
    *wrong |= digits.wrapping_add(0x7676_7676_7676_7676) | digits;
    eight(digits)
}

/// Characters as digits.
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The last `length` digits that end before `end`, at most eight; eight bytes are read, whatever they are.
#[inline(always)]
fn last_eight(window: &Window, end: usize, length: usize, wrong: &mut u64) -> u64 {
    let text = u64::from_le_bytes(bytes_at(window, end.wrapping_sub(8)));
    let others = 8_usize.saturating_sub(length) % 8 * 8;
    checked((text ^ ZEROS) & u64::MAX << others, wrong)
}

/// A number of 1 to 24 digits that ends before `end`, with at least eight bytes before its last eight; wraps beyond 64 bits.
#[inline(always)]
fn ending(window: &Window, end: usize, length: usize, wrong: &mut u64) -> u64 {
    let mut value = last_eight(window, end, length, wrong);
    if length > 8 {
        let high = last_eight(window, end - 8, length - 8, wrong);
        value = high.wrapping_mul(100_000_000).wrapping_add(value);
    }
    if length > 16 {
        let high = last_eight(window, end - 16, length - 16, wrong);
        value = high
            .wrapping_mul(10_000_000_000_000_000)
            .wrapping_add(value);
    }
    value
}

/// The number of 8 to 24 digits that the window begins with; wraps beyond 64 bits.
#[inline(always)]
fn beginning(window: &Window, length: usize, wrong: &mut u64) -> u64 {
    let mut low = last_eight(window, length, 8, wrong);
    let mut first = length - 8;
    if first > 8 {
        let middle = last_eight(window, first, 8, wrong);
        low = middle.wrapping_mul(100_000_000).wrapping_add(low);
        first -= 8;
    }
    let text = u64::from_le_bytes(bytes_at(window, 0)) ^ ZEROS;
    // Two shifts, because one by 64 is none.
    let high = checked(text << (32 - first * 4) << (32 - first * 4), wrong);
    let scale = if length > 16 {
        10_000_000_000_000_000
    } else {
        100_000_000
    };
    high.wrapping_mul(scale).wrapping_add(low)
}

/// A line in the tracer's own layout with an operation that was seen before, from its first byte to behind its line feed.
/// What is written in any other way is left to [`fn@line`], which knows the whole grammar.
///
/// Where the columns are is known from all separators at once, so no number has to wait for the end of the one before.
#[inline(always)]
fn usual(window: &Window, recent: &Recent) -> Option<(Event, usize)> {
    let mut bits = separators(window);
    let mut right = true;
    let mut column_end = || {
        let comma = next_place(&mut bits);
        let _blank = next_place(&mut bits);
        right &= bytes_at(window, comma) == *b", ";
        comma
    };
    let time_end = column_end();
    let letters_end = column_end();
    let bytes_end = column_end();
    let sector_end = column_end();
    let count_end = next_place(&mut bits);
    right &= bytes_at(window, count_end) == *b"\n";
    let letters = letters_end.wrapping_sub(time_end + 2);
    let bytes_length = bytes_end.wrapping_sub(letters_end + 2);
    let sector_length = sector_end.wrapping_sub(bytes_end + 2);
    let count_length = count_end.wrapping_sub(sector_end + 2);
    if !right
        // Eight bytes are read before the end of each number.
        || !(8..=19).contains(&time_end)
        || !(1..=8).contains(&letters)
        || !(1..=8).contains(&bytes_length)
        || !(1..=19).contains(&sector_length)
        || !(1..=8).contains(&count_length)
    {
        return None;
    }
    let text =
        u64::from_le_bytes(bytes_at(window, time_end + 2)) & (u64::MAX >> (64 - 8 * letters));
    let (rwbs, direction) = recent.operation(text)?;
    let mut wrong = 0;
    let event = Event {
        t_ns: beginning(window, time_end, &mut wrong),
        sector: ending(window, sector_end, sector_length, &mut wrong),
        nr_sector: low32(last_eight(window, count_end, count_length, &mut wrong)),
        bytes: low32(last_eight(window, bytes_end, bytes_length, &mut wrong)),
        rwbs,
        direction,
        ..Event::BLANK
    };
    (wrong & 0x8080_8080_8080_8080 == 0).then_some((event, count_end + 1))
}

/// Parses a block of whole lines.
pub(super) fn block(block: &[u8], sink: &mut Sink) {
    sink.events.reserve(block.len() / 36);
    let mut recent = Recent::default();
    let mut start = 0;
    let mut usual_lines = 0;
    while start < block.len() {
        let window = block.get(start..).and_then(<[u8]>::first_chunk);
        if let Some((event, length)) = window.and_then(|window| usual(window, &recent)) {
            sink.events.push(event);
            usual_lines += 1;
            start += length;
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
        read_line(Format::FiveColumn, line, start as u64, false, sink);
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
