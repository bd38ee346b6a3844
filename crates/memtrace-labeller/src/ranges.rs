//! Address ranges whose type is known from elsewhere: mappings, tensors, allocations.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::access::PAGE_BITS;
use crate::error::{Error, Result};
use crate::names::{Name, Names};
use crate::range_index::{RangeIndex, Span};

/// A range of addresses of one type, valid for a stretch of time.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct AddressRange {
    /// First address.
    pub addr_start: u64,
    /// First address after it.
    pub addr_end: u64,
    /// Region type.
    pub region_type: String,
    /// What it holds: a tensor, a file.
    #[serde(default)]
    pub name: Option<String>,
    /// From when it is valid; always when absent.
    #[serde(default)]
    pub from_ns: Option<u64>,
    /// Until when, exclusive; for ever when absent.
    #[serde(default)]
    pub to_ns: Option<u64>,
    /// Whether it is one allocation of one block of the KV cache: a region of its own, whose life ends with the range.
    #[serde(default)]
    pub is_block: bool,
    /// Number of that block in the engine's table.
    #[serde(default)]
    pub block_id: Option<u64>,
}

impl AddressRange {
    /// A range that is always valid.
    #[must_use]
    pub fn new(addr_start: u64, addr_end: u64, region_type: impl Into<String>) -> Self {
        Self {
            addr_start,
            addr_end,
            region_type: region_type.into(),
            name: None,
            from_ns: None,
            to_ns: None,
            is_block: false,
            block_id: None,
        }
    }

    /// As one block of the KV cache, which has this number in the engine's table.
    #[must_use]
    pub fn as_block(mut self, id: u64) -> Self {
        self.is_block = true;
        self.block_id = Some(id);
        self
    }

    /// With a name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Valid in `[from_ns, to_ns)` only.
    #[must_use]
    pub fn valid(mut self, from_ns: Option<u64>, to_ns: Option<u64>) -> Self {
        self.from_ns = from_ns;
        self.to_ns = to_ns;
        self
    }

    /// First and last page, as the reference counts them: an empty range has one page.
    pub(crate) fn pages(&self) -> (u64, u64) {
        let last = self.addr_end.max(self.addr_start.saturating_add(1)) - 1;
        (self.addr_start >> PAGE_BITS, last >> PAGE_BITS)
    }
}

/// Reads ranges from JSON: a list of [`AddressRange`], or one under `regions`.
///
/// # Errors
///
/// [`Error::Ranges`], and [`Error::AddressRange`] for a range that ends before it begins, in addresses or in time.
///
/// ```
/// let text = br#"{"regions": [{"addr_start": 4096, "addr_end": 8192, "region_type": "kv_cache"}]}"#;
/// let ranges = memtrace_labeller::ranges_from_json("regions.json", text)?;
/// assert_eq!(ranges[0].addr_end, 8192);
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
pub fn ranges_from_json(name: &str, text: &[u8]) -> Result<Vec<AddressRange>> {
    #[derive(Deserialize)]
    struct File {
        regions: Vec<AddressRange>,
    }
    // The first byte tells the two forms apart, so that mistakes are named with their line.
    let is_list = text.trim_ascii_start().starts_with(b"[");
    let read = match is_list {
        true => serde_json::from_slice(text),
        false => serde_json::from_slice(text).map(|file: File| file.regions),
    };
    let regions: Vec<AddressRange> = read.map_err(|source| Error::Ranges {
        name: name.to_owned(),
        source,
    })?;
    for (at, range) in regions.iter().enumerate() {
        let lasts = range
            .from_ns
            .zip(range.to_ns)
            .is_none_or(|(from, to)| from < to);
        if range.addr_end <= range.addr_start || !lasts {
            return Err(Error::AddressRange {
                name: name.to_owned(),
                at,
                start: range.addr_start,
                end: range.addr_end,
            });
        }
    }
    Ok(regions)
}

/// One range prepared for look-up.
#[derive(Debug, Clone)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) region_type: Name,
    pub(crate) name: Name,
    pub(crate) is_block: bool,
    pub(crate) block_id: Option<u64>,
    /// Order of registration: the first one wins.
    pub(crate) rank: usize,
}

/// Ranges in order of registration, and where they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct RangeMap {
    ranges: Vec<Range>,
    /// Made by the first look-up after ranges came.
    index: OnceLock<RangeIndex>,
}

