//! What is kept of the recording of one rank.

mod collectives;
mod file;
mod make;
mod steps;

use std::collections::BTreeMap;

use gpu_time::comm::RankTime;
use serde::{Deserialize, Serialize};

use crate::sketch::Sketch;
pub(crate) use collectives::digest as collectives_digest;
pub use collectives::{Collectives, StatedGroup};
pub use file::{FileError, read, write, write_within};
pub(crate) use make::rank_in_name;
pub use make::{arg_keys, summarise};
pub use steps::{StepTime, Steps};

/// Version of summaries. A summary of another one is made again.
pub const VERSION: &str = "fleet-1.2";

/// Maximum size of a summary as a file. Steps and collectives are thinned until it fits.
pub const MAX_BYTES: usize = 100_000;

/// Summary of the recording of one rank. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankSummary {
    /// [`VERSION`].
    pub version: String,
    /// Path of the recording as given.
    pub file: String,
    /// The rank, as far as the recording and its name state it.
    pub rank: u32,
    /// Source of the rank: `file`, `arguments`, `file_name`, `place`.
    pub rank_source: String,
    /// Number of ranks of the job, if the recording states it.
    pub world_size: Option<u32>,
    /// Name of the machine, if the recording states it.
    pub host: Option<String>,
    /// Devices with GPU activity, ascending.
    pub devices: Vec<i64>,
    /// `true` if several recordings of one export have one clock.
    pub is_nsys: bool,
    /// Offset from the times of the recording to nanoseconds since 1970.
    pub base_time_ns: i64,
    /// First and last time of GPU activity, on the clock of the recording.
    pub gpu_span_ns: Option<(i64, i64)>,
    /// Data quality.
    pub quality: Quality,
    /// Time of the GPU.
    pub time: GpuTime,
    /// How steps were found: `annotation`, `cycle`, `gpu_burst` or `whole`.
    pub steps_by: String,
    /// Budget by phase, over all steps.
    pub phases: Vec<PhaseTime>,
    /// Steps with their budgets.
    pub steps: Steps,
    /// GPU activity by class.
    pub classes: Vec<KernelTime>,
    /// The kernels, memcpys and memsets with most time, by name and shape.
    pub kernels: Vec<KernelTime>,
    /// Number of further kernels, which are not listed.
    pub kernels_left_out: u64,
    /// Process groups of several ranks that the recording states the rank to be in.
    pub groups: Vec<StatedGroup>,
    /// The collectives.
    pub collectives: Collectives,
}

/// Data quality of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quality {
    /// Bytes after decompression.
    pub bytes: u64,
    /// Slices.
    pub slices: u64,
    /// Kernels.
    pub kernels: u64,
    /// Kernels whose launch is not recorded.
    pub unlinked_kernels: u64,
    /// Events that are unusable.
    pub dropped: u64,
    /// Places where the recorder or the file lost data.
    pub lost: u64,
    /// Slices that end with their parent.
    pub clipped: u64,
    /// Slices that were never closed.
    pub unclosed: u64,
    /// `true` if the recording is complete.
    pub complete: bool,
    /// Why it is not, at most three sentences.
    pub reasons: Vec<String>,
}

/// Time of the GPU of a rank; see [`RankTime`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuTime {
    /// Time in which communication ran.
    pub comm_ns: i64,
    /// Part of it without computation.
    pub exposed_ns: i64,
    /// Time in which computation ran.
    pub computation_ns: i64,
    /// Time in which anything ran.
    pub busy_ns: i64,
    /// Time from the first start to the last end of GPU activity.
    pub span_ns: i64,
}

impl From<RankTime> for GpuTime {
    fn from(time: RankTime) -> Self {
        Self {
            comm_ns: time.comm_ns,
            exposed_ns: time.exposed_ns,
            computation_ns: time.computation_ns,
            busy_ns: time.busy_ns,
            span_ns: time.span_ns,
        }
    }
}

/// The steps of one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// `prefill`, `decode`, `mixed`, or `other` for steps whose name states none.
    pub phase: String,
    /// Step times.
    pub steps: Sketch,
    /// Time on the critical path by group; adds up to the time of the steps.
    pub groups: BTreeMap<String, i64>,
}

/// GPU activity of one class, or of one name and shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelTime {
    /// Name; that of the class for classes.
    pub name: String,
    /// Shapes of the inputs of the operator around the launch, if recorded.
    pub shape: Option<String>,
    /// Class.
    pub class: String,
    /// Durations.
    pub durations: Sketch,
}
