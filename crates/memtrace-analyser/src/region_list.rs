//! The regions of an analysis, as many as there are.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use spill_sort::{Item, Order, SpillList, word};

use crate::error::Result;
use crate::result::RegionMetrics;

/// The regions of an analysis by id. Those that do not fit in a share of the budget are in a file without a name, so that reading
/// them can fail.
///
/// ```
/// use memtrace_analyser::{AnalysisOptions, compute_all};
/// use memtrace_labeller::{Access, Name, Names};
///
/// let mut row = Access::new(7, 0x1000);
/// (row.region_type, row.region_id) = (Name::WEIGHT, 1);
/// let analysis = compute_all(&[row], &Names::new(), AnalysisOptions::default())?;
/// for region in &analysis.regions {
///     assert_eq!(region?.first_write_ns, 7);
/// }
/// assert_eq!(analysis.regions.len(), 1);
/// # Ok::<(), memtrace_analyser::Error>(())
/// ```
#[derive(Clone)]
pub struct RegionList {
    list: Arc<SpillList<RegionMetrics>>,
}

impl RegionList {
    pub(crate) fn new(list: SpillList<RegionMetrics>) -> Self {
        Self {
            list: Arc::new(list),
        }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The region at an index from 0; `None` behind the last one.
    ///
    /// # Errors
    ///
    /// When what was spilled cannot be read.
    pub fn get(&self, at: u64) -> Result<Option<RegionMetrics>> {
        Ok(self.list.get(at)?)
    }

    /// All of them by id; an error when what was spilled cannot be read.
    #[must_use]
    pub fn iter(&self) -> Regions<'_> {
        Regions(self.list.iter())
    }
}

impl<'a> IntoIterator for &'a RegionList {
    type Item = Result<RegionMetrics>;
    type IntoIter = Regions<'a>;

    fn into_iter(self) -> Regions<'a> {
        self.iter()
    }
}

impl fmt::Debug for RegionList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().flatten()).finish()
    }
}

impl PartialEq for RegionList {
    /// Whether all regions are equal, and can be read.
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (Result<RegionMetrics>, Result<RegionMetrics>)| matches!((a, b), (Ok(a), Ok(b)) if a == b);
        self.len() == other.len() && self.iter().zip(other).all(same)
    }
}

/// The regions of a [`RegionList`].
#[derive(Debug)]
pub struct Regions<'a>(spill_sort::Items<'a, RegionMetrics>);

impl Iterator for Regions<'_> {
    type Item = Result<RegionMetrics>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map_err(Into::into))
    }
}

/// Stands for a time that is not known.
const NEVER: u64 = u64::MAX;

impl Item for RegionMetrics {
    const BYTES: usize = 21 * 8;

    fn put(&self, out: &mut Vec<u8>) {
        let words = [
            self.region_id,
            self.type_index as u64,
            self.first_write_ns,
            self.last_read_ns,
            self.retention_ns,
            self.total_reads,
            self.total_writes,
            self.weighted_reads,
            self.weighted_writes,
            self.unique_pages,
            self.n_written_addresses,
            self.n_write_once_addresses,
            self.n_accesses,
            self.mean_stride_bytes.to_bits(),
            self.median_stride_bytes.to_bits(),
            self.same_page_fraction.to_bits(),
            self.gap_ns,
            u64::from(self.begun_before) | u64::from(self.may_begin_before) << 1,
            self.return_ns,
            self.allocated_ns.unwrap_or(NEVER),
            self.freed_ns.unwrap_or(NEVER),
        ];
        for value in words {
            value.put(out);
        }
    }

    fn get(bytes: &[u8]) -> Self {
        let at = |place: usize| word(bytes, place * 8);
        Self {
            region_id: at(0),
            type_index: usize::try_from(at(1)).unwrap_or(usize::MAX),
            first_write_ns: at(2),
            last_read_ns: at(3),
            retention_ns: at(4),
            total_reads: at(5),
            total_writes: at(6),
            weighted_reads: at(7),
            weighted_writes: at(8),
            unique_pages: at(9),
            n_written_addresses: at(10),
            n_write_once_addresses: at(11),
            n_accesses: at(12),
            mean_stride_bytes: f64::from_bits(at(13)),
            median_stride_bytes: f64::from_bits(at(14)),
            same_page_fraction: f64::from_bits(at(15)),
            gap_ns: at(16),
            begun_before: at(17) & 1 == 1,
            may_begin_before: at(17) & 2 == 2,
            return_ns: at(18),
            allocated_ns: Some(at(19)).filter(|time| *time != NEVER),
            freed_ns: Some(at(20)).filter(|time| *time != NEVER),
        }
    }
}

/// A region and its index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed {
    pub(crate) at: u32,
    pub(crate) metrics: RegionMetrics,
}

impl Item for Placed {
    const BYTES: usize = RegionMetrics::BYTES + 8;

    fn put(&self, out: &mut Vec<u8>) {
        u64::from(self.at).put(out);
        self.metrics.put(out);
    }

    fn get(bytes: &[u8]) -> Self {
        Self {
            at: u32::try_from(word(bytes, 0)).unwrap_or(u32::MAX),
            metrics: RegionMetrics::get(bytes.get(8..).unwrap_or_default()),
        }
    }
}

/// Regions by id.
#[derive(Debug)]
pub(crate) struct ById;

impl Order for ById {
    type Item = Placed;

    fn compare(a: &Placed, b: &Placed) -> Ordering {
        a.metrics.region_id.cmp(&b.metrics.region_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_come_back_from_bytes() {
        let mut bytes: Vec<u8> = (1_u8..=168).collect();
        bytes[17 * 8..18 * 8].copy_from_slice(&2_u64.to_le_bytes());
        // Reals with a fraction and the sign of none.
        bytes[13 * 8..14 * 8].copy_from_slice(&1.5_f64.to_le_bytes());
        bytes[14 * 8..15 * 8].copy_from_slice(&(-0.25_f64).to_le_bytes());
        let metrics = RegionMetrics::get(&bytes);
        assert_eq!(metrics.region_id, 0x0807_0605_0403_0201);
        assert!((metrics.mean_stride_bytes - 1.5).abs() < 1e-12);
        let mut out = Vec::new();
        Placed { at: 77, metrics }.put(&mut out);
        assert_eq!(out.len(), Placed::BYTES);
        let placed = Placed::get(&out);
        assert_eq!((placed.at, placed.metrics), (77, metrics));
        assert_eq!(&out[8..], &bytes[..]);
    }
}
