//! Tests of the tool as used: arguments, exit codes, messages, outputs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::support::{Csv, run, table, trace_info};
use arrow_array::{Float64Array, Int64Array, StringArray, UInt64Array};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

const TRACE: &str = r#"{"schemaVersion":1,"traceEvents":[
{"ph":"M","name":"process_name","pid":10,"args":{"name":"python3"}},
{"ph":"X","ts":10,"dur":100.5,"name":"step, \"one\"","cat":"cpu_op","pid":10,"tid":11,"args":{"dims":[[4,2],[]],"ok":true}},
{"ph":"X","ts":20,"dur":5,"name":"cudaLaunchKernel","cat":"cuda_runtime","pid":10,"tid":11,"args":{"correlation":7}},
{"ph":"s","ts":20,"name":"ac2g","cat":"ac2g","id":7,"pid":10,"tid":11},
{"ph":"X","ts":40.25,"dur":30,"name":"gemm","cat":"kernel","pid":0,"tid":7,"args":{"correlation":7}},
{"ph":"f","bp":"e","ts":40.25,"name":"ac2g","cat":"ac2g","id":7,"pid":0,"tid":7},
{"ph":"C","ts":50,"name":"mem","pid":10,"args":{"used":1.5}}
]}"#;

fn written(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns exit code, standard output and standard error.
fn outcome<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> (i32, String, String) {
    let output = run(words);
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn tables_of_a_small_trace() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE.as_bytes());
    let slices = table(&trace, "slice", &[]);
    assert_eq!(slices.column("ts"), ["10000", "20000", "40250"]);
    assert_eq!(slices.column("dur"), ["100500", "5000", "30000"]);
    assert_eq!(slices.column("name")[0], "step, \"one\"");
    assert_eq!(slices.column("parent_id"), ["", "0", ""]);
    let flows = table(&trace, "flow", &[]);
    assert_eq!(flows.rows.len(), 1);
    assert_eq!(flows.column("out_name"), ["cudaLaunchKernel"]);
    assert_eq!(flows.column("in_name"), ["gemm"]);
    let counters = table(&trace, "counter", &[]);
    assert_eq!(counters.column("track_name"), ["mem used"]);
    assert_eq!(counters.column("value"), ["1.5"]);
    let args = table(&trace, "args", &[]);
    assert_eq!(
        args.rows
            .iter()
            .map(|r| r[1..].join("|"))
            .collect::<Vec<_>>(),
        [
            "args.dims|args.dims[0][0]|int|4",
            "args.dims|args.dims[0][1]|int|2",
            "args.ok|args.ok|bool|true",
            "args.correlation|args.correlation|int|7",
            "args.correlation|args.correlation|int|7",
        ]
    );
    let compat = table(&trace, "slice", &["--compat"]);
    assert_eq!(compat.column("parent_id"), ["\\N", "0", "\\N"]);
}

