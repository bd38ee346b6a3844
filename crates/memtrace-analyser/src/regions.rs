//! What is kept of each region while rows come: as little as can be, since a trace may touch more pages than memory has room for
//! records.

use std::hash::BuildHasher as _;

use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};

/// Stretches of ids that are followed; beyond, each new id is kept by itself.
const MAX_RUNS: usize = 16;

/// Ids that were seen one after the other, each one more than the one before.
#[derive(Debug, Clone, Copy)]
struct Run {
    id: u64,
    /// Index of the first.
    at: u32,
    len: u32,
}

/// Gives each region id an index, in order of appearance.
///
/// A labeller numbers regions as they appear, so that nearly all ids are in a few runs, which cost nothing.
#[derive(Debug, Default)]
pub(crate) struct RegionIds {
    runs: Vec<Run>,
    /// Ids that are in no run; their indexes follow those of the runs.
    ids: Vec<u64>,
    by_id: HashTable<u32>,
    len: u32,
    first_apart: u32,
}

fn hash(id: u64) -> u64 {
    FxBuildHasher.hash_one(id)
}

impl RegionIds {
    /// The index of an id, and whether it is new; `None` when there is no index left.
    pub(crate) fn at(&mut self, id: u64) -> Option<(u32, bool)> {
        for run in self.runs.iter().rev() {
            if let Some(within) = id.checked_sub(run.id)
                && let Ok(within) = u32::try_from(within)
                && within < run.len
            {
                return Some((run.at + within, false));
            }
        }
        let ids = &self.ids;
        let same = |at: &u32| ids.get(*at as usize) == Some(&id);
        if let Some(at) = self.by_id.find(hash(id), same) {
            return Some((self.first_apart + at, false));
        }
        let next = self.len;
        self.len = next.checked_add(1)?;
        if self.ids.is_empty() {
            if let Some(last) = self.runs.last_mut()
                && last.id.checked_add(u64::from(last.len)) == Some(id)
            {
                last.len += 1;
                return Some((next, true));
            }
            if self.runs.len() < MAX_RUNS {
                self.runs.push(Run {
                    id,
                    at: next,
                    len: 1,
                });
                return Some((next, true));
            }
            self.first_apart = next;
        }
        self.ids.push(id);
        let ids = &self.ids;
        let rehash = |at: &u32| hash(ids.get(*at as usize).copied().unwrap_or(0));
        self.by_id
            .insert_unique(hash(id), next - self.first_apart, rehash);
        Some((next, true))
    }

    /// The id of an index.
    pub(crate) fn id(&self, at: u32) -> u64 {
        if let Some(apart) = at.checked_sub(self.first_apart)
            && let Some(id) = self.ids.get(apart as usize)
        {
            return *id;
        }
        let run = self.runs.partition_point(|run| run.at <= at);
        match run.checked_sub(1).and_then(|run| self.runs.get(run)) {
            Some(run) => run.id + u64::from(at - run.at),
            None => 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    fn heap_bytes(&self) -> usize {
        // An entry of the table has a byte beside it.
        self.ids.capacity() * size_of::<u64>() + self.by_id.capacity() * (size_of::<u32>() + 1)
    }
}

/// A bit for each index.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, at: u32) {
        let word = (at / 64) as usize;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(word) = self.0.get_mut(word) {
            *word |= 1 << (at % 64);
        }
    }

    fn has(&self, at: u32) -> bool {
        let word = self.0.get((at / 64) as usize);
        word.is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

/// When a region was allocated and freed, as something beside the recording says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BlockLife {
    /// When it was allocated.
    pub allocated_ns: Option<u64>,
    /// When it was freed.
    pub freed_ns: Option<u64>,
}

impl BlockLife {
    /// A life from an allocation to a release, as far as they are known.
    #[must_use]
    pub const fn new(allocated_ns: Option<u64>, freed_ns: Option<u64>) -> Self {
        Self {
            allocated_ns,
            freed_ns,
        }
    }
}

/// What has to be known of regions before their rows are sorted.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(crate) ids: RegionIds,
    /// Type of the first row.
    kinds: Vec<u16>,
    /// Rows of several types, or a page that is not that of its address: their addresses do not come page by page.
    irregular: Bits,
    /// Accesses that loads and stores stand for whose rows have no room for it.
    apart: FxHashMap<u32, [u64; 2]>,
    /// By index.
    lives: FxHashMap<u32, BlockLife>,
}

impl Regions {
    /// The index of a region that has a row of this type; `None` when there is no index left.
    pub(crate) fn touch(&mut self, id: u64, kind: u16, has_own_page: bool) -> Option<u32> {
        let (at, is_new) = self.ids.at(id)?;
        if is_new {
            self.kinds.push(kind);
        }
        if has_own_page || self.kind(at) != kind {
            self.irregular.set(at);
        }
        Some(at)
    }

