//! Totals, sizes and traffic over time.

mod bins;
mod edges;
mod operations;

use rustc_hash::FxHashMap;

use super::Analyser;
use super::runs::{Batch, Run};
use crate::event::{Event, EventKind};
use crate::rwbs::Direction;

pub(super) use bins::FINE_NS;
use bins::Peak;
pub use bins::SECOND;
pub use bins::{Bins, FINE_BINS, Grid, MAX_BINS};
pub use blkio_companions::Amount;
pub use edges::Edges;
pub use operations::{Largest, PerOperation};

/// The two directions that move data.
pub const DATA: [Direction; 2] = [Direction::Read, Direction::Write];
/// All others.
pub const REST: [Direction; 5] = [
    Direction::Discard,
    Direction::Flush,
    Direction::None,
    Direction::Zone,
    Direction::Other,
];
/// Gaps without events that are kept.
const KEPT_GAPS: usize = 100;

/// Totals, sizes and series of a trace.
#[derive(Debug, Clone)]
pub struct Traffic {
    grid: Grid,
    /// From the beginning of the first chosen bin to the first issue.
    lead_ns: u64,
    /// Issued requests.
    pub issues: u64,
    /// Completions.
    pub completions: u64,
    /// Completions that end a flush sequence and are of no request.
    pub sequence_ends: u64,
    /// Completions with an error.
    pub errors: u64,
    /// Events of other kinds.
    pub other_events: u64,
    /// Time of the first issue.
    pub first_issue_ns: Option<u64>,
    /// Time of the last issue.
    pub last_issue_ns: u64,
    /// Time of the last completion.
    pub last_complete_ns: Option<u64>,
    /// First and last event of any kind.
    pub span_ns: Option<(u64, u64)>,
    /// Totals by number of operation letters.
    pub operations: Vec<PerOperation>,
    /// Reads and writes by whole second since the first issue.
    pub seconds: [Bins; 2],
    bins: [Bins; 2],
    /// Completed reads and writes by whole second since the first issue.
    pub completed_seconds: [Bins; 2],
    completed_bins: [Bins; 2],
    /// What is neither read nor write by the chosen bins, in the order of [`REST`]: issued and completed.
    pub rest_bins: [[Bins; 5]; 2],
    /// Reads and writes by 100 ms since the first issue, for phases and overlays.
    pub tenths: [Bins; 2],
    /// Reads and writes by 10 ms in the first [`FINE_BINS`] bins, for phases of short runs.
    pub hundredths: [Bins; 2],
    peaks: [[Peak; 3]; 2],
    /// Chains of the largest requests, of reads and writes.
    pub largest: [Largest; 2],
    /// First and last data requests by time.
    pub edges: Edges,
    /// Requests by device.
    pub devices: FxHashMap<u32, Amount>,
    /// Requests by number of the process name.
    pub processes: FxHashMap<u32, Amount>,
    /// Stretches of more than a second without any event: start and end, the first hundred.
    pub gaps: Vec<(u64, u64)>,
    /// Their number.
    pub gap_count: u64,
}

