//! The grammars of the reference, as matchers that take what its regular expressions take.
//!
//! Version 0.1.0, anchored at the start of the line, not at its end:
//!
//! ```text
//! ws* comm ws+ pid ws+ "[" cpu "]" ws+ sec "." frac ":" ws+ (period ws+)? event ":" ws+ addr ws+ sym (ws+ dso)?
//! ```
//!
//! `comm` is the shortest run of characters, at least one, with which the rest fits; so the leftmost place decides, and we
//! look for the places where the fixed characters stand. A command made of blanks only fits when every other way has failed.

use memchr::memchr_iter;

use super::fields::{
    KERNEL_START, before_plus, contains_word, decimal, decoded_level, gap, hex_span, is_blank,
    is_digit, nanoseconds, span, span_end, trim, wide_hex, word,
};
use super::sample::{PerfSample, Skip};

/// How the text before the fields fits the command name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Named,
    /// Blanks alone: taken only after everything else has failed.
    Blank,
    No,
}

/// `before` ends where the process id begins.
fn command(before: &[u8]) -> Command {
    if !before.last().is_some_and(|byte| is_blank(*byte)) {
        Command::No
    } else if !trim(before).is_empty() {
        Command::Named
    } else if before.len() >= 2 {
        Command::Blank
    } else {
        Command::No
    }
}

/// Chooses among the places where a line fits, from left to right.
fn choose<'a>(
    candidates: impl Iterator<Item = (Command, Option<PerfSample<'a>>)>,
) -> Option<PerfSample<'a>> {
    let mut blank = None;
    for (command, sample) in candidates {
        match command {
            Command::Named if sample.is_some() => return sample,
            Command::Blank => blank = blank.or(sample),
            _ => {}
        }
    }
    blank
}

pub(super) fn parse_010(line: &[u8]) -> Result<PerfSample<'_>, Skip> {
    let candidates = memchr_iter(b'[', line).map(|open| {
        let (before, from) = line.split_at(open);
        let (comm, pid) = pid_before(before);
        if comm == Command::No {
            return (comm, None);
        }
        (comm, bracket_010(pid, from.get(1..).unwrap_or_default()))
    });
    choose(candidates).ok_or_else(|| reason(line))
}

/// The process id that ends before blanks, and the command before it.
fn pid_before(text: &[u8]) -> (Command, &[u8]) {
    let (text, blanks) = span_end(text, is_blank);
    let (before, pid) = span_end(text, is_digit);
    if blanks.is_empty() || pid.is_empty() {
        return (Command::No, b"");
    }
    (command(before), pid)
}

/// From behind the bracket that opens the CPU.
fn bracket_010<'a>(pid: &[u8], text: &'a [u8]) -> Option<PerfSample<'a>> {
    let (cpu, text) = span(text, is_digit);
    let text = text.strip_prefix(b"]")?;
    if cpu.is_empty() {
        return None;
    }
    let text = gap(text)?;
    let (seconds, text) = span(text, is_digit);
    let text = text.strip_prefix(b".")?;
    let (fraction, text) = span(text, is_digit);
    let text = text.strip_prefix(b":")?;
    let (event, text) = event(text)?;
    let (address, fits, digits, text) = hex_span(text);
    if digits.is_empty() {
        return None;
    }
    let text = gap(text)?;
    let (symbol, text) = word(text);
    if symbol.is_empty() {
        return None;
    }
    let (dso, _) = word(trim(text));
    Some(PerfSample {
        timestamp_ns: nanoseconds(seconds, fraction)?,
        address,
        wide: if fits { None } else { Some(wide_hex(digits)?) },
        store: contains_word(event, b"mem-store"),
        event,
        symbol: before_plus(symbol),
        dso,
        thread_id: thread(pid),
        cpu_id: decimal(cpu).and_then(|cpu| u16::try_from(cpu).ok()),
        ..PerfSample::NONE
    })
}

/// Between the colon of the time and the address: blanks, a period perhaps, the event, its colon, blanks.
fn event(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr::memchr(b':', text)?;
    let (event, text) = text.split_at(colon);
    // One blank before the event, and one character of the event, which may be a blank itself.
    if event.len() < 2 || !event.first().is_some_and(|byte| is_blank(*byte)) {
        return None;
    }
    Some((event, gap(text.get(1..).unwrap_or_default())?))
}

fn thread(pid: &[u8]) -> Option<u32> {
    decimal(pid).and_then(|pid| u32::try_from(pid).ok())
}

