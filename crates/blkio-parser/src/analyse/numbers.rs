//! From numbers of places on the device to places in memory.

use rustc_hash::FxHashMap;

use crate::num::index;

/// Numbers that are found without looking them up: few streams are read and written at a time.
const RECENT: usize = 64;

/// Where what belongs to a number is kept.
#[derive(Debug, Clone)]
pub(super) struct Numbers {
    /// By the end of the number: the number, and its place plus 1.
    recent: [(u64, usize); RECENT],
    all: FxHashMap<u64, usize>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            recent: [(0, 0); RECENT],
            all: FxHashMap::default(),
        }
    }
}

impl Numbers {
    /// The place of a number; `next` is what it gets when it has none, and then it says so.
    #[inline]
    pub(super) fn place(&mut self, number: u64, next: usize) -> (usize, bool) {
        match self.recent.get(index(number) % RECENT) {
            Some((known, place)) if *known == number && *place > 0 => (place - 1, false),
            _ => self.look_up(number, next),
        }
    }

    /// The place of a number that has one.
    #[inline]
    pub(super) fn known(&self, number: u64) -> Option<usize> {
        match self.recent.get(index(number) % RECENT) {
            Some((known, place)) if *known == number && *place > 0 => Some(place - 1),
            _ => self.all.get(&number).copied(),
        }
    }

    fn look_up(&mut self, number: u64, next: usize) -> (usize, bool) {
        let (place, is_new) = match self.all.get(&number) {
            Some(place) => (*place, false),
            None => {
                self.all.insert(number, next);
                (next, true)
            }
        };
        if let Some(recent) = self.recent.get_mut(index(number) % RECENT) {
            *recent = (number, place + 1);
        }
        (place, is_new)
    }

    /// All numbers and their places, by number.
    pub(super) fn in_order(&self) -> Vec<(u64, usize)> {
        let mut all: Vec<(u64, usize)> = self.all.iter().map(|(n, place)| (*n, *place)).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_keeps_its_place(numbers in prop::collection::vec(0_u64..300, 0..200)) {
            let mut places = Numbers::default();
            let mut twin: Vec<u64> = Vec::new();
            for number in numbers {
                let known = twin.iter().position(|n| *n == number);
                let expected = known.map_or((twin.len(), true), |place| (place, false));
                prop_assert_eq!(places.place(number, twin.len()), expected);
                if known.is_none() {
                    twin.push(number);
                }
            }
            let mut twin: Vec<(u64, usize)> = twin.into_iter().zip(0..).collect();
            twin.sort_unstable();
            prop_assert_eq!(places.in_order(), twin);
        }
    }
}
