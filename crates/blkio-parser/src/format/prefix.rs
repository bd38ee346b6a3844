//! Parses what precedes the event on a line of ftrace, `trace-cmd report` or `perf script`: task, processor, flags, time.

use crate::scan::{Cursor, device, trim, whole_uint};

/// The columns before the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix<'a> {
    /// Name of the task, empty where the line has none.
    pub(super) name: &'a [u8],
    /// Its process, 0 where the line has none.
    pub(super) pid: u32,
    /// Processor, 0 where the line has none.
    pub(super) cpu: u16,
    /// Time in nanoseconds, or in ticks of a clock that counts.
    pub(super) t_ns: u64,
    /// The event and what follows.
    pub(super) rest: &'a [u8],
}

/// What the beginning of a line turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// All columns.
    Prefix(Prefix<'a>),
    /// A task and its processor, but no time.
    NoTime,
    /// No line of this kind.
    Nothing,
}

/// Takes the columns before the event.
///
/// A name may hold anything, even what looks like a processor, so the processor is the first one that a time and an event
/// follow. Lines of perf may be without it, and those of the latency format have it in one word with the flags.
pub(super) fn find(line: &[u8]) -> Found<'_> {
    let mut best = Found::Nothing;
    for (open, after, cpu) in processors(line) {
        let before = line.get(..open).unwrap_or_default();
        let Some((name, pid)) = task_or_none(before) else {
            continue;
        };
        let Some((t_ns, rest)) = time(line.get(after..).unwrap_or_default()) else {
            if best == Found::Nothing {
                best = Found::NoTime;
            }
            continue;
        };
        let prefix = Prefix {
            name,
            pid,
            cpu,
            t_ns,
            rest,
        };
        if begins_event(rest) {
            return Found::Prefix(prefix);
        }
        if !matches!(best, Found::Prefix(_)) {
            best = Found::Prefix(prefix);
        }
    }
    match best {
        Found::Prefix(_) => best,
        _ => verbose(line)
            .or_else(|| without_brackets(line))
            .map_or(best, Found::Prefix),
    }
}

/// Returns where ` [CPU] ` stands: the places of the bracket and of what follows, and the number.
fn processors(line: &[u8]) -> impl Iterator<Item = (usize, usize, u16)> {
    memchr::memchr_iter(b'[', line).filter_map(|open| {
        let is_apart = open == 0 || matches!(line.get(open - 1), Some(b' ' | b'\t'));
        let mut cursor = Cursor::new(line.get(open + 1..).filter(|_| is_apart)?);
        let cpu = u16::try_from(cursor.uint()?).ok()?;
        let ends = cursor.eat(b']') && matches!(cursor.peek(), Some(b' ' | b'\t'));
        ends.then_some((open, line.len() - cursor.rest.len(), cpu))
    })
}

/// As [`task`]; a line may begin with the processor.
fn task_or_none(before: &[u8]) -> Option<(&[u8], u32)> {
    match trim(before) {
        [] => Some((b"", 0)),
        _ => task(before),
    }
}

/// Returns the name and process from what stands before the processor: `task-12`, `task-12 (12)`, `bkio: task-12`, `task 12`, `task 7/12`.
fn task(before: &[u8]) -> Option<(&[u8], u32)> {
    let mut text = trim(before);
    if text.ends_with(b")") {
        let open = memchr::memrchr(b'(', text)?;
        text = trim(text.get(..open)?);
    }
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (name, pid) = text.split_at(text.len() - digits);
    let pid = whole_uint(pid).and_then(|pid| u32::try_from(pid).ok())?;
    let name = match name {
        [name @ .., b'-'] => without_instance(name, before),
        [.., b' ' | b'\t'] | [] => trim(name),
        // PID/TID of perf.
        [outer @ .., b'/'] => {
            let digits = outer
                .iter()
                .rev()
                .take_while(|b| b.is_ascii_digit())
                .count();
            trim(outer.get(..outer.len() - digits)?)
        }
        _ => return None,
    };
    Some((name, pid))
}

