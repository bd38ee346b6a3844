//! The prefix tree of stacks.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::ids::StrId;
use crate::intern::StringTable;

/// A stack of a [`StackTable`]; equal stacks have equal ids.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct StackId(u32);

impl StackId {
    /// The empty stack.
    pub const EMPTY: Self = Self(0);

    /// Returns its index in the table, 0 for the empty stack; callers come before their callees.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Distinct stacks as a tree: every stack is its caller's stack plus one frame.
///
/// ```
/// use trace_model::callstack::{StackId, StackTable};
///
/// let mut t = StackTable::new();
/// let main = t.push(StackId::EMPTY, "main");
/// let a = t.push(main, "all_reduce");
/// assert_eq!(t.push(main, "all_reduce"), a);
/// assert_eq!(t.leaf_first(a).collect::<Vec<_>>(), ["all_reduce", "main"]);
/// assert_eq!(t.depth(a), 2);
/// ```
#[derive(Clone, Debug)]
pub struct StackTable {
    frames: StringTable,
    /// Caller, last frame and depth; row 0 is the empty stack.
    nodes: Vec<(StackId, Option<StrId>, u32)>,
    index: HashTable<StackId>,
}

impl Default for StackTable {
    fn default() -> Self {
        Self {
            frames: StringTable::new(),
            nodes: vec![(StackId::EMPTY, None, 0)],
            index: HashTable::new(),
        }
    }
}

impl StackTable {
    /// Creates a table that holds only the empty stack.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the id of a frame's text in this table.
    pub fn frame(&mut self, text: &str) -> StrId {
        self.frames.intern(text)
    }

    /// Returns the stack of `caller` plus one frame. Cost: two hashes.
    pub fn push(&mut self, caller: StackId, frame: &str) -> StackId {
        let frame = self.frame(frame);
        self.push_frame(caller, frame)
    }

    /// Returns the stack of `caller` plus a frame of this table. Cost: a hash.
    ///
    /// # Panics
    ///
    /// Panics past 2^32 distinct stacks.
    pub fn push_frame(&mut self, caller: StackId, frame: StrId) -> StackId {
        let key = |n: &(StackId, Option<StrId>, u32)| (n.0, n.1);
        let wanted = (caller, Some(frame));
        let hash = FxBuildHasher.hash_one(wanted);
        let nodes = &self.nodes;
        if let Some(id) = self
            .index
            .find(hash, |id| key(&nodes[id.index()]) == wanted)
        {
            return *id;
        }
        let id = StackId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 stacks"));
        let depth = self.depth(caller) + 1;
        self.nodes.push((
            caller,
            Some(frame),
            u32::try_from(depth).unwrap_or(u32::MAX),
        ));
        let nodes = &self.nodes;
        self.index.insert_unique(hash, id, |id| {
            FxBuildHasher.hash_one(key(&nodes[id.index()]))
        });
        id
    }

    /// Returns the stack of `frames`, given from the outermost inwards, on top of `caller`.
    pub fn extend<'a>(
        &mut self,
        caller: StackId,
        frames: impl IntoIterator<Item = &'a str>,
    ) -> StackId {
        frames
            .into_iter()
            .fold(caller, |stack, frame| self.push(stack, frame))
    }

    /// Returns the number of frames of `stack`.
    pub fn depth(&self, stack: StackId) -> usize {
        self.nodes.get(stack.index()).map_or(0, |n| n.2 as usize)
    }

    /// Returns the stack without its last frame; the empty stack stays empty.
    pub fn caller(&self, stack: StackId) -> StackId {
        self.nodes
            .get(stack.index())
            .map_or(StackId::EMPTY, |n| n.0)
    }

    /// Returns the frames from the innermost outwards.
    pub fn leaf_first(&self, stack: StackId) -> impl Iterator<Item = &str> {
        let mut at = stack;
        std::iter::from_fn(move || {
            let (caller, frame, _) = *self.nodes.get(at.index())?;
            at = caller;
            frame.map(|f| self.frames.get(f))
        })
    }

    /// Returns the frames from the outermost inwards.
    pub fn root_first(&self, stack: StackId) -> Vec<&str> {
        let mut frames: Vec<&str> = self.leaf_first(stack).collect();
        frames.reverse();
        frames
    }

    /// Returns the number of distinct stacks, including the empty one and all callers.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns `true` if the table holds only the empty stack.
    pub fn is_empty(&self) -> bool {
        self.len() == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_stacks_have_equal_ids_and_give_their_frames_back(
            stacks in prop::collection::vec(prop::collection::vec("[abc]{0,2}", 0..6), 0..30),
        ) {
            let mut table = StackTable::new();
            let ids: Vec<_> = stacks
                .iter()
                .map(|s| table.extend(StackId::EMPTY, s.iter().map(String::as_str)))
                .collect();
            for (i, a) in stacks.iter().enumerate() {
                prop_assert_eq!(&table.root_first(ids[i]), a);
                prop_assert_eq!(table.depth(ids[i]), a.len());
                for (j, b) in stacks.iter().enumerate() {
                    prop_assert_eq!(ids[i] == ids[j], a == b);
                }
            }
        }
    }
}
