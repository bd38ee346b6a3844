//! Times that a log prints without a zone, put on the clock of a recording.

/// Nanoseconds of a second.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// Nanoseconds of a quarter of an hour: zones differ by whole ones.
const QUARTER: i64 = 900 * SECOND;

/// Nanoseconds of a day.
const DAY: i64 = 86_400 * SECOND;

/// What is known of the times of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printed {
    /// First and last time, in nanoseconds since 1970 as printed; of 1970 if no year is printed.
    pub(crate) span: (i64, i64),
    pub(crate) has_zone: bool,
    pub(crate) has_year: bool,
    /// By how much the log may begin later or end earlier than what it describes.
    pub(crate) slack_ns: i64,
}

/// A log on the clock of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shift {
    /// What is added to printed times for wall time.
    pub(crate) ns: i64,
    /// How it was found.
    pub(crate) how: String,
}

/// Returns what is added to the times of a log for wall time in UTC, so that the log covers an interval of wall time.
///
/// # Errors
///
/// Returns why the log cannot be placed.
pub(crate) fn place(printed: &Printed, (begin, end): (i64, i64)) -> Result<Shift, String> {
    let years: Vec<i64> = match printed.has_year {
        true => vec![0],
        false => {
            let year = year_of(begin);
            (year - 1..=year + 1)
                .map(|year| to_year(printed.span.0, year))
                .collect()
        }
    };
    let zones: Vec<i64> = match printed.has_zone {
        true => vec![0],
        false => (-56..=56).collect(),
    };
    let (first, last) = printed.span;
    let fits = |shift: i64| {
        first + shift <= begin + printed.slack_ns && end - printed.slack_ns <= last + shift
    };
    let mut found: Vec<(i64, i64)> = Vec::new();
    for year in &years {
        // A local time is ahead of UTC by its zone.
        let each = zones.iter().map(|zone| (*zone, year - zone * QUARTER));
        found.extend(each.filter(|(_, shift)| fits(*shift)));
    }
    let is_whole = |zone: i64| zone % 4 == 0;
    let utc = found.iter().find(|(zone, _)| *zone == 0);
    let mut whole = found.iter().filter(|(zone, _)| is_whole(*zone));
    let only = match (whole.next(), whole.next(), found.as_slice()) {
        (Some(one), None, _) => Some(one),
        (None, _, [one]) => Some(one),
        _ => None,
    };
    let zone = |zone: i64| {
        let (sign, zone) = if zone < 0 { ('-', -zone) } else { ('+', zone) };
        match zone % 4 {
            0 => format!("UTC{sign}{}", zone / 4),
            part => format!("UTC{sign}{}:{:02}", zone / 4, part * 15),
        }
    };
    match (utc, only) {
        (Some((_, ns)), _) if printed.has_zone => Ok(Shift {
            ns: *ns,
            how: "by the zone that its times state".to_owned(),
        }),
        (Some((_, ns)), _) => Ok(Shift {
            ns: *ns,
            how: "its times state no zone and are taken as UTC".to_owned(),
        }),
        (None, Some((found, ns))) => Ok(Shift {
            ns: *ns,
            how: format!(
                "its times state no zone and are taken as {}, the only full hour in which they cover the recording",
                zone(*found)
            ),
        }),
        (None, None) if found.is_empty() => {
            Err("its times do not cover the recording, in no zone".to_owned())
        }
        (None, None) => Err(format!(
            "its times state no zone, and {} zones fit",
            found.len()
        )),
    }
}

fn is_leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

/// Days from 1970 to the first day of a year.
fn days_to(year: i64) -> i64 {
    let before =
        |year: i64| (year - 1) * 365 + (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400;
    before(year) - before(1970)
}

fn year_of(ns: i64) -> i64 {
    let days = ns.div_euclid(DAY);
    let guess = 1970 + days * 400 / 146_097;
    match (days_to(guess) > days, days_to(guess + 1) <= days) {
        (true, _) => guess - 1,
        (_, true) => guess + 1,
        _ => guess,
    }
}

/// Returns what is added to a time of 1970 for the same date of another year.
fn to_year(ns: i64, year: i64) -> i64 {
    // From March on, a leap year is a day ahead.
    let is_later = ns.div_euclid(DAY) >= 59;
    (days_to(year) + i64::from(is_leap(year) && is_later)) * DAY
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `date -u -d '2026-11-26 18:00:00' +%s` prints it.
    const EVENING: i64 = 1_795_716_000 * SECOND;

    fn printed(from_s: i64, to_s: i64) -> Printed {
        Printed {
            span: (EVENING + from_s * SECOND, EVENING + to_s * SECOND),
            has_zone: false,
            has_year: true,
            slack_ns: SECOND,
        }
    }

    #[test]
    fn zones_are_those_in_which_the_log_covers_the_recording() {
        let recording = (EVENING, EVENING + 10 * SECOND);
        let of = |from, to| place(&printed(from, to), recording);
        assert_eq!(of(-60, 60).map(|shift| shift.ns), Ok(0));
        // Printed 8 hours ahead.
        let ahead = of(8 * 3600 - 60, 8 * 3600 + 60).unwrap();
        assert_eq!(ahead.ns, -8 * 3600 * SECOND);
        assert!(ahead.how.contains("UTC+8,"), "{}", ahead.how);
        let half = of(-60 + 19_800, 60 + 19_800).unwrap();
        assert!(half.how.contains("UTC+5:30"), "{}", half.how);
        // Of a day that covers the recording in many zones, but not in UTC.
        assert!(of(3_600, 36_000).unwrap_err().contains("zones fit"));
        assert!(of(100_000, 100_060).is_err());
        let zoned = Printed {
            has_zone: true,
            ..printed(8 * 3600 - 60, 8 * 3600 + 60)
        };
        assert!(place(&zoned, recording).is_err());
    }

    #[test]
    fn dates_without_a_year_are_of_the_recording_or_its_neighbours() {
        for (year, leap) in [(2024, 1), (2026, 0)] {
            let day = days_to(year) + 200 + leap;
            let recording = (day * DAY, day * DAY + SECOND);
            let printed = Printed {
                span: (200 * DAY - SECOND, 200 * DAY + 2 * SECOND),
                has_year: false,
                ..printed(0, 0)
            };
            assert_eq!(place(&printed, recording).unwrap().ns, (day - 200) * DAY);
        }
        // 1 January 2000 and 31 December 2023.
        assert_eq!((days_to(2000), year_of(19_722 * DAY)), (10_957, 2023));
        assert_eq!(year_of(19_723 * DAY), 2024);
    }
}
