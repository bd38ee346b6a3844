//! HolisticTraceAnalysis 0.5: its event selection, rounding and breakdowns.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;
use trace_model::interval::IntervalSet;
use trace_model::kernel::Activity;
use trace_model::{Slice, StreamId};

use crate::rules::{Role, Roles};
use crate::work::{GpuEvent, GpuWork, WorkKind};

/// Maximum length of a gap that counts as kernel wait.
pub const KERNEL_WAIT_NS: i64 = 30_000;

/// Prefix of the names of step annotations.
const STEP: &str = "ProfilerStep";

/// Returns the events that the tool treats as GPU activity, in ascending time.
///
/// * Any slice with an argument `stream` that is not negative, whatever its category.
/// * When there are two or more distinct names `ProfilerStep#N`: only those for which an event
///   without `stream`, but with the same correlation id, starts before the last step does.
/// * With `rounding`, from the first whole microsecond on to the last one: every event is up to
///   2 µs shorter, and one of less than a microsecond may end 1 µs before it starts. The tool's
///   own default.
///
/// Cost: a look at the arguments of all slices.
pub fn events(work: &GpuWork<'_>, rounding: bool) -> Vec<GpuEvent> {
    let trace = work.trace();
    let stream = trace.arg_column("stream");
    let stream_of = |s: Slice<'_>| stream.int(s).filter(|n| *n >= 0);
    let start = |s: Slice<'_>| round_up(s.ts().nanos(), rounding);
    let is_step = step_names(work);
    let steps = is_step.iter().filter(|known| **known).count();
    let last_step = trace
        .slices()
        .filter(|s| {
            s.name_id()
                .is_some_and(|id| is_step.get(id.index()) == Some(&true))
        })
        .map(start)
        .max();
    let window = last_step.filter(|_| steps >= 2);
    let correlation = work.index().correlation();
    let mut first_call: FxHashMap<i64, i64> = FxHashMap::default();
    if window.is_some() {
        for slice in trace.slices() {
            if let Some(id) = correlation.id_of(slice)
                && stream_of(slice).is_none()
            {
                let at = start(slice);
                let first = first_call.entry(id.0).or_insert(at);
                *first = at.min(*first);
            }
        }
    }
    let mut out = Vec::new();
    for slice in trace.slices() {
        let Some(stream) = stream_of(slice) else {
            continue;
        };
        if let Some(limit) = window {
            let call = correlation
                .id_of(slice)
                .and_then(|id| first_call.get(&id.0).copied());
            if call.is_none_or(|at| at >= limit) {
                continue;
            }
        }
        let start_ns = start(slice);
        let end = slice.end().nanos();
        let end = if rounding {
            end.div_euclid(1000) * 1000
        } else {
            end
        };
        out.push(GpuEvent {
            slice: slice.id(),
            start_ns,
            end_ns: end,
            kind: match work.index().activity(slice) {
                Activity::GpuMemcpy => WorkKind::Memcpy,
                Activity::GpuMemset => WorkKind::Memset,
                Activity::GpuGraph => WorkKind::Graph,
                _ => WorkKind::Kernel,
            },
            name: slice.name_id(),
            device: work.index().device(slice),
            stream: StreamId(stream),
        });
    }
    out
}

fn round_up(ns: i64, rounding: bool) -> i64 {
    if rounding {
        -(-ns).div_euclid(1000) * 1000
    } else {
        ns
    }
}

/// Returns by name whether it marks a step.
fn step_names(work: &GpuWork<'_>) -> Vec<bool> {
    let trace = work.trace();
    let mut names = vec![false; trace.strings().len()];
    let mut looked = vec![false; names.len()];
    for slice in trace.slices() {
        if let Some(id) = slice.name_id()
            && !std::mem::replace(&mut looked[id.index()], true)
        {
            names[id.index()] = trace.text(id).starts_with(STEP);
        }
    }
    names
}

/// Time in which a combination of kernel types ran at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Combination {
    /// Name as the tool writes it, for example `COMPUTATION overlapping COMMUNICATION`.
    pub types: String,
    /// Exact time.
    pub exact_ns: i64,
    /// Time as the tool computes it: every stretch truncated to whole microseconds.
    pub cut_ns: i64,
}

