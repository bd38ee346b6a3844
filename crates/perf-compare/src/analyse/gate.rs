//! May these two be compared? Asked before any statistic.

use std::collections::{BTreeMap, BTreeSet};

use super::panel::Pairing;
use crate::document::{Comparability, Reason, Status};
use crate::report_text::{label, times};
use crate::side::{CAPTURE_SETTINGS, Capture, Class, Recording, Side, shape, template, unit_to_us};
use crate::stats::median;

/// Cycles below which nothing can be declared.
pub(super) const FEWEST: usize = 5;
/// Medians further apart than this, at different anchors, mean another granularity.
const GRANULARITY: f64 = 5.0;

/// Part of the kernel time in common kernels below which the model, the engine or the GPU is another one.
const OTHER_MODEL: f64 = 0.05;

/// Names that only one maker's libraries and compilers use.
const MAKERS: [(&str, &[&str]); 2] = [
    (
        "AMD",
        &[
            "cijk_",
            "hip",
            "rccl",
            "rocblas",
            "__amd_rocclr",
            "ck_tile",
            "_mfma",
            "rocprim",
        ],
    ),
    (
        "NVIDIA",
        &[
            "cuda",
            "cublas",
            "nvjet",
            "cutlass",
            "sm80_",
            "sm90_",
            "ncclkernel",
            "nccldev",
            "cudnn",
        ],
    ),
];

/// Returns the maker of the devices, if the names of functions speak for one only.
fn vendor(captures: &[&Capture]) -> Option<&'static str> {
    let speaks = |words: &[&str]| {
        let mut names = captures
            .iter()
            .flat_map(|c| &c.functions)
            .map(|f| f.name.to_ascii_lowercase());
        names.any(|name| words.iter().any(|word| name.starts_with(word)))
    };
    let mut found = MAKERS.iter().filter(|(_, words)| speaks(words));
    match (found.next(), found.next()) {
        (Some((maker, _)), None) => Some(maker),
        _ => None,
    }
}

/// GPUs and engines that the recordings of the sides state and that differ, and settings of the profiler that were on for one
/// side only. What a side does not state is no reason.
fn stated(a: &Side, b: &Side, reasons: &mut Vec<Reason>) {
    let both = |of: &dyn Fn(&Recording) -> BTreeSet<String>| {
        // A device without a name may be any.
        let known = |side: &Side| -> BTreeSet<String> {
            let all = side.recordings.iter().flat_map(of);
            all.filter(|name| !name.trim().is_empty()).collect()
        };
        let (a, b) = (known(a), known(b));
        let shown = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" and ");
        (a != b && !a.is_empty() && !b.is_empty()).then(|| (shown(&a), shown(&b)))
    };
    let differ = [
        ("hardware", "GPUs", both(&|r| r.gpus.clone())),
        (
            "engine",
            "engines",
            both(&|r| r.engine.iter().cloned().collect()),
        ),
    ];
    for (code, what, differ) in differ {
        if let Some((a, b)) = differ {
            reasons.push(reason(
                code,
                true,
                format!("the sides ran on other {what}: {a} (baseline) and {b} (candidate)"),
            ));
        }
    }
    for setting in CAPTURE_SETTINGS {
        let on = [a, b].map(|side| {
            let mut stated = side
                .recordings
                .iter()
                .filter_map(|r| r.capture.get(setting));
            let first = stated.next().copied();
            first.map(|first| first || stated.any(|on| *on))
        });
        if let [Some(one), Some(two)] = on
            && one != two
        {
            let side = if one { "baseline" } else { "candidate" };
            reasons.push(reason(
                "capture",
                false,
                format!(
                    "only the {side} was recorded with {setting}, which takes time of its own: a difference may be the profiler's; record both sides alike"
                ),
            ));
        }
    }
}

fn reason(code: &'static str, stops: bool, text: String) -> Reason {
    Reason { code, stops, text }
}

