//! Our own grammar: whatever fields `perf script` was asked for, in the order in which it prints them.
//!
//! ```text
//! comm pid[/tid] [cpu] time: period event: addr sym+off (dso) data_src |decoded| weight ip sym+off (dso) phys_addr
//! ```
//!
//! Only the time and an address must be there. The place of everything follows from the time, the only number with a point
//! and a colon. The event ends at a colon before a blank, so it may hold colons itself. What a line alone leaves open (whether
//! a last number is an address or a latency, a number in a command's name or a process) a [`FieldList`] decides.

use memchr::{memchr, memchr_iter, memrchr};

use super::fields::{
    contains_word, decimal, decoded_level, hex_span, hex_word, is_blank, is_digit, is_hex,
    nanoseconds, span_end, trim, trim_end, word,
};
use super::list::FieldList;
use super::sample::{PerfSample, Skip};
use crate::data_source::DataSource;

/// What `list` leaves out is not looked for; without a list everything is.
pub(super) fn parse(line: &[u8], list: Option<FieldList>) -> Result<PerfSample<'_>, Skip> {
    let text = trim_end(line);
    match trim(text) {
        [] => return Err(Skip::Blank),
        [b'#', ..] => return Err(Skip::Comment),
        _ => {}
    }
    let has = |fields| list.is_none_or(|list| list.has(fields));
    let Some((head, timestamp_ns, tail)) = time(text) else {
        return Err(no_time(text));
    };
    let mut sample = PerfSample {
        timestamp_ns: timestamp_ns.ok_or(Skip::BadTime)?,
        ..PerfSample::NONE
    };
    process(
        head,
        has(FieldList::THREAD),
        has(FieldList::CPU),
        &mut sample,
    );
    let mut tail = trim(tail);
    if tail.is_empty() {
        return Err(Skip::Truncated);
    }
    if let Some(list) = list
        && list.has(FieldList::PERIOD)
    {
        let (period, rest) = word(tail);
        sample.period = decimal(period).ok_or(Skip::NoEvent)?;
        tail = trim(rest);
    }
    let found = has(FieldList::EVENT).then(|| event(tail)).flatten();
    let rest = match (found, list) {
        (Some((event, rest)), None) => {
            period(event, &mut sample);
            rest
        }
        (Some((event, rest)), Some(_)) => {
            sample.event = event;
            rest
        }
        (None, Some(list)) if list.has(FieldList::EVENT) => return Err(Skip::NoEvent),
        (None, Some(_)) => tail,
        // Without an event field the address follows at once.
        (None, None) if is_address(word(tail).0) => tail,
        (None, None) => return Err(Skip::NoEvent),
    };
    sample.store = contains_word(sample.event, b"mem-store")
        || sample.event.starts_with(b"mem:") && sample.event.ends_with(b":w");
    sample.page_fault = is_page_fault(sample.event);
    after_event(trim(rest), list, &mut sample)?;
    Ok(sample)
}

