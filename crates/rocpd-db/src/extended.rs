//! What goes beyond sums: busy time, launch latency, imbalance of ranks, outliers, exclusive time, memory that is left,
//! steps that change.

mod exclusive;
mod memory;
mod steps;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::filter::{Filter, domain_of};
use crate::info::Process;
use crate::kernel_names::KernelNames;
use crate::numbers::{real, real_i128};
use crate::records::{Copy, Dispatch, Region};
use crate::scan::Order;
use crate::set::RocpdSet;
use crate::stats::{Quantiles, Stat};
use crate::summary::Summary;

pub use exclusive::{Exclusive, exclusive};
pub use memory::{LiveMemory, live_memory};
pub use steps::{ChangePoint, change_points};

/// How long an agent worked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Busy<'a> {
    /// The process.
    pub process: &'a Process,
    /// Absolute index of the agent.
    pub agent: i64,
    /// `CPU` or `GPU`.
    pub kind: &'a str,
    /// Sum of durations, as the view `busy` has it, ns; overlaps count twice.
    pub sum_ns: i64,
    /// Length of the union of all intervals, ns.
    pub busy_ns: i64,
    /// One span for all agents of all processes: from the first begin to the last end on any agent of a host, of the host where that is
    /// longest (clocks of hosts need not agree), ns.
    pub wall_ns: i64,
    /// Gaps between the intervals.
    pub gaps: u64,
    /// The longest gap, ns.
    pub longest_gap_ns: i64,
}

/// Busy time of each agent of each process: dispatches, and copies to it.
///
/// # Errors
///
/// When a file is damaged.
pub fn busy<'a>(set: &'a RocpdSet, filter: &'a Filter) -> Result<Vec<Busy<'a>>> {
    let mut out: Vec<Busy<'a>> = Vec::new();
    // Of all agents of a host, whose clock is theirs.
    let mut spans: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for partition in 0..set.partitions().len() {
        let mut dispatches = set
            .scan_partition::<Dispatch<'_>>(partition, filter, Order::Start)?
            .peekable();
        let mut copies = set
            .scan_partition::<Copy<'_>>(partition, filter, Order::Start)?
            .peekable();
        let mut agents: BTreeMap<(i64, i64), (Busy<'a>, i64)> = BTreeMap::new();
        loop {
            let dispatch_first = match (dispatches.peek(), copies.peek()) {
                (Some(Ok(d)), Some(Ok(c))) => d.start_ns <= c.start_ns,
                (Some(_), _) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let (process, agent, start, end) = if dispatch_first {
                match dispatches.next() {
                    Some(record) => {
                        let r = record?;
                        (r.process, r.agent, r.start_ns, r.end_ns)
                    }
                    None => break,
                }
            } else {
                match copies.next() {
                    Some(record) => {
                        let r = record?;
                        (r.process, r.dst_agent, r.start_ns, r.end_ns)
                    }
                    None => break,
                }
            };
            let Some(agent) = agent else { continue };
            let (row, until) = agents.entry((process.id, agent.id)).or_insert_with(|| {
                let row = Busy {
                    process,
                    agent: agent.absolute_index.unwrap_or(agent.id),
                    kind: agent.kind.as_deref().unwrap_or_default(),
                    sum_ns: 0,
                    busy_ns: 0,
                    wall_ns: 0,
                    gaps: 0,
                    longest_gap_ns: 0,
                };
                (row, start)
            });
            row.sum_ns = row.sum_ns.saturating_add(end.saturating_sub(start));
            if start > *until {
                row.gaps += 1;
                row.longest_gap_ns = row.longest_gap_ns.max(start.saturating_sub(*until));
            }
            row.busy_ns = row
                .busy_ns
                .saturating_add(end.saturating_sub(start.max(*until)).max(0));
            *until = (*until).max(end);
            let span = spans.entry(&process.hostname).or_insert((start, end));
            *span = (span.0.min(start), span.1.max(end));
        }
        out.extend(agents.into_values().map(|(row, _)| row));
    }
    let lengths = spans
        .values()
        .map(|(first, last)| last.saturating_sub(*first));
    let wall_ns = lengths.max().unwrap_or(0);
    for row in &mut out {
        row.wall_ns = wall_ns;
    }
    Ok(out)
}

/// Time from the begin of a call to the begin of the kernel that it launched.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LaunchLatency<'a> {
    /// The process.
    pub process: &'a Process,
    /// The kernel.
    pub name: String,
    /// Latencies, ns.
    pub stat: Stat,
    /// Their quantiles.
    pub quantiles: Quantiles,
}

/// Launch latencies by process and kernel. Memory: 16 bytes a HIP call and 8 a dispatch.
///
/// # Errors
///
/// When a file is damaged.
pub fn launch_latency<'a>(
    set: &'a RocpdSet,
    filter: &'a Filter,
    names: KernelNames,
) -> Result<Vec<LaunchLatency<'a>>> {
    let mut out = Vec::new();
    for partition in 0..set.partitions().len() {
        let mut calls: FxHashMap<(i64, i64), i64> = FxHashMap::default();
        for region in set.scan_partition::<Region<'_>>(partition, filter, Order::Stored)? {
            let region = region?;
            if domain_of(region.category()) == "HIP"
                && let Some(stack) = region.event.and_then(|event| event.stack_id)
            {
                calls.insert((region.process.id, stack), region.start_ns);
            }
        }
        let mut kernels: BTreeMap<(i64, String), (&Process, Vec<i64>)> = BTreeMap::new();
        for dispatch in set.scan_partition::<Dispatch<'_>>(partition, filter, Order::Stored)? {
            let dispatch = dispatch?;
            let called = dispatch
                .event
                .and_then(|event| event.stack_id)
                .and_then(|stack| calls.get(&(dispatch.process.id, stack)));
            if let Some(called) = called {
                kernels
                    .entry((dispatch.process.id, names.of(&dispatch)))
                    .or_insert_with(|| (dispatch.process, Vec::new()))
                    .1
                    .push(dispatch.start_ns - called);
            }
        }
        for ((_, name), (process, mut latencies)) in kernels {
            let mut stat = Stat::default();
            for latency in &latencies {
                stat.add(*latency);
            }
            out.push(LaunchLatency {
                process,
                name,
                stat,
                quantiles: Quantiles::of(&mut latencies),
            });
        }
    }
    Ok(out)
}

