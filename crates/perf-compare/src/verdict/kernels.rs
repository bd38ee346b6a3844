//! What all kernels together say: how many are slower, by how much, and whether it is the same work at all.

use std::collections::BTreeMap;

use trace_model::kernel::{KernelClass, class_of};

use super::classes::{self, is_unchanged};
use super::signal::{Signal, Stat};
use crate::document::Role;
use crate::side::{Capture, Class};
use crate::stats::{cliffs_delta, median};

/// Kernels with less than this part of the kernel time are not counted one by one.
const SMALL: f64 = 0.002;
/// Slower or faster means by at least this factor,
const MOVED: f64 = 1.05;
/// with this much dominance over the other side's cycles.
const DOMINANCE: f64 = 0.6;

/// One kernel of one role: time and calls by cycle, all captures in a row.
pub(super) struct Track {
    pub(super) kernel: KernelClass,
    pub(super) durs: [Vec<f64>; 2],
    calls: [Vec<f64>; 2],
    /// Cycles of each side in which the device was observed.
    pub(super) cycles: [usize; 2],
}

impl Track {
    fn new(kernel: Option<KernelClass>) -> Self {
        Self {
            kernel: kernel.unwrap_or(KernelClass::Other),
            durs: Default::default(),
            calls: Default::default(),
            cycles: [0; 2],
        }
    }

    pub(super) fn total(&self, side: usize) -> f64 {
        self.durs[side].iter().sum()
    }

    pub(super) fn called(&self, side: usize) -> f64 {
        self.calls[side].iter().sum()
    }

    pub(super) fn per_call(&self, side: usize) -> f64 {
        self.total(side) / self.called(side)
    }

    fn per_call_by_cycle(&self, side: usize) -> Vec<f64> {
        self.durs[side]
            .iter()
            .zip(&self.calls[side])
            .filter(|(dur, calls)| **calls > 0.0 && **dur > 0.0)
            .map(|(dur, calls)| dur / calls)
            .collect()
    }
}

/// Returns `true` if the calls of a kernel are slower, or faster with `up` false, by enough and in most cycles.
fn moved(t: &Track, up: bool) -> bool {
    let ratio = t.per_call(1) / t.per_call(0);
    let (ratio, sign) = if up {
        (ratio, 1.0)
    } else {
        (1.0 / ratio, -1.0)
    };
    let dominance = || cliffs_delta(&t.per_call_by_cycle(0), &t.per_call_by_cycle(1)) * sign;
    ratio >= MOVED && dominance() >= DOMINANCE
}

/// Returns `true` if the calls of a kernel are slower.
pub(super) fn is_slower(track: &Track) -> bool {
    moved(track, true)
}

/// Kernels by role and name.
fn tracks(sides: [&[&Capture]; 2], roles: &[Role]) -> BTreeMap<(usize, String), Track> {
    let mut tracks: BTreeMap<(usize, String), Track> = BTreeMap::new();
    for (side, captures) in sides.into_iter().enumerate() {
        let first: Vec<Option<usize>> = super::observe::roles_by_place(captures, roles, side);
        for capture in captures {
            for function in capture
                .functions
                .iter()
                .filter(|f| f.class == Class::Kernel && !f.apart)
            {
                let Some(role) = first.get(function.process).copied().flatten() else {
                    continue;
                };
                let track = tracks
                    .entry((role, function.name.clone()))
                    .or_insert_with(|| Track::new(function.kernel));
                for (dur, calls) in function.dur_us.iter().zip(&function.calls) {
                    if dur.is_nan() {
                        continue;
                    }
                    track.durs[side].push(*dur);
                    // Without counts every cycle is one call.
                    track.calls[side].push(if calls.is_nan() {
                        f64::from(u8::from(*dur > 0.0))
                    } else {
                        *calls
                    });
                    track.cycles[side] += 1;
                }
            }
        }
    }
    tracks
}

