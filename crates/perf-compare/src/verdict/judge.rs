//! From signals and signatures to a cause.

use std::collections::BTreeMap;

use super::explain::falls_short;
use super::signal::{Signal, Stat};
use super::signature::{Clause, Direction, Signature, Signatures};
use crate::document::{
    Change, CycleTime, Evidence, Finding, Growth, Mix, Pauses, RuledOut, RunnerUp, Statement,
    Verdict,
};
use crate::report_text::short;
use crate::side::is_wait;

/// What the statistics have found, as far as a cause needs it.
pub(crate) struct Facts<'a> {
    pub(crate) cycle_time: &'a [CycleTime],
    pub(crate) findings: &'a [Finding],
    /// Whether cycle times may be compared.
    pub(crate) comparable: bool,
    /// Ranks that changed places.
    pub(crate) swaps: Vec<String>,
    /// Shares of phases, if they changed.
    pub(crate) mix: Option<&'a Mix>,
    /// Whether shares of short and long cycles changed.
    pub(crate) modes: bool,
}

/// Cycles of each side from which one of many functions can be established to have changed, and what wanders is seen to.
const ENOUGH: usize = 20;

impl Facts<'_> {
    /// Returns `true` unless cycles and functions were compared and none of them is established to have changed. Of few cycles
    /// nothing can be established, and the size of a difference has to do.
    fn any_established(&self) -> bool {
        let of_cycle = |time: &CycleTime| {
            let pauses = time.pauses.as_ref();
            time.verdict == Statement::Changed
                || time.tail.is_some()
                || pauses.is_some_and(|pauses| pauses.established)
        };
        let could_be = |time: &CycleTime| time.effect.n.iter().all(|n| *n >= ENOUGH);
        !self.comparable
            || !self.cycle_time.iter().any(could_be)
            || self.mix.is_some()
            || self.modes
            || self.cycle_time.iter().any(of_cycle)
            || self.findings.iter().any(is_change)
    }
}

/// Returns `true` for functions that changed by themselves: waits of another length that change no cycle are no change of their own.
fn is_change(finding: &Finding) -> bool {
    finding.verdict == Statement::Changed && finding.class != "sync" && !is_wait(&finding.name)
}

/// Causes whose evidence is times of the host alone, which drift explains as well.
const TIMES_ONLY: [&str; 2] = ["host_code", "waiting_for_input"];
/// Causes whose evidence is times of kernels alone. Drift explains them unless a kernel is declared: one that drifts itself is
/// not.
const KERNEL_TIMES_ONLY: [&str; 3] = ["gpu_slow", "gpu_kernel", "collective_slow"];

/// How a signature fits.
struct Fit<'s> {
    signature: &'s Signature,
    /// 0 unless everything needed holds and nothing speaks against it.
    score: f64,
    evidence: Vec<Evidence>,
    /// Why not, if not.
    why_not: String,
    /// Whether all that is missing was not recorded, so that the cause is open.
    unrecorded: bool,
    /// `true` if only times of cycles, and of what runs in them, changed as the signature asks.
    of_times: bool,
}

/// Returns `true` for times of cycles and of functions, and for what is made of these alone.
fn is_time(metric: &str) -> bool {
    const TIMES: [&str; 26] = [
        "attention_beyond",
        "collective_",
        "comm_beside",
        "cycle_us",
        "device_idle",
        "exposed_comm",
        "host_alike",
        "host_function",
        "host_part",
        "host_time",
        "input_wait",
        "kernel_class",
        "kernel_ratio",
        "kernel_slower",
        "kernel_time",
        "kernel_top_added",
        "kernel_top_share",
        "kernel_top_us",
        "kernel_us",
        "kernels_alike",
        "kernels_faster",
        "kernels_slower",
        "kernels_unchanged",
        "on_cpu",
        "rank_host",
        "rank_",
    ];
    TIMES.iter().any(|prefix| metric.starts_with(prefix))
}

/// Half strength at the threshold, full strength at four times it.
fn strength(factor: f64) -> f64 {
    (0.5 + 0.25 * factor.max(1.0).log2()).min(1.0)
}