/// `bkio:    fio` is the task `fio` of the instance `bkio`. Instances begin with the line; names of tasks are aligned to the
/// right and may hold the same, behind blanks.
fn without_instance<'a>(name: &'a [u8], before: &[u8]) -> &'a [u8] {
    let is_aligned = matches!(before.first(), Some(b' ' | b'\t'));
    match memchr::memchr(b':', name) {
        Some(colon) if !is_aligned && matches!(name.get(colon + 1), Some(b' ' | b'\t')) => {
            trim(name.get(colon + 1..).unwrap_or_default())
        }
        _ => trim(name),
    }
}

/// Returns the time behind the processor, and what follows it. Up to two columns of flags may stand before.
fn time(text: &[u8]) -> Option<(u64, &[u8])> {
    let mut cursor = Cursor::new(text);
    for _ in 0..3 {
        if let Some(time) = cursor.word().strip_suffix(b":") {
            let t_ns = crate::scan::seconds_ns(time)?;
            return Some((t_ns, event_of(cursor)));
        }
    }
    None
}

/// Returns the event behind the time: the distance to the line before (`trace-cmd report --ts-diff`) and the period of the sample
/// (`perf script -F +period`) are passed over.
fn event_of(after_time: Cursor<'_>) -> &[u8] {
    let mut cursor = after_time;
    cursor.blanks();
    let here = cursor.rest;
    let word = cursor.word();
    let is_distance = word.starts_with(b"(+") && word.ends_with(b")");
    if is_distance || whole_uint(word).is_some() {
        cursor.blanks();
        if begins_event(cursor.rest) {
            return cursor.rest;
        }
    }
    here
}

/// Returns `true` if what follows a time is an event: its name and a colon, or the device that the blk tracer prints.
fn begins_event(rest: &[u8]) -> bool {
    let word = Cursor::new(rest).word();
    word.ends_with(b":") || device(word).is_some()
}

/// Lines on which no processor stands in brackets: perf without it, and the latency format. The event has to be one of the
/// block layer, since there is little else to know such a line by.
fn without_brackets(line: &[u8]) -> Option<Prefix<'_>> {
    memchr::memmem::find(line, b"block_")?;
    let mut cursor = Cursor::new(line);
    loop {
        cursor.blanks();
        let at = line.len() - cursor.rest.len();
        let word = cursor.word();
        if word.is_empty() {
            return None;
        }
        let before = trim(line.get(..at)?);
        let Some(t_ns) = time_alone(word, &mut cursor).or_else(|| ticks(word, before)) else {
            continue;
        };
        let rest = event_of(cursor);
        let event = rest.strip_prefix(b"block:").unwrap_or(rest);
        if !event.starts_with(b"block_") || !begins_event(rest) {
            continue;
        }
        let (before, cpu) = processor_and_flags(before).unwrap_or((before, 0));
        let (name, pid) = task_or_none(before).unwrap_or((before, 0));
        return Some(Prefix {
            name,
            pid,
            cpu,
            t_ns,
            rest,
        });
    }
}

/// `1169.077687:`, or microseconds since the trace began: `12048us!:`, `12048us :`.
fn time_alone(word: &[u8], cursor: &mut Cursor<'_>) -> Option<u64> {
    let mut number = Cursor::new(word);
    let first = number.uint()?;
    if let Some(mark) = number.rest.strip_prefix(b"us") {
        let mut next = *cursor;
        match mark {
            [b':'] | [_, b':'] => {}
            [] if next.word() == b":" => *cursor = next,
            _ => return None,
        }
        return first.checked_mul(1000);
    }
    let time = word.strip_suffix(b":").filter(|time| time.contains(&b'.'));
    crate::scan::seconds_ns(time?)
}

