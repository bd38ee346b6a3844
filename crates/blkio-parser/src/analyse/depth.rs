//! Requests in flight over time.

use std::ops::Range;

use super::traffic::Grid;
use crate::num::index;
use crate::rwbs::Direction;

/// Requests held before those that are settled are counted.
const HOLD: usize = 1 << 17;
/// Bins of time that are kept; beyond, they become twice as wide.
const MAX_BINS: usize = 1 << 17;

/// Number of requests in flight, from pairs of issue and completion.
///
/// A pair is known when it completes. Who adds pairs knows since when those last that are to come, and what lies further back
/// is settled.
#[derive(Debug, Clone)]
pub struct Depth {
    /// Times and classes of the requests, as they completed.
    issues: Vec<(u64, u8)>,
    completions: Vec<(u64, u8)>,
    /// Those that took no time the clock could tell.
    instants: Vec<(u64, u8)>,
    /// How many are held before some are counted, and how many were left then.
    pub(super) hold: usize,
    left: usize,
    /// Depth of all requests.
    pub all: Level,
    /// Depth of reads and of writes, where they are kept apart.
    pub classes: Option<[Level; 2]>,
    /// Depth of all requests by bin of time, where bins were asked for.
    pub bins: Option<DepthBins>,
    /// The same in bins of [`GRID_NS`], in which a GPU's utilisation is compared.
    pub grid: Option<DepthBins>,
}

/// Width of the bins in which devices are compared with each other: the interval at which GPUs are commonly sampled.
pub const GRID_NS: u64 = 200_000_000;

/// What happens at a time, in the order in which it does when the time is the same: a place is free before it is taken, and
/// a request that took no time finds all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Completion,
    Issue,
    /// Issue and completion in one.
    Instant,
}

/// Requests in flight of one class.
#[derive(Debug, Clone, Default)]
pub struct Level {
    now: i64,
    last_ns: u64,
    /// Time with a request in flight.
    pub busy_ns: u64,
    /// Sum of depth times time.
    pub integral: u128,
    /// By depth: requests that found it, themselves included, and its time. One entry for each depth up to the largest.
    by_depth: Vec<(u64, u64)>,
}

impl Level {
    /// Goes to this time; gives the depth since the end before, and when that was.
    fn pass(&mut self, t_ns: u64) -> (u64, u64) {
        let since_ns = std::mem::replace(&mut self.last_ns, t_ns);
        let lasted = t_ns.saturating_sub(since_ns);
        let depth = u64::try_from(self.now).unwrap_or(0);
        if depth > 0 && lasted > 0 {
            self.busy_ns += lasted;
            self.integral += u128::from(depth) * u128::from(lasted);
            if let Some((_, time)) = self.by_depth.get_mut(index(depth)) {
                *time += lasted;
            }
        }
        (depth, since_ns)
    }

    fn change(&mut self, change: Change) {
        if change == Change::Completion {
            self.now -= 1;
            return;
        }
        let found = self.now + 1;
        if change == Change::Issue {
            self.now = found;
        }
        let depth = index(u64::try_from(found).unwrap_or(0));
        if depth >= self.by_depth.len() {
            self.by_depth.resize(depth + 1, (0, 0));
        }
        if let Some((requests, _)) = self.by_depth.get_mut(depth) {
            *requests += 1;
        }
    }

    /// Returns the maximum number of requests at once.
    #[must_use]
    pub fn max(&self) -> u64 {
        (self.by_depth.len() as u64).saturating_sub(1)
    }

    /// Returns the requests by the depth they found, themselves included.
    pub fn at_issue(&self) -> impl Iterator<Item = (u64, u64)> {
        let depths = (0_u64..).zip(&self.by_depth);
        depths.filter_map(|(depth, (requests, _))| (*requests > 0).then_some((depth, *requests)))
    }

    /// Returns the time by depth, in nanoseconds.
    pub fn time_at(&self) -> impl Iterator<Item = (u64, u64)> {
        let depths = (0_u64..).zip(&self.by_depth);
        depths.filter_map(|(depth, (_, time))| (*time > 0).then_some((depth, *time)))
    }
}

/// Depth by bin of time since an origin. Bins without a request in flight are left out.
#[derive(Debug, Clone)]
pub struct DepthBins {
    /// Width of a bin: the one asked for, doubled as often as there were too many.
    pub width_ns: u64,
    /// Where bin 0 begins.
    pub origin_ns: u64,
    most: usize,
    /// By number, in order.
    bins: Vec<(u64, DepthBin)>,
    /// What the last bin covers, since the origin.
    open: Range<u64>,
}

/// Depth in one bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DepthBin {
    /// Maximum number of requests at once.
    pub max: u64,
    /// Sum of depth times nanoseconds.
    pub integral: u128,
    /// Time with a request in flight.
    pub busy_ns: u64,
}

impl DepthBin {
    fn add(&mut self, other: Self) {
        self.max = self.max.max(other.max);
        self.integral += other.integral;
        self.busy_ns += other.busy_ns;
    }
}

