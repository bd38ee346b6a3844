//! Which of many lanes is free first.

/// The ends of lanes, so that the first one that is free is found without asking all: where everything overlaps there are as many
/// lanes as records.
#[derive(Debug, Default)]
pub(super) struct LaneEnds {
    /// A tree of the earliest ends: node `n` has the children `2n` and `2n + 1`, the root is 1, and lanes are the last half.
    tree: Vec<i64>,
    lanes: usize,
}

/// The end of a lane that is not there.
const NEVER: i64 = i64::MAX;

impl LaneEnds {
    pub(super) fn len(&self) -> usize {
        self.lanes
    }

    /// The first lane that ends by `start`.
    pub(super) fn first_free(&self, start: i64) -> Option<usize> {
        let ends_by = |node: usize| self.tree.get(node).is_some_and(|end| *end <= start);
        if !ends_by(1) {
            return None;
        }
        let mut node = 1;
        while node < self.places() {
            node = node * 2 + usize::from(!ends_by(node * 2));
        }
        // With a start at the end of all times even lanes that are not there are free.
        Some(node - self.places()).filter(|lane| *lane < self.lanes)
    }

    /// Makes a lane longer.
    pub(super) fn extend(&mut self, lane: usize, end: i64) {
        let node = self.places() + lane;
        if let Some(place) = self.tree.get_mut(node) {
            *place = end.max(*place);
            self.renew(node / 2);
        }
    }

    pub(super) fn push(&mut self, end: i64) {
        let places = self.places();
        if self.lanes == places {
            let grown = (places * 2).max(1);
            let mut tree = vec![NEVER; grown * 2];
            for lane in 0..self.lanes {
                if let (Some(to), Some(from)) =
                    (tree.get_mut(grown + lane), self.tree.get(places + lane))
                {
                    *to = *from;
                }
            }
            self.tree = tree;
            for node in (1..grown).rev() {
                self.take_earliest(node);
            }
        }
        let node = self.places() + self.lanes;
        if let Some(place) = self.tree.get_mut(node) {
            *place = end;
        }
        self.lanes += 1;
        self.renew(node / 2);
    }

    /// How many lanes the tree has place for, a power of two.
    fn places(&self) -> usize {
        self.tree.len() / 2
    }

    fn renew(&mut self, mut node: usize) {
        while node > 0 {
            self.take_earliest(node);
            node /= 2;
        }
    }

    fn take_earliest(&mut self, node: usize) {
        let end = |child: usize| self.tree.get(child).copied().unwrap_or(NEVER);
        let earliest = end(node * 2).min(end(node * 2 + 1));
        if let Some(place) = self.tree.get_mut(node) {
            *place = earliest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_asking_all() {
        let mut state = 7_u64;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            i64::try_from((state >> 33) % below).unwrap()
        };
        for round in 0..60 {
            let (mut ends, mut all) = (LaneEnds::default(), Vec::<i64>::new());
            for _ in 0..next(120) {
                let (start, length) = (next(60), next(40));
                let is_endless = round % 3 == 0 && length > 30;
                let end = if is_endless { NEVER } else { start + length };
                for start in [NEVER, start] {
                    let first = all.iter().position(|end| *end <= start);
                    assert_eq!(ends.first_free(start), first, "{start} of {all:?}");
                }
                match ends.first_free(start) {
                    Some(lane) => {
                        ends.extend(lane, end);
                        all[lane] = all[lane].max(end);
                    }
                    None => {
                        ends.push(end);
                        all.push(end);
                    }
                }
                assert_eq!(ends.len(), all.len());
            }
        }
    }
}
