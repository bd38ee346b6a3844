//! What records say.

use crate::info::{Agent, Channel, Pmc, Process, Symbol, Thread};

/// What the event row of a record says.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Event<'a> {
    /// Id of the event row.
    pub id: i64,
    /// Category, for example `HIP_RUNTIME_API_EXT`.
    pub category: Option<&'a str>,
    /// Internal correlation id of the API call that the record belongs to.
    pub stack_id: Option<i64>,
    /// Internal correlation id of the enclosing API call; 0 for none.
    pub parent_stack_id: Option<i64>,
    /// External correlation id; 0 for none.
    pub correlation_id: Option<i64>,
}

/// The JSON texts of an event row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventTexts {
    /// Further data; of markers `{"message": "..."}`.
    pub extdata: Option<String>,
    /// Host call stack.
    pub call_stack: Option<String>,
    /// Where in the source.
    pub line_info: Option<String>,
}

/// A kernel's run on a GPU.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Dispatch<'a> {
    /// Its process.
    pub process: &'a Process,
    /// Row id.
    pub id: i64,
    /// Id of its node.
    pub nid: Option<i64>,
    /// The thread that launched it.
    pub thread: Option<&'a Thread>,
    /// Where it ran.
    pub agent: Option<&'a Agent>,
    /// The kernel.
    pub symbol: Option<&'a Symbol>,
    /// Id of the kernel.
    pub kernel_id: Option<i64>,
    /// Number of the dispatch.
    pub dispatch_id: Option<i64>,
    /// Id of the queue.
    pub queue_id: Option<i64>,
    /// The queue.
    pub queue: Option<&'a Channel>,
    /// Id of the stream.
    pub stream_id: Option<i64>,
    /// The stream.
    pub stream: Option<&'a Channel>,
    /// Begin, ns.
    pub start_ns: i64,
    /// End, ns.
    pub end_ns: i64,
    /// Scratch memory, bytes.
    pub scratch_bytes: Option<i64>,
    /// LDS, bytes.
    pub lds_bytes: Option<i64>,
    /// Work-items of a group in x, y, z.
    pub workgroup: [Option<i64>; 3],
    /// Work-items altogether in x, y, z.
    pub grid: [Option<i64>; 3],
    /// Name of the region (ROCTx) it was launched in.
    pub region: Option<&'a str>,
    /// Its event row.
    pub event: Option<Event<'a>>,
    /// The graph it was launched by, since schema 3.0.2.
    pub graph_exec_id: Option<i64>,
    /// The node of that graph, since schema 3.0.2.
    pub graph_node_id: Option<i64>,
    /// Number of the replay, since schema 3.0.5.
    pub replay_pass: Option<i64>,
    /// Whether nothing that its view joins is missing.
    pub(crate) complete: bool,
}

/// A copy of memory.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Copy<'a> {
    /// Its process.
    pub process: &'a Process,
    /// Row id.
    pub id: i64,
    /// Id of its node.
    pub nid: Option<i64>,
    /// The thread that asked for it.
    pub thread: Option<&'a Thread>,
    /// Begin, ns.
    pub start_ns: i64,
    /// End, ns.
    pub end_ns: i64,
    /// Direction, for example `MEMORY_COPY_HOST_TO_DEVICE`.
    pub name: Option<&'a str>,
    /// To where.
    pub dst_agent: Option<&'a Agent>,
    /// Address there.
    pub dst_address: Option<i64>,
    /// From where.
    pub src_agent: Option<&'a Agent>,
    /// Address there.
    pub src_address: Option<i64>,
    /// Bytes.
    pub size_bytes: i64,
    /// Id of the queue.
    pub queue_id: Option<i64>,
    /// The queue.
    pub queue: Option<&'a Channel>,
    /// Id of the stream.
    pub stream_id: Option<i64>,
    /// The stream.
    pub stream: Option<&'a Channel>,
    /// Name of the region (ROCTx) it was asked for in.
    pub region: Option<&'a str>,
    /// Its event row.
    pub event: Option<Event<'a>>,
    /// The graph it was launched by, since schema 3.0.2.
    pub graph_exec_id: Option<i64>,
    /// The node of that graph, since schema 3.0.2.
    pub graph_node_id: Option<i64>,
    /// Whether nothing that its view joins is missing.
    pub(crate) complete: bool,
}

/// What was done to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AllocType {
    /// Memory was given out.
    Alloc,
    /// Memory was given back.
    Free,
    /// Memory was given out anew.
    Realloc,
    /// Memory was taken back.
    Reclaim,
    /// The column is NULL or has another text.
    Unknown,
}

