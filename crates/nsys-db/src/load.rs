//! An export as a trace.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use sqlite_scan::Value;
use trace_model::{
    Arg, ArgsRef, EventOrder, FinishOptions, LaneId, Pid, Process, ProcessId, SliceData, StrId,
    Thread, Tid, TimeRange, Timestamp, Trace, TraceBuilder, Track, TrackKind, is_plausible,
};

use crate::collective::Collectives;
use crate::error::Result;
use crate::export::Export;
use crate::identity::{Identity, Recorded};
use crate::ids::{ProcessKey, tid};
use crate::links::LinkedIds;
use crate::session::Session;
use crate::strings::{Strings, text};
use crate::tally::{Span, Tally};

/// What to read of an export.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Keep only arguments with these keys, if given. Default is all.
    pub args: Option<Vec<String>>,
    /// Keep only slices of these categories, if given. Default is all.
    pub categories: Option<Vec<String>>,
    /// Keep only events that start in this range. Default is everything.
    pub range: Option<TimeRange>,
    /// Keep only the events of this process. Default is all processes.
    pub process: Option<ProcessKey>,
    /// Keep only the slices of the host that say what launched GPU activity: the launch calls, the operators, and ranges whose
    /// names begin like one of these. The others are counted. If there is no GPU activity, all are kept. Default is all.
    pub host_names: Option<Vec<&'static str>>,
    /// Processes that are ranks of a job: the trace states them, with their ranks, in its metadata (`rankProcesses`), so that a
    /// copy can be parted again. Default is none.
    pub ranks: Vec<ProcessKey>,
    /// Nanoseconds to add to the offset from recorded times to Unix time, to put several reports on one clock. Default is 0.
    pub clock_shift_ns: i64,
    /// Read counters, and when threads were off their CPU: often the largest tables. Default is true.
    pub counters: bool,
    /// [`pass`](crate::pass()) says when the calls started that launched activities: 8 bytes for each. Default is true.
    pub launches: bool,
    /// Maximum number of places kept per kind of issue. Default is [`trace_model::DEFAULT_PLACES`].
    pub places: usize,
    /// Threads that read large tables; the result does not depend on it. Default is 1.
    pub threads: usize,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            args: None,
            categories: None,
            range: None,
            process: None,
            host_names: None,
            ranks: Vec::new(),
            clock_shift_ns: 0,
            counters: true,
            launches: true,
            places: trace_model::DEFAULT_PLACES,
            threads: 1,
        }
    }
}

/// Reads an export into a trace. Memory: that of the trace, and of ranges that need other rows to be understood.
///
/// # Errors
///
/// Returns an error if the export is damaged, or has more events than a trace can hold.
pub fn load(export: &Export, options: &LoadOptions) -> Result<Trace> {
    let leaves = export.string_leaves()?;
    let strings = Strings::new(export, leaves.as_ref())?;
    let mut loader = Loader::new(export, strings, options)?;
    loader.places()?;
    let (names, _) = loader.nvtx_names(None)?;
    // Where such a range is cut depends on what is around it, and is reported.
    if names.has_open {
        loader.linked = None;
    }
    loader.nvtx(&names)?;
    loader.host()?;
    loader.device()?;
    if options.counters {
        loader.counters()?;
    }
    loader.finish()
}

macro_rules! keys {
    ($($field:ident $text:literal;)*) => {
        /// Interned keys of arguments; those that the caller does not want are `None`.
        pub(crate) struct Keys {
            $(pub(crate) $field: Option<StrId>,)*
        }

        impl Keys {
            fn new(builder: &mut TraceBuilder, options: &LoadOptions) -> Self {
                Self {
                    $($field: wants(options, $text).then(|| builder.string($text)),)*
                }
            }
        }
    };
}

keys! {
    device "device";
    stream "stream";
    correlation "correlation";
    context "context";
    bytes "bytes";
    grid "grid";
    block "block";
    registers "registers per thread";
    shared "shared memory";
    cluster "cluster";
    graph_node "graph node";
    graph "graph";
    graph_exec "graph exec";
    copies "copies";
    value "value";
    event "event";
    returned "return value";
    call_chain "call chain";
    domain "domain";
    category "category";
    color "color";
    seq "seq";
    op_id "op_id";
    input_dims "Input Dims";
    collective "Collective name";
    message_bytes "Message bytes";
    dtype "dtype";
    group_size "Group size";
    group "Process Group Name";
    number "Seq";
    addr "Addr";
    memory_bytes "Bytes";
    device_id "Device Id";
    device_type "Device Type";
    memory_kind "memory kind";
    state "thread state";
    reason "thread block";
}

