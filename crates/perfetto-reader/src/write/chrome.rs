//! Writes a whole trace from the store as Chrome JSON, in the form that Kineto writes.

use std::io::{self, Write};

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::value::RawValue;
use trace_model::kernel::{DeviceLane, PLACE_KEYS};
use trace_model::{
    ArgValue, FlowId, ProcessId, Slice, SliceId, StrId, ThreadId, Trace, Track, TrackId, TrackKind,
    bare_key,
};

/// First number of processes, threads and arrows that have none of their own, or share one.
const FIRST_MADE_UP: i64 = 1 << 30;

/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 16;

/// Writes a whole trace as Chrome JSON and returns the output.
///
/// Reading the file back gives the same slices (time, duration, name, category, arguments), arrows, counters, processes and
/// threads. Times are microseconds with three decimals, so that nanoseconds stay exact. Limits of the format:
///
/// * tracks that are neither a thread nor asynchronous become threads, named like the track;
/// * a trace that begins before time zero is moved, and its base time with it;
/// * GPU activity whose device and queue only the name of its track tells gets them as arguments `device` and `stream`;
/// * prefixes of argument keys other than `args.` are lost; addresses and numbers that JSON does not have become texts;
/// * arrows that run backwards in time are reversed; counters have no unit, and those whose name is one word get the word `value`.
///
/// # Errors
///
/// Returns an error if writing fails.
pub fn write_chrome_json<W: Write>(trace: &Trace, out: W) -> io::Result<W> {
    Export::new(trace, out).run()
}

/// The same, compressed with gzip: text of this kind becomes about ten times smaller.
///
/// # Errors
///
/// Returns an error if writing fails.
pub fn write_chrome_json_gz<W: Write>(trace: &Trace, out: W) -> io::Result<W> {
    let encoder = flate2::write::GzEncoder::new(out, flate2::Compression::default());
    write_chrome_json(trace, encoder)?.finish()
}

/// The number or the text that identifies a process or thread.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Label {
    Number(i64),
    Text(StrId),
}

/// The row of the file that the slices of a track are on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Row {
    Thread { pid: Label, tid: Label },
    ProcessInstants { pid: Label },
    GlobalInstants,
    Async { pid: Label, id: u32, is_local: bool },
}

/// How the ends of an arrow are written.
#[derive(Clone, Copy)]
enum Arrow {
    /// As events of their own, with this id.
    Events(u64),
    /// As `bind_id` of the two slices.
    Bound(u64),
}

struct Export<'t, W: Write> {
    trace: &'t Trace,
    out: W,
    line: Vec<u8>,
    pids: Vec<Label>,
    tids: Vec<Label>,
    /// The process of threads and tracks that have none.
    no_process: Label,
    rows: Vec<Row>,
    /// Device and queue in the name of a track, by track.
    queues: Vec<Option<DeviceLane>>,
    /// Threads that stand for tracks, with the names of these.
    stand_ins: Vec<(Label, i64, String)>,
    arrows: Vec<Arrow>,
    /// Added to every time.
    shift: i64,
    is_first: bool,
}

/// Numbers that are used, and the next that is not.
struct Numbers<T> {
    used: FxHashSet<T>,
    next: i64,
}

impl<T: std::hash::Hash + Eq> Numbers<T> {
    fn new() -> Self {
        Self {
            used: FxHashSet::default(),
            next: FIRST_MADE_UP,
        }
    }

    /// A number that makes a key which is not used.
    fn fresh(&mut self, key: impl Fn(i64) -> T) -> i64 {
        loop {
            let number = self.next;
            self.next += 1;
            if self.used.insert(key(number)) {
                return number;
            }
        }
    }
}