#[test]
fn standard_input_is_a_trace() {
    for bytes in [TRACE.as_bytes().to_vec(), gzip(TRACE.as_bytes())] {
        let mut child = trace_info()
            .args(["tables", "-", "--table", "slice"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let csv = Csv::parse(std::str::from_utf8(&output.stdout).unwrap());
        assert_eq!(csv.rows.len(), 3);
    }
}

/// Every format of the slices of two traces lists one trace after the other, and names the trace of
/// each row.
#[test]
fn several_traces_are_one_table() {
    let folder = folder();
    written(folder.path(), "a.json", TRACE.as_bytes());
    written(folder.path(), "b.json.gz", &gzip(TRACE.as_bytes()));
    written(folder.path(), "report.json", b"{\"kernels\": 12}");
    let archive = folder.path().join("two.tar");
    let packed = std::process::Command::new("tar")
        .args(["-cf", "two.tar", "a.json", "b.json.gz"])
        .current_dir(folder.path())
        .status();
    assert!(packed.unwrap().success());
    let one = table(&folder.path().join("a.json"), "slice", &[]);
    let traces = folder.path().join("traces");
    std::fs::create_dir(&traces).unwrap();
    for name in ["a.json", "b.json.gz", "report.json"] {
        fs::rename(folder.path().join(name), traces.join(name)).unwrap();
    }
    for (input, names) in [
        (&archive, ["two.tar!a.json", "two.tar!b.json.gz"]),
        (&traces, ["traces/a.json", "traces/b.json.gz"]),
    ] {
        let both = table(input, "slice", &[]);
        assert_eq!(both.columns[0], "trace");
        assert_eq!(both.columns[1..], one.columns[..]);
        assert_eq!(both.rows.len(), 2 * one.rows.len());
        for (at, row) in both.rows.iter().enumerate() {
            let (name, row) = row.split_first().unwrap();
            let file = at / one.rows.len();
            assert_eq!(name, folder.path().join(names[file]).to_str().unwrap());
            assert_eq!(row, &one.rows[at % one.rows.len()][..]);
        }
        let words = ["tables", input.to_str().unwrap(), "--table", "slice"];
        let (code, text, _) = outcome([&words[..], &["--json"]].concat());
        assert_eq!(code, 0);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rows = document["rows"].as_array().unwrap();
        assert_eq!(rows.len(), both.rows.len());
        assert_eq!(rows[3]["trace"], both.rows[3][0]);
        let file = folder.path().join("slices.parquet");
        let parquet = ["--format", "parquet", "--output", file.to_str().unwrap()];
        assert_eq!(outcome([&words[..], &parquet].concat()).0, 0);
        let reader = ParquetRecordBatchReaderBuilder::try_new(fs::File::open(&file).unwrap());
        let count = reader.unwrap().metadata().file_metadata().num_rows();
        assert_eq!(usize::try_from(count).unwrap(), both.rows.len());
    }
    // A single trace in a folder needs no name.
    fs::remove_file(traces.join("b.json.gz")).unwrap();
    assert_eq!(table(&traces, "slice", &[]).columns, one.columns);
}

#[test]
fn json_rows_equal_csv_rows() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE.as_bytes());
    let (code, text, _) = outcome([
        "tables",
        trace.to_str().unwrap(),
        "--table",
        "slice",
        "--json",
    ]);
    assert_eq!(code, 0);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema_version"], "1.0");
    assert_eq!(document["rows"][1]["ts"], 20_000);
    assert_eq!(document["rows"][0]["name"], "step, \"one\"");
    assert!(document["rows"][0]["parent_id"].is_null());
    assert_eq!(document["columns"].as_array().unwrap().len(), 14);
}

#[test]
fn parquet_read_back_equals_csv() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE.as_bytes());
    let out = folder.path().join("tables");
    let (code, text, errors) = outcome([
        "convert".as_ref(),
        trace.as_os_str(),
        "--to".as_ref(),
        "parquet".as_ref(),
        "--output".as_ref(),
        out.as_os_str(),
    ]);
    assert_eq!((code, text.as_str(), errors.as_str()), (0, "", ""));
    for name in [
        "slice", "flow", "counter", "track", "process", "thread", "args", "stats",
    ] {
        let csv = table(&trace, name, &[]);
        let file = fs::File::open(out.join(format!("{name}.parquet"))).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let metadata = reader
            .metadata()
            .file_metadata()
            .key_value_metadata()
            .unwrap();
        let version = metadata.iter().find(|kv| kv.key == "schema_version");
        assert_eq!(version.unwrap().value.as_deref(), Some("1.0"), "{name}");
        let columns: Vec<String> = reader
            .schema()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect();
        assert_eq!(columns, csv.columns, "{name}");
        let mut rows = Vec::new();
        for batch in reader.build().unwrap() {
            let batch = batch.unwrap();
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter().map(|c| cell(&**c, row));
                rows.push(cells.collect::<Vec<_>>());
            }
        }
        assert_eq!(rows, csv.rows, "{name}");
    }
    // A single table gives the same file.
    let single = folder.path().join("slice.parquet");
    let words = ["--table", "slice", "--format", "parquet", "--output"];
    let mut command = trace_info();
    command.arg("tables").arg(&trace).args(words).arg(&single);
    assert!(command.status().unwrap().success());
    assert_eq!(
        fs::read(single).unwrap().len(),
        fs::read(out.join("slice.parquet")).unwrap().len()
    );
}

