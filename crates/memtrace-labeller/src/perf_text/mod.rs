//! Text printed by `perf script`: one sample a line.
//!
//! Three grammars: those of the reference's two versions, for comparisons with it, and one of our own that takes any list of
//! fields. All work on bytes, without regular expressions.

mod fields;
mod list;
mod mrm;
mod native;
pub(crate) mod reader;
mod sample;

use memchr::memchr2;

pub use list::FieldList;
pub use sample::{PerfSample, Skip};

use crate::access::Access;
use crate::names::{Name, Names};

/// How lines are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Grammar {
    /// Any field list that `perf script` prints, recognised line by line.
    #[default]
    Native,
    /// The same with the fields known, where a line alone can be read in two ways.
    Listed(FieldList),
    /// As the reference's version 0.1.0 does, mistakes included.
    Mrm010,
    /// As the reference's version 0.1.23 does.
    Mrm023,
}

impl Grammar {
    /// Whether lines are read as the reference reads them.
    #[must_use]
    pub const fn is_reference(self) -> bool {
        matches!(self, Self::Mrm010 | Self::Mrm023)
    }
}

/// Reads one line, without its end.
///
/// # Errors
///
/// The reason why it holds no sample.
///
/// ```
/// use memtrace_labeller::perf_text::{Grammar, parse_line};
/// let line = b"llama-cli 4242 [003] 1.5: cpu/mem-stores/P: 7f3a00001000 kv_update+0x10 (/usr/lib/libggml.so)";
/// let sample = parse_line(line, Grammar::Native).unwrap();
/// assert_eq!((sample.timestamp_ns, sample.address), (1_500_000_000, 0x7f3a_0000_1000));
/// assert_eq!(sample.symbol, b"kv_update");
/// assert!(sample.store);
/// ```
pub fn parse_line(line: &[u8], grammar: Grammar) -> Result<PerfSample<'_>, Skip> {
    match grammar {
        Grammar::Native => native::parse(line, None),
        Grammar::Listed(list) => native::parse(line, Some(list)),
        Grammar::Mrm010 => mrm::parse_010(line),
        Grammar::Mrm023 => mrm::parse_023(line),
    }
}

/// Calls `each` with every line of `block` and its number counted from 0. Lines end with LF, CRLF or a lone CR; a last
/// line without an end counts.
pub(crate) fn for_each_line(block: &[u8], mut each: impl FnMut(u64, &[u8])) {
    let mut rest = block;
    let mut number = 0;
    while !rest.is_empty() {
        let end = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let (line, tail) = rest.split_at(end);
        each(number, line);
        number += 1;
        rest = match tail {
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => tail,
        };
    }
}

/// The row of a sample; texts are added to `names`.
pub(crate) fn to_access(sample: &PerfSample<'_>, names: &mut Names) -> Access {
    let mut row = Access::new(sample.timestamp_ns, sample.address);
    row.op = if sample.page_fault {
        Name::PAGE_FAULT
    } else if sample.store {
        Name::STORE
    } else {
        Name::LOAD
    };
    row.symbol = match (sample.symbol, sample.instruction) {
        // Without a symbol the instruction is the best name there is.
        ([], Some(ip)) => names.intern(&format!("{ip:#x}")),
        (symbol, _) => names.intern_bytes(symbol),
    };
    row.dso = names.intern_bytes(sample.dso);
    row.thread_id = sample.thread_id;
    row.process_id = sample.process_id;
    row.cpu_id = sample.cpu_id;
    row.access_latency_ns = sample.weight;
    row.cache_level = sample.cache_level;
    row.numa_node = sample.remote;
    row.hops = sample.hops;
    row.period = match sample.period {
        // Breakpoints stop at each access.
        0 if sample.event.starts_with(b"mem:") => 1,
        period => period,
    };
    if let Some(wide) = sample.wide {
        row.wide = names.intern(&wide.to_string());
        row.address = 0x4000_0000_0000_0000 | u64::from(row.wide.number());
        row.address_page = u64::try_from(wide >> crate::access::PAGE_BITS).unwrap_or(row.address);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_end_ends_a_line() {
        let mut lines = Vec::new();
        for_each_line(b"a\nb\r\nc\rd\n\ne", |n, line| {
            lines.push((n, line.to_vec()))
        });
        let texts: Vec<&[u8]> = lines.iter().map(|(_, line)| &line[..]).collect();
        assert_eq!(texts, [&b"a"[..], b"b", b"c", b"d", b"", b"e"]);
        assert_eq!(lines.last().unwrap().0, 5);
    }
}
