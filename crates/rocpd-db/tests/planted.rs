//! What is read is what was planted.

#![expect(
    clippy::unwrap_used,
    clippy::field_reassign_with_default,
    reason = "a failed step fails the test; the struct cannot be written whole outside its crate"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rocpd_db::{
    Bound, Dispatch, Edge, Error, Filter, KernelNames, MergeOptions, OpenOptions, Order, Region,
    RocpdSet, SqlValue, Stat, Summary, SummaryOptions, SummaryView, TimePoint, ViewScan, Window,
    WindowRequest,
};
use rocpd_synth::{Made, Moments, Shape, Truth, generate};
use trace_model::ArgValue;

pub(crate) fn open(paths: &[PathBuf]) -> RocpdSet {
    RocpdSet::open(paths, &OpenOptions::default()).unwrap()
}

pub(crate) fn paths(made: &[Made]) -> Vec<PathBuf> {
    made.iter().map(|made| made.path.clone()).collect()
}

fn moments(stat: &Stat) -> Moments {
    let mut out = Moments::default();
    out.calls = stat.calls;
    out.total_ns = i64::try_from(stat.total_ns).unwrap();
    out.squares_ns2 = stat.squares_ns2;
    out.min_ns = stat.min_ns;
    out.max_ns = stat.max_ns;
    out
}

/// The rows of a view of one process.
fn rows(view: Option<&SummaryView>, set: &RocpdSet, guid: &str) -> BTreeMap<String, Moments> {
    let processes: Vec<_> = set.processes().collect();
    let Some(view) = view else {
        return BTreeMap::new();
    };
    view.by_rank(&processes)
        .iter()
        .filter(|row| processes[row.process].guid == guid)
        .map(|row| (row.name.clone(), moments(&row.stat)))
        .collect()
}

/// Everything that a summary says of one process against what was planted.
fn assert_truth(summary: &Summary<'_>, set: &RocpdSet, truth: &Truth) {
    let view = |name: &str| summary.views.iter().find(|view| view.view == name);
    let guid = truth.guid.as_str();
    assert_eq!(rows(view("kernels"), set, guid), truth.kernels);
    assert_eq!(rows(view("memory_copies"), set, guid), truth.copies);
    assert_eq!(
        rows(view("memory_allocations"), set, guid),
        truth.allocations
    );
    assert_eq!(rows(view("scratch_memory"), set, guid), truth.scratch);
    assert_eq!(rows(view("markers"), set, guid), truth.markers);
    for (domain, names) in &truth.domains {
        assert_eq!(&rows(view(&domain.to_ascii_lowercase()), set, guid), names);
    }
}

fn assert_all(made: &[Made], set: &RocpdSet) {
    let filter = Filter::default();
    let summary = Summary::collect(set, &filter, &SummaryOptions::default()).unwrap();
    for made in made {
        assert_truth(&summary, set, &made.truth);
    }
    let sum = |get: fn(&Truth) -> u64| made.iter().map(|made| get(&made.truth)).sum::<u64>();
    assert_eq!(summary.lost.dispatches, sum(|t| t.lost_dispatches));
    assert_eq!(summary.lost.copies, sum(|t| t.lost_copies));
    assert_eq!(summary.lost.regions, sum(|t| t.lost_regions));
    assert!(set.issues().is_empty());
}

