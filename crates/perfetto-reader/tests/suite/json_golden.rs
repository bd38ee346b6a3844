//! Compares traces row by row with the tables of Perfetto's trace processor, in compat mode.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use byte_source::{OpenOptions, Source};
use perfetto_reader::{ReadOptions, json};
use serde_json::Value;
use trace_model::{ArgValue, Slice, Trace, Track, TrackKind};

/// Returns the folder of the reference data of these tests.
fn data() -> PathBuf {
    test_data::reference("perfetto")
}

type Row = Vec<Option<String>>;

/// Returns a table by its name without suffix, without its header.
fn table(dir: &Path, name: &str) -> Vec<Row> {
    let path = [format!("{name}.csv"), format!("{name}.csv.gz")]
        .into_iter()
        .map(|n| dir.join(n))
        .find(|p| p.exists());
    let Some(path) = path else {
        return Vec::new();
    };
    let mut text = String::new();
    Source::open(path, &OpenOptions::default())
        .and_then(Source::into_read)
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let mut rows = Vec::new();
    let mut row = Row::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let field;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut out = String::new();
            let mut chars = quoted.char_indices();
            let mut end = quoted.len();
            while let Some((i, c)) = chars.next() {
                if c != '"' {
                    out.push(c);
                } else if quoted[i + 1..].starts_with('"') {
                    chars.next();
                    out.push('"');
                } else {
                    end = i + 1;
                    break;
                }
            }
            rest = &quoted[end..];
            field = Some(out);
        } else {
            let end = rest.find([',', '\n']).unwrap_or(rest.len());
            field = (&rest[..end] != "\\N").then(|| rest[..end].trim_end_matches('\r').to_owned());
            rest = &rest[end..];
        }
        row.push(field);
        let ends_row = !rest.starts_with(',');
        rest = rest.get(1..).unwrap_or("");
        if ends_row {
            rows.push(std::mem::take(&mut row));
        }
    }
    rows.remove(0);
    rows
}

fn read(path: &Path) -> Trace {
    let mut options = ReadOptions::default();
    options.compat = true;
    json::read(
        Source::open(path, &OpenOptions::default()).unwrap(),
        &options,
    )
    .unwrap()
}

