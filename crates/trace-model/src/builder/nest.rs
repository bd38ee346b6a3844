//! Nests slices and finds the slice of each flow, in one pass over all events in processing order.
//!
//! The rules of nesting and end matching follow Perfetto's trace processor (`slice_tracker.cc`), so
//! that tables can be compared row by row; deviations are policies.

use crate::builder::batch::{
    EndData, EventColumns, EventKind, FlowPoint, FlowRole, HiddenKind, LaneTracks,
};
use crate::builder::binder::{Binder, BoundEvent, Outbox};
use crate::builder::{FinishOptions, FlowBinding, OverlapPolicy};
use crate::diagnostics::{Diagnostics, IssueKind, Place};
use crate::ids::{LaneId, MAX_ROWS, SliceId, TrackId};
use crate::outline::{OutlineRow, Outlines};
use crate::table::args::ArgsRef;
use crate::table::slice::{CategoryId, OPEN};
use crate::table::track::{Track, TrackKind};

/// Maximum nesting depth; deeper slices are dropped.
const MAX_DEPTH: usize = 512;

/// Maximum number of overflow tracks of one track. Slices that fit on none of them are dropped, to
/// bound the time for files in which all slices overlap each other.
const MAX_OVERFLOW: usize = 1024;

/// Id of each slice of which only the outline is kept; above those of stored slices.
pub(crate) const OUTLINED: SliceId = SliceId::new(MAX_ROWS).expect("the last id exists");

/// An open slice on the stack of a track.
#[derive(Clone, Copy)]
struct Open {
    ts: i64,
    /// Duration; [`OPEN`] while unknown.
    dur: i64,
    /// [`OUTLINED`] for an outline, `None` for another slice that is not kept.
    id: Option<SliceId>,
    /// Row of the raw columns, or of those of slices that are not kept.
    row: u32,
    /// Number of slices around it.
    depth: u16,
}

impl Open {
    fn kept(&self) -> Option<SliceId> {
        self.id.filter(|id| *id != OUTLINED)
    }
}

#[derive(Default)]
struct TrackState {
    stack: Vec<Open>,
    overflow: Vec<TrackId>,
    /// The slice that started last, on this track or an overflow track of it.
    last_started: Option<(i64, SliceId)>,
    /// Flows that end at the next slice.
    pending: Vec<FlowPoint>,
    /// The state that lasts until the next one.
    state: Option<Open>,
    /// `true` once a slice without known end was on the stack. Until then, slices on it lie in each
    /// other.
    had_open: bool,
}

/// Result of nesting: one entry per slice, in processing order.
#[derive(Default)]
pub(crate) struct Nested {
    pub(crate) ts: Vec<i64>,
    /// Row of the raw columns.
    pub(crate) row: Vec<u32>,
    pub(crate) track: Vec<TrackId>,
    pub(crate) parent: Vec<Option<SliceId>>,
    pub(crate) depth: Vec<u16>,
    /// Arguments that ends add to slices: (slice, arguments).
    pub(crate) end_args: Vec<(SliceId, ArgsRef)>,
    /// CPU time at the end of slices: (slice, time).
    pub(crate) end_thread_ts: Vec<(SliceId, i64)>,
    /// Slices of which only the outline is kept.
    pub(crate) outlines: Outlines,
}

/// A row of a slice with known duration.
#[derive(Clone, Copy)]
enum Row {
    /// Of the raw columns.
    Slice(usize),
    /// Of the slices that are not kept: this event.
    Outline(usize, usize),
}

enum Room {
    Fits,
    /// The slice fits, but outlives the slice around it by less than the precision of clocks:
    /// nesting uses this duration.
    Snapped(i64),
    Overlaps,
}

/// The slice of an event, for the flows attached to it.
enum Bound {
    Slice(SliceId),
    /// No slice: the event was dropped.
    Nothing,
    /// A slice that is not kept.
    Hidden,
}

impl Bound {
    fn of(slice: Option<SliceId>) -> Self {
        slice.map_or(Self::Nothing, Self::Slice)
    }
}

/// Mode of binding flows.
pub(crate) enum Flows<'a> {
    /// Immediately: some flows have events of their own, which depend on the slices open at their
    /// time.
    Now(&'a mut Binder),
    /// Later: all flows are attached to other events, so that a binder can follow at its own pace.
    Later(Outbox),
}

