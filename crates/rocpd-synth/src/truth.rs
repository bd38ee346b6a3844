//! What is true of a database, summed up while its rows are made.

use std::collections::BTreeMap;

use serde::Serialize;

/// Count, sum, sum of squares and extremes of durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Moments {
    /// How many.
    pub calls: u64,
    /// Their sum, ns.
    pub total_ns: i64,
    /// The sum of their squares, ns².
    pub squares_ns2: i128,
    /// The shortest, ns.
    pub min_ns: i64,
    /// The longest, ns.
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

/// What is true of one database.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Truth {
    /// The process's key.
    pub guid: String,
    /// Process id.
    pub pid: i64,
    /// Host name.
    pub hostname: String,
    /// Dispatches that the view `kernels` has.
    pub dispatches: u64,
    /// Dispatches without region name, which that view loses.
    pub lost_dispatches: u64,
    /// Regions without event.
    pub lost_regions: u64,
    /// Copies without source agent.
    pub lost_copies: u64,
    /// Regions altogether.
    pub regions: u64,
    /// Samples.
    pub samples: u64,
    /// By display name, those that the view has.
    pub kernels: BTreeMap<String, Moments>,
    /// By direction, those that the view has.
    pub copies: BTreeMap<String, Moments>,
    /// By type.
    pub allocations: BTreeMap<String, Moments>,
    /// By type, scratch only.
    pub scratch: BTreeMap<String, Moments>,
    /// By domain and name.
    pub domains: BTreeMap<String, BTreeMap<String, Moments>>,
    /// When each step begins and ends, ns; readers look at the ranges, so it is not in the file.
    #[serde(skip)]
    pub steps_ns: Vec<(i64, i64)>,
    /// By message, marks included.
    pub markers: BTreeMap<String, Moments>,
    /// Bytes by direction, those that the view has.
    pub copied_bytes: BTreeMap<String, i64>,
    /// Sum of each counter over all dispatches and instances.
    pub counters: BTreeMap<String, i64>,
    /// Bytes allocated and not freed at the end, scratch apart.
    pub live_bytes_end: i64,
    /// The most bytes allocated at once, scratch apart.
    pub live_bytes_peak: i64,
    /// Sum of durations by agent id: dispatches, and copies to it.
    pub busy_ns: BTreeMap<i64, i64>,
    /// Dispatch ids of kernels that take 25 times as long as others.
    pub outliers: Vec<i64>,
    /// First begin and last end, ns.
    pub bounds_ns: (i64, i64),
}
