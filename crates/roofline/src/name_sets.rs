//! Sets of names of kernels.

use rustc_hash::FxHashMap;
use trace_model::StrId;

/// Sets of names, each once; the set of a call grows name by name.
pub(crate) struct NameSets {
    pub(crate) all: Vec<Vec<StrId>>,
    places: FxHashMap<Vec<StrId>, u32>,
    grown: FxHashMap<(u32, StrId), u32>,
}

impl NameSets {
    /// The empty set is at place 0.
    pub(crate) fn new() -> Self {
        Self {
            all: vec![Vec::new()],
            places: FxHashMap::from_iter([(Vec::new(), 0)]),
            grown: FxHashMap::default(),
        }
    }

    /// The set at a place with one more name.
    pub(crate) fn with(&mut self, set: u32, name: StrId) -> u32 {
        if let Some(known) = self.grown.get(&(set, name)) {
            return *known;
        }
        let mut names = self.all[set as usize].clone();
        if let Err(at) = names.binary_search(&name) {
            names.insert(at, name);
        }
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let own = *self.places.entry(names.clone()).or_insert(next);
        if own == next {
            self.all.push(names);
        }
        self.grown.insert((set, name), own);
        own
    }
}