/// All quantities of kernels.
pub(super) fn signals(
    sides: [&[&Capture]; 2],
    roles: &[Role],
    comparable: bool,
    out: &mut Vec<Signal>,
) {
    let tracks = tracks(sides, roles);
    let total = [0, 1].map(|side| tracks.values().map(|t| t.total(side)).sum::<f64>());
    if total.iter().any(|t| *t <= 0.0) {
        return;
    }
    let both = |t: &Track| t.called(0) > 0.0 && t.called(1) > 0.0;
    let lost = |side: usize, other: usize| {
        let time = tracks
            .values()
            .filter(|t| t.called(other) <= 0.0)
            .map(|t| t.total(side))
            .sum::<f64>();
        time / total[side] * 100.0
    };
    // Rare kernels may be missing by chance; only time counts.
    let big = |t: &Track, side: usize| t.total(side) / total[side] >= SMALL;
    let unmatched = tracks
        .values()
        .filter(|t| !both(t) && (big(t, 0) || big(t, 1)))
        .count();
    out.extend(Signal::point(
        "kernel_new_or_gone_pct",
        "all",
        "%",
        [0.0, lost(0, 1).max(lost(1, 0))],
    ));
    out.extend(Signal::point(
        "kernels_new_or_gone",
        "all",
        "count",
        [0.0, unmatched as f64],
    ));

    let mut indices: BTreeMap<usize, [f64; 2]> = BTreeMap::new();
    for (role, entry) in roles.iter().enumerate() {
        let own: Vec<&Track> = tracks
            .iter()
            .filter(|(key, t)| key.0 == role && both(t))
            .map(|(_, t)| t)
            .collect();
        let Some(series) = index(&own) else { continue };
        let device = entry.device(1);
        let typical = series.each_ref().map(|s| median(s));
        indices.insert(role, typical);
        let slower = typical[1] / typical[0] * clock_ratio(&device, out);
        out.extend(Signal::point(
            "kernel_time_beyond_clock_pct",
            &device,
            "%",
            [0.0, (slower - 1.0) * 100.0],
        ));
        out.extend(Signal::series(
            "kernel_time_index",
            &device,
            "% of expected",
            series,
        ));
    }
    skew(&indices, roles, out);
    more_calls(&tracks, roles, comparable, out);

    let matched: Vec<(&(usize, String), &Track)> = tracks
        .iter()
        .filter(|(_, t)| both(t) && (big(t, 0) || big(t, 1)))
        .collect();
    if matched.is_empty() {
        return;
    }
    let ratio = |t: &Track| t.per_call(1) / t.per_call(0);
    let share = |up: bool| {
        matched.iter().filter(|(_, t)| moved(t, up)).count() as f64 / matched.len() as f64 * 100.0
    };
    out.extend(Signal::point(
        "kernels_slower_pct",
        "all",
        "% of kernels",
        [0.0, share(true)],
    ));
    out.extend(Signal::point(
        "kernels_faster_pct",
        "all",
        "% of kernels",
        [0.0, share(false)],
    ));

    // All that ran on both sides, however little of the time they take: one kernel that takes nearly all of it is still one.
    let every: Vec<(&(usize, String), &Track)> = tracks.iter().filter(|(_, t)| both(t)).collect();
    let slower_of = |own: &[&(&(usize, String), &Track)]| {
        let slower = own.iter().filter(|(_, t)| moved(t, true)).count();
        slower as f64 / own.len().max(1) as f64 * 100.0
    };
    out.extend(Signal::point(
        "kernels_slower_all_pct",
        "all",
        "% of all kernels",
        [0.0, slower_of(&every.iter().collect::<Vec<_>>())],
    ));
    // Kernels that read no context do the same work where the steps state as many tokens as before.
    if states_same_work(sides) {
        let own: Vec<&(&(usize, String), &Track)> = every
            .iter()
            .filter(|(_, t)| t.kernel != KernelClass::Attention)
            .collect();
        out.extend(Signal::point(
            "same_work_slower_pct",
            "all",
            "% of kernels without attention",
            [0.0, slower_of(&own)],
        ));
    }
    // Alike means by about the factor of all together, on the GPU that changed most.
    let most = indices
        .iter()
        .max_by(|a, b| (a.1[1] / a.1[0]).total_cmp(&(b.1[1] / b.1[0])));
    if let Some((role, [before, after])) = most {
        let own = || every.iter().filter(|(key, _)| key.0 == *role);
        let alike = |t: &Track| is_alike(ratio(t), after / before);
        let time = own().map(|(_, t)| t.total(0)).sum::<f64>();
        let like = own().filter(|(_, t)| alike(t));
        let (count, of_time) =
            like.fold((0.0, 0.0), |sum, (_, t)| (sum.0 + 1.0, sum.1 + t.total(0)));
        let part = (count / own().count().max(1) as f64).min(of_time / time);
        let as_before = own().filter(|(_, t)| is_unchanged(ratio(t), after / before));
        let as_before = as_before.map(|(_, t)| t.total(0)).sum::<f64>();
        out.extend(Signal::point(
            "kernels_unchanged_pct",
            "all",
            "% of kernel time",
            [0.0, as_before / time * 100.0],
        ));
        out.extend(Signal::point(
            "kernels_alike_pct",
            "all",
            "% of kernels, by count and by time",
            [0.0, part * 100.0],
        ));
    }

    let slowest = matched
        .iter()
        .filter(|(_, t)| moved(t, true))
        .map(|(_, t)| ratio(t))
        .fold(1.0, f64::max);
    if let Some(work) = work_ratio(sides) {
        out.extend(Signal::point(
            "kernel_beyond_work_pct",
            "all",
            "%",
            [0.0, (slowest / work - 1.0) * 100.0],
        ));
    }

    let logs: Vec<f64> = matched.iter().map(|(_, t)| ratio(t).ln() * 100.0).collect();
    let middle = median(&logs);
    let spread = median(
        &logs
            .iter()
            .map(|l| (l - middle).abs())
            .collect::<Vec<f64>>(),
    );
    out.extend(Signal::point(
        "kernel_ratio_spread",
        "all",
        "log %",
        [0.0, spread],
    ));

    classes::signals(&tracks, roles, comparable, out);
    let middle_of = |wanted: &[KernelClass]| {
        let own: Vec<f64> = matched
            .iter()
            .filter(|(_, t)| wanted.contains(&t.kernel))
            .map(|(_, t)| ratio(t).ln())
            .collect();
        median(&own)
    };
    let matrix = [KernelClass::Gemm, KernelClass::MoeGemm];
    let beyond = (middle_of(&[KernelClass::Attention]) - middle_of(&matrix)).exp();
    if beyond.is_finite() {
        out.extend(Signal::point(
            "attention_beyond_matrix_pct",
            "all",
            "%",
            [0.0, (beyond - 1.0) * 100.0],
        ));
    }

    // Of one rank, most kernels may be slower while few of all are.
    let of_rank = |role: usize| {
        let own = |list: &[(&(usize, String), &Track)]| {
            let own: Vec<_> = list.iter().filter(|(key, _)| key.0 == role).collect();
            slower_of(&own)
        };
        own(&matched).min(own(&every))
    };
    out.extend(Signal::point(
        "rank_kernels_slower_pct",
        "one rank",
        "% of its kernels",
        [0.0, (0..roles.len()).map(of_rank).fold(0.0, f64::max)],
    ));

    // The kernel that costs most more: time added per cycle at the baseline's calls.
    let added =
        |t: &Track| (t.per_call(1) - t.per_call(0)) * t.called(0) / t.cycles[0].max(1) as f64;
    let mut by_name: BTreeMap<&str, f64> = BTreeMap::new();
    let mut by_role: BTreeMap<usize, f64> = BTreeMap::new();
    for (key, track) in &matched {
        if moved(track, true) {
            *by_name.entry(&key.1).or_default() += added(track);
            *by_role.entry(key.0).or_default() += added(track);
        }
    }
    let grown = |each: &mut dyn Iterator<Item = f64>| [0.0, each.fold(0.0, f64::max)];
    if comparable {
        out.extend(Signal::point(
            "kernel_slower_us",
            "slowest rank",
            "us per cycle",
            grown(&mut by_role.into_values()),
        ));
    }
    let positive: f64 = by_name.values().filter(|x| **x > 0.0).sum();
    let top = by_name.iter().max_by(|a, b| a.1.total_cmp(b.1));
    if let Some((name, most)) = top
        && positive > 0.0
    {
        out.extend(Signal::point(
            "kernel_top_share_pct",
            "all",
            "% of added time",
            [0.0, most / positive * 100.0],
        ));
        if comparable {
            let of_top = matched.iter().filter(|(key, _)| key.1 == **name);
            out.extend(Signal::point(
                "kernel_top_added_us",
                "slowest rank",
                "us per cycle",
                grown(&mut of_top.map(|(_, t)| added(t))),
            ));
        }
        let of_name = || matched.iter().filter(|(key, _)| key.1 == **name);
        // What is slower on all ranks alike is of no rank.
        let ratios: Vec<f64> = of_name().map(|(_, t)| ratio(t)).collect();
        let most = ratios.iter().copied().fold(1.0, f64::max);
        let everywhere = roles.len() > 1
            && ratios.len() == roles.len()
            && ratios.iter().all(|ratio| is_alike(*ratio, most));
        if everywhere {
            let series = [0, 1].map(|side| {
                let each = of_name().map(|(_, t)| t.per_call_by_cycle(side));
                each.collect::<Vec<_>>().concat()
            });
            out.extend(Signal::series(
                "kernel_top_us_per_call",
                &format!("all {} ranks: {name}", roles.len()),
                "us",
                series,
            ));
        }
        for (key, track) in of_name().filter(|_| !everywhere) {
            let device = roles
                .get(key.0)
                .map_or(String::new(), |role| role.device(1));
            let series = [track.per_call_by_cycle(0), track.per_call_by_cycle(1)];
            let signal = Signal::series(
                "kernel_top_us_per_call",
                &format!("{device}: {name}"),
                "us",
                series,
            );
            let others = matched.iter().filter(|(k, _)| k.0 == key.0 && k.1 != key.1);
            let others: Vec<&Track> = others.map(|(_, t)| *t).collect();
            out.extend(signal.map(|mut signal| {
                signal.relative = beside(track, &others);
                signal
            }));
        }
    }
    if comparable {
        let changed: f64 = tracks
            .values()
            .filter(|t| both(t))
            .filter(|t| {
                // Typical cycles: the first one of a capture may be cut.
                let ratio = median(&t.calls[1]) / median(&t.calls[0]);
                let dominance = cliffs_delta(&t.calls[0], &t.calls[1]).abs();
                ratio.is_finite() && !(1.0 / 1.1..=1.1).contains(&ratio) && dominance >= DOMINANCE
            })
            .map(|t| t.total(0))
            .sum();
        out.extend(Signal::point(
            "kernel_calls_changed_pct",
            "all",
            "% of kernel time",
            [0.0, changed / total[0] * 100.0],
        ));
    }
}