impl AllocType {
    /// The text of the column; empty if unknown.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Alloc => "ALLOC",
            Self::Free => "FREE",
            Self::Realloc => "REALLOC",
            Self::Reclaim => "RECLAIM",
            Self::Unknown => "",
        }
    }
}

/// What kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AllocLevel {
    /// Device memory.
    Real,
    /// Addresses without memory.
    Virtual,
    /// Memory that kernels spill to.
    Scratch,
    /// The column is NULL or has another text.
    Unknown,
}

impl AllocLevel {
    /// The text of the column; empty if unknown.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Real => "REAL",
            Self::Virtual => "VIRTUAL",
            Self::Scratch => "SCRATCH",
            Self::Unknown => "",
        }
    }
}

/// Memory given out or back.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Allocation<'a> {
    /// Its process.
    pub process: &'a Process,
    /// Row id.
    pub id: i64,
    /// Id of its node.
    pub nid: Option<i64>,
    /// The thread that asked for it.
    pub thread: Option<&'a Thread>,
    /// Where the memory is; nothing for frees.
    pub agent: Option<&'a Agent>,
    /// What was done.
    pub kind: AllocType,
    /// What kind of memory.
    pub level: AllocLevel,
    /// Begin, ns.
    pub start_ns: i64,
    /// End, ns.
    pub end_ns: i64,
    /// Address; 0 for scratch.
    pub address: Option<i64>,
    /// Bytes.
    pub size_bytes: i64,
    /// Id of the queue.
    pub queue_id: Option<i64>,
    /// The queue.
    pub queue: Option<&'a Channel>,
    /// Id of the stream.
    pub stream_id: Option<i64>,
    /// The stream.
    pub stream: Option<&'a Channel>,
    /// Flags of scratch memory.
    pub flags: Option<Box<str>>,
    /// Its event row.
    pub event: Option<Event<'a>>,
    /// Whether nothing that its view joins is missing.
    pub(crate) complete: bool,
}

/// A call on the host: an API function, a range, a step.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Region<'a> {
    /// Its process.
    pub process: &'a Process,
    /// Row id.
    pub id: i64,
    /// Id of its node.
    pub nid: Option<i64>,
    /// Its thread.
    pub thread: Option<&'a Thread>,
    /// Begin, ns.
    pub start_ns: i64,
    /// End, ns.
    pub end_ns: i64,
    /// Name.
    pub name: Option<&'a str>,
    /// Its event row.
    pub event: Option<Event<'a>>,
    /// The message of a marker.
    pub message: Option<Box<str>>,
    /// The texts of the event row, when the filter asks for them.
    pub texts: Option<Box<EventTexts>>,
    /// Whether nothing that its view joins is missing.
    pub(crate) complete: bool,
}

/// A point in time on the host: a mark, or a sample.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sample<'a> {
    /// Its process.
    pub process: &'a Process,
    /// Row id.
    pub id: i64,
    /// Id of its node.
    pub nid: Option<i64>,
    /// Its thread.
    pub thread: Option<&'a Thread>,
    /// When, ns.
    pub timestamp_ns: i64,
    /// Name of its track.
    pub name: Option<&'a str>,
    /// Its event row.
    pub event: Option<Event<'a>>,
    /// The message of a marker.
    pub message: Option<Box<str>>,
    /// The texts of the event row, when the filter asks for them.
    pub texts: Option<Box<EventTexts>>,
    /// Whether nothing that its view joins is missing.
    pub(crate) complete: bool,
}

/// A value of a hardware counter.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PmcEvent<'a> {
    /// Number of the partition in the set.
    pub partition: usize,
    /// Row id.
    pub id: i64,
    /// The event it belongs to: that of a dispatch, or of a sample.
    pub event_id: Option<i64>,
    /// The counter.
    pub pmc: Option<&'a Pmc>,
    /// Id of the counter.
    pub pmc_id: i64,
    /// The value of one instance; none where it is NULL, which adds nothing.
    pub value: Option<f64>,
    /// The sample it belongs to, since schema 3.0.3.
    pub sample_id: Option<i64>,
}

/// An argument of a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Arg {
    /// Number of the partition in the set.
    pub partition: usize,
    /// Row id.
    pub id: i64,
    /// The event it belongs to.
    pub event_id: i64,
    /// Place among the arguments.
    pub position: i64,
    /// Type in C.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Value as text.
    pub value: Option<String>,
}
