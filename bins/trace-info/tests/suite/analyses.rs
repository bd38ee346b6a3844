//! Tests of the analyses as used: formats, several inputs, usage.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

const TRACE: &str = r#"{"traceEvents":[
{"ph":"X","ts":0,"dur":100,"name":"ProfilerStep#1","cat":"user_annotation","pid":10,"tid":11},
{"ph":"X","ts":1,"dur":30,"name":"aten::mm","cat":"cpu_op","pid":10,"tid":11},
{"ph":"X","ts":2,"dur":5,"name":"cudaLaunchKernel","cat":"cuda_runtime","pid":10,"tid":11,"args":{"correlation":7}},
{"ph":"X","ts":10.25,"dur":30,"name":"gemm, \"tall\"","cat":"kernel","pid":0,"tid":7,"args":{"device":0,"stream":7,"correlation":7}},
{"ph":"X","ts":35.25,"dur":20,"name":"ncclDevKernel_AllReduce","cat":"kernel","pid":0,"tid":8,"args":{"device":0,"stream":8,"correlation":8}},
{"ph":"X","ts":70,"dur":1.5,"name":"Memcpy DtoH","cat":"gpu_memcpy","pid":0,"tid":7,"args":{"device":0,"stream":7,"correlation":9}},
{"ph":"i","s":"t","ts":50,"name":"[memory]","cat":"cpu_instant_event","pid":10,"tid":11,"args":{"Total Reserved":512,"Total Allocated":100,"Bytes":100,"Device Id":0,"Device Type":1}},
{"ph":"C","ts":50,"name":"power","pid":10,"args":{"used":1.5}}
]}"#;

const HEADER: &str = "trace,rules,events_total,gpu_events,kernels,memcpy,memset,comm_kernels,start_ns,span_ns,busy_ns,\
idle_ns,comp_ns,comm_ns,memcpy_ns,exposed_comm_ns,exposed_memcpy_ns,exposed_other_ns,kernel_comp_ns,overlap_ns,\
comm_comp_overlap_pct,micro_idle_ns,macro_idle_ns,gaps_ge_10us,subus_gpu_events,zero_ns_events,total_dur_ns\n";
const ROW: &str = "extended,8,3,2,1,0,1,10250,61250,46500,14750,30000,20000,1500,15000,1500,0,30000,5000,25,0,14750,1,0,0,\
51500\n";
/// Columns of the reference table.
const REFERENCE: &str = "trace,events_total,gpu_events,kernels,memcpy,memset,comm_kernels,span_us,\
busy_us,idle_us,comp_us,comm_us,memcpy_us,exposed_comm_us,exposed_memcpy_us,comm_comp_overlap_pct,\
hta_compute_us,hta_noncompute_us,gaps_ge_10us,subus_gpu_events\n\
t,8,3,2,1,0,1,61.250,46.500,14.750,30.000,20.000,1.500,15.000,1.500,25.0000,30.000,16.500,1,0\n";

fn tool() -> Command {
    Command::new(env!("CARGO_BIN_EXE_trace-info"))
}