fn wants(options: &LoadOptions, key: &str) -> bool {
    options
        .args
        .as_ref()
        .is_none_or(|keys| keys.iter().any(|wanted| wanted == key))
}

/// Numbers for the limits of the recording.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) api_calls: u64,
    pub(crate) chains: u64,
    pub(crate) ranges: u64,
    pub(crate) graphs: u64,
    pub(crate) graph_ns: i64,
    pub(crate) device_work: u64,
    pub(crate) kernels_in_graphs: u64,
    pub(crate) events_without_time: u64,
    pub(crate) samples: u64,
    pub(crate) damaged_payloads: u64,
    pub(crate) payloads: u64,
    pub(crate) overhead: u64,
    pub(crate) unattributed: u64,
    pub(crate) generic_other: u64,
}

/// Collects the events of an export.
pub(crate) struct Loader<'e> {
    pub(crate) export: &'e Export,
    pub(crate) options: &'e LoadOptions,
    pub(crate) session: Session,
    pub(crate) builder: TraceBuilder,
    pub(crate) keys: Keys,
    pub(crate) counts: Counts,
    pub(crate) identity: Option<Identity>,
    pub(crate) collectives: Collectives,
    /// Rows read, by table.
    pub(crate) records: BTreeMap<String, u64>,
    last_record: Option<(String, u64)>,
    /// Calls that launch graphs, and whether anything they launched was recorded.
    pub(crate) graph_launches: FxHashMap<(ProcessKey, i64), bool>,
    /// Calls before the collection, by process and correlation id: kept if what they launched is in it.
    pub(crate) early_calls: FxHashMap<(ProcessKey, i64), Vec<EarlyCall>>,
    /// Processes with launch calls, and with GPU activities.
    pub(crate) launching: FxHashSet<ProcessKey>,
    pub(crate) working: FxHashSet<ProcessKey>,
    /// Process of GPU activities that do not state any.
    pub(crate) sole_process: Option<Option<ProcessKey>>,
    /// Correlation ids of GPU activities, if only calls with one of these are kept.
    pub(crate) linked: Option<LinkedIds>,
    /// Rows left out, issues, and the time that rows cover.
    pub(crate) tally: Tally,
    /// `true` while events are counted and not kept.
    pub(crate) only_counts: bool,
    /// Number and names of domains of ranges, for the report.
    pub(crate) domains: BTreeMap<(ProcessKey, String), [u64; 2]>,
    pub(crate) thread_names: FxHashMap<i64, StrId>,
    strings: Strings<'e>,
    names: FxHashMap<i64, StrId>,
    categories: FxHashMap<&'static str, Option<StrId>>,
    pub(crate) processes: BTreeMap<ProcessKey, ProcessId>,
    pub(crate) threads: FxHashMap<i64, LaneId>,
    last_thread: Option<(i64, LaneId)>,
    triples: FxHashMap<[i64; 3], StrId>,
    pub(crate) list: Vec<Arg>,
}

/// A call that ended before the collection started.
pub(crate) struct EarlyCall {
    pub(crate) thread: i64,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) data: SliceData,
}

/// Tracks of events that may overlap: each event goes to the first track of its key that is free, or to a new one. Events come in
/// ascending time.
#[derive(Debug)]
pub(crate) struct FreeLanes<K>(FxHashMap<K, Vec<(i64, LaneId)>>);

impl<K: Eq + std::hash::Hash> FreeLanes<K> {
    pub(crate) fn new() -> Self {
        Self(FxHashMap::default())
    }

    /// Returns the lane for an event from `start` to `end`; `make` creates one.
    pub(crate) fn get(
        &mut self,
        key: K,
        (start, end): (i64, i64),
        make: impl FnOnce() -> LaneId,
    ) -> LaneId {
        let lanes = self.0.entry(key).or_default();
        match lanes
            .iter_mut()
            .find(|(busy_until, _)| *busy_until <= start)
        {
            Some(slot) => {
                slot.0 = end;
                slot.1
            }
            None => {
                let lane = make();
                lanes.push((end, lane));
                lane
            }
        }
    }
}