pub(crate) fn count(set: &RocpdSet, sql: &str) -> i64 {
    let session = set.sql(None, KernelNames::default()).unwrap();
    let mut statement = session.prepare(sql).unwrap();
    let mut rows = statement.query(&[]).unwrap();
    match rows.next().unwrap().unwrap().get(0) {
        SqlValue::Int(value) => value,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_database_of_each_generation() {
    for generation in [0, 1, 2, 3, 5] {
        let folder = tempfile::tempdir().unwrap();
        let shape = Shape {
            generation,
            seed: u64::from(generation) + 7,
            ..Shape::small()
        };
        let made = generate(folder.path(), &shape).unwrap();
        let set = open(&paths(&made));
        assert_all(&made, &set);
        let truth = &made[0].truth;
        let bounds = set.time_bounds(&Filter::default()).unwrap().unwrap();
        assert_eq!((bounds.first_ns, bounds.last_ns), truth.bounds_ns);
        assert_eq!(
            count(&set, "SELECT COUNT(*) FROM kernels"),
            i64::try_from(truth.dispatches).unwrap()
        );
    }
}

#[test]
fn equal_process_ids_of_twelve_ranks_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape {
        ranks: 12,
        nodes: 3,
        equal_pids: true,
        ..Shape::small()
    };
    let made = generate(folder.path(), &shape).unwrap();
    // A folder is as good as its files.
    let set = open(&[folder.path().to_owned()]);
    assert_all(&made, &set);
    // Two threads each: the reference's view has a cross product.
    assert_eq!(count(&set, "SELECT COUNT(*) FROM threads"), 24);
    let dispatches: u64 = made.iter().map(|made| made.truth.dispatches).sum();
    assert_eq!(
        count(&set, "SELECT COUNT(*) FROM kernels"),
        i64::try_from(dispatches).unwrap()
    );
    let bytes: i64 = made
        .iter()
        .flat_map(|m| m.truth.copied_bytes.values())
        .sum();
    assert_eq!(count(&set, "SELECT SUM(size) FROM memory_copies"), bytes);
    let allocations: u64 = made
        .iter()
        .flat_map(|m| m.truth.allocations.values())
        .map(|m| m.calls)
        .sum();
    assert_eq!(
        count(&set, "SELECT COUNT(*) FROM memory_allocations"),
        i64::try_from(allocations).unwrap()
    );
    let counters: i64 = made.iter().flat_map(|m| m.truth.counters.values()).sum();
    assert_eq!(
        count(
            &set,
            "SELECT CAST(SUM(counter_value) AS INTEGER) FROM pmc_events"
        ),
        counters
    );
    let domains = Summary::collect(&set, &Filter::default(), &SummaryOptions::default())
        .unwrap()
        .domains();
    let kernels = domains.iter().find(|row| row.name == "KERNELS").unwrap();
    assert_eq!(kernels.stat.calls, dispatches);
}

#[test]
fn sixty_four_files_through_sql_and_scans() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape {
        ranks: 64,
        nodes: 8,
        steps: 1,
        orphans: false,
        ..Shape::small()
    };
    let made = generate(folder.path(), &shape).unwrap();
    let set = open(&paths(&made));
    assert_all(&made, &set);
    let total: i64 = made
        .iter()
        .flat_map(|made| made.truth.kernels.values())
        .map(|kernel| kernel.total_ns)
        .sum();
    assert_eq!(count(&set, "SELECT SUM(duration) FROM kernels"), total);
    assert_eq!(count(&set, "SELECT COUNT(DISTINCT guid) FROM regions"), 64);
}

#[test]
fn a_merged_file_says_the_same_and_shapes_may_differ() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = Vec::new();
    for (seed, generation, without_suffix) in [(1, 0, false), (2, 5, false), (3, 3, true)] {
        let shape = Shape {
            seed,
            generation,
            without_suffix,
            equal_pids: true,
            ..Shape::small()
        };
        let inner = folder.path().join(seed.to_string());
        made.extend(generate(&inner, &shape).unwrap());
    }
    let set = open(&paths(&made));
    assert_all(&made, &set);
    let before: Vec<Vec<u8>> = made
        .iter()
        .map(|m| std::fs::read(&m.path).unwrap())
        .collect();
    let merged = folder.path().join("merged's \"all\".db");
    let report = rocpd_db::merge(&set, &merged, &MergeOptions::default()).unwrap();
    assert_eq!(report.files, 3);
    let after: Vec<Vec<u8>> = made
        .iter()
        .map(|m| std::fs::read(&m.path).unwrap())
        .collect();
    assert!(before == after, "inputs were changed");
    let one = open(&[merged]);
    assert_eq!(one.partitions().len(), 3);
    assert_all(&made, &one);
    for sql in [
        "SELECT SUM(duration) FROM kernels",
        "SELECT SUM(size) FROM memory_copies",
        "SELECT COUNT(*) FROM top",
        "SELECT COUNT(*) FROM regions_and_samples",
        "SELECT COUNT(*) FROM launch_links",
        "SELECT COUNT(*) FROM steps",
        "SELECT SUM(gap_ns) FROM gaps",
    ] {
        assert_eq!(count(&set, sql), count(&one, sql), "{sql}");
    }
    // The same process twice counts once, and is said.
    let twice = [
        made[0].path.clone(),
        folder.path().join("merged's \"all\".db"),
    ];
    let set = RocpdSet::open(&twice, &OpenOptions::default()).unwrap();
    assert_eq!(set.processes().count(), 3);
    assert_eq!(set.warnings().len(), 1);
}

