//! Identities, devices, graphs, times and ranges of old and new schemas.

use nsys_db::{Export, LoadOptions, load};
use trace_model::{ArgValue, IssueKind};

use crate::support::{Made, global, has, launches, places};

#[test]
fn equal_ids_of_two_processes_never_link() {
    let mut made = Made::new();
    let (launch, k) = (made.string("cudaLaunchKernel_v7000"), made.string("k(int)"));
    made.kernels().calls();
    for (pid, from) in [(10, 0), (20, 500)] {
        made.call(pid, (from, from + 10), 1, launch);
        made.kernel(pid, (from + 2000, from + 2100), (0, 7), 1, k);
    }
    // The call of process 20 was not recorded; that of process 10 has the same id.
    made.call(10, (100, 110), 2, launch);
    made.kernel(20, (3000, 3100), (0, 7), 2, k);
    // 0 and NULL are no ids.
    made.call(10, (200, 210), 0, launch);
    made.kernel(10, (4000, 4100), (0, 7), 0, k);
    let trace = made.load();
    assert_eq!(launches(&trace), [Some(0), Some(500), None, None]);
    // Two processes record device 0 and nothing maps them.
    assert_eq!(places(&trace), [(0, 7), (1, 7), (1, 7), (0, 7)]);
    assert_eq!(has(&trace, "device_identity_assumed"), Some(1));
    let names: Vec<_> = trace.slices().filter_map(|s| s.name()).collect();
    assert!(names.contains(&"cudaLaunchKernel") && names.contains(&"k(int)"));
}

#[test]
fn devices_are_those_of_the_machine_where_they_are_mapped() {
    let mut made = Made::new();
    let k = made.string("k");
    made.kernels()
        .kernel(10, (0, 10), (0, 7), 1, k)
        .kernel(20, (5, 15), (0, 7), 1, k)
        .kernel(20, (20, 30), (1, 7), 2, k)
        .sql("CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER)")
        .sql("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (3, 0, 10), (3, 0, 20), (1, 1, 20)");
    // Two processes share GPU 3 and the number of a stream.
    let shared = 7 + (1 << 20);
    assert_eq!(places(&made.load()), [(3, 7), (3, shared), (1, 7)]);
}

#[test]
fn without_processes_the_only_one_with_calls_is_meant() {
    for several in [false, true] {
        let mut made = Made::new();
        let (launch, k) = (made.string("cudaLaunchKernel"), made.string("k"));
        made.calls().call(10, (0, 10), 1, launch);
        if several {
            made.call(20, (0, 10), 9, launch);
        }
        made.sql("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, streamId INTEGER, correlationId INTEGER, shortName INTEGER)")
            .sql(&format!("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 200, 7, 1, {k})"));
        let trace = made.load();
        assert_eq!(launches(&trace), [(!several).then_some(0)]);
        assert_eq!(has(&trace, "unattributed_work"), several.then_some(1));
    }
}

#[test]
fn graphs_whole_by_node_and_lost() {
    let mut made = Made::new();
    let (launch, k) = (made.string("cudaGraphLaunch_v10000"), made.string("k"));
    made.calls()
        .call(10, (0, 10), 1, launch)
        .call(10, (20, 30), 2, launch)
        .call(10, (40, 50), 3, launch)
        .kernels()
        .sql("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER)")
        .sql(&format!("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (100, 400, 0, 1, 7, 1, {}, 4, 9)", global(10, 0)))
        .kernel(10, (500, 600), (0, 7), 2, k)
        .kernel(10, (600, 700), (0, 7), 2, k)
        .sql("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphNodeId = 77");
    let trace = made.load();
    assert_eq!(launches(&trace), [Some(0), Some(20), Some(20)]);
    let graph = trace
        .slices()
        .find(|s| s.category() == Some("cuda_graph"))
        .unwrap();
    assert_eq!(
        (graph.name(), graph.dur().unwrap().get()),
        (Some("CUDA graph 4 exec 9"), 300)
    );
    assert_eq!(has(&trace, "graphs_whole"), Some(1));
    assert_eq!(has(&trace, "graph_launches_without_record"), Some(1));
}

#[test]
fn rows_before_the_collection_count_only_for_what_ran_in_it() {
    let mut made = Made::new();
    let (launch, k) = (made.string("cudaLaunchKernel"), made.string("k"));
    made.calls()
        .call(10, (-100, -90), 1, launch)
        .call(10, (-80, -70), 2, launch)
        .kernels()
        .kernel(10, (-60, -50), (0, 7), 2, k)
        .kernel(10, (-5, 40), (0, 7), 1, k);
    let trace = made.load();
    assert_eq!(launches(&trace), [Some(-100)]);
    assert_eq!(has(&trace, "before_recording"), Some(2));
    // Moved times move the start of the collection.
    made.sql("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT); INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_TIME_SHIFT', '-1000')")
        .sql("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER); INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (5000)");
    let trace = made.load();
    assert_eq!(has(&trace, "before_recording"), None);
    assert_eq!(trace.meta().base_time_ns, 6000);
}