pub(crate) struct Nester<'a> {
    columns: &'a mut EventColumns,
    lanes: &'a LaneTracks,
    tracks: &'a mut Vec<Track>,
    diagnostics: &'a mut Diagnostics,
    options: &'a FinishOptions,
    /// `true` for each category whose slices follow each other like the instructions of one thread.
    is_host: &'a [bool],
    /// Categories of outlines, if what lies within others of these is kept.
    outlined: Vec<CategoryId>,
    states: Vec<TrackState>,
    flows: Flows<'a>,
    out: Nested,
}

impl<'a> Nester<'a> {
    pub(crate) fn new(
        columns: &'a mut EventColumns,
        lanes: &'a LaneTracks,
        tracks: &'a mut Vec<Track>,
        diagnostics: &'a mut Diagnostics,
        (options, is_host): (&'a FinishOptions, &'a [bool]),
        flows: Flows<'a>,
    ) -> Self {
        let mut states = Vec::new();
        states.resize_with(tracks.len(), TrackState::default);
        let slices = columns.dur.len();
        let mut outlined: Vec<CategoryId> = Vec::new();
        if options.whole_within_kept {
            for hidden in &columns.hidden {
                let is_new = hidden.what == HiddenKind::Outline
                    && outlined.last() != Some(&hidden.category)
                    && !outlined.contains(&hidden.category);
                if is_new {
                    outlined.push(hidden.category);
                }
            }
        }
        let out = Nested {
            ts: Vec::with_capacity(slices),
            row: Vec::with_capacity(slices),
            track: Vec::with_capacity(slices),
            parent: Vec::with_capacity(slices),
            depth: Vec::with_capacity(slices),
            ..Nested::default()
        };
        Self {
            columns,
            lanes,
            tracks,
            diagnostics,
            options,
            is_host,
            outlined,
            states,
            flows,
            out,
        }
    }

    /// Processes the events of `order`, or all events in file order.
    pub(crate) fn run(mut self, order: Option<&[u32]>) -> Nested {
        match order {
            Some(order) => order.iter().for_each(|&e| self.event(e as usize)),
            None => (0..self.columns.ts.len()).for_each(|e| self.event(e)),
        }
        self.out
    }

    fn track_of(&mut self, lane: LaneId, ts: i64) -> Option<TrackId> {
        let track = self.lanes.get(lane.index()).copied().flatten();
        if track.is_none() {
            self.diagnostics.count(IssueKind::BadTrack, Place::At(ts));
        }
        track
    }

    fn event(&mut self, event: usize) {
        let ts = self.columns.ts[event];
        let tag = self.columns.tag[event];
        let row = tag.row();
        let bound = match tag.kind() {
            EventKind::Complete | EventKind::Instant => {
                let dur = self.columns.dur[row];
                let lane = self.columns.lane[row];
                let track = self.track_of(lane, ts);
                let row = Row::Slice(row);
                Bound::of(track.and_then(|track| self.complete(track, ts, dur, row)))
            }
            EventKind::Begin => {
                let lane = self.columns.lane[row];
                Bound::of(self.track_of(lane, ts).and_then(|track| {
                    self.make_room(track, ts, OPEN, 0);
                    self.start(track, track, ts, OPEN, Row::Slice(row))
                }))
            }
            EventKind::State => {
                let lane = self.columns.lane[row];
                let track = self.track_of(lane, ts);
                Bound::of(track.and_then(|track| self.state(track, ts, row)))
            }
            EventKind::EndFirst | EventKind::EndInPlace => {
                let lane = self.columns.end_lane[row];
                match self.track_of(lane, ts) {
                    Some(track) => self.end(track, ts, row),
                    None => Bound::Nothing,
                }
            }
            EventKind::Hidden => {
                let lane = self.columns.hidden[row].lane;
                if let Some(track) = self.track_of(lane, ts) {
                    match self.columns.outlined_dur(row) {
                        Some(dur) => {
                            self.complete(track, ts, dur, Row::Outline(row, event));
                        }
                        None => self.hidden(track, ts, row),
                    }
                }
                return;
            }
            EventKind::Flow => {
                let (lane, point) = self.columns.flow[row];
                if let Some(track) = self.track_of(lane, ts) {
                    self.flow_event(track, ts, point);
                }
                return;
            }
        };
        if tag.has_attached() {
            self.attached(event, ts, &bound);
        }
    }

