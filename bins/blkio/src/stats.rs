//! `blkio stats`.

use std::io::Write as _;
use std::path::Path;

use blkio_parser::analyse::given::Named;
use blkio_parser::clock::anchors_of_json;
use blkio_parser::document::{self, DocumentOptions};
use blkio_parser::engine::EngineLog;
use blkio_parser::gpu::GpuLog;
use blkio_parser::overlay::{self, ClockHint};
use blkio_parser::pipeline::{Input, ReadOptions};
use blkio_parser::quality::Anchor;
use blkio_parser::{Stats, StatsOptions, Wanted};
use report::human;
use serde_json::Value;
use shell::{OrExit as _, Outcome, Output, ProgressLine, Stage, VerbosityArgs};

use crate::args::{Anchor as BinAnchor, StatsArgs, TraceArgs, phase};
use crate::side::{engine_value, gpu_value, whole};
use crate::{GATE, NO_INPUT, follow, inputs, page, tables};

/// How traces are read by all commands.
pub(crate) fn read_options(
    trace: &TraceArgs,
    input: &shell::InputArgs,
    progress: &ProgressLine,
) -> ReadOptions {
    let mut read = ReadOptions::default();
    read.format = trace.trace_format;
    read.device = trace.device;
    read.window_ns = trace.reorder;
    read.strict = input.strict;
    read.threads = input.threads().get();
    read.open = input.open_options(Some(progress.counter()));
    read
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
    let files = inputs::files(&args.files, args.verbosity)?;
    for (option, needs) in without_effect(args) {
        let note = format!("blkio: warning: {option} says nothing {needs}");
        args.verbosity.note(note);
    }
    let progress = ProgressLine::start("reading", args.verbosity);
    let mut options = StatsOptions::default();
    options.read = read_options(&args.trace, &args.input, &progress);
    if let Some(interval_ns) = args.follow {
        options.read.follow = Some(follow::options(args, interval_ns)?);
    }
    options.bin_ns = args.bin;
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
    options.wanted = Wanted {
        latency: !args.no_latency && !args.traffic_only,
        ..if args.traffic_only {
            Wanted::TRAFFIC
        } else {
            Wanted::ALL
        }
    };
    let mut stats = Stage::time("analyse", args.verbosity, || {
        Stats::of_files(&files, &options)
    })
    .or_exit(NO_INPUT)?;
    drop(progress);
    let document_options = DocumentOptions {
        compat: args.compat,
        tool_version: env!("CARGO_PKG_VERSION"),
    };
    let mut document = document::stats(&mut stats, document_options);
    let gpu = match &args.gpu {
        None => None,
        Some(path) => {
            let log =
                GpuLog::parse(&path.display().to_string(), &whole(path)?).or_exit(NO_INPUT)?;
            put(&mut document, "gpu", gpu_value(&log));
            Some(log)
        }
    };
    let engine = match &args.engine {
        None => None,
        Some(path) => {
            let log = EngineLog::parse(&whole(path)?);
            if log == EngineLog::default() {
                args.verbosity.note(format!(
                    "blkio: warning: {}: nothing of what FlexGen or DeepSpeed print: is it the engine's standard output?",
                    path.display()
                ));
            }
            put(&mut document, "engine", engine_value(&log));
            Some(log)
        }
    };
    let hint = clock_hint(args, &stats)?;
    let aligned = gpu
        .as_ref()
        .map(|gpu| overlay::align(&stats, gpu, engine.as_ref(), &hint));
    if let (Some(gpu), Some(Ok(found))) = (&gpu, &aligned) {
        let held = overlay::held_for_phases(&stats, gpu, found);
        let phases = document::phases_beside(&stats, &held);
        put(&mut document, "phases", phases);
    }
    let engine_value = engine.as_ref().map(|engine| {
        let clock = aligned.clone().and_then(Result::ok);
        let clock = clock.or_else(|| hint.anchored());
        overlay::engine(&stats, engine, clock.as_ref())
    });
    if let (Some(gpu), Some(aligned)) = (&gpu, &aligned) {
        let phases = engine_value.iter();
        let phases: Vec<Named> = phases
            .flat_map(|value| overlay::engine_phases(&stats, value))
            .collect();
        let value = overlay::gpu(&stats, gpu, aligned, &phases);
        put(&mut document, "gpu_against_io", value);
    }
    if let Some(value) = engine_value {
        put(&mut document, "engine_phases", value);
    }
    if let Some(path) = &args.html {
        let beside = gpu
            .as_ref()
            .zip(aligned.as_ref().and_then(|a| a.as_ref().ok()));
        let held = beside.map(|(gpu, clock)| overlay::held(&stats, gpu, clock));
        let page = page::build(&mut stats, &document, &held.unwrap_or_default());
        let mut out = Output::file(path)?;
        out.write_all(page.to_html().as_bytes())?;
        out.finish()?;
    }
    if let Some(dir) = &args.out {
        tables::write(dir, args.parquet, &mut stats, &document)?;
    }
    let mut out = args.output.open()?;
    let format = if args.csv {
        shell::Format::Csv
    } else {
        args.format.format()
    };
    match format {
        shell::Format::Json => {
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        }
        shell::Format::Csv => csv(&document["metrics"], "", &mut out)?,
        shell::Format::Text => summary(&stats, &document, &mut out)?,
    }
    out.finish()?;
    warn(&document["quality"], args.verbosity);
    if stats.traffic.issues + stats.traffic.completions == 0 {
        return Err(anyhow::anyhow!(
            "no events in {}{}",
            inputs::name(&files),
            device_hint(args)
        ))
        .or_exit(NO_INPUT);
    }
    Ok(gates(args, &document))
}

