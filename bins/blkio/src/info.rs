//! `blkio info`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use blkio_parser::document;
use blkio_parser::pipeline::{Opened, identify, is_pipe};
use blkio_parser::{Kind, Stats, StatsOptions, Wanted};
use byte_source::Source;
use cli::{OrExit as _, Outcome};
use report::{human, text::printable};
use serde_json::{Map, Value, json};

use crate::args::InfoArgs;
use crate::side::{engine_value, gpu_value, whole_of};
use crate::{NO_INPUT, inputs, tables};

/// What the table has of a trace, and where that is in its detail.
const COUNTS: [(&str, &str); 4] = [
    ("issues", "/issues"),
    ("completions", "/completions"),
    ("malformed", "/quality/malformed"),
    ("lost_events", "/quality/lost_events"),
];

pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<Outcome> {
    let mut files = Vec::new();
    let mut outcome = Outcome::Fine;
    for path in listed(&args.files)? {
        let name = path.display().to_string();
        files.push(match file(&path, args) {
            Ok((kind, detail)) => json!({"name": name, "kind": kind.name(), "detail": detail}),
            Err(error) => {
                // The other files are to be seen all the same.
                outcome = Outcome::Code(NO_INPUT);
                cli::complain(&error);
                json!({"name": name, "kind": "unreadable", "detail": {"error": format!("{error:#}")}})
            }
        });
    }
    let mut out = args.output.open()?;
    match args.format.format() {
        cli::Format::Json => {
            let document = json!({"schema_version": 1, "files": files});
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        }
        cli::Format::Csv => {
            let columns = tables::named(&["name", "kind"], &COUNTS.map(|(name, _)| name));
            let rows = files.iter().map(|file| {
                let count = |(_, place)| file["detail"].pointer(place).cloned();
                let counts = COUNTS.map(count).map(Option::unwrap_or_default);
                [
                    vec![file["name"].clone(), file["kind"].clone()],
                    counts.to_vec(),
                ]
                .concat()
            });
            tables::print(&mut out, cli::Format::Csv, &columns, rows)?;
        }
        cli::Format::Text => {
            for file in &files {
                writeln!(out, "{}: {}", text(&file["name"]), text(&file["kind"]))?;
                lines(&file["detail"], 1, &mut out)?;
            }
        }
    }
    out.finish()?;
    Ok(outcome)
}

/// The files named, those of a folder in order of their names.
fn listed(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.extend(inputs::parts_of(path).unwrap_or_else(|| vec![path.clone()]));
            continue;
        }
        let entries = std::fs::read_dir(path)
            .with_context(|| format!("{}: cannot look into the folder", path.display()))
            .or_exit(NO_INPUT)?;
        let files = entries.flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> = files.filter(|file| file.is_file()).collect();
        if files.is_empty() {
            return Err(anyhow::anyhow!(
                "{}: no files in the folder",
                path.display()
            ))
            .or_exit(NO_INPUT);
        }
        files.sort();
        all.extend(files);
    }
    Ok(all)
}

/// What a file is, and what it holds.
fn file(path: &Path, args: &InfoArgs) -> anyhow::Result<(Kind, Value)> {
    let open = args.input.open_options(None);
    match identify(path, &open).or_exit(NO_INPUT)? {
        None => trace(path, None, args),
        Some((source, Kind::Events(_) | Kind::NoEvents)) => trace(path, Some(source), args),
        Some((source, kind)) => Ok((kind, other(path, source, kind)?)),
    }
}

/// What a trace holds, and how healthy it is.
fn trace(path: &Path, source: Option<Source>, args: &InfoArgs) -> anyhow::Result<(Kind, Value)> {
    let mut options = StatsOptions::default();
    options.read.open = args.input.open_options(None);
    // What was looked at of a pipe does not come again; a file may have to be read twice.
    options.read.opened = is_pipe(path).then(|| Opened::new(source));
    options.read.threads = args.input.threads().get();
    options.wanted = Wanted {
        latency: true,
        ..Wanted::TRAFFIC
    };
    let stats = Stats::of_files(&[path.to_owned()], &options).or_exit(NO_INPUT)?;
    let first = stats.outcome.inputs.first();
    let kind = first.map_or(Kind::NoEvents, |input| input.kind);
    let mut detail = json!({
        "issues": stats.traffic.issues,
        "completions": stats.traffic.completions,
        "totals": document::totals(&stats),
        "quality": document::quality(&stats),
    });
    if let (Some(map), Some(_)) = (detail.as_object_mut(), stats.traffic.first_issue_ns) {
        let span_s = stats.traffic.run_ns() as f64 / 1e9;
        map.insert("span_s".into(), span_s.into());
    }
    Ok((kind, detail))
}

