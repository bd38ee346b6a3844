//! Our own grammar: whatever fields `perf script` was asked for, in the order in which it prints them.
//!
//! ```text
//! comm pid[/tid] [cpu] time: period event: addr [sym+off (dso)] ip sym+off (dso) data_src |decoded| weight phys_addr
//! ```
//!
//! Only the time and an address must be there. The place of everything follows from the time, the only number with a point
//! and a colon. The event ends at a colon before a blank, so it may hold colons itself.

use memchr::{memchr, memchr_iter, memrchr};

use super::fields::{
    contains_word, decimal, decoded_level, hex_span, hex_word, is_blank, is_digit, is_hex,
    nanoseconds, span_end, trim, trim_end, word,
};
use super::sample::{PerfSample, Skip};
use crate::data_source::DataSource;

pub(super) fn parse(line: &[u8]) -> Result<PerfSample<'_>, Skip> {
    let text = trim_end(line);
    match trim(text) {
        [] => return Err(Skip::Blank),
        [b'#', ..] => return Err(Skip::Comment),
        _ => {}
    }
    let Some((head, timestamp_ns, tail)) = time(text) else {
        return Err(no_time(text));
    };
    let mut sample = PerfSample {
        timestamp_ns: timestamp_ns.ok_or(Skip::BadTime)?,
        ..PerfSample::NONE
    };
    process(head, &mut sample);
    let tail = trim(tail);
    let rest = match event(tail) {
        Some((event, rest)) => {
            period(event, &mut sample);
            rest
        }
        // Without an event field the address follows at once.
        None if word(tail).0.iter().all(|byte| is_hex(*byte)) && !tail.is_empty() => tail,
        None if tail.is_empty() => return Err(Skip::Truncated),
        None => return Err(Skip::NoEvent),
    };
    after_event(trim(rest), &mut sample)?;
    Ok(sample)
}

/// Text before the time, the time in nanoseconds (if it is one), text after its colon.
fn time(text: &[u8]) -> Option<(&[u8], Option<u64>, &[u8])> {
    for colon in memchr_iter(b':', text) {
        let (before, after) = text.split_at(colon);
        let (rest, fraction) = span_end(before, is_digit);
        let Some(rest) = rest.strip_suffix(b".") else {
            continue;
        };
        let (head, seconds) = span_end(rest, is_digit);
        let alone = head.last().is_none_or(|byte| is_blank(*byte));
        if !fraction.is_empty() && !seconds.is_empty() && alone {
            let after = after.get(1..).unwrap_or_default();
            return Some((head, nanoseconds(seconds, fraction), after));
        }
    }
    None
}

/// What a line without a time is.
fn no_time(text: &[u8]) -> Skip {
    let (first, rest) = word(trim(text));
    // Frames of call chains: an address, a symbol, an object.
    if is_instruction(first) && !rest.is_empty() {
        return Skip::Comment;
    }
    if memchr(b':', text).is_some() {
        Skip::BadTime
    } else {
        Skip::NoEvent
    }
}

/// `comm pid[/tid] [cpu]`, any of them absent.
fn process(head: &[u8], sample: &mut PerfSample<'_>) {
    let mut head = trim_end(head);
    if let Some(inner) = head.strip_suffix(b"]") {
        let (before, cpu) = span_end(inner, is_digit);
        if let Some(before) = before.strip_suffix(b"[") {
            sample.cpu_id = decimal(cpu).and_then(|cpu| u16::try_from(cpu).ok());
            head = trim_end(before);
        }
    }
    let (_, last) = span_end(head, |byte| !is_blank(byte));
    let tid = memrchr(b'/', last).map_or(last, |slash| last.get(slash + 1..).unwrap_or_default());
    sample.thread_id = decimal(tid).and_then(|tid| u32::try_from(tid).ok());
}

/// The event, with a period before it perhaps, and what follows its colon.
fn event(text: &[u8]) -> Option<(&[u8], &[u8])> {
    // What follows the bar or a bracket is no event any more.
    let limit = memchr::memchr2(b'|', b'(', text).unwrap_or(text.len());
    memchr_iter(b':', text.get(..limit)?).find_map(|colon| {
        let (event, rest) = text.split_at(colon);
        let rest = rest.get(1..).unwrap_or_default();
        let ends = rest.first().is_none_or(|byte| is_blank(*byte));
        (ends && !event.is_empty()).then_some((event, rest))
    })
}