impl Traffic {
    /// Returns the time from the first issue to the last event, in nanoseconds; 0 without issues.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        let last = self.span_ns.map_or(self.last_issue_ns, |(_, last)| last);
        let first = self.first_issue_ns.unwrap_or(last);
        last.max(self.last_issue_ns).saturating_sub(first)
    }

    /// Returns the time from the first issue to the last completion, or to the last issue where that is later, in nanoseconds;
    /// 0 without issues. Rates are over this time: a burst is not done when its last request is issued.
    #[must_use]
    pub fn run_ns(&self) -> u64 {
        let last = self.last_complete_ns.unwrap_or(0).max(self.last_issue_ns);
        let first = self.first_issue_ns.unwrap_or(last);
        last.saturating_sub(first)
    }

    /// Returns the totals of no events, with a series in these bins.
    #[must_use]
    pub fn new(grid: Grid) -> Self {
        Self {
            grid,
            lead_ns: 0,
            issues: 0,
            completions: 0,
            sequence_ends: 0,
            errors: 0,
            other_events: 0,
            first_issue_ns: None,
            last_issue_ns: 0,
            last_complete_ns: None,
            span_ns: None,
            operations: Vec::new(),
            seconds: Default::default(),
            bins: Default::default(),
            completed_seconds: Default::default(),
            completed_bins: Default::default(),
            rest_bins: Default::default(),
            tenths: Default::default(),
            hundredths: Default::default(),
            peaks: Default::default(),
            largest: Default::default(),
            edges: Edges::default(),
            devices: FxHashMap::default(),
            processes: FxHashMap::default(),
            gaps: Vec::new(),
            gap_count: 0,
        }
    }

    /// Returns the begin of the first chosen bin; `None` without issues.
    #[must_use]
    pub fn bins_begin_ns(&self) -> Option<u64> {
        self.first_issue_ns.map(|first| first - self.lead_ns)
    }

    /// Returns the width of the chosen bins.
    #[must_use]
    pub fn bin_ns(&self) -> u64 {
        self.grid.width_ns()
    }

    /// Reads and writes by the chosen bin, the first of which holds the first issue.
    #[must_use]
    pub fn bins(&self) -> &[Bins; 2] {
        if self.grid.is_of_seconds() {
            &self.seconds
        } else {
            &self.bins
        }
    }

    /// Returns the completed reads and writes by the same bins. What completed before the first of them is in it.
    #[must_use]
    pub fn completed_bins(&self) -> &[Bins; 2] {
        if self.grid.is_of_seconds() {
            &self.completed_seconds
        } else {
            &self.completed_bins
        }
    }

    /// Returns the maximum number of bytes and requests of one bin, for bins of 1 s, 100 ms and 10 ms, of reads and writes.
    #[must_use]
    pub fn peaks(&self) -> [[Amount; 3]; 2] {
        self.peaks.clone().map(|widths| {
            widths.map(|mut peak| {
                peak.close();
                peak.most
            })
        })
    }

    fn begin(&mut self, first_ns: u64) {
        self.first_issue_ns = Some(first_ns);
        self.lead_ns = first_ns - self.grid.begin_ns(first_ns);
    }

    fn issue(&mut self, run: &Run) {
        let count = u64::from(run.count);
        self.issues += count;
        self.last_issue_ns = self.last_issue_ns.max(run.last_ns);
        let number = usize::from(run.rwbs);
        if number >= self.operations.len() {
            self.operations.resize_with(number + 1, Default::default);
        }
        if let Some(operation) = self.operations.get_mut(number) {
            operation.add(run);
        }
        let amount = Amount {
            ios: count,
            bytes: u64::from(run.bytes) * count,
        };
        if run.direction.is_data() {
            let lasted_ns = run.last_ns.saturating_sub(run.t_ns);
            let until_ns = run.since_ns.saturating_add(lasted_ns);
            self.edges
                .add(run.since_ns / FINE_NS, run.since_ns, until_ns);
            self.add_data(run.direction.slot(), run.since_ns, amount);
            if let Some(largest) = self.largest.get_mut(run.direction.slot()) {
                largest.add(run.bytes, count);
            }
        } else {
            self.add_rest(0, run.direction, run.since_ns, amount);
        }
        self.devices.entry(run.dev).or_default().add(amount);
        if run.comm != 0 {
            self.processes.entry(run.comm).or_default().add(amount);
        }
    }

    /// Something happened.
    #[inline]
    fn extend_span(&mut self, t_ns: u64) {
        let (_, last) = self.span_ns.get_or_insert((t_ns, t_ns));
        if t_ns > *last && t_ns - *last > SECOND {
            self.gap_count += 1;
            if self.gaps.len() < KEPT_GAPS {
                self.gaps.push((*last, t_ns));
            }
        }
        *last = t_ns.max(*last);
    }

    /// Counts what is neither read nor write, as issued or completed so long after the first issue.
    #[cold]
    fn add_rest(&mut self, stage: usize, direction: Direction, since_ns: u64, amount: Amount) {
        let bins = self.rest_bins.get_mut(stage);
        let slot = REST.iter().position(|of| *of == direction);
        if let Some(bins) = bins.zip(slot).and_then(|(bins, slot)| bins.get_mut(slot)) {
            let since_ns = since_ns.saturating_add(self.lead_ns);
            bins.add(since_ns / self.grid.width_ns(), amount);
        }
    }

    fn complete(&mut self, event: &Event) {
        self.completions += 1;
        self.sequence_ends += u64::from(event.ends_sequence());
        self.errors += u64::from(event.error != 0);
        let last = self.last_complete_ns.unwrap_or(0);
        self.last_complete_ns = Some(last.max(event.t_ns));
        if event.direction.is_data()
            && event.nr_sector > 0
            && let Some(first) = self.first_issue_ns
        {
            let since = event.t_ns.saturating_sub(first);
            let amount = Amount {
                ios: 1,
                bytes: u64::from(event.bytes),
            };
            if let Some(seconds) = self.completed_seconds.get_mut(event.direction.slot()) {
                seconds.add(since / SECOND, amount);
            }
            if !self.grid.is_of_seconds()
                && let Some(bins) = self.completed_bins.get_mut(event.direction.slot())
            {
                let begin_ns = first - self.lead_ns;
                let since = event.t_ns.saturating_sub(begin_ns);
                bins.add(since / self.grid.width_ns(), amount);
            }
        } else if !event.direction.is_data()
            && let Some(first) = self.first_issue_ns
        {
            let amount = Amount {
                ios: 1,
                bytes: u64::from(event.bytes),
            };
            let since_ns = event.t_ns.saturating_sub(first);
            self.add_rest(1, event.direction, since_ns, amount);
        }
    }

    /// Counts reads or writes that were issued so long after the first issue.
    fn add_data(&mut self, slot: usize, since_ns: u64, amount: Amount) {
        let fine = since_ns / FINE_NS;
        if let Some(seconds) = self.seconds.get_mut(slot) {
            seconds.add(fine / 100, amount);
        }
        if fine < FINE_BINS
            && let Some(hundredths) = self.hundredths.get_mut(slot)
        {
            hundredths.add(fine, amount);
        }
        if let Some(tenths) = self.tenths.get_mut(slot) {
            tenths.add(fine / 10, amount);
        }
        if !self.grid.is_of_seconds()
            && let Some(bins) = self.bins.get_mut(slot)
        {
            let since_ns = since_ns.saturating_add(self.lead_ns);
            bins.add(since_ns / self.grid.width_ns(), amount);
        }
        if let Some([second, tenth, hundredth]) = self.peaks.get_mut(slot) {
            hundredth.add(fine, amount);
            tenth.add(fine / 10, amount);
            second.add(fine / 100, amount);
        }
    }
}