/// Returns `true` if something changed by about the factor `all` that everything changed by: by at least half of it, at most
/// half more.
pub(crate) fn is_alike(ratio: f64, all: f64) -> bool {
    let part = ratio.ln() / all.ln();
    (0.5..=1.5).contains(&part)
}

/// Time per call of a kernel relative to the other kernels of its rank in the same cycle: the median of what each takes relative to
/// its own typical call. `None` where they are too few to say what is common.
fn beside(track: &Track, others: &[&Track]) -> Option<[Vec<f64>; 2]> {
    const SEVERAL: usize = 4;
    let per_call = |t: &Track, side: usize, at: usize| {
        let (dur, calls) = (t.durs[side].get(at)?, t.calls[side].get(at)?);
        (*dur > 0.0 && *calls > 0.0).then_some(dur / calls)
    };
    let typical = |t: &Track| {
        let all = [t.per_call_by_cycle(0), t.per_call_by_cycle(1)].concat();
        median(&all)
    };
    let typical: Vec<f64> = others.iter().map(|t| typical(t)).collect();
    (others.len() >= SEVERAL).then(|| {
        [0, 1].map(|side| {
            let at = |at: usize| {
                let each = others.iter().zip(&typical);
                let each = each.filter_map(|(t, usual)| Some(per_call(t, side, at)? / usual));
                let common = median(&each.collect::<Vec<f64>>());
                let own = per_call(track, side, at)? / common;
                own.is_finite().then_some(own)
            };
            (0..track.durs[side].len()).filter_map(at).collect()
        })
    })
}

