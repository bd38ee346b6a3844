//! Compares two traces: values side by side, and the judgement of `perf-compare` on samples of both.

mod cause;
mod others;
mod pace;
mod parts;
mod processes;
mod rows;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;

use blkio_parser::Stats;
use blkio_parser::analyse::traffic::{Amount, DATA, FINE_BINS, SECOND};
use perf_compare::{Options, Report, Side};
use report::human;
use serde_json::{Value, json};

use crate::clock_match::ClockMatch;
use crate::document::{self, DocumentOptions};
use crate::error::{Error, Result};
pub use cause::Cause;
pub use rows::Row;
use rows::shown;

/// A trace to compare, analysed.
#[derive(Debug)]
pub struct Run {
    name: String,
    stats: Stats,
    document: Value,
}

impl Run {
    /// Takes the analyses of a trace.
    ///
    /// # Errors
    ///
    /// A trace without requests.
    pub fn new(name: &str, mut stats: Stats) -> Result<Self> {
        if stats.traffic.issues == 0 {
            return Err(Error::Input(format!("{name}: no requests")));
        }
        let document = document::stats(&mut stats, &DocumentOptions::default());
        Ok(Self {
            name: name.to_owned(),
            stats,
            document,
        })
    }

    /// Returns the data quality of the trace, as in its document.
    #[must_use]
    pub fn quality(&self) -> &Value {
        &self.document["quality"]
    }

    fn span_ns(&self) -> u64 {
        let traffic = &self.stats.traffic;
        let first = traffic.first_issue_ns.unwrap_or(traffic.last_issue_ns);
        traffic.last_issue_ns - first
    }

    /// Returns the share of a direction in all data requests.
    fn share(&self, direction: &str) -> f64 {
        let ios = |of: &str| {
            let ios = &self.document["metrics"]["totals"][of]["ios"];
            ios.as_f64().unwrap_or(0.0)
        };
        ios(direction) / (ios("read") + ios("write")).max(1.0)
    }

    /// Returns what each bin of time was like, as samples: rates, sizes, latencies. The last bin is cut off by the end of the run.
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

/// Returns the widest bins of which both runs have enough; hundredths of a second are only known of the first fifteen.
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

/// Returns the judgement of perf-compare on the samples of both runs.
fn judge(runs: [&Run; 2], width: Width, threads: usize) -> Result<Report> {
    let directions = DATA.map(|direction| {
        let few = runs.iter().any(|run| run.share(direction.name()) < FEW);
        !few
    });
    let side =
        |run: &Run| Side::from_samples_csv(&run.name, run.samples(width, directions).as_bytes());
    let [a, b] = runs;
    let mut options = Options::default();
    options.threads = threads;
    Ok(perf_compare::compare(&side(a)?, &side(b)?, &options))
}

/// What differs between two traces.
#[derive(Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// Why the time per byte changed, that which costs most time first, in sentences.
    pub finding: String,
    pairs: cause::Pairs,
    /// Values of the whole traces.
    pub rows: Vec<Row>,
    /// Values of the phases, where both traces have the same.
    pub phases: Vec<Row>,
    /// Values of the devices, where there are several.
    pub devices: Vec<Row>,
    /// Offset between the clocks of two recordings of one run, where it was asked for and found.
    pub clocks: Option<ClockMatch>,
    /// Width of the bins of time whose values are the samples.
    pub bin_ns: u64,
    /// The judgement on the samples.
    pub samples: Report,
}

/// Compares two traces, the first being the one to compare with. Cost: the comparison of up to 2,000 samples for each value,
/// on so many threads.
///
/// # Errors
///
/// Samples that cannot be compared.
pub fn compare(a: &Run, b: &Run, threads: usize) -> Result<Comparison> {
    let bins = width(a, b);
    let documents = [&a.document, &b.document];
    let pairs = parts::pair([&a.stats, &b.stats], documents);
    let mut finding = pairs.finding();
    // A trace of one device does not list it.
    let devices = documents.map(|of| of["devices"].as_array().map_or(1, |all| all.len().max(1)));
    if devices[0] != devices[1] {
        let [was, is] = devices;
        finding = format!("Number of devices changed from {was} to {is}. {finding}");
    }
    Ok(Comparison {
        finding,
        pairs,
        rows: rows::rows(&a.document, &b.document),
        phases: rows::phase_rows(&a.document, &b.document),
        devices: rows::device_rows(&a.document, &b.document),
        clocks: None,
        bin_ns: bins.ns(),
        samples: judge([a, b], bins, threads)?,
    })
}

