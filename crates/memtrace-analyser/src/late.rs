//! What is stored to while it is in use: the last part of a recording.

use std::time::Duration;

use crate::evidence::{Evidence, Rate};
use crate::quantile::real;
use crate::record::{LOAD, STORE};

/// Two-sided 95 % of the normal distribution, and the upper end of the 95 % interval of a Poisson mean of which nothing was counted.
const Z: f64 = 1.959_963_984_540_054;
const NOTHING: f64 = 3.0;

/// Data that is in use and stays as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Unchanged {
    /// Length of the last part of the recording, ns.
    pub last_ns: u64,
    /// Share of the addresses loaded in it that were not stored to in it, at least (95 %).
    pub share_low: f64,
    /// The same, at most: what was stored to in it is not unchanged.
    pub share_high: f64,
}

/// Stores in the second half of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LateStores {
    /// Length of the second half, ns.
    pub length_ns: u64,
    /// Rows.
    pub stores: u64,
    /// Those of them to addresses that an earlier recorded store went to.
    pub again: u64,
}

/// Accesses in the last part of a recording.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Late {
    from_ns: u64,
    length_ns: u64,
    stores: u64,
    /// Addresses that were loaded, those loaded once and twice, those of them that were stored to.
    loaded: u64,
    once: u64,
    twice: u64,
    stored: u64,
    /// Addresses stored to, and those stored to once and twice.
    written: [u64; 3],
    /// Counts of the current address.
    own: [u64; 2],
    half_from_ns: u64,
    pub(crate) half: LateStores,
}

impl Late {
    /// The second half of a recording, or more where that is shorter than a time of interest.
    pub(crate) fn new(first_ns: u64, last_ns: u64, wanted_s: f64) -> Self {
        let all = last_ns.saturating_sub(first_ns);
        let wanted = Duration::try_from_secs_f64(wanted_s).unwrap_or(Duration::MAX);
        let wanted = u64::try_from(wanted.as_nanos()).unwrap_or(u64::MAX);
        let length_ns = (all / 2).max(wanted.min(all / 10 * 9));
        Self {
            from_ns: last_ns.saturating_sub(length_ns),
            length_ns,
            half_from_ns: last_ns.saturating_sub(all / 2),
            half: LateStores {
                length_ns: all / 2,
                ..LateStores::default()
            },
            ..Self::default()
        }
    }

    /// Adds an access; `again` if an earlier store went to its address.
    pub(crate) fn access(&mut self, op: u8, time: u64, again: bool) {
        if op == STORE && time >= self.half_from_ns {
            self.half.stores += 1;
            self.half.again += u64::from(again);
        }
        if time < self.from_ns {
            return;
        }
        let [loads, stores] = &mut self.own;
        *loads += u64::from(op == LOAD);
        *stores += u64::from(op == STORE);
        self.stores += u64::from(op == STORE);
    }

    /// Ends an address.
    pub(crate) fn end_address(&mut self) {
        let [loads, stores] = std::mem::take(&mut self.own);
        if loads > 0 {
            self.loaded += 1;
            self.once += u64::from(loads == 1);
            self.twice += u64::from(loads == 2);
            self.stored += u64::from(stores > 0);
        }
        let [written, once, twice] = &mut self.written;
        *written += u64::from(stores > 0);
        *once += u64::from(stores == 1);
        *twice += u64::from(stores == 2);
    }

    /// What was loaded and not stored to; `None` where nothing can be said. `stores` is the probability with which a store of any type
    /// was recorded.
    pub(crate) fn unchanged(&self, evidence: &Evidence, stores: Option<f64>) -> Option<Unchanged> {
        let probability = stores.filter(|_| self.loaded > 0)?;
        let [share_low, share_high] = match evidence.rate() {
            Rate::Unknown => return None,
            _ if evidence.is_in_step() => return None,
            Rate::Complete if probability > 0.5 => [1.0 - real(self.stored) / real(self.loaded); 2],
            Rate::Complete => return None,
            Rate::Sampled(_) => {
                let seen = real(self.stores);
                let at_most = (seen + Z * seen.sqrt() + NOTHING) / probability;
                let addresses = crate::summary::chao(self.loaded, self.once, self.twice).low;
                let [written, once, twice] = self.written;
                let written = crate::evidence::lower_count(written, once, twice);
                let high = 1.0 - (written / evidence.places()).min(1.0);
                [(1.0 - at_most / addresses).max(0.0), high]
            }
        };
        Some(Unchanged {
            last_ns: self.length_ns,
            share_low: share_low.min(share_high),
            share_high,
        })
    }
}
