//! Writes CSV in the two layouts of the reference.

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
    /// The layout of rocpd2csv in August 2025: a file for each API, every text in quotes.
    Classic,
    /// The newer layout: one file for all regions.
    #[default]
    Unified,
}

/// Options of the CSV files.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Options {
    /// Files and columns.
    pub layout: Layout,
    /// Numbering of agents.
    pub agents: AgentIndex,
    /// Form of kernel names.
    pub kernels: KernelNames,
    /// `true` to write the newer layout with region names as in rocpd2csv, and without instants
    /// (marks), which it leaves out.
    pub reference_names: bool,
}

/// Writes the records that a filter accepts as CSV, a file for each kind that has any.
///
/// Cost: one pass over the records of each kind, in order of time; memory is independent of their
/// number.
///
/// # Errors
///
/// Returns an error if a database cannot be read or a file cannot be written.
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

/// Data that every sheet needs.
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
    /// Returns the name of an agent; empty if unknown.
    fn agent(&self, agent: Option<&rocpd_db::Agent>) -> String {
        agent
            .and_then(|agent| self.options.agents.exact(agent))
            .unwrap_or_default()
    }

    /// Creates a file with these columns, separated by blanks.
    fn sheet(&self, name: &str, columns: &str) -> Result<Sheet> {
        Ok(Sheet::new(self.to.file(name)?, columns, self.quotes))
    }

    /// Passes every record of a kind to `take`, in order of time within each process.
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

    /// Returns `true` if some database has a column.
    fn has_column(&self, table: &str, column: &str) -> bool {
        self.set.partitions().iter().any(|partition| {
            partition
                .columns(table)
                .is_some_and(|columns| columns.contains(&column))
        })
    }
}

/// Formats a count; whole numbers have no decimal point.
fn plain(value: f64) -> String {
    let text = report::real_text(value, report::RealFormat::ShortestPoint);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