impl<'e> Loader<'e> {
    pub(crate) fn new(
        export: &'e Export,
        strings: Strings<'e>,
        options: &'e LoadOptions,
    ) -> Result<Self> {
        let mut builder = TraceBuilder::new();
        let session = Session::read(export)?;
        builder.meta.format = "nsys";
        builder.meta.clock = session.clock();
        builder.meta.base_time_ns = session.base_ns().saturating_add(options.clock_shift_ns);
        builder.meta.input_bytes = export.bytes();
        builder.meta.launches_within_process = true;
        Ok(Self {
            keys: Keys::new(&mut builder, options),
            export,
            options,
            tally: Tally::new(session.start_ns(), options.places),
            only_counts: false,
            session,
            builder,
            counts: Counts::default(),
            identity: None,
            collectives: Collectives::default(),
            records: BTreeMap::new(),
            last_record: None,
            graph_launches: FxHashMap::default(),
            early_calls: FxHashMap::default(),
            launching: FxHashSet::default(),
            working: FxHashSet::default(),
            sole_process: None,
            linked: None,
            domains: BTreeMap::new(),
            thread_names: FxHashMap::default(),
            strings,
            names: FxHashMap::default(),
            categories: FxHashMap::default(),
            processes: BTreeMap::new(),
            threads: FxHashMap::default(),
            last_thread: None,
            triples: FxHashMap::default(),
            list: Vec::new(),
        })
    }

    /// Returns a string of the export, by id.
    pub(crate) fn text_of(&mut self, id: i64) -> Result<Option<String>> {
        self.strings.get(id)
    }

    /// Returns the name that a column gives: a string id, or the text itself; `None` for NULL.
    pub(crate) fn name(&mut self, value: Value<'_>) -> Result<Option<StrId>> {
        match value.as_int() {
            Some(id) => {
                if let Some(known) = self.names.get(&id) {
                    return Ok(Some(*known));
                }
                let text = match self.strings.get(id)? {
                    Some(text) => text,
                    None => format!("[string {id}]"),
                };
                let name = self.builder.string(&text);
                self.names.insert(id, name);
                Ok(Some(name))
            }
            None => Ok(text(value).map(|text| self.builder.string(&text))),
        }
    }

    pub(crate) fn str(&self, id: StrId) -> &str {
        self.builder.events.strings.get(id)
    }

    /// Returns `true` if slices of this category are wanted.
    pub(crate) fn wants(&mut self, category: &'static str) -> bool {
        self.category(category).is_some()
    }

    fn category(&mut self, category: &'static str) -> Option<StrId> {
        let (options, builder) = (self.options, &mut self.builder);
        *self.categories.entry(category).or_insert_with(|| {
            let is_wanted = options
                .categories
                .as_ref()
                .is_none_or(|wanted| wanted.iter().any(|one| one == category));
            is_wanted.then(|| builder.string(category))
        })
    }

    /// Returns `true` if the rows of this process are wanted.
    pub(crate) fn wants_process(&self, process: ProcessKey) -> bool {
        self.options.process.is_none_or(|wanted| wanted == process)
    }

    pub(crate) fn process(&mut self, key: ProcessKey) -> Option<ProcessId> {
        if !key.is_known() {
            return None;
        }
        let builder = &mut self.builder;
        let id = *self
            .processes
            .entry(key)
            .or_insert_with(|| builder.process(Process::new(Pid(key.pid()))));
        Some(id)
    }

    /// Returns the lane of a thread's own track.
    pub(crate) fn thread(&mut self, global: i64) -> LaneId {
        if let Some((last, lane)) = self.last_thread
            && last == global
        {
            return lane;
        }
        let lane = match self.threads.get(&global) {
            Some(lane) => *lane,
            None => {
                let key = ProcessKey::of(global);
                let process = self.process(key);
                let mut thread = Thread::new(Tid(tid(global)), process);
                thread.is_main = tid(global) == key.pid();
                let thread = self.builder.thread(thread);
                let track = self.builder.track(Track {
                    process,
                    thread: Some(thread),
                    ..Track::new(TrackKind::Thread)
                });
                let lane = self.builder.lane(Some(track));
                self.threads.insert(global, lane);
                lane
            }
        };
        self.last_thread = Some((global, lane));
        lane
    }

