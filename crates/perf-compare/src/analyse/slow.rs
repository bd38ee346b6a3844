//! Cycles that are slow every now and then because more is copied in them: how often they come is no cause, what they do is.

use std::collections::BTreeSet;

use crate::document::{Pauses, Verdict};
use crate::side::{Capture, Cycle, DeviceTime, SingleCalls};

/// Part of what a slow cycle takes longer that the copies in it must take.
const PART: f64 = 0.5;
/// Fewest slow cycles that say what they have in common.
const FEWEST: usize = 3;

/// Returns the verdict about the slow cycles of the candidate against all cycles of the baseline, if it is that more is copied in
/// them and the copies take most of the time. Copies are counted, so that they explain the cycles and not only when they come.
pub(super) fn of_copies(
    pauses: &Pauses,
    sides: [&[&Capture]; 2],
    judge: &dyn Fn([&[&Capture]; 2]) -> Verdict,
) -> Option<Verdict> {
    // Numbers of cycles are those of one capture.
    let [candidate] = sides[1] else { return None };
    if !pauses.established || !pauses.more_in_candidate || pauses.numbers.len() < FEWEST {
        return None;
    }
    let slow = only(candidate, &pauses.numbers.iter().copied().collect());
    let mut verdict = judge([sides[0], &[&slow]]);
    let copied = verdict
        .evidence
        .iter()
        .find(|row| row.metric == "copy_us")?;
    let is_copied = matches!(verdict.cause.as_str(), "memory_pressure" | "workload_shift")
        && verdict.direction == "worse"
        && copied.effect >= PART * pauses.excess_us[1]?;
    if !is_copied {
        return None;
    }
    verdict.on_critical_path = Some(true);
    verdict.in_slow_cycles = true;
    verdict.summary = format!(
        "{}, in {} of {} cycles",
        verdict.summary.split("; ").next().unwrap_or_default(),
        pauses.cycles[1],
        pauses.of[1]
    );
    Some(verdict)
}

/// The cycles of these numbers, as if no others had been recorded.
fn only(capture: &Capture, numbers: &BTreeSet<i64>) -> Capture {
    let places: Vec<usize> = capture
        .cycles
        .iter()
        .enumerate()
        .filter(|(_, cycle)| numbers.contains(&cycle.number))
        .map(|(at, _)| at)
        .collect();
    let of = |values: &Vec<f64>| -> Vec<f64> {
        let each = places.iter().map(|at| values.get(*at).copied());
        each.map(|value| value.unwrap_or(f64::NAN)).collect()
    };
    let cycles: Vec<Cycle> = places
        .iter()
        .filter_map(|at| capture.cycles.get(*at).cloned())
        .collect();
    let mut functions = capture.functions.clone();
    for f in &mut functions {
        f.dur_us = of(&f.dur_us);
        f.calls = of(&f.calls);
        f.bytes = of(&f.bytes);
        f.single = f.single.as_ref().map(|single| SingleCalls {
            shortest_us: of(&single.shortest_us),
            longest_us: of(&single.longest_us),
            longest: of(&single.longest),
        });
    }
    let mut device_counters = capture.device_counters.clone();
    for counter in &mut device_counters {
        counter.values = of(&counter.values);
        let sampled = places.iter().map(|at| counter.sampled.get(*at).copied());
        counter.sampled = sampled.map(|own| own.unwrap_or(false)).collect();
    }
    let device_times = capture.device_times.iter().map(|times| DeviceTime {
        busy_us: of(&times.busy_us),
        exposed_us: of(&times.exposed_us),
    });
    Capture {
        whole: (0, cycles.len()),
        cycles,
        functions,
        device_counters,
        device_times: device_times.collect(),
        file: capture.file.clone(),
        kind: capture.kind.clone(),
        anchors: capture.anchors.clone(),
        processes: capture.processes.clone(),
        counters: capture.counters.clone(),
        ..*capture
    }
}
