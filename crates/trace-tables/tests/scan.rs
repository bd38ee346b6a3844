//! Tests the tables of the catalogue against the store and the analyses, and the guide against the catalogue.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::collections::BTreeMap;
use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{Array as _, RecordBatch};
use arrow_schema::DataType;
use gpu_time::{GpuWork, KernelOptions, KernelsBy, idle, kernels, launches};
use trace_tables::catalogue::{ArgKeys, TABLES, markdown, table};
use trace_tables::{Recording, Request, Table, TableOptions, scan};

fn recording(name: &str) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata")
        .join(name);
    let source = byte_source::Source::open(&path, &byte_source::OpenOptions::default()).unwrap();
    let trace = perfetto_reader::read(source, &perfetto_reader::ReadOptions::default()).unwrap();
    Recording::new(3, name, trace)
}

/// Returns the cells of a table as text, null as `-`.
fn rows(recording: &Recording, name: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let table = table(name).unwrap();
    let all: Vec<&str> = table.columns().map(|column| column.name).collect();
    let place = |name: &&str| all.iter().position(|column| column == name).unwrap();
    let mut request = Request::columns(columns.iter().map(place).collect());
    request.batch_rows = 100;
    let mut rows = Vec::new();
    scan(recording, table, &request, &mut |batch| {
        assert!(batch.num_rows() <= 100);
        rows.extend((0..batch.num_rows()).map(|row| cells(&batch, row)));
        true
    })
    .unwrap();
    rows
}

fn cells(batch: &RecordBatch, row: usize) -> Vec<String> {
    let cell = |array: &arrow_array::ArrayRef| {
        if array.is_null(row) {
            return "-".to_owned();
        }
        match array.data_type() {
            DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
            DataType::Float64 => array.as_primitive::<Float64Type>().value(row).to_string(),
            DataType::Boolean => array.as_boolean().value(row).to_string(),
            _ => {
                let texts = array.as_dictionary::<Int32Type>();
                let key = texts.key(row).unwrap();
                texts.values().as_string::<i32>().value(key).to_owned()
            }
        }
    };
    batch.columns().iter().map(cell).collect()
}

#[test]
fn every_table_has_its_columns_and_no_row_depends_on_the_batches() {
    let recording = recording("demo/demo-rank0.json.gz");
    for table in TABLES.iter().filter(|table| table.name != "findings") {
        let columns: Vec<&str> = table.columns().map(|column| column.name).collect();
        let small = rows(&recording, table.name, &columns);
        let mut whole = Vec::new();
        let mut batches = 0;
        let request = Request::all(table);
        scan(&recording, table, &request, &mut |batch| {
            assert_eq!(batch.schema(), table.schema());
            batches += 1;
            whole.extend((0..batch.num_rows()).map(|row| cells(&batch, row)));
            true
        })
        .unwrap();
        assert_eq!(small, whole, "{}", table.name);
        // The demo has no counters.
        if table.name == "counters" {
            continue;
        }
        assert!(!whole.is_empty(), "{}", table.name);
        assert!(
            whole.iter().all(|row| row[0] == "3" && row[1] == "0"),
            "{}",
            table.name
        );
        if let Some(sorted) = table.sorted_by {
            let at = columns.iter().position(|name| *name == sorted).unwrap();
            let times: Vec<i64> = whole.iter().map(|row| row[at].parse().unwrap()).collect();
            assert!(times.is_sorted(), "{}", table.name);
        }
        // A scan ends when no more is wanted.
        let mut seen = 0;
        scan(&recording, table, &request, &mut |_| {
            seen += 1;
            false
        })
        .unwrap();
        assert_eq!(seen, 1);
    }
}

#[test]
fn slices_and_arguments_are_those_of_the_store() {
    let recording = recording("demo/demo-rank0.json.gz");
    let trace = &recording.trace;
    let found = rows(
        &recording,
        "slices",
        &["id", "ts", "dur", "name", "category", "parent_id"],
    );
    assert_eq!(found.len(), trace.len());
    for (row, slice) in found.iter().zip(trace.slices()) {
        let id = |slice: trace_model::SliceId| ((3_i64 << 32) + slice.index() as i64).to_string();
        let expected = [
            id(slice.id()),
            slice.ts().nanos().to_string(),
            slice.dur().map_or(-1, |dur| dur.get()).to_string(),
            slice.name().unwrap_or("-").to_owned(),
            slice.category().unwrap_or("-").to_owned(),
            slice
                .parent()
                .map_or("-".to_owned(), |parent| id(parent.id())),
        ];
        assert_eq!(row.as_slice(), expected.as_slice());
    }
    let mut csv = Vec::new();
    let mut sink = report::Format::Csv.sink(&mut csv);
    Table::Args
        .write(trace, &TableOptions::default(), &mut *sink)
        .unwrap();
    drop(sink);
    let lines = String::from_utf8(csv).unwrap().lines().count() - 1;
    let args = rows(
        &recording,
        "args",
        &[
            "value_type",
            "int_value",
            "string_value",
            "real_value",
            "display_value",
        ],
    );
    assert_eq!(args.len(), lines);
    for row in args {
        let typed = match row[0].as_str() {
            "int" => &row[1],
            "string" | "json" => &row[2],
            "real" => &row[3],
            _ => continue,
        };
        assert!(
            *typed == row[4] || typed.parse::<f64>().ok() == row[4].parse().ok(),
            "{row:?}"
        );
    }
}

