//! Summary of a trace's contents and data quality.

mod collect;
mod health;
mod links;

use report::SchemaVersion;
use serde::Serialize;

pub use collect::summarise;

/// Version of [`Summary`] as JSON.
pub const SUMMARY_VERSION: SchemaVersion = SchemaVersion::new(1, 1);

/// Contents and data quality of a trace. Created by [`summarise`].
///
/// All times are integer nanoseconds of the trace's own clock; lists are ordered by number of rows,
/// descending, then by name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Version of this schema, [`SUMMARY_VERSION`].
    pub schema_version: SchemaVersion,
    /// `true` if the trace is complete: nothing is lost, truncated, dropped or unlinked.
    pub healthy: bool,
    /// Reasons why it is not complete; empty if it is.
    pub reasons: Vec<Finding>,
    /// Remarks without effect on `healthy`.
    pub remarks: Vec<Finding>,
    /// Properties stated in the file.
    pub file: FileFacts,
    /// Row counts.
    pub rows: RowCounts,
    /// Missing or changed data.
    pub losses: Losses,
    /// Links from kernels to their launch API calls.
    pub kernels: KernelLinks,
    /// Times at which host and device were active within the span.
    pub edges: Vec<Edge>,
    /// Slices by category; null for those without one.
    pub categories: Vec<NameCount>,
    /// Slices by activity: kernels, launches, operators and so on.
    pub activities: Vec<NameCount>,
    /// Slices and counter samples by kind of track.
    pub track_kinds: Vec<TrackKindCount>,
    /// Processes with rows or a name.
    pub processes: Vec<ProcessCount>,
    /// Threads and GPU streams with slices or a name.
    pub threads: Vec<ThreadCount>,
    /// Issues of the input, with their first places.
    pub issues: Vec<IssueCount>,
}

/// A finding about a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Stable machine name.
    pub code: &'static str,
    /// Number of occurrences.
    pub count: u64,
    /// Description.
    pub text: String,
}

/// Properties stated in the file.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct FileFacts {
    /// Name of the source; empty if the caller gave none.
    pub name: String,
    /// `chrome-json`, `perfetto` or another format's name.
    pub format: String,
    /// Size after decompression.
    pub uncompressed_bytes: u64,
    /// First start.
    pub start_ns: i64,
    /// Last end.
    pub end_ns: i64,
    /// Difference of `end_ns` and `start_ns`.
    pub span_ns: i64,
    /// Clock of the times.
    pub clock: String,
    /// Offset from a time to Unix time in nanoseconds; 0 if the file does not state it.
    pub base_time_ns: i64,
    /// Rank of the recorded process in its job.
    pub rank: Option<u32>,
    /// Number of processes in the job.
    pub world_size: Option<u32>,
    /// Communication backend of the job.
    pub backend: Option<String>,
    /// Process groups of the job.
    pub groups: Vec<GroupFacts>,
    /// Recorder of the file: versions and settings, as the file states them.
    pub producer: Vec<KeyText>,
    /// Records of the file by kind, for example packets by field.
    pub records: Vec<NameCount>,
}

/// A process group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct GroupFacts {
    /// Name.
    pub name: String,
    /// Purpose of the group.
    pub description: String,
    /// Communication backend.
    pub backend: String,
    /// Number of members, if known.
    pub size: Option<u32>,
    /// Members that the file lists.
    pub ranks: Vec<u32>,
}

/// One entry of the file's metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KeyText {
    /// Key.
    pub key: String,
    /// Its text.
    pub text: String,
}

/// Row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct RowCounts {
    /// Slices, including instants.
    pub slices: u64,
    /// Slices without duration.
    pub instants: u64,
    /// Flows (arrows).
    pub flows: u64,
    /// Samples of counters.
    pub counter_samples: u64,
    /// Tracks, including overflow tracks.
    pub tracks: u64,
    /// Processes.
    pub processes: u64,
    /// Threads and GPU streams.
    pub threads: u64,
    /// Distinct names of slices.
    pub names: u64,
    /// Maximum nesting depth; a top-level slice has 1.
    pub deepest: u64,
}

