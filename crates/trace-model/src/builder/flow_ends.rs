//! Last slice of every flow that may continue.

use rustc_hash::FxHashMap;

use crate::builder::batch::{FlowPoint, FlowSpace};
use crate::ids::{SliceId, StrId};

/// Last slices by number if the flow has one, else by identity. Flows of different spaces never
/// meet.
#[derive(Debug, Default)]
pub(crate) struct FlowEnds {
    numbered: Vec<Option<SliceId>>,
    track_events: FxHashMap<u64, SliceId>,
    bind_ids: FxHashMap<u64, SliceId>,
    chrome: FxHashMap<Named, SliceId>,
    /// Points of the other two spaces that nevertheless have a category or name.
    other: FxHashMap<(FlowSpace, Named), SliceId>,
}

/// Id, category and name.
type Named = (u64, Option<StrId>, Option<StrId>);

fn named(point: FlowPoint) -> Named {
    (point.id, point.category, point.name)
}

fn is_bare(point: FlowPoint) -> bool {
    point.category.is_none() && point.name.is_none()
}

impl FlowEnds {
    /// Creates an empty map for `numbered` flows that have a number and any number of others.
    pub(crate) fn new(numbered: usize) -> Self {
        Self {
            numbered: vec![None; numbered],
            ..Self::default()
        }
    }

    /// Returns the last slice of the flow.
    #[inline]
    pub(crate) fn last(&mut self, point: FlowPoint, number: Option<u32>) -> Option<&mut SliceId> {
        if let Some(number) = number {
            return self.numbered.get_mut(number as usize)?.as_mut();
        }
        match point.space {
            FlowSpace::TrackEvent if is_bare(point) => self.track_events.get_mut(&point.id),
            FlowSpace::BindId if is_bare(point) => self.bind_ids.get_mut(&point.id),
            FlowSpace::Chrome => self.chrome.get_mut(&named(point)),
            space => self.other.get_mut(&(space, named(point))),
        }
    }

    /// Starts the flow at `slice`.
    pub(crate) fn begin(&mut self, point: FlowPoint, number: Option<u32>, slice: SliceId) {
        if let Some(number) = number {
            if let Some(last) = self.numbered.get_mut(number as usize) {
                *last = Some(slice);
            }
            return;
        }
        match point.space {
            FlowSpace::TrackEvent if is_bare(point) => {
                self.track_events.insert(point.id, slice);
            }
            FlowSpace::BindId if is_bare(point) => {
                self.bind_ids.insert(point.id, slice);
            }
            FlowSpace::Chrome => {
                self.chrome.insert(named(point), slice);
            }
            space => {
                self.other.insert((space, named(point)), slice);
            }
        }
    }

    /// Removes the flow.
    pub(crate) fn forget(&mut self, point: FlowPoint, number: Option<u32>) {
        if let Some(number) = number {
            if let Some(last) = self.numbered.get_mut(number as usize) {
                *last = None;
            }
            return;
        }
        match point.space {
            FlowSpace::TrackEvent if is_bare(point) => self.track_events.remove(&point.id),
            FlowSpace::BindId if is_bare(point) => self.bind_ids.remove(&point.id),
            FlowSpace::Chrome => self.chrome.remove(&named(point)),
            space => self.other.remove(&(space, named(point))),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::batch::FlowRole;

    #[test]
    fn identities_differ_by_space_category_and_name() {
        let mut ends = FlowEnds::new(2);
        let name = StrId::new(3);
        let mut points = Vec::new();
        for space in [FlowSpace::Chrome, FlowSpace::BindId, FlowSpace::TrackEvent] {
            for (id, category, name) in [
                (1, None, None),
                (1, name, None),
                (1, None, name),
                (2, None, None),
            ] {
                points.push(FlowPoint {
                    id,
                    category,
                    name,
                    space,
                    role: FlowRole::Through,
                });
            }
        }
        let slice = |i| SliceId::new(i).unwrap();
        let mut flows: Vec<(FlowPoint, Option<u32>)> = points.iter().map(|&p| (p, None)).collect();
        // A number makes it another flow, regardless of its identity.
        flows.push((points[0], Some(0)));
        flows.push((points[0], Some(1)));
        for (i, &(point, number)) in flows.iter().enumerate() {
            assert_eq!(ends.last(point, number), None);
            ends.begin(point, number, slice(i));
        }
        for (i, &(point, number)) in flows.iter().enumerate() {
            assert_eq!(ends.last(point, number), Some(&mut slice(i)));
            ends.forget(point, number);
            assert_eq!(ends.last(point, number), None);
        }
    }
}
