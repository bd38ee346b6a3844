//! The answer as data: what `--json` prints, and what every page, text and track is made of.
//!
//! Times are integer nanoseconds on the clock of the first recording, amounts per step are medians with the interval that the
//! number of steps allows. Nothing that is shown to a person is computed after this document exists.

use serde::{Deserialize, Serialize};

/// Version of the layout of [`Document`]; raised when a field changes its meaning or disappears.
pub const SCHEMA_VERSION: u32 = 1;

/// The whole answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What was looked at.
    pub scope: Scope,
    /// The answer.
    pub answer: Answer,
    /// How far it can be trusted.
    pub trust: Trust,
    /// Where the step time goes, for each phase and side; the parts add up to the total exactly.
    pub budget: Vec<Budget>,
    /// Findings by descending gain.
    pub findings: Vec<Finding>,
    /// Number of findings before `findings` was cut.
    pub total: u64,
    /// The finding to continue after, if `findings` was cut.
    pub cursor: Option<String>,
    /// The second side, if two were given.
    pub comparison: Option<Comparison>,
    /// Commands that show more, the most useful one first.
    pub next: Vec<Next>,
    /// What no recording holds, and how to record it.
    pub not_recorded: Vec<Missing>,
    /// Rows behind the figures of the page.
    pub figures: Figures,
    /// Rules, versions, hashes.
    pub appendix: Appendix,
}

impl Document {
    /// Returns what is added to the times of a file for the clock of the document.
    pub fn clock_shift(&self, name: &str) -> i64 {
        let file = self.scope.files.iter().find(|file| file.name == name);
        file.and_then(|file| file.clock_shift_ns).unwrap_or(0)
    }
}

/// Paths, and the part of them that was chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// Files in the order of the command line.
    pub files: Vec<File>,
    /// First and last step chosen, from 1.
    pub steps: Option<(u32, u32)>,
    /// Window chosen, half-open.
    pub window_ns: Option<(i64, i64)>,
    /// Phase chosen.
    pub phase: Option<String>,
    /// Rank chosen.
    pub rank: Option<u32>,
    /// What was assumed about what belongs together.
    pub assumed: Vec<String>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// Path as given or found.
    pub name: String,
    /// Its format, told by content.
    pub format: String,
    /// What it is used for.
    pub role: Role,
    /// Its side.
    pub side: Side,
    /// Its rank.
    pub rank: Option<u32>,
    /// Size.
    pub bytes: u64,
    /// What is added to its times for the clock of the document, in the middle of the recording.
    pub clock_shift_ns: Option<i64>,
    /// Why it is not used.
    pub problem: Option<String>,
}

/// What a file is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Events of a rank.
    #[default]
    Trace,
    /// Capture of the graphs that a trace replays.
    Capture,
    /// Block I/O beside a trace.
    BlockIo,
    /// GPU utilisation beside a trace.
    GpuLog,
    /// Log of the engine beside a trace.
    EngineLog,
    /// Memory accesses.
    MemoryAccesses,
    /// Samples of a benchmark or probe.
    Samples,
    /// Not used; [`File::problem`] tells why.
    Unused,
}

/// One of two sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The only side.
    #[default]
    Only,
    /// Before.
    Baseline,
    /// After.
    Candidate,
}

/// The sentence and its parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Which of the four.
    pub shape: Shape,
    /// One or two sentences.
    pub sentence: String,
    /// The verdict of the critical path (`gpu-bound`, `host-bound`, ...).
    pub bound: Option<String>,
    /// The phase that the sentence is about.
    pub phase: Option<String>,
    /// The rank that the sentence is about.
    pub rank: Option<u32>,
    /// Step time of that phase.
    pub step_time_ns: Option<Interval>,
    /// The cause, by a name of `perf-compare`.
    pub cause: Option<String>,
    /// The finding that the sentence rests on.
    pub finding: Option<String>,
}

/// The shape of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A device or a resource bounds the steps.
    Limit,
    /// Something makes them longer than they have to be.
    Cause,
    /// Nothing abnormal.
    Nothing,
    /// The recordings do not hold the answer.
    #[default]
    CannotSay,
}

/// A median with the 95 % interval of the median; equal ends where there is one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Median.
    pub median: i64,
    /// Lower end.
    pub low: i64,
    /// Upper end.
    pub high: i64,
}

