//! Gathers the raw columns into the sealed ones, freeing each as it goes.

use crate::builder::batch::{EventBatch, EventColumns, FlowSpace, LaneTracks, MAX_EVENTS};
use crate::builder::binder::{Binder, post};
use crate::builder::nest::{Flows, Nested, Nester};
use crate::builder::order::{is_far, processing_order};
use crate::builder::{BuildError, FinishOptions, TraceBuilder};
use crate::diagnostics::{Diagnostics, IssueKind, Place};
use crate::ids::{LaneId, SliceId, TrackId};
use crate::kernel::{Activity, Vocabulary};
use crate::parallel::both;
use crate::table::args::{Arg, ArgsRef};
use crate::table::counter::CounterTable;
use crate::table::slice::{OPEN, SliceTable};
use crate::table::track::Track;
use crate::time::is_plausible;
use crate::trace::Trace;

pub(crate) fn seal(builder: TraceBuilder, options: &FinishOptions) -> Result<Trace, BuildError> {
    let TraceBuilder {
        mut events,
        meta,
        mut diagnostics,
        processes,
        threads,
        mut tracks,
        lanes,
    } = builder;
    if events.dropped_over_limit > 0 {
        return Err(BuildError::TooManyEvents {
            dropped: events.dropped_over_limit,
            limit: MAX_EVENTS,
        });
    }
    diagnostics.add(
        IssueKind::CategoriesExhausted,
        events.categories_exhausted,
        [],
    );
    diagnostics.add(IssueKind::ArgShapesExhausted, events.shapes_exhausted, []);

    let mut columns = std::mem::take(&mut events.columns);
    let is_host = match options.snap_ns {
        0 => Vec::new(),
        _ => host_categories(&events),
    };
    let how = (options, is_host.as_slice());
    let (mut nested, binder) = nest(&mut columns, &lanes, &mut tracks, &mut diagnostics, how);
    nested.outlines.set_arrows(binder.outlined());
    let (flows, odd_flows) = binder.finish(&nested.ts);
    diagnostics.merge(odd_flows);

    let counters = counters(&mut columns, &lanes, &mut diagnostics, options);
    let mut thread_time = thread_time(&mut columns, &nested, options.no_zero_thread_dur);
    if options.thread_time_of_threads {
        let has_thread =
            |slice: SliceId| tracks[nested.track[slice.index()].index()].thread.is_some();
        thread_time.retain(|&(slice, ..)| has_thread(slice));
    }
    let mut outlines = std::mem::take(&mut nested.outlines);
    outlines.keep(&mut columns, options.snap_ns);
    let slices = gather(columns, &mut events, nested, options.end_args_replace);
    let never_closed = slices.dur.iter().filter(|&&d| d == OPEN).count() as u64;
    if never_closed > 0 {
        let open = slices
            .dur
            .iter()
            .zip(&slices.ts)
            .filter(|&(&d, _)| d == OPEN);
        diagnostics.add(
            IssueKind::NeverClosed,
            never_closed,
            open.map(|(_, &t)| Place::At(t)),
        );
    }
    Ok(Trace::seal(
        (slices, outlines),
        thread_time,
        flows,
        counters,
        (processes, threads, tracks),
        (events.strings, events.args, events.categories),
        meta,
        diagnostics,
    ))
}

/// Returns by category whether its slices run on one host thread, one after the other or inside
/// another.
fn host_categories(events: &EventBatch) -> Vec<bool> {
    let vocabulary = Vocabulary::default();
    let categories = events.categories.iter();
    let activities = categories.map(|name| vocabulary.activity(events.strings.get(*name), ""));
    activities.map(Activity::is_on_host).collect()
}

/// Orders the events, nests them and binds their flows, on two threads.
fn nest(
    columns: &mut EventColumns,
    lanes: &LaneTracks,
    tracks: &mut Vec<Track>,
    diagnostics: &mut Diagnostics,
    (options, is_host): (&FinishOptions, &[bool]),
) -> (Nested, Binder) {
    let rows = columns.ts.len();
    let attached = std::mem::take(&mut columns.attached);
    // A track-event flow that has an event of its own is found by identity, and then all must be.
    let number = (columns.flow.iter()).all(|(_, p)| p.space != FlowSpace::TrackEvent);
    let has_flow_events = !columns.flow.is_empty();
    let odd_flows = diagnostics.fresh();
    let make_binder = move || Binder::new(attached, number, odd_flows);
    if has_flow_events {
        let (mut binder, order) =
            both(rows, make_binder, || ordered(columns, diagnostics, options));
        let flows = Flows::Now(&mut binder);
        let nester = Nester::new(
            columns,
            lanes,
            tracks,
            diagnostics,
            (options, is_host),
            flows,
        );
        return (nester.run(order.as_deref()), binder);
    }
    let (outbox, arriving) = post();
    both(
        rows,
        || {
            let order = ordered(columns, diagnostics, options);
            let flows = Flows::Later(outbox);
            let nester = Nester::new(
                columns,
                lanes,
                tracks,
                diagnostics,
                (options, is_host),
                flows,
            );
            nester.run(order.as_deref())
        },
        || {
            let mut binder = make_binder();
            binder.bind_all(arriving);
            binder
        },
    )
}

