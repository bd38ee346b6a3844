//! Bins of time, and amounts in them.

use std::collections::BTreeMap;

use blkio_companions::Amount;

/// Nanoseconds of a second.
pub const SECOND: u64 = 1_000_000_000;
/// Bins of 10 ms that are kept: fifteen seconds.
pub const FINE_BINS: u64 = 1500;
/// Width of the finest bins.
pub(in crate::analyse) const FINE_NS: u64 = SECOND / 100;
/// Maximum number of bins of a series that is given bin by bin; of a longer run it is left out.
pub const MAX_BINS: u64 = 1 << 20;

/// Bins of one width, and where they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    width_ns: u64,
    by_clock: bool,
}

impl Grid {
    /// Bins of so many nanoseconds, at least 1, that begin at the first issue or, by the clock, at multiples of their width
    /// of the trace's clock.
    #[must_use]
    pub fn new(width_ns: u64, by_clock: bool) -> Self {
        Self {
            width_ns: width_ns.max(1),
            by_clock,
        }
    }

    /// Returns the width of a bin in nanoseconds.
    #[must_use]
    pub fn width_ns(self) -> u64 {
        self.width_ns
    }

    /// Returns where the bin begins that the first issue is in, which is number 0.
    #[must_use]
    pub fn begin_ns(self, first_issue_ns: u64) -> u64 {
        if self.by_clock {
            first_issue_ns - first_issue_ns % self.width_ns
        } else {
            first_issue_ns
        }
    }

    /// Returns `true` if its bins are those of whole seconds since the first issue.
    #[must_use]
    pub fn is_of_seconds(self) -> bool {
        self.width_ns == SECOND && !self.by_clock
    }
}

/// Amounts by bin of time. Events come in order, so only one bin is open.
#[derive(Debug, Clone, Default)]
pub struct Bins {
    open: Option<(u64, Amount)>,
    closed: Vec<(u64, Amount)>,
}

impl Bins {
    pub(super) fn add(&mut self, bin: u64, amount: Amount) {
        match &mut self.open {
            Some((number, open)) if *number == bin => open.add(amount),
            open => self.closed.extend(open.replace((bin, amount))),
        }
    }

    /// Returns the bins that are not empty, in order.
    #[must_use]
    pub fn finish(&self) -> BTreeMap<u64, Amount> {
        let mut bins: BTreeMap<u64, Amount> = BTreeMap::new();
        for (bin, amount) in self.closed.iter().chain(&self.open) {
            bins.entry(*bin).or_default().add(*amount);
        }
        bins
    }
}

/// The largest amount of one bin.
#[derive(Debug, Clone, Default)]
pub(super) struct Peak {
    bin: u64,
    open: Amount,
    pub(super) most: Amount,
}

impl Peak {
    pub(super) fn add(&mut self, bin: u64, amount: Amount) {
        if bin != self.bin {
            self.close();
            self.bin = bin;
        }
        self.open.add(amount);
    }

    pub(super) fn close(&mut self) {
        self.most.bytes = self.most.bytes.max(self.open.bytes);
        self.most.ios = self.most.ios.max(self.open.ios);
        self.open = Amount::default();
    }
}
