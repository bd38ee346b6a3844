//! Copies a trace slice by slice.

use std::borrow::Cow;

use trace_model::{
    Arg, ArgValue, ArgsRef, BuildError, CategoryId, FinishOptions, FlowPoint, FlowRole, FlowSpace,
    IssueKind, LaneId, Severity, Slice, SliceData, StrId, Trace, TraceBuilder, bare_key,
};

/// What a text of a trace is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Text<'a> {
    /// Name of a slice of a category.
    Slice(Option<&'a str>),
    /// Value of an argument.
    Argument,
    Process,
    Thread,
    /// Name of a track or a counter.
    Track,
}

/// What a copy changes.
pub(crate) trait Edit {
    /// Returns `true` for slices that are kept.
    fn keeps(&self, _slice: Slice<'_>) -> bool {
        true
    }

    /// Returns `true` for arguments that are kept, by key without prefix.
    fn keeps_arg(&self, _key: &str) -> bool {
        true
    }

    /// Returns `true` for counter samples of this time that are kept.
    fn keeps_sample(&self, _ns: i64) -> bool {
        true
    }

    /// The text to write in place of another.
    fn text<'t>(&mut self, _what: Text<'_>, text: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }

    /// The integer to write as an argument of this key.
    fn integer(&self, _key: &str, value: i64) -> i64 {
        value
    }

    /// The end of a slice that has none, if it gets one.
    fn end(&self, _slice: Slice<'_>) -> Option<i64> {
        None
    }

    /// The number of a process in the copy.
    fn pid(&self, pid: i64) -> i64 {
        pid
    }

    /// The time in the copy.
    fn time(&self, ns: i64) -> i64 {
        ns
    }
}

/// Copies a trace as `edit` says. Properties of the recording are copied whole; the caller changes them with `about`.
pub(crate) fn copy(
    trace: &Trace,
    edit: &mut impl Edit,
    about: impl FnOnce(&mut TraceBuilder),
) -> Result<Trace, BuildError> {
    let mut copier = Copier {
        trace,
        builder: TraceBuilder::new(),
        lanes: Vec::new(),
        categories: Vec::new(),
        args: Vec::new(),
    };
    copier.builder.meta = trace.meta().clone();
    for issue in trace.diagnostics().issues() {
        if issue.kind.severity() != Severity::Info && !is_of_nesting(issue.kind) {
            let places = issue.places.iter().cloned();
            let diagnostics = &mut copier.builder.diagnostics;
            diagnostics.add(issue.kind, issue.count, places);
        }
    }
    copier.places(edit);
    copier.slices(edit);
    for sample in trace.counters().iter() {
        let ns = sample.ts.nanos();
        if edit.keeps_sample(ns) {
            let lane = copier.lanes[sample.track.index()];
            let events = &mut copier.builder.events;
            events.counter(lane, edit.time(ns), sample.value);
        }
    }
    about(&mut copier.builder);
    let mut options = FinishOptions::default();
    options.keep_negative = true;
    copier.builder.finish(&options)
}

/// Returns `true` for issues of how events nest, which the copy finds again if it has them.
fn is_of_nesting(kind: IssueKind) -> bool {
    matches!(
        kind,
        IssueKind::Overlap
            | IssueKind::OverlapDropped
            | IssueKind::MisplacedEnd
            | IssueKind::NeverClosed
            | IssueKind::FlowNoSlice
            | IssueKind::FlowDuplicate
            | IssueKind::FlowStepWithoutStart
    )
}

struct Copier<'t> {
    trace: &'t Trace,
    builder: TraceBuilder,
    /// By track.
    lanes: Vec<LaneId>,
    /// By category.
    categories: Vec<Option<CategoryId>>,
    args: Vec<Arg>,
}

