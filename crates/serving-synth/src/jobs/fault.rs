//! The faults that a job may have.

/// A fault of a serving job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing is wrong: decode is bound by the bandwidth of the device.
    #[default]
    None,
    /// Small kernels launched one by one, without graphs.
    Launches,
    /// A graph that breaks at each layer: pieces with launches between.
    BrokenGraph,
    /// `_prepare_inputs` takes as long as the work of the device.
    SlowFunction,
    /// The scheduler between steps does.
    SlowScheduler,
    /// Each layer reads a value of the device.
    Item,
    /// A large pageable copy to the device in each step, which the host waits for.
    PageableCopy,
    /// One rank's host is late in each step.
    LateHost,
    /// The same with all-reduces that record no metadata.
    LateHostCustom,
    /// One rank's device is slower.
    SlowDevice,
    /// The clocks of all devices fall in the middle of the recording.
    ClockDrop,
    /// Collectives run at a quarter of the link's rate.
    SlowLink,
    /// One rank has more tokens for its experts.
    UnevenExperts,
    /// The garbage collector runs in every tenth step.
    Collector,
    /// `cudaMalloc` and `cudaFree` in each step.
    Allocation,
    /// One product takes three times the time that its shape allows.
    SlowKernel,
    /// A chain of eight elementwise kernels in each layer.
    Chain,
    /// Each layer computes a product twice.
    Duplicate,
    /// A prefill in every sixth step.
    Prefill,
    /// Requests arrive slowly.
    NoRequests,
    /// Each step reads from a disk before its forward pass.
    DiskReads,
    /// Blocks of the KV cache move out and in again in each step.
    Offload,
    /// One step of all is slow.
    OneStep,
}

impl Fault {
    /// All faults, and none.
    pub const ALL: [Self; 23] = [
        Self::None,
        Self::Launches,
        Self::BrokenGraph,
        Self::SlowFunction,
        Self::SlowScheduler,
        Self::Item,
        Self::PageableCopy,
        Self::LateHost,
        Self::LateHostCustom,
        Self::SlowDevice,
        Self::ClockDrop,
        Self::SlowLink,
        Self::UnevenExperts,
        Self::Collector,
        Self::Allocation,
        Self::SlowKernel,
        Self::Chain,
        Self::Duplicate,
        Self::Prefill,
        Self::NoRequests,
        Self::DiskReads,
        Self::Offload,
        Self::OneStep,
    ];

    /// Its name in files and folders.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "healthy",
            Self::Launches => "launches",
            Self::BrokenGraph => "broken-graph",
            Self::SlowFunction => "slow-function",
            Self::SlowScheduler => "slow-scheduler",
            Self::Item => "item",
            Self::PageableCopy => "pageable-copy",
            Self::LateHost => "late-host",
            Self::LateHostCustom => "late-host-custom",
            Self::SlowDevice => "slow-device",
            Self::ClockDrop => "clock-drop",
            Self::SlowLink => "slow-link",
            Self::UnevenExperts => "uneven-experts",
            Self::Collector => "collector",
            Self::Allocation => "allocation",
            Self::SlowKernel => "slow-kernel",
            Self::Chain => "chain",
            Self::Duplicate => "duplicate",
            Self::Prefill => "prefill",
            Self::NoRequests => "no-requests",
            Self::DiskReads => "disk-reads",
            Self::Offload => "offload",
            Self::OneStep => "one-step",
        }
    }

    /// Returns `true` if the fault needs several ranks.
    pub const fn needs_ranks(self) -> bool {
        matches!(
            self,
            Self::LateHost
                | Self::LateHostCustom
                | Self::SlowDevice
                | Self::SlowLink
                | Self::UnevenExperts
        )
    }

    /// Returns `true` if kernels are launched one by one rather than as a graph.
    pub const fn is_eager(self) -> bool {
        matches!(
            self,
            Self::Launches | Self::Item | Self::Chain | Self::Duplicate | Self::SlowKernel
        )
    }

    /// Returns the words of which one has to occur in the kind of the finding that names the fault.
    pub const fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::None => &["device_limit"],
            Self::Launches => &["launch_bound"],
            Self::BrokenGraph => &["graph_coverage", "launch_bound"],
            Self::SlowFunction | Self::SlowScheduler => &["host_bound"],
            Self::Item => &["synchronisation"],
            Self::PageableCopy => &["synchronisation", "copy"],
            Self::LateHost | Self::LateHostCustom => &["rank_skew"],
            Self::SlowDevice | Self::ClockDrop => &["slow_device", "rank_skew"],
            Self::SlowLink => &["communication"],
            Self::UnevenExperts => &["uneven_experts", "rank_skew"],
            Self::Collector | Self::OneStep => &["periodic_stall", "pause"],
            Self::Allocation => &["allocation"],
            Self::SlowKernel => &["slow_kernel"],
            Self::Chain => &["unfused_chain"],
            Self::Duplicate => &["duplicate_kernels"],
            Self::Prefill => &["prefill_interrupts"],
            Self::NoRequests => &["input_starvation"],
            Self::DiskReads => &["disk_reads"],
            Self::Offload => &["kv_offload", "copy"],
        }
    }
}
