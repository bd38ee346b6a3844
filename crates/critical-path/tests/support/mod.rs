//! Builds graphs of trace files.

#![allow(dead_code, reason = "each test uses some of it")]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

pub(crate) mod sim;

use std::path::{Path, PathBuf};

use byte_source::{OpenOptions, Source};
use critical_path::{Graph, Mark, Part, PartOptions};
use gpu_time::comm::{CommRules, Job, RankDigest, assign_ranks};
use perfetto_reader::ReadOptions;
use trace_model::Trace;
use trace_model::kernel::{TraceIndex, Vocabulary};

fn read(path: &Path) -> Trace {
    let source = Source::open(path, &OpenOptions::default()).unwrap();
    perfetto_reader::read(source, &ReadOptions::default()).unwrap()
}

/// Returns the graph of the traces of all ranks, in order.
pub(crate) fn graph(paths: &[PathBuf], whole: bool) -> Graph {
    let traces = paths
        .iter()
        .map(|path| (path.to_string_lossy().into_owned(), read(path)));
    of_traces(traces, whole)
}

/// Returns the graph of the recordings of all ranks, given as text.
pub(crate) fn graph_of(files: Vec<String>) -> Graph {
    let traces = files.into_iter().enumerate().map(|(rank, json)| {
        let name = format!("rank{rank}.json");
        let source = Source::from_bytes(&name, json.into_bytes()).unwrap();
        let trace = perfetto_reader::read(source, &ReadOptions::default()).unwrap();
        (name, trace)
    });
    of_traces(traces, false)
}

fn of_traces(traces: impl Iterator<Item = (String, Trace)>, whole: bool) -> Graph {
    let (mut parts, mut digests) = (Vec::new(), Vec::new());
    for (at, (name, trace)) in traces.enumerate() {
        let index = TraceIndex::new(&trace, Vocabulary::default());
        let marks: Vec<Mark> = match whole {
            true => Vec::new(),
            false => critical_path::marks(&index, None),
        };
        let digest = RankDigest::of_part(&name, &index, CommRules::Extended, |_| true);
        digests.push(digest);
        parts.push(Part::new(
            &index,
            u32::try_from(at).unwrap(),
            &marks,
            PartOptions::default(),
        ));
    }
    assign_ranks(&mut digests).unwrap();
    let job = Job::new(&digests);
    Graph::new(parts, Some((&digests, &job)))
}
