//! Views that only newer generations have rows in: launches of graphs, records and waits of events.

use rustc_hash::FxHashMap;

use super::{NO_NAME, Rows, Summary};
use crate::error::Result;
use crate::filter::Filter;
use crate::info::Process;
use crate::kernel_names::KernelNames;
use crate::set::RocpdSet;
use crate::sql::SqlValue;

/// View, its table, and what its rows are called by.
const NEWER: [(&str, &str, &str); 2] = [
    ("graph_launches", "rocpd_graph_launch", "category"),
    ("hip_events", "rocpd_hip_event", "name"),
];

impl Summary<'_> {
    /// Adds the views that have rows. They are few, so SQL is fast enough.
    pub(super) fn newer(&mut self, set: &RocpdSet, filter: &Filter, quantiles: bool) -> Result<()> {
        let numbers: FxHashMap<(&str, i64), (&Process, usize)> = (0..)
            .zip(&self.processes)
            .map(|(number, process)| ((process.guid.as_str(), process.pid), (*process, number)))
            .collect();
        for (view, table, name) in NEWER {
            let mut rows = 0;
            for partition in set.partitions() {
                rows += partition.rows(table)?;
                crate::quality::check_times(partition, table)?;
            }
            if rows == 0 {
                continue;
            }
            let session = set.sql(filter.window, KernelNames::default())?;
            let mut statement = session.prepare(&format!(
                "SELECT guid, pid, category, {name}, start, \"end\", agent_abs_index FROM {view}"
            ))?;
            let mut found = statement.query(&[])?;
            let mut rows = Rows::default();
            while let Some(row) = found.next()? {
                let text = |at| match row.get(at) {
                    SqlValue::Text(text) => Some(text),
                    _ => None,
                };
                let int = |at| match row.get(at) {
                    SqlValue::Int(value) => Some(value),
                    _ => None,
                };
                let (Some(guid), Some(pid), Some(start), Some(end)) =
                    (text(0), int(1), int(4), int(5))
                else {
                    continue;
                };
                let Some(&(process, number)) = numbers.get(&(guid, pid)) else {
                    continue;
                };
                let wanted = filter.accepts_process(process)
                    && filter.accepts_category(text(2))
                    && filter.accepts_name(text(3))
                    && filter.accepts_place(int(6), None);
                if let Some((start, end)) = filter.keep(start, end).filter(|_| wanted) {
                    rows.passing(number, text(3).unwrap_or(NO_NAME))
                        .add(end.saturating_sub(start), quantiles);
                }
            }
            self.views.push(rows.view(view.to_owned()));
        }
        Ok(())
    }
}
