//! The regions of a labeller, in columns: there may be one for each page of a trace.

use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::access::PAGE_BITS;
use crate::names::Name;
use crate::region::Region;

/// What rows of a region have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Class {
    /// Weights, all of them.
    Weights,
    /// An extent of weights; its number.
    Extent,
    /// A range; its rank.
    Range,
    /// A block of the KV cache; its number.
    Kv,
    /// A page.
    Page,
}

/// Key of a region: its class, and which of them.
pub(crate) type Key = (Class, u64);

/// The regions that rows were assigned to, in order of creation: the region map.
///
/// ```
/// use memtrace_labeller::{Access, LabelOptions, Labeller, Name, Names};
/// let mut labeller = Labeller::new(LabelOptions::native());
/// let mut row = Access::new(10, 0x5000);
/// row.region_type = Name::ACTIVATION;
/// labeller.label(&mut row, &mut Names::new())?;
/// let map = labeller.region_map();
/// assert_eq!((map.len(), map.get(0).map(|region| region.page_min)), (1, Some(5)));
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RegionMap {
    classes: Vec<Class>,
    keys: Vec<u64>,
    types: Vec<Name>,
    by_key: HashTable<u32>,
    /// The reference's region of all weights.
    weights: Option<u32>,
    /// Bytes of an extent and of a KV block.
    extent_bytes: u64,
    kv_bytes: u64,
    keeps: bool,
    first_seen: Vec<u64>,
    last_seen: Vec<u64>,
    counts: Vec<u64>,
    /// Lowest and highest page, where that is not the page its key begins with.
    spans: FxHashMap<u32, (u64, u64)>,
    names: FxHashMap<u32, Name>,
}

impl Default for RegionMap {
    fn default() -> Self {
        Self::new(1, 1, true)
    }
}

fn hash((class, key): Key) -> u64 {
    FxBuildHasher.hash_one((class as u8, key))
}

impl RegionMap {
    /// An empty one; without `keeps` it only knows which regions there are.
    pub(crate) fn new(extent_bytes: u64, kv_bytes: u64, keeps: bool) -> Self {
        Self {
            classes: Vec::new(),
            keys: Vec::new(),
            types: Vec::new(),
            by_key: HashTable::new(),
            weights: None,
            extent_bytes,
            kv_bytes,
            keeps,
            first_seen: Vec::new(),
            last_seen: Vec::new(),
            counts: Vec::new(),
            spans: FxHashMap::default(),
            names: FxHashMap::default(),
        }
    }

    fn key(&self, at: u32) -> Option<Key> {
        let at = at as usize;
        Some((*self.classes.get(at)?, *self.keys.get(at)?))
    }

    /// The index of the region of a key.
    pub(crate) fn find(&self, key: Key) -> Option<u32> {
        let same = |at: &u32| self.key(*at) == Some(key);
        self.by_key.find(hash(key), same).copied()
    }

    /// Type of the region at an index.
    pub(crate) fn region_type(&self, at: u32) -> Option<Name> {
        self.types.get(at as usize).copied()
    }

    /// Makes a region that [`RegionMap::find`] finds; its index.
    pub(crate) fn add_found(&mut self, key: Key, region_type: Name, name: Name) -> u32 {
        let at = self.add(key, region_type, name);
        let (classes, keys) = (&self.classes, &self.keys);
        let rehash = |at: &u32| {
            let at = *at as usize;
            let key = classes.get(at).zip(keys.get(at));
            key.map_or(0, |(class, key)| hash((*class, *key)))
        };
        self.by_key.insert_unique(hash(key), at, rehash);
        at
    }

    /// Makes a region; its index.
    pub(crate) fn add(&mut self, key: Key, region_type: Name, name: Name) -> u32 {
        let at = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        let (class, number) = key;
        if class == Class::Weights {
            self.weights = Some(at);
        }
        self.classes.push(class);
        self.keys.push(number);
        self.types.push(region_type);
        if !name.is_null() {
            self.names.insert(at, name);
        }
        at
    }

    /// Counts an access.
    pub(crate) fn touch(&mut self, at: u32, page: u64, time_ns: u64) {
        if !self.keeps {
            return;
        }
        let place = at as usize;
        if place == self.counts.len() {
            self.counts.push(1);
            self.first_seen.push(time_ns);
            self.last_seen.push(time_ns);
            if page != self.first_page(at) {
                self.spans.insert(at, (page, page));
            }
            return;
        }
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
        if let Some(last) = self.last_seen.get_mut(place) {
            *last = time_ns.max(*last);
        }
        // A page that is a region has no other page.
        if self.classes.get(place) == Some(&Class::Page) {
            return;
        }
        if let Some((low, high)) = self.spans.get_mut(&at) {
            (*low, *high) = (page.min(*low), page.max(*high));
        } else {
            let first = self.first_page(at);
            if page != first {
                self.spans.insert(at, (page.min(first), page.max(first)));
            }
        }
    }

    /// The page that a region's key begins with.
    fn first_page(&self, at: u32) -> u64 {
        match self.key(at) {
            Some((Class::Page, page)) => page,
            Some((Class::Extent, number)) => number.wrapping_mul(self.extent_bytes) >> PAGE_BITS,
            Some((Class::Kv, number)) => number.wrapping_mul(self.kv_bytes) >> PAGE_BITS,
            _ => 0,
        }
    }

    /// The id of the region at an index: 1 are the weights of the reference, others are numbered from 2.
    pub(crate) fn id(&self, at: u32) -> u64 {
        match self.weights {
            Some(weights) if weights == at => 1,
            Some(weights) if weights < at => 1 + u64::from(at),
            _ => 2 + u64::from(at),
        }
    }

    /// Pages that are regions.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> {
        let found = self.by_key.iter().filter_map(|at| self.key(*at));
        found.filter_map(|(class, key)| (class == Class::Page).then_some(key))
    }

    /// How many regions were made, kept or not.
    pub(crate) fn made(&self) -> usize {
        self.keys.len()
    }

    /// Bytes that are held.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        let columns = [&self.keys, &self.first_seen, &self.last_seen, &self.counts];
        let columns: usize = columns.iter().map(|column| column.capacity()).sum();
        let bytes = columns * size_of::<u64>()
            + self.classes.capacity() * size_of::<Class>()
            + self.types.capacity() * size_of::<Name>()
            // An entry of a table has a byte beside it.
            + self.by_key.capacity() * (size_of::<u32>() + 1)
            + self.spans.capacity() * size_of::<(u32, (u64, u64), u8)>()
            + self.names.capacity() * size_of::<(u32, Name, u8)>();
        bytes as u64
    }

    /// Forgets what only labelling needs.
    pub(crate) fn close(&mut self) {
        self.by_key = HashTable::new();
    }

    /// How many regions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether some region has a name.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// The region at an index from 0, in order of creation.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<Region> {
        let index = u32::try_from(at).ok()?;
        let access_count = *self.counts.get(at)?;
        let first = self.first_page(index);
        let (page_min, page_max) = self.spans.get(&index).copied().unwrap_or((first, first));
        Some(Region {
            region_id: self.id(index),
            region_type: *self.types.get(at)?,
            page_min,
            page_max,
            first_seen_ns: *self.first_seen.get(at)?,
            last_seen_ns: *self.last_seen.get(at)?,
            access_count,
            name: self.names.get(&index).copied().unwrap_or(Name::NULL),
        })
    }

    /// The regions, in order of creation.
    pub fn iter(&self) -> impl Iterator<Item = Region> {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}
