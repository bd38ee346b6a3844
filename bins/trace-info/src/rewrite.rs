//! `trace-info slim`, `merge` and `repair`: other copies of traces.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use byte_source::output::AtomicFile;
use clap::Args;
use cli::{Outcome, Output, Stage, VerbosityArgs};
use gpu_time::{GpuWork, WindowSpec};
use perfetto_reader::write;
use report::human;
use trace_convert::{Alignment, Slim};
use trace_input::NamedTrace;
use trace_model::Trace;
use trace_report::merge;

use crate::args::{CopyArgs, Target};
use crate::convert::{NewFolder, Writer, read, target};
use crate::document::explain;

pub(crate) const SLIM_HELP: &str = "\
A window keeps what overlaps it, with the launches of GPU activity in it and the
GPU activity that is launched in it. Sizes before and after are on standard
error.

Example:
  trace-info slim t.json.gz --window +0ms..+50ms -o small.json.gz
  trace-info slim t.json.gz --drop-args 'Call stack' --launch-stacks -o t.pftrace
  trace-info slim report.sqlite --rank 0 --redact -o rank0.json.gz";

pub(crate) const MERGE_HELP: &str = "\
The output is a Perfetto trace for viewers: processes are named by their rank,
and numbers of processes, devices and correlations differ between ranks.
--align estimates the clocks by the ends of collectives that wait for all ranks,
as comm does; without it the clocks are as recorded. --manifest writes the
offsets for an archive of the originals, which Perfetto shows on one timeline.

Example:
  trace-info merge rank*.json.gz --align -o job.pftrace
  trace-info merge rank*.json.gz --align --manifest perfetto_manifest.json
  tar cf job.tar perfetto_manifest.json rank*.json.gz";

pub(crate) const REPAIR_HELP: &str = "\
Slices that overlap another one of their thread get a row of their own, slices
without end end with what is around them, and of broken files the readable part
is written. What was repaired is on standard error. With --part-ranks the output
is a new folder with a file for each process that launches GPU activity.

Example:
  trace-info repair broken.json -o t.json.gz
  trace-info repair job.json --part-ranks -o ranks";

#[derive(Debug, Args)]
pub(crate) struct SlimArgs {
    /// The trace ('-' is standard input)
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    out: OutArgs,
    /// Only A..B, in ns of the trace's clock, or with + from the first GPU work on: +1ms..+2ms
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    window: Option<WindowSpec>,
    /// Only the rank with this number, counted from 0 among the processes that launch GPU activity
    #[arg(long, value_name = "N")]
    rank: Option<usize>,
    /// Categories to leave out, separated by commas
    #[arg(long, value_name = "CATEGORY,...", value_delimiter = ',')]
    drop_categories: Vec<String>,
    /// Keys of arguments to leave out, separated by commas
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    drop_args: Vec<String>,
    /// Keys of the only arguments to keep, separated by commas
    #[arg(long, value_name = "KEY,...", value_delimiter = ',')]
    keep_args: Option<Vec<String>>,
    /// Keep only those Python functions that called the GPU runtime
    #[arg(long)]
    launch_stacks: bool,
}

/// Where and how the copy is written.
#[derive(Debug, Args)]
struct OutArgs {
    /// Format to write [default: by the end of the output's name]
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Target>,
    /// Where to write: a file or '-'
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    #[command(flatten)]
    copy: CopyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Traces of the ranks, or folders or packages of them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where to write the Perfetto trace: a file or '-'
    #[arg(short, long, value_name = "PATH", required_unless_present = "manifest")]
    output: Option<PathBuf>,
    /// Align the clocks of the ranks by their collectives
    #[arg(long)]
    align: bool,
    /// Where to write the offsets of the clocks, as Perfetto reads them beside the originals
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    copy: CopyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// The trace ('-' is standard input)
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    #[command(flatten)]
    out: OutArgs,
    /// Write each rank of the file to a file of its own in a new folder
    #[arg(long)]
    part_ranks: bool,
}

fn size(path: &Path) -> Option<String> {
    let bytes = std::fs::metadata(path).ok()?.len();
    #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
    Some(human::bytes(bytes as f64))
}

