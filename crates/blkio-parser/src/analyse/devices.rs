//! Divides the events of several devices.
//!
//! Sectors count from the beginning of each device, so places of two devices must not be mixed. With more than one device the
//! analyses run once over all events, with each device's sectors moved to a range of its own, and once for each device.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::nesting::Nesting;
use super::runs::{Batch, Runs};
use super::traffic::Grid;
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
#[derive(Debug)]
pub(crate) struct Split {
    grid: Grid,
    /// The devices to keep; all if `None`.
    only: Option<Vec<u32>>,
    /// Devices that are divided off, but no part of all, and their runs.
    apart: Vec<(u32, Runs)>,
    /// Devices with requests, in order of their first one.
    devices: Vec<u32>,
    numbers: FxHashMap<u32, usize>,
    /// Devices at which bios with data were queued.
    queued: BTreeSet<u32>,
    /// The runs of all that is kept, and those of each device.
    all_runs: Runs,
    runs: Vec<Runs>,
    nesting: Nesting,
}

impl Split {
    /// Keeps the events of these devices, and those that name no device; of others each for itself.
    pub(crate) fn new(only: Option<Vec<u32>>, apart: &[u32], grid: Grid) -> Self {
        Self {
            grid,
            only,
            apart: apart.iter().map(|dev| (*dev, Runs::within(grid))).collect(),
            devices: Vec::new(),
            numbers: FxHashMap::default(),
            queued: BTreeSet::new(),
            all_runs: Runs::within(grid),
            runs: Vec::new(),
            nesting: Nesting::default(),
        }
    }

    /// Devices with requests in order of their first one, those with bios, and which requests lie inside others.
    pub(crate) fn finish(self) -> (Vec<u32>, BTreeSet<u32>, Nesting) {
        (self.devices, self.queued, self.nesting)
    }

    /// Divides the next events.
    pub(crate) fn parts(&mut self, events: Arc<Vec<Event>>) -> Parts {
        let apart = self.divided_off(&events);
        let mut events = self.kept(events);
        self.find(&events);
        self.runs
            .resize_with(self.devices.len(), || Runs::within(self.grid));
        if self.devices.len() < 2 {
            // Its runs go on where a second device comes.
            let all = self.all_runs.batch(events);
            self.runs
                .iter_mut()
                .for_each(|runs| runs.clone_from(&self.all_runs));
            return Parts {
                all: Arc::new(all),
                devices: Vec::new(),
                apart,
            };
        }
        self.nesting.observe_all(&events);
        let mut by_device: Vec<Vec<Event>> = vec![Vec::new(); self.devices.len().min(MAX_DEVICES)];
        for event in events.iter() {
            let number = self.numbers.get(&event.dev);
            if let Some(part) = number.and_then(|number| by_device.get_mut(*number)) {
                part.push(*event);
            }
        }
        let parts = by_device.into_iter().zip(&mut self.runs).enumerate();
        let devices = parts
            .filter(|(_, (events, _))| !events.is_empty())
            .map(|(number, (events, runs))| (number, Arc::new(runs.batch(Arc::new(events)))))
            .collect();
        for event in Arc::make_mut(&mut events) {
            event.sector = place(&self.numbers, event);
        }
        Parts {
            all: Arc::new(self.all_runs.batch(events)),
            devices,
            apart,
        }
    }

    /// Returns the events of each device that is kept apart.
    fn divided_off(&mut self, events: &[Event]) -> Vec<(usize, Arc<Batch>)> {
        let devices = self.apart.iter_mut().enumerate();
        devices
            .filter_map(|(number, (dev, runs))| {
                let events = events.iter().filter(|event| event.dev == *dev);
                let events: Vec<Event> = events.copied().collect();
                let is_any = !events.is_empty();
                is_any.then(|| (number, Arc::new(runs.batch(Arc::new(events)))))
            })
            .collect()
    }

    /// Returns the events without those of devices that are not wanted.
    fn kept(&self, events: Arc<Vec<Event>>) -> Arc<Vec<Event>> {
        let Some(only) = &self.only else {
            return events;
        };
        let is_kept = |event: &&Event| event.dev == 0 || only.contains(&event.dev);
        Arc::new(events.iter().filter(is_kept).copied().collect())
    }

    /// Notes devices that have requests, and those that have bios.
    fn find(&mut self, events: &[Event]) {
        let (mut last, mut last_queued) = (None, None);
        for event in events {
            if event.kind == EventKind::Queue {
                let is_data = event.direction.is_data() && event.nr_sector > 0;
                let is_new = is_data && last_queued != Some(event.dev);
                if is_new && self.queued.len() < MAX_RANGES {
                    self.queued.insert(event.dev);
                    last_queued = Some(event.dev);
                }
                continue;
            }
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
}

/// Returns the sector in the range of its device. The first device keeps its sectors, since it may have been alone until now.
fn place(numbers: &FxHashMap<u32, usize>, event: &Event) -> u64 {
    match numbers.get(&event.dev) {
        Some(number) if *number > 0 && event.nr_sector > 0 => {
            let within = event.sector & ((1 << SECTOR_BITS) - 1);
            (*number as u64) << SECTOR_BITS | within
        }
        _ => event.sector,
    }
}
