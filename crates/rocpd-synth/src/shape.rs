//! Parameters of the generated data.

/// Parameters of the generated data.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Number of machines; ranks are assigned to them in turn.
    pub nodes: u32,
    /// Number of processes, each with its own database.
    pub ranks: u32,
    /// Number of GPUs per process.
    pub gpus: u32,
    /// Number of threads per process.
    pub threads: u32,
    /// Number of streams, and of queues, in addition to the default ones.
    pub streams: u32,
    /// Number of steps.
    pub steps: u32,
    /// Number of layers per step.
    pub layers: u32,
    /// Number of launches per layer.
    pub launches: u32,
    /// `true` for ranges around steps and layers.
    pub ranges: bool,
    /// `true` for two HSA calls inside each launch.
    pub hsa: bool,
    /// `true` for one or two arguments per launch.
    pub args: bool,
    /// Number of counter instances of every second dispatch; 0 for no counters.
    pub counter_instances: u32,
    /// `true` for rows that joined views lose: no region name, no event, no source agent.
    pub orphans: bool,
    /// `true` to give all ranks the same process and thread ids.
    pub equal_pids: bool,
    /// Offset added to all times, for timestamps above 2^53.
    pub time_offset_ns: i64,
    /// Clock offset of each machine from the previous one, in nanoseconds.
    pub clock_skew_ns: i64,
    /// `true` for an event of the kernel driver, with three arguments, in each step.
    pub kfd: bool,
    /// Last digit of the schema version: 0, 1, 2, 3 or 5.
    pub generation: u32,
    /// `true` for tables without suffix.
    pub without_suffix: bool,
}

impl Shape {
    /// Returns parameters for a few hundred rows: one rank, two GPUs, all features.
    #[must_use]
    pub fn small() -> Self {
        Self {
            seed: 1,
            nodes: 1,
            ranks: 1,
            gpus: 2,
            threads: 2,
            streams: 2,
            steps: 4,
            layers: 2,
            launches: 3,
            ranges: true,
            hsa: true,
            args: true,
            counter_instances: 2,
            orphans: true,
            equal_pids: false,
            time_offset_ns: 0,
            clock_skew_ns: 0,
            kfd: false,
            generation: 0,
            without_suffix: false,
        }
    }

    /// Returns parameters for one rank with about this many dispatches, twice as many regions, and
    /// no arguments or counters.
    #[must_use]
    pub fn large(dispatches: u32) -> Self {
        Self {
            gpus: 1,
            threads: 1,
            steps: dispatches.div_ceil(200),
            layers: 10,
            launches: 20,
            args: false,
            counter_instances: 0,
            orphans: false,
            ..Self::small()
        }
    }
}
