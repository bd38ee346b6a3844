//! Memory that was given out and not given back.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::filter::Filter;
use crate::info::Process;
use crate::numbers::real;
use crate::records::{AllocLevel, AllocType, Allocation};
use crate::scan::Order;
use crate::set::RocpdSet;

/// What the allocations of an agent come to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LiveMemory<'a> {
    /// The process.
    pub process: &'a Process,
    /// Absolute index of the agent; nothing where allocations name none.
    pub agent: Option<i64>,
    /// The most bytes in use at once.
    pub peak_bytes: i64,
    /// Bytes in use at the end of the recording.
    pub end_bytes: i64,
    /// Allocations that were not freed.
    pub unfreed: u64,
    /// The largest of them, bytes.
    pub largest_unfreed_bytes: i64,
    /// Growth of the bytes in use: slope of the least-squares line through their values after each change, bytes per
    /// second. Nothing with fewer than two changes.
    pub slope_bytes_per_s: Option<f64>,
}

/// Sums for a least-squares line.
#[derive(Debug, Default)]
struct Line {
    first_ns: Option<i64>,
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Line {
    fn add(&mut self, at_ns: i64, value: i64) {
        let first = *self.first_ns.get_or_insert(at_ns);
        let (x, y) = (real(at_ns.saturating_sub(first)) / 1e9, real(value));
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    fn slope(&self) -> Option<f64> {
        let spread = self.n * self.xx - self.x * self.x;
        (self.n >= 2.0 && spread > 0.0).then(|| (self.n * self.xy - self.x * self.y) / spread)
    }
}

/// Peak, rest and growth of allocated memory by process and agent; scratch and reserved addresses apart.
///
/// Frees are matched to allocations by address, and count when their call ends. Memory: the allocations that are live.
///
/// # Errors
///
/// When a file is damaged.
pub fn live_memory<'a>(set: &'a RocpdSet, filter: &'a Filter) -> Result<Vec<LiveMemory<'a>>> {
    let mut out = Vec::new();
    for partition in 0..set.partitions().len() {
        let mut agents: BTreeMap<(i64, Option<i64>), (LiveMemory<'a>, Line)> = BTreeMap::new();
        let mut live: FxHashMap<(i64, i64), (Option<i64>, i64)> = FxHashMap::default();
        for allocation in set.scan_partition::<Allocation<'_>>(partition, filter, Order::Start)? {
            let r = allocation?;
            if matches!(r.level, AllocLevel::Scratch | AllocLevel::Virtual) {
                continue;
            }
            let place = (r.process.id, r.address.unwrap_or(0));
            let mut change = |agent: Option<i64>, bytes: i64| {
                let (row, line) = agents.entry((r.process.id, agent)).or_insert_with(|| {
                    let row = LiveMemory {
                        process: r.process,
                        agent,
                        peak_bytes: 0,
                        end_bytes: 0,
                        unfreed: 0,
                        largest_unfreed_bytes: 0,
                        slope_bytes_per_s: None,
                    };
                    (row, Line::default())
                });
                row.end_bytes = row.end_bytes.saturating_add(bytes);
                row.peak_bytes = row.peak_bytes.max(row.end_bytes);
                line.add(r.end_ns, row.end_bytes);
            };
            if let Some((agent, bytes)) = live.remove(&place) {
                change(agent, bytes.saturating_neg());
            }
            if matches!(r.kind, AllocType::Alloc | AllocType::Realloc) {
                let agent = r.agent.and_then(|agent| agent.absolute_index);
                change(agent, r.size_bytes);
                live.insert(place, (agent, r.size_bytes));
            }
        }
        // Counts and a maximum do not depend on the order.
        #[expect(
            clippy::iter_over_hash_type,
            reason = "only counts and a maximum are made"
        )]
        for ((process, _), (agent, bytes)) in live {
            if let Some((row, _)) = agents.get_mut(&(process, agent)) {
                row.unfreed += 1;
                row.largest_unfreed_bytes = row.largest_unfreed_bytes.max(bytes);
            }
        }
        out.extend(agents.into_values().map(|(mut row, line)| {
            row.slope_bytes_per_s = line.slope();
            row
        }));
    }
    Ok(out)
}