/// Time that kernels take longer because they are called more often, and the one to which most of it belongs.
fn more_calls(
    tracks: &BTreeMap<(usize, String), Track>,
    roles: &[Role],
    comparable: bool,
    out: &mut Vec<Signal>,
) {
    /// More often means by this factor.
    const MORE: f64 = 1.1;
    if !comparable {
        return;
    }
    let mut by_role: BTreeMap<usize, f64> = BTreeMap::new();
    let mut top: Option<(f64, usize, &str, &Track)> = None;
    for ((role, name), t) in tracks {
        if t.called(0) <= 0.0 || t.called(1) <= 0.0 {
            continue;
        }
        let [before, after] = t.calls.each_ref().map(|side| median(side));
        let is_more = after > MORE * before && cliffs_delta(&t.calls[0], &t.calls[1]) >= DOMINANCE;
        if !is_more {
            continue;
        }
        let added = (after - before) * t.per_call(0);
        *by_role.entry(*role).or_default() += added;
        if top.is_none_or(|known| added > known.0) {
            top = Some((added, *role, name, t));
        }
    }
    let Some((_, role, name, track)) = top else {
        return;
    };
    out.extend(Signal::point(
        "kernel_calls_added_us",
        "busiest rank",
        "us per cycle",
        [0.0, by_role.into_values().fold(0.0, f64::max)],
    ));
    let device = roles.get(role).map_or(String::new(), |role| role.device(1));
    out.extend(Signal::series(
        "kernel_top_calls",
        &format!("{device}: {name}"),
        "calls per cycle",
        track.calls.clone(),
    ));
}

