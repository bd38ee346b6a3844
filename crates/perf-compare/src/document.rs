//! The result of a comparison, as plain data. All of it is written to JSON under these names.

mod calls;
mod mix;
mod pauses;

use serde::Serialize;

pub use self::calls::SlowCalls;
pub use self::mix::Mix;
pub use self::pauses::{Growth, PausedFunction, Pauses};
use crate::report_text::{time, times};

/// Version of the JSON document.
pub const SCHEMA_VERSION: report::SchemaVersion = report::SchemaVersion::new(1, 6);

/// Whether the sides may be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Status {
    /// Nothing speaks against it.
    Comparable,
    /// They may be compared, but see the reasons.
    ComparableWithWarnings,
    /// Durations mean different things on the two sides.
    NotComparable,
}

/// One reason of the gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Reason {
    /// Stable short name: `anchor`, `capture`, `coverage`, `cycle_type`, `devices`, `engine`, `functions`, `granularity`,
    /// `hardware`, `no_data`, `roles`, `settings`, `too_few_cycles`, `unit`.
    pub code: &'static str,
    /// Whether it alone forbids the comparison.
    pub stops: bool,
    /// In words, with the values.
    pub text: String,
}

/// What the gate says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparability {
    /// The summary.
    pub status: Status,
    /// Why, if not simply comparable.
    pub reasons: Vec<Reason>,
    /// Whether the comparison was made in spite of it.
    pub forced: bool,
}

/// What may be said about a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Statement {
    /// Different: q is small and the interval lies beyond the practical limit.
    Changed,
    /// The same within the margin (two one-sided tests at 5 %).
    Equivalent,
    /// Different, but by less than the practical limit.
    Small,
    /// Neither can be said.
    Inconclusive,
    /// Too few cycles to say anything; effect and interval only.
    Insufficient,
}

/// Direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// More time, or a metric changed for the worse.
    Slower,
    /// Less time, or a metric changed for the better.
    Faster,
    /// A metric that is neither better nor worse when it changes is higher.
    Higher,
    /// Such a metric is lower.
    Lower,
    /// Only the candidate has it.
    New,
    /// Only the baseline has it.
    Gone,
    /// No change established.
    None,
}

/// An effect with everything it stands on. Times are microseconds per cycle, other metrics in their own unit.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Effect {
    /// Mean of the baseline; where a few observations rule the mean, the mean without the extreme tenths (see `method`).
    pub baseline: f64,
    /// The same of the candidate.
    pub candidate: f64,
    /// Candidate − baseline.
    pub delta: f64,
    /// 95 % interval of `delta`; absent with fewer than two observations on a side.
    pub interval: Option<[f64; 2]>,
    /// Candidate / baseline, if both are positive.
    pub ratio: Option<f64>,
    /// 95 % interval of `ratio`.
    pub ratio_interval: Option<[f64; 2]>,
    /// Observations on each side.
    pub n: [usize; 2],
    /// Numbers of independent observations with as certain a mean.
    pub effective_n: [f64; 2],
    /// Correlation of neighbouring observations.
    pub autocorrelation: f64,
    /// Observations exchanged together.
    pub block: usize,
    /// p of the studentised permutation test.
    pub p: Option<f64>,
    /// p of the test of Brunner and Munzel.
    pub p_brunner_munzel: Option<f64>,
    /// Hodges–Lehmann shift.
    pub shift: Option<f64>,
    /// Cliff's δ: chance to be larger minus chance to be smaller.
    pub cliffs_delta: Option<f64>,
    /// Difference of the means without the extreme tenths, and its interval.
    pub trimmed: Option<(f64, [f64; 2])>,
    /// Name of the test.
    pub method: String,
}

