//! Tests of the commands on inputs without GPU activity, and on files that are not traces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns exit code, standard output and standard error.
fn outcome<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace-info"));
    let output = command.args(words).output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn written(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

const ONLY_HOST: &str = r#"{"traceEvents":[
{"ph":"X","ts":10,"dur":100.5,"name":"aten::mm","cat":"cpu_op","pid":10,"tid":11}]}"#;

#[test]
fn every_command_says_why_there_is_no_gpu_activity() {
    let folder = tempfile::tempdir().unwrap();
    let host = written(folder.path(), "host.json", ONLY_HOST);
    let host = host.to_str().unwrap();
    for command in [
        "summary", "gpu", "kernels", "idle", "launch", "memory", "comm", "diff",
    ] {
        let mut words = vec![command, host];
        words.extend((command == "diff").then_some(host));
        let (code, out, err) = outcome(&words);
        // A comparison of empty traces has no result.
        let want = if command == "diff" { 4 } else { 0 };
        assert_eq!(code, want, "{command}: {err}");
        let sentence = "no GPU activity: only the host was recorded (1 operators";
        assert!(err.contains(sentence), "{command}: {err}");
        if !["summary", "diff"].contains(&command) {
            assert_eq!(out.lines().count(), 4, "{command} shows no tables: {out}");
        }
        words.push("--fail-on-empty");
        assert_eq!(outcome(&words).0, 1, "{command}");
    }
}

#[test]
fn a_window_without_gpu_activity_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = r#"[{"ph":"X","ts":10,"dur":5,"name":"k","cat":"kernel","pid":0,"tid":7}]"#;
    let trace = written(folder.path(), "t.json", kernel);
    let trace = trace.to_str().unwrap();
    for (window, code) in [("10000..12000", 0), ("20000..30000", 1)] {
        for command in ["gpu", "idle", "launch"] {
            let words = [command, trace, "--window", window, "--fail-on-empty"];
            assert_eq!(outcome(words).0, code, "{command} {window}");
        }
    }
}

/// Generates a recording in the layout of XLA's trace viewer export: named rows, no categories.
fn xla(device: &str, rows: &[(&str, &[&str])]) -> String {
    let mut events = vec![
        r#"{"ph":"M","pid":1,"name":"process_name","args":{"name":"/host:CPU"}}"#.to_owned(),
        r#"{"ph":"X","pid":1,"tid":9,"ts":1,"dur":2,"name":"PjitFunction(f)"}"#.to_owned(),
        format!(r#"{{"ph":"M","pid":2,"name":"process_name","args":{{"name":"{device}"}}}}"#),
    ];
    for (tid, (row, slices)) in (10..).zip(rows) {
        events.push(format!(
            r#"{{"ph":"M","pid":2,"tid":{tid},"name":"thread_name","args":{{"name":"{row}"}}}}"#
        ));
        for (at, name) in (0..).zip(*slices) {
            let ts = 10 * at + tid;
            events.push(format!(
                r#"{{"ph":"X","pid":2,"tid":{tid},"ts":{ts},"dur":3.5,"name":"{name}"}}"#
            ));
        }
    }
    format!("{{\"traceEvents\":[{}]}}", events.join(","))
}

#[test]
fn streams_of_xla_are_gpu_activity_and_its_other_rows_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let rows: [(&str, &[&str]); 4] = [
        ("XLA Modules", &["jit_f"]),
        ("Steps", &["1", "2"]),
        (
            "Stream #13(Compute)",
            &["fusion_1", "gemm_fusion", "fusion_1"],
        ),
        ("Stream #14(MemcpyH2D)", &["MemcpyH2D", "Memset 4B"]),
    ];
    for device in ["/device:GPU:3", "node-7 /device:GPU:3 NVIDIA H100"] {
        let trace = written(folder.path(), "t.json", xla(device, &rows));
        let trace = trace.to_str().unwrap();
        let (code, out, err) = outcome(["kernels", trace, "--json"]);
        assert_eq!((code, err.as_str()), (0, ""));
        let names = |key: &str| -> Vec<String> {
            let all: serde_json::Value = serde_json::from_str(&out).unwrap();
            let rows = all["kernels"]["rows"].as_array().unwrap().iter();
            let mut names: Vec<_> = rows.map(|row| row[key].to_string()).collect();
            names.sort();
            names
        };
        let kernels = [
            "\"Memset 4B\"",
            "\"MemcpyH2D\"",
            "\"fusion_1\"",
            "\"gemm_fusion\"",
        ];
        let found = names("name");
        assert!(
            found.iter().all(|name| kernels.contains(&name.as_str())),
            "{found:?}"
        );
        assert!(found.contains(&kernels[2].to_owned()));
        let (_, out, _) = outcome(["gpu", trace, "--per-stream", "--json"]);
        let all: serde_json::Value = serde_json::from_str(&out).unwrap();
        let places = all["gpu"]["rows"].as_array().unwrap().iter();
        let places: Vec<_> = places
            .map(|row| [&row["device"], &row["stream"], &row["gpu_events"]])
            .collect();
        assert_eq!(
            serde_json::json!(places),
            serde_json::json!([[3, 13, 3], [3, 14, 2]])
        );
    }
    // Without streams there is no GPU activity, and the message states what there is.
    for (device, says) in [
        ("/device:TPU:0", "of a TPU"),
        ("/host:metadata", "of JAX or XLA"),
    ] {
        let trace = written(
            folder.path(),
            "t.json",
            xla(device, &[("XLA Ops", &["fusion"])]),
        );
        let (code, _, err) = outcome(["gpu", trace.to_str().unwrap()]);
        assert_eq!(code, 0);
        assert!(err.contains(says), "{err}");
    }
}