/// What the command line says of the clocks, else the trace itself.
fn clock_hint(args: &StatsArgs, stats: &Stats) -> anyhow::Result<ClockHint> {
    let mut hint = ClockHint {
        offset_s: args.clock_offset,
        zone_ns: args.tz.unwrap_or(0),
        ..ClockHint::default()
    };
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
            .or_exit(NO_INPUT);
        }
        hint.is_other_clock = true;
        args.verbosity.note(format!(
            "blkio: warning: {} reads boottime, but the trace's clock is `{clock}`: tens of ms may lie between",
            path.display()
        ));
    }
    Ok(hint)
}

/// The readings of a file of both clocks.
fn anchors(path: &Path) -> anyhow::Result<Vec<Anchor>> {
    let found = anchors_of_json(&whole(path)?);
    if found.is_empty() {
        return Err(anyhow::anyhow!(
            "{}: no pair of boottime_ns and realtime_ns: expected what `blkio collect` writes as clock.json",
            path.display()
        ))
        .or_exit(NO_INPUT);
    }
    Ok(found)
}

/// The phases of a file: as after --phase, one a line; empty lines and those that begin with `#` are passed over.
fn phases_of(path: &Path) -> anyhow::Result<Vec<Named>> {
    let text = whole(path)?;
    let text = String::from_utf8_lossy(&text);
    let lines = (1..).zip(text.lines().map(str::trim));
    lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .map(|(number, line)| {
            phase(line)
                .map_err(|reason| anyhow::anyhow!("{}: line {number}: {reason}", path.display()))
        })
        .collect::<anyhow::Result<Vec<Named>>>()
        .or_exit(NO_INPUT)
}

/// What to look at when a device was asked for and nothing of it was found.
fn device_hint(args: &StatsArgs) -> &'static str {
    if args.trace.device.is_some() {
        ": none of the device asked for; requests name the whole disk, not a partition"
    } else {
        " (the counts of its lines were written)"
    }
}

fn put(document: &mut Value, key: &str, value: Value) {
    if let Some(map) = document.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
}

/// Says what is doubtful about a trace.
pub(crate) fn warn(quality: &Value, verbosity: VerbosityArgs) {
    let warnings = quality["warnings"].as_array();
    for warning in warnings.into_iter().flatten().filter_map(Value::as_str) {
        verbosity.note(format!("blkio: warning: {warning}"));
    }
}

