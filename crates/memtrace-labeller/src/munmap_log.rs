//! Logs of mmap and munmap: from when on an address holds something else.

use crate::error::{Error, Result};
use crate::names::Names;
use crate::ranges::{AddressRange, RangeMap};

/// A stretch of addresses that was mapped or unmapped: what was known of it does not hold from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unmap {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// When, in the clock of the trace.
    pub time_ns: u64,
}

impl Unmap {
    /// An unmapping.
    #[must_use]
    pub const fn new(start: u64, end: u64, time_ns: u64) -> Self {
        Self {
            start,
            end,
            time_ns,
        }
    }
}

/// Reads a log with a line for each call: `TIME_NS mmap|munmap ADDRESS BYTES`, the address in hexadecimal with or without `0x`, the
/// bytes decimal, as eBPF programs print them (see the help of `memtrace`). A new mapping ends what it lies over, too. Blank lines,
/// comments (`#`), what bpftrace says of itself (`Attaching 3 probes...`) and calls that failed (an address from 2^64 - 4095) are
/// passed over.
///
/// # Errors
///
/// [`Error::Row`] for any other line.
///
/// ```
/// use memtrace_labeller::{Unmap, unmaps_from_log};
/// let log = b"Attaching 2 probes...\n500 munmap 0x7f0000001000 8192\n";
/// assert_eq!(unmaps_from_log("log", log)?, [Unmap::new(0x7f00_0000_1000, 0x7f00_0000_3000, 500)]);
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
pub fn unmaps_from_log(name: &str, text: &[u8]) -> Result<Vec<Unmap>> {
    let text = String::from_utf8_lossy(text);
    let mut unmaps = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with("Attach") {
            continue;
        }
        let unmap = call(line).ok_or_else(|| Error::Row {
            name: name.to_owned(),
            line: number,
            what: "no call: TIME_NS mmap|munmap ADDRESS BYTES".to_owned(),
        })?;
        // The last page holds no mapping: it is where errors are.
        if unmap.start < u64::MAX - 4095 && unmap.start < unmap.end {
            unmaps.push(unmap);
        }
    }
    Ok(unmaps)
}

fn call(line: &str) -> Option<Unmap> {
    let mut words = line.split_ascii_whitespace();
    let time_ns = words.next()?.parse().ok()?;
    matches!(words.next()?, "mmap" | "munmap").then_some(())?;
    let start = words.next()?;
    let start = u64::from_str_radix(start.strip_prefix("0x").unwrap_or(start), 16).ok()?;
    let bytes: u64 = words.next()?.parse().ok()?;
    words.next().is_none().then_some(())?;
    Some(Unmap::new(start, start.saturating_add(bytes), time_ns))
}

/// The eras of addresses: how many of the calls so far were the last one for an address at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Eras {
    /// Each call from its time on, the last one first, so that the one that is found is the latest before a time.
    calls: RangeMap,
    count: usize,
}

impl Eras {
    pub(crate) fn new(unmaps: &[Unmap]) -> Self {
        let mut sorted = unmaps.to_vec();
        sorted.sort_by_key(|unmap| std::cmp::Reverse(unmap.time_ns));
        let ranges: Vec<AddressRange> = sorted
            .iter()
            .map(|unmap| {
                AddressRange::new(unmap.start, unmap.end, "").valid(Some(unmap.time_ns), None)
            })
            .collect();
        let mut calls = RangeMap::default();
        calls.extend(&ranges, &mut Names::new());
        Self {
            calls,
            count: sorted.len(),
        }
    }

    /// The era of an address at a time: 0 before the first call for it.
    pub(crate) fn at(&self, address: u64, time_ns: u64) -> u32 {
        if self.count == 0 {
            return 0;
        }
        let found = self.calls.find(address, time_ns);
        let era = found.map_or(0, |call| self.count.saturating_sub(call.rank));
        u32::try_from(era).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_era_begins_with_the_latest_call_for_an_address() {
        let eras = Eras::new(&[
            Unmap::new(0x1000, 0x3000, 50),
            Unmap::new(0x2000, 0x4000, 20),
            Unmap::new(0x1000, 0x2000, 90),
        ]);
        let at = |address| [0, 20, 49, 50, 90].map(|time| eras.at(address, time));
        assert_eq!(at(0x1000), [0, 0, 0, 2, 3]);
        assert_eq!(at(0x2fff), [0, 1, 1, 2, 2]);
        assert_eq!(at(0x3000), [0, 1, 1, 1, 1]);
        assert_eq!(at(0x4000), [0; 5]);
    }

    #[test]
    fn other_lines_are_mistakes_and_failed_calls_are_nothing() {
        let fine =
            b"# log\n\nAttaching 3 probes...\n5 mmap 0xfffffffffffffff4 4096\n6 munmap 7f00 0\n";
        assert_eq!(unmaps_from_log("log", fine).unwrap(), []);
        for line in [
            "x munmap 7f00 1",
            "5 brk 7f00 1",
            "5 munmap 7g 1",
            "5 munmap 7f00",
            "5 munmap 7f00 1 2",
        ] {
            let error = unmaps_from_log("log", line.as_bytes()).unwrap_err();
            assert!(
                error.to_string().starts_with("log: line 1: no call"),
                "{line}"
            );
        }
    }
}
