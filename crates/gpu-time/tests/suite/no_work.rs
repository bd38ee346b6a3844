//! Tests of the reason why a trace holds no GPU activity, by its contents.

use byte_source::Source;
use gpu_time::{NoGpuReason, NoGpuWork, no_gpu_work, no_gpu_work_in};
use perfetto_reader::ReadOptions;
use trace_model::kernel::{TraceIndex, Vocabulary};
use trace_model::{TimeRange, Timestamp, Trace};

fn read(events: &[(&str, &str)]) -> Trace {
    let slice = |(at, (category, name)): (usize, &(&str, &str))| {
        let category = match *category {
            "" => String::new(),
            category => format!(r#""cat":"{category}","#),
        };
        format!(r#"{{"ph":"X",{category}"name":"{name}","pid":1,"tid":1,"ts":{at},"dur":0.5}}"#)
    };
    let list: Vec<String> = events.iter().enumerate().map(slice).collect();
    of(&format!("[{}]", list.join(",")))
}

fn of(text: &str) -> Trace {
    let source = Source::from_bytes("made.json", text.as_bytes().to_vec()).unwrap();
    perfetto_reader::read(source, &ReadOptions::default()).unwrap()
}

fn why(trace: &Trace) -> Option<NoGpuWork> {
    no_gpu_work(&TraceIndex::new(trace, Vocabulary::default()))
}

#[test]
fn the_reason_follows_from_what_was_recorded() {
    let host = ("cpu_op", "aten::mm");
    let launch = ("cuda_runtime", "cudaLaunchKernel");
    for (events, want, says) in [
        (&[][..], NoGpuReason::Empty, "holds no events"),
        (
            &[host, host, ("python_function", "f")],
            NoGpuReason::OnlyHost,
            "2 operators, 1 Python functions",
        ),
        (
            &[host, ("cuda_runtime", "cudaGetDevice")],
            NoGpuReason::NoLaunches,
            "none of the 1 CUDA or HIP calls",
        ),
        (
            &[host, launch, ("hip_api", "hipMemcpyAsync")],
            NoGpuReason::DeviceNotRecorded,
            "2 launch calls",
        ),
        (
            &[
                host,
                ("gpu_user_annotation", "step"),
                ("cuda_sync", "Event Sync"),
            ],
            NoGpuReason::OnlyDeviceAnnotations,
            "1 annotations and 1 synchronisation",
        ),
        (
            &[
                ("toplevel", "x"),
                ("", "y"),
                ("toplevel", "z"),
                ("toplevel", "z"),
            ],
            NoGpuReason::UnknownProducer,
            "the categories `toplevel` (75 %), none (25 %)",
        ),
    ] {
        let why = why(&read(events)).unwrap();
        assert_eq!(why.reason, want, "{events:?}");
        assert!(why.text.contains(says), "{}", why.text);
        assert_eq!(
            (why.note().code, &why.note().text),
            ("no_gpu_work", &why.text)
        );
    }
    assert_eq!(why(&read(&[host, launch, ("kernel", "k")])), None);
    assert_eq!(why(&read(&[("gpu_memset", "Memset")])), None);
}

#[test]
fn counters_alone_are_no_slices() {
    let trace = of(r#"[{"ph":"C","pid":1,"ts":1,"name":"power","args":{"W":7}}]"#);
    let why = why(&trace).unwrap();
    assert_eq!(why.reason, NoGpuReason::OnlyCounters);
    assert!(why.text.contains("1 counter samples"), "{}", why.text);
}

#[test]
fn a_window_without_gpu_activity_names_where_it_lies() {
    // The kernels run in [1000, 1500) and [3000, 3500) ns.
    let trace = read(&[
        ("cpu_op", "a"),
        ("kernel", "k"),
        ("cpu_op", "b"),
        ("kernel", "k"),
    ]);
    let index = TraceIndex::new(&trace, Vocabulary::default());
    let inside = |from, to| {
        let range = TimeRange::new(Timestamp::from_nanos(from), Timestamp::from_nanos(to));
        no_gpu_work_in(&index, range)
    };
    for (from, to) in [
        (0, 1001),
        (1499, 1600),
        (1100, 1200),
        (3000, 3001),
        (0, 9000),
    ] {
        assert_eq!(inside(from, to), None, "{from}..{to}");
    }
    for (from, to) in [(0, 1000), (1500, 3000), (3500, 9000)] {
        let why = inside(from, to).unwrap();
        assert_eq!(why.reason, NoGpuReason::OutsideWindow);
        assert!(
            why.text.ends_with("between 1000 and 3500 ns"),
            "{}",
            why.text
        );
    }
    let host = read(&[("cpu_op", "a")]);
    let index = TraceIndex::new(&host, Vocabulary::default());
    let why = no_gpu_work_in(&index, TimeRange::ALL).unwrap();
    assert_eq!(why.reason, NoGpuReason::OnlyHost);
}
