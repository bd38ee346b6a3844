//! Times that lines of logs begin with.

/// How the times of a log are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LogClock {
    /// With a date of a year; else they are of 1970.
    pub has_year: bool,
    /// With a zone, which is applied; else they are local times, taken as UTC.
    pub has_zone: bool,
    /// Last digit.
    pub resolution_ns: i64,
}

/// Returns nanoseconds since 1970 of the first clock time of a line (`15:32:54`, with a fraction after `.` or `,`, and a zone), with
/// the date before it if there is one (`2025-07-18`, `2025/07/18`, `07-18`).
pub(crate) fn log_clock(line: &str) -> Option<(i64, LogClock)> {
    let bytes = line.as_bytes();
    let is_time = |w: &[u8]| {
        w.iter().enumerate().all(|(at, b)| match at {
            2 | 5 => *b == b':',
            _ => b.is_ascii_digit(),
        })
    };
    let at = bytes.windows(8).position(is_time)?;
    let number = |text: &str| text.parse::<i64>().ok();
    let clock = line.get(at..at + 8)?;
    let mut parts = clock.split(':').filter_map(number);
    let seconds = parts.next()? * 3600 + parts.next()? * 60 + parts.next()?;
    let rest = line.get(at + 8..)?;
    let (nanos, resolution_ns, rest) = fraction(rest);
    let zone = zone_s(rest);
    let date = line.get(..at)?.trim_end_matches([' ', 'T']);
    let is_date = |c: char| c.is_ascii_digit() || c == '-' || c == '/';
    let start = date.rfind(|c| !is_date(c)).map_or(0, |before| {
        // The character before the date may have several bytes.
        before + date[before..].chars().next().map_or(1, char::len_utf8)
    });
    let date: Vec<i64> = date
        .get(start..)?
        .split(['-', '/'])
        .filter_map(number)
        .collect();
    let (days, has_year) = match date[..] {
        [year, month, day] => (days(year, month, day), true),
        [month, day] => (days(1970, month, day), false),
        _ => (0, false),
    };
    let seconds = days.checked_mul(86_400)?.checked_add(seconds)?;
    let seconds = seconds.checked_sub(zone.unwrap_or(0))?;
    let ns = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    let clock = LogClock {
        has_year,
        has_zone: zone.is_some(),
        resolution_ns,
    };
    Some((ns, clock))
}

/// Returns the nanoseconds of a fraction, the value of its last digit, and what follows it.
fn fraction(text: &str) -> (i64, i64, &str) {
    const SECOND: (i64, i64) = (0, 1_000_000_000);
    let Some(digits) = text.strip_prefix(['.', ',']) else {
        return (SECOND.0, SECOND.1, text);
    };
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let (mut nanos, mut scale) = SECOND;
    for digit in digits[..end].bytes().take(9) {
        scale /= 10;
        nanos += i64::from(digit - b'0') * scale;
    }
    match end {
        0 => (SECOND.0, SECOND.1, text),
        _ => (nanos, scale, &digits[end..]),
    }
}

/// Returns the seconds by which a zone (`Z`, `+01:00`, `-0800`) is ahead of UTC.
fn zone_s(text: &str) -> Option<i64> {
    if text.starts_with('Z') {
        return Some(0);
    }
    let sign = match text.bytes().next()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let number = |at: usize| {
        let two = text.get(at..at + 2)?;
        two.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
        two.parse::<i64>().ok()
    };
    let hours = number(1)?;
    let minutes = number(3).or_else(|| number(4)).unwrap_or(0);
    Some(sign * (hours * 3600 + minutes * 60))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar (Hinnant 2013); of a date that does not exist any number.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year.clamp(0, 9999) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let months = (month.clamp(1, 12) + 9) % 12;
    let of_year = (153 * months + 2) / 5 + day.clamp(1, 31) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_zones_and_dates() {
        let ns = |line: &str| log_clock(line).map(|(ns, _)| ns);
        // As `date -u -d 2025-07-18T15:32:54 +%s` prints it.
        let whole = 1_752_852_774_000_000_000;
        assert_eq!(ns("[2025-07-18 15:32:54 TP0] x"), Some(whole));
        assert_eq!(ns("2025/07/18 15:32:54,159 x"), Some(whole + 159_000_000));
        assert_eq!(
            ns("2025-07-18T16:32:54.25+01:00 x"),
            Some(whole + 250_000_000)
        );
        assert_eq!(ns("2025-07-18T15:32:54Z x"), Some(whole));
        assert_eq!(ns("\u{e9}\u{2026}00:00:07"), Some(7_000_000_000));
        let clock = |line: &str| log_clock(line).map(|(_, clock)| clock).unwrap();
        assert_eq!(clock("2025-07-18 15:32:54,159 x").resolution_ns, 1_000_000);
        let zones = ["12:00:00Z", "12:00:00 x", "12:00:00-0800", "12:00:00. x"];
        assert_eq!(
            zones.map(|line| clock(line).has_zone),
            [true, false, true, false]
        );
    }
}