/// A text without control characters, which names of processes may hold; anything else as JSON.
fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), |text| printable(text).into_owned())
}

/// Maximum number of elements of a list that are shown as text; JSON has them all.
const SHOWN: usize = 8;

/// A number as people read it, by the unit at the end of its name.
fn quantity(key: &str, value: &Value) -> String {
    let units = [("_ns", report::Unit::Nanos), ("bytes", report::Unit::Bytes)];
    // Times of a clock, and what lies between clocks, are no lengths.
    let is_clock = ["first_event_ns", "last_event_ns", "start_ns", "end_ns"].contains(&key)
        || key.contains("_minus_");
    let unit = units.iter().find(|(end, _)| key.ends_with(end));
    match (value.as_f64(), unit) {
        // Rates are in the units of sizes.
        (Some(number), _) if key.ends_with("bytes_per_s") => {
            human::quantity(number, report::Unit::Bytes) + "/s"
        }
        (Some(number), Some((_, unit))) if !is_clock => human::quantity(number, *unit),
        // People need no sixteen digits.
        (Some(number), None) if value.is_f64() => ((number * 1e6).round() / 1e6).to_string(),
        _ => text(value),
    }
}

/// Members that say something, one per line.
fn lines(value: &Value, depth: usize, out: &mut impl std::io::Write) -> anyhow::Result<()> {
    let indent = "  ".repeat(depth);
    if let Value::Array(items) = value {
        return list("", items, depth, out);
    }
    let Value::Object(map) = value else {
        return Ok(());
    };
    for (key, value) in map {
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Number(n) if n.as_u64() == Some(0) => {}
            Value::Object(inner) if inner.is_empty() => {}
            Value::Array(inner) if inner.is_empty() => {}
            Value::Object(_) => {
                // Nothing is said of members that say nothing.
                let mut inner = Vec::new();
                lines(value, depth + 1, &mut inner)?;
                if !inner.is_empty() {
                    writeln!(out, "{indent}{}:", printable(key))?;
                    out.write_all(&inner)?;
                }
            }
            Value::Array(items) => list(key, items, depth, out)?,
            value => writeln!(out, "{indent}{}: {}", printable(key), quantity(key, value))?,
        }
    }
    Ok(())
}

/// Numbers on one line, texts one per line, objects one after the other; the first of them.
fn list(
    key: &str,
    items: &[Value],
    depth: usize,
    out: &mut impl std::io::Write,
) -> anyhow::Result<()> {
    let indent = "  ".repeat(depth);
    let more = items.len().saturating_sub(SHOWN);
    let shown = items.iter().take(SHOWN);
    if items.iter().all(Value::is_number) {
        let numbers: Vec<String> = shown.map(|item| quantity(key, item)).collect();
        let rest = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        return Ok(writeln!(
            out,
            "{indent}{key}: {}{rest}",
            numbers.join(", ")
        )?);
    }
    for item in shown {
        if item.is_object() {
            let mut inner = Vec::new();
            lines(item, depth + 1, &mut inner)?;
            let inner = String::from_utf8_lossy(&inner);
            let dash = format!("{indent}- ");
            let head = if key.is_empty() {
                dash
            } else {
                format!("{indent}{key} - ")
            };
            write!(out, "{head}{}", inner.trim_start())?;
        } else {
            writeln!(out, "{indent}{key}: {}", text(item))?;
        }
    }
    if more > 0 {
        writeln!(out, "{indent}{key}: and {more} more")?;
    }
    Ok(())
}

