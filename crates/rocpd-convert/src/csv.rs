//! CSV in the two layouts of the reference.

mod agents;
mod calls;
mod classic;
mod copies;
mod counters;
mod kernels;
mod sheet;
mod unified;

use rocpd_db::{Filter, KernelNames, Order, Record, RocpdSet};
use sheet::{Quotes, Sheet};

use crate::{AgentIndex, Destination, Result};

/// Files and columns of CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// As rocpd2csv wrote them in August 2025: a file for each API, every text in quotes.
    Classic,
    /// As it writes them since: one file for all regions.
    #[default]
    Unified,
}

/// What CSV files look like.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Options {
    /// Files and columns.
    pub layout: Layout,
    /// How agents are numbered.
    pub agents: AgentIndex,
    /// How kernels are called.
    pub kernels: KernelNames,
    /// The newer layout with the names of regions as rocpd2csv writes them, and without moments (marks), which it leaves out.
    pub reference_names: bool,
}

/// Writes the records that a filter leaves as CSV, a file for each kind that has any.
///
/// Cost: one pass over the records of each kind, in order of time; memory does not follow their number.
///
/// # Errors
///
/// Databases that cannot be read, files that cannot be written.
pub fn write(set: &RocpdSet, filter: &Filter, options: Options, to: &Destination) -> Result<()> {
    let mut order: Vec<usize> = (0..set.partitions().len()).collect();
    let quotes = match options.layout {
        Layout::Classic => Quotes::All,
        Layout::Unified => {
            order.sort_by_key(|&at| set.partitions().get(at).map(|p| p.guid()));
            Quotes::Needed
        }
    };
    let job = Job {
        set,
        filter,
        options,
        to,
        quotes,
        order,
    };
    match options.layout {
        Layout::Classic => classic::write(&job),
        Layout::Unified => unified::write(&job),
    }
}

/// What every sheet needs.
struct Job<'a> {
    set: &'a RocpdSet,
    filter: &'a Filter,
    options: Options,
    to: &'a Destination,
    quotes: Quotes,
    /// Partitions in the order of the layout.
    order: Vec<usize>,
}

impl<'a> Job<'a> {
    /// What an agent is called; nothing where that is not known.
    fn agent(&self, agent: Option<&rocpd_db::Agent>) -> String {
        agent
            .and_then(|agent| self.options.agents.exact(agent))
            .unwrap_or_default()
    }

    /// A file with these columns, separated by blanks.
    fn sheet(&self, name: &str, columns: &str) -> Result<Sheet> {
        Ok(Sheet::new(self.to.file(name)?, columns, self.quotes))
    }

    /// Gives every record of a kind, in order of time within each process.
    fn each<R: Record<'a>>(&'a self, mut take: impl FnMut(R) -> Result<()>) -> Result<()> {
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