fn some(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

/// A number without meaning in either table.
const ANY: &str = "*";

fn pid(trace: &Trace, track: &Track) -> Option<String> {
    let process = trace.process(track.process?);
    some(if process.artificial {
        ANY.to_owned()
    } else {
        process.pid.to_string()
    })
}

fn tid(trace: &Trace, track: &Track) -> Option<String> {
    let thread = trace.thread(track.thread?);
    let is_artificial =
        thread.artificial || thread.process.is_some_and(|p| trace.process(p).artificial);
    some(if is_artificial {
        ANY.to_owned()
    } else {
        thread.tid.to_string()
    })
}

fn slice_row(slice: Slice<'_>) -> Row {
    let trace = slice.trace();
    let track = slice.track();
    let thread_time = slice.thread_time();
    vec![
        some(slice.id()),
        some(slice.ts()),
        some(slice.dur().map_or(-1, |d| d.get())),
        slice.category().map(str::to_owned),
        slice.name().map(str::to_owned),
        some(slice.depth()),
        slice.parent().map(|p| p.id().to_string()),
        some(track.kind.type_name()),
        track.name.map(|n| trace.text(n).to_owned()),
        pid(trace, track),
        tid(trace, track),
        thread_time.map(|t| t.0.to_string()),
        thread_time.and_then(|t| t.1).map(|d| d.to_string()),
    ]
}

fn check_slices(name: &str, trace: &Trace, golden: &[Row]) {
    // Rows that share a lane: a one-to-one relation where lanes are not merged for display.
    let (mut ours, mut theirs) = (BTreeMap::new(), BTreeMap::new());
    for (slice, expected) in trace.slices().zip(golden) {
        let mut row = slice_row(slice);
        for at in [9, 10] {
            if row[at].as_deref() == Some(ANY) {
                row[at].clone_from(&expected[at]);
            }
        }
        assert_eq!(row, expected[..13], "{name}: slice {}", slice.id());
        if !slice.track().kind.is_merged() {
            let lane = expected[13].clone();
            assert_eq!(
                *ours.entry(slice.track_id()).or_insert(lane.clone()),
                lane,
                "{name}"
            );
            let track = *theirs.entry(lane).or_insert(slice.track_id());
            assert_eq!(track, slice.track_id(), "{name}");
        }
    }
    assert_eq!(trace.len(), golden.len(), "{name}: number of slices");
}

fn check_flows(name: &str, trace: &Trace, golden: &[Row]) {
    for (i, (flow, expected)) in trace.flows().iter().zip(golden).enumerate() {
        let row = vec![
            some(i),
            some(flow.from),
            some(flow.to),
            flow.category.map(|s| trace.text(s).to_owned()),
            flow.name.map(|s| trace.text(s).to_owned()),
        ];
        assert_eq!(row, expected[..5], "{name}: flow {i}");
    }
    assert_eq!(trace.flows().len(), golden.len(), "{name}: number of flows");
}

fn check_counters(name: &str, trace: &Trace, golden: &[Row]) {
    let mut samples: Vec<_> = trace.counters().iter().collect();
    let label = |t: &Track| t.name.map_or("", |n| trace.text(n));
    samples.sort_by_key(|s| (s.ts, label(trace.track(s.track))));
    for (sample, expected) in samples.iter().zip(golden) {
        let track = trace.track(sample.track);
        assert_eq!(expected[0], some(sample.ts), "{name}");
        assert_eq!(
            expected[1].as_ref().unwrap().parse(),
            Ok(sample.value),
            "{name}"
        );
        assert_eq!(expected[2], some(track.kind.type_name()), "{name}");
        assert_eq!(expected[3], some(label(track)), "{name}");
        assert_eq!(expected[5], pid(trace, track), "{name}");
    }
    assert_eq!(samples.len(), golden.len(), "{name}: number of samples");
}

/// Compares threads by name, without arbitrary numbers and the idle thread.
fn check_threads(name: &str, trace: &Trace, golden: &[Row]) {
    type Key = (
        Option<String>,
        Option<String>,
        Option<String>,
        Option<String>,
    );
    let mut ours: BTreeSet<Key> = BTreeSet::new();
    let mut artificial = BTreeSet::new();
    for thread in trace.threads() {
        let process = trace.process(thread.process.unwrap());
        let process_name = process.name.map(|n| trace.text(n).to_owned());
        if process.artificial {
            artificial.insert(process_name.clone());
        }
        let number = |n: String, is_any: bool| Some(if is_any { ANY.to_owned() } else { n });
        ours.insert((
            number(
                thread.tid.to_string(),
                thread.artificial || process.artificial,
            ),
            thread.name.map(|n| trace.text(n).to_owned()),
            number(process.pid.to_string(), process.artificial),
            process_name,
        ));
    }
    let mut theirs: BTreeSet<Key> = BTreeSet::new();
    for row in golden {
        let [tid, thread_name, pid, process_name] = row.as_slice() else {
            panic!("{name}: {row:?}");
        };
        let is_any = process_name.is_some() && artificial.contains(process_name);
        let number = |n: &Option<String>| if is_any { some(ANY) } else { n.clone() };
        let key = (
            number(tid),
            thread_name.clone(),
            number(pid),
            process_name.clone(),
        );
        theirs.insert(key);
    }
    let idle = (some(0), None, some(0), None);
    ours.remove(&idle);
    theirs.remove(&idle);
    assert_eq!(ours, theirs, "{name}: threads");
}

fn flatten(key: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Null => {}
        Value::Array(list) => {
            for (i, v) in list.iter().enumerate() {
                flatten(&format!("{key}[{i}]"), v, into);
            }
        }
        Value::Object(map) => {
            for (k, v) in map {
                flatten(&format!("{key}.{k}"), v, into);
            }
        }
        scalar => {
            into.insert(key.to_owned(), scalar.clone());
        }
    }
}

