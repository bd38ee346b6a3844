//! `trace-info comm`.

use clap::{Args, ValueEnum};
use cli::{Outcome, Stage};
use gpu_time::comm::{
    CommRules, Job, RankDigest, answer, arg_keys, assign_ranks, lines as comm_lines, tracelens,
};
use gpu_time::tables::{SCHEMA_VERSION, comm as tables};
use gpu_time::{GpuWork, Note, events_by_part};
use perfetto_reader::ArgPolicy;
use report::Table;
use trace_input::{ClassesArgs, NamedTrace};
use trace_model::SliceId;

use crate::args::{ReportArgs, ReportFormat};
use crate::document::{Destination, Document};
use crate::empty;
use crate::part::PartArgs;

pub(crate) const HELP: &str = "\
Give all ranks of a job, in any order; missing ranks and captures that begin or
end at different times are fine. Latency is the shortest duration over the
ranks; bandwidths are those of nccl-tests over it. Exposed is communication
while no computation runs; memcpy does not hide it. Percentiles interpolate
between the two nearest values. Clocks are aligned by the ends of collectives
that wait for all ranks. Of a window or of steps, the collectives that start or
were launched in them, in the time of each rank.

Flight Recorder dumps of PyTorch (TORCH_NCCL_TRACE_BUFFER_SIZE), pickle or JSON,
one for each rank: which rank did not arrive at which collective, and the first
call of each group that differs between ranks. A folder is one job.

Example:
  trace-info comm rank*.json.gz
  trace-info comm /tmp/nccl_trace_rank_*
  trace-info comm run/ --table collectives --format csv --output collectives.csv";

#[derive(Debug, Args)]
pub(crate) struct CommArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Only this table; CSV and Parquet have the kernels unless given
    #[arg(long, value_enum, value_name = "TABLE")]
    pub(crate) table: Option<TableName>,
    /// Which kernels are collectives and how they are joined
    #[arg(long, value_enum, value_name = "RULES", default_value_t)]
    pub(crate) rules: RulesName,
    #[command(flatten)]
    pub(crate) classes: ClassesArgs,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    /// Rows of the lists of types and late arrivals, in text
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(crate) top: usize,
}

/// Tables, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// One row for each collective kernel of each rank
    Kernels,
    /// One row for each collective: latency, bandwidth, skew, who came last
    Collectives,
    /// One row for each rank: clock, wait time, delay caused to other ranks
    Ranks,
    /// One row for each process group
    Groups,
    /// By operation, group, dtype and size
    Types,
    /// Late arrivals with what the rank did before
    Late,
    /// Collectives that hosts carried out themselves (Gloo, MPI), by rank
    Host,
}

/// Rules, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RulesName {
    /// All communication, expert-parallel and custom too; joined by number, else by rhythm
    #[default]
    Extended,
    /// As TraceLens' NcclAnalyser: joined by place in the group, clocks as they are
    Tracelens,
}

pub(crate) fn run(args: &CommArgs) -> anyhow::Result<Outcome> {
    if args.part.per_step {
        return Err(cli::usage(
            "comm joins the collectives of all ranks: choose steps with --step, not --per-step",
        ));
    }
    if let Some(dumps) = trace_input::dumps(&args.report.files)? {
        return crate::flight::run(args, &dumps);
    }
    let to = Destination::open(&args.report)?;
    let report = &args.report;
    let rules = match args.rules {
        RulesName::Extended => CommRules::Extended,
        RulesName::Tracelens => CommRules::TraceLens,
    };
    let keys = arg_keys();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let paths = trace_input::expand_ranks(&report.files, report.verbosity)?;
    let mut each = empty::read_each(
        report,
        &paths,
        |options| {
            args.part.keep_args(options);
            if let ArgPolicy::Only(kept) = &mut options.args {
                kept.extend(keys.iter().map(|key| (*key).to_owned()));
            }
        },
        |input| {
            let digest = digest(args, input, rules)?;
            let why = match digest.time.busy_ns {
                0 => gpu_time::no_gpu_work(GpuWork::new(&input.trace).index()),
                _ => None,
            };
            Ok((digest, why))
        },
    )?;
    let mut digests = std::mem::take(&mut each.results);
    let found = trace_input::refuse_other_jobs(assign_ranks(&mut digests))?;
    let mut warnings: Vec<Note> = Vec::new();
    if found.placed && digests.len() > 1 {
        warnings.push(Note::new(
            "ranks_by_place",
            "neither the files nor their names give every file a rank: ranks are numbered in the order of the names",
        ));
    }
    let doubts = found.doubts.iter();
    warnings.extend(doubts.map(|doubt| Note::new(doubt.code(), doubt.to_string())));
    for warning in &warnings {
        let text = format!("warning: {}", warning.text);
        report.verbosity.note(text);
    }
    let text = matches!(
        report.format.format(),
        ReportFormat::Text | ReportFormat::Md
    );
    let has_host = digests.iter().any(|d| !d.host.is_empty());
    let empty = each
        .reasons_only(SCHEMA_VERSION)
        .filter(|_| text && !has_host);
    let mut document = match (args.rules, empty) {
        (RulesName::Extended, Some(empty)) => empty,
        (RulesName::Tracelens, _) => compat(args, &digests)?,
        (RulesName::Extended, None) => {
            let job = Stage::time("join", report.verbosity, || Job::new(&digests));
            extended(args, &digests, &job)?
        }
    };
    if report.format.format() == ReportFormat::Json && args.rules == RulesName::Extended {
        let warnings = warnings.iter().map(|warning| ("", warning));
        document.tables.push(gpu_time::tables::notes(warnings)?);
    }
    document.write(to)?;
    each.end(report)
}

