//! Requests that the driver gave back, until they are issued again.

use rustc_hash::FxHashMap;

/// Requests up to which nothing is given up.
const FEW: usize = 1 << 12;

/// Device, sector and sectors of a request.
type Place = ((u32, u64), u32);

/// What is known of a request from before it was given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Before {
    /// When it was issued for the first time.
    pub(super) first_issue_ns: u64,
    /// When its bios were queued.
    pub(super) queued_ns: Vec<u64>,
}

/// Requests given back, by place.
///
/// One that waits longer than the stale limit was issued again where the trace does not see it, or never, so that an issue
/// at its place is of another request. Such are found when they are many, so that memory is for those of one such time.
#[derive(Debug, Clone)]
pub(super) struct Requeued {
    stale_ns: u64,
    /// With the time at which they were given back.
    waiting: FxHashMap<Place, (u64, Before)>,
    /// How many wait when the next look is taken for those that are stale.
    enough: usize,
}

impl Requeued {
    pub(super) fn new(stale_ns: u64) -> Self {
        Self {
            stale_ns,
            waiting: FxHashMap::default(),
            enough: FEW,
        }
    }

    /// Takes a request that was given back. Of several at one place the last is meant by the next issue there.
    pub(super) fn add(&mut self, place: Place, t_ns: u64, before: Before) {
        self.waiting.insert(place, (t_ns, before));
        if self.waiting.len() > self.enough {
            let stale_ns = self.stale_ns;
            self.waiting
                .retain(|_, (back_ns, _)| t_ns.saturating_sub(*back_ns) <= stale_ns);
            self.enough = FEW.max(2 * self.waiting.len());
        }
    }

    /// Returns what is known of the request that is issued there.
    pub(super) fn take(&mut self, place: &Place, t_ns: u64) -> Option<Before> {
        if self.waiting.is_empty() {
            return None;
        }
        let (back_ns, before) = self.waiting.remove(place)?;
        (t_ns.saturating_sub(back_ns) <= self.stale_ns).then_some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(first_issue_ns: u64) -> Before {
        Before {
            first_issue_ns,
            queued_ns: Vec::new(),
        }
    }

    #[test]
    fn those_that_are_never_issued_again_are_given_up() {
        let mut requeued = Requeued::new(1_000);
        for number in 0..100_000_u64 {
            requeued.add(((1, number), 8), number, before(number));
            assert!(requeued.waiting.len() <= FEW + 1);
        }
        let last = ((1, 99_999), 8);
        assert_eq!(requeued.take(&last, 100_000), Some(before(99_999)));
        assert_eq!(requeued.take(&last, 100_000), None);
    }

    #[test]
    fn a_stale_one_is_another_request() {
        let mut requeued = Requeued::new(1_000);
        requeued.add(((1, 8), 8), 50, before(0));
        assert_eq!(requeued.take(&((1, 8), 8), 1_051), None);
        requeued.add(((1, 8), 8), 50, before(0));
        assert_eq!(requeued.take(&((1, 8), 8), 1_050), Some(before(0)));
    }
}
