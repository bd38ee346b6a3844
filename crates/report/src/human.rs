//! Formats numbers for text output: scaled units with about four significant digits. Not for
//! machine formats.

use crate::cell::Cell;
use crate::column::{Column, RealFormat, Unit};
use crate::number::real_text;

/// Text for null in text output.
pub const NULL: &str = "-";

/// Formats a duration in nanoseconds: `999 ns`, `1.235 ms`, `59.00 s`, `12 min 05 s`, `3 h 25 min`,
/// `2 d 03 h`.
///
/// ```
/// assert_eq!(report::human::duration(1_234_567.0), "1.235 ms");
/// ```
#[must_use]
pub fn duration(ns: f64) -> String {
    if !ns.is_finite() || ns.abs() < 119.5e9 {
        return scaled(ns, &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")]);
    }
    let sign = if ns < 0.0 { "-" } else { "" };
    let seconds = (ns.abs() / 1e9).round();
    let (large, small, ratio, names) = if seconds < 7200.0 {
        (seconds / 60.0, seconds, 60.0, ("min", "s"))
    } else if seconds < 172_800.0 {
        (seconds / 3600.0, seconds / 60.0, 60.0, ("h", "min"))
    } else {
        (seconds / 86_400.0, seconds / 3600.0, 24.0, ("d", "h"))
    };
    format!(
        "{sign}{} {} {:02} {}",
        large.floor(),
        names.0,
        (small % ratio).floor(),
        names.1
    )
}

/// Formats a size in bytes in binary units: `512 B`, `1.500 KiB`, `1023 MiB`.
#[must_use]
pub fn bytes(bytes: f64) -> String {
    const K: f64 = 1024.0;
    let steps = [
        (1.0, "B"),
        (K, "KiB"),
        (K * K, "MiB"),
        (K * K * K, "GiB"),
        (K * K * K * K, "TiB"),
        (K * K * K * K * K, "PiB"),
    ];
    scaled(bytes, &steps)
}

/// Formats bytes per second in decimal units, as bandwidths are quoted: `12.50 GB/s`.
#[must_use]
pub fn byte_rate(bytes_per_s: f64) -> String {
    scaled(
        bytes_per_s,
        &[
            (1.0, "B/s"),
            (1e3, "kB/s"),
            (1e6, "MB/s"),
            (1e9, "GB/s"),
            (1e12, "TB/s"),
        ],
    )
}

/// Formats percent with two decimals: `12.50 %`; a nonzero value that would round to zero is
/// `<0.01 %`.
#[must_use]
pub fn percent(pct: f64) -> String {
    if pct != 0.0 && pct.abs() < 0.005 {
        return if pct < 0.0 {
            ">-0.01 %".to_owned()
        } else {
            "<0.01 %".to_owned()
        };
    }
    format!("{pct:.2} %")
}

/// Formats a whole number in groups of three digits: `1,234,567`.
///
/// ```
/// assert_eq!(report::human::count(-1_234_567), "-1,234,567");
/// ```
#[must_use]
pub fn count(value: impl Into<i128>) -> String {
    let value = value.into();
    let digits = value.unsigned_abs().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if value < 0 {
        out.push('-');
    }
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with decimal prefixes: `950`, `1.235 k`, `12.50 M`, `3.000 G`.
#[must_use]
pub fn short_count(value: f64) -> String {
    scaled(
        value,
        &[(1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")],
    )
}

/// Formats a value of a column for text output: scaled by the column's unit, unless the column has
/// a real format. Text is returned as it is, unescaped.
#[must_use]
pub fn cell(column: &Column, cell: Cell<'_>) -> String {
    let number = match cell {
        Cell::Null => return NULL.to_owned(),
        Cell::Text(text) => return text.to_owned(),
        Cell::Bool(value) => return if value { "yes" } else { "no" }.to_owned(),
        Cell::Real(value) => match column.real_format() {
            Some(format) => return real_text(value, format),
            None => value,
        },
        Cell::Int(value) if matches!(column.unit_of(), Unit::Count) => return count(value),
        Cell::UInt(value) if matches!(column.unit_of(), Unit::Count) => return count(value),
        Cell::Int(value) if matches!(column.unit_of(), Unit::None) => return value.to_string(),
        Cell::UInt(value) if matches!(column.unit_of(), Unit::None) => return value.to_string(),
        Cell::Int(value) => value as f64,
        Cell::UInt(value) => value as f64,
    };
    quantity(number, column.unit_of())
}

/// Formats a number with its unit, as the functions of this module do.
#[must_use]
pub fn quantity(value: f64, unit: Unit) -> String {
    match unit {
        Unit::None => plain(value),
        Unit::Nanos => duration(value),
        Unit::Seconds => duration(value * 1e9),
        Unit::Bytes => bytes(value),
        Unit::BytesPerSecond => byte_rate(value),
        Unit::Pct => percent(value),
        Unit::Count => short_count(value),
        Unit::PerSecond => {
            let text = short_count(value);
            format!("{text}{}/s", if text.contains(' ') { "" } else { " " })
        }
    }
}

/// Formats a real without a unit, to four significant digits unless it is whole.
fn plain(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || (size < 1e15 && value.fract() == 0.0) {
        real_text(value, RealFormat::Shortest)
    } else if (1e-4..1e15).contains(&size) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "between -4 and 15 by the range above"
        )]
        let exponent = size.log10().floor() as i32;
        let decimals = u8::try_from(3 - exponent).unwrap_or(0);
        real_text(value, RealFormat::Fixed(decimals))
    } else {
        format!("{value:.3e}")
    }
}

/// Picks the largest step not above the rounded value; whole numbers in the first step stay whole.
fn scaled(value: f64, steps: &[(f64, &str)]) -> String {
    let Some(&(base, base_name)) = steps.first() else {
        return real_text(value, RealFormat::Shortest);
    };
    if !value.is_finite() {
        return real_text(value, RealFormat::Shortest);
    }
    let mut chosen = (value, 0, base_name);
    for (index, &(step, name)) in steps.iter().enumerate() {
        let shown = value / step;
        let decimals = decimals(shown);
        chosen = (shown, decimals, name);
        let limit = steps
            .get(index + 1)
            .map_or(f64::INFINITY, |next| next.0 / step);
        let power = 10_f64.powi(i32::from(decimals));
        let rounded = (shown.abs() * power).round() / power;
        if step <= base && value.fract() == 0.0 {
            chosen.1 = 0;
        }
        if rounded < limit {
            break;
        }
    }
    let (shown, decimals, name) = chosen;
    let gap = if name.is_empty() { "" } else { " " };
    format!("{shown:.*}{gap}{name}", usize::from(decimals))
}

/// Returns the decimals for four significant digits, determined after rounding, so that 9.9996 is
/// `10.00`.
fn decimals(value: f64) -> u8 {
    match value.abs() {
        size if size < 9.9995 => 3,
        size if size < 99.995 => 2,
        size if size < 999.95 => 1,
        _ => 0,
    }
}