impl<'t, W: Write> Export<'t, W> {
    fn new(trace: &'t Trace, out: W) -> Self {
        let label = |number: i64, artificial: bool, name: Option<StrId>| match name {
            Some(name) if artificial => Label::Text(name),
            _ => Label::Number(number),
        };
        // The first that has a number keeps it.
        let mut pids_used: Numbers<Label> = Numbers::new();
        let mut pids: Vec<Option<Label>> = Vec::new();
        for process in trace.processes() {
            let own = label(process.pid.0, process.artificial, process.name);
            pids.push(pids_used.used.insert(own).then_some(own));
        }
        let mut fresh = || Label::Number(pids_used.fresh(Label::Number));
        let pids: Vec<Label> = pids
            .into_iter()
            .map(|pid| pid.unwrap_or_else(&mut fresh))
            .collect();
        let no_process = fresh();
        let mut tids_used: Numbers<(Label, Label)> = Numbers::new();
        let pid_of = |process: Option<ProcessId>| {
            let pid = process.and_then(|id| pids.get(id.index()).copied());
            pid.unwrap_or(no_process)
        };
        let mut tids: Vec<(Label, Option<Label>)> = Vec::new();
        for thread in trace.threads() {
            let own = label(thread.tid.0, thread.artificial, thread.name);
            let pid = pid_of(thread.process);
            tids.push((pid, tids_used.used.insert((pid, own)).then_some(own)));
        }
        let tids: Vec<Label> = tids
            .into_iter()
            .map(|(pid, tid)| {
                let fresh = || Label::Number(tids_used.fresh(|n| (pid, Label::Number(n))));
                tid.unwrap_or_else(fresh)
            })
            .collect();
        let mut export = Self {
            trace,
            out,
            line: Vec::new(),
            rows: Vec::new(),
            queues: Vec::new(),
            stand_ins: Vec::new(),
            arrows: Vec::new(),
            shift: shift(trace),
            is_first: true,
            no_process,
            pids,
            tids,
        };
        for id in trace.track_ids() {
            let row = export.row(id, &mut tids_used);
            export.rows.push(row);
            let name = trace.track(id).name.map(|name| trace.text(name));
            export.queues.push(name.and_then(DeviceLane::of_name));
        }
        export.arrows = export.arrows();
        export
    }

    fn pid(&self, process: Option<ProcessId>) -> Label {
        let pid = process.and_then(|id| self.pids.get(id.index()).copied());
        pid.unwrap_or(self.no_process)
    }

    fn thread_row(&self, thread: ThreadId) -> Row {
        Row::Thread {
            pid: self.pid(self.trace.thread(thread).process),
            tid: self.tids[thread.index()],
        }
    }

    fn row(&mut self, id: TrackId, tids: &mut Numbers<(Label, Label)>) -> Row {
        let track: &Track = self.trace.track(id);
        let process = track.process.or_else(|| {
            let thread = track.thread?;
            self.trace.thread(thread).process
        });
        let pid = self.pid(process);
        let number = u32::try_from(id.index()).unwrap_or(u32::MAX);
        match (track.kind, track.thread) {
            (TrackKind::Thread | TrackKind::ThreadOverflow, Some(thread)) => {
                self.thread_row(thread)
            }
            (TrackKind::ProcessInstant, _) => Row::ProcessInstants { pid },
            (TrackKind::GlobalInstant, _) => Row::GlobalInstants,
            (TrackKind::ProcessAsync, _) => Row::Async {
                pid,
                id: number,
                is_local: true,
            },
            (TrackKind::GlobalAsync, _) => Row::Async {
                pid,
                id: number,
                is_local: false,
            },
            (kind, thread) => {
                let tid = tids.fresh(|n| (pid, Label::Number(n)));
                if !kind.is_counter() {
                    let name = self.name_of(track, thread);
                    self.stand_ins.push((pid, tid, name));
                }
                Row::Thread {
                    pid,
                    tid: Label::Number(tid),
                }
            }
        }
    }

    /// The name of a track that is no thread, after that of its thread.
    fn name_of(&self, track: &Track, thread: Option<ThreadId>) -> String {
        let own = track.name.map_or("", |name| self.trace.text(name));
        let thread = thread.and_then(|id| self.trace.thread(id).name);
        match thread.map(|name| self.trace.text(name)) {
            Some(thread) if own.is_empty() => thread.to_owned(),
            Some(thread) => format!("{thread}: {own}"),
            None => own.to_owned(),
        }
    }

