//! Events of several devices, told apart.
//!
//! Sectors count from the beginning of each device, so places of two devices must not be mixed. With more than one device the
//! analyses run once over all events, with each device's sectors moved to a range of its own, and once for each device.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::nesting::Nesting;
use super::runs::{Batch, Shape};
use crate::event::{Event, EventKind};

/// Devices that get analyses of their own; those of further devices are in the totals alone.
pub const MAX_DEVICES: usize = 64;
/// Devices that are told apart in the totals.
const MAX_RANGES: usize = 1 << 18;
/// Bits of a sector number that a device may use: 8 PiB.
const SECTOR_BITS: u32 = 44;

/// A batch for the analyses of all devices, and its parts for those of each device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parts {
    /// All events.
    pub(crate) all: Arc<Batch>,
    /// The events of each device by its number; empty while there is only one device.
    pub(crate) devices: Vec<(usize, Arc<Batch>)>,
    /// The events of devices that are kept apart from all, by their place among these.
    pub(crate) apart: Vec<(usize, Arc<Batch>)>,
}

/// Divides batches by device.
#[derive(Debug, Default)]
pub(crate) struct Split {
    /// The devices to keep; all if `None`.
    only: Option<Vec<u32>>,
    /// Devices that are divided off, but no part of all, and the first issue of each.
    apart: Vec<u32>,
    firsts_apart_ns: Vec<Option<u64>>,
    /// Devices with requests, in order of their first one.
    devices: Vec<u32>,
    numbers: FxHashMap<u32, usize>,
    /// The first issue that was kept, and that of each device.
    first_ns: Option<u64>,
    firsts_ns: Vec<Option<u64>>,
    nesting: Nesting,
}

impl Split {
    /// Keeps the events of these devices, and those that name no device; of others each for itself.
    pub(crate) fn new(only: Option<Vec<u32>>, apart: Vec<u32>) -> Self {
        Self {
            only,
            firsts_apart_ns: vec![None; apart.len()],
            apart,
            ..Self::default()
        }
    }

    /// Devices with requests in order of their first one, and which of them lie inside others.
    pub(crate) fn finish(self) -> (Vec<u32>, Nesting) {
        (self.devices, self.nesting)
    }

    /// Divides the next batch.
    pub(crate) fn parts(&mut self, batch: &Arc<Batch>) -> Parts {
        let apart = self.divided_off(batch);
        let all = self.kept(batch);
        self.find(&all.events);
        self.firsts_ns.resize(self.devices.len(), None);
        if self.devices.len() < 2 {
            if let Some(first_ns) = self.firsts_ns.first_mut() {
                *first_ns = first_ns.or(all.shape.first_issue());
            }
            return Parts {
                all,
                devices: Vec::new(),
                apart,
            };
        }
        self.nesting.observe_all(&all.events);
        let mut by_device: Vec<Vec<Event>> = vec![Vec::new(); self.devices.len().min(MAX_DEVICES)];
        for event in all.events.iter() {
            let number = self.numbers.get(&event.dev);
            if let Some(part) = number.and_then(|number| by_device.get_mut(*number)) {
                part.push(*event);
            }
        }
        let parts = by_device.into_iter().enumerate();
        let devices = parts
            .filter(|(_, events)| !events.is_empty())
            .filter_map(|(number, events)| {
                let first_ns = self.firsts_ns.get_mut(number)?;
                Some((number, shaped(events, first_ns)))
            })
            .collect();
        let mut moved = all.events.as_ref().clone();
        for event in &mut moved {
            event.sector = self.place(event);
        }
        Parts {
            all: shaped(moved, &mut all.shape.first_issue()),
            devices,
            apart,
        }
    }

    /// The events of each device that is kept apart.
    fn divided_off(&mut self, batch: &Arc<Batch>) -> Vec<(usize, Arc<Batch>)> {
        let devices = self.apart.iter().zip(&mut self.firsts_apart_ns).enumerate();
        devices
            .filter_map(|(number, (dev, first_ns))| {
                let events = batch.events.iter().filter(|event| event.dev == *dev);
                let events: Vec<Event> = events.copied().collect();
                (!events.is_empty()).then(|| (number, shaped(events, first_ns)))
            })
            .collect()
    }

    /// The batch without devices that are not wanted.
    fn kept(&mut self, batch: &Arc<Batch>) -> Arc<Batch> {
        let Some(only) = &self.only else {
            return Arc::clone(batch);
        };
        let is_kept = |event: &&Event| event.dev == 0 || only.contains(&event.dev);
        let events = batch.events.iter().filter(is_kept).copied().collect();
        shaped(events, &mut self.first_ns)
    }

    /// Notes devices that have requests.
    fn find(&mut self, events: &[Event]) {
        let mut last = None;
        for event in events {
            let is_request = matches!(event.kind, EventKind::Issue | EventKind::Complete);
            if !is_request || last == Some(event.dev) {
                continue;
            }
            last = Some(event.dev);
            if self.devices.len() < MAX_RANGES && !self.numbers.contains_key(&event.dev) {
                self.numbers.insert(event.dev, self.devices.len());
                self.devices.push(event.dev);
            }
        }
    }

    /// The sector in the range of its device. The first device keeps its sectors, since it may have been alone until now.
    fn place(&self, event: &Event) -> u64 {
        match self.numbers.get(&event.dev) {
            Some(number) if *number > 0 && event.nr_sector > 0 => {
                let within = event.sector & ((1 << SECTOR_BITS) - 1);
                (*number as u64) << SECTOR_BITS | within
            }
            _ => event.sector,
        }
    }
}

/// A batch of these events, of which the first issue is known or among them.
fn shaped(events: Vec<Event>, first_issue_ns: &mut Option<u64>) -> Arc<Batch> {
    let shape = Shape::of(&events, first_issue_ns, Shape::default());
    Arc::new(Batch {
        events: Arc::new(events),
        shape,
    })
}