    /// Creates a lane with a named track of a process.
    pub(crate) fn named_lane(
        &mut self,
        process: ProcessKey,
        kind: TrackKind,
        name: &str,
    ) -> LaneId {
        let process = self.process(process);
        let name = self.builder.string(name);
        let track = self.builder.track(Track {
            name: Some(name),
            process,
            ..Track::new(kind)
        });
        self.builder.lane(Some(track))
    }

    /// Checks start and end of a row, and counts what cannot be used.
    pub(crate) fn span(&mut self, table: &str, row: i64, start: Value<'_>, end: Value<'_>) -> Span {
        self.tally.span(table, row, start, end)
    }

    /// Checks a row, and counts it if it ended before the collection.
    pub(crate) fn within(
        &mut self,
        table: &str,
        row: i64,
        start: Value<'_>,
        end: Value<'_>,
    ) -> Option<(i64, i64)> {
        self.tally.within(table, row, start, end)
    }

    pub(crate) fn bad_value(&mut self, table: &str, row: i64, column: &str) {
        self.tally.bad_value(table, row, column);
    }

    /// Counts a row at a time, or of a duration, that no recording can have.
    pub(crate) fn far_time(&mut self, table: &str, row: i64) {
        self.tally.far_time(table, row);
    }

    /// Counts `rows` rows of a table.
    pub(crate) fn count_rows(&mut self, table: &str, rows: u64) {
        self.keep_record();
        self.builder.meta.events += rows;
        if rows > 0 {
            *self.records.entry(table.to_owned()).or_default() += rows;
        }
    }

    pub(crate) fn count_row(&mut self, table: &str) {
        self.builder.meta.events += 1;
        // Consecutive rows are of one table.
        if let Some((last, count)) = &mut self.last_record
            && last == table
        {
            *count += 1;
            return;
        }
        self.keep_record();
        self.last_record = Some((table.to_owned(), 1));
    }

    /// Adds the rows counted last to those of their table.
    pub(crate) fn keep_record(&mut self) {
        if let Some((table, count)) = self.last_record.take() {
            *self.records.entry(table).or_default() += count;
        }
    }

    pub(crate) fn data(
        &mut self,
        name: Option<StrId>,
        category: &'static str,
    ) -> Option<SliceData> {
        let category = self.category(category)?;
        let events = &mut self.builder.events;
        let args = if self.list.is_empty() || self.only_counts {
            ArgsRef::NONE
        } else {
            events.args(&self.list)
        };
        self.list.clear();
        Some(SliceData {
            name,
            category: events.category(category),
            args,
        })
    }

    /// Adds a slice, if its start is in the wanted range.
    pub(crate) fn put(&mut self, lane: LaneId, start: i64, end: Option<i64>, data: SliceData) {
        self.extend(start, end.unwrap_or(start));
        if self.only_counts {
            return;
        }
        let range = self.options.range;
        if range.is_some_and(|range| !range.contains(Timestamp::from_nanos(start))) {
            return;
        }
        let events = &mut self.builder.events;
        match end {
            Some(end) => events.complete(lane, start, end.saturating_sub(start), data),
            None => events.begin(lane, start, data),
        }
    }

    pub(crate) fn extend(&mut self, start: i64, end: i64) {
        self.tally.extend(start, end);
    }

    pub(crate) fn int(&mut self, key: Option<StrId>, value: Option<i64>) {
        if let (Some(key), Some(value)) = (key, value) {
            self.list.push(Arg::int(key, value));
        }
    }

    pub(crate) fn arg_text(&mut self, key: Option<StrId>, value: &str) {
        if let Some(key) = key {
            let value = self.builder.string(value);
            self.list.push(Arg::text(key, value));
        }
    }

    /// Adds an argument under a key of the input.
    pub(crate) fn own_key(&mut self, key: &str) -> Option<StrId> {
        wants(self.options, key).then(|| self.builder.string(key))
    }

