//! What lies beside a trace: GPU utilisation, engine logs, stacks, fio.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use blkio_parser::engine::EngineLog;
use blkio_parser::fio::{FioResult, Totals};
use blkio_parser::gpu::GpuLog;
use blkio_parser::stacks::{OwnRules, Stacks};
use blkio_parser::{Stats, StatsOptions, Wanted, document};
use byte_source::{OpenOptions, Source};
use charts::flame::{FlameGraph, FlameOptions};
use cli::{OrExit as _, Outcome, Output, ProgressLine};
use report::Column;
use serde_json::{Value, json};

use crate::NO_INPUT;
use crate::args::{FioArgs, StacksArgs};
use crate::inputs::files;
use crate::tables;

/// Maximum number of bytes of a file that is read whole.
const MAX_WHOLE: usize = 1 << 30;

/// A whole file, decompressed.
pub(crate) fn whole(path: &Path) -> anyhow::Result<Vec<u8>> {
    match Source::open(path, &OpenOptions::default()) {
        Ok(source) => whole_of(source),
        Err(byte_source::Error::Empty { .. }) => Ok(Vec::new()),
        Err(error) => Err(error).or_exit(NO_INPUT),
    }
}

/// All that is left of a source.
pub(crate) fn whole_of(source: Source) -> anyhow::Result<Vec<u8>> {
    let name = source.name().to_owned();
    let mut content = Vec::new();
    let mut chunks = source.into_chunks(byte_source::ChunkOptions::default())?;
    while let Some(chunk) = chunks.next().or_exit(NO_INPUT)? {
        content.extend_from_slice(chunk.data());
        anyhow::ensure!(
            content.len() <= MAX_WHOLE,
            "{name}: more than 1 GiB: too much for this kind of file"
        );
    }
    Ok(content)
}

pub(crate) fn gpu_value(log: &GpuLog) -> Value {
    let gaps: Vec<Value> = log
        .gaps()
        .iter()
        .map(|(start, length)| json!({"wall_ns": start, "length_ns": length}))
        .collect();
    json!({
        "samples": log.samples.len(),
        "gpus": log.gpus,
        "malformed": log.malformed,
        "mean_percent": log.mean(),
        "time_weighted_mean_percent": log.weighted_mean(),
        "max_percent": log.max(),
        "zero_samples": log.zero_samples(),
        "gaps_over_3_intervals": gaps,
    })
}

pub(crate) fn engine_value(log: &EngineLog) -> Value {
    let identities: Vec<Value> = log
        .identities()
        .iter()
        .map(|i| json!({"name": i.name, "printed": i.printed, "expected": i.expected, "holds": i.holds}))
        .collect();
    json!({
        "values": log.values,
        "batch": log.batch,
        "prompt_len": log.prompt_len,
        "gen_len": log.gen_len,
        "model": log.model,
        "percent": log.percent,
        "offload_dir": log.offload_dir,
        "projected": log.projected,
        "markers": log.markers,
        "tokens": log.tokens().map(|(prompt, generated)| json!({"prompt": prompt, "generated": generated})),
        "token_latency_s": log.token_latency_s,
        "costs_s": log.costs_s,
        "prefill_timings_s": log.prefill_timings_s,
        "identities": identities,
    })
}

fn own_rules(path: &Path) -> anyhow::Result<OwnRules> {
    let text = whole(path)?;
    OwnRules::parse(&String::from_utf8_lossy(&text))
        .map_err(|line| {
            anyhow::anyhow!(
                "{}: line {line}: a class without beginnings of function names",
                path.display()
            )
        })
        .or_exit(NO_INPUT)
}

/// Requests of all classes.
fn total(classes: &[(&str, u64)]) -> u64 {
    let counts = classes.iter().map(|class| class.1);
    counts.fold(0, u64::saturating_add)
}

/// Keys of a map of stacks that are printed as text; the other formats have all.
const KEYS_PRINTED: usize = 10;

