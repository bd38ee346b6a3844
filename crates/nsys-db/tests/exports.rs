//! Small exports made here, with planted truth: old and new schemas, equal ids in two processes, graphs, payloads, damage.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::path::{Path, PathBuf};

use nsys_db::{Export, LoadOptions, communicating_processes, load};
use rusqlite::Connection;
use trace_model::correlation::CorrelationIndex;
use trace_model::kernel::collective::CollectiveReader;
use trace_model::kernel::{ActivityMap, DevicePlaces, TraceIndex, Vocabulary};
use trace_model::{ArgValue, IssueKind, Trace};

const SECRET: &str = "PLANTED-SECRET";

/// Global id of a thread.
fn global(pid: i64, tid: i64) -> i64 {
    (1 << 48) | pid << 24 | tid
}

/// An export under construction.
struct Made {
    folder: tempfile::TempDir,
    base: Connection,
    strings: i64,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = Connection::open(folder.path().join("a.sqlite")).unwrap();
        base.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY")
            .unwrap();
        base.execute_batch("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT)")
            .unwrap();
        let mut made = Self {
            folder,
            base,
            strings: 3_000_000,
        };
        // Nothing refers to the environment.
        made.string(&format!("HOME=/root\0HF_TOKEN={SECRET}\0"));
        made
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("a.sqlite")
    }

    fn sql(&self, text: &str) -> &Self {
        self.base.execute_batch(text).unwrap();
        self
    }

    /// Ids are sparse, as in cut files.
    fn string(&mut self, text: &str) -> i64 {
        self.strings += 97;
        let row = (self.strings, text);
        self.base
            .execute("INSERT INTO StringIds VALUES (?1, ?2)", row)
            .unwrap();
        self.strings
    }

    fn kernels(&self) -> &Self {
        self.sql(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, -- end (of it), AS a VIRTUAL note\n
             deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
             demangledName INTEGER, shortName INTEGER, graphNodeId INTEGER)",
        )
    }

    fn kernel(
        &self,
        pid: i64,
        (start, end): (i64, i64),
        (device, stream): (i64, i64),
        id: i64,
        name: i64,
    ) -> &Self {
        let row = (start, end, device, stream, id, global(pid, 0), name);
        self.base
            .execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName)
                 VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7)",
                row,
            )
            .unwrap();
        self
    }

    fn calls(&self) -> &Self {
        self.sql(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
             correlationId INTEGER, nameId INTEGER, returnValue INTEGER, callchainId INTEGER)",
        )
    }

    fn call(&self, pid: i64, (start, end): (i64, i64), id: i64, name: i64) -> &Self {
        let row = (start, end, global(pid, pid), id, name);
        self.base
            .execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, 0, ?3, ?4, ?5, 0, NULL)",
                row,
            )
            .unwrap();
        self
    }

    fn ranges(&self) -> &Self {
        self.sql(
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER,
             textId INTEGER, domainId INTEGER, jsonText TEXT, binaryData BLOB)",
        )
    }

    fn range(
        &self,
        pid: i64,
        (start, end): (i64, Option<i64>),
        kind: i64,
        text: &str,
        domain: i64,
    ) -> &Self {
        let row = (start, end, kind, text, global(pid, pid), domain);
        self.base
            .execute(
                "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                row,
            )
            .unwrap();
        self
    }

    fn load(&self) -> Trace {
        read(&self.path())
    }
}

fn read(path: &Path) -> Trace {
    load(&Export::open(path).unwrap(), &LoadOptions::default()).unwrap()
}

/// Name of the launch of each GPU activity, in ascending time.
fn launches(trace: &Trace) -> Vec<Option<i64>> {
    let activities = ActivityMap::new(trace, &Vocabulary::default());
    let index = CorrelationIndex::new(trace, &activities);
    let work = activities.device_work().iter();
    work.map(|id| {
        let launch = index.launch_of(trace.slice(*id), &activities)?;
        Some(launch.ts().nanos())
    })
    .collect()
}