/// Returns the time of every combination of types, most first by the tool's numbers.
pub fn combinations(roles: &mut Roles<'_, '_>, events: &[GpuEvent]) -> Vec<Combination> {
    const TYPES: [&str; 3] = ["COMPUTATION", "COMMUNICATION", "MEMORY"];
    let mut unions: [IntervalSet; 3] = Default::default();
    for event in events {
        let at = match roles.of(event) {
            Role::Communication => 1,
            Role::Memcpy => 2,
            Role::Neither => continue,
            _ => 0,
        };
        unions[at].cover(event.interval());
    }
    let mut edges: Vec<(i64, bool, usize)> = Vec::new();
    for (at, union) in unions.iter().enumerate() {
        for &(start, end) in union.as_slice() {
            edges.push((start, true, at));
            edges.push((end, false, at));
        }
    }
    edges.sort_unstable();
    let mut time = [(0_i64, 0_i64); 8];
    let mut running = 0_usize;
    for pair in edges.windows(2) {
        let [(from, starts, which), (to, ..)] = pair else {
            continue;
        };
        if *starts {
            running |= 1 << which;
        } else {
            running &= !(1 << which);
        }
        let slot = &mut time[running];
        slot.0 += to - from;
        slot.1 += (to - from) / 1000 * 1000;
    }
    let mut out: Vec<Combination> = (1..8)
        .filter(|set| time[*set].0 > 0)
        .map(|set| {
            let names = TYPES.iter().enumerate();
            let names = names.filter(|(at, _)| set >> at & 1 == 1).map(|n| *n.1);
            Combination {
                types: names.collect::<Vec<_>>().join(" overlapping "),
                exact_ns: time[set].0,
                cut_ns: time[set].1,
            }
        })
        .collect();
    out.sort_by(|a, b| b.cut_ns.cmp(&a.cut_ns).then(a.types.cmp(&b.types)));
    out
}

/// Idle time of one stream by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StreamIdle {
    /// The stream.
    pub stream: i64,
    /// Time of gaps in which the launch API call came after the previous event had ended.
    pub host_wait_ns: i64,
    /// Time of other gaps shorter than [`KERNEL_WAIT_NS`].
    pub kernel_wait_ns: i64,
    /// Time of all other gaps.
    pub other_ns: i64,
}

/// Returns the idle time before each event of a stream, by cause; negative where events overlap.
///
/// An event without a call is compared with the first row of the file instead, as the tool does;
/// the earliest operator or annotation represents that row.
pub fn idle(work: &GpuWork<'_>, events: &[GpuEvent], rounding: bool) -> Vec<StreamIdle> {
    let trace = work.trace();
    let correlation = work.index().correlation();
    let stream = trace.arg_column("stream");
    let first_row = trace
        .slices()
        .find(|s| {
            matches!(
                work.index().activity(*s),
                Activity::CpuOp | Activity::UserAnnotation
            )
        })
        .map_or(i64::MIN, |s| round_up(s.ts().nanos(), rounding));
    let call_of = |event: &GpuEvent| {
        let id = correlation.id_of(work.slice(event))?;
        let calls = correlation.calls(id).iter().map(|id| trace.slice(*id));
        let mut calls = calls.filter(|s| stream.int(*s).is_none_or(|n| n < 0));
        Some(round_up(calls.next()?.ts().nanos(), rounding))
    };
    let mut streams: BTreeMap<i64, (Option<i64>, StreamIdle)> = BTreeMap::new();
    for event in events {
        let (previous, idle) = streams.entry(event.stream.0).or_default();
        idle.stream = event.stream.0;
        if let Some(end) = previous.replace(event.end_ns) {
            let gap = event.start_ns - end;
            let sum = if call_of(event).unwrap_or(first_row) > end {
                &mut idle.host_wait_ns
            } else if gap < KERNEL_WAIT_NS {
                &mut idle.kernel_wait_ns
            } else {
                &mut idle.other_ns
            };
            *sum += gap;
        }
    }
    streams.into_values().map(|(_, idle)| idle).collect()
}