/// One line of the result.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Stable within a document: `f1`, `f2`, … in rank order.
    pub id: String,
    /// `function`, `layers`, `collective_transfer`, `collective_total`, `metric`, or `tail` for a quantile of one.
    pub kind: &'static str,
    /// The function or metric.
    pub name: String,
    /// Kind of work: `kernel`, `collective`, `on_cpu`, …; `metric` for samples.
    pub class: &'static str,
    /// Device on the baseline side, or `all ranks`.
    pub device: String,
    /// Number of the role, from 0; absent for joint quantities and samples.
    pub role: Option<usize>,
    /// Rank of the role in the candidate (`rank 3`, or `role 1` where files do not name ranks); absent with one role.
    pub rank: Option<String>,
    /// Type of cycle, or group of the samples.
    pub cycle_type: String,
    /// Unit of the effect.
    pub unit: String,
    /// Direction, or that it is new or gone.
    pub change: Change,
    /// What may be said.
    pub verdict: Statement,
    /// False discovery rate at which it would be declared.
    pub q: Option<f64>,
    /// The effect.
    pub effect: Effect,
    /// End of the interval nearest to zero, 0 if it includes zero: what findings are ranked by.
    pub bound: f64,
    /// Calls per cycle, candidate / baseline.
    pub calls_ratio: Option<f64>,
    /// Microseconds per call, candidate / baseline.
    pub us_per_call_ratio: Option<f64>,
    /// Part of the change of the cycle, in percent; only if the cycle did change.
    pub explained_pct: Option<f64>,
    /// Changed, although the cycle is not: it costs no time.
    pub no_effect_on_cycle: bool,
    /// Number of functions that this is the sum of, such as the layers of a model: their names differ in the number that `*`
    /// stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<usize>,
    /// Name of the finding that is the sum of this and others that changed alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_of: Option<String>,
    /// `true` if the change of the steps' work explains as much.
    pub by_work: bool,
    /// The calls of a cycle that are far slower than its others, if they are few and make the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_calls: Option<SlowCalls>,
}

/// A counter of a device on which functions changed: the third level, tested because the second found something.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CounterFinding {
    /// The counter.
    pub metric: String,
    /// Device on the baseline side.
    pub device: String,
    /// Number of the role.
    pub role: usize,
    /// Unit of the effect.
    pub unit: String,
    /// Changed functions on that device, by their `id`.
    pub functions: Vec<String>,
    /// What may be said.
    pub verdict: Statement,
    /// False discovery rate within the counters of this device at which it would be declared.
    pub q: Option<f64>,
    /// The rate it is held against: the level times the share of functions that were declared.
    pub level: f64,
    /// The effect over cycles into which real samples fell; `n` are these cycles.
    pub effect: Effect,
    /// Cycles on each side whose value is interpolated between samples, and therefore left out.
    pub interpolated: [usize; 2],
}

/// The cycle time of one type of cycle.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CycleTime {
    /// `prefill`, `decode`, `layer`, or nothing; `/short` and `/long` for modes that were split.
    pub cycle_type: String,
    /// Difference of the mean.
    pub effect: Effect,
    /// What may be said of it; neither equivalent nor changed where `mean_us` says the contrary.
    pub verdict: Statement,
    /// Direction.
    pub change: Change,
    /// Mean of all cycles on each side, the longest included: how often tokens come.
    pub mean_us: [f64; 2],
    /// A tail that is established to be longer or shorter, the 95th percentile before the 99th.
    pub tail: Option<Tail>,
    /// Median on each side.
    pub median_us: [f64; 2],
    /// Difference of the medians, with interval.
    pub median_change_us: (f64, [f64; 2]),
    /// 95th percentile on each side.
    pub p95_us: [f64; 2],
    /// Difference of the 95th percentiles, with interval.
    pub p95_change_us: (f64, [f64; 2]),
    /// 99th percentile on each side.
    pub p99_us: [f64; 2],
    /// Difference of the 99th percentiles, with interval.
    pub p99_change_us: (f64, [f64; 2]),
    /// Cycles far longer than the rest, on both sides; absent without any, or where they are no exception.
    pub pauses: Option<Pauses>,
    /// How the candidate becomes slower within itself, where it begins as the baseline is and that one does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth: Option<Growth>,
    /// Smallest change that would be found with power 0.9 from this many cycles, in percent of the cycle.
    pub detectable_pct: Option<f64>,
    /// Cycles per side needed to find a change of 2 % with power 0.9.
    pub cycles_needed_for_2pct: Option<u64>,
    /// Change from first to second half of each side, in percent, where it is beyond chance.
    pub drift_pct: [Option<f64>; 2],
    /// `true` if the difference between the sides is no more than the drift within them, continued: then no change is
    /// declared.
    pub continues_drift: bool,
    /// Numbers of candidate cycles far beyond the baseline, if they are few: intermittent trouble.
    pub intermittent_cycles: Vec<i64>,
    /// The cycles, for drawing.
    pub cycles_us: [Vec<f64>; 2],
}

/// A quantile of cycle time that differs between the sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Tail {
    /// Which, from 0 to 1.
    pub quantile: f64,
    /// `true` if it is longer in the candidate.
    pub longer: bool,
    /// Its value on each side.
    pub values_us: [f64; 2],
    /// Difference, with 95 % interval.
    pub change_us: (f64, [f64; 2]),
    /// Probability that chance puts so many cycles beyond it on that side (Fisher's exact test).
    pub p: f64,
}

