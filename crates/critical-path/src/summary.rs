//! Summarizes the time on a path.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::class::{Class, Evidence, Group, Limit};
use crate::graph::Graph;
use crate::path::{Groups, Limits};
use crate::steps::Step;

/// Class, recording, index of the name, name of this crate.
pub(crate) type NameKey = (Class, usize, u32, Option<&'static str>);

/// Stretches of one class and name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stretches {
    pub(crate) path_ns: i64,
    pub(crate) count: u64,
    pub(crate) longest_ns: i64,
}

/// Time on the path of one or several steps.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Time by group; adds up to the time of the steps.
    pub groups: Groups,
    /// Time by class.
    pub classes: BTreeMap<Class, i64>,
    /// Time on the path that was spent on other ranks.
    pub other_ranks_ns: i64,
    /// Time that rests on guesses or timing.
    pub guessed_ns: i64,
    pub(crate) limits: Limits,
}

impl Summary {
    /// Returns the verdict of the largest group.
    pub fn verdict(&self) -> &'static str {
        self.groups
            .largest()
            .map_or(Group::Unknown.verdict(), Group::verdict)
    }

    /// Returns the resource that limits the kernels if the GPU group is the largest.
    pub fn limit(&self) -> Option<Limit> {
        (self.groups.largest() == Some(Group::Gpu)).then(|| self.limits.limit())
    }

    /// Returns the share of the largest group, in percent.
    pub fn share_pct(&self) -> f64 {
        let largest = self
            .groups
            .largest()
            .map_or(0, |group| self.groups.of(group));
        percent(largest, self.groups.total())
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.groups.add_all(&other.groups);
        for (class, ns) in &other.classes {
            *self.classes.entry(*class).or_default() += ns;
        }
        self.other_ranks_ns += other.other_ranks_ns;
        self.guessed_ns += other.guessed_ns;
        self.limits.add_all(&other.limits);
    }
}

impl Graph {
    /// Summarizes the path of a step. Cost: linear in its length.
    pub fn summary(&self, recording: usize, step: &Step) -> Summary {
        self.summary_by_name(recording, step, &mut FxHashMap::default())
    }

    /// Summarizes the path of a step, with time and number of stretches by class and name.
    pub(crate) fn summary_by_name(
        &self,
        recording: usize,
        step: &Step,
        names: &mut FxHashMap<NameKey, Stretches>,
    ) -> Summary {
        let mut summary = Summary::default();
        names.clear();
        if recording < self.parts.len() {
            self.walk(recording, step, |stretch| {
                let ns = stretch.end - stretch.begin;
                let key = (stretch.class, stretch.part, stretch.name, stretch.own_name);
                let slot = names.entry(key).or_default();
                slot.path_ns += ns;
                slot.count += 1;
                slot.longest_ns = slot.longest_ns.max(ns);
                if stretch.part != recording {
                    summary.other_ranks_ns += ns;
                }
                if stretch.evidence != Evidence::Sure {
                    summary.guessed_ns += ns;
                }
                summary.limits.add(&stretch);
            });
        }
        #[expect(
            clippy::iter_over_hash_type,
            reason = "sums do not depend on the order"
        )]
        for ((class, ..), sum) in names.iter() {
            summary.groups.add(class.group(), sum.path_ns);
            *summary.classes.entry(*class).or_default() += sum.path_ns;
        }
        summary
    }
}

/// Returns a share in percent; 0 if `whole` is 0.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
pub(crate) fn percent(part: i64, whole: i64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 * 100.0 / whole as f64,
    }
}
