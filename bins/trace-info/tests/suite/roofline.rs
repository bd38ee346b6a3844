//! `trace-info roofline`, `ops` and `kernels --details` as they are called.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::{Csv, run, table};
use serde_json::Value;

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn roofline(words: &[&str]) -> Output {
    run(std::iter::once("roofline").chain(words.iter().copied()))
}

fn csv(words: &[&str]) -> Csv {
    let words: Vec<&str> = words.iter().copied().chain(["--format", "csv"]).collect();
    Csv::parse(&stdout(&roofline(&words)))
}

/// One operator with a kernel: name, sizes, types, kernel, duration of the kernel in ns.
struct Op(&'static str, &'static str, &'static str, &'static str, i64);

/// A trace of operators one after the other within an annotation, on a device of this name.
fn trace(folder: &Path, device: &str, annotation: &str, ops: &[Op]) -> PathBuf {
    let mut events = vec![format!(
        r#"{{"ph":"X","cat":"user_annotation","name":"{annotation}","pid":1,"tid":1,"ts":0,"dur":1000}}"#
    )];
    let mut at = 2000;
    for (i, Op(name, dims, types, kernel, ns)) in ops.iter().enumerate() {
        let (ts, id) = (10 * (i + 1), i + 1);
        events.push(format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":8,"args":{{"Input Dims":{dims},"Input type":{types}}}}}"#
        ));
        events.push(format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{},"dur":2,"args":{{"correlation":{id}}}}}"#,
            ts + 3
        ));
        events.push(format!(
            r#"{{"ph":"X","cat":"kernel","name":"{kernel}","pid":0,"tid":7,"ts":{at},"dur":{}.{:03},"args":{{"correlation":{id},"device":0,"stream":7,"grid":[8,1,1],"block":[128,1,1],"registers per thread":32,"est. achieved occupancy %":45}}}}"#,
            ns / 1000,
            ns % 1000
        ));
        at += ns / 1000 + 5;
    }
    // A device is recognised by its size, too.
    let sms = if device.starts_with("NVIDIA") {
        132
    } else {
        77
    };
    let text = format!(
        r#"{{"schemaVersion":1,"deviceProperties":[{{"id":0,"name":"{device}","totalGlobalMem":85029158912,"computeMajor":9,"computeMinor":0,"numSms":{sms}}}],"traceEvents":[{}]}}"#,
        events.join(",\n")
    );
    let path = folder.join("t.json");
    std::fs::write(&path, text).unwrap();
    path
}

const STEP: &str = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk3200sqsq32sqsk3200)";
const BF16: &str = r#"["c10::BFloat16","c10::BFloat16"]"#;
const MM: &str = "[[32, 4096], [4096, 4096]]";
const QKV: &str = "[[32, 32, 128], [32, 8, 128], [32, 8, 128], [32, 32, 128], []]";
const QKV_TYPES: &str =
    r#"["c10::BFloat16","c10::BFloat16","c10::BFloat16","c10::BFloat16","Scalar"]"#;

