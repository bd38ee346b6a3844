//! Tests that traces written as Chrome JSON read back unchanged.

use std::path::{Path, PathBuf};

use crate::write_support::{arrows, assert_same, rows, samples};
use byte_source::{OpenOptions, Source};
use perfetto_reader::ReadOptions;
use perfetto_reader::write::write_chrome_json;
use trace_model::{ArgValue, IssueKind, Severity, Trace, bare_key};

fn read_file(path: &Path) -> Trace {
    let source = Source::open(path, &OpenOptions::default()).unwrap();
    perfetto_reader::read(source, &ReadOptions::default()).unwrap()
}

fn written(trace: &Trace) -> Trace {
    let bytes = write_chrome_json(trace, Vec::new()).unwrap();
    // Other readers must accept the file as well.
    let text = std::str::from_utf8(&bytes).unwrap();
    let document: serde_json::Value = serde_json::from_str(text).unwrap();
    assert!(document["traceEvents"].is_array());
    let source = Source::from_bytes("written.json", bytes).unwrap();
    let back = perfetto_reader::read(source, &ReadOptions::default()).unwrap();
    // Slices that overlap do so in the copy as well.
    let issues = back.diagnostics().issues().iter();
    for issue in issues.filter(|issue| issue.kind != IssueKind::Overlap) {
        assert_eq!(issue.kind.severity(), Severity::Info, "{issue:?}");
    }
    back
}

fn check(path: &Path) {
    let before = read_file(path);
    assert!(!before.is_empty(), "{} has slices", path.display());
    let after = written(&before);
    assert_same(&before, &after);
    let meta = |trace: &Trace| {
        let meta = trace.meta();
        let job = meta.distributed.clone();
        (meta.base_time_ns, meta.entries.clone(), job)
    };
    assert_eq!(meta(&before), meta(&after), "{}", path.display());
}

/// Slices as far as both formats have them, sorted: time, duration, name, category and arguments.
fn contents(trace: &Trace) -> Vec<String> {
    let mut all: Vec<String> = trace
        .slices()
        .map(|slice| {
            // The device and the queue may come from the name of the track.
            let all = slice.args();
            let all = all.filter(|(key, _)| !matches!(bare_key(key), "device" | "stream"));
            let mut args: Vec<String> = all
                .map(|(key, value)| match value {
                    // JSON has no such numbers.
                    ArgValue::Real(x) if !x.is_finite() => {
                        format!("{}={:?}", bare_key(key), ArgValue::Str(&x.to_string()))
                    }
                    ArgValue::Pointer(n) => {
                        format!("{}=Str(\"{n:#x}\")", bare_key(key))
                    }
                    ArgValue::UInt(n) => match i64::try_from(n) {
                        Ok(n) => format!("{}=Int({n})", bare_key(key)),
                        Err(_) => format!("{}=UInt({n})", bare_key(key)),
                    },
                    value => format!("{}={value:?}", bare_key(key)),
                })
                .collect();
            args.sort();
            let (ts, dur) = (slice.ts().nanos(), slice.dur());
            format!(
                "{ts} {dur:?} {:?} {:?} {args:?}",
                slice.name(),
                slice.category()
            )
        })
        .collect();
    all.sort();
    all
}

fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        let name = path.to_string_lossy();
        endings.iter().any(|end| name.ends_with(end)) && !name.contains(".truth.")
    });
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn testdata(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata")
        .join(folder)
}

#[test]
fn the_demonstration_trace_reads_back() {
    check(&testdata("demo").join("demo-rank0.json.gz"));
}

/// Kineto recordings with one difficulty each keep all that a trace has.
#[test]
fn odd_recordings_read_back() {
    for path in files(&testdata("kineto"), &[".json", ".json.gz"]) {
        let before = read_file(&path);
        if before.is_empty() {
            continue;
        }
        let after = written(&before);
        assert_eq!(contents(&before), contents(&after), "{}", path.display());
        assert_eq!(samples(&before), samples(&after), "{}", path.display());
        let count = |trace: &Trace| arrows(trace).values().sum::<usize>();
        assert_eq!(count(&before), count(&after), "{}", path.display());
    }
}

#[test]
fn traces_of_perfetto_read_back_as_json() {
    for path in files(&testdata("perfetto"), &[".pftrace"]) {
        let before = read_file(&path);
        let after = written(&before);
        assert_eq!(contents(&before), contents(&after), "{}", path.display());
        assert_eq!(before.counters().len(), after.counters().len());
        let count = |trace: &Trace| arrows(trace).values().sum::<usize>();
        assert_eq!(count(&before), count(&after), "{}", path.display());
        assert_eq!(before.meta().base_time_ns, after.meta().base_time_ns);
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn real_traces_read_back() {
    for path in files(
        &test_data::reference("perfetto/traces"),
        &[".json", ".json.gz"],
    ) {
        check(&path);
    }
}

/// Writing what was read back gives the same bytes.
#[test]
fn a_second_conversion_changes_nothing() {
    let before = read_file(&testdata("demo").join("demo-rank0.json.gz"));
    let first = write_chrome_json(&before, Vec::new()).unwrap();
    let second = write_chrome_json(&written(&before), Vec::new()).unwrap();
    assert!(first == second);
    assert_eq!(rows(&before).len(), before.len());
}
