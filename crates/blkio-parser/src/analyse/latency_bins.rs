//! Latencies over time: median and tail of each bin.

use super::distribution::Distribution;

/// Latencies of the data requests that completed in one bin of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatencyBin {
    /// Number of the bin since the origin.
    pub bin: u64,
    /// Requests.
    pub count: u64,
    /// Median in nanoseconds.
    pub p50_ns: u64,
    /// The value that one in a hundred exceeds.
    pub p99_ns: u64,
    /// The largest.
    pub max_ns: u64,
}

/// Latencies of data requests by bin of completion. Completions come in order of time, so one bin is open.
#[derive(Debug, Clone)]
pub struct LatencyBins {
    width_ns: u64,
    origin_ns: u64,
    bin: u64,
    open: Distribution,
    closed: Vec<LatencyBin>,
}

impl LatencyBins {
    /// In bins of this width since an origin; what completed before is in the first.
    pub(super) fn new(width_ns: u64, origin_ns: u64) -> Self {
        Self {
            width_ns: width_ns.max(1),
            origin_ns,
            bin: 0,
            open: Distribution::default(),
            closed: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, complete_ns: u64, latency_ns: u64) {
        let bin = complete_ns.saturating_sub(self.origin_ns) / self.width_ns;
        if bin != self.bin {
            self.close();
            self.bin = bin;
        }
        self.open.add(latency_ns);
    }

    /// Closes the open bin; call once after the last completion.
    pub(super) fn close(&mut self) {
        let mut values = std::mem::take(&mut self.open);
        if let [p50_ns, p99_ns] = values.percentiles(&[50.0, 99.0])[..] {
            self.closed.push(LatencyBin {
                bin: self.bin,
                count: values.count,
                p50_ns,
                p99_ns,
                max_ns: values.max,
            });
        }
    }

    /// Returns the bins in which requests completed, in order.
    #[must_use]
    pub fn bins(&self) -> &[LatencyBin] {
        &self.closed
    }

    /// Returns the width of a bin in nanoseconds.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }
}