#[test]
fn a_request_leaves_out_what_it_does_not_want() {
    let recording = recording("demo/demo-rank0.json.gz");
    let table = table("slices").unwrap();
    let all = rows(&recording, "slices", &["ts", "name"]);
    let times: Vec<i64> = all.iter().map(|row| row[0].parse().unwrap()).collect();
    let (from, to) = (times[times.len() / 3], times[times.len() / 2]);
    let name = all[times.len() / 2][1].clone();
    let mut request = Request::columns(vec![3, 7]);
    assert_eq!(request.arg_keys(table), ArgKeys::None);
    request.between = Some((from, to));
    let read = |request: &Request| {
        let mut found = Vec::new();
        scan(&recording, table, request, &mut |batch| {
            found.extend((0..batch.num_rows()).map(|row| cells(&batch, row)));
            true
        })
        .unwrap();
        found
    };
    let inside = |row: &&Vec<String>| (from..=to).contains(&row[0].parse().unwrap());
    let expected: Vec<Vec<String>> = all.iter().filter(inside).cloned().collect();
    assert_eq!(read(&request), expected);
    request.names = Some(vec![name.clone(), "no such name".to_owned()]);
    let named: Vec<Vec<String>> = expected.into_iter().filter(|row| row[1] == name).collect();
    assert_eq!(read(&request), named);
}

#[test]
fn gpu_tables_add_up_to_what_the_analyses_state() {
    let recording = recording("demo/demo-rank0.json.gz");
    let work = GpuWork::new(&recording.trace);
    let sum = |rows: &[Vec<String>], at: usize| -> i64 {
        rows.iter()
            .filter_map(|row| row[at].parse::<i64>().ok())
            .sum()
    };
    for (by, column) in [
        (KernelsBy::Name, "name"),
        (KernelsBy::Class, "class"),
        (KernelsBy::Operator, "operator"),
        (KernelsBy::Module, "module"),
    ] {
        let mut options = KernelOptions::default();
        options.by = by;
        let stated = kernels(&work, work.events(), &options);
        let mut groups: BTreeMap<String, i64> = BTreeMap::new();
        for row in rows(&recording, "kernels", &[column, "dur"]) {
            *groups.entry(row[0].clone()).or_default() += row[1].parse::<i64>().unwrap();
        }
        let named = |name: &str| match name.starts_with('(') {
            true => "-".to_owned(),
            false => name.to_owned(),
        };
        let mut expected: BTreeMap<String, i64> = BTreeMap::new();
        for group in &stated.groups {
            *expected.entry(named(&group.name)).or_default() += group.spread.sum_ns;
        }
        assert_eq!(groups, expected, "{column}");
    }
    let found = rows(
        &recording,
        "launches",
        &["latency_ns", "in_call_ns", "queued_ns", "dispatch_ns"],
    );
    let stated = launches(&work, 0);
    assert_eq!(found.len() as u64, stated.linked);
    let total = &stated.rows[0].times;
    assert_eq!(sum(&found, 0), total.latency.sum_ns);
    assert_eq!(sum(&found, 2), total.queued.sum_ns);
    let gaps = rows(&recording, "gaps", &["dur", "host_wait_ns", "other_ns"]);
    let stated = idle(&work, 0);
    assert_eq!(sum(&gaps, 0), stated.rows[0].time.idle_ns);
    assert_eq!(sum(&gaps, 1), stated.rows[0].time.host_wait_ns);
    // The groups of a step add up to its time, and steps to the window.
    let steps = rows(
        &recording,
        "steps",
        &[
            "dur",
            "gpu_ns",
            "comm_ns",
            "launch_ns",
            "host_ns",
            "sync_ns",
            "wait_ns",
            "input_ns",
            "unknown_ns",
        ],
    );
    assert!(steps.len() > 1);
    for step in &steps {
        let numbers: Vec<i64> = step.iter().map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(numbers[0], numbers[1..].iter().sum::<i64>());
    }
    // Every kernel with a launch has a stack whose last frame is the call.
    let frames = rows(&recording, "stacks", &["id", "depth", "frame"]);
    let mut last: BTreeMap<String, (i64, String)> = BTreeMap::new();
    for frame in frames {
        let depth: i64 = frame[1].parse().unwrap();
        let slot = last
            .entry(frame[0].clone())
            .or_insert((depth, frame[2].clone()));
        if depth >= slot.0 {
            *slot = (depth, frame[2].clone());
        }
    }
    let calls: BTreeMap<String, String> = rows(&recording, "slices", &["id", "name"])
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    let mut linked = 0;
    for kernel in rows(&recording, "kernels", &["kind", "launch_id", "stack_id"]) {
        if kernel[0] == "kernel" && kernel[1] != "-" {
            linked += 1;
            assert_eq!(last[&kernel[2]].1, calls[&kernel[1]]);
        }
    }
    assert!(linked > 0);
}

#[test]
fn the_guide_is_that_of_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/tables.md");
    let made = markdown();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(path).unwrap(),
        made,
        "BLESS=1 renews docs/guide/tables.md"
    );
}

#[test]
fn runs_are_told_apart_by_their_folders() {
    let runs = |files: &[&str]| {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        let runs = trace_tables::scan::runs_of(&files).into_iter();
        runs.map(Option::unwrap_or_default).collect::<Vec<_>>()
    };
    assert_eq!(
        runs(&["/a/out/t.json", "/a/out/u.json", "/b/new/t.json"]),
        ["out", "out", "new"]
    );
    assert_eq!(
        runs(&["/d1/out/t.json", "/d2/out/t.json"]),
        ["d1/out", "d2/out"]
    );
    assert_eq!(
        runs(&["/x/d1/out/t.json", "/y/d1/out/t.json", "/out/t.json"]),
        ["x/d1/out", "y/d1/out", "out"]
    );
    // One folder in two spellings; a member of an archive; a file without a folder.
    assert_eq!(runs(&["d/t.json", "./d/t.json"]), ["d", "d"]);
    assert_eq!(runs(&["/a/out/j.tar!d/t.json", "t.json"]), ["out", ""]);
}
