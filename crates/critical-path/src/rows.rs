//! What is said of a window, as rows.

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
    /// Device and stream with most computation.
    pub main: Option<Place>,
    /// Device operations.
    pub ops: u64,
    /// Of these, without a recorded launch.
    pub unlinked: u64,
    /// Runtime calls.
    pub calls: u64,
}

/// A stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Device.
    pub device: i64,
    /// Stream.
    pub stream: i64,
}

/// How well typical latencies alone reproduce the window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReplayError {
    /// By how much a replay without a change misses the recorded ends of steps, in all.
    pub identity_error_ns: i64,
    /// The time of the window with typical latencies and without what is not explained.
    pub model_ns: i64,
    /// Its difference from the recorded time in percent.
    pub model_error_pct: f64,
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
    /// The largest group.
    pub verdict: &'static str,
    /// What limits the kernels of a gpu-bound window.
    pub limit: Option<Limit>,
    /// Time on the path by group; adds up to the time of the steps of the rank that ends last.
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
    /// What it is called.
    pub name: String,
    /// Begin of its host interval, in nanoseconds.
    pub host_begin_ns: i64,
    /// End of its host interval.
    pub host_end_ns: i64,
    /// First start of its work.
    pub device_begin_ns: Option<i64>,
    /// Last end of its work.
    pub device_end_ns: Option<i64>,
    /// When it begins: the end of the step before.
    pub begin_ns: i64,
    /// When it ends.
    pub end_ns: i64,
    /// The step time.
    pub duration_ns: i64,
    /// What is odd about begin or end.
    pub flags: Vec<Flag>,
    /// The largest group on its path.
    pub verdict: &'static str,
    /// What limits the kernels of a gpu-bound step.
    pub limit: Option<Limit>,
    /// Share of the largest group in percent.
    pub share_pct: f64,
    /// Time on the path by group; adds up to the step time.
    pub groups: Groups,
    /// Time on the path by class.
    pub classes: BTreeMap<String, i64>,
    /// Of its path, time on other ranks.
    pub other_ranks_ns: i64,
    /// Of its path, time that nothing explains.
    pub unexplained_ns: i64,
    /// Of its path, time behind dependencies that are guessed.
    pub guessed_ns: i64,
    /// The step time with typical latencies alone.
    pub model_ns: i64,
}

/// What a step's path was spent on, by class and name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PathRow {
    /// Its rank.
    pub rank: u32,
    /// Number of the step.
    pub step: u32,
    /// What it was spent on.
    pub class: Class,
    /// The group of the class.
    pub group: Group,
    /// The kernel, call or function.
    pub name: String,
    /// Time on the path.
    pub path_ns: i64,
    /// Stretches.
    pub count: u64,
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

/// The step time under a change.
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

/// The window under a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prediction {
    /// The change.
    pub change: String,
    /// Recorded time of the window.
    pub recorded_ns: i64,
    /// Predicted time.
    pub predicted_ns: i64,
    /// What it gains; negative for a loss.
    pub gain_ns: i64,
    /// What it gains in percent of the window.
    pub gain_pct: f64,
    /// The model error as its uncertainty, in percent of the window.
    pub uncertainty_pct: f64,
    /// How often something was found that the change is about; it touches nothing if that is 0.
    pub touched: u64,
    /// What it assumes.
    pub assumes: Vec<&'static str>,
    /// By step.
    pub steps: Vec<StepPrediction>,
}

/// The window if a group took no time.
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
    /// What is gained at most.
    pub gain_ns: i64,
    /// The same in percent of the window.
    pub gain_pct: f64,
}

/// The window without one of the largest names on the path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Opportunity {
    /// What it is.
    pub class: Class,
    /// Its name.
    pub name: String,
    /// Its time on the path.
    pub path_ns: i64,
    /// The change that was replayed.
    pub change: String,
    /// Predicted time of the window without it.
    pub predicted_ns: i64,
    /// What is gained at most.
    pub gain_ns: i64,
    /// The same in percent of the window.
    pub gain_pct: f64,
}

/// Everything that is said of a window. As JSON its keys are those that the guide documents.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Analysis {
    /// By rank.
    pub recordings: Vec<RecordingRow>,
    /// Dependencies by kind; those that are guessed as `kind/guess`, `kind/timing`.
    pub edges: BTreeMap<String, u64>,
    /// Dependencies against time, which are left out.
    pub contradicted: u64,
    /// Collectives that several ranks share.
    pub collectives: u64,
    /// The error of the model.
    pub replay: ReplayError,
    /// The window.
    pub window: WindowRow,
    /// Median time from the begin of a step on the host to the next one of its rank; none with one step.
    pub period_ns: Option<i64>,
    /// By rank and number.
    pub steps: Vec<StepRow>,
    /// By rank, step and time on the path.
    pub path: Vec<PathRow>,
    /// In ascending time; empty unless asked for.
    pub segments: Vec<SegmentRow>,
    /// Device operations with slack; empty unless asked for.
    pub ops: Vec<Op>,
    /// The changes that were asked for.
    pub what_if: Vec<Prediction>,
    /// By group.
    pub limits: Vec<LimitRow>,
    /// Most gain first.
    pub opportunities: Vec<Opportunity>,
}