/// Returns the events in processing order; events before time zero and at impossible times are counted and left out.
fn ordered(
    columns: &EventColumns,
    diagnostics: &mut Diagnostics,
    options: &FinishOptions,
) -> Option<Vec<u32>> {
    let (order, left_out) = processing_order(columns, options.order, options.keep_negative);
    if left_out.far > 0 {
        let far = (0..columns.ts.len()).filter(|&e| is_far(columns, e));
        let places = far.map(|e| Place::At(columns.ts[e]));
        diagnostics.add(IssueKind::FarTime, left_out.far, places);
    }
    if left_out.negative > 0 {
        let times = columns.ts.iter().filter(|&&t| t < 0 && is_plausible(t, t));
        let places = times.map(|&t| Place::At(t));
        diagnostics.add(IssueKind::NegativeTimestamp, left_out.negative, places);
    }
    order
}

fn counters(
    columns: &mut EventColumns,
    lanes: &[Option<TrackId>],
    diagnostics: &mut Diagnostics,
    options: &FinishOptions,
) -> CounterTable {
    let ts = std::mem::take(&mut columns.counter_ts);
    let lane = std::mem::take(&mut columns.counter_lane);
    let value = std::mem::take(&mut columns.counter_value);
    let hosts = std::mem::take(&mut columns.counter_host);
    let track_of = |lane: LaneId| lanes.get(lane.index()).copied().flatten();
    let mut order: Vec<u32> = (0..u32::try_from(ts.len()).unwrap_or(u32::MAX)).collect();
    order.sort_by_key(|&i| ts[i as usize]);
    let mut table = CounterTable::default();
    for i in order {
        let i = i as usize;
        if !is_plausible(ts[i], ts[i]) {
            diagnostics.count(IssueKind::FarTime, Place::At(ts[i]));
            continue;
        }
        if ts[i] < 0 && !options.keep_negative {
            diagnostics.count(IssueKind::NegativeTimestamp, Place::At(ts[i]));
            continue;
        }
        let host = hosts.binary_search_by_key(&i, |&(row, _)| row as usize);
        let is_hosted = host.is_ok_and(|at| track_of(hosts[at].1).is_none());
        match track_of(lane[i]).filter(|_| !is_hosted) {
            Some(track) => {
                table.ts.push(ts[i]);
                table.track.push(track);
                table.value.push(value[i]);
            }
            None => diagnostics.count(IssueKind::BadTrack, Place::At(ts[i])),
        }
    }
    table
}

/// Entries (slice, CPU time at begin, CPU time spent), ascending by slice.
pub(crate) type ThreadTime = Vec<(SliceId, i64, Option<i64>)>;

fn thread_time(columns: &mut EventColumns, nested: &Nested, no_zero: bool) -> ThreadTime {
    let begins = std::mem::take(&mut columns.thread_time);
    if begins.is_empty() {
        return Vec::new();
    }
    let mut out: ThreadTime = nested
        .row
        .iter()
        .enumerate()
        .filter_map(|(i, &row)| {
            let at = begins.binary_search_by_key(&row, |b| b.0).ok()?;
            Some((SliceId::new(i)?, begins[at].1, begins[at].2))
        })
        .collect();
    for &(slice, end) in &nested.end_thread_ts {
        if let Ok(at) = out.binary_search_by_key(&slice, |t| t.0) {
            let dur = end.saturating_sub(out[at].1);
            out[at].2 = (dur != 0 || !no_zero).then_some(dur);
        }
    }
    out
}

fn gather(
    columns: EventColumns,
    events: &mut EventBatch,
    nested: Nested,
    replace: bool,
) -> SliceTable {
    let Nested {
        ts,
        row,
        track,
        parent,
        depth,
        end_args,
        ..
    } = nested;
    let EventColumns {
        dur,
        name,
        category,
        args,
        lane,
        tag,
        ts: raw_ts,
        hidden,
        flow,
        ..
    } = columns;
    drop((lane, tag, raw_ts));
    drop((hidden, flow));
    fn pick<T: Copy, U>(rows: &[u32], column: &[T], of: impl Fn(T) -> U) -> Vec<U> {
        rows.iter().map(|&r| of(column[r as usize])).collect()
    }
    let rows = &row[..];
    // Each raw column is freed before the next one is gathered.
    let ((dur, category), (name, mut args_offset, mut args_shape)) = both(
        rows.len(),
        || {
            let gathered = pick(rows, &dur, |d| d);
            drop(dur);
            (gathered, pick(rows, &category, |c| c))
        },
        || {
            let offset = pick(rows, &args, |a| a.offset);
            let shape = pick(rows, &args, |a| a.shape);
            drop(args);
            (pick(rows, &name, |n| n), offset, shape)
        },
    );
    for (slice, more) in end_args {
        let i = slice.index();
        let first = ArgsRef {
            shape: args_shape[i],
            offset: args_offset[i],
        };
        let joined = joined(events, first, more, replace);
        (args_shape[i], args_offset[i]) = (joined.shape, joined.offset);
    }
    SliceTable {
        ts,
        dur,
        name,
        track,
        parent,
        category,
        depth,
        args_offset,
        args_shape,
    }
}

/// Joins the arguments of a slice with those of its end; with `replace` the latter win.
fn joined(events: &mut EventBatch, first: ArgsRef, second: ArgsRef, replace: bool) -> ArgsRef {
    if first.is_none() {
        return second;
    }
    let more: Vec<Arg> = events.args.list(second).collect();
    let mut list: Vec<Arg> = events.args.list(first).collect();
    if replace {
        list.retain(|arg| more.iter().all(|m| m.key != arg.key));
    }
    list.extend(more);
    events.args(&list)
}