fn example(folder: &Path, device: &str) -> String {
    let ops = [
        Op("aten::mm", MM, BF16, "gemm", 20_000),
        Op("aten::mm", MM, BF16, "gemm", 30_000),
        Op(
            "vllm::unified_attention_with_output",
            QKV,
            QKV_TYPES,
            "attend",
            40_000,
        ),
        Op("my::op", "[[7]]", r#"["float"]"#, "mine", 10_000),
        Op(
            "aten::add",
            "[[4], [4]]",
            r#"["float","float"]"#,
            "add",
            1_000,
        ),
    ];
    let path = trace(folder, device, STEP, &ops);
    path.to_str().unwrap().to_owned()
}

#[test]
fn rows_have_the_columns_that_are_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let table = csv(&[&example(folder.path(), "NVIDIA H100 80GB HBM3")]);
    let pinned = "op, kernel, dims, types, calls, kernels, time_ns, flops, bytes, bytes_low, bytes_high, link_bytes, dtype, \
                  unit, basis, tflops, gbs, intensity, bound, limit_ns, pct, gain_ns, note";
    let pinned: Vec<&str> = pinned.split(", ").collect();
    assert_eq!(table.columns[..pinned.len()], pinned);
    let cell = |op: &str, column: &str| {
        let ops = table.column("op");
        let at = ops.iter().position(|name| *name == op).unwrap();
        table.column(column)[at].to_owned()
    };
    let mm = |column| cell("aten::mm", column);
    assert_eq!(mm("dims"), "[[32,4096],[4096,4096]]");
    assert_eq!((mm("calls"), mm("time_ns")), ("2".into(), "50000".into()));
    assert_eq!(mm("flops"), (2 * 32 * 4096 * 4096_i64).to_string());
    let bytes = 2 * (2 * 32 * 4096 + 4096 * 4096);
    assert_eq!(mm("bytes"), bytes.to_string());
    let limit: f64 = mm("limit_ns").parse().unwrap();
    assert!(
        (limit - 2.0 * f64::from(bytes) / 3350.0).abs() < 1e-6,
        "{limit}"
    );
    assert_eq!(mm("bound"), "memory");
    let attention = |column| cell("vllm::unified_attention_with_output", column);
    assert_eq!(attention("basis"), "annotation");
    assert_eq!(attention("flops"), (2 * 32 * 3200 * 256_i64).to_string());
    let unknown = |column| cell("my::op", column);
    assert_eq!(
        (unknown("basis"), unknown("note")),
        ("unknown".into(), "no model".into())
    );
    assert_eq!(
        (unknown("flops"), unknown("limit_ns")),
        (String::new(), String::new())
    );
    // Most time first.
    let times: Vec<i64> = table
        .column("time_ns")
        .iter()
        .map(|t| t.parse().unwrap())
        .collect();
    assert!(times.is_sorted_by(|a, b| a >= b), "{times:?}");
    assert_eq!(times.iter().sum::<i64>(), 101_000);
}

#[test]
fn coverage_is_in_the_first_line_and_nothing_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = example(folder.path(), "NVIDIA H100 80GB HBM3");
    let text = stdout(&roofline(&[&path]));
    let first = text.lines().nth(1).unwrap();
    assert!(
        first.starts_with("90.10 % of 101.0 µs GPU time has numbers"),
        "{first}"
    );
    // The answer is one sentence: coverage, share of the limit, what gains most and its kernel.
    let sentence: Vec<&str> = text.lines().skip(1).take(6).collect();
    let sentence = sentence.join(" ");
    let (answer, _) = sentence.split_once("1 decode step,").unwrap();
    for part in [
        "the decode step reaches at least ",
        "% of the limit of NVIDIA H100 SXM; most to gain: ",
        " in 1 vllm::unified_attention_with_output (mostly kernel attend), bound by memory, at ",
    ] {
        assert!(answer.contains(part), "{part}\n{answer}");
    }
    for part in [
        "no model",
        "my::op",
        "decode step",
        "h100-sxm",
        "launch",
        "gain",
        "--extensions",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let output = roofline(&[&path, "--format", "csv"]);
    assert!(stderr(&output).contains("90.10 %"), "{}", stderr(&output));
}

