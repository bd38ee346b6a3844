//! Describes the content of companion files as JSON objects.

use std::path::Path;

use blkio_companions::Companion;
use blkio_companions::engine::EngineLog;
use blkio_companions::gpu::GpuLog;
use blkio_parser::Kind;
use serde_json::{Map, Value, json};

use crate::error::Result;

/// Returns what a log of GPU utilisation holds, as an object.
#[must_use]
pub fn gpu_value(log: &GpuLog) -> Value {
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

/// Returns what the log of an engine holds, as an object.
#[must_use]
pub fn engine_value(log: &EngineLog) -> Value {
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

/// Returns what a companion file holds, in short, as an object.
///
/// # Errors
///
/// Content that is not of this kind after all.
pub fn companion_value(path: &Path, content: &[u8], kind: Kind) -> Result<Value> {
    let name = path.display().to_string();
    Ok(match kind {
        Kind::Companion(Companion::GpuCsv) => gpu_value(&GpuLog::parse(&name, content)?),
        Kind::Companion(Companion::EngineLog) => engine_value(&EngineLog::parse(content)),
        Kind::Companion(Companion::DeepNvme) => deepnvme(path, content),
        Kind::Companion(Companion::Stacks) => stacks(content),
        Kind::Companion(Companion::Histograms) => histograms(content),
        Kind::Companion(Companion::Clock) => {
            let anchors = blkio_companions::clock::anchors_of_json(content);
            let found = blkio_companions::clock::from_anchors(&anchors);
            let wall = anchors
                .first()
                .map(|a| blkio_companions::wall_clock::print_wall(a.wall_ns));
            json!({
                "readings": anchors.len(),
                "first_wall_time": wall,
                "wall_minus_boottime_ns": found.as_ref().and_then(|of| i64::try_from(of.offset_ns).ok()),
                "drift_ppm": found.and_then(|of| of.drift_ppm),
            })
        }
        Kind::Companion(Companion::FioJson) => {
            fio(&blkio_companions::fio::FioResult::parse(&name, content)?)
        }
        Kind::Companion(Companion::FioLog) => fio_log(&name, content),
        Kind::Companion(Companion::FioJob) => {
            let sections = blkio_companions::fio::job_file(content);
            let sections = sections.iter().map(|section| {
                let options = section.options.iter();
                let options: Map<String, Value> = options
                    .map(|(option, value)| (option.clone(), value.as_str().into()))
                    .collect();
                (section.name.clone(), Value::Object(options))
            });
            Value::Object(sections.collect())
        }
        Kind::Companion(Companion::BlkparseSummary) => summaries(content),
        Kind::Companion(Companion::Btt) => btt(content),
        Kind::Json => other_json(content),
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
    let run = run.and_then(blkio_companions::deepnvme::run_of);
    let run =
        run.map(|(series, fs, mib)| json!({"series": series, "file_system": fs, "size_mib": mib}));
    match blkio_companions::deepnvme::parse(content) {
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
    let found = crate::stacks::Stacks::parse(content);
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
    let found = blkio_companions::latency_histogram::parse(content);
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

fn fio(found: &blkio_companions::fio::FioResult) -> Value {
    let totals = |of: &blkio_companions::fio::Totals| {
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

/// Returns what a log's values are, by the name that fio gives it (`NAME_clat.1.log`).
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
    let columns = blkio_companions::fio::LogColumns::of(content).unwrap_or_default();
    let entries = lines.iter().filter_map(|line| columns.line(line));
    let found: Vec<blkio_companions::fio::LogLine> = entries.collect();
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
    let found = blkio_companions::blkparse_summary::summaries(content);
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
    let Some(found) = blkio_companions::blkparse_summary::btt(content) else {
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
    let more = values.filter(std::result::Result::is_ok).count();
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