#[test]
fn a_perfetto_file_holds_the_same_slices_arrows_and_samples() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE.as_bytes());
    let out = folder.path().join("t.pftrace");
    let mut command = trace_info();
    command
        .arg("convert")
        .arg(&trace)
        .args(["--to", "perfetto", "--output"]);
    let output = command.arg(&out).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    for (name, columns) in [
        (
            "slice",
            &[
                "ts",
                "dur",
                "cat",
                "name",
                "depth",
                "parent_id",
                "pid",
                "tid",
            ][..],
        ),
        ("flow", &["out_ts", "out_name", "in_ts", "in_name"]),
        ("counter", &["ts", "value", "track_name", "pid"]),
        ("thread", &["tid", "name", "pid", "process_name"]),
    ] {
        let (before, after) = (table(&trace, name, &[]), table(&out, name, &[]));
        for column in columns {
            assert_eq!(
                before.column(column),
                after.column(column),
                "{name}.{column}"
            );
        }
        assert!(!before.rows.is_empty());
    }
}

/// Returns a value as written in CSV.
fn cell(column: &dyn arrow_array::Array, row: usize) -> String {
    if column.is_null(row) {
        return String::new();
    }
    let any = column.as_any();
    if let Some(a) = any.downcast_ref::<Int64Array>() {
        a.value(row).to_string()
    } else if let Some(a) = any.downcast_ref::<UInt64Array>() {
        a.value(row).to_string()
    } else if let Some(a) = any.downcast_ref::<StringArray>() {
        a.value(row).to_owned()
    } else {
        let reals = any.downcast_ref::<Float64Array>().unwrap();
        format!("{:?}", reals.value(row))
    }
}

#[test]
fn parquet_needs_a_file() {
    for more in [&[][..], &["--output", "-"]] {
        let mut words = vec![
            "tables", "x.json", "--table", "slice", "--format", "parquet",
        ];
        words.extend(more);
        let (code, out, error) = outcome(words);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(error.contains("--output FILE"), "{error}");
    }
}

#[test]
fn a_missing_output_folder_leaves_nothing_behind() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE.as_bytes());
    let missing = folder.path().join("no/such");
    let trace = trace.to_str().unwrap();
    let table = missing.join("slice.csv");
    for words in [
        vec![
            "tables",
            trace,
            "--table",
            "slice",
            "--output",
            table.to_str().unwrap(),
        ],
        vec![
            "convert",
            trace,
            "--to",
            "parquet",
            "--output",
            missing.to_str().unwrap(),
        ],
        vec![
            "convert",
            trace,
            "--to",
            "perfetto",
            "--output",
            missing.to_str().unwrap(),
        ],
    ] {
        let (code, out, error) = outcome(words);
        assert_eq!((code, out.as_str()), (5, ""));
        assert!(error.contains("create it first"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    assert_eq!(names_in(folder.path()), ["t.json"]);
}

fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_fails_while_reading_leaves_the_output_alone() {
    let folder = folder();
    let bad = written(folder.path(), "bad.json", b"\x89PNG\r\n\x1a\n0123456789");
    let old = written(folder.path(), "old.csv", b"precious");
    for (to, out) in [
        ("perfetto", old.clone()),
        ("parquet", folder.path().join("new")),
    ] {
        let mut command = trace_info();
        command
            .arg("convert")
            .arg(&bad)
            .args(["--to", to, "--output"]);
        assert_eq!(command.arg(&out).output().unwrap().status.code(), Some(3));
    }
    let mut command = trace_info();
    command
        .arg("tables")
        .arg(&bad)
        .args(["--table", "slice", "--output"]);
    assert_eq!(command.arg(&old).output().unwrap().status.code(), Some(3));
    assert_eq!(fs::read(&old).unwrap(), b"precious");
    assert_eq!(names_in(folder.path()), ["bad.json", "old.csv"]);
}

#[test]
fn a_folder_with_something_in_it_is_not_replaced() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE.as_bytes());
    let out = folder.path().join("tables");
    fs::create_dir(&out).unwrap();
    let convert = || {
        let mut command = trace_info();
        command
            .arg("convert")
            .arg(&trace)
            .args(["--to", "parquet", "--output"]);
        command.arg(&out).output().unwrap()
    };
    assert!(convert().status.success(), "an empty folder is replaced");
    assert_eq!(names_in(&out).len(), 8);
    let again = convert();
    assert_eq!(again.status.code(), Some(2));
    let error = String::from_utf8(again.stderr).unwrap();
    assert!(error.contains("exists already"), "{error}");
    assert_eq!(names_in(&out).len(), 8);
    assert_eq!(names_in(folder.path()), ["t.json", "tables"]);
}

