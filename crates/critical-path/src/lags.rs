//! Typical latencies of a trace.

use serde::Serialize;

use crate::class::Lag;

/// Minimum number of samples; below it the default counts.
pub(crate) const FEW: usize = 5;

/// A latency of one trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct LagTime {
    /// The lower median of the samples, in nanoseconds.
    pub typical_ns: i64,
    /// The 95th percentile, at most four times the typical value: longer times include more than
    /// this latency.
    pub high_ns: i64,
    /// Number of samples in the trace; below five the values are defaults.
    pub samples: u64,
}

impl LagTime {
    /// Returns the default of a latency, chosen from typical driver times.
    pub(crate) fn default_of(lag: Lag) -> Self {
        let typical_ns = match lag {
            Lag::Launch | Lag::Sync | Lag::Spin | Lag::QueueFull => 5_000,
            Lag::Copy | Lag::AfterCopy | Lag::Event => 2_000,
            Lag::Stream | Lag::Graph => 1_000,
        };
        Self {
            typical_ns,
            high_ns: 2 * typical_ns,
            samples: 0,
        }
    }

    /// Returns `true` if the trace has too few samples, so that the values are defaults.
    pub(crate) fn is_assumed(&self) -> bool {
        self.samples < FEW as u64
    }

    /// Returns the default of a latency that no sample shows, but that is not longer than `limit`.
    pub(crate) fn at_most(lag: Lag, limit: Option<i64>, samples: usize) -> Self {
        let default = Self::default_of(lag);
        let typical_ns = default.typical_ns.min(limit.unwrap_or(i64::MAX));
        Self {
            typical_ns,
            high_ns: 2 * typical_ns,
            samples: samples as u64,
        }
    }

    /// Returns the latency estimated from these samples.
    pub(crate) fn of(lag: Lag, samples: &mut [i64]) -> Self {
        let default = Self {
            samples: samples.len() as u64,
            ..Self::default_of(lag)
        };
        if samples.len() < FEW {
            return default;
        }
        samples.sort_unstable();
        let at = |place: usize| samples.get(place).copied();
        let typical = at((samples.len() - 1) / 2);
        let high = at(samples.len() * 95 / 100);
        match (typical, high) {
            (Some(typical), Some(high)) => Self {
                typical_ns: typical,
                high_ns: high.min(typical.saturating_mul(4)).max(typical),
                samples: default.samples,
            },
            _ => default,
        }
    }
}

/// All latencies of one trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lags(pub(crate) [LagTime; Lag::ALL.len()]);

impl Default for Lags {
    fn default() -> Self {
        Self(Lag::ALL.map(LagTime::default_of))
    }
}

impl Lags {
    pub(crate) fn of(&self, lag: Lag) -> LagTime {
        self.0[lag as usize]
    }
}
