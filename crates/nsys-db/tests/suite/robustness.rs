//! What is damaged, missing or out of order.

use nsys_db::{Export, LoadOptions, load};
use trace_model::{IssueKind, Trace};

use crate::support::{Made, SECRET, has, launches, limit};

#[test]
fn bad_rows_are_counted_with_their_place_and_nothing_is_run() {
    let mut made = Made::new();
    let k = made.string("k");
    made.kernels()
        .kernel(10, (100, 200), (0, 7), 1, k)
        .kernel(10, (300, 250), (0, 7), 2, k)
        .kernel(10, (400, 500), (0, 7), 3, 99)
        .kernel(10, (i64::MAX - 1, i64::MAX), (0, 7), 4, k)
        .kernel(10, (i64::MIN, i64::MAX), (0, 7), 5, k)
        .kernel(10, (500, i64::MAX), (0, 7), 6, k)
        .kernel(10, (-(1 << 62), 5), (0, 7), 7, k)
        .kernel(10, (1 << 62, (1 << 62) + 10), (0, 7), 8, k)
        .sql(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end) VALUES ('{SECRET}', 5), (5, NULL)"
        ))
        .sql("CREATE VIEW NVTX_EVENTS AS SELECT load_extension('evil') AS start")
        .sql("CREATE TABLE OSRT_API (start INTEGER PRIMARY KEY, end INTEGER) WITHOUT ROWID");
    let trace = made.load();
    assert_eq!(has(&trace, "bad_value"), Some(7));
    assert_eq!(trace.len(), 2);
    assert_eq!(trace.diagnostics().count_of(IssueKind::NegativeDuration), 1);
    assert_eq!(has(&trace, "table_not_read"), Some(2));
    let names: Vec<_> = trace.slices().filter_map(|s| s.name()).collect();
    assert!(names.contains(&"[string 99]"), "{names:?}");
    let shown = format!("{:?} {:?}", trace.diagnostics(), trace.meta());
    assert!(!shown.contains(SECRET), "{shown}");
    assert!(
        trace
            .strings()
            .iter()
            .all(|(_, text)| !text.contains(SECRET))
    );
}

#[test]
fn parts_of_an_export_are_enough() {
    for (number, table) in [
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, globalTid INTEGER); INSERT INTO NVTX_EVENTS VALUES (1, 5, 'r', 281474976710656)",
        "CREATE TABLE OSRT_API (start INTEGER, end INTEGER, nameId INTEGER, globalTid INTEGER); INSERT INTO OSRT_API VALUES (1, 5, 3, 281474976710656)",
        "CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER); INSERT INTO GPU_METRICS VALUES (5, 1, 2, 70)",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER)",
    ]
    .iter()
    .enumerate()
    {
        let made = Made::new();
        made.sql(table);
        let trace = made.load();
        let rows = trace.len() + trace.counters().len();
        assert_eq!(rows, usize::from(number < 3), "{table}");
        assert_eq!(has(&trace, "no_device_work"), Some(1));
    }
    let strings_only = Made::new();
    assert!(Export::open(strings_only.path()).is_err());
    let nvprof = Made::new();
    nvprof.sql("DROP TABLE StringIds; CREATE TABLE StringTable (id INTEGER); CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)");
    let error = Export::open(nvprof.path()).unwrap_err().to_string();
    assert!(error.contains("nvprof"), "{error}");
}

#[test]
fn neither_order_of_rows_nor_page_size_changes_the_trace() {
    let listing = |trace: &Trace| -> Vec<String> {
        let mut all: Vec<String> = trace
            .slices()
            .map(|s| {
                format!(
                    "{:?} {:?} {:?} {:?} {}",
                    s.ts(),
                    s.dur(),
                    s.name(),
                    s.category(),
                    s.depth()
                )
            })
            .collect();
        all.sort();
        all
    };
    let mut first = None;
    for order in ["ASC", "DESC"] {
        let mut made = Made::new();
        made.sql(if order == "ASC" {
            "SELECT 1"
        } else {
            "PRAGMA page_size = 512; VACUUM"
        });
        let (launch, k) = (made.string("cudaLaunchKernel"), made.string("k"));
        made.calls().kernels().ranges();
        let mut rows: Vec<i64> = (0..300).collect();
        if order == "DESC" {
            rows.reverse();
        }
        for at in rows {
            let from = at * 100;
            made.call(10, (from + 20, from + 30), at + 1, launch);
            made.kernel(10, (from + 1000, from + 1050), (0, 7), at + 1, k);
            made.range(10, (from + 10, Some(from + 60)), 59, "inner", 0);
            made.range(10, (from, Some(from + 90)), 59, "outer", 0);
        }
        let trace = made.load();
        assert!(launches(&trace).iter().all(Option::is_some));
        let listed = listing(&trace);
        assert_eq!(first.get_or_insert_with(|| listed.clone()), &listed);
    }
}

#[test]
fn truncated_files_are_errors() {
    let mut made = Made::new();
    let k = made.string("k");
    made.kernels();
    for at in 0..2000 {
        made.kernel(10, (at * 10, at * 10 + 5), (0, 7), at, k);
    }
    let bytes = std::fs::read(made.path()).unwrap();
    let path = made.folder.path().join("cut.sqlite");
    for length in [0, 60, 4096, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert!(Export::open(&path).is_err(), "{length} bytes");
    }
    // Damage in the middle is an error or fewer rows, never a panic.
    for at in (0..bytes.len()).step_by(997) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x5a;
        std::fs::write(&path, &damaged).unwrap();
        if let Ok(export) = Export::open(&path) {
            let _ = load(&export, &LoadOptions::default());
        }
    }
}

#[test]
fn needed_tables_that_cannot_be_read_make_a_recording_incomplete() {
    let made = Made::new();
    made.ranges().range(10, (1, Some(5)), 59, "step", 0).sql(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER PRIMARY KEY, end INTEGER) WITHOUT ROWID",
    );
    let trace = made.load();
    let found = limit(&trace, "table_not_read");
    assert!(found.is_reason && found.count == 1);
    assert!(found.text.contains("nsys export"), "{}", found.text);
    // Ranges of the operating system are not needed to know the GPU's work.
    let other = Made::new();
    other
        .kernels()
        .sql("CREATE VIEW OSRT_API AS SELECT 1 AS start");
    assert!(!limit(&other.load(), "table_not_read").is_reason);
}

#[test]
fn work_without_a_process_is_not_taken_for_processes_without_work() {
    let mut made = Made::new();
    let (k, launch) = (made.string("k"), made.string("cudaLaunchKernel"));
    made.kernels().calls();
    for pid in [10, 20] {
        made.call(pid, (100, 110), pid, launch);
    }
    made.sql(&format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, correlationId, demangledName)
         VALUES (120, 130, 0, 7, 10, {k})"
    ));
    let trace = made.load();
    let limits = &trace.meta().limits;
    assert_eq!(
        limits.first().map(|limit| limit.code),
        Some("unattributed_work")
    );
    assert_eq!(has(&trace, "process_without_work"), None);
    // Work of one process that is known leaves the other without.
    let mut known = Made::new();
    let (k, launch) = (known.string("k"), known.string("cudaLaunchKernel"));
    known
        .kernels()
        .calls()
        .kernel(10, (120, 130), (0, 7), 10, k);
    for pid in [10, 20] {
        known.call(pid, (100, 110), pid, launch);
    }
    assert_eq!(has(&known.load(), "process_without_work"), Some(1));
}
