//! Classes of time on a path, and the evidence for dependencies.

use serde::Serialize;
use trace_model::kernel::KernelClass;

/// Class of a stretch of a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Class {
    /// A computing kernel.
    Kernel(KernelClass),
    /// A memcpy from host to device.
    MemcpyH2d,
    /// A memcpy from device to host.
    MemcpyD2h,
    /// Any other memcpy.
    MemcpyD2d,
    /// A memset.
    Memset,
    /// A collective: its transfer, and on a single rank also its wait time.
    Comm,
    /// Time from the end of the work ahead to the start of work that was queued behind it.
    Queue,
    /// A launch API call that waits until the launch queue has room.
    QueueFull,
    /// Time from a launch API call to the start of its work on an idle stream.
    LaunchLatency,
    /// A runtime API call that submits work.
    LaunchCall,
    /// Host code between the launches of a run.
    Dispatch,
    /// Any other runtime API call.
    Api,
    /// A Python function.
    HostPython,
    /// An operator.
    HostOp,
    /// Any other slice of a host thread.
    HostOther,
    /// Time of a host thread outside of any slice.
    HostUntraced,
    /// Profiler overhead.
    Profiler,
    /// Time from the end of work to the end of the call that waited for it, and calls that wait for
    /// no known work.
    Sync,
    /// Waiting for requests.
    Requests,
    /// Any other blocking primitive.
    Blocked,
    /// Loading data.
    Input,
    /// Handover from one host thread to another.
    Handoff,
    /// Time that no recorded dependency explains.
    Unexplained,
    /// Time before the first recorded dependency.
    Outside,
}

impl Class {
    /// Returns the stable machine name: `kernel.gemm`, `launch_call`.
    pub fn name(self) -> String {
        let name = match self {
            Self::Kernel(class) => return format!("kernel.{}", class.name()),
            Self::MemcpyH2d => "memcpy_h2d",
            Self::MemcpyD2h => "memcpy_d2h",
            Self::MemcpyD2d => "memcpy_d2d",
            Self::Memset => "memset",
            Self::Comm => "comm",
            Self::Queue => "queue",
            Self::QueueFull => "queue_full",
            Self::LaunchLatency => "launch_latency",
            Self::LaunchCall => "launch_call",
            Self::Dispatch => "dispatch",
            Self::Api => "api",
            Self::HostPython => "host_python",
            Self::HostOp => "host_op",
            Self::HostOther => "host_other",
            Self::HostUntraced => "host_untraced",
            Self::Profiler => "profiler",
            Self::Sync => "sync",
            Self::Requests => "requests",
            Self::Blocked => "blocked",
            Self::Input => "input",
            Self::Handoff => "handoff",
            Self::Unexplained => "unexplained",
            Self::Outside => "outside",
        };
        name.to_owned()
    }

    /// Returns `true` for memcpys.
    pub(crate) fn is_copy(self) -> bool {
        matches!(self, Self::MemcpyH2d | Self::MemcpyD2h | Self::MemcpyD2d)
    }

    /// Returns the group of the class.
    pub fn group(self) -> Group {
        match self {
            Self::Kernel(_) | Self::MemcpyD2d | Self::Memset | Self::Queue | Self::QueueFull => {
                Group::Gpu
            }
            Self::Comm => Group::Comm,
            Self::LaunchCall | Self::LaunchLatency | Self::Dispatch => Group::Launch,
            Self::Sync | Self::MemcpyD2h => Group::Sync,
            Self::Requests | Self::Blocked => Group::Wait,
            Self::Input | Self::MemcpyH2d => Group::Input,
            Self::Unexplained | Self::Outside => Group::Unknown,
            Self::Api
            | Self::HostPython
            | Self::HostOp
            | Self::HostOther
            | Self::HostUntraced
            | Self::Profiler
            | Self::Handoff => Group::Host,
        }
    }
}

impl Serialize for Class {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

/// Groups of classes, chosen by what an engineer can act on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Kernels, memcpys within the device, memsets, and gaps between queued work.
    Gpu,
    /// Collectives.
    Comm,
    /// Launch API calls, launch latency, and host code between the launches of a run.
    Launch,
    /// Host code, runtime API calls that launch nothing, profiler overhead.
    Host,
    /// Synchronization and memcpys to the host.
    Sync,
    /// Waiting for requests or locks.
    Wait,
    /// Data loading and memcpys to the device.
    Input,
    /// Time that is unexplained or lies outside of the recording.
    Unknown,
}