fn shown(clause: &Clause, signals: &[Signal]) -> String {
    let asked = match clause.direction {
        Direction::Up => "risen",
        Direction::Down => "fallen",
        Direction::Moved => "changed",
        Direction::Flat => "steady",
        Direction::Recorded => "recorded",
        Direction::Absent => return format!("{} was recorded", clause.metric),
    };
    let found = clause.candidates(signals).into_iter().max_by(|a, b| {
        a.change_pct(clause.stat)
            .abs()
            .total_cmp(&b.change_pct(clause.stat).abs())
    });
    match found {
        None => format!("{} was not recorded", clause.metric),
        Some(signal) => {
            let [a, b] = signal.typical(clause.stat);
            format!(
                "{} on {} is {} to {} {} and has not {} enough",
                clause.metric,
                signal.device,
                short(a),
                short(b),
                signal.unit,
                asked
            )
            .replace("has not steady enough", "is not steady")
        }
    }
}

fn fit<'s>(signature: &'s Signature, signals: &[Signal]) -> Fit<'s> {
    let mut fit = Fit {
        signature,
        score: 0.0,
        evidence: Vec::new(),
        why_not: String::new(),
        unrecorded: false,
        of_times: false,
    };
    let absent = |clause: &Clause| clause.candidates(signals).is_empty();
    let mut unrecorded = true;
    let mut strengths = Vec::new();
    let mut missing = Vec::new();
    // What stayed the same is shown behind what moved.
    let mut steady = Vec::new();
    for clause in &signature.need {
        if clause.direction == Direction::Absent {
            if !absent(clause) {
                unrecorded = false;
                missing.push(shown(clause, signals));
            }
            continue;
        }
        match clause.best(signals) {
            Some((signal, factor)) => {
                let row = signal.evidence(clause.stat, "needed");
                match clause.direction {
                    Direction::Flat | Direction::Recorded => steady.push(row),
                    _ => {
                        strengths.push(strength(factor));
                        fit.evidence.push(row);
                    }
                }
            }
            // What was not recorded cannot be seen to move.
            None if clause.direction == Direction::Flat
                && clause.candidates(signals).is_empty() => {}
            None => {
                unrecorded &= absent(clause);
                missing.push(shown(clause, signals));
            }
        }
    }
    for group in &signature.one_of {
        let mut best = 0.0_f64;
        let recorded = |clause: &Clause| {
            clause.direction == Direction::Recorded && clause.best(signals).is_some()
        };
        if group.iter().any(recorded) {
            continue;
        }
        for clause in group {
            if let Some((signal, factor)) = clause.best(signals) {
                best = best.max(strength(factor));
                fit.evidence.push(signal.evidence(clause.stat, "telling"));
            }
        }
        if best > 0.0 {
            strengths.push(best);
        } else {
            unrecorded &= group.iter().all(absent);
            let parts: Vec<String> = group.iter().map(|clause| shown(clause, signals)).collect();
            missing.push(parts.join("; "));
        }
    }
    let mut moved = fit.evidence.iter();
    fit.of_times = moved.all(|row| is_time(&row.metric));
    if !missing.is_empty() {
        fit.why_not = missing.join("; ");
        fit.unrecorded = unrecorded;
        return fit;
    }
    for clause in &signature.against {
        if let Some(signal) = clause.speaks(signals) {
            let [a, b] = signal.typical(clause.stat);
            fit.why_not = format!(
                "{}: {} on {} went from {} to {} {}",
                clause
                    .why
                    .as_deref()
                    .unwrap_or("something else explains it"),
                signal.metric,
                signal.device,
                short(a),
                short(b),
                signal.unit
            );
            return fit;
        }
    }
    if let Some(why) = falls_short(signature, signals) {
        fit.why_not = why;
        return fit;
    }
    let supported: Vec<&Clause> = signature
        .support
        .iter()
        .filter(|c| !c.candidates(signals).is_empty())
        .collect();
    let mut held = 0;
    for clause in &supported {
        if let Some((signal, _)) = clause.best(signals) {
            held += 1;
            let row = signal.evidence(clause.stat, "supporting");
            match clause.direction {
                Direction::Flat => steady.push(row),
                _ => fit.evidence.push(row),
            }
        }
    }
    fit.evidence.append(&mut steady);
    let support = if supported.is_empty() {
        1.0
    } else {
        f64::from(held) / supported.len() as f64
    };
    let strength = strengths.iter().sum::<f64>() / strengths.len().max(1) as f64;
    fit.score = signature.specificity * (0.5 + 0.5 * strength) * (0.85 + 0.15 * support);
    fit.evidence
        .dedup_by(|a, b| a.metric == b.metric && a.device == b.device);
    fit
}

