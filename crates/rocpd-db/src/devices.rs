//! Numbers of devices over all databases of a set.

use rustc_hash::FxHashMap;

use crate::info::{Agent, Process};
use crate::records::{Copy, Dispatch};
use crate::set::RocpdSet;

/// A number for every agent of a set, such that different GPUs have different ones.
///
/// It is the logical index that the process itself uses. Where processes use one index for different GPUs, all of them
/// are numbered by host and by index on the machine.
#[derive(Debug, Clone)]
pub struct DeviceNumbers {
    /// By partition and agent.
    numbers: FxHashMap<(usize, i64), i64>,
    are_plain: bool,
}

impl DeviceNumbers {
    /// Looks at all agents.
    #[must_use]
    pub fn new(set: &RocpdSet) -> Self {
        let machine = |process: &Process, agent: &Agent| {
            let index = agent.absolute_index.or(agent.logical_index);
            (process.hostname.clone(), index.unwrap_or(0))
        };
        let mut places: Vec<(String, i64)> = set.agents().map(|(p, a)| machine(p, a)).collect();
        places.sort_unstable();
        places.dedup();
        let mut meant: FxHashMap<i64, (String, i64)> = FxHashMap::default();
        let are_plain = set.agents().all(|(process, agent)| {
            let place = machine(process, agent);
            let index = agent.logical_index.unwrap_or(0);
            // Hosts' own processors do no device work.
            !agent.is_gpu() || *meant.entry(index).or_insert_with(|| place.clone()) == place
        });
        let numbers = set.agents().map(|(process, agent)| {
            let number = if are_plain {
                agent.logical_index.unwrap_or(0)
            } else {
                let at = places.binary_search(&machine(process, agent));
                i64::try_from(at.unwrap_or(0)).unwrap_or(0)
            };
            ((process.partition, agent.id), number)
        });
        Self {
            numbers: numbers.collect(),
            are_plain,
        }
    }

    /// Whether all numbers are logical indices.
    #[must_use]
    pub fn are_plain(&self) -> bool {
        self.are_plain
    }

    /// The device of a kernel.
    #[must_use]
    pub fn of_dispatch(&self, dispatch: &Dispatch<'_>) -> Option<i64> {
        self.of(dispatch.process, dispatch.agent)
    }

    /// The device of a copy: the GPU that it is to, else that it is from.
    #[must_use]
    pub fn of_copy(&self, copy: &Copy<'_>) -> Option<i64> {
        let (to, from) = (copy.dst_agent, copy.src_agent);
        let is_gpu = |agent: &&Agent| agent.is_gpu();
        let agent = to.filter(is_gpu).or(from.filter(is_gpu)).or(to);
        self.of(copy.process, agent)
    }

    /// The number of an agent.
    pub(crate) fn of(&self, process: &Process, agent: Option<&Agent>) -> Option<i64> {
        self.numbers.get(&(process.partition, agent?.id)).copied()
    }
}