#[test]
fn memory_in_use_and_exclusive_time_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    let set = open(&paths(&made));
    let filter = Filter::default();
    let memory = rocpd_db::live_memory(&set, &filter).unwrap();
    let end: i64 = memory.iter().map(|m| m.end_bytes).sum();
    assert_eq!(end, made[0].truth.live_bytes_end);
    assert!(memory.iter().map(|m| m.peak_bytes).sum::<i64>() >= made[0].truth.live_bytes_peak);
    let calls = rocpd_db::exclusive(&set, &filter).unwrap();
    assert!(
        calls
            .iter()
            .all(|c| 0 <= c.exclusive_ns && c.exclusive_ns <= c.inclusive_ns)
    );
    // Exclusive times are a partition of what threads spend in calls: the union of all regions by thread.
    let mut spans: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for region in set
        .scan::<rocpd_db::Region<'_>>(&filter, rocpd_db::Order::Start)
        .unwrap()
    {
        let r = region.unwrap();
        let thread = r.thread.map_or(i64::MIN, |t| t.id);
        spans
            .entry(thread)
            .or_default()
            .push((r.start_ns, r.end_ns));
    }
    let mut union = 0;
    for list in spans.values() {
        let mut until = i64::MIN;
        for &(start, end) in list {
            union += (end - start.max(until)).max(0);
            until = until.max(end);
        }
    }
    assert_eq!(calls.iter().map(|c| c.exclusive_ns).sum::<i64>(), union);
}

#[test]
fn new_ids_keep_every_record_and_every_link() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = Vec::new();
    for (seed, generation, without_suffix) in [(1, 0, false), (2, 5, true), (3, 3, false)] {
        let shape = Shape {
            seed,
            generation,
            without_suffix,
            equal_pids: true,
            ..Shape::small()
        };
        let inner = folder.path().join(seed.to_string());
        made.extend(generate(&inner, &shape).unwrap());
    }
    let set = open(&paths(&made));
    let merged = folder.path().join("one.db");
    let mut options = MergeOptions::default();
    options.reassign_ids = true;
    let report = rocpd_db::merge(&set, &merged, &options).unwrap();
    let one = open(std::slice::from_ref(&merged));
    assert_eq!(one.partitions().len(), 1);
    assert_eq!(one.partitions()[0].suffix(), "");
    assert_eq!(one.processes().count(), 3);
    assert_all(&made, &one);
    for sql in [
        "SELECT SUM(duration) FROM kernels",
        "SELECT COUNT(*) FROM kernels",
        "SELECT SUM(size) FROM memory_copies",
        "SELECT SUM(size) FROM memory_allocations",
        "SELECT COUNT(*) FROM top",
        "SELECT COUNT(*) FROM threads",
        "SELECT COUNT(*) FROM regions_and_samples",
        "SELECT CAST(SUM(value) AS INTEGER) FROM counters_collection",
        "SELECT COUNT(*) FROM region_args",
        "SELECT SUM(LENGTH(name)) FROM regions",
        "SELECT COUNT(*) FROM launch_links",
        "SELECT SUM(gap_ns) FROM gaps",
    ] {
        assert_eq!(count(&set, sql), count(&one, sql), "{sql}");
    }
    // Any tool can use it: ids are unique, nothing dangles, and no view is needed.
    let plain = rusqlite::Connection::open(&merged).unwrap();
    let rows = |sql: &str| -> i64 { plain.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(
        rows(
            "SELECT COUNT(*) FROM rocpd_region R JOIN rocpd_event E ON E.id = R.event_id WHERE E.guid = R.guid"
        ),
        rows("SELECT COUNT(*) FROM rocpd_region WHERE event_id IS NOT NULL")
    );
    assert_eq!(
        rows("SELECT COUNT(*) FROM sqlite_master WHERE type NOT IN ('table', 'view')"),
        0
    );
    assert_eq!(report.files, 3);
    // An input is never replaced.
    let error = rocpd_db::merge(&set, &made[0].path, &options).unwrap_err();
    assert!(error.to_string().contains("one of the inputs"), "{error}");
}

#[test]
fn every_view_can_be_read_and_scans_agree_with_sql() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    let set = open(&paths(&made));
    let session = set.sql(None, KernelNames::default()).unwrap();
    for view in rocpd_db::SqlSession::tables() {
        let mut statement = session.prepare(&format!("SELECT * FROM {view}")).unwrap();
        let mut rows = statement.query(&[]).unwrap();
        while rows.next().unwrap().is_some() {}
    }
    for view in ["kernels", "regions", "memory_copies", "memory_allocations"] {
        let scan = ViewScan::of_query(&format!("SELECT * FROM {view}")).unwrap();
        let columns = scan.columns(&set);
        let mut statement = session
            .prepare(&format!("SELECT * FROM {view} ORDER BY id"))
            .unwrap();
        assert_eq!(statement.columns(), columns);
        let mut expected = Vec::new();
        let mut rows = statement.query(&[]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            expected.push(
                (0..row.len())
                    .map(|at| format!("{:?}", row.get(at)))
                    .collect::<Vec<_>>(),
            );
        }
        let mut found = Vec::new();
        scan.each(&set, None, |value| -> Result<(), Error> {
            found.push(
                (0..columns.len())
                    .map(|at| format!("{:?}", value(at)))
                    .collect::<Vec<_>>(),
            );
            Ok(())
        })
        .unwrap();
        assert_eq!(found, expected, "{view}");
        assert!(!found.is_empty());
    }
}