/// Captures of the same type of cycle, side by side. A file without a type goes with decode cycles.
pub(super) fn pairings<'s>(a: &'s Side, b: &'s Side) -> Vec<Pairing<'s>> {
    let by_kind = |side: &'s Side| {
        let mut kinds: ByKind<'s> = BTreeMap::new();
        for capture in &side.captures {
            kinds
                .entry(capture.kind.as_str())
                .or_default()
                .push(capture);
        }
        kinds
    };
    let (mut one, mut two) = (by_kind(a), by_kind(b));
    untyped_is_decode(&mut one, &two);
    untyped_is_decode(&mut two, &one);
    one.into_iter()
        .filter_map(|(kind, first)| {
            let second = two.remove(kind)?;
            Some(Pairing {
                cycle_type: kind.to_owned(),
                sides: [first, second],
            })
        })
        .collect()
}

type ByKind<'s> = BTreeMap<&'s str, Vec<&'s Capture>>;

fn untyped_is_decode<'s>(this: &mut ByKind<'s>, other: &ByKind<'s>) {
    if !other.contains_key("")
        && !this.contains_key("decode")
        && let Some(captures) = this.remove("")
    {
        this.insert("decode", captures);
    }
}

/// The gate for captures.
pub(super) fn captures(
    a: &Side,
    b: &Side,
    pairings: &[Pairing<'_>],
    matched_roles: usize,
    same_anchors: &[(String, String)],
) -> Comparability {
    let mut reasons = Vec::new();
    for (side, name) in [(a, "baseline"), (b, "candidate")] {
        if side.cycles() == 0 {
            reasons.push(reason(
                "no_data",
                true,
                format!("the {name} ({}) has no cycles", side.name),
            ));
        }
    }
    stated(a, b, &mut reasons);
    if pairings.is_empty() && reasons.iter().all(|r| !r.stops) {
        let kinds = |side: &Side| {
            let kinds: BTreeSet<&str> = side.captures.iter().map(|c| c.kind.as_str()).collect();
            kinds
                .into_iter()
                .map(|k| if k.is_empty() { "untyped" } else { k })
                .collect::<Vec<_>>()
                .join(", ")
        };
        reasons.push(reason(
            "cycle_type",
            true,
            format!(
                "no type of cycle on both sides: {} against {}",
                kinds(a),
                kinds(b)
            ),
        ));
    }
    for pairing in pairings {
        pair(pairing, same_anchors, &mut reasons);
    }
    let ranks = |side: usize| {
        pairings
            .first()
            .and_then(|p| p.sides[side].first())
            .map_or(0, |c| c.processes.len())
    };
    let devices = [0, 1].map(|side| {
        pairings
            .first()
            .and_then(|p| p.sides[side].first())
            .map_or(0, |capture| devices(capture))
    });
    if let Some(missing) = missing_ranks(a, b) {
        reasons.push(reason("devices", true, missing));
    } else if devices[0] != devices[1] && devices.iter().all(|n| *n > 0) {
        reasons.push(reason(
            "devices",
            true,
            format!(
                "{} in the baseline against {} in the candidate: the same work is divided differently",
                counted(devices[0]),
                devices[1]
            ),
        ));
    } else if ranks(0) != ranks(1) {
        reasons.push(reason(
            "roles",
            matched_roles == 0,
            format!(
                "{} processes against {}: {matched_roles} of them are matched",
                ranks(0),
                ranks(1)
            ),
        ));
    }
    conclude(reasons)
}

/// Which ranks of a job lack their files, where both sides state the same number of ranks and have files of different ones.
fn missing_ranks(a: &Side, b: &Side) -> Option<String> {
    let size = |side: &Side| {
        let sizes: BTreeSet<u32> = side
            .recordings
            .iter()
            .filter_map(|r| r.world_size)
            .collect();
        let mut sizes = sizes.into_iter();
        sizes.next().filter(|_| sizes.next().is_none())
    };
    let ranks =
        |side: &Side| -> BTreeSet<u32> { side.recordings.iter().filter_map(|r| r.rank).collect() };
    let (world, own) = (size(a)?, [ranks(a), ranks(b)]);
    if size(b)? != world || own[0] == own[1] || own.iter().any(BTreeSet::is_empty) {
        return None;
    }
    let of = |side: usize, name: &str| {
        let missing: Vec<String> = (own[1 - side].difference(&own[side]))
            .map(u32::to_string)
            .collect();
        let ranks = match missing.len() {
            0 => return None,
            1 => format!("the file of rank {} is", missing[0]),
            _ => format!("the files of ranks {} are", missing.join(", ")),
        };
        Some(format!("{ranks} missing in the {name}"))
    };
    let said: Vec<String> = [of(0, "baseline"), of(1, "candidate")]
        .into_iter()
        .flatten()
        .collect();
    Some(format!(
        "{}, while both sides state a job of {world} ranks: add them, or leave them out on the other side",
        said.join(", and ")
    ))
}

/// How many times as often each kernel of a layer is called, where steps state the same work on both sides and the kernels that
/// a step calls once are called as often as before: another number of layers.
fn other_depth(pairing: &Pairing<'_>) -> Option<(f64, f64)> {
    /// Kernels that have to agree, and part of the time of all kernels that a layer repeats.
    const FEWEST_KERNELS: usize = 4;
    const PART: f64 = 0.8;
    let alike = |a: f64, b: f64| (a - b).abs() <= 0.02 * a.abs().max(b.abs());
    let work = pairing.sides.each_ref().map(|captures| {
        let cycles = captures.iter().flat_map(|c| &c.cycles);
        let mut by_name: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (name, n) in cycles.filter_map(|c| c.work.as_ref()).flatten() {
            by_name.entry(name).or_default().push(*n);
        }
        by_name
            .into_iter()
            .map(|(name, all)| (name, median(&all)))
            .collect::<BTreeMap<_, _>>()
    });
    let requests = *work[0].get("requests").filter(|n| **n > 0.0)?;
    let is_same = |name: &str| match (work[0].get(name), work[1].get(name)) {
        (Some(a), Some(b)) => alike(*a, *b),
        (a, b) => a.is_none() && b.is_none(),
    };
    if !["requests", "tokens", "prompt requests", "prompt tokens"]
        .into_iter()
        .all(is_same)
    {
        return None;
    }
    let calls = pairing.sides.each_ref().map(|captures| {
        // By rank: the sum over ranks is that of no step.
        let mut of_ranks: BTreeMap<(&str, usize), (f64, f64)> = BTreeMap::new();
        let n: usize = captures.iter().map(|c| c.cycles.len()).sum();
        for f in captures.iter().flat_map(|c| &c.functions) {
            if f.class == Class::Kernel {
                let sum = |values: &[f64]| {
                    let known = values.iter().filter(|v| !v.is_nan());
                    known.sum::<f64>() / n.max(1) as f64
                };
                let own = of_ranks.entry((f.name.as_str(), f.process)).or_default();
                (own.0, own.1) = (own.0 + sum(&f.calls), own.1 + sum(&f.dur_us));
            }
        }
        let mut all: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for ((name, _), of_rank) in of_ranks {
            let own = all.entry(name).or_default();
            *own = (own.0.max(of_rank.0), own.1.max(of_rank.1));
        }
        all
    });
    let ratios: Vec<(f64, f64)> = calls[0]
        .iter()
        .filter(|(_, own)| own.0 >= 1.5)
        .filter_map(|(name, own)| Some((calls[1].get(name)?.0 / own.0, own.1)))
        .collect();
    let ratio = median(&ratios.iter().map(|r| r.0).collect::<Vec<f64>>());
    let part = |wanted: &dyn Fn(f64) -> bool| {
        let own = ratios.iter().filter(|r| wanted(r.0));
        own.fold((0, 0.0), |sum, r| (sum.0 + 1, sum.1 + r.1))
    };
    let (agree, time) = part(&|r| alike(r, ratio));
    let all = part(&|_| true).1;
    let mut once = calls[0].iter().filter(|(_, own)| own.0 < 1.5);
    let some_stay = once.any(|(name, own)| calls[1].get(name).is_some_and(|c| alike(c.0, own.0)));
    let differs = !(0.9..=1.1).contains(&ratio) && ratio > 0.0;
    (differs && some_stay && agree >= FEWEST_KERNELS && time >= PART * all)
        .then_some((ratio, requests))
}

/// A part in percent. The sum of no kernels is a zero with a minus sign, which no reader expects.
fn share(part: f64) -> String {
    match part {
        none if none <= 0.0 => "nothing".to_owned(),
        little if little < 0.01 => "less than 1 %".to_owned(),
        _ => format!("{:.0} %", part * 100.0),
    }
}

fn counted(gpus: usize) -> String {
    match gpus {
        1 => "1 GPU".to_owned(),
        n => format!("{n} GPUs"),
    }
}

/// Number of devices that worked, each rank's own.
fn devices(capture: &Capture) -> usize {
    let all = capture.functions.iter().filter(|f| f.class.on_device());
    let places = all.map(|f| {
        let rank = capture.processes.get(f.process).map(|p| &p.rank);
        (rank, f.device.as_str())
    });
    places.collect::<BTreeSet<_>>().len()
}

fn conclude(reasons: Vec<Reason>) -> Comparability {
    let status = if reasons.iter().any(|reason| reason.stops) {
        Status::NotComparable
    } else if reasons.is_empty() {
        Status::Comparable
    } else {
        Status::ComparableWithWarnings
    };
    Comparability {
        status,
        reasons,
        forced: false,
    }
}

fn pair(pairing: &Pairing<'_>, same_anchors: &[(String, String)], reasons: &mut Vec<Reason>) {
    let kind = if pairing.cycle_type.is_empty() {
        "all"
    } else {
        &pairing.cycle_type
    };
    let lengths = pairing.sides.each_ref().map(|captures| {
        captures
            .iter()
            .flat_map(|c| c.cycles.iter().map(|cycle| cycle.dur_us))
            .collect::<Vec<f64>>()
    });
    if lengths.iter().any(Vec::is_empty) {
        return;
    }
    let middles = lengths.each_ref().map(|l| median(l));
    let ratio = middles[1] / middles[0];
    let anchors = pairing.sides.each_ref().map(|captures| {
        captures
            .iter()
            .flat_map(|c| c.anchors.iter().map(String::as_str))
            .collect::<BTreeSet<_>>()
    });
    let shown = |side: usize| anchors[side].iter().copied().collect::<Vec<_>>().join(", ");
    let far = !(1.0 / GRANULARITY..=GRANULARITY).contains(&ratio);
    let known = anchors.iter().all(|names| !names.is_empty());
    // The baseline's anchors under the names that the candidate has for them.
    let declared: BTreeSet<&str> = anchors[0]
        .iter()
        .map(|name| {
            let other = same_anchors
                .iter()
                .flat_map(|(a, b)| [(a, b), (b, a)])
                .find(|(a, _)| template(a) == *name)
                .and_then(|(_, b)| anchors[1].get(template(b).as_str()).copied());
            other.unwrap_or(name)
        })
        .collect();
    let shapes = anchors.each_ref().map(|names| {
        names
            .iter()
            .map(|name| shape(name))
            .collect::<BTreeSet<String>>()
    });
    let differ = known && shapes[0] != shapes[1];
    if differ && declared == anchors[1] {
        reasons.push(reason(
            "anchor",
            false,
            format!(
                "cycles are cut at {} in the baseline and at {} in the candidate, which were declared to be the same",
                shown(0),
                shown(1)
            ),
        ));
    } else if differ {
        reasons.push(reason(
            "anchor",
            far || shapes[0].is_disjoint(&shapes[1]),
            format!(
                "cycles are cut at {} (median {:.1} ms) in the baseline and at {} (median {:.1} ms) in the candidate{}",
                shown(0),
                middles[0] / 1000.0,
                shown(1),
                middles[1] / 1000.0,
                common_call(pairing).map_or(String::new(), |name| format!(
                    "; both call {} at a like pace: cut both there (cycle-rca --marker {name:?})",
                    label(name)
                ))
            ),
        ));
    } else if far {
        reasons.push(reason(
            "granularity",
            false,
            format!("{kind} cycles differ by a factor of {ratio:.2} at the same anchor"),
        ));
    }
    for (side, name) in ["baseline", "candidate"].into_iter().enumerate() {
        if lengths[side].len() < FEWEST {
            reasons.push(reason(
                "too_few_cycles",
                false,
                format!(
                    "{kind}: the {name} has {} cycles; {FEWEST} are needed to declare anything",
                    lengths[side].len()
                ),
            ));
        }
    }
    let device_rows = |side: usize| {
        pairing.sides[side]
            .iter()
            .any(|c| c.functions.iter().any(|f| f.class.on_device()))
    };
    if device_rows(0) != device_rows(1) {
        let without = if device_rows(0) {
            "candidate"
        } else {
            "baseline"
        };
        reasons.push(reason(
            "coverage",
            false,
            format!("{kind}: the {without} has no device rows at all"),
        ));
    }
    let kernels = [0, 1].map(|side| {
        let mut time: BTreeMap<&str, f64> = BTreeMap::new();
        for function in pairing.sides[side]
            .iter()
            .flat_map(|c| &c.functions)
            .filter(|f| f.class == Class::Kernel)
        {
            *time.entry(&function.name).or_default() +=
                function.dur_us.iter().filter(|d| !d.is_nan()).sum::<f64>();
        }
        time
    });
    let all: f64 = kernels[0].values().sum();
    let common: f64 = kernels[0]
        .iter()
        .filter(|(name, _)| kernels[1].contains_key(*name))
        .map(|(_, time)| time)
        .sum();
    let vendors = pairing.sides.each_ref().map(|captures| vendor(captures));
    if let [Some(one), Some(two)] = vendors
        && one != two
    {
        reasons.push(reason(
            "hardware",
            true,
            format!("{kind}: the baseline ran on {one} GPUs and the candidate on {two} GPUs"),
        ));
    }
    if all > 0.0 && !kernels[1].is_empty() && common < OTHER_MODEL * all {
        reasons.push(reason(
            "functions",
            true,
            format!(
                "{kind}: {} of the baseline's kernel time is in kernels that the candidate has too: another model, engine or GPU",
                share(common / all)
            ),
        ));
    } else if all > 0.0 && !kernels[1].is_empty() && common < 0.2 * all {
        reasons.push(reason(
            "functions",
            false,
            format!("{kind}: only {} of the baseline's kernel time is in kernels that the candidate has too", share(common / all)),
        ));
    }
    if let Some((ratio, requests)) = other_depth(pairing) {
        reasons.push(reason(
            "functions",
            true,
            format!(
                "{kind}: the kernels of a layer are called {} times as often per step in the candidate while steps serve as many requests ({}): a model of another depth, or other settings",
                times(ratio),
                times(requests)
            ),
        ));
    }
    units(pairing, kind, reasons);
}

/// The host function with most time that both sides call at a like pace, a few times at least and not many times a cycle:
/// cycles could be cut there.
fn common_call<'s>(pairing: &Pairing<'s>) -> Option<&'s str> {
    const PACE: f64 = 1.5;
    let of = |captures: &Vec<&'s Capture>| {
        let mut all: BTreeMap<&'s str, (f64, f64)> = BTreeMap::new();
        let cycles = captures.iter().flat_map(|c| &c.cycles);
        let span: f64 = cycles.map(|cycle| cycle.dur_us).sum();
        for f in captures.iter().flat_map(|c| &c.functions) {
            if f.class.on_device() || matches!(f.class, Class::OnCpu | Class::RunQueue) {
                continue;
            }
            let sum = |values: &[f64]| values.iter().filter(|v| !v.is_nan()).sum::<f64>();
            let own = all.entry(f.name.as_str()).or_default();
            (own.0, own.1) = (own.0 + sum(&f.calls), own.1 + sum(&f.dur_us));
        }
        (all, span)
    };
    let [(one, span), (two, other_span)] = pairing.sides.each_ref().map(of);
    let cycles = pairing.sides.each_ref().map(|side| {
        let all = side.iter().map(|c| c.cycles.len()).max();
        all.unwrap_or(0) as f64
    });
    let fewest = cycles[0].min(cycles[1]);
    let both = one.into_iter().filter_map(|(name, (calls, time))| {
        let (other_calls, _) = *two.get(name)?;
        let pace = (other_calls / other_span) / (calls / span);
        let few = |n: f64| n >= FEWEST as f64 && n <= PACE * fewest;
        ((1.0 / PACE..=PACE).contains(&pace) && few(calls) && few(other_calls))
            .then_some((name, time))
    });
    both.max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(name, _)| name)
}