/// Typical quantities of the work of a step on each side, as the names of steps have them.
fn stated_work<'c>(sides: [&[&'c Capture]; 2]) -> [BTreeMap<&'c str, f64>; 2] {
    sides.map(|captures| {
        let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let works = captures
            .iter()
            .flat_map(|c| &c.cycles)
            .filter_map(|c| c.work.as_ref());
        for (name, value) in works.flatten() {
            all.entry(name).or_default().push(*value);
        }
        all.into_iter()
            .map(|(name, values)| (name, median(&values)))
            .collect::<BTreeMap<&str, f64>>()
    })
}

/// Returns `true` if steps state on both sides what they did, and did as much, but for the lengths of contexts.
fn states_same_work(sides: [&[&Capture]; 2]) -> bool {
    const SAME: f64 = 0.02;
    let typical = stated_work(sides);
    let of = |side: usize| {
        let all = typical[side].iter();
        all.filter(|(name, _)| !name.contains("context"))
    };
    let is_same = |(name, before): (&&str, &f64)| {
        let after = typical[1].get(name);
        after.is_some_and(|after| (after - before).abs() <= SAME * before.abs().max(after.abs()))
    };
    of(0).next().is_some() && of(0).count() == of(1).count() && of(0).all(is_same)
}

/// By how much the work of a step grew, at most: attention over prompts grows with the square of their tokens. `None` where
/// names of steps do not say what they did.
fn work_ratio(sides: [&[&Capture]; 2]) -> Option<f64> {
    let typical = stated_work(sides);
    let ratios = typical[0].iter().filter_map(|(name, before)| {
        let ratio = typical[1].get(name)? / before;
        let power = if name.starts_with("prompt") { 2 } else { 1 };
        (ratio.is_finite() && ratio > 0.0).then(|| ratio.powi(power))
    });
    let ratios: Vec<f64> = ratios.collect();
    (!ratios.is_empty()).then(|| ratios.into_iter().fold(1.0, f64::max))
}

/// How much of its clock a device has kept: the lowest ratio among its clocks, at most 1; 1 where none was recorded.
fn clock_ratio(device: &str, signals: &[Signal]) -> f64 {
    signals
        .iter()
        .filter(|s| {
            let clocks = ["gpu_sm_frequency", "gpu_frequency", "gpu_mem_frequency"];
            s.device == device && clocks.contains(&s.metric.as_str())
        })
        .map(|s| {
            let [before, after] = s.typical(Stat::Mean);
            after / before
        })
        .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        .fold(1.0, f64::min)
}

/// Returns `true` if a kernel of this name reads the whole context of each request.
pub(crate) fn is_attention(name: &str) -> bool {
    class_of(name) == KernelClass::Attention
}

/// Returns `true` if a kernel of this name multiplies with the weights.
pub(crate) fn is_matrix(name: &str) -> bool {
    matches!(class_of(name), KernelClass::Gemm | KernelClass::MoeGemm)
}

/// Time of each cycle's calls relative to what they took in the baseline, in percent.
fn index(own: &[&Track]) -> Option<[Vec<f64>; 2]> {
    let longest = own
        .iter()
        .map(|t| t.durs.each_ref().map(Vec::len))
        .fold([0, 0], |a, b| [a[0].max(b[0]), a[1].max(b[1])]);
    let series = [0, 1].map(|side| {
        (0..longest[side])
            .filter_map(|at| {
                let (mut actual, mut expected) = (0.0, 0.0);
                for track in own {
                    if let (Some(dur), Some(calls)) =
                        (track.durs[side].get(at), track.calls[side].get(at))
                    {
                        actual += dur;
                        expected += calls * track.per_call(0);
                    }
                }
                (expected > 0.0).then(|| actual / expected * 100.0)
            })
            .collect::<Vec<f64>>()
    });
    (!series.iter().any(Vec::is_empty)).then_some(series)
}

/// How much one rank's kernels slowed more than another's.
fn skew(indices: &BTreeMap<usize, [f64; 2]>, roles: &[Role], out: &mut Vec<Signal>) {
    if indices.len() < 2 {
        return;
    }
    let slow: Vec<f64> = indices.values().map(|[a, b]| b / a).collect();
    let most = slow.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = slow.iter().copied().fold(f64::INFINITY, f64::min);
    let slowest = indices
        .iter()
        .max_by(|a, b| (a.1[1] / a.1[0]).total_cmp(&(b.1[1] / b.1[0])))
        .and_then(|(role, _)| roles.get(*role));
    out.extend(Signal::point(
        "rank_skew_pct",
        &slowest.map_or("all ranks".to_owned(), |role| role.device(1)),
        "%",
        [0.0, (most / least - 1.0) * 100.0],
    ));
}
