//! The hand-written grammars against the regular expressions that they stand for, on lines made of likely pieces.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::sync::LazyLock;

use memtrace_labeller::perf_text::{Grammar, parse_line};
use proptest::prelude::*;
use regex::bytes::Regex;

/// The reference's expression of version 0.1.0, as the specification describes it; anchored at the start only.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    let expression = r"(?-u)^\s*(?P<comm>[^\n]+?)\s+(?P<pid>[0-9]+)\s+\[(?P<cpu>[0-9]+)\]\s+(?P<sec>[0-9]+)\.(?P<frac>[0-9]+):\s+(?:[0-9]+\s+)?(?P<event>[^:]+):\s+(?P<addr>[0-9a-fA-F]+)\s+(?P<sym>\S+)(?:\s+(?P<dso>\S+))?";
    Regex::new(expression).unwrap()
});

/// What the reference makes of a line: time, address, whether a store, symbol, object, thread, CPU.
type Sample = (u64, u128, bool, Vec<u8>, Vec<u8>, Option<u32>, Option<u16>);

fn by_expression(line: &[u8]) -> Option<Sample> {
    let found = REFERENCE.captures(line)?;
    let part = |name: &str| found.name(name).map_or(&b""[..], |part| part.as_bytes());
    let text = |name: &str| std::str::from_utf8(part(name)).unwrap().to_owned();
    let mut fraction = text("frac");
    fraction.truncate(9);
    // Times and addresses that no machine has are skipped by us.
    let time = format!("{}{fraction:0<9}", text("sec")).parse().ok()?;
    let event = String::from_utf8_lossy(part("event")).to_lowercase();
    let symbol = part("sym").split(|byte| *byte == b'+').next().unwrap();
    Some((
        time,
        u128::from_str_radix(&text("addr"), 16).ok()?,
        event.contains("mem-store"),
        symbol.to_vec(),
        part("dso").to_vec(),
        text("pid").parse().ok(),
        text("cpu").parse().ok(),
    ))
}

fn by_hand(line: &[u8]) -> Option<Sample> {
    let sample = parse_line(line, Grammar::Mrm010).ok()?;
    Some((
        sample.timestamp_ns,
        sample.wide.unwrap_or(sample.address.into()),
        sample.store,
        sample.symbol.to_vec(),
        sample.dso.to_vec(),
        sample.thread_id,
        sample.cpu_id,
    ))
}

/// Pieces that decide whether and how a line fits.
const PIECES: [&str; 44] = [
    " ",
    "  ",
    "\t",
    "\x0b",
    "llama-cli",
    "a b",
    "4242",
    "1",
    "4242/4243",
    "-1",
    "[003]",
    "[0]",
    "[",
    "]",
    "[x]",
    "1.5:",
    "12.123456789012:",
    "7.0",
    "9:",
    "3.:",
    ".5:",
    "1.5: ",
    ":",
    " : ",
    "100 ",
    "cpu/mem-stores/P:",
    "cpu/mem-loads,ldlat=20/P:",
    "MEM-STORES: ",
    "page-faults:u:",
    "mem:0x10:rw:",
    "ev:",
    "7f3a00001000",
    "DEADBEEF",
    "0x10",
    "zz",
    "[unknown]",
    "+0x10",
    "operator+",
    "f+0x1",
    "(/usr/lib/x.so)",
    "(a b)",
    "new(unsigned long)",
    "\r",
    "é",
];

fn line() -> impl Strategy<Value = String> {
    let free = prop::collection::vec(prop::sample::select(&PIECES[..]), 0..14)
        .prop_map(|pieces| pieces.concat());
    // Most lines of loose pieces fit nowhere, so half begin as a whole one in which pieces are put.
    let whole =
        "  llama-cli 4242 [003] 1.5: 100 cpu/mem-stores/P: 7f3a00001000 f+0x1 (/usr/lib/x.so) tail";
    let pieces = prop::collection::vec(
        (
            0..=whole.len(),
            prop::sample::select(&PIECES[..]),
            0..8_usize,
        ),
        0..5,
    );
    let edited = pieces.prop_map(move |edits| {
        let mut text = whole.to_owned();
        for (at, piece, cut) in edits {
            let mut at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            let mut end = (at + cut).min(text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            text.replace_range(at..end, piece);
        }
        text
    });
    prop_oneof![free, edited]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn the_grammar_is_the_expression(line in line()) {
        prop_assert_eq!(by_hand(line.as_bytes()), by_expression(line.as_bytes()), "{:?}", line);
    }

    /// Whatever fits a grammar has a place; nothing panics.
    #[test]
    fn no_line_breaks_a_grammar(line in prop::collection::vec(any::<u8>(), 0..200), text in line()) {
        for grammar in [Grammar::Native, Grammar::Mrm010, Grammar::Mrm023] {
            let _ = parse_line(&line, grammar);
            let _ = parse_line(text.as_bytes(), grammar);
        }
    }
}