/// Missing or changed data, as counts of events or slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Losses {
    /// Events of the file that are not in the trace because they are unusable.
    pub dropped: u64,
    /// Places where the recorder or the file lost data.
    pub lost: u64,
    /// Slices that were truncated at the end of their parent.
    pub clipped: u64,
    /// Slices that were never closed.
    pub unclosed: u64,
    /// Slices that partially overlap another one of their track and are on an overflow track.
    pub overlapping: u64,
    /// Kernels whose launch is not in the trace.
    pub unlinked_kernels: u64,
    /// Flows without a start or without a slice to bind to.
    pub unlinked_flows: u64,
}

/// Links from kernels to their launch API calls. A kernel may be linked in several ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct KernelLinks {
    /// Kernels (without memcpy and memset).
    pub kernels: u64,
    /// Kernels at which a flow ends.
    pub by_flow: u64,
    /// Kernels whose correlation id is that of a launch API call.
    pub by_correlation: u64,
    /// Kernels whose launch API call is a graph launch.
    pub under_graph_launch: u64,
    /// Kernels without any such link.
    pub unlinked: u64,
    /// Graph launches that launched at least one of the kernels.
    pub graph_launches: u64,
    /// API calls that launch kernels or graphs.
    pub launches: u64,
}

/// Times at which one side was active within the span of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Edge {
    /// `host` (operators, runtime calls, Python) or `device` (kernels, memcpy, memset).
    pub side: &'static str,
    /// Slices of that side.
    pub slices: u64,
    /// First start.
    pub first_ns: i64,
    /// Last end.
    pub last_ns: i64,
    /// Time from the start of the trace to the first start.
    pub gap_begin_ns: i64,
    /// Time from the last end to the end of the trace.
    pub gap_end_ns: i64,
}

/// Number of rows per name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NameCount {
    /// The name; null for rows without one.
    pub name: Option<String>,
    /// Number of rows.
    pub count: u64,
}

/// Number of rows per kind of track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TrackKindCount {
    /// Kind by Perfetto's name.
    pub kind: &'static str,
    /// Tracks of that kind.
    pub tracks: u64,
    /// Slices, or samples for counters.
    pub rows: u64,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProcessCount {
    /// Number; null if the file has a text instead.
    pub pid: Option<i64>,
    /// Name.
    pub name: Option<String>,
    /// Label, for example `GPU 0`.
    pub labels: Option<String>,
    /// Number of its threads.
    pub threads: u64,
    /// Number of its slices.
    pub slices: u64,
    /// Number of samples of its counters.
    pub counter_samples: u64,
}

/// A thread or GPU stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ThreadCount {
    /// Number of its process; null if it has none or the file has a text instead.
    pub pid: Option<i64>,
    /// Number; null if the file has a text instead.
    pub tid: Option<i64>,
    /// Name.
    pub name: Option<String>,
    /// Name of its process.
    pub process_name: Option<String>,
    /// Number of its slices.
    pub slices: u64,
}

/// A kind of issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IssueCount {
    /// Stable machine name.
    pub name: &'static str,
    /// `info`, `data_loss` or `error`.
    pub severity: &'static str,
    /// Number of occurrences.
    pub count: u64,
    /// Meaning of the issue.
    pub text: &'static str,
    /// A detail of the first occurrence.
    pub detail: Option<String>,
    /// First places.
    pub places: Vec<PlaceFacts>,
}

/// A place in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PlaceFacts {
    /// Byte offset in the uncompressed input.
    Byte(u64),
    /// Row of a table, from 1.
    Row(u64),
    /// Time of the event, if its byte offset is no longer known.
    AtNs(i64),
}
