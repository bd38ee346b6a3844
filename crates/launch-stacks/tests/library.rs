//! Tests the steps on hand-made traces: windows, links, exposure, ranks, compared with brute force.

use launch_stacks::{
    Capture, CaptureNode, CollectiveOp, CollectiveRun, Exposure, HiddenBy, KernelSelector,
    LaunchFilter, Linking, NameMatch, Pick, Query, RankTrace, TraceIndex, Window, WindowChoice,
    align_ranks, analyse, arg_keys, collective_waits, find_windows, in_windows, launches,
    transfers, waits_by_rank,
};
use proptest::prelude::*;
use trace_model::kernel::Vocabulary;
use trace_model::{
    Arg, FinishOptions, FlowPoint, FlowRole, FlowSpace, LaneId, Pid, Process, Rank, SliceData,
    Thread, Tid, Timestamp, Trace, TraceBuilder, Track, TrackKind,
};

/// A trace under construction with helper functions.
#[derive(Default)]
struct Made {
    builder: TraceBuilder,
    lanes: Vec<((i64, i64), LaneId)>,
}

enum Value<'a> {
    Int(i64),
    Text(&'a str),
}

impl Made {
    fn lane(&mut self, row: (i64, i64)) -> LaneId {
        if let Some((_, lane)) = self.lanes.iter().find(|l| l.0 == row) {
            return *lane;
        }
        let b = &mut self.builder;
        let process = b.process(Process::new(Pid(row.0)));
        let thread = b.thread(Thread::new(Tid(row.1), Some(process)));
        let mut track = Track::new(TrackKind::Thread);
        (track.process, track.thread) = (Some(process), Some(thread));
        let track = b.track(track);
        let lane = b.lane(Some(track));
        self.lanes.push((row, lane));
        lane
    }

