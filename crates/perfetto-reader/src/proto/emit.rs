//! Converts track events to events of the builder. Track, name, category, arguments, flows and
//! counters are resolved with the state at this place in the file; only the time may have to wait.

use trace_model::{
    ArgsRef, CategoryId, EndData, EndOrder, FlowPoint, FlowRole, FlowSpace, IssueKind, LaneId,
    Place, SliceData, StrId,
};

use crate::proto::event::{EventScalars, EventType, LegacyEvent};
use crate::proto::import::{Importer, Pending, Stamp};
use crate::proto::older_times::ThreadCounts;
use crate::proto::prefetch::Lists;
use crate::proto::tracks::{Base, LaneKey};
use crate::proto::wire::Span;

/// Effect of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Action {
    Begin,
    End,
    Instant,
    State,
    /// A slice of known duration in ns.
    Complete(i64),
    /// A flow event without a slice.
    Flow(FlowPoint),
    /// Counters only.
    Counters,
}

/// An event that is complete except for its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resolved {
    pub(super) action: Action,
    pub(super) lane: LaneId,
    pub(super) name: Option<StrId>,
    pub(super) category: CategoryId,
    pub(super) args: ArgsRef,
    /// CPU time of the thread in ns.
    pub(super) thread_ts: Option<i64>,
    /// CPU time spent in a complete slice.
    pub(super) thread_dur: Option<i64>,
    /// `true` if its category is not selected: the event only counts for the nesting.
    pub(super) hidden: bool,
    /// The track that the event names.
    pub(super) base: Base,
    /// Phase of a legacy event, else 0.
    pub(super) phase: u8,
}

/// An event that waits for a clock snapshot.
#[derive(Debug)]
pub(super) struct Deferred {
    pending: Pending,
    event: Resolved,
    samples: Box<[(LaneId, f64)]>,
    host: Option<LaneId>,
    flows: Box<[FlowPoint]>,
    at: u64,
}

impl Resolved {
    /// Returns an event that only carries counter samples.
    pub(super) fn counters(lane: LaneId) -> Self {
        Self {
            action: Action::Counters,
            lane,
            name: None,
            category: CategoryId::NONE,
            args: ArgsRef::NONE,
            thread_ts: None,
            thread_dur: None,
            hidden: false,
            base: Base::Uuid(0),
            phase: 0,
        }
    }
}

