//! Results of a reduction, as rows.

use std::collections::BTreeMap;

use serde::Serialize;

use super::composition::Speed;
use super::lateness::Late;
use super::{Ranks, clocks};
use crate::finding::Finding;
use crate::summary;

/// Begin of all versions of [`Fleet`] as JSON.
const FAMILY: &str = "inferscope-fleet-";

/// Version of [`Fleet`] as JSON.
pub(crate) const SCHEMA: &str = "inferscope-fleet-1.3";

/// Returns `true` for a [`Fleet`] as JSON, of any version.
pub fn is_document(bytes: &[u8]) -> bool {
    let document: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
    let version = |key: &str| {
        let version = document
            .as_ref()
            .and_then(|document| document.get(key)?.as_str());
        version.is_some_and(|version| version.starts_with(FAMILY))
    };
    // Before 1.1 the version was in `schema`.
    version("schema_version") || version("schema")
}

/// A recording that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Failure {
    /// Its path as given.
    pub file: String,
    /// The rank in its name.
    pub rank: Option<u32>,
    /// One sentence that names the reason.
    pub error: String,
}

impl Failure {
    /// Creates a failure; the rank is that in the name of the file.
    pub fn new(file: &str, error: &str) -> Self {
        Self {
            file: file.to_owned(),
            rank: summary::rank_in_name(file),
            error: error.to_owned(),
        }
    }

    /// Returns the reason without the name of the file.
    pub fn reason(&self) -> &str {
        let rest = self.error.strip_prefix(&self.file);
        rest.and_then(|rest| rest.strip_prefix(": "))
            .unwrap_or(&self.error)
    }
}

/// What the answer rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Scope {
    /// Number of recordings.
    pub files: usize,
    /// Number of ranks that were read.
    pub ranks: usize,
    /// Number of ranks of the job, if a recording states it.
    pub world_size: Option<u32>,
    /// Ranks without a recording.
    pub missing: Vec<u32>,
    /// Number of recordings that could not be read.
    pub unreadable: usize,
    /// Ranks whose recording ends early.
    pub truncated: Vec<u32>,
    /// Number of hosts that are known.
    pub hosts: usize,
    /// Number of collectives that several ranks recorded.
    pub collectives: usize,
    /// Number of steps of all ranks.
    pub steps: u64,
    /// Bytes of all recordings after decompression.
    pub bytes: u64,
}

/// One rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RankRow {
    /// Rank.
    pub rank: u32,
    /// Recording.
    pub file: String,
    /// Host.
    pub host: Option<String>,
    /// Rack of the host, where a list of racks is given.
    pub rack: Option<String>,
    /// Devices, separated by commas.
    pub devices: String,
    /// Number of steps.
    pub steps: u64,
    /// Median step time.
    pub step_median_ns: Option<i64>,
    /// Time from the first start to the last end of GPU activity.
    pub span_ns: i64,
    /// Time in which anything ran on the GPU.
    pub busy_ns: i64,
    /// Time in which communication ran.
    pub comm_ns: i64,
    /// Part of it without computation.
    pub exposed_comm_ns: i64,
    /// Part of the job that it is in: ranks that synchronizing collectives join. Waits and clocks are those within it.
    pub part: Option<usize>,
    /// Collectives in which its wait, or a lower bound of it, is known. Without any, the next six values are not known.
    pub collectives: usize,
    /// Time that it waited for others.
    pub waited_ns: Option<i64>,
    /// Time that others waited for it.
    pub inflicted_ns: Option<i64>,
    /// Part of it that is a lower bound, as a member of the group is missing.
    pub inflicted_at_least_ns: Option<i64>,
    /// Part that it would have avoided by arriving with the rank before it.
    pub avoidable_ns: Option<i64>,
    /// Time that the prompt ranks would wait for it if no other rank were late: by how much more time it takes by itself between the
    /// collectives of a group than the usual rank, or, where most ranks are late, than the slowest prompt one. Not known without two collectives of a group.
    pub own_delay_ns: Option<i64>,
    /// Share of the delay that it causes in the time that others spend in its collectives, and all in those to which they pass it on, in
    /// percent: at most 100.
    pub delay_share_pct: Option<f64>,
    /// Number of collectives in which it came last, by more than the error of the clocks.
    pub times_last: Option<usize>,
    /// Median ratio of the time of its kernels to that on the median rank.
    pub kernel_time_ratio: Option<f64>,
    /// Number of kernels compared.
    pub kernels_compared: usize,
    /// Lead of its clock over the median clock of its part of the job.
    pub clock_ahead_ns: Option<i64>,
    /// Half the width of the interval around it.
    pub clock_error_ns: Option<i64>,
    /// `true` if the recording is complete.
    pub complete: bool,
    /// Number of slices of the recording.
    pub slices: u64,
    /// Number of kernels.
    pub kernels: u64,
    /// Events that are unusable.
    pub dropped: u64,
    /// Places where data is lost.
    pub lost: u64,
    /// Bytes of the recording after decompression.
    pub bytes: u64,
}

