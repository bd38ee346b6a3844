//! Completed requests with their latencies, kept in blocks of successive completions so that depth can be found again within a block.

use crate::rwbs::Direction;

/// Requests of a block.
const BLOCK: usize = 4096;
/// Maximum number of blocks that are kept.
const MAX_BLOCKS: usize = 192;

/// A completed request, with data or without, such as a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// Time of issue in nanoseconds of the trace's clock.
    pub issue_ns: u64,
    /// Issue to completion in nanoseconds.
    pub latency_ns: u64,
    /// Bytes.
    pub bytes: u32,
    /// Number of the name of the process that issued it, 0 where unknown.
    pub comm: u32,
    /// What it was.
    pub direction: Direction,
}

impl Sample {
    /// Returns `true` for a write.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.direction == Direction::Write
    }

    /// Returns `true` if it moved data.
    #[must_use]
    pub const fn is_data(&self) -> bool {
        self.direction.is_data()
    }

    /// Returns when it completed.
    #[must_use]
    pub const fn end_ns(&self) -> u64 {
        self.issue_ns.saturating_add(self.latency_ns)
    }
}

/// Completed requests: all of them while they are few, else every second, fourth, eighth block of successive ones.
#[derive(Debug, Clone)]
pub struct Samples {
    blocks: Vec<Vec<Sample>>,
    open: Vec<Sample>,
    /// Requests of the open block, and its number.
    in_block: usize,
    number: u64,
    /// One in so many blocks is kept.
    every: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            open: Vec::new(),
            in_block: 0,
            number: 0,
            every: 1,
        }
    }
}

impl Samples {
    /// Takes the next request in order of completion.
    pub(super) fn add(&mut self, sample: Sample) {
        if self.number.is_multiple_of(self.every) {
            self.open.push(sample);
        }
        self.in_block += 1;
        if self.in_block < BLOCK {
            return;
        }
        self.in_block = 0;
        self.number += 1;
        if !self.open.is_empty() {
            self.blocks.push(std::mem::take(&mut self.open));
        }
        if self.blocks.len() > MAX_BLOCKS {
            let blocks = std::mem::take(&mut self.blocks);
            self.blocks = blocks.into_iter().step_by(2).collect();
            self.every *= 2;
        }
    }

    /// Returns `true` if every request is kept.
    #[must_use]
    pub fn are_all(&self) -> bool {
        self.every == 1
    }

    /// Returns the sum of depth times nanoseconds from one time until another, of all requests in flight meanwhile, whenever they were
    /// issued; `None` where not every request is kept.
    #[must_use]
    pub fn integral(&self, from_ns: u64, until_ns: u64) -> Option<u128> {
        let samples = self.blocks.iter().chain([&self.open]).flatten();
        let overlap = |sample: &Sample| {
            sample
                .end_ns()
                .min(until_ns)
                .saturating_sub(sample.issue_ns.max(from_ns))
        };
        self.are_all()
            .then(|| samples.map(|sample| u128::from(overlap(sample))).sum())
    }

    /// Returns the requests issued from one time until before another, in blocks of successive ones by time of issue; a single block
    /// while all are kept.
    #[must_use]
    pub fn within(&self, from_ns: u64, until_ns: u64) -> Vec<Vec<Sample>> {
        let is_in = |sample: &&Sample| (from_ns..until_ns).contains(&sample.issue_ns);
        let blocks = self.blocks.iter().chain([&self.open]);
        let blocks = blocks.map(|block| block.iter().filter(is_in).copied().collect::<Vec<_>>());
        let mut found: Vec<Vec<Sample>> = if self.are_all() {
            vec![blocks.flatten().collect()]
        } else {
            blocks.collect()
        };
        found.retain(|block| !block.is_empty());
        for block in &mut found {
            block.sort_by_key(|sample| (sample.issue_ns, sample.latency_ns));
        }
        found
    }
}
