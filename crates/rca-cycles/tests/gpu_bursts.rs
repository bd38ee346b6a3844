//! Steps of recordings without host code, on made recordings whose truth is known: the bursts of the GPU that repeat.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use byte_source::Source;
use critical_path::{Graph, Part, PartOptions, step_rows};
use rca_cycles::{Method, Options, StepPaths, analyse, step_marks};
use trace_model::Trace;
use trace_model::kernel::{TraceIndex, Vocabulary};

const STEPS: i64 = 12;
const KERNELS: i64 = 10;

/// What is recorded of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Host {
    Nothing,
    /// Calls, each step waited for: they begin shortly before their work.
    Waits,
    /// Calls of a host that is a step ahead.
    Ahead,
    /// The same, without the calls of the first step.
    AheadClipped,
}

impl Host {
    /// How long before a step the host begins to launch it, in microseconds.
    fn lead(self) -> i64 {
        match self {
            Self::Nothing => 0,
            Self::Waits => 5,
            Self::Ahead | Self::AheadClipped => 600,
        }
    }
}

/// Returns when the GPU begins each step, in microseconds.
fn begins() -> Vec<i64> {
    let mut at = 2_000;
    let each = (0..STEPS).map(|step| {
        let own = at;
        at += 900 + step * step * 37 % 11 * 10;
        own
    });
    each.collect()
}

/// Time from the begin of a step on the GPU to its end: a copy, a pause, kernels 2 µs apart.
const LENGTH: i64 = 100 + KERNELS * 32 - 2;

fn recording(host: Host) -> Trace {
    let mut events: Vec<String> = Vec::new();
    for (step, at) in begins().into_iter().enumerate() {
        let mut call = at - host.lead();
        for work in 0..=KERNELS {
            let id = i64::try_from(step).unwrap() * 100 + work + 1;
            let (name, cat, begin, length, api) = match work {
                0 => (
                    "Memcpy HtoD (Pinned -> Device)",
                    "gpu_memcpy",
                    at,
                    8,
                    "cudaMemcpyAsync",
                ),
                n => (
                    "gemm",
                    "kernel",
                    at + 100 + (n - 1) * 32,
                    30,
                    "cudaLaunchKernel",
                ),
            };
            events.push(format!(
                r#"{{"name":"{name}","cat":"{cat}","ph":"X","pid":0,"tid":7,"ts":{begin},"dur":{length},"args":{{"correlation":{id},"device":0,"stream":7}}}}"#
            ));
            let is_clipped = host == Host::AheadClipped && step == 0;
            if host != Host::Nothing && !is_clipped {
                events.push(format!(
                    r#"{{"name":"{api}","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{call},"dur":3,"args":{{"correlation":{id}}}}}"#
                ));
            }
            call += 4;
        }
        if host == Host::Waits {
            events.push(format!(
                r#"{{"name":"cudaDeviceSynchronize","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{call},"dur":{},"args":{{"correlation":{}}}}}"#,
                at + LENGTH + 3 - call,
                step * 100 + 50
            ));
        }
    }
    let json = format!("[{}]", events.join(","));
    let source = Source::from_bytes("bursts.json", json.into_bytes()).unwrap();
    perfetto_reader::read(source, &Default::default()).unwrap()
}

/// Steps last from end to end of their work, whatever the host is ahead, and both ways to them agree.
#[test]
fn bursts_are_steps_and_their_work_is_that_of_their_launches() {
    for host in [Host::Nothing, Host::Waits, Host::Ahead, Host::AheadClipped] {
        let trace = recording(host);
        let index = TraceIndex::new(&trace, Vocabulary::of(&trace));
        let (marks, found_by) = step_marks(&index, None);
        assert_eq!(found_by, "gpu_burst", "{host:?}");
        let part = Part::new(&index, 0, &marks, PartOptions::default());
        let found = step_rows(&Graph::new(vec![part], None)).unwrap();
        let ends: Vec<i64> = found.steps.iter().map(|step| step.end_ns).collect();
        let truth: Vec<i64> = begins().iter().map(|at| (at + LENGTH) * 1_000).collect();
        // Work that was launched before the recording has no step: the first one is queued behind it.
        let (skipped, first) = match host {
            Host::AheadClipped => (1, begins()[0] + LENGTH),
            host => (0, begins()[0] - host.lead()),
        };
        assert_eq!(ends, truth[skipped..], "{host:?}");
        assert_eq!(found.steps[0].begin_ns, first * 1_000, "{host:?}");
        for pair in found.steps.windows(2) {
            assert_eq!(pair[0].end_ns, pair[1].begin_ns, "{host:?}");
        }
        let analysis = analyse(&trace, &Options::default()).unwrap();
        assert_eq!(analysis.method, Method::Device);
        let paths = StepPaths::new(&trace, &analysis);
        assert_eq!(analysis.cycles.len(), truth.len());
        for (at, step) in found.steps.iter().enumerate() {
            let own = paths.of_cycle(at + skipped).unwrap();
            let times = |row: &critical_path::StepRow| (row.begin_ns, row.end_ns, row.groups);
            assert_eq!(times(own), times(step), "{host:?} {at}");
        }
    }
}

/// A few kernels show no rhythm.
#[test]
fn a_recording_of_a_few_kernels_is_one_step() {
    let kernels = (0..7).map(|i| {
        format!(
            r#"{{"name":"gemm","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{},"dur":30,"args":{{"device":0,"stream":7}}}}"#,
            i * 100
        )
    });
    let json = format!("[{}]", kernels.collect::<Vec<_>>().join(","));
    let source = Source::from_bytes("few.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    let index = TraceIndex::new(&trace, Vocabulary::of(&trace));
    assert_eq!(step_marks(&index, None), (Vec::new(), "whole"));
}