impl DepthBins {
    fn new(width_ns: u64, origin_ns: u64) -> Self {
        Self {
            width_ns: width_ns.max(1),
            origin_ns,
            most: MAX_BINS,
            bins: Vec::new(),
            open: 0..0,
        }
    }

    /// Takes a stretch of one depth above zero; stretches come in order.
    fn add(&mut self, from_ns: u64, until_ns: u64, depth: u64) {
        let mut from = from_ns.saturating_sub(self.origin_ns);
        let until = until_ns.saturating_sub(self.origin_ns);
        while from < until {
            if from >= self.open.end {
                self.begin(from / self.width_ns);
            }
            let end = self.open.end.min(until);
            if let Some((_, bin)) = self.bins.last_mut() {
                bin.add(DepthBin {
                    max: depth,
                    integral: u128::from(depth) * u128::from(end - from),
                    busy_ns: end - from,
                });
            }
            // At the end of time a bin has no end behind it.
            from = if end > from { end } else { until };
        }
    }

    fn begin(&mut self, bin: u64) {
        self.bins.push((bin, DepthBin::default()));
        while self.bins.len() > self.most && self.width_ns < 1 << 62 {
            self.width_ns *= 2;
            for (bin, depth) in std::mem::take(&mut self.bins) {
                match self.bins.last_mut() {
                    Some((last, sum)) if *last == bin / 2 => sum.add(depth),
                    _ => self.bins.push((bin / 2, depth)),
                }
            }
        }
        let open = self.bins.last().map_or(0, |(bin, _)| *bin);
        let start = open.saturating_mul(self.width_ns);
        self.open = start..start.saturating_add(self.width_ns);
    }

    /// Returns the bins with a request in flight, by number, in order.
    #[must_use]
    pub fn bins(&self) -> &[(u64, DepthBin)] {
        &self.bins
    }
}

impl Depth {
    pub(crate) fn new() -> Self {
        Self {
            issues: Vec::new(),
            completions: Vec::new(),
            instants: Vec::new(),
            hold: HOLD,
            left: 0,
            all: Level::default(),
            classes: None,
            bins: None,
            grid: None,
        }
    }

    /// Also keeps reads and writes apart.
    pub(crate) fn by_class(mut self) -> Self {
        self.classes = Some(Default::default());
        self
    }

    /// The same without what was added by classes and bins.
    pub(crate) fn of_all(&self) -> Self {
        Self {
            issues: self.issues.clone(),
            completions: self.completions.clone(),
            instants: self.instants.clone(),
            hold: self.hold,
            left: self.left,
            all: self.all.clone(),
            ..Self::new()
        }
    }

    /// Also keeps bins, and those of [`GRID_NS`] since the first issue; call before the first pair.
    pub(crate) fn in_bins(&mut self, bins: Grid, first_issue_ns: u64) {
        let begin_ns = bins.begin_ns(first_issue_ns);
        self.bins = Some(DepthBins::new(bins.width_ns(), begin_ns));
        self.grid = Some(DepthBins::new(GRID_NS, first_issue_ns));
    }

    /// Takes a pair; completions come in order of time.
    pub(crate) fn add(&mut self, issue_ns: u64, complete_ns: u64, direction: Direction) {
        let class = match direction {
            Direction::Read => 1,
            Direction::Write => 2,
            _ => 0,
        };
        if issue_ns == complete_ns {
            self.instants.push((issue_ns, class));
        } else {
            self.issues.push((issue_ns, class));
            self.completions.push((complete_ns, class));
        }
    }

    /// Returns `true` if so much is held that what is settled should be counted.
    pub(crate) fn is_full(&self) -> bool {
        // Nearly all may have been left: sorting them again soon would be of no use.
        self.held() >= self.hold.max(self.left * 2)
    }

    /// Counts what lies before a time before which no request was issued that is still to complete.
    pub(crate) fn count_until(&mut self, t_ns: u64) {
        self.settle(t_ns);
        self.left = self.held();
    }

    fn held(&self) -> usize {
        self.issues.len().max(self.completions.len()) + self.instants.len()
    }

    pub(crate) fn finish(&mut self) {
        self.settle(u64::MAX);
    }

    fn settle(&mut self, until_ns: u64) {
        let settled = |of: &mut Vec<(u64, u8)>| {
            // Completions are in order as they came, which costs a look.
            of.sort_by_key(|(t_ns, _)| *t_ns);
            let count = of.partition_point(|(t_ns, _)| *t_ns < until_ns);
            let rest = of.split_off(count);
            std::mem::replace(of, rest).into_iter().peekable()
        };
        let mut completions = settled(&mut self.completions);
        let mut issues = settled(&mut self.issues);
        let mut instants = settled(&mut self.instants);
        loop {
            let times = [completions.peek(), issues.peek(), instants.peek()];
            let [completion, issue, instant] = times.map(|next| next.map(|(t_ns, _)| *t_ns));
            let Some(first) = [completion, issue, instant].into_iter().flatten().min() else {
                return;
            };
            let (change, next) = if completion == Some(first) {
                (Change::Completion, completions.next())
            } else if issue == Some(first) {
                (Change::Issue, issues.next())
            } else {
                (Change::Instant, instants.next())
            };
            if let Some((t_ns, class)) = next {
                self.pass(t_ns, change, class);
            }
        }
    }