#[test]
fn a_step_without_numbers_has_a_cure_and_no_share() {
    let folder = tempfile::tempdir().unwrap();
    let ops = [
        Op("my::op", "[[7]]", r#"["float"]"#, "mine", 90_000),
        Op("aten::mm", MM, BF16, "gemm", 10_000),
    ];
    let path = trace(folder.path(), "NVIDIA H200", STEP, &ops);
    let text = stdout(&roofline(&[path.to_str().unwrap()]));
    let first: Vec<&str> = text.lines().skip(1).take(3).collect();
    let first = first.join(" ");
    assert!(
        first.starts_with(
            "10.00 % of 100.0 µs GPU time has numbers; 10.00 % of the decode step, too little for its share of the \
             limit of NVIDIA H200: operators of your own get numbers with --extensions."
        ),
        "{first}"
    );
    assert!(!text.contains("of the device's limit"), "{text}");
}

#[test]
fn more_than_the_limit_has_a_reason_in_the_text() {
    let folder = tempfile::tempdir().unwrap();
    // Twice as fast as the matrix units: no cache explains that.
    let dims = "[[8192, 8192], [8192, 8192]]";
    let ops = [Op("aten::mm", dims, BF16, "gemm", 500_000)];
    let path = trace(folder.path(), "NVIDIA H200", "x", &ops);
    let path = path.to_str().unwrap();
    let text = stdout(&roofline(&[path]));
    let line = text.lines().find(|line| line.contains("beyond")).unwrap();
    assert!(
        line.contains("aten::mm 8192,8192") && line.contains("222."),
        "{line}"
    );
    assert!(
        text.contains("sparsity") && !text.contains("cache"),
        "{text}"
    );
    let note = csv(&[path]);
    assert!(note.column("note")[0].contains("faster than the peak"));
}

#[test]
fn merged_rows_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = example(folder.path(), "NVIDIA H100 80GB HBM3");
    for by in ["op", "kernel", "class", "module", "layer", "phase"] {
        let table = csv(&[&path, "--by", by]);
        let sum = |column: &str| -> f64 {
            let cells = table.column(column).into_iter();
            cells.map(|cell| cell.parse().unwrap_or(0.0)).sum()
        };
        assert!((sum("time_ns") - 101_000.0).abs() < 1e-9, "{by}");
        assert!((sum("known_time_ns") - 91_000.0).abs() < 1e-9, "{by}");
        let mm = 2.0 * 2.0 * 32.0 * 4096.0 * 4096.0;
        let flops = mm + 2.0 * 32.0 * 3200.0 * 256.0 + 4.0;
        assert!((sum("flops") - flops).abs() < 1.0, "{by}");
    }
    let kernels = csv(&[&path, "--by", "kernel"]);
    assert_eq!(kernels.column("kernel"), ["gemm", "attend", "mine", "add"]);
    assert_eq!(csv(&[&path, "--by", "phase"]).column("phase"), ["decode"]);
    let top = csv(&[&path, "--sort", "gain", "--top", "1"]);
    assert_eq!(top.rows.len(), 1);
}

#[test]
fn steps_have_a_ladder() {
    let folder = tempfile::tempdir().unwrap();
    let path = example(folder.path(), "NVIDIA H100 80GB HBM3");
    let table = csv(&[&path, "--by", "step"]);
    assert_eq!(table.column("step"), [STEP]);
    assert_eq!(table.column("gen_tokens"), ["32"]);
    assert_eq!(table.column("known_time_ns"), ["91000"]);
    assert_eq!(table.column("kv_bytes"), [(3200 * 8 * 256 * 2).to_string()]);
    let limits = ["model_limit_ns", "ops_limit_ns", "floor_limit_ns"];
    let limits = limits.map(|name| table.column(name)[0].parse::<f64>().unwrap());
    assert!(limits.is_sorted() && limits[0] > 0.0, "{limits:?}");
    let json: Value =
        serde_json::from_str(&stdout(&roofline(&[&path, "--format", "json"]))).unwrap();
    for key in [
        "schema_version",
        "device",
        "coverage",
        "missing",
        "captures",
        "calls",
        "steps",
    ] {
        assert!(json.get(key).is_some(), "{key}");
    }
    assert_eq!(json["device"]["key"], "h100-sxm");
    assert_eq!(json["device"]["peaks"]["hbm"]["value"], 3350.0);
    assert_eq!(json["coverage"]["unknown"]["time_ns"], 10_000);
    assert_eq!(json["missing"][0]["reason"], "no model");
    let lines: Vec<&str> = json["steps"][0]["ladder"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rung| rung["line"].as_str().unwrap())
        .collect();
    assert_eq!(lines, ["model", "operators", "floor", "busy", "step"]);
}