/// What the answer stands on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trust {
    /// Files read.
    pub files: u64,
    /// Ranks recorded.
    pub ranks_present: Vec<u32>,
    /// Ranks of the job that are not recorded.
    pub ranks_missing: Vec<u32>,
    /// Steps that the answer uses.
    pub steps_used: u64,
    /// Steps left out (clipped, first ones, of another phase).
    pub steps_left_out: u64,
    /// Events that the recorder or the reader lost.
    pub events_lost: u64,
    /// Uncertainty of the clocks of ranks and companions.
    pub clocks_within_ns: Option<i64>,
    /// Error of the model of the critical path, in percent of the window.
    pub model_error_pct: Option<f64>,
    /// Share of GPU time with a model of its limit, in percent.
    pub roofline_coverage_pct: Option<f64>,
    /// How far the step time of the sentence could move.
    pub headline_within_ns: Option<i64>,
    /// Smallest change of a step that would have been found.
    pub smallest_effect_ns: Option<i64>,
    /// Caveats, the most important one first.
    pub notes: Vec<Note>,
}

/// A caveat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Stable name.
    pub kind: String,
    /// Sentence.
    pub text: String,
}

/// Where the time of the steps of a phase goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Side.
    pub side: Side,
    /// Phase (`decode`, `prefill`, `mixed`, name of a step).
    pub phase: String,
    /// The rank whose steps these are.
    pub rank: Option<u32>,
    /// Number of steps.
    pub steps: u64,
    /// Step time.
    pub step_time_ns: Interval,
    /// Sum of the step times.
    pub total_ns: i64,
    /// Tokens of all steps, if the engine names them.
    pub tokens: Option<u64>,
    /// Step time that the limit of the device allows.
    pub limit_ns: Option<i64>,
    /// Time of the steps in which the GPU worked, in percent: on the critical path or beside it.
    pub gpu_busy_pct: Option<f64>,
    /// Parts; their `total_ns` add up to that of the budget.
    pub parts: Vec<BudgetPart>,
}

/// A part of a budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetPart {
    /// Group of the critical path (`gpu`, `comm`, `launch`, `sync`, `wait`, `input`, `host`, `unknown`).
    pub group: String,
    /// Class within it (`kernel.gemm`, `comm.wait`, `host_python`, ...).
    pub class: String,
    /// In the field's words.
    pub label: String,
    /// Sum over the steps.
    pub total_ns: i64,
    /// Mean of a step.
    pub per_step_ns: i64,
    /// Mean of a token.
    pub per_token_ns: Option<i64>,
    /// Share of the total, in percent.
    pub share_pct: f64,
}

/// Something that costs time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Made of what it is about, so that it stays the same over runs.
    pub id: String,
    /// Kind, from the catalogue.
    pub kind: String,
    /// One line.
    pub title: String,
    /// Where it is.
    #[serde(rename = "where")]
    pub place: Place,
    /// Time of a step that it costs: median of all steps of the phase; where it affects few of them, the mean of all.
    pub cost_ns_per_step: Interval,
    /// Time that it costs of a step that it affects; their number is [`Place::step_count`].
    pub cost_ns_per_affected_step: Interval,
    /// Sum over the steps that it affects.
    pub cost_ns_total: i64,
    /// Number of the steps that the share is of.
    pub of_steps: u64,
    /// Share of the time of all these steps, in percent.
    pub share_pct: f64,
    /// `false` if no replay and no comparison of steps tells what would be saved; the two fields below are 0 then.
    pub is_gain_known: bool,
    /// What a replay without it saves of a step: the mean of all steps of the phase.
    pub gain_ceiling_ns_per_step: i64,
    /// What the replay saves of all steps of the phase, in percent. Findings are ranked by it.
    pub gain_pct: f64,
    /// Strength.
    pub confidence: Confidence,
    /// Rows that show it.
    pub evidence: Vec<Evidence>,
    /// Commands that show it.
    pub commands: Vec<String>,
    /// What would show that it is wrong.
    pub refute: String,
    /// What helps.
    pub remedy: Option<Remedy>,
}

/// How strong the evidence is. The definitions are part of the catalogue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Fits what was recorded; other causes fit as well.
    #[default]
    Possible,
    /// The recorded evidence favours it over the others.
    Likely,
    /// Recorded directly, above its threshold, in enough steps.
    Established,
}

/// Where a finding is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// Side.
    pub side: Side,
    /// Rank.
    pub rank: Option<u32>,
    /// Device.
    pub device: Option<i64>,
    /// Phase.
    pub phase: Option<String>,
    /// Numbers of the steps, the longest first, twenty at most.
    pub steps: Vec<u32>,
    /// Number of all such steps.
    pub step_count: u64,
    /// Function, kernel, operator, class or module, whole.
    pub name: Option<String>,
    /// Host stack, outermost first.
    pub stack: Vec<String>,
}