    /// Bytes that are held, and six more for each region, which is what the analysis will count of it.
    pub(crate) fn heap_bytes(&self) -> u64 {
        let kinds = self.kinds.capacity() * size_of::<u16>();
        let apart = self.apart.capacity() * size_of::<(u32, [u64; 2], u8)>();
        let later = self.ids.len() * 3 * size_of::<u16>();
        (self.ids.heap_bytes() + kinds + apart + later) as u64
    }

    pub(crate) fn kind(&self, at: u32) -> u16 {
        self.kinds.get(at as usize).copied().unwrap_or(0)
    }

    pub(crate) fn is_irregular(&self, at: u32) -> bool {
        self.irregular.has(at)
    }

    /// Takes lives that are known, by id of the region.
    pub(crate) fn set_lives(&mut self, lives: &FxHashMap<u64, BlockLife>) {
        if lives.is_empty() {
            return;
        }
        for at in 0..u32::try_from(self.ids.len()).unwrap_or(u32::MAX) {
            if let Some(life) = lives.get(&self.ids.id(at)) {
                self.lives.insert(at, *life);
            }
        }
    }

    /// Returns `true` if some lives are known.
    pub(crate) fn has_lives(&self) -> bool {
        !self.lives.is_empty()
    }

    /// What is known of the life of a region.
    pub(crate) fn life(&self, at: u32) -> BlockLife {
        match self.lives.is_empty() {
            true => BlockLife::default(),
            false => self.lives.get(&at).copied().unwrap_or_default(),
        }
    }

    /// Counts what a row stands for that cannot say so itself.
    pub(crate) fn weigh(&mut self, at: u32, is_store: bool, period: u64) {
        let [loads, stores] = self.apart.entry(at).or_default();
        let count = if is_store { stores } else { loads };
        *count = count.saturating_add(period);
    }

    /// Loads and stores of [`Regions::weigh`].
    pub(crate) fn weighed(&self, at: u32) -> [u64; 2] {
        self.apart.get(&at).copied().unwrap_or_default()
    }
}

/// Counters of many regions, most of them small.
#[derive(Debug, Default)]
pub(crate) struct SmallCounts {
    low: Vec<u16>,
    /// Multiples of 65536.
    high: FxHashMap<u32, u64>,
}

impl SmallCounts {
    pub(crate) fn new(len: usize) -> Self {
        Self {
            low: vec![0; len],
            high: FxHashMap::default(),
        }
    }

    pub(crate) fn add_one(&mut self, at: u32) {
        if let Some(low) = self.low.get_mut(at as usize) {
            *low = low.wrapping_add(1);
            if *low == 0 {
                *self.high.entry(at).or_default() += 1;
            }
        }
    }

    pub(crate) fn get(&self, at: u32) -> u64 {
        let low = self.low.get(at as usize).copied().map_or(0, u64::from);
        let high = match low {
            // Nearly all are small, and need no look.
            _ if self.high.is_empty() => 0,
            _ => self.high.get(&at).copied().unwrap_or(0),
        };
        high << 16 | low
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_have_indexes_in_order_of_appearance(seen in prop::collection::vec((0_u64..90, any::<bool>()), 0..300)) {
            let mut ids = RegionIds::default();
            let mut expected = Vec::new();
            let mut rising = 0;
            for (id, follows) in seen {
                // Some as a labeller numbers them, some as they come.
                let id = if follows { rising += 1; 1000 + rising } else { id.checked_sub(5).unwrap_or(u64::MAX - id) };
                let known = expected.iter().position(|known| *known == id);
                if known.is_none() {
                    expected.push(id);
                }
                let at = known.unwrap_or(expected.len() - 1);
                prop_assert_eq!(ids.at(id), Some((u32::try_from(at).unwrap(), known.is_none())));
            }
            prop_assert_eq!(ids.len(), expected.len());
            for (at, id) in (0..).zip(expected) {
                prop_assert_eq!(ids.id(at), id);
            }
        }
    }

    #[test]
    fn numbers_of_a_labeller_take_no_memory() {
        let mut ids = RegionIds::default();
        for id in (2..5000)
            .chain([0])
            .chain(5000..9000)
            .chain([1])
            .chain(9000..20_000)
        {
            assert!(ids.at(id).unwrap().1);
        }
        assert!(ids.runs.len() == 5 && ids.ids.is_empty());
        assert_eq!(ids.at(4999), Some((4997, false)));
    }

    #[test]
    fn counts_go_beyond_what_is_small() {
        let mut counts = SmallCounts::new(3);
        for _ in 0..200_000 {
            counts.add_one(1);
        }
        counts.add_one(2);
        assert_eq!([0, 1, 2, 3].map(|at| counts.get(at)), [0, 200_000, 1, 0]);
    }
}
