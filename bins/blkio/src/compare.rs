//! `blkio compare`.

mod rows;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;

use blkio_parser::analyse::traffic::{Amount, DATA, FINE_BINS};
use blkio_parser::document::{self, DocumentOptions};
use blkio_parser::matching::{self, ClockMatch};
use blkio_parser::{Stats, StatsOptions};
use cli::{OrExit as _, Outcome, ProgressLine};
use perf_compare::{Options, Report, Side, compare};
use report::human;
use serde_json::{Value, json};

use crate::NO_INPUT;
use crate::args::CompareArgs;
use crate::device;
use crate::inputs::{self, files};
use crate::stats::{read_options, warn};
use rows::{device_rows, finding, phase_rows, rows, shown};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// A trace, analysed.
struct Run {
    stats: Stats,
    document: Value,
}

impl Run {
    fn read(files: &[PathBuf], args: &CompareArgs) -> anyhow::Result<Self> {
        let progress = ProgressLine::start("reading", args.verbosity);
        let mut options = StatsOptions::default();
        options.read = read_options(&args.trace, &args.input, &progress);
        let chosen = device::named(args.trace.device.as_ref(), files, &options.read)?;
        options.devices = chosen.map(|dev| vec![dev]);
        let mut stats = Stats::of_files(files, &options).or_exit(NO_INPUT)?;
        if stats.traffic.issues == 0 {
            return Err(anyhow::anyhow!("{}: no requests", inputs::name(files))).or_exit(NO_INPUT);
        }
        let document = document::stats(&mut stats, DocumentOptions::default());
        Ok(Self { stats, document })
    }

    fn span_ns(&self) -> u64 {
        let traffic = &self.stats.traffic;
        let first = traffic.first_issue_ns.unwrap_or(traffic.last_issue_ns);
        traffic.last_issue_ns - first
    }

    /// Share of a direction in all data requests.
    fn share(&self, direction: &str) -> f64 {
        let ios = |of: &str| {
            let ios = &self.document["metrics"]["totals"][of]["ios"];
            ios.as_f64().unwrap_or(0.0)
        };
        ios(direction) / (ios("read") + ios("write")).max(1.0)
    }

    /// What each bin of time was like, as samples: rates, sizes, latencies. The last bin is cut off by the end of the run.
    /// Directions of few requests are left out, since their values are those of chance.
    fn samples(&self, width: Width, directions: [bool; 2]) -> String {
        let traffic = &self.stats.traffic;
        let bin_ns = width.ns();
        let bins = match width.grid_ns {
            SECOND => &traffic.seconds,
            TENTH => &traffic.tenths,
            _ => &traffic.hundredths,
        };
        let count = self.span_ns() / bin_ns;
        let first = traffic.first_issue_ns.unwrap_or(0);
        let ranges: Vec<Range<u64>> = (0..count)
            .map(|bin| first + bin * bin_ns..first + (bin + 1) * bin_ns)
            .collect();
        let mut latencies = self
            .stats
            .newest
            .as_ref()
            .and_then(|pairing| pairing.detail.as_ref())
            .map(|detail| detail.timeline.within(&ranges))
            .unwrap_or_default();
        let mut csv = String::from("metric,unit,value,cycle\n");
        let mut put = |metric: &str, unit: &str, value: f64, bin: u64| {
            // A string takes all that is written.
            let _ = writeln!(csv, "{metric},{unit},{value},{bin}");
        };
        let per_second = SECOND as f64 / bin_ns as f64;
        for (slot, (direction, bins)) in DATA.iter().zip(bins).enumerate() {
            let mut sums: BTreeMap<u64, Amount> = BTreeMap::new();
            for (bin, amount) in bins.finish() {
                sums.entry(bin / width.factor).or_default().add(amount);
            }
            let name = direction.name();
            if sums.is_empty() || !directions.get(slot).is_some_and(|is_wanted| *is_wanted) {
                continue;
            }
            for bin in 0..count {
                let amount = sums.get(&bin).copied().unwrap_or_default();
                let (ios, bytes) = (amount.ios as f64, amount.bytes as f64);
                put(
                    &format!("{name} throughput"),
                    "MB/s",
                    bytes * per_second / 1e6,
                    bin,
                );
                put(&format!("{name} requests"), "1/s", ios * per_second, bin);
                if amount.ios > 0 {
                    put(&format!("{name} size"), "bytes", bytes / ios, bin);
                }
            }
            for (bin, both) in (0..count).zip(&mut latencies) {
                let Some(values) = both.get_mut(slot).filter(|values| values.count > 0) else {
                    continue;
                };
                let found = values.percentiles(&[50.0, 99.0]);
                for (percentile, value) in ["p50", "p99"].iter().zip(found) {
                    put(
                        &format!("{name} latency {percentile}"),
                        "us",
                        value as f64 / 1e3,
                        bin,
                    );
                }
            }
        }
        csv
    }
}