/// Splits a period off the event, and finds out what kind of access it is.
fn period<'a>(event: &'a [u8], sample: &mut PerfSample<'a>) {
    let (first, rest) = word(event);
    match decimal(first) {
        Some(period) if !rest.is_empty() => {
            sample.period = period;
            sample.event = trim(rest);
        }
        _ => sample.event = event,
    }
    sample.store = contains_word(sample.event, b"mem-store")
        || sample.event.starts_with(b"mem:") && sample.event.ends_with(b":w");
}

fn after_event<'a>(text: &'a [u8], sample: &mut PerfSample<'a>) -> Result<(), Skip> {
    let text = text
        .strip_prefix(b"0x")
        .or_else(|| text.strip_prefix(b"0X"))
        .unwrap_or(text);
    if text.is_empty() {
        return Err(Skip::Truncated);
    }
    let (address, fits, digits, rest) = hex_span(text);
    let ends = rest.first().is_none_or(|byte| is_blank(*byte));
    if digits.is_empty() || !fits || !ends {
        return Err(Skip::BadAddress);
    }
    sample.address = address;
    let mut text = trim(rest);
    if let Some(bar) = memchr(b'|', text) {
        let (front, back) = text.split_at(bar);
        data_source(front, back, sample);
        let (front, _) = span_end(trim_end(front), |byte| !is_blank(byte));
        text = trim_end(front);
    }
    // The symbol of the data may stand before that of the code; the last one counts.
    while !text.is_empty() {
        let (first, rest) = word(text);
        if is_instruction(first) && !is_offset_next(rest) {
            sample.instruction = hex_word(first);
            text = trim(rest);
            if text.is_empty() {
                break;
            }
        }
        let (segment, rest) = segment(text);
        (sample.symbol, sample.dso) = symbol(segment);
        text = trim(rest);
    }
    Ok(())
}

/// Splits off a symbol and its object from the next instruction and its symbol.
fn segment(text: &[u8]) -> (&[u8], &[u8]) {
    memchr_iter(b')', text)
        .map(|close| text.split_at(close + 1))
        .find(|(_, rest)| is_instruction(word(trim(rest)).0))
        .unwrap_or((text, b""))
}

/// A number as perf prints instruction pointers: nothing but hexadecimal digits, and not a short word like `add`.
fn is_instruction(word: &[u8]) -> bool {
    word.len() >= 6
        && word.iter().all(|byte| is_hex(*byte))
        && word.iter().any(|byte| is_digit(*byte))
}

/// Whether the word before was a symbol after all.
fn is_offset_next(rest: &[u8]) -> bool {
    trim(rest).starts_with(b"+0x")
}

/// Symbol and object of `symbol+0xOFFSET (dso)`, `symbol (dso)`, `symbol+0xOFFSET dso` or a symbol alone.
fn symbol(text: &[u8]) -> (&[u8], &[u8]) {
    // An offset ends the symbol, whatever blanks are in it.
    let mut from = 0;
    while let Some(at) = text
        .get(from..)
        .and_then(|rest| memchr::memmem::find(rest, b"+0x"))
    {
        let at = from + at;
        let (_, _, digits, rest) = hex_span(text.get(at + 3..).unwrap_or_default());
        if !digits.is_empty() && rest.first().is_none_or(|byte| is_blank(*byte)) {
            return (text.get(..at).unwrap_or_default(), dso(trim(rest)));
        }
        from = at + 3;
    }
    // No offset: the object is the last bracket after a blank, or the second word.
    if let Some(end) = text
        .ends_with(b")")
        .then(|| memchr::memmem::rfind(text, b" ("))
        .flatten()
    {
        let (symbol, object) = text.split_at(end);
        return (trim_end(symbol), dso(trim(object)));
    }
    let (symbol, rest) = word(text);
    (symbol, dso(trim(rest)))
}

/// The object in front: in brackets with its brackets, which may hold blanks, or a word.
fn dso(text: &[u8]) -> &[u8] {
    if !text.starts_with(b"(") {
        return word(text).0;
    }
    for close in memchr_iter(b')', text) {
        let after = text.get(close + 1..).unwrap_or_default();
        if after.first().is_none_or(|byte| is_blank(*byte)) {
            return text.get(..=close).unwrap_or_default();
        }
    }
    word(text).0
}