/// Reports how large the copy is against the original.
fn note_sizes(verbosity: VerbosityArgs, from: &Path, to: &Path, (before, after): (usize, usize)) {
    let of = |path: &Path| size(path).map_or(String::new(), |size| format!(" in {size}"));
    let text = format!(
        "{} slices{}, of {}{}",
        human::count(after as u64),
        of(to),
        human::count(before as u64),
        of(from)
    );
    verbosity.note(format!("{}: {text}", to.display()));
    let bytes = |path: &Path| std::fs::metadata(path).map(|found| found.len()).ok();
    let is_smaller = bytes(to) < bytes(from);
    let is_packed = to.extension().is_some_and(|end| end == "gz");
    if !is_smaller && !is_packed && bytes(to).is_some() && bytes(from).is_some() {
        verbosity.note(format!(
            "note: {}: the copy is no smaller than the original: a name that ends in .json.gz makes it compressed",
            to.display()
        ));
    }
}

pub(crate) fn slim(args: &SlimArgs) -> anyhow::Result<Outcome> {
    let out = &args.out;
    let target = target(out.to, &out.output)?;
    let to = Writer::open(&[&args.trace], &out.output, target)?;
    let whole = read(&args.trace, &out.copy.input, out.copy.verbosity)?;
    let mut options = Slim::default();
    options.window = match args.window {
        Some(spec) => spec
            .resolve(&GpuWork::new(&whole))
            .map_err(|error| cli::usage(format!("--window: {error}")))?,
        None => None,
    };
    options.drop_categories.clone_from(&args.drop_categories);
    options.drop_args.clone_from(&args.drop_args);
    options.keep_args.clone_from(&args.keep_args);
    options.launch_stacks = args.launch_stacks;
    let mut trace = trace_convert::slim(&whole, &options)?;
    let (before, span) = (whole.len(), whole.span());
    if let Some(rank) = args.rank {
        // By the whole, so that numbers do not depend on the window.
        let parts = trace_convert::parts(&whole);
        let part = parts.get(rank).ok_or_else(|| {
            cli::cannot_answer(format!(
                "no rank {rank}: {} of the file launch GPU activity",
                match parts.len() {
                    1 => "1 process".to_owned(),
                    n => format!("{n} processes"),
                }
            ))
        })?;
        trace = trace_convert::part(&trace, part)?;
    }
    drop(whole);
    if trace.is_empty() && before > 0 {
        return Err(cli::cannot_answer(format!(
            "nothing is left of {}, which lasts from {} to {} ns: widen what is kept",
            args.trace.display(),
            span.start.nanos(),
            span.end.nanos()
        )));
    }
    if out.copy.redact {
        trace = trace_convert::redact(&trace)?;
    }
    to.write(&trace)?;
    note_sizes(
        out.copy.verbosity,
        &args.trace,
        &out.output,
        (before, trace.len()),
    );
    Ok(Outcome::Fine)
}

pub(crate) fn repair(args: &RepairArgs) -> anyhow::Result<Outcome> {
    let out = &args.out;
    if args.part_ranks {
        return part_ranks(args);
    }
    let target = target(out.to, &out.output)?;
    let to = Writer::open(&[&args.trace], &out.output, target)?;
    let trace = repaired(args)?;
    to.write(&trace)?;
    Ok(Outcome::Fine)
}

fn repaired(args: &RepairArgs) -> anyhow::Result<Trace> {
    let out = &args.out;
    let found = trace_convert::repair(&read(&args.trace, &out.copy.input, out.copy.verbosity)?)?;
    out.copy.verbosity.note(format!(
        "{}: {} overlapping slices moved to rows of their own, {} open slices closed",
        args.trace.display(),
        human::count(found.moved),
        human::count(found.closed)
    ));
    match out.copy.redact {
        true => Ok(trace_convert::redact(&found.trace)?),
        false => Ok(found.trace),
    }
}

fn part_ranks(args: &RepairArgs) -> anyhow::Result<Outcome> {
    let out = &args.out;
    let ending = match out.to.unwrap_or(Target::Perfetto) {
        Target::Perfetto => "pftrace",
        Target::ChromeJson => "json.gz",
        Target::Parquet => {
            return Err(cli::usage(
                "--part-ranks writes a trace for each rank: give --to perfetto or chrome-json",
            ));
        }
    };
    cli::refuse_overwrite([&args.trace], [&out.output])?;
    let folder = NewFolder::create(&out.output)?;
    let trace = repaired(args)?;
    let parts = trace_convert::parts(&trace);
    if parts.is_empty() {
        return Err(cli::cannot_answer(
            "no process of the file launches GPU activity: there are no ranks to part",
        ));
    }
    for (rank, part) in parts.iter().enumerate() {
        let name = format!("rank{rank}.{ending}");
        let path = folder.path().join(&name);
        let target = target(out.to, &path)?;
        let own = trace_convert::part(&trace, part)?;
        Writer::open(&[], &path, target)?.write(&own)?;
        out.copy.verbosity.note(format!(
            "{name}: process {}, {} slices",
            part.pid,
            human::count(own.len() as u64)
        ));
    }
    folder.commit()?;
    Ok(Outcome::Fine)
}

