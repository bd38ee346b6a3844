//! Times between touches of a block: from touch to touch, from a write to its first read, from write to write.
//!
//! Blocks are of 128 KiB, and each request touches each block that it overlaps once. Of the first million requests every
//! touch counts with its own time; after that the requests of a sequential run within 10 ms count as one touch, with the
//! time of the first of them. After a million runs one block in eight is watched, chosen by a hash of its address, and counts
//! eight times.

use rustc_hash::FxHashMap;

use super::Analyser;
use super::distribution::Distribution;
use super::runs::{Batch, Run};
use crate::event::Event;
use crate::num::{index, spread};
use crate::rwbs::Direction;

/// Sectors of a block.
const SECTORS: u64 = 256;
/// Blocks that are kept together.
const PAGE: u64 = 64;
/// Requests that are looked at one by one.
const SINGLE_REQUESTS: u64 = 1 << 20;
/// Runs of which every block counts, and blocks up to which it does.
const EXACT_RUNS: u64 = 1 << 20;
const EXACT_BLOCKS: usize = 1 << 20;
/// One page in so many is watched after that.
const ONE_IN: u64 = 8;

/// Times since the first issue, plus 1 nanosecond; 0 for never.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    touched: u64,
    /// Twice the time, and 1 when the data was read since.
    written: u64,
}

/// Equal intervals of neighbours, counted before they go to a distribution.
#[derive(Debug, Default)]
struct Alike {
    interval_ns: u64,
    count: u64,
}

impl Alike {
    #[inline]
    fn add(&mut self, now: u64, then: u64, weight: u64, all: &mut Distribution) {
        if then == 0 {
            return;
        }
        let interval_ns = now.saturating_sub(then);
        if interval_ns != self.interval_ns {
            self.settle(all);
            self.interval_ns = interval_ns;
        }
        self.count += weight;
    }

    fn settle(&mut self, all: &mut Distribution) {
        all.add_many(self.interval_ns, std::mem::take(&mut self.count));
    }
}

/// Intervals between touches of the same block.
#[derive(Debug, Clone, Default)]
pub struct Intervals {
    requests: u64,
    runs: u64,
    /// `true` if requests of a run were taken as one.
    is_by_runs: bool,
    is_sampled: bool,
    pages: FxHashMap<u64, usize>,
    blocks: Vec<Block>,
    /// Time from one touch to the next, in nanoseconds.
    pub reuse: Distribution,
    /// Time from a write to the first read of what it wrote.
    pub read_after_write: Distribution,
    /// Time from a write to the next.
    pub write_to_write: Distribution,
}

/// One page in eight, spread over the device.
fn is_watched(page: u64) -> bool {
    spread(page, 3) == 0
}

impl Intervals {
    /// Returns `true` if every touch of every block counts with its own time.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !self.is_sampled && !self.is_by_runs
    }

    /// Forgets all blocks but some, which stand for the others from now on.
    fn sample(&mut self) {
        self.is_sampled = true;
        let blocks = std::mem::take(&mut self.blocks);
        let mut pages: Vec<(u64, usize)> = std::mem::take(&mut self.pages).into_iter().collect();
        pages.sort_unstable();
        for (page, place) in pages {
            if is_watched(page) {
                self.pages.insert(page, self.blocks.len());
                let known = blocks.get(place..place + index(PAGE));
                self.blocks.extend_from_slice(known.unwrap_or_default());
            }
        }
    }

    /// Sorts what percentiles need; call once after the last event.
    pub fn finish(&mut self) {
        self.reuse.settle();
        self.read_after_write.settle();
        self.write_to_write.settle();
    }

    /// The requests of a run, which are these.
    fn add<'a>(&mut self, run: &Run, requests: impl Iterator<Item = &'a Event>) {
        self.runs += 1;
        if run.count == 1 {
            self.requests += 1;
            return self.touch(run);
        }
        if self.requests >= SINGLE_REQUESTS {
            self.is_by_runs = true;
            return self.touch(run);
        }
        self.requests += u64::from(run.count);
        let mut single = Run { count: 1, ..*run };
        for request in requests {
            single.since_ns = run
                .since_ns
                .saturating_add(request.t_ns.saturating_sub(run.t_ns));
            self.touch(&single);
            single.sector = single.end();
        }
    }

    fn touch(&mut self, run: &Run) {
        if !self.is_sampled && (self.runs > EXACT_RUNS || self.blocks.len() > EXACT_BLOCKS) {
            self.sample();
        }
        let weight = if self.is_sampled { ONE_IN } else { 1 };
        // No trace lasts three hundred years.
        let now = run.since_ns.min(u64::MAX >> 2) + 1;
        let write = run.direction == Direction::Write;
        let last = run.end().saturating_sub(1) / SECTORS;
        let mut block = run.sector / SECTORS;
        let (mut reuse, mut read, mut written) = <(Alike, Alike, Alike)>::default();
        while block <= last {
            let end = last.min(block | (PAGE - 1));
            if weight > 1 && !is_watched(block / PAGE) {
                block = end + 1;
                continue;
            }
            let next = self.blocks.len();
            let page = *self.pages.entry(block / PAGE).or_insert(next);
            if page == next {
                self.blocks.resize(next + index(PAGE), Block::default());
            }
            let start = page + index(block % PAGE);
            let blocks = self.blocks.get_mut(start..=start + index(end - block));
            for known in blocks.into_iter().flatten() {
                reuse.add(now, known.touched, weight, &mut self.reuse);
                known.touched = now;
                let then = known.written >> 1;
                if write {
                    written.add(now, then, weight, &mut self.write_to_write);
                    known.written = now << 1;
                } else if known.written & 1 == 0 {
                    read.add(now, then, weight, &mut self.read_after_write);
                    known.written |= 1;
                }
            }
            block = end + 1;
        }
        reuse.settle(&mut self.reuse);
        read.settle(&mut self.read_after_write);
        written.settle(&mut self.write_to_write);
    }
}

