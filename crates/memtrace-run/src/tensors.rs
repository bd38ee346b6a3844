//! Ranks named memory by use: tensors of a mapped model file, ranges and caches with a name.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::pipeline::Processed;

/// A named memory region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HotTensor {
    /// Its name.
    pub name: String,
    /// Its type.
    pub region_type: String,
    /// Number of recorded accesses.
    pub samples: u64,
    /// Bytes from its first to its last touched page, of each place where it lies.
    pub span_bytes: u64,
}

/// Returns the `limit` most accessed names of memory, each once, most accesses first, then by name. Requires the region map of
/// the labels.
#[must_use]
pub fn hottest(processed: &Processed, limit: usize) -> Vec<HotTensor> {
    if !processed.regions.has_names() {
        return Vec::new();
    }
    let names = &processed.names;
    // Memory of one name may be several regions: ranges that hold at different times, mappings of one file.
    let mut by_name: BTreeMap<(&str, &str), (u64, Vec<Pages>)> = BTreeMap::new();
    for region in processed.regions.iter().filter(|of| !of.name.is_null()) {
        let key = (names.text(region.name), names.text(region.region_type));
        let (samples, pages) = by_name.entry(key).or_default();
        *samples += region.access_count;
        pages.push((region.page_min, region.page_max));
    }
    let mut found: Vec<HotTensor> = by_name
        .into_iter()
        .map(|((name, region_type), (samples, pages))| HotTensor {
            name: name.to_owned(),
            region_type: region_type.to_owned(),
            samples,
            span_bytes: covered(pages).saturating_mul(4096),
        })
        .collect();
    found.sort_by(|a, b| (b.samples, &a.name).cmp(&(a.samples, &b.name)));
    found.truncate(limit);
    found
}

/// First and last page of a stretch.
type Pages = (u64, u64);

/// Number of pages in a union of stretches.
fn covered(mut stretches: Vec<Pages>) -> u64 {
    stretches.sort_unstable();
    let (mut pages, mut next) = (0_u64, 0_u64);
    for (first, last) in stretches {
        let first = first.max(next);
        if last >= first {
            pages = pages.saturating_add((last - first).saturating_add(1));
            next = last.saturating_add(1);
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_count_once() {
        assert_eq!(covered(vec![(5, 9), (0, 3), (8, 12), (6, 7)]), 12);
        assert_eq!(covered(vec![(0, 0), (0, 0)]), 1);
        assert_eq!(covered(Vec::new()), 0);
    }
}
