//! One row of a trace.

use crate::names::Name;

/// Bytes of a page; the format knows no other size.
pub const PAGE_BYTES: u64 = 4096;
/// Bits of an address within a page.
pub(crate) const PAGE_BITS: u32 = 12;

/// One memory access: the canonical row of a trace.
///
/// Texts are numbers in the [`Names`](crate::Names) table that came with the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// Name of the run.
    pub run_id: Name,
    /// Index of the row among those that were read, from 0.
    pub sample_id: u64,
    /// When, in nanoseconds of the capture's clock.
    pub timestamp_ns: u64,
    /// Phase of inference, or [`Name::NULL`].
    pub phase: Name,
    /// Virtual address of the data. See [`Access::wide`].
    pub address: u64,
    /// Page of the address; normally `address >> 12`, but a page that a row brings is kept.
    pub address_page: u64,
    /// `load`, `store`, `page_fault`, or what the row said.
    pub op: Name,
    /// Function that made the access.
    pub symbol: Name,
    /// Object file of the function, or of the data when the capture says only that.
    pub dso: Name,
    /// Region type; `unknown` before labelling.
    pub region_type: Name,
    /// Region, 0 when unknown.
    pub region_id: u64,
    /// Latency. In nanoseconds when the clock of the cores is known ([`InputOptions::core_mhz`](crate::InputOptions)); else the
    /// profiler's number as it is, as the reference has it, which is [`Access::latency_cycles`].
    pub access_latency_ns: Option<u32>,
    /// Latency in cycles of the core, where the profiler gave one; a store's 0 is none.
    pub latency_cycles: Option<u32>,
    /// Where the data came from, or [`Name::NULL`].
    pub cache_level: Name,
    /// The remote bit of the data source: 0 or 1.
    pub numa_node: Option<u8>,
    /// Hops to where the data was, 0 when it was near; `None` when no data source says.
    pub hops: Option<u8>,
    /// CPU.
    pub cpu_id: Option<u16>,
    /// Thread, or process when the capture says only that.
    pub thread_id: Option<u32>,
    /// Process, where the capture says it beside the thread: addresses are those of this process.
    pub process_id: Option<u32>,
    /// Token that was being made.
    pub token_index: Option<u32>,
    /// Tokens in the context then.
    pub context_tokens: Option<u32>,
    /// Bytes that were accessed, 0 when the capture does not say.
    pub size_bytes: u32,
    /// Accesses that this sample stands for (the sampling period); 0 when the capture does not state it.
    pub period: u64,
    /// Decimal text of an address beyond 64 bits, which only the reference's grammar accepts; else [`Name::NULL`].
    /// `address` is then a number that stands for it.
    pub wide: Name,
}

impl Access {
    /// A load at an address and a time, with everything else absent.
    #[must_use]
    pub fn new(timestamp_ns: u64, address: u64) -> Self {
        Self {
            run_id: Name::EMPTY,
            sample_id: 0,
            timestamp_ns,
            phase: Name::NULL,
            address,
            address_page: address >> PAGE_BITS,
            op: Name::LOAD,
            symbol: Name::EMPTY,
            dso: Name::EMPTY,
            region_type: Name::UNKNOWN,
            region_id: 0,
            access_latency_ns: None,
            latency_cycles: None,
            cache_level: Name::NULL,
            numa_node: None,
            hops: None,
            cpu_id: None,
            thread_id: None,
            process_id: None,
            token_index: None,
            context_tokens: None,
            size_bytes: 0,
            period: 0,
            wide: Name::NULL,
        }
    }

    /// Whether this is a store.
    #[must_use]
    pub fn is_store(&self) -> bool {
        self.op == Name::STORE
    }

    /// Whether this is a load.
    #[must_use]
    pub fn is_load(&self) -> bool {
        self.op == Name::LOAD
    }

    /// Returns `true` if this is the first touch of a page and neither a load nor a store.
    #[must_use]
    pub fn is_page_fault(&self) -> bool {
        self.op == Name::PAGE_FAULT
    }

    /// Renumbers texts that were interned in another table.
    pub(crate) fn renumber(&mut self, map: &[Name]) {
        for name in [
            &mut self.run_id,
            &mut self.phase,
            &mut self.op,
            &mut self.symbol,
            &mut self.dso,
            &mut self.region_type,
            &mut self.cache_level,
            &mut self.wide,
        ] {
            *name = map
                .get(name.number() as usize)
                .copied()
                .unwrap_or(Name::NULL);
        }
    }
}