/// Device and stream of each GPU activity.
fn places(trace: &Trace) -> Vec<(i64, i64)> {
    let activities = ActivityMap::new(trace, &Vocabulary::default());
    let places = DevicePlaces::new(trace, std::iter::empty());
    let work = activities.device_work().iter().map(|id| trace.slice(*id));
    work.map(|s| (places.device(s).unwrap(), places.stream(s).unwrap()))
        .collect()
}

fn has(trace: &Trace, code: &str) -> Option<u64> {
    trace.meta().limit(code).map(|limit| limit.count)
}

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

/// A payload of NCCL's own ranges: header of four words, then the fields.
fn payload(schema: u64, body: &[u8]) -> Vec<u8> {
    let size = u64::try_from(body.len()).unwrap();
    let words = [1, schema, size, 32].map(u64::to_le_bytes);
    [words.concat(), body.to_vec()].concat()
}

#[test]
fn sizes_of_collectives_from_payloads() {
    for as_text in [false, true] {
        let mut made = Made::new();
        let (launch, ring) = (
            made.string("cudaLaunchKernel"),
            made.string("ncclDevKernel_AllGather_RING_LL()"),
        );
        let (exchange, comm) = (
            made.string("ncclDevKernel_SendRecv()"),
            0x39ea_0fc7_dbf2_6f66_u64,
        );
        made.calls().kernels().ranges().range(10, (0, None), 75, "NCCL", 1).sql(
            "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER, type INTEGER, name TEXT, offset INTEGER);
             INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES
             (1, 5, 0, 18, 'NCCL communicator ID', NULL), (1, 5, 1, 5, 'No. of ranks', 8), (1, 5, 2, 5, 'Rank', 12),
             (1, 6, 0, 18, 'NCCL communicator ID', NULL), (1, 6, 1, 22, 'Message size [bytes]', 8)",
        );
        let put = |(start, end): (i64, i64), label: &str, bytes: Option<Vec<u8>>| {
            let hex =
                |bytes: &Vec<u8>| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
            let value = match &bytes {
                Some(bytes) if as_text => rusqlite::types::Value::Text(hex(bytes)),
                Some(bytes) => rusqlite::types::Value::Blob(bytes.clone()),
                None => rusqlite::types::Value::Null,
            };
            made.base
                .execute(
                    "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId, binaryData) VALUES (?1, ?2, 59, ?3, ?4, 1, ?5)",
                    (start, end, label, global(10, 10), value),
                )
                .unwrap();
        };
        let sized = |bytes: u64| [comm.to_le_bytes(), bytes.to_le_bytes()].concat();
        let init = [
            &comm.to_le_bytes()[..],
            &4_i32.to_le_bytes(),
            &2_i32.to_le_bytes(),
        ]
        .concat();
        put((-500, -400), "ncclCommInitRank", Some(payload(5, &init)));
        put((100, 200), "ncclAllGather", Some(payload(6, &sized(1000))));
        made.call(10, (150, 160), 1, launch)
            .kernel(10, (1000, 1100), (0, 7), 1, ring);
        put((300, 310), "ncclGroupStart", None);
        put((320, 330), "ncclSend", Some(payload(6, &sized(70))));
        put((340, 350), "ncclSend", Some(payload(6, &sized(30))));
        put((360, 370), "ncclRecv", Some(payload(6, &sized(90))));
        put((380, 480), "ncclGroupEnd", None);
        made.call(10, (400, 410), 2, launch)
            .kernel(10, (2000, 2100), (0, 7), 2, exchange);
        put(
            (500, 600),
            "ncclAllGather",
            Some(payload(6, &sized(9))[..40].to_vec()),
        );
        made.call(10, (550, 560), 3, launch)
            .kernel(10, (3000, 3100), (0, 7), 3, ring);
        let trace = made.load();
        let index = TraceIndex::new(&trace, Vocabulary::default());
        let reader = CollectiveReader::new(&trace);
        let mut found = Vec::new();
        for kernel in index.kernels() {
            let launch = index.launch_of(kernel).map(|found| found.0);
            let what = reader.of(&index, kernel, launch).unwrap();
            found.push((
                what.op.unwrap().name(),
                what.bytes,
                what.group_size,
                what.group.clone(),
            ));
        }
        let group = Some("0x39ea0fc7dbf26f66".to_owned());
        assert_eq!(found[0], ("all_gather", Some(4000), Some(4), group.clone()));
        assert_eq!(found[1], ("all_to_all", Some(100), Some(4), group));
        // A damaged payload is counted, and the range stays.
        assert_eq!(found[2], ("all_gather", None, None, None));
        assert_eq!(has(&trace, "damaged_payloads"), Some(1));
        assert_eq!(trace.meta().rank().map(|rank| rank.0), Some(2));
        let ranks = communicating_processes(&Export::open(made.path()).unwrap()).unwrap();
        assert_eq!(ranks.len(), 1);
        assert_eq!((ranks[0].process.pid(), ranks[0].kernels), (10, 3));
    }
}