/// `12048:` behind processor and flags: the latency format with a clock that counts.
fn ticks(word: &[u8], before: &[u8]) -> Option<u64> {
    let ticks = whole_uint(word.strip_suffix(b":")?)?;
    processor_and_flags(before).map(|_| ticks)
}

/// Returns the latency format with `verbose`: task, process, processor, flags, depth of preemption and number of the entry, all apart;
/// the time in brackets as hexadecimal microseconds, and again since the trace began (`[b4c03351b] 21.537ms (+0.010ms):`).
/// Clocks that count have ticks in both places.
fn verbose(line: &[u8]) -> Option<Prefix<'_>> {
    let (open, after, t_ns) = memchr::memchr_iter(b'[', line).find_map(|open| {
        let inside = line.get(open + 1..)?;
        let digits = memchr::memchr(b']', inside).filter(|n| (8..=16).contains(n))?;
        let text = std::str::from_utf8(inside.get(..digits)?).ok()?;
        let stamp = u64::from_str_radix(text, 16).ok()?;
        let mut cursor = Cursor::new(inside.get(digits + 1..)?);
        let since = cursor.word();
        let step = cursor.word();
        let has_step = step.starts_with(b"(+") && step.ends_with(b"):");
        let t_ns = match since.strip_suffix(b"ms") {
            Some(ms) => crate::scan::seconds_ns(ms).and(stamp.checked_mul(1000))?,
            None => whole_uint(since).map(|_| stamp)?,
        };
        cursor.blanks();
        has_step.then_some((open, cursor.rest, t_ns))
    })?;
    if !begins_event(after) {
        return None;
    }
    let hexadecimal = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_hexdigit);
    let (before, _) = last_word(line.get(..open)?).filter(|(_, entry)| hexadecimal(entry))?;
    let (before, _) = last_word(before).filter(|(_, depth)| hexadecimal(depth))?;
    let (before, _) = last_word(before).filter(|(_, flags)| whole_uint(flags).is_some())?;
    let (before, cpu) = last_word(before)?;
    let cpu = u16::try_from(whole_uint(cpu)?).ok()?;
    let (name, pid) = task(before)?;
    Some(Prefix {
        name,
        pid,
        cpu,
        t_ns,
        rest: after,
    })
}

/// Takes the last word off.
fn last_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = trim(text);
    let blank = text.iter().rposition(|b| matches!(b, b' ' | b'\t'));
    (!text.is_empty()).then(|| text.split_at(blank.map_or(0, |blank| blank + 1)))
}