pub(crate) fn stacks(args: &StacksArgs) -> anyhow::Result<Outcome> {
    let own = match &args.rules {
        None => OwnRules::default(),
        Some(path) => own_rules(path)?,
    };
    let found = Stacks::parse_with(&whole(&args.file)?, &own);
    if found.stacks.is_empty() {
        return Err(anyhow::anyhow!(
            "{}: no stacks: expected what bpftrace prints of a map of stacks, or a trace with call chains (perf script)",
            args.file.display()
        ))
        .or_exit(NO_INPUT);
    }
    if let Some(path) = &args.svg {
        let mut graph = FlameGraph::new();
        for stack in &found.stacks {
            let mut frames = vec![stack.map.as_str()];
            frames.extend(Some(stack.key.as_str()).filter(|key| !key.is_empty()));
            frames.extend(stack.frames.iter().rev().map(String::as_str));
            graph.add(frames, stack.count);
        }
        let mut out = Output::file(path)?;
        out.write_all(graph.draw(&FlameOptions::default()).svg.as_str().as_bytes())?;
        out.finish()?;
    }
    if found.malformed > 0 {
        args.verbosity.note(format!(
            "blkio: warning: {}: entries that are cut or have no count, left out: {}",
            args.file.display(),
            found.malformed
        ));
    }
    let mut out = args.output.open()?;
    if args.folded {
        out.write_all(found.folded().as_bytes())?;
        out.finish()?;
        return Ok(Outcome::Fine);
    }
    let maps: Vec<(&str, Vec<(&str, u64)>)> = found
        .maps()
        .into_iter()
        .map(|map| (map, found.classes(map)))
        .collect();
    match args.format.format() {
        cli::Format::Json => {
            let maps: serde_json::Map<String, Value> = maps
                .iter()
                .map(|(map, classes)| {
                    let total = total(classes);
                    let classes: Vec<Value> = classes
                        .iter()
                        .map(|(class, count)| {
                            let share = *count as f64 / total.max(1) as f64;
                            json!({"class": class, "requests": count, "share": share})
                        })
                        .collect();
                    let submissions = found.submissions(map);
                    let submissions: Vec<Value> = submissions
                        .iter()
                        .map(|(name, count)| json!({"submission": name, "requests": count}))
                        .collect();
                    let mut value =
                        json!({"requests": total, "classes": classes, "submissions": submissions});
                    let keys = found.keys(map);
                    if !keys.is_empty() {
                        let keys = keys.iter();
                        value["keys"] = keys
                            .map(|(key, count)| json!({"key": key, "requests": count}))
                            .collect();
                    }
                    ((*map).to_owned(), value)
                })
                .collect();
            let document = json!({
                "schema_version": 1,
                "stacks": found.stacks.len(),
                "printed_twice": found.duplicates,
                "malformed": found.malformed,
                "maps": maps,
            });
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        }
        cli::Format::Csv => {
            let mut columns = tables::named(&["map", "by", "name"], &["requests"]);
            columns.push(Column::real("share"));
            let rows = maps.iter().flat_map(|(map, classes)| {
                let total = total(classes);
                let classes = classes.iter().map(|found| ("class", *found));
                let submissions = found.submissions(map).into_iter();
                let keys = found.keys(map).into_iter();
                let all = classes
                    .chain(submissions.map(|found| ("submission", found)))
                    .chain(keys.map(|found| ("key", found)));
                let row = move |(by, (name, count)): (&str, (&str, u64))| {
                    let share = count as f64 / total.max(1) as f64;
                    let texts = [*map, by, name].map(Value::from);
                    [&texts[..], &[count.into(), share.into()]].concat()
                };
                all.map(row).collect::<Vec<_>>()
            });
            tables::print(&mut out, cli::Format::Csv, &columns, rows)?;
        }
        cli::Format::Text => {
            for (map, classes) in &maps {
                let total = total(classes);
                writeln!(out, "{map}: {total} requests")?;
                for (class, count) in classes {
                    let share = *count as f64 / total.max(1) as f64 * 100.0;
                    writeln!(out, "  {class:<16} {count:>10}  {share:5.1} %")?;
                }
                for (name, count) in found.submissions(map) {
                    writeln!(out, "  submitted by {name}: {count}")?;
                }
                let keys = found.keys(map);
                for (key, count) in keys.iter().take(KEYS_PRINTED) {
                    writeln!(out, "  of {key}: {count}")?;
                }
                if keys.len() > KEYS_PRINTED {
                    writeln!(out, "  and of {} more", keys.len() - KEYS_PRINTED)?;
                }
            }
        }
    }
    out.finish()?;
    Ok(Outcome::Fine)
}

/// Requests and bytes.
type Pair = (u64, u64);

