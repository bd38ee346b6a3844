//! Events as read: columns in file order with a dictionary of their own, so that parts of a file
//! can be read on different threads and joined in file order afterwards.

use rustc_hash::FxHashMap;

use crate::builder::attached::AttachedFlows;
use crate::ids::{LaneId, StrId, TrackId};
use crate::intern::StringTable;
use crate::table::args::{Arg, ArgStore, ArgsRef};
use crate::table::slice::{CategoryId, OPEN};

/// Maximum number of rows of one kind that a batch or trace can hold (2^28).
pub const MAX_EVENTS: usize = 1 << 28;

/// Name, category and arguments of a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SliceData {
    /// Name, if any.
    pub name: Option<StrId>,
    /// Category, [`CategoryId::NONE`] if there is none.
    pub category: CategoryId,
    /// Arguments.
    pub args: ArgsRef,
}

/// Data of an end event: the slice that it closes, and what it adds to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndData {
    /// Name of the slice to close; `None` closes any.
    pub name: Option<StrId>,
    /// Category of the slice to close; [`CategoryId::NONE`] closes any.
    pub category: CategoryId,
    /// Arguments to append to the slice.
    pub args: ArgsRef,
    /// CPU time of the thread at the end.
    pub thread_ts: Option<i64>,
}

impl EndData {
    /// Closes any open slice.
    pub const ANY: Self = Self {
        name: None,
        category: CategoryId::NONE,
        args: ArgsRef::NONE,
        thread_ts: None,
    };
}

/// Order of an end among events at the same time (only for
/// [`EventOrder::Chrome`](crate::EventOrder)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOrder {
    /// Before everything else at its time (phase `E` of Chrome JSON).
    First,
    /// At its place in the file (all others).
    InPlace,
}

/// Role of a flow event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowRole {
    /// Starts the flow at this slice; a second start is ignored (`s`).
    Start,
    /// Adds an arrow from the last slice to this one, which becomes the last (`t`).
    Step,
    /// Adds an arrow from the last slice to this one; the flow's last slice stays (`f` with `bp:
    /// e`).
    End,
    /// Like `End`, but bound to the next slice that starts on the lane (`f` without `bp`).
    EndAtNext,
    /// Starts the flow if it is unknown, else adds a step (`flow_ids` of track events).
    Through,
    /// Adds an arrow from the last slice if the flow is known, and forgets the id
    /// (`terminating_flow_ids`).
    Terminate,
}

/// Space of flow ids. Flows of different spaces never meet, even with equal ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowSpace {
    /// `s`, `t`, `f` events: identity is id, category and name.
    Chrome,
    /// `bind_id` of slices.
    BindId,
    /// `flow_ids` of track events.
    TrackEvent,
}

/// One end of a flow arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPoint {
    /// The producer's id.
    pub id: u64,
    /// Category, part of the identity in [`FlowSpace::Chrome`].
    pub category: Option<StrId>,
    /// Name, part of the identity in [`FlowSpace::Chrome`].
    pub name: Option<StrId>,
    /// Space of the id.
    pub space: FlowSpace,
    /// Role of the event.
    pub role: FlowRole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum EventKind {
    Complete = 0,
    Begin = 1,
    Instant = 2,
    EndFirst = 3,
    EndInPlace = 4,
    Flow = 5,
    State = 6,
    Hidden = 7,
}

/// Kind (3 bits), whether flows are attached (1 bit), and the row in the kind's table (28 bits).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tag(u32);

impl Tag {
    const ATTACHED: u32 = 1 << 28;