#[test]
fn no_device_is_assumed() {
    let folder = tempfile::tempdir().unwrap();
    let path = example(folder.path(), "Some Accelerator 1000");
    let table = csv(&[&path]);
    assert!(table.column("limit_ns").iter().all(|cell| cell.is_empty()));
    assert!(table.column("tflops").iter().any(|cell| !cell.is_empty()));
    let text = stdout(&roofline(&[&path]));
    assert!(text.contains("not known: Some Accelerator 1000"), "{text}");
    let named = csv(&[&path, "--device", "h200"]);
    assert!(named.column("limit_ns").iter().any(|cell| !cell.is_empty()));
    let single = csv(&[
        &path,
        "--peak",
        "hbm=1000",
        "--peak",
        "bf16=500",
        "--peak",
        "vector=10",
    ]);
    assert!(
        single
            .column("limit_ns")
            .iter()
            .any(|cell| !cell.is_empty())
    );
    // Keys in any case of letters; a peak of nothing is no peak.
    let upper = csv(&[&path, "--device", "H200"]);
    assert_eq!(upper.column("limit_ns"), named.column("limit_ns"));
    assert_eq!(roofline(&[&path, "--peak", "hbm=0"]).status.code(), Some(2));
    let output = roofline(&[&path, "--device", "h999"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("h100-sxm"), "{}", stderr(&output));
}

#[test]
fn own_operators_and_devices_are_added() {
    let folder = tempfile::tempdir().unwrap();
    let path = example(folder.path(), "Some Accelerator 1000");
    let own = folder.path().join("own.toml");
    let rows = "[[operator]]\nname = 'my::op'\nroles = 'u'\nflops_per_element = 2\n\
                [[device]]\nkey = 'acc'\nname_regex = 'Accelerator'\nhbm = 100.0\nbf16 = 10.0\nvector = 1.0\n";
    std::fs::write(&own, rows).unwrap();
    let own = own.to_str().unwrap();
    let table = csv(&[&path, "--extensions", own]);
    let at = table
        .column("op")
        .iter()
        .position(|op| *op == "my::op")
        .unwrap();
    assert_eq!(table.column("bytes")[at], "56");
    assert_eq!(table.column("flops")[at], "14");
    assert!(table.column("limit_ns").iter().all(|cell| !cell.is_empty()));
    std::fs::write(own, "[[operator]]\nname = 'x'\nroles = 'q'").unwrap();
    let output = roofline(&[&path, "--extensions", own]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("unknown role"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_model_answers_without_a_trace_and_is_checked_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    let text = r#"{"hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 128, "vocab_size": 1000}"#;
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let words = [
        "--model", config, "--gen", "100*3,50", "--ctx", "10:20", "--format", "json",
    ];
    let json: Value = serde_json::from_str(&stdout(&roofline(&words))).unwrap();
    assert_eq!(
        (&json["model"]["tokens"], &json["model"]["requests"]),
        (&14.into(), &5.into())
    );
    assert_eq!(json["model"]["kv_bytes"], (300 + 50 + 20) * 2 * 8 * 256 * 2);
    let text = stdout(&roofline(&[
        "--model", config, "--gen", "7", "--device", "h200",
    ]));
    assert!(
        text.contains("A step with 1 token of 1 request takes at least"),
        "{text}"
    );
    assert!(text.contains("on NVIDIA H200"), "{text}");
    let text = stdout(&roofline(&["--model", config, "--gen", "7"]));
    assert!(text.contains("--device"), "{text}");
    // Two attention calls are two layers, in order; one is none.
    let path = example(folder.path(), "NVIDIA H200");
    let output = roofline(&[&path, "--model", config, "--format", "csv"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let other = text_with_heads(folder.path());
    let output = roofline(&[&path, "--model", &other, "--tp", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("query heads per rank 16, the recording 32"),
        "{}",
        stderr(&output)
    );
    for words in [
        vec!["--gen", "7"],
        vec!["--model", config],
        vec!["--model", config, "--gen", "0"],
        vec!["--model", config, "--ctx", "9:3"],
        vec!["--model", config, "--gen", "1", "--tp", "3"],
        vec![&path, "--model", config, "--gen", "1"],
    ] {
        assert_eq!(roofline(&words).status.code(), Some(2), "{words:?}");
    }
    let missing = roofline(&["--model", "no-such-file", "--gen", "1"]);
    assert_eq!(missing.status.code(), Some(3));
}

fn text_with_heads(folder: &Path) -> String {
    let path = folder.join("other.json");
    let text = r#"{"hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 16, "intermediate_size": 128,
        "vocab_size": 1000}"#;
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn windows_and_steps_choose_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = example(folder.path(), "NVIDIA H200");
    let window = csv(&[&path, "--window", "+0us..+22us"]);
    assert_eq!(window.column("calls"), ["1"]);
    let step = csv(&[&path, "--step", "0"]);
    let all: i64 = step
        .column("time_ns")
        .iter()
        .map(|t| t.parse::<i64>().unwrap())
        .sum();
    assert_eq!(all, 101_000);
}

#[test]
fn every_kernel_is_in_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = example(folder.path(), "NVIDIA H200");
    let slices = table(Path::new(&path), "slice", &[]);
    let kernels = slices
        .column("cat")
        .iter()
        .filter(|c| **c == "kernel")
        .count();
    let rows = csv(&[&path]);
    let found: usize = rows
        .column("kernels")
        .iter()
        .map(|n| n.parse::<usize>().unwrap())
        .sum();
    assert_eq!(found, kernels);
}

#[test]
fn figures_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = example(folder.path(), "NVIDIA H200");
    for name in ["f.svg", "f.html"] {
        let figure = folder.path().join(name);
        let words = [path.as_str(), "--figure", figure.to_str().unwrap()];
        stdout(&roofline(&words));
        let text = std::fs::read_to_string(figure).unwrap();
        for part in [
            "limit of bf16, 989.4 TFLOP/s",
            "memory, 4800 GB/s",
            "aten::mm",
        ] {
            assert!(text.contains(part), "{name} {part}");
        }
    }
    let output = roofline(&[&path, "--figure", "x.png"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn devices_are_listed_with_their_sources() {
    let table = csv(&["--list-devices"]);
    assert!(table.column("key").contains(&"mi300x"));
    assert!(
        table
            .column("source")
            .iter()
            .all(|source| !source.is_empty())
    );
    let text = stdout(&roofline(&["--list-devices"]));
    assert!(text.contains("(?)"), "numbers without a source are marked");
}

#[test]
fn a_trace_whose_calls_have_no_numbers_cannot_be_answered() {
    let folder = tempfile::tempdir().unwrap();
    let ops = [Op("my::op", "[]", "[]", "mine", 1000)];
    let path = trace(folder.path(), "NVIDIA H200", "x", &ops);
    let path = path.to_str().unwrap();
    assert_eq!(roofline(&[path]).status.code(), Some(4));
    // Tables are written all the same.
    assert_eq!(csv(&[path]).rows.len(), 1);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = example(folder.path(), "NVIDIA H200");
    for format in ["json", "csv", "text", "md"] {
        let once = stdout(&roofline(&[&path, "--format", format, "--threads", "1"]));
        let again = stdout(&roofline(&[&path, "--format", format, "--threads", "4"]));
        assert_eq!(once, again, "{format}");
    }
}

#[test]
fn kernels_have_details_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = example(folder.path(), "NVIDIA H200");
    let text = stdout(&run(["kernels", &path, "--details", "--format", "csv"]));
    let table = Csv::parse(&text);
    assert_eq!(table.column("name"), ["gemm", "attend", "mine", "add"]);
    assert_eq!(table.column("count")[0], "2");
    assert_eq!(table.column("grid")[0], "[8,1,1]");
    assert_eq!(table.column("registers")[0], "32");
    assert_eq!(table.column("dtype")[0], "bf16");
    let pct: f64 = table.column("pct")[0].parse().unwrap();
    let bytes = 2.0 * f64::from(2 * (2 * 32 * 4096 + 4096 * 4096));
    assert!(
        (pct - 100.0 * bytes / 4800.0 / 50_000.0).abs() < 1e-9,
        "{pct}"
    );
}

#[test]
fn operators_of_the_host_are_listed_without_a_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cpu.json");
    let op = |name: &str, ts: i64, dur: i64, dims: &str| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur},"args":{{"Input Dims":{dims},"Input type":["float","float"]}}}}"#
        )
    };
    let memory = r#"{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":1,"tid":1,"ts":25,"args":{"Bytes":64,"Device Type":0}}"#;
    let events = [
        op("aten::linear", 0, 100, "[[2,3],[4,3]]"),
        op("aten::mm", 20, 50, "[[2,3],[3,4]]"),
        op("aten::mm", 200, 30, "[[2,3],[3,5]]"),
        memory.to_owned(),
    ];
    std::fs::write(&path, format!("{{\"traceEvents\":[{}]}}", events.join(","))).unwrap();
    let path = path.to_str().unwrap();
    let table = Csv::parse(&stdout(&run(["ops", path, "--format", "csv"])));
    assert_eq!(table.column("op"), ["aten::mm", "aten::linear"]);
    assert_eq!(table.column("self_cpu_ns"), ["80000", "50000"]);
    assert_eq!(table.column("total_cpu_ns"), ["80000", "100000"]);
    assert_eq!(table.column("calls"), ["2", "1"]);
    assert_eq!(table.column("flops")[0], "108");
    assert_eq!(table.column("self_cpu_bytes"), ["64", "0"]);
    assert_eq!(table.column("total_cpu_bytes"), ["64", "64"]);
    let by_shape = Csv::parse(&stdout(&run([
        "ops", path, "--by", "shape", "--format", "csv",
    ])));
    assert_eq!(by_shape.rows.len(), 3);
    let text = stdout(&run(["ops", path]));
    assert!(text.contains("aten::linear"), "{text}");
}