/// Returns `true` for the software events of page faults, with any modifiers: `page-faults`, `minor-faults:u`.
fn is_page_fault(event: &[u8]) -> bool {
    let name = event.split(|byte| *byte == b':').next();
    matches!(
        name,
        Some(b"page-faults" | b"faults" | b"minor-faults" | b"major-faults")
    )
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
fn process(head: &[u8], has_thread: bool, has_cpu: bool, sample: &mut PerfSample<'_>) {
    let mut head = trim_end(head);
    if has_cpu && let Some(inner) = head.strip_suffix(b"]") {
        let (before, cpu) = span_end(inner, is_digit);
        if let Some(before) = before.strip_suffix(b"[") {
            sample.cpu_id = decimal(cpu).and_then(|cpu| u16::try_from(cpu).ok());
            head = trim_end(before);
        }
    }
    if has_thread {
        let (_, last) = span_end(head, |byte| !is_blank(byte));
        let (pid, tid) = match memrchr(b'/', last) {
            Some(slash) => last.split_at(slash),
            None => (&b""[..], last),
        };
        let number = |text: &[u8]| decimal(text).and_then(|of| u32::try_from(of).ok());
        sample.thread_id = number(tid.strip_prefix(b"/").unwrap_or(tid));
        sample.process_id = number(pid);
    }
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

/// Splits a period off the event.
fn period<'a>(event: &'a [u8], sample: &mut PerfSample<'a>) {
    let (first, rest) = word(event);
    match decimal(first) {
        Some(period) if !rest.is_empty() => {
            sample.period = period;
            sample.event = trim(rest);
        }
        _ => sample.event = event,
    }
}

fn after_event<'a>(
    text: &'a [u8],
    list: Option<FieldList>,
    sample: &mut PerfSample<'a>,
) -> Result<(), Skip> {
    let text = without_prefix(text);
    if text.is_empty() {
        return Err(Skip::Truncated);
    }
    let (address, fits, digits, rest) = hex_span(text);
    let ends = rest.first().is_none_or(|byte| is_blank(*byte));
    if digits.is_empty() || !fits || !ends {
        return Err(Skip::BadAddress);
    }
    sample.address = address;
    let has = |fields| list.is_none_or(|list| list.has(fields));
    let mut text = trim(rest);
    if list.is_some_and(|list| list.has(FieldList::PHYS_ADDR)) {
        let (rest, physical) = span_end(text, |byte| !is_blank(byte));
        if hex_word(physical).is_some() {
            text = trim_end(rest);
        }
    }
    let bar = memchr(b'|', text).filter(|_| has(FieldList::DATA_SRC));
    let Some(bar) = bar else {
        symbols(without_weight(text, list, sample), list, sample);
        return Ok(());
    };
    // The symbol of the data stands before the bars, that of the code behind them.
    let (front, decoded) = text.split_at(bar);
    let (front, number) = span_end(trim_end(front), |byte| !is_blank(byte));
    let back = data_source(number, decoded, sample);
    symbols(trim_end(front), list, sample);
    let mut code = trim(back);
    if has(FieldList::WEIGHT) {
        let (first, rest) = word(code);
        if let Some(weight) = decimal(first).filter(|_| ends_number(rest, list)) {
            sample.weight = u32::try_from(weight).ok();
            code = trim(rest);
        }
    }
    symbols(code, list, sample);
    Ok(())
}

fn without_prefix(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"0x")
        .or_else(|| text.strip_prefix(b"0X"))
        .unwrap_or(text)
}

/// Whether a word can be the address of a line without an event.
fn is_address(word: &[u8]) -> bool {
    let digits = without_prefix(word);
    !digits.is_empty() && digits.iter().all(|byte| is_hex(*byte))
}

/// Whether the number before `rest` is a weight: nothing follows, or an instruction, or (with a list) it cannot be one itself.
fn ends_number(rest: &[u8], list: Option<FieldList>) -> bool {
    let next = word(trim(rest)).0;
    next.is_empty() || hex_word(next).is_some() || list.is_some_and(|list| !list.has(FieldList::IP))
}

/// Takes a weight out that stands behind the symbol of the data without a data source: after a bracket, or at once.
fn without_weight<'a>(
    text: &'a [u8],
    list: Option<FieldList>,
    sample: &mut PerfSample<'a>,
) -> &'a [u8] {
    if !list.is_some_and(|list| list.has(FieldList::WEIGHT)) {
        return text;
    }
    for start in std::iter::once(0).chain(memchr_iter(b')', text).map(|close| close + 1)) {
        let (before, rest) = text.split_at(start);
        let (first, rest) = word(trim(rest));
        if let Some(weight) = decimal(first).filter(|_| ends_number(rest, list)) {
            sample.weight = u32::try_from(weight).ok();
            symbols(before, list, sample);
            return trim(rest);
        }
    }
    text
}

/// `[ip] symbol (dso)`, once or twice: the symbol of the data may stand before that of the code, and the last one counts.
fn symbols<'a>(text: &'a [u8], list: Option<FieldList>, sample: &mut PerfSample<'a>) {
    let has = |fields| list.is_none_or(|list| list.has(fields));
    let mut text = trim(text);
    while !text.is_empty() {
        let (first, rest) = word(text);
        let number = hex_word(first).filter(|_| {
            // With a list a number is an instruction even if it is short.
            has(FieldList::IP)
                && !is_offset_next(rest)
                && (is_instruction(first) || list.is_some_and(|list| !list.has(FieldList::SYM)))
        });
        if number.is_some() {
            sample.instruction = number;
            text = trim(rest);
            if text.is_empty() {
                break;
            }
        }
        let (segment, rest) = segment(text);
        (sample.symbol, sample.dso) = if has(FieldList::SYM) {
            symbol(segment)
        } else {
            (&b""[..], dso(segment))
        };
        if !has(FieldList::DSO) {
            sample.dso = b"";
        }
        text = trim(rest);
    }
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
    if let Some(end) = last_bracket(text) {
        let (symbol, object) = text.split_at(end);
        return (trim_end(symbol), dso(object));
    }
    let (symbol, rest) = word(text);
    (symbol, dso(trim(rest)))
}

