//! Slices of which only the outline is read: everything else is as if they were read as a whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use perfetto_reader::{ArgPolicy, Outlining, ReadOptions};
use trace_model::{Slice, SliceId, TimeRange, Timestamp, Trace, TrackId};

use crate::json_support::{difference, options, try_read};

/// Python functions and operators, except those that wait.
fn outlining() -> Outlining {
    Outlining::new(|category, name| {
        matches!(category, "python_function" | "cpu_op") && !name.contains("wait")
    })
}

fn is_outlined(slice: Slice<'_>) -> bool {
    matches!(slice.category(), Some("python_function" | "cpu_op"))
        && slice.name().is_some_and(|name| !name.contains("wait"))
}

/// A slice as text: parents by name and start, because numbers differ.
fn row(slice: Slice<'_>, parent: Option<Slice<'_>>) -> String {
    format!(
        "{} {:?} {:?} {:?} depth {} on {} in {:?}",
        slice.ts(),
        slice.dur(),
        slice.name(),
        slice.category(),
        slice.depth(),
        slice.track_id(),
        parent.map(|parent| (parent.ts(), parent.name())),
    )
}

/// The slices that `keep` names, as text, each in the innermost of them.
fn kept(trace: &Trace, keep: impl Fn(Slice<'_>) -> bool) -> String {
    let mut out = String::new();
    for slice in trace.slices().filter(|slice| keep(*slice)) {
        let parent = slice.ancestors().find(|parent| keep(*parent));
        writeln!(out, "{}", row(slice, parent)).unwrap();
    }
    out
}

/// Number of slices, and of those without duration, by track and category.
type Counts = BTreeMap<(TrackId, Option<String>), (u64, u64)>;

/// Compares a text read as a whole with the same in outline; returns how many slices were outlined.
fn compare(text: &[u8], mut whole: ReadOptions) -> u64 {
    whole.args = ArgPolicy::Only(vec!["correlation".to_owned()]);
    whole.snap_ns = 1_000;
    let mut lean = whole.clone();
    lean.outline = Some(outlining());
    let (all, some) = (
        try_read(text, &whole).unwrap(),
        try_read(text, &lean).unwrap(),
    );
    let (want, got) = (kept(&all, |s| !is_outlined(s)), kept(&some, |_| true));
    assert_eq!(difference(&want, &got), None);
    assert_eq!(all.span(), some.span());
    assert_eq!(all.diagnostics(), some.diagnostics());
    assert_eq!(all.tracks(), some.tracks());
    assert_eq!(all.meta().events, some.meta().events);
    let texts = |trace: &Trace| -> Vec<String> {
        let texts = trace.strings().iter();
        texts.map(|(_, text)| text.to_owned()).collect()
    };
    assert_eq!(texts(&all), texts(&some));
    let mut want = Counts::new();
    for slice in all.slices().filter(|slice| is_outlined(*slice)) {
        let category = slice.category().map(str::to_owned);
        let entry = want.entry((slice.track_id(), category)).or_default();
        entry.0 += 1;
        entry.1 += u64::from(slice.dur().is_some_and(|dur| dur.get() == 0));
        assert!(some.outlines().has_name(slice.name_id().unwrap()));
    }
    let mut got = Counts::new();
    for group in some.outlines().groups() {
        let category = some.categories().find(|(id, _)| *id == group.category);
        let category = category.map(|(_, name)| name.to_owned());
        got.insert((group.track, category), (group.slices, group.instants));
    }
    assert_eq!(want, got);
    let deepest = |trace: &Trace| trace.slices().map(|s| s.depth() as u64 + 1).max();
    assert_eq!(
        deepest(&all),
        deepest(&some).max(Some(some.outlines().deepest()))
    );
    let flows = some.flows().len() as u64 + some.outlines().arrows();
    assert_eq!(all.flows().len() as u64, flows);
    some.outlines().len()
}

fn testdata(name: &str) -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/");
    let mut source = byte_source::Source::open(
        std::path::Path::new(&format!("{path}{name}")),
        &byte_source::OpenOptions::default(),
    )
    .unwrap()
    .into_read()
    .unwrap();
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut source, &mut text).unwrap();
    text
}

#[test]
fn all_but_outlined_slices_is_equal() {
    let mut outlined = 0;
    for name in [
        "demo/demo-rank0.json.gz",
        "demo/demo-capture-rank0.json.gz",
        "kineto/partial-overlap.json",
        "kineto/shuffled.json",
        "kineto/phases.json",
        "kineto/rows.json",
        "kineto/correlation.json",
        "kineto/truncated.json",
        "kineto/missing-fields.json",
    ] {
        let text = testdata(name);
        for (threads, chunk) in [(1, 0), (3, 4096)] {
            outlined += compare(&text, options(threads, chunk));
        }
    }
    assert!(outlined > 1_000, "{outlined}");
}

/// An event of thread 1, times in ns.
fn event(category: &str, name: &str, ts: i64, dur: i64) -> String {
    let micros = |ns: i64| format!("{}.{:03}", ns / 1000, ns % 1000);
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{},"dur":{}}}"#,
        micros(ts),
        micros(dur)
    )
}

