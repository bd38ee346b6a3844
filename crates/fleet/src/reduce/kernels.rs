//! Kernels of all ranks: a number for each name and shape, and the merged distributions.

use std::collections::BTreeMap;

use crate::sketch::Sketch;
use crate::summary::{KernelTime, RankSummary};

/// A kernel on one rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    /// Number in [`Table::list`].
    pub(crate) kernel: usize,
    pub(crate) count: u64,
    pub(crate) sum_ns: i64,
    pub(crate) median_ns: f64,
}

/// A kernel on all ranks.
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) shape: Option<String>,
    pub(crate) class: String,
    pub(crate) durations: Sketch,
}

impl Known {
    /// Returns `true` for kernels whose time contains waiting for other ranks.
    pub(crate) fn waits(&self) -> bool {
        self.class == trace_model::kernel::KernelClass::Collective.name()
    }
}

/// All kernels, and all classes.
#[derive(Default)]
pub(crate) struct Table {
    places: BTreeMap<(String, Option<String>), usize>,
    pub(crate) list: Vec<Known>,
    pub(crate) classes: BTreeMap<String, Sketch>,
}

impl Table {
    /// Takes the kernels of a summary over.
    pub(crate) fn add(&mut self, summary: &mut RankSummary) -> Vec<Stat> {
        for class in std::mem::take(&mut summary.classes) {
            self.classes
                .entry(class.name)
                .or_default()
                .merge(&class.durations);
        }
        let kernels = std::mem::take(&mut summary.kernels);
        let stats = kernels.into_iter().map(|kernel| self.one(kernel));
        stats.collect()
    }

    fn one(&mut self, kernel: KernelTime) -> Stat {
        let key = (kernel.name, kernel.shape);
        let at = match self.places.get(&key) {
            Some(at) => *at,
            None => {
                self.list.push(Known {
                    name: key.0.clone(),
                    shape: key.1.clone(),
                    class: kernel.class,
                    durations: Sketch::default(),
                });
                self.places.insert(key, self.list.len() - 1);
                self.list.len() - 1
            }
        };
        if let Some(known) = self.list.get_mut(at) {
            known.durations.merge(&kernel.durations);
        }
        Stat {
            kernel: at,
            count: kernel.durations.count,
            sum_ns: kernel.durations.sum_ns,
            median_ns: kernel.durations.median(),
        }
    }
}