pub(crate) fn fio(args: &FioArgs) -> anyhow::Result<Outcome> {
    let name = args.file.display().to_string();
    let result = FioResult::parse(&name, &whole(&args.file)?).or_exit(NO_INPUT)?;
    let trace = files(&args.traces, args.verbosity)?;
    let progress = ProgressLine::start("reading", args.verbosity);
    let mut options = StatsOptions::default();
    options.read = crate::stats::read_options(&args.trace, &args.input, &progress);
    options.wanted = Wanted::TRAFFIC;
    let chosen = crate::device::named(args.trace.device.as_ref(), &trace, &options.read)?;
    options.devices = chosen.map(|dev| vec![dev]);
    let stats = Stats::of_files(&trace, &options)
        .or_exit(NO_INPUT)
        .context("reading the trace")?;
    drop(progress);
    if stats.traffic.issues == 0 {
        let names = crate::inputs::name(&trace);
        return Err(anyhow::anyhow!(
            "no requests in {names}, so there is nothing to lay beside fio's"
        ))
        .or_exit(NO_INPUT);
    }
    let sum = |direct: bool, pick: fn(&blkio_parser::fio::Job) -> Totals| -> Pair {
        result
            .jobs
            .iter()
            .filter(|job| job.direct == direct)
            .map(pick)
            .fold((0, 0), |sum: Pair, t| {
                (sum.0.saturating_add(t.ios), sum.1.saturating_add(t.bytes))
            })
    };
    // Requests by letters: what went around the page cache is synchronous and nothing else.
    let of = |test: &dyn Fn(&str) -> bool| -> Pair {
        let mut sum = (0, 0);
        for (number, operation) in stats.traffic.operations.iter().enumerate() {
            let letters = stats.outcome.symbols.rwbs_all().get(number);
            if letters.is_some_and(|letters| test(letters.as_str())) {
                let mut sizes: Vec<(u32, u64)> =
                    operation.sizes.iter().map(|(b, c)| (*b, *c)).collect();
                sizes.sort_unstable();
                for (bytes, count) in sizes {
                    sum.0 += count;
                    sum.1 += u64::from(bytes) * count;
                }
            }
        }
        sum
    };
    // A direct read is R or RS as the engine asks for it; beside buffered jobs only RS can be told from theirs.
    let all_direct = sum(false, |j| j.read).0 == 0;
    let rows = [
        (
            if all_direct {
                "direct reads, trace R and RS"
            } else {
                "direct reads, trace RS"
            },
            sum(true, |j| j.read),
            of(&|l| l == "RS" || (all_direct && l == "R")),
        ),
        (
            "direct writes, trace WS",
            sum(true, |j| j.write),
            of(&|l| l == "WS"),
        ),
        (
            "buffered reads, trace R and RA",
            sum(false, |j| j.read),
            of(&|l| l == "RA" || (!all_direct && l == "R")),
        ),
        (
            "buffered writes, trace W",
            sum(false, |j| j.write),
            of(&|l| l == "W"),
        ),
    ];
    let mut out = args.output.open()?;
    let reals: Vec<Value> = rows
        .iter()
        .map(|(name, fio, trace)| {
            json!({
                "what": name,
                "fio_ios": fio.0, "fio_bytes": fio.1,
                "trace_ios": trace.0, "trace_bytes": trace.1,
                "difference_ios": i128_value(trace.0, fio.0),
                "difference_bytes": i128_value(trace.1, fio.1),
            })
        })
        .collect();
    let note = "fsync of buffered jobs writes whole MiB as WS, which belong to no direct job; readahead and dirty pages make buffered totals differ";
    match args.format.format() {
        cli::Format::Json => {
            let document = json!({"schema_version": 1, "fio_version": result.version, "rows": reals, "note": note});
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        }
        cli::Format::Csv => {
            let mut columns = tables::named(&["what"], &FIO_COLUMNS);
            columns.extend(FIO_DIFFERENCES.map(Column::int));
            let rows = reals.iter().map(|row| {
                let keys = FIO_COLUMNS.iter().chain(&FIO_DIFFERENCES);
                let cells = keys.map(|key| row[*key].clone());
                [row["what"].clone()].into_iter().chain(cells).collect()
            });
            tables::print(&mut out, cli::Format::Csv, &columns, rows)?;
        }
        cli::Format::Text => {
            writeln!(
                out,
                "{:<36} {:>14} {:>14} {:>13}",
                "", "fio", "trace", "difference"
            )?;
            for (name, fio, trace) in rows {
                for (what, fio, trace) in [(name, fio.0, trace.0), ("  bytes", fio.1, trace.1)] {
                    let difference = i128::from(trace) - i128::from(fio);
                    writeln!(out, "{what:<36} {fio:>14} {trace:>14} {difference:>13}")?;
                }
            }
            writeln!(
                out,
                "fsync of buffered jobs writes whole MiB as WS, which belong to no direct job;"
            )?;
            writeln!(out, "readahead and dirty pages make buffered totals differ")?;
        }
    }
    out.finish()?;
    crate::stats::warn(&document::quality(&stats), args.verbosity);
    Ok(Outcome::Fine)
}

/// Columns of fio's and the trace's totals.
const FIO_COLUMNS: [&str; 4] = ["fio_ios", "fio_bytes", "trace_ios", "trace_bytes"];
const FIO_DIFFERENCES: [&str; 2] = ["difference_ios", "difference_bytes"];

fn i128_value(a: u64, b: u64) -> Option<i64> {
    i64::try_from(i128::from(a) - i128::from(b)).ok()
}