#[test]
fn unusable_inputs_are_named_with_a_remedy() {
    let folder = folder();
    let cases = [
        (written(folder.path(), "empty.json", b""), "empty"),
        (
            written(folder.path(), "blank.json", b" \n\t\n  "),
            "the file is empty",
        ),
        (
            written(folder.path(), "p.png", b"\x89PNG\r\n\x1a\n0123456789"),
            "unknown format",
        ),
        (folder.path().join("absent.json"), "no such file"),
        (
            written(folder.path(), "db", b"SQLite format 3\0aaaaaaaaaaaaaaaa"),
            "truncated",
        ),
        (
            written(folder.path(), "cut.gz", &gzip(TRACE.as_bytes())[..12]),
            "cut.gz",
        ),
    ];
    for (path, said) in cases {
        for words in [vec!["summary"], vec!["tables", "--table", "slice"]] {
            let mut command = trace_info();
            let output = command.args(words).arg(&path).output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3), "{error}");
            assert!(output.stdout.is_empty());
            assert!(error.starts_with("trace-info: error: "), "{error}");
            assert!(error.contains(said), "{error} should say {said}");
            assert!(error.contains(path.file_name().unwrap().to_str().unwrap()));
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}

#[test]
fn folders_are_their_traces() {
    let folder = folder();
    let path = folder.path().to_str().unwrap();
    let (code, _, error) = outcome(["convert", "--to", "perfetto", "-o", "x", path]);
    assert_eq!(code, 3);
    assert!(error.contains("is a directory"), "{error}");
    // A folder without traces reports their expected names.
    std::fs::create_dir(folder.path().join("none")).unwrap();
    let (code, _, error) = outcome([folder.path().join("none").to_str().unwrap()]);
    assert_eq!(code, 3);
    assert!(error.contains(".pftrace"), "{error}");
    written(folder.path(), "a.json", TRACE.as_bytes());
    written(folder.path(), "b.json", TRACE.as_bytes());
    written(folder.path(), "report.json", b"{\"kernels\": 12}");
    let (code, text, error) = outcome(["summary", "--json", path]);
    assert_eq!(code, 0, "{error}");
    assert!(
        error.contains("left out 1 JSON file without trace events"),
        "{error}"
    );
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["traces"].as_array().unwrap().len(), 2);
    for command in ["gpu", "kernels", "idle", "launch", "memory"] {
        let (code, text, error) = outcome([command, "-q", path]);
        assert_eq!((code, error.as_str()), (0, ""), "{command}");
        assert!(
            text.contains("\na\n") || text.contains("\na ") || text.starts_with("a\n"),
            "{command}: {text}"
        );
    }
}