#[test]
fn a_window_that_ends_before_it_starts_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = r#"[{"ph":"X","ts":10,"dur":5,"name":"k","cat":"kernel","pid":0,"tid":7}]"#;
    let trace = written(folder.path(), "t.json", kernel);
    for window in ["5..1", "+5ms..+1ms", "7..7"] {
        for command in ["gpu", "idle", "launch"] {
            let words = [command, trace.to_str().unwrap(), "--window", window];
            let (code, _, err) = outcome(words);
            assert_eq!(code, 2, "{command} {window}");
            assert!(err.contains("end not after start"), "{err}");
        }
    }
    // Whether this window is inverted depends on the trace: its first kernel starts at 10,000 ns.
    for command in ["gpu", "idle", "launch", "kernels"] {
        let words = [command, trace.to_str().unwrap(), "--window", "+1ms..11000"];
        let (code, _, err) = outcome(words);
        assert_ne!(code, 0, "{command}");
        assert!(err.contains("1010000..11000"), "{err}");
    }
}

#[test]
fn a_window_inside_a_stall_is_idle_and_not_empty() {
    let folder = tempfile::tempdir().unwrap();
    let kernels = r#"[{"ph":"X","ts":10,"dur":5,"name":"k","cat":"kernel","pid":0,"tid":7},
        {"ph":"X","ts":90,"dur":5,"name":"k","cat":"kernel","pid":0,"tid":7}]"#;
    let trace = written(folder.path(), "t.json", kernels);
    for (window, is_idle) in [("+20us..+60us", true), ("+100us..+160us", false)] {
        let words = ["idle", trace.to_str().unwrap(), "--window", window];
        let (code, out, err) = outcome(words);
        assert_eq!(code, 0, "{err}");
        let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            out.contains("idle 40.00 µs of 40.00 µs (100.00 %)"),
            is_idle,
            "{out}"
        );
    }
}

#[test]
fn several_gpus_of_a_trace_are_not_one() {
    let folder = tempfile::tempdir().unwrap();
    // Each device is busy half of the time, in turn.
    let kernels: Vec<String> = (0..8)
        .map(|at| {
            format!(
                r#"{{"ph":"X","ts":{},"dur":10,"name":"k","cat":"kernel","pid":{gpu},"tid":7,"args":{{"device":{gpu},"stream":7}}}}"#,
                at * 10,
                gpu = at % 2
            )
        })
        .collect();
    let text = format!("[{}]", kernels.join(","));
    let trace = written(folder.path(), "t.json", &text);
    let (_, out, _) = outcome(["gpu", trace.to_str().unwrap()]);
    assert!(
        out.contains("2 GPUs in one trace: each is busy 50.00 %"),
        "{out}"
    );
    assert!(!out.contains("GPU-bound"), "{out}");
    let (_, out, _) = outcome(["idle", trace.to_str().unwrap()]);
    assert!(out.contains("at least one of 2 GPUs"), "{out}");
}