/// A rank of a job that is merged.
struct Rank {
    path: PathBuf,
    label: String,
    base_ns: i64,
    alignment: Alignment,
    is_perfetto: bool,
    /// Perfetto opens the file as it is.
    opens_in_perfetto: bool,
}

pub(crate) fn merge(args: &MergeArgs) -> anyhow::Result<Outcome> {
    let paths = trace_input::expand_ranks(&args.files, args.copy.verbosity)?;
    let outputs = args.output.iter().chain(&args.manifest);
    cli::refuse_overwrite(&paths, outputs)?;
    let out = match &args.output {
        Some(path) if path.as_os_str() == "-" => Some(Output::stdout()),
        Some(path) => Some(Output::file(path)?),
        None => None,
    };
    let ranks = ranks(args, &paths)?;
    if let Some(path) = &args.manifest {
        let files: Vec<(String, Alignment, bool)> = ranks
            .iter()
            .map(|rank| {
                let name = rank.path.file_name().unwrap_or(rank.path.as_os_str());
                let name = name.to_string_lossy().into_owned();
                if rank.opens_in_perfetto {
                    return (name, rank.alignment, rank.is_perfetto);
                }
                let copy = trace_convert::copy_name(&name);
                args.copy.verbosity.note(format!(
                    "warning: {}: Perfetto does not open this format: the manifest names {copy}, which `trace-info convert '{}' -o \
                     {copy}` writes",
                    rank.path.display(),
                    rank.path.display()
                ));
                (copy, rank.alignment, true)
            })
            .collect();
        let mut file = AtomicFile::create(path)?;
        serde_json::to_writer_pretty(&mut file, &trace_convert::manifest(&files))?;
        file.write_all(b"\n")?;
        file.commit()?;
    }
    let Some(mut out) = out else {
        return Ok(Outcome::Fine);
    };
    let base = ranks.first().map_or(0, |rank| rank.base_ns);
    let _stage = Stage::start("write", args.copy.verbosity);
    for (place, rank) in (0_u32..).zip(&ranks) {
        let mut trace = read(&rank.path, &args.copy.input, args.copy.verbosity)?;
        if args.copy.redact {
            trace = trace_convert::redact(&trace)?;
        }
        let placed = trace_convert::rank(&trace, place, &rank.label, rank.alignment, base)?;
        drop(trace);
        write::write_part(&placed, place, &mut out)?;
    }
    out.finish()?;
    Ok(Outcome::Fine)
}

/// The ranks with their clocks. Each trace is read and dropped.
fn ranks(args: &MergeArgs, paths: &[PathBuf]) -> anyhow::Result<Vec<Rank>> {
    let digest = |input: &NamedTrace| {
        let digest = merge::digest(&input.name, &input.trace);
        Ok((digest, input.trace.meta().format))
    };
    let each = trace_input::read_each(
        paths,
        &args.copy.input,
        args.copy.verbosity,
        |options| options.snap_ns = 0,
        digest,
    )?;
    if let Some(error) = each.failed {
        return Err(error);
    }
    let formats: Vec<(String, &'static str)> = each
        .results
        .iter()
        .map(|(digest, format)| (digest.source.clone(), *format))
        .collect();
    let digests = each.results.into_iter().map(|(digest, _)| digest).collect();
    let mut ranks = Vec::new();
    for placed in merge::place(digests, args.align).map_err(explain)? {
        let verbosity = args.copy.verbosity;
        let (source, alignment) = (&placed.source, placed.alignment);
        if placed.is_unaligned {
            verbosity.note(format!(
                "warning: {source}: no collective joins its clock to that of the first rank: its clock is as recorded"
            ));
        }
        let error = alignment.error_ns.filter(|_| !ranks.is_empty());
        verbosity.note(format!(
            "{} ({source}): clock moved by {} ns{}",
            placed.label,
            alignment.offset_ns,
            error.map_or(String::new(), |error| format!(" ± {error} ns"))
        ));
        let format = formats.iter().find(|(name, _)| name == source);
        let format = format.map_or("", |(_, format)| *format);
        ranks.push(Rank {
            path: PathBuf::from(source),
            label: placed.label,
            base_ns: placed.base_ns,
            alignment,
            is_perfetto: format == "perfetto",
            opens_in_perfetto: ["perfetto", "chrome-json"].contains(&format),
        });
    }
    Ok(ranks)
}