    /// Returns the maximum overlap attributed to imprecise clocks: nonzero only for calls and
    /// ranges of a host thread, which cannot overlap.
    fn snap_ns(&self, row: Row) -> i64 {
        let category = match row {
            Row::Slice(row) => self.columns.category[row],
            Row::Outline(row, _) => self.columns.hidden[row].category,
        };
        let category = category.index();
        match category.and_then(|at| self.is_host.get(at)) {
            Some(true) => self.options.snap_ns,
            _ => 0,
        }
    }

    /// Pops slices that ended before a slice at `ts` starts, and returns whether the new slice
    /// fits.
    fn make_room(&mut self, track: TrackId, ts: i64, dur: i64, snap_ns: i64) -> Room {
        let state = &mut self.states[track.index()];
        let lie_in_each_other = !state.had_open;
        let mut room = Room::Fits;
        let stack = &mut state.stack;
        let mut passed_open = false;
        let mut i = stack.len();
        while i > 0 {
            i -= 1;
            let open = stack[i];
            if open.dur == OPEN {
                passed_open = true;
                continue;
            }
            let end = open.ts.saturating_add(open.dur);
            if passed_open {
                if ts <= end {
                    continue;
                }
                // The slice around unclosed ones is over: they end with it.
                for inner in stack.drain(i + 1..).rev() {
                    if inner.id.is_none() {
                        continue;
                    }
                    let dur = end.saturating_sub(inner.ts);
                    let slot = &mut self.columns.dur[inner.row as usize];
                    if self.options.cut_all {
                        *slot = dur;
                    } else if inner.dur == OPEN {
                        *slot = dur.max(0);
                    }
                }
                stack.pop();
                self.diagnostics
                    .count(IssueKind::MisplacedEnd, Place::At(ts));
                passed_open = false;
                continue;
            }
            if end < ts || (end == ts && !(open.dur == 0 && dur == 0)) {
                // Pops the top, even if the ended slice, closed by an end that came too early, is
                // not the top: this reproduces the reference's tables.
                stack.pop();
                continue;
            }
            let new_end = ts.saturating_add(dur.max(0));
            if lie_in_each_other && end > ts && end >= new_end {
                // All slices below enclose it too.
                return room;
            }
            if dur == OPEN {
                continue;
            }
            if ts < end && new_end > end {
                // A slice that begins before the other ends is inside it, or follows it: whichever
                // needs the smaller change.
                let (outlives, early) = (new_end.saturating_sub(end), end.saturating_sub(ts));
                if outlives.min(early) > snap_ns {
                    return Room::Overlaps;
                }
                self.diagnostics.count(IssueKind::Snapped, Place::At(ts));
                if outlives <= early {
                    room = Room::Snapped(end.saturating_sub(ts));
                } else {
                    stack.truncate(i);
                }
            }
        }
        room
    }

    fn complete(&mut self, track: TrackId, ts: i64, dur: i64, row: Row) -> Option<SliceId> {
        let snap_ns = self.snap_ns(row);
        match self.make_room(track, ts, dur, snap_ns) {
            Room::Fits => return self.start(track, track, ts, dur, row),
            Room::Snapped(dur) => return self.start(track, track, ts, dur, row),
            Room::Overlaps => {}
        }
        match self.options.overlap {
            OverlapPolicy::Drop => {
                self.diagnostics
                    .count(IssueKind::OverlapDropped, Place::At(ts));
                None
            }
            OverlapPolicy::Spill => {
                for i in 0..self.states[track.index()].overflow.len() {
                    let lane = self.states[track.index()].overflow[i];
                    if let Room::Fits = self.make_room(lane, ts, dur, 0) {
                        self.diagnostics.count(IssueKind::Overlap, Place::At(ts));
                        return self.start(track, lane, ts, dur, row);
                    }
                }
                if self.states[track.index()].overflow.len() >= MAX_OVERFLOW {
                    self.diagnostics
                        .count(IssueKind::OverlapDropped, Place::At(ts));
                    return None;
                }
                self.diagnostics.count(IssueKind::Overlap, Place::At(ts));
                let lane = self.new_overflow(track)?;
                self.start(track, lane, ts, dur, row)
            }
        }
    }

