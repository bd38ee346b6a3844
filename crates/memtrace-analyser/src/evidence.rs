//! How much of what happened a sampled recording shows, and what follows from it.
//!
//! Each access is taken to be sampled independently with probability `p`, one over the period. A store that was not sampled joins two
//! values into one, so that lives, read ages and write-once ratios of the samples are biased, and no longer recording mends it. What can
//! be computed from samples without bias are *numbers of pairs*: two given accesses are both sampled with probability `p²`. From pairs
//! come bounds (Bonferroni's inequalities) of the age of data when it is read and of the share of addresses that are written once.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::Extent;
use crate::quantile::real;
use crate::record::{LOAD, STORE};

/// Two-sided 95 % of the normal distribution.
const Z: f64 = 1.959_963_984_540_054;
/// Upper end of the 95 % interval of a Poisson mean of which nothing was counted.
const NOTHING: f64 = 3.0;
/// Stores to an address that are remembered, newest first.
const KEPT: usize = 8;

/// Sampling periods that the rows of a type state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Periods {
    loads: u64,
    stores: u64,
    load_sum: u64,
    store_sum: u64,
    load_squares: f64,
    store_squares: f64,
    unstated: u64,
}

impl Periods {
    /// Adds a row; a period of 0 is one that the capture does not state.
    pub(crate) fn add(&mut self, op: u8, period: u64) {
        self.unstated += u64::from(period == 0);
        if op == LOAD {
            self.loads += 1;
            self.load_sum = self.load_sum.saturating_add(period);
            self.load_squares += real(period) * real(period);
        } else if op == STORE {
            self.stores += 1;
            self.store_sum = self.store_sum.saturating_add(period);
            self.store_squares += real(period) * real(period);
        }
    }

    /// Factors by which unequal periods widen the variance of the numbers of loads and of stores (Kish's design effect): 1 where
    /// all rows have the same period.
    pub(crate) fn design(&self) -> [f64; 2] {
        let effect = |count: u64, sum: u64, squares: f64| match sum {
            0 => 1.0,
            _ => (real(count) * squares / (real(sum) * real(sum))).max(1.0),
        };
        [
            effect(self.loads, self.load_sum, self.load_squares),
            effect(self.stores, self.store_sum, self.store_squares),
        ]
    }

    /// Mean periods of the loads and of the stores of all types, 0 where none is stated.
    pub(crate) fn means(all: &[Self]) -> [f64; 2] {
        let sum = |of: fn(&Self) -> u64| all.iter().map(of).fold(0, u64::saturating_add);
        let mean = |rows: u64, sum: u64| real(sum) / real(rows.max(1));
        [
            mean(sum(|own| own.loads), sum(|own| own.load_sum)),
            mean(sum(|own| own.stores), sum(|own| own.store_sum)),
        ]
    }

    /// Probability with which a store was sampled, or a load where there are no stores; `None` unless every row states its period.
    pub(crate) fn probability(&self) -> Option<f64> {
        if self.unstated > 0 || self.loads + self.stores == 0 {
            return None;
        }
        let share = |count: u64, sum: u64| real(count) / real(sum.max(1));
        let loads = (self.loads > 0).then(|| share(self.loads, self.load_sum));
        let stores = (self.stores > 0).then(|| share(self.stores, self.store_sum));
        match (loads, stores) {
            // Everything must be there for the recording to be complete.
            (Some(loads), Some(stores)) if stores >= 1.0 => Some(loads),
            (loads, stores) => stores.or(loads),
        }
    }
}

/// What all types of a recording have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recording {
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    /// Whether every load and every store was recorded, and there are both.
    pub(crate) is_complete: bool,
    /// Whether any store was recorded: without one it may have been set to record loads only.
    pub(crate) has_stores: bool,
    /// Probability with which a store was recorded; `None` where no store was, or rows do not state their periods.
    pub(crate) store_probability: Option<f64>,
}

impl Recording {
    pub(crate) fn new(periods: &[Periods], extent: Extent) -> Self {
        let sum = |of: fn(&Periods) -> u64| periods.iter().map(of).fold(0, u64::saturating_add);
        let [loads, all_loads] = [sum(|kind| kind.loads), sum(|kind| kind.load_sum)];
        let [stores, all_stores] = [sum(|kind| kind.stores), sum(|kind| kind.store_sum)];
        let is_stated = sum(|kind| kind.unstated) == 0;
        Self {
            first_ns: extent.first_ns,
            last_ns: extent.last_ns,
            has_stores: stores > 0,
            is_complete: is_stated
                && loads > 0
                && stores > 0
                && all_loads == loads
                && all_stores == stores,
            // At a steady rate the probability is another one at each time: the least.
            store_probability: (is_stated && stores > 0).then(|| match extent.drift {
                Some(period) => 1.0 / period.max(1.0),
                None => real(stores) / real(all_stores.max(1)),
            }),
        }
    }
}

