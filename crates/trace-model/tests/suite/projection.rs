//! Tests of slices that are not kept, and of arguments of ends.

use trace_model::{
    Arg, ArgValue, ArgsRef, CategoryId, EndData, EndOrder, FinishOptions, FlowPoint, FlowRole,
    FlowSpace, IssueKind, LaneId, SliceData, Trace, TraceBuilder, Track, TrackKind,
};

fn builder() -> (TraceBuilder, LaneId) {
    let mut b = TraceBuilder::new();
    let track = b.track(Track::new(TrackKind::Global));
    let lane = b.lane(Some(track));
    (b, lane)
}

fn named(b: &mut TraceBuilder, name: &str) -> SliceData {
    SliceData {
        name: Some(b.string(name)),
        category: CategoryId::NONE,
        args: ArgsRef::NONE,
    }
}

/// Name, start, duration (-1: open), depth and name of the parent.
fn rows(trace: &Trace) -> Vec<(&str, i64, i64, usize, Option<&str>)> {
    trace
        .slices()
        .map(|s| {
            (
                s.name().unwrap(),
                s.ts().nanos(),
                s.dur().map_or(-1, |d| d.get()),
                s.depth(),
                s.parent().and_then(|p| p.name()),
            )
        })
        .collect()
}

#[test]
fn ends_of_hidden_slices_close_nothing_else() {
    let (mut b, lane) = builder();
    let end = |b: &mut TraceBuilder, ts| {
        b.events.end(lane, ts, EndOrder::InPlace, EndData::ANY);
    };
    for (ts, name, hidden) in [
        (10, "outer", false),
        (20, "hidden 1", true),
        (30, "inner", false),
        (35, "hidden 2", true),
        (36, "innermost", false),
    ] {
        let data = named(&mut b, name);
        match hidden {
            true => b.events.hidden_begin(lane, ts, data),
            false => b.events.begin(lane, ts, data),
        }
    }
    for ts in [40, 50, 60, 70, 80] {
        end(&mut b, ts);
    }
    end(&mut b, 90);
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert_eq!(
        rows(&trace),
        [
            ("outer", 10, 70, 0, None),
            ("inner", 30, 30, 1, Some("outer")),
            ("innermost", 36, 4, 2, Some("inner")),
        ]
    );
    assert_eq!(trace.diagnostics().count_of(IssueKind::EndWithoutBegin), 1);
}

#[test]
fn flows_of_hidden_slices_are_not_missed() {
    let (mut b, lane) = builder();
    let data = named(&mut b, "hidden");
    b.events.hidden_begin(lane, 10, data);
    b.events.end(lane, 20, EndOrder::InPlace, EndData::ANY);
    b.events.attach_flow(FlowPoint {
        id: 1,
        category: None,
        name: None,
        space: FlowSpace::TrackEvent,
        role: FlowRole::Through,
    });
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert!(trace.is_empty() && trace.diagnostics().issues().is_empty());
}

#[test]
fn hidden_states_end_the_state_before() {
    let (mut b, lane) = builder();
    for (ts, name) in [(10, Some("running")), (30, None), (50, Some("idle"))] {
        match name {
            Some(name) => {
                let data = named(&mut b, name);
                b.events.state(lane, ts, data);
            }
            None => b.events.hidden_state(lane, ts),
        }
    }
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert_eq!(
        rows(&trace),
        [("running", 10, 20, 0, None), ("idle", 50, -1, 0, None)]
    );
}

#[test]
fn arguments_of_ends_follow_or_replace() {
    for (replace, expected) in [
        (false, vec![("args.a", 1), ("args.b", 2), ("args.a", 3)]),
        (true, vec![("args.b", 2), ("args.a", 3)]),
    ] {
        let (mut b, lane) = builder();
        let (a, key_b) = (b.string("args.a"), b.string("args.b"));
        let begin = b.events.args(&[Arg::int(a, 1), Arg::int(key_b, 2)]);
        let end = b.events.args(&[Arg::int(a, 3)]);
        let data = named(&mut b, "slice");
        b.events.begin(
            lane,
            10,
            SliceData {
                args: begin,
                ..data
            },
        );
        let end = EndData {
            args: end,
            ..EndData::ANY
        };
        b.events.end(lane, 20, EndOrder::InPlace, end);
        let mut options = FinishOptions::default();
        options.end_args_replace = replace;
        let trace = b.finish(&options).unwrap();
        let slice = trace.slices().next().unwrap();
        let args: Vec<_> = slice
            .args()
            .map(|(k, v)| (k, v.as_i64().unwrap()))
            .collect();
        assert_eq!(args, expected);
        assert_eq!(slice.arg("a"), Some(ArgValue::Int(3)));
    }
}

#[test]
fn more_categories_than_the_dictionary_holds_are_counted() {
    let (mut b, lane) = builder();
    for i in 0..65_540 {
        let name = b.string(&format!("category {i}"));
        let category = b.events.category(name);
        let data = SliceData {
            name: None,
            category,
            args: ArgsRef::NONE,
        };
        b.events.instant(lane, i, data);
    }
    let trace = b.finish(&FinishOptions::default()).unwrap();
    let categories: Vec<_> = trace.slices().map(|s| s.category()).collect();
    assert_eq!(categories[65_534], Some("category 65534"));
    assert_eq!(categories[65_535], None);
    assert_eq!(
        trace.diagnostics().count_of(IssueKind::CategoriesExhausted),
        5
    );
}
