//! Table of HolisticTraceAnalysis' `TraceDiff.compare_traces`, by its rules.
//!
//! Every slice counts by its name, with times rounded inwards to whole microseconds (start up, end
//! down, so that short ones may last -1 us). If the host has `ProfilerStep` annotations, only
//! slices that start within one count; GPU activity counts if the call with its correlation id
//! does. The tool does not know HIP calls, so that GPU activity of ROCm traces is missing.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxBuildHasher;
use serde::Serialize;
use trace_model::{ArgColumn, Slice, Trace};

/// Slices of one name in two traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NameRow {
    /// The name.
    pub name: String,
    /// Number of slices in each trace.
    pub counts: [i64; 2],
    /// Sum of their rounded durations, in microseconds.
    pub total_us: [i64; 2],
}

impl NameRow {
    /// Returns `+` if the second trace has more, `-` for less, `=` for equally many.
    pub fn change(&self) -> &'static str {
        match self.counts[1].cmp(&self.counts[0]) {
            std::cmp::Ordering::Greater => "+",
            std::cmp::Ordering::Less => "-",
            std::cmp::Ordering::Equal => "=",
        }
    }
}

/// Returns counts and durations by name, in ascending order of names.
pub fn compare(control: &Trace, test: &Trace) -> Vec<NameRow> {
    let mut table: BTreeMap<String, NameRow> = BTreeMap::new();
    for (side, trace) in [control, test].into_iter().enumerate() {
        for (name, (count, us)) in by_name(trace) {
            let row = table.entry(name.to_owned()).or_insert_with(|| NameRow {
                name: name.to_owned(),
                ..NameRow::default()
            });
            row.counts[side] += count;
            row.total_us[side] += us;
        }
    }
    table.into_values().collect()
}

fn cut(slice: Slice<'_>) -> Option<(i64, i64)> {
    let end = slice.ts() + slice.dur()?;
    let up = |ns: i64| ns.div_euclid(1000) + i64::from(ns.rem_euclid(1000) > 0);
    Some((up(slice.ts().nanos()), end.nanos().div_euclid(1000)))
}

fn by_name(trace: &Trace) -> BTreeMap<&str, (i64, i64)> {
    let stream: ArgColumn = trace.arg_column("stream");
    let correlation = trace.arg_column("correlation");
    let on_device = |s: Slice<'_>| stream.int(s).is_some_and(|n| n >= 0);
    // The profiler's instant events are not complete events.
    let is_complete = |s: &Slice<'_>| s.category().is_some_and(|c| c != "cpu_instant_event");
    let complete = || trace.slices().filter(is_complete);
    let steps: Vec<(i64, i64)> = complete()
        .filter(|s| !on_device(*s) && s.name().is_some_and(|n| n.starts_with("ProfilerStep")))
        .filter_map(cut)
        .collect();
    let inside = |start: i64| steps.is_empty() || steps.iter().any(|s| s.0 <= start && start < s.1);
    let mut launched: HashMap<i64, bool, FxBuildHasher> = HashMap::default();
    for slice in complete().filter(|s| !on_device(*s)) {
        let is_cuda = slice.name().is_some_and(|n| n.starts_with("cu"));
        if let (true, Some(id), Some((start, _))) = (is_cuda, correlation.int(slice), cut(slice)) {
            let known = launched.entry(id).or_default();
            *known |= inside(start);
        }
    }
    let mut out: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for slice in complete() {
        let Some((start, end)) = cut(slice) else {
            continue;
        };
        let counts = match on_device(slice) {
            true => correlation
                .int(slice)
                .is_some_and(|id| launched.get(&id) == Some(&true)),
            false => inside(start),
        };
        if counts {
            let sum = out.entry(slice.name().unwrap_or("")).or_default();
            sum.0 += 1;
            sum.1 += end - start;
        }
    }
    out
}
