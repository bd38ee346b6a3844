//! Clocks of devices that are ahead of the clock of the host.
//!
//! Profilers convert device times to the clock of the host with an error of microseconds. A device that is behind looks like
//! one that starts late and returns late, which a latency explains. One that is ahead looks impossible: work ends behind the
//! calls that waited for it.

use std::collections::BTreeMap;

use crate::calls::Host;
use crate::names::NONE;
use crate::ops::Ops;
use crate::waits::Waiting;

/// The most that a clock is set back, in nanoseconds: more is no error of conversion.
const MOST_NS: i64 = 100_000;

/// One launch in this many may leave less room than its clock is set back: it loses its dependency, which is less than the
/// synchronizations would lose.
const CONTRADICTED: usize = 200;

/// How far the clocks of devices are ahead, in nanoseconds; devices whose clocks agree are absent.
#[derive(Debug, Default)]
pub(crate) struct Clocks(BTreeMap<i64, i64>);

impl Clocks {
    /// Finds the devices of which most recorded synchronizations return before the work that they waited for ends. They are
    /// set back as far as nearly all of their launches leave room.
    pub(crate) fn ahead(waiting: &Waiting<'_>, ops: &Ops, host: &Host) -> Self {
        let device_of = |op: u32| {
            let stream = ops.stream[op as usize] as usize;
            ops.streams[stream].0
        };
        let mut behind: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for &(op, ns) in &waiting.behind {
            behind.entry(device_of(op)).or_default().push(ns);
        }
        behind.retain(|_, list| {
            let late = list.iter().filter(|ns| (1..=MOST_NS).contains(*ns)).count();
            late * 2 > list.len()
        });
        let mut clocks = Self::default();
        for (device, list) in behind {
            let possible = list.iter().copied().filter(|ns| *ns <= MOST_NS);
            let Some(most) = possible.max() else { continue };
            let room = (0..ops.len()).filter_map(|op| {
                let call = ops.call[op];
                let is_own = call != NONE && ops.streams[ops.stream[op] as usize].0 == device;
                is_own.then(|| ops.start[op] - host.calls.begin[call as usize])
            });
            let mut room: Vec<i64> = room.collect();
            room.sort_unstable();
            let back = room
                .get(room.len() / CONTRADICTED)
                .map_or(most, |room| (*room).min(most));
            let fixed = list.iter().filter(|ns| (1..=back).contains(*ns)).count();
            if fixed * 2 > list.len() {
                clocks.0.insert(device, back);
            }
        }
        clocks
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn of(&self, device: i64) -> i64 {
        self.0.get(&device).copied().unwrap_or(0)
    }
}
