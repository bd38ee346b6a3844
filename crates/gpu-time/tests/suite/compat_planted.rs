//! The rules of the public analyzers on small recordings whose tables follow by hand from the rules as documented. `peers`,
//! `comm_reference` and `diff_reference` compare with the analyzers' own tables, where the published recordings are at hand.

use byte_source::Source;
use gpu_time::comm::tracelens::{implicit_sync, long};
use gpu_time::comm::{CommRules, RankDigest, assign_ranks};
use gpu_time::compat::hta::{self, Combination, StreamIdle};
use gpu_time::compat::tracelens::{self, Launcher};
use gpu_time::diff::hta::compare;
use gpu_time::{GpuWork, Roles, Rules, account};
use perfetto_reader::ReadOptions;
use trace_model::Trace;

fn read(text: &str) -> Trace {
    let source = Source::from_bytes("made.json", text.as_bytes().to_vec()).unwrap();
    perfetto_reader::read(source, &ReadOptions::default()).unwrap()
}

/// An event of the host, in microseconds.
fn host(cat: &str, name: &str, (ts, dur): (f64, f64), args: &str) -> String {
    format!(
        r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":9,"tid":1,"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

fn call(at: (f64, f64), id: i64) -> String {
    host(
        "cuda_runtime",
        "cudaLaunchKernel",
        at,
        &format!(r#""correlation":{id}"#),
    )
}

/// An activity of the device; `id` 0 stands for none.
fn device(cat: &str, name: &str, stream: i64, (ts, dur): (f64, f64), id: i64) -> String {
    let id = match id {
        0 => String::new(),
        id => format!(r#","correlation":{id}"#),
    };
    format!(
        r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":{stream},"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":{stream}{id}}}}}"#
    )
}

fn json(events: &[String]) -> String {
    format!("[{}]", events.join(","))
}

/// Computation 10.2 to 20.1 and 35.3 to 35.9, communication 15.5 to 30.7, a copy 40 to 45.9.
fn mixed() -> Trace {
    read(&json(&[
        device("kernel", "gemm", 7, (10.2, 9.9), 1),
        device(
            "kernel",
            "ncclDevKernel_AllReduce_Sum_f32",
            20,
            (15.5, 15.2),
            2,
        ),
        device("kernel", "tiny", 7, (35.3, 0.6), 3),
        device("gpu_memcpy", "Memcpy HtoD", 7, (40.0, 5.9), 4),
    ]))
}

#[test]
fn breakdowns_of_hta_are_exact_or_by_whole_microseconds() {
    let trace = mixed();
    let work = GpuWork::new(&trace);
    let time = |rounding| {
        let events = hta::events(&work, rounding);
        let time = account(&mut Roles::new(&work, Rules::Hta), &events, None);
        (
            (time.span_ns, time.idle_ns, time.comp_ns),
            time.comm_comp_overlap_pct(),
        )
    };
    let (exact, overlap) = time(false);
    // Busy are 20.5, 0.6 and 5.9.
    assert_eq!(exact, (35_700, 8_700, 10_500));
    // 15.5 to 20.1, of 15.2.
    let overlap = overlap.unwrap();
    assert!((overlap - 100.0 * 4.6 / 15.2).abs() < 1e-9, "{overlap}");
    // From 11 to 45; the event from 36 to 35 has no time.
    assert_eq!(time(true).0, (34_000, 10_000, 9_000));
}

#[test]
fn combinations_of_hta_cut_each_stretch() {
    let trace = mixed();
    let work = GpuWork::new(&trace);
    let events = hta::events(&work, false);
    let found = hta::combinations(&mut Roles::new(&work, Rules::Hta), &events);
    let found = found.iter().map(
        |Combination {
             types,
             exact_ns,
             cut_ns,
             ..
         }| (types.as_str(), *exact_ns, *cut_ns),
    );
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            ("COMMUNICATION", 10_600, 10_000),
            // 5.3 and 0.6.
            ("COMPUTATION", 5_900, 5_000),
            ("MEMORY", 5_900, 5_000),
            ("COMPUTATION overlapping COMMUNICATION", 4_600, 4_000),
        ]
    );
}

/// Work of the last step, and work without a call, is no event; other categories with a stream are.
#[test]
fn events_of_hta_were_called_before_the_last_step() {
    let steps = [
        host("user_annotation", "ProfilerStep#1", (0.0, 25.0), ""),
        host("user_annotation", "ProfilerStep#2", (25.0, 35.0), ""),
    ];
    let events = [
        call((1.0, 1.0), 1),
        call((24.0, 1.0), 2),
        call((25.0, 1.0), 3),
        device("kernel", "first", 7, (10.0, 5.0), 1),
        device("other", "second", 7, (40.0, 5.0), 2),
        device("kernel", "third", 7, (50.0, 5.0), 3),
        device("kernel", "uncalled", 7, (60.0, 5.0), 0),
    ];
    let names = |all: &[String]| {
        let trace = read(&json(all));
        let work = GpuWork::new(&trace);
        let events = hta::events(&work, false).into_iter();
        events
            .map(|event| work.name(&event).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&[&steps[..], &events].concat()), ["first", "second"]);
    // A single step is no window.
    let single = [&steps[..1], &events].concat();
    assert_eq!(names(&single), ["first", "second", "third", "uncalled"]);
}

#[test]
fn idle_time_of_hta_goes_by_the_call_and_the_length_of_the_gap() {
    let trace = read(&json(&[
        host("cpu_op", "aten::mm", (0.0, 1.0), ""),
        call((2.0, 1.0), 1),
        call((5.0, 1.0), 2),
        call((50.0, 1.0), 3),
        call((105.0, 1.0), 4),
        device("kernel", "a", 7, (10.0, 10.0), 1),
        // Called before the stream ran dry: 2 us wait for the kernel.
        device("kernel", "b", 7, (22.0, 8.0), 2),
        // Called after: 70 us wait for the host.
        device("kernel", "c", 7, (100.0, 10.0), 3),
        // Called before, but longer than 30 us.
        device("kernel", "d", 7, (150.0, 10.0), 4),
        // Without a call the first row counts, which is before all.
        device("kernel", "e", 7, (165.0, 5.0), 0),
        device("kernel", "other", 8, (11.0, 1.0), 0),
    ]));
    let work = GpuWork::new(&trace);
    let events = hta::events(&work, false);
    let found = hta::idle(&work, &events, false).into_iter();
    let found = found.map(
        |StreamIdle {
             stream,
             host_wait_ns,
             kernel_wait_ns,
             other_ns,
             ..
         }| { (stream, host_wait_ns, kernel_wait_ns, other_ns) },
    );
    assert_eq!(
        found.collect::<Vec<_>>(),
        [(7, 70_000, 7_000, 40_000), (8, 0, 0, 0)]
    );
}

/// An arrow from a call to an activity of a stream.
fn arrow(id: i64, from: f64, (stream, to): (i64, f64)) -> [String; 2] {
    let at = |ph: &str, bind: &str, (pid, tid): (i64, i64), ts: f64| {
        format!(
            r#"{{"ph":"{ph}",{bind}"cat":"ac2g","name":"ac2g","id":{id},"pid":{pid},"tid":{tid},"ts":{ts}}}"#
        )
    };
    [
        at("s", "", (9, 1), from),
        at("f", r#""bp":"e","#, (0, stream), to),
    ]
}

#[test]
fn events_of_tracelens_have_an_arrow_or_in_files_without_any_a_call() {
    let events = [
        call((1.0, 1.0), 1),
        call((3.0, 1.0), 2),
        device("kernel", "first", 7, (10.0, 5.0), 1),
        device("kernel", "second", 7, (20.0, 5.0), 2),
        device("kernel", "uncalled", 7, (30.0, 5.0), 99),
    ];
    let names = |all: &[String]| {
        let trace = read(&json(all));
        let work = GpuWork::new(&trace);
        let events = tracelens::linked(&work).into_iter();
        events
            .map(|event| work.name(&event).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&events), ["first", "second"]);
    assert_eq!(
        names(&[&events[..], &arrow(1, 1.0, (7, 10.0))].concat()),
        ["first"]
    );
}

#[test]
fn launchers_of_tracelens_have_the_union_of_their_kernels() {
    let trace = read(&json(&[
        host("cpu_op", "aten::linear", (0.0, 50.0), ""),
        host("cpu_op", "aten::addmm", (5.0, 15.0), ""),
        call((6.0, 2.0), 1),
        // A Python function around a call hides no operator, an annotation does.
        host("python_function", "model.py(3): forward", (29.0, 4.0), ""),
        call((30.0, 2.0), 2),
        call((40.0, 2.0), 4),
        host("user_annotation", "optimizer", (60.0, 30.0), ""),
        call((70.0, 2.0), 3),
        device("kernel", "gemm", 7, (100.0, 10.0), 1),
        device("kernel", "add", 8, (105.0, 15.0), 2),
        device("kernel", "adam", 7, (130.0, 5.0), 3),
        device("kernel", "ncclDevKernel_AllReduce", 20, (140.0, 60.0), 4),
    ]));
    let work = GpuWork::new(&trace);
    let found = tracelens::launchers(&work, &tracelens::linked(&work));
    let found = found.iter().map(
        |Launcher {
             name,
             count,
             direct_ns,
             subtree_ns,
             ..
         }| { (name.as_str(), *count, *direct_ns, *subtree_ns) },
    );
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            ("aten::linear", 1, 15_000, 20_000),
            ("aten::addmm", 1, 10_000, 10_000),
            ("cudaLaunchKernel", 1, 5_000, 5_000),
        ]
    );
}

/// Two ranks reduce 4 MiB; the second starts 20 us late and ends 0.5 us late.
#[test]
fn collectives_of_tracelens_wait_for_the_last_start() {
    let rank = |rank: u32, (ts, dur): (f64, f64)| {
        let text = format!(
            r#"{{"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":2}},"traceEvents":[
            {{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","pid":0,"tid":20,"ts":{ts},"dur":{dur},
              "args":{{"device":0,"stream":20,"correlation":3,"Collective name":"allreduce","In msg nelems":1048576,"Out msg nelems":1048576,
                "Group size":2,"dtype":"Float","Process Group Name":"tp","Process Group Ranks":"[0, 1]"}}}}]}}"#
        );
        RankDigest::new(&format!("r{rank}"), &read(&text), CommRules::TraceLens)
    };
    let mut digests = vec![rank(1, (120.0, 30.5)), rank(0, (100.0, 50.0))];
    assert!(!assign_ranks(&mut digests).unwrap().placed);
    let rows = long(&digests);
    let rows_of = rows.iter().map(|row| {
        (
            row.collective_id.as_str(),
            row.rank.0,
            row.dur_ns,
            row.in_mib(),
        )
    });
    assert_eq!(
        rows_of.collect::<Vec<_>>(),
        [
            ("tp_0", 0, 50_000, Some(4.0)),
            ("tp_0", 1, 30_500, Some(4.0))
        ]
    );
    let found = implicit_sync(&rows);
    assert_eq!(found.len(), 1);
    let row = &found[0];
    assert_eq!(
        (row.latency_ns, row.start_skew_ns, row.end_skew_ns),
        (30_500, 20_000, 500)
    );
    assert_eq!((row.earliest.0, row.full_mib), (0, Some(4.0)));
    assert!(
        (row.mean_wait_ns - 10_000.0).abs() < 1e-9,
        "{}",
        row.mean_wait_ns
    );
    // 2^22 bytes in 30.5 us; the factor of two ranks is 1.
    let gib_s = 4_194_304.0 / 30.5e-6 / 1_073_741_824.0;
    for rate in [row.algbw_gib_s, row.busbw_gib_s] {
        assert!((rate.unwrap() - gib_s).abs() < 1e-6, "{rate:?}");
    }
}

