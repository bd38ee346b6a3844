//! Compares fio's totals with those of a trace of the same run.

use blkio_companions::fio::{FioResult, Job, Totals};
use blkio_parser::Stats;

/// Requests and bytes.
type Pair = (u64, u64);

/// Totals of one kind of jobs, by fio and by the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FioRow {
    /// The jobs, and the operation letters of the trace that they are compared with.
    pub what: &'static str,
    /// Requests and bytes that fio counted.
    pub fio: Pair,
    /// Requests and bytes in the trace.
    pub trace: Pair,
}

/// Why totals of buffered jobs differ.
pub const NOTE: &str = "fsync of buffered jobs writes whole MiB as WS, which belong to no direct job; readahead and dirty pages make buffered totals differ";

/// Compares fio's totals with those of a trace: direct and buffered, reads and writes.
#[must_use]
pub fn fio_rows(result: &FioResult, stats: &Stats) -> [FioRow; 4] {
    let sum = |direct: bool, pick: fn(&Job) -> Totals| -> Pair {
        result
            .jobs
            .iter()
            .filter(|job| job.direct == direct)
            .map(pick)
            .fold((0, 0), |sum: Pair, t| {
                (sum.0.saturating_add(t.ios), sum.1.saturating_add(t.bytes))
            })
    };
    // Requests by letters: what went around the page cache is synchronous and nothing else.
    let of = |test: &dyn Fn(&str) -> bool| -> Pair {
        let mut sum = (0, 0);
        for (number, operation) in stats.traffic.operations.iter().enumerate() {
            let letters = stats.outcome.symbols.rwbs_all().get(number);
            if letters.is_some_and(|letters| test(letters.as_str())) {
                let mut sizes: Vec<(u32, u64)> =
                    operation.sizes.iter().map(|(b, c)| (*b, *c)).collect();
                sizes.sort_unstable();
                for (bytes, count) in sizes {
                    sum.0 += count;
                    sum.1 += u64::from(bytes) * count;
                }
            }
        }
        sum
    };
    // A direct read is R or RS as the engine asks for it; beside buffered jobs only RS can be told from theirs.
    let all_direct = sum(false, |j| j.read).0 == 0;
    [
        (
            if all_direct {
                "direct reads, trace R and RS"
            } else {
                "direct reads, trace RS"
            },
            sum(true, |j| j.read),
            of(&|l| l == "RS" || (all_direct && l == "R")),
        ),
        (
            "direct writes, trace WS",
            sum(true, |j| j.write),
            of(&|l| l == "WS"),
        ),
        (
            "buffered reads, trace R and RA",
            sum(false, |j| j.read),
            of(&|l| l == "RA" || (!all_direct && l == "R")),
        ),
        (
            "buffered writes, trace W",
            sum(false, |j| j.write),
            of(&|l| l == "W"),
        ),
    ]
    .map(|(what, fio, trace)| FioRow { what, fio, trace })
}