/// A row of evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it shows, with its number.
    pub text: String,
    /// File.
    pub file: Option<String>,
    /// Rank.
    pub rank: Option<u32>,
    /// Step.
    pub step: Option<u32>,
    /// Id of the event (slice) in the file, as `trace-info` and the SQL tables number it.
    pub event_id: Option<u64>,
    /// Name of the event.
    pub name: Option<String>,
    /// Begin.
    pub begin_ns: Option<i64>,
    /// Duration.
    pub duration_ns: Option<i64>,
}

/// A remedy of the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// What to do.
    pub text: String,
    /// Address or document that says so.
    pub source: String,
}

/// The difference of two sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Phase.
    pub phase: String,
    /// Step time before.
    pub baseline_ns: Interval,
    /// Step time after.
    pub candidate_ns: Interval,
    /// Difference of a step, with its interval.
    pub difference_ns: Interval,
    /// Parts of the difference; with `unexplained_ns` they add up to the median difference.
    pub parts: Vec<DifferencePart>,
    /// What no finding explains, and what chance explains as well.
    pub unexplained_ns: i64,
    /// p of the test of the step time, of `perf-compare`; absent with one step on a side.
    pub p: Option<f64>,
    /// Name of the test.
    pub method: String,
    /// Remarks, such as within which workloads the steps were compared.
    pub notes: Vec<String>,
}

/// A part of a difference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DifferencePart {
    /// What differs.
    pub label: String,
    /// Class as in the budget; empty for functions of tables.
    pub class: String,
    /// Difference of a step.
    pub difference_ns: i64,
    /// Lower end of its 95 % interval, where the steps allow one.
    pub low_ns: Option<i64>,
    /// Upper end.
    pub high_ns: Option<i64>,
    /// False discovery rate at which it is declared.
    pub q: Option<f64>,
    /// Finding that explains it.
    pub finding: Option<String>,
}

/// A command that shows more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// Command line.
    pub command: String,
    /// What it shows.
    pub shows: String,
}

/// Something that was not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// What.
    pub what: String,
    /// What it would decide.
    pub decides: String,
    /// How to record it, for the engine at hand.
    pub record: String,
}

/// Rows behind the figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Best, median and worst step.
    pub timelines: Vec<Timeline>,
    /// Steps over time.
    pub steps: Vec<StepPoint>,
    /// Lateness of each rank in each step.
    pub lateness: Option<Lateness>,
    /// Kernels against the limits of the device.
    pub roofline: Option<Roofline>,
    /// Kernels by descending time.
    pub kernels: Vec<KernelRow>,
    /// Host stacks that launched GPU time.
    pub stacks: Vec<StackRow>,
    /// Host functions on the path while the GPU idles.
    pub host_gaps: Vec<HostRow>,
    /// GPU memory over time.
    pub memory: Vec<MemoryPoint>,
    /// Storage beside the steps.
    pub storage: Option<Storage>,
    /// Logs of GPUs and engines beside the steps.
    pub logs: Vec<BesideLog>,
}

/// A step as lanes of spans.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// `best`, `median` or `worst`.
    pub role: String,
    /// Rank.
    pub rank: u32,
    /// Step.
    pub step: u32,
    /// Begin.
    pub begin_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Lanes from top to bottom.
    pub lanes: Vec<Lane>,
    /// Spans that did not fit.
    pub left_out: u64,
}

/// A lane of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// `path`, a stream or a thread.
    pub name: String,
    /// Spans by begin.
    pub spans: Vec<Span>,
}

/// A span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Begin, from that of the step.
    pub begin_ns: i64,
    /// Duration.
    pub duration_ns: i64,
    /// Class as in the budget.
    pub class: String,
    /// Name.
    pub name: String,
    /// Takes part in what makes this step differ from the median one.
    pub differs: bool,
}

/// A step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepPoint {
    /// Side.
    pub side: Side,
    /// Rank.
    pub rank: u32,
    /// Number.
    pub step: u32,
    /// Phase.
    pub phase: String,
    /// Name.
    pub name: String,
    /// Begin.
    pub begin_ns: i64,
    /// Step time.
    pub duration_ns: i64,
    /// Verdict.
    pub bound: String,
    /// Requests in the batch.
    pub batch: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Whether the answer uses it.
    pub is_used: bool,
}

