//! CSV in the two layouts of the reference.

mod agents;
mod calls;
mod classic;
mod copies;
mod counters;
mod kernels;
mod sheet;
mod unified;

use rocpd_db::{Filter, Order, Record, RocpdSet};
use sheet::{Quotes, Sheet};

use crate::args::{ConvertArgs, CsvLayout};
use crate::names::OutputNames;

pub(super) fn write(
    set: &RocpdSet,
    filter: &Filter,
    args: &ConvertArgs,
    names: &OutputNames,
) -> anyhow::Result<()> {
    let mut order: Vec<usize> = (0..set.partitions().len()).collect();
    let quotes = match args.csv_layout {
        CsvLayout::Classic => Quotes::All,
        CsvLayout::Unified => {
            order.sort_by_key(|&at| set.partitions().get(at).map(|p| p.guid()));
            Quotes::Needed
        }
    };
    let job = Job {
        set,
        filter,
        args,
        names,
        quotes,
        order,
    };
    match args.csv_layout {
        CsvLayout::Classic => classic::write(&job),
        CsvLayout::Unified => unified::write(&job),
    }
}

/// What every sheet needs.
struct Job<'a> {
    set: &'a RocpdSet,
    filter: &'a Filter,
    args: &'a ConvertArgs,
    names: &'a OutputNames,
    quotes: Quotes,
    /// Partitions in the order of the layout.
    order: Vec<usize>,
}

impl<'a> Job<'a> {
    /// What an agent is called; nothing where that is not known.
    fn agent(&self, agent: Option<&rocpd_db::Agent>) -> String {
        agent
            .and_then(|agent| self.args.agent_index_value.exact(agent))
            .unwrap_or_default()
    }

    /// A file with these columns, separated by blanks.
    fn sheet(&self, name: &str, columns: &str) -> anyhow::Result<Sheet> {
        Ok(Sheet::new(self.names.with(name)?, columns, self.quotes))
    }

    /// Gives every record of a kind, in order of time within each process.
    fn each<R: Record<'a>>(
        &'a self,
        mut take: impl FnMut(R) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for &partition in &self.order {
            for record in self
                .set
                .scan_partition::<R>(partition, self.filter, Order::Start)?
            {
                take(record?)?;
            }
        }
        Ok(())
    }

    /// Whether some database has a column.
    fn has_column(&self, table: &str, column: &str) -> bool {
        self.set.partitions().iter().any(|partition| {
            partition
                .columns(table)
                .is_some_and(|columns| columns.contains(&column))
        })
    }
}

/// A count that is a whole number without its point.
fn plain(value: f64) -> String {
    let text = report::real_text(value, report::RealFormat::ShortestPoint);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