impl RangeMap {
    pub(crate) fn extend(&mut self, list: &[AddressRange], names: &mut Names) {
        self.index = OnceLock::new();
        for range in list {
            let rank = self.ranges.len();
            self.ranges.push(Range {
                start: range.addr_start,
                end: range.addr_end.max(range.addr_start.saturating_add(1)),
                from_ns: range.from_ns.unwrap_or(0),
                to_ns: range.to_ns.unwrap_or(u64::MAX),
                region_type: names.intern(&range.region_type),
                name: range
                    .name
                    .as_deref()
                    .map_or(Name::NULL, |name| names.intern(name)),
                is_block: range.is_block,
                block_id: range.block_id,
                rank,
            });
        }
    }

    /// The first registered range that covers an address at a time.
    pub(crate) fn find(&self, address: u64, time_ns: u64) -> Option<&Range> {
        let index = self.index.get_or_init(|| {
            let spans: Vec<Span> = self
                .ranges
                .iter()
                .map(|range| Span {
                    start: range.start,
                    end: range.end,
                    from_ns: range.from_ns,
                    to_ns: range.to_ns,
                })
                .collect();
            RangeIndex::new(&spans)
        });
        self.ranges.get(index.find(address, time_ns)?)
    }

    /// The largest number of a block of a table.
    pub(crate) fn last_block_id(&self) -> Option<u64> {
        self.ranges.iter().filter_map(|range| range.block_id).max()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

/// Pages that are in any of the ranges so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct PageSet {
    /// First and last page of stretches that do not touch or overlap.
    stretches: BTreeMap<u64, u64>,
}

impl PageSet {
    /// Adds the pages from `first` to `last`; gives the stretches of them that were not there.
    pub(crate) fn add(&mut self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let mut fresh = Vec::new();
        let (mut start, mut end, mut next) = (first, last, Some(first));
        // Backwards from the last stretch that begins before the end, then in order: those that are met become one.
        let mut met: Vec<(u64, u64)> = self
            .stretches
            .range(..=last.saturating_add(1))
            .rev()
            .map(|(start, end)| (*start, *end))
            .take_while(|(_, end)| end.saturating_add(1) >= first)
            .collect();
        met.reverse();
        for (low, high) in met {
            self.stretches.remove(&low);
            if let Some(from) = next
                && from < low
                && from <= last
            {
                fresh.push((from, last.min(low - 1)));
            }
            next = next.and_then(|from| Some(from.max(high.checked_add(1)?)));
            (start, end) = (start.min(low), end.max(high));
        }
        if let Some(from) = next.filter(|from| *from <= last) {
            fresh.push((from, last));
        }
        self.stretches.insert(start, end);
        fresh
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_valid_range_wins() {
        let mut names = Names::new();
        let mut map = RangeMap::default();
        map.extend(
            &[
                AddressRange::new(100, 200, "weight"),
                AddressRange::new(0, 1000, "kv_cache"),
                AddressRange::new(2000, 3000, "kv_cache").valid(None, Some(50)),
                AddressRange::new(2000, 3000, "activation").valid(Some(50), None),
            ],
            &mut names,
        );
        let at = |address, time| map.find(address, time).map(|range| range.region_type);
        assert_eq!(at(150, 0), Some(Name::WEIGHT));
        assert_eq!(at(250, 0), Some(Name::KV_CACHE));
        assert_eq!(at(2500, 49), Some(Name::KV_CACHE));
        assert_eq!(at(2500, 50), Some(Name::ACTIVATION));
        assert_eq!(at(1500, 0), None);
    }

    proptest! {
        #[test]
        fn pages_are_new_once(parts in prop::collection::vec((0_u64..30, 0_u64..8, any::<bool>()), 0..30)) {
            let (mut set, mut seen) = (PageSet::default(), std::collections::BTreeSet::new());
            for (first, more, is_high) in parts {
                let base = if is_high { u64::MAX - 40 } else { 0 };
                let (first, last) = (base + first, base + first + more);
                let found = set.add(first, last);
                let pages: Vec<u64> = found.iter().flat_map(|(a, b)| *a..=*b).collect();
                let new: Vec<u64> = (first..=last).filter(|page| seen.insert(*page)).collect();
                prop_assert_eq!(pages, new);
            }
            let all = set.stretches.iter().flat_map(|(a, b)| *a..=*b);
            prop_assert!(all.eq(seen.iter().copied()));
            let ends: Vec<_> = set.stretches.values().zip(set.stretches.keys().skip(1)).collect();
            prop_assert!(ends.iter().all(|(end, next)| **end + 1 < **next));
        }
    }
}
