//! Tests of sparse, odd and contradictory recordings.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod gaps;
mod links;
mod marks;
mod noise;
mod ranks;
mod waits;

use byte_source::Source;
use critical_path::{Graph, Options, Part, PartOptions, Segment, Step, analyse, marks};
use trace_model::kernel::{TraceIndex, Vocabulary};

/// One slice: category, name, (pid, tid), begin and length in microseconds, arguments.
type Row<'a> = (&'a str, &'a str, (i64, i64), f64, f64, &'a str);

fn graph_with(rows: &[Row<'_>], options: PartOptions) -> Graph {
    let rows: Vec<String> = rows
        .iter()
        .map(|(category, name, (pid, tid), ts, dur, args)| {
            format!(
                "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{{{args}}}}}"
            )
        })
        .collect();
    let json = format!("{{\"traceEvents\":[{}]}}", rows.join(","));
    let source = Source::from_bytes("t.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &perfetto_reader::ReadOptions::default()).unwrap();
    let index = TraceIndex::new(&trace, Vocabulary::default());
    let part = Part::new(&index, 0, &marks(&index, None), options);
    let graph = Graph::new(vec![part], None);
    let alone = Part::steps_of(&index, &marks(&index, None));
    let times = |steps: &[Step]| -> Vec<_> {
        let all = steps.iter();
        all.map(|s| {
            (
                s.host_ns,
                s.device_ns,
                s.begin_ns,
                s.end_ns,
                s.flags.clone(),
            )
        })
        .collect()
    };
    assert_eq!(times(&alone), times(graph.steps(0)));
    graph
}

fn graph(rows: &[Row<'_>]) -> Graph {
    graph_with(rows, PartOptions::default())
}

const HOST: (i64, i64) = (1, 10);

fn mark(number: &'static str, ts: f64, dur: f64) -> Row<'static> {
    ("user_annotation", number, HOST, ts, dur, "")
}

fn launch(args: &str, ts: f64) -> Row<'_> {
    ("cuda_runtime", "cudaLaunchKernel", HOST, ts, 3.0, args)
}

fn kernel(args: &str, stream: i64, ts: f64, dur: f64) -> Row<'_> {
    ("kernel", "rms_norm_kernel", (0, stream), ts, dur, args)
}

/// Checks that the path covers every step exactly, and that a replay without a change is the
/// identity.
fn check(graph: &Graph) {
    for step in graph.steps(0) {
        let path: Vec<Segment> = graph.path(0, step);
        let mut at = step.begin_ns;
        for segment in &path {
            assert_eq!(segment.begin_ns, at, "{path:?}");
            at = segment.end_ns;
        }
        assert_eq!(at, step.end_ns, "{path:?}");
    }
    if let Ok(analysis) = analyse(graph, &Options::default()) {
        assert_eq!(analysis.replay.identity_error_ns, 0);
    }
}