fn check_args(name: &str, trace: &Trace, golden: &[Row]) {
    let mut ours = BTreeMap::new();
    for slice in trace.slices() {
        let mut flat = BTreeMap::new();
        for (key, value) in slice.args() {
            let value = match value {
                ArgValue::Int(n) => Value::from(n),
                ArgValue::UInt(n) => Value::from(n),
                ArgValue::Real(x) => Value::from(x),
                ArgValue::Bool(b) => Value::from(b),
                ArgValue::Str(s) => Value::from(s),
                ArgValue::Json(raw) => serde_json::from_str(raw).unwrap(),
                other => panic!("{other:?}"),
            };
            flatten(key, &value, &mut flat);
        }
        for (key, value) in flat {
            ours.insert((slice.id().index(), key), value);
        }
    }
    assert_eq!(ours.len(), golden.len(), "{name}: number of arguments");
    for row in golden {
        let field = |i: usize| row[i].clone().unwrap();
        let key = (field(0).parse().unwrap(), field(2));
        let value = ours.get(&key).unwrap_or_else(|| panic!("{name}: {key:?}"));
        match (field(3).as_str(), value) {
            ("int", v) => assert_eq!(v.to_string(), field(4), "{name}: {key:?}"),
            ("bool", v) => assert_eq!(v.to_string(), field(4), "{name}: {key:?}"),
            ("string", v) => assert_eq!(v.as_str(), Some(field(4).as_str()), "{name}: {key:?}"),
            // The reference shows integers above 2^63 as negative reals.
            ("real", Value::Number(n)) if n.is_u64() => {}
            ("real", v) => {
                let (a, b): (f64, f64) = (v.as_f64().unwrap(), field(4).parse().unwrap());
                assert!((a - b).abs() <= 1e-14 * b.abs(), "{name}: {key:?} {a} {b}");
            }
            (kind, _) => panic!("{name}: {kind}"),
        }
    }
}

fn json_goldens(data: &Path) -> Vec<(String, PathBuf)> {
    let mut names: Vec<String> = std::fs::read_dir(data.join("golden"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.contains(".json"))
        .collect();
    names.sort();
    let find = |n: &str| {
        ["synth", "traces"]
            .into_iter()
            .map(|d| data.join(d).join(n))
            .find(|p| p.exists())
            .unwrap()
    };
    names.into_iter().map(|n| (n.clone(), find(&n))).collect()
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn every_table_matches_row_by_row() {
    let data = data();
    let mut compared = 0;
    for (name, path) in json_goldens(&data) {
        let dir = data.join("golden").join(&name);
        if dir.join("load_error.txt").exists() {
            continue;
        }
        let trace = read(&path);
        check_slices(&name, &trace, &table(&dir, "slices"));
        check_flows(&name, &trace, &table(&dir, "flows"));
        check_counters(&name, &trace, &table(&dir, "counters"));
        check_threads(&name, &trace, &table(&dir, "threads"));
        let args = dir.join("args.csv");
        if args.exists() {
            check_args(&name, &trace, &table(&dir, "args"));
        }
        compared += 1;
    }
    assert!(compared >= 17, "only {compared} tables found");
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn files_that_the_reference_rejects_are_read() {
    let data = data();
    let names = |file: &str| -> Vec<String> {
        let trace = read(&data.join("synth").join(file));
        trace
            .slices()
            .map(|s| s.name().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names("js_surrogates.json"), ["\u{1f600} ok", "plain"]);
    assert_eq!(names("js_object_truncated.json"), ["a", "b"]);
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn device_rows_are_kept_apart_by_default() {
    let data = data();
    let source = Source::open(data.join("synth/js_misc.json"), &OpenOptions::default()).unwrap();
    let trace = json::read(source, &ReadOptions::default()).unwrap();
    let row = |name: &str| {
        let slice = trace.slices().find(|s| s.name() == Some(name)).unwrap();
        let thread = trace.thread(slice.track().thread.unwrap());
        let process = trace.process(thread.process.unwrap());
        (process.pid.0, thread.tid.0, slice.track().kind)
    };
    assert_eq!(row("dev2 stream0"), (2, 0, TrackKind::Thread));
    assert_eq!(row("dev2 stream2"), (2, 2, TrackKind::Thread));
    assert_eq!(row("pid -1"), (-1, -1, TrackKind::Thread));
}
