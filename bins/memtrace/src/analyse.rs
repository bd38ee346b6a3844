//! The commands `analyse`, `report`, `export`, `compare`.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use cli::{Format, Interrupt, OrExit as _, Outcome, usage};
use memtrace_analyser::{Analysis, AnalysisTable, Semantics};
use memtrace_labeller::{Names, Phases};
use memtrace_run::{
    Detail, Follow, PROMPTS_FILE, Processed, RunExporter, analysis_text, answers,
    append_dataset_row, compare_analyses, copy_whole, dataset_columns, facts, fits, fits_text,
    follow, hottest, narrow_text, other_input, phases_json, process, report_json, run_metadata,
    run_name, slug, tensors_text, write_dataset_card, write_report,
};
use report::{CsvOptions, CsvWriter, JsonDocument, SchemaVersion};
use serde_json::Value;

use crate::args::{
    AnalyseArgs, CompareArgs, ComputeArgs, ExportArgs, LabelArgs, Layout, Message, ReadArgs,
    ReportArgs,
};
use crate::input::{coded, read, refuse_nothing, trace_of};
use crate::rows::{outcome, tell};

/// Version of the JSON documents.
const VERSION: SchemaVersion = SchemaVersion::new(1, 0);

fn processed(
    path: &Path,
    read_args: &ReadArgs,
    label: &LabelArgs,
    compute: &ComputeArgs,
    maps: bool,
) -> anyhow::Result<Done> {
    let mut names = Names::new();
    let opened = read_args.open(path, &mut names)?;
    let mut steps = label.steps(read_args, opened.stream.is_labelled())?;
    if let Some(label) = &mut steps.label {
        // Names are in the region map.
        label.maps = maps || !steps.ranges.is_empty();
    }
    steps.analyse = Some(compute.options(read_args.compat)?);
    let done = coded(process(opened.stream, names, steps, None))?;
    let (processed, analysis) = analysed(path, read_args, done)?;
    Ok(Done {
        processed,
        analysis,
        phases: opened.phases,
    })
}

/// An input after all steps.
struct Done {
    processed: Processed,
    analysis: Analysis,
    phases: Option<Value>,
}

/// Reports skipped data, and returns the analysis.
fn analysed(
    path: &Path,
    read_args: &ReadArgs,
    mut processed: Processed,
) -> anyhow::Result<(Processed, Analysis)> {
    tell(&processed.report, read_args.verbosity);
    refuse_nothing(path, &processed.report, read_args)?;
    let analysis = processed
        .analysis
        .take()
        .context("the analysis was not made")?;
    Ok((processed, analysis))
}

/// Same as [`processed`], for a growing text.
fn followed(path: &Path, args: &AnalyseArgs, seconds: u64) -> anyhow::Result<Done> {
    if args.read.infer_phases {
        return Err(usage(
            "phases are inferred from the whole of an input: leave --follow out",
        ));
    }
    if path.as_os_str() == "-" {
        return Err(usage(
            "standard input is read to its end anyway: leave --follow out",
        ));
    }
    let mut names = Names::new();
    let input = args.read.options(path)?;
    let boundaries = args.read.boundaries()?;
    let phases = coded(Phases::new(&boundaries, &mut names))?;
    let mut steps = args.label.steps(&args.read, false)?;
    steps.analyse = Some(args.compute.options(args.read.compat)?);
    let interrupt = Interrupt::listen();
    let mut growing = Follow::new(move || interrupt.has_come());
    growing.quiet = args.until_quiet.map(Duration::from_secs);
    growing.interval = Duration::from_secs(seconds);
    let verbosity = args.read.verbosity;
    growing.told = Box::new(move |growth| {
        let mut line = format!("{} rows, {} regions", growth.rows, growth.regions);
        for (name, loads, stores) in &growth.types {
            line.push_str(&format!(", {name} {loads} loads {stores} stores"));
        }
        verbosity.note(line);
    });
    let done = coded(follow(path, &input, &phases, names, steps, growing))?;
    let (processed, analysis) = analysed(path, &args.read, done)?;
    Ok(Done {
        processed,
        analysis,
        phases: (!boundaries.is_empty()).then(|| phases_json(&boundaries, "file")),
    })
}

