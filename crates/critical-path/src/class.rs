//! What the time on a path was spent on, and how a dependency is known.

use serde::Serialize;
use trace_model::kernel::KernelClass;

/// What a stretch of a path was spent on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Class {
    /// A kernel that computes.
    Kernel(KernelClass),
    /// A copy from host to device.
    MemcpyH2d,
    /// A copy from device to host.
    MemcpyD2h,
    /// Any other copy.
    MemcpyD2d,
    /// A fill.
    Memset,
    /// A collective: the transfer, and on a single rank the waiting in it.
    Comm,
    /// From the end of the work ahead to the begin of work that waited for it.
    Queue,
    /// A launch call that waits until the launch queue has room.
    QueueFull,
    /// From a launch call to the begin of its work on an idle stream.
    LaunchLatency,
    /// A call that submits work.
    LaunchCall,
    /// Host code between the launches of one run.
    Dispatch,
    /// Any other runtime call.
    Api,
    /// A Python function.
    HostPython,
    /// An operator.
    HostOp,
    /// Any other slice of a host thread.
    HostOther,
    /// A host thread outside of any slice.
    HostUntraced,
    /// The profiler.
    Profiler,
    /// From the end of work to the end of the call that waited for it, and calls that wait without known work.
    Sync,
    /// Waiting for requests.
    Requests,
    /// Any other blocking primitive.
    Blocked,
    /// Loading data.
    Input,
    /// From one host thread to another.
    Handoff,
    /// Time that no recorded dependency explains.
    Unexplained,
    /// Time before the first recorded dependency.
    Outside,
}

impl Class {
    /// Stable machine name: `kernel.gemm`, `launch_call`.
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

    /// Is it a copy?
    pub(crate) fn is_copy(self) -> bool {
        matches!(self, Self::MemcpyH2d | Self::MemcpyD2h | Self::MemcpyD2d)
    }

    /// The group that it counts in.
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

/// The classes of a path, summed up to what an engineer can act on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Kernels, copies within the device, fills, and the gaps between queued work.
    Gpu,
    /// Collectives.
    Comm,
    /// Launch calls, launch latency, and host code between the launches of a run.
    Launch,
    /// Host code, runtime calls that launch nothing, the profiler.
    Host,
    /// Synchronisation and copies to the host.
    Sync,
    /// Waiting for requests or locks.
    Wait,
    /// Loading data and copying it to the device.
    Input,
    /// What is not explained, or lies outside of the recording.
    Unknown,
}

impl Group {
    /// All groups.
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

    /// Stable machine name.
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

    /// The verdict if this group is the largest.
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

/// What limits the kernels of a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Arithmetic.
    Compute,
    /// Memory bandwidth.
    Memory,
    /// Neither for more than half of the time.
    Mixed,
}

impl Limit {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Mixed => "mixed",
        }
    }
}

/// How a dependency is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Recorded, or how devices and threads work.
    Sure,
    /// By a rule that is stated.
    Guess,
    /// Only because the times fit.
    Timing,
}

impl Evidence {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sure => "sure",
            Self::Guess => "guess",
            Self::Timing => "timing",
        }
    }
}

/// A kind of dependency, in the order in which equal arrivals are preferred.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum EdgeKind {
    /// Begin to end of an operation.
    Work,
    /// From the joint arrival of a collective to its end on one rank.
    Transfer,
    /// Begin to begin of operations of a stream that overlap.
    Overlap,
    /// End of an operation to the begin of one that waits for its event.
    Event,
    /// Issue to the begin of the work.
    Launch,
    /// End to begin on one stream.
    Stream,
    /// Begin of a collective on one rank to the joint arrival.
    Arrive,
    /// End of work to the end of the call that waited for it.
    Sync,
    /// End of work to the end of a quiet stretch that polled for it.
    Spin,
    /// Begin of earlier work to the end of a launch call that waited for room.
    QueueFull,
    /// From one thread to another.
    Handoff,
    /// Within a call.
    Issue,
    /// Within a call that waited, and takes no time of its own.
    Call,
    /// From the begin of a wait to the arrival of what comes from outside.
    Input,
    /// Along a thread between calls.
    Host,
}

impl EdgeKind {
    /// Stable machine name.
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

    /// The latency that it costs; `None` where the cost is recorded.
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

/// A latency of which a trace has samples.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Lag {
    /// Issue to begin on an idle stream.
    Launch,
    /// Between queued kernels of a stream.
    Stream,
    /// Between kernels of one graph launch.
    Graph,
    /// From a queued operation of a stream to a copy or fill behind it.
    Copy,
    /// From a copy or fill to a kernel behind it.
    AfterCopy,
    /// From an event to what waited for it.
    Event,
    /// From the end of work to the end of the call that waited.
    Sync,
    /// From the end of work to the end of polling for it.
    Spin,
    /// From the begin of work to the end of a launch call that waited for room.
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

    /// Stable machine name.
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
