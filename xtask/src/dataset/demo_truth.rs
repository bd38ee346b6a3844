//! Computes the truth about the demonstration traces by brute force from the simulation.

use super::demo::recorder;
use super::demo::{CLOCK_AHEAD, STEP_FUNCTION, planted};
use super::json::{Json, object};
use super::sim::{Activity, Kernel, Rank, Sim};
use serving_synth::kineto::Written;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the facts of one rank's trace.
pub(crate) fn rank(
    sim: &Sim,
    rank: &Rank,
    written: &Written,
    capture: &Rank,
    captured: &[(Kernel, usize)],
) -> Json {
    let kernels = |test: &dyn Fn(&Activity) -> bool| {
        rank.activities
            .iter()
            .filter(|a| rank.slices[a.slice].cat == "kernel" && test(a))
            .count()
    };
    let exposure = Exposure::of(rank);
    object! {
        "schema": 1,
        "trace": format!("demo-rank{}.json.gz", rank.index),
        "rank": rank.index,
        "world_size": sim.ranks.len(),
        "base_time_ns": recorder(rank).base_ns,
        "planted": planted(),
        "counts": object! {
            "events": written.events,
            "slices": written.slices,
            "kernels": kernels(&|_| true),
            "copies": rank.activities.len() - kernels(&|_| true),
            "flow_arrows": written.flow_starts,
            "flow_ends_without_start": written.flow_ends_without_start,
        },
        "links": object! {
            "kernels": kernels(&|_| true),
            "by_flow": kernels(&|a| a.flow),
            "by_correlation": kernels(&|a| a.launch.is_some()),
            "under_graph_launch": kernels(&|a| a.node.is_some()),
            "unlinked": kernels(&|a| a.launch.is_none()),
        },
        "devices": Json::Arr(vec![object! {
            "device": rank.index,
            "collective_union_ns": exposure.collective,
            "other_union_ns": exposure.other,
            "exposed_ns": exposure.exposed,
            "hidden_ns": exposure.collective - exposure.exposed,
        }]),
        "kernels": by_name(rank),
        "windows": windows(rank),
        "collectives": collectives(sim, rank, &exposure),
        "graph_launches": graph_launches(rank, capture, captured),
    }
}

fn is_collective(rank: &Rank, activity: &Activity) -> bool {
    rank.slices[activity.slice].name.starts_with("nccl")
}

/// Unions of intervals, found by checking for every stretch between two boundaries which activities
/// cover it.
struct Exposure {
    collective: i64,
    other: i64,
    exposed: i64,
    /// Exposed time of each activity, by slice; no two collectives of the demonstration overlap on one device.
    of: BTreeMap<usize, i64>,
}

impl Exposure {
    fn of(rank: &Rank) -> Self {
        let span = |a: &Activity| {
            (
                rank.slices[a.slice].ts,
                rank.slices[a.slice].ts + rank.slices[a.slice].dur,
            )
        };
        let cuts: BTreeSet<i64> = rank
            .activities
            .iter()
            .flat_map(|a| [span(a).0, span(a).1])
            .collect();
        let cuts: Vec<i64> = cuts.into_iter().collect();
        let mut all = Self {
            collective: 0,
            other: 0,
            exposed: 0,
            of: BTreeMap::new(),
        };
        for pair in cuts.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let covers = |a: &&Activity| span(a).0 <= from && to <= span(a).1;
            let here: Vec<&Activity> = rank.activities.iter().filter(covers).collect();
            let active: Vec<&&Activity> = here.iter().filter(|a| is_collective(rank, a)).collect();
            let others = here.len() > active.len();
            all.other += if others { to - from } else { 0 };
            if active.is_empty() {
                continue;
            }
            all.collective += to - from;
            if !others {
                all.exposed += to - from;
                *all.of.entry(active[0].slice).or_insert(0) += to - from;
            }
        }
        all
    }
}

fn by_name(rank: &Rank) -> Json {
    let mut names: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for activity in &rank.activities {
        let slice = &rank.slices[activity.slice];
        if slice.cat == "kernel" {
            let entry = names.entry(&slice.name).or_insert((0, 0));
            *entry = (entry.0 + 1, entry.1 + slice.dur);
        }
    }
    let row = |(name, (count, ns)): (&str, (i64, i64))| object! { "name": name, "count": count, "gpu_ns": ns };
    Json::Arr(names.into_iter().map(row).collect())
}

