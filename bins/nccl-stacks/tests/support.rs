//! Shared by the tests of this tool: running it, and finding data.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Returns the folder of the reference data of these tests.
pub(crate) fn data() -> PathBuf {
    test_data::reference("perfetto")
}

/// Returns the path of a file of the demonstration traces.
pub(crate) fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/demo")
        .join(name)
}

/// Reads a JSON file.
pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read(path).expect("the file exists");
    serde_json::from_slice(&text).expect("the file is JSON")
}

/// Runs the tool in `folder` with empty standard input.
pub(crate) fn run_in(folder: &Path, args: &[&str]) -> Output {
    run_with(folder, args, b"")
}

/// Runs the tool in `folder` with `stdin` as standard input.
pub(crate) fn run_with(folder: &Path, args: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nccl-stacks"))
        .args(args)
        .current_dir(folder)
        .env_remove("COLUMNS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool starts");
    // A tool that does not read its input closes it early.
    let _ = child
        .stdin
        .take()
        .expect("stdin is a pipe")
        .write_all(stdin);
    child.wait_with_output().expect("the tool ends")
}

/// Runs the tool and returns its JSON document.
pub(crate) fn report(folder: &Path, args: &[&str]) -> Value {
    let mut args = args.to_vec();
    args.push("--json");
    let out = run_in(folder, &args);
    assert!(
        out.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).expect("the report is JSON")
}

/// Returns the texts of a JSON list.
pub(crate) fn texts(list: &Value) -> Vec<&str> {
    let list = list.as_array().expect("a list");
    list.iter().filter_map(Value::as_str).collect()
}

/// Builds a small Kineto trace event by event; times in nanoseconds.
#[derive(Default)]
pub(crate) struct Made {
    events: Vec<Value>,
    /// Members of the document other than its events.
    pub(crate) head: serde_json::Map<String, Value>,
}

/// Formats nanoseconds as the decimal microseconds of the format.
fn micros(ns: i64) -> Value {
    let sign = if ns < 0 { "-" } else { "" };
    let text = format!("{sign}{}.{:03}", ns.abs() / 1000, ns.abs() % 1000);
    serde_json::from_str(&text).expect("a number")
}

impl Made {
    /// Adds a slice `(ts, dur)` on a row `(pid, tid)`; an empty category is left out.
    pub(crate) fn slice(
        &mut self,
        row: (i64, i64),
        (ts, dur): (i64, i64),
        (category, name): (&str, &str),
        args: Value,
    ) -> &mut Self {
        let mut event = serde_json::json!({
            "ph": "X", "name": name, "pid": row.0, "tid": row.1,
            "ts": micros(ts), "dur": micros(dur), "args": args,
        });
        if !category.is_empty() {
            event["cat"] = category.into();
        }
        self.events.push(event);
        self
    }

    /// Adds a flow arrow between instants on rows.
    pub(crate) fn arrow(
        &mut self,
        id: i64,
        from: ((i64, i64), i64),
        to: ((i64, i64), i64),
    ) -> &mut Self {
        for (ph, (row, ts)) in [("s", from), ("f", to)] {
            self.events.push(serde_json::json!({
                "ph": ph, "id": id, "name": "ac2g", "cat": "ac2g", "bp": "e",
                "pid": row.0, "tid": row.1, "ts": micros(ts),
            }));
        }
        self
    }

    /// Adds a kernel `k` at `ts` for 100 ns on device 0, stream 7, and its launch of 10 ns on
    /// `row`, with correlation id and flow arrow.
    pub(crate) fn launched(
        &mut self,
        row: (i64, i64),
        id: i64,
        launch: i64,
        ts: i64,
        kernel: &str,
    ) -> &mut Self {
        let args = serde_json::json!({ "correlation": id });
        self.slice(
            row,
            (launch, 10),
            ("cuda_runtime", "cudaLaunchKernel"),
            args.clone(),
        )
        .slice((0, 7), (ts, 100), ("kernel", kernel), args)
        .arrow(id, (row, launch), ((0, 7), ts))
    }

    /// Writes the file into `folder`.
    pub(crate) fn write(&self, folder: &Path, name: &str) {
        let mut document = self.head.clone();
        document.insert("traceEvents".into(), self.events.clone().into());
        let text = serde_json::to_vec(&document).expect("JSON");
        std::fs::write(folder.join(name), text).expect("the folder can be written");
    }
}

/// Returns the frames (innermost first) and launches of each stack of a report.
pub(crate) fn stacks(report: &Value) -> Vec<(Vec<String>, u64)> {
    let all = report["stacks"].as_array().expect("a list");
    all.iter()
        .map(|s| {
            let frames = texts(&s["frames"]).into_iter().rev();
            let launches = s["launches"].as_u64().expect("a count");
            (frames.map(str::to_owned).collect(), launches)
        })
        .collect()
}

/// Returns standard error as text.
pub(crate) fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Returns standard output as text.
pub(crate) fn stdout(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned()
}