    fn new(kind: EventKind, row: usize) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rows stay below MAX_EVENTS"
        )]
        Self(((kind as u32) << 29) | (row as u32 & (Self::ATTACHED - 1)))
    }

    pub(crate) fn kind(self) -> EventKind {
        match self.0 >> 29 {
            0 => EventKind::Complete,
            1 => EventKind::Begin,
            2 => EventKind::Instant,
            3 => EventKind::EndFirst,
            4 => EventKind::EndInPlace,
            5 => EventKind::Flow,
            6 => EventKind::State,
            _ => EventKind::Hidden,
        }
    }

    pub(crate) fn row(self) -> usize {
        (self.0 & (Self::ATTACHED - 1)) as usize
    }

    pub(crate) fn has_attached(self) -> bool {
        self.0 & Self::ATTACHED != 0
    }

    fn shifted(self, by: usize) -> Self {
        let kind_and_flag = self.0 & !(Self::ATTACHED - 1);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "rows stay below MAX_EVENTS"
        )]
        Self(kind_and_flag | (self.row() + by) as u32)
    }
}

/// Data that nesting needs of a slice that is not kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hidden {
    pub(crate) lane: LaneId,
    pub(crate) name: Option<StrId>,
    /// Duration of an outline, [`LONG`] if it is in a list of its own; see [`EventColumns::outlined_dur`].
    pub(crate) dur: u32,
    pub(crate) category: CategoryId,
    pub(crate) what: HiddenKind,
}

/// What a slice that is not kept is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HiddenKind {
    /// One that a later end event closes.
    Begin,
    /// A state, which ends the state before it on its lane.
    State,
    /// A complete slice that takes its place among the others.
    Outline,
}

/// Stands for a duration that 32 bits do not hold.
const LONG: u32 = u32::MAX;

/// Columns of events in file order.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventColumns {
    pub(crate) ts: Vec<i64>,
    pub(crate) tag: Vec<Tag>,
    // rows of slices
    pub(crate) dur: Vec<i64>,
    pub(crate) lane: Vec<LaneId>,
    pub(crate) name: Vec<Option<StrId>>,
    pub(crate) category: Vec<CategoryId>,
    pub(crate) args: Vec<ArgsRef>,
    /// (slice row, CPU time at begin, CPU time spent), ascending by row.
    pub(crate) thread_time: Vec<(u32, i64, Option<i64>)>,
    // rows of ends
    pub(crate) end_lane: Vec<LaneId>,
    /// (end row, data) of ends that are not [`EndData::ANY`], ascending by row.
    pub(crate) end_data: Vec<(u32, EndData)>,
    // rows of slices that are not kept
    pub(crate) hidden: Vec<Hidden>,
    /// (row of `hidden`, duration) of long outlines, ascending by row.
    pub(crate) hidden_long: Vec<(u32, i64)>,
    // rows of flow events
    pub(crate) flow: Vec<(LaneId, FlowPoint)>,
    /// (event, flow) of flows attached to slice and end events, ascending by event.
    pub(crate) attached: AttachedFlows,
    // counters
    pub(crate) counter_ts: Vec<i64>,
    pub(crate) counter_lane: Vec<LaneId>,
    pub(crate) counter_value: Vec<f64>,
    /// (sample, lane) of samples that came with an event of that lane, ascending by sample.
    pub(crate) counter_host: Vec<(u32, LaneId)>,
}

impl EventColumns {
    /// Returns the duration of the outline in this row of `hidden`; `None` if it is no outline.
    pub(crate) fn outlined_dur(&self, row: usize) -> Option<i64> {
        let hidden = self.hidden.get(row)?;
        if hidden.what != HiddenKind::Outline {
            return None;
        }
        if hidden.dur != LONG {
            return Some(i64::from(hidden.dur));
        }
        let at = self
            .hidden_long
            .binary_search_by_key(&row, |&(row, _)| row as usize);
        Some(at.map_or(i64::from(LONG), |at| self.hidden_long[at].1))
    }

    /// Makes the outline in this row of `hidden` a slice like others, without arguments; returns its row.
    pub(crate) fn keep_outline(&mut self, row: usize) -> usize {
        let dur = self.outlined_dur(row).unwrap_or(0);
        let hidden = self.hidden[row];
        self.dur.push(dur);
        self.lane.push(hidden.lane);
        self.name.push(hidden.name);
        self.category.push(hidden.category);
        self.args.push(ArgsRef::NONE);
        self.dur.len() - 1
    }

