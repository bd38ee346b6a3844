//! Compares a trace with the one that reads back after writing it.

use std::collections::BTreeMap;

use byte_source::Source;
use perfetto_reader::write::write_trace;
use perfetto_reader::{ReadOptions, proto};
use trace_model::{ArgValue, IssueKind, Severity, Slice, Trace, bare_key};

pub(crate) fn read(bytes: Vec<u8>) -> Trace {
    let source = Source::from_bytes("written", bytes).unwrap();
    proto::read(source, &ReadOptions::default()).unwrap()
}

pub(crate) fn written(trace: &Trace) -> Trace {
    let back = read(write_trace(trace, Vec::new()).unwrap());
    for issue in back.diagnostics().issues() {
        assert_eq!(issue.kind.severity(), Severity::Info, "{issue:?}");
        assert_ne!(issue.kind, IssueKind::EndWithoutBegin);
    }
    back
}

#[derive(Debug, PartialEq)]
pub(crate) struct Row {
    ts: i64,
    dur: Option<i64>,
    name: Option<String>,
    category: Option<String>,
    parent: Option<usize>,
    depth: usize,
    args: Vec<(String, String)>,
    thread: Option<(Option<i64>, Option<String>)>,
    process: Option<(Option<i64>, Option<String>)>,
}

fn arg(key: &str, value: ArgValue<'_>) -> (String, String) {
    let text = match value {
        // JSON is written as text.
        ArgValue::Json(s) | ArgValue::Str(s) => format!("text {s}"),
        ArgValue::Real(x) => format!("real {:016x}", x.to_bits()),
        other => format!("{other:?}"),
    };
    (bare_key(key).to_owned(), text)
}

/// Returns a real number; texts and numbers that do not fit in 32 bits get generated ones.
fn number(n: i64) -> Option<i64> {
    (n < 1 << 30).then_some(n)
}

pub(crate) fn rows(trace: &Trace) -> Vec<Row> {
    trace
        .slices()
        .map(|s| {
            let mut args: Vec<_> = s.args().map(|(k, v)| arg(k, v)).collect();
            args.sort();
            let track = s.track();
            let thread = track.thread.map(|t| trace.thread(t));
            let process = track.process.or(thread.and_then(|t| t.process));
            let text = |id: Option<trace_model::StrId>| id.map(|n| trace.text(n).to_owned());
            Row {
                ts: s.ts().nanos(),
                dur: s.dur().map(|d| d.get()),
                name: s.name().map(str::to_owned),
                category: s.category().map(str::to_owned),
                parent: s.parent().map(|p| p.id().index()),
                depth: s.depth(),
                args,
                thread: thread.map(|t| (number(t.tid.0), text(t.name))),
                process: process.map(|p| {
                    let process = trace.process(p);
                    (number(process.pid.0), text(process.name))
                }),
            }
        })
        .collect()
}

/// Returns, per track, `true` if its slices nest like brackets. Ends that close an outer slice
/// first produce other nestings, which begins and ends cannot express.
pub(crate) fn regular_tracks(trace: &Trace) -> Vec<bool> {
    let end = |s: Slice<'_>| s.dur().map_or(i64::MAX, |d| s.ts().nanos() + d.get());
    trace
        .track_ids()
        .map(|track| {
            let mut last_child: BTreeMap<Option<usize>, i64> = BTreeMap::new();
            trace.slices_on(track).iter().all(|&id| {
                let slice = trace.slice(id);
                let parent = slice.parent();
                let inside = parent.is_none_or(|p| end(slice) <= end(p));
                let before = last_child.insert(parent.map(|p| p.id().index()), end(slice));
                inside && before.is_none_or(|before| before <= slice.ts().nanos())
            })
        })
        .collect()
}

/// Returns arrows from the earlier slice to the later one, sorted, with their number of
/// occurrences.
pub(crate) fn arrows(trace: &Trace) -> BTreeMap<(usize, usize), usize> {
    let mut out = BTreeMap::new();
    for f in trace.flows() {
        let (a, b) = (f.from.index(), f.to.index());
        *out.entry((a.min(b), a.max(b))).or_default() += 1;
    }
    out
}

/// Returns time, counter, value bits and unit of the samples.
pub(crate) fn samples(trace: &Trace) -> Vec<(i64, String, u64, String)> {
    trace
        .counters()
        .iter()
        .map(|c| {
            let track = trace.track(c.track);
            let unit = track
                .unit_name
                .map(|u| trace.text(u))
                .or(track.unit.map(|u| u.perfetto_name()));
            (
                c.ts.nanos(),
                track.name.map_or("", |n| trace.text(n)).to_owned(),
                c.value.to_bits(),
                unit.unwrap_or_default().to_owned(),
            )
        })
        .collect()
}

/// Asserts equality of all that the format can express; returns the number of tracks for which that
/// includes the nesting.
pub(crate) fn assert_same(before: &Trace, after: &Trace) -> usize {
    let regular = regular_tracks(before);
    let slices = before.slices().zip(rows(before)).zip(rows(after));
    for (i, ((slice, mut a), mut b)) in slices.enumerate() {
        if !regular[slice.track_id().index()] {
            (a.parent, a.depth) = (None, 0);
            (b.parent, b.depth) = (None, 0);
        }
        assert_eq!(a, b, "slice {i}");
    }
    assert_eq!(before.len(), after.len());
    assert_eq!(arrows(before), arrows(after));
    assert_eq!(samples(before), samples(after));
    regular.iter().filter(|&&r| r).count()
}