    fn slice(
        &mut self,
        row: (i64, i64),
        (ts, dur): (i64, i64),
        (category, name): (&str, &str),
        args: &[(&str, Value<'_>)],
    ) {
        let lane = self.lane(row);
        let b = &mut self.builder;
        let args: Vec<Arg> = args
            .iter()
            .map(|(key, value)| {
                let key = b.string(&format!("args.{key}"));
                match value {
                    Value::Int(n) => Arg::int(key, *n),
                    Value::Text(t) => Arg::text(key, b.string(t)),
                }
            })
            .collect();
        let category = b.string(category);
        let data = SliceData {
            name: Some(b.string(name)),
            category: b.events.category(category),
            args: b.events.args(&args),
        };
        b.events.complete(lane, ts, dur, data);
    }

    fn finish(self) -> Trace {
        self.builder
            .finish(&FinishOptions::default())
            .expect("it fits")
    }
}

fn window(start: i64, end: i64) -> Window {
    Window::between(Timestamp::from_nanos(start), Timestamp::from_nanos(end))
}

#[test]
fn ranges_of_windows() {
    let windows: Vec<Window> = (0..4).map(|i| window(i * 10, i * 10 + 5)).collect();
    for (text, want) in [
        ("1..3", Some(&windows[1..3])),
        ("1..=3", Some(&windows[1..4])),
        ("2..", Some(&windows[2..])),
        ("..2", Some(&windows[..2])),
        ("3", Some(&windows[3..4])),
        ("0..99", Some(&windows[..])),
        ("4..", None),
        ("2..2", None),
    ] {
        let pick: Pick = text.parse().unwrap();
        assert_eq!(pick.of(&windows).ok().as_deref(), want, "{text}");
    }
    for bad in ["", "a..b", "-1..2", "1...3", "1..-2"] {
        assert!(bad.parse::<Pick>().is_err(), "{bad}");
    }
    assert_eq!(Pick::Last.of(&windows).unwrap(), windows[3..]);
    assert!(Pick::First.of(&[]).is_err());
    assert!(Pick::Index(i64::MIN).of(&windows).is_err());
}

#[test]
fn a_regex_finds_windows_anywhere_in_the_name() {
    let mut made = Made::default();
    for (ts, name) in [
        (0, "decode step 1"),
        (100, "prefill"),
        (200, "decode step 2"),
    ] {
        made.slice((1, 1), (ts, 50), ("user_annotation", name), &[]);
    }
    let trace = made.finish();
    let found = find_windows(&trace, &NameMatch::regex("^decode").unwrap());
    let starts: Vec<i64> = found.iter().map(|w| w.start.nanos()).collect();
    assert_eq!(starts, [0, 200]);
    assert!(NameMatch::regex("(").is_err());
}

#[test]
fn the_whole_query_in_one_call() {
    let mut made = Made::default();
    let corr = |n| [("correlation", Value::Int(n))];
    made.slice((1, 1), (0, 1000), ("cpu_op", "fn"), &[]);
    made.slice(
        (1, 1),
        (10, 5),
        ("cuda_runtime", "cudaLaunchKernel"),
        &corr(1),
    );
    made.slice(
        (1, 1),
        (2000, 5),
        ("cuda_runtime", "cudaLaunchKernel"),
        &corr(2),
    );
    made.slice(
        (0, 7),
        (5000, 30),
        ("kernel", "ncclDevKernel_AllReduce"),
        &corr(1),
    );
    made.slice(
        (0, 7),
        (6000, 30),
        ("kernel", "ncclDevKernel_AllReduce"),
        &corr(2),
    );
    made.slice((0, 8), (5010, 10), ("kernel", "gemm"), &[]);
    let trace = made.finish();
    let mut query = Query::default();
    query.kernels = KernelSelector::collectives();
    query.windows = WindowChoice::Function(NameMatch::function("fn"), Pick::First);
    query.measure = true;
    let answer = analyse(&trace, &query, &[]).unwrap();
    assert_eq!(answer.launches.kernels, 2);
    assert_eq!(answer.groups.len(), 1);
    let frames = answer.stacks.table.root_first(answer.groups[0].group.stack);
    assert_eq!(frames, ["fn", "cudaLaunchKernel"]);
    let measures = answer.groups[0].measures.as_ref().unwrap();
    assert_eq!(measures.gpu.total_ns, 30);
    assert_eq!(measures.exposed_ns, Some(20));
    assert_eq!(measures.latency.total_ns, 4990);
    assert_eq!(measures.queue.total_ns, 4985);
    let device = answer.devices[0].1;
    assert_eq!(
        (device.collective_ns, device.exposed_ns, device.hidden_ns),
        (60, 50, 10)
    );
}

#[test]
fn memcpy_hides_communication_only_if_asked_and_devices_do_not_mix() {
    let mut made = Made::default();
    made.slice((0, 1), (0, 100), ("kernel", "ncclDevKernel_A"), &[]);
    made.slice((0, 2), (50, 100), ("gpu_memcpy", "Memcpy DtoH"), &[]);
    made.slice((0, 3), (90, 20), ("gpu_memset", "Memset"), &[]);
    made.slice((1, 1), (0, 100), ("kernel", "gemm"), &[]);
    let trace = made.finish();
    let index = TraceIndex::new(&trace, Vocabulary::default());
    for (hidden_by, other, exposed) in [
        (HiddenBy::Computation, 100, 90),
        (HiddenBy::AnyActivity, 100, 50),
    ] {
        let exposure = Exposure::new(&index, hidden_by, |s| index.is_collective(s));
        let times: Vec<_> = exposure
            .devices()
            .map(|(d, t)| (d.0, t.collective_ns, t.other_ns, t.exposed_ns))
            .collect();
        assert_eq!(times, [(0, 100, other, exposed), (1, 0, 100, 0)]);
    }
}

/// Collectives count by their own size, not by a class of sizes.
#[test]
fn sizes_are_exact() {
    let mut made = Made::default();
    for (at, elements) in [(1, 100), (2, 100), (3, 1000)] {
        let args = [
            ("Collective name", Value::Text("allreduce")),
            ("dtype", Value::Text("Float")),
            ("Group size", Value::Int(4)),
            ("In msg nelems", Value::Int(elements)),
            ("Out msg nelems", Value::Int(elements)),
            ("External id", Value::Int(at)),
        ];
        let call = ("cpu_op", "record_param_comms");
        made.slice((1, 1), (10 * at, 5), call, &args);
        made.slice((0, 7), (100 * at, 50), ("kernel", "ncclDevKernel_x"), &args);
    }
    let trace = made.finish();
    let mut query = Query::default();
    query.kernels = KernelSelector::collectives();
    query.measure = true;
    let answer = analyse(&trace, &query, &[]).unwrap();
    let total = answer.total.as_ref().unwrap();
    assert_eq!(total.sizes, [(400, 2), (4000, 1)]);
    assert_eq!(total.bytes, Some(4800));
    // Of a rank alone it is not known how long it waited.
    assert_eq!(total.bandwidth.busbw_bytes_per_s(), None);
    assert_eq!(total.kernel_bandwidth.algbw_bytes_per_s(), Some(32e9));
    assert_eq!(total.kernel_bandwidth.busbw_bytes_per_s(), Some(48e9));
    // Of both halves together as of all.
    let twice = total.kernel_bandwidth.with(&total.kernel_bandwidth);
    assert_eq!((twice.collectives, twice.bytes), (6, 9600));
    assert_eq!(twice.busbw_bytes_per_s(), Some(48e9));
}

/// Returns name and bytes of a collective, as stated by the operator that the kernel's external id
/// refers to. That operator is nested in another one with different values.
fn moved(name: &'static str, counts: &[(&'static str, i64)]) -> (Vec<String>, Option<u64>) {
    let stated = |name, counts: &[(&'static str, i64)]| {
        let mut args = vec![
            ("Collective name", Value::Text(name)),
            ("dtype", Value::Text("Float")),
        ];
        args.extend(counts.iter().map(|(key, n)| (*key, Value::Int(*n))));
        args
    };
    let id = || ("External id", Value::Int(7));
    let comms = ("cpu_op", "record_param_comms");
    let mut made = Made::default();
    let both = [("In msg nelems", 1), ("Out msg nelems", 1)];
    made.slice((1, 1), (0, 100), comms, &stated("reduce", &both));
    let mut inner = stated(name, counts);
    inner.push(id());
    made.slice((1, 1), (10, 5), comms, &inner);
    let kernel = ("kernel", "ncclDevKernel_Generic_1");
    made.slice((0, 7), (50, 5), kernel, &[id()]);
    let trace = made.finish();
    let mut query = Query::default();
    query.kernels = KernelSelector::collectives();
    query.measure = true;
    let answer = analyse(&trace, &query, &[]).expect("the whole trace is a window");
    let measures = answer.groups[0].measures.as_ref().expect("asked for");
    (measures.collectives.clone(), measures.bytes)
}

#[test]
fn a_launch_that_is_the_operator_says_itself_what_it_moves() {
    let counts = [("In msg nelems", 100), ("Out msg nelems", 200)];
    let (names, bytes) = moved("_allgather_base", &counts);
    assert_eq!(
        (names, bytes),
        (vec!["_allgather_base".to_owned()], Some(800))
    );
}

#[test]
fn a_size_needs_only_the_count_it_is_made_of() {
    let (input, output) = (("In msg nelems", 100), ("Out msg nelems", 200));
    for (name, count, want) in [
        ("_allgather_base", output, Some(800)),
        ("_allgather_base", input, None),
        ("_reduce_scatter_base", input, Some(400)),
        ("_reduce_scatter_base", output, None),
        ("send", input, Some(400)),
        ("allreduce", output, Some(800)),
        ("broadcast", input, Some(400)),
        // The input may be smaller than the output.
        ("all_to_allv", input, None),
    ] {
        assert_eq!(moved(name, &[count]).1, want, "{name} with {count:?}");
    }
}

/// Kernels without metadata are as large as the tensors of the operators around their launches.
#[test]
fn sizes_come_from_the_operators_of_symmetric_memory_and_of_engines() {
    for (operator, kernel, dims, types, want) in [
        (
            "symm_mem::multimem_all_reduce_",
            "void multimem_all_reduce_kernel<c10::BFloat16, 16>(X)",
            "[[8, 100], [], []]",
            "['c10::BFloat16', 'Scalar', '']",
            Some(1600),
        ),
        (
            "symm_mem::multimem_all_gather_out",
            "multimem_all_gather_kernel",
            "[[100], [], [400]]",
            "['float', '', 'float']",
            Some(1600),
        ),
        (
            "_C_custom_ar::all_reduce",
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(X)",
            "[[], [16, 10], [16, 10], [], []]",
            "['Scalar', 'c10::BFloat16', 'c10::BFloat16', 'Scalar', 'Scalar']",
            Some(320),
        ),
        (
            "vllm::reduce_scatter",
            "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
            "[[64, 10], [], []]",
            "['c10::BFloat16', 'Scalar', 'Scalar']",
            Some(1280),
        ),
        // How much comes out is as many times this as there are ranks.
        (
            "vllm::all_gather",
            "ncclDevKernel_AllGather_RING_LL",
            "[[64, 10], [], []]",
            "['c10::BFloat16', 'Scalar', 'Scalar']",
            None,
        ),
    ] {
        let mut made = Made::default();
        let shapes = [
            ("Input Dims", Value::Text(dims)),
            ("Input type", Value::Text(types)),
        ];
        let id = [("correlation", Value::Int(1))];
        made.slice((1, 1), (0, 100), ("cpu_op", operator), &shapes);
        made.slice((1, 1), (10, 5), ("cuda_runtime", "cudaLaunchKernel"), &id);
        made.slice((0, 7), (50, 5), ("kernel", kernel), &id);
        let trace = made.finish();
        let mut query = Query::default();
        query.kernels = KernelSelector::collectives();
        query.measure = true;
        let answer = analyse(&trace, &query, &[]).unwrap();
        assert_eq!(answer.total.unwrap().bytes, want, "{operator}");
        assert!(arg_keys().contains(&"Input Dims"));
    }
}

/// Three ranks whose clocks are ahead by 0, 1000 and -500; rank 2 has no collective with rank 0.
#[test]
fn clocks_align_through_common_groups() {
    let ahead = [0, 1000, -500];
    let groups: [&[&str]; 3] = [&["a"], &["a", "b"], &["b"]];
    let traces: Vec<Trace> = (0..3)
        .map(|rank| {
            let mut made = Made::default();
            for k in 1..6_i64 {
                for group in groups[rank] {
                    // True times: rank r arrives r * 10 late; all end together.
                    let start = 1000 * k + 10 * i64::try_from(rank).unwrap() + ahead[rank];
                    let end = 1000 * k + 400 + ahead[rank];
                    let row = (0, if *group == "a" { 1 } else { 2 });
                    let args = [
                        ("Collective name", Value::Text("allreduce")),
                        ("Process Group Name", Value::Text(group)),
                        ("Group size", Value::Int(2)),
                        ("Seq", Value::Int(k)),
                        ("dtype", Value::Text("Float")),
                        ("In msg nelems", Value::Int(100)),
                        ("Out msg nelems", Value::Int(100)),
                    ];
                    made.slice(
                        row,
                        (start, end - start),
                        ("kernel", "ncclDevKernel_x"),
                        &args,
                    );
                }
            }
            made.finish()
        })
        .collect();

    let runs: Vec<_> = traces
        .iter()
        .map(|t| {
            let index = TraceIndex::new(t, Vocabulary::default());
            let reader = launch_stacks::CollectiveReader::new(t);
            let all = t.slices().filter(|s| index.is_kernel(*s));
            all.map(|s| CollectiveRun::new(&index, s, reader.on(s).unwrap()))
                .collect::<Vec<_>>()
        })
        .collect();
    let ranks: Vec<RankTrace<'_>> = (0..3)
        .map(|i| RankTrace {
            rank: Rank(u32::try_from(i).unwrap()),
            trace: &traces[i],
            runs: &runs[i],
        })
        .collect();
    let alignment = align_ranks(&ranks);
    let ahead = [0, 1, 2].map(|member| alignment.ahead_ns(member));
    assert_eq!(ahead, [Some(0), Some(1000), Some(-500)]);
    let joined = [0, 1, 2].map(|member| alignment.collectives(member));
    assert_eq!((joined, alignment.ambiguous()), ([5, 10, 5], 0));
    let waits = collective_waits(&ranks, &alignment);
    assert_eq!(waits.len(), 10);
    for wait in &waits {
        assert_eq!(wait.what.op, Some(CollectiveOp::AllReduce));
        assert_eq!(wait.spread_ns, 10);
        assert_eq!(wait.wait_ns, [10, 0]);
        assert_eq!(wait.last, Some(wait.members[1]));
        let arrival = 10 * i64::try_from(wait.members[1]).unwrap();
        assert_eq!(wait.transfer_ns, 400 - arrival);
        assert_eq!(wait.what.bytes, Some(400));
    }
}

/// Two ranks recorded the collective; it takes 100 ns from the last start to the end.
#[test]
fn a_missing_rank_may_have_been_the_last() {
    for (group_size, late, want) in [(2, 10, Some(40.0)), (3, 10, None), (2, 0, Some(36.4))] {
        let traces = [0, late].map(|late| {
            let mut made = Made::default();
            let args = [
                ("Collective name", Value::Text("allreduce")),
                ("Process Group Name", Value::Text("a")),
                ("Group size", Value::Int(group_size)),
                ("dtype", Value::Text("Float")),
                ("In msg nelems", Value::Int(1000)),
                ("Out msg nelems", Value::Int(1000)),
            ];
            let kernel = ("kernel", "ncclDevKernel_x");
            made.slice((0, 7), (500 + late, 110 - late), kernel, &args);
            made.finish()
        });
        let runs = traces.each_ref().map(|trace| {
            let kernel = trace.slices().next().unwrap();
            let what = launch_stacks::CollectiveReader::new(trace).on(kernel);
            let index = TraceIndex::new(trace, Vocabulary::default());
            [CollectiveRun::new(&index, kernel, what.unwrap())]
        });
        let ranks = [0, 1].map(|i| RankTrace {
            rank: Rank(u32::try_from(i).unwrap()),
            trace: &traces[i],
            runs: &runs[i],
        });
        let waits = collective_waits(&ranks, &align_ranks(&ranks));
        assert_eq!(waits.len(), 1);
        assert_eq!(waits[0].transfer_ns, 110 - late);
        let busbw = waits[0].transfer_busbw().map(|b| (b * 10.0).round() / 10.0);
        assert_eq!(busbw, want.map(|b: f64| (b * 10.0).round() / 10.0));
        // If ranks start at the same time, or one is missing, none is the last.
        assert_eq!(waits[0].complete, group_size == 2);
        assert_eq!(waits[0].last, (late > 0 && group_size == 2).then_some(1));
        // Only complete collectives count; the first rank waits for the second, and once.
        let twice = [waits[0].clone(), waits[0].clone()];
        let expected = match (group_size, late) {
            (2, 0) => [(0, 0), (0, 0)],
            (2, late) => [(2 * late, 0), (0, 2)],
            _ => [(0, 0), (0, 0)],
        };
        assert_eq!(waits_by_rank(2, &twice), expected);
        // Both ranks have the time of the last to arrive, if none is missing.
        let times = transfers(&ranks, &align_ranks(&ranks));
        let latency =
            |t: &Vec<Option<launch_stacks::Transfer>>| t[0].as_ref().map(|t| t.latency_ns);
        let known = (group_size == 2).then_some(110 - late);
        assert_eq!(times.iter().map(latency).collect::<Vec<_>>(), [known; 2]);
    }
}

/// When several arrows lead to a kernel, the first one from the host identifies its launch; arrows from the device are ignored.
#[test]
fn the_first_arrow_from_the_host_is_the_launch() {
    let mut made = Made::default();
    let tails = [
        ((0, 8), 50, "kernel", "before"),
        ((1, 1), 100, "cuda_runtime", "cudaLaunchKernel"),
        ((1, 1), 200, "cuda_runtime", "cudaLaunchKernelExC"),
    ];
    for (row, ts, category, name) in tails {
        made.slice(row, (ts, 5), (category, name), &[]);
    }
    made.slice((0, 7), (300, 5), ("kernel", "k"), &[]);
    for (id, (row, ts, ..)) in (1..).zip(tails) {
        for (role, row, ts) in [(FlowRole::Start, row, ts), (FlowRole::End, (0, 7), 300)] {
            let lane = made.lane(row);
            let point = FlowPoint {
                id,
                category: None,
                name: None,
                space: FlowSpace::Chrome,
                role,
            };
            made.builder.events.flow(lane, ts, point);
        }
    }
    let trace = made.finish();
    let index = TraceIndex::new(&trace, Vocabulary::default());
    let all = KernelSelector::from(NameMatch::glob("k"));
    let found = launches(&index, &all, Linking::Best);
    assert_eq!((found.arrows, found.links.len()), (3, 1));
    let launch = trace.slice(found.links[0].launch);
    assert_eq!(launch.name(), Some("cudaLaunchKernel"));
}

#[test]
fn graphs_prefer_captures_with_equal_names() {
    let mut made = Made::default();
    let corr = [("correlation", Value::Int(1))];
    made.slice((1, 1), (0, 5), ("cuda_runtime", "cudaGraphLaunch"), &corr);
    for (ts, name) in [(100, "a"), (200, "b")] {
        made.slice(
            (0, 7),
            (ts, 5),
            ("kernel", name),
            &[("correlation", Value::Int(1))],
        );
    }
    let trace = made.finish();
    let index = TraceIndex::new(&trace, Vocabulary::default());
    let all = KernelSelector::from(NameMatch::glob("*"));
    let found = launches(&index, &all, Linking::Best);
    let graphs = launch_stacks::graph_launches(&index, &found.links);
    let id = |i: usize| trace.slices().nth(i).unwrap().id();
    let capture = |names: [Option<&str>; 2]| {
        let nodes = names
            .iter()
            .enumerate()
            .map(|(i, n)| CaptureNode::new(id(i), n.map(str::to_owned)));
        Capture::new(0, nodes.collect())
    };
    let captures = [
        capture([Some("a"), Some("other")]),
        capture([None, None]),
        capture([Some("a"), Some("b")]),
    ];
    let matches = launch_stacks::match_graphs(&index, graphs.clone(), &captures);
    assert_eq!((matches[0].capture, matches[0].matched()), (Some(2), 2));
    let matches = launch_stacks::match_graphs(&index, graphs.clone(), &captures[..2]);
    assert_eq!((matches[0].capture, matches[0].one_to_one), (Some(1), true));
    let matches = launch_stacks::match_graphs(&index, graphs, &captures[..1]);
    assert_eq!((matches[0].capture, matches[0].matched()), (Some(0), 1));
    assert!(!matches[0].one_to_one);
}

proptest! {
    /// A launch counts if it is strictly inside any window.
    #[test]
    fn windows_together_are_each_of_them(
        windows in prop::collection::vec((0_i64..60, -5_i64..30), 1..8),
        launches_at in prop::collection::btree_set(0_i64..80, 1..20),
    ) {
        let mut made = Made::default();
        for (i, ts) in launches_at.iter().enumerate() {
            let n = i64::try_from(i).unwrap() + 1;
            let corr = || [("correlation", Value::Int(n))];
            made.slice((1, n), (*ts, 1), ("cuda_runtime", "cudaLaunchKernel"), &corr());
            made.slice((0, 7), (1000 + 10 * n, 5), ("kernel", "k"), &corr());
        }
        let trace = made.finish();
        let index = TraceIndex::new(&trace, Vocabulary::default());
        let found = launches(&index, &KernelSelector::exact("k"), Linking::Best);
        prop_assert_eq!(found.links.len(), launches_at.len());
        let windows: Vec<Window> = windows.iter().map(|(s, d)| window(*s, s + d)).collect();
        let inside = in_windows(&index, &found.links, &windows, &LaunchFilter::default());
        let got: Vec<i64> = inside.iter().map(|l| trace.slice(l.launch).ts().nanos()).collect();
        let want: Vec<i64> = launches_at
            .into_iter()
            .filter(|ts| windows.iter().any(|w| w.contains(Timestamp::from_nanos(*ts))))
            .collect();
        prop_assert_eq!(got, want);
    }

    /// Computes exposed time instant by instant: a collective runs, and nothing else on the device.
    #[test]
    fn exposed_time_by_brute_force(
        work in prop::collection::vec((0_i64..2, any::<bool>(), 0_i64..50, 1_i64..20), 0..14),
    ) {
        let mut made = Made::default();
        for (i, (device, collective, ts, dur)) in work.iter().enumerate() {
            let name = if *collective { "ncclDevKernel_x" } else { "gemm" };
            // A separate stream each: they may overlap in any way.
            let stream = i64::try_from(i).unwrap() + 1;
            made.slice((*device, stream), (*ts, *dur), ("kernel", name), &[("device", Value::Int(*device))]);
        }
        let trace = made.finish();
        let index = TraceIndex::new(&trace, Vocabulary::default());
        let exposure = Exposure::new(&index, HiddenBy::default(), |s| index.is_collective(s));
        for (device, time) in exposure.devices() {
            let runs = |t: i64, collective: bool| {
                work.iter().any(|w| w.0 == device.0 && w.1 == collective && w.2 <= t && t < w.2 + w.3)
            };
            let count = |f: &dyn Fn(i64) -> bool| i64::try_from((0..80).filter(|t| f(*t)).count()).unwrap();
            prop_assert_eq!(time.collective_ns, count(&|t| runs(t, true)));
            prop_assert_eq!(time.other_ns, count(&|t| runs(t, false)));
            prop_assert_eq!(time.exposed_ns, count(&|t| runs(t, true) && !runs(t, false)));
            prop_assert_eq!(time.exposed_ns + time.hidden_ns, time.collective_ns);
        }
        let charged: i64 = trace.slices().filter_map(|s| exposure.of(s.id())).sum();
        let exposed: i64 = exposure.devices().map(|d| d.1.exposed_ns).sum();
        prop_assert_eq!(charged, exposed);
    }
}
