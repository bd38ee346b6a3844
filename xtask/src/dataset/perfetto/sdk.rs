//! A trace in the form that Perfetto's tracing library writes: one sequence per thread, interned
//! names, an incremental clock, and most features of the format once.

use super::super::json::{Json, object};
use super::super::{Fixture, proto::Message};
use super::writer::{Clock, Writer, note};

const PROCESS: u64 = 10;
const MAIN: u64 = 11;
const WORKER: u64 = 12;
const STREAM: u64 = 107;
const SUBTREE: u64 = 40;
const LEAF: u64 = 41;
const MEMORY: u64 = 50;
const TOKENS: u64 = 51;
const LOAD: u64 = 52;
/// Trace time of the first event, in nanoseconds.
const T: i64 = 5_000_000_000;
/// Lag of the worker's clock, CLOCK_MONOTONIC, in nanoseconds.
const BEHIND: i64 = 1_250_000_000;

pub(super) fn build() -> [Fixture; 2] {
    let mut w = Writer::default();
    head(&mut w);
    first_generation(&mut w);
    gpu(&mut w);
    worker(&mut w);
    second_generation(&mut w);
    losses(&mut w);
    w.start_bundle();
    bundled(&mut w);
    w.pack_bundle();
    legacy(&mut w);
    let (bytes, slices) = w.finish();
    let sample = |track: &str, ts: i64, value: &str| {
        object! { "track": track, "ts_ns": T + ts, "value": Json::Raw(value.to_owned()) }
    };
    let truth = object! {
        "schema": 1,
        "slices": slices,
        "flows": Json::Arr(vec![
            Json::list(["cudaLaunchKernelExC", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"]),
            Json::list(["enqueue", "dequeue"]),
            Json::list(["dequeue", "answer"]),
            Json::list(["legacy complete", "legacy second"]),
        ]),
        "counters": Json::Arr(vec![
            sample("memory", 1_000, "10240"),
            sample("memory", 9_000, "20480"),
            sample("load", 2_000, "0.5"),
            sample("tokens", 3_000, "5"),
            sample("tokens", 4_000, "8"),
            sample("tokens", 6_000, "6"),
            sample("memory", 30_000, "30720"),
        ]),
        "args": object! {
            "annotated": object! {
                "debug.yes": "true", "debug.count": "7", "debug.delta": "-7", "debug.share": "0.25", "debug.text": "hello",
                "debug.address": "0xdeadbeef", "debug.shape.rows": "32", "debug.shape.cols": "4096", "debug.list[0]": "1",
                "debug.list[1]": "2", "debug.dotted_name": "1", "debug.at_end": "late",
            },
        },
        "processes": Json::list(["server (4242)"]),
        "dropped": object! { "needs_state": 2, "end_without_begin": 1, "counter_without_track": 1 },
        "lost_packets": 1,
        "never_closed": 1,
    };
    let shows = "sequences, interning, clears, losses, three clocks, track trees, counters, flows, annotations, a zlib bundle, legacy events";
    [
        Fixture::plain("perfetto/sdk.pftrace", shows, bytes),
        Fixture::truth("perfetto/sdk", &truth),
    ]
}

fn head(w: &mut Writer) {
    w.clear(1, Clock::Incremental(T), Some(MAIN));
    w.snapshot(1, &[(6, T), (64, 0)]);
    w.snapshot(1, &[(6, T), (3, T - BEHIND)]);
    w.track(PROCESS, 0, "process", |track| {
        track.nested(3, |process| {
            process.uint(1, 4242).text(6, "server");
        });
    });
    let thread = |name: &'static str, tid: u64| {
        move |track: &mut Message| {
            track.nested(4, |thread| {
                thread.uint(1, 4242).uint(2, tid).text(5, name);
            });
        }
    };
    w.track(MAIN, PROCESS, "main", thread("main", 4242));
    w.track(STREAM, PROCESS, "stream 7", |track| {
        track.text(2, "GPU 0 stream 7");
    });
    w.track(SUBTREE, PROCESS, "requests", |track| {
        track.text(2, "requests");
    });
    w.track(LEAF, SUBTREE, "request 17", |track| {
        track.text(2, "request 17");
    });
    let counter = |name: &'static str, unit: u64, multiplier: i64, incremental: bool| {
        move |track: &mut Message| {
            track.text(2, name).nested(8, |counter| {
                counter
                    .uint(3, unit)
                    .int(4, multiplier)
                    .uint(5, u64::from(incremental));
            });
        }
    };
    w.track(MEMORY, PROCESS, "memory", counter("memory", 3, 1024, false));
    w.track(TOKENS, PROCESS, "tokens", counter("tokens", 2, 1, true));
    w.track(LOAD, PROCESS, "load", counter("load", 0, 0, false));
}

