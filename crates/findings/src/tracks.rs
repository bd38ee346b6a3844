//! The answer as events for a timeline, and the window of a finding cut out of its recording.

use std::collections::BTreeMap;

use trace_model::{
    Arg, ArgValue, ArgsRef, BuildError, FinishOptions, FlowPoint, FlowRole, FlowSpace, LaneId, Pid,
    Process, SliceData, SliceId, Thread, Tid, Trace, TraceBuilder, Track, TrackKind,
};

use crate::document::{Document, Side};

/// Returns the answer as a trace to be opened beside the recordings: steps, their phases, the path of the best, median and worst
/// step, and the events that findings rest on.
///
/// # Errors
///
/// Returns an error if there are more events than a trace can hold.
pub fn tracks(document: &Document) -> Result<Trace, BuildError> {
    let mut out = Tracks {
        builder: TraceBuilder::new(),
        processes: BTreeMap::new(),
        lanes: BTreeMap::new(),
    };
    let side = match document.comparison {
        Some(_) => Side::Candidate,
        None => Side::Only,
    };
    for step in document
        .figures
        .steps
        .iter()
        .filter(|step| step.side == side)
    {
        let name = format!("step {} ({}, {})", step.step, step.phase, step.bound);
        let process = format!("why: rank {}", step.rank);
        out.slice(&process, "steps", (step.begin_ns, step.duration_ns), &name);
    }
    for timeline in &document.figures.timelines {
        let process = format!("why: rank {}", timeline.rank);
        for lane in timeline.lanes.iter().filter(|lane| lane.name == "path") {
            let track = format!("path of the {} step", timeline.role);
            for span in &lane.spans {
                let name = match span.name.as_str() {
                    "" => span.class.clone(),
                    name => format!("{}: {name}", span.class),
                };
                let begin = timeline.begin_ns + span.begin_ns;
                out.slice(&process, &track, (begin, span.duration_ns), &name);
            }
        }
    }
    for finding in document
        .findings
        .iter()
        .filter(|finding| finding.place.side == side)
    {
        for evidence in &finding.evidence {
            let rank = evidence.rank.or(finding.place.rank).unwrap_or(0);
            let (Some(begin), Some(ns)) = (evidence.begin_ns, evidence.duration_ns) else {
                continue;
            };
            let name = format!("{}: {}", finding.title, evidence.text);
            let process = format!("why: rank {rank}");
            out.slice(
                &process,
                &format!("finding {}", finding.id),
                (begin, ns),
                &name,
            );
        }
    }
    out.builder.finish(&FinishOptions::default())
}

struct Tracks {
    builder: TraceBuilder,
    processes: BTreeMap<String, trace_model::ProcessId>,
    lanes: BTreeMap<(String, String), LaneId>,
}

impl Tracks {
    fn slice(&mut self, process: &str, track: &str, (begin, ns): (i64, i64), name: &str) {
        let key = (process.to_owned(), track.to_owned());
        let lane = match self.lanes.get(&key) {
            Some(lane) => *lane,
            None => {
                let lane = self.lane(process, track);
                self.lanes.insert(key, lane);
                lane
            }
        };
        let category = self.builder.events.strings.intern("why");
        let category = self.builder.events.category(category);
        let data = SliceData {
            name: Some(self.builder.events.strings.intern(name)),
            category,
            args: ArgsRef::NONE,
        };
        self.builder.events.complete(lane, begin, ns, data);
    }

    fn lane(&mut self, process: &str, track: &str) -> LaneId {
        let known = self.processes.len();
        let builder = &mut self.builder;
        let own = *self.processes.entry(process.to_owned()).or_insert_with(|| {
            let name = builder.events.strings.intern(process);
            // Numbers that no recording is likely to have.
            let pid = i64::try_from(known).unwrap_or(0) + 2_000_000_000;
            builder.process(Process {
                name: Some(name),
                ..Process::new(Pid(pid))
            })
        });
        let name = builder.events.strings.intern(track);
        let tid = i64::try_from(self.lanes.len()).unwrap_or(0) + 2_000_100_000;
        let thread = builder.thread(Thread {
            name: Some(name),
            ..Thread::new(Tid(tid), Some(own))
        });
        let track = builder.track(Track {
            process: Some(own),
            thread: Some(thread),
            ..Track::new(TrackKind::Thread)
        });
        builder.lane(Some(track))
    }
}