#[test]
fn a_word_that_is_no_file_is_a_command_spelled_wrong() {
    for (word, meant) in [
        ("kernel", "kernels"),
        ("sumary", "summary"),
        ("mem", "memory"),
    ] {
        let (code, out, err) = outcome([word, "x.json"]);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains(&format!("did you mean `{meant}`?")), "{err}");
    }
    assert_eq!(outcome(["nowhere"]).0, 3);
}

/// Generates a rank's trace with one collective, in the layout of PyTorch.
fn rank(stated: Option<u32>, start_us: u32) -> String {
    let info = stated.map_or(String::new(), |rank| {
        format!(r#""distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":8}},"#)
    });
    format!(
        r#"{{{info}"baseTimeNanoseconds":1700000000000000000,"traceEvents":[
{{"ph":"X","ts":{start_us},"dur":30,"name":"ncclDevKernel_AllReduce_Sum_bf16_RING_LL","cat":"kernel","pid":0,"tid":7,"args":{{"device":0,"stream":7}}}}]}}"#
    )
}

#[test]
fn files_of_one_rank_are_never_joined_as_two() {
    for (names, stated) in [
        (["w0_step10.json", "w0_step11.json"], Some(0)),
        (["1740.1-TP-0.json", "1741.2-TP-0.json"], None),
        (["r0-iter100.json", "r0-iter200.json"], None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for (at, name) in (0..).zip(names) {
            written(folder.path(), name, rank(stated, 1_000_000 * at));
        }
        written(folder.path(), "rank1.json", rank(Some(1), 1_000_003));
        let (code, out, err) = outcome(["comm", folder.path().to_str().unwrap()]);
        assert_eq!((code, out.as_str()), (4, ""), "{err}");
        assert!(err.contains("2 files are recordings of rank 0"), "{err}");
        assert!(err.contains("name the files of one session"), "{err}");
        assert!(names.iter().all(|name| err.contains(name)), "{err}");
    }
}

#[test]
fn numbers_in_names_that_are_no_ranks_are_not_taken_for_ranks() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["decode_bs32.json", "profile-2024-11-03.json"] {
        written(folder.path(), name, rank(None, 5));
    }
    let path = folder.path().to_str().unwrap();
    let (code, out, err) = outcome(["comm", path, "--table", "ranks", "--format", "csv"]);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("in the order of the names"), "{err}");
    let ranks: Vec<_> = out
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap())
        .collect();
    assert_eq!(ranks, ["0", "1"], "{out}");
}

