//! `trace-info comm`.

use clap::{Args, ValueEnum};
use cli::{Outcome, Stage};
use gpu_time::comm::{
    CollectiveTime, CommRules, Job, RankDigest, arg_keys, assign_ranks, tracelens,
};
use gpu_time::tables::{SCHEMA_VERSION, comm as tables};
use gpu_time::{GpuWork, Note, events_by_part};
use perfetto_reader::ArgPolicy;
use report::Table;
use report::human;
use trace_input::NamedTrace;
use trace_model::SliceId;

use crate::args::{ClassesArgs, ReportArgs, ReportFormat};
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

Example:
  trace-info comm rank*.json.gz
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
    let ambiguous = ambiguous(job);
    let doubt = match ambiguous {
        0 => "",
        _ if !job.knows_waits() => "",
        _ => {
            " This holds if the captures are joined rightly: they repeat so evenly that the collectives can be \
              joined in more than one way, and the one that joins most of them is taken."
        }
    };
    document.sentence(answer(digests, job) + doubt);
    lines(digests, job, &mut document);
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

fn shown(ns: i64) -> String {
    human::duration(crate::kernels::precise(ns))
}

/// Returns which rank made the others wait, if that can be known.
fn answer(digests: &[RankDigest], job: &Job) -> String {
    let n = |n: usize| human::count(n as u64);
    let kernels: usize = digests.iter().map(|d| d.runs.len()).sum();
    if kernels == 0 {
        return match digests.iter().any(|d| !d.host.is_empty()) {
            true => {
                "Cannot say which rank is late: no collective ran on a GPU, and collectives of \
                     the host (below) show only how long each rank was in them."
                    .to_owned()
            }
            false => "Cannot say anything about collectives: none is recorded. Record GPU \
                      activity of the steps that communicate, on all ranks (torch.profiler with \
                      ProfilerActivity.CUDA)."
                .to_owned(),
        };
    }
    if let [only] = digests {
        let time = &only.time;
        let share = match gpu_time::percent(time.exposed_ns, time.span_ns) {
            Some(share) => format!(" ({} of the span)", human::percent(share)),
            None => String::new(),
        };
        return format!(
            "Rank {} spends {} in collectives, {} of it exposed{share}. Cannot say how much of it \
             is waiting, nor bandwidth or stragglers: give the traces of all ranks.",
            only.rank,
            shown(time.comm_ns),
            shown(time.exposed_ns),
        );
    }
    if !job.knows_waits() && job.incomplete() > 0 {
        return format!(
            "Cannot say which rank is late, nor how much of the time is waiting: none of the {} \
             collectives that several ranks recorded is recorded by all members of its group. \
             Give the traces of all ranks.",
            n(job.incomplete())
        );
    }
    if !job.knows_waits() {
        return "Cannot say which rank is late: no collective that waits for all ranks is found on \
                two of them. Record the same steps on all ranks."
            .to_owned();
    }
    let Some(straggler) = &job.straggler else {
        return "No rank was late by more than the error of the clocks.".to_owned();
    };
    let (Some(digest), Some(rank)) = (
        digests.get(straggler.member),
        job.ranks.get(straggler.member),
    ) else {
        return String::new();
    };
    let in_collectives = digests.iter().map(|digest| digest.time.comm_ns).sum();
    let share_of_collectives =
        gpu_time::percent(straggler.inflicted_ns, in_collectives).unwrap_or(0.0);
    let start = match straggler.persistent {
        true => "The straggler is",
        // Ranks never arrive at the same instant: little waiting is no finding.
        false if share_of_collectives < MUCH_WAITING_PCT => {
            "Ranks hardly wait for each other; most costly is"
        }
        // Always being the last of two ranks is within chance for a few collectives, and a single
        // long wait for many.
        false if straggler.share > 0.5 => {
            "One rank causes most of the waiting, but too few late arrivals (or one long one) \
             cause it to tell a straggler from chance:"
        }
        false => {
            "No rank causes most of the waiting, and none is late persistently; most costly is"
        }
    };
    let cause = rank
        .causes
        .first()
        .map_or_else(String::new, |(cause, times, _)| {
            let name = cause
                .short_name()
                .map_or_else(String::new, |name| format!(" {name}"));
            let times = match times {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            format!("; mostly {}{name} ({times})", cause.kind.name())
        });
    format!(
        "{start} rank {}, last in {} of {} collectives; others waited {} for it, {} of that ({} % of all ranks') for it alone{cause}.",
        digest.rank,
        n(straggler.times_last),
        n(rank.collectives),
        shown(straggler.inflicted_ns),
        shown(straggler.avoidable_ns),
        (straggler.share * 100.0).round(),
    )
}

/// Minimum share of the time in collectives that ranks wait for one rank, for it to be a finding, in
/// percent.
const MUCH_WAITING_PCT: f64 = 5.0;

/// Returns the number of captures that could be joined with the others in more than one way.
fn ambiguous(job: &Job) -> usize {
    job.groups.iter().map(|g| g.ambiguous.len()).sum()
}

fn lines(digests: &[RankDigest], job: &Job, document: &mut Document) {
    let n = |n: usize| human::count(n as u64);
    let sum = |f: fn(&RankDigest) -> usize| digests.iter().map(f).sum::<usize>();
    let kernels = sum(|d| d.runs.len());
    let joined = job.collectives.iter().filter(|c| c.matched.runs.len() > 1);
    let by_operator = match sum(|d| d.sized_by_operator) {
        0 => String::new(),
        more => format!(", size of {} more from their operators", n(more)),
    };
    document.line("job", format!(
        "{} rank{}, {} collective kernels; {} collectives recorded on several ranks, {} kernels found on one rank only; \
arguments known of {} kernels{by_operator}, launch calls of {}",
        n(digests.len()),
        if digests.len() == 1 { "" } else { "s" },
        n(kernels),
        n(joined.count()),
        n(job.unmatched()),
        n(sum(|d| d.annotated)),
        n(kernels - sum(|d| d.unlinked)),
    ));
    let ambiguous = ambiguous(job);
    if ambiguous > 0 {
        document.line("caution", format!(
            "{ambiguous} captures repeat so evenly that they could be joined with the others in more than one way: \
             collectives of other steps may be taken for one, and waits, clocks and the straggler are then wrong"
        ));
    }
    if job.contradictions() > 0 {
        document.line(
            "caution",
            format!(
                "in {} collectives a rank ends before another starts: not counted in waits",
                n(job.contradictions())
            ),
        );
    }
    if job.incomplete() > 0 {
        document.line(
            "incomplete",
            format!(
                "of {} collectives a member of the group is not recorded: waits and late arrivals \
                 are not known, and not counted",
                n(job.incomplete())
            ),
        );
    }
    let apart = job.clocks.iter().filter(|c| c.is_none()).count();
    if apart > 0 {
        document.line("clocks", format!(
            "{apart} {} no synchronising collective with the first one: their clocks and waits are not known",
            match apart {
                1 => "rank shares",
                _ => "ranks share",
            }
        ));
    }
    if job.collectives.iter().any(CollectiveTime::includes_waiting) {
        document.line(
            "with wait",
            "of collectives that not all members of the group recorded the latency is the shortest \
             recorded duration, which may include waiting for the others: no bandwidth follows \
             from it",
        );
    }
}