/// What files beside a trace hold, in short.
fn other(path: &Path, source: Source, kind: Kind) -> anyhow::Result<Value> {
    let content = whole_of(source)?;
    let name = path.display().to_string();
    Ok(match kind {
        Kind::GpuCsv => {
            gpu_value(&blkio_parser::gpu::GpuLog::parse(&name, &content).or_exit(NO_INPUT)?)
        }
        Kind::EngineLog => engine_value(&blkio_parser::engine::EngineLog::parse(&content)),
        Kind::DeepNvme => deepnvme(path, &content),
        Kind::Stacks => stacks(&content),
        Kind::Histograms => histograms(&content),
        Kind::Clock => {
            let anchors = blkio_parser::clock::anchors_of_json(&content);
            let found = blkio_parser::clock::from_anchors(&anchors);
            let wall = anchors
                .first()
                .map(|a| blkio_parser::clock::print_wall(a.wall_ns));
            json!({
                "readings": anchors.len(),
                "first_wall_time": wall,
                "wall_minus_boottime_ns": found.as_ref().and_then(|of| i64::try_from(of.offset_ns).ok()),
                "drift_ppm": found.and_then(|of| of.drift_ppm),
            })
        }
        Kind::FioJson => {
            fio(&blkio_parser::fio::FioResult::parse(&name, &content).or_exit(NO_INPUT)?)
        }
        Kind::FioLog => fio_log(&name, &content),
        Kind::FioJob => {
            let sections = blkio_parser::fio::job_file(&content);
            let sections = sections.iter().map(|section| {
                let options = section.options.iter();
                let options: Map<String, Value> = options
                    .map(|(option, value)| (option.clone(), value.as_str().into()))
                    .collect();
                (section.name.clone(), Value::Object(options))
            });
            Value::Object(sections.collect())
        }
        Kind::BlkparseSummary => summaries(&content),
        Kind::Btt => btt(&content),
        Kind::Json => other_json(&content),
        Kind::LfsPointer => {
            json!({"note": "the log it stands for is elsewhere: fetch it with `git lfs pull`"})
        }
        Kind::Text => {
            let count = content
                .split(|b| *b == b'\n')
                .filter(|l| !l.is_empty())
                .count();
            json!({"lines": count, "note": "nothing that this tool reads"})
        }
        _ => json!({"bytes": content.len(), "note": "nothing that this tool reads"}),
    })
}

fn deepnvme(path: &Path, content: &[u8]) -> Value {
    let run = path.file_name().and_then(|name| name.to_str());
    let run = run.and_then(blkio_parser::deepnvme::run_of);
    let run =
        run.map(|(series, fs, mib)| json!({"series": series, "file_system": fs, "size_mib": mib}));
    match blkio_parser::deepnvme::parse(content) {
        None => json!({"run": run, "note": "no result: the run failed or the log is cut"}),
        Some(found) => json!({
            "run": run,
            "gib_per_s": found.exact,
            "printed": found.printed,
            "printed_is_rounded_result": found.is_consistent(),
            "gib": found.gib,
            "seconds": found.seconds,
        }),
    }
}

fn stacks(content: &[u8]) -> Value {
    let found = blkio_parser::stacks::Stacks::parse(content);
    let maps: Map<String, Value> = found
        .maps()
        .into_iter()
        .map(|map| {
            let classes = found.classes(map).into_iter();
            let classes: Map<String, Value> = classes
                .map(|(class, count)| (class.to_owned(), count.into()))
                .collect();
            (map.to_owned(), Value::Object(classes))
        })
        .collect();
    json!({
        "stacks": found.stacks.len(),
        "printed_twice": found.duplicates,
        "malformed": found.malformed,
        "requests_by_class": maps,
    })
}

fn histograms(content: &[u8]) -> Value {
    let found = blkio_parser::histogram::parse(content);
    let named = found.iter().map(|h| {
        let ends = |p| h.percentile(p);
        json!({
            "name": h.name,
            "values": h.count(),
            "p50_between": ends(50.0),
            "p99_between": ends(99.0),
            "rows": h.rows,
        })
    });
    named.collect()
}

fn fio(found: &blkio_parser::fio::FioResult) -> Value {
    let totals = |of: &blkio_parser::fio::Totals| {
        let value = json!({
            "ios": of.ios,
            "bytes": of.bytes,
            "completion_latency_mean_ns": of.clat_mean_ns,
            "bytes_per_s": of.bw_kib_s * 1024.0,
        });
        (of.ios > 0).then_some(value)
    };
    let jobs = found.jobs.iter().map(|job| {
        json!({
            "name": job.name,
            "direct": job.direct,
            "read": totals(&job.read),
            "write": totals(&job.write),
            "trim": totals(&job.trim),
        })
    });
    json!({"version": found.version, "jobs": jobs.collect::<Vec<_>>()})
}

/// What a log's values are, by the name that fio gives it (`NAME_clat.1.log`).
fn value_of(name: &str) -> &'static str {
    let kinds = [
        ("_clat.", "completion_latency_ns"),
        ("_slat.", "submission_latency_ns"),
        ("_lat.", "latency_ns"),
        ("_bw.", "kib_per_s"),
        ("_iops.", "requests_per_s"),
    ];
    let kind = kinds.iter().find(|(part, _)| name.contains(part));
    kind.map_or("value", |(_, what)| what)
}