impl Copier<'_> {
    fn string(&mut self, edit: &mut impl Edit, what: Text<'_>, id: Option<StrId>) -> Option<StrId> {
        let text = edit.text(what, self.trace.text(id?));
        Some(self.builder.string(&text))
    }

    /// Copies processes, threads and tracks, which keep their ids.
    fn places(&mut self, edit: &mut impl Edit) {
        let trace = self.trace;
        for process in trace.processes() {
            let mut own = process.clone();
            own.name = self.string(edit, Text::Process, process.name);
            own.labels = self.string(edit, Text::Process, process.labels);
            if !own.artificial {
                own.pid.0 = edit.pid(own.pid.0);
            }
            self.builder.process(own);
        }
        for thread in trace.threads() {
            let mut own = thread.clone();
            own.name = self.string(edit, Text::Thread, thread.name);
            self.builder.thread(own);
        }
        for track in trace.tracks() {
            let mut own = track.clone();
            own.name = self.string(edit, Text::Track, track.name);
            own.unit_name = track
                .unit_name
                .map(|unit| self.builder.string(trace.text(unit)));
            let id = self.builder.track(own);
            let lane = self.builder.lane(Some(id));
            self.lanes.push(lane);
        }
    }

    fn category(&mut self, slice: Slice<'_>) -> CategoryId {
        let (Some(text), Some(at)) = (slice.category(), slice.category_id().index()) else {
            return CategoryId::NONE;
        };
        if self.categories.len() <= at {
            self.categories.resize(at + 1, None);
        }
        let builder = &mut self.builder;
        *self.categories[at].get_or_insert_with(|| {
            let name = builder.string(text);
            builder.events.category(name)
        })
    }

    fn arguments(&mut self, edit: &mut impl Edit, slice: Slice<'_>) -> ArgsRef {
        self.args.clear();
        for (key, value) in slice.args() {
            let bare = bare_key(key);
            if !edit.keeps_arg(bare) {
                continue;
            }
            let id = self.builder.string(key);
            let mut text = |text: &str| {
                let text = edit.text(Text::Argument, text);
                self.builder.string(&text)
            };
            let arg = match value {
                ArgValue::Str(own) => Arg::text(id, text(own)),
                ArgValue::Json(own) => Arg::json(id, text(own)),
                ArgValue::Int(n) => Arg::int(id, edit.integer(bare, n)),
                ArgValue::UInt(n) => match i64::try_from(n) {
                    Ok(n) => Arg::uint(id, edit.integer(bare, n).unsigned_abs()),
                    Err(_) => Arg::uint(id, n),
                },
                ArgValue::Real(x) => Arg::real(id, x),
                ArgValue::Bool(is) => Arg::bool(id, is),
                ArgValue::Pointer(n) => Arg::pointer(id, n),
                _ => continue,
            };
            self.args.push(arg);
        }
        match self.args.is_empty() {
            true => ArgsRef::NONE,
            false => self.builder.events.args(&self.args),
        }
    }

    /// Copies slices in processing order, so that parents come before their children, with the arrows between kept ones.
    fn slices(&mut self, edit: &mut impl Edit) {
        let trace = self.trace;
        let kept: Vec<bool> = trace.slices().map(|slice| edit.keeps(slice)).collect();
        for slice in trace.slices() {
            if !kept[slice.id().index()] {
                continue;
            }
            let category = self.category(slice);
            let name = self.string(edit, Text::Slice(slice.category()), slice.name_id());
            let args = self.arguments(edit, slice);
            let data = SliceData {
                name,
                category,
                args,
            };
            let lane = self.lanes[slice.track_id().index()];
            let ts = edit.time(slice.ts().nanos());
            let events = &mut self.builder.events;
            let dur = slice.dur().map(trace_model::Nanos::get);
            let dur = dur.or_else(|| {
                let end = edit.end(slice)?;
                Some(end.saturating_sub(slice.ts().nanos()).max(0))
            });
            match dur {
                Some(dur) => events.complete(lane, ts, dur, data),
                None => events.begin(lane, ts, data),
            }
            if let Some((begin, spent)) = slice.thread_time() {
                events.thread_time(begin, spent);
            }
            self.arrows(slice, &kept);
        }
    }

    /// Attaches the ends of arrows to the slice that was copied last. Each arrow has a number of its own, in a space of its own.
    fn arrows(&mut self, slice: Slice<'_>, kept: &[bool]) {
        let trace = self.trace;
        let id = slice.id();
        let to = trace.flows_to(id).map(|(flow, own)| (flow, own, own.from));
        let from = trace.flows_from(id).map(|(flow, own)| (flow, own, own.to));
        for (at, (flow, own, other)) in to.map(|f| (false, f)).chain(from.map(|f| (true, f))) {
            if !kept[other.index()] {
                continue;
            }
            // An arrow that runs backwards in time starts where it is read first.
            let is_start = at == (own.from <= own.to);
            let text = |id: Option<StrId>| id.map(|id| trace.text(id));
            let (category, name) = (text(own.category), text(own.name));
            let builder = &mut self.builder;
            let point = FlowPoint {
                id: flow.index() as u64 + 1,
                category: category.map(|text| builder.string(text)),
                name: name.map(|text| builder.string(text)),
                space: FlowSpace::Chrome,
                role: match is_start {
                    true => FlowRole::Start,
                    false => FlowRole::End,
                },
            };
            builder.events.attach_flow(point);
        }
    }
}