#[test]
fn copies_have_their_bandwidth_by_direction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copies.json");
    let copy = |name: &str, ts: i64, bytes: i64| {
        format!(
            r#"{{"ph":"X","cat":"gpu_memcpy","name":"{name}","pid":0,"tid":7,"ts":{ts},"dur":10,"args":{{"device":0,"stream":7,"bytes":{bytes}}}}}"#
        )
    };
    let events = [
        copy("Memcpy HtoD (Pinned -> Device)", 0, 100_000),
        copy("Memcpy HtoD (Pinned -> Device)", 20, 300_000),
        copy("Memcpy DtoH (Device -> Pageable)", 40, 5_000),
    ];
    std::fs::write(&path, format!("{{\"traceEvents\":[{}]}}", events.join(","))).unwrap();
    let path = path.to_str().unwrap();
    let text = stdout(&run(["ops", path, "--format", "json"]));
    let json: Value = serde_json::from_str(&text).unwrap();
    let text = json.to_string();
    assert!(text.contains("h2d") && text.contains("20"), "{text}");
    let table = csv(&[path]);
    assert_eq!(table.column("op"), ["(none)", "(none)", "(none)"]);
    assert_eq!(table.column("link_bytes")[0].len().min(1), 1);
    assert!(table.column("note").iter().all(|note| *note == "host copy"));
}