/// Takes `1d..2.` off the end: the processor with the flags of the latency format.
fn processor_and_flags(before: &[u8]) -> Option<(&[u8], u16)> {
    let (task, word) = last_word(before)?;
    let mut cursor = Cursor::new(word);
    let cpu = u16::try_from(cursor.uint()?).ok()?;
    let is_flags = |b: &u8| b.is_ascii_alphanumeric() || *b == b'.' || *b == b'#';
    let flags = cursor.rest;
    let found = (3..=8).contains(&flags.len()) && flags.iter().all(is_flags);
    found.then_some((task, cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(line: &str) -> (&str, u32, u16, u64) {
        let Found::Prefix(found) = find(line.as_bytes()) else {
            panic!("{line}");
        };
        assert!(begins_event(found.rest), "{line}");
        let name = std::str::from_utf8(found.name).unwrap();
        (name, found.pid, found.cpu, found.t_ns)
    }

    #[test]
    fn names_may_look_like_other_columns() {
        for (task, name, pid) in [
            ("      a [1] b:c-d-78 ", "a [1] b:c-d", 78),
            ("      a-5 [1] 9.9: x-56 ", "a-5 [1] 9.9: x", 56),
            ("      #hash-3336     ", "#hash", 3336),
            ("      CPU:1-3335     ", "CPU:1", 3335),
            ("    CPU 0/KVM-33     ", "CPU 0/KVM", 33),
            ("      a 1 [2] b  55  ", "a 1 [2] b", 55),
            ("          <idle>-0   (-------)", "<idle>", 0),
            ("     x: y z-3334     ", "x: y z", 3334),
            ("bkio:      x: y z-3334     ", "x: y z", 3334),
            ("bkio:kworker/1:1H-44 ", "bkio:kworker/1:1H", 44),
        ] {
            let line = format!("{task} [011] d.h1.  10.000008: block_rq_issue: 8,0 R");
            assert_eq!(prefix(&line), (name, pid, 11, 10_000_008_000), "{line}");
        }
    }

    #[test]
    fn columns_that_are_left_out_or_added() {
        let event = "block:block_rq_issue: 7,0 RS 4096 () 8 + 8 [fio]";
        for (before, wanted) in [
            ("fio 28464  1169.077687:    ", ("fio", 28464, 0)),
            (" 1169.077687:    ", ("", 0, 0)),
            ("[003]  1169.077687: ", ("", 0, 3)),
            ("my job  1169.077687: ", ("my job", 0, 0)),
            ("fio 28464 [003]  1169.077687:     1   ", ("fio", 28464, 3)),
            ("fio-28464 [003]  1169.077687: (+10) ", ("fio", 28464, 3)),
            ("fio-28464   3d..1. 1169.077687: ", ("fio", 28464, 3)),
            ("  fio-28464     3..... 1169077687us+: ", ("fio", 28464, 3)),
            ("  fio-28464     3d.h2. 1169077687us : ", ("fio", 28464, 3)),
        ] {
            let line = format!("{before}{event}");
            let (name, pid, cpu) = wanted;
            let found = prefix(&line);
            assert_eq!(found, (name, pid, cpu, 1_169_077_687_000), "{line}");
        }
    }

    #[test]
    fn the_latency_format_with_all_columns_apart_and_with_ticks() {
        let event = "block_rq_issue: 254,0 RA 16384 () 12947152 + 32 be,0,4 [bash]";
        let time = 48_519_918_875_000;
        for (before, wanted) in [
            (
                "            sync   20740   0 0 00000000 00000000 [b4c03351b] 21.537ms (+0.010ms): ",
                ("sync", 20740, 0, time),
            ),
            (
                "          <idle>       0  12 16 00000001 00000007 [b4c03351b] 21.848ms (+-1.016ms): ",
                ("<idle>", 0, 12, time),
            ),
            (
                "   CPU 0/KVM [1]      33   1 0 00000000 000000a0 [b4c03351b] 21.848ms (+0.016ms): ",
                ("CPU 0/KVM [1]", 33, 1, time),
            ),
            (
                "              dd   23166   0 0 00000000 00000006 [000072ef7dd47cec] 76339206 (+957727): ",
                ("dd", 23166, 0, 0x72ef_7dd4_7cec),
            ),
            (
                "              dd   23166   0 0 00000000 00000006 [0000000012345678] 7 (+9): ",
                ("dd", 23166, 0, 0x1234_5678),
            ),
            (
                "      dd-23166     0..... 76339206: ",
                ("dd", 23166, 0, 76_339_206),
            ),
        ] {
            assert_eq!(prefix(&format!("{before}{event}")), wanted, "{before}");
        }
        for cut in [
            "sync 20740 0 0 00000000 00000000 [b4c03351b] 21.537ms (+0.0",
            "a 1 0 [b4c03351b] 1.5ms (+0.0ms): block_rq_issue: x",
        ] {
            assert!(!matches!(find(cut.as_bytes()), Found::Prefix(_)), "{cut}");
        }
    }

    #[test]
    fn what_has_no_prefix() {
        for line in [
            "fio 28464  1169.077687:  sched:sched_switch: x",
            "  ffff8111 block_x+0x7 ([kernel])",
            "block_rq_issue:",
            "",
        ] {
            assert_eq!(find(line.as_bytes()), Found::Nothing, "{line}");
        }
        assert_eq!(find(b"fio-1 [000] d..1. 1048.9"), Found::NoTime);
    }
}
