//! The quantities of the published figures, in the published arithmetic.

use std::collections::{BTreeMap, BTreeSet};

use crate::access_shares::cumulative;
use blkio_parser::FirstSizes;
use blkio_parser::Stats;
use blkio_parser::Symbols;
use blkio_parser::analyse::access::SectorAccess;
use blkio_parser::analyse::traffic::PerOperation;
use blkio_parser::{Direction, Rwbs};

/// Maximum number of seconds a dense list may have: beyond, a time stamp is wrong rather than the run long.
const MAX_SECONDS: u64 = 1 << 22;

/// Requests and traffic of one group of operations: a text of letters, `ALL_READS` or `ALL_WRITES`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Group {
    /// Requests by whole KiB.
    pub sizes_kib: BTreeMap<u64, u64>,
    /// The same sizes in the order in which they first stand in the inputs; ascending where that was not noted
    /// ([`ReadOptions::first_sizes`](blkio_parser::pipeline::ReadOptions::first_sizes)).
    pub order_kib: Vec<u64>,
    /// KiB by whole second of the trace's clock; seconds without traffic are left out.
    pub kib: BTreeMap<u64, u64>,
}

impl Group {
    fn add(&mut self, operation: &PerOperation) {
        #[expect(
            clippy::iter_over_hash_type,
            reason = "sums do not depend on the order"
        )]
        for (bytes, count) in &operation.sizes {
            *self.sizes_kib.entry(u64::from(bytes >> 10)).or_default() += count;
        }
        for (second, amount) in operation.kib_per_second.finish() {
            *self.kib.entry(second).or_default() += amount.bytes;
        }
    }

    /// Returns the first and last second.
    #[must_use]
    pub fn seconds(&self) -> Option<(u64, u64)> {
        let first = *self.kib.keys().next()?;
        let last = *self.kib.keys().next_back()?;
        Some((first, last))
    }

    /// KiB of every second from the first to the last, with zeros in gaps; `None` for an absurd length.
    #[must_use]
    pub fn dense(&self) -> Option<Vec<u64>> {
        match self.seconds() {
            None => Some(Vec::new()),
            Some((first, last)) => self.dense_between(first, last),
        }
    }

    /// KiB of every second of a range.
    #[must_use]
    pub fn dense_between(&self, first: u64, last: u64) -> Option<Vec<u64>> {
        (last.saturating_sub(first) < MAX_SECONDS).then(|| {
            (first..=last)
                .map(|second| self.kib.get(&second).copied().unwrap_or(0))
                .collect()
        })
    }

    /// Returns the published time stamps of the same list: inside gaps each is one second early, so labels repeat.
    #[must_use]
    pub fn published_ts(&self) -> Option<Vec<u64>> {
        let Some((first, last)) = self.seconds() else {
            return Some(Vec::new());
        };
        (last - first < MAX_SECONDS).then(|| {
            (first..=last)
                .map(|second| {
                    if self.kib.contains_key(&second) {
                        second
                    } else {
                        second - 1
                    }
                })
                .collect()
        })
    }
}

/// All groups in the published order: reads, writes, then each text by first appearance.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Series {
    /// Requests of any kind.
    pub requests: u64,
    /// Names and groups.
    pub groups: Vec<(String, Group)>,
    /// Access count to number of sectors, by text of letters.
    pub access: Vec<(String, BTreeMap<u64, u64>)>,
    /// Smallest and largest first sector, most sectors.
    pub sectors: Option<(u64, u64, u32)>,
}

/// Name of the group of all reads.
pub const ALL_READS: &str = "ALL_READS";
/// Name of the group of all writes.
pub const ALL_WRITES: &str = "ALL_WRITES";

impl Series {
    /// Makes the series of a trace. By the published rule a request is in the group of reads when its letters hold an `R`, of
    /// writes when they hold a `W`; that differs from the operation that the letters mean for zone resets only.
    #[must_use]
    pub fn published(stats: &mut Stats) -> Self {
        Self::grouped(stats, Rwbs::contains_r, Rwbs::contains_w)
    }

    /// Makes the series as [`Series::published`] does, but reads and writes are what the letters mean.
    #[must_use]
    pub fn of(stats: &mut Stats) -> Self {
        Self::grouped(
            stats,
            |rwbs| rwbs.decode().direction == Direction::Read,
            |rwbs| rwbs.decode().direction == Direction::Write,
        )
    }

    /// Makes the series by the published rule or by what the letters mean.
    #[must_use]
    pub fn by(stats: &mut Stats, compat: bool) -> Self {
        if compat {
            Self::published(stats)
        } else {
            Self::of(stats)
        }
    }

