//! How much, when: totals, sizes, traffic per second.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Analyser;
use super::runs::{Batch, Run};
use crate::event::{Event, EventKind};
use crate::rwbs::Direction;

/// Nanoseconds of a second.
pub(crate) const SECOND: u64 = 1_000_000_000;
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
/// Bins of 10 ms that are kept: fifteen seconds.
pub const FINE_BINS: u64 = 1500;
/// Width of the finest bins.
pub(super) const FINE_NS: u64 = SECOND / 100;
/// Most bins of a series that is given bin by bin; of a longer run it is left out.
pub const MAX_BINS: u64 = 1 << 20;
/// Gaps without events that are kept.
const KEPT_GAPS: usize = 100;

/// Requests and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Requests.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Amount {
    /// Adds another amount.
    pub fn add(&mut self, other: Self) {
        self.ios += other.ios;
        self.bytes += other.bytes;
    }
}

/// Bins of one width, and where they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    width_ns: u64,
    by_clock: bool,
}

impl Grid {
    /// Bins of so many nanoseconds, at least 1, that begin at the first issue or, by the clock, at multiples of their width
    /// of the trace's clock.
    #[must_use]
    pub fn new(width_ns: u64, by_clock: bool) -> Self {
        Self {
            width_ns: width_ns.max(1),
            by_clock,
        }
    }

    /// Width of a bin in nanoseconds.
    #[must_use]
    pub fn width_ns(self) -> u64 {
        self.width_ns
    }

    /// Where the bin begins that the first issue is in, which is number 0.
    #[must_use]
    pub fn begin_ns(self, first_issue_ns: u64) -> u64 {
        if self.by_clock {
            first_issue_ns - first_issue_ns % self.width_ns
        } else {
            first_issue_ns
        }
    }

    /// Whether its bins are those of whole seconds since the first issue.
    #[must_use]
    pub fn is_of_seconds(self) -> bool {
        self.width_ns == SECOND && !self.by_clock
    }
}

/// Amounts by bin of time. Events come in order, so only one bin is open.
#[derive(Debug, Clone, Default)]
pub struct Bins {
    open: Option<(u64, Amount)>,
    closed: Vec<(u64, Amount)>,
}

impl Bins {
    fn add(&mut self, bin: u64, amount: Amount) {
        match &mut self.open {
            Some((number, open)) if *number == bin => open.add(amount),
            open => self.closed.extend(open.replace((bin, amount))),
        }
    }

    /// Bins that are not empty, in order.
    #[must_use]
    pub fn finish(&self) -> BTreeMap<u64, Amount> {
        let mut bins: BTreeMap<u64, Amount> = BTreeMap::new();
        for (bin, amount) in self.closed.iter().chain(&self.open) {
            bins.entry(*bin).or_default().add(*amount);
        }
        bins
    }
}

/// The largest amount of one bin.
#[derive(Debug, Clone, Default)]
struct Peak {
    bin: u64,
    open: Amount,
    most: Amount,
}

impl Peak {
    fn add(&mut self, bin: u64, amount: Amount) {
        if bin != self.bin {
            self.close();
            self.bin = bin;
        }
        self.open.add(amount);
    }

    fn close(&mut self) {
        self.most.bytes = self.most.bytes.max(self.open.bytes);
        self.most.ios = self.most.ios.max(self.open.ios);
        self.open = Amount::default();
    }
}

/// What is known of one text of operation letters.
#[derive(Debug, Clone, Default)]
pub struct PerOperation {
    /// Requests by size in bytes.
    pub sizes: FxHashMap<u32, u64>,
    last_size: (u32, u64),
    open_second: Stretch,
    open_kib: Amount,
    /// KiB (each request cut to whole KiB) by whole second of the trace's clock, for the published figures.
    pub kib_per_second: Bins,
}

impl PerOperation {
    #[inline]
    fn add(&mut self, run: &Run) {
        if self.last_size.0 != run.bytes {
            self.settle_size();
            self.last_size.0 = run.bytes;
        }
        let count = u64::from(run.count);
        self.last_size.1 += count;
        if !self.open_second.contains(run.t_ns) {
            self.settle_second();
            self.open_second = Stretch::of_bin(run.t_ns, SECOND);
        }
        self.open_kib.ios += count;
        self.open_kib.bytes += u64::from(run.bytes >> 10) * count;
    }

    fn settle_size(&mut self) {
        if self.last_size.1 > 0 {
            *self.sizes.entry(self.last_size.0).or_default() += self.last_size.1;
            self.last_size.1 = 0;
        }
    }

    fn settle_second(&mut self) {
        let amount = std::mem::take(&mut self.open_kib);
        if amount.ios > 0 {
            self.kib_per_second
                .add(self.open_second.from_ns / SECOND, amount);
        }
    }

    fn settle(&mut self) {
        self.settle_size();
        self.settle_second();
    }
}