#[test]
fn databases_are_traces_each_or_one_as_a_package() {
    let databases = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rocpd");
    let path = databases.to_str().unwrap();
    let traces = |words: &[&str]| -> serde_json::Value {
        let (code, text, error) = outcome(words);
        assert_eq!(code, 0, "{error}");
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["traces"].take()
    };
    let each = traces(&["summary", "--json", path]);
    let each = each.as_array().unwrap();
    assert_eq!(each.len(), 2);
    let folder = folder();
    let index = format!("rocprofiler-sdk:\n  rocpd:\n    files: ['{path}/*.db']\n");
    let index = written(folder.path(), "index.yaml", index.as_bytes());
    let together = traces(&["summary", "--json", index.to_str().unwrap()]);
    assert_eq!(together.as_array().unwrap().len(), 1);
    for key in ["slices", "flows"] {
        let sum: u64 = each.iter().map(|t| t["rows"][key].as_u64().unwrap()).sum();
        assert_eq!(together[0]["rows"][key], sum, "{key}");
    }
    // Each of two processes has kernels on two GPUs: four distinct devices.
    let package = folder.path().to_str().unwrap();
    let (code, text, error) = outcome(["gpu", "--per-device", "--format", "csv", package]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(text.lines().count(), 1 + 4, "{text}");
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = folder();
    let path = written(folder.path(), "secret.json", TRACE.as_bytes());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let place = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_trace-info");
    let mut tool = test_data::unprivileged(program.as_ref(), place.path());
    let output = tool.arg(&path).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(
        error.contains("secret.json") && error.contains("permission denied"),
        "{error}"
    );
}

#[test]
fn a_truncated_gzip_gives_what_it_holds_and_says_so() {
    let folder = folder();
    let mut long = String::from("{\"traceEvents\":[\n");
    for i in 0..20_000_u64 {
        // Varied content, so that the compressed stream is long.
        let name = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        long.push_str(&format!(
            "{{\"ph\":\"X\",\"ts\":{i},\"dur\":1,\"name\":\"{name:x}\",\"pid\":1,\"tid\":1}},\n"
        ));
    }
    long.push_str("{}]}");
    let packed = gzip(long.as_bytes());
    let path = written(folder.path(), "cut.json.gz", &packed[..packed.len() / 2]);
    let output = run(["tables", path.to_str().unwrap(), "--table", "slice"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{error}");
    let rows = Csv::parse(std::str::from_utf8(&output.stdout).unwrap()).rows;
    assert!((5_000..15_000).contains(&rows.len()), "{} rows", rows.len());
    assert!(
        error.contains("warning") && error.contains("cut.json.gz"),
        "{error}"
    );

    let (code, _, error) = outcome([
        "tables",
        path.to_str().unwrap(),
        "--table",
        "slice",
        "--strict",
    ]);
    assert_eq!(code, 3, "{error}");
    let (code, text, _) = outcome(["--check", path.to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(text.contains("INCOMPLETE"), "{text}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = folder();
    let mut long = String::from("[");
    for i in 0..50_000 {
        long.push_str(&format!(
            "{{\"ph\":\"X\",\"ts\":{i},\"dur\":1,\"name\":\"a\",\"pid\":1,\"tid\":1}},\n"
        ));
    }
    let path = written(folder.path(), "long.json", long.as_bytes());
    let mut child = trace_info()
        .args(["tables", path.to_str().unwrap(), "--table", "slice"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut first = [0; 10];
    out.read_exact(&mut first).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_summary_says_what_is_in_the_trace() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE.as_bytes());
    let trace = trace.to_str().unwrap();
    for words in [vec![trace], vec!["summary", trace]] {
        let (code, text, error) = outcome(words);
        assert_eq!((code, error.as_str()), (0, ""));
        for said in [
            "t.json",
            "chrome-json",
            "3 slices",
            "answer     complete; GPU busy 100.00 % of 30.00 µs",
            "top kernel 100.00 % of GPU time, 1 time: gemm",
            "python3",
        ] {
            assert!(text.contains(said), "{text} should say {said}");
        }
        for line in text.lines().filter(|line| !line.contains(trace)) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    let (code, text, _) = outcome([trace, trace, "--json"]);
    assert_eq!(code, 0);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["schema_version"], "1.1");
    let first = &document["traces"][0];
    assert_eq!(first["healthy"], true);
    assert_eq!(first["overview"]["gpu_busy_ns"], 30_000);
    assert_eq!(first["rows"]["slices"], 3);
    assert_eq!(first["rows"]["flows"], 1);
    assert_eq!(first["kernels"]["by_flow"], 1);
    assert_eq!(first["kernels"]["by_correlation"], 1);
    assert_eq!(first["file"]["span_ns"], 100_500);
    assert_eq!(first, &document["traces"][1]);
}

#[test]
fn one_bad_file_among_many_does_not_hide_the_others() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE.as_bytes());
    let (code, text, error) = outcome(["absent.json", trace.to_str().unwrap(), "--json"]);
    assert_eq!(code, 3);
    assert!(error.contains("absent.json: no such file"), "{error}");
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["traces"].as_array().unwrap().len(), 1);
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for words in [
        &[][..],
        &["tables", "t.json"],
        &["tables", "t.json", "--table", "slices"],
        &["tables", "t.json", "--table", "slice", "--format", "xml"],
        &["convert", "t.json", "--to", "parquet"],
    ] {
        let (code, out, error) = outcome(words.iter());
        assert_eq!(code, 2, "{words:?}: {error}");
        assert!(out.is_empty());
    }
}

#[test]
fn help_says_how_to_record_and_fits_the_terminal() {
    for words in [
        &["--help"][..],
        &["summary", "--help"],
        &["tables", "--help"],
        &["convert", "--help"],
        &["comm", "--help"],
        &["diff", "--help"],
    ] {
        let (code, text, _) = outcome(words.iter());
        assert_eq!(code, 0);
        assert!(text.contains("Example"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    let (_, text, _) = outcome(["--help"]);
    for said in [
        "torch.profiler",
        "rocprofv3",
        "tables",
        "convert",
        "summary",
    ] {
        assert!(text.contains(said), "{text}");
    }
}

/// Kernels without launches and without anything of the host, as three recorders write them.
#[test]
fn remedies_are_those_of_the_recorder() {
    let folder = folder();
    let rocprof = r#"{"rocprofiler-sdk-tool":[{"metadata":{"pid":4242},
      "agents":[{"id":{"handle":1},"node_id":1,"logical_node_id":1,"type":2,"name":"gfx942"}],
      "kernel_symbols":[{"kernel_id":7,"formatted_kernel_name":"gemm"}],
      "buffer_records":{"kernel_dispatch":[{"start_timestamp":1000,"end_timestamp":5000,
        "correlation_id":{"internal":1},"dispatch_info":{"agent_id":{"handle":1},"queue_id":{"handle":1},"kernel_id":7}}]}}]}"#;
    let jax = r#"{"traceEvents":[
      {"ph":"M","name":"process_name","pid":1,"args":{"name":"/device:GPU:0"}},
      {"ph":"M","name":"thread_name","pid":1,"tid":13,"args":{"name":"Stream #13(Compute)"}},
      {"ph":"X","ts":10,"dur":5,"name":"gemm","pid":1,"tid":13}]}"#;
    let torch = r#"{"schemaVersion":1,"traceEvents":[
      {"ph":"X","ts":40,"dur":30,"name":"gemm","cat":"kernel","pid":0,"tid":7,"args":{"device":0,"stream":7}}]}"#;
    let flags = ["rocprofv3", "jax.profiler", "ProfilerActivity.CPU"];
    for (own, text) in flags.into_iter().zip([rocprof, jax, torch]) {
        let path = written(folder.path(), "t.json", text.as_bytes());
        let path = path.to_str().unwrap();
        for command in ["launch", "critical-path", "ops"] {
            let (code, said, error) = outcome([command, path]);
            assert_eq!(code, 0, "{command}: {error}");
            assert!(!said.contains("(no rows)"), "{command}: {said}");
            let told = flags.into_iter().filter(|flag| said.contains(flag));
            assert_eq!(told.collect::<Vec<_>>(), [own], "{command}: {said}");
        }
        fs::remove_file(path).unwrap();
    }
}