/// The best fit of each cause, in the order of the table.
fn fits<'s>(signals: &[Signal], signatures: &'s Signatures, reversed: bool) -> Vec<Fit<'s>> {
    let mut best: Vec<Fit<'s>> = Vec::new();
    for signature in signatures.all.iter().filter(|s| !reversed || s.reversible) {
        let new = fit(signature, signals);
        match best
            .iter_mut()
            .find(|old| old.signature.cause == signature.cause)
        {
            Some(old) if new.score > old.score => *old = new,
            // A cause is open as long as one of its signatures is.
            Some(old) if old.score <= 0.0 && !old.unrecorded && new.unrecorded => *old = new,
            Some(_) => {}
            None => best.push(new),
        }
    }
    best
}

/// Names the cause. `there` are the signals from baseline to candidate, `back` the other way.
pub(crate) fn conclude(
    there: &[Signal],
    back: &[Signal],
    facts: &Facts<'_>,
    signatures: &Signatures,
) -> (Verdict, Vec<Evidence>) {
    let table: Vec<Evidence> = there
        .iter()
        .map(|signal| signal.evidence(Stat::Median, "measured"))
        .collect();
    let few = too_few(facts);
    let usable = |signal: &&Signal| !few || is_counter(&signal.metric);
    let mut there: Vec<Signal> = there.iter().filter(usable).cloned().collect();
    there.extend(declared(facts, false));
    there.extend(facts.mix.into_iter().flat_map(mixed));
    let mut back: Vec<Signal> = back.iter().filter(usable).cloned().collect();
    back.extend(declared(facts, true));
    let (there, back) = (&there[..], &back[..]);
    let standing = |reversed: bool| {
        let signals = if reversed { back } else { there };
        let mut found = fits(signals, signatures, reversed);
        if !few && !facts.any_established() {
            for fit in found
                .iter_mut()
                .filter(|fit| fit.score > 0.0 && fit.of_times)
            {
                fit.score = 0.0;
                fit.why_not =
                    "no change of the cycle time or of a function is established".to_owned();
            }
        }
        found
    };
    let forward = standing(false);
    let best = forward.iter().map(|fit| fit.score).fold(0.0, f64::max);
    let is_kernel = |f: &Finding| matches!(f.class, "kernel" | "collective");
    let mut declared = facts.findings.iter();
    let kernels_changed = declared.any(|f| f.verdict == Statement::Changed && is_kernel(f));
    let drift_explains = |fit: &Fit<'_>| {
        let cause = fit.signature.cause.as_str();
        fit.score <= 0.0
            || TIMES_ONLY.contains(&cause)
            || (KERNEL_TIMES_ONLY.contains(&cause) && !kernels_changed)
    };
    if facts.cycle_time.iter().any(|time| time.continues_drift)
        && forward.iter().all(drift_explains)
    {
        return (drift(facts, forward), table);
    }
    let times_only = forward
        .iter()
        .all(|fit| fit.score <= 0.0 || TIMES_ONLY.contains(&fit.signature.cause.as_str()));
    let of_times = forward.iter().all(|fit| {
        let cause = fit.signature.cause.as_str();
        fit.score <= 0.0 || TIMES_ONLY.contains(&cause) || KERNEL_TIMES_ONLY.contains(&cause)
    });
    let grows = facts
        .cycle_time
        .iter()
        .find_map(|time| time.growth.as_ref());
    if let (Some(growth), true) = (grows, of_times) {
        return (growing(growth, facts, forward), table);
    }
    let paused = facts.cycle_time.iter().find_map(|time| {
        let pauses = time.pauses.as_ref()?;
        (pauses.established && (pauses.often || time.typical_is_unchanged())).then_some(pauses)
    });
    // What waits for requests in many cycles waits for requests; and what nothing recorded accounts for says less than any cause.
    let is_input = |fit: &Fit<'_>| fit.score > 0.0 && fit.signature.cause == "waiting_for_input";
    let is_named = |pauses: &Pauses| {
        !pauses.often
            || (!pauses.functions.is_empty() && !forward.iter().any(is_input))
            || best <= 0.0
    };
    let paused = paused.filter(|pauses| is_named(pauses));
    if let Some(pauses) = paused.filter(|pauses| times_only || (pauses.often && of_times)) {
        return (pausing(pauses, facts, forward), table);
    }
    let improved = facts
        .findings
        .iter()
        .any(|f| f.verdict == Statement::Changed && f.change == Change::Faster)
        || facts.cycle_time.iter().any(|c| c.change == Change::Faster)
        || !facts.comparable;
    let verdict = if best > 0.0 {
        named(forward, "worse", facts)
    } else {
        let backward = if improved { standing(true) } else { Vec::new() };
        let found = backward.iter().map(|fit| fit.score).fold(0.0, f64::max);
        if found > 0.0 {
            named(backward, "better", facts)
        } else {
            nameless(forward, facts)
        }
    };
    (verdict, table)
}

