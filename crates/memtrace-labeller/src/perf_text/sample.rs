//! What a line says.

use crate::names::Name;

/// One sample, borrowed from its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PerfSample<'a> {
    /// Time, in nanoseconds of perf's clock.
    pub timestamp_ns: u64,
    /// Address of the data; 0 when it is wider than 64 bits.
    pub address: u64,
    /// An address of more than 64 bits, which only the reference takes.
    pub wide: Option<u128>,
    /// Whether it is a store; what is not known to be a store is a load.
    pub store: bool,
    /// `true` if the event is a page fault, which is neither a load nor a store; our own grammar only.
    pub page_fault: bool,
    /// Event text, with the period when that cannot be told apart.
    pub event: &'a [u8],
    /// Function, without its offset.
    pub symbol: &'a [u8],
    /// Object file, as printed.
    pub dso: &'a [u8],
    /// Address of the instruction, when printed.
    pub instruction: Option<u64>,
    /// The number printed for the thread (or process).
    pub thread_id: Option<u32>,
    /// The process, where it is printed beside the thread.
    pub process_id: Option<u32>,
    /// CPU.
    pub cpu_id: Option<u16>,
    /// Weight: latency in core cycles on Intel.
    pub weight: Option<u32>,
    /// Where the data came from.
    pub cache_level: Name,
    /// The remote bit of the data source.
    pub remote: Option<u8>,
    /// Hops to the data, as the data source says.
    pub hops: Option<u8>,
    /// Accesses the sample stands for; 0 when not printed.
    pub period: u64,
}

impl PerfSample<'_> {
    pub(super) const NONE: Self = PerfSample {
        timestamp_ns: 0,
        address: 0,
        wide: None,
        store: false,
        page_fault: false,
        event: b"",
        symbol: b"",
        dso: b"",
        instruction: None,
        thread_id: None,
        process_id: None,
        cpu_id: None,
        weight: None,
        cache_level: Name::NULL,
        remote: None,
        hops: None,
        period: 0,
    };
}

/// Why a line holds no sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Skip {
    /// Nothing but blanks.
    Blank,
    /// A comment, or a frame of a call chain.
    Comment,
    /// No event, or nothing that looks like a sample.
    NoEvent,
    /// No time, or one that cannot be.
    BadTime,
    /// No address, or more than 16 significant hexadecimal digits.
    BadAddress,
    /// An address of the kernel's half.
    KernelAddress,
    /// Cut off, or longer than a line may be.
    Truncated,
    /// A record of another kind than an access.
    OtherRecord,
}

impl Skip {
    /// All reasons, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Blank,
        Self::Comment,
        Self::NoEvent,
        Self::BadTime,
        Self::BadAddress,
        Self::KernelAddress,
        Self::Truncated,
        Self::OtherRecord,
    ];

    /// The reason as a word for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blank => "blank",
            Self::Comment => "comment",
            Self::NoEvent => "no_event",
            Self::BadTime => "bad_time",
            Self::BadAddress => "bad_address",
            Self::KernelAddress => "kernel_address",
            Self::Truncated => "truncated",
            Self::OtherRecord => "other_record",
        }
    }

    /// Whether such lines belong to a healthy file.
    #[must_use]
    pub const fn is_harmless(self) -> bool {
        matches!(
            self,
            Self::Blank | Self::Comment | Self::KernelAddress | Self::OtherRecord
        )
    }
}
