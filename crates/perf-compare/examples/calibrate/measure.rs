//! The tables: null pairs, intervals, power.

use std::fmt::Write as _;

use perf_compare::document::{Change, Report, Statement};
use perf_compare::{Options, compare};

use crate::simulate::{PROCESSES, Process, SLOW, World};

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

fn names_a_cause(report: &Report) -> bool {
    !matches!(report.verdict.cause.as_str(), "none" | "unknown" | "drift")
}

/// What pairs without any difference give.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Null {
    /// Pairs with at least one declared function: the family error, and the false discovery proportion.
    pub(crate) any: Share,
    /// Pairs whose cycle time is declared different.
    pub(crate) cycle: Share,
    /// Pairs for which a cause is named.
    pub(crate) cause: Share,
    /// Intervals of functions that hold the true difference, 0.
    pub(crate) covered: Share,
    /// Intervals of the cycle time that hold it.
    pub(crate) cycle_covered: Share,
    /// Intervals of the cycle time that do not, without a note that they may not.
    pub(crate) unwarned: Share,
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
        cause: zero,
        covered: zero,
        cycle_covered: zero,
        unwarned: zero,
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
        out.cause.of += 1;
        out.cause.hits += usize::from(names_a_cause(&report));
        for time in &report.cycle_time {
            out.cycle.of += 1;
            out.cycle.hits += usize::from(time.verdict == Statement::Changed);
            out.cycle_covered.of += 1;
            out.cycle_covered.hits += usize::from(holds(time.effect.interval));
            let warns = report
                .notes
                .iter()
                .any(|note| note.contains("independent ones"));
            out.unwarned.of += 1;
            out.unwarned.hits += usize::from(!holds(time.effect.interval) && !warns);
        }
        for finding in &report.findings {
            out.covered.of += 1;
            out.covered.hits += usize::from(holds(finding.effect.interval));
        }
    }
    out
}

/// Families of `functions` kernels besides the usual ones, the first of which takes `factor` times as long in the candidate.
/// Returns how often that one is declared, and how often another one is.
pub(crate) fn wide(functions: usize, factor: f64, cycles: usize, pairs: usize) -> (Share, Share) {
    let healthy = World {
        functions,
        cycles,
        ..World::default()
    };
    let slow = World {
        first_function: factor,
        ..healthy.clone()
    };
    let options = options();
    let (mut found, mut others) = (Share { hits: 0, of: pairs }, Share { hits: 0, of: pairs });
    for seed in 0..pairs {
        let report = judge(&healthy, &slow, 70_000 + seed as u64, &options);
        let declared = || {
            let all = report.findings.iter();
            all.filter(|f| f.verdict == Statement::Changed)
        };
        found.hits += usize::from(declared().any(|f| f.name == "function_0"));
        others.hits += usize::from(declared().any(|f| f.name != "function_0"));
    }
    (found, others)
}

/// One drifting run cut in two: how often the cycle time is declared changed, how often drift is named, and how often another
/// cause.
pub(crate) fn cut_in_two(pairs: usize) -> (Share, Share, Share) {
    let first = World {
        drift: 0.002,
        ..World::default()
    };
    let second = World {
        before: first.cycles,
        ..first.clone()
    };
    let none = Share { hits: 0, of: pairs };
    let (mut changed, mut drift, mut cause) = (none, none, none);
    for seed in 0..pairs {
        let report = judge(&first, &second, 80_000 + seed as u64, &options());
        let is = |time: &perf_compare::document::CycleTime| time.verdict == Statement::Changed;
        changed.hits += usize::from(report.cycle_time.iter().any(is));
        drift.hits += usize::from(report.verdict.cause == "drift");
        cause.hits += usize::from(names_a_cause(&report));
    }
    (changed, drift, cause)
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

fn null_table(out: &mut String, processes: &[Process], pairs: usize) {
    out.push_str(
        "| cycles vary as | any function declared | cycle time declared | a cause named | intervals of functions cover | intervals of cycle time cover |\n\
|---|---:|---:|---:|---:|---:|\n",
    );
    for process in processes {
        let null = null(*process, 57, pairs);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            process.name(),
            null.any.shown(),
            null.cycle.shown(),
            null.cause.shown(),
            null.covered.shown(),
            null.cycle_covered.shown()
        );
    }
}

/// All tables as Markdown.
pub(crate) fn document(pairs: usize, power: usize) -> String {
    let mut out = format!(
        "# Calibration of perf-compare\n\n\
Made by `cargo xtask calibrate` from fixed seeds; ± is the Monte-Carlo standard error. Cycles of a simulated server with\n\
ten kernels and five other functions, 57 cycles a side, 999 permutations at least.\n\n\
## Pairs without a difference\n\n\
{pairs} pairs each, no practical limit (so that statistics alone decide). Nominal: 5 % for any declared function and for\n\
cycle time, 95 % for intervals.\n\n"
    );
    null_table(&mut out, &PROCESSES, pairs);
    let slow = pairs.div_ceil(5);
    let _ = write!(
        out,
        "\n{slow} pairs each of processes in which 57 cycles say little, because neighbours resemble each other:\n\n"
    );
    null_table(&mut out, &SLOW, slow);
    let (changed, drift, cause) = cut_in_two(power);
    let _ = write!(
        out,
        "\nOne run whose host part grows by 0.2 % per cycle, cut in two ({power} runs): cycle time declared {}, drift named {},\n\
another cause named {}.\n",
        changed.shown(),
        drift.shown(),
        cause.shown()
    );
    let wide_pairs = power.div_ceil(4);
    let _ = write!(
        out,
        "\n## Families of many functions\n\n{wide_pairs} pairs each, 57 cycles a side. One function of the family is changed, or none.\n\n\
| functions | factor | the changed one declared | any other declared |\n|---:|---:|---:|---:|\n"
    );
    for functions in [300, 600, 2000] {
        for factor in [1.0, 1.1, 1.3, 2.0] {
            let (found, others) = wide(functions, factor, 57, wide_pairs);
            let shown = if factor > 1.0 {
                found.shown()
            } else {
                "-".to_owned()
            };
            let _ = writeln!(
                out,
                "| {functions} | {factor} | {shown} | {} |",
                others.shown()
            );
        }
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
