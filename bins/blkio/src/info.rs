//! `blkio info`.

use std::io::Write as _;
use std::path::Path;

use blkio_parser::document;
use blkio_parser::pipeline::identify;
use blkio_parser::{Kind, Stats, StatsOptions, Wanted};
use serde_json::{Value, json};
use shell::{OrExit as _, Outcome};

use crate::NO_INPUT;
use crate::args::InfoArgs;
use crate::side::whole;

pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<Outcome> {
    let mut files = Vec::new();
    for path in &args.files {
        let name = path.display().to_string();
        // Standard input is gone once it was looked at: there it has to be a trace.
        let kind = if path.as_os_str() == "-" {
            None
        } else {
            let open = args.input.open_options(None);
            let found = identify(path, &open).or_exit(NO_INPUT)?;
            Some(found.map_or(Kind::NoEvents, |(_, kind)| kind))
        };
        let (kind, detail) = match kind {
            None | Some(Kind::Events(_) | Kind::NoEvents) => trace(path, args)?,
            Some(kind) => (kind, other(path, kind)?),
        };
        files.push(json!({"name": name, "kind": kind.name(), "detail": detail}));
    }
    let mut out = args.output.open()?;
    match args.format.format() {
        shell::Format::Json => {
            let document = json!({"schema_version": 1, "files": files});
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        }
        _ => {
            for file in &files {
                writeln!(out, "{}: {}", text(&file["name"]), text(&file["kind"]))?;
                lines(&file["detail"], 1, &mut out)?;
            }
        }
    }
    out.finish()?;
    Ok(Outcome::Fine)
}

/// What a trace holds, and how healthy it is.
fn trace(path: &Path, args: &InfoArgs) -> anyhow::Result<(Kind, Value)> {
    let mut options = StatsOptions::default();
    options.read.open = args.input.open_options(None);
    options.read.threads = args.input.threads().get();
    options.wanted = Wanted {
        latency: true,
        ..Wanted::TRAFFIC
    };
    let stats = Stats::of_files(&[path.to_owned()], &options).or_exit(NO_INPUT)?;
    let first = stats.outcome.inputs.first();
    let kind = first.map_or(Kind::NoEvents, |input| input.kind);
    let detail = json!({
        "issues": stats.traffic.issues,
        "completions": stats.traffic.completions,
        "quality": document::quality(&stats),
    });
    Ok((kind, detail))
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Members that say something, one per line.
fn lines(value: &Value, depth: usize, out: &mut impl std::io::Write) -> anyhow::Result<()> {
    if let Value::Array(items) = value {
        for item in items {
            writeln!(out, "{}{}", "  ".repeat(depth), text(item))?;
        }
    }
    let Value::Object(map) = value else {
        return Ok(());
    };
    for (key, value) in map {
        let indent = "  ".repeat(depth);
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Number(n) if n.as_u64() == Some(0) => {}
            Value::Object(inner) if inner.is_empty() => {}
            Value::Array(inner) if inner.is_empty() => {}
            Value::Object(_) => {
                writeln!(out, "{indent}{key}:")?;
                lines(value, depth + 1, out)?;
            }
            Value::Array(items) if items.iter().all(Value::is_string) => {
                for item in items {
                    writeln!(out, "{indent}{key}: {}", text(item))?;
                }
            }
            value => writeln!(out, "{indent}{key}: {}", text(value))?,
        }
    }
    Ok(())
}

/// What files beside a trace hold, in short.
fn other(path: &Path, kind: Kind) -> anyhow::Result<Value> {
    let content = whole(path)?;
    let name = path.display().to_string();
    Ok(match kind {
        Kind::GpuCsv => crate::side::gpu_value(&blkio_parser::gpu::GpuLog::parse(&name, &content)?),
        Kind::EngineLog => {
            crate::side::engine_value(&blkio_parser::engine::EngineLog::parse(&content))
        }
        Kind::DeepNvme => match blkio_parser::deepnvme::parse(&content) {
            None => Value::Null,
            Some(found) => json!({"gib_per_s": found.exact, "printed": found.printed}),
        },
        Kind::Stacks => {
            let stacks = blkio_parser::stacks::Stacks::parse(&content);
            json!({"stacks": stacks.stacks.len(), "printed_twice": stacks.duplicates})
        }
        Kind::Histograms => {
            let found = blkio_parser::histogram::parse(&content);
            found
                .iter()
                .map(|h| {
                    let ends = h.percentile(50.0);
                    json!({"name": h.name, "values": h.count(), "p50_between": ends})
                })
                .collect()
        }
        Kind::Clock => {
            let anchors = blkio_parser::clock::anchors_of_json(&content);
            let found = blkio_parser::clock::from_anchors(&anchors);
            json!({
                "readings": anchors.len(),
                "wall_minus_boottime_ns": found.as_ref().and_then(|of| i64::try_from(of.offset_ns).ok()),
                "drift_ppm": found.and_then(|of| of.drift_ppm),
            })
        }
        Kind::FioJson => {
            let fio = blkio_parser::fio::FioResult::parse(&name, &content)?;
            json!({"version": fio.version, "jobs": fio.jobs.len()})
        }
        Kind::FioLog => {
            let lines = content.split(|b| *b == b'\n');
            let count = lines.filter_map(blkio_parser::fio::log_line).count();
            json!({"entries": count})
        }
        _ => Value::Null,
    })
}
