//! GPU activities in order of start, without a trace of them.
//!
//! What an answer about the GPU alone needs of an export is one look at each activity, at whether a call launched it, and the
//! number of everything else. Memory then holds a few bits and one number for each activity, however large the file is.

mod host;
mod merge;
pub(crate) mod operators;
mod ranges;
mod rows;

use std::panic::resume_unwind;
use std::sync::mpsc::sync_channel;
use std::thread;

use rustc_hash::FxHashSet;
use sqlite_scan::{Cursor, Leaves};
use trace_model::Trace;

use self::merge::{Feed, Input, Merge};
use self::operators::{Around, Covered, Wanted};
use self::rows::{Names, Rows, Totals, columns_of, kind_of};
use crate::device::TABLES;
use crate::error::Result;
use crate::export::Export;
use crate::ids::ProcessKey;
use crate::links::CallStarts;
use crate::load::{LoadOptions, Loader};
use crate::operator::Operator;
use crate::strings::Strings;

/// Batches of rows that may wait between two threads.
const WAITING: usize = 4;

/// Says of the name of an operator whether it can tell what a kernel does that was launched within it.
pub type Deciding<'d> = &'d (dyn Fn(&str) -> bool + Sync);

/// Kind of a GPU activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkKind {
    /// A kernel.
    Kernel,
    /// A memcpy.
    Memcpy,
    /// A memset.
    Memset,
    /// A graph recorded as a whole.
    Graph,
}

/// A GPU activity on its way.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Work<'a> {
    /// Start, in nanoseconds of the trace.
    pub start_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Kind.
    pub kind: WorkKind,
    /// Name, if it has one.
    pub name: Option<&'a str>,
    /// Number of the name: equal names have equal numbers, from 0 on in the order in which they come up.
    pub name_id: Option<usize>,
    /// Device.
    pub device: i64,
    /// Stream.
    pub stream: i64,
    /// Start of the call that launched it, if that was recorded and is wanted ([`LoadOptions::launches`]).
    pub launch_ns: Option<i64>,
    /// Names of the operators around the call that launched it, innermost first, and the number of this list: equal lists have
    /// equal numbers. Those of a kernel end with the outermost that can tell what it does; without such a one, and for what a
    /// graph ran, there is no list.
    pub operators: Option<(usize, &'a [String])>,
}