/// Functions within each other, some of which overlap by less or more than the precision of clocks, some of no duration, some
/// longer than 32 bits of nanoseconds; waits with functions in them.
fn nested() -> String {
    let mut events = Vec::new();
    for n in 0..200 {
        let at = 10_000_000_000 + n * 10_000;
        events.push(event("python_function", "outer", at, 8_000));
        events.push(event("cpu_op", "aten::mm", at + 100, 3_000));
        events.push(event("cuda_runtime", "cudaLaunchKernel", at + 200, 500 + n));
        // Beyond the end of aten::mm by n * 20 ns.
        events.push(event("python_function", "late", at + 2_000, 1_100 + n * 20));
        events.push(event("python_function", "wait", at + 5_000, 2_000));
        events.push(event("python_function", "handler", at + 5_100, 500));
        events.push(event("cpu_op", "deeper", at + 5_200, 100));
        events.push(event("python_function", "instant", at + 7_500, 0));
    }
    events.push(event("python_function", "long", 100, 9_000_000_000));
    events.push(event("python_function", "main", 50, 20_000_000_000));
    format!("[{}]", events.join(","))
}

#[test]
fn outlines_move_others_to_overflow_tracks_and_snap_as_slices_do() {
    let text = nested();
    for (threads, chunk) in [(1, 0), (2, 512)] {
        assert_eq!(compare(text.as_bytes(), options(threads, chunk)), 1_202);
    }
}

#[test]
fn excerpts_show_what_is_read_in_outline() {
    let text = nested();
    let mut whole = options(1, 0);
    whole.snap_ns = 1_000;
    let mut lean = whole.clone();
    lean.outline = Some(outlining().keeping().whole_within_kept());
    let all = try_read(text.as_bytes(), &whole).unwrap();
    let some = try_read(text.as_bytes(), &lean).unwrap();
    // What lies in a wait is kept with it.
    assert!(some.slices().any(|slice| slice.name() == Some("handler")));
    assert!(some.slices().all(|slice| slice.name() != Some("outer")));
    let range =
        |from: i64, to: i64| TimeRange::new(Timestamp::from_nanos(from), Timestamp::from_nanos(to));
    let mut ranges = Vec::new();
    for track in all.track_ids() {
        for n in [0, 3, 50, 199] {
            let at = 10_000_000_000 + n * 10_000;
            ranges.push((track, range(at + 2_500, at + 5_300)));
            ranges.push((track, range(at + 7_000, at + 7_001)));
        }
    }
    let excerpts = some.excerpts(&ranges);
    assert_eq!(excerpts.len(), ranges.len());
    for ((track, range), excerpt) in ranges.iter().zip(&excerpts) {
        let touches = |ts: Timestamp, end: Timestamp| ts < range.end && end > range.start;
        let rows = |trace: &Trace, ids: &[SliceId]| -> Vec<String> {
            let slices = ids.iter().map(|id| trace.slice(*id));
            let slices = slices.filter(|s| touches(s.ts(), s.end()));
            let text = |s: Slice<'_>| {
                let parents = s.ancestors().filter(|p| touches(p.ts(), p.end()));
                let parents: Vec<_> = parents.map(|p| (p.name(), p.ts())).collect();
                format!("{} {:?} {:?} {parents:?}", s.ts(), s.dur(), s.name())
            };
            slices.map(text).collect()
        };
        let want = rows(&all, all.slices_on(*track));
        let ids: Vec<SliceId> = excerpt.slices().map(|slice| slice.id()).collect();
        assert_eq!(rows(excerpt, &ids), want, "{track} {range:?}");
    }
    let shown: usize = excerpts.iter().map(|excerpt| excerpt.slices().len()).sum();
    assert!(shown > 20, "{shown}");
}

#[test]
fn arrows_of_outlines_are_counted_and_what_they_say_of_others_is_known_to_be_lost() {
    let flow = |ph: &str, tid: i64, at: i64| {
        format!(
            r#"{{"ph":"{ph}","bp":"e","id":7,"cat":"ac2g","name":"ac2g","pid":1,"tid":{tid},"ts":{at}}}"#
        )
    };
    let kernel = r#"{"ph":"X","cat":"kernel","name":"k","pid":1,"tid":7,"ts":5,"dur":1}"#;
    let op = event("cpu_op", "aten::mm", 1_000, 1_000);
    let other = event("cpu_op", "aten::add", 9_000, 1_000);
    for (to, half) in [((7, 5), 1), ((1, 9), 0)] {
        let text = format!(
            "[{op},{other},{kernel},{},{}]",
            flow("s", 1, 1),
            flow("f", to.0, to.1)
        );
        let mut lean = options(1, 0);
        lean.outline = Some(outlining());
        let trace = try_read(text.as_bytes(), &lean).unwrap();
        let outlines = trace.outlines();
        assert_eq!((outlines.arrows(), outlines.half_arrows()), (1, half));
        assert!(trace.flows().is_empty());
    }
}
