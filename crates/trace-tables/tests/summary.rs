//! Tests the summary of traces with known contents.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use trace_model::{
    Arg, ArgsRef, ClockDomain, Distributed, FinishOptions, FlowPoint, FlowRole, FlowSpace,
    IssueKind, LaneId, Pid, Place, Process, Rank, SliceData, Thread, Tid, TraceBuilder, Track,
    TrackKind,
};
use trace_tables::summarise;

struct Planted {
    b: TraceBuilder,
    cpu: LaneId,
    gpu: LaneId,
}

fn lane(b: &mut TraceBuilder, pid: i64, tid: i64) -> LaneId {
    let process = Some(b.process(Process::new(Pid(pid))));
    let thread = Some(b.thread(Thread::new(Tid(tid), process)));
    let track = b.track(Track {
        thread,
        process,
        ..Track::new(TrackKind::Thread)
    });
    b.lane(Some(track))
}

impl Planted {
    fn new() -> Self {
        let mut b = TraceBuilder::new();
        let cpu = lane(&mut b, 100, 100);
        let gpu = lane(&mut b, 0, 7);
        Self { b, cpu, gpu }
    }

    fn data(&mut self, category: &str, name: &str, correlation: Option<i64>) -> SliceData {
        let e = &mut self.b.events;
        let key = e.strings.intern("args.correlation");
        let list: Vec<Arg> = correlation.iter().map(|id| Arg::int(key, *id)).collect();
        let category = e.strings.intern(category);
        SliceData {
            name: Some(e.strings.intern(name)),
            category: e.category(category),
            args: if list.is_empty() {
                ArgsRef::NONE
            } else {
                e.args(&list)
            },
        }
    }

    fn call(&mut self, ts: i64, name: &str, correlation: i64) {
        let data = self.data("cuda_runtime", name, Some(correlation));
        self.b.events.complete(self.cpu, ts, 10, data);
    }

    fn kernel(&mut self, ts: i64, correlation: Option<i64>) {
        let data = self.data("kernel", "gemm", correlation);
        self.b.events.complete(self.gpu, ts, 10, data);
    }

    fn flow(&mut self, from: i64, to: i64) {
        for (lane, ts, role) in [
            (self.cpu, from, FlowRole::Start),
            (self.gpu, to, FlowRole::End),
        ] {
            let point = FlowPoint {
                id: from.cast_unsigned(),
                category: None,
                name: None,
                space: FlowSpace::Chrome,
                role,
            };
            self.b.events.flow(lane, ts, point);
        }
    }

    fn summary(self) -> trace_tables::Summary {
        let trace = self.b.finish(&FinishOptions::default()).unwrap();
        summarise("planted.json", &trace)
    }
}

#[test]
fn every_kernel_is_counted_by_its_links() {
    let mut p = Planted::new();
    p.call(0, "cudaLaunchKernel", 1);
    p.kernel(100, Some(1)); // correlation only
    p.call(20, "cudaLaunchKernel", 2);
    p.kernel(120, Some(2)); // both
    p.flow(20, 120);
    p.call(40, "cudaGraphLaunch", 3);
    p.kernel(140, Some(3)); // under a graph launch
    p.kernel(160, Some(3));
    p.call(60, "cudaLaunchKernel", 9);
    p.kernel(180, None); // flow only
    p.flow(60, 180);
    p.kernel(200, Some(77)); // launched before the recording
    let links = p.summary().kernels;
    assert_eq!(links.kernels, 6);
    assert_eq!(links.by_flow, 2);
    assert_eq!(links.by_correlation, 4);
    assert_eq!((links.under_graph_launch, links.graph_launches), (2, 1));
    assert_eq!(links.unlinked, 1);
}