    fn new_overflow(&mut self, track: TrackId) -> Option<TrackId> {
        let lane = TrackId::new(self.tracks.len())?;
        let main = &self.tracks[track.index()];
        let kind = match main.kind {
            TrackKind::Thread => TrackKind::ThreadOverflow,
            other => other,
        };
        let overflow = Track {
            kind,
            parent: Some(track),
            uuid: None,
            ..main.clone()
        };
        self.tracks.push(overflow);
        self.states.push(TrackState::default());
        self.states[track.index()].overflow.push(lane);
        Some(lane)
    }

    /// Starts a slice on `lane`, which is `track` or an overflow track of it.
    fn start(
        &mut self,
        track: TrackId,
        lane: TrackId,
        ts: i64,
        dur: i64,
        row: Row,
    ) -> Option<SliceId> {
        let next = SliceId::new(self.out.ts.len())?;
        let stack = &self.states[lane.index()].stack;
        if stack.len() >= MAX_DEPTH {
            self.diagnostics.count(IssueKind::TooDeep, Place::At(ts));
            return None;
        }
        let depth = top(stack).map_or(0, |open| open.depth.saturating_add(1));
        let (id, row) = match row {
            Row::Slice(row) => (next, row),
            Row::Outline(row, _) if self.is_within_kept_code(stack) => {
                (next, self.columns.keep_outline(row))
            }
            Row::Outline(row, event) => {
                let hidden = &mut self.columns.hidden[row];
                let of = (lane, hidden.category, hidden.name);
                self.out.outlines.count(of, (ts, dur), depth);
                if self.options.keep_outlines {
                    // The lane is no longer needed; the track may be an overflow track.
                    hidden.lane = LaneId::new(lane.index())?;
                    let before = self.out.ts.len();
                    self.out.outlines.rows.push(OutlineRow::new(event, before));
                }
                (OUTLINED, row)
            }
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rows are below their limits"
        )]
        let row = row as u32;
        let stack = &mut self.states[lane.index()].stack;
        if id != OUTLINED {
            let parent = stack.iter().rev().find_map(Open::kept);
            self.out.ts.push(ts);
            self.out.row.push(row);
            self.out.track.push(lane);
            self.out.parent.push(parent);
            self.out.depth.push(depth);
        }
        stack.push(Open {
            ts,
            dur,
            id: Some(id),
            row,
            depth,
        });
        self.states[lane.index()].had_open |= dur == OPEN;
        let state = &mut self.states[track.index()];
        state.last_started = Some((ts, id));
        // Flows waiting for "the next slice of this track" do not wait for a spilled one.
        if lane == track && !state.pending.is_empty() {
            for point in std::mem::take(&mut state.pending) {
                if let Flows::Now(binder) = &mut self.flows {
                    binder.bind(id, ts, point, None);
                }
            }
        }
        Some(id)
    }

    /// Returns `true` if the innermost code around is kept, and outlines within it are wanted too.
    fn is_within_kept_code(&self, stack: &[Open]) -> bool {
        if !self.options.whole_within_kept {
            return false;
        }
        for open in stack.iter().rev() {
            match open.id {
                Some(OUTLINED) => return false,
                None => {}
                Some(_) => {
                    let category = self.columns.category[open.row as usize];
                    if self.outlined.contains(&category) {
                        return true;
                    }
                }
            }
        }
        false
    }

    fn state(&mut self, track: TrackId, ts: i64, row: usize) -> Option<SliceId> {
        self.end_state(track, ts);
        self.make_room(track, ts, OPEN, 0);
        let id = self.start(track, track, ts, OPEN, Row::Slice(row))?;
        let state = &mut self.states[track.index()];
        state.state = state.stack.last().copied();
        Some(id)
    }

    /// Ends the state that lasts until now.
    fn end_state(&mut self, track: TrackId, ts: i64) {
        if let Some(open) = self.states[track.index()].state.take() {
            self.columns.dur[open.row as usize] = ts.saturating_sub(open.ts);
            self.states[track.index()].stack.retain(|o| o.id != open.id);
        }
    }

    /// Handles a begin or state that is not kept.
    fn hidden(&mut self, track: TrackId, ts: i64, row: usize) {
        if self.columns.hidden[row].what == HiddenKind::State {
            self.end_state(track, ts);
            return;
        }
        self.make_room(track, ts, OPEN, 0);
        let stack = &mut self.states[track.index()].stack;
        if stack.len() >= MAX_DEPTH {
            self.diagnostics.count(IssueKind::TooDeep, Place::At(ts));
            return;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rows are below their limits"
        )]
        let row = row as u32;
        stack.push(Open {
            ts,
            dur: OPEN,
            id: None,
            row,
            depth: 0,
        });
        self.states[track.index()].had_open = true;
    }

    fn end(&mut self, track: TrackId, ts: i64, end_row: usize) -> Bound {
        let data = self.end_data(end_row);
        self.make_room(track, ts, OPEN, 0);
        let stack = &mut self.states[track.index()].stack;
        let columns = &mut *self.columns;
        let closes_any = data.name.is_none() && data.category == CategoryId::NONE;
        let at = stack.iter().rposition(|open| {
            if open.dur != OPEN || closes_any {
                return open.dur == OPEN;
            }
            let row = open.row as usize;
            let (name, category) = match open.id {
                Some(_) => (columns.name[row], columns.category[row]),
                None => (columns.hidden[row].name, columns.hidden[row].category),
            };
            (data.category == CategoryId::NONE || category == data.category)
                && (data.name.is_none() || name.is_none() || name == data.name)
        });
        let Some(at) = at else {
            self.diagnostics
                .count(IssueKind::EndWithoutBegin, Place::At(ts));
            return Bound::Nothing;
        };
        let open = &mut stack[at];
        open.dur = ts.saturating_sub(open.ts);
        let Open { dur, id, row, .. } = *open;
        if at + 1 == stack.len() {
            stack.pop();
        }
        let Some(id) = id else {
            return Bound::Hidden;
        };
        columns.dur[row as usize] = dur;
        if !data.args.is_none() {
            self.out.end_args.push((id, data.args));
        }
        if let Some(thread_ts) = data.thread_ts {
            self.out.end_thread_ts.push((id, thread_ts));
        }
        Bound::Slice(id)
    }

    fn end_data(&self, row: usize) -> EndData {
        let data = &self.columns.end_data;
        if data.is_empty() {
            return EndData::ANY;
        }
        match data.binary_search_by_key(&row, |&(r, _)| r as usize) {
            Ok(at) => data[at].1,
            Err(_) => EndData::ANY,
        }
    }

    fn flow_event(&mut self, track: TrackId, ts: i64, point: FlowPoint) {
        let state = &mut self.states[track.index()];
        if point.role == FlowRole::EndAtNext {
            state.pending.push(point);
            return;
        }
        let top = top(&state.stack);
        let is_exact = top.is_some_and(|o| o.ts == ts);
        let slice = match (self.options.binding, state.last_started) {
            (FlowBinding::Exact | FlowBinding::ExactOnly, Some((started, id)))
                if started == ts && !is_exact =>
            {
                Some(id)
            }
            (FlowBinding::ExactOnly, _) if !is_exact => return,
            _ => top.and_then(|o| o.id),
        };
        if let Flows::Now(binder) = &mut self.flows {
            match slice {
                Some(slice) => binder.bind(slice, ts, point, None),
                None => binder.no_slice(ts),
            }
        }
    }

    #[inline]
    fn attached(&mut self, event: usize, ts: i64, bound: &Bound) {
        let slice = match bound {
            Bound::Slice(slice) => Some(*slice),
            Bound::Nothing => None,
            Bound::Hidden => return,
        };
        let Ok(event) = u32::try_from(event) else {
            return;
        };
        let bound = BoundEvent { ts, event, slice };
        match &mut self.flows {
            Flows::Now(binder) => binder.bind_attached(bound),
            Flows::Later(outbox) => outbox.push(bound),
        }
    }
}

/// Returns the innermost slice that is kept, or of which the outline is.
fn top(stack: &[Open]) -> Option<&Open> {
    stack.iter().rev().find(|open| open.id.is_some())
}