impl Tail {
    /// In words: `p95 10.2 ms -> 14.1 ms (+38.2 %)`.
    pub(crate) fn said(&self) -> String {
        let [before, after] = self.values_us;
        format!(
            "p{:.0} {} -> {} ({:+.1} %)",
            self.quantile * 100.0,
            time(before),
            time(after),
            (after / before - 1.0) * 100.0
        )
    }
}

impl CycleTime {
    /// What the cycles are called in a sentence: `cycle`, `decode`, `short cycle` of two modes.
    #[must_use]
    pub fn kind(&self) -> String {
        let (phase, mode) = match self.cycle_type.split_once('/') {
            Some((phase, mode)) => (phase, mode),
            None => (self.cycle_type.as_str(), ""),
        };
        let phase = if phase.is_empty() { "cycle" } else { phase };
        format!("{mode} {phase}").trim_start().to_owned()
    }

    /// Returns `true` unless the medians are told apart.
    pub(crate) fn typical_is_unchanged(&self) -> bool {
        let (change, [low, high]) = self.median_change_us;
        let part = change.abs() / self.median_us[0].max(f64::MIN_POSITIVE);
        (low <= 0.0 && high >= 0.0) || part < 0.01
    }
}

/// Which process of the baseline is compared with which of the candidate.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Role {
    /// Its number.
    pub role: usize,
    /// Process on each side.
    pub pids: [i64; 2],
    /// Rank on each side (`rank 3`), where each rank has a file of its own, or where processes that communicate name their devices
    /// alike: then it is the place of the process in order of host and number.
    pub ranks: [Option<String>; 2],
    /// Numbers of the processes in their captures.
    #[serde(skip)]
    pub(crate) places: [usize; 2],
    /// Devices on each side.
    pub devices: [Vec<String>; 2],
    /// 0 (alike) to 2: unlike profile, other device, other host.
    pub cost: f64,
    /// How much more the next best assignment would cost; absent with one role.
    pub margin: Option<f64>,
}

impl Role {
    /// Where it runs on a side: its rank, then its devices.
    pub(crate) fn device(&self, side: usize) -> String {
        let devices = self.devices[side].join(", ");
        match &self.ranks[side] {
            Some(rank) if devices.is_empty() => rank.clone(),
            Some(rank) => format!("{rank} ({devices})"),
            None => devices,
        }
    }
}

/// A quantity of the work of a step, as the names of steps state it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Quantity {
    /// `requests`, `tokens`, `context tokens` and the like.
    pub name: String,
    /// Median of a step on each side.
    pub values: [f64; 2],
}

/// Steps that did other work, and what it explains.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Workload {
    /// What differs by at least 2 %.
    pub quantities: Vec<Quantity>,
    /// The most that the work can explain of what a cycle takes longer, on the busiest rank, in microseconds.
    pub explained_us: f64,
    /// The functions whose change lies between none and one in proportion to their work.
    pub functions: Vec<String>,
    /// By how many percent all kernels are slower (negative: faster) beyond their work, at least and at most, where some of them
    /// changed by more than their work and one factor fits all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels_beyond_pct: Option<[f64; 2]>,
}

impl Workload {
    /// In words: `context tokens 30000 -> 45000 (+50 %)`, quantities but for `but`; `None` without any by a tenth at least.
    pub(crate) fn said(&self, but: &str) -> Option<String> {
        const LEAST: f64 = 0.1;
        let shown = self.quantities.iter().filter(|q| q.name != but);
        let said: Vec<String> = shown
            .filter(|q| (q.values[1] / q.values[0] - 1.0).abs() >= LEAST)
            .map(|q| {
                let [a, b] = q.values;
                let change = (b / a - 1.0) * 100.0;
                let change = match change.is_finite() {
                    true => format!(" ({change:+.0} %)"),
                    false => String::new(),
                };
                format!("{} {} -> {}{change}", q.name, times(a), times(b))
            })
            .collect();
        (!said.is_empty()).then(|| said.join(", "))
    }
}

/// One row of evidence, or one counter.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Evidence {
    /// Counter or derived quantity.
    pub metric: String,
    /// Where: `GPU 7`, `Host`, or `all`.
    pub device: String,
    /// Unit of the values.
    pub unit: String,
    /// Typical value of the baseline (median, or mean where the rule says so).
    pub baseline: f64,
    /// Typical value of the candidate.
    pub candidate: f64,
    /// Candidate − baseline.
    pub effect: f64,
    /// 95 % interval of `effect`; absent for quantities without repetition.
    pub interval: Option<[f64; 2]>,
    /// Change in percent of the baseline.
    pub change_pct: Option<f64>,
    /// Observations on each side.
    pub n: [usize; 2],
    /// What it says for the cause.
    pub role: &'static str,
}

/// A cause that was ruled out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RuledOut {
    /// The cause.
    pub cause: String,
    /// Why it is not this one.
    pub why: String,
}