/// Successive requests of the largest size, which a device or a kernel cuts long transfers into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Largest {
    /// That size.
    pub bytes: u32,
    /// Maximal chains of such requests without a smaller one of the same direction between, single ones included.
    pub runs: u64,
    /// Requests of the longest chain.
    pub longest_run: u64,
    open: u64,
}

impl Largest {
    #[inline]
    fn add(&mut self, bytes: u32, requests: u64) {
        if bytes > self.bytes {
            *self = Self {
                bytes,
                ..Self::default()
            };
        }
        if bytes < self.bytes || bytes == 0 {
            self.open = 0;
            return;
        }
        self.runs += u64::from(self.open == 0);
        self.open += requests;
        self.longest_run = self.longest_run.max(self.open);
    }
}

/// A stretch of time.
#[derive(Debug, Clone, Copy, Default)]
struct Stretch {
    from_ns: u64,
    /// Behind its last nanosecond.
    until_ns: u64,
}

impl Stretch {
    /// The bin of this width, from zero on, that a time is in.
    fn of_bin(t_ns: u64, width_ns: u64) -> Self {
        let from_ns = t_ns - t_ns % width_ns;
        Self {
            from_ns,
            until_ns: from_ns.saturating_add(width_ns),
        }
    }

    fn contains(self, t_ns: u64) -> bool {
        t_ns >= self.from_ns && t_ns < self.until_ns
    }

    /// The same so much earlier, as far as there is time.
    fn earlier(self, by_ns: u64) -> Self {
        Self {
            from_ns: self.from_ns.saturating_sub(by_ns),
            until_ns: self.until_ns.saturating_sub(by_ns),
        }
    }

    /// What two stretches have in common.
    fn and(self, other: Self) -> Self {
        Self {
            from_ns: self.from_ns.max(other.from_ns),
            until_ns: self.until_ns.min(other.until_ns),
        }
    }
}

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
    /// By number of operation letters.
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
    /// Time since the first issue in which all bins stay the same, and reads and writes in it.
    open: (Stretch, [Amount; 2]),
    /// Chains of the largest requests, of reads and writes.
    pub largest: [Largest; 2],
    /// Requests by device.
    pub devices: FxHashMap<u32, Amount>,
    last_device: (u32, Amount),
    /// Requests by number of the process name.
    pub processes: FxHashMap<u32, Amount>,
    /// Stretches of more than a second without any event: start and end, the first hundred.
    pub gaps: Vec<(u64, u64)>,
    /// Their number.
    pub gap_count: u64,
}

impl Traffic {
    /// With bins of this width since the first issue.
    #[must_use]
    pub fn new(bin_ns: u64) -> Self {
        Self::on(Grid::new(bin_ns, false))
    }

    /// With bins that begin at multiples of their width of the trace's clock.
    #[must_use]
    pub fn by_clock(bin_ns: u64) -> Self {
        Self::on(Grid::new(bin_ns, true))
    }