#[test]
fn names_of_hta_are_counted_with_times_rounded_inwards() {
    let side = |at: f64, kernels: i64| {
        let mut events = vec![
            host("user_annotation", "ProfilerStep#1", (0.0, 100.0), ""),
            host("cpu_op", "aten::mm", (at, 3.0), ""),
            // After the step.
            host("cpu_op", "aten::mm", (100.0, 3.0), ""),
            // 8.3 to 8.9: from 9 to 8.
            host("cpu_op", "aten::t", (8.3, 0.6), ""),
            call((120.0, 1.0), 90),
            device("kernel", "gemm", 7, (150.0, 5.0), 90),
        ];
        for id in 1..=kernels {
            let ts = f64::from(i32::try_from(id).unwrap()) * 12.0;
            events.push(call((ts, 1.5), id));
            events.push(device("kernel", "gemm", 7, (ts + 5.25, 4.5), id));
        }
        read(&json(&events))
    };
    // 3.5 to 6.5 is 4 to 6; 3 to 6 is as it is. A kernel from 17.25 to 21.75 takes 3 us.
    let found = compare(&side(3.5, 1), &side(3.0, 2));
    let found = found
        .iter()
        .map(|row| (row.name.as_str(), row.change(), row.counts, row.total_us));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            ("ProfilerStep#1", "=", [1, 1], [100, 100]),
            ("aten::mm", "=", [1, 1], [2, 3]),
            ("aten::t", "=", [1, 1], [-1, -1]),
            ("cudaLaunchKernel", "+", [1, 2], [1, 2]),
            ("gemm", "+", [1, 2], [3, 6]),
        ]
    );
}