#[test]
fn order_of_time_is_kept_whatever_order_rows_have() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::large(4000)).unwrap();
    // Rows upside down: ids descend with time.
    let path = &made[0].path;
    let connection = rusqlite::Connection::open(path).unwrap();
    let table: String = connection
        .query_row(
            "SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_region%'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    connection
        .execute_batch(&format!(
            "UPDATE \"{table}\" SET id = id + 1000000; UPDATE \"{table}\" SET id = 1000000 - (id - 1000000)"
        ))
        .unwrap();
    drop(connection);
    let set = open(std::slice::from_ref(path));
    let filter = Filter::default();
    let mut expected: Vec<(i64, i64)> = set
        .scan::<Region<'_>>(&filter, Order::Stored)
        .unwrap()
        .map(|r| r.map(|r| (r.start_ns, -r.end_ns)).unwrap())
        .collect();
    assert!(!expected.is_sorted());
    expected.sort_unstable();
    let found: Vec<(i64, i64)> = set
        .scan::<Region<'_>>(&filter, Order::Start)
        .unwrap()
        .map(|r| r.map(|r| (r.start_ns, -r.end_ns)).unwrap())
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn windows_by_share_time_and_marker() {
    let folder = tempfile::tempdir().unwrap();
    // Beyond 2^53 a real number would lose nanoseconds.
    let shape = Shape {
        time_offset_ns: 1 << 60,
        ..Shape::small()
    };
    let made = generate(folder.path(), &shape).unwrap();
    let set = open(&paths(&made));
    assert_all(&made, &set);
    let bounds = set.time_bounds(&Filter::default()).unwrap().unwrap();
    assert!(bounds.first_ns > 1 << 60);
    let ask = |start: Bound, end: Bound, edge| {
        let mut request = WindowRequest::default();
        request.start = start;
        request.end = end;
        request.edge = edge;
        set.window(&request)
    };
    let time = |text: &str| Bound::Time(TimePoint::parse(text).unwrap());
    let (window, _) = ask(time("25%"), time("75%"), Edge::Inside).unwrap();
    assert_eq!(window.start_ns, bounds.first_ns + bounds.span_ns() / 4);
    // SQL and scans see the same records.
    for edge in [Edge::Inside, Edge::Overlapping, Edge::Clipped] {
        let window = Window { edge, ..window };
        let filter = Filter::in_window(window);
        let scanned: i64 = set
            .scan::<Dispatch<'_>>(&filter, Order::Stored)
            .unwrap()
            .map(|r| r.unwrap())
            .filter(Dispatch::in_view)
            .map(|r| r.duration_ns())
            .sum();
        let session = set.sql(Some(window), KernelNames::default()).unwrap();
        let mut statement = session
            .prepare("SELECT SUM(duration) FROM kernels")
            .unwrap();
        let mut rows = statement.query(&[]).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().get(0), SqlValue::Int(scanned));
        assert!(scanned > 0);
    }
    let marker = |text: &str| Bound::Marker(text.to_owned());
    let (window, _) = ask(marker("prefill"), marker("prefill"), Edge::Inside).unwrap();
    let prefill = &made[0].truth.markers["prefill"];
    assert_eq!(window.end_ns - window.start_ns, prefill.total_ns);
    assert!(matches!(
        ask(marker("decode"), Bound::Open, Edge::Inside),
        Err(Error::AmbiguousMarker { count: 3, .. })
    ));
    assert!(matches!(
        ask(marker("nothing"), Bound::Open, Edge::Inside),
        Err(Error::MarkerNotFound { .. })
    ));
    assert!(matches!(
        ask(time("75%"), time("25%"), Edge::Inside),
        Err(Error::BadWindow { .. })
    ));
    assert!(matches!(
        ask(time("1"), time("2"), Edge::Inside),
        Err(Error::WindowOutsideData { .. })
    ));
}