/// Returns one entry per call of the step function, with the stacks of some characteristic kernels
/// launched strictly inside.
fn windows(rank: &Rank) -> Json {
    let steps = rank
        .slices
        .iter()
        .filter(|slice| slice.name == STEP_FUNCTION)
        .enumerate();
    let one = |(index, step): (usize, &super::sim::Slice)| {
        let inside: Vec<&Activity> = rank
            .activities
            .iter()
            .filter(|a| launched_in(rank, a, step.ts, step.ts + step.dur))
            .collect();
        let names: BTreeSet<&str> = inside
            .iter()
            .map(|a| rank.slices[a.slice].name.as_str())
            .collect();
        let telling = |name: &&str| {
            ["nccl", "FlashAttn", "splitK", "reduce_kernel"]
                .iter()
                .any(|part| name.contains(part))
        };
        let kernels = names.into_iter().filter(telling).map(|name| {
            let of: Vec<&Activity> = inside
                .iter()
                .copied()
                .filter(|a| rank.slices[a.slice].name == name)
                .collect();
            let arrows: Vec<&Activity> = of.iter().copied().filter(|a| a.flow).collect();
            object! {
                "name": name,
                "kernels": of.len(),
                "gpu_ns": of.iter().map(|a| rank.slices[a.slice].dur).sum::<i64>(),
                "compat_stacks_depth_12": stacks(rank, &arrows, 12),
                "stacks": stacks(rank, &of, usize::MAX - 1),
            }
        });
        object! {
            "index": index,
            "function": STEP_FUNCTION,
            "start_ns": recorder(rank).local(step.ts),
            "duration_ns": step.dur,
            "kernels_launched": inside.iter().filter(|a| rank.slices[a.slice].cat == "kernel").count(),
            "kernels": Json::Arr(kernels.collect()),
        }
    };
    Json::Arr(steps.map(one).collect())
}

fn launched_in(rank: &Rank, activity: &Activity, start: i64, end: i64) -> bool {
    activity
        .launch
        .is_some_and(|launch| start < rank.slices[launch].ts && rank.slices[launch].ts < end)
}

/// Returns the launch call's name, then up to `depth` ancestors without their trailing digits.
fn frames(rank: &Rank, launch: usize, depth: usize) -> Vec<String> {
    let names = rank.stack(launch).into_iter().take(depth + 1).enumerate();
    let digits = |c: char| c.is_ascii_digit();
    names
        .map(|(at, name)| {
            if at == 0 {
                name
            } else {
                name.trim_end_matches(digits)
            }
            .to_owned()
        })
        .collect()
}