impl Importer<'_> {
    /// Processes the track event of a packet of the sequence at `at`.
    #[inline]
    pub(super) fn track_event(&mut self, at: usize, bytes: &[u8], stamp: Stamp) {
        if self.event.decode(bytes).is_err() {
            self.note(
                IssueKind::BadTrackEvent,
                "a track event that does not decode",
            );
            return;
        }
        if !self.event.is_simple() {
            self.full_event(at, bytes, stamp);
            return;
        }
        let one = self.event.scalars;
        let taken = self.event.take_lists();
        let [flow_ids, terminating_flow_ids] = &taken.1;
        let lists = Lists {
            annotations: &taken.0,
            flow_ids,
            terminating_flow_ids,
        };
        self.simple_event(at, (&one, lists, bytes), stamp);
        self.event.give_lists(taken);
    }

    /// Processes a simple event that is already decoded.
    #[inline]
    pub(super) fn simple_event(
        &mut self,
        at: usize,
        (one, lists, bytes): (&EventScalars, Lists<'_>, &[u8]),
        stamp: Stamp,
    ) {
        self.samples.clear();
        self.host = None;
        let name = self.event_name(at, one.name_iid, one.name, bytes);
        let (category, text) = self.category(at, one.category_iid);
        let Some(base) = self.base(at, one, &LegacyEvent::NONE) else {
            return;
        };
        let Some((action, lane)) = self.plain_event(one, base) else {
            return;
        };
        if stamp == Stamp::None {
            self.note(IssueKind::BadTrackEvent, "a track event without a time");
            return;
        }
        let mut event = Resolved {
            action,
            lane,
            name,
            category,
            args: ArgsRef::NONE,
            thread_ts: None,
            thread_dur: None,
            hidden: false,
            base,
            phase: 0,
        };
        event.hidden = self.is_hidden(stamp, &event, text);
        if !event.hidden {
            let none = &LegacyEvent::NONE;
            event.args = self.event_args(at, bytes, lists.annotations, (&event, none, true));
        }
        match stamp {
            Stamp::Known(ts) => {
                self.emit(ts, &event);
                if self.takes_flows(&event) {
                    for point in lists.points() {
                        self.builder.events.attach_flow(point);
                    }
                }
            }
            Stamp::Later(pending) => self.defer(pending, &event, lists.points().collect()),
            Stamp::None => {}
        }
    }

    /// Processes an event with rare fields.
    fn full_event(&mut self, at: usize, bytes: &[u8], stamp: Stamp) {
        let one = self.event.scalars;
        let rare = self.event.rare;
        let has_legacy_time = rare.delta_us.is_some()
            || rare.absolute_us != 0
            || rare.thread_time_delta_us.is_some()
            || rare.thread_time_absolute_us.is_some()
            || rare.instructions_delta.is_some()
            || rare.instructions_absolute.is_some();
        let (stamp, counts) = if has_legacy_time {
            match self.legacy_time(at, stamp) {
                Some(found) => found,
                None => return,
            }
        } else {
            (stamp, ThreadCounts::default())
        };
        if stamp == Stamp::None {
            self.note(IssueKind::BadTrackEvent, "a track event without a time");
            return;
        }
        let legacy = match rare.legacy {
            None => LegacyEvent::NONE,
            Some(span) => match LegacyEvent::decode(span.bytes(bytes)) {
                Ok(legacy) => legacy,
                Err(_) => {
                    self.note(
                        IssueKind::BadTrackEvent,
                        "a legacy event that does not decode",
                    );
                    return;
                }
            },
        };
        if one.kind == EventType::Unspecified && legacy.phase == 0 {
            self.note(
                IssueKind::BadTrackEvent,
                "a track event without type or phase",
            );
            return;
        }
        self.samples.clear();
        self.host = None;
        // The counter's own value precedes extra values of the same counter.
        let counter = match one.kind {
            EventType::Counter => match self.counter_event(at) {
                Some(lane) => Some(lane),
                None => return,
            },
            _ => None,
        };
        let mut thread_ts = counts.time_ns;
        if self.event.has_extra_counters() {
            match self.extra_counters(at) {
                Some(time) => thread_ts = time.or(thread_ts),
                None => return,
            }
        }
        if let Some(lane) = counter {
            self.host = self.options.compat.then_some(lane);
            self.dispatch(stamp, &Resolved::counters(lane), (None, 0));
            return;
        }
        let Some(base) = self.base(at, &one, &legacy) else {
            return;
        };
        if self.options.compat && self.event.has_extra_counters() {
            self.host = Some(self.tracks.lane(&mut self.builder, LaneKey::On(base)));
        }
        let name_iid = if one.name_iid == 0 {
            legacy.name_iid
        } else {
            one.name_iid
        };
        let name = self.event_name(at, name_iid, one.name, bytes);
        let (category, text) = self.event_category(at, bytes);
        let resolved = if rare.legacy.is_none() {
            self.plain_event(&one, base)
        } else {
            self.legacy_event(at, &legacy, base, (bytes, name, text))
        };
        let Some((action, lane)) = resolved else {
            // In the reference the counters of such an event are kept.
            if self.options.compat {
                self.thread_samples(base, counts);
                if let Some(&(lane, _)) = self.samples.first() {
                    self.dispatch(stamp, &Resolved::counters(lane), (None, 0));
                }
            }
            return;
        };
        if counts.time_ns.is_some() || counts.instructions.is_some() {
            self.thread_samples(base, counts);
        }
        let mut event = Resolved {
            action,
            lane,
            name,
            category,
            args: ArgsRef::NONE,
            thread_ts,
            thread_dur: None,
            hidden: false,
            base,
            phase: legacy.phase,
        };
        if thread_ts.is_some() {
            event.thread_dur = match action {
                Action::Instant => Some(0),
                Action::Complete(_) => Some(legacy.thread_duration_us.saturating_mul(1000)),
                _ => None,
            };
        }
        event.hidden = self.is_hidden(stamp, &event, text);
        if !event.hidden {
            let annotations = std::mem::take(&mut self.event.annotations);
            event.args = self.event_args(at, bytes, &annotations, (&event, &legacy, false));
            self.event.annotations = annotations;
        }
        self.dispatch(stamp, &event, (legacy.bind_id, legacy.flow_direction));
    }

    /// Returns `true` if the projection excludes the event.
    #[inline]
    fn is_hidden(&mut self, stamp: Stamp, event: &Resolved, category: Option<StrId>) -> bool {
        if let Stamp::Known(ts) = stamp
            && !self.keep.time(ts)
        {
            return true;
        }
        if event.action == Action::End || self.keep.categories.is_none() {
            return false;
        }
        let text = category.map(|id| self.builder.events.strings.get(id));
        !self.keep.category(event.category, text)
    }

    /// Emits an event, or keeps it until its clock is known.
    #[inline]
    pub(super) fn dispatch(&mut self, stamp: Stamp, event: &Resolved, bind: (Option<u64>, u32)) {
        match stamp {
            Stamp::Known(ts) => {
                self.emit(ts, event);
                if self.takes_flows(event) {
                    for point in self.flow_points(bind) {
                        self.builder.events.attach_flow(point);
                    }
                }
            }
            Stamp::Later(pending) => {
                let flows = self.flow_points(bind);
                self.defer(pending, event, flows.into());
            }
            Stamp::None => {}
        }
    }

    /// Keeps an event until its clock is known.
    #[cold]
    fn defer(&mut self, pending: Pending, event: &Resolved, flows: Box<[FlowPoint]>) {
        self.deferred.push(Deferred {
            pending,
            event: *event,
            samples: self.samples.as_slice().into(),
            host: self.host,
            flows,
            at: self.at,
        });
    }

    /// Returns `true` if the event takes the flows that it names.
    fn takes_flows(&self, event: &Resolved) -> bool {
        !event.hidden
            && match event.action {
                Action::Flow(_) | Action::Counters => false,
                Action::State => !self.options.compat,
                // Steps of async operations take no flows in the reference.
                _ => !(self.options.compat && matches!(event.phase, b'T' | b'p')),
            }
    }

    /// Passes an event to the builder.
    #[inline]
    fn emit(&mut self, ts: i64, event: &Resolved) {
        let before = self.builder.events.len();
        self.push(ts, event);
        if self.options.compat {
            self.note_shared(ts, before, event);
        }
    }

    #[inline]
    fn push(&mut self, ts: i64, event: &Resolved) {
        let events = &mut self.builder.events;
        let in_range = self.keep.range.is_none() || self.keep.time(ts);
        if in_range {
            for &(lane, value) in &self.samples {
                events.counter(lane, ts, value);
                if let Some(host) = self.host {
                    events.sampled_by(host);
                }
            }
        }
        let data = SliceData {
            name: event.name,
            category: event.category,
            args: event.args,
        };
        match event.action {
            Action::End => {
                let end = EndData {
                    name: event.name,
                    category: event.category,
                    args: event.args,
                    thread_ts: event.thread_ts,
                };
                events.end(event.lane, ts, EndOrder::InPlace, end);
                return;
            }
            // The reference stores states in a separate table.
            Action::State if self.options.compat => return,
            Action::Begin if event.hidden => events.hidden_begin(event.lane, ts, data),
            Action::State if event.hidden => events.hidden_state(event.lane, ts),
            Action::Instant | Action::Complete(_) | Action::Flow(_) if event.hidden => {}
            Action::Begin => events.begin(event.lane, ts, data),
            Action::Instant => events.instant(event.lane, ts, data),
            Action::State => events.state(event.lane, ts, data),
            Action::Complete(dur) => events.complete(event.lane, ts, dur, data),
            Action::Flow(point) => {
                events.flow(event.lane, ts, point);
                return;
            }
            Action::Counters => return,
        }
        if event.hidden {
            return;
        }
        if let Some(thread_ts) = event.thread_ts {
            events.thread_time(thread_ts, event.thread_dur);
        }
        self.tracks.note_name(event.lane, ts, event.name);
    }

    /// Returns the flows of the event that was decoded last.
    fn flow_points(&mut self, (bind_id, direction): (Option<u64>, u32)) -> Vec<FlowPoint> {
        let mut points = Vec::new();
        let mut add = |id, space, role| points.push(flow_point(id, space, role));
        let mut directionless = false;
        if let Some(id) = bind_id {
            match direction {
                1 => add(id, FlowSpace::BindId, FlowRole::End),
                2 => add(id, FlowSpace::BindId, FlowRole::Start),
                3 => add(id, FlowSpace::BindId, FlowRole::Step),
                _ => directionless = true,
            }
        }
        for &id in self.event.flows() {
            add(id, FlowSpace::TrackEvent, FlowRole::Through);
        }
        for &id in self.event.terminating_flows() {
            add(id, FlowSpace::TrackEvent, FlowRole::Terminate);
        }
        if directionless {
            self.note(IssueKind::BadTrackEvent, "a flow without direction");
        }
        points
    }

    /// Returns action and lane of an event with its own type.
    #[inline]
    fn plain_event(&mut self, one: &EventScalars, base: Base) -> Option<(Action, LaneId)> {
        let action = match one.kind {
            EventType::SliceBegin => Action::Begin,
            EventType::SliceEnd => Action::End,
            EventType::Instant => Action::Instant,
            EventType::State => Action::State,
            EventType::Unspecified | EventType::Counter | EventType::Unknown(_) => {
                self.note(IssueKind::BadTrackEvent, "a track event of an unknown type");
                return None;
            }
        };
        let lane = self.tracks.lane(&mut self.builder, LaneKey::On(base));
        Some((action, lane))
    }

    #[inline]
    fn event_name(
        &mut self,
        at: usize,
        iid: u64,
        text: Option<Span>,
        bytes: &[u8],
    ) -> Option<StrId> {
        if iid != 0 {
            let name = self.sequences[at].interned.names.get(iid);
            if name.is_none() {
                self.note(IssueKind::UnknownInterned, "the name of an event");
            }
            return name;
        }
        Some(self.intern_text(text?.bytes(bytes)))
    }

    /// Returns a single category as a dictionary entry and as text; 0 is none.
    #[inline]
    fn category(&mut self, at: usize, iid: u64) -> (CategoryId, Option<StrId>) {
        if iid == 0 {
            return (CategoryId::NONE, None);
        }
        match self.sequences[at].interned.categories.get(iid) {
            Some(category) => (category.id, Some(category.text)),
            None => self.unknown_category(iid),
        }
    }

    #[cold]
    fn unknown_category(&mut self, iid: u64) -> (CategoryId, Option<StrId>) {
        self.note(IssueKind::UnknownInterned, "the category of an event");
        let text = format!("unknown({iid})");
        let text = self.builder.events.strings.intern(&text);
        (self.builder.events.category(text), Some(text))
    }

    /// Returns the category of the event that was decoded last; several are joined.
    fn event_category(&mut self, at: usize, bytes: &[u8]) -> (CategoryId, Option<StrId>) {
        let iid = self.event.scalars.category_iid;
        if self.event.more_category_iids.is_empty() && self.event.categories.is_empty() {
            return self.category(at, iid);
        }
        let mut joined = String::new();
        let mut push = |part: &str| {
            if !joined.is_empty() {
                joined.push(',');
            }
            joined.push_str(part);
        };
        let mut unknown = 0;
        let first = (iid != 0).then_some(iid);
        for iid in first.iter().chain(&self.event.more_category_iids) {
            match self.sequences[at].interned.categories.get(*iid) {
                Some(category) => push(self.builder.events.strings.get(category.text)),
                None => unknown += 1,
            }
        }
        for span in &self.event.categories {
            push(&String::from_utf8_lossy(span.bytes(bytes)));
        }
        if unknown > 0 {
            self.note(IssueKind::UnknownInterned, "one of several categories");
        }
        if joined.is_empty() {
            return (CategoryId::NONE, None);
        }
        let text = self.builder.events.strings.intern(&joined);
        (self.builder.events.category(text), Some(text))
    }

    pub(super) fn intern_text(&mut self, bytes: &[u8]) -> StrId {
        let mut repaired = 0;
        let strings = &mut self.builder.events.strings;
        let id = crate::proto::annotation::intern_bytes(strings, bytes, &mut repaired);
        self.repaired(repaired);
        id
    }

    /// Retries events that wait for a snapshot; those that still cannot be converted are dropped.
    pub(super) fn retry_deferred(&mut self) {
        for deferred in std::mem::take(&mut self.deferred) {
            self.at = deferred.at;
            let time = match deferred.pending {
                Pending::Absolute(time) => Some(time),
                // Deltas that started before their base cannot be accumulated.
                Pending::Raw(raw) if self.clocks.is_incremental(raw.clock) => None,
                Pending::Raw(raw) => self.clocks.absolute(raw.clock, raw.ns),
            };
            let Some(ts) = time.and_then(|time| self.clocks.convert(time)) else {
                let (Pending::Absolute(time) | Pending::Raw(time)) = deferred.pending;
                let clock = format!(
                    "clock {} of sequence {}",
                    time.clock.id, time.clock.sequence
                );
                let place = Place::Byte(deferred.at);
                self.builder
                    .diagnostics
                    .note(IssueKind::ClockSync, place, clock);
                continue;
            };
            self.samples.clear();
            self.samples.extend_from_slice(&deferred.samples);
            self.host = deferred.host;
            let mut event = deferred.event;
            event.hidden |= !self.keep.time(ts) && event.action != Action::End;
            self.emit(ts, &event);
            if self.takes_flows(&event) {
                for &point in &deferred.flows {
                    self.builder.events.attach_flow(point);
                }
            }
        }
    }
}

impl Lists<'_> {
    /// Returns the flows of a simple event.
    #[inline]
    fn points(self) -> impl Iterator<Item = FlowPoint> {
        let of = |role| move |&id: &u64| flow_point(id, FlowSpace::TrackEvent, role);
        let through = self.flow_ids.iter().map(of(FlowRole::Through));
        let last = self.terminating_flow_ids.iter();
        through.chain(last.map(of(FlowRole::Terminate)))
    }
}

fn flow_point(id: u64, space: FlowSpace, role: FlowRole) -> FlowPoint {
    FlowPoint {
        id,
        category: None,
        name: None,
        space,
        role,
    }
}
