//! Times between issues, bursts and idleness.

use super::Analyser;
use super::distribution::Distribution;
use super::runs::Batch;

/// A maximal run of issues without a long gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Burst {
    /// First issue.
    pub start_ns: u64,
    /// Last issue.
    pub end_ns: u64,
    /// Issues of any direction.
    pub ios: u64,
    /// Bytes read and written.
    pub bytes: u64,
}

/// Width of the narrowest bins of counts.
const NARROW: u64 = 1_000_000;
/// Bursts that are kept.
const KEPT: usize = 1000;

/// Arrivals of requests.
#[derive(Debug, Clone)]
pub struct Arrivals {
    gap_ns: u64,
    origin: Option<u64>,
    previous: u64,
    /// Times between successive issues of any direction.
    pub gaps: Distribution,
    /// Number of bursts.
    pub bursts: u64,
    /// The first thousand bursts.
    pub first: Vec<Burst>,
    open: Option<Burst>,
    /// Time between bursts.
    pub idle_ns: u64,
    /// The longest time between bursts.
    pub longest_idle_ns: u64,
    fano: [Fano; 4],
    /// Issues in the open bin of the narrowest width, which are in the wider ones when it is closed; and its end.
    narrow: (u64, u64),
}

/// Variance over mean of the counts in bins of one width.
#[derive(Debug, Clone, Default)]
struct Fano {
    width_ns: u64,
    bin: u64,
    /// End of the bin.
    until_ns: u64,
    count: u64,
    sum: f64,
    squares: f64,
}

impl Fano {
    fn add(&mut self, since_ns: u64, count: u64) {
        if since_ns >= self.until_ns {
            let bin = since_ns / self.width_ns;
            self.close();
            self.bin = bin;
            self.until_ns = (bin + 1).saturating_mul(self.width_ns);
        }
        self.count += count;
    }

    fn close(&mut self) {
        let count = std::mem::take(&mut self.count) as f64;
        self.sum += count;
        self.squares += count * count;
    }

    fn factor(&self) -> Option<f64> {
        let bins = (self.bin + 1) as f64;
        let mean = self.sum / bins;
        (mean > 0.0).then(|| (self.squares / bins - mean * mean) / mean)
    }
}

impl Arrivals {
    /// Returns the arrivals of no events, with bursts split where nothing is issued for this long.
    #[must_use]
    pub fn new(gap_ns: u64) -> Self {
        Self {
            gap_ns,
            origin: None,
            previous: 0,
            gaps: Distribution::default(),
            bursts: 0,
            first: Vec::new(),
            open: None,
            idle_ns: 0,
            longest_idle_ns: 0,
            narrow: (0, NARROW),
            fano: [NARROW, 10_000_000, 100_000_000, 1_000_000_000].map(|width_ns| Fano {
                width_ns,
                until_ns: width_ns,
                ..Fano::default()
            }),
        }
    }

    /// Returns the gap that ends a burst.
    #[must_use]
    pub fn gap_ns(&self) -> u64 {
        self.gap_ns
    }

    /// Returns the width of bins and the Fano factor of the counts in them; 1 for a Poisson process.
    pub fn fano(&self) -> impl Iterator<Item = (u64, Option<f64>)> {
        self.fano.iter().map(|fano| (fano.width_ns, fano.factor()))
    }

    /// Closes what is open; call once after the last event.
    pub fn finish(&mut self) {
        self.close();
        self.close_narrow();
        self.fano.iter_mut().for_each(Fano::close);
        self.gaps.settle();
    }

    fn close_narrow(&mut self) {
        let (count, until_ns) = (std::mem::take(&mut self.narrow.0), self.narrow.1);
        for fano in &mut self.fano {
            fano.add(until_ns - NARROW, count);
        }
    }

    fn close(&mut self) {
        if let Some(burst) = self.open.take() {
            self.bursts += 1;
            if self.first.len() < KEPT {
                self.first.push(burst);
            }
        }
    }
}

impl Arrivals {
    /// Takes an issue; `bytes` are those of data.
    #[inline]
    fn issue(&mut self, t_ns: u64, bytes: u64) {
        let origin = match self.origin {
            None => *self.origin.insert(t_ns),
            Some(origin) => {
                let gap = t_ns.saturating_sub(self.previous);
                self.gaps.add(gap);
                if gap >= self.gap_ns {
                    self.close();
                    self.idle_ns += gap;
                    self.longest_idle_ns = self.longest_idle_ns.max(gap);
                }
                origin
            }
        };
        self.previous = self.previous.max(t_ns);
        let burst = self.open.get_or_insert(Burst {
            start_ns: t_ns,
            end_ns: t_ns,
            ios: 0,
            bytes: 0,
        });
        burst.end_ns = burst.end_ns.max(t_ns);
        burst.ios += 1;
        burst.bytes += bytes;
        let since = t_ns.saturating_sub(origin);
        // An event that comes late counts in the open bin.
        if since >= self.narrow.1 {
            self.close_narrow();
            self.narrow.1 = (since / NARROW + 1).saturating_mul(NARROW);
        }
        self.narrow.0 += 1;
    }
}

impl Analyser for Arrivals {
    fn observe(&mut self, batch: &Batch) {
        for event in batch.issued() {
            let is_data = event.direction.is_data();
            self.issue(event.t_ns, if is_data { event.bytes.into() } else { 0 });
        }
    }
}