/// Where the bracket opens that the end of the text closes, when a blank is before it.
fn last_bracket(text: &[u8]) -> Option<usize> {
    if !text.ends_with(b")") {
        return None;
    }
    let mut depth = 0_usize;
    for (at, byte) in text.iter().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        let after_blank = at == 0 || text.get(at - 1).is_some_and(|byte| is_blank(*byte));
        if depth == 0 {
            return after_blank.then_some(at);
        }
    }
    // Brackets that do not match: a path that has some.
    memchr::memmem::rfind(text, b" (").map(|blank| blank + 1)
}

/// The object in front, without its brackets, which may hold blanks and brackets; or a word.
fn dso(text: &[u8]) -> &[u8] {
    let Some(inner) = text.strip_prefix(b"(") else {
        return word(text).0;
    };
    let mut depth = 0_usize;
    let mut first = None;
    for at in memchr::memchr2_iter(b'(', b')', inner) {
        if inner.get(at) == Some(&b'(') {
            depth += 1;
            continue;
        }
        if inner.get(at + 1).is_none_or(|byte| is_blank(*byte)) {
            if depth == 0 {
                return inner.get(..at).unwrap_or_default();
            }
            first = first.or(Some(at));
        }
        depth = depth.saturating_sub(1);
    }
    // A path with brackets that do not match.
    match first {
        Some(at) => inner.get(..at).unwrap_or_default(),
        None => word(inner).0,
    }
}

/// `data_src |decoded|`: the number before the bar decides, its decoding is the fallback. Gives what follows the decoding.
fn data_source<'a>(number: &[u8], decoded: &'a [u8], sample: &mut PerfSample<'_>) -> &'a [u8] {
    // Symbols may have bars too, so the last part is known by its name where perf prints it.
    let last = memchr::memmem::find(decoded, b"|BLK ")
        .or_else(|| memrchr(b'|', decoded))
        .unwrap_or(0);
    let (decoded, rest) = decoded.split_at(last + 1);
    sample.cache_level = decoded_level(decoded);
    if let Some(source) = hex_word(number).map(DataSource::new) {
        if !source.level().is_null() {
            sample.cache_level = source.level();
        }
        sample.remote = source.remote();
        sample.hops = source.hops();
        if let Some(store) = source.is_store() {
            sample.store = store;
        }
    }
    // `BLK  N/A`, `LCK No`: words of the last part, in front of the weight.
    let mut rest = trim(rest);
    if let Some(value) = [&b"BLK"[..], b"LCK"]
        .iter()
        .find_map(|name| rest.strip_prefix(*name))
    {
        rest = trim(value);
        while let Some(after) = DECODED_LAST.iter().find_map(|name| {
            rest.strip_prefix(*name)
                .filter(|after| after.first().is_none_or(|byte| is_blank(*byte)))
        }) {
            rest = trim(after);
        }
        return rest;
    }
    // Another part is the last one: what is a number ends it.
    while !rest.is_empty() && decimal(word(rest).0).is_none() {
        rest = trim(word(rest).1);
    }
    rest
}

