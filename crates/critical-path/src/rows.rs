//! Results of an analysis, as rows.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::class::{Class, Group, Limit};
use crate::lags::LagTime;
use crate::path::{Groups, Segment};
use crate::slack::Op;
use crate::steps::Flag;

/// One recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RecordingRow {
    /// Its rank.
    pub rank: u32,
    /// Its latencies by name.
    pub lags: BTreeMap<&'static str, LagTime>,
    /// Device and stream with the most computation.
    pub main: Option<Place>,
    /// Number of GPU activities.
    pub ops: u64,
    /// Number of GPU activities without a recorded launch.
    pub unlinked: u64,
    /// Number of GPU activities whose links to calls are lost, where that is so many that no link is used; else 0.
    #[serde(skip_serializing_if = "is_none")]
    pub lost_links: u64,
    /// Number of launches without GPU work, of steps that are flagged as [`Flag::Lost`].
    #[serde(skip_serializing_if = "is_none")]
    pub lost_work: u64,
    /// Number of runtime API calls.
    pub calls: u64,
    /// It captures a graph and replays none: its launches ran on no GPU.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_capture: bool,
    /// Number of marks of steps without GPU activity and runtime calls: their time is in the step that follows.
    #[serde(skip_serializing_if = "is_zero")]
    pub marks_without_work: u32,
    /// Number of other processes in the recording that mark steps of their own: these and their work are in no step.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_engines: u32,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_none(count: &u64) -> bool {
    *count == 0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_no_step(count: &usize) -> bool {
    *count == 0
}

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Device.
    pub device: i64,
    /// Stream.
    pub stream: i64,
}

/// Error of reproducing the window from typical latencies alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReplayError {
    /// Total difference between the recorded ends of steps and those of a replay without a change.
    pub identity_error_ns: i64,
    /// Time of the window with typical latencies and without unexplained time.
    pub model_ns: i64,
    /// Difference of `model_ns` from the recorded time in percent.
    pub model_error_pct: f64,
    /// Median over the steps of the size of the difference between recorded and modelled step time, in percent of the
    /// recorded one.
    pub step_error_median_pct: f64,
    /// 95th percentile of it.
    pub step_error_p95_pct: f64,
}

/// The steps alone: their times, paths by group and verdicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Steps {
    /// The error of the model.
    pub replay: ReplayError,
    /// Steps by rank and number.
    pub steps: Vec<StepRow>,
    /// All recordings are captures of graphs, whose launches ran on no GPU.
    pub is_capture: bool,
}

/// The window of all steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WindowRow {
    /// Begin, in nanoseconds.
    pub begin_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Duration.
    pub duration_ns: i64,
    /// Verdict of the largest group.
    pub verdict: &'static str,
    /// `true` if the model misses the recording by so much that the verdict is not sure.
    pub is_unsure: bool,
    /// The resource that limits the kernels of a gpu-bound window.
    pub limit: Option<Limit>,
    /// The rank whose last step ends last, of those whose steps cover the window.
    pub rank: u32,
    /// Time on the path by group; adds up to the time of the steps of `rank`. Where collectives join ranks, this path passes
    /// through the others wherever they are late.
    pub groups: Groups,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepRow {
    /// Its rank.
    pub rank: u32,
    /// Its number, from 1.
    pub step: u32,
    /// Its name.
    pub name: String,
    /// Begin of its host interval, in nanoseconds.
    pub host_begin_ns: i64,
    /// End of its host interval.
    pub host_end_ns: i64,
    /// First start of its GPU work.
    pub device_begin_ns: Option<i64>,
    /// Last end of its GPU work.
    pub device_end_ns: Option<i64>,
    /// Begin: the end of the step before.
    pub begin_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Step time.
    pub duration_ns: i64,
    /// Peculiarities of its begin or end.
    pub flags: Vec<Flag>,
    /// Verdict of the largest group on its path.
    pub verdict: &'static str,
    /// The resource that limits the kernels of a gpu-bound step.
    pub limit: Option<Limit>,
    /// Share of the largest group in percent.
    pub share_pct: f64,
    /// Time on the path by group; adds up to the step time.
    pub groups: Groups,
    /// Time on the path by class.
    pub classes: BTreeMap<String, i64>,
    /// Time of its path spent on other ranks.
    pub other_ranks_ns: i64,
    /// Time of its path that is unexplained.
    pub unexplained_ns: i64,
    /// Time of its path behind guessed dependencies.
    pub guessed_ns: i64,
    /// Step time with typical latencies alone.
    pub model_ns: i64,
}

