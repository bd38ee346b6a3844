//! Phases that the user names: exactly what was issued in each.

use std::collections::BTreeMap;

use super::Analyser;
use super::distribution::Distribution;
use super::runs::{Batch, Run};
use super::sequential::Sequentiality;
use super::traffic::Amount;
use crate::event::Event;

/// A stretch of the run with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Nanoseconds since the first issue.
    pub start_ns: u64,
    /// Nanoseconds since the first issue; the phase ends before.
    pub end_ns: u64,
}

/// What was issued in a phase.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UserPhase {
    /// The phase.
    pub named: Named,
    /// Requests and bytes by number of the operation letters.
    pub operations: BTreeMap<u16, Amount>,
    /// Sizes of reads and writes in bytes.
    pub sizes: [Distribution; 2],
    /// Where they start.
    pub sequentiality: Sequentiality,
}

/// The phases of a run as given. They may overlap and leave gaps.
#[derive(Debug, Clone, Default)]
pub struct UserPhases {
    first_ns: Option<u64>,
    /// In the order given.
    pub phases: Vec<UserPhase>,
}

impl UserPhases {
    /// For these phases.
    #[must_use]
    pub fn new(named: &[Named]) -> Self {
        let phase = |named: &Named| UserPhase {
            named: named.clone(),
            operations: BTreeMap::new(),
            sizes: Default::default(),
            sequentiality: Sequentiality::default(),
        };
        Self {
            first_ns: None,
            phases: named.iter().map(phase).collect(),
        }
    }

    /// Closes what is open; call once after the last event.
    pub fn finish(&mut self) {
        for phase in &mut self.phases {
            phase.sequentiality.finish();
        }
    }
}

impl Analyser for UserPhases {
    fn observe(&mut self, batch: &Batch) {
        if !self.phases.is_empty() {
            batch.issued().for_each(|event| self.add(event));
        }
    }
}

impl UserPhases {
    fn add(&mut self, event: &Event) {
        let first = *self.first_ns.get_or_insert(event.t_ns);
        let since = event.t_ns.saturating_sub(first);
        for phase in &mut self.phases {
            if !(phase.named.start_ns..phase.named.end_ns).contains(&since) {
                continue;
            }
            let amount = Amount {
                ios: 1,
                bytes: event.bytes.into(),
            };
            phase.operations.entry(event.rwbs).or_default().add(amount);
            if event.direction.is_data()
                && event.nr_sector > 0
                && let Some(sizes) = phase.sizes.get_mut(event.direction.slot())
            {
                sizes.add(event.bytes.into());
            }
            phase.sequentiality.step(&Run::of(event, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_holds_its_first_nanosecond_and_not_its_last() {
        let named = |name: &str, start_ns, end_ns| Named {
            name: name.to_owned(),
            start_ns,
            end_ns,
        };
        let mut phases =
            UserPhases::new(&[named("a", 0, 10), named("b", 10, 20), named("all", 0, 99)]);
        for (at, t_ns) in (0_u64..).zip([1_000, 1_009, 1_010, 1_019, 1_020]) {
            phases.add(&Event {
                t_ns,
                sector: at * 8,
                nr_sector: 8,
                bytes: 4096,
                ..Event::BLANK
            });
        }
        phases.finish();
        let found: Vec<_> = phases
            .phases
            .iter()
            .map(|p| {
                (
                    p.operations[&0].ios,
                    p.sizes[0].count,
                    p.sequentiality.classes[0].sequential,
                )
            })
            .collect();
        assert_eq!(found, [(2, 2, 1), (2, 2, 1), (5, 5, 4)]);
    }
}