    fn on(grid: Grid) -> Self {
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
            open: Default::default(),
            largest: Default::default(),
            devices: FxHashMap::default(),
            last_device: (0, Amount::default()),
            processes: FxHashMap::default(),
            gaps: Vec::new(),
            gap_count: 0,
        }
    }

    /// Begin of the first chosen bin; `None` without issues.
    #[must_use]
    pub fn bins_begin_ns(&self) -> Option<u64> {
        self.first_issue_ns.map(|first| first - self.lead_ns)
    }

    /// Width of the chosen bins.
    #[must_use]
    pub fn bin_ns(&self) -> u64 {
        self.grid.width_ns
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

    /// Completed reads and writes by the same bins. What completed before the first of them is in it.
    #[must_use]
    pub fn completed_bins(&self) -> &[Bins; 2] {
        if self.grid.is_of_seconds() {
            &self.completed_seconds
        } else {
            &self.completed_bins
        }
    }

    /// Most bytes and requests of one bin, for bins of 1 s, 100 ms and 10 ms, of reads and writes.
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
        if self.first_issue_ns.is_none() {
            self.begin(run.t_ns);
        }
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
            if !self.open.0.contains(run.since_ns) {
                self.settle_bins();
                let finest = Stretch::of_bin(run.since_ns, FINE_NS);
                let chosen = run.since_ns.saturating_add(self.lead_ns);
                let chosen = Stretch::of_bin(chosen, self.grid.width_ns);
                self.open.0 = finest.and(chosen.earlier(self.lead_ns));
            }
            if let Some(sum) = self.open.1.get_mut(run.direction.slot()) {
                sum.add(amount);
            }
            if let Some(largest) = self.largest.get_mut(run.direction.slot()) {
                largest.add(run.bytes, count);
            }
        } else {
            self.add_rest(0, run.direction, run.since_ns, amount);
        }
        if self.last_device.0 != run.dev {
            self.settle_device();
            self.last_device.0 = run.dev;
        }
        self.last_device.1.add(amount);
        if run.comm != 0 {
            self.processes.entry(run.comm).or_default().add(amount);
        }
    }

    /// Something happened from one time to another, with no gap between.
    #[inline]
    fn extend_span(&mut self, from_ns: u64, until_ns: u64) {
        let (_, last) = self.span_ns.get_or_insert((from_ns, from_ns));
        if from_ns > *last && from_ns - *last > SECOND {
            self.gap_count += 1;
            if self.gaps.len() < KEPT_GAPS {
                self.gaps.push((*last, from_ns));
            }
        }
        *last = until_ns.max(*last);
    }

    /// Counts what is neither read nor write, as issued or completed so long after the first issue.
    #[cold]
    fn add_rest(&mut self, stage: usize, direction: Direction, since_ns: u64, amount: Amount) {
        let bins = self.rest_bins.get_mut(stage);
        let slot = REST.iter().position(|of| *of == direction);
        if let Some(bins) = bins.zip(slot).and_then(|(bins, slot)| bins.get_mut(slot)) {
            let since_ns = since_ns.saturating_add(self.lead_ns);
            bins.add(since_ns / self.grid.width_ns, amount);
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
                bins.add(since / self.grid.width_ns, amount);
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

    /// Puts what was counted in the open stretch into all bins.
    fn settle_bins(&mut self) {
        let amounts = std::mem::take(&mut self.open.1);
        let since = self.open.0.from_ns;
        let fine = since / FINE_NS;
        for (slot, amount) in amounts.into_iter().enumerate() {
            if amount.ios == 0 {
                continue;
            }
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
                let since = since.saturating_add(self.lead_ns);
                bins.add(since / self.grid.width_ns, amount);
            }
            if let Some([second, tenth, hundredth]) = self.peaks.get_mut(slot) {
                hundredth.add(fine, amount);
                tenth.add(fine / 10, amount);
                second.add(fine / 100, amount);
            }
        }
    }

    fn settle_device(&mut self) {
        let (device, amount) = self.last_device;
        if amount.ios > 0 {
            self.devices.entry(device).or_default().add(amount);
            self.last_device.1 = Amount::default();
        }
    }

    /// Closes what is open; call once after the last event.
    pub fn finish(&mut self) {
        self.settle_device();
        self.settle_bins();
        self.operations.iter_mut().for_each(PerOperation::settle);
    }
}

impl Analyser for Traffic {
    fn observe(&mut self, event: &Event) {
        self.extend_span(event.t_ns, event.t_ns);
        match event.kind {
            EventKind::Issue => {
                let first = self.first_issue_ns.unwrap_or(event.t_ns);
                self.issue(&Run::of(event, event.t_ns.saturating_sub(first)));
            }
            EventKind::Complete => self.complete(event),
            _ => self.other_events += 1,
        }
    }

    fn observe_batch(&mut self, batch: &Batch) {
        // A run lies within a bin of the series when those are made of whole 10 ms, and has no event of another kind in it.
        let has_only_issues = batch.shape.completions == 0 && !batch.has_others();
        let grid = self.grid;
        if has_only_issues && grid.width_ns.is_multiple_of(FINE_NS) && !grid.by_clock {
            for run in &batch.shape.runs {
                self.extend_span(run.t_ns, run.last_ns);
                self.issue(run);
            }
        } else {
            self.observe_all(&batch.events);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bins_by_the_clock_are_those_of_dividing_its_time(
            gaps in prop::collection::vec(0_u64..40_000_000, 1..100),
            first in 0_u64..5_000_000_000,
            bin_ns in prop::sample::select(vec![1_000_000_u64, 7_000_000, 25_000_000, SECOND]),
        ) {
            let mut traffic = Traffic::by_clock(bin_ns);
            let mut twin: BTreeMap<u64, Amount> = BTreeMap::new();
            let mut t_ns = first;
            for gap in &gaps {
                traffic.observe(&Event { t_ns, nr_sector: 8, bytes: 4096, ..Event::BLANK });
                let bin = t_ns / bin_ns - first / bin_ns;
                twin.entry(bin).or_default().add(Amount { ios: 1, bytes: 4096 });
                t_ns += gap;
            }
            traffic.finish();
            let [reads, _] = traffic.bins();
            prop_assert_eq!(reads.finish(), twin);
            prop_assert_eq!(traffic.bins_begin_ns(), Some(first / bin_ns * bin_ns));
        }
    }

    #[test]
    fn the_largest_requests_are_chained_until_a_smaller_one_comes() {
        let mut largest = Largest::default();
        for (bytes, requests) in [(0, 1), (8, 2), (16, 3), (16, 1), (8, 1), (16, 1), (0, 1)] {
            largest.add(bytes, requests);
        }
        let found = (largest.bytes, largest.runs, largest.longest_run);
        assert_eq!(found, (16, 2, 4));
        largest.add(32, 1);
        let found = (largest.bytes, largest.runs, largest.longest_run);
        assert_eq!(found, (32, 1, 1));
    }
}
