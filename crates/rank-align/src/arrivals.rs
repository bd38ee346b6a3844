//! Arrival order and wait time of one collective.

/// A run on the clock of the first rank, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignedRun {
    /// Start.
    pub start_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Half the width of the interval around the start: the error of the rank's clock.
    pub error_ns: i64,
}

/// Starts of one collective on the ranks that recorded it. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Arrivals {
    /// Wait time of each run until the last one started; `None` if its clock is unknown.
    pub wait_ns: Vec<Option<i64>>,
    /// Time from the first to the last start.
    pub skew_ns: i64,
    /// Time from the first to the last end.
    pub end_skew_ns: i64,
    /// Half the width of the interval around the skew: the errors of the two clocks.
    pub error_ns: i64,
    /// Delay of the last start behind the one before it.
    pub late_ns: i64,
    /// Index of the run that started last; `None` if several did.
    pub last: Option<usize>,
    /// Index of the run that started first; `None` if several did.
    pub first: Option<usize>,
    /// `true` if one run ends before another starts, by more than the clocks' errors. Then the runs
    /// are not one collective, or a clock is wrong.
    pub contradiction: bool,
    /// Time from the last start to the last end.
    pub transfer_ns: i64,
}

impl Arrivals {
    /// Compares `runs`, which are `None` for ranks without a known clock. Returns `None` if fewer
    /// than two are known. Cost: a sort.
    pub fn of(runs: &[Option<AlignedRun>]) -> Option<Self> {
        let mut known: Vec<(AlignedRun, usize)> = runs
            .iter()
            .enumerate()
            .filter_map(|(i, run)| Some(((*run)?, i)))
            .collect();
        known.sort_unstable_by_key(|(run, i)| (run.start_ns, run.end_ns, run.error_ns, *i));
        let (first, last) = (known.first()?, known.last()?);
        let before = known.get(known.len().checked_sub(2)?)?;
        let second = known.get(1)?;
        let ends = known.iter().map(|(run, _)| run.end_ns);
        let (first_end, last_end) = (ends.clone().min()?, ends.max()?);
        let others = known.iter().filter(|k| k.1 != last.1);
        let worst = others.map(|k| k.0.error_ns).max()?;
        let error_ns = last.0.error_ns.saturating_add(worst);
        let last_start = last.0.start_ns;
        Some(Self {
            wait_ns: runs
                .iter()
                .map(|run| Some(last_start.saturating_sub((*run)?.start_ns)))
                .collect(),
            skew_ns: last_start.saturating_sub(first.0.start_ns),
            end_skew_ns: last_end.saturating_sub(first_end),
            error_ns,
            late_ns: last_start.saturating_sub(before.0.start_ns),
            last: (before.0.start_ns != last_start).then_some(last.1),
            first: (second.0.start_ns != first.0.start_ns).then_some(first.1),
            contradiction: first_end.saturating_add(error_ns) < last_start,
            transfer_ns: last_end.saturating_sub(last_start),
        })
    }

    /// Returns `true` if the last run was late by more than the errors of the clocks.
    pub fn is_late(&self) -> bool {
        !self.contradiction && self.late_ns > self.error_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_three_is_found_and_ties_have_none() {
        let run = |start_ns| {
            Some(AlignedRun {
                start_ns,
                end_ns: 100,
                error_ns: 2,
            })
        };
        let found = Arrivals::of(&[run(10), None, run(30), run(20)]).unwrap();
        assert_eq!(found.wait_ns, [Some(20), None, Some(0), Some(10)]);
        assert_eq!((found.first, found.last), (Some(0), Some(2)));
        assert_eq!((found.skew_ns, found.late_ns, found.error_ns), (20, 10, 4));
        assert!(found.is_late() && !found.contradiction);
        let tied = Arrivals::of(&[run(10), run(10)]).unwrap();
        assert_eq!((tied.first, tied.last, tied.late_ns), (None, None, 0));
        let apart = Arrivals::of(&[run(10), run(200)]).unwrap();
        assert!(apart.contradiction && !apart.is_late());
        assert_eq!(Arrivals::of(&[run(10), None]), None);
    }
}