/// Creates a folder of folders, each with a `trace.json`.
fn nested(files: &[(&str, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn folders_name_ranks_and_rows() {
    let folder = nested(&[
        ("rank3/trace.json", rank(None, 5)),
        ("rank1/trace.json", rank(None, 5)),
        ("run.sqlite", String::new()),
        ("run.nsys-rep", String::new()),
    ]);
    let path = folder.path().to_str().unwrap();
    let (code, out, err) = outcome(["comm", path, "--table", "ranks", "--format", "csv"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("1 of the files, reports of Nsight Systems"),
        "{err}"
    );
    assert!(err.contains("run.sqlite"), "{err}");
    let first = |line: &str| line.split(',').next().unwrap().to_owned();
    let ranks: Vec<_> = out.lines().skip(1).map(first).collect();
    assert_eq!(ranks, ["1", "3"], "{out}");
    for command in ["gpu", "kernels", "idle"] {
        let (_, out, _) = outcome([command, path, "--format", "csv"]);
        let rows: std::collections::BTreeSet<_> = out.lines().skip(1).map(first).collect();
        let rows: Vec<_> = rows.into_iter().collect();
        assert_eq!(rows, ["rank1/trace", "rank3/trace"], "{command} {out}");
    }
}

#[test]
fn files_that_contradict_each_other_are_reported_or_refused() {
    let other = |text: String, from: &str, to: &str| text.replace(from, to);
    let day = |at: u32| other(rank(Some(1), 5), "170000000", &format!("1700{at}0000"));
    let sixteen = other(rank(Some(1), 5), ":8}", ":16}");
    for (second, code, says) in [
        (rank(Some(9), 5), 0, "states rank 9 of a job of 8"),
        (sixteen, 4, "different numbers of ranks (8: "),
        (day(9), 4, "they are not ranks of one job"),
    ] {
        let folder = nested(&[("a.json", rank(Some(0), 5)), ("b.json", second)]);
        let path = folder.path().to_str().unwrap();
        let (found, out, err) = outcome(["comm", path, "--json"]);
        assert_eq!(found, code, "{err}");
        assert!(err.contains(says), "{err}");
        assert_eq!(out.contains("\"rank_not_in_world\""), code == 0, "{out}");
    }
}

#[test]
fn a_conversion_keeps_rank_and_devices_and_goes_through_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let text = rank(Some(5), 40).replacen(
        '{',
        r#"{"deviceProperties":[{"id":0,"name":"NVIDIA H100"}],"#,
        1,
    );
    let trace = written(folder.path(), "worker0_step_12.json", text);
    // A file of this name is not standard output.
    written(folder.path(), "-", "nothing");
    let convert = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trace-info"));
        let words = ["convert", trace.to_str().unwrap()];
        command.current_dir(folder.path()).args(words).args(more);
        command.output().unwrap()
    };
    let piped = convert(&["--to", "perfetto", "-o", "-"]);
    assert!(piped.status.success());
    assert_eq!(fs::read(folder.path().join("-")).unwrap(), b"nothing");
    assert!(convert(&["-o", "out.pftrace"]).status.success());
    let file = folder.path().join("out.pftrace");
    assert_eq!(fs::read(&file).unwrap(), piped.stdout);
    assert_eq!(convert(&["-o", "out.xyz"]).status.code(), Some(2));
    let (_, out, _) = outcome(["summary", file.to_str().unwrap(), "--json"]);
    let all: serde_json::Value = serde_json::from_str(&out).unwrap();
    let one = &all["traces"][0];
    assert_eq!(
        (&one["file"]["rank"], &one["file"]["world_size"]),
        (&5.into(), &8.into())
    );
    assert_eq!(one["overview"]["gpu_models"]["NVIDIA H100"], 1);
    assert_eq!(one["overview"]["recorded_utc"], "2023-11-14 22:13:20 UTC");
}

#[test]
fn files_that_are_no_traces_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes, says) in [
        (
            "a.json",
            &b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"[..],
            "git lfs pull",
        ),
        ("b.json", b"<!doctype html>\n<html>", "an HTML page"),
        (
            "c.json",
            br#"{"schema":"1.0.2","pid":1,"nodes":[]}"#,
            "an execution trace of PyTorch",
        ),
        (
            "vm.xplane.pb",
            b"\x0a\x7d\x08\x01\x12\x09/host:CPU",
            "the XSpace is damaged at byte 0",
        ),
        (
            "r.nsys-rep",
            b"\x00\x01",
            "`nsys export --type sqlite --include-blobs true r.nsys-rep`",
        ),
        (
            "d.json",
            b"404: Not Found",
            "a web server that did not find",
        ),
        (
            "e.json",
            b"404: Not Found\n",
            "a web server that did not find",
        ),
        (
            "f.json",
            br#"{"cells":[],"metadata":{},"nbformat":4,"nbformat_minor":5}"#,
            "a Jupyter notebook",
        ),
        (
            "n.ipynb",
            br#"{"cells":[], "nbformat": 4}"#,
            "a Jupyter notebook",
        ),
    ] {
        let file = written(folder.path(), name, bytes);
        for command in ["gpu", "summary", "kernels"] {
            let (code, out, err) = outcome([command, file.to_str().unwrap()]);
            assert_eq!((code, out.as_str()), (3, ""), "{command} {name}");
            assert!(err.contains(says) && err.contains(name), "{err}");
        }
    }
}