impl Analyser for Intervals {
    fn observe(&mut self, batch: &Batch) {
        let mut requests = batch.issued();
        for run in &batch.runs {
            let mut these = requests.by_ref().take(index(run.count.into()));
            if run.is_data() {
                self.add(run, &mut these);
            }
            these.for_each(drop);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Takes an issue as a run of its own.
    fn observe(intervals: &mut Intervals, event: Event) {
        intervals.add(&Run::of(&event, event.t_ns), std::iter::once(&event));
    }

    #[test]
    fn a_sample_of_blocks_stands_for_all() {
        let mut intervals = Intervals::default();
        // 4,000 pages, each touched every 4 ms.
        let rounds = 400;
        for number in 0..rounds * 4_000_u64 {
            observe(
                &mut intervals,
                Event {
                    t_ns: number * 1_000,
                    sector: number % 4_000 * PAGE * SECTORS,
                    nr_sector: 8,
                    ..Event::BLANK
                },
            );
        }
        assert!(!intervals.is_exact());
        let wanted = ((rounds - 1) * 4_000) as f64;
        let found = intervals.reuse.count as f64;
        assert!((found / wanted - 1.0).abs() < 0.05, "{found} of {wanted}");
        assert_eq!(
            (intervals.reuse.min, intervals.reuse.max),
            (4_000_000, 4_000_000)
        );
    }

    proptest! {
        #[test]
        fn intervals_are_those_of_looking_back(
            requests in prop::collection::vec((0_u64..9, 0_u64..200, 1_u64..40, any::<bool>()), 0..80)
        ) {
            let mut intervals = Intervals::default();
            let mut now = 50;
            // Every touch of every block: block, time, write.
            let mut touches: Vec<(u64, u64, bool)> = Vec::new();
            let (mut reuse, mut read, mut written) = (Vec::new(), Vec::new(), Vec::new());
            for (gap, first, count, write) in requests {
                now += gap;
                let direction = if write { Direction::Write } else { Direction::Read };
                observe(&mut intervals, Event {
                    t_ns: now,
                    sector: first * SECTORS,
                    nr_sector: u32::try_from(count * SECTORS).unwrap(),
                    direction,
                    ..Event::BLANK
                });
                for block in first..first + count {
                    let before: Vec<(u64, bool)> = touches
                        .iter()
                        .filter(|(b, _, _)| *b == block)
                        .map(|(_, t, w)| (*t, *w))
                        .collect();
                    reuse.extend(before.last().map(|(t, _)| now - t));
                    let last_write = before.iter().rposition(|(_, w)| *w);
                    if let Some(at) = last_write {
                        let interval = now - before[at].0;
                        if write {
                            written.push(interval);
                        } else if at + 1 == before.len() {
                            read.push(interval);
                        }
                    }
                    touches.push((block, now, write));
                }
            }
            for (found, mut wanted) in [
                (&mut intervals.reuse, reuse),
                (&mut intervals.read_after_write, read),
                (&mut intervals.write_to_write, written),
            ] {
                wanted.sort_unstable();
                prop_assert_eq!(found.count, wanted.len() as u64);
                prop_assert_eq!(found.sum, wanted.iter().map(|v| u128::from(*v)).sum::<u128>());
                let median = wanted.get(wanted.len().div_ceil(2).saturating_sub(1)).copied();
                prop_assert_eq!(found.percentiles(&[50.0]).first().copied(), median);
            }
        }
    }
}
