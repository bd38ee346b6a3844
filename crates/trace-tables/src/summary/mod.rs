//! What is in a trace, and how far it can be trusted.

mod collect;
mod health;
mod links;

use report::SchemaVersion;
use serde::Serialize;

pub use collect::summarise;

/// Version of [`Summary`] as JSON.
pub const SUMMARY_VERSION: SchemaVersion = SchemaVersion::new(1, 1);

/// What is in a trace, and how far it can be trusted. Made by [`summarise`].
///
/// All times are integer nanoseconds of the trace's own clock; lists are ordered by number of rows, descending, then by
/// name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Version of this shape, [`SUMMARY_VERSION`].
    pub schema_version: SchemaVersion,
    /// Is nothing lost, cut, dropped or without its cause?
    pub healthy: bool,
    /// Why it is not healthy; empty if it is.
    pub reasons: Vec<Finding>,
    /// What is worth knowing and no harm.
    pub remarks: Vec<Finding>,
    /// What the file says about itself.
    pub file: FileFacts,
    /// How many rows there are.
    pub rows: RowCounts,
    /// What is missing or was changed.
    pub losses: Losses,
    /// From kernels to the calls that launched them.
    pub kernels: KernelLinks,
    /// When host and device were active within the span.
    pub edges: Vec<Edge>,
    /// Slices by category; null for those without one.
    pub categories: Vec<NameCount>,
    /// Slices by what they are: kernels, launches, operators and so on.
    pub activities: Vec<NameCount>,
    /// Slices and counter samples by kind of track.
    pub track_kinds: Vec<TrackKindCount>,
    /// Processes with rows or a name.
    pub processes: Vec<ProcessCount>,
    /// Threads and GPU streams with slices or a name.
    pub threads: Vec<ThreadCount>,
    /// What was odd about the input, with the first places.
    pub issues: Vec<IssueCount>,
}

/// Something to know about a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// Stable machine name.
    pub code: &'static str,
    /// How often.
    pub count: u64,
    /// In words.
    pub text: String,
}

/// What the file says about itself.
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
    /// From one to the other.
    pub span_ns: i64,
    /// What the times count.
    pub clock: String,
    /// Add to a time to get Unix time; 0 if the file does not say.
    pub base_time_ns: i64,
    /// Rank of the recorded process in its job.
    pub rank: Option<u32>,
    /// Processes in the job.
    pub world_size: Option<u32>,
    /// Communication backend of the job.
    pub backend: Option<String>,
    /// Process groups of the job.
    pub groups: Vec<GroupFacts>,
    /// What recorded the file: versions and settings, as the file has them.
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
    /// What it is for.
    pub description: String,
    /// Communication backend.
    pub backend: String,
    /// Number of members, if known.
    pub size: Option<u32>,
    /// Members, as far as the file lists them.
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

/// How many rows there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct RowCounts {
    /// Slices, instants included.
    pub slices: u64,
    /// Slices without extent.
    pub instants: u64,
    /// Arrows.
    pub flows: u64,
    /// Samples of counters.
    pub counter_samples: u64,
    /// Tracks, overflow tracks included.
    pub tracks: u64,
    /// Processes.
    pub processes: u64,
    /// Threads and GPU streams.
    pub threads: u64,
    /// Different names of slices.
    pub names: u64,
    /// Deepest nesting; a slice within nothing has 1.
    pub deepest: u64,
}

/// What is missing or was changed. Each is a count of events or slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Losses {
    /// Events of the file that are not in the trace because they cannot be used.
    pub dropped: u64,
    /// Places where the recording itself or the file lost something.
    pub lost: u64,
    /// Slices that were cut at the end of the slice around them.
    pub clipped: u64,
    /// Slices that were never closed.
    pub unclosed: u64,
    /// Slices that partially overlap another of their track and are on an overflow track.
    pub overlapping: u64,
    /// Kernels whose launch is not in the trace.
    pub unlinked_kernels: u64,
    /// Arrows that have no start or no slice to bind to.
    pub unlinked_flows: u64,
}

/// From kernels to the calls that launched them. A kernel may be linked in several ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct KernelLinks {
    /// Kernels (copies and fills not included).
    pub kernels: u64,
    /// An arrow arrives at it.
    pub by_flow: u64,
    /// A call carries its correlation id.
    pub by_correlation: u64,
    /// That call launches a graph.
    pub under_graph_launch: u64,
    /// None of these.
    pub unlinked: u64,
    /// Graph launches that launched any of the kernels.
    pub graph_launches: u64,
    /// Calls that launch kernels or graphs.
    pub launches: u64,
}

/// When one side was active within the span of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Edge {
    /// `host` (operators, runtime calls, Python) or `device` (kernels, copies, fills).
    pub side: &'static str,
    /// Slices of that side.
    pub slices: u64,
    /// First start.
    pub first_ns: i64,
    /// Last end.
    pub last_ns: i64,
    /// From the start of the trace to the first start.
    pub gap_begin_ns: i64,
    /// From the last end to the end of the trace.
    pub gap_end_ns: i64,
}

/// How many rows have a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NameCount {
    /// The name; null for rows without one.
    pub name: Option<String>,
    /// Rows.
    pub count: u64,
}

/// How many rows are on tracks of a kind.
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
    /// Number; null if a text stood in its place.
    pub pid: Option<i64>,
    /// Name.
    pub name: Option<String>,
    /// Label, for example `GPU 0`.
    pub labels: Option<String>,
    /// Its threads.
    pub threads: u64,
    /// Its slices.
    pub slices: u64,
    /// Samples of its counters.
    pub counter_samples: u64,
}

/// A thread or GPU stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ThreadCount {
    /// Number of its process; null if it has none or a text stood in its place.
    pub pid: Option<i64>,
    /// Number; null if a text stood in its place.
    pub tid: Option<i64>,
    /// Name.
    pub name: Option<String>,
    /// Name of its process.
    pub process_name: Option<String>,
    /// Its slices.
    pub slices: u64,
}

/// A kind of oddity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IssueCount {
    /// Stable machine name.
    pub name: &'static str,
    /// `info`, `data_loss` or `error`.
    pub severity: &'static str,
    /// How often.
    pub count: u64,
    /// What it means.
    pub text: &'static str,
    /// A detail of the first occurrence.
    pub detail: Option<String>,
    /// Where first.
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
    /// Time of the event, where the byte is not known any more.
    AtNs(i64),
}