/// Ranks with a host, or a number of a device, in common.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FactorRow {
    /// `rack`, `host` or `device`.
    pub factor: String,
    /// Its value.
    pub value: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Time that others waited for these ranks.
    pub delay_ns: i64,
    /// Share in that of all ranks, in percent.
    pub share_pct: f64,
    /// Share of the ranks, in percent.
    pub share_of_ranks_pct: f64,
    /// Probability of delays that differ as much by chance (Mann–Whitney, times the number of values).
    pub chance: f64,
}

/// Collectives of one group, operation and size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkRow {
    /// Group of ranks.
    pub group: String,
    /// Its members that are recorded.
    pub members: Vec<u32>,
    /// Operation.
    pub op: String,
    /// Message size.
    pub bytes: u64,
    /// Number of ranks.
    pub ranks: usize,
    /// Number of collectives.
    pub collectives: usize,
    /// Median transfer time.
    pub transfer_ns: i64,
    /// Median of the groups with the same operation, size and number of ranks.
    pub usual_ns: i64,
    /// Ratio of the two.
    pub ratio: f64,
    /// Number of these groups.
    pub groups_compared: usize,
    /// `true` if it stands out of them.
    pub is_slow: bool,
}

/// A kernel on all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelRow {
    /// Name.
    pub name: String,
    /// Shapes of the inputs of its operator, if recorded.
    pub shape: Option<String>,
    /// Class.
    pub class: String,
    /// Number of ranks that list it.
    pub ranks: usize,
    /// Number of runs.
    pub count: u64,
    /// Sum of durations.
    pub sum_ns: i64,
    /// Median over all ranks, with a relative error of at most 1 %.
    pub median_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
}

/// Kernels of one class on all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassRow {
    /// Class.
    pub class: String,
    /// Number of runs.
    pub count: u64,
    /// Sum of durations.
    pub sum_ns: i64,
    /// Median, with a relative error of at most 1 %.
    pub median_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
}

/// Budget of the steps of one phase on one rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BudgetRow {
    /// Rank.
    pub rank: u32,
    /// Phase.
    pub phase: String,
    /// Number of steps.
    pub steps: u64,
    /// Time of all of them.
    pub time_ns: i64,
    /// Median step time.
    pub median_ns: i64,
    /// Time on the critical path by group; adds up to the time.
    pub groups: BTreeMap<String, i64>,
}

/// A step of a rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Rank.
    pub rank: u32,
    /// Number of the step.
    pub step: i64,
    /// Phase.
    pub phase: String,
    /// Begin on the clock of the recording.
    pub begin_ns: i64,
    /// Step time.
    pub duration_ns: i64,
    /// Time on the critical path by group, in the order of [`critical_path::Group::ALL`].
    pub groups: Vec<i64>,
    /// Time by which the rank arrived behind the median rank, summed over the collectives of the step.
    pub late_ns: i64,
}

/// Result of [`reduce`](crate::reduce()).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Fleet {
    /// Version of this document.
    pub schema_version: &'static str,
    /// The answer in one sentence.
    pub answer: String,
    /// What it rests on.
    pub scope: Scope,
    /// Findings, those with the highest cost first, and of equal costs those that are surest; then those whose cost cannot be told, and
    /// last those about recordings.
    pub findings: Vec<Finding>,
    /// Ranks, those first for which others wait longest.
    pub ranks: Vec<RankRow>,
    /// Racks, hosts and devices.
    pub factors: Vec<FactorRow>,
    /// Transfer times.
    pub links: Vec<LinkRow>,
    /// Kernels of all ranks, those with most time first.
    pub kernels: Vec<KernelRow>,
    /// Classes of kernels.
    pub classes: Vec<ClassRow>,
    /// Budgets by rank and phase.
    pub budgets: Vec<BudgetRow>,
    /// Recordings that could not be read.
    pub failures: Vec<Failure>,
    /// Caveats.
    pub notes: Vec<String>,
    /// Steps by rank and number. In tables only.
    #[serde(skip)]
    pub steps: Vec<Cell>,
}

/// What the comparisons found.
pub(super) struct Found {
    pub(super) scope: Scope,
    pub(super) findings: Vec<Finding>,
    pub(super) factors: Vec<FactorRow>,
    pub(super) links: Vec<LinkRow>,
    pub(super) failures: Vec<Failure>,
    pub(super) notes: Vec<String>,
    /// Time that the others would wait for each rank alone.
    pub(super) alone: Vec<Option<i64>>,
}