#[test]
fn ranges_of_equal_domains_of_two_processes() {
    let mut made = Made::new();
    let _ = made.string("x");
    made.ranges()
        .range(10, (0, None), 75, "engine", 1)
        .range(20, (0, None), 75, "scheduler", 1)
        .range(10, (100, Some(200)), 59, "step", 1)
        .range(20, (100, Some(200)), 59, "step", 1)
        .range(20, (110, Some(300)), 60, "request", 2)
        .range(20, (120, Some(250)), 60, "request", 2)
        .range(10, (150, None), 34, "token", 0)
        .range(10, (160, None), 59, "never popped", 0)
        .range(
            10,
            (20, Some(90)),
            59,
            "aten::mm, seq = 3, op_id = 7, sizes = [[2, 3]]",
            0,
        );
    let trace = made.load();
    let domain = trace.arg_column("domain");
    let mut found: Vec<(i64, &str, Option<&str>, Option<i64>)> = trace
        .slices()
        .map(|s| {
            let dur = s.dur().map(trace_model::Nanos::get);
            (
                s.ts().nanos(),
                s.name().unwrap(),
                domain.get(s).and_then(ArgValue::as_str),
                dur,
            )
        })
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            (20, "aten::mm", None, Some(70)),
            (100, "step", Some("engine"), Some(100)),
            (100, "step", Some("scheduler"), Some(100)),
            (110, "request", Some("domain 2"), Some(190)),
            (120, "request", Some("domain 2"), Some(130)),
            (150, "token", None, Some(0)),
            (160, "never popped", None, None),
        ]
    );
    let operator = trace.slices().next().unwrap();
    assert_eq!(operator.category(), Some("cpu_op"));
    let arg = |key| trace.arg_column(key).int(operator);
    assert_eq!((arg("seq"), arg("op_id")), (Some(3), Some(7)));
    // Ranges that cross are complete, and on no thread.
    assert_eq!(trace.diagnostics().count_of(IssueKind::Overlap), 0);
    let free = trace
        .slices()
        .find(|s| s.name() == Some("request"))
        .unwrap();
    assert!(free.track().thread.is_none() && free.track().process.is_some());
}

#[test]
fn what_may_overlap_is_on_tracks_of_its_own() {
    let mut made = Made::new();
    let wait = made.string("cudaStreamSynchronize_v3020");
    let thread = global(10, 10);
    made.calls().call(10, (0, 100), 5, wait).sql(&format!(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (10, 90, 7, 5, {0}, 0), (50, 120, 7, 6, {0}, 3), (60, 70, 4294967295, 7, {0}, 1);
         CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER);
         INSERT INTO PROFILER_OVERHEAD VALUES (20, 60, {thread}, {wait}), (40, 80, {thread}, {wait}), (5, 30, NULL, {wait})",
        global(10, 0)
    ));
    let trace = made.load();
    assert_eq!(trace.diagnostics().count_of(IssueKind::Overlap), 0);
    assert_eq!(has(&trace, "profiler_overhead"), Some(3));
    let waits: Vec<_> = trace
        .slices()
        .filter(|s| s.category() == Some("cuda_sync"))
        .collect();
    // The call names the wait; numbers of types had other meanings before 3.23.3.
    let names: Vec<_> = waits.iter().filter_map(|s| s.name()).collect();
    assert_eq!(names, ["Stream Sync", "Sync", "Sync"]);
    let stream = trace.arg_column("stream");
    let streams: Vec<_> = waits.iter().map(|s| stream.int(*s)).collect();
    assert_eq!(streams, [Some(7), Some(7), None]);
}

#[test]
fn a_shift_of_the_clock_moves_the_origin_only() {
    let mut made = Made::new();
    let k = made.string("k");
    made.kernels().kernel(10, (100, 200), (0, 7), 1, k).sql(
        "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, systemClockNs INTEGER);
         INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (5000, 70)",
    );
    let export = Export::open(made.path()).unwrap();
    let mut options = LoadOptions::default();
    options.clock_shift_ns = -300;
    let trace = load(&export, &options).unwrap();
    assert_eq!(trace.meta().base_time_ns, 4_700);
    assert_eq!(trace.slices().next().unwrap().ts().nanos(), 100);
}
