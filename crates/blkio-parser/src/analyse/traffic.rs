//! How much, when: totals, sizes, traffic per second.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Analyser;
use crate::event::{Event, EventKind};
use crate::rwbs::Direction;

/// Nanoseconds of a second.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// The two directions that move data.
pub const DATA: [Direction; 2] = [Direction::Read, Direction::Write];
/// Bins of 10 ms that are kept: fifteen seconds.
pub const FINE_BINS: u64 = 1500;
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

/// Amounts by bin of time. Events come in order, so only one bin is open.
#[derive(Debug, Clone, Default)]
pub struct Bins {
    open: Option<(u64, Amount)>,
    closed: Vec<(u64, Amount)>,
}

impl Bins {
    #[inline]
    fn add(&mut self, bin: u64, bytes: u64) {
        match &mut self.open {
            Some((number, amount)) if *number == bin => {
                amount.ios += 1;
                amount.bytes += bytes;
            }
            open => {
                let next = (bin, Amount { ios: 1, bytes });
                self.closed.extend(open.replace(next));
            }
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
    #[inline]
    fn add(&mut self, bin: u64, bytes: u64) {
        if bin != self.bin {
            self.close();
            self.bin = bin;
        }
        self.open.ios += 1;
        self.open.bytes += bytes;
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
    /// KiB (each request cut to whole KiB) by whole second of the trace's clock, for the published figures.
    pub kib_per_second: Bins,
}

impl PerOperation {
    #[inline]
    fn add(&mut self, bytes: u32, second: u64) {
        if self.last_size.0 != bytes {
            self.settle();
            self.last_size.0 = bytes;
        }
        self.last_size.1 += 1;
        self.kib_per_second.add(second, u64::from(bytes >> 10));
    }

    fn settle(&mut self) {
        if self.last_size.1 > 0 {
            *self.sizes.entry(self.last_size.0).or_default() += self.last_size.1;
            self.last_size.1 = 0;
        }
    }
}

/// Totals, sizes and series of a trace.
#[derive(Debug, Clone)]
pub struct Traffic {
    bin_ns: u64,
    /// Issued requests.
    pub issues: u64,
    /// Completions.
    pub completions: u64,
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
    /// Reads and writes by 100 ms since the first issue, for phases and overlays.
    pub tenths: [Bins; 2],
    /// Reads and writes by 10 ms in the first [`FINE_BINS`] bins, for phases of short runs.
    pub hundredths: [Bins; 2],
    peaks: [[Peak; 3]; 2],
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
    /// With bins of this width beside those of a second.
    #[must_use]
    pub fn new(bin_ns: u64) -> Self {
        Self {
            bin_ns: bin_ns.max(1),
            issues: 0,
            completions: 0,
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
            tenths: Default::default(),
            hundredths: Default::default(),
            peaks: Default::default(),
            devices: FxHashMap::default(),
            last_device: (0, Amount::default()),
            processes: FxHashMap::default(),
            gaps: Vec::new(),
            gap_count: 0,
        }
    }

    /// Width of the chosen bins.
    #[must_use]
    pub fn bin_ns(&self) -> u64 {
        self.bin_ns
    }

    /// Reads and writes by the chosen bin since the first issue.
    #[must_use]
    pub fn bins(&self) -> &[Bins; 2] {
        if self.bin_ns == SECOND {
            &self.seconds
        } else {
            &self.bins
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

    fn issue(&mut self, event: &Event) {
        self.issues += 1;
        let first = *self.first_issue_ns.get_or_insert(event.t_ns);
        self.last_issue_ns = self.last_issue_ns.max(event.t_ns);
        let number = usize::from(event.rwbs);
        if number >= self.operations.len() {
            self.operations.resize_with(number + 1, Default::default);
        }
        if let Some(operation) = self.operations.get_mut(number) {
            operation.add(event.bytes, event.t_ns / SECOND);
        }
        let bytes = u64::from(event.bytes);
        if event.direction.is_data() {
            let since = event.t_ns.saturating_sub(first);
            let slot = event.direction.slot();
            let fine = since / (SECOND / 100);
            if let Some(seconds) = self.seconds.get_mut(slot) {
                seconds.add(fine / 100, bytes);
            }
            if fine < FINE_BINS
                && let Some(hundredths) = self.hundredths.get_mut(slot)
            {
                hundredths.add(fine, bytes);
            }
            if let Some(tenths) = self.tenths.get_mut(slot) {
                tenths.add(fine / 10, bytes);
            }
            if self.bin_ns != SECOND
                && let Some(bins) = self.bins.get_mut(slot)
            {
                bins.add(since / self.bin_ns, bytes);
            }
            if let Some([second, tenth, hundredth]) = self.peaks.get_mut(slot) {
                hundredth.add(fine, bytes);
                tenth.add(fine / 10, bytes);
                second.add(fine / 100, bytes);
            }
        }
        if self.last_device.0 != event.dev {
            self.settle_device();
            self.last_device.0 = event.dev;
        }
        self.last_device.1.ios += 1;
        self.last_device.1.bytes += bytes;
        if event.comm != 0 {
            let process = self.processes.entry(event.comm).or_default();
            process.add(Amount { ios: 1, bytes });
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
        self.operations.iter_mut().for_each(PerOperation::settle);
    }
}

impl Analyser for Traffic {
    fn observe(&mut self, event: &Event) {
        let (_, last) = self.span_ns.get_or_insert((event.t_ns, event.t_ns));
        if event.t_ns > *last {
            if event.t_ns - *last > SECOND {
                self.gap_count += 1;
                if self.gaps.len() < KEPT_GAPS {
                    self.gaps.push((*last, event.t_ns));
                }
            }
            *last = event.t_ns;
        }
        match event.kind {
            EventKind::Issue => self.issue(event),
            EventKind::Complete => {
                self.completions += 1;
                self.errors += u64::from(event.error != 0);
                let last = self.last_complete_ns.unwrap_or(0);
                self.last_complete_ns = Some(last.max(event.t_ns));
                if event.direction.is_data()
                    && event.nr_sector > 0
                    && let Some(first) = self.first_issue_ns
                    && let Some(seconds) = self.completed_seconds.get_mut(event.direction.slot())
                {
                    let since = event.t_ns.saturating_sub(first);
                    seconds.add(since / SECOND, u64::from(event.bytes));
                }
            }
            _ => self.other_events += 1,
        }
    }
}
