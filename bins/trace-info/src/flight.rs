//! `trace-info comm` of Flight Recorder dumps.

use std::path::PathBuf;

use cli::{OrExit as _, Outcome};
use torch_dumps::Dump;
use torch_dumps::flight::{Job, rank_in_name, tables};

use crate::args::ReportFormat;
use crate::comm::{CommArgs, TableName};
use crate::document::{Destination, Document};
use crate::dump_files;

pub(crate) fn run(args: &CommArgs, dumps: &[PathBuf]) -> anyhow::Result<Outcome> {
    if !args.part.is_whole() {
        return Err(cli::usage(
            "Flight Recorder dumps have no steps and no clock of a trace: give no --step and no --window",
        ));
    }
    let report = &args.report;
    cli::refuse_overwrite(dumps, &report.output.output)?;
    let to = Destination::open(report)?;
    let found = dump_files::read(
        dumps,
        &report.input,
        report.verbosity,
        |path, dump| match dump {
            Dump::Flight(dump) => {
                dump.known_rank().or_exit(Outcome::CannotAnswer)?;
                Ok(Ok(dump))
            }
            Dump::Memory(_) => Ok(Err(format!(
                "{} is a memory snapshot: give it to `trace-info memory`",
                path.display()
            ))),
        },
    )?;
    let failed = found.failed.iter().filter_map(|at| dumps.get(*at));
    let unreadable = failed.filter_map(|path| rank_in_name(&path.to_string_lossy()));
    let ranks = found.read.into_iter().map(|(_, dump)| dump).collect();
    let job = Job::beside(ranks, unreadable.collect()).or_exit(Outcome::CannotAnswer)?;
    let mut document = Document::new(tables::SCHEMA_VERSION);
    let table = |name: TableName| match name {
        TableName::Groups => Ok(tables::groups(&job)?),
        TableName::Ranks => Ok(tables::ranks(&job)?),
        TableName::Kernels | TableName::Collectives => Ok(tables::calls(&job)?),
        TableName::Types | TableName::Late | TableName::Host => Err(cli::usage(
            "Flight Recorder dumps have the tables groups, ranks and collectives",
        )),
    };
    match (args.table, report.format.format()) {
        (Some(one), _) => document.tables.push(table(one)?),
        (None, ReportFormat::Text | ReportFormat::Md) => {}
        (None, _) => {
            for name in [TableName::Groups, TableName::Ranks, TableName::Collectives] {
                document.tables.push(table(name)?);
            }
        }
    }
    document.sentence(job.sentence());
    for (label, text) in job.lines() {
        document.line(label, text);
    }
    match args.table {
        Some(one) => document.table("", table(one)?),
        None => {
            document.table("groups", tables::groups_narrow(&job)?);
            let ranks = tables::ranks_narrow(&job)?;
            if ranks.rows() > 0 {
                document.table("last collective of each rank", ranks);
            }
        }
    }
    document.write(to)?;
    found.error.map_or(Ok(Outcome::Fine), Err)
}
