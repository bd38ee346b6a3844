//! Ranks that no collective joins: nothing shows who waits for whom, but their steps compare.

use std::collections::BTreeMap;

use critical_path::{StepRow, whole_steps};
use trace_model::step_name::step_group;

use crate::numbers::{counted, median, time};

/// Steps of a rank from which their median speaks for it.
const LEAST_STEPS: usize = 5;

/// How much longer the steps of the slowest rank take at least than those of the others, in percent.
const SLOWER_PCT: i64 = 10;

/// The rank whose steps take longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slowest {
    pub(crate) rank: u32,
    /// Median of its steps.
    step_ns: i64,
    /// Median over the other ranks of the same.
    others_ns: i64,
    others: u64,
}

impl Slowest {
    /// Finds it among the steps of all ranks, in the phase with most time.
    pub(crate) fn of(steps: &[StepRow]) -> Option<Self> {
        let steps: Vec<&StepRow> = steps.iter().collect();
        let mut phases: BTreeMap<String, BTreeMap<u32, Vec<i64>>> = BTreeMap::new();
        for step in whole_steps(&steps) {
            let ranks = phases.entry(step_group(&step.name)).or_default();
            ranks.entry(step.rank).or_default().push(step.duration_ns);
        }
        let all = |ranks: &BTreeMap<u32, Vec<i64>>| ranks.values().flatten().sum::<i64>();
        let ranks = phases.into_values().max_by_key(all)?;
        let mut middle: Vec<(i64, u32)> = ranks
            .into_iter()
            .filter(|(_, times)| times.len() >= LEAST_STEPS)
            .map(|(rank, times)| (median(times), rank))
            .collect();
        middle.sort_unstable();
        let (step_ns, rank) = middle.pop()?;
        let others_ns = median(middle.iter().map(|(ns, _)| *ns));
        let is_slower = step_ns.saturating_sub(others_ns).saturating_mul(100)
            >= others_ns.saturating_mul(SLOWER_PCT);
        (!middle.is_empty() && is_slower).then_some(Self {
            rank,
            step_ns,
            others_ns,
            others: middle.len() as u64,
        })
    }

    /// Returns what stands before the sentence of an answer.
    pub(crate) fn text(&self) -> String {
        format!(
            "Rank {} is slower than {}: its steps take {} instead of {} (medians), and no collective tells whether the others wait.",
            self.rank,
            match self.others {
                1 => "the other".to_owned(),
                others => format!("the {}", counted(others, "other", "others")),
            },
            time(self.step_ns),
            time(self.others_ns)
        )
    }
}
