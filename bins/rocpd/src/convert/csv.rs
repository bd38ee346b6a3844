//! CSV in the two layouts of the reference.

mod agents;
mod classic;
mod sheet;
mod unified;

use rocpd_db::{Filter, RocpdSet};

use crate::args::{ConvertArgs, CsvLayout};
use crate::names::OutputNames;

pub(super) fn write(
    set: &RocpdSet,
    filter: &Filter,
    args: &ConvertArgs,
    names: &OutputNames,
) -> anyhow::Result<()> {
    let job = Job {
        set,
        filter,
        args,
        names,
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
}

impl Job<'_> {
    fn agent(&self, agent: Option<&rocpd_db::Agent>) -> String {
        agent.map_or_else(String::new, |agent| {
            self.args.agent_index_value.label(agent)
        })
    }

    fn partitions(&self) -> usize {
        self.set.partitions().len()
    }
}

/// A count that is a whole number without its point.
fn plain(value: f64) -> String {
    let text = report::real_text(value, report::RealFormat::ShortestPoint);
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