pub(crate) fn analyse(args: &AnalyseArgs) -> anyhow::Result<Outcome> {
    let path = args.input.get()?;
    cli::refuse_overwrite([path], &args.output.output)?;
    let tiers = args.compute.tiers()?;
    let table = args.table.as_deref().map(table_named).transpose()?;
    let wanted = tables_of(&args.metrics)?;
    let format = args.format.format();
    if format == Format::Csv && table.is_none() {
        return Err(usage("--format csv needs --table"));
    }
    let Done {
        processed: done,
        analysis,
        phases,
    } = match args.follow {
        Some(seconds) => followed(path, args, seconds)?,
        None => processed(path, &args.read, &args.label, &args.compute, false)?,
    };
    if let (Some(AnalysisTable::ReuseDistance | AnalysisTable::MissRatio), Some(reuse)) =
        (table, &analysis.reuse)
        && reuse.sampled_share < 1.0
    {
        let percent = reuse.sampled_share * 100.0;
        args.read.verbosity.note(format!(
            "too many pages to follow all: {percent:.3} percent of them stand for all"
        ));
    }
    let fits = fits(&analysis, &tiers);
    let tensors = hottest(&done, TENSORS);
    let mut out = args.output.open()?;
    let mut shown = AnalysisTable::of(&analysis);
    shown.retain(|table| wanted.is_empty() || wanted.contains(table));
    match (format, table) {
        (Format::Json, None) if analysis.semantics == Semantics::Mrm => {
            coded(analysis.write_json_of(&shown, &mut out))?;
        }
        (Format::Json, table) => {
            let mut document = JsonDocument::new(&mut out, VERSION)?;
            document.member("semantics", analysis.semantics.name())?;
            document.member("analysis", &facts(&analysis))?;
            document.member("input", &report_json(&done.report))?;
            if table.is_none() {
                document.member("answers", &answers(&analysis))?;
                document.member("tiers", &fits)?;
                document.member("hottest_tensors", &tensors)?;
            }
            if let Some(phases) = &phases {
                document.member("phases", phases)?;
            }
            let tables = table.map_or(shown, |table| vec![table]);
            for table in tables {
                coded(analysis.write_table(table, &mut document.rows(table.name())))?;
            }
            document.finish()?;
        }
        (Format::Csv, Some(table)) => {
            coded(
                analysis.write_table(table, &mut CsvWriter::new(&mut out, CsvOptions::default())),
            )?;
        }
        (_, table) => {
            let extra = fits_text(&fits) + &tensors_text(&tensors);
            let detail = match table {
                Some(table) => Detail::Only(table),
                None if args.summaries || !wanted.is_empty() => Detail::Summaries,
                None => Detail::Answer,
            };
            let text = coded(analysis_text(&analysis, detail, &shown, &extra))?;
            out.write_all(text.as_bytes())?;
        }
    }
    out.finish()?;
    Ok(outcome(&done.report, args.read.input.strict))
}

/// Returns the tables of metrics; empty without metrics.
fn tables_of(metrics: &[String]) -> anyhow::Result<Vec<AnalysisTable>> {
    let mut tables = Vec::new();
    for metric in metrics {
        let found = AnalysisTable::of_metric(metric).ok_or_else(|| {
            let known = AnalysisTable::METRICS.join(", ");
            usage(format!("--metrics has any of {known}"))
        })?;
        tables.extend_from_slice(found);
    }
    Ok(tables)
}

fn table_named(name: &str) -> anyhow::Result<AnalysisTable> {
    let all = || AnalysisTable::MRM.into_iter().chain(AnalysisTable::NATIVE);
    all().find(|table| table.name() == name).ok_or_else(|| {
        let known: Vec<&str> = all().map(AnalysisTable::name).collect();
        usage(format!("--table is one of {}", known.join(", ")))
    })
}

/// Maximum number of named regions listed.
const TENSORS: usize = 10;

pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<Outcome> {
    let input = args.input.get()?;
    let tiers = args.compute.tiers()?;
    let all = processed(input, &args.read, &args.label, &args.compute, true)?;
    let mut done = all.processed;
    done.analysis = Some(all.analysis);
    let title = run_name(input);
    let files = coded(write_report(
        &args.output,
        &title,
        &done,
        &args.figures.formats(),
        &tiers,
    ))?;
    if args.format.format() == Message::Json {
        let mut out = cli::Output::stdout();
        let mut document = JsonDocument::new(&mut out, VERSION)?;
        document.member("files", &files)?;
        document.finish()?;
        out.finish()?;
    } else {
        args.read.verbosity.note(format!(
            "{} files in {}",
            files.len(),
            args.output.display()
        ));
    }
    Ok(outcome(&done.report, args.read.input.strict))
}

