//! Ranks that run other kernels, the same ones more often, or slower.

use std::collections::{BTreeMap, BTreeSet};

use super::Ranks;
use super::kernels::{Known, Stat};
use super::outlier::{LEAST, Scatter};
use crate::finding::{Finding, Kind, Strength};
use crate::sketch::ACCURACY;
use crate::words::{self, count, counted, factor, real};

/// Minimum share of a kernel in the GPU time of a rank to matter, in percent.
const LEAST_SHARE_PCT: f64 = 1.0;

/// Share of the ranks up to which a kernel is rare, and below which one that all others have is missing.
const RARE: f64 = 0.1;

/// Share of the ranks up to which ranks of one composition are exceptions and not a stage of the job.
const EXCEPTION: f64 = 0.25;

/// Excess of a device from which it is slow.
const SLOW: f64 = 1.03;

/// Excess of one kernel from which it is slow.
const SLOW_KERNEL: f64 = 1.1;

/// Share of its kernels that a slow device runs slower.
const MOST: f64 = 0.8;

/// Difference of the number of runs in a step that matters.
const OTHER_COUNT: f64 = 0.05;

/// Largest number of kernels that a sentence names.
const NAMED: usize = 2;

/// Speed of a rank's device: its time for the kernels that others run as well, against the median of all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Speed {
    /// Median of the ratios of the medians, each kernel with the weight of its time.
    pub(crate) ratio: f64,
    /// Number of kernels compared.
    pub(crate) kernels: usize,
    /// Number of these that take longer than on the median rank.
    slower: usize,
    pub(crate) is_slow: bool,
}

/// Returns the kernels that enough ranks run to be compared, each with the median of its medians.
fn compared(ranks: &Ranks) -> Vec<Option<f64>> {
    let on = on_ranks(ranks);
    ranks
        .kernels
        .list
        .iter()
        .zip(&on)
        .map(|(known, on)| {
            let is_common = on.len() >= LEAST && on.len() * 4 >= ranks.members.len();
            (is_common && !known.waits()).then(|| {
                let medians: Vec<f64> = on.iter().map(|(_, stat)| stat.median_ns).collect();
                stats::median(&medians)
            })
        })
        .collect()
}

/// Returns the ranks that run each kernel.
fn on_ranks(ranks: &Ranks) -> Vec<Vec<(usize, Stat)>> {
    let mut on: Vec<Vec<(usize, Stat)>> = vec![Vec::new(); ranks.kernels.list.len()];
    for (member, of) in ranks.members.iter().enumerate() {
        for stat in &of.kernels {
            if let Some(list) = on.get_mut(stat.kernel) {
                list.push((member, *stat));
            }
        }
    }
    on
}

/// Measures the speed of all devices.
pub(crate) fn speeds(ranks: &Ranks) -> Vec<Option<Speed>> {
    let usual = compared(ranks);
    let mut out: Vec<Option<Speed>> = ranks
        .members
        .iter()
        .map(|member| {
            let mut ratios: Vec<(f64, f64)> = member
                .kernels
                .iter()
                .filter_map(|stat| {
                    let usual = usual.get(stat.kernel).copied().flatten()?;
                    (usual > 0.0).then(|| (stat.median_ns / usual, real(stat.sum_ns)))
                })
                .collect();
            ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
            let half = ratios.iter().map(|ratio| ratio.1).sum::<f64>() / 2.0;
            let mut sum = 0.0;
            let middle = ratios.iter().find(|ratio| {
                sum += ratio.1;
                sum >= half
            });
            middle.map(|middle| Speed {
                ratio: middle.0,
                kernels: ratios.len(),
                slower: ratios.iter().filter(|r| r.0 > 1.0 + ACCURACY).count(),
                is_slow: false,
            })
        })
        .collect();
    let known: Vec<f64> = out.iter().flatten().map(|speed| speed.ratio).collect();
    if let Some(scatter) = Scatter::of(&known, ACCURACY / 2.0) {
        for speed in out.iter_mut().flatten() {
            let is_most = count(speed.slower) >= MOST * count(speed.kernels);
            speed.is_slow = is_most && speed.ratio >= SLOW && scatter.is_above(speed.ratio);
        }
    }
    out
}

