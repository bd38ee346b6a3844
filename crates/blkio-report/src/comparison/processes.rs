//! The change of each process of a part, where several use the device in both runs.

use std::collections::BTreeMap;
use std::ops::Range;

use blkio_parser::Stats;
use blkio_parser::analyse::samples::Sample;
use serde_json::{Value, json};

use super::cause::{Pair, factor};
use super::others::{is_of_kernel, name_of, shown};
use super::pace::Pace;

/// Fewest requests of a process on either side.
const LEAST: f64 = 50.0;
/// Share of the requests from which a process is looked at.
const NOTABLE: f64 = 0.05;
/// Logarithm of a factor from which processes change differently.
const UNLIKE: f64 = 0.05;

/// A process and its own requests in both runs.
#[derive(Debug)]
struct Process {
    name: String,
    pair: Pair,
}

/// Processes of a part that change differently.
#[derive(Debug)]
pub(super) struct Processes {
    /// The one that changes most leads.
    all: Vec<Process>,
}

/// Requests of each process in some stretches of a run, by name, and the numbers of its names.
fn counts(
    stats: &Stats,
    stretches: &[Range<u64>],
    wanted: &dyn Fn(&Sample) -> bool,
) -> BTreeMap<String, (f64, Vec<u32>)> {
    let detail = stats.newest.as_ref().and_then(|of| of.detail.as_ref());
    let mut by_number: BTreeMap<u32, f64> = BTreeMap::new();
    for stretch in stretches {
        let blocks = detail.map(|detail| detail.samples.within(stretch.start, stretch.end));
        for sample in blocks.iter().flatten().flatten().filter(|of| wanted(of)) {
            if sample.is_data() {
                *by_number.entry(sample.comm).or_default() += 1.0;
            }
        }
    }
    let mut named: BTreeMap<String, (f64, Vec<u32>)> = BTreeMap::new();
    for (number, count) in by_number {
        let (sum, numbers) = named.entry(name_of(stats, number)).or_default();
        *sum += count;
        numbers.push(number);
    }
    named
}

impl Processes {
    /// Compares the processes that both sides of a part have; `None` where there is one only, or all change alike.
    pub(super) fn of(
        stats: [&Stats; 2],
        stretches: [&[Range<u64>]; 2],
        wanted: [&dyn Fn(&Sample) -> bool; 2],
    ) -> Option<Self> {
        let [a, b] = [0, 1].map(|at: usize| {
            let (stats, stretches, wanted) = (stats.get(at)?, stretches.get(at)?, wanted.get(at)?);
            Some(counts(stats, stretches, wanted))
        });
        let (a, b) = (a?, b?);
        let whole = |of: &BTreeMap<String, (f64, Vec<u32>)>| -> f64 {
            of.values().map(|(count, _)| count).sum()
        };
        let least = [whole(&a), whole(&b)].map(|of| LEAST.max(NOTABLE * of));
        let mut all: Vec<Process> = Vec::new();
        for (name, (x, numbers_a)) in &a {
            let Some((y, numbers_b)) = b.get(name) else {
                continue;
            };
            if name.is_empty() || is_of_kernel(name) || *x < least[0] || *y < least[1] {
                continue;
            }
            let pace = |at: usize, numbers: &[u32]| {
                let (stats, stretches) = (stats.get(at)?, stretches.get(at)?);
                Pace::of(stats, stretches, &|sample| numbers.contains(&sample.comm))
            };
            let (Some(of_a), Some(of_b)) = (pace(0, numbers_a), pace(1, numbers_b)) else {
                continue;
            };
            let bytes = [of_a.bytes(), of_b.bytes()];
            all.push(Process {
                name: name.clone(),
                pair: Pair::new("", None, [of_a, of_b], bytes, None),
            });
        }
        all.sort_by(|x, y| y.pair.log().abs().total_cmp(&x.pair.log().abs()));
        let logs = || all.iter().map(|of| of.pair.log());
        let spread = logs().fold(f64::MIN, f64::max) - logs().fold(f64::MAX, f64::min);
        (all.len() > 1 && spread >= UNLIKE).then_some(Self { all })
    }

    /// Says which process changes most, and how; the others' factors follow.
    pub(super) fn text(&self) -> String {
        let Some((first, others)) = self.all.split_first() else {
            return String::new();
        };
        let others: Vec<String> = others
            .iter()
            .map(|of| format!("{} {}", shown(&of.name), factor(of.pair.log())))
            .collect();
        format!(
            " Of the processes, {} changes most: {} time per byte of its own{}; {}.",
            shown(&first.name),
            factor(first.pair.log()),
            first.pair.leading_cause(),
            others.join(", ")
        )
    }

    pub(super) fn to_value(&self) -> Value {
        let all = self.all.iter();
        all.map(|of| json!({"process": of.name, "change_pct": of.pair.log().exp_m1() * 100.0}))
            .collect()
    }
}