/// Passes the GPU activities of an export to `each` in order of start, and returns a trace of the rest: limits, issues, and
/// ranges whose names begin like one of [`LoadOptions::host_names`]. What the activities are, and what the trace states, is as
/// [`load()`](crate::load()) has them.
///
/// `deciding` picks the operators that can tell what a kernel does; they are found with [`LoadOptions::launches`] only. Without it,
/// all can.
///
/// Returns `None`, and passes none, where this is not possible: a folder of Parquet files, no activity, rows out of
/// order, ranges without end, operators without `deciding`, or such that cross others.
///
/// # Errors
///
/// Returns an error if the export is damaged.
pub fn pass(
    export: &Export,
    options: &LoadOptions,
    deciding: Option<Deciding<'_>>,
    mut each: impl FnMut(&Work<'_>),
) -> Result<Option<Trace>> {
    let is_whole = options.range.is_none() && options.categories.is_none();
    if export.database().is_none() || options.host_names.is_none() || !is_whole {
        return Ok(None);
    }
    let leaves = export.string_leaves()?;
    let strings = Strings::new(export, leaves.as_ref())?;
    let mut loader = Loader::new(export, strings, options)?;
    let is_ordered = loader.places()?;
    if !is_ordered || loader.linked.is_none() {
        return Ok(None);
    }
    let wanted = Wanted::new(deciding.filter(|_| options.launches), options.process);
    let (names, found) = loader.nvtx_names(Some(&wanted))?;
    if names.has_open || found.is_too_much || loader.names_operators(&found.label_ids)? {
        return Ok(None);
    }
    let Some(covered) = Covered::new(found) else {
        return Ok(None);
    };
    let operators = loader.count_ranges((&names, &wanted, &covered), leaves.as_ref())?;
    let calls = loader.count_host((&wanted, &covered), leaves.as_ref())?;
    if operators.is_unknown || calls.is_unknown {
        return Ok(None);
    }
    let (names, starts) = (&operators.names.texts, &calls.starts);
    let Some(around) = Around::new(&operators.list, names, &calls.inner, starts) else {
        return Ok(None);
    };
    drop(operators);
    loader.pass_work(leaves.as_ref(), (starts, &around), &mut each)?;
    drop(calls);
    loader.only_counts = true;
    loader.events_beside_work()?;
    loader.only_counts = false;
    Ok(Some(loader.finish()?))
}

impl<'e> Loader<'e> {
    /// Returns `true` if a string of these is the label of an operator. PyTorch writes labels as texts, so that such operators are not
    /// followed.
    #[expect(
        clippy::iter_over_hash_type,
        reason = "whether one of them is a label does not depend on the order"
    )]
    fn names_operators(&mut self, ids: &FxHashSet<i64>) -> Result<bool> {
        for id in ids {
            let label = self.text_of(*id)?;
            if label.is_some_and(|label| Operator::parse(&label).is_some()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn pass_work(
        &mut self,
        string_leaves: Option<&'e Leaves>,
        (starts, around): (&CallStarts, &Around),
        each: &mut impl FnMut(&Work<'_>),
    ) -> Result<()> {
        let Some(database) = self.export.database() else {
            return Ok(());
        };
        // Determined with the places if any activity needs it.
        let missing = self.sole_process.flatten().unwrap_or(ProcessKey::UNKNOWN);
        let mut tables = Vec::new();
        for name in TABLES {
            if let Some(table) = database.table(name) {
                tables.push((name, table, table.leaves()?));
            }
        }
        let identity = self.identity.take();
        let graph_launches = std::mem::take(&mut self.graph_launches);
        let mut feeds = Vec::new();
        for (name, table, leaves) in &tables {
            feeds.push(Rows {
                table: name,
                kind: kind_of(name),
                cursor: Cursor::new(database.file(), leaves),
                pick: table.def().pick(columns_of(name)),
                strings: Strings::new(self.export, string_leaves)?,
                identity: identity.as_ref(),
                starts,
                around,
                graph_launches: &graph_launches,
                wanted: self.options.process,
                missing,
                tally: self.tally.fresh(),
                names: Names::default(),
                last: None,
                is_done: false,
            });
        }
        let threads = self.options.threads;
        let merged = thread::scope(|scope| {
            let mut handles = Vec::new();
            let mut merge = Merge::new(around);
            for (at, mut rows) in feeds.into_iter().enumerate() {
                let kind = rows.kind;
                // The first table is that of kernels, mostly the largest.
                if at + 1 < threads.max(1) {
                    let (sender, receiver) = sync_channel(WAITING);
                    handles.push(scope.spawn(move || {
                        while let Some(batch) = rows.batch().transpose() {
                            if sender.send(batch).is_err() {
                                break;
                            }
                        }
                    }));
                    merge.inputs.push(Input::new(Feed::Thread(receiver), kind));
                } else {
                    merge
                        .inputs
                        .push(Input::new(Feed::Here(Box::new(rows)), kind));
                }
            }
            let result = merge.run(each);
            // Whoever still sends ends with its receiver.
            let inputs = std::mem::take(&mut merge.inputs);
            let totals: Vec<Totals> = inputs.into_iter().map(|input| input.totals).collect();
            for handle in handles {
                handle.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
            result.map(|()| totals)
        })?;
        self.identity = identity;
        self.graph_launches = graph_launches;
        for ((name, ..), totals) in tables.iter().zip(merged) {
            if let Some(tally) = totals.tally {
                self.tally.absorb(tally);
            }
            self.count_rows(name, totals.rows);
            self.counts.device_work += totals.rows;
            self.counts.unattributed += totals.unattributed;
            if *name == TABLES[3] {
                self.counts.graphs += totals.rows;
                self.counts.graph_ns = self.counts.graph_ns.saturating_add(totals.dur_ns);
            }
            self.working.extend(totals.working);
            let launched = totals.launched_graphs.into_iter();
            launched.for_each(|key| {
                if let Some(found) = self.graph_launches.get_mut(&key) {
                    *found = true;
                }
            });
        }
        Ok(())
    }
}