    /// Returns the longest duration, 0 without any.
    pub(crate) fn longest(&self) -> i64 {
        let outlines = self.hidden.iter().map(|hidden| i64::from(hidden.dur));
        let long = self.hidden_long.iter().map(|&(_, dur)| dur);
        let all = self.dur.iter().copied().chain(outlines).chain(long);
        all.fold(0, i64::max)
    }
}

/// Events in file order with the strings, categories and arguments that they use.
///
/// A reader pushes events with *lanes*: small numbers of its own for the place of an event, which
/// it maps to tracks once the whole file is known.
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    /// Strings of this batch.
    pub strings: StringTable,
    pub(crate) args: ArgStore,
    pub(crate) categories: Vec<StrId>,
    pub(crate) columns: EventColumns,
    pub(crate) dropped_over_limit: u64,
    pub(crate) categories_exhausted: u64,
    pub(crate) shapes_exhausted: u64,
    last_category: Option<(StrId, CategoryId)>,
    category_ids: FxHashMap<StrId, CategoryId>,
}

impl EventBatch {
    /// Creates an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the dictionary entry of a category. Cost: one hash of the id, unless it is the same
    /// as in the previous call.
    pub fn category(&mut self, name: StrId) -> CategoryId {
        if let Some((last, id)) = self.last_category
            && last == name
        {
            return id;
        }
        let id = match self.category_ids.get(&name) {
            Some(&id) => id,
            None => match u16::try_from(self.categories.len()) {
                Ok(at) if at != u16::MAX => {
                    self.categories.push(name);
                    self.category_ids.insert(name, CategoryId(at));
                    CategoryId(at)
                }
                _ => {
                    self.categories_exhausted += 1;
                    CategoryId::NONE
                }
            },
        };
        self.last_category = Some((name, id));
        id
    }

    /// Stores a list of arguments. Once the shapes of the trace are exhausted, the list is stored
    /// as one JSON text under the key `args`.
    pub fn args(&mut self, list: &[Arg]) -> ArgsRef {
        if let Some(at) = self.args.push(list) {
            return at;
        }
        self.shapes_exhausted += 1;
        let text = crate::builder::fallback::args_as_json(list, &self.strings);
        let (key, value) = (self.strings.intern("args"), self.strings.intern(&text));
        self.args
            .push_reserved(Arg::json(key, value))
            .unwrap_or(ArgsRef::NONE)
    }

    /// Replaces the texts of the argument `key` (with its prefix) of slices: `by` is called once for each distinct text and
    /// returns what replaces it, and `true` if that is sound; `unsound` is called with the time of each slice where it is not.
    ///
    /// Cost: a pass over the slices, if any has the argument.
    pub fn replace_texts(
        &mut self,
        key: &str,
        mut by: impl FnMut(&str) -> Option<(String, bool)>,
        mut unsound: impl FnMut(i64),
    ) {
        let Some(key) = self.strings.find(key) else {
            return;
        };
        let positions = self.args.text_positions(key);
        if positions.iter().all(Option::is_none) {
            return;
        }
        let mut known: FxHashMap<u64, Option<(u64, bool)>> = FxHashMap::default();
        let columns = &self.columns;
        for (tag, ts) in columns.tag.iter().zip(&columns.ts) {
            if !matches!(
                tag.kind(),
                EventKind::Complete | EventKind::Begin | EventKind::Instant | EventKind::State
            ) {
                continue;
            }
            let args = columns.args[tag.row()];
            let Some(Some(position)) = positions.get(usize::from(args.shape.0)) else {
                continue;
            };
            let at = args.offset as usize + position;
            let Some(word) = self.args.words.get_mut(at) else {
                continue;
            };
            let found = *known.entry(*word).or_insert_with(|| {
                let text = StrId::new(usize::try_from(*word).ok()?)?;
                let (text, is_sound) = by(self.strings.get(text))?;
                Some((self.strings.intern(&text).index() as u64, is_sound))
            });
            if let Some((text, is_sound)) = found {
                *word = text;
                if !is_sound {
                    unsound(*ts);
                }
            }
        }
    }