/// Returns exit code, standard output and standard error.
fn outcome<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> (i32, String, String) {
    let output = tool().args(words).output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn written(folder: &Path, name: &str, text: &str) -> String {
    let path: PathBuf = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const COMMANDS: [&str; 5] = ["gpu", "kernels", "idle", "launch", "memory"];

#[test]
fn the_account_as_csv() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE);
    let (code, text, errors) = outcome(["gpu", &trace, "--format", "csv"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert_eq!(text, format!("{HEADER}t,{ROW}"));
    let (_, text, _) = outcome(["gpu", &trace, "--rules", "exact", "--format", "csv"]);
    assert_eq!(text, REFERENCE);
}

#[test]
fn rows_are_in_the_order_of_the_arguments_whatever_the_threads() {
    let folder = folder();
    let names = ["b.json", "a.json", "empty.json", "c.pt.trace.json"];
    let mut paths: Vec<String> = Vec::new();
    for name in names {
        let text = if name == "empty.json" { "[]" } else { TRACE };
        paths.push(written(folder.path(), name, text));
    }
    for threads in ["1", "2", "7"] {
        let mut words = vec!["gpu", "--format", "csv", "--threads", threads];
        words.extend(paths.iter().map(String::as_str));
        let (code, text, _) = outcome(words);
        assert_eq!(code, 0);
        let nothing = "empty,extended,0,0,0,0,0,0,,,,,,,,,,,,,,,,0,0,0,\n";
        let want = format!("{HEADER}b,{ROW}a,{ROW}{nothing}c.pt.trace,{ROW}");
        assert_eq!(text, want);
    }
}

#[test]
fn standard_input_is_a_trace() {
    let mut child = tool()
        .args(["gpu", "-", "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(TRACE.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with(ROW), "{text}");
}

#[test]
fn a_trace_converted_to_perfetto_has_the_same_account() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE);
    let other = folder.path().join("t.pftrace");
    let other = other.to_str().unwrap();
    assert_eq!(
        outcome(["convert", &trace, "--to", "perfetto", "-o", other]).0,
        0
    );
    let (code, text, _) = outcome(["gpu", other, "--format", "csv"]);
    assert_eq!(code, 0);
    // All columns but the number of events: the format counts other records.
    let after = |row: &str| row.splitn(3, ',').last().unwrap().to_owned();
    let row = text.lines().nth(1).unwrap();
    assert_eq!(after(row.split_once(',').unwrap().1), after(ROW.trim_end()));
}

#[test]
fn every_command_writes_every_format() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE);
    for command in COMMANDS {
        let (code, text, errors) = outcome([command, &trace]);
        assert_eq!((code, errors.as_str()), (0, ""), "{command}");
        assert!(text.starts_with("t\n"), "{command}: {text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
        let (code, text, _) = outcome([command, &trace, "--format", "md"]);
        assert_eq!(code, 0);
        assert!(
            text.starts_with("# t\n") && text.contains("| -"),
            "{command}: {text}"
        );

        let (code, text, _) = outcome([command, &trace, "--json"]);
        assert_eq!(code, 0);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["schema_version"], "1.0");
        let main = document.as_object().unwrap().values().nth(1).unwrap();
        let rows = main["rows"].as_array().unwrap();
        assert!(
            !rows.is_empty() && rows.iter().all(|r| r["trace"] == "t"),
            "{command}"
        );

        let file = folder.path().join(format!("{command}.parquet"));
        let path = file.to_str().unwrap();
        let (code, text, _) = outcome([command, &trace, "--format", "parquet", "-o", path]);
        assert_eq!((code, text.as_str()), (0, ""), "{command}");
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&file).unwrap()).unwrap();
        let count: usize = reader.build().unwrap().map(|b| b.unwrap().num_rows()).sum();
        assert_eq!(count, rows.len(), "{command}");

        let (code, text, _) = outcome([command, &trace, "--format", "csv"]);
        assert_eq!(
            (code, text.lines().count()),
            (0, rows.len() + 1),
            "{command}"
        );
        let (code, _, errors) = outcome([command, &trace, "--format", "parquet"]);
        assert_eq!(code, 2, "{errors}");
    }
}

#[test]
fn one_bad_file_among_many_does_not_hide_the_others() {
    let folder = folder();
    let good = written(folder.path(), "good.json", TRACE);
    let bad = written(folder.path(), "bad.json", "what?");
    let (code, text, errors) = outcome(["gpu", &bad, &good, "--format", "csv"]);
    assert_eq!((code, text), (3, format!("{HEADER}good,{ROW}")));
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    for line in lines {
        assert!(line.starts_with("trace-info: error: "), "{errors}");
        assert!(line.contains("bad.json"), "{errors}");
    }
}

#[test]
fn parts_windows_and_rules() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE);
    let rows = |words: &[&str]| -> Vec<serde_json::Value> {
        let mut all = vec!["gpu", &trace, "--json"];
        all.extend(words);
        let (code, text, errors) = outcome(all);
        assert_eq!(code, 0, "{errors}");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["gpu"]["rows"].as_array().unwrap().clone()
    };
    let streams = rows(&["--per-stream"]);
    let busy: Vec<_> = streams
        .iter()
        .map(|r| (&r["stream"], &r["busy_ns"]))
        .collect();
    assert_eq!(
        format!("{busy:?}"),
        "[(Number(7), Number(31500)), (Number(8), Number(20000))]"
    );
    let steps = rows(&["--per-step"]);
    assert_eq!(steps[0]["step"], "ProfilerStep#1");
    assert_eq!(steps[0]["busy_ns"], 30_000);
    assert_eq!(steps[1]["step"], "(no step)");
    let window = rows(&["--window", "+5us..+35us"]);
    assert_eq!(
        (&window[0]["span_ns"], &window[0]["busy_ns"]),
        (&30_000.into(), &30_000.into())
    );
    assert_eq!(window[0]["exposed_comm_ns"], 5_000);
    let of_slice = rows(&["--window-of", "aten::*"]);
    assert_eq!(of_slice[0]["span_ns"], 30_000);
    assert_eq!(of_slice[0]["busy_ns"], 20_750);
    let linked = rows(&["--linked-only", "--rules", "tracelens"]);
    assert_eq!(linked[0]["gpu_events"], 1);
    assert_eq!(linked[0]["rules"], "tracelens");
    assert_eq!(rows(&["--rules", "hta"])[0]["gpu_events"], 3);

    for (words, part) in [
        (vec!["--hta-rounding"], "--rules hta"),
        (vec!["--window", "5"], "A..B"),
        (vec!["--linked-only", "--rules", "hta"], "does not go with"),
    ] {
        let mut all = vec!["gpu", &trace];
        all.extend(words);
        let (code, _, errors) = outcome(all);
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains(part), "{errors}");
    }
    let (code, _, errors) = outcome(["gpu", &trace, "--window-of", "nothing"]);
    assert!(code == 4 && errors.contains("there are 0"), "{errors}");
}