/// Groups launches by their frames: most launches first, then the joined names in descending order.
fn stacks(rank: &Rank, activities: &[&Activity], depth: usize) -> Json {
    let mut groups: BTreeMap<Vec<String>, (BTreeSet<usize>, usize, i64)> = BTreeMap::new();
    for activity in activities {
        if let Some(launch) = activity.launch {
            let group = groups.entry(frames(rank, launch, depth)).or_default();
            group.0.insert(launch);
            group.1 += 1;
            group.2 += rank.slices[activity.slice].dur;
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_cached_key(|(frames, of)| (of.0.len(), frames.join(" <- ")));
    groups.reverse();
    let row = |(frames, (launches, kernels, ns)): (Vec<String>, (BTreeSet<usize>, usize, i64))| {
        object! { "launches": launches.len(), "kernels": kernels, "gpu_ns": ns, "frames_leaf_first": frames }
    };
    Json::Arr(groups.into_iter().map(row).collect())
}

fn collectives(sim: &Sim, rank: &Rank, exposure: &Exposure) -> Json {
    let group = i64::try_from(sim.ranks.len()).unwrap_or(2);
    let row = |activity: &Activity| {
        let slice = &rank.slices[activity.slice];
        let mut row = object! {
            "name": &slice.name, "ts_ns": recorder(rank).local(slice.ts), "dur_ns": slice.dur, "correlation": slice.correlation,
            "exposed_ns": exposure.of.get(&activity.slice).copied().unwrap_or(0),
            "graph": activity.node.is_some(),
        };
        if let Some(message) = &activity.message {
            let algbw = ratio(message.bytes(), slice.dur);
            let factor = if message.collective == "allreduce" {
                2.0
            } else {
                1.0
            } * ratio(group - 1, group);
            row.push("collective", message.collective);
            row.push("seq", message.seq);
            row.push("group", group);
            row.push("bytes", message.bytes());
            row.push("algbw_gb_per_s", Json::fixed(algbw, 6));
            row.push("busbw_gb_per_s", Json::fixed(algbw * factor, 6));
        }
        row
    };
    Json::Arr(
        rank.activities
            .iter()
            .filter(|a| is_collective(rank, a))
            .map(row)
            .collect(),
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "message sizes and durations are far below 2^53"
)]
fn ratio(a: i64, b: i64) -> f64 {
    a as f64 / b as f64
}

/// Returns the kernels of each graph launch by the host stack that captured them: the k-th captured
/// launch is the k-th kernel.
fn graph_launches(rank: &Rank, capture: &Rank, captured: &[(Kernel, usize)]) -> Json {
    let calls: BTreeSet<usize> = rank
        .activities
        .iter()
        .filter(|a| a.node.is_some())
        .filter_map(|a| a.launch)
        .collect();
    let one = |call: usize| {
        let mut groups: BTreeMap<(String, Vec<String>), (i64, i64)> = BTreeMap::new();
        let mut matched = 0;
        for activity in rank.activities.iter().filter(|a| a.launch == Some(call)) {
            let Some((kernel, node)) = activity.node.and_then(|at| captured.get(at)) else {
                continue;
            };
            let of = groups
                .entry((kernel.name.clone(), frames(capture, *node, 12)))
                .or_insert((0, 0));
            *of = (of.0 + 1, of.1 + rank.slices[activity.slice].dur);
            matched += 1;
        }
        let row = |((kernel, frames), (count, ns)): ((String, Vec<String>), (i64, i64))| {
            object! { "kernel": kernel, "count": count, "gpu_ns": ns, "frames_leaf_first": frames }
        };
        object! {
            "graph_launch_correlation": rank.slices[call].correlation,
            "launch_ts": recorder(rank).local(rank.slices[call].ts),
            "kernels": matched,
            "captures_available": Json::list([captured.len()]),
            "matched": matched,
            "stacks": Json::Arr(groups.into_iter().map(row).collect()),
        }
    };
    Json::Arr(calls.into_iter().map(one).collect())
}

/// Returns the facts of the capture trace: the launches between begin and end of the capture, in
/// order.
pub(crate) fn capture(rank: &Rank, written: &Written, captured: &[(Kernel, usize)]) -> Json {
    let node = |(kernel, call): &(Kernel, usize)| {
        let slice = &rank.slices[*call];
        object! { "launch_ts": recorder(rank).local(slice.ts), "correlation": slice.correlation, "kernel": &kernel.name }
    };
    object! {
        "schema": 1,
        "trace": "demo-capture-rank0.json.gz",
        "counts": object! { "events": written.events, "slices": written.slices, "kernels": rank.activities.len() },
        "launches_before_capture": 1,
        "captures": Json::Arr(vec![object! {
            "kernels": captured.len(), "nodes": Json::Arr(captured.iter().map(node).collect()),
        }]),
    }
}

/// Returns the facts that need all ranks: the last rank of each collective, and the clock
/// differences.
pub(crate) fn across(sim: &Sim) -> Json {
    let of: Vec<Vec<&Activity>> = sim
        .ranks
        .iter()
        .map(|rank| {
            rank.activities
                .iter()
                .filter(|a| is_collective(rank, a))
                .collect()
        })
        .collect();
    let mut rows = Vec::new();
    let mut differences = Vec::new();
    let mut waited = vec![0_i64; sim.ranks.len()];
    for k in 0..of[0].len() {
        let here: Vec<&Activity> = of.iter().map(|all| all[k]).collect();
        let starts: Vec<i64> = here.iter().map(|a| a.arrival).collect();
        let last = starts.iter().copied().max().unwrap_or(0);
        let late = starts.iter().position(|&start| start == last);
        let waits: Vec<i64> = starts.iter().map(|start| last - start).collect();
        waited
            .iter_mut()
            .zip(&waits)
            .for_each(|(sum, wait)| *sum += wait);
        let end = |at: usize| {
            let (rank, slice) = (&sim.ranks[at], &sim.ranks[at].slices[here[at].slice]);
            recorder(rank).local(slice.ts + slice.dur) + recorder(rank).base_ns
        };
        let ends: Vec<i64> = (0..here.len())
            .map(|at| &sim.ranks[at].slices[here[at].slice])
            .map(|s| s.ts + s.dur)
            .collect();
        if here[0].message.is_some() {
            differences.push(end(1) - end(0));
        }
        rows.push(object! {
            "k": k,
            "seq": here[0].message.as_ref().map(|message| message.seq),
            "name": &sim.ranks[0].slices[here[0].slice].name,
            "start_spread_ns": waits.iter().copied().max().unwrap_or(0),
            "last_rank": late,
            "wait_ns": waits,
            "last_end_minus_last_start_ns": ends.iter().copied().max().unwrap_or(0) - last,
        });
    }
    differences.sort_unstable();
    let middle = differences.len() / 2;
    object! {
        "schema": 1,
        "traces": Json::list(["demo-rank0.json.gz", "demo-rank1.json.gz"]),
        "note": "spreads and waits are in true time; a tool that aligns clocks by collective ends may be off by 80 ns",
        "planted": planted(),
        "clock_offset_ns": Json::list([0, CLOCK_AHEAD]),
        "median_end_difference_ns": Json::list([differences[(differences.len() - 1) / 2], differences[middle]]),
        "wait_total_ns": waited,
        "collectives": Json::Arr(rows),
    }
}
