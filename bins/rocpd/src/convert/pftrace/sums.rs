//! Values of hardware counters by event.

use rocpd_db::{Event, Filter, Order, PmcEvent, Process, RocpdSet};
use rustc_hash::FxHashMap;

use crate::args::ConvertArgs;

/// Sums of counters by event.
pub(super) struct CounterSums {
    /// By partition and event id: counter name and sum over instances.
    by_event: FxHashMap<(usize, i64), Vec<(usize, f64)>>,
    names: Vec<String>,
}

impl CounterSums {
    pub(super) fn read(set: &RocpdSet, args: &ConvertArgs) -> anyhow::Result<Self> {
        let mut sums = Self {
            by_event: FxHashMap::default(),
            names: Vec::new(),
        };
        if args.perfetto.no_counters {
            return Ok(sums);
        }
        let filter = Filter::default();
        let mut numbers: FxHashMap<(usize, i64), usize> = FxHashMap::default();
        for row in set.scan::<PmcEvent<'_>>(&filter, Order::Stored)? {
            let row = row?;
            let (Some(event), Some(pmc)) = (row.event_id, row.pmc) else {
                continue;
            };
            let names = &mut sums.names;
            let number = *numbers
                .entry((row.partition, row.pmc_id))
                .or_insert_with(|| {
                    names
                        .iter()
                        .position(|name| *name == pmc.name)
                        .unwrap_or_else(|| {
                            names.push(pmc.name.clone());
                            names.len() - 1
                        })
                });
            let own = sums.by_event.entry((row.partition, event)).or_default();
            match own.iter_mut().find(|(known, _)| *known == number) {
                Some((_, sum)) => *sum += row.value,
                None => own.push((number, row.value)),
            }
        }
        Ok(sums)
    }

    /// Counter and sum for an event, in the order in which the counters were stored.
    pub(super) fn of(&self, process: &Process, event: Option<Event<'_>>) -> &[(usize, f64)] {
        if self.by_event.is_empty() {
            return &[];
        }
        event
            .and_then(|event| self.by_event.get(&(process.partition, event.id)))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    pub(super) fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("?", String::as_str)
    }
}