/// Puts the rows together.
pub(super) fn fleet(ranks: &Ranks, late: &[Late], speed: &[Option<Speed>], found: Found) -> Fleet {
    let leads = clocks::leads(ranks);
    let mut rows: Vec<RankRow> = Vec::with_capacity(ranks.members.len());
    let mut budgets = Vec::new();
    let mut steps = Vec::new();
    let all = ranks.members.iter().zip(late).zip(speed).zip(&leads);
    for (at, (((member, late), speed), lead)) in all.enumerate() {
        let (rank, summary) = (ranks.rank(at), &member.summary);
        let mut durations: Vec<f64> = Vec::new();
        for step in summary.steps.iter() {
            durations.push(crate::words::real(step.duration_ns));
            steps.push(Cell {
                rank,
                step: step.number,
                phase: step.phase.to_owned(),
                begin_ns: step.begin_ns,
                duration_ns: step.duration_ns,
                groups: (0..critical_path::Group::ALL.len())
                    .map(|group| summary.steps.group(step.place, group))
                    .collect(),
                late_ns: late.steps.get(&step.number).copied().unwrap_or(0),
            });
        }
        for phase in &summary.phases {
            budgets.push(BudgetRow {
                rank,
                phase: phase.phase.clone(),
                steps: phase.steps.count,
                time_ns: phase.steps.sum_ns,
                median_ns: crate::words::nearest(phase.steps.median()),
                groups: phase.groups.clone(),
            });
        }
        let is_known = late.collectives > 0;
        let known = |ns: i64| is_known.then_some(ns);
        let devices: Vec<String> = summary.devices.iter().map(i64::to_string).collect();
        rows.push(RankRow {
            rank,
            file: summary.file.clone(),
            host: member.host.clone(),
            rack: member.rack.clone(),
            devices: devices.join(","),
            steps: summary.steps.total,
            step_median_ns: (!durations.is_empty())
                .then(|| crate::words::nearest(stats::median(&durations))),
            span_ns: summary.time.span_ns,
            busy_ns: summary.time.busy_ns,
            comm_ns: summary.time.comm_ns,
            exposed_comm_ns: summary.time.exposed_ns,
            part: ranks.parts.get(at).copied().flatten(),
            collectives: late.collectives,
            waited_ns: known(late.waited_ns),
            inflicted_ns: known(late.delay_ns()),
            inflicted_at_least_ns: known(late.at_least_ns),
            avoidable_ns: known(late.avoidable_ns),
            own_delay_ns: found.alone.get(at).copied().flatten(),
            delay_share_pct: is_known.then(|| late.share_pct()),
            times_last: is_known.then_some(late.times_last),
            kernel_time_ratio: speed.map(|speed| speed.ratio),
            kernels_compared: speed.map_or(0, |speed| speed.kernels),
            clock_ahead_ns: lead.map(|lead| lead.0),
            clock_error_ns: lead.map(|lead| lead.1),
            complete: summary.quality.complete,
            slices: summary.quality.slices,
            kernels: summary.quality.kernels,
            dropped: summary.quality.dropped,
            lost: summary.quality.lost,
            bytes: summary.quality.bytes,
        });
    }
    rows.sort_by_key(|row| (std::cmp::Reverse(row.inflicted_ns), row.rank));
    let mut fleet = Fleet {
        schema_version: SCHEMA,
        answer: String::new(),
        scope: found.scope,
        findings: found.findings,
        ranks: rows,
        factors: found.factors,
        links: found.links,
        kernels: kernels(ranks),
        classes: classes(ranks),
        budgets,
        failures: found.failures,
        notes: found.notes,
        steps,
    };
    fleet.answer = crate::answer::sentence(&fleet);
    fleet
}

fn kernels(ranks: &Ranks) -> Vec<KernelRow> {
    let mut on = vec![0_usize; ranks.kernels.list.len()];
    for stat in ranks.members.iter().flat_map(|member| &member.kernels) {
        if let Some(count) = on.get_mut(stat.kernel) {
            *count += 1;
        }
    }
    let each = ranks.kernels.list.iter().zip(on);
    let mut rows: Vec<KernelRow> = each
        .map(|(known, ranks)| KernelRow {
            name: known.name.clone(),
            shape: known.shape.clone(),
            class: known.class.clone(),
            ranks,
            count: known.durations.count,
            sum_ns: known.durations.sum_ns,
            median_ns: crate::words::nearest(known.durations.median()),
            p99_ns: crate::words::nearest(known.durations.quantile(0.99).unwrap_or(0.0)),
        })
        .collect();
    rows.sort_by(|a, b| {
        b.sum_ns
            .cmp(&a.sum_ns)
            .then_with(|| (&a.name, &a.shape).cmp(&(&b.name, &b.shape)))
    });
    rows
}

fn classes(ranks: &Ranks) -> Vec<ClassRow> {
    let each = ranks.kernels.classes.iter();
    let mut rows: Vec<ClassRow> = each
        .map(|(class, durations)| ClassRow {
            class: class.clone(),
            count: durations.count,
            sum_ns: durations.sum_ns,
            median_ns: crate::words::nearest(durations.median()),
            p99_ns: crate::words::nearest(durations.quantile(0.99).unwrap_or(0.0)),
        })
        .collect();
    rows.sort_by(|a, b| b.sum_ns.cmp(&a.sum_ns).then_with(|| a.class.cmp(&b.class)));
    rows
}