#[test]
fn idle_time_and_launches_of_parts() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE);
    let document = |words: &[&str]| -> serde_json::Value {
        let mut all = vec![words[0], &trace, "--json"];
        all.extend(&words[1..]);
        let (code, text, errors) = outcome(all);
        assert_eq!(code, 0, "{words:?}: {errors}");
        serde_json::from_str(&text).unwrap()
    };
    let parts: [&[&str]; 5] = [
        &["--window", "+5us..+70us"],
        &["--window-of", "aten::*"],
        &["--per-step"],
        &["--per-step", "--step-by", "time"],
        &["--per-step", "--steps", "cycle", "--step-by", "time"],
    ];
    for part in parts {
        let of = |command| document(&[&[command], part].concat());
        let (gpu, idle, launch) = (of("gpu"), of("idle"), of("launch"));
        let accounts = gpu["gpu"]["rows"].as_array().unwrap();
        let scopes = idle["idle"]["rows"].as_array().unwrap();
        let whole: Vec<_> = scopes.iter().filter(|r| r["scope"] == "trace").collect();
        assert!(!whole.is_empty(), "{part:?}");
        for row in whole {
            let same = |r: &&serde_json::Value| r["step_index"] == row["step_index"];
            let account = accounts.iter().find(same).unwrap();
            for key in ["span_ns", "busy_ns", "idle_ns", "step", "step_partial"] {
                assert_eq!(account[key], row[key], "{part:?} {key}");
            }
        }
        let codes = |d: &serde_json::Value| -> Vec<String> {
            let rows = d["notes"]["rows"].as_array().unwrap();
            rows.iter()
                .map(|r| r["code"].as_str().unwrap().to_owned())
                .collect()
        };
        let want = if part[0] == "--per-step" {
            "steps"
        } else {
            "window"
        };
        for document in [&gpu, &idle, &launch] {
            assert!(
                codes(document).iter().any(|c| c == want),
                "{part:?}: {document}"
            );
        }
    }
    // 10 us before the memcpy and 1.5 us of it; its call is not in the trace.
    let idle = document(&["idle", "--window", "+50us..+100us"]);
    let row = &idle["idle"]["rows"][0];
    assert_eq!(
        (&row["span_ns"], &row["busy_ns"], &row["gaps"]),
        (&50_000.into(), &1_500.into(), &2.into())
    );
    let gaps = idle["gaps"]["rows"].as_array().unwrap();
    assert_eq!(gaps[0]["after"], serde_json::Value::Null);
    assert_eq!(gaps[1]["after"], "Memcpy DtoH");
    let launch = document(&["launch", "--window", "+1us.."]);
    assert!(
        launch["launches"]["rows"].as_array().unwrap().is_empty(),
        "{launch}"
    );
    for (words, part) in [
        (vec!["idle", "--rules", "hta", "--per-step"], "neither"),
        (vec!["launch", "--steps", "cycle"], "--per-step"),
        (
            vec![
                "gpu",
                "--per-step",
                "--steps",
                "cycle",
                "--step-pattern",
                "x",
            ],
            "--step",
        ),
    ] {
        let mut all = words;
        all.push(&trace);
        let (code, _, errors) = outcome(all);
        assert!(code == 2 && errors.contains(part), "{code} {errors}");
    }
}

#[test]
fn steps_of_the_demo_data_by_annotation_and_by_cycle() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/demo");
    let mut files: Vec<PathBuf> = fs::read_dir(&demo)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with("demo-rank") && name.ends_with(".json.gz")
        })
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        for steps in ["annotation", "cycle"] {
            let path = file.to_str().unwrap();
            let words = ["gpu", path, "--per-step", "--steps", steps, "--json"];
            let (code, text, errors) = outcome(words);
            assert_eq!(code, 0, "{errors}");
            let document: serde_json::Value = serde_json::from_str(&text).unwrap();
            let rows = document["gpu"]["rows"].as_array().unwrap();
            let notes = document["notes"]["rows"].as_array().unwrap();
            let note = notes
                .iter()
                .find(|n| n["code"] == "steps")
                .unwrap_or_else(|| panic!("{steps}: {text}"));
            let want = if steps == "cycle" {
                "cycles found by"
            } else {
                "annotations"
            };
            assert!(note["text"].as_str().unwrap().starts_with(want), "{note}");
            let of_steps = rows.iter().filter(|r| !r["step_index"].is_null()).count();
            assert_eq!(note["events"], of_steps, "{steps}");
        }
    }
}

