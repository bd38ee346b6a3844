//! Finds slices by number.

use crate::ids::SliceId;

/// Slices by a producer's id. Dense ids, the usual case, cost four bytes each.
#[derive(Clone, Debug, Default)]
pub(super) struct IdMap {
    /// Slices of all ids; those of one id are adjacent, in order of insertion.
    rows: Vec<SliceId>,
    /// Start of each id in `rows`; one more entry at the end.
    starts: Vec<u32>,
    keys: Keys,
}

#[derive(Clone, Debug)]
enum Keys {
    /// Id of `starts[0]`; the following ids count up.
    From(i64),
    /// Id of each start, ascending.
    Listed(Vec<i64>),
}

impl Default for Keys {
    fn default() -> Self {
        Self::From(0)
    }
}

impl IdMap {
    pub(super) fn new(mut entries: Vec<(i64, SliceId)>) -> Self {
        let range = entries
            .iter()
            .map(|e| e.0)
            .fold(None, |range: Option<(i64, i64)>, id| {
                Some(range.map_or((id, id), |(lo, hi)| (lo.min(id), hi.max(id))))
            });
        let Some((low, high)) = range else {
            return Self::default();
        };
        let width = usize::try_from(high.saturating_sub(low)).unwrap_or(usize::MAX);
        if width <= entries.len().saturating_mul(8) + 1024 {
            let at = |id: i64| usize::try_from(id - low).unwrap_or(0);
            let mut starts = vec![0_u32; width + 2];
            for (id, _) in &entries {
                starts[at(*id) + 1] += 1;
            }
            for i in 0..=width {
                starts[i + 1] += starts[i];
            }
            let mut rows: Vec<SliceId> = entries.iter().map(|e| e.1).collect();
            for (id, slice) in &entries {
                let next = &mut starts[at(*id)];
                rows[*next as usize] = *slice;
                *next += 1;
            }
            // Every start has moved to that of the next id.
            starts.rotate_right(1);
            starts[0] = 0;
            starts.pop();
            starts.push(u32::try_from(rows.len()).unwrap_or(u32::MAX));
            return Self {
                rows,
                starts,
                keys: Keys::From(low),
            };
        }
        entries.sort_by_key(|e| e.0);
        let (mut ids, mut starts) = (Vec::new(), Vec::new());
        for (i, (id, _)) in entries.iter().enumerate() {
            if ids.last() != Some(id) {
                ids.push(*id);
                starts.push(u32::try_from(i).unwrap_or(u32::MAX));
            }
        }
        starts.push(u32::try_from(entries.len()).unwrap_or(u32::MAX));
        Self {
            rows: entries.into_iter().map(|e| e.1).collect(),
            starts,
            keys: Keys::Listed(ids),
        }
    }

    /// Returns every id with its slices, ids ascending.
    pub(super) fn groups(&self) -> impl Iterator<Item = (i64, &[SliceId])> {
        self.starts.windows(2).enumerate().map(|(i, bounds)| {
            let id = match &self.keys {
                Keys::From(low) => low + i64::try_from(i).unwrap_or(0),
                Keys::Listed(ids) => ids.get(i).copied().unwrap_or(0),
            };
            let rows = self.rows.get(bounds[0] as usize..bounds[1] as usize);
            (id, rows.unwrap_or(&[]))
        })
    }

    pub(super) fn get(&self, id: i64) -> &[SliceId] {
        let at = match &self.keys {
            Keys::From(low) => id.checked_sub(*low).and_then(|i| usize::try_from(i).ok()),
            Keys::Listed(ids) => ids.binary_search(&id).ok(),
        };
        let bound = |i: usize| self.starts.get(i).map(|&n| n as usize);
        at.and_then(|i| self.rows.get(bound(i)?..bound(i + 1)?))
            .unwrap_or(&[])
    }
}
