//! The tables: null pairs, intervals, power.

use std::fmt::Write as _;

use perf_compare::document::{Change, Report, Statement};
use perf_compare::{Options, compare};

use crate::simulate::{PROCESSES, Process, World};

/// A proportion and its Monte-Carlo standard error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) hits: usize,
    pub(crate) of: usize,
}

impl Share {
    pub(crate) fn value(self) -> f64 {
        self.hits as f64 / self.of.max(1) as f64
    }

    /// Standard error of a proportion that really is `p`.
    pub(crate) fn error_at(self, p: f64) -> f64 {
        (p * (1.0 - p) / self.of.max(1) as f64).sqrt()
    }

    fn shown(self) -> String {
        let p = self.value();
        format!("{:.1} ± {:.1} %", p * 100.0, self.error_at(p) * 100.0)
    }
}

pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 499;
    options.threads = std::thread::available_parallelism().map_or(1, usize::from);
    // Statistics alone decide here, not what matters in practice.
    options.min_effect_pct = 0.0;
    options.min_effect_us = 0.0;
    options
}

fn judge(a: &World, b: &World, seed: u64, options: &Options) -> Report {
    compare(&a.side(2 * seed), &b.side(2 * seed + 1), options)
}

/// What pairs without any difference give.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Null {
    /// Pairs with at least one declared function: the family error, and the false discovery proportion.
    pub(crate) any: Share,
    /// Pairs whose cycle time is declared different.
    pub(crate) cycle: Share,
    /// Intervals of functions that hold the true difference, 0.
    pub(crate) covered: Share,
    /// Intervals of the cycle time that hold it.
    pub(crate) cycle_covered: Share,
}

/// `pairs` pairs from one generator.
pub(crate) fn null(process: Process, cycles: usize, pairs: usize) -> Null {
    let world = World {
        process,
        cycles,
        ..World::default()
    };
    let options = options();
    let zero = Share { hits: 0, of: 0 };
    let mut out = Null {
        any: zero,
        cycle: zero,
        covered: zero,
        cycle_covered: zero,
    };
    let holds =
        |interval: Option<[f64; 2]>| interval.is_some_and(|[low, high]| low <= 0.0 && high >= 0.0);
    for seed in 0..pairs {
        let report = judge(&world, &world, 10_000 + seed as u64, &options);
        out.any.of += 1;
        out.any.hits += usize::from(
            report
                .findings
                .iter()
                .any(|f| f.verdict == Statement::Changed),
        );
        for time in &report.cycle_time {
            out.cycle.of += 1;
            out.cycle.hits += usize::from(time.verdict == Statement::Changed);
            out.cycle_covered.of += 1;
            out.cycle_covered.hits += usize::from(holds(time.effect.interval));
        }
        for finding in &report.findings {
            out.covered.of += 1;
            out.covered.hits += usize::from(holds(finding.effect.interval));
        }
    }
    out
}

/// A kernel at 11 % of the cycle made 10 % slower: how often it is declared, and how often ranked first.
pub(crate) fn power_of_kernel(pairs: usize) -> (Share, Share) {
    let healthy = World::default();
    let slow = World {
        kernel: |_, name| if name == "paged_attention" { 1.1 } else { 1.0 },
        ..World::default()
    };
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 499;
    options.threads = self::options().threads;
    let (mut declared, mut first) = (Share { hits: 0, of: pairs }, Share { hits: 0, of: pairs });
    for seed in 0..pairs {
        let report = judge(&healthy, &slow, 50_000 + seed as u64, &options);
        let is = |f: &perf_compare::document::Finding| {
            f.name == "paged_attention" && f.verdict == Statement::Changed
        };
        declared.hits += usize::from(report.findings.iter().any(is));
        first.hits += usize::from(report.findings.first().is_some_and(is));
    }
    (declared, first)
}

/// The size the tool asks for to find 2 %, from pilots of 40 cycles; and how often 2 % is found with it.
pub(crate) fn power_at_stated_size(pairs: usize) -> (u64, Share) {
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 499;
    options.threads = self::options().threads;
    // Noisy, so that the size is not the smallest one.
    let world = |cycles: usize, host_us: f64| World {
        cycles,
        host_us,
        jitter: 0.04,
        ..World::default()
    };
    let pilots: Vec<u64> = (0..9)
        .filter_map(|seed| {
            let pilot = world(40, 14_000.0);
            judge(&pilot, &pilot, 90_000 + seed, &options)
                .cycle_time
                .first()?
                .cycles_needed_for_2pct
        })
        .collect();
    let mut sizes = pilots;
    sizes.sort_unstable();
    let size = sizes.get(sizes.len() / 2).copied().unwrap_or(50);
    let cycles = usize::try_from(size).unwrap_or(50);
    // The cycle is about 30.5 ms: 2 % of it more on the host.
    let length = world(400, 14_000.0);
    let mean = judge(&length, &length, 99, &options)
        .cycle_time
        .first()
        .map_or(30_500.0, |t| t.effect.baseline);
    let mut found = Share { hits: 0, of: pairs };
    for seed in 0..pairs {
        let report = judge(
            &world(cycles, 14_000.0),
            &world(cycles, 14_000.0 + 0.02 * mean),
            95_000 + seed as u64,
            &options,
        );
        found.hits += usize::from(report.cycle_time.iter().any(|t| t.change == Change::Slower));
    }
    (size, found)
}

/// All tables as Markdown.
pub(crate) fn document(pairs: usize, power: usize) -> String {
    let mut out = format!(
        "# Calibration of perf-compare\n\n\
Made by `cargo xtask calibrate` from fixed seeds; ± is the Monte-Carlo standard error. Cycles of a simulated server with\n\
ten kernels and five other functions, 57 cycles a side, 999 permutations.\n\n\
## Pairs without a difference\n\n\
{pairs} pairs each, no practical limit (so that statistics alone decide). Nominal: 5 % for any declared function and for\n\
cycle time, 95 % for intervals.\n\n\
| cycles vary as | any function declared | cycle time declared | intervals of functions cover | intervals of cycle time cover |\n\
|---|---:|---:|---:|---:|\n"
    );
    for process in PROCESSES {
        let null = null(process, 57, pairs);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            process.name(),
            null.any.shown(),
            null.cycle.shown(),
            null.covered.shown(),
            null.cycle_covered.shown()
        );
    }
    let (declared, first) = power_of_kernel(power);
    let (size, found) = power_at_stated_size(power);
    let _ = write!(
        out,
        "\n## Power\n\n{power} pairs each, with the default practical limits.\n\n\
| planted | sample | found | ranked first |\n|---|---|---:|---:|\n\
| one kernel of 11 % of the cycle, 10 % slower | 57 cycles | {} | {} |\n\
| cycle 2 % longer, durations varying by 4 % | {size} cycles, as the tool asks for | {} | |\n",
        declared.shown(),
        first.shown(),
        found.shown()
    );
    out
}