    /// Adds three numbers as a list, as Kineto writes sizes of grids.
    pub(crate) fn triple(&mut self, key: Option<StrId>, values: [Value<'_>; 3]) {
        let [Some(x), Some(y), Some(z)] = values.map(|value| value.as_int()) else {
            return;
        };
        let Some(key) = key else { return };
        let builder = &mut self.builder;
        let text = *self
            .triples
            .entry([x, y, z])
            .or_insert_with(|| builder.string(&format!("[{x}, {y}, {z}]")));
        self.list.push(Arg::json(key, text));
    }

    /// Collects all places where GPU activities ran, so that devices and streams can be numbered. Returns `true` if the rows
    /// of each table are in order of start.
    pub(crate) fn places(&mut self) -> Result<bool> {
        let start_ns = self.session.start_ns();
        let export = self.export;
        let wants_ids = self.options.host_names.is_some();
        let (mut all, mut linked) = (FxHashSet::default(), LinkedIds::default());
        let mut is_ordered = true;
        for table in crate::device::TABLES {
            let parts = export.scan_parts(
                table,
                crate::device::COMMON,
                self.options.threads,
                || Ok(PlacesPart::default()),
                |part, _, [start, end, process, device, context, stream, correlation]| {
                    let (Some(start), Some(end)) = (start.as_int(), end.as_int()) else {
                        return Ok(());
                    };
                    if end < start || end < start_ns || !is_plausible(start, end) {
                        return Ok(());
                    }
                    part.is_ordered &= part.starts.is_none_or(|(_, last)| last <= start);
                    part.starts = Some((part.starts.map_or(start, |(first, _)| first), start));
                    let place = Recorded {
                        process: process.as_int().map_or(ProcessKey::UNKNOWN, ProcessKey::of),
                        device: device.as_int().unwrap_or(0),
                        context: context.as_int().unwrap_or(0),
                        stream: stream.as_int().unwrap_or(0),
                    };
                    if let (true, Some(id)) = (wants_ids, correlation.as_int()) {
                        part.linked.insert(place.process, id);
                    }
                    if part.last != Some(place) {
                        part.last = Some(place);
                        part.places.insert(place);
                    }
                    Ok(())
                },
            )?;
            let mut last_start = i64::MIN;
            for part in parts {
                if let Some((first, last)) = part.starts {
                    is_ordered &= part.is_ordered && last_start <= first;
                    last_start = last;
                }
                all.extend(part.places);
                linked.absorb(part.linked);
            }
        }
        let mut places: Vec<Recorded> = all.into_iter().collect();
        if places.iter().any(|place| !place.process.is_known()) {
            let process = self.process_of_work(Value::Null)?;
            for place in places.iter_mut().filter(|place| !place.process.is_known()) {
                place.process = process;
            }
            linked.rename(ProcessKey::UNKNOWN, process);
        }
        places.sort_unstable();
        places.dedup();
        let is_wanted = |place: &Recorded| self.wants_process(place.process);
        let has_work = wants_ids && places.iter().any(is_wanted);
        self.linked = has_work.then(|| linked.sealed());
        self.identity = Some(Identity::new(export, &places)?);
        Ok(is_ordered)
    }

    /// Returns the process of a GPU activity: the stated one, else the only one with calls.
    pub(crate) fn process_of_work(&mut self, global: Value<'_>) -> Result<ProcessKey> {
        if let Some(global) = global.as_int() {
            return Ok(ProcessKey::of(global));
        }
        let sole = match self.sole_process {
            Some(sole) => sole,
            None => {
                let mut processes = FxHashSet::default();
                let table = "CUPTI_ACTIVITY_KIND_RUNTIME";
                self.export.scan(table, ["globalTid"], |_, [thread]| {
                    processes.extend(thread.as_int().map(ProcessKey::of));
                    Ok(())
                })?;
                let mut all = processes.into_iter();
                let sole = all.next().filter(|_| all.next().is_none());
                self.sole_process = Some(sole);
                sole
            }
        };
        Ok(sole.unwrap_or(ProcessKey::UNKNOWN))
    }

    pub(crate) fn finish(mut self) -> Result<Trace> {
        self.builder.diagnostics = std::mem::take(&mut self.tally.diagnostics);
        self.names()?;
        self.limits()?;
        let mut options = FinishOptions::default();
        options.order = EventOrder::Chrome;
        options.keep_negative = true;
        Ok(self.builder.finish(&options)?)
    }
}

/// Places and ids of a part of the GPU activities.
struct PlacesPart {
    places: FxHashSet<Recorded>,
    last: Option<Recorded>,
    linked: LinkedIds,
    is_ordered: bool,
    /// Start of the first row and of the last.
    starts: Option<(i64, i64)>,
}

impl Default for PlacesPart {
    fn default() -> Self {
        Self {
            places: FxHashSet::default(),
            last: None,
            linked: LinkedIds::default(),
            is_ordered: true,
            starts: None,
        }
    }
}
