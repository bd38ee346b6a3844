//! Selects the slices that a projection keeps.

use rustc_hash::FxHashSet;
use trace_model::{CategoryId, TimeRange, Timestamp};

use crate::ReadOptions;

/// Selection of slices.
#[derive(Debug)]
pub(super) struct Keep {
    pub(super) categories: Option<FxHashSet<String>>,
    pub(super) range: Option<TimeRange>,
    /// Cached answers by dictionary entry.
    known: Vec<Option<bool>>,
}

impl Keep {
    pub(super) fn new(options: &ReadOptions) -> Self {
        Self {
            categories: options
                .categories
                .as_ref()
                .map(|list| list.iter().cloned().collect()),
            range: options.range,
            known: Vec::new(),
        }
    }

    pub(super) fn time(&self, ts: i64) -> bool {
        self.range
            .is_none_or(|range| range.contains(Timestamp::from_nanos(ts)))
    }

    /// Returns `true` if `text` is one of the categories, or a list that contains one.
    pub(super) fn category(&mut self, id: CategoryId, text: Option<&str>) -> bool {
        let Some(wanted) = &self.categories else {
            return true;
        };
        let Some(text) = text else { return false };
        let decide = || wanted.contains(text) || text.split(',').any(|c| wanted.contains(c));
        let Some(at) = id.index() else {
            return decide();
        };
        if at >= self.known.len() {
            self.known.resize(at + 1, None);
        }
        *self.known[at].get_or_insert_with(decide)
    }
}