pub(crate) fn export(args: &ExportArgs) -> anyhow::Result<Outcome> {
    let input = args.input.get()?;
    let mut names = Names::new();
    let opened = args.read.open(input, &mut names)?;
    let mut stream = opened.stream;
    let mut steps = args.label.steps(&args.read, stream.is_labelled())?;
    steps.analyse = Some(args.compute.options(args.read.compat)?);
    let metadata = match &args.metadata {
        Some(file) => serde_json::from_slice(&read(file)?)
            .with_context(|| file.display().to_string())
            .or_exit(Outcome::Unreadable)?,
        None if input.is_dir() => coded(run_metadata(input))?,
        None => serde_json::Map::new(),
    };
    let run_id = match (&args.read.run_id, args.layout) {
        (Some(run_id), _) => run_id.clone(),
        (None, Layout::Run) => run_name(input),
        // The folder is named after it, so the first row is needed now; a pipe may be silent for
        // long.
        (None, Layout::Hf | Layout::Zenodo) => coded(stream.run_of_rows(&mut names))?,
    };
    let folder = match args.layout {
        Layout::Run => args.output.clone(),
        Layout::Hf | Layout::Zenodo => args.output.join("runs").join(folder_of(&run_id)),
    };
    let source = Some(trace_of(input)).filter(|source| source.is_file());
    // A data set contains each run once; the user's own folder is up to the user.
    if args.layout != Layout::Run
        && let Some(other) = coded(other_input(&folder, source.as_deref()))?
    {
        return Err(usage(format!(
            "{} holds the run of another input, {other}: name this one with --run-id",
            folder.display()
        )));
    }
    let mut exporter = RunExporter::new(&folder, &run_id, args.read.semantics());
    exporter.figures = if args.no_figures {
        Vec::new()
    } else {
        args.figures.formats()
    };
    exporter.tiers = args.compute.tiers()?;
    exporter.metadata = metadata;
    exporter.run_of_rows = args.read.run_id.is_none();
    exporter.input = source;
    exporter.needs_rows = args.read.compat.is_none();
    if let Some(phases) = opened.phases {
        exporter.metadata.entry("phases").or_insert(phases);
    }
    let prompts = input.join(PROMPTS_FILE);
    let has_prompts = prompts.is_file() && folder != input;
    if has_prompts {
        coded(copy_whole(&prompts, &folder.join(PROMPTS_FILE)))?;
    }
    let (done, manifest) = coded(exporter.export(stream, names, steps))?;
    tell(&done.report, args.read.verbosity);
    if args.layout != Layout::Run {
        let columns: Vec<(&str, String)> = coded(dataset_columns(
            &run_id,
            &exporter.metadata,
            done.analysis.as_ref(),
            has_prompts,
        ))?;
        coded(append_dataset_row(
            &args.output.join("manifest.csv"),
            &columns,
        ))?;
        coded(write_dataset_card(&args.output, args.layout == Layout::Hf))?;
    }
    if args.json {
        let mut out = cli::Output::stdout();
        serde_json::to_writer_pretty(&mut out, &manifest)?;
        writeln!(out)?;
        out.finish()?;
    } else {
        args.read.verbosity.note(format!(
            "{} rows, {} files in {}",
            done.report.rows,
            manifest.files.len(),
            folder.display()
        ));
    }
    Ok(outcome(&done.report, args.read.input.strict))
}

/// Returns the name of a run's folder, unless it is a path. Rows may contain any text.
fn folder_of(run_id: &str) -> String {
    let mut parts = Path::new(run_id).components();
    match (parts.next(), parts.next()) {
        (Some(std::path::Component::Normal(_)), None) => run_id.to_owned(),
        _ => slug(run_id),
    }
}

pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<Outcome> {
    cli::refuse_overwrite([&args.before, &args.after], &args.output.output)?;
    if !args.compute.tiers()?.is_empty() {
        return Err(usage(
            "compare judges no tiers: give --tier to analyse or report",
        ));
    }
    let of = |path| processed(path, &args.read, &args.label, &args.compute, false);
    let (before, after) = (of(&args.before)?, of(&args.after)?);
    let table = coded(compare_analyses(&before.analysis, &after.analysis))?;
    let mut out = args.output.open()?;
    match args.format.format() {
        Format::Json => {
            let mut document = JsonDocument::new(&mut out, VERSION)?;
            document.table("comparison", &table)?;
            document.finish()?;
        }
        Format::Csv => table.write_to(&mut CsvWriter::new(&mut out, CsvOptions::default()))?,
        Format::Text => out.write_all(coded(narrow_text(&table))?.as_bytes())?,
    }
    out.finish()?;
    Ok(Outcome::Fine)
}