/// Returns the slices of a trace that reach into a window, with their arguments, threads and arrows. Counters are left out.
///
/// # Errors
///
/// Returns an error if there are more events than a trace can hold.
pub fn cut_out(trace: &Trace, (begin, end): (i64, i64)) -> Result<Trace, BuildError> {
    let mut builder = TraceBuilder::new();
    builder.meta.base_time_ns = trace.meta().base_time_ns;
    builder.meta.clock = trace.meta().clock;
    builder
        .meta
        .distributed
        .clone_from(&trace.meta().distributed);
    let text = |builder: &mut TraceBuilder, id| builder.events.strings.intern(trace.text(id));
    let mut processes = Vec::new();
    for process in trace.processes() {
        let mut copy = process.clone();
        copy.name = process.name.map(|name| text(&mut builder, name));
        copy.labels = process.labels.map(|labels| text(&mut builder, labels));
        processes.push(builder.process(copy));
    }
    let place =
        |id: Option<trace_model::ProcessId>| id.and_then(|id| processes.get(id.index()).copied());
    let mut threads = Vec::new();
    for thread in trace.threads() {
        let mut copy = thread.clone();
        copy.name = thread.name.map(|name| text(&mut builder, name));
        copy.process = place(thread.process);
        threads.push(builder.thread(copy));
    }
    let mut lanes: BTreeMap<usize, LaneId> = BTreeMap::new();
    let mut kept: BTreeMap<SliceId, ()> = BTreeMap::new();
    for slice in trace.slices() {
        let (from, to) = (slice.ts().nanos(), slice.end().nanos());
        if from < end && (to > begin || (to == from && from >= begin)) {
            kept.insert(slice.id(), ());
        }
    }
    for id in kept.keys() {
        let slice = trace.slice(*id);
        let at = slice.track_id().index();
        let lane = match lanes.get(&at) {
            Some(lane) => *lane,
            None => {
                let track = slice.track();
                let mut copy = Track::new(track.kind);
                copy.name = track.name.map(|name| text(&mut builder, name));
                copy.process = place(track.process);
                copy.thread = track.thread.and_then(|id| threads.get(id.index()).copied());
                copy.uuid = track.uuid;
                copy.is_lane = track.is_lane;
                let track = builder.track(copy);
                let lane = builder.lane(Some(track));
                lanes.insert(at, lane);
                lane
            }
        };
        let mut list = Vec::new();
        for (key, value) in slice.args() {
            let key = builder.events.strings.intern(key);
            list.push(match value {
                ArgValue::Int(value) => Arg::int(key, value),
                ArgValue::UInt(value) => Arg::uint(key, value),
                ArgValue::Real(value) => Arg::real(key, value),
                ArgValue::Bool(value) => Arg::bool(key, value),
                ArgValue::Str(value) => Arg::text(key, builder.events.strings.intern(value)),
                ArgValue::Json(value) => Arg::json(key, builder.events.strings.intern(value)),
                ArgValue::Pointer(value) => Arg::pointer(key, value),
                _ => continue,
            });
        }
        let args = builder.events.args(&list);
        let category = slice.category().unwrap_or("");
        let category = builder.events.strings.intern(category);
        let data = SliceData {
            name: slice.name().map(|name| builder.events.strings.intern(name)),
            category: builder.events.category(category),
            args,
        };
        let (from, to) = (slice.ts().nanos(), slice.end().nanos());
        builder.events.complete(lane, from, to - from, data);
        let point = |flow: trace_model::FlowId, role| FlowPoint {
            id: flow.index() as u64,
            category: None,
            name: None,
            space: FlowSpace::Chrome,
            role,
        };
        for (flow, arrow) in trace.flows_to(*id) {
            if kept.contains_key(&arrow.from) {
                builder.events.attach_flow(point(flow, FlowRole::End));
            }
        }
        for (flow, arrow) in trace.flows_from(*id) {
            if kept.contains_key(&arrow.to) {
                builder.events.attach_flow(point(flow, FlowRole::Start));
            }
        }
    }
    builder.finish(&FinishOptions::default())
}