/// How the accesses of a type were sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// Every access is there.
    Complete,
    /// Accesses were sampled with this probability.
    Sampled(f64),
    /// The recording does not state its period: it may be complete or not.
    Unknown,
}

/// The newest stores to one address and how many later loads each was paired with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Recent {
    stores: [(u64, u64); KEPT],
    held: usize,
}

/// Pairs of sampled accesses of a type.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    rate: Option<f64>,
    /// Whether samples are spaced evenly, so that nothing follows from pairs of them.
    is_even: bool,
    /// Whether they leave the rhythm of the program all the same.
    drifts: bool,
    start_ns: u64,
    /// Loads by the time since the recording began, pairs of a load with an earlier store by age, and triples of a load with two
    /// earlier stores by the larger age.
    loads: BTreeMap<u16, u64>,
    pairs: BTreeMap<u16, u64>,
    triples: BTreeMap<u16, u64>,
    all_pairs: u64,
    /// Sum over stores of the square of their pairs.
    squares: f64,
    /// Sampled stores, pairs of them at one address, addresses with any, with one, with two, with more than one.
    stores: u64,
    store_pairs: f64,
    written: u64,
    written_once: u64,
    written_twice: u64,
    rewritten: u64,
    /// Bits of all addresses.
    bits: u64,
    /// Pages, and those with one and two rows.
    pub(crate) pages: [u64; 3],
    /// Pages that were stored to at times far apart.
    pub(crate) stored_again: u64,
}

impl Evidence {
    pub(crate) fn new(rate: Option<f64>, extent: Extent) -> Self {
        Self {
            rate,
            is_even: extent.is_even && rate.is_some_and(|p| p <= 0.5),
            drifts: extent.drift.is_some(),
            start_ns: extent.first_ns,
            ..Self::default()
        }
    }

    /// Adds an access of an address, in order of time; nothing was stored there before `allocated`.
    pub(crate) fn access(
        &mut self,
        op: u8,
        time: u64,
        allocated: Option<u64>,
        recent: &mut Recent,
    ) {
        if self.rate.is_none_or(|p| p >= 1.0) {
            return;
        }
        if op == STORE {
            recent.stores.rotate_right(1);
            if let Some(oldest) = recent.stores.first_mut() {
                self.squares += real(oldest.1) * real(oldest.1);
                *oldest = (time, 0);
            }
            recent.held = KEPT.min(recent.held + 1);
        } else if op == LOAD {
            let oldest = allocated.unwrap_or(self.start_ns);
            *self
                .loads
                .entry(bin(time.saturating_sub(oldest)))
                .or_default() += 1;
            for (newer, (stored, pairs)) in
                (0_u64..).zip(recent.stores.iter_mut().take(recent.held))
            {
                let age = bin(time - *stored);
                *pairs += 1;
                self.all_pairs += 1;
                *self.pairs.entry(age).or_default() += 1;
                *self.triples.entry(age).or_default() += newer;
            }
        }
    }

    /// Ends an address that had so many stores.
    pub(crate) fn address(&mut self, address: u64, stores: u64, recent: &Recent) {
        self.bits |= address;
        self.written += u64::from(stores > 0);
        self.stores += stores;
        self.store_pairs += real(stores) * (real(stores) - 1.0).max(0.0) / 2.0;
        self.written_once += u64::from(stores == 1);
        self.written_twice += u64::from(stores == 2);
        self.rewritten += u64::from(stores > 1);
        for (_, pairs) in recent.stores.iter().take(recent.held) {
            self.squares += real(*pairs) * real(*pairs);
        }
    }

    /// How the type was sampled, as stated. A recording without a stated period is never taken for complete: every Nth access of
    /// a program that repeats itself looks like all accesses of a slower one. Periods are whole numbers, so a probability above
    /// one half is 1.
    pub(crate) fn rate(&self) -> Rate {
        match self.rate {
            Some(p) if p > 0.5 => Rate::Complete,
            Some(p) => Rate::Sampled(p),
            None => Rate::Unknown,
        }
    }

    /// Returns `true` if samples are spaced evenly, so that nothing follows from pairs of them.
    pub(crate) fn is_even(&self) -> bool {
        self.is_even
    }

    /// Returns `true` if samples are spaced evenly, and by a period that does not vary: what the program does in step with them is never seen.
    pub(crate) fn is_in_step(&self) -> bool {
        self.is_even && !self.drifts
    }

    /// Returns `true` if samples show that some of the type was stored to again: an address more than once, or a page at times far apart.
    pub(crate) fn shows_rewriting(&self) -> bool {
        self.rewritten > 0 || self.stored_again > 0
    }

    /// Pairs of a load and an earlier store to its address.
    pub(crate) fn pairs(&self) -> u64 {
        self.all_pairs
    }