/// How long each rank kept the others waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    /// Rows.
    pub ranks: Vec<u32>,
    /// Columns.
    pub steps: Vec<u32>,
    /// For each rank and step: time that the other ranks waited for it in collectives.
    pub late_ns: Vec<Vec<Option<i64>>>,
}

/// A roofline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    /// Device.
    pub device: String,
    /// Peak rates by type.
    pub flops_per_s: Vec<(String, f64)>,
    /// Peak bandwidth.
    pub bytes_per_s: f64,
    /// Kernels or operators.
    pub points: Vec<RooflinePoint>,
}

/// A point of a roofline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RooflinePoint {
    /// Name.
    pub name: String,
    /// Class.
    pub class: String,
    /// Operations.
    pub flops: f64,
    /// Bytes.
    pub bytes: f64,
    /// Time.
    pub time_ns: i64,
    /// `compute`, `memory` or `link`.
    pub bound: String,
    /// Distance from the limit, in percent of it.
    pub limit_pct: f64,
}

/// A kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelRow {
    /// In the engineer's words.
    pub label: String,
    /// Its name in the trace.
    pub name: String,
    /// Class.
    pub class: String,
    /// Calls.
    pub calls: u64,
    /// Sum of its times.
    pub total_ns: i64,
    /// Mean of a step.
    pub per_step_ns: i64,
    /// Share of GPU time, in percent.
    pub share_pct: f64,
    /// Distance from its limit, in percent of it.
    pub limit_pct: Option<f64>,
}

/// A host stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackRow {
    /// Outermost function first.
    pub frames: Vec<String>,
    /// GPU time launched with it.
    pub gpu_ns: i64,
}

/// A host function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// Function.
    pub name: String,
    /// Class of the critical path.
    pub class: String,
    /// Rank.
    pub rank: u32,
    /// Time on the path.
    pub path_ns: i64,
    /// Mean of a step.
    pub per_step_ns: i64,
}

/// GPU memory at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPoint {
    /// Rank.
    pub rank: u32,
    /// Time.
    pub at_ns: i64,
    /// Allocated bytes.
    pub allocated_bytes: u64,
    /// Reserved bytes.
    pub reserved_bytes: Option<u64>,
}

/// Block I/O beside the steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Storage {
    /// How the clocks were joined, and within what.
    pub clock: String,
    /// Uncertainty of the common clock.
    pub clock_within_ns: i64,
    /// Bytes read during each step.
    pub bytes_per_step: Vec<StepBytes>,
    /// Bytes read for each generated token.
    pub bytes_per_token: Option<f64>,
    /// Time of the steps in which the GPU idled while reads were in flight.
    pub idle_while_reading_ns: i64,
    /// Longest request.
    pub longest_ns: i64,
}

/// Reads during a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepBytes {
    /// Rank.
    pub rank: u32,
    /// Step.
    pub step: u32,
    /// Bytes read.
    pub bytes: u64,
    /// GPU idle while reads were in flight.
    pub idle_ns: i64,
}

/// A log of a GPU or an engine beside the steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BesideLog {
    /// Path as given or found.
    pub name: String,
    /// `gpu_log` or `engine_log`.
    pub role: Role,
    /// How its clock was joined.
    pub clock: String,
    /// Uncertainty of its times.
    pub clock_within_ns: i64,
    /// Readings around the steps, by time.
    pub readings: Vec<Reading>,
    /// Readings that did not fit.
    pub left_out: u64,
    /// Use of the GPU by the log, over the readings that are wholly of recorded time, in percent.
    pub utilisation_pct: Option<f64>,
    /// Use of the GPU in the recording over the same time.
    pub recorded_busy_pct: Option<f64>,
    /// Requests that were preempted during the steps.
    pub preempted: Option<u64>,
}

/// A reading of a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Time.
    pub at_ns: i64,
    /// Use of the GPU, in percent.
    pub utilisation_pct: Option<f64>,
    /// Requests that run.
    pub running: Option<f64>,
    /// Requests that wait.
    pub waiting: Option<f64>,
    /// Used part of the KV cache, in percent.
    pub cache_pct: Option<f64>,
    /// Generated tokens per second.
    pub tokens_per_s: Option<f64>,
}

/// What the result was made with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Appendix {
    /// Version of the tool.
    pub version: String,
    /// Command line.
    pub command: String,
    /// Rules that were applied, with their definition.
    pub rules: Vec<Note>,
    /// Definitions of the words of strength.
    pub confidence: Vec<Note>,
}