/// Share of all requests below which those of a direction are not compared as samples.
const FEW: f64 = 0.01;

/// Widths of the bins whose values are the samples.
const TENTH: u64 = SECOND / 10;
const HUNDREDTH: u64 = SECOND / 100;
/// Maximum number of bins of a run: times of a broken trace may be centuries apart, and more samples than this say no more.
const MOST: u64 = 2000;

/// Width of the bins: some of those that the traffic was counted in.
#[derive(Debug, Clone, Copy)]
struct Width {
    grid_ns: u64,
    factor: u64,
}

impl Width {
    fn ns(self) -> u64 {
        self.grid_ns.saturating_mul(self.factor)
    }
}

/// Fewest bins of a run that are worth the next wider width.
const ENOUGH: u64 = 50;

/// The widest bins of which both runs have enough; hundredths of a second are only known of the first fifteen.
fn width(a: &Run, b: &Run) -> Width {
    let (shorter, longer) = (a.span_ns().min(b.span_ns()), a.span_ns().max(b.span_ns()));
    let of_enough = |bin_ns: &u64| shorter / bin_ns >= ENOUGH;
    let found = [SECOND, TENTH].into_iter().find(of_enough);
    let fine_is_known = longer / HUNDREDTH < FINE_BINS;
    let grid_ns = found.unwrap_or(if fine_is_known { HUNDREDTH } else { TENTH });
    Width {
        grid_ns,
        factor: longer / grid_ns / MOST + 1,
    }
}

/// The judgement of perf-compare on the samples of both runs.
fn judge(
    runs: [&Run; 2],
    names: &[String; 2],
    width: Width,
    args: &CompareArgs,
) -> anyhow::Result<Report> {
    let directions = DATA.map(|direction| {
        let few = runs.iter().any(|run| run.share(direction.name()) < FEW);
        !few
    });
    let side = |run: &Run, name: &str| {
        Side::from_samples_csv(name, run.samples(width, directions).as_bytes())
    };
    let ([a, b], [base, other]) = (runs, names);
    let (base, other) = (side(a, base)?, side(b, other)?);
    let mut options = Options::default();
    options.threads = args.input.threads().get();
    Ok(compare(&base, &other, &options))
}

/// How the clocks of two recordings of one run lie to each other, where that was asked for.
fn clocks(sides: &[Vec<PathBuf>; 2], args: &CompareArgs) -> anyhow::Result<Option<ClockMatch>> {
    if !args.clocks {
        return Ok(None);
    }
    let progress = ProgressLine::start("reading", args.verbosity);
    let options = read_options(&args.trace, &args.input, &progress);
    let [base, other] = sides;
    let found = matching::clocks(base, other, &options).or_exit(NO_INPUT)?;
    if found.is_none() {
        args.verbosity.note(
            "blkio: too few requests in common to compare clocks: are these recordings of one run?",
        );
    }
    Ok(found)
}

fn clocks_value(found: &ClockMatch) -> Value {
    json!({
        "method": "requests in common",
        "requests": found.requests,
        "b_minus_a_ns": i64::try_from(found.offset_ns).ok(),
        "spread_ns": found.spread_ns,
        "drift_ppm": found.drift_ppm,
    })
}

/// In a sentence.
fn clocks_text(found: &ClockMatch) -> String {
    let time = |ns: f64| human::quantity(ns, report::Unit::Nanos);
    let side = if found.offset_ns < 0 {
        "behind"
    } else {
        "ahead of"
    };
    format!(
        "The clock of B is {} {side} that of A, give or take {}, by {} requests in common.",
        time(found.offset_ns.unsigned_abs() as f64),
        time(found.spread_ns as f64),
        found.requests
    )
}