    /// Bounds of quantiles of the age of data when it is read, ns: at least, and at most where samples can tell.
    pub(crate) fn read_age(&self, quantiles: [f64; 3]) -> Option<[(f64, Option<f64>); 3]> {
        let p = self.rate.filter(|p| *p < 1.0 && !self.is_even)?;
        let loads: u64 = self.loads.values().sum();
        if loads == 0 {
            return None;
        }
        // One pair in so many of those that there are.
        let weight = 1.0 / (real(loads) * p);
        let spread = (self.squares / real(self.all_pairs.max(1))).max(1.0);
        let hidden = NOTHING * spread * weight;
        let mut found = quantiles.map(|q| ((hidden >= q).then_some(0.0), None));
        let [mut pairs, mut triples, mut early, mut lower] = [0.0_f64; 4];
        let mut last = 0;
        let bins: BTreeSet<u16> = self
            .loads
            .keys()
            .chain(self.pairs.keys())
            .copied()
            .collect();
        for at in bins {
            last = at;
            let count = |map: &BTreeMap<u16, u64>| real(map.get(&at).copied().unwrap_or(0));
            pairs += count(&self.pairs);
            triples += count(&self.triples);
            // What these loads found may have been stored before the recording began, or not.
            early += count(&self.loads);
            let one = pairs * weight;
            let one_error = Z * (spread * pairs).sqrt() * weight;
            let upper = one + one_error + hidden + early / real(loads);
            let two = triples * weight / p;
            let two_error = Z * (spread * triples).sqrt() * weight / p + NOTHING * weight / p;
            lower = lower.max(one - two - one_error.hypot(two_error));
            for (q, (low, high)) in quantiles.iter().zip(&mut found) {
                if low.is_none() && upper >= *q {
                    *low = Some(from(at));
                }
                if high.is_none() && lower >= *q {
                    *high = Some(from(at + 1));
                }
            }
        }
        Some(found.map(|(low, high)| (low.unwrap_or_else(|| from(last)), high)))
    }

    /// Bounds of the share of written addresses that are written once; `None` without stores.
    pub(crate) fn write_once(&self, measured: Option<f64>) -> Option<(f64, f64)> {
        let measured = measured?;
        let places = self.places();
        let seldom = 1.0 - (real(self.rewritten) / places).min(1.0);
        let p = match self.rate() {
            Rate::Complete => return Some((measured, measured)),
            Rate::Unknown => return Some((0.0, seldom)),
            Rate::Sampled(p) => p,
        };
        // Stores to rewritten addresses are at most twice the pairs of stores, and such addresses at most the pairs.
        let seen = real(self.stores);
        let all = (seen - Z * seen.sqrt()).max(0.0) / p;
        let pairs = (self.store_pairs + Z * self.store_pairs.sqrt() + NOTHING) / (p * p);
        let low = ((all - 2.0 * pairs) / (all - pairs)).clamp(0.0, 1.0);
        let low = if all > 2.0 * pairs && !self.is_even {
            low
        } else {
            0.0
        };
        // Where there is room for few addresses, those that are written once have few of the sampled stores: the others are rewritten.
        let once = places * p;
        let high = if once + 2.0 * once.sqrt() < 0.05 * real(self.written) {
            let written = lower_count(self.written, self.written_once, self.written_twice);
            1.0 - (0.95 * written / places).min(1.0)
        } else {
            seldom
        };
        Some((low.min(high), high))
    }

    /// Upper bound of the number of addresses: pages, also those that were not sampled, by the places in a page.
    pub(crate) fn places(&self) -> f64 {
        let [pages, once, twice] = self.pages;
        let step = (self.bits | 4096).trailing_zeros();
        let in_page = real(1_u64 << 12_u32.saturating_sub(step));
        crate::summary::chao(pages, once, twice).high.max(1.0) * in_page
    }
}

/// Chao's estimate of a number of kinds at its lower end.
pub(crate) fn lower_count(seen: u64, once: u64, twice: u64) -> f64 {
    crate::summary::chao(seen, once, twice).low
}

/// Bins of times: exact up to 15 ns, then eight for each doubling.
pub(crate) fn bin(time: u64) -> u16 {
    let Some(shift) = time.checked_ilog2().and_then(|log| log.checked_sub(3)) else {
        return u16::try_from(time).unwrap_or(0);
    };
    u16::try_from(u64::from(shift) * 8 + (time >> shift)).unwrap_or(u16::MAX)
}

/// The first time of a bin.
pub(crate) fn from(bin: u16) -> f64 {
    if bin < 16 {
        return f64::from(bin);
    }
    let shift = bin / 8 - 1;
    f64::from(bin % 8 + 8) * 2_f64.powi(shift.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_hold_the_times_that_they_say() {
        for shift in 0..60 {
            for part in 0..50_u64 {
                let time = (1 << shift) + (part << shift) / 50;
                let at = bin(time);
                assert!(
                    from(at) <= real(time) && real(time) < from(at + 1) * 1.000_001,
                    "{time}"
                );
            }
        }
    }
}