fn fio_log(name: &str, content: &[u8]) -> Value {
    let lines = content.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
    let columns = blkio_parser::fio::LogColumns::of(content).unwrap_or_default();
    let entries = lines.iter().filter_map(|line| columns.line(line));
    let found: Vec<blkio_parser::fio::LogLine> = entries.collect();
    let mut map = Map::new();
    map.insert("entries".into(), found.len().into());
    map.insert("malformed".into(), (lines.len() - found.len()).into());
    let times = found.iter().map(|line| line.time_ms);
    let span_ms = times.clone().max().zip(times.min()).map(|(a, b)| a - b);
    map.insert("span_s".into(), span_ms.map(|ms| ms as f64 / 1e3).into());
    // Lines of windows have no size.
    let is_of_windows = !found.is_empty() && found.iter().all(|line| line.block_bytes == 0);
    for (number, direction) in (0..).zip(["read", "write", "trim"]) {
        let of = found.iter().filter(|line| line.direction == number);
        let bytes: u64 = of
            .clone()
            .fold(0, |sum, line| sum.saturating_add(line.block_bytes));
        let mut values = blkio_parser::analyse::distribution::Distribution::default();
        of.clone().for_each(|line| values.add(line.value));
        if values.count == 0 {
            continue;
        }
        let largest = of.filter_map(|line| line.largest).max();
        let percentiles = values.percentiles(&[50.0, 99.0]);
        let what = value_of(name);
        let mut inner = Map::new();
        if is_of_windows {
            inner.insert("windows".into(), values.count.into());
        } else {
            inner.insert("ios".into(), values.count.into());
            inner.insert("bytes".into(), bytes.into());
        }
        for (place, value) in [
            ("mean", values.mean().into()),
            ("p50", percentiles.first().copied().into()),
            ("p99", percentiles.get(1).copied().into()),
            ("max", largest.unwrap_or(values.max).into()),
        ] {
            let value: Value = value;
            inner.insert(format!("{place}_{what}"), value);
        }
        map.insert(direction.into(), Value::Object(inner));
    }
    Value::Object(map)
}

fn summaries(content: &[u8]) -> Value {
    let found = blkio_parser::printed::summaries(content);
    let devices = found.iter().map(|of| {
        let mut map = Map::new();
        map.insert("device".into(), of.device.as_str().into());
        map.insert("cpus".into(), of.cpus.into());
        for (slot, direction) in ["read", "write"].into_iter().enumerate() {
            let rows = of.rows.iter().map(|row| {
                let amount = row.amounts.get(slot).copied().flatten();
                let value = amount.map(|a| json!({"ios": a.ios, "bytes": a.bytes}));
                (row.what.name().to_owned(), value.into())
            });
            let mut rows: Map<String, Value> = rows.collect();
            let rate = of.bytes_per_s.and_then(|rates| rates.get(slot).copied());
            rows.insert("bytes_per_s".into(), rate.into());
            map.insert(direction.into(), Value::Object(rows));
        }
        map.insert("entries".into(), of.entries.into());
        map.insert("skips".into(), of.skips.into());
        Value::Object(map)
    });
    devices.collect()
}

fn btt(content: &[u8]) -> Value {
    let Some(found) = blkio_parser::printed::btt(content) else {
        return json!({"note": "no times: the output is cut"});
    };
    let stages = found.stages.iter().map(|stage| {
        let value = json!({
            "count": stage.count,
            "min_ns": stage.min_ns,
            "mean_ns": stage.mean_ns,
            "max_ns": stage.max_ns,
        });
        (stage.name.clone(), value)
    });
    json!({
        "stages": stages.collect::<Map<String, Value>>(),
        "queued": found.queued_and_dispatched.map(|(queued, _)| queued),
        "dispatched": found.queued_and_dispatched.map(|(_, dispatched)| dispatched),
        "dispatched_bytes": found.sectors.map(|sectors| sectors * 512),
        "busy_percent": found.live_percent,
    })
}

/// JSON that is not read: whose it is, as far as its members tell.
fn other_json(content: &[u8]) -> Value {
    let mut values = serde_json::Deserializer::from_slice(content).into_iter::<Value>();
    let Some(Ok(first)) = values.next() else {
        return json!({"note": "the JSON is cut or damaged"});
    };
    let more = values.filter(Result::is_ok).count();
    let is_ours = first["tool"] == "blkio";
    let note = if is_ours {
        "a result of this tool"
    } else {
        "nothing that this tool reads"
    };
    let members: Vec<&String> = first
        .as_object()
        .map(Map::keys)
        .into_iter()
        .flatten()
        .collect();
    let mut value = json!({"note": note, "members": members, "values": more + 1});
    if is_ours && let Some(map) = value.as_object_mut() {
        map.insert("tool_version".into(), first["tool_version"].clone());
        map.insert("inputs".into(), first["quality"]["inputs"].clone());
        map.insert("totals".into(), first["metrics"]["totals"].clone());
    }
    value
}