/// Whether the trace is as whole as was asked for.
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
        Outcome::Code(GATE)
    } else {
        Outcome::Fine
    }
}

/// Single values as `key,value`.
fn csv(value: &Value, prefix: &str, out: &mut Output) -> anyhow::Result<()> {
    if prefix.is_empty() {
        writeln!(out, "key,value")?;
    }
    if let Value::Object(map) = value {
        for (key, value) in map {
            let path = if prefix.is_empty() {
                key.clone()
            } else {
                format!("{prefix}.{key}")
            };
            match value {
                Value::Object(_) => csv(value, &path, out)?,
                // Lists are tables of their own (--out).
                Value::Array(_) | Value::Null => {}
                value => writeln!(out, "{path},{value}")?,
            }
        }
    }
    Ok(())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn given_phases(document: &Value, first_ns: u64, out: &mut Output) -> anyhow::Result<()> {
    for phase in list(&document["given_phases"]) {
        phase_line(phase, "name", first_ns, out)?;
    }
    Ok(())
}

/// What the GPU did meanwhile, and what the engine's log says the time was spent on; or why neither is known.
fn beside(document: &Value, first_ns: u64, out: &mut Output) -> anyhow::Result<()> {
    let time = |value: &Value| human::quantity(value.as_f64().unwrap_or(0.0), report::Unit::Nanos);
    let bytes = |value: &Value| human::quantity(value.as_f64().unwrap_or(0.0), report::Unit::Bytes);
    if let Some(mean) = document["gpu"]["time_weighted_mean_percent"].as_f64() {
        writeln!(out, "GPU: busy {mean:.1} % on average")?;
    }
    let gpu = &document["gpu_against_io"];
    if let Some(share) = gpu["stalled_on_storage_share"].as_f64() {
        let found = &gpu["alignment"];
        writeln!(
            out,
            "  idle while the device was busy: {:.1} % of the time\n  clocks by {}, give or take {}",
            share * 100.0,
            found["method"].as_str().unwrap_or("-"),
            time(&found["uncertainty_ns"])
        )?;
        if let Some(assumed) = found["assumes"].as_str() {
            writeln!(out, "  if {assumed}")?;
        }
    }
    let engine = &document["engine_phases"];
    let phases: Vec<&Value> = list(&engine["phases"]).collect();
    if !phases.is_empty() {
        writeln!(
            out,
            "engine: by {}, give or take {}",
            engine["anchor"].as_str().unwrap_or("-"),
            time(&engine["uncertainty_ns"])
        )?;
    }
    for phase in phases {
        phase_line(phase, "name", first_ns, out)?;
        let per_token = &phase["per_token"];
        if per_token.is_object() {
            writeln!(
                out,
                "    per token {} read, {} written, {:.1} requests",
                bytes(&per_token["read_bytes"]),
                bytes(&per_token["write_bytes"]),
                per_token["requests"].as_f64().unwrap_or(0.0)
            )?;
        }
    }
    for (name, value) in [("GPU", gpu), ("engine", engine)] {
        if let Some(reason) = value["refused"].as_str() {
            writeln!(out, "{name} not compared: {reason}")?;
        }
    }
    Ok(())
}

/// When a phase was, what it did, and how long its requests took.
fn phase_line(phase: &Value, name: &str, first_ns: u64, out: &mut Output) -> anyhow::Result<()> {
    let at = |key: &str| phase[key].as_u64().unwrap_or(0).saturating_sub(first_ns) as f64 / 1e9;
    write!(
        out,
        "  {:>9.2} s to {:>9.2} s  {}",
        at("start_ns"),
        at("end_ns"),
        phase[name].as_str().unwrap_or("")
    )?;
    // Short, so that a line fits a terminal.
    let mut before = "p50 ";
    for direction in ["read", "write"] {
        if let Some(p50) = phase["latency_ns"][direction]["p50"].as_f64() {
            let p50 = human::quantity(p50, report::Unit::Nanos);
            write!(out, ", {before}{direction} {p50}")?;
            before = "";
        }
    }
    Ok(writeln!(out)?)
}

fn summary(stats: &Stats, document: &Value, out: &mut Output) -> anyhow::Result<()> {
    let metrics = &document["metrics"];
    for input in document["inputs"].as_array().into_iter().flatten() {
        let text = |key: &str| input[key].as_str().unwrap_or("-").to_owned();
        writeln!(
            out,
            "{}: {} (clock {})",
            text("name"),
            text("format"),
            text("clock")
        )?;
    }
    let rates = &document["extra"]["mean_rates"];
    let span = rates["span_s"].as_f64().unwrap_or(0.0);
    match stats.traffic.completions {
        0 => writeln!(
            out,
            "{} requests issued over {span:.3} s; no completions, so no latency and no depth",
            stats.traffic.issues
        )?,
        completions => writeln!(
            out,
            "{} requests issued, {completions} completed, over {span:.3} s",
            stats.traffic.issues
        )?,
    }
    if let Some(totals) = metrics["totals"].as_object() {
        for (direction, amount) in totals {
            let ios = amount["ios"].as_u64().unwrap_or(0);
            let bytes = amount["bytes"].as_u64().unwrap_or(0);
            let rate = if span > 0.0 { bytes as f64 / span } else { 0.0 };
            writeln!(
                out,
                "  {direction:<8} {ios:>10} requests  {:>12}  {:>14}",
                human::quantity(bytes as f64, report::Unit::Bytes),
                human::quantity(rate, report::Unit::BytesPerSecond)
            )?;
        }
    }
    for class in ["read", "write"] {
        let of = &metrics["sequentiality"][class];
        let requests = of["requests"].as_f64().unwrap_or(0.0);
        if requests > 0.0 {
            let share = |key: &str| of[key].as_f64().unwrap_or(0.0) / requests * 100.0;
            writeln!(
                out,
                "  {class:<8} {:.1} % sequential, {:.1} % with 32 streams",
                share("sequential"),
                share("multi_stream_32")
            )?;
        }
        let latency = &metrics["pairing_newest"]["latency_ns"][class];
        if let Some(p50) = latency["p50"].as_f64() {
            let p99 = latency["p99"].as_f64().unwrap_or(0.0);
            writeln!(
                out,
                "  {class:<8} latency p50 {}, p99 {}",
                human::quantity(p50, report::Unit::Nanos),
                human::quantity(p99, report::Unit::Nanos)
            )?;
        }
    }
    let depth = &document["extra"]["queue_depth"]["all"];
    if let (Some(mean), Some(most)) = (depth["time_weighted_mean"].as_f64(), depth["max"].as_u64())
    {
        let busy = depth["utilisation"].as_f64().unwrap_or(0.0) * 100.0;
        writeln!(
            out,
            "  queue depth mean {mean:.2}, most {most}, device busy {busy:.1} % of the time"
        )?;
    }
    let blocks = metrics["working_set_4k_blocks"]["union"].as_f64();
    if let Some(blocks) = blocks {
        writeln!(
            out,
            "  working set {}",
            human::quantity(blocks * 4096.0, report::Unit::Bytes)
        )?;
    }
    let first_ns = stats.traffic.first_issue_ns.unwrap_or(0);
    for phase in list(&document["phases"]["phases"]) {
        phase_line(phase, "label", first_ns, out)?;
    }
    given_phases(document, first_ns, out)?;
    beside(document, first_ns, out)?;
    let lines = &document["quality"]["lines"];
    let pieces = if stats.outcome.has_text() {
        "lines"
    } else {
        "records"
    };
    writeln!(
        out,
        "quality: {} {pieces}, {} malformed, {} events lost, largest step back {}",
        lines["lines"],
        lines["malformed"],
        lines["lost_events"],
        human::quantity(
            document["quality"]["largest_backward_step_ns"]
                .as_f64()
                .unwrap_or(0.0),
            report::Unit::Nanos
        )
    )?;
    Ok(())
}