impl Comparison {
    /// Returns the comparison of these runs as a JSON object.
    ///
    /// # Errors
    ///
    /// Values that JSON cannot hold.
    pub fn to_json(&self, a: &Run, b: &Run) -> Result<Value> {
        let rows = |rows: &[Row], of: Option<&str>| -> Value {
            let rows = rows.iter().map(|row| {
                let mut map = serde_json::Map::new();
                if let Some(key) = of {
                    map.insert(key.to_owned(), row.of.as_str().into());
                }
                map.insert("what".to_owned(), row.what.into());
                map.insert("a".to_owned(), row.a.into());
                map.insert("b".to_owned(), row.b.into());
                map.insert("change_pct".to_owned(), row.change_pct.into());
                Value::Object(map)
            });
            rows.collect()
        };
        let mut samples: Value = serde_json::from_str(&self.samples.to_json()?)?;
        // Its causes are those of work on devices that compute; ours are above.
        if let Some(members) = samples.as_object_mut() {
            members.remove("verdict");
        }
        Ok(json!({
            "schema_version": 3,
            "a": a.name,
            "b": b.name,
            "finding": self.finding,
            "causes": self.pairs.causes(),
            "other_processes": self.pairs.others.as_ref().map(others::Others::to_value),
            "parts": self.pairs.pairs.iter().map(cause::Pair::to_value).collect::<Vec<_>>(),
            "span_ns": self.pairs.span_ns,
            "between_parts_ns": self.pairs.between_ns(),
            "unpaired": self.pairs.alone.iter().map(|(side, label, ns)| {
                json!({"side": if *side == 0 { "a" } else { "b" }, "label": label, "time_ns": ns})
            }).collect::<Vec<_>>(),
            "rows": rows(&self.rows, None),
            "phases": rows(&self.phases, Some("phase")),
            "devices": rows(&self.devices, Some("device")),
            "clocks": self.clocks.as_ref().map(clocks_value),
            "samples": {"bin_ns": self.bin_ns, "comparison": samples},
            "quality": {"a": a.quality(), "b": b.quality()},
        }))
    }

    /// Writes the values of the whole traces as CSV.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "what,a,b,change_pct")?;
        for row in &self.rows {
            let cell = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
            let [a, b, change] = [row.a, row.b, row.change_pct].map(cell);
            writeln!(out, "{},{a},{b},{change}", row.what)?;
        }
        Ok(())
    }

    /// Writes the comparison as text: the finding, then all values, then the judgement on the samples.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}\n", self.finding)?;
        writeln!(out, "{:<28} {:>18} {:>18} {:>10}", "", "A", "B", "change")?;
        let devices = self.devices.iter();
        let devices = devices.map(|row| (format!("device {}", row.of), row));
        let others = self.rows.iter().chain(&self.phases);
        let mut before = String::new();
        for (of, row) in others.map(|row| (row.of.clone(), row)).chain(devices) {
            if of != before {
                writeln!(out, "{of}")?;
                before = of;
            }
            let cell = |value: Option<f64>| value.map_or("-".to_owned(), |v| shown(row.what, v));
            let change = row.change_pct;
            let change = change.map_or("-".to_owned(), |change| format!("{change:+.2} %"));
            let (what, a, b) = (row.what, cell(row.a), cell(row.b));
            writeln!(out, "{what:<28} {a:>18} {b:>18} {change:>10}")?;
        }
        if let Some(found) = &self.clocks {
            writeln!(out, "\n{}", clocks_text(found))?;
        }
        let width = human::quantity(self.bin_ns as f64, report::Unit::Nanos);
        writeln!(
            out,
            "\nEvidence: values of each {width} of both runs, which are of all requests."
        )?;
        // The answer is the finding above. What the samples say by themselves is the list.
        let samples = self.samples.to_text_without_cause();
        let list = samples.split_once('\n').map_or("", |(_, list)| list);
        write!(out, "{list}")
    }
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
