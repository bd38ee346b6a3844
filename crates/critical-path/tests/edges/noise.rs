//! Random recordings.

use byte_source::Source;
use critical_path::{Change, Graph, Options, Part, PartOptions, analyse, marks};
use proptest::prelude::*;
use trace_model::kernel::{TraceIndex, Vocabulary};

use super::check;

const CATEGORIES: &[(&str, &[&str])] = &[
    (
        "cuda_runtime",
        &[
            "cudaLaunchKernel",
            "cudaGraphLaunch",
            "cudaMemcpyAsync",
            "hipMemcpyWithStream",
            "cudaMalloc",
        ],
    ),
    (
        "cuda_runtime",
        &[
            "cudaDeviceSynchronize",
            "cudaStreamSynchronize",
            "cudaEventSynchronize",
        ],
    ),
    (
        "cuda_runtime",
        &["cudaEventRecord", "cudaStreamWaitEvent", "cudaEventQuery"],
    ),
    (
        "kernel",
        &[
            "rms_norm_kernel",
            "ncclDevKernel_AllReduce_Sum_f16_RING_LL",
            "sgemm_128x64_kernel",
        ],
    ),
    (
        "gpu_memcpy",
        &[
            "Memcpy DtoH (Device -> Pageable)",
            "Memcpy HtoD (Pinned -> Device)",
            "Memcpy DtoD",
        ],
    ),
    ("gpu_memset", &["Memset (Device)"]),
    (
        "cuda_sync",
        &[
            "Event Sync",
            "Stream Sync",
            "Context Sync",
            "Stream Wait Event",
        ],
    ),
    (
        "python_function",
        &[
            "f",
            "scheduler.py(5): recv_requests",
            "<built-in method poll of zmq.Socket object at 0x7f>",
        ],
    ),
    (
        "cpu_op",
        &[
            "aten::mm",
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        ],
    ),
    (
        "user_annotation",
        &["ProfilerStep#1", "step[DECODE bs=1]", "other"],
    ),
    ("overhead", &["Instrumentation"]),
];

/// Generates slices without any structure.
fn noise() -> impl Strategy<Value = Vec<String>> {
    let one = (
        (0..CATEGORIES.len(), any::<prop::sample::Index>()),
        (0_i64..2, 0_i64..3),
        (
            0_i64..900,
            prop_oneof![Just(0_i64), 0..40_i64, 100..400_i64],
        ),
        (0_i64..12, 0_i64..12, 0_i64..3),
    );
    let row = one.prop_map(|((category, name), (pid, tid), (ts, dur), (id, event, stream))| {
        let (category, names) = CATEGORIES[category];
        let name = names[name.index(names.len())];
        let device = ["kernel", "gpu_memcpy", "gpu_memset", "cuda_sync"].contains(&category);
        let (pid, tid) = if device { (0, 7 + stream) } else { (pid + 1, 10 + tid) };
        format!(
            "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{{\"correlation\":{id},\"stream\":{},\"device\":0,\"wait_on_stream\":{},\"wait_on_cuda_event_record_corr_id\":{event}}}}}",
            7 + stream,
            7 + (stream + 1) % 3,
        )
    });
    prop::collection::vec(row, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn slices_without_sense_have_paths_and_replays(rows in noise(), whole in any::<bool>(), guesses in any::<bool>()) {
        let json = format!("{{\"traceEvents\":[{}]}}", rows.join(","));
        let source = Source::from_bytes("t.json", json.into_bytes()).unwrap();
        let trace = perfetto_reader::read(source, &perfetto_reader::ReadOptions::default()).unwrap();
        let index = TraceIndex::new(&trace, Vocabulary::default());
        let found = if whole { Vec::new() } else { marks(&index, None) };
        let mut options = PartOptions::default();
        options.guesses = guesses;
        let graph = Graph::new(vec![Part::new(&index, 0, &found, options)], None);
        check(&graph);
        let mut options = Options::default();
        options.ops = true;
        options.segments = true;
        options.opportunities = 5;
        for change in ["kernel=0", "host=0,launch=0", "graph", "async", "fuse:*norm*", "requests=0", "unexplained=0", "rank:0=0", "comm:wait=0"] {
            options.what_if.push(change.parse::<Change>().unwrap());
        }
        if let Ok(analysis) = analyse(&graph, &options) {
            prop_assert!(analysis.ops.iter().all(|op| op.slack_ns >= 0));
            for row in &analysis.steps {
                prop_assert_eq!(row.groups.total(), row.duration_ns);
            }
            // A reduction never makes the window longer.
            for row in &analysis.what_if {
                if row.change != "graph" && row.change != "async" {
                    prop_assert!(row.gain_ns >= 0, "{}: {}", row.change, row.gain_ns);
                }
                prop_assert!(row.predicted_ns >= 0);
            }
        }
    }
}