#[test]
fn groups_of_kernels() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE);
    let csv = |by: &str| {
        let (code, text, errors) = outcome(["kernels", &trace, "--by", by, "--format", "csv"]);
        assert_eq!(code, 0, "{errors}");
        text
    };
    assert!(
        csv("name").contains("t,\"gemm, \"\"tall\"\"\",kernel,gemm,1,30000,30000,30000,30000,,")
    );
    assert!(csv("class").contains("t,collective,,collective,1,20000"));
    assert!(csv("operator").contains("t,aten::mm,,,1,30000"));
    assert!(csv("module").contains("(launch not in the trace),,,2,21500"));
    assert!(csv("stream").contains("t,device 0 stream 7,,,2,31500"));
    let (_, text, _) = outcome([
        "kernels", &trace, "--top", "1", "--sort", "count", "--format", "csv",
    ]);
    assert_eq!(text.lines().count(), 2);
}

#[test]
fn help_fits_the_terminal_and_has_an_example() {
    for command in COMMANDS {
        let (code, text, _) = outcome([command, "--help"]);
        assert_eq!(code, 0);
        assert!(text.contains("Example:"), "{command}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
    }
}

/// Generates steps of two kinds, whose operators have inputs of two shapes.
fn stepped() -> String {
    let mut events = Vec::new();
    for step in 0..6 {
        let at = step * 1_000;
        let kind = if step % 3 == 0 { "EXTEND" } else { "DECODE" };
        events.push(format!(
            r#"{{"ph":"X","ts":{at},"dur":900,"name":"step[{kind} bs={step}]","cat":"user_annotation","pid":1,"tid":1}}"#
        ));
        for (kernel, rows) in [8, 16, 8].into_iter().enumerate() {
            let (op, id) = (at + 10 + 100 * kernel, 1 + step * 3 + kernel);
            events.push(format!(
                r#"{{"ph":"X","ts":{op},"dur":50,"name":"aten::mm","cat":"cpu_op","pid":1,"tid":1,"args":{{"Input Dims":[[{rows}, 4], [4, 2]]}}}},
{{"ph":"X","ts":{},"dur":5,"name":"cudaLaunchKernel","cat":"cuda_runtime","pid":1,"tid":1,"args":{{"correlation":{id}}}}},
{{"ph":"X","ts":{},"dur":{rows},"name":"gemm","cat":"kernel","pid":0,"tid":7,"args":{{"correlation":{id},"device":0,"stream":7}}}}"#,
                op + 5,
                op + 30
            ));
        }
    }
    format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))
}

#[test]
fn kernels_of_chosen_steps_and_windows_by_several_keys() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", &stepped());
    let rows = |words: &[&str]| -> Vec<serde_json::Value> {
        let mut all = vec!["kernels", &trace, "--json"];
        all.extend(words);
        let (code, text, errors) = outcome(all);
        assert_eq!(code, 0, "{errors}");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["kernels"]["rows"].as_array().unwrap().clone()
    };
    let by_shape = rows(&["--by", "name,shape"]);
    let found: Vec<_> = by_shape
        .iter()
        .map(|r| {
            (
                r["name"].as_str(),
                r["by_shape"].as_str(),
                r["count"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            (Some("gemm"), Some("[[16,4],[4,2]]"), Some(6)),
            (Some("gemm"), Some("[[8,4],[4,2]]"), Some(12)),
        ]
    );
    let steps = |words: &[&str]| -> Vec<u64> {
        let all = rows(words);
        let step = |r: &serde_json::Value| {
            assert_eq!(r["count"], 3);
            r["step_index"].as_u64()
        };
        all.iter().filter_map(step).collect()
    };
    assert_eq!(steps(&["--per-step"]), [0, 1, 2, 3, 4, 5]);
    assert_eq!(steps(&["--step", "2"]), [2]);
    assert_eq!(steps(&["--step", "1..3"]), [1, 2]);
    assert_eq!(steps(&["--step", "step[EXTEND*"]), [0, 3]);
    let window = rows(&["--window", "+0us..+1000us"]);
    assert_eq!(window[0]["count"], 3);
    let (code, _, errors) = outcome(["gpu", &trace, "--step", "9"]);
    assert_ne!(code, 0);
    assert!(errors.contains("none of the 6 steps"), "{errors}");
}
