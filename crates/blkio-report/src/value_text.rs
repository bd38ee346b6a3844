//! Writes JSON objects as indented text.

use std::io;

use report::{human, text::printable};
use serde_json::Value;

/// Returns a text without control characters, which names of processes may hold; anything else as JSON.
#[must_use]
pub fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), |text| printable(text).into_owned())
}

/// Maximum number of elements of a list that are shown as text; JSON has them all.
const SHOWN: usize = 8;

/// Returns a number in a readable unit, by the unit at the end of its name.
fn quantity(key: &str, value: &Value) -> String {
    let units = [("_ns", report::Unit::Nanos), ("bytes", report::Unit::Bytes)];
    // Times of a clock, and what lies between clocks, are no lengths.
    let is_clock = ["first_event_ns", "last_event_ns", "start_ns", "end_ns"].contains(&key)
        || key.contains("_minus_");
    let unit = units.iter().find(|(end, _)| key.ends_with(end));
    match (value.as_f64(), unit) {
        // Rates are in the units of sizes.
        (Some(number), _) if key.ends_with("bytes_per_s") => {
            human::quantity(number, report::Unit::Bytes) + "/s"
        }
        (Some(number), Some((_, unit))) if !is_clock => human::quantity(number, *unit),
        // Nobody reads sixteen digits.
        (Some(number), None) if value.is_f64() => ((number * 1e6).round() / 1e6).to_string(),
        _ => text(value),
    }
}

/// Writes the members that say something, one per line, indented by two blanks for each level.
///
/// # Errors
///
/// Those of `out`.
pub fn write_members(value: &Value, depth: usize, out: &mut impl io::Write) -> io::Result<()> {
    let indent = "  ".repeat(depth);
    if let Value::Array(items) = value {
        return list("", items, depth, out);
    }
    let Value::Object(map) = value else {
        return Ok(());
    };
    for (key, value) in map {
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Number(n) if n.as_u64() == Some(0) => {}
            Value::Object(inner) if inner.is_empty() => {}
            Value::Array(inner) if inner.is_empty() => {}
            Value::Object(_) => {
                // Nothing is said of members that say nothing.
                let mut inner = Vec::new();
                write_members(value, depth + 1, &mut inner)?;
                if !inner.is_empty() {
                    writeln!(out, "{indent}{}:", printable(key))?;
                    out.write_all(&inner)?;
                }
            }
            Value::Array(items) => list(key, items, depth, out)?,
            value => writeln!(out, "{indent}{}: {}", printable(key), quantity(key, value))?,
        }
    }
    Ok(())
}

/// Numbers on one line, texts one per line, objects one after the other; the first of them.
fn list(key: &str, items: &[Value], depth: usize, out: &mut impl io::Write) -> io::Result<()> {
    let indent = "  ".repeat(depth);
    let more = items.len().saturating_sub(SHOWN);
    let shown = items.iter().take(SHOWN);
    if items.iter().all(Value::is_number) {
        let numbers: Vec<String> = shown.map(|item| quantity(key, item)).collect();
        let rest = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        return writeln!(out, "{indent}{key}: {}{rest}", numbers.join(", "));
    }
    for item in shown {
        if item.is_object() {
            let mut inner = Vec::new();
            write_members(item, depth + 1, &mut inner)?;
            let inner = String::from_utf8_lossy(&inner);
            let dash = format!("{indent}- ");
            let head = if key.is_empty() {
                dash
            } else {
                format!("{indent}{key} - ")
            };
            write!(out, "{head}{}", inner.trim_start())?;
        } else {
            writeln!(out, "{indent}{key}: {}", text(item))?;
        }
    }
    if more > 0 {
        writeln!(out, "{indent}{key}: and {more} more")?;
    }
    Ok(())
}
