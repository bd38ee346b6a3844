//! Flows attached to slice and end events, as columns: large traces have millions.

use rustc_hash::FxHashMap;

use crate::builder::batch::{FlowPoint, FlowRole, FlowSpace};
use crate::ids::StrId;

/// Pairs (event, flow) in ascending order of the event.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttachedFlows {
    event: Vec<u32>,
    id: Vec<u64>,
    what: Vec<(FlowSpace, FlowRole)>,
    /// (row, category, name) of the few rows that have these, ascending by row.
    names: Vec<(u32, Option<StrId>, Option<StrId>)>,
    /// First row of each block of events.
    starts: Vec<u32>,
    /// Number of each row's flow, or [`NOT_NUMBERED`]; empty if none are numbered.
    numbers: Vec<u32>,
    /// Number of numbered flows.
    numbered: u32,
}

/// Marks flows that are found by their identity.
const NOT_NUMBERED: u32 = u32::MAX;

/// Events per block, as a power of two.
const BLOCK: u32 = 6;

impl AttachedFlows {
    pub(crate) fn push(&mut self, event: u32, point: FlowPoint) {
        if point.category.is_some() || point.name.is_some() {
            let row = u32::try_from(self.event.len()).unwrap_or(u32::MAX);
            self.names.push((row, point.category, point.name));
        }
        self.event.push(event);
        self.id.push(point.id);
        self.what.push((point.space, point.role));
    }

    /// Appends the flows of a later part, whose events count from `base`.
    pub(crate) fn append(&mut self, from: &Self, base: u32, map: impl Fn(FlowPoint) -> FlowPoint) {
        for row in 0..from.event.len() {
            self.push(from.event[row] + base, map(from.point(row)));
        }
    }

    /// Prepares [`AttachedFlows::first`]; nothing is added afterwards.
    pub(crate) fn build_index(&mut self) {
        let blocks = self.event.last().map_or(0, |&e| (e >> BLOCK) as usize + 1);
        self.starts = Vec::with_capacity(blocks);
        let mut row = 0;
        for block in 0..blocks {
            while self
                .event
                .get(row)
                .is_some_and(|&e| ((e >> BLOCK) as usize) < block)
            {
                row += 1;
            }
            self.starts.push(u32::try_from(row).unwrap_or(u32::MAX));
        }
    }

    /// Numbers the flows of track events in the order of the file. The pass in order of time then
    /// finds the end of a flow by its number, near those of its neighbours in the file, where a
    /// hash table of millions of ids misses the cache at every step. Nothing is added afterwards.
    pub(crate) fn number(&mut self) {
        let mut known: FxHashMap<u64, u32> = FxHashMap::default();
        let mut numbers = Vec::with_capacity(self.event.len());
        for (row, &(space, _)) in self.what.iter().enumerate() {
            let numbered = space == FlowSpace::TrackEvent && self.names_of(row) == (None, None);
            numbers.push(if numbered {
                let next = u32::try_from(known.len()).unwrap_or(NOT_NUMBERED);
                *known.entry(self.id[row]).or_insert(next)
            } else {
                NOT_NUMBERED
            });
        }
        self.numbered = u32::try_from(known.len()).unwrap_or(NOT_NUMBERED);
        self.numbers = numbers;
    }

    /// Returns the number of numbered flows.
    pub(crate) fn numbered(&self) -> usize {
        self.numbered as usize
    }

    /// Returns the first row of `event` or a later one. Events are looked up in the order of time,
    /// which jumps through the file, so a search would miss the cache at every step.
    pub(crate) fn first(&self, event: u32) -> usize {
        let Some(&start) = self.starts.get((event >> BLOCK) as usize) else {
            return self.event.len();
        };
        let start = start as usize;
        let block = &self.event[start..];
        // There are few rows, unless an event has very many flows.
        let near = block.iter().take(64).position(|&e| e >= event);
        start + near.unwrap_or_else(|| block.partition_point(|&e| e < event))
    }

    /// Returns the flow in `row` and its number, if the row belongs to `event`.
    pub(crate) fn get(&self, row: usize, event: u32) -> Option<(FlowPoint, Option<u32>)> {
        (*self.event.get(row)? == event).then(|| {
            let number = self.numbers.get(row).copied();
            (self.point(row), number.filter(|&n| n != NOT_NUMBERED))
        })
    }

    /// Returns category and name of the flow in `row`.
    fn names_of(&self, row: usize) -> (Option<StrId>, Option<StrId>) {
        let named = match self.names.is_empty() {
            true => None,
            false => self.names.binary_search_by_key(&row, |n| n.0 as usize).ok(),
        };
        named.map_or((None, None), |at| {
            let (_, category, name) = self.names[at];
            (category, name)
        })
    }

    fn point(&self, row: usize) -> FlowPoint {
        let (category, name) = self.names_of(row);
        let (space, role) = self.what[row];
        FlowPoint {
            id: self.id[row],
            category,
            name,
            space,
            role,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(id: u64, name: Option<StrId>) -> FlowPoint {
        FlowPoint {
            id,
            category: None,
            name,
            space: FlowSpace::TrackEvent,
            role: FlowRole::Through,
        }
    }

    proptest! {
        #[test]
        fn the_first_row_is_found(
            mut events in prop::collection::vec(0..250_u32, 0..300),
            event in 0..260_u32,
        ) {
            events.sort();
            let mut flows = AttachedFlows::default();
            for (i, &e) in events.iter().enumerate() {
                flows.push(e, point(i as u64, None));
            }
            flows.build_index();
            let expected = events.partition_point(|&e| e < event);
            prop_assert_eq!(flows.first(event), expected);
        }
    }

    #[test]
    fn names_are_kept_also_of_later_parts() {
        let name = StrId::new(7);
        let mut part = AttachedFlows::default();
        part.push(0, point(1, None));
        part.push(0, point(2, name));
        let mut all = part.clone();
        all.append(&part, 10, |p| p);
        all.build_index();
        let row = all.first(10);
        assert_eq!(row, 2);
        all.number();
        assert_eq!(all.get(0, 0), Some((point(1, None), Some(0))));
        assert_eq!(all.get(1, 0), Some((point(2, name), None)));
        assert_eq!(all.get(2, 10), Some((point(1, None), Some(0))));
        assert_eq!(all.get(3, 10), Some((point(2, name), None)));
        assert_eq!(all.numbered(), 1);
        assert_eq!((all.get(4, 10), all.get(1, 10)), (None, None));
    }
}
