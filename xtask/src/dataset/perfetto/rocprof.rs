//! A trace in the form that rocprofv3 writes: API calls and dispatches joined by the annotation
//! `corr_id`.

use super::super::Fixture;
use super::super::json::{Json, object};
use super::super::proto::Message;
use super::writer::{Clock, Writer, note};

const PROCESS: u64 = 1;
const MAIN: u64 = 2;
const SIDE: u64 = 3;
const QUEUE: u64 = 4;
const COPY: u64 = 5;
const COPIED: u64 = 6;
const T: i64 = 8_000_000_000;
/// The producer mixes its process into flow ids, so they are not correlation ids.
const PROCESS_CONSTANT: u64 = 0x9e37_79b9_0000_0000;

struct Call {
    at: i64,
    took: i64,
    corr: u64,
    tid: i64,
}

pub(super) fn build() -> [Fixture; 2] {
    let mut w = Writer::default();
    head(&mut w);
    let mut links = Vec::new();
    let all_reduce = "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)";
    let gemm = "Cijk_Alik_Bljk_BBS_BH_MT128x128x64_MI16x16x1_SN";
    span(
        &mut w,
        MAIN,
        "decode_step",
        "marker_api",
        &Call {
            at: 0,
            took: 90_000,
            corr: 1,
            tid: 77,
        },
        |w| {
            for layer in 0..3_i64 {
                let at = 2_000 + 25_000 * layer;
                let corr = 10 + 10 * layer.unsigned_abs();
                call(
                    w,
                    MAIN,
                    "hipExtModuleLaunchKernel",
                    "hip_api",
                    &Call {
                        at,
                        took: 3_000,
                        corr,
                        tid: 77,
                    },
                );
                let outer = Call {
                    at: at + 5_000,
                    took: 9_000,
                    corr: corr + 1,
                    tid: 77,
                };
                span(w, MAIN, "ncclAllReduce", "rccl_api", &outer, |w| {
                    call(
                        w,
                        MAIN,
                        "hipExtLaunchKernel",
                        "hip_api",
                        &Call {
                            at: at + 6_000,
                            took: 4_000,
                            corr: corr + 2,
                            tid: 77,
                        },
                    );
                });
                for (name, start, took, corr, launch) in [
                    (gemm, at + 4_000, 7_000, corr, "hipExtModuleLaunchKernel"),
                    (
                        all_reduce,
                        at + 12_000,
                        10_000,
                        corr + 2,
                        "hipExtLaunchKernel",
                    ),
                ] {
                    dispatch(
                        w,
                        name,
                        &Call {
                            at: start,
                            took,
                            corr,
                            tid: 77,
                        },
                    );
                    links.push(object! { "kernel": name, "kernel_ts_ns": T + start, "kernel_dur_ns": took, "corr_id": corr, "launch": launch });
                }
            }
        },
    );
    call(
        &mut w,
        SIDE,
        "hipMemcpyAsync",
        "hip_api",
        &Call {
            at: 100_000,
            took: 2_000,
            corr: 90,
            tid: 78,
        },
    );
    copy(
        &mut w,
        &Call {
            at: 103_000,
            took: 4_000,
            corr: 90,
            tid: 78,
        },
    );
    let (bytes, slices) = w.finish();
    let truth = object! {
        "schema": 1,
        "slices": slices,
        "links": Json::Arr(links),
        "stacks": Json::Arr(vec![
            object! { "kernel": gemm, "launches": 3, "gpu_ns": 21_000,
                "frames_leaf_first": Json::list(["hipExtModuleLaunchKernel", "decode_step"]) },
            object! { "kernel": all_reduce, "launches": 3, "gpu_ns": 30_000,
                "frames_leaf_first": Json::list(["hipExtLaunchKernel", "ncclAllReduce", "decode_step"]) },
        ]),
        "counters": Json::Arr(vec![
            object! { "track": "COPY BYTES to AGENT [1]", "ts_ns": T + 103_000, "value": 65_536 },
            object! { "track": "COPY BYTES to AGENT [1]", "ts_ns": T + 107_000, "value": 0 },
        ]),
    };
    let shows = "rocprofv3 output: hip_api, rccl_api, marker_api, kernel_dispatch and memory_copy joined by corr_id";
    [
        Fixture::plain("perfetto/rocprof.pftrace", shows, bytes),
        Fixture::truth("perfetto/rocprof", &truth),
    ]
}

