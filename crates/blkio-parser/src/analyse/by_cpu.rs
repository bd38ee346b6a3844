//! Totals by processor, as blkparse prints them for each CPU.

use super::Analyser;
use super::runs::Batch;
use super::traffic::Amount;
use crate::event::{Event, EventKind};
use crate::rwbs::Direction;

/// Totals of one processor; of pairs the first is reads, the second writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OfCpu {
    /// Bios that were queued.
    pub queued: [Amount; 2],
    /// Requests that were issued to the driver.
    pub dispatched: [Amount; 2],
    /// Requests that the driver gave back.
    pub requeued: [Amount; 2],
    /// Requests that completed.
    pub completed: [Amount; 2],
    /// Bios that were merged into requests.
    pub merged: [Amount; 2],
}

/// Totals of data requests by processor.
#[derive(Debug, Clone, Default)]
pub struct ByCpu {
    rows: Vec<OfCpu>,
}

impl ByCpu {
    /// Returns the processors on which anything happened, by number.
    pub fn rows(&self) -> impl Iterator<Item = (usize, &OfCpu)> {
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, row)| **row != OfCpu::default())
    }
}

impl Analyser for ByCpu {
    fn observe(&mut self, batch: &Batch) {
        batch.events.iter().for_each(|event| self.add(event));
    }
}

impl ByCpu {
    fn add(&mut self, event: &Event) {
        if !event.direction.is_data() || event.nr_sector == 0 {
            return;
        }
        let cpu = usize::from(event.cpu);
        if cpu >= self.rows.len() {
            self.rows.resize(cpu + 1, OfCpu::default());
        }
        let Some(row) = self.rows.get_mut(cpu) else {
            return;
        };
        let both = match event.kind {
            EventKind::Queue => &mut row.queued,
            EventKind::Issue => &mut row.dispatched,
            EventKind::Requeue => &mut row.requeued,
            EventKind::Complete => &mut row.completed,
            EventKind::Merge => &mut row.merged,
            _ => return,
        };
        let slot = usize::from(event.direction == Direction::Write);
        if let Some(amount) = both.get_mut(slot) {
            amount.add(Amount {
                ios: 1,
                bytes: event.bytes.into(),
            });
        }
    }
}