impl Group {
    /// All groups, in a fixed order.
    pub const ALL: [Self; 8] = [
        Self::Gpu,
        Self::Comm,
        Self::Launch,
        Self::Host,
        Self::Sync,
        Self::Wait,
        Self::Input,
        Self::Unknown,
    ];

    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Comm => "comm",
            Self::Launch => "launch",
            Self::Host => "host",
            Self::Sync => "sync",
            Self::Wait => "wait",
            Self::Input => "input",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the name as a text uses it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Gpu => "GPU work",
            Self::Comm => "communication",
            Self::Launch => "launches",
            Self::Host => "host code",
            Self::Sync => "synchronisation",
            Self::Wait => "waiting for requests or other threads",
            Self::Input => "input",
            Self::Unknown => "unexplained time",
        }
    }

    /// Returns the verdict for a path on which this group is the largest.
    pub fn verdict(self) -> &'static str {
        match self {
            Self::Gpu => "gpu-bound",
            Self::Comm => "communication-bound",
            Self::Launch => "launch-bound",
            Self::Host => "host-bound",
            Self::Sync => "sync-bound",
            Self::Wait => "wait-bound",
            Self::Input => "input-bound",
            Self::Unknown => "unknown",
        }
    }
}

/// The resource that limits the kernels of a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Arithmetic.
    Compute,
    /// Memory bandwidth.
    Memory,
    /// Neither arithmetic nor memory bandwidth limits more than half of the time.
    Mixed,
}

impl Limit {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Mixed => "mixed",
        }
    }
}

/// Evidence for a dependency.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Recorded, or implied by how devices and threads work.
    Sure,
    /// Inferred by a documented rule.
    Guess,
    /// Inferred only because the times fit.
    Timing,
}

impl Evidence {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sure => "sure",
            Self::Guess => "guess",
            Self::Timing => "timing",
        }
    }
}

/// Kind of a dependency. Of equal arrivals the kind that comes first here is preferred.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum EdgeKind {
    /// From the start to the end of a GPU activity.
    Work,
    /// From the joint arrival of a collective to its end on one rank.
    Transfer,
    /// From start to start of overlapping GPU activities of a stream.
    Overlap,
    /// From the end of a GPU activity to the start of one that waits for its event.
    Event,
    /// From the issue of work to its start.
    Launch,
    /// From the end of a GPU activity to the start of the next one on its stream.
    Stream,
    /// From the start of a collective on one rank to the joint arrival.
    Arrive,
    /// From the end of work to the end of the call that waited for it.
    Sync,
    /// From the end of work to the end of a quiet stretch that polled for it.
    Spin,
    /// From the start of earlier work to the end of a launch API call that waited for room in the
    /// queue.
    QueueFull,
    /// From one host thread to another.
    Handoff,
    /// Within a call.
    Issue,
    /// Within a call that waited; costs no time of its own.
    Call,
    /// From the begin of a wait to the arrival of external input.
    Input,
    /// Along a host thread between calls.
    Host,
}

impl EdgeKind {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Transfer => "transfer",
            Self::Overlap => "overlap",
            Self::Event => "event",
            Self::Launch => "launch",
            Self::Stream => "stream",
            Self::Arrive => "arrive",
            Self::Sync => "sync",
            Self::Spin => "spin",
            Self::QueueFull => "queue_full",
            Self::Handoff => "handoff",
            Self::Issue => "issue",
            Self::Call => "call",
            Self::Input => "input",
            Self::Host => "host",
        }
    }

    /// Returns `true` for latencies after which GPU work starts.
    pub(crate) fn delays_start(self) -> bool {
        matches!(self, Self::Launch | Self::Stream | Self::Event)
    }

    /// Returns the latency that the dependency costs; `None` if its cost is the recorded time.
    pub(crate) fn lag(self) -> Option<Lag> {
        match self {
            Self::Launch => Some(Lag::Launch),
            Self::Stream => Some(Lag::Stream),
            Self::Event => Some(Lag::Event),
            Self::Sync => Some(Lag::Sync),
            Self::Spin => Some(Lag::Spin),
            Self::QueueFull => Some(Lag::QueueFull),
            _ => None,
        }
    }
}

/// A kind of latency, estimated from samples in the trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Lag {
    /// From issue to start on an idle stream.
    Launch,
    /// Between queued kernels of a stream.
    Stream,
    /// Between kernels of one graph launch.
    Graph,
    /// From a queued GPU activity to a memcpy or memset behind it.
    Copy,
    /// From a memcpy or memset to a kernel behind it.
    AfterCopy,
    /// From an event to the work that waited for it.
    Event,
    /// From the end of work to the end of the call that waited.
    Sync,
    /// From the end of work to the end of polling for it.
    Spin,
    /// From the start of work to the end of a launch API call that waited for room.
    QueueFull,
}

impl Lag {
    /// All latencies, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Launch,
        Self::Stream,
        Self::Graph,
        Self::Copy,
        Self::AfterCopy,
        Self::Event,
        Self::Sync,
        Self::Spin,
        Self::QueueFull,
    ];

    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Stream => "stream",
            Self::Graph => "graph",
            Self::Copy => "copy",
            Self::AfterCopy => "after_copy",
            Self::Event => "event",
            Self::Sync => "sync",
            Self::Spin => "spin",
            Self::QueueFull => "queue_full",
        }
    }
}