/// Returns the digest of the selected part of a trace.
fn digest(args: &CommArgs, input: &NamedTrace, rules: CommRules) -> anyhow::Result<RankDigest> {
    let work = GpuWork::with_vocabulary(&input.trace, args.classes.vocabulary());
    if args.part.is_whole() {
        let digest = RankDigest::of_part(&input.name, work.index(), rules, |_| true);
        return Ok(digest);
    }
    let (how, _) = args.part.resolve(input, &work)?;
    let parts = events_by_part(&work, work.events(), &how).into_iter();
    let mut kept: Vec<SliceId> = parts
        .filter(|(step, _)| args.part.wants(*step))
        .flat_map(|(_, events)| events.into_iter().map(|event| event.slice))
        .collect();
    kept.sort_unstable();
    let keep = |slice: SliceId| kept.binary_search(&slice).is_ok();
    Ok(RankDigest::of_part(&input.name, work.index(), rules, keep))
}

/// Returns TraceLens' tables; `--table` selects the main one by the names of this tool's own
/// tables.
fn compat(args: &CommArgs, digests: &[RankDigest]) -> anyhow::Result<Document> {
    let long = tracelens::long(digests);
    let sync = tracelens::implicit_sync(&long);
    let table = |name: TableName| -> anyhow::Result<Table> {
        Ok(match name {
            TableName::Kernels => tables::tracelens_long(&long)?,
            TableName::Collectives => tables::tracelens_sync(&sync)?,
            TableName::Types => {
                tables::tracelens_sync_summary(&tracelens::implicit_sync_summary(&sync))?
            }
            TableName::Ranks => tables::tracelens_long_summary(&tracelens::long_summary(&long))?,
            TableName::Groups | TableName::Late | TableName::Host => {
                return Err(cli::usage(
                    "--rules tracelens has the tables kernels, collectives, types and ranks",
                ));
            }
        })
    };
    let chosen = match args.table {
        Some(one) => vec![one],
        None => vec![
            TableName::Kernels,
            TableName::Collectives,
            TableName::Types,
            TableName::Ranks,
        ],
    };
    let mut document = Document::new(SCHEMA_VERSION);
    for name in chosen {
        document.table(table(name)?.name(), table(name)?);
        document.tables.push(table(name)?);
    }
    Ok(document)
}

fn extended(args: &CommArgs, digests: &[RankDigest], job: &Job) -> anyhow::Result<Document> {
    let format = args.report.format.format();
    let people = matches!(format, ReportFormat::Text | ReportFormat::Md);
    let all = if people { args.top } else { usize::MAX };
    let table = |name: TableName| -> anyhow::Result<Table> {
        Ok(match name {
            TableName::Kernels => tables::kernels(digests, job)?,
            TableName::Collectives => tables::collectives(digests, job)?,
            TableName::Ranks => tables::ranks(digests, job)?,
            TableName::Groups => tables::groups(digests, job)?,
            TableName::Types => tables::types(digests, job)?,
            TableName::Late => tables::late(digests, job, all)?,
            TableName::Host => tables::host(digests)?,
        })
    };
    let chosen = match (args.table, format) {
        (Some(one), _) => vec![one],
        (None, ReportFormat::Text | ReportFormat::Md) if digests.len() < 2 => {
            vec![TableName::Types, TableName::Ranks]
        }
        (None, ReportFormat::Text | ReportFormat::Md) => {
            vec![TableName::Types, TableName::Ranks, TableName::Late]
        }
        (None, ReportFormat::Csv | ReportFormat::Parquet) => vec![TableName::Kernels],
        (None, ReportFormat::Json) => vec![
            TableName::Kernels,
            TableName::Collectives,
            TableName::Ranks,
            TableName::Groups,
            TableName::Types,
            TableName::Late,
            TableName::Host,
        ],
    };
    let mut document = Document::new(SCHEMA_VERSION);
    if !people {
        for name in chosen {
            document.tables.push(table(name)?);
        }
        return Ok(document);
    }
    document.sentence(answer(digests, job));
    for (label, text) in comm_lines(digests, job) {
        document.line(label, text);
    }
    let has_kernels = digests.iter().any(|d| !d.runs.is_empty());
    if digests.iter().any(|d| !d.host.is_empty()) && args.table.is_none() {
        let title = "collectives on the host, waiting for other ranks included";
        document.table(title, tables::host(digests)?);
    }
    for name in chosen {
        // A heading without rows has no use.
        let is_empty = match name {
            TableName::Late => job.late().is_empty(),
            TableName::Host => false,
            _ => !has_kernels,
        };
        if is_empty {
            continue;
        }
        match name {
            TableName::Kernels => document.table("collective kernels", table(name)?),
            TableName::Collectives => document.table("collectives", table(name)?),
            TableName::Host => document.table("collectives on the host", table(name)?),
            TableName::Groups => document.table("groups", table(name)?),
            TableName::Ranks => document.table("ranks", tables::ranks_narrow(digests, job)?),
            TableName::Types => document.table(
                "types, most kernel time first",
                tables::types_narrow(digests, job, all)?,
            ),
            TableName::Late => document.table(
                "late arrivals, most costly first",
                tables::late_narrow(digests, job, all)?,
            ),
        }
    }
    Ok(document)
}