    /// How each arrow is written: as Kineto does where the slices at its ends are the only ones that start then in their rows.
    fn arrows(&self) -> Vec<Arrow> {
        let trace = self.trace;
        let place = |id: SliceId| {
            let slice = trace.slice(id);
            (self.rows[slice.track_id().index()], slice.ts().nanos())
        };
        let mut starts: FxHashMap<(Row, i64), u32> = FxHashMap::default();
        // Arrows of one id, category and name have one tail, or else ids of their own.
        let mut tails: FxHashMap<(u64, Option<StrId>, Option<StrId>), Option<SliceId>> =
            FxHashMap::default();
        let mut used: FxHashSet<u64> = FxHashSet::default();
        for flow in trace.flows() {
            starts.insert(place(flow.from), 0);
            starts.insert(place(flow.to), 0);
            let is_forward = flow.from < flow.to;
            tails
                .entry((flow.id, flow.category, flow.name))
                .and_modify(|tail| *tail = tail.filter(|tail| *tail == flow.from && is_forward))
                .or_insert(is_forward.then_some(flow.from));
            used.insert(flow.id);
        }
        if starts.is_empty() {
            return Vec::new();
        }
        for slice in trace.slices() {
            if let Some(count) = starts.get_mut(&place(slice.id())) {
                *count += 1;
            }
        }
        let is_alone = |id: SliceId| {
            let place = place(id);
            matches!(place.0, Row::Thread { .. }) && starts.get(&place) == Some(&1)
        };
        let mut next = FIRST_MADE_UP.unsigned_abs();
        let mut fresh = || {
            while !used.insert(next) {
                next += 1;
            }
            next
        };
        let mut bound: FxHashSet<SliceId> = FxHashSet::default();
        let flows = trace.flows().iter();
        flows
            .map(|flow| {
                let is_exact = is_alone(flow.from) && is_alone(flow.to);
                if !is_exact && !bound.contains(&flow.from) && !bound.contains(&flow.to) {
                    bound.extend([flow.from, flow.to]);
                    return Arrow::Bound(fresh());
                }
                match tails.get(&(flow.id, flow.category, flow.name)) {
                    Some(Some(_)) => Arrow::Events(flow.id),
                    _ => Arrow::Events(fresh()),
                }
            })
            .collect()
    }

