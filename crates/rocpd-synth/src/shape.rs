//! What to make.

/// What to make.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Where the random numbers begin.
    pub seed: u64,
    /// Machines; ranks are dealt to them in turn.
    pub nodes: u32,
    /// Processes, each with a database of its own.
    pub ranks: u32,
    /// GPUs of a process.
    pub gpus: u32,
    /// Threads of a process.
    pub threads: u32,
    /// Streams, and as many queues, besides the default ones.
    pub streams: u32,
    /// Steps.
    pub steps: u32,
    /// Layers of a step.
    pub layers: u32,
    /// Launches of a layer.
    pub launches: u32,
    /// Ranges around steps and layers.
    pub ranges: bool,
    /// Two HSA calls inside each launch.
    pub hsa: bool,
    /// An argument or two of each launch.
    pub args: bool,
    /// Counter instances of every second dispatch; 0 for no counters.
    pub counter_instances: u32,
    /// Rows that joined views lose: no region name, no event, no source agent.
    pub orphans: bool,
    /// Give all ranks the same process and thread ids.
    pub equal_pids: bool,
    /// Added to all times, for timestamps above 2^53.
    pub time_offset_ns: i64,
    /// How much later it is on each machine than on the one before.
    pub clock_skew_ns: i64,
    /// An event of the kernel driver, with three arguments, in each step.
    pub kfd: bool,
    /// Last digit of the schema version: 0, 1, 2, 3 or 5.
    pub generation: u32,
    /// Tables without suffix.
    pub without_suffix: bool,
}

impl Shape {
    /// A few hundred rows: one rank, two GPUs, everything there is.
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

    /// One rank with about so many dispatches, twice as many regions, and no arguments or counters.
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