/// Returns `true` if there are fewer cycles than any claim about times needs.
fn too_few(facts: &Facts<'_>) -> bool {
    let mut times = facts.cycle_time.iter();
    !facts.cycle_time.is_empty() && times.all(|c| c.verdict == Statement::Insufficient)
}

/// Returns `true` for quantities that were sampled over time, however few the cycles; all others come from times of cycles.
fn is_counter(metric: &str) -> bool {
    const SAMPLED: [&str; 6] = ["gpu_", "cpu_", "host_", "process_", "container_", "net_"];
    metric != "host_function_us" && SAMPLED.iter().any(|prefix| metric.starts_with(prefix))
}

/// The mix of phases as quantities for the rules.
fn mixed(mix: &Mix) -> Vec<Signal> {
    let share = [0, 1].map(|side| mix.steps[side] as f64 / mix.of[side].max(1) as f64 * 100.0);
    [
        Signal::point("phase_share_pct", &mix.phase, "% of steps", share),
        Signal::point(
            "mix_effect_pct",
            "all",
            "% of mean step",
            [0.0, mix.effect_pct],
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What the statistics declared, as quantities for the rules.
fn declared(facts: &Facts<'_>, reversed: bool) -> Vec<Signal> {
    if !facts.comparable {
        return Vec::new();
    }
    let wanted = if reversed {
        [Change::Faster, Change::Gone]
    } else {
        [Change::Slower, Change::New]
    };
    let of = |classes: &[&str]| {
        let found = facts.findings.iter().filter(|f| {
            f.verdict == Statement::Changed
                && wanted.contains(&f.change)
                && classes.contains(&f.class)
        });
        found.count() as f64
    };
    let cycles = facts
        .cycle_time
        .iter()
        .filter(|c| c.verdict == Statement::Changed && wanted.contains(&c.change))
        .count() as f64;
    [
        ("declared_kernels", of(&["kernel"])),
        (
            "declared_copies",
            of(&["copy_to_device", "copy_to_host", "copy_on_device"]),
        ),
        ("declared_collectives", of(&["collective"])),
        ("declared_host_functions", of(&["host"])),
        ("declared_cycles", cycles),
    ]
    .into_iter()
    .filter_map(|(metric, count)| Signal::point(metric, "all", "count", [0.0, count]))
    .collect()
}

/// A row read from candidate to baseline, turned around.
fn turn(row: &mut Evidence) {
    std::mem::swap(&mut row.baseline, &mut row.candidate);
    row.n.swap(0, 1);
    row.effect = -row.effect;
    row.interval = row.interval.map(|[low, high]| [-high, -low]);
    let change = row.effect / row.baseline.abs() * 100.0;
    row.change_pct = change.is_finite().then_some(change);
}

fn named(mut fits: Vec<Fit<'_>>, direction: &'static str, facts: &Facts<'_>) -> Verdict {
    fits.sort_by(|a, b| b.score.total_cmp(&a.score));
    let second = fits.get(1).map_or(0.0, |fit| fit.score);
    let mixed = fits.first().filter(|fit| {
        let mut rows = fit.evidence.iter();
        rows.any(|row| row.metric == "phase_share_pct")
    });
    // Shares of phases change the mean step while the cycles of each phase stay.
    let (direction, critical) = match facts.mix.filter(|_| mixed.is_some()) {
        Some(mix) if mix.effect_pct < 0.0 => ("better", Some(true)),
        Some(_) => ("worse", Some(true)),
        None => (direction, on_critical_path(direction, facts)),
    };
    let mixed = mixed.is_some();
    let mut rest = fits.into_iter();
    let Some(first) = rest.next() else {
        return nameless(Vec::new(), facts);
    };
    let confidence =
        |score: f64, other: f64| ((score * (1.0 - 0.4 * other / score)) * 100.0).round() / 100.0;
    let rest: Vec<Fit<'_>> = rest.collect();
    let runner_up = rest
        .first()
        .filter(|fit| fit.score > 0.0)
        .map(|fit| RunnerUp {
            cause: fit.signature.cause.clone(),
            confidence: confidence(fit.score, first.score).min((fit.score * 50.0).round() / 100.0),
            why: told(&fit.evidence),
        });
    let (unjudged, rest): (Vec<Fit<'_>>, Vec<Fit<'_>>) =
        rest.into_iter().partition(|fit| fit.unrecorded);
    let mut ruled_out = swapped_ranks(facts);
    ruled_out.extend(rest.iter().map(|fit| RuledOut {
        cause: fit.signature.cause.clone(),
        why: if fit.score > 0.0 {
            format!(
                "fits less well ({:.2} against {:.2}): {}",
                fit.score,
                first.score,
                told(&fit.evidence)
            )
        } else {
            fit.why_not.clone()
        },
    }));
    let where_ = match critical {
        Some(true) => "on the critical path",
        Some(false) => {
            "not on the critical path: cycle time is not established to have changed with it"
        }
        None => "cycle times cannot be compared, so whether it costs time is open",
    };
    let mut evidence = first.evidence;
    if direction == "better" && !mixed {
        evidence.iter_mut().for_each(turn);
    }
    let gone = if direction == "worse" || mixed {
        ""
    } else {
        " no more"
    };
    Verdict {
        summary: format!(
            "{}{gone}: {}; {where_}",
            first.signature.cause,
            told(&evidence)
        ),
        cause: first.signature.cause.clone(),
        // Shares of phases are counted, and their difference was tested.
        confidence: match facts.mix.filter(|_| mixed) {
            Some(mix) if mix.established => 0.9,
            Some(_) => 0.45,
            None => confidence(first.score, second),
        },
        certainty: "open",
        doubt: facts.mix.filter(|_| mixed).and_then(Mix::doubt),
        direction,
        on_critical_path: critical,
        in_slow_cycles: false,
        covers: first.signature.covers.clone(),
        evidence,
        ruled_out,
        not_judged: not_judged(unjudged),
        runner_up,
    }
}

/// The strongest pieces of evidence in words.
fn told(evidence: &[Evidence]) -> String {
    let mut by_metric: BTreeMap<&str, &Evidence> = BTreeMap::new();
    let mut order: Vec<&Evidence> = Vec::new();
    for row in evidence {
        if by_metric.insert(&row.metric, row).is_none() {
            order.push(row);
        }
    }
    let parts: Vec<String> = order
        .iter()
        .take(3)
        .map(|row| {
            format!(
                "{} on {} {} to {} {}",
                row.metric,
                row.device,
                short(row.baseline),
                short(row.candidate),
                row.unit
            )
        })
        .collect();
    parts.join(", ")
}

/// Causes that the recording cannot speak about.
fn not_judged(fits: Vec<Fit<'_>>) -> Vec<RuledOut> {
    fits.into_iter()
        .map(|fit| RuledOut {
            cause: fit.signature.cause.clone(),
            why: fit.why_not,
        })
        .collect()
}

/// A role swap is a symptom that looks like a cause.
fn swapped_ranks(facts: &Facts<'_>) -> Vec<RuledOut> {
    facts
        .swaps
        .iter()
        .map(|swap| RuledOut {
            cause: "rank_role_swap".to_owned(),
            why: swap.clone(),
        })
        .collect()
}

fn on_critical_path(direction: &str, facts: &Facts<'_>) -> Option<bool> {
    if !facts.comparable || facts.cycle_time.is_empty() {
        return None;
    }
    if too_few(facts) {
        return None;
    }
    let wanted = if direction == "worse" {
        Change::Slower
    } else {
        Change::Faster
    };
    if facts.cycle_time.iter().any(|c| c.change == wanted) {
        return Some(true);
    }
    // That a change is not established does not show that there is none.
    let sign = if direction == "worse" { 1.0 } else { -1.0 };
    let is_likely = |c: &CycleTime| {
        let interval = c
            .effect
            .interval
            .filter(|_| c.verdict != Statement::Equivalent);
        interval.is_some_and(|[low, high]| (sign * low).min(sign * high) > 0.0)
    };
    (!facts.cycle_time.iter().any(is_likely)).then_some(false)
}

/// Some cycles are far longer than the rest, and more of them on one side.
fn pausing(pauses: &Pauses, facts: &Facts<'_>, fits: Vec<Fit<'_>>) -> Verdict {
    Verdict {
        cause: "pauses".to_owned(),
        confidence: if pauses.p <= 0.01 { 0.85 } else { 0.6 },
        direction: if pauses.more_in_candidate {
            "worse"
        } else {
            "better"
        },
        on_critical_path: Some(true),
        summary: format!("pauses: {}", pauses.said()),
        covers: match pauses.often {
            true => "Cycles are slow every now and then, and the others are as before: work that is due in some steps only, preemption, power that is capped for a while.",
            false => "A few cycles are far longer than the rest while the typical one is unchanged: garbage collection, allocation, preemption, a scheduler that stops.",
        }
        .to_owned(),
        ..nameless(fits, facts)
    }
}

/// The candidate begins as the baseline is and becomes slower and slower.
fn growing(growth: &Growth, facts: &Facts<'_>, fits: Vec<Fit<'_>>) -> Verdict {
    let hint = match growth.is_of_gpu() {
        true => "heat, power or a clock that falls: record clocks to tell",
        false => "a leak, a list or a cache that grows: record longer to see whether it ends",
    };
    Verdict {
        cause: "drift".to_owned(),
        confidence: 0.6,
        direction: "worse",
        on_critical_path: Some(true),
        summary: format!(
            "The candidate becomes slower within itself: {}; {hint}",
            growth.said()
        ),
        covers: "A drift within the candidate alone: a leak, a growing list, cache or context, a device that warms up."
            .to_owned(),
        ..nameless(fits, facts)
    }
}

/// The captures differ as one drifting run cut in two does.
fn drift(facts: &Facts<'_>, fits: Vec<Fit<'_>>) -> Verdict {
    let moved = facts
        .cycle_time
        .iter()
        .find(|time| time.continues_drift)
        .and_then(|time| time.effect.ratio)
        .map_or(0.0, |ratio| (ratio - 1.0) * 100.0);
    Verdict {
        cause: "drift".to_owned(),
        confidence: 0.6,
        summary: format!(
            "drift: cycle time drifts within both captures, and the difference of {moved:+.1} % between them is no more than this drift continued; warm up longer, or record the two alternately"
        ),
        covers: "A drift within both captures that explains their difference: warming up, growing caches or contexts."
            .to_owned(),
        ..nameless(fits, facts)
    }
}

fn nameless(fits: Vec<Fit<'_>>, facts: &Facts<'_>) -> Verdict {
    let changed = facts
        .cycle_time
        .iter()
        .any(|c| c.verdict == Statement::Changed || c.tail.is_some())
        || facts.modes
        || facts.findings.iter().any(is_change);
    let insufficient = too_few(facts);
    let few_samples = facts.cycle_time.is_empty()
        && !facts.findings.is_empty()
        && facts
            .findings
            .iter()
            .all(|f| f.verdict == Statement::Insufficient);
    let (cause, confidence, summary) = if few_samples {
        (
            "unknown",
            0.1,
            "there are too few samples to see a change".to_owned(),
        )
    } else if changed {
        (
            "unknown",
            0.3,
            "something changed, but no signature fits".to_owned(),
        )
    } else if insufficient {
        (
            "none",
            0.3,
            "no signature fits, and there are too few cycles to see changes of time".to_owned(),
        )
    } else if facts.cycle_time.is_empty() && facts.findings.is_empty() {
        (
            "unknown",
            0.1,
            "times cannot be compared, and no counter says why".to_owned(),
        )
    } else {
        let equivalent = facts
            .cycle_time
            .iter()
            .any(|c| c.verdict == Statement::Equivalent);
        let confidence = if equivalent { 0.9 } else { 0.6 };
        (
            "none",
            confidence,
            "no change is established, and no signature fits".to_owned(),
        )
    };
    let (unjudged, fits): (Vec<Fit<'_>>, Vec<Fit<'_>>) =
        fits.into_iter().partition(|fit| fit.unrecorded);
    let mut ruled_out = swapped_ranks(facts);
    ruled_out.extend(fits.into_iter().map(|fit| RuledOut {
        cause: fit.signature.cause.clone(),
        why: fit.why_not,
    }));
    Verdict {
        cause: cause.to_owned(),
        confidence,
        certainty: "open",
        doubt: None,
        direction: "none",
        on_critical_path: None,
        in_slow_cycles: false,
        summary,
        covers: match cause {
            "none" => "nothing that could be established".to_owned(),
            _ => "a change that no signature explains".to_owned(),
        },
        evidence: Vec::new(),
        ruled_out,
        not_judged: not_judged(unjudged),
        runner_up: None,
    }
}