#[test]
fn rows_and_edges_are_those_of_the_trace() {
    let mut p = Planted::new();
    let outer = p.data("user_annotation", "step", None);
    let mark = p.data("cpu_op", "[memory]", None);
    p.b.events.complete(p.cpu, 0, 1000, outer);
    p.call(100, "cudaLaunchKernel", 1);
    p.kernel(300, Some(1));
    p.b.events.instant(p.cpu, 400, mark);
    let name = p.b.string("python3");
    p.b.processes_mut()[0].name = Some(name);
    p.b.meta.base_time_ns = 5;
    p.b.meta.clock = ClockDomain::KinetoRelative;
    p.b.meta.distributed = Some(Distributed {
        rank: Some(Rank(3)),
        world_size: Some(8),
        ..Distributed::default()
    });
    p.b.meta.entries = vec![
        ("cupti_version".to_owned(), "24".to_owned()),
        ("deviceProperties".to_owned(), "x".repeat(1000)),
    ];
    let s = p.summary();
    assert_eq!((s.rows.slices, s.rows.instants, s.rows.names), (4, 1, 4));
    assert_eq!((s.rows.deepest, s.rows.threads), (2, 2));
    assert_eq!((s.file.span_ns, s.file.base_time_ns), (1000, 5));
    assert_eq!((s.file.rank, s.file.world_size), (Some(3), Some(8)));
    assert_eq!(s.file.clock, "kineto-relative");
    assert_eq!(s.file.producer.len(), 1);
    let edges: Vec<_> = s
        .edges
        .iter()
        .map(|e| (e.side, e.slices, e.gap_begin_ns, e.gap_end_ns))
        .collect();
    assert_eq!(edges, [("host", 2, 100, 600), ("device", 1, 300, 690)]);
    let owners: Vec<_> = s.processes.iter().map(|p| (p.pid, p.slices)).collect();
    assert_eq!(owners, [(Some(100), 3), (Some(0), 1)]);
    assert_eq!(s.processes[0].name.as_deref(), Some("python3"));
    let categories: Vec<_> = s
        .categories
        .iter()
        .map(|c| (c.name.as_deref().unwrap(), c.count))
        .collect();
    assert_eq!(
        categories,
        [
            ("cpu_op", 1),
            ("cuda_runtime", 1),
            ("kernel", 1),
            ("user_annotation", 1)
        ]
    );
    assert_eq!(s.activities.len(), 4);
    assert_eq!(
        (s.track_kinds[0].kind, s.track_kinds[0].rows),
        ("thread_execution", 4)
    );
    assert!(s.healthy);
    assert_eq!((s.reasons.len(), s.remarks.len()), (0, 0));
}

#[test]
fn what_is_missing_is_the_reason_against_health() {
    let mut p = Planted::new();
    p.kernel(0, None);
    let data = p.data("cpu_op", "open", None);
    p.b.events.begin(p.cpu, 0, data);
    p.kernel(5, None); // overlaps the first
    let places = [Place::Byte(10), Place::At(-4)];
    p.b.diagnostics.add(IssueKind::JsonEventSkipped, 3, places);
    p.b.diagnostics.count(IssueKind::PacketLoss, Place::Byte(1));
    let s = p.summary();
    assert!(!s.healthy);
    let codes = |list: &[trace_tables::summary::Finding]| {
        list.iter().map(|f| (f.code, f.count)).collect::<Vec<_>>()
    };
    assert_eq!(
        codes(&s.reasons),
        [("json_event_skipped", 3), ("traced_packet_loss", 1)]
    );
    // No launch was recorded, so none is missing.
    assert_eq!(
        codes(&s.remarks),
        [
            ("no_launches_recorded", 2),
            ("overlapping", 1),
            ("unclosed", 1)
        ]
    );
    let l = s.losses;
    assert_eq!((l.dropped, l.lost, l.clipped), (3, 1, 0));
    assert_eq!((l.unclosed, l.overlapping, l.unlinked_kernels), (1, 1, 2));

    let json = serde_json::to_value(&s).unwrap();
    assert_eq!(json["schema_version"], "1.1");
    assert_eq!(json["issues"][0]["places"][0]["byte"], 10);
    assert_eq!(json["issues"][0]["places"][1]["at_ns"], -4);
    assert_eq!(json["file"]["rank"], serde_json::Value::Null);
}

#[test]
fn an_empty_trace_is_not_healthy() {
    let s = summarise(
        "-",
        &TraceBuilder::new()
            .finish(&FinishOptions::default())
            .unwrap(),
    );
    assert_eq!(s.reasons[0].code, "empty");
    assert!(!s.healthy);
}