/// Two products on each of two devices, the second of another make.
fn two_devices(folder: &Path, second: &str) -> String {
    let mut events = Vec::new();
    for i in 0..4_i64 {
        let (ts, id, device) = (10 * (i + 1), i + 1, i % 2);
        events.push(format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":{ts},"dur":8,"args":{{"Input Dims":{MM},"Input type":{BF16}}}}}"#
        ));
        events.push(format!(
            r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{},"dur":2,"args":{{"correlation":{id}}}}}"#,
            ts + 3
        ));
        events.push(format!(
            r#"{{"ph":"X","cat":"kernel","name":"gemm","pid":{device},"tid":7,"ts":{},"dur":20,"args":{{"correlation":{id},"device":{device},"stream":7}}}}"#,
            2000 + 100 * i
        ));
    }
    // A device is recognised by its size, too.
    let sms = if second.starts_with("NVIDIA") {
        108
    } else {
        77
    };
    let text = format!(
        r#"{{"schemaVersion":1,"deviceProperties":[{{"id":0,"name":"NVIDIA H100 80GB HBM3","totalGlobalMem":85029158912,"computeMajor":9,"computeMinor":0,"numSms":132}},{{"id":1,"name":"{second}","totalGlobalMem":85029158912,"computeMajor":8,"computeMinor":0,"numSms":{sms}}}],"traceEvents":[{}]}}"#,
        events.join(",")
    );
    let path = folder.join("two.json");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn different_devices_have_rows_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = two_devices(folder.path(), "NVIDIA A100-SXM4-80GB");
    for by in ["call", "op", "kernel", "class"] {
        let table = csv(&[&path, "--by", by]);
        let mut devices = table.column("device");
        devices.sort_unstable();
        assert_eq!(devices, ["0", "1"], "{by}");
        assert_eq!(table.column("calls"), ["2", "2"], "{by}");
        let pct = table.column("pct");
        assert_ne!(pct[0], pct[1], "{by}");
    }
    let text = stdout(&roofline(&[&path]));
    let first: Vec<&str> = text.lines().skip(1).take(4).collect();
    let first = first.join(" ");
    // 36.18 MB at 3350 and at 2039 GB/s in 20 us.
    let bytes = f64::from(2 * (2 * 32 * 4096 + 4096 * 4096));
    for (name, rate) in [("0 (NVIDIA H100", 3350.0), ("1 (NVIDIA A100", 2039.0)] {
        let pct = report::human::percent(100.0 * bytes / rate / 20_000.0);
        assert!(first.contains(&format!("device {name}")), "{first}");
        assert!(first.contains(&format!("reaches {pct}")), "{pct} {first}");
    }
    let json: Value =
        serde_json::from_str(&stdout(&roofline(&[&path, "--format", "json"]))).unwrap();
    assert_eq!(json["calls"].as_array().unwrap().len(), 2);
    assert!(json["calls"][0]["device"].is_i64());
    let details = run(["kernels", &path, "--details", "--format", "csv"]);
    assert_eq!(Csv::parse(&stdout(&details)).column("count"), ["2", "2"]);
    // An unknown device lacks its own limits only.
    let path = two_devices(folder.path(), "Zorg 9000");
    let table = csv(&[&path]);
    let of = |device: &str, column: &str| {
        let devices = table.column("device");
        let at = devices.iter().position(|own| *own == device).unwrap();
        table.column(column)[at].to_owned()
    };
    assert_eq!(of("1", "pct"), "");
    assert!(!of("0", "pct").is_empty() && !of("0", "bound").is_empty());
    let text = stdout(&roofline(&[&path]));
    assert!(
        text.contains("Zorg 9000") && text.contains("most to gain"),
        "{text}"
    );
}

