//! Public recordings and made ones, compared row by row with the reference.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use byte_source::{OpenOptions, Source};
use gpu_time::GpuWork;
use perfetto_reader::ReadOptions;
use roofline::config::{Config, Request};
use roofline::{
    By, CallList, CallOptions, DeviceOptions, DeviceProperties, Devices, Kind, Knowledge, Origin,
    PeakKey, RecordedDevices, Sort, StepRow,
};
use trace_model::Trace;

/// The peaks of the reference.
const PEAKS: &str = "fp64=50 fp32=60 tf32=400 fp16=900 bf16=1000 fp8=2000 fp4=4000 int8=1900 vector=50 hbm=4000 link=450 \
                     pcie=50 launch=2";

fn read(path: &Path) -> Trace {
    let source = Source::open(path, &OpenOptions::default()).unwrap();
    perfetto_reader::read(source, &ReadOptions::default()).unwrap()
}

/// Rows of a CSV file as maps of their columns.
fn csv(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut records: Vec<Vec<String>> = Vec::new();
    let (mut record, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => {
                field.push('"');
                chars.next();
            }
            ('"', _) => quoted = !quoted,
            (',', false) => record.push(std::mem::take(&mut field)),
            ('\n', false) => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            ('\r', false) => {}
            (c, _) => field.push(c),
        }
    }
    let mut records = records.into_iter();
    let head = records.next().unwrap();
    records
        .map(|row| head.iter().cloned().zip(row).collect())
        .collect()
}

fn text(n: Option<u128>) -> String {
    n.map_or(String::new(), |n| n.to_string())
}

/// A row as the reference writes it.
fn row_text(kind: &Kind, calls: u64, kernels: u64, time_ns: i64) -> String {
    let mut out = format!("{}|{}|{}|{}|", kind.op, kind.kernel, kind.dims, kind.types);
    write!(out, "{calls}|{kernels}|{time_ns}|").unwrap();
    match &kind.answer {
        Ok(n) => write!(
            out,
            "{}|{}|{}|{}|{}|{}|{}|{}|{}",
            text(n.flops),
            n.bytes,
            n.bytes_low,
            text(n.bytes_high),
            n.link_bytes,
            n.precision.map_or("", |p| p.name()),
            n.unit.name(),
            n.basis.name(),
            n.note
        ),
        Err(why) => write!(out, "|||||||unknown|{why}"),
    }
    .unwrap();
    out
}

fn wanted_text(row: &BTreeMap<String, String>) -> String {
    let columns = [
        "op",
        "kernel",
        "dims",
        "types",
        "calls",
        "kernels",
        "time_ns",
        "flops",
        "bytes",
        "bytes_low",
        "bytes_high",
        "link_bytes",
        "dtype",
        "unit",
        "basis",
        "note",
    ];
    columns.map(|c| row[c].as_str()).join("|")
}

fn step_text(step: &StepRow) -> String {
    let limit = |n: Option<f64>| n.map_or(String::new(), |n| format!("{n:.1}"));
    let (c, g, n) = (step.lengths.context, step.lengths.generation, &step.needs);
    [
        step.name.clone(),
        text(c.requests),
        text(c.tokens),
        text(g.requests),
        text(g.tokens),
        n.kernels.to_string(),
        step.busy_ns.to_string(),
        step.span_ns().to_string(),
        n.matrix_flops().to_string(),
        n.weight_bytes.to_string(),
        n.kv_bytes.to_string(),
        n.op_bytes.to_string(),
        n.link_bytes.to_string(),
        n.known_time_ns.to_string(),
        limit(step.model_limit_ns),
        limit(step.ops_limit_ns),
        limit(step.floor_limit_ns),
    ]
    .join("|")
}

fn wanted_step(row: &BTreeMap<String, String>) -> String {
    let columns = [
        "step",
        "ctx_requests",
        "ctx_tokens",
        "gen_requests",
        "gen_tokens",
        "kernels",
        "busy_ns",
        "span_ns",
        "matrix_flops",
        "weight_bytes",
        "kv_bytes",
        "op_bytes",
        "link_bytes",
        "known_time_ns",
        "model_limit_ns",
        "ops_limit_ns",
        "floor_limit_ns",
    ];
    columns.map(|c| row[c].as_str()).join("|")
}

/// What is on one side only.
fn differences(what: &str, found: Vec<String>, wanted: Vec<String>) -> String {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for row in &found {
        *counts.entry(row).or_default() += 1;
    }
    for row in &wanted {
        *counts.entry(row).or_default() -= 1;
    }
    let mut out = String::new();
    for (row, n) in counts.into_iter().filter(|(_, n)| *n != 0) {
        let side = if n > 0 { "found " } else { "wanted" };
        writeln!(out, "{what} {side} {row}").unwrap();
    }
    out
}

struct Case<'a> {
    trace: &'a Trace,
    captures: &'a [&'a GpuWork<'a>],
    config: Option<(Config, Option<u128>)>,
}