    /// Returns the number of events pushed, counters not included.
    pub fn len(&self) -> usize {
        self.columns.ts.len()
    }

    /// Returns `true` if no events and no counter samples were pushed.
    pub fn is_empty(&self) -> bool {
        self.columns.ts.is_empty() && self.columns.counter_ts.is_empty()
    }

    fn event(&mut self, ts: i64, kind: EventKind, row: usize) -> bool {
        if row >= MAX_EVENTS || self.columns.ts.len() >= u32::MAX as usize {
            self.dropped_over_limit += 1;
            return false;
        }
        self.columns.ts.push(ts);
        self.columns.tag.push(Tag::new(kind, row));
        true
    }

    fn slice(&mut self, kind: EventKind, lane: LaneId, ts: i64, dur: i64, data: SliceData) {
        if self.event(ts, kind, self.columns.dur.len()) {
            self.columns.dur.push(dur);
            self.columns.lane.push(lane);
            self.columns.name.push(data.name);
            self.columns.category.push(data.category);
            self.columns.args.push(data.args);
        }
    }

    /// Adds a slice with known duration (`dur` >= 0).
    pub fn complete(&mut self, lane: LaneId, ts: i64, dur: i64, data: SliceData) {
        self.slice(EventKind::Complete, lane, ts, dur.max(0), data);
    }

    /// Adds a slice that a later end event closes.
    pub fn begin(&mut self, lane: LaneId, ts: i64, data: SliceData) {
        self.slice(EventKind::Begin, lane, ts, OPEN, data);
    }

    /// Adds a slice without extent.
    pub fn instant(&mut self, lane: LaneId, ts: i64, data: SliceData) {
        self.slice(EventKind::Instant, lane, ts, 0, data);
    }

    /// Adds a state that lasts until the next state on its lane.
    pub fn state(&mut self, lane: LaneId, ts: i64, data: SliceData) {
        self.slice(EventKind::State, lane, ts, OPEN, data);
    }

    /// Adds a begin whose slice is not kept: its end closes it and nothing else, and slices within
    /// it nest as if it did not exist.
    pub fn hidden_begin(&mut self, lane: LaneId, ts: i64, data: SliceData) {
        let hidden = Hidden {
            lane,
            name: data.name,
            dur: 0,
            category: data.category,
            what: HiddenKind::Begin,
        };
        self.hidden(ts, hidden);
    }

    /// Adds a slice with known duration (`dur` >= 0) of which only the outline is kept: it nests among the others, moves them to
    /// overflow tracks, and counts in [`Trace::outlines`](crate::Trace::outlines), but is none of
    /// [`Trace::slices`](crate::Trace::slices). Costs 28 bytes until the trace is sealed, and nothing then.
    pub fn outline(
        &mut self,
        lane: LaneId,
        ts: i64,
        dur: i64,
        (name, category): (Option<StrId>, CategoryId),
    ) {
        let row = self.columns.hidden.len();
        let short = u32::try_from(dur.max(0)).ok().filter(|dur| *dur != LONG);
        let hidden = Hidden {
            lane,
            name,
            dur: short.unwrap_or(LONG),
            category,
            what: HiddenKind::Outline,
        };
        if self.hidden(ts, hidden)
            && short.is_none()
            && let Ok(row) = u32::try_from(row)
        {
            self.columns.hidden_long.push((row, dur));
        }
    }

    /// Adds a state that is not kept but ends the state before it.
    pub fn hidden_state(&mut self, lane: LaneId, ts: i64) {
        let hidden = Hidden {
            lane,
            name: None,
            dur: 0,
            category: CategoryId::NONE,
            what: HiddenKind::State,
        };
        self.hidden(ts, hidden);
    }