/// A database whose dispatches were replayed for counters: each command that counts them tells.
#[test]
fn replayed_kernels_are_told() {
    let folder = folder();
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/rocpd");
    let path = folder.path().join("replay.db");
    fs::copy(testdata.join("host-0_4000_0_results.db"), &path).unwrap();
    let plain = rusqlite::Connection::open(&path).unwrap();
    let find = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'rocpd_kernel_dispatch%'";
    let table: String = plain.query_row(find, [], |row| row.get(0)).unwrap();
    let has_pass = format!("SELECT replay_pass FROM \"{table}\" LIMIT 1");
    if plain.prepare(&has_pass).is_err() {
        let add = format!("ALTER TABLE \"{table}\" ADD COLUMN replay_pass INTEGER");
        plain.execute(&add, []).unwrap();
    }
    drop(plain);
    let path = path.to_str().unwrap();
    let told = "further passes of kernel replay";
    for command in ["kernels", "gpu", "launch"] {
        assert!(!outcome([command, path]).1.contains(told), "{command}");
    }
    let plain = rusqlite::Connection::open(path).unwrap();
    let set = format!("UPDATE \"{table}\" SET replay_pass = id % 2 WHERE id <= 4");
    assert_eq!(plain.execute(&set, []).unwrap(), 4);
    drop(plain);
    for command in ["kernels", "gpu", "launch"] {
        let (code, said, error) = outcome([command, path]);
        assert_eq!(code, 0, "{error}");
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains(&format!("2 dispatches are {told} (2 passes)")),
            "{command}: {said}"
        );
    }
}

#[test]
fn no_output_replaces_the_trace() {
    let folder = folder();
    let trace = written(folder.path(), "t.json", TRACE.as_bytes());
    let path = trace.to_str().unwrap();
    for words in [
        &["summary", path][..],
        &["tables", path, "--table", "slice"],
        &["convert", path, "--to", "perfetto"],
        &["gpu", path],
        &["diff", path, path],
    ] {
        let (code, _, said) = outcome([words, &["--output", path]].concat());
        assert_eq!(code, 2, "{words:?}: {said}");
        assert!(said.contains("would replace"), "{words:?}: {said}");
    }
    assert_eq!(fs::read_to_string(&trace).unwrap(), TRACE);
}
