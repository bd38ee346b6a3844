//! Prefix tree of stacks, with two values per frame.

use rustc_hash::FxHashMap;

/// A frame of a graph: a name under a specific chain of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrameId(u32);

impl FrameId {
    pub(crate) const ROOT: Self = Self(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Frames numbered so that callers come before callees; number 0 is the root.
#[derive(Debug)]
pub(crate) struct StackTree {
    parents: Vec<FrameId>,
    /// Index into `names`; meaningless for the root.
    name_of: Vec<u32>,
    /// Values of the frames themselves, callees not included.
    own: Vec<[u128; 2]>,
    names: Vec<Box<str>>,
    name_ids: FxHashMap<Box<str>, u32>,
    children: FxHashMap<(FrameId, u32), FrameId>,
}

impl Default for StackTree {
    fn default() -> Self {
        Self {
            parents: vec![FrameId::ROOT],
            name_of: vec![0],
            own: vec![[0; 2]],
            names: Vec::new(),
            name_ids: FxHashMap::default(),
            children: FxHashMap::default(),
        }
    }
}

impl StackTree {
    /// Returns the frame `name` under `parent`. Beyond 2^32 frames the last one is returned.
    pub(crate) fn child(&mut self, parent: FrameId, name: &str) -> FrameId {
        let name_id = match self.name_ids.get(name) {
            Some(id) => *id,
            None => {
                let id = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
                self.names.push(name.into());
                self.name_ids.insert(name.into(), id);
                id
            }
        };
        let next = FrameId(u32::try_from(self.parents.len()).unwrap_or(u32::MAX));
        let found = *self.children.entry((parent, name_id)).or_insert(next);
        if found == next && found.index() == self.parents.len() {
            self.parents.push(parent);
            self.name_of.push(name_id);
            self.own.push([0; 2]);
        }
        found
    }

    /// Returns the frame at the end of a stack, given from the root.
    pub(crate) fn descend<'a>(&mut self, frames: impl IntoIterator<Item = &'a str>) -> FrameId {
        frames
            .into_iter()
            .fold(FrameId::ROOT, |at, name| self.child(at, name))
    }

    pub(crate) fn add(&mut self, at: FrameId, profile: usize, value: u64) {
        if let Some(own) = self.own.get_mut(at.index()) {
            own[profile] += u128::from(value);
        }
    }

    pub(crate) fn name(&self, frame: FrameId) -> &str {
        self.names
            .get(self.name_of[frame.index()] as usize)
            .map_or("", |name| name)
    }

    pub(crate) fn own(&self, frame: FrameId) -> [u128; 2] {
        self.own[frame.index()]
    }

    /// Returns the own values of all frames, in order of their numbers.
    pub(crate) fn owns(&self) -> impl Iterator<Item = &[u128; 2]> {
        self.own.iter()
    }

    /// Returns the values including all callees, by frame.
    pub(crate) fn totals(&self) -> Vec<[u128; 2]> {
        let mut totals = self.own.clone();
        for frame in (1..totals.len()).rev() {
            let [first, second] = totals[frame];
            let parent = &mut totals[self.parents[frame].index()];
            parent[0] += first;
            parent[1] += second;
        }
        totals
    }

    /// Returns the frames grouped by caller, sorted by name within a group, and the range of each
    /// caller's group.
    pub(crate) fn sorted_children(&self) -> (Vec<FrameId>, Vec<std::ops::Range<usize>>) {
        let count = self.parents.len();
        // Rank each name once, instead of comparing texts per frame.
        let mut by_name: Vec<usize> = (0..self.names.len()).collect();
        by_name.sort_unstable_by(|&a, &b| self.names[a].as_bytes().cmp(self.names[b].as_bytes()));
        let mut rank = vec![0_usize; self.names.len()];
        for (place, &name) in by_name.iter().enumerate() {
            rank[name] = place;
        }
        let mut frames: Vec<FrameId> = (1..count)
            .map(|i| FrameId(u32::try_from(i).unwrap_or(u32::MAX)))
            .collect();
        frames.sort_unstable_by_key(|f| {
            (
                self.parents[f.index()].0,
                rank[self.name_of[f.index()] as usize],
            )
        });
        let mut ranges = vec![0..0; count];
        let mut start = 0;
        for group in frames.chunk_by(|a, b| self.parents[a.index()] == self.parents[b.index()]) {
            ranges[self.parents[group[0].index()].index()] = start..start + group.len();
            start += group.len();
        }
        (frames, ranges)
    }
}