/// `data_src |decoded| weight`: the number before the bar decides, its decoding is the fallback.
fn data_source(front: &[u8], back: &[u8], sample: &mut PerfSample<'_>) {
    let last = memrchr(b'|', back).unwrap_or(0);
    let (decoded, weight) = back.split_at(last + 1);
    // `BLK N/A 61`: the weight is the first number after the last bar.
    sample.weight = weight
        .split(|byte| is_blank(*byte))
        .find_map(decimal)
        .and_then(|weight| u32::try_from(weight).ok());
    sample.cache_level = decoded_level(decoded);
    let (_, number) = span_end(trim_end(front), |byte| !is_blank(byte));
    if let Some(source) = hex_word(number).map(DataSource::new) {
        if !source.level().is_null() {
            sample.cache_level = source.level();
        }
        sample.remote = Some(u8::from(source.is_remote()));
        if let Some(store) = source.is_store() {
            sample.store = store;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(line: &str) -> PerfSample<'_> {
        parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn any_field_list() {
        let full = sample(
            "   kvmm  2543/2544   1735.937967:          1 page-faults:     556c6a9b3030 stdout@GLIBC_2.2.5+0x0 (/opt/demo/kvmm) ffffffff81752b6a elf_load+0x28a ([kernel.kallsyms])",
        );
        assert_eq!(full.thread_id, Some(2544));
        assert_eq!(full.period, 1);
        assert_eq!(full.symbol, b"elf_load");
        assert_eq!(full.dso, b"([kernel.kallsyms])");
        assert_eq!(full.instruction, Some(0xffff_ffff_8175_2b6a));
        let collector = sample("4242 100.5: 7f3a00001000 ggml_mul_mat (/x.so)");
        assert_eq!(collector.symbol, b"ggml_mul_mat");
        assert_eq!(collector.thread_id, Some(4242));
        let point = sample(
            "bp 2594/2594 1737.834716: 1 mem:0x0000000000404080:  404080   401141 load_weight+0xb (/opt/demo/bp)",
        );
        assert_eq!(
            (point.address, point.instruction),
            (0x40_4080, Some(0x40_1141))
        );
        assert_eq!(point.symbol, b"load_weight");
        assert_eq!(sample("1.5: 10").timestamp_ns, 1_500_000_000);
        assert!(sample("bp 1 1.0: mem:0x404080/8:w: 404080").store);
    }

    #[test]
    fn symbols_and_paths_with_blanks_are_whole() {
        let line =
            "c 1 [0] 1.0: ev: 10 operator new(unsigned long)+0x1c (/tmp/dir with space/lib.so)";
        assert_eq!(sample(line).symbol, b"operator new(unsigned long)");
        assert_eq!(sample(line).dso, b"(/tmp/dir with space/lib.so)");
        let line = "c 1 [0] 1.0: ev: 10 operator new(unsigned long) (/x.so)";
        assert_eq!(sample(line).symbol, b"operator new(unsigned long)");
        assert_eq!(
            sample("c 1 [0] 1.0: ev: 10 operator+ (/x.so)").symbol,
            b"operator+"
        );
    }

    #[test]
    fn data_sources_are_decoded() {
        let line = "p 1 1.0: cpu/mem-loads/P: 7f00 f+0x1 /x.so 1a05080144 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK N/A 61";
        let sample = sample(line);
        assert_eq!((sample.weight, sample.remote), (Some(61), Some(0)));
        assert_eq!((sample.symbol, sample.dso), (&b"f"[..], &b"/x.so"[..]));
    }

    #[test]
    fn reasons() {
        let reason = |line: &str| parse(line.as_bytes()).unwrap_err();
        assert_eq!(reason("  "), Skip::Blank);
        assert_eq!(reason("# x"), Skip::Comment);
        assert_eq!(reason("   7f3a00001000 main (/x.so)"), Skip::Comment);
        assert_eq!(reason("c 1 [0] 100: ev: 10 f"), Skip::BadTime);
        assert_eq!(reason("c 1 [0] 1.0: ev: zzz f"), Skip::BadAddress);
        assert_eq!(
            reason("c 1 [0] 1.0: ev: 1ffffffffffffffff0 f"),
            Skip::BadAddress
        );
        assert_eq!(reason("c 1 [0] 1.0: cpu/mem-loa"), Skip::NoEvent);
        assert_eq!(reason("c 1 [0] 1.0:"), Skip::Truncated);
        assert_eq!(reason("nothing here"), Skip::NoEvent);
    }
}