    fn hidden(&mut self, ts: i64, hidden: Hidden) -> bool {
        let is_added = self.event(ts, EventKind::Hidden, self.columns.hidden.len());
        if is_added {
            self.columns.hidden.push(hidden);
        }
        is_added
    }

    /// Closes a slice.
    pub fn end(&mut self, lane: LaneId, ts: i64, order: EndOrder, data: EndData) {
        let kind = match order {
            EndOrder::First => EventKind::EndFirst,
            EndOrder::InPlace => EventKind::EndInPlace,
        };
        let row = self.columns.end_lane.len();
        if self.event(ts, kind, row) {
            self.columns.end_lane.push(lane);
            if data != EndData::ANY {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "rows stay below MAX_EVENTS"
                )]
                self.columns.end_data.push((row as u32, data));
            }
        }
    }

    /// Sets the CPU time of the thread at the beginning of the slice pushed last, and the CPU time
    /// spent in it.
    pub fn thread_time(&mut self, ts: i64, dur: Option<i64>) {
        if let Some(row) = self.columns.dur.len().checked_sub(1) {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "rows stay below MAX_EVENTS"
            )]
            self.columns.thread_time.push((row as u32, ts, dur));
        }
    }

    /// Adds a separate flow event, which binds to a slice on `lane`.
    pub fn flow(&mut self, lane: LaneId, ts: i64, point: FlowPoint) {
        if self.event(ts, EventKind::Flow, self.columns.flow.len()) {
            self.columns.flow.push((lane, point));
        }
    }

    /// Moves an event to another lane. `event` is its index: the value of [`EventBatch::len`]
    /// before it was pushed. Unknown indices are ignored.
    pub fn move_event(&mut self, event: usize, lane: LaneId) {
        let columns = &mut self.columns;
        let Some(&tag) = columns.tag.get(event) else {
            return;
        };
        let row = tag.row();
        let slot = match tag.kind() {
            EventKind::EndFirst | EventKind::EndInPlace => columns.end_lane.get_mut(row),
            EventKind::Flow => columns.flow.get_mut(row).map(|flow| &mut flow.0),
            EventKind::Hidden => columns.hidden.get_mut(row).map(|hidden| &mut hidden.lane),
            EventKind::Complete | EventKind::Begin | EventKind::Instant | EventKind::State => {
                columns.lane.get_mut(row)
            }
        };
        if let Some(slot) = slot {
            *slot = lane;
        }
    }

    /// Attaches a flow to the slice or end event pushed last.
    pub fn attach_flow(&mut self, point: FlowPoint) {
        if let Some(tag) = self.columns.tag.last_mut() {
            tag.0 |= Tag::ATTACHED;
            #[expect(clippy::cast_possible_truncation, reason = "events stay below 2^32")]
            let event = (self.columns.ts.len() - 1) as u32;
            self.columns.attached.push(event, point);
        }
    }

    /// Adds a sample of the counter on `lane`.
    pub fn counter(&mut self, lane: LaneId, ts: i64, value: f64) {
        self.columns.counter_ts.push(ts);
        self.columns.counter_lane.push(lane);
        self.columns.counter_value.push(value);
    }

    /// Associates the sample pushed last with an event on `host`: the sample is dropped if that
    /// lane has no track.
    pub fn sampled_by(&mut self, host: LaneId) {
        if let Some(row) = self.columns.counter_ts.len().checked_sub(1)
            && let Ok(row) = u32::try_from(row)
        {
            self.columns.counter_host.push((row, host));
        }
    }

    /// Appends a later part of the same file. `lanes[i]` is the lane here of lane `i` of `part`.
    /// Cost: one hash for each distinct string, one pass over the columns.
    pub fn append(&mut self, mut part: Self, lanes: &[LaneId]) {
        let strings: Vec<StrId> = part
            .strings
            .iter()
            .map(|(_, s)| self.strings.intern(s))
            .collect();
        let string = |id: StrId| strings[id.index()];
        let categories: Vec<CategoryId> = part
            .categories
            .iter()
            .map(|&c| self.category(string(c)))
            .collect();
        let category = |c: CategoryId| {
            categories
                .get(usize::from(c.0))
                .copied()
                .unwrap_or(CategoryId::NONE)
        };
        let point = |p: FlowPoint| FlowPoint {
            category: p.category.map(string),
            name: p.name.map(string),
            ..p
        };
        let args = self.args.adopt(&mut part.args, &strings);
        self.dropped_over_limit += part.dropped_over_limit;
        self.categories_exhausted += part.categories_exhausted;
        self.shapes_exhausted += part.shapes_exhausted;

        let to = &mut self.columns;
        let from = part.columns;
        let (events, slices, ends, flows) =
            (to.ts.len(), to.dur.len(), to.end_lane.len(), to.flow.len());
        let hidden = to.hidden.len();
        let fits = slices + from.dur.len() <= MAX_EVENTS
            && ends + from.end_lane.len() <= MAX_EVENTS
            && flows + from.flow.len() <= MAX_EVENTS
            && hidden + from.hidden.len() <= MAX_EVENTS
            && events + from.ts.len() <= u32::MAX as usize;
        if !fits {
            self.dropped_over_limit += from.ts.len() as u64;
            return;
        }
        to.ts.extend_from_slice(&from.ts);
        to.tag.extend(from.tag.iter().map(|t| {
            t.shifted(match t.kind() {
                EventKind::Complete | EventKind::Begin | EventKind::Instant | EventKind::State => {
                    slices
                }
                EventKind::EndFirst | EventKind::EndInPlace => ends,
                EventKind::Flow => flows,
                EventKind::Hidden => hidden,
            })
        }));
        to.dur.extend_from_slice(&from.dur);
        to.lane.extend(from.lane.iter().map(|l| lanes[l.index()]));
        to.name.extend(from.name.iter().map(|n| n.map(string)));
        to.category
            .extend(from.category.iter().map(|&c| category(c)));
        to.args.extend(from.args.iter().map(|&a| args.of(a)));
        to.end_lane
            .extend(from.end_lane.iter().map(|l| lanes[l.index()]));
        #[expect(clippy::cast_possible_truncation, reason = "checked by `fits` above")]
        let (slice_base, end_base, event_base) = (slices as u32, ends as u32, events as u32);
        to.thread_time.extend(
            from.thread_time
                .iter()
                .map(|&(row, ts, dur)| (row + slice_base, ts, dur)),
        );
        to.end_data.extend(from.end_data.iter().map(|&(row, d)| {
            let data = EndData {
                name: d.name.map(string),
                category: category(d.category),
                args: args.of(d.args),
                thread_ts: d.thread_ts,
            };
            (row + end_base, data)
        }));
        let hidden_base = u32::try_from(hidden).unwrap_or(u32::MAX);
        let long = from.hidden_long.iter();
        to.hidden_long
            .extend(long.map(|&(row, dur)| (row.saturating_add(hidden_base), dur)));
        to.hidden.extend(from.hidden.iter().map(|h| Hidden {
            lane: lanes[h.lane.index()],
            name: h.name.map(string),
            category: category(h.category),
            ..*h
        }));
        to.flow
            .extend(from.flow.iter().map(|&(l, p)| (lanes[l.index()], point(p))));
        to.attached.append(&from.attached, event_base, point);
        let samples = u32::try_from(to.counter_ts.len()).unwrap_or(u32::MAX);
        to.counter_host.extend(
            from.counter_host
                .iter()
                .map(|&(row, l)| (row.saturating_add(samples), lanes[l.index()])),
        );
        to.counter_ts.extend_from_slice(&from.counter_ts);
        to.counter_lane
            .extend(from.counter_lane.iter().map(|l| lanes[l.index()]));
        to.counter_value.extend_from_slice(&from.counter_value);
    }
}

/// Track of each lane, as resolved by the reader; `None` drops the lane's events.
pub(crate) type LaneTracks = Vec<Option<TrackId>>;
