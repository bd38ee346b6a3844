//! Writes many copies of one Kineto trace in sequence: each is shifted in time and has its own ids,
//! all other bytes are unchanged.

use super::Written;
use anyhow::{Context as _, Result, bail};
use std::io::{Read as _, Write};
use std::path::Path;

/// A number in the text of an event that differs between copies.
struct Number {
    /// Position of its integer part in the events' text.
    start: usize,
    end: usize,
    value: u64,
    /// `true` for a time in microseconds, `false` for an id.
    time: bool,
}

/// The events' text and the numbers that change in it.
struct Template<'a> {
    events: &'a [u8],
    numbers: Vec<Number>,
    written: Written,
}

/// Writes `count` copies of the events of `source` as one trace.
pub(super) fn write(source: &Path, count: u64, out: &mut dyn Write) -> Result<Written> {
    let mut text =
        std::fs::read(source).with_context(|| format!("reading {}", source.display()))?;
    if text.starts_with(&[0x1f, 0x8b]) {
        let mut inner = Vec::new();
        flate2::read::MultiGzDecoder::new(text.as_slice()).read_to_end(&mut inner)?;
        text = inner;
    }
    let key = b"\"traceEvents\"";
    let at = text
        .windows(key.len())
        .position(|window| window == key)
        .context("the source has no traceEvents")?;
    let open = at
        + text[at..]
            .iter()
            .position(|&b| b == b'[')
            .context("traceEvents is no array")?;
    let (template, end) = scan(&text, open + 1)?;
    let times = || {
        template
            .numbers
            .iter()
            .filter(|number| number.time)
            .map(|number| number.value)
    };
    let ids = template
        .numbers
        .iter()
        .filter(|number| !number.time)
        .map(|number| number.value);
    let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    // A round distance after the last start; long slices at the end may extend into the next copy,
    // as in recordings.
    let span = (last - first) / 1000 * 1000 + 2_000_000;
    let step = ids.max().unwrap_or(0) / 1_000_000 * 1_000_000 + 1_000_000;
    out.write_all(&text[..=open])?;
    let mut buffer = Vec::with_capacity(template.events.len() + template.events.len() / 16);
    for copy in 0..count {
        buffer.clear();
        if copy > 0 {
            buffer.extend_from_slice(b", ");
        }
        let mut at = 0;
        for number in &template.numbers {
            buffer.extend_from_slice(&template.events[at..number.start]);
            let shift = copy * if number.time { span } else { step };
            write!(buffer, "{}", number.value + shift)?;
            at = number.end;
        }
        buffer.extend_from_slice(&template.events[at..]);
        out.write_all(&buffer)?;
    }
    out.write_all(&text[end..])?;
    Ok(Written {
        events: template.written.events * count,
        kernels: template.written.kernels * count,
    })
}

/// Scans the array that starts at `from`; returns the template and the position of the closing
/// bracket.
fn scan(text: &[u8], from: usize) -> Result<(Template<'_>, usize)> {
    let mut numbers = Vec::new();
    let mut written = Written::default();
    let (mut at, mut depth) = (from, 0_u32);
    let mut flow = false;
    let mut pending_id: Option<Number> = None;
    while at < text.len() {
        match text[at] {
            b'{' => {
                depth += 1;
                written.events += u64::from(depth == 1);
                at += 1;
            }
            b'}' => {
                depth = depth.checked_sub(1).context("a brace closes nothing")?;
                if depth == 0 {
                    numbers.extend(pending_id.take().filter(|_| flow));
                    flow = false;
                }
                at += 1;
            }
            b'[' => (depth, at) = (depth + 1, at + 1),
            b']' if depth == 0 => {
                let mut numbers: Vec<Number> = numbers;
                numbers.sort_by_key(|number| number.start);
                for number in &mut numbers {
                    number.start -= from;
                    number.end -= from;
                }
                let events = text[from..at].trim_ascii_end();
                return Ok((
                    Template {
                        events,
                        numbers,
                        written,
                    },
                    at,
                ));
            }
            b']' => (depth, at) = (depth - 1, at + 1),
            b'"' => {
                let end = string_end(text, at)?;
                let name = &text[at + 1..end];
                at = end + 1;
                let value = at
                    + text[at..]
                        .iter()
                        .take_while(|b| matches!(b, b':' | b' ' | b'\n'))
                        .count();
                if !text[at..value].contains(&b':') {
                    continue;
                }
                let number = |time| {
                    let digits = text[value..]
                        .iter()
                        .take_while(|b| b.is_ascii_digit())
                        .count();
                    let text = std::str::from_utf8(&text[value..value + digits]).ok()?;
                    Some(Number {
                        start: value,
                        end: value + digits,
                        value: text.parse().ok()?,
                        time,
                    })
                };
                match (depth, name) {
                    (1, b"ts") => numbers.extend(number(true)),
                    (1, b"id") => pending_id = number(false),
                    (1, b"ph") => {
                        flow = matches!(text[value + 1..].first(), Some(b's' | b't' | b'f'))
                    }
                    (1, b"cat") => {
                        written.kernels += u64::from(text[value..].starts_with(b"\"kernel\""))
                    }
                    (2, b"correlation" | b"External id") => {
                        numbers.extend(number(false).filter(|number| number.value > 0))
                    }
                    _ => {}
                }
                at = value;
            }
            _ => at += 1,
        }
    }
    bail!("the array of events does not end")
}

/// Returns the offset of the closing quote of the string that starts at `from`.
fn string_end(text: &[u8], from: usize) -> Result<usize> {
    let mut at = from + 1;
    loop {
        match text.get(at).context("a string does not end")? {
            b'\\' => at += 2,
            b'"' => return Ok(at),
            _ => at += 1,
        }
    }
}