#[test]
fn gaps_that_are_longer_than_kernels_could_gain_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let ops = [0, 1].map(|_| Op("aten::mm", MM, BF16, "gemm", 20_000));
    let path = trace(folder.path(), "NVIDIA H200", STEP, &ops);
    // The second kernel begins 4 ms after the end of the first.
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(r#""ts":2025,"#, r#""ts":6020,"#)).unwrap();
    let text = stdout(&roofline(&[path.to_str().unwrap()]));
    let first: Vec<&str> = text.lines().skip(1).take(4).collect();
    let first = first.join(" ");
    assert!(first.contains("of which the GPU is idle"), "{first}");
    let bytes = f64::from(2 * 4096 * 4096);
    let busy = report::human::percent(100.0 * bytes / 4800.0 / 20_000.0);
    assert!(
        first.contains(&format!("{busy} while the GPU is busy")),
        "{busy} {first}"
    );
}

#[test]
fn a_configuration_answers_where_operators_are_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let ops = [
        Op("my::graph", "[[7]]", r#"["float"]"#, "mine", 400_000),
        Op("aten::mm", MM, BF16, "gemm", 10_000),
    ];
    let config = folder.path().join("config.json");
    let text = r#"{"hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 128, "intermediate_size": 14336, "vocab_size": 1000}"#;
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    let layer = 4096 * 48 * 128 + 4096 * 4096 + 3 * 4096 * 14336_i64;
    let weights = 2 * (2 * layer + 4096 * 1000) + 2 * 4 * 4096 + 2 * 4096;
    for (step, keys, least) in [
        (STEP, 3200, "KV "),
        ("execute_context_0(0)_generation_32(32)", 32, "KV at least "),
    ] {
        let path = trace(folder.path(), "NVIDIA H200", step, &ops);
        let text = stdout(&roofline(&[path.to_str().unwrap(), "--model", config]));
        let first: Vec<&str> = text.lines().skip(1).take(5).collect();
        let first = first.join(" ");
        #[expect(clippy::cast_precision_loss, reason = "a percentage")]
        let needs = (weights + 2 * keys * 8 * 256 * 2) as f64;
        let pct = report::human::percent(100.0 * needs / 4800.0 / 410_000.0);
        assert!(
            first.contains(&format!(
                "reaches at least {pct} of the limit of NVIDIA H200 by the configuration"
            )),
            "{pct} {first}"
        );
        assert!(first.contains(least), "{first}");
        assert!(
            !text.contains("too little for its share of the limit of"),
            "{text}"
        );
    }
}

#[test]
fn kernels_faster_than_their_limit_and_unknown_windows_are_remarked() {
    let folder = tempfile::tempdir().unwrap();
    let ops = [Op(
        "vllm::unified_attention_with_output",
        QKV,
        QKV_TYPES,
        "attend",
        2_000,
    )];
    let path = trace(folder.path(), "NVIDIA H200", STEP, &ops);
    let path = path.to_str().unwrap();
    let text = stdout(&run(["kernels", path, "--details"]));
    let line = text.lines().find(|line| line.contains("beyond")).unwrap();
    assert!(line.contains("attend") && line.contains("window"), "{line}");
    let details = Csv::parse(&stdout(&run([
        "kernels",
        path,
        "--details",
        "--format",
        "csv",
    ])));
    assert!(details.column("note")[0].starts_with("no window assumed; "));
    let text = stdout(&roofline(&[path]));
    assert!(
        text.contains("no window assumed in 1 call of attention"),
        "{text}"
    );
}