/// One metric name may hold percent of a capacity or a raw value times 100.
fn units(pairing: &Pairing<'_>, kind: &str, reasons: &mut Vec<Reason>) {
    for metric in ["cpu_frequency", "gpu_mem_used", "process_mem_usage"] {
        let typical = [0, 1].map(|side| {
            let values: Vec<f64> = pairing.sides[side]
                .iter()
                .flat_map(|c| c.device_counters.iter().filter(|d| d.metric == metric))
                .flat_map(|d| d.values.iter().copied().filter(|v| !v.is_nan()))
                .collect();
            median(&values)
        });
        let raw = typical.map(|value| value > 1000.0);
        if typical.iter().all(|v| v.is_finite()) && raw[0] != raw[1] {
            reasons.push(reason(
                "unit",
                false,
                format!("{kind}: {metric} is a percentage on one side and a raw value on the other; it is not compared from rows"),
            ));
        }
    }
}

/// The gate for tables of samples.
/// Settings of benchmarks whose difference says only what was compared: all others make the load, or name the model.
const REMARKS: [&str; 4] = ["backend", "endpoint_type", "num_prompts", "tokenizer_id"];

/// Settings that the benchmarks of both sides state and that differ: of another model or load nothing can be compared.
fn settings(a: &Side, b: &Side, reasons: &mut Vec<Reason>) {
    let values = |side: &Side, name: &str| -> BTreeSet<String> {
        let runs = side.settings.iter();
        runs.filter_map(|run| run.get(name).cloned()).collect()
    };
    let names: BTreeSet<&String> = a
        .settings
        .iter()
        .chain(&b.settings)
        .flat_map(|run| run.keys())
        .collect();
    let mut differ: [Vec<String>; 2] = Default::default();
    for name in names {
        let sides = [a, b].map(|side| values(side, name));
        // What a side does not state is no reason.
        if sides[0] == sides[1] || sides.iter().any(BTreeSet::is_empty) {
            continue;
        }
        let [one, two] = sides.map(|set| set.into_iter().collect::<Vec<_>>().join(" and "));
        let is_remark = REMARKS.contains(&name.as_str());
        differ[usize::from(is_remark)].push(format!("{} {one} -> {two}", name.replace('_', " ")));
    }
    let [stops, remarks] = differ;
    if !stops.is_empty() {
        reasons.push(reason(
            "settings",
            true,
            format!(
                "the benchmarks were run with another model or load: {}; run both alike, or compare in spite of it with --force",
                stops.join(", ")
            ),
        ));
    }
    if !remarks.is_empty() {
        reasons.push(reason(
            "settings",
            false,
            format!(
                "the benchmarks were run with other settings: {}",
                remarks.join(", ")
            ),
        ));
    }
}

