//! How the steps of each side divide among phases. Phases are compared one by one, so a change of their shares is seen nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::compat::job_and_phase;
use crate::document::Mix;
use crate::side::{Capture, Side};
use crate::stats::{Dependence, mean, normal_sf};

/// Least change of the mean step by the shares alone, in percent.
const LEAST_PCT: f64 = 2.0;

/// Change of the mean step, in percent, from which on cycles are not said to be unchanged,
const MEAN_PCT: f64 = 3.0;
/// if the shares explain so much of it.
const MOST: f64 = 0.3;

/// Least change of the mean step, in percent, and the chance up to which shares that explain most of it are a possible cause: what
/// steps did is known and not estimated, so that a large change is never left without it.
const LARGE: [(f64, f64); 2] = [(10.0, 0.1), (25.0, 1.0)];
/// Part of the change that they explain.
const MOST_OF_LARGE: f64 = 0.6;
/// Steps of the phase that one side has more of, at least.
const MORE_STEPS: f64 = 3.5;

/// Folder and job of a recording.
type Recording = (PathBuf, String);

/// Returns the recording that a capture is of: it has one file for each phase.
fn recording(capture: &Capture) -> Recording {
    let file = Path::new(&capture.file);
    let job = job_and_phase(file).map_or_else(String::new, |(job, _)| job);
    (file.parent().map(Path::to_owned).unwrap_or_default(), job)
}

/// Phase and time of all steps, in the order of time within each recording.
fn steps<'s>(side: &'s Side, untyped: &'s str) -> Vec<(&'s str, f64)> {
    let mut recordings: BTreeMap<Recording, Vec<(f64, &str, f64)>> = BTreeMap::new();
    for capture in &side.captures {
        let kind = match capture.kind.as_str() {
            "" => untyped,
            kind => kind,
        };
        let own = recordings.entry(recording(capture)).or_default();
        own.extend(capture.cycles.iter().map(|c| (c.start_us, kind, c.dur_us)));
    }
    recordings
        .into_values()
        .flat_map(|mut own| {
            own.sort_by(|a, b| a.0.total_cmp(&b.0));
            own.into_iter().map(|(_, kind, dur)| (kind, dur))
        })
        .collect()
}

/// Returns the phase whose share of the steps changed most, if a side has several phases and their shares changed by more than
/// chance, or one side lacks it, or the mean step changed with them, and by enough to be noticed in the mean step.
///
/// The test is that of two proportions, with as many independent steps as the correlation of neighbours leaves: requests arrive
/// in bursts.
pub(super) fn compare(baseline: &Side, candidate: &Side) -> Option<Mix> {
    let kinds = |side: &Side| -> BTreeSet<String> {
        side.captures.iter().map(|c| c.kind.clone()).collect()
    };
    let known = [kinds(baseline), kinds(candidate)];
    // As where phases are paired: a file without a phase goes with decode steps.
    let untyped = if known.iter().any(|kinds| kinds.contains("decode")) {
        "decode"
    } else {
        ""
    };
    let sides = [steps(baseline, untyped), steps(candidate, untyped)];
    shares(&sides)
}

/// The same of short and long cycles, given all cycles in the order of time and the length between them: each mode is compared
/// with itself elsewhere, which does not show that there are more of one.
pub(super) fn modes(cycles: &[Vec<(i64, f64)>; 2], limit_us: f64) -> Option<Mix> {
    let sides = cycles.each_ref().map(|side| {
        let mode = |us: f64| if us > limit_us { "long" } else { "decode" };
        let steps = side.iter().map(|cycle| (mode(cycle.1), cycle.1));
        steps.collect::<Vec<_>>()
    });
    let mix = shares(&sides)?;
    Some(Mix {
        limit_us: Some(limit_us),
        // Lengths alone do not tell what the long cycles do.
        large: false,
        ..mix
    })
}

/// Shares of the phases of all steps.
fn shares(sides: &[Vec<(&str, f64)>; 2]) -> Option<Mix> {
    let phases: BTreeSet<&str> = sides.iter().flatten().map(|step| step.0).collect();
    if phases.len() < 2 || phases.contains("layer") || sides.iter().any(|side| side.len() < 10) {
        return None;
    }
    let of = sides.each_ref().map(Vec::len);
    let count = |side: usize, phase: &str| sides[side].iter().filter(|s| s.0 == phase).count();
    let share = |side: usize, phase: &str| count(side, phase) as f64 / of[side] as f64;
    let typical = |phase: &str| {
        let durs = sides.iter().flatten().filter(|step| step.0 == phase);
        mean(&durs.map(|step| step.1).collect::<Vec<f64>>())
    };
    let added: f64 = phases
        .iter()
        .map(|phase| (share(1, phase) - share(0, phase)) * typical(phase))
        .sum();
    let mean_us = [0, 1].map(|side| mean(&sides[side].iter().map(|s| s.1).collect::<Vec<f64>>()));
    let effect_pct = added / f64::midpoint(mean_us[0], mean_us[1]) * 100.0;
    let moved = |phase: &str| (share(1, phase) - share(0, phase)).abs();
    // With two phases both shares change by the same: the one that does more than generate is named.
    let phase = phases
        .iter()
        .filter(|phase| **phase != "decode")
        .max_by(|a, b| moved(a).total_cmp(&moved(b)))?;
    let is = |side: usize| -> Vec<f64> {
        let steps = sides[side].iter();
        steps.map(|s| f64::from(u8::from(s.0 == *phase))).collect()
    };
    let (one, two) = (is(0), is(1));
    let dependence = Dependence::of(&one, &two);
    let pooled = (count(0, phase) + count(1, phase)) as f64 / (of[0] + of[1]) as f64;
    let variance: f64 = of
        .iter()
        .map(|n| pooled * (1.0 - pooled) / dependence.independent(*n))
        .sum();
    let p = (2.0 * normal_sf(moved(phase) / variance.sqrt())).min(1.0);
    // Steps of a phase that only one side has are compared with none: what they cost is said even where chance may do it.
    let is_of_one = (0..2).any(|side| count(side, phase) == 0);
    let established = p <= Mix::CHANCE;
    // Nor is it left unsaid where the mean step changed, which no phase by itself shows.
    let mean_pct = (mean_us[1] / mean_us[0] - 1.0) * 100.0;
    let is_most = mean_pct.abs() > MEAN_PCT && effect_pct / mean_pct >= MOST;
    let is_large = |(least, chance): (f64, f64)| mean_pct.abs() >= least && p <= chance;
    let more = moved(phase) * of[0].min(of[1]) as f64;
    let large = LARGE.into_iter().any(is_large)
        && added / (mean_us[1] - mean_us[0]) >= MOST_OF_LARGE
        && more >= MORE_STEPS;
    ((established || is_of_one || is_most) && effect_pct.abs() >= LEAST_PCT).then(|| Mix {
        phase: (*phase).to_owned(),
        limit_us: None,
        steps: [count(0, phase), count(1, phase)],
        of,
        mean_us,
        effect_pct,
        p,
        established,
        large,
    })
}