    fn run(mut self) -> io::Result<W> {
        self.head()?;
        self.names()?;
        self.events()?;
        self.line.extend_from_slice(b"\n]}\n");
        self.out.write_all(&self.line)?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Writes the properties of the recording.
    fn head(&mut self) -> io::Result<()> {
        let meta = self.trace.meta();
        self.line.extend_from_slice(b"{\n");
        let job = super::trace::stated_job(self.trace);
        let entries = meta.entries.iter();
        let entries = entries.map(|(key, text)| (key.as_str(), text.as_str()));
        let entries = entries.filter(|(key, _)| crate::json::is_metadata(key));
        for (key, text) in entries.chain(job.as_deref().map(|job| (super::trace::JOB, job))) {
            self.string(key)?;
            self.line.push(b':');
            match serde_json::from_str::<&RawValue>(text) {
                Ok(raw) => self.line.extend_from_slice(raw.get().as_bytes()),
                Err(_) => self.string(text)?,
            }
            self.line.extend_from_slice(b",\n");
        }
        if meta.launches_within_process {
            let key = crate::json::LAUNCHES_WITHIN_PROCESS;
            writeln!(self.line, "\"{key}\":true,")?;
        }
        if let Some(issues) = crate::source_issues::stated(self.trace) {
            writeln!(self.line, "\"{}\":{issues},", crate::source_issues::KEY)?;
        }
        let base = meta.base_time_ns.saturating_sub(self.shift);
        if base != 0 {
            writeln!(self.line, "\"baseTimeNanoseconds\":{base},")?;
        }
        self.line.extend_from_slice(b"\"traceEvents\":[");
        Ok(())
    }

    /// Begins an event with its phase; the caller adds fields and ends it with [`Self::end`].
    fn begin(&mut self, phase: &str) -> io::Result<()> {
        if self.line.len() >= BUFFER {
            self.out.write_all(&self.line)?;
            self.line.clear();
        }
        if !std::mem::take(&mut self.is_first) {
            self.line.push(b',');
        }
        write!(self.line, "\n{{\"ph\":\"{phase}\"")
    }

    fn end(&mut self) {
        self.line.push(b'}');
    }

    fn string(&mut self, text: &str) -> io::Result<()> {
        serde_json::to_writer(&mut self.line, text).map_err(io::Error::from)
    }

    fn text_field(&mut self, key: &str, text: &str) -> io::Result<()> {
        write!(self.line, ",\"{key}\":")?;
        self.string(text)
    }

    fn label_field(&mut self, key: &str, label: Label) -> io::Result<()> {
        match label {
            Label::Number(n) => write!(self.line, ",\"{key}\":{n}"),
            Label::Text(text) => self.text_field(key, self.trace.text(text)),
        }
    }

    fn row_fields(&mut self, row: Row) -> io::Result<()> {
        match row {
            Row::Thread { pid, tid } => {
                self.label_field("pid", pid)?;
                self.label_field("tid", tid)
            }
            Row::ProcessInstants { pid } => {
                self.label_field("pid", pid)?;
                self.text_field("s", "p")
            }
            Row::GlobalInstants => self.text_field("s", "g"),
            Row::Async { pid, id, is_local } => {
                self.label_field("pid", pid)?;
                match is_local {
                    true => write!(self.line, ",\"id2\":{{\"local\":\"{id:#x}\"}}"),
                    false => write!(self.line, ",\"id\":\"{id:#x}\""),
                }
            }
        }
    }

    /// A time or duration in microseconds, exact.
    fn micros(&mut self, key: &str, ns: i64) -> io::Result<()> {
        let sign = if ns < 0 { "-" } else { "" };
        let ns = ns.unsigned_abs();
        let (whole, rest) = (ns / 1000, ns % 1000);
        match rest {
            0 => write!(self.line, ",\"{key}\":{sign}{whole}"),
            rest => write!(self.line, ",\"{key}\":{sign}{whole}.{rest:03}"),
        }
    }

    fn time(&mut self, ns: i64) -> io::Result<()> {
        self.micros("ts", ns.saturating_add(self.shift))
    }

    /// Writes the names and the places of processes and threads.
    fn names(&mut self) -> io::Result<()> {
        let trace = self.trace;
        for (process, pid) in trace.processes().iter().zip(self.pids.clone()) {
            let is_own = |text: &StrId| pid != Label::Text(*text);
            let name = process.name.filter(is_own).map(|id| trace.text(id));
            for (what, key, text) in [
                ("process_name", "name", name),
                (
                    "process_labels",
                    "labels",
                    process.labels.map(|id| trace.text(id)),
                ),
            ] {
                if let Some(text) = text {
                    self.name(what, pid, None, (key, text))?;
                }
            }
            if let Some(at) = process.sort_index {
                self.sort_index("process_sort_index", pid, None, at)?;
            }
        }
        for (thread, tid) in trace.threads().iter().zip(self.tids.clone()) {
            let pid = self.pid(thread.process);
            let is_own = |text: &StrId| tid != Label::Text(*text);
            if let Some(name) = thread.name.filter(is_own) {
                self.name("thread_name", pid, Some(tid), ("name", trace.text(name)))?;
            }
            if let Some(at) = thread.sort_index {
                self.sort_index("thread_sort_index", pid, Some(tid), at)?;
            }
        }
        for (pid, tid, name) in std::mem::take(&mut self.stand_ins) {
            if !name.is_empty() {
                let tid = Some(Label::Number(tid));
                self.name("thread_name", pid, tid, ("name", &name))?;
            }
        }
        Ok(())
    }

    fn about(&mut self, what: &str, pid: Label, tid: Option<Label>) -> io::Result<()> {
        self.begin("M")?;
        self.text_field("name", what)?;
        self.label_field("pid", pid)?;
        match tid {
            Some(tid) => self.label_field("tid", tid),
            None => Ok(()),
        }
    }

    fn name(
        &mut self,
        what: &str,
        pid: Label,
        tid: Option<Label>,
        (key, text): (&str, &str),
    ) -> io::Result<()> {
        self.about(what, pid, tid)?;
        write!(self.line, ",\"args\":{{\"{key}\":")?;
        self.string(text)?;
        self.line.push(b'}');
        self.end();
        Ok(())
    }

    fn sort_index(
        &mut self,
        what: &str,
        pid: Label,
        tid: Option<Label>,
        at: i64,
    ) -> io::Result<()> {
        self.about(what, pid, tid)?;
        write!(self.line, ",\"args\":{{\"sort_index\":{at}}}")?;
        self.end();
        Ok(())
    }

    fn events(&mut self) -> io::Result<()> {
        let trace = self.trace;
        // Open slices of asynchronous tracks, innermost last.
        let mut open: FxHashMap<TrackId, Vec<SliceId>> = FxHashMap::default();
        let mut counters = trace.counters().iter().peekable();
        for slice in trace.slices() {
            while let Some(sample) = counters.next_if(|c| c.ts <= slice.ts()) {
                self.sample(sample)?;
            }
            let track = slice.track_id();
            match self.rows[track.index()] {
                Row::Async { .. } => {
                    let own = open.entry(track).or_default();
                    let parent = slice.parent().map(Slice::id);
                    let keep = own.iter().position(|id| Some(*id) == parent);
                    let ended = own.split_off(keep.map_or(0, |at| at + 1));
                    own.push(slice.id());
                    self.ends(ended)?;
                    self.slice("b", slice)?;
                }
                Row::ProcessInstants { .. } | Row::GlobalInstants => self.slice("i", slice)?,
                Row::Thread { .. } if slice.dur().is_some() => self.slice("X", slice)?,
                Row::Thread { .. } => self.slice("B", slice)?,
            }
            self.arrow_ends(slice)?;
        }
        for id in trace.track_ids() {
            self.ends(open.remove(&id).unwrap_or_default())?;
        }
        for sample in counters {
            self.sample(sample)?;
        }
        Ok(())
    }

    /// Ends slices of an asynchronous track, innermost first.
    fn ends(&mut self, ended: Vec<SliceId>) -> io::Result<()> {
        for id in ended.into_iter().rev() {
            let slice = self.trace.slice(id);
            let Some(dur) = slice.dur() else { continue };
            self.begin("e")?;
            self.labels(slice)?;
            self.row_fields(self.rows[slice.track_id().index()])?;
            self.time(slice.ts().nanos().saturating_add(dur.get()))?;
            self.end();
        }
        Ok(())
    }

    fn labels(&mut self, slice: Slice<'t>) -> io::Result<()> {
        if let Some(category) = slice.category() {
            self.text_field("cat", category)?;
        }
        match slice.name() {
            Some(name) => self.text_field("name", name),
            None => Ok(()),
        }
    }

    fn slice(&mut self, phase: &str, slice: Slice<'t>) -> io::Result<()> {
        self.begin(phase)?;
        self.labels(slice)?;
        self.row_fields(self.rows[slice.track_id().index()])?;
        self.time(slice.ts().nanos())?;
        if phase == "X" {
            let dur = slice.dur().map_or(0, trace_model::Nanos::get);
            self.micros("dur", dur)?;
        }
        if let Some((begin, spent)) = slice.thread_time() {
            self.micros("tts", begin)?;
            if let Some(spent) = spent {
                self.micros("tdur", spent)?;
            }
        }
        self.bound(slice)?;
        let mut is_first = true;
        for (key, value) in slice.args() {
            self.argument(&mut is_first, bare_key(key), value)?;
        }
        if let Some(queue) = self.queue(slice) {
            if let Some(device) = queue.device {
                self.argument(&mut is_first, "device", ArgValue::Int(device))?;
            }
            self.argument(&mut is_first, "stream", ArgValue::Int(queue.stream))?;
        }
        if !is_first {
            self.line.push(b'}');
        }
        self.end();
        Ok(())
    }

    /// The device and the queue of a slice that does not state them itself.
    fn queue(&self, slice: Slice<'t>) -> Option<DeviceLane> {
        let queue = (*self.queues.get(slice.track_id().index())?)?;
        let mut keys = slice.args().map(|(key, _)| bare_key(key));
        (!keys.any(|key| PLACE_KEYS.contains(&key))).then_some(queue)
    }

    fn argument(&mut self, is_first: &mut bool, key: &str, value: ArgValue<'_>) -> io::Result<()> {
        let between: &[u8] = if *is_first { b",\"args\":{" } else { b"," };
        self.line.extend_from_slice(between);
        *is_first = false;
        self.string(key)?;
        self.line.push(b':');
        self.value(value)
    }

    fn value(&mut self, value: ArgValue<'_>) -> io::Result<()> {
        match value {
            ArgValue::Int(n) => write!(self.line, "{n}"),
            ArgValue::UInt(n) => write!(self.line, "{n}"),
            // With a point or an exponent, so that it stays a real number.
            ArgValue::Real(x) if x.is_finite() => write!(self.line, "{x:?}"),
            ArgValue::Real(x) => self.string(&x.to_string()),
            ArgValue::Bool(is) => write!(self.line, "{is}"),
            ArgValue::Str(text) => self.string(text),
            ArgValue::Json(text) => {
                self.line.extend_from_slice(text.as_bytes());
                Ok(())
            }
            ArgValue::Pointer(n) => write!(self.line, "\"{n:#x}\""),
            _ => {
                self.line.extend_from_slice(b"null");
                Ok(())
            }
        }
    }

    /// Writes the end of an arrow that is a field of its slice.
    fn bound(&mut self, slice: Slice<'t>) -> io::Result<()> {
        let id = slice.id();
        let of = |(flow, _): (FlowId, &trace_model::Flow)| match self.arrows.get(flow.index()) {
            Some(Arrow::Bound(number)) => Some(*number),
            _ => None,
        };
        let sent = self.trace.flows_from(id).find_map(of);
        let received = self.trace.flows_to(id).find_map(of);
        let Some(number) = sent.or(received) else {
            return Ok(());
        };
        let flow = match (sent, received) {
            (Some(_), Some(_)) => "\"flow_in\":true,\"flow_out\":true",
            (Some(_), None) => "\"flow_out\":true",
            _ => "\"flow_in\":true",
        };
        write!(self.line, ",\"bind_id\":\"{number:#x}\",{flow}")
    }

    /// Writes the ends of arrows that are events of their own.
    fn arrow_ends(&mut self, slice: Slice<'t>) -> io::Result<()> {
        let id = slice.id();
        let trace = self.trace;
        let mut started: Vec<u64> = Vec::new();
        let ends = trace.flows_to(id).map(|(flow, own)| (flow, own, true));
        let ends = ends.chain(trace.flows_from(id).map(|(flow, own)| (flow, own, false)));
        for (flow, own, is_head) in ends {
            let Some(Arrow::Events(number)) = self.arrows.get(flow.index()).copied() else {
                continue;
            };
            // An arrow starts where it can be read first.
            let is_start = match own.from <= own.to {
                true => !is_head,
                false => is_head,
            };
            if is_start && started.contains(&number) {
                continue;
            }
            started.extend(is_start.then_some(number));
            self.begin(if is_start { "s" } else { "f" })?;
            write!(self.line, ",\"id\":{number}")?;
            self.row_fields(self.rows[slice.track_id().index()])?;
            self.time(slice.ts().nanos())?;
            if let Some(category) = own.category {
                self.text_field("cat", trace.text(category))?;
            }
            if let Some(name) = own.name {
                self.text_field("name", trace.text(name))?;
            }
            if !is_start {
                self.text_field("bp", "e")?;
            }
            self.end();
        }
        Ok(())
    }

    fn sample(&mut self, sample: trace_model::CounterSample) -> io::Result<()> {
        if !sample.value.is_finite() {
            return Ok(());
        }
        let track = self.trace.track(sample.track);
        let name = track.name.map_or("", |name| self.trace.text(name));
        // Readers name a counter by the event and the member, with a blank between.
        let (name, key) = match name.rsplit_once(' ') {
            Some((name, key)) => (name, key),
            None => (name, "value"),
        };
        self.begin("C")?;
        self.text_field("name", name)?;
        if let Row::Thread { pid, .. } = self.rows[sample.track.index()] {
            self.label_field("pid", pid)?;
        }
        self.time(sample.ts.nanos())?;
        self.line.extend_from_slice(b",\"args\":{");
        self.string(key)?;
        write!(self.line, ":{:?}}}", sample.value)?;
        self.end();
        Ok(())
    }
}

/// How far a trace must be moved so that nothing is before time zero.
pub(super) fn shift(trace: &Trace) -> i64 {
    let first_slice = trace.slices().next().map(|slice| slice.ts().nanos());
    let first_sample = trace.counters().iter().next().map(|c| c.ts.nanos());
    let first = first_slice.into_iter().chain(first_sample).min();
    first.map_or(0, |ns| ns.min(0).saturating_neg())
}