#[test]
fn chains_are_between_ranges_and_the_call() {
    let mut made = Made::new();
    let launch = made.string("cudaLaunchKernel_v7000");
    let frames: Vec<(i64, i64, bool)> = [
        (
            "0x7f00",
            "/opt/nvidia/nsight-systems/x/libcupti.so.12",
            true,
        ),
        ("cudaMemcpy", "/usr/lib/libcudart.so.11.0", false),
        ("decode_step", &format!("/srv/{SECRET}/serve"), false),
        ("0x40", &format!("/srv/{SECRET}/serve"), true),
        ("main", &format!("/srv/{SECRET}/serve"), false),
        ("[Max depth]", "[Max depth]", false),
    ]
    .map(|(symbol, module, unresolved)| (made.string(symbol), made.string(module), unresolved))
    .to_vec();
    made.calls().call(10, (100, 150), 5, launch).sql(&format!(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (90, 160, 67, {}, 5, {launch}, 0, 0);
         CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, originalIP INTEGER, stackDepth INTEGER)",
        global(10, 10)
    ));
    for (depth, (symbol, module, unresolved)) in frames.iter().enumerate().rev() {
        made.sql(&format!(
            "INSERT INTO CUDA_CALLCHAINS VALUES (0, {symbol}, {module}, {}, 64, {depth})",
            i64::from(*unresolved)
        ));
    }
    let trace = made.load();
    let call = trace.slices().next().unwrap();
    assert_eq!(trace.len(), 1);
    let chain = trace
        .arg_column("call chain")
        .get(call)
        .and_then(ArgValue::as_str);
    assert_eq!(chain, Some("decode_step\nserve!0x40\nmain"));
    assert_eq!(has(&trace, "call_chains"), Some(1));
}

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

/// Returns the limit of a code.
fn limit<'t>(trace: &'t Trace, code: &str) -> &'t trace_model::Limit {
    trace.meta().limit(code).unwrap()
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

