//! Finds the first of many lanes with room.
//!
//! Overlapping slices are placed on parallel lanes, each on the first one with room. If all slices
//! overlap there are as many lanes as slices, so that testing lane by lane takes quadratic time.

/// A time for each lane, from which the first lane with room is found without testing all lanes.
///
/// The caller defines the meaning of the time: when the lane is free, or when its innermost open
/// slice ends. Lanes are numbered from 0 in the order of [`LaneTimes::push`]. Memory: 32 to 64
/// bytes per lane.
///
/// ```
/// use trace_model::LaneTimes;
///
/// let mut free_at = LaneTimes::default();
/// for time in [30, 20, 10] {
///     free_at.push(time);
/// }
/// assert_eq!(free_at.first_until(20), Some(1));
/// free_at.set(1, 40);
/// assert_eq!(free_at.first_until(20), Some(2));
/// assert_eq!(free_at.first_outside(1, 5, 40), Some(1));
/// ```
#[derive(Debug, Clone, Default)]
pub struct LaneTimes {
    /// Earliest and latest time of each subtree: node `n` has the children `2n` and `2n + 1`, the
    /// root is 1, and lanes are the last half.
    tree: Vec<(i64, i64)>,
    lanes: usize,
}

/// Times of a missing lane.
const NOTHING: (i64, i64) = (i64::MAX, i64::MIN);

impl LaneTimes {
    /// Returns the number of lanes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lanes
    }

    /// Returns `true` if there are no lanes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes == 0
    }

    /// Returns the time of a lane.
    #[must_use]
    pub fn get(&self, lane: usize) -> Option<i64> {
        let leaf = self.tree.get(self.places() + lane)?;
        (lane < self.lanes).then_some(leaf.0)
    }

    /// Adds a lane. Cost: as [`LaneTimes::set`], amortized.
    pub fn push(&mut self, time: i64) {
        let places = self.places();
        if self.lanes == places {
            let grown = (places * 2).max(1);
            let mut tree = vec![NOTHING; grown];
            tree.extend(self.tree.get(places..).unwrap_or_default());
            tree.resize(grown * 2, NOTHING);
            self.tree = tree;
            for node in (1..grown).rev() {
                self.join(node);
            }
        }
        self.lanes += 1;
        self.set(self.lanes - 1, time);
    }

    /// Changes the time of a lane; has no effect if the lane does not exist. Cost: logarithmic in
    /// the number of lanes.
    pub fn set(&mut self, lane: usize, time: i64) {
        if lane >= self.lanes {
            return;
        }
        let mut node = self.places() + lane;
        if let Some(leaf) = self.tree.get_mut(node) {
            *leaf = (time, time);
        }
        while node > 1 {
            node /= 2;
            self.join(node);
        }
    }

    /// Returns the first lane with a time of at most `until`. Cost: logarithmic in the number of
    /// lanes.
    #[must_use]
    pub fn first_until(&self, until: i64) -> Option<usize> {
        self.first(0, |earliest, _| earliest <= until)
    }

    /// Returns the first lane, starting at `from`, with a time of at most `until` or at least
    /// `since`. Cost: logarithmic in the number of lanes.
    #[must_use]
    pub fn first_outside(&self, from: usize, until: i64, since: i64) -> Option<usize> {
        self.first(from, |earliest, latest| {
            earliest <= until || latest >= since
        })
    }

    /// Returns the first lane, starting at `from`, for which `holds`. If `holds` is true for one of
    /// several lanes, it must be true for their earliest and latest time.
    fn first(&self, from: usize, holds: impl Fn(i64, i64) -> bool) -> Option<usize> {
        if from >= self.lanes {
            return None;
        }
        let holds = |node: usize| {
            self.tree
                .get(node)
                .is_some_and(|&(earliest, latest)| holds(earliest, latest))
        };
        // Climbs up and to the right until some lane below matches, then descends to the first.
        let mut node = self.places() + from;
        while !holds(node) {
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        while node < self.places() {
            node *= 2;
            node += usize::from(!holds(node));
        }
        // For the extreme times even missing lanes seem to match; they come last.
        Some(node - self.places()).filter(|lane| *lane < self.lanes)
    }

    /// Returns the capacity of the tree in lanes, a power of two.
    fn places(&self) -> usize {
        self.tree.len() / 2
    }

    fn join(&mut self, node: usize) {
        let below = |child: usize| self.tree.get(child).copied().unwrap_or(NOTHING);
        let (left, right) = (below(node * 2), below(node * 2 + 1));
        if let Some(place) = self.tree.get_mut(node) {
            *place = (left.0.min(right.0), left.1.max(right.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates a few close times, and both extremes.
    fn time() -> impl Strategy<Value = i64> {
        prop_oneof![
            8 => 0..40_i64,
            1 => Just(i64::MAX),
            1 => Just(i64::MIN),
        ]
    }

    proptest! {
        #[test]
        fn as_asking_all(
            changes in prop::collection::vec((0..3_usize, any::<u16>(), time()), 0..90),
            (from, until, since) in (0..40_usize, time(), time()),
        ) {
            let (mut lanes, mut all) = (LaneTimes::default(), Vec::new());
            for (kind, lane, time) in changes {
                let lane = usize::from(lane) % (all.len() + 1);
                if kind == 0 || lane == all.len() {
                    lanes.push(time);
                    all.push(time);
                } else {
                    lanes.set(lane, time);
                    all[lane] = time;
                }
                prop_assert_eq!(lanes.len(), all.len());
                let first = all.iter().position(|time| *time <= until);
                prop_assert_eq!(lanes.first_until(until), first);
                let is_outside = |time: &i64| *time <= until || *time >= since;
                let first = all.iter().skip(from).position(is_outside);
                prop_assert_eq!(
                    lanes.first_outside(from, until, since),
                    first.map(|at| at + from)
                );
            }
            for (lane, time) in all.iter().enumerate() {
                prop_assert_eq!(lanes.get(lane), Some(*time));
            }
            prop_assert_eq!(lanes.get(all.len()), None);
        }
    }
}
