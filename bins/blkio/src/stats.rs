//! `blkio stats`.

use std::io::Write as _;
use std::path::Path;

use blkio_companions::clock::Anchor;
use blkio_companions::clock::anchors_of_json;
use blkio_companions::engine::EngineLog;
use blkio_companions::gpu::GpuLog;
use blkio_parser::analyse::user_phases::Named;
use blkio_parser::pipeline::Input;
use blkio_parser::{AnalysisSet, Stats, StatsOptions};
use blkio_report::document::{self, DocumentOptions};
use blkio_report::document_csv::write_csv;
use blkio_report::files::whole;
use blkio_report::limit::Yardstick;
use blkio_report::overlay::{self, ClockHint, Logs};
use blkio_report::recordings::name_of;
use blkio_report::tables::write_tables;
use blkio_report::{page, text_summary, yardstick};
use cli::{OrExit as _, Outcome, Output, ProgressLine, Stage};
use serde_json::Value;

use crate::args::{Anchor as BinAnchor, StatsArgs, phase};
use crate::follow;
use crate::reading::{OrCode as _, stats_options, trace_files, warn, write_json};

/// Returns what a device can do, by a rate or by the file of a measurement.
fn yardstick_of(text: &str) -> anyhow::Result<Yardstick> {
    let path = Path::new(text);
    if path.exists() {
        return yardstick::of_measurement(text, &whole(path).or_code()?).or_code();
    }
    let found = yardstick::of_rate(text);
    let error = || {
        anyhow::anyhow!("yardstick {text}: no such file, and no rate such as 3.2GB/s or 500MiB/s")
    };
    found.ok_or_else(error).or_exit(cli::Outcome::Unreadable)
}

/// Options that were given and change nothing, and what they would need.
fn without_effect(args: &StatsArgs) -> Vec<(&'static str, &'static str)> {
    let plain = StatsOptions::default();
    let no_wall_time = (
        args.gpu.is_none() && args.engine.is_none(),
        "without --gpu or --engine",
    );
    let no_pairs = (
        args.no_latency || args.traffic_only,
        "when nothing is paired (--no-latency, --traffic-only)",
    );
    let no_places = (
        args.traffic_only,
        "with --traffic-only, which keeps no places",
    );
    let window_ns = args.working_set_window;
    let rows = [
        ("--tz", args.tz.is_some(), no_wall_time),
        ("--clock", args.clock.is_some(), no_wall_time),
        ("--clock-offset", args.clock_offset.is_some(), no_wall_time),
        ("--stale", args.stale != plain.stale_ns, no_pairs),
        (
            "--reuse-block",
            2 * args.reuse_block != plain.reuse_block_sectors,
            no_places,
        ),
        ("--exact-reuse", args.exact_reuse, no_places),
        (
            "--working-set-window",
            window_ns != plain.working_set_window_ns,
            no_places,
        ),
    ];
    let idle = rows.iter().filter(|row| row.1 && row.2.0);
    idle.map(|row| (row.0, row.2.1)).collect()
}

pub(crate) fn run(args: &StatsArgs) -> anyhow::Result<Outcome> {
    let files = trace_files(&args.files, args.verbosity)?;
    for (option, needs) in without_effect(args) {
        let note = format!("blkio: warning: {option} says nothing {needs}");
        args.verbosity.note(note);
    }
    let progress = ProgressLine::start("reading", args.verbosity);
    let mut options = stats_options(&files, &args.trace, &args.input, &progress)?;
    if let Some(interval_ns) = args.follow {
        options.read.opened = Some(follow::open(args, interval_ns, &options.read.open)?);
    }
    options.bin_ns = args.bin.unwrap_or(options.bin_ns);
    options.adapt_bins = args.bin.is_none();
    let mut document_options = DocumentOptions::default();
    document_options.compat = args.compat;
    document_options.tool_version = env!("CARGO_PKG_VERSION");
    if let Some(text) = &args.yardstick {
        document_options.yardstick = Some(yardstick_of(text)?);
    }
    options.bins_by_clock = args.anchor == BinAnchor::Epoch;
    options.stale_ns = args.stale;
    options.burst_gap_ns = args.burst_gap;
    options.reuse_block_sectors = 2 * args.reuse_block;
    options.exact_reuse = args.exact_reuse;
    options.working_set_window_ns = args.working_set_window;
    options.phases.clone_from(&args.phases);
    if let Some(path) = &args.phase_file {
        options.phases.extend(phases_of(path)?);
    }
    if args.traffic_only {
        options.wanted = AnalysisSet::TRAFFIC;
    }
    options.wanted.latency &= !args.no_latency;
    let mut stats = Stage::time("analyse", args.verbosity, || {
        Stats::of_files(&files, &options)
    })
    .or_code()?;
    drop(progress);
    inside(&options.phases, &stats).or_exit(cli::Outcome::CannotAnswer)?;
    let mut document = document::stats(&mut stats, &document_options);
    let hint = clock_hint(args, &stats)?;
    let yardstick = document_options.yardstick.as_ref();
    let gpu = overlay::add_logs(&mut document, &stats, &logs(args)?, &hint, yardstick);
    if let Some(path) = &args.html {
        let page = page(&mut stats, &document, &gpu);
        let mut out = Output::file(path)?;
        out.write_all(page.to_html().as_bytes())?;
        out.finish()?;
    }
    if let Some(dir) = &args.out {
        write_tables(dir, args.parquet, &mut stats, &document).or_code()?;
    }
    let mut out = args.output.open()?;
    let format = if args.csv {
        cli::Format::Csv
    } else {
        args.format.format()
    };
    match format {
        cli::Format::Json => {
            write_json(&document, &mut out)?;
        }
        cli::Format::Csv => write_csv(&document, &mut out)?,
        cli::Format::Text => out.write_all(text_summary(&stats, &document).as_bytes())?,
    }
    out.finish()?;
    warn(&document["quality"], args.verbosity);
    if stats.traffic.issues + stats.traffic.completions == 0 {
        let names = name_of(&files);
        // A recording of nothing is no unreadable input: it has nothing but the tracer's own lines.
        let counts = stats.outcome.counts();
        let is_recording = args.trace.device.is_none()
            && counts.malformed + counts.other + counts.lfs_pointer == 0
            && counts.lines > 0;
        return if is_recording {
            Err(anyhow::anyhow!(
                "the recording {names} has no requests{}: record while the workload runs, on the device that it uses",
                device_hint(args)
            ))
            .or_exit(cli::Outcome::CannotAnswer)
        } else {
            Err(anyhow::anyhow!("no events in {names}{}", device_hint(args)))
                .or_exit(cli::Outcome::Unreadable)
        };
    }
    Ok(gates(args, &document))
}