/// How unevenly a domain is spread over processes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Imbalance {
    /// The view in capitals.
    pub name: String,
    /// Processes that have records of it.
    pub processes: usize,
    /// Mean total of a process, ns.
    pub mean_ns: f64,
    /// Largest total of a process, ns.
    pub max_ns: i128,
    /// Number of that process in [`Summary::processes`].
    pub slowest: usize,
    /// Largest total over mean; 1 is even.
    pub ratio: f64,
}

impl Summary<'_> {
    /// Imbalance of each view over processes; empty with a single process.
    #[must_use]
    pub fn imbalance(&self) -> Vec<Imbalance> {
        let mut totals: BTreeMap<String, Vec<(i128, usize)>> = BTreeMap::new();
        for row in self.domains_by_rank() {
            totals
                .entry(row.name)
                .or_default()
                .push((row.stat.total_ns, row.process));
        }
        let mut out = Vec::new();
        for (name, mut list) in totals {
            if self.processes.len() < 2 {
                break;
            }
            list.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
            let sum: i128 = list.iter().map(|(total, _)| total).sum();
            let count = i128::try_from(list.len()).unwrap_or(1).max(1);
            let mean_ns = real_i128(sum) / real_i128(count);
            let Some(&(max, slowest)) = list.first() else {
                continue;
            };
            out.push(Imbalance {
                name,
                processes: list.len(),
                mean_ns,
                max_ns: max,
                slowest,
                ratio: if mean_ns > 0.0 {
                    real_i128(max) / mean_ns
                } else {
                    1.0
                },
            });
        }
        out
    }
}

/// A dispatch that took much longer than its like.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outlier<'a> {
    /// The process.
    pub process: &'a Process,
    /// Row id of the dispatch.
    pub id: i64,
    /// Number of the dispatch.
    pub dispatch_id: Option<i64>,
    /// Begin, ns.
    pub start_ns: i64,
    /// The kernel.
    pub name: String,
    /// How long it took, ns.
    pub duration_ns: i64,
    /// The median of dispatches of this kernel, grid and workgroup, ns.
    pub expected_ns: f64,
    /// Robust z-score: distance from the median over 1.4826 times the median absolute deviation.
    pub score: f64,
}

impl Outlier<'_> {
    /// Duration over median.
    #[must_use]
    pub fn score_ratio(&self) -> f64 {
        real(self.duration_ns) / self.expected_ns.max(1.0)
    }
}

/// Scores above this are outliers, if they are also at least twice the median.
pub const OUTLIER_SCORE: f64 = 8.0;
/// Groups smaller than this have no median worth the name.
const MIN_GROUP: usize = 5;

/// A dispatch of a group: duration, row id, dispatch id, begin.
type Member = (i64, i64, Option<i64>, i64);

/// Dispatches that took much longer than others of the same process, kernel, grid and workgroup.
///
/// Median and median absolute deviation do not move with the outliers themselves; a spread of zero counts as 1 % of the
/// median. Memory: 40 bytes a dispatch.
///
/// # Errors
///
/// When a file is damaged.
pub fn outliers<'a>(
    set: &'a RocpdSet,
    filter: &'a Filter,
    names: KernelNames,
) -> Result<Vec<Outlier<'a>>> {
    let mut out = Vec::new();
    for partition in 0..set.partitions().len() {
        let mut groups: FxHashMap<_, (&Process, String, Vec<Member>)> = FxHashMap::default();
        for dispatch in set.scan_partition::<Dispatch<'_>>(partition, filter, Order::Stored)? {
            let d = dispatch?;
            groups
                .entry((d.process.id, d.kernel_id, d.grid, d.workgroup))
                .or_insert_with(|| (d.process, names.of(&d), Vec::new()))
                .2
                .push((d.duration_ns(), d.id, d.dispatch_id, d.start_ns));
        }
        let first = out.len();
        for (process, name, members) in groups.into_values() {
            if members.len() < MIN_GROUP {
                continue;
            }
            let mut durations: Vec<i64> = members.iter().map(|member| member.0).collect();
            let found = Quantiles::of(&mut durations);
            let spread = (1.4826 * found.mad_ns).max(found.p50_ns * 0.01).max(1.0);
            for (duration_ns, id, dispatch_id, start_ns) in members {
                let score = (real(duration_ns) - found.p50_ns) / spread;
                if score > OUTLIER_SCORE && real(duration_ns) >= 2.0 * found.p50_ns {
                    out.push(Outlier {
                        process,
                        id,
                        dispatch_id,
                        start_ns,
                        name: name.clone(),
                        duration_ns,
                        expected_ns: found.p50_ns,
                        score,
                    });
                }
            }
        }
        if let Some(new) = out.get_mut(first..) {
            new.sort_by_key(|outlier: &Outlier<'_>| outlier.id);
        }
    }
    Ok(out)
}
