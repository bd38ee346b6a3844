//! Options of reading.

use std::sync::Arc;

use byte_source::Progress;
use trace_model::kernel::KernelRules;
use trace_model::{OverlapPolicy, TimeRange};

/// Selects the arguments to keep. Arguments that are not kept cost almost nothing.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ArgPolicy {
    /// All, lossless.
    #[default]
    All,
    /// None.
    None,
    /// Arguments with these keys, written without prefix (`correlation`).
    Only(Vec<String>),
}

/// Selects the slices of the host to keep.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum HostSlices {
    /// All.
    #[default]
    All,
    /// What says what launched GPU activity: the calls that launched some and the operators around them; and slices whose names
    /// begin like one of these.
    Launching(Vec<&'static str>),
}

/// Options of [`crate::read`]. The default keeps everything and uses all cores.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Reproduces Perfetto's trace processor where this crate's default is better: binary64
    /// microseconds, merging of process and thread numbers, binding of flows. Default is false.
    pub compat: bool,
    /// Default is [`ArgPolicy::All`].
    pub args: ArgPolicy,
    /// Keep only slices of these categories, if given. Default is all.
    pub categories: Option<Vec<String>>,
    /// Keep only events that start in this range. Default is everything.
    pub range: Option<TimeRange>,
    /// A format whose host slices are tables of their own leaves out the others, and counts them; other formats always have
    /// all. If the recording has no GPU activity, all are kept, so that the reason can be found. Default is all.
    pub host: HostSlices,
    /// Reads counters. A format whose counters are tables of their own leaves them out otherwise; others always have them.
    /// Default is true.
    pub counters: bool,
    /// Treatment of partially overlapping slices. Default is to move them to overflow tracks.
    pub overlap: OverlapPolicy,
    /// Maximum partial overlap on a host thread that is attributed to imprecise clocks, as in
    /// [`trace_model::FinishOptions`]. In nanoseconds; default is 0.
    pub snap_ns: i64,
    /// Keeps events before time zero; [`ReadOptions::compat`] drops them regardless. Default is
    /// false: they are counted and left out, as in Perfetto's trace processor.
    pub keep_negative: bool,
    /// Worker threads; 0 means one per core. The result does not depend on it. Default is 0.
    pub threads: usize,
    /// Fails on the first dropped or repaired record. Default is false.
    pub strict: bool,
    /// Maximum nesting depth of JSON values and debug annotations. Default is 64.
    pub max_depth: usize,
    /// Maximum expanded size of a bundle of compressed packets in bytes. Default is 1 GiB.
    pub max_bundle_bytes: u64,
    /// Maximum number of places recorded per kind of issue. Default is 100.
    pub places: usize,
    /// Rules for kernels that the trace is to carry ([`trace_model::Trace::kernel_rules`]). Default is none.
    pub kernel_rules: KernelRules,
    /// Counts input bytes, for a progress display.
    pub progress: Option<Arc<Progress>>,
    /// Size of the pieces in which JSON is scanned, in bytes; 0 for the default. The result does
    /// not depend on it; the field exists for tests.
    #[doc(hidden)]
    pub chunk_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            compat: false,
            args: ArgPolicy::All,
            categories: None,
            range: None,
            host: HostSlices::All,
            counters: true,
            overlap: OverlapPolicy::Spill,
            snap_ns: 0,
            keep_negative: false,
            threads: 0,
            strict: false,
            max_depth: 64,
            max_bundle_bytes: 1 << 30,
            places: trace_model::DEFAULT_PLACES,
            kernel_rules: KernelRules::default(),
            progress: None,
            chunk_bytes: 0,
        }
    }
}

impl ReadOptions {
    /// Returns the number of worker threads to use.
    pub fn worker_threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            n => n,
        }
    }
}
