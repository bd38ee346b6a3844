//! The truth about a database, accumulated while its rows are generated.

use std::collections::BTreeMap;

use serde::Serialize;

/// Count, sum, sum of squares and extremes of durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Moments {
    /// Number of durations.
    pub calls: u64,
    /// Sum of the durations, ns.
    pub total_ns: i64,
    /// Sum of the squared durations, ns².
    pub squares_ns2: i128,
    /// Shortest duration, ns.
    pub min_ns: i64,
    /// Longest duration, ns.
    pub max_ns: i64,
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            calls: 0,
            total_ns: 0,
            squares_ns2: 0,
            min_ns: i64::MAX,
            max_ns: i64::MIN,
        }
    }
}

impl Moments {
    pub(crate) fn add(&mut self, duration_ns: i64) {
        self.calls += 1;
        self.total_ns += duration_ns;
        self.squares_ns2 += i128::from(duration_ns) * i128::from(duration_ns);
        self.min_ns = self.min_ns.min(duration_ns);
        self.max_ns = self.max_ns.max(duration_ns);
    }
}

/// The truth about one database.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Truth {
    /// The process's key.
    pub guid: String,
    /// Process id.
    pub pid: i64,
    /// Host name.
    pub hostname: String,
    /// Dispatches in the view `kernels`.
    pub dispatches: u64,
    /// Dispatches without region name, which that view omits.
    pub lost_dispatches: u64,
    /// Regions without event.
    pub lost_regions: u64,
    /// Copies without source agent.
    pub lost_copies: u64,
    /// All regions.
    pub regions: u64,
    /// Samples.
    pub samples: u64,
    /// Kernels in the view, by display name.
    pub kernels: BTreeMap<String, Moments>,
    /// Copies in the view, by direction.
    pub copies: BTreeMap<String, Moments>,
    /// Allocations by type.
    pub allocations: BTreeMap<String, Moments>,
    /// Scratch allocations by type.
    pub scratch: BTreeMap<String, Moments>,
    /// Regions by domain and name.
    pub domains: BTreeMap<String, BTreeMap<String, Moments>>,
    /// Begin and end of each step, ns; not in the file, where readers use the ranges.
    #[serde(skip)]
    pub steps_ns: Vec<(i64, i64)>,
    /// Markers by message, including marks.
    pub markers: BTreeMap<String, Moments>,
    /// Bytes of the copies in the view, by direction.
    pub copied_bytes: BTreeMap<String, i64>,
    /// Sum of each counter over all dispatches and instances.
    pub counters: BTreeMap<String, i64>,
    /// Bytes allocated and not freed at the end, without scratch.
    pub live_bytes_end: i64,
    /// Maximum bytes allocated at one time, without scratch.
    pub live_bytes_peak: i64,
    /// Sum of durations by agent id: dispatches, and copies to the agent.
    pub busy_ns: BTreeMap<i64, i64>,
    /// Dispatch ids of kernels that take 25 times as long as others.
    pub outliers: Vec<i64>,
    /// First begin and last end, ns.
    pub bounds_ns: (i64, i64),
}