/// Returns the ranks whose kernels differ from those of the others.
///
/// Recordings in `cut` ended early: only their speed is compared, since their counts depend on where they were cut.
pub(crate) fn findings(
    ranks: &Ranks,
    speed: &[Option<Speed>],
    cut: &BTreeSet<usize>,
) -> Vec<Finding> {
    let mut out = slow_devices(ranks, speed);
    if ranks.members.len() < LEAST {
        return out;
    }
    let on = on_ranks(ranks);
    out.extend(slow_kernels(ranks, &on, speed));
    out.extend(other_kernels(ranks, &on, cut));
    out.extend(other_counts(ranks, &on, cut));
    out
}

fn slow_devices(ranks: &Ranks, speed: &[Option<Speed>]) -> Vec<Finding> {
    let slow = speed.iter().enumerate();
    let slow = slow.filter_map(|(member, speed)| Some((member, (*speed)?)));
    slow.filter(|(_, speed)| speed.is_slow)
        .map(|(member, speed)| {
            let rank = ranks.rank(member);
            let place = place(ranks, member);
            let title = format!(
                "The GPU of rank {rank}{place} takes {} times as long as the others for the same kernels (slower in {} of {} of the same \
                 name and shape)",
                factor(speed.ratio),
                speed.slower,
                speed.kernels,
            );
            // A clock, a power limit or a neighbour on the device may be the reason: none is recorded.
            let strength = Strength::Established;
            let mut finding = Finding::new(Kind::SlowDevice, &rank.to_string(), strength, title);
            let compute = ranks.members.get(member).map(|m| m.summary.time.computation_ns);
            finding.cost_ns = compute.map(|ns| words::nearest(real(ns) * (1.0 - 1.0 / speed.ratio)));
            finding.host = ranks.members.get(member).and_then(|m| m.host.clone());
            finding.of_ranks([rank]).at(ranks.middle_step(member))
        })
        .collect()
}

/// Returns host and device of a rank as text.
fn place(ranks: &Ranks, member: usize) -> String {
    let Some(member) = ranks.members.get(member) else {
        return String::new();
    };
    let host = member.host.as_ref().map(|host| format!("host {host}"));
    let device = match member.summary.devices.as_slice() {
        [one] => Some(format!("device {one}")),
        _ => None,
    };
    let parts: Vec<String> = host.into_iter().chain(device).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join(", ")),
    }
}

/// Returns the GPU time of a rank in its listed kernels.
fn listed_ns(ranks: &Ranks, member: usize) -> f64 {
    let kernels = ranks.members.get(member).map(|member| &member.kernels);
    let sums = kernels.into_iter().flatten().map(|stat| real(stat.sum_ns));
    sums.sum::<f64>().max(1.0)
}

fn slow_kernels(ranks: &Ranks, on: &[Vec<(usize, Stat)>], speed: &[Option<Speed>]) -> Vec<Finding> {
    let mut out = Vec::new();
    for (known, on) in ranks.kernels.list.iter().zip(on) {
        if known.waits() {
            continue;
        }
        let medians: Vec<f64> = on.iter().map(|(_, stat)| stat.median_ns).collect();
        let usual = stats::median(&medians);
        let Some(scatter) = Scatter::of(&medians, usual * ACCURACY) else {
            continue;
        };
        for (member, stat) in on {
            let is_device = speed
                .get(*member)
                .copied()
                .flatten()
                .is_some_and(|s| s.is_slow);
            let share = real(stat.sum_ns) * 100.0 / listed_ns(ranks, *member);
            let ratio = stat.median_ns / usual;
            let is_slow = ratio >= SLOW_KERNEL && scatter.is_above(stat.median_ns);
            if is_device || !is_slow || share < LEAST_SHARE_PCT || stat.count < 5 {
                continue;
            }
            let rank = ranks.rank(*member);
            let title = format!(
                "Kernel {} takes {} times as long on rank {rank}{} as on the median of {} ranks ({} instead of {})",
                shown_name(known),
                factor(ratio),
                place(ranks, *member),
                on.len(),
                report::human::duration(stat.median_ns),
                report::human::duration(usual),
            );
            let what = format!("{rank}-{}", known_id(known));
            let mut finding = Finding::new(Kind::SlowKernel, &what, Strength::Likely, title);
            finding.kernel = Some(known.name.clone());
            finding.cost_ns = Some(words::nearest(real(stat.sum_ns) * (1.0 - 1.0 / ratio)));
            out.push(finding.of_ranks([rank]).at(ranks.middle_step(*member)));
        }
    }
    out
}

