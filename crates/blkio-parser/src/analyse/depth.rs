//! Requests in flight over time.

use std::collections::BTreeMap;

/// Ends held before those that are settled are counted.
const HOLD: usize = 1 << 18;

/// Number of requests in flight, from pairs of issue and completion.
///
/// A pair is known when it completes, and lasts at most as long as the stale limit; so what lies further back is settled.
#[derive(Debug, Clone)]
pub struct Depth {
    stale_ns: u64,
    /// Time and whether it is an issue: at equal times the completion comes first, and the issue finds the place free.
    ends: Vec<(u64, bool)>,
    hold: usize,
    now: i64,
    last_ns: u64,
    /// Most requests at once.
    pub max: u64,
    /// Time with a request in flight.
    pub busy_ns: u64,
    /// Sum of depth times time.
    pub integral: u128,
    /// Requests by the depth they found, themselves included.
    pub at_issue: BTreeMap<u64, u64>,
    /// Time by depth.
    pub time_at: BTreeMap<u64, u64>,
}

impl Depth {
    pub(crate) fn new(stale_ns: u64) -> Self {
        Self {
            stale_ns,
            ends: Vec::new(),
            hold: HOLD,
            now: 0,
            last_ns: 0,
            max: 0,
            busy_ns: 0,
            integral: 0,
            at_issue: BTreeMap::new(),
            time_at: BTreeMap::new(),
        }
    }

    /// Takes a pair; completions come in order of time.
    pub(crate) fn add(&mut self, issue_ns: u64, complete_ns: u64) {
        self.ends.push((issue_ns, true));
        self.ends.push((complete_ns, false));
        if self.ends.len() >= self.hold {
            self.settle(complete_ns.saturating_sub(self.stale_ns));
            // Nearly everything may lie within the limit: sorting again soon would be of no use.
            self.hold = HOLD.max(self.ends.len() * 2);
        }
    }

    pub(crate) fn finish(&mut self) {
        self.settle(u64::MAX);
    }

    fn settle(&mut self, until_ns: u64) {
        self.ends.sort_unstable();
        let count = self.ends.partition_point(|(t, _)| *t < until_ns);
        let rest = self.ends.split_off(count);
        for (t_ns, is_issue) in std::mem::replace(&mut self.ends, rest) {
            let lasted = t_ns.saturating_sub(self.last_ns);
            // A request that took no time ends before it begins: the depth is short of one in between.
            let depth = u64::try_from(self.now).unwrap_or(0);
            if depth > 0 && lasted > 0 {
                self.busy_ns += lasted;
                self.integral += u128::from(depth) * u128::from(lasted);
                *self.time_at.entry(depth).or_default() += lasted;
            }
            self.last_ns = t_ns;
            if is_issue {
                self.now += 1;
                let depth = u64::try_from(self.now).unwrap_or(0);
                self.max = self.max.max(depth);
                *self.at_issue.entry(depth).or_default() += 1;
            } else {
                self.now -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_busy_time_and_littles_law() {
        let mut depth = Depth::new(100);
        let mut pairs = [(0, 10), (5, 20), (30, 40), (35, 36)];
        pairs.sort_by_key(|p| p.1);
        pairs.iter().for_each(|(a, b)| depth.add(*a, *b));
        depth.finish();
        assert_eq!((depth.max, depth.busy_ns), (2, 30));
        let latencies: u128 = pairs.iter().map(|(a, b)| u128::from(b - a)).sum();
        assert_eq!(depth.integral, latencies);
        assert_eq!(depth.at_issue, BTreeMap::from([(1, 2), (2, 2)]));
        assert_eq!(depth.time_at, BTreeMap::from([(1, 24), (2, 6)]));
    }
}
