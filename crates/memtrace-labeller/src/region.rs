//! Regions.

use rustc_hash::FxHashMap;

use crate::names::Name;

/// A region that rows were assigned to: a row of the region map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Region {
    /// Its id; 1 is the weights of the reference, 0 is never a region.
    pub region_id: u64,
    /// Type of the row that made it.
    pub region_type: Name,
    /// Lowest page seen.
    pub page_min: u64,
    /// Highest page seen.
    pub page_max: u64,
    /// Time of the first row seen, which is not the earliest when the input is out of order.
    pub first_seen_ns: u64,
    /// Latest time seen.
    pub last_seen_ns: u64,
    /// Rows.
    pub access_count: u64,
    /// What it holds, where that is known; [`Name::NULL`] otherwise.
    pub name: Name,
}

impl Region {
    pub(crate) fn new(region_id: u64, region_type: Name, page: u64, time_ns: u64) -> Self {
        Self {
            region_id,
            region_type,
            page_min: page,
            page_max: page,
            first_seen_ns: time_ns,
            last_seen_ns: time_ns,
            access_count: 0,
            name: Name::NULL,
        }
    }

    pub(crate) fn touch(&mut self, page: u64, time_ns: u64) {
        self.page_min = self.page_min.min(page);
        self.page_max = self.page_max.max(page);
        self.last_seen_ns = self.last_seen_ns.max(time_ns);
        self.access_count += 1;
    }
}

/// The reference's stand-alone tracker: one region for each page, one for all pages of weights.
///
/// Unlike the labeller it gives ids to unknown pages too, and a page keeps its first type. No command uses it; it is here
/// because programs that use the reference's library do.
#[derive(Debug, Clone)]
pub struct PageTracker {
    regions: Vec<Region>,
    by_page: FxHashMap<u64, usize>,
    weight: Option<usize>,
    next_id: u64,
}

impl Default for PageTracker {
    fn default() -> Self {
        Self {
            regions: Vec::new(),
            by_page: FxHashMap::default(),
            weight: None,
            next_id: 2,
        }
    }
}

impl PageTracker {
    /// Counts an access; gives the region's id and type.
    pub fn touch(&mut self, page: u64, region_type: Name, time_ns: u64) -> (u64, Name) {
        let at = match self.by_page.get(&page) {
            Some(at) => *at,
            None => {
                let at = match (region_type, self.weight) {
                    (Name::WEIGHT, Some(at)) => at,
                    _ => {
                        let id = if region_type == Name::WEIGHT {
                            self.weight = Some(self.regions.len());
                            1
                        } else {
                            self.next_id += 1;
                            self.next_id - 1
                        };
                        self.regions
                            .push(Region::new(id, region_type, page, time_ns));
                        self.regions.len() - 1
                    }
                };
                self.by_page.insert(page, at);
                at
            }
        };
        match self.regions.get_mut(at) {
            Some(region) => {
                region.touch(page, time_ns);
                (region.region_id, region.region_type)
            }
            None => (0, Name::UNKNOWN),
        }
    }

    /// The regions, in order of creation.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }
}
