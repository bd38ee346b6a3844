//! Reserved memory that nothing uses.

use std::collections::BTreeMap;

use super::{BlockState, DeviceMemory};

/// Reserved memory of one pool of a device when the snapshot was taken.
///
/// `allocated + awaiting_free + split + releasable == reserved`, unless blocks are missing from the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fragmentation {
    /// The pool: (0, 0) is that of all memory outside of CUDA graphs.
    pub pool: (i64, i64),
    /// Number of segments.
    pub segments: u64,
    /// Sum of the segments.
    pub reserved_bytes: i64,
    /// Blocks that tensors use.
    pub allocated_bytes: i64,
    /// Blocks that were released and may still be used by another stream.
    pub awaiting_free_bytes: i64,
    /// Free blocks of segments that are in use: `empty_cache` cannot give them back.
    pub split_bytes: i64,
    /// Number of these.
    pub split_blocks: u64,
    /// Part of these outside of the largest one of their pool: what makes memory fragmented. One free block at the end of a
    /// segment is none.
    pub scattered_bytes: i64,
    /// Segments without a used block, which `empty_cache` gives back.
    pub releasable_bytes: i64,
    /// The largest free block: a larger allocation needs new memory.
    pub largest_free_bytes: i64,
    /// Part of the used blocks that was not asked for: sizes are rounded up.
    pub rounding_bytes: i64,
}

impl Fragmentation {
    /// Adds another pool.
    pub fn add(&mut self, other: &Self) {
        self.segments += other.segments;
        self.split_blocks += other.split_blocks;
        for (sum, more) in [
            (&mut self.reserved_bytes, other.reserved_bytes),
            (&mut self.allocated_bytes, other.allocated_bytes),
            (&mut self.awaiting_free_bytes, other.awaiting_free_bytes),
            (&mut self.split_bytes, other.split_bytes),
            (&mut self.scattered_bytes, other.scattered_bytes),
            (&mut self.releasable_bytes, other.releasable_bytes),
            (&mut self.rounding_bytes, other.rounding_bytes),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.largest_free_bytes = self.largest_free_bytes.max(other.largest_free_bytes);
    }
}

/// Returns the reserved memory of a device by pool, in ascending order.
pub fn fragmentation(device: &DeviceMemory) -> Vec<Fragmentation> {
    let mut pools: BTreeMap<(i64, i64), Fragmentation> = BTreeMap::new();
    // The largest free block of the used segments of each pool.
    let mut largest: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for segment in &device.segments {
        let mut own = Fragmentation {
            pool: segment.pool,
            segments: 1,
            reserved_bytes: segment.bytes,
            ..Fragmentation::default()
        };
        let mut free = (0_u64, 0_i64);
        for block in &segment.blocks {
            let sum = match block.state {
                BlockState::Allocated => &mut own.allocated_bytes,
                BlockState::AwaitingFree => &mut own.awaiting_free_bytes,
                BlockState::Inactive => {
                    own.largest_free_bytes = own.largest_free_bytes.max(block.bytes);
                    free.0 += 1;
                    &mut free.1
                }
            };
            *sum = sum.saturating_add(block.bytes);
            if block.state != BlockState::Inactive {
                let rounding = block.bytes.saturating_sub(block.requested_bytes);
                own.rounding_bytes = own.rounding_bytes.saturating_add(rounding);
            }
        }
        let is_used = own.allocated_bytes > 0 || own.awaiting_free_bytes > 0;
        match is_used {
            true => {
                (own.split_blocks, own.split_bytes) = free;
                let known = largest.entry(segment.pool).or_default();
                *known = (*known).max(own.largest_free_bytes);
            }
            false => own.releasable_bytes = free.1,
        }
        let pool = pools.entry(segment.pool).or_insert_with(|| Fragmentation {
            pool: segment.pool,
            ..Fragmentation::default()
        });
        pool.add(&own);
    }
    for (pool, of) in &mut pools {
        let largest = largest.get(pool).copied().unwrap_or(0);
        of.scattered_bytes = of.split_bytes.saturating_sub(largest);
    }
    pools.into_values().collect()
}
