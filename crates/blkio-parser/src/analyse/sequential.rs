//! Sequentiality: where each request starts relative to the one before of the same device.

use rustc_hash::FxHashMap;

use super::distribution::{Distribution, EXACT};
use super::runs::Run;
use super::strides::Strides;
use crate::event::SECTOR_BYTES;

/// Ends of earlier requests at which a request may start and count as sequential.
const STREAMS: usize = 32;
/// Seeks and strides that are kept exactly of one of many.
const SMALL: usize = 1 << 12;
/// Near: within a MiB, in sectors.
const NEAR: u64 = 2048;

/// The ends of the last [`STREAMS`] requests.
#[derive(Debug, Clone)]
struct Ends {
    ends: [u64; STREAMS],
    next: usize,
}

impl Default for Ends {
    fn default() -> Self {
        Self {
            // No request starts at the largest number: it has no room for sectors.
            ends: [u64::MAX; STREAMS],
            next: 0,
        }
    }
}

impl Ends {
    /// Returns all are looked at, which takes less time than to guess where to stop.
    #[inline]
    fn contain(&self, start: u64) -> bool {
        self.ends
            .iter()
            .fold(false, |found, end| found | (*end == start))
    }

    #[inline]
    fn add(&mut self, end: u64) {
        if let Some(oldest) = self.ends.get_mut(self.next) {
            *oldest = end;
        }
        self.next = (self.next + 1) % STREAMS;
    }
}

/// Sequentiality of one class of requests.
#[derive(Debug, Clone)]
pub struct Class {
    /// Requests with sectors.
    pub requests: u64,
    /// Those that start where the one before ended.
    pub sequential: u64,
    /// Those that start behind it.
    pub forward: u64,
    /// Those that start before it.
    pub backward: u64,
    /// Those that start within a MiB of it, sequential ones included.
    pub near: u64,
    /// Those that start where one of the last 32 ended.
    pub multi_stream: u64,
    /// Maximal chains of sequential requests, single ones included.
    pub runs: u64,
    /// Requests of the longest chain.
    pub longest_run: u64,
    /// Chains by the number of significant bits of their length: 1 is one request, 2 two and three, 3 four to seven.
    pub run_lengths: [u64; 65],
    /// Bytes in chains of eight and more.
    pub bytes_in_long_runs: u64,
    /// Distances from the end of one to the start of the next, in sectors, without sign.
    pub seeks: Distribution,
    strides: Strides,
    /// The device that the cursor is of.
    dev: u32,
    cursor: Cursor,
    /// The cursors of other devices.
    others: FxHashMap<u32, Cursor>,
}

/// Where the requests of one device were last.
#[derive(Debug, Clone, Default)]
struct Cursor {
    previous: Option<(u64, u64)>,
    ends: Ends,
    /// Requests and bytes of the open chain.
    run: (u64, u64),
}

impl Default for Class {
    fn default() -> Self {
        Self {
            requests: 0,
            sequential: 0,
            forward: 0,
            backward: 0,
            near: 0,
            multi_stream: 0,
            runs: 0,
            longest_run: 0,
            run_lengths: [0; 65],
            bytes_in_long_runs: 0,
            seeks: Distribution::default(),
            strides: Strides::default(),
            dev: 0,
            cursor: Cursor::default(),
            others: FxHashMap::default(),
        }
    }
}

impl Class {
    /// Goes to another device, whose requests have nothing to do with those of this one.
    #[cold]
    fn turn_to(&mut self, dev: u32) {
        let next = self.others.remove(&dev).unwrap_or_default();
        let before = std::mem::replace(&mut self.cursor, next);
        self.others.insert(self.dev, before);
        self.dev = dev;
    }

    /// Takes requests of a device of which each starts where the one before ended.
    #[inline]
    fn add(&mut self, dev: u32, start: u64, sectors: u64, bytes: u64, count: u32) {
        if dev != self.dev {
            self.turn_to(dev);
        }
        let count = u64::from(count);
        self.requests += count;
        let end = start.saturating_add(sectors);
        let before = self.cursor.previous.replace((start, end));
        match before {
            // Counted where it is also a distance and near, in `finish`.
            Some((before_start, before_end)) if before_end == start => {
                self.sequential += 1;
                self.multi_stream += 1;
                self.strides.add(before_start, start);
            }
            _ => self.elsewhere(before, start),
        }
        let mut last = end;
        if count > 1 {
            let others = count - 1;
            self.sequential += others;
            self.multi_stream += others;
            self.strides.add_many(sectors.cast_signed(), others);
            last = end.saturating_add(others * sectors);
            self.cursor.previous = Some((last - sectors, last));
        }
        // Ends before the last so many are forgotten at once.
        for before in (0..count.min(STREAMS as u64)).rev() {
            self.cursor.ends.add(last - before * sectors);
        }
        self.cursor.run.0 += count;
        self.cursor.run.1 += bytes * count;
    }

    /// A request that does not start where the one before ended.
    fn elsewhere(&mut self, before: Option<(u64, u64)>, start: u64) {
        if let Some((before_start, before_end)) = before {
            let distance = start.abs_diff(before_end);
            self.forward += u64::from(start > before_end);
            self.backward += u64::from(start < before_end);
            self.near += u64::from(distance <= NEAR);
            self.seeks.add(distance);
            // Distances of nothing are counted at the end.
            self.seeks.keep_at_most(EXACT, self.sequential);
            self.strides.add(before_start, start);
        }
        self.multi_stream += u64::from(self.cursor.ends.contain(start));
        self.close_run();
    }