pub(super) fn samples(a: &Side, b: &Side) -> Comparability {
    let mut reasons = Vec::new();
    for (side, name) in [(a, "baseline"), (b, "candidate")] {
        if side.series.is_empty() {
            reasons.push(reason(
                "no_data",
                true,
                format!("the {name} ({}) has no samples", side.name),
            ));
        }
    }
    settings(a, b, &mut reasons);
    let same = |x: &crate::side::Series| {
        b.series
            .iter()
            .find(|y| y.metric == x.metric && y.group == x.group)
    };
    let mut common = 0;
    for x in &a.series {
        let Some(y) = same(x) else { continue };
        if x.unit == y.unit || (unit_to_us(&x.unit).is_some() && unit_to_us(&y.unit).is_some()) {
            common += 1;
        } else {
            reasons.push(reason(
                "unit",
                false,
                format!(
                    "{}: unit {:?} against {:?}; not compared",
                    x.metric, x.unit, y.unit
                ),
            ));
        }
        for (series, name) in [(x, "baseline"), (y, "candidate")] {
            let n: usize = series.runs.iter().map(Vec::len).sum();
            if n < FEWEST {
                reasons.push(reason(
                    "too_few_cycles",
                    false,
                    format!(
                        "{}: the {name} has {n} samples; {FEWEST} are needed to declare anything",
                        x.metric
                    ),
                ));
            }
        }
    }
    if common == 0 && reasons.iter().all(|r| r.code != "no_data") {
        reasons.push(reason(
            "functions",
            true,
            "no metric is on both sides in compatible units".to_owned(),
        ));
    }
    conclude(reasons)
}