/// Words that perf prints behind the name of the last part of a decoded data source.
const DECODED_LAST: [&[u8]; 5] = [b"N/A", b"Data", b"Addr", b"Yes", b"No"];

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(line: &str) -> PerfSample<'_> {
        parse(line.as_bytes(), None).unwrap()
    }

    #[test]
    fn any_field_list() {
        let full = sample(
            "   kvmm  2543/2544   1735.937967:          1 page-faults:     556c6a9b3030 stdout@GLIBC_2.2.5+0x0 (/opt/demo/kvmm) ffffffff81752b6a elf_load+0x28a ([kernel.kallsyms])",
        );
        assert_eq!(full.thread_id, Some(2544));
        assert_eq!(full.period, 1);
        assert_eq!(full.symbol, b"elf_load");
        assert_eq!(full.dso, b"[kernel.kallsyms]");
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
        assert_eq!(sample(line).dso, b"/tmp/dir with space/lib.so");
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

    fn listed<'a>(line: &'a str, list: &str) -> Result<PerfSample<'a>, Skip> {
        parse(line.as_bytes(), Some(list.parse().unwrap()))
    }

    #[test]
    fn the_symbol_of_the_code_stands_behind_the_data_source() {
        // As perf prints `addr,data_src,weight,ip,sym,symoff,dso`: the address' symbol, the source, the latency, the code.
        let line = "p 1/2 [000] 1.0: 4000 cpu/mem-loads/P: 7f00 heap+0x8 ([heap])  1a05080144 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A   61   401136 std::operator|(int, int)+0x4 (/opt/a b/x)";
        let found = sample(line);
        assert_eq!((found.weight, found.period), (Some(61), 4000));
        assert_eq!(found.instruction, Some(0x40_1136));
        assert_eq!(found.symbol, b"std::operator|(int, int)");
        assert_eq!(found.dso, b"/opt/a b/x");
        let list = "comm,pid,tid,cpu,time,period,event,addr,ip,sym,symoff,dso,weight,data_src";
        assert_eq!(listed(line, list).unwrap(), found);
        // Without a latency the number is the instruction, which a line alone does not say.
        let line = line.replace("   61   ", "   ");
        let list = list.replace(",weight", "");
        let found = listed(&line, &list).unwrap();
        assert_eq!((found.weight, found.instruction), (None, Some(0x40_1136)));
        assert_eq!(found.symbol, b"std::operator|(int, int)");
    }

    #[test]
    fn a_list_decides_what_a_line_leaves_open() {
        // A command with a number and no process.
        let line = "worker 12 1.5: mem-stores: 10 f (/x.so)";
        assert_eq!(sample(line).thread_id, Some(12));
        let found = listed(line, "comm,time,event,addr,sym,dso").unwrap();
        assert_eq!((found.thread_id, found.store), (None, true));
        // A symbol of hexadecimal digits, and an object without a symbol.
        let found = listed("1 1.5: 10 decade1 (/x.so)", "pid,time,addr,sym,dso").unwrap();
        assert_eq!((found.symbol, found.dso), (&b"decade1"[..], &b"/x.so"[..]));
        let found = listed("1 1.5: 10 (/x y.so)", "pid,time,addr,dso").unwrap();
        assert_eq!((found.symbol, found.dso), (&b""[..], &b"/x y.so"[..]));
        // An address of memory at the end, and a latency behind an object.
        let list = "time,event,addr,ip,sym,dso,weight,phys_addr";
        let found = listed("1.5: ev: 10 d (/d.so) 77 401136 f (/x.so) 1234567", list).unwrap();
        assert_eq!(
            (found.weight, found.instruction),
            (Some(77), Some(0x40_1136))
        );
        assert_eq!((found.symbol, found.dso), (&b"f"[..], &b"/x.so"[..]));
        let found = listed("1.5: 9 10 99 401136", "time,period,addr,weight,ip").unwrap();
        assert_eq!(
            (found.period, found.address, found.weight),
            (9, 16, Some(99))
        );
        assert_eq!(found.instruction, Some(0x40_1136));
        let short = listed("1.5: 10 40", "time,addr,ip").unwrap();
        assert_eq!(short.instruction, Some(0x40));
        // What is listed and not there.
        let none = |line, list| listed(line, list).unwrap_err();
        assert_eq!(none("1.5: 10 f", "time,event,addr,sym"), Skip::NoEvent);
        assert_eq!(none("1.5: ev: 10", "time,period,event,addr"), Skip::NoEvent);
        assert_eq!(none("1.5: ev: 10", "time,addr"), Skip::BadAddress);
    }

    #[test]
    fn objects_are_named_without_their_brackets() {
        let of = |text: &str| {
            let line = format!("c 1 1.0: ev: 10 {text}");
            let found = sample(&line);
            let texts =
                [found.symbol, found.dso].map(|text| String::from_utf8_lossy(text).into_owned());
            texts.join(" in ")
        };
        assert_eq!(of("f (/x.so (deleted))"), "f in /x.so (deleted)");
        assert_eq!(of("f+0x1 (/x.so (deleted))"), "f in /x.so (deleted)");
        assert_eq!(of("f(int) (/a (b) c/x.so)"), "f(int) in /a (b) c/x.so");
        assert_eq!(of("f (/a) b/x.so)"), "f in /a");
        assert_eq!(of("[unknown] ([heap])"), "[unknown] in [heap]");
        assert_eq!(of("f() const"), "f() in const");
        assert_eq!(of("f /x.so more"), "f in /x.so");
        // Digits that are no address are a symbol.
        assert_eq!(
            of(&format!("{} (/x)", "f1".repeat(20))),
            format!("{} in /x", "f1".repeat(20))
        );
    }

    #[test]
    fn reasons() {
        let reason = |line: &str| parse(line.as_bytes(), None).unwrap_err();
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