#[test]
fn with_launches_only_everything_is_counted_and_every_link_is_kept() {
    let mut made = Made::new();
    let (launch, record, k) = (
        made.string("cudaLaunchKernel"),
        made.string("cudaEventRecord"),
        made.string("k"),
    );
    made.calls().kernels().ranges();
    for (pid, at) in [(10, 0), (20, 7)] {
        made.call(pid, (at - 500, at - 400), 3, launch)
            .call(pid, (at + 100, at + 110), 1, launch)
            .call(pid, (at + 120, at + 130), 2, record)
            .call(pid, (at + 140, at + 150), 0, record)
            // Its GPU activity was not recorded.
            .call(pid, (at + 160, at + 170), 900, launch)
            .kernel(pid, (at + 200, at + 300), (0, 7), 1, k)
            .kernel(pid, (at + 300, at + 400), (0, 7), 3, k)
            .range(pid, (at + 90, Some(at + 180)), 59, "step", 0)
            .range(pid, (at + 95, Some(at + 175)), 59, "aten::mm, seq = 4", 0)
            .range(pid, (at + 500, Some(at + 600)), 59, "gloo:barrier", 0)
            .range(pid, (at + 550, None), 34, "mark", 0);
    }
    let less = |made: &Made| {
        let mut options = LoadOptions::default();
        options.host_names = Some(vec!["gloo:"]);
        load(&Export::open(made.path()).unwrap(), &options).unwrap()
    };
    let (all, some) = (made.load(), less(&made));
    assert_eq!(launches(&some), launches(&all));
    assert_eq!(places(&some), places(&all));
    assert_eq!(some.meta().events, all.meta().events);
    assert_eq!(some.meta().records, all.meta().records);
    assert_eq!(some.meta().limits, all.meta().limits);
    assert_eq!(some.meta().sections, all.meta().sections);
    let mut names: Vec<&str> = some.slices().filter_map(|slice| slice.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names, ["aten::mm", "cudaLaunchKernel", "gloo:barrier", "k"]);
    // Two launches, an operator, a collective of the host and two kernels of each process.
    assert_eq!((some.len(), all.len()), (12, 22));

    // Where an open range is cut is reported, and depends on all others.
    made.range(10, (700, None), 59, "open", 0);
    assert_eq!(less(&made).len(), made.load().len());
    // Without GPU activity the calls are what is left to explain it.
    made.sql("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; DELETE FROM NVTX_EVENTS WHERE end IS NULL");
    assert_eq!(less(&made).len(), made.load().len());
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

/// Starts of activities, with the starts of their calls.
type Passed = Vec<(i64, Option<i64>)>;

/// The activities that are passed on, and the number of slices that are kept; `None` if the export must be read whole.
fn passed(made: &Made, threads: usize) -> Option<(Passed, usize)> {
    let mut options = LoadOptions::default();
    options.host_names = Some(Vec::new());
    options.threads = threads;
    let mut starts = Vec::new();
    let export = Export::open(made.path()).unwrap();
    let rest = nsys_db::pass(&export, &options, |work| {
        starts.push((work.start_ns, work.launch_ns));
    });
    Some((starts, rest.unwrap()?.len()))
}

#[test]
fn activities_are_passed_on_in_order_of_start_and_not_kept() {
    let mut made = Made::new();
    let (gemm, launch) = (made.string("gemm"), made.string("cudaLaunchKernel_v7000"));
    made.kernels();
    made.calls();
    for n in 1..6000 {
        let at = n * 100;
        made.kernel(1, (at, at + 50), (0, 7), n, gemm);
        if n % 5 != 0 {
            made.call(1, (at - 70, at - 60), n, launch);
        }
    }
    made.sql(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, globalPid INTEGER, correlationId INTEGER)",
    );
    for at in [5, 250, 250, 1_000_000] {
        let process = global(1, 0);
        made.sql(&format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES ({at}, {}, {process}, 0)",
            at + 9
        ));
    }
    let mut want: Vec<(i64, Option<i64>)> = (1..6000)
        .map(|n| (n * 100, (n % 5 != 0).then_some(n * 100 - 70)))
        .chain([5, 250, 250, 1_000_000].map(|at| (at, None)))
        .collect();
    want.sort_by_key(|(start, _)| *start);
    for threads in [1, 2, 4] {
        assert_eq!(passed(&made, threads), Some((want.clone(), 0)), "{threads}");
    }
    let mut options = LoadOptions::default();
    (options.host_names, options.launches) = (Some(Vec::new()), false);
    let export = Export::open(made.path()).unwrap();
    let mut count = 0;
    let rest = nsys_db::pass(&export, &options, |work| {
        assert_eq!(work.launch_ns, None);
        count += 1;
    });
    assert_eq!(
        (count, rest.unwrap().unwrap().meta().events),
        (want.len(), 10_803)
    );
    // Operators can tell what a kernel does; ranges without end depend on what is around them.
    made.ranges();
    made.range(1, (0, Some(900)), 59, "step", 0);
    assert_eq!(passed(&made, 2), Some((want, 0)));
    made.range(1, (0, Some(900)), 59, "aten::mm, seq = 1, op_id = 2", 0);
    assert_eq!(passed(&made, 2), None);
    made.sql("DELETE FROM NVTX_EVENTS WHERE text LIKE 'aten%'");
    made.range(1, (0, None), 59, "step", 0);
    assert_eq!(passed(&made, 2), None);
    made.sql("DELETE FROM NVTX_EVENTS");
    assert!(passed(&made, 2).is_some());
    made.kernel(1, (50, 60), (0, 7), 0, gemm);
    assert_eq!(passed(&made, 2), None);
}
