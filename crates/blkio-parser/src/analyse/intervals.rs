//! How long data rests: from touch to touch, from a write to its first read, from write to write.
//!
//! Blocks are of 128 KiB, and each request touches each block that it overlaps once. Of the first million requests every
//! touch counts with its own time; after that the requests of a sequential run within 10 ms count as one touch, with the
//! time of the first of them. After a million runs one block in eight is watched, chosen by a hash of its address, and counts
//! eight times.

use super::Analyser;
use super::distribution::Distribution;
use super::numbers::Numbers;
use super::runs::{Batch, Run};
use crate::event::{Event, EventKind};
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

/// Runs of which the places are fetched at a time, and blocks from which on that pays.
const AHEAD: usize = 64;
const FAR: usize = 1 << 16;

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
    first_ns: Option<u64>,
    requests: u64,
    runs: u64,
    /// Whether requests of a run were taken as one.
    is_by_runs: bool,
    is_sampled: bool,
    pages: Numbers,
    blocks: Vec<Block>,
    /// From one touch to the next, in nanoseconds.
    pub reuse: Distribution,
    /// From a write to the first read of what it wrote.
    pub read_after_write: Distribution,
    /// From a write to the next.
    pub write_to_write: Distribution,
}

/// One page in eight, spread over the device.
fn is_watched(page: u64) -> bool {
    spread(page, 3) == 0
}

impl Intervals {
    /// Whether every touch of every block counts with its own time.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        !self.is_sampled && !self.is_by_runs
    }

    /// Forgets all blocks but some, which stand for the others from now on.
    fn sample(&mut self) {
        self.is_sampled = true;
        let blocks = std::mem::take(&mut self.blocks);
        for (page, place) in std::mem::take(&mut self.pages).in_order() {
            if is_watched(page) {
                self.pages.place(page, self.blocks.len());
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

    /// Looks at the first places that these runs need: one after the other each is waited for, here all are on their way at
    /// once.
    fn fetch(&self, runs: &[Run]) {
        let mut seen = 0;
        for run in runs {
            let block = run.sector / SECTORS;
            if run.is_data()
                && (!self.is_sampled || is_watched(block / PAGE))
                && let Some(page) = self.pages.known(block / PAGE)
                && let Some(known) = self.blocks.get(page + index(block % PAGE))
            {
                seen ^= known.touched;
            }
        }
        std::hint::black_box(seen);
    }

    /// The requests of a run, which were issued at these times.
    fn add(&mut self, run: &Run, times: &[u64]) {
        if !run.is_data() {
            return;
        }
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
        for t_ns in times {
            single.since_ns = run.since_ns.saturating_add(t_ns.saturating_sub(run.t_ns));
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
            let (page, is_new) = self.pages.place(block / PAGE, self.blocks.len());
            if is_new {
                let length = self.blocks.len() + index(PAGE);
                self.blocks.resize(length, Block::default());
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
    fn observe(&mut self, event: &Event) {
        if event.kind == EventKind::Issue {
            let first = *self.first_ns.get_or_insert(event.t_ns);
            self.add(
                &Run::of(event, event.t_ns.saturating_sub(first)),
                &[event.t_ns],
            );
        }
    }

    fn observe_batch(&mut self, batch: &Batch) {
        let mut times = batch.shape.times.as_slice();
        for runs in batch.shape.runs.chunks(AHEAD) {
            if self.blocks.len() >= FAR {
                self.fetch(runs);
            }
            for run in runs {
                let count = index(run.count.into()).min(times.len());
                let (these, rest) = times.split_at(count);
                times = rest;
                self.add(run, these);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sample_of_blocks_stands_for_all() {
        let mut intervals = Intervals::default();
        // 4,000 pages, each touched every 4 ms.
        let rounds = 400;
        for number in 0..rounds * 4_000_u64 {
            intervals.observe(&Event {
                t_ns: number * 1_000,
                sector: number % 4_000 * PAGE * SECTORS,
                nr_sector: 8,
                ..Event::BLANK
            });
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
                intervals.observe(&Event {
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
