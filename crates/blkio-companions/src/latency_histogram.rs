//! Reads histograms printed by bpftrace and biolatency.

use crate::scan::{Cursor, trim};

/// One printed histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Printed {
    /// Its name: `usecs_by_op[RS]`, or the column heading of biolatency.
    pub name: String,
    /// Rows: lower end (`None` for everything below), end (exclusive, `None` for everything above), count.
    pub rows: Vec<(Option<i64>, Option<i64>, u64)>,
}

impl Printed {
    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        let counts = self.rows.iter().map(|row| row.2);
        counts.fold(0, u64::saturating_add)
    }

    /// Returns the row that contains a percentile by nearest rank: the value lies in this interval.
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> Option<(Option<i64>, Option<i64>)> {
        let rank = stats::nearest_rank(percentile, self.count());
        let mut seen = 0_u64;
        self.rows.iter().find_map(|(from, to, count)| {
            seen = seen.saturating_add(*count);
            (rank > 0 && seen >= rank).then_some((*from, *to))
        })
    }
}

/// Parses a number with a suffix for powers of 1,024.
fn scaled(cursor: &mut Cursor<'_>) -> Option<i64> {
    let value = cursor.int()?;
    let shift = match cursor.peek() {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        Some(b'T') => 40,
        _ => return Some(value),
    };
    cursor.skip(1);
    value.checked_mul(1 << shift)
}

/// Parses a row: `[64, 128)  32 |@@@|`, `(..., 0)`, `[2048, ...)`, `[0]`, or biolatency's
/// `64 -> 127 : 15 |***|`.
fn row(line: &[u8]) -> Option<(Option<i64>, Option<i64>, u64)> {
    let mut cursor = Cursor::new(trim(line));
    if !line.contains(&b'|') {
        return None;
    }
    let (from, to);
    if cursor.eat(b'(') {
        if !cursor.rest.starts_with(b"...,") {
            return None;
        }
        cursor.skip(4);
        cursor.blanks();
        from = None;
        to = Some(scaled(&mut cursor)?);
        if !cursor.eat(b')') {
            return None;
        }
    } else if cursor.eat(b'[') {
        let low = scaled(&mut cursor)?;
        from = Some(low);
        if cursor.eat(b']') {
            to = Some(low.checked_add(1)?);
        } else {
            if !cursor.eat(b',') {
                return None;
            }
            cursor.blanks();
            if cursor.rest.starts_with(b"...") {
                cursor.skip(3);
                to = None;
            } else {
                to = Some(scaled(&mut cursor)?);
            }
            if !(cursor.eat(b')') || cursor.eat(b']')) {
                return None;
            }
        }
    } else {
        from = Some(cursor.int()?);
        cursor.blanks();
        if !cursor.rest.starts_with(b"->") {
            return None;
        }
        cursor.skip(2);
        cursor.blanks();
        to = Some(cursor.int()?.checked_add(1)?);
        cursor.blanks();
        if !cursor.eat(b':') {
            return None;
        }
    }
    cursor.blanks();
    Some((from, to, cursor.uint()?))
}

/// Returns the count of a row, if the line is one.
pub fn row_count(line: &[u8]) -> Option<u64> {
    row(line).map(|row| row.2)
}

/// Returns `true` if a line is a row of a histogram.
pub(crate) fn is_row(line: &[u8]) -> bool {
    row(line).is_some()
}

/// Returns all histograms in a text.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Printed> {
    let mut found: Vec<Printed> = Vec::new();
    let mut name = String::new();
    let mut is_open = false;
    for line in text.split(|b| *b == b'\n') {
        let line = trim(line);
        if let Some(row) = row(line) {
            if !is_open {
                found.push(Printed {
                    name: name.clone(),
                    rows: Vec::new(),
                });
                is_open = true;
            }
            if let Some(open) = found.last_mut() {
                open.rows.push(row);
            }
            continue;
        }
        is_open = false;
        // Keys may contain colons.
        let heading = line.strip_prefix(b"@");
        if let Some(heading) = heading.and_then(|rest| rest.strip_suffix(b":")) {
            name = String::from_utf8_lossy(heading).into_owned();
        } else if let Some(end) = memchr::memmem::find(line, b": count") {
            let heading = trim(line.get(..end).unwrap_or_default());
            let unit = String::from_utf8_lossy(heading).into_owned();
            name = match name.rsplit_once(" = ") {
                Some((section, value)) => format!("{unit}[{section}={value}]"),
                None => unit,
            };
        } else if memchr::memmem::find(line, b" = ").is_some()
            // A sum of the previous histogram, printed by `biolatency -e`.
            && memchr::memmem::find(line, b", total: ").is_none()
        {
            name = String::from_utf8_lossy(line).into_owned();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_all_kinds() {
        let text = b"@usecs_by_op[RS]: \n[64, 128)   3 |@@@ |\n[2K, 4K)   9 |@@ |\n\n@lh:\n(..., 0)  1 |@ |\n[0]   2 |@ |\n[2048, ...)  4 |@ |\n     usecs               : count     distribution\n        64 -> 127        : 15       |****  |\n";
        let found = parse(text);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].name, "usecs_by_op[RS]");
        assert_eq!(found[0].rows[1], (Some(2048), Some(4096), 9));
        assert_eq!(found[0].percentile(50.0), Some((Some(2048), Some(4096))));
        assert_eq!(found[1].rows[0], (None, Some(0), 1));
        assert_eq!(found[1].rows[1], (Some(0), Some(1), 2));
        assert_eq!(found[1].rows[2], (Some(2048), None, 4));
        let keyed = parse(b"@usecs[a: b, 3]: \n[0, 1)  3 |@@@ |\n");
        assert_eq!(keyed[0].name, "usecs[a: b, 3]");
        let wild = parse(b"@w:\n[0, 1)  18446744073709551615 |@@@ |\n[1, 2)  7 |@ |\n");
        assert_eq!(wild[0].count(), u64::MAX);
        assert_eq!(wild[0].percentile(99.0), Some((Some(0), Some(1))));
        let twice = parse(b"disk = sda\n     usecs               : count     distribution\n        0 -> 1        : 3       |**|\n\navg = 7 usecs, total: 21 usecs, count: 3\n\n     usecs               : count     distribution\n        0 -> 1        : 4       |**|\n");
        assert_eq!(
            twice.iter().map(|h| h.name.as_str()).collect::<Vec<_>>(),
            ["usecs[disk=sda]", "usecs"]
        );
        assert_eq!(found[2].rows, [(Some(64), Some(128), 15)]);
        assert_eq!(found[2].name, "usecs");
    }
}