fn compare(name: &str, case: &Case<'_>, device: Option<&str>) -> String {
    let work = GpuWork::new(case.trace);
    let knowledge = Knowledge::default();
    let mut options = CallOptions::new(&knowledge);
    if let Some((config, tp)) = &case.config {
        (options.config, options.tp) = (Some(config), *tp);
    }
    let indexes: Vec<_> = case.captures.iter().map(|work| work.index()).collect();
    let list = CallList::new(&work, &indexes, &options).unwrap();
    let own = PEAKS.split_whitespace().map(|peak| {
        let (key, value) = peak.split_once('=').unwrap();
        (PeakKey::of_name(key).unwrap(), value.parse().unwrap())
    });
    let mut devices = DeviceOptions::default();
    devices.peaks = own.collect();
    let properties = case.trace.meta().entry("deviceProperties").unwrap_or("");
    let properties = DeviceProperties::parse(properties);
    let mut ids: Vec<i64> = list.calls(&work).map(|call| call.device()).collect();
    ids.sort_unstable();
    ids.dedup();
    let devices = RecordedDevices::new(Devices::builtin(), &properties, &ids, &devices).unwrap();
    let mut wrong = String::new();
    for found in devices.iter() {
        let key = found.key.as_deref();
        if key != device {
            writeln!(wrong, "{name} device {key:?} wanted {device:?}").unwrap();
        }
    }
    let origin = Origin {
        work: &work,
        captures: case.captures,
        is_layer: |_| false,
    };
    let rows = roofline::rows(&list, &origin, &devices, (By::Call, Sort::Time), |_| true);
    let found = rows.rows.iter().map(|row| {
        let kind = &list.kinds[row.name as usize];
        row_text(kind, row.calls, row.kernels, row.time_ns)
    });
    let folder = test_data::reference("roofline").join("expected");
    let wanted = |kind: &str| {
        csv(&std::fs::read_to_string(folder.join(format!("{name}.{kind}.csv"))).unwrap())
    };
    let rows = wanted("ops").iter().map(wanted_text).collect();
    wrong.push_str(&differences(name, found.collect(), rows));
    let steps = roofline::steps(&list, &work, &devices, |_| true);
    let found = steps.iter().map(step_text).collect();
    let rows = wanted("steps").iter().map(wanted_step).collect();
    wrong.push_str(&differences(name, found, rows));
    wrong
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn rows_and_steps_are_those_of_the_reference() {
    let folder = test_data::reference("roofline");
    let index = csv(&std::fs::read_to_string(folder.join("index.csv")).unwrap());
    let only = std::env::var("ONLY").ok();
    let mut wrong = String::new();
    for row in &index {
        let name = &row["name"];
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let trace = read(&folder.join(&row["path"]));
        let captures: Vec<Trace> = row["capture_path"]
            .split_whitespace()
            .map(|path| read(&folder.join(path)))
            .collect();
        let captures: Vec<GpuWork<'_>> = captures.iter().map(GpuWork::new).collect();
        let captures: Vec<&GpuWork<'_>> = captures.iter().collect();
        let device = Some(row["device"].as_str()).filter(|key| *key != "none");
        let mut case = Case {
            trace: &trace,
            captures: &captures,
            config: None,
        };
        wrong.push_str(&compare(name, &case, device));
        if row["model"].is_empty() {
            continue;
        }
        let text = std::fs::read_to_string(folder.join("models").join(&row["model"])).unwrap();
        case.config = Some((Config::parse(&text).unwrap(), row["tp"].parse().ok()));
        wrong.push_str(&compare(&format!("{name}.model"), &case, device));
        // Without the number of ranks it follows from the heads of queries.
        case.config = Some((Config::parse(&text).unwrap(), None));
        wrong.push_str(&compare(&format!("{name}.model"), &case, device));
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// `Q:K[*n]` or `K[*n]`, several with commas.
fn requests(text: &str, is_context: bool) -> Vec<Request> {
    let number = |text: &str| text.parse::<u128>().unwrap();
    text.split(',')
        .map(|one| {
            let (lengths, count) = one.split_once('*').unwrap_or((one, "1"));
            let (new, keys) = match is_context {
                true => lengths.split_once(':').unwrap(),
                false => ("1", lengths),
            };
            Request {
                new: number(new),
                keys: number(keys),
                count: number(count),
            }
        })
        .collect()
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn forward_passes_need_what_the_reference_says() {
    let path = test_data::reference("roofline").join("models/cases.json");
    let cases: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut wrong = String::new();
    for case in cases.as_array().unwrap() {
        let config = Config::parse(&case["config"].to_string()).unwrap();
        let args: Vec<&str> = case["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|arg| arg.as_str().unwrap())
            .collect();
        let (mut tp, mut cache, mut all) = (1, 2, Vec::new());
        for pair in args.chunks(2) {
            match pair[0] {
                "--tp" => tp = pair[1].parse().unwrap(),
                "--cache-bytes" => cache = pair[1].parse().unwrap(),
                "--ctx" => all.extend(requests(pair[1], true)),
                "--gen" => all.extend(requests(pair[1], false)),
                other => panic!("{other}"),
            }
        }
        let found = serde_json::to_value(config.forward(tp, &all, cache)).unwrap();
        if found != case["expect"] {
            writeln!(
                wrong,
                "{} {args:?}\n {found}\n {}",
                case["name"], case["expect"]
            )
            .unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