impl Analyser for Traffic {
    fn observe(&mut self, batch: &Batch) {
        for event in batch.events.iter() {
            self.extend_span(event.t_ns);
            match event.kind {
                EventKind::Issue if self.first_issue_ns.is_none() => self.begin(event.t_ns),
                EventKind::Issue => {}
                EventKind::Complete => self.complete(event),
                _ => self.other_events += 1,
            }
        }
        batch.runs.iter().for_each(|run| self.issue(run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::runs::Runs;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bins_by_the_clock_are_those_of_dividing_its_time(
            gaps in prop::collection::vec(0_u64..40_000_000, 1..100),
            first in 0_u64..5_000_000_000,
            bin_ns in prop::sample::select(vec![1_000_000_u64, 7_000_000, 25_000_000, SECOND]),
        ) {
            let mut traffic = Traffic::new(Grid::new(bin_ns, true));
            let mut runs = Runs::within(Grid::new(bin_ns, true));
            let mut model: BTreeMap<u64, Amount> = BTreeMap::new();
            let mut t_ns = first;
            for gap in &gaps {
                let event = Event { t_ns, nr_sector: 8, bytes: 4096, ..Event::BLANK };
                traffic.observe(&runs.batch(Arc::new(vec![event])));
                let bin = t_ns / bin_ns - first / bin_ns;
                model.entry(bin).or_default().add(Amount { ios: 1, bytes: 4096 });
                t_ns += gap;
            }
            let [reads, _] = traffic.bins();
            prop_assert_eq!(reads.finish(), model);
            prop_assert_eq!(traffic.bins_begin_ns(), Some(first / bin_ns * bin_ns));
        }
    }
}