    fn pass(&mut self, t_ns: u64, change: Change, class: u8) {
        let (depth, since_ns) = self.all.pass(t_ns);
        if depth > 0 {
            for bins in self.bins.iter_mut().chain(&mut self.grid) {
                bins.add(since_ns, t_ns, depth);
            }
        }
        self.all.change(change);
        let class = usize::from(class).checked_sub(1);
        if let (Some(levels), Some(class)) = (&mut self.classes, class)
            && let Some(level) = levels.get_mut(class)
        {
            level.pass(t_ns);
            level.change(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Returns the number of pairs in flight at an instant.
    fn at(pairs: &[(u64, u64, Direction)], t: u64, of: impl Fn(Direction) -> bool) -> u64 {
        let alive = pairs
            .iter()
            .filter(|(a, b, d)| (*a..*b).contains(&t) && of(*d));
        alive.count() as u64
    }

    #[test]
    fn depth_busy_time_and_littles_law() {
        let mut depth = Depth::new();
        let mut pairs = [(0, 10), (5, 20), (30, 40), (35, 36)];
        pairs.sort_by_key(|p| p.1);
        let read = Direction::Read;
        pairs.iter().for_each(|(a, b)| depth.add(*a, *b, read));
        depth.finish();
        let all = depth.all;
        assert_eq!((all.max(), all.busy_ns), (2, 30));
        let latencies: u128 = pairs.iter().map(|(a, b)| u128::from(b - a)).sum();
        assert_eq!(all.integral, latencies);
        assert_eq!(all.at_issue().collect::<Vec<_>>(), [(1, 2), (2, 2)]);
        assert_eq!(all.time_at().collect::<Vec<_>>(), [(1, 24), (2, 6)]);
    }

    #[test]
    fn a_request_that_took_no_time_finds_itself() {
        let mut depth = Depth::new();
        for (issue_ns, complete_ns) in [(5, 5), (5, 20), (7, 7)] {
            depth.add(issue_ns, complete_ns, Direction::Write);
        }
        depth.finish();
        assert_eq!(depth.all.at_issue().collect::<Vec<_>>(), [(1, 1), (2, 2)]);
        assert_eq!((depth.all.max(), depth.all.busy_ns), (2, 15));
    }

    proptest! {
        #[test]
        fn classes_and_bins_are_those_of_looking_at_every_instant(
            pairs in prop::collection::vec((0_u64..400, 0_u64..90, 0_usize..3), 1..60),
            width in 1_u64..70,
            most in 1_usize..12,
        ) {
            let directions = [Direction::Read, Direction::Write, Direction::Flush];
            let mut pairs: Vec<(u64, u64, Direction)> = pairs
                .iter()
                .map(|(issue, lasts, class)| (*issue, issue + lasts, directions[*class]))
                .collect();
            pairs.sort_by_key(|p| p.1);
            let origin = pairs.iter().map(|p| p.0).min().unwrap();
            let mut depth = Depth::new().by_class();
            depth.in_bins(Grid::new(width, false), origin);
            depth.bins.as_mut().unwrap().most = most;
            for (issue, complete, direction) in &pairs {
                depth.add(*issue, *complete, *direction);
                // As in a run that is too long to be held.
                depth.settle(complete.saturating_sub(100));
            }
            depth.finish();
            let bins = depth.bins.unwrap();
            prop_assert!(bins.bins().len() <= most.max(1));
            let mut model: BTreeMap<u64, DepthBin> = BTreeMap::new();
            for t in origin..500 {
                let now = at(&pairs, t, |_| true);
                if now > 0 {
                    let bin = model.entry((t - origin) / bins.width_ns).or_default();
                    bin.add(DepthBin { max: now, integral: now.into(), busy_ns: 1 });
                }
            }
            let model: Vec<_> = model.into_iter().collect();
            prop_assert_eq!(bins.bins(), model);
            for (level, direction) in depth.classes.unwrap().iter().zip(directions) {
                let depths = (0..500).map(|t| at(&pairs, t, |d| d == direction));
                let (mut busy, mut integral) = (0, 0_u128);
                let mut time: BTreeMap<u64, u64> = BTreeMap::new();
                for depth in depths.filter(|depth| *depth > 0) {
                    busy += 1;
                    integral += u128::from(depth);
                    *time.entry(depth).or_default() += 1;
                }
                prop_assert_eq!((level.busy_ns, level.integral), (busy, integral));
                prop_assert_eq!(level.time_at().collect::<BTreeMap<_, _>>(), time);
                let issued = pairs.iter().filter(|p| p.2 == direction).count() as u64;
                prop_assert_eq!(level.at_issue().map(|(_, count)| count).sum::<u64>(), issued);
            }
        }
    }
}