/// The logs that were named, with a warning where the engine's is of something else.
fn logs(args: &StatsArgs) -> anyhow::Result<Logs> {
    let mut logs = Logs::default();
    if let Some(path) = &args.gpu {
        let content = whole(path).or_code()?;
        logs.gpu = Some(GpuLog::parse(&path.display().to_string(), &content).or_code()?);
    }
    if let Some(path) = &args.engine {
        let log = EngineLog::parse(&whole(path).or_code()?);
        if log == EngineLog::default() {
            args.verbosity.note(format!(
                "blkio: warning: {}: nothing of what FlexGen or DeepSpeed print: is it the engine's standard output?",
                path.display()
            ));
        }
        logs.engine = Some(log);
    }
    Ok(logs)
}

/// Refuses phases that begin behind the end of the trace, which has nothing to say of them.
fn inside(phases: &[Named], stats: &Stats) -> anyhow::Result<()> {
    let length_ns = stats.traffic.length_ns();
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut outside = phases.iter().filter(|of| of.start_ns > length_ns);
    match outside.next() {
        Some(of) if stats.traffic.issues > 0 => Err(anyhow::anyhow!(
            "phase {} ({:.3} s to {:.3} s) lies outside of the trace, which covers 0 s to {:.3} s from its first request",
            of.name,
            seconds(of.start_ns),
            seconds(of.end_ns),
            seconds(length_ns)
        )),
        _ => Ok(()),
    }
}

/// Returns what the command line says of the clocks, else the trace itself.
fn clock_hint(args: &StatsArgs, stats: &Stats) -> anyhow::Result<ClockHint> {
    let mut hint = ClockHint::default();
    hint.offset_s = args.clock_offset;
    hint.zone_ns = args.tz.unwrap_or(0);
    let Some(path) = &args.clock else {
        hint.anchors = stats.outcome.counts().anchors;
        return Ok(hint);
    };
    hint.anchors = anchors(path)?;
    let clocks = stats.outcome.inputs.iter().filter_map(Input::clock);
    for clock in clocks.filter(|clock| *clock != "boottime") {
        if matches!(clock, "rebased" | "counter" | "x86-tsc") {
            return Err(anyhow::anyhow!(
                "--clock: {} reads the time since boot, which says nothing of a trace in clock `{clock}`: give --clock-offset",
                path.display()
            ))
            .or_exit(cli::Outcome::Unreadable);
        }
        hint.is_other_clock = true;
        args.verbosity.note(format!(
            "blkio: warning: {} reads boottime, but the trace's clock is `{clock}`: tens of ms may lie between",
            path.display()
        ));
    }
    Ok(hint)
}

/// Returns the readings of a file of both clocks.
fn anchors(path: &Path) -> anyhow::Result<Vec<Anchor>> {
    let found = anchors_of_json(&whole(path).or_code()?);
    if found.is_empty() {
        return Err(anyhow::anyhow!(
            "{}: no pair of boottime_ns and realtime_ns: expected what `blkio collect` writes as clock.json",
            path.display()
        ))
        .or_exit(cli::Outcome::Unreadable);
    }
    Ok(found)
}

/// Returns the phases of a file: as after --phase, one a line; empty lines and those that begin with `#` are passed over.
fn phases_of(path: &Path) -> anyhow::Result<Vec<Named>> {
    let text = whole(path).or_code()?;
    let text = String::from_utf8_lossy(&text);
    let lines = (1..).zip(text.lines().map(str::trim));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            phase(line)
                .map_err(|reason| anyhow::anyhow!("{}: line {number}: {reason}", path.display()))
        })
        .collect::<anyhow::Result<Vec<Named>>>()
        .or_exit(cli::Outcome::Unreadable)
}

/// Returns what to look at when a device was asked for and nothing of it was found.
fn device_hint(args: &StatsArgs) -> &'static str {
    if args.trace.device.is_some() {
        ": none of the device asked for; requests name the whole disk, not a partition"
    } else {
        ""
    }
}

/// Returns `true` if the trace is as whole as was asked for.
fn gates(args: &StatsArgs, document: &Value) -> Outcome {
    let quality = &document["quality"];
    let missing = quality["missing_share_estimate"].as_f64().unwrap_or(0.0) * 100.0;
    let malformed = quality["malformed"].as_u64().unwrap_or(0);
    let mut failed = false;
    if args.max_loss.is_some_and(|most| missing > most) {
        args.verbosity
            .note(format!("blkio: {missing:.3} % of requests are missing"));
        failed = true;
    }
    if args.max_malformed.is_some_and(|most| malformed > most) {
        args.verbosity
            .note(format!("blkio: malformed lines: {malformed}"));
        failed = true;
    }
    if failed {
        Outcome::ConditionFailed
    } else {
        Outcome::Fine
    }
}