fn head(w: &mut Writer) {
    w.clear(1, Clock::Boot, None);
    w.track(PROCESS, 0, "process", |track| {
        track.nested(3, |process| _ = process.uint(1, 77).text(6, "python3"));
    });
    w.track(MAIN, PROCESS, "main", |track| {
        track.nested(4, |thread| _ = thread.uint(1, 77).uint(2, 77));
    });
    for (uuid, name) in [
        (SIDE, "THREAD 1 (78)"),
        (QUEUE, "COMPUTE AGENT [1] QUEUE [0] (GPU)"),
        (COPY, "COPY to AGENT [1] THREAD [1] (GPU)"),
    ] {
        let parent = if uuid == SIDE { PROCESS } else { 0 };
        w.track(uuid, parent, name, |track| _ = track.text(2, name));
    }
    w.track(COPIED, 0, "COPY BYTES to AGENT [1]", |track| {
        track
            .text(2, "COPY BYTES to AGENT [1]")
            .nested(8, |counter| _ = counter.uint(3, 3));
    });
}

fn notes(event: &mut Message, call: &Call, kind: u64) {
    let begin = T + call.at;
    note(event, "begin_ns", |a| _ = a.uint(3, begin.unsigned_abs()));
    note(event, "end_ns", |a| {
        _ = a.uint(3, (begin + call.took).unsigned_abs())
    });
    note(event, "delta_ns", |a| {
        _ = a.uint(3, call.took.unsigned_abs())
    });
    note(event, "tid", |a| _ = a.int(4, call.tid));
    note(event, "kind", |a| _ = a.uint(3, kind));
    note(event, "corr_id", |a| _ = a.uint(3, call.corr));
}

/// Writes a host call around `body`; every event of a dispatch has the same flow id.
fn span(
    w: &mut Writer,
    track: u64,
    name: &str,
    cat: &str,
    call: &Call,
    body: impl FnOnce(&mut Writer),
) {
    w.begin((1, track), T + call.at, name, cat, |event| {
        event.fixed64(47, call.corr ^ PROCESS_CONSTANT);
        notes(event, call, 3);
    });
    body(w);
    w.end((1, track), T + call.at + call.took, |_| {});
}

fn call(w: &mut Writer, track: u64, name: &str, cat: &str, call: &Call) {
    span(w, track, name, cat, call, |_| {});
}

fn dispatch(w: &mut Writer, name: &str, call: &Call) {
    w.begin((1, QUEUE), T + call.at, name, "kernel_dispatch", |event| {
        event.fixed64(47, call.corr ^ PROCESS_CONSTANT);
        notes(event, call, 11);
        for (key, value) in [
            ("agent", 1),
            ("queue", 0),
            ("kernel_id", 5),
            ("workgroup_size", 256),
            ("grid_size", 65_536),
        ] {
            note(event, key, |a| _ = a.uint(3, value));
        }
    });
    w.end((1, QUEUE), T + call.at + call.took, |_| {});
}

fn copy(w: &mut Writer, call: &Call) {
    let sample = |w: &mut Writer, at: i64, value: i64| {
        w.event(1, T + at, "", "", |event| {
            _ = event.uint(9, 4).uint(11, COPIED).int(30, value)
        });
    };
    sample(w, call.at, 65_536);
    w.begin(
        (1, COPY),
        T + call.at,
        "MEMORY_COPY_HOST_TO_DEVICE",
        "memory_copy",
        |event| {
            event.fixed64(47, call.corr ^ PROCESS_CONSTANT);
            notes(event, call, 14);
        },
    );
    w.end((1, COPY), T + call.at + call.took, |_| {});
    sample(w, call.at + call.took, 0);
}
