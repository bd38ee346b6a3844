//! Ranks named memory by use: tensors of a mapped model file, ranges and caches with a name.

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
    /// Bytes from its first to its last touched page.
    pub span_bytes: u64,
}

/// Returns the `limit` most accessed named regions, most accesses first, then by name. Requires the
/// region map of the labels.
#[must_use]
pub fn hottest(processed: &Processed, limit: usize) -> Vec<HotTensor> {
    if !processed.regions.has_names() {
        return Vec::new();
    }
    let names = &processed.names;
    let regions = processed.regions.iter();
    let mut found: Vec<HotTensor> = regions
        .filter(|region| !region.name.is_null())
        .map(|region| HotTensor {
            name: names.text(region.name).to_owned(),
            region_type: names.text(region.region_type).to_owned(),
            samples: region.access_count,
            span_bytes: (region.page_max - region.page_min + 1).saturating_mul(4096),
        })
        .collect();
    found.sort_by(|a, b| (b.samples, &a.name).cmp(&(a.samples, &b.name)));
    found.truncate(limit);
    found
}
