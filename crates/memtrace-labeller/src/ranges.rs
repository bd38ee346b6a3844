//! Address ranges whose type is known from elsewhere: mappings, tensors, allocations.

use serde::Deserialize;

use crate::access::PAGE_BITS;
use crate::error::{Error, Result};
use crate::names::{Name, Names};

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
        }
    }

    /// As one block of the KV cache.
    #[must_use]
    pub fn as_block(mut self) -> Self {
        self.is_block = true;
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
/// [`Error::Json`].
///
/// ```
/// let text = br#"{"regions": [{"addr_start": 4096, "addr_end": 8192, "region_type": "kv_cache"}]}"#;
/// let ranges = memtrace_labeller::ranges_from_json("regions.json", text)?;
/// assert_eq!(ranges[0].addr_end, 8192);
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
pub fn ranges_from_json(name: &str, text: &[u8]) -> Result<Vec<AddressRange>> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum File {
        List(Vec<AddressRange>),
        Object { regions: Vec<AddressRange> },
    }
    let file: File = serde_json::from_slice(text).map_err(|source| Error::Json {
        name: name.to_owned(),
        source,
    })?;
    Ok(match file {
        File::List(regions) | File::Object { regions } => regions,
    })
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
    /// The largest end of this and all ranges that start before it.
    reach: u64,
    /// Order of registration: the first one wins. Unlike the place in the list it stays when more ranges come.
    pub(crate) rank: usize,
}

/// Ranges by start; a look-up walks back over those that may reach the address.
#[derive(Debug, Clone, Default)]
pub(crate) struct RangeMap {
    ranges: Vec<Range>,
}

impl RangeMap {
    pub(crate) fn extend(&mut self, list: &[AddressRange], names: &mut Names) {
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
                reach: 0,
                rank,
            });
        }
        self.ranges.sort_by_key(|range| (range.start, range.rank));
        let mut reach = 0;
        for range in &mut self.ranges {
            reach = reach.max(range.end);
            range.reach = reach;
        }
    }

    /// The range of an address at a time; of several, the one registered first.
    pub(crate) fn find(&self, address: u64, time_ns: u64) -> Option<&Range> {
        let after = self.ranges.partition_point(|range| range.start <= address);
        let mut best: Option<&Range> = None;
        for range in self.ranges.iter().take(after).rev() {
            if range.reach <= address {
                break;
            }
            let holds = address < range.end && range.from_ns <= time_ns && time_ns < range.to_ns;
            if holds && best.is_none_or(|found| range.rank < found.rank) {
                best = Some(range);
            }
        }
        best
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range> {
        self.ranges.iter()
    }
}

#[cfg(test)]
mod tests {
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
}