/// The files of both sides: two paths, or everything before `--with` and everything behind it.
fn sides(args: &CompareArgs) -> anyhow::Result<[Vec<PathBuf>; 2]> {
    let (base, other) = match (args.files.as_slice(), args.with.as_slice()) {
        ([a, b], []) => (std::slice::from_ref(a), std::slice::from_ref(b)),
        (base, other @ [_, ..]) => (base, other),
        ([_], []) => {
            return Err(cli::usage(
                "what is it to be compared with? name a second trace, or several behind --with",
            ));
        }
        (_, []) => {
            return Err(cli::usage(
                "which files are of which side? blkio compare A... --with B...",
            ));
        }
    };
    Ok([files(base, args.verbosity)?, files(other, args.verbosity)?])
}

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Outcome> {
    let sides = sides(args)?;
    let [base, other] = &sides;
    let (a, b) = (Run::read(base, args)?, Run::read(other, args)?);
    let bins = width(&a, &b);
    let names = [inputs::name(base), inputs::name(other)];
    let report = judge([&a, &b], &names, bins, args)?;
    let bin_ns = bins.ns();
    let rows = rows(&a.document, &b.document);
    let phases = phase_rows(&a.document, &b.document);
    let devices = device_rows(&a.document, &b.document);
    let finding = finding(&a.document, &b.document);
    let clocks = clocks(&sides, args)?;
    let mut out = args.output.open()?;
    match args.format.format() {
        cli::Format::Json => {
            let rows: Vec<Value> = rows
                .iter()
                .map(|(name, a, b, change)| json!({"what": name, "a": a, "b": b, "change_pct": change}))
                .collect();
            let report: Value = serde_json::from_str(&report.to_json()?)?;
            let document = json!({
                "schema_version": 3,
                "a": names[0],
                "b": names[1],
                "finding": finding,
                "rows": rows,
                "phases": phases.iter().map(|(phase, (name, a, b, change))| json!({"phase": phase, "what": name, "a": a, "b": b, "change_pct": change})).collect::<Vec<_>>(),
                "devices": devices.iter().map(|(device, (name, a, b, change))| json!({"device": device.trim_start_matches("device "), "what": name, "a": a, "b": b, "change_pct": change})).collect::<Vec<_>>(),
                "clocks": clocks.as_ref().map(clocks_value),
                "samples": {"bin_ns": bin_ns, "comparison": report},
                "quality": {"a": a.document["quality"], "b": b.document["quality"]},
            });
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        }
        cli::Format::Csv => {
            writeln!(out, "what,a,b,change_pct")?;
            for (name, a, b, change) in rows {
                let cell = |v: Option<f64>| v.map_or(String::new(), |v| v.to_string());
                writeln!(out, "{name},{},{},{}", cell(a), cell(b), cell(change))?;
            }
        }
        cli::Format::Text => {
            writeln!(out, "{finding}\n")?;
            writeln!(out, "{:<28} {:>18} {:>18} {:>10}", "", "A", "B", "change")?;
            let mut phase = String::new();
            let rows = rows.into_iter().map(|row| (String::new(), row));
            for (of, (name, a, b, change)) in rows.chain(phases).chain(devices) {
                if of != phase {
                    writeln!(out, "{of}")?;
                    phase = of;
                }
                let cell = |v: Option<f64>| v.map_or("-".to_owned(), |v| shown(name, v));
                let change = change.map_or("-".to_owned(), |c| format!("{c:+.2} %"));
                writeln!(
                    out,
                    "{name:<28} {:>18} {:>18} {change:>10}",
                    cell(a),
                    cell(b)
                )?;
            }
            if let Some(found) = &clocks {
                writeln!(out, "\n{}", clocks_text(found))?;
            }
            let width = human::quantity(bin_ns as f64, report::Unit::Nanos);
            writeln!(out, "\nSamples: what each {width} of the runs was like.")?;
            write!(out, "{}", report.to_text())?;
        }
    }
    out.finish()?;
    for run in [&a, &b] {
        warn(&run.document["quality"], args.verbosity);
    }
    Ok(Outcome::Fine)
}