    /// Closes what is open; call once after the last request.
    fn finish(&mut self) {
        self.close_run();
        self.strides.finish();
        let others: Vec<u32> = self.others.keys().copied().collect();
        for dev in others {
            self.turn_to(dev);
            self.close_run();
        }
        self.near += self.sequential;
        self.seeks.add_many(0, self.sequential);
        self.seeks.settle();
    }

    fn close_run(&mut self) {
        let (requests, bytes) = std::mem::take(&mut self.cursor.run);
        if requests == 0 {
            return;
        }
        self.runs += 1;
        self.longest_run = self.longest_run.max(requests);
        let bits = crate::num::index(crate::num::bit_length(requests).into());
        if let Some(count) = self.run_lengths.get_mut(bits) {
            *count += 1;
        }
        if requests >= 8 {
            self.bytes_in_long_runs += bytes;
        }
    }

    /// Returns the share of seeks that are at most so many bytes, at 0 and at powers of two: the distribution of distances as a
    /// curve.
    #[must_use]
    pub fn seek_curve(&self) -> Vec<(u128, f64)> {
        let mut below = 0;
        let counts = self.seeks.log2_counts(1);
        counts
            .iter()
            .map(|(bits, count)| {
                below += count;
                // Distances of so many bits are at most one sector less than the next power of two.
                let most = ((1_u128 << bits) - 1) * u128::from(SECTOR_BYTES);
                (most, below as f64 / self.seeks.count as f64)
            })
            .collect()
    }

    /// Returns the commonest start-to-start distances with their counts; at equal counts the smaller distance first.
    #[must_use]
    pub fn top_strides(&self, top: usize) -> Vec<(i128, u64)> {
        self.strides.top(top)
    }

    /// Returns `true` if rare strides were forgotten, because there were more than a quarter of a million different ones.
    #[must_use]
    pub fn strides_are_approximate(&self) -> bool {
        self.strides.are_approximate()
    }
}

/// Sequentiality of reads, writes, and both together.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Sequentiality {
    /// Reads, writes, all.
    pub classes: [Class; 3],
}

impl Sequentiality {
    /// For one of many: only a few seeks and strides are kept exactly.
    pub(super) fn small() -> Self {
        let mut small = Self::default();
        for class in &mut small.classes {
            class.strides = Strides::keeping(SMALL);
        }
        small
    }

    /// Takes a run as [`Sequentiality::step`] does, of one of many.
    pub(super) fn step_small(&mut self, run: &Run) {
        self.step(run);
        for class in &mut self.classes {
            class.seeks.keep_at_most(SMALL, 0);
        }
    }

    /// Closes what is open as [`Sequentiality::finish`] does, of one of many.
    pub(super) fn finish_small(&mut self) {
        for class in &mut self.classes {
            class.seeks.keep_at_most(SMALL, class.sequential);
        }
        self.finish();
    }

    fn add(&mut self, run: &Run) {
        for slot in [run.direction.slot(), 2] {
            if let Some(class) = self.classes.get_mut(slot) {
                class.add(
                    run.dev,
                    run.sector,
                    run.nr_sector.into(),
                    run.bytes.into(),
                    run.count,
                );
            }
        }
    }

    /// Takes a run and says of its first request whether it starts where the one before of its direction ended, and whether
    /// where one of the last 32 did.
    pub(super) fn step(&mut self, run: &Run) -> (bool, bool) {
        let counts = |classes: &[Class; 3]| {
            let class = classes.get(run.direction.slot());
            class.map_or((0, 0), |class| (class.sequential, class.multi_stream))
        };
        let before = counts(&self.classes);
        self.add(run);
        let after = counts(&self.classes);
        let others = u64::from(run.count) - 1;
        (after.0 - before.0 > others, after.1 - before.1 > others)
    }

    /// Closes what is open; call once after the last event.
    pub fn finish(&mut self) {
        self.classes.iter_mut().for_each(Class::finish);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn runs_seeks_and_strides_are_those_of_counting(
            requests in prop::collection::vec((0_u64..6, 1_u64..3), 1..200)
        ) {
            let mut class = Class::default();
            let requests: Vec<(u64, u64)> = requests.iter().map(|(s, n)| (s * 2, *n)).collect();
            for (start, sectors) in &requests {
                class.add(0, *start, *sectors, sectors * 512, 1);
            }
            class.finish();
            let mut lengths = vec![1_u64];
            let mut strides: BTreeMap<i128, u64> = BTreeMap::new();
            let mut near = 0_u64;
            for pair in requests.windows(2) {
                let ((a, n), (b, _)) = (pair[0], pair[1]);
                if a + n == b {
                    *lengths.last_mut().unwrap() += 1;
                } else {
                    lengths.push(1);
                }
                near += u64::from(b.abs_diff(a + n) <= 3);
                *strides.entry(i128::from(b) - i128::from(a)).or_default() += 1;
            }
            let mut histogram = [0_u64; 65];
            for length in &lengths {
                histogram[length.ilog2() as usize + 1] += 1;
            }
            prop_assert_eq!(class.run_lengths, histogram);
            let mut strides: Vec<(i128, u64)> = strides.into_iter().collect();
            strides.sort_by_key(|(s, c)| (std::cmp::Reverse(*c), *s));
            strides.truncate(5);
            prop_assert_eq!(class.top_strides(5), strides);
            let curve = class.seek_curve();
            let share = curve.iter().rfind(|(most, _)| *most <= 3 * 512).map_or(0.0, |(_, s)| *s);
            let model = near as f64 / (requests.len() as f64 - 1.0);
            prop_assert!(requests.len() == 1 || (share - model).abs() < 1e-12);
        }
    }
}
