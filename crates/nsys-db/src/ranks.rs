//! Processes that are ranks of a job.

use rustc_hash::{FxHashMap, FxHashSet};
use sqlite_scan::Value;
use trace_model::kernel::Vocabulary;

use crate::error::Result;
use crate::export::Export;
use crate::ids::ProcessKey;
use crate::load::Loader;
use crate::strings::{Strings, text};

/// A process with communication kernels: a rank of the job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RankProcess {
    /// The process.
    pub process: ProcessKey,
    /// Number of its communication kernels.
    pub kernels: u64,
}

/// Returns the processes that ran communication kernels, by machine and number. Cost: two columns of the kernels.
///
/// # Errors
///
/// Returns an error if the export is damaged.
pub fn communicating_processes(export: &Export) -> Result<Vec<RankProcess>> {
    let leaves = export.string_leaves()?;
    let mut strings = Strings::new(export, leaves.as_ref())?;
    let vocabulary = Vocabulary::default();
    let mut known: FxHashMap<i64, bool> = FxHashMap::default();
    let mut kernels: FxHashMap<ProcessKey, u64> = FxHashMap::default();
    let columns = ["globalPid", "demangledName", "shortName"];
    export.scan(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        columns,
        |_, [process, name, short]| {
            let Some(process) = process.as_int() else {
                return Ok(());
            };
            let name = if name == Value::Null { short } else { name };
            let communicates = match name.as_int() {
                Some(id) => match known.get(&id) {
                    Some(known) => *known,
                    None => {
                        let name = strings.get(id)?.unwrap_or_default();
                        let communicates = vocabulary.communication(&name).is_some();
                        known.insert(id, communicates);
                        communicates
                    }
                },
                None => text(name).is_some_and(|name| vocabulary.communication(&name).is_some()),
            };
            if communicates {
                *kernels.entry(ProcessKey::of(process)).or_default() += 1;
            }
            Ok(())
        },
    )?;
    let mut list: Vec<RankProcess> = kernels
        .into_iter()
        .map(|(process, kernels)| RankProcess { process, kernels })
        .collect();
    list.sort_by_key(|rank| rank.process);
    Ok(list)
}

impl Loader<'_> {
    /// Returns the rank of a process: that of MPI, else that in its largest communicator.
    pub(crate) fn rank_of(&mut self, process: ProcessKey) -> Result<Option<u32>> {
        let mut ranks: FxHashSet<i64> = FxHashSet::default();
        let columns = ["globalPid", "globalTid", "rank"];
        self.export
            .scan("MPI_RANKS", columns, |_, [global, thread, rank]| {
                let own = global.as_int().or(thread.as_int()).map(ProcessKey::of);
                if own == Some(process) {
                    ranks.extend(rank.as_int());
                }
                Ok(())
            })?;
        let mut all = ranks.into_iter();
        if let (Some(rank), None) = (all.next(), all.next()) {
            return Ok(u32::try_from(rank).ok());
        }
        let rank = self.collectives.rank_of(process);
        Ok(rank.and_then(|(rank, _)| u32::try_from(rank).ok()))
    }
}