/// Returns the name of a kernel for a sentence, with its shape.
fn shown_name(known: &Known) -> String {
    let names = trace_model::kernel::display_names([known.name.as_str()]);
    let name = names.get(known.name.as_str());
    let name = report::text::shorten(name.map_or(known.name.as_str(), String::as_str), 60);
    match &known.shape {
        Some(shape) => format!("{name} of shape {}", report::text::shorten(shape, 40)),
        None => name.into_owned(),
    }
}

/// Returns a short text that differs between kernels, for the id of a finding.
fn known_id(known: &Known) -> String {
    use sha2::{Digest as _, Sha256};
    let text = format!("{}\n{}", known.name, known.shape.as_deref().unwrap_or(""));
    let hash = Sha256::digest(text.as_bytes());
    hash.iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Kernels of a rank that nearly none of the others has, and those that it lacks.
type Difference = (BTreeSet<usize>, BTreeSet<usize>);

fn other_kernels(ranks: &Ranks, on: &[Vec<(usize, Stat)>], cut: &BTreeSet<usize>) -> Vec<Finding> {
    let all = ranks.members.len();
    // Shares of the kernels that nearly all ranks run: median over these.
    let common: Vec<Option<f64>> = on
        .iter()
        .map(|on| {
            let is_common = count(on.len()) >= (1.0 - RARE) * count(all);
            is_common.then(|| {
                let share = |(member, stat): &(usize, Stat)| {
                    real(stat.sum_ns) * 100.0 / listed_ns(ranks, *member)
                };
                let shares: Vec<f64> = on.iter().map(share).collect();
                stats::median(&shares)
            })
        })
        .collect();
    let mut by_difference: BTreeMap<Difference, Vec<usize>> = BTreeMap::new();
    for (member, of) in ranks.members.iter().enumerate() {
        if of.kernels.is_empty() || cut.contains(&member) {
            continue;
        }
        let total = listed_ns(ranks, member);
        let own: BTreeSet<usize> = of.kernels.iter().map(|stat| stat.kernel).collect();
        let is_rare = |stat: &&Stat| {
            let ranks = on.get(stat.kernel).map_or(0, Vec::len);
            let share = real(stat.sum_ns) * 100.0 / total;
            count(ranks) <= (RARE * count(all)).max(1.0) && share >= LEAST_SHARE_PCT
        };
        let extra: BTreeSet<usize> = of
            .kernels
            .iter()
            .filter(is_rare)
            .map(|stat| stat.kernel)
            .collect();
        // What is not listed may still run: its share is below that of the last one listed.
        let floor = match of.summary.kernels_left_out {
            0 => 0.0,
            _ => of
                .kernels
                .last()
                .map_or(0.0, |stat| real(stat.sum_ns) * 100.0 / total),
        };
        let lacks = common.iter().enumerate().filter(|(kernel, share)| {
            let is_large = share.is_some_and(|share| share >= LEAST_SHARE_PCT && share > floor);
            is_large && !own.contains(kernel)
        });
        let lacking: BTreeSet<usize> = lacks.map(|(kernel, _)| kernel).collect();
        if !extra.is_empty() || !lacking.is_empty() {
            by_difference
                .entry((extra, lacking))
                .or_default()
                .push(member);
        }
    }
    let different: usize = by_difference.values().map(Vec::len).sum();
    let mut out = Vec::new();
    for ((extra, lacking), members) in by_difference {
        // If many ranks differ, each in its own way, the job has no usual composition.
        if count(different) > EXCEPTION * count(all) {
            continue;
        }
        let numbers: Vec<u32> = members.iter().map(|member| ranks.rank(*member)).collect();
        let Some(first) = members.first() else {
            continue;
        };
        let names = |kernels: &BTreeSet<usize>| {
            let known = kernels.iter().filter_map(|k| ranks.kernels.list.get(*k));
            let mut texts: Vec<String> = known.take(NAMED).map(shown_name).collect();
            if kernels.len() > NAMED {
                texts.push(format!("{} more", kernels.len() - NAMED));
            }
            words::list(&texts)
        };
        let title = match (extra.is_empty(), lacking.is_empty()) {
            (false, false) => format!(
                "{} {} {} instead of {}",
                first_upper(&words::ranks(&numbers)),
                verb(&numbers, "runs", "run"),
                names(&extra),
                names(&lacking)
            ),
            (false, true) => format!(
                "{} also {} {}, which at most {} of the {all} ranks do",
                first_upper(&words::ranks(&numbers)),
                verb(&numbers, "runs", "run"),
                names(&extra),
                on_at_most(on, &extra),
            ),
            _ => format!(
                "{} {} not run {}, which nearly all other ranks do",
                first_upper(&words::ranks(&numbers)),
                verb(&numbers, "does", "do"),
                names(&lacking)
            ),
        };
        let what = numbers.first().map_or_else(String::new, u32::to_string);
        let kernel = extra.first().or(lacking.first());
        let kernel = kernel.and_then(|kernel| ranks.kernels.list.get(*kernel));
        let mut finding = Finding::new(Kind::OtherKernels, &what, Strength::Established, title);
        finding.kernel = kernel.map(|known| known.name.clone());
        out.push(finding.of_ranks(numbers).at(ranks.middle_step(*first)));
    }
    out
}

/// Returns the largest number of ranks that run one of the kernels.
fn on_at_most(on: &[Vec<(usize, Stat)>], kernels: &BTreeSet<usize>) -> usize {
    let counts = kernels.iter().filter_map(|kernel| on.get(*kernel));
    counts.map(Vec::len).max().unwrap_or(0)
}

fn verb<'v>(ranks: &[u32], one: &'v str, several: &'v str) -> &'v str {
    match ranks.len() {
        1 => one,
        _ => several,
    }
}

fn first_upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn other_counts(ranks: &Ranks, on: &[Vec<(usize, Stat)>], cut: &BTreeSet<usize>) -> Vec<Finding> {
    // The rank, and the kernels that it runs more or less often.
    let mut by_member: BTreeMap<usize, Vec<(usize, f64, f64)>> = BTreeMap::new();
    for (kernel, on) in on.iter().enumerate() {
        let whole = on.iter().filter(|(member, _)| !cut.contains(member));
        let on: Vec<(usize, Stat)> = whole.copied().collect();
        let per_step = |(member, stat): &(usize, Stat)| {
            let steps = ranks
                .members
                .get(*member)
                .map_or(0, |m| m.summary.steps.total);
            let count = crate::words::real(i64::try_from(stat.count).unwrap_or(i64::MAX));
            let steps = crate::words::real(i64::try_from(steps.max(1)).unwrap_or(i64::MAX));
            count / steps
        };
        let counts: Vec<f64> = on.iter().map(per_step).collect();
        let Some(scatter) = Scatter::of(&counts, 0.0) else {
            continue;
        };
        for ((member, stat), each) in on.iter().zip(&counts) {
            let share = real(stat.sum_ns) * 100.0 / listed_ns(ranks, *member);
            let is_other = (each / scatter.median - 1.0).abs() > OTHER_COUNT;
            // Recordings cut within a step have fractions of runs.
            let steps = ranks
                .members
                .get(*member)
                .map_or(0, |m| m.summary.steps.total);
            if share >= LEAST_SHARE_PCT && is_other && steps >= 5 && scatter.is_outside(*each) {
                let list = by_member.entry(*member).or_default();
                list.push((kernel, *each, scatter.median));
            }
        }
    }
    if count(by_member.len()) > EXCEPTION * count(ranks.members.len()) {
        return Vec::new();
    }
    let each = by_member.into_iter().filter_map(|(member, kernels)| {
        let rank = ranks.rank(member);
        let (kernel, own, usual) = kernels.first()?;
        let known = ranks.kernels.list.get(*kernel)?;
        let more = match kernels.len() - 1 {
            0 => String::new(),
            n => format!(", and {} with other counts", counted(n, "more", "more")),
        };
        let title = format!(
            "Rank {rank} runs {} {} times in a step, the median rank {} times{more}",
            shown_name(known),
            factor(*own),
            factor(*usual),
        );
        let what = rank.to_string();
        let mut finding = Finding::new(Kind::OtherCounts, &what, Strength::Possible, title);
        finding.kernel = Some(known.name.clone());
        Some(finding.of_ranks([rank]).at(ranks.middle_step(member)))
    });
    each.collect()
}