/// Time of a step's path by class and name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PathRow {
    /// Its rank.
    pub rank: u32,
    /// Number of the step.
    pub step: u32,
    /// Class of the time.
    pub class: Class,
    /// The group of the class.
    pub group: Group,
    /// Rank on which the time was spent.
    pub on_rank: u32,
    /// Name of the kernel, call or function.
    pub name: String,
    /// Time on the path.
    pub path_ns: i64,
    /// Number of stretches.
    pub count: u64,
    /// Time of the longest one.
    pub longest_ns: i64,
}

/// A segment of a step's path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SegmentRow {
    /// Rank of the step.
    pub rank: u32,
    /// Number of the step.
    pub step: u32,
    /// The segment.
    #[serde(flatten)]
    pub segment: Segment,
}

/// Predicted time of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StepPrediction {
    /// Its rank.
    pub rank: u32,
    /// Number of the step.
    pub step: u32,
    /// Recorded step time.
    pub recorded_ns: i64,
    /// Predicted step time.
    pub predicted_ns: i64,
}

/// Predicted time of the window.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prediction {
    /// The change.
    pub change: String,
    /// Recorded time of the window.
    pub recorded_ns: i64,
    /// Predicted time.
    pub predicted_ns: i64,
    /// Predicted gain; negative for a loss.
    pub gain_ns: i64,
    /// Predicted gain in percent of the window.
    pub gain_pct: f64,
    /// Uncertainty of the prediction, which is the model error, in percent of the window.
    pub uncertainty_pct: f64,
    /// Number of matches of the change; 0 if it affects nothing.
    pub touched: u64,
    /// Assumptions of the prediction.
    pub assumes: Vec<&'static str>,
    /// Predictions by step.
    pub steps: Vec<StepPrediction>,
}

/// The rank that holds up the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Straggler {
    /// Its rank.
    pub rank: u32,
    /// Predicted gain of the window with this rank as fast as the median one.
    pub gain_ns: i64,
    /// Predicted gain in percent of the window.
    pub gain_pct: f64,
    /// Class of what it needs longest for, compared with the median rank.
    pub class: Class,
    /// Name of the kernel, call or function.
    pub name: String,
    /// How much longer that takes than on the median rank, in the time that all ranks have steps in.
    pub longer_ns: i64,
    /// Number of its steps in that time, where a rank lacks some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub common_steps: Option<usize>,
}

/// Prediction for the window without the time of a group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LimitRow {
    /// The group.
    pub group: Group,
    /// Its time on the path.
    pub path_ns: i64,
    /// Recorded time of the window.
    pub recorded_ns: i64,
    /// Predicted time.
    pub predicted_ns: i64,
    /// Upper bound of the gain.
    pub gain_ns: i64,
    /// Upper bound of the gain in percent of the window.
    pub gain_pct: f64,
}

/// Prediction for the window without one of the largest names on the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Opportunity {
    /// Class of its time.
    pub class: Class,
    /// Its name.
    pub name: String,
    /// Its time on the path.
    pub path_ns: i64,
    /// The change that was replayed.
    pub change: String,
    /// Predicted time of the window without it.
    pub predicted_ns: i64,
    /// Upper bound of the gain.
    pub gain_ns: i64,
    /// Upper bound of the gain in percent of the window.
    pub gain_pct: f64,
}

/// Result of [`analyse`](crate::analyse). The guide documents its JSON keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Analysis {
    /// Recordings by rank.
    pub recordings: Vec<RecordingRow>,
    /// Number of dependencies by kind; guessed ones as `kind/guess`, `kind/timing`.
    pub edges: BTreeMap<String, u64>,
    /// Number of dependencies that run backward in time, which are dropped.
    pub contradicted: u64,
    /// Number of collectives that several ranks share.
    pub collectives: u64,
    /// Number of steps of single ranks that are left out, as other ranks have no steps at that time.
    #[serde(skip_serializing_if = "is_no_step")]
    pub left_out: usize,
    /// The error of the model.
    pub replay: ReplayError,
    /// The window.
    pub window: WindowRow,
    /// Median time between the host begins of consecutive steps of a rank; `None` with one step.
    pub period_ns: Option<i64>,
    /// Steps by rank and number.
    pub steps: Vec<StepRow>,
    /// Path time by rank, step and time on the path.
    pub path: Vec<PathRow>,
    /// Segments in ascending time; empty unless requested.
    pub segments: Vec<SegmentRow>,
    /// GPU activities with slack; empty unless requested.
    pub ops: Vec<Op>,
    /// Predictions of the requested changes.
    pub what_if: Vec<Prediction>,
    /// Limits by group.
    pub limits: Vec<LimitRow>,
    /// The rank that holds up the others, if one does.
    pub straggler: Option<Straggler>,
    /// Opportunities, largest gain first.
    pub opportunities: Vec<Opportunity>,
}