/// As 0.1.0, but the CPU may be absent, everything after the address is optional, and `pid time: address` alone is taken.
pub(super) fn parse_023(line: &[u8]) -> Result<PerfSample<'_>, Skip> {
    let candidates = memchr_iter(b':', line).map(|colon| {
        let (before, from) = line.split_at(colon);
        let from = from.get(1..).unwrap_or_default();
        let (head, fraction) = span_end(before, is_digit);
        let Some(head) = head.strip_suffix(b".").filter(|_| !fraction.is_empty()) else {
            return (Command::No, None);
        };
        let (head, seconds) = span_end(head, is_digit);
        if seconds.is_empty() {
            return (Command::No, None);
        }
        let (text, blanks) = span_end(head, is_blank);
        if blanks.is_empty() {
            return (Command::No, None);
        }
        let (comm, pid, cpu) = match text.strip_suffix(b"]") {
            Some(inner) => {
                let (before, cpu) = span_end(inner, is_digit);
                match before.strip_suffix(b"[").filter(|_| !cpu.is_empty()) {
                    Some(before) => {
                        let (comm, pid) = pid_before(before);
                        (comm, pid, decimal(cpu))
                    }
                    None => (Command::No, &b""[..], None),
                }
            }
            None => {
                let (comm, pid) = pid_before(head);
                (comm, pid, None)
            }
        };
        if comm == Command::No {
            return (comm, None);
        }
        let Some(timestamp_ns) = nanoseconds(seconds, fraction) else {
            return (Command::No, None);
        };
        let sample = after_time_023(from).map(|sample| PerfSample {
            timestamp_ns,
            thread_id: thread(pid),
            cpu_id: cpu.and_then(|cpu| u16::try_from(cpu).ok()),
            ..sample
        });
        (comm, sample)
    });
    let sample = choose(candidates)
        .or_else(|| compact_023(line))
        .ok_or_else(|| reason(line))?;
    if sample.wide.is_some() || sample.address >= KERNEL_START {
        return Err(Skip::KernelAddress);
    }
    Ok(sample)
}

fn after_time_023(text: &[u8]) -> Option<PerfSample<'_>> {
    let (event, text) = event(text)?;
    let (address, fits, digits, tail) = hex_span(text);
    if digits.is_empty() {
        return None;
    }
    let mut sample = PerfSample {
        address,
        wide: if fits { None } else { Some(wide_hex(digits)?) },
        store: contains_word(event, b"mem-store"),
        event,
        ..PerfSample::NONE
    };
    let Some(bar) = memchr::memchr(b'|', tail) else {
        let (symbol, tail) = word(trim(tail));
        sample.symbol = before_plus(symbol);
        sample.dso = word(trim(tail)).0;
        return Some(sample);
    };
    let (front, back) = tail.split_at(bar);
    let last = memchr::memrchr(b'|', back).unwrap_or(0);
    let (decoded, weight) = back.split_at(last + 1);
    sample.cache_level = decoded_level(decoded);
    let (weight, _) = span_end(weight, is_blank);
    sample.weight = decimal(span_end(weight, |byte| !is_blank(byte)).1)
        .and_then(|weight| u32::try_from(weight).ok());
    let mut words = front
        .split(|byte| is_blank(*byte))
        .filter(|word| !word.is_empty());
    let first_three = (words.next(), words.next(), words.next());
    let data_source = match first_three {
        (Some(symbol), Some(dso), Some(source)) => {
            sample.symbol = before_plus(symbol);
            sample.dso = dso;
            Some(source)
        }
        (Some(source), None, None) => Some(source),
        _ => None,
    };
    sample.remote = data_source
        .and_then(super::fields::hex_word)
        .map(|source| u8::from(source >> 37 & 1 == 1));
    Some(sample)
}

/// `pid time: address` and nothing else.
fn compact_023(line: &[u8]) -> Option<PerfSample<'_>> {
    let (pid, text) = span(trim(line), is_digit);
    if pid.is_empty() {
        return None;
    }
    let (seconds, text) = span(gap(text)?, is_digit);
    let (fraction, text) = span(text.strip_prefix(b".")?, is_digit);
    let text = gap(text.strip_prefix(b":")?)?;
    let (address, fits, digits, text) = hex_span(text);
    if digits.is_empty() || !trim(text).is_empty() {
        return None;
    }
    Some(PerfSample {
        timestamp_ns: nanoseconds(seconds, fraction)?,
        address,
        wide: if fits { None } else { Some(wide_hex(digits)?) },
        thread_id: thread(pid),
        ..PerfSample::NONE
    })
}

/// The reference does not say why a line is skipped; a guess for the report.
fn reason(line: &[u8]) -> Skip {
    match trim(line).first() {
        None => Skip::Blank,
        Some(b'#') => Skip::Comment,
        Some(_) => Skip::NoEvent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(line: &str) -> bool {
        parse_010(line.as_bytes()).is_ok()
    }

    #[test]
    fn the_leftmost_fitting_place_wins() {
        let line = b"t 1 [2] x 999 [3] 1.0: mem-stores: 10 f";
        let sample = parse_010(line).unwrap();
        assert_eq!((sample.thread_id, sample.cpu_id), (Some(999), Some(3)));
        let line = b"t 1 [2] 1.0: a: 10 f 999 [3] 2.0: b: 20 g";
        assert_eq!(parse_010(line).unwrap().address, 0x10);
    }

    #[test]
    fn a_command_of_blanks_needs_two_and_is_the_last_resort() {
        assert!(fits("  4242 [003] 1.0: ev: 10 f"));
        assert!(!fits(" 4242 [003] 1.0: ev: 10 f"));
        assert!(!fits("4242 [003] 1.0: ev: 10 f"));
        let line = b"  1 [2] 1.0: a: 10 f 999 [3] 2.0: b: 20 g";
        assert_eq!(parse_010(line).unwrap().address, 0x20);
    }

    #[test]
    fn events_need_a_character_which_may_be_blank() {
        assert!(fits("c 1 [0] 1.0:  : 10 f"));
        assert!(!fits("c 1 [0] 1.0: : 10 f"));
        assert!(!fits("c 1 [0] 1.0:ev: 10 f"));
        assert!(!fits("c 1 [0] 1.0: mem:0x12:rw: 10 f"));
        assert!(!fits("c 1 [0] 1.0: ev: 0x10 f"));
        assert!(!fits("c 1 [0] 1.0: ev: 10 "));
    }
}
