//! Flow arrows and correlation ids: real links and noise.

use super::super::Fixture;
use super::super::json::{Json, object};
use super::{document, pair, x, x_args};

const HOST: (i64, i64) = (1, 1);
const GPU: (i64, i64) = (0, 7);

pub(super) fn build() -> Vec<Fixture> {
    let mut files = Vec::new();
    files.extend(flows());
    files.extend(correlation());
    files
}

fn flow(
    phase: &str,
    id: impl Into<Json>,
    row: (i64, i64),
    ts: i64,
    cat: &str,
    enclosing: bool,
) -> Json {
    let id: Json = id.into();
    let mut event = object! {
        "ph": phase, "id": id, "pid": row.0, "tid": row.1, "ts": Json::micros(ts), "cat": cat, "name": cat,
    };
    if enclosing {
        event.push("bp", "e");
    }
    event
}

fn flows() -> [Fixture; 2] {
    let a = "ac2g";
    let events = [
        x("launch a", "cuda_runtime", HOST, 100_000, 10_000),
        x("launch b", "cuda_runtime", HOST, 120_000, 10_000),
        x("record", "cuda_runtime", HOST, 140_000, 2_000),
        x("launch c", "cuda_runtime", HOST, 150_000, 10_000),
        x("backward", "cpu_op", HOST, 170_000, 10_000),
        x("late", "cuda_runtime", HOST, 300_000, 10_000),
        x("kernel a", "kernel", GPU, 200_000, 20_000),
        x("kernel b", "kernel", GPU, 230_000, 20_000),
        x("kernel c1", "kernel", GPU, 260_000, 10_000),
        x("kernel c2", "kernel", GPU, 280_000, 10_000),
        // One arrow.
        flow("s", 1, HOST, 100_000, a, false),
        flow("f", 1, GPU, 200_000, a, true),
        // A runtime call that is not a launch gets its own end: noise.
        flow("f", 3, HOST, 140_000, a, true),
        // A second start with the same identity is ignored.
        flow("s", 2, HOST, 120_000, a, false),
        flow("s", 2, HOST, 150_000, a, false),
        flow("f", 2, GPU, 230_000, a, true),
        // One start, two ends.
        flow("s", 4, HOST, 150_000, a, false),
        flow("f", 4, GPU, 260_000, a, true),
        flow("f", 4, GPU, 280_000, a, true),
        // The same id in another category is another flow.
        flow("s", 1, HOST, 120_000, "fwdbwd", false),
        flow("f", 1, HOST, 170_000, "fwdbwd", true),
        // An id in quotes is hexadecimal.
        flow("s", "0x10", HOST, 100_000, a, false),
        flow("f", 16, GPU, 230_000, a, true),
        // Without "bp": "e" the arrow ends at the next slice that starts on the row.
        flow("s", 6, HOST, 100_000, a, false),
        flow("f", 6, GPU, 255_000, a, false),
        // The end comes before the start.
        flow("f", 7, GPU, 205_000, a, true),
        flow("s", 7, HOST, 300_000, a, false),
        // A step in between.
        flow("s", 8, HOST, 100_000, a, false),
        flow("t", 8, HOST, 120_000, a, false),
        flow("f", 8, GPU, 230_000, a, true),
        // A start on a row without slices, and so an end without start.
        flow("s", 9, (9, 9), 100_000, a, false),
        flow("f", 9, GPU, 260_000, a, true),
    ];
    let arrows = [
        ["launch a", "kernel a"],
        ["launch b", "kernel b"],
        ["launch c", "kernel c1"],
        ["launch c", "kernel c2"],
        ["launch b", "backward"],
        ["launch a", "kernel b"],
        ["launch a", "kernel c1"],
        ["launch a", "launch b"],
        ["launch b", "kernel b"],
    ];
    let truth = object! {
        "note": "arrows in no order; the pair launch b, kernel b stands for two flows and occurs twice",
        "arrows": Json::Arr(arrows.into_iter().map(Json::list).collect()),
        "dropped": object! { "end_without_start": 3, "duplicate_id": 1, "start_without_slice": 1 },
    };
    pair(
        "flows",
        "flow events s, t, f: fan-out, duplicates, noise, ends before starts",
        document(&events),
        truth,
    )
}

fn correlation() -> [Fixture; 2] {
    let call = |name: &str, ts: i64, dur: i64, id: i64| {
        x_args(
            name,
            "cuda_runtime",
            HOST,
            ts,
            dur,
            object! { "cbid": 211, "correlation": id },
        )
    };
    let kernel = |name: &str, ts: i64, dur: i64, id: i64| {
        x_args(
            name,
            "kernel",
            GPU,
            ts,
            dur,
            object! { "device": 0, "stream": 7, "correlation": id },
        )
    };
    let mut bare = x_args(
        "no correlation",
        "kernel",
        GPU,
        90_000,
        1_000,
        object! { "device": 0, "stream": 7 },
    );
    bare.push("id", 1);
    let events = [
        x("step", "python_function", HOST, 5_000, 60_000),
        call("cudaLaunchKernel", 10_000, 5_000, 1),
        kernel("starts before its launch", 9_750, 2_000, 1),
        // Two calls share a correlation: the one with the name of a launch is the launch.
        call("cudaStreamIsCapturing", 20_000, 500, 2),
        call("cudaLaunchKernelExC", 21_000, 4_000, 2),
        kernel("shared correlation", 30_000, 2_000, 2),
        // Correlation 0 means none, even if a call has it too.
        call("cudaEventQuery", 26_000, 500, 0),
        kernel("correlation zero", 40_000, 2_000, 0),
        // One launch, several kernels.
        call("cudaGraphLaunch", 28_000, 9_000, 3),
        kernel("graph node 0", 50_000, 2_000, 3),
        kernel("graph node 1", 53_000, 2_000, 3),
        // This one has no launch inside the recording.
        kernel("launched before the recording", 60_000, 2_000, 77),
        bare,
    ];
    let link = |kernel: &str, launch: &str, latency: i64| {
        object! { "kernel": kernel, "launch": launch, "latency_ns": latency, "parent_of_launch": "step" }
    };
    let truth = object! {
        "links": Json::Arr(vec![
            link("starts before its launch", "cudaLaunchKernel", -250),
            link("shared correlation", "cudaLaunchKernelExC", 9_000),
            link("graph node 0", "cudaGraphLaunch", 22_000),
            link("graph node 1", "cudaGraphLaunch", 25_000),
        ]),
        "unlinked": Json::list(["correlation zero", "launched before the recording", "no correlation"]),
    };
    pair(
        "correlation",
        "correlation ids: negative latency, a shared id, zero, a graph launch",
        document(&events),
        truth,
    )
}