fn counter(w: &mut Writer, ts: i64, track: u64, value: i64) {
    w.event(1, T + ts, "", "", |event| {
        event.uint(9, 4).uint(11, track).int(30, value);
    });
}

fn first_generation(w: &mut Writer) {
    let main = (1, MAIN);
    w.begin(main, T, "forward_batch", "python_function", |_| {});
    counter(w, 1_000, MEMORY, 10);
    w.event(1, T + 2_000, "", "", |event| {
        event.uint(9, 4).uint(11, LOAD).double(44, 0.5);
    });
    counter(w, 3_000, TOKENS, 5);
    counter(w, 4_000, TOKENS, 3);
    w.begin(main, T + 5_000, "annotated", "cpu_op", |event| {
        note(event, "yes", |a| _ = a.uint(2, 1));
        note(event, "count", |a| _ = a.uint(3, 7));
        note(event, "delta", |a| _ = a.int(4, -7));
        note(event, "share", |a| _ = a.double(5, 0.25));
        note(event, "text", |a| _ = a.text(6, "hello"));
        note(event, "address", |a| _ = a.uint(7, 0xdead_beef));
        note(event, "shape", |a| {
            for (key, value) in [("rows", 32), ("cols", 4096)] {
                a.nested(11, |entry| _ = entry.text(10, key).int(4, value));
            }
        });
        note(event, "list", |a| {
            for value in [1, 2] {
                a.nested(12, |entry| _ = entry.int(4, value));
            }
        });
        note(event, "dotted.name", |a| _ = a.int(4, 1));
    });
    counter(w, 6_000, TOKENS, -2);
    w.begin(
        main,
        T + 7_000,
        "cudaLaunchKernelExC",
        "cuda_runtime",
        |event| {
            note(event, "correlation", |a| _ = a.int(4, 1001));
            event.fixed64(47, 1001);
        },
    );
    w.end(main, T + 8_000, |_| {});
    w.end(main, T + 8_500, |event| {
        note(event, "at_end", |a| _ = a.text(6, "late"))
    });
    counter(w, 9_000, MEMORY, 20);
    // A slice that starts when the previous one ends, an instant, and a slice on a track two levels
    // down.
    w.begin(main, T + 10_000, "enqueue", "cpu_op", |event| {
        _ = event.fixed64(47, 7)
    });
    w.begin((1, LEAF), T + 10_500, "request", "serving", |_| {});
    w.event(1, T + 10_600, "first token", "serving", |event| {
        _ = event.uint(9, 3).uint(11, LEAF)
    });
    w.note(LEAF, T + 10_600, 0, "first token", "serving");
    w.end(main, T + 11_000, |_| {});
    w.begin(main, T + 11_000, "sample", "cpu_op", |_| {});
    w.end(main, T + 12_000, |_| {});
    w.end((1, LEAF), T + 12_500, |_| {});
    w.end(main, T + 13_000, |_| {});
    // Ends nothing.
    w.event(1, T + 13_500, "", "", |event| {
        _ = event.uint(9, 2).uint(11, MAIN)
    });
    // A counter on a track that no descriptor declares.
    counter(w, 14_000, 999, 1);
}

/// Writes GPU activity late, from another sequence and with its own times.
fn gpu(w: &mut Writer) {
    w.clear(5, Clock::Boot, None);
    let stream = (5, STREAM);
    let name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    w.begin(stream, T + 20_000, name, "kernel", |event| {
        note(event, "correlation", |a| _ = a.int(4, 1001));
        event.fixed64(48, 1001);
    });
    w.end(stream, T + 32_000, |_| {});
}