#[test]
fn steps_without_tokens_of_prompts_are_steps() {
    let folder = tempfile::tempdir().unwrap();
    let ops = [Op("aten::mm", MM, BF16, "gemm", 20_000)];
    let of = |name: &str| {
        let path = trace(folder.path(), "NVIDIA H200", name, &ops);
        let table = csv(&[path.to_str().unwrap(), "--by", "step"]);
        [
            "ctx_requests",
            "ctx_tokens",
            "gen_requests",
            "gen_tokens",
            "phase",
        ]
        .map(|column| table.column(column)[0].to_owned())
    };
    let decode = of("[Executor] _forward_step 8: 0 ctx reqs, 6 gen reqs");
    assert_eq!(decode, ["0", "0", "6", "6", "decode"]);
    let mixed = of("[Executor] _forward_step 9: 2 ctx reqs, 6 gen reqs");
    assert_eq!(mixed, ["2", "", "6", "6", "mixed"]);
}

#[test]
fn a_capture_without_captures_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.json");
    let events = [
        r#"{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":1,"tid":1,"ts":1,"dur":2,"args":{"correlation":1}}"#,
        r#"{"ph":"X","cat":"kernel","name":"a","pid":0,"tid":7,"ts":10,"dur":5,"args":{"correlation":1,"device":0,"stream":7}}"#,
    ];
    std::fs::write(&path, format!("{{\"traceEvents\":[{}]}}", events.join(","))).unwrap();
    let path = path.to_str().unwrap();
    let output = roofline(&[path, "--capture", path]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("no captures in 1 recording"), "{text}");
    assert!(text.contains("has no capture of a graph"), "{text}");
}

#[test]
fn a_configuration_of_another_model_is_refused_with_both_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let product = |k: i64, n: i64| -> &'static str { format!("[[32, {k}], [{k}, {n}]]").leak() };
    let layer = || {
        [
            Op("aten::mm", product(4096, 6144), BF16, "qkv", 20_000),
            Op(
                "vllm::unified_attention_with_output",
                QKV,
                QKV_TYPES,
                "attend",
                40_000,
            ),
            Op("aten::mm", product(4096, 4096), BF16, "o", 20_000),
            Op("aten::mm", product(4096, 28_672), BF16, "up", 90_000),
            Op("aten::mm", product(14_336, 4096), BF16, "down", 50_000),
        ]
    };
    let mut ops: Vec<Op> = layer().into_iter().chain(layer()).collect();
    ops.push(Op(
        "aten::mm",
        product(4096, 128_256),
        BF16,
        "head",
        300_000,
    ));
    let path = trace(folder.path(), "NVIDIA H200", STEP, &ops);
    let path = path.to_str().unwrap();
    let config = folder.path().join("config.json");
    let sizes = [
        ("hidden_size", 4096),
        ("num_hidden_layers", 2),
        ("num_attention_heads", 32),
        ("num_key_value_heads", 8),
        ("head_dim", 128),
        ("intermediate_size", 14_336),
        ("vocab_size", 128_256),
    ];
    let with = |key: &str, value: i64| {
        let own =
            sizes.map(|(name, n)| format!("\"{name}\": {}", if name == key { value } else { n }));
        std::fs::write(&config, format!("{{{}}}", own.join(","))).unwrap();
        roofline(&[path, "--model", config.to_str().unwrap()])
    };
    assert!(with("", 0).status.success());
    for (key, value, wanted) in [
        ("num_hidden_layers", 3, "layers 3, the recording 2"),
        (
            "num_key_value_heads",
            4,
            "heads per rank 4, the recording 8",
        ),
        ("hidden_size", 5120, "hidden size 5120, the recording 4096"),
        ("intermediate_size", 12_288, "12288, the recording 14336"),
        ("vocab_size", 151_936, "151936, the recording 128256"),
    ] {
        let output = with(key, value);
        assert_eq!(output.status.code(), Some(2), "{key}");
        assert!(
            stderr(&output).contains(wanted),
            "{key} {}",
            stderr(&output)
        );
    }
}