/// The second best cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunnerUp {
    /// The cause.
    pub cause: String,
    /// Its confidence.
    pub confidence: f64,
    /// What speaks for it.
    pub why: String,
}

/// The cause, named.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// One of the causes of the table of signatures, `none` or `unknown`.
    pub cause: String,
    /// 0 to 1: how completely the evidence fits, and how far the next cause is behind. A rank, not a probability.
    pub confidence: f64,
    /// What the confidence comes to: `sure` from 0.75, `likely` from 0.5, `possible` below; `open` without a cause.
    pub certainty: &'static str,
    /// Why it is no more than possible, where the recording cannot tell.
    pub doubt: Option<String>,
    /// `worse` if the candidate has the cause, `better` if the baseline had it, `none` without a cause.
    pub direction: &'static str,
    /// Whether it made the cycles longer or shorter; absent where cycles cannot be compared.
    pub on_critical_path: Option<bool>,
    /// `true` if it is about the slow cycles among others alone: the evidence compares these with all cycles of the other side.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_slow_cycles: bool,
    /// One sentence for people.
    pub summary: String,
    /// What the cause covers.
    pub covers: String,
    /// What it is concluded from.
    pub evidence: Vec<Evidence>,
    /// The other causes, and what speaks against them.
    pub ruled_out: Vec<RuledOut>,
    /// Causes that can neither be confirmed nor ruled out, and what was not recorded.
    pub not_judged: Vec<RuledOut>,
    /// The next best cause, if any has evidence.
    pub runner_up: Option<RunnerUp>,
}

impl Verdict {
    /// The verdict about sides that may not be compared at all.
    pub(crate) fn undecided() -> Self {
        Self {
            cause: "unknown".to_owned(),
            confidence: 0.0,
            certainty: "open",
            doubt: None,
            direction: "none",
            on_critical_path: None,
            in_slow_cycles: false,
            summary: "the sides may not be compared".to_owned(),
            covers: "sides that ran other work, or on other hardware".to_owned(),
            evidence: Vec::new(),
            ruled_out: Vec::new(),
            not_judged: Vec::new(),
            runner_up: None,
        }
    }

    /// States how certain the confidence is.
    pub(crate) fn rate(&mut self) {
        self.certainty = match self.confidence {
            _ if matches!(self.cause.as_str(), "none" | "unknown") => "open",
            sure if sure >= 0.75 => "sure",
            likely if likely >= 0.5 => "likely",
            _ => "possible",
        };
    }

    /// Lowers a cause to one that is possible, and says why.
    pub(crate) fn question(&mut self, why: String) {
        /// The most that a possible cause is confident of.
        const POSSIBLE: f64 = 0.45;
        if matches!(self.cause.as_str(), "none" | "unknown") {
            return;
        }
        self.confidence = self.confidence.min(POSSIBLE);
        self.doubt.get_or_insert(why);
        self.rate();
    }
}

/// What was read of a side.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct SideInfo {
    /// Path as given.
    pub name: String,
    /// Files read.
    pub files: usize,
    /// Cycles in them.
    pub cycles: usize,
    /// Anchors that cycles were cut at.
    pub anchors: Vec<String>,
    /// Whether counters were read as samples over time.
    pub counter_samples: bool,
}

/// Everything.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Version of this document.
    pub schema_version: report::SchemaVersion,
    /// The baseline.
    pub baseline: SideInfo,
    /// The candidate.
    pub candidate: SideInfo,
    /// The answer in one sentence.
    pub headline: String,
    /// `true` if both sides hold the same cycles and functions to the last digit.
    pub identical: bool,
    /// Whether they may be compared.
    pub comparability: Comparability,
    /// The cause.
    pub verdict: Verdict,
    /// Cycle time, by type of cycle; empty when not comparable.
    pub cycle_time: Vec<CycleTime>,
    /// Functions and metrics, most important first; empty when not comparable.
    pub findings: Vec<Finding>,
    /// Counters of the devices on which functions changed.
    pub counter_findings: Vec<CounterFinding>,
    /// Shares of phases, if they changed or one side lacks a phase.
    pub mix: Option<Mix>,
    /// How the work of steps differs, where their names state it and it does, for the type of cycle that the cause is of.
    pub workload: Option<Workload>,
    /// Processes compared with each other.
    pub roles: Vec<Role>,
    /// Counters and derived quantities with their change.
    pub counters: Vec<Evidence>,
    /// What the claim is about: `these two captures`, or `the condition` with at least three runs on each side.
    pub claim: &'static str,
    /// Remarks, in the order of their making.
    pub notes: Vec<String>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Permutations asked for.
    pub permutations: usize,
}
