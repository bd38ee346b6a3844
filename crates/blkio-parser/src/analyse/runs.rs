//! Runs of contiguous requests.
//!
//! An offloading engine mostly reads and writes sequentially: each request starts where the previous one ended. Analyses of
//! positions and counts treat such a run as one request.

use std::sync::Arc;

use super::traffic::{FINE_NS, Grid, SECOND};
use super::working_set::MAX_SECTORS;
use crate::event::{Event, EventKind};
use crate::rwbs::Direction;

/// Successive issues of one operation, size, device and process, each starting where the one before ended, within the same
/// 10 ms since the first issue, the same whole second of the trace's clock and the same bin of the series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Time of its first request since the first issue of the trace.
    pub since_ns: u64,
    /// The same on the trace's own clock.
    pub t_ns: u64,
    /// Time of its last request on the trace's own clock.
    pub last_ns: u64,
    /// First sector of the first request.
    pub sector: u64,
    /// Sectors of each request.
    pub nr_sector: u32,
    /// Bytes of each request.
    pub bytes: u32,
    /// Requests, at least 1; 1 for those without sectors.
    pub count: u32,
    /// Device, as in [`Event::dev`].
    pub dev: u32,
    /// Number of the process name, as in [`Event::comm`].
    pub comm: u32,
    /// Number of the operation letters.
    pub rwbs: u16,
    /// What they mean.
    pub direction: Direction,
}

impl Run {
    /// Returns a single issue as a run, `since_ns` after the first issue.
    #[must_use]
    pub fn of(event: &Event, since_ns: u64) -> Self {
        Self {
            since_ns,
            t_ns: event.t_ns,
            last_ns: event.t_ns,
            sector: event.sector,
            nr_sector: event.nr_sector,
            bytes: event.bytes,
            count: 1,
            dev: event.dev,
            comm: event.comm,
            rwbs: event.rwbs,
            direction: event.direction,
        }
    }

    /// Returns `true` if it moves data.
    #[must_use]
    pub fn is_data(&self) -> bool {
        self.direction.is_data() && self.nr_sector > 0
    }

    /// Returns the sectors of each request, no more than a request can have.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        u64::from(self.nr_sector).min(MAX_SECTORS)
    }

    /// Returns the sector behind its last one.
    #[must_use]
    pub fn end(&self) -> u64 {
        let sectors = self.sectors() * u64::from(self.count);
        self.sector.saturating_add(sectors)
    }
}

/// Events that are handed on together, with their issues as runs.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Batch {
    /// The events, in order.
    pub events: Arc<Vec<Event>>,
    /// The issues among them, in order.
    pub runs: Vec<Run>,
    /// Issues.
    pub issues: u64,
    /// Completions.
    pub completions: u64,
    /// Returns `true` if any event names its process.
    pub has_processes: bool,
}

impl Batch {
    /// Returns `true` if there are events of other kinds than issues and completions.
    #[must_use]
    pub fn has_others(&self) -> bool {
        self.issues + self.completions < self.events.len() as u64
    }

    /// Returns the issues among the events.
    pub(crate) fn issued(&self) -> impl Iterator<Item = &Event> {
        let events = self.events.iter();
        events.filter(|event| event.kind == EventKind::Issue)
    }
}

/// Finds runs, batch by batch.
#[derive(Debug, Clone)]
pub struct Runs {
    first_issue_ns: Option<u64>,
    grid: Grid,
}

impl Runs {
    /// Returns a finder of runs none of which reaches beyond a bin of these.
    #[must_use]
    pub fn within(grid: Grid) -> Self {
        Self {
            first_issue_ns: None,
            grid,
        }
    }

    /// Returns a batch of the next events, with its runs.
    #[must_use]
    pub fn batch(&mut self, events: Arc<Vec<Event>>) -> Batch {
        let mut runs: Vec<Run> = Vec::new();
        let (mut issues, mut completions, mut processes) = (0, 0, 0);
        // Where the next request of the last run must start, and before which time.
        let (mut next_sector, mut until_ns) = (0, 0);
        for event in events.iter() {
            processes |= event.pid | event.comm;
            completions += u64::from(event.kind == EventKind::Complete);
            if event.kind != EventKind::Issue {
                continue;
            }
            issues += 1;
            if let Some(run) = runs.last_mut()
                && event.sector == next_sector
                && is_alike(run, event)
                && (run.last_ns..until_ns).contains(&event.t_ns)
            {
                run.count += 1;
                run.last_ns = event.t_ns;
                next_sector += u64::from(event.nr_sector);
                continue;
            }
            let first = *self.first_issue_ns.get_or_insert(event.t_ns);
            let run = Run::of(event, event.t_ns.saturating_sub(first));
            next_sector = run.end();
            until_ns = self.until_ns(&run, first);
            runs.push(run);
        }
        Batch {
            events,
            runs,
            issues,
            completions,
            has_processes: processes != 0,
        }
    }

    /// Before which time the next request of a run must be issued.
    fn until_ns(&self, run: &Run, first_ns: u64) -> u64 {
        // Without sectors, or more than a request can have, it is continued by none.
        let sectors = u64::from(run.nr_sector);
        if !(1..=MAX_SECTORS).contains(&sectors) {
            return 0;
        }
        let width_ns = self.grid.width_ns();
        let in_bin = run.t_ns.saturating_sub(self.grid.begin_ns(first_ns)) % width_ns;
        let left = (FINE_NS - run.since_ns % FINE_NS)
            .min(SECOND - run.t_ns % SECOND)
            .min(width_ns - in_bin);
        run.t_ns.saturating_add(left)
    }
}

/// Returns `true` if an issue continues a run but for its place and time.
#[inline]
fn is_alike(run: &Run, event: &Event) -> bool {
    event.nr_sector == run.nr_sector
        && event.bytes == run.bytes
        && event.rwbs == run.rwbs
        && event.dev == run.dev
        && event.comm == run.comm
        // No end is beyond the largest sector.
        && event.sector < u64::MAX - MAX_SECTORS
        && run.count < u32::MAX
}