    fn grouped(stats: &Stats, is_read: fn(&Rwbs) -> bool, is_write: fn(&Rwbs) -> bool) -> Self {
        let symbols = &stats.outcome.symbols;
        let operations = used(&stats.traffic.operations, symbols);
        let mut reads = Group::default();
        let mut writes = Group::default();
        let mut groups = Vec::new();
        for (rwbs, operation) in &operations {
            if is_read(rwbs) {
                reads.add(operation);
            }
            if is_write(rwbs) {
                writes.add(operation);
            }
            let mut group = Group::default();
            group.add(operation);
            groups.push((rwbs.to_string(), group));
        }
        let has = |test: fn(&Rwbs) -> bool| operations.iter().any(|(rwbs, _)| test(rwbs));
        let mut all = Vec::new();
        if has(is_read) {
            all.push((ALL_READS.to_owned(), reads));
        }
        if has(is_write) {
            all.push((ALL_WRITES.to_owned(), writes));
        }
        all.extend(groups);
        for (name, group) in &mut all {
            let belongs = |rwbs: &Rwbs| match name.as_str() {
                ALL_READS => is_read(rwbs),
                ALL_WRITES => is_write(rwbs),
                name => rwbs.as_str() == name,
            };
            group.order_kib = order_kib(stats, belongs);
            if group.order_kib.is_empty() {
                group.order_kib = group.sizes_kib.keys().copied().collect();
            }
        }
        let mut series = Self {
            requests: stats.traffic.issues,
            groups: all,
            ..Self::default()
        };
        if let Some(access) = &stats.access {
            series.take_access(access, symbols);
        }
        series
    }

    fn take_access(&mut self, access: &SectorAccess, symbols: &Symbols) {
        let used: Vec<&str> = self.groups.iter().map(|(name, _)| name.as_str()).collect();
        let mut counts = Vec::new();
        for (number, histogram) in access.operations.iter().enumerate() {
            let rwbs = u16::try_from(number).ok().and_then(|n| symbols.rwbs_of(n));
            let Some(rwbs) = rwbs.filter(|rwbs| used.contains(&rwbs.as_str())) else {
                continue;
            };
            counts.push((rwbs.to_string(), histogram.clone()));
        }
        self.access = counts;
        self.sectors = access
            .min_sector
            .zip(access.max_sector)
            .map(|(min, max)| (min, max, access.max_sectors));
    }

    /// Returns a group by name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups
            .iter()
            .find(|(group, _)| group == name)
            .map(|(_, group)| group)
    }

    /// Cumulative share of sectors by access count, of one text of letters.
    #[must_use]
    pub fn access_cdf(&self, name: &str) -> Option<Vec<(u64, f64)>> {
        let (_, histogram) = self.access.iter().find(|(group, _)| group == name)?;
        Some(cumulative(histogram))
    }

    /// Returns the first and last second with any request.
    #[must_use]
    pub fn seconds(&self) -> Option<(u64, u64)> {
        let ends = self.groups.iter().filter_map(|(_, group)| group.seconds());
        ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// Sizes of these operations in the order in which they first stand in the inputs; empty if that was not noted.
fn order_kib(stats: &Stats, belongs: impl Fn(&Rwbs) -> bool) -> Vec<u64> {
    let outcome = &stats.outcome;
    let noted = outcome.first_sizes.as_ref();
    let mut seen = BTreeSet::new();
    let sizes = noted.map(FirstSizes::in_order).unwrap_or_default().iter();
    sizes
        .filter(|(rwbs, _)| outcome.symbols.rwbs_of(*rwbs).is_some_and(|r| belongs(&r)))
        .map(|(_, kib)| u64::from(*kib))
        .filter(|kib| seen.insert(*kib))
        .collect()
}

/// Operations that were issued, with their letters.
fn used<'a>(operations: &'a [PerOperation], symbols: &Symbols) -> Vec<(Rwbs, &'a PerOperation)> {
    operations
        .iter()
        .enumerate()
        .filter(|(_, operation)| !operation.sizes.is_empty())
        .filter_map(|(number, operation)| {
            let rwbs = symbols.rwbs_of(u16::try_from(number).ok()?)?;
            Some((rwbs, operation))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_and_the_published_stamps_are_early_in_them() {
        let group = Group {
            kib: BTreeMap::from([(10, 5), (13, 7)]),
            ..Group::default()
        };
        assert_eq!(group.dense().unwrap(), [5, 0, 0, 7]);
        assert_eq!(group.published_ts().unwrap(), [10, 10, 11, 13]);
        let absurd = Group {
            kib: BTreeMap::from([(0, 5), (u64::MAX / 2, 7)]),
            ..Group::default()
        };
        assert_eq!(absurd.dense(), None);
    }
}