fn worker(w: &mut Writer) {
    w.clear(2, Clock::Other(3, BEHIND), Some(WORKER));
    let worker = (2, WORKER);
    // Written before its track is described, and earlier in time than the preceding events in the
    // file.
    w.begin(worker, T + 10_800, "dequeue", "cpu_op", |event| {
        _ = event.fixed64(47, 7)
    });
    w.begin(worker, T + 10_900, "tokenize", "python_function", |_| {});
    w.end(worker, T + 11_500, |_| {});
    w.end(worker, T + 11_900, |_| {});
    w.begin(worker, T + 15_000, "answer", "cpu_op", |event| {
        _ = event.fixed64(48, 7)
    });
    w.end(worker, T + 15_400, |_| {});
    w.begin(
        worker,
        T + 90_000,
        "never closed",
        "python_function",
        |_| {},
    );
    w.track(WORKER, PROCESS, "worker", |track| {
        track.nested(4, |thread| {
            thread.uint(1, 4242).uint(2, 4300).text(5, "worker");
        });
    });
}

/// Restarts interned ids with other meanings, and sets the incremental clock again.
fn second_generation(w: &mut Writer) {
    w.clear(1, Clock::Incremental(T + 29_000), Some(MAIN));
    w.snapshot(1, &[(6, T + 29_000), (64, 40_000)]);
    counter(w, 30_000, MEMORY, 30);
    w.begin(
        (1, MAIN),
        T + 40_000,
        "forward_batch again",
        "python_function",
        |_| {},
    );
    w.begin((1, MAIN), T + 40_000, "same start", "cpu_op", |_| {});
    w.end((1, MAIN), T + 41_000, |_| {});
    w.end((1, MAIN), T + 42_000, |_| {});
}

/// Writes a sequence that lost a packet: until its next clear, packets that need state are dropped.
fn losses(w: &mut Writer) {
    w.clear(3, Clock::Boot, Some(MAIN));
    w.begin((3, MAIN), T + 50_000, "before the loss", "cpu_op", |_| {});
    w.end((3, MAIN), T + 50_500, |_| {});
    let mut lost = Message::new();
    lost.int(8, T + 51_000)
        .uint(10, 3)
        .nested(11, |event| _ = event.uint(9, 1).uint(11, MAIN).uint(10, 1));
    lost.uint(13, 2).uint(42, 1);
    w.packet(&lost);
    w.event(3, T + 51_500, "", "", |event| {
        _ = event.uint(9, 2).uint(11, MAIN)
    });
    w.clear(3, Clock::Boot, Some(MAIN));
    w.begin((3, MAIN), T + 52_000, "after the loss", "cpu_op", |_| {});
    w.end((3, MAIN), T + 52_500, |_| {});
}

fn bundled(w: &mut Writer) {
    w.begin(
        (3, MAIN),
        T + 60_000,
        "from a compressed packet",
        "cpu_op",
        |_| {},
    );
    w.begin((3, MAIN), T + 60_100, "inside it", "cpu_op", |_| {});
    w.end((3, MAIN), T + 60_200, |_| {});
    w.end((3, MAIN), T + 60_500, |_| {});
}

fn legacy(w: &mut Writer) {
    let complete = |w: &mut Writer, ts: i64, name: &str, duration_us: i64| {
        w.event(3, T + ts, name, "legacy", |event| {
            event.uint(11, MAIN).nested(6, |legacy| {
                _ = legacy.uint(2, u64::from(b'X')).int(3, duration_us)
            });
        });
        w.note(MAIN, T + ts, duration_us * 1000, name, "legacy");
    };
    let flow = |w: &mut Writer, ts: i64, phase: u8| {
        w.event(3, T + ts, "legacy flow", "legacy", |event| {
            event.uint(11, MAIN).nested(6, |legacy| {
                legacy.uint(2, u64::from(phase)).uint(6, 77);
                if phase == b'f' {
                    legacy.uint(12, 1);
                }
            });
        });
    };
    complete(w, 70_000, "legacy complete", 5);
    flow(w, 71_000, b's');
    complete(w, 80_000, "legacy second", 4);
    flow(w, 81_000, b'f');
}