#[test]
fn a_trace_of_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let made = generate(folder.path(), &Shape::small()).unwrap();
    let set = open(&paths(&made));
    let trace = rocpd_db::load(&set, &Filter::default()).unwrap();
    let truth = &made[0].truth;
    let of = |category: &str| {
        trace
            .slices()
            .filter(|slice| slice.category() == Some(category))
            .count() as u64
    };
    assert_eq!(
        of("kernel_dispatch"),
        truth.dispatches + truth.lost_dispatches
    );
    let markers: u64 = truth.markers.values().map(|m| m.calls).sum();
    assert_eq!(of("marker_api"), markers);
    let launches = truth.domains["HIP"]["hipLaunchKernel"].calls;
    let flows = trace.flows().iter().count() as u64;
    assert!(flows >= launches, "{flows} arrows");
    // Copies state their sizes, as those of other profilers do.
    let sizes = trace_model::kernel::CopySizes::new(&trace);
    let copies = trace
        .slices()
        .filter(|slice| slice.category() == Some("memory_copy"));
    let sizes: Vec<Option<i64>> = copies.map(|slice| sizes.of(slice)).collect();
    let filter = Filter::default();
    let scan = set.scan::<rocpd_db::Copy<'_>>(&filter, Order::Start);
    let expected: Vec<Option<i64>> = scan
        .unwrap()
        .map(|copy| Some(copy.unwrap().size_bytes))
        .collect();
    let sorted = |mut list: Vec<Option<i64>>| {
        list.sort_unstable();
        list
    };
    assert!(!expected.is_empty());
    assert_eq!(sorted(sizes), sorted(expected));
    // The GPUs with their numbers and names.
    let listed = trace.meta().entry("deviceProperties").unwrap();
    let listed: serde_json::Value = serde_json::from_str(listed).unwrap();
    let numbers: Vec<i64> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|gpu| gpu["id"].as_i64().unwrap())
        .collect();
    assert_eq!(numbers, [1, 2]);
    assert!(
        listed[0]["name"]
            .as_str()
            .is_some_and(|name| !name.is_empty())
    );
}

#[test]
fn gpus_of_several_processes_are_told_apart_in_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let devices = |shape: &Shape, name: &str| {
        let made = generate(&folder.path().join(name), shape).unwrap();
        let set = open(&paths(&made));
        let trace = rocpd_db::load(&set, &Filter::default()).unwrap();
        let mut agents: Vec<(i32, String)> = trace
            .slices()
            .filter(|slice| slice.category() == Some("kernel_dispatch"))
            .map(|slice| {
                let process = slice.track().process.map(|id| trace.process(id).pid.0);
                let process = process.and_then(|pid| i32::try_from(pid).ok());
                match (slice.arg("agent"), slice.arg("device")) {
                    (Some(ArgValue::Str(agent)), Some(ArgValue::Int(device))) => {
                        assert_eq!(agent, format!("Agent {device}"));
                        (process.unwrap_or(-1), agent.to_owned())
                    }
                    other => panic!("{other:?}"),
                }
            })
            .collect();
        agents.sort();
        agents.dedup();
        agents
    };
    let one = Shape::small();
    let own = |process, number: i32| (process, format!("Agent {number}"));
    // A process alone calls its GPUs as it does itself.
    assert_eq!(devices(&one, "one"), [own(4000, 1), own(4000, 2)]);
    // Processes of one machine that use the same GPUs share them.
    let two = Shape {
        ranks: 2,
        ..Shape::small()
    };
    let shared = [own(4000, 1), own(4000, 2), own(4001, 1), own(4001, 2)];
    assert_eq!(devices(&two, "two"), shared);
    // Those of two machines do not: each machine has a CPU and two GPUs.
    let apart = Shape {
        ranks: 2,
        nodes: 2,
        ..Shape::small()
    };
    let numbered = [own(4000, 1), own(4000, 2), own(4001, 4), own(4001, 5)];
    assert_eq!(devices(&apart, "apart"), numbered);
}

#[test]
fn packages_are_read_like_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape {
        ranks: 2,
        ..Shape::small()
    };
    let made = generate(&folder.path().join("in"), &shape).unwrap();
    let package = folder.path().join("run.rpdb");
    let mut options = rocpd_db::PackageOptions::default();
    options.consolidate = true;
    options.copy = true;
    let index = rocpd_db::package(&paths(&made), &package, &options).unwrap();
    for input in [
        package.as_path(),
        index.as_path(),
        Path::new(&folder.path().join("in").join("*.db")),
    ] {
        let set = RocpdSet::open(&[input], &OpenOptions::default()).unwrap();
        assert_all(&made, &set);
    }
}
