//! Parses and formats wall times as printed in logs.

use crate::scan::Cursor;

/// Parses `YYYY-MM-DDTHH:MM:SS[.fraction]` or `YYYY/MM/DD HH:MM:SS[.,]fraction` as nanoseconds since 1970, taken as UTC. A zone at the
/// end (`Z`, `+01:00`) is applied.
#[must_use]
pub fn parse_wall(text: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(text);
    let year = cursor.uint().filter(|y| (1970..=9999).contains(y))?;
    let separator = cursor.peek().filter(|b| matches!(b, b'-' | b'/'))?;
    cursor.skip(1);
    let month = cursor.uint().filter(|m| (1..=12).contains(m))?;
    if !cursor.eat(separator) {
        return None;
    }
    let day = cursor.uint().filter(|d| (1..=31).contains(d))?;
    if !(cursor.eat(b'T') || cursor.eat(b' ')) {
        return None;
    }
    cursor.blanks();
    let hour = cursor.uint().filter(|h| *h < 24)?;
    if !cursor.eat(b':') {
        return None;
    }
    let minute = cursor.uint().filter(|m| *m < 60)?;
    if !cursor.eat(b':') {
        return None;
    }
    let second = cursor.uint().filter(|s| *s <= 60)?;
    let mut nanos = 0;
    if cursor.eat(b'.') || cursor.eat(b',') {
        let mut scale = 1_000_000_000_u64;
        while let Some(digit) = cursor.peek().filter(u8::is_ascii_digit) {
            scale /= 10;
            nanos += u64::from(digit - b'0') * scale;
            cursor.skip(1);
        }
    }
    let seconds = days_since_1970(year, month, day)? * 86_400 + hour * 3600 + minute * 60 + second;
    let seconds = match cursor.peek() {
        Some(sign @ (b'+' | b'-')) => {
            cursor.skip(1);
            let hours = cursor.uint()?;
            let minutes = if cursor.eat(b':') { cursor.uint()? } else { 0 };
            let shift = hours * 3600 + minutes * 60;
            if sign == b'+' {
                seconds.checked_sub(shift)?
            } else {
                seconds + shift
            }
        }
        _ => seconds,
    };
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    // Years that begin in March have the leap day at their end.
    let (year, month) = if month <= 2 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1;
    days.checked_sub(719_468)
}

/// Formats nanoseconds since 1970 in UTC, to the microsecond, in the form that [`parse_wall`]
/// parses.
#[must_use]
pub fn print_wall(wall_ns: u64) -> String {
    let seconds = wall_ns / 1_000_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have the leap day at their end; four hundred of them always have
    // the same length.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!(
        "{:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}Z",
        era * 400 + year + later,
        second / 3600,
        second / 60 % 60,
        second % 60,
        wall_ns % 1_000_000_000 / 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_times_of_all_printed_kinds() {
        assert_eq!(parse_wall(b"1970-01-01T00:00:00"), Some(0));
        assert_eq!(
            parse_wall(b"2026-11-20T12:36:52.388901"),
            Some(1_795_178_212_388_901_000)
        );
        assert_eq!(
            parse_wall(b"2025/01/21 01:31:52.978"),
            parse_wall(b"2025-01-21 01:31:52,978")
        );
        assert_eq!(
            parse_wall(b"2025-01-21T02:00:00+01:00"),
            parse_wall(b"2025-01-21T01:00:00Z")
        );
        assert_eq!(
            parse_wall(b"2024-02-29T00:00:00"),
            Some(1_709_164_800_000_000_000)
        );
        assert_eq!(parse_wall(b"2025-13-01T00:00:00"), None);
        assert_eq!(parse_wall(b"2025-01-01"), None);
    }

    #[test]
    fn wall_times_are_printed_as_they_are_read() {
        assert_eq!(print_wall(0), "1970-01-01T00:00:00.000000Z");
        let leap = 1_709_164_800_000_000_000;
        assert_eq!(
            print_wall(leap + 61_000_002_999),
            "2024-02-29T00:01:01.000002Z"
        );
        // Every day of a hundred years, and the first of each century after it.
        let days = (0..36_600).chain((1..20).map(|century| century * 36_524));
        for day in days.filter(|day| *day < 213_000) {
            let wall_ns = day * 86_400_000_000_000 + 86_399_999_999_000;
            let text = print_wall(wall_ns);
            assert_eq!(parse_wall(text.as_bytes()), Some(wall_ns), "{text}");
        }
    }
}
