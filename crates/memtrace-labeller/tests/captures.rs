//! Real captures, against what is known of the programs that were captured.

#![expect(
    clippy::unwrap_used,
    dead_code,
    reason = "a failed step fails the test; what is shared is not all used here"
)]

mod support;

use std::path::Path;

use byte_source::{OpenOptions, Source};
use memtrace_labeller::{Access, InputOptions, MemrayReader, Name, Names, ReadReport, RowStream};
use support::{data, read};

fn rows(path: &Path) -> (Vec<Access>, Names, ReadReport) {
    let mut names = Names::new();
    let mut stream =
        RowStream::open_path(path, &OpenOptions::default(), &InputOptions::default()).unwrap();
    let mut rows = Vec::new();
    while stream.next_batch(&mut names, &mut rows).unwrap() {}
    let report = stream.report();
    (rows, names, report)
}

/// Word A was written once and read 60 times, word B written 20 times and read 40: in the file and in its texts.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn breakpoints_hit_as_often_as_the_program_touched_the_words() {
    let folder = data();
    for file in [
        "bp.perf.data",
        "bp.script_full.txt.gz",
        "bp.script_compact.txt.gz",
    ] {
        let (rows, _, report) = rows(&folder.join("real").join(file));
        let hits = |address| rows.iter().filter(|row| row.address == address).count();
        assert_eq!(
            (hits(0x40_4080), hits(0x40_40c0), rows.len()),
            (61, 60, 121),
            "{file}"
        );
        assert!(!report.is_damaged(), "{file}: {report:?}");
        assert!(rows.is_sorted_by_key(|row| row.timestamp_ns), "{file}");
    }
    let (rows, names, _) = rows(&folder.join("real/bp.script_full.txt.gz"));
    let from = |symbol: &str| {
        rows.iter()
            .filter(|row| names.text(row.symbol) == symbol)
            .count()
    };
    assert_eq!(from("load_weight"), 1);
    assert_eq!(from("ggml_vec_dot_f32"), 60);
    assert_eq!((from("kv_update"), from("kv_read")), (20, 40));
}

/// perf.data read by us is what perf script printed of it.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn page_faults_are_those_that_perf_prints() {
    let folder = data();
    let real = folder.join("real");
    let (direct, names, report) = rows(&real.join("pf.perf.data"));
    let (full, full_names, text_report) = rows(&real.join("pf.script_full.txt.gz"));
    let (compact, _, _) = rows(&real.join("pf.script_compact.txt.gz"));
    assert_eq!(
        (direct.len(), full.len(), compact.len()),
        (1108, 1108, 1108)
    );
    assert!(
        !report.is_damaged() && !text_report.is_damaged(),
        "{report:?} {text_report:?}"
    );
    for ((direct, full), compact) in direct.iter().zip(&full).zip(&compact) {
        assert_eq!(direct.address, full.address);
        assert_eq!(direct.address, compact.address);
        // perf prints microseconds, rounded down.
        assert_eq!(direct.timestamp_ns / 1000, full.timestamp_ns / 1000);
        assert_eq!(direct.thread_id, full.thread_id);
        // The object of the code, by the mappings in the file.
        assert_eq!(names.text(direct.dso), full_names.text(full.dso));
    }
    // The weights are 1024 pages, each touched first when they were loaded.
    let symbol = |row: &Access| full_names.text(row.symbol).to_owned();
    let weights = full
        .iter()
        .filter(|row| (0x7f1d_d322_b000..0x7f1d_d362_b000).contains(&row.address));
    assert_eq!(weights.clone().count(), 1024);
    assert!(weights.clone().all(|row| symbol(row) == "load_weight"));
    assert!(
        direct
            .iter()
            .any(|row| names.text(row.dso) == "/opt/demo/kvmm")
    );
}

/// Lackey sees everything: W is stored once and read each token, rows of K and V are read from then on.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn lackey_counts_are_those_of_the_program() {
    let folder = data();
    let (rows, _, report) = rows(&folder.join("real/lackey_kvmm.txt.gz"));
    // A modify is a load and a store.
    let loads = rows.iter().filter(|row| row.is_load()).count();
    let stores = rows.iter().filter(|row| row.is_store()).count();
    assert_eq!((loads, stores), (44_401 + 1_568, 14_283 + 1_568));
    assert!(!report.is_damaged());
    let within = |start: u64, bytes: u64, op: Name| -> Vec<&Access> {
        rows.iter()
            .filter(|row| row.op == op && (start..start + bytes).contains(&row.address))
            .collect()
    };
    let bytes = |rows: &[&Access]| {
        rows.iter()
            .map(|row| u64::from(row.size_bytes))
            .sum::<u64>()
    };
    let stores = within(0x403_6000, 4096, Name::STORE);
    assert_eq!((stores.len(), bytes(&stores)), (1024, 4096));
    assert_eq!(within(0x403_6000, 4096, Name::LOAD).len(), 6144);
    for start in [0x403_8000, 0x403_a000] {
        assert_eq!(bytes(&within(start, 384, Name::STORE)), 384);
        assert_eq!(within(start, 384, Name::LOAD).len(), 336);
        for row in 0..6 {
            let read = bytes(&within(start + row * 64, 64, Name::LOAD));
            assert_eq!(read, (6 - row) * 64, "row {row}");
        }
    }
}

/// Every allocation is what memray's own reader gives.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn memray_records_are_those_of_its_own_reader() {
    let folder = data();
    let file = folder.join("real/numpy_infer.memray.bin");
    let table = read(&folder.join("real/numpy_infer.memray.bin.records.tsv.gz"));
    let table = String::from_utf8(table).unwrap();
    let mut names = Names::new();
    let mut open = OpenOptions::default();
    open.pass_foreign = true;
    let source = Source::open(&file, &open).unwrap();
    let mut reader = MemrayReader::new(source).unwrap();
    let mut count = 0;
    for line in table.lines().skip(1) {
        let event = reader.next(&mut names).unwrap().expect("as many records");
        let ours = format!(
            "{count}\t{}\t{}\t{}\t{:#x}\t{}\t{}\t{}",
            event.memory_records,
            event.thread_id,
            event.allocator_name(),
            event.address,
            event.size_bytes,
            names.text(event.function),
            names.text(event.file),
        );
        assert_eq!(ours, line);
        count += 1;
    }
    assert_eq!(count, 16_693);
    assert_eq!(reader.next(&mut names).unwrap(), None);
}

/// A capture that was cut off gives what came before.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn cut_captures_keep_what_is_good() {
    let folder = data();
    for (file, whole) in [("bp.perf.data", 121), ("numpy_infer.memray.bin", 16_693)] {
        let bytes = read(&folder.join("real").join(file));
        for part in [1, 2, 3] {
            let cut = bytes[..bytes.len() * part / 8].to_vec();
            let mut open = OpenOptions::default();
            open.pass_foreign = true;
            let source = Source::from_bytes_with(file, cut, &open).unwrap();
            let mut names = Names::new();
            let mut rows = Vec::new();
            let Ok(mut stream) = RowStream::open(source, &InputOptions::default()) else {
                continue;
            };
            while stream.next_batch(&mut names, &mut rows).unwrap() {}
            assert!(rows.len() < whole, "{file}");
            assert!(stream.report().is_damaged(), "{file}");
        }
    }
}
