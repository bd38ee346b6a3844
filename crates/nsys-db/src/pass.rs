//! GPU activities in order of start, without a trace of them.
//!
//! What an answer about the GPU alone needs of an export is one look at each activity, at whether a call launched it, and the
//! number of everything else. Memory then holds a few bits and one number for each activity, however large the file is.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use rustc_hash::{FxHashMap, FxHashSet};
use sqlite_scan::{Cursor, Leaves, Pick, Value};
use trace_model::Trace;
use trace_model::kernel::{is_graph_launch, is_launch_api};

use crate::device::{TABLES, graph_name, memcpy_name, memset_name};
use crate::error::Result;
use crate::export::Export;
use crate::host::{BACKTRACE, CALLS, RUNTIME, SYNC, is_openacc, without_version};
use crate::identity::{Identity, Recorded};
use crate::ids::ProcessKey;
use crate::links::CallStarts;
use crate::load::{LoadOptions, Loader};
use crate::strings::{Strings, text};
use crate::tally::{Span, Tally};

/// Rows passed from one thread to another at a time, and how many of these may wait.
const BATCH: usize = 4096;
const WAITING: usize = 4;

/// Kind of a GPU activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkKind {
    /// A kernel.
    Kernel,
    /// A memcpy.
    Memcpy,
    /// A memset.
    Memset,
    /// A graph recorded as a whole.
    Graph,
}

/// A GPU activity on its way.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Work<'a> {
    /// Start, in nanoseconds of the trace.
    pub start_ns: i64,
    /// End.
    pub end_ns: i64,
    /// Kind.
    pub kind: WorkKind,
    /// Name, if it has one.
    pub name: Option<&'a str>,
    /// Number of the name: equal names have equal numbers, from 0 on in the order in which they come up.
    pub name_id: Option<usize>,
    /// Device.
    pub device: i64,
    /// Stream.
    pub stream: i64,
    /// Start of the call that launched it, if that was recorded and is wanted ([`LoadOptions::launches`]).
    pub launch_ns: Option<i64>,
}

/// Passes the GPU activities of an export to `each` in order of start, and returns a trace of the rest: limits, issues, and
/// ranges whose names begin like one of [`LoadOptions::host_names`]. What the activities are, and what the trace states, is as
/// [`load()`](crate::load()) has them.
///
/// Returns `None`, and passes none, where this is not possible: a folder of Parquet files, no activity, rows out of
/// order, ranges without end, or operators, which can tell what a kernel does.
///
/// # Errors
///
/// Returns an error if the export is damaged.
pub fn pass(
    export: &Export,
    options: &LoadOptions,
    mut each: impl FnMut(&Work<'_>),
) -> Result<Option<Trace>> {
    let is_whole = options.range.is_none() && options.categories.is_none();
    if export.database().is_none() || options.host_names.is_none() || !is_whole {
        return Ok(None);
    }
    let leaves = export.string_leaves()?;
    let strings = Strings::new(export, leaves.as_ref())?;
    let mut loader = Loader::new(export, strings, options)?;
    if loader.has_open_ranges()? {
        return Ok(None);
    }
    let is_ordered = loader.places()?;
    if !is_ordered || loader.linked.is_none() {
        return Ok(None);
    }
    loader.nvtx()?;
    if loader.has_operators() {
        return Ok(None);
    }
    let starts = loader.count_host(leaves.as_ref())?;
    loader.pass_work(leaves.as_ref(), &starts, &mut each)?;
    drop(starts);
    loader.only_counts = true;
    loader.events_beside_work()?;
    loader.only_counts = false;
    Ok(Some(loader.finish()?))
}

/// What is known of calls of one name.
#[derive(Clone, Copy)]
struct CallKind {
    launches: bool,
    launches_graph: bool,
}

/// Calls of a part of their table.
struct CallsPart<'e> {
    tally: Tally,
    rows: u64,
    strings: Strings<'e>,
    names: FxHashMap<i64, CallKind>,
    launching: FxHashSet<ProcessKey>,
    last_launching: Option<ProcessKey>,
    graphs: Vec<(ProcessKey, i64)>,
}

impl CallsPart<'_> {
    fn kind(&mut self, name: Value<'_>) -> Result<CallKind> {
        let of = |text: &str| {
            let shown = without_version(text);
            CallKind {
                launches: is_launch_api(shown),
                launches_graph: is_graph_launch(shown),
            }
        };
        let Some(id) = name.as_int() else {
            return Ok(of(&text(name).unwrap_or_default()));
        };
        if let Some(known) = self.names.get(&id) {
            return Ok(*known);
        }
        let kind = of(&self.strings.get(id)?.unwrap_or_default());
        self.names.insert(id, kind);
        Ok(kind)
    }
}

/// Rows of a part of a table of which nothing but the number matters.
struct CountPart {
    tally: Tally,
    rows: u64,
}

impl<'e> Loader<'e> {
    fn has_operators(&self) -> bool {
        let strings = &self.builder.events.strings;
        strings.iter().any(|(_, text)| text == "cpu_op")
    }

    /// Counts the calls of the host, and finds when the calls started that launched GPU activities.
    fn count_host(&mut self, leaves: Option<&'e Leaves>) -> Result<CallStarts> {
        self.count_table(SYNC, "globalPid", false)?;
        let starts = self.count_api(leaves)?;
        for (table, category) in CALLS {
            self.count_table(table, "globalTid", category == "overhead")?;
        }
        let names: Vec<String> = self.export.table_names().map(str::to_owned).collect();
        for table in names.iter().filter(|name| is_openacc(name)) {
            self.count_table(table, "globalTid", false)?;
        }
        self.samples()?;
        if self.options.counters {
            self.scheduling()?;
        }
        Ok(starts)
    }

    fn count_table(&mut self, table: &str, process: &'static str, is_overhead: bool) -> Result<()> {
        let of_activity = process == "globalPid";
        let sole = match of_activity && self.options.process.is_some() {
            true => Some(self.process_of_work(Value::Null)?),
            false => None,
        };
        let (wanted, empty) = (self.options.process, &self.tally);
        let parts = self.export.scan_parts(
            table,
            ["start", "end", process, "eventClass"],
            self.options.threads,
            || {
                let tally = empty.fresh();
                Ok(CountPart { tally, rows: 0 })
            },
            |part, row, [start, end, process, class]| {
                if !of_activity && class.as_int() == Some(BACKTRACE) {
                    return Ok(());
                }
                if let Some(wanted) = wanted
                    && let Some(process) = process.as_int().map(ProcessKey::of).or(sole)
                    && process != wanted
                {
                    return Ok(());
                }
                if let Some((start, end)) = part.tally.within(table, row, start, end) {
                    part.rows += 1;
                    part.tally.extend(start, end);
                }
                Ok(())
            },
        )?;
        for part in parts {
            self.tally.absorb(part.tally);
            self.count_rows(table, part.rows);
            self.counts.overhead += if is_overhead { part.rows } else { 0 };
        }
        Ok(())
    }

    fn count_api(&mut self, leaves: Option<&'e Leaves>) -> Result<CallStarts> {
        let starts = CallStarts::new(
            self.linked.take().unwrap_or_default(),
            self.options.launches,
        );
        let (wanted, empty, export) = (self.options.process, &self.tally, self.export);
        let columns = [
            "start",
            "end",
            "eventClass",
            "globalTid",
            "correlationId",
            "nameId",
        ];
        let parts = export.scan_parts(
            RUNTIME,
            columns,
            self.options.threads,
            || {
                Ok(CallsPart {
                    tally: empty.fresh(),
                    rows: 0,
                    strings: Strings::new(export, leaves)?,
                    names: FxHashMap::default(),
                    launching: FxHashSet::default(),
                    last_launching: None,
                    graphs: Vec::new(),
                })
            },
            |part, row, [start, end, class, thread, correlation, name]| {
                if class.as_int() == Some(BACKTRACE) {
                    return Ok(());
                }
                let Some(thread) = thread.as_int() else {
                    part.tally.bad_value(RUNTIME, row, "globalTid");
                    return Ok(());
                };
                let process = ProcessKey::of(thread);
                if wanted.is_some_and(|wanted| wanted != process) {
                    return Ok(());
                }
                let (start, end, is_early) = match part.tally.span(RUNTIME, row, start, end) {
                    Span::Bad => return Ok(()),
                    Span::Early(start, end) => (start, end, true),
                    Span::Within(start, end) => (start, end, false),
                };
                let call = part.kind(name)?;
                let launches = call.launches || call.launches_graph;
                let id = correlation.as_int().filter(|id| *id != 0);
                let is_linked = id.is_some_and(|id| starts.add(process, id, start, launches));
                match is_early {
                    // What it launched may have run in the collection.
                    true if !is_linked => part.tally.before += 1,
                    true => part.tally.extend(start, end),
                    false => {
                        part.rows += 1;
                        part.tally.extend(start, end);
                        if launches && part.last_launching != Some(process) {
                            part.last_launching = Some(process);
                            part.launching.insert(process);
                        }
                        if call.launches_graph {
                            part.graphs.extend(id.map(|id| (process, id)));
                        }
                    }
                }
                Ok(())
            },
        )?;
        for part in parts {
            self.tally.absorb(part.tally);
            self.count_rows(RUNTIME, part.rows);
            self.counts.api_calls += part.rows;
            self.launching.extend(part.launching);
            let graphs = part.graphs.into_iter().map(|key| (key, false));
            self.graph_launches.extend(graphs);
        }
        Ok(starts)
    }

    fn pass_work(
        &mut self,
        string_leaves: Option<&'e Leaves>,
        starts: &CallStarts,
        each: &mut impl FnMut(&Work<'_>),
    ) -> Result<()> {
        let Some(database) = self.export.database() else {
            return Ok(());
        };
        // Determined with the places if any activity needs it.
        let missing = self.sole_process.flatten().unwrap_or(ProcessKey::UNKNOWN);
        let mut tables = Vec::new();
        for name in TABLES {
            if let Some(table) = database.table(name) {
                tables.push((name, table, table.leaves()?));
            }
        }
        let identity = self.identity.take();
        let graph_launches = std::mem::take(&mut self.graph_launches);
        let mut feeds = Vec::new();
        for (name, table, leaves) in &tables {
            feeds.push(Rows {
                table: name,
                kind: kind_of(name),
                cursor: Cursor::new(database.file(), leaves),
                pick: table.def().pick(columns_of(name)),
                strings: Strings::new(self.export, string_leaves)?,
                identity: identity.as_ref(),
                starts,
                graph_launches: &graph_launches,
                wanted: self.options.process,
                missing,
                tally: self.tally.fresh(),
                names: Names::default(),
                last: None,
                is_done: false,
            });
        }
        let threads = self.options.threads;
        let merged = thread::scope(|scope| {
            let mut handles = Vec::new();
            let mut merge = Merge::default();
            for (at, mut rows) in feeds.into_iter().enumerate() {
                let kind = rows.kind;
                // The first table is that of kernels, mostly the largest.
                if at + 1 < threads.max(1) {
                    let (sender, receiver) = sync_channel(WAITING);
                    handles.push(scope.spawn(move || {
                        while let Some(batch) = rows.batch().transpose() {
                            if sender.send(batch).is_err() {
                                break;
                            }
                        }
                    }));
                    merge.inputs.push(Input::new(Feed::Thread(receiver), kind));
                } else {
                    merge
                        .inputs
                        .push(Input::new(Feed::Here(Box::new(rows)), kind));
                }
            }
            let result = merge.run(each);
            // Whoever still sends ends with its receiver.
            let inputs = std::mem::take(&mut merge.inputs);
            let totals: Vec<Totals> = inputs.into_iter().map(|input| input.totals).collect();
            for handle in handles {
                handle.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
            result.map(|()| totals)
        })?;
        self.identity = identity;
        self.graph_launches = graph_launches;
        for ((name, ..), totals) in tables.iter().zip(merged) {
            if let Some(tally) = totals.tally {
                self.tally.absorb(tally);
            }
            self.count_rows(name, totals.rows);
            self.counts.device_work += totals.rows;
            self.counts.unattributed += totals.unattributed;
            if *name == TABLES[3] {
                self.counts.graphs += totals.rows;
                self.counts.graph_ns = self.counts.graph_ns.saturating_add(totals.dur_ns);
            }
            self.working.extend(totals.working);
            let launched = totals.launched_graphs.into_iter();
            launched.for_each(|key| {
                if let Some(found) = self.graph_launches.get_mut(&key) {
                    *found = true;
                }
            });
        }
        Ok(())
    }
}

fn kind_of(table: &str) -> WorkKind {
    match TABLES.iter().position(|name| *name == table) {
        Some(0) => WorkKind::Kernel,
        Some(2) => WorkKind::Memset,
        Some(3) => WorkKind::Graph,
        _ => WorkKind::Memcpy,
    }
}

/// Columns of a row: those that all activities have, then three that give the name.
fn columns_of(table: &str) -> [&'static str; 10] {
    let names = match TABLES.iter().position(|name| *name == table) {
        Some(0) => ["demangledName", "shortName", "mangledName"],
        Some(1) => ["copyKind", "srcKind", "dstKind"],
        Some(2) => ["memKind", "", ""],
        Some(3) => ["graphId", "graphExecId", ""],
        _ => [""; 3],
    };
    let [first, second, third] = names;
    let [a, b, c, d, e, f, g] = crate::device::COMMON;
    [a, b, c, d, e, f, g, first, second, third]
}

/// A row, with the number of its name within its table.
#[derive(Clone, Copy)]
struct Row {
    start: i64,
    end: i64,
    device: i64,
    stream: i64,
    launch_ns: Option<i64>,
    name: Option<u32>,
}

/// Counts of the rows of one table.
#[derive(Default)]
struct Totals {
    tally: Option<Tally>,
    rows: u64,
    dur_ns: i64,
    unattributed: u64,
    working: FxHashSet<ProcessKey>,
    launched_graphs: FxHashSet<(ProcessKey, i64)>,
}

/// Rows of one table, and what came up with them.
#[derive(Default)]
struct Batch {
    rows: Vec<Row>,
    /// Names that no batch before had.
    names: Vec<String>,
    unattributed: u64,
    working: FxHashSet<ProcessKey>,
    launched_graphs: FxHashSet<(ProcessKey, i64)>,
    /// With the last batch.
    tally: Option<Tally>,
}

/// Names by what a row has of them.
#[derive(Default)]
struct Names {
    by_id: FxHashMap<i64, u32>,
    by_kinds: FxHashMap<[Option<i64>; 3], u32>,
    by_text: FxHashMap<String, u32>,
    count: u32,
}

impl Names {
    fn add(&mut self, text: String, new: &mut Vec<String>) -> u32 {
        if let Some(known) = self.by_text.get(&text) {
            return *known;
        }
        let number = self.count;
        self.count += 1;
        self.by_text.insert(text.clone(), number);
        new.push(text);
        number
    }
}

/// Reads the rows of one table.
struct Rows<'p> {
    table: &'static str,
    kind: WorkKind,
    cursor: Cursor<'p>,
    pick: Pick<10>,
    strings: Strings<'p>,
    identity: Option<&'p Identity>,
    starts: &'p CallStarts,
    graph_launches: &'p FxHashMap<(ProcessKey, i64), bool>,
    wanted: Option<ProcessKey>,
    missing: ProcessKey,
    tally: Tally,
    names: Names,
    /// The last place with its numbers.
    last: Option<(Recorded, i64, i64)>,
    is_done: bool,
}

impl Rows<'_> {
    /// Returns the next rows; `None` after the last.
    fn batch(&mut self) -> Result<Option<Batch>> {
        if self.is_done {
            return Ok(None);
        }
        let mut batch = Batch::default();
        batch.rows.reserve(BATCH);
        let mut last_process = None;
        while batch.rows.len() < BATCH {
            let Some((row, values)) = self.cursor.next(&self.pick)? else {
                self.is_done = true;
                let empty = self.tally.fresh();
                batch.tally = Some(std::mem::replace(&mut self.tally, empty));
                break;
            };
            let [start, end, process, device, context, stream, id, names @ ..] = values;
            let process = process.as_int().map_or(self.missing, ProcessKey::of);
            if self.wanted.is_some_and(|wanted| wanted != process) {
                continue;
            }
            let Some((start, end)) = self.tally.within(self.table, row, start, end) else {
                continue;
            };
            let place = Recorded {
                process,
                device: device.as_int().unwrap_or(0),
                context: context.as_int().unwrap_or(0),
                stream: stream.as_int().unwrap_or(0),
            };
            let id = id.as_int().filter(|id| *id != 0);
            let name = name_of(
                (&mut self.names, &mut self.strings),
                (self.table, names),
                &mut batch.names,
            )?;
            self.tally.extend(start, end);
            if !process.is_known() {
                batch.unattributed += 1;
            } else if last_process != Some(process) {
                last_process = Some(process);
                batch.working.insert(process);
            }
            if let Some(id) = id
                && !self.graph_launches.is_empty()
                && self.graph_launches.contains_key(&(process, id))
            {
                batch.launched_graphs.insert((process, id));
            }
            let (device, stream) = match self.last {
                Some((last, device, stream)) if last == place => (device, stream),
                _ => {
                    let identity = self.identity;
                    let device = identity.map_or(place.device, |i| i.device(process, place.device));
                    let stream = identity.map_or(place.stream, |i| i.stream(place));
                    self.last = Some((place, device, stream));
                    (device, stream)
                }
            };
            batch.rows.push(Row {
                start,
                end,
                device,
                stream,
                launch_ns: id.and_then(|id| self.starts.of(process, id)),
                name,
            });
        }
        Ok(Some(batch))
    }
}

fn name_of(
    (names, strings): (&mut Names, &mut Strings<'_>),
    (table, values): (&str, [Value<'_>; 3]),
    new: &mut Vec<String>,
) -> Result<Option<u32>> {
    if table == TABLES[0] {
        for value in values {
            if let Some(id) = value.as_int() {
                if let Some(known) = names.by_id.get(&id) {
                    return Ok(Some(*known));
                }
                let text = strings.get(id)?;
                let number = names.add(text.unwrap_or_else(|| format!("[string {id}]")), new);
                names.by_id.insert(id, number);
                return Ok(Some(number));
            }
            if let Some(text) = text(value) {
                return Ok(Some(names.add(text, new)));
            }
        }
        return Ok(None);
    }
    let kinds = values.map(|value| value.as_int());
    if let Some(known) = names.by_kinds.get(&kinds) {
        return Ok(Some(*known));
    }
    let [first, second, third] = kinds;
    let text = match TABLES.iter().position(|name| *name == table) {
        Some(1) => memcpy_name(first, second, third),
        Some(2) => memset_name(first),
        Some(3) => graph_name(first, second),
        _ => "Decompress".to_owned(),
    };
    let number = names.add(text, new);
    names.by_kinds.insert(kinds, number);
    Ok(Some(number))
}

/// Where batches of a table come from.
enum Feed<'p> {
    Here(Box<Rows<'p>>),
    Thread(Receiver<Result<Batch>>),
}

/// One table of a merge.
struct Input<'p> {
    feed: Feed<'p>,
    kind: WorkKind,
    rows: Vec<Row>,
    at: usize,
    /// Number of each name among those of all tables.
    names: Vec<usize>,
    totals: Totals,
}

impl<'p> Input<'p> {
    fn new(feed: Feed<'p>, kind: WorkKind) -> Self {
        Self {
            feed,
            kind,
            rows: Vec::new(),
            at: 0,
            names: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Makes the next row available; returns its start.
    fn head(&mut self, all: &mut AllNames) -> Result<Option<i64>> {
        while self.at >= self.rows.len() {
            let batch = match &mut self.feed {
                Feed::Here(rows) => rows.batch()?,
                Feed::Thread(receiver) => receiver.recv().ok().transpose()?,
            };
            let Some(batch) = batch else {
                return Ok(None);
            };
            for name in batch.names {
                self.names.push(all.number(name));
            }
            let totals = &mut self.totals;
            totals.rows += batch.rows.len() as u64;
            totals.unattributed += batch.unattributed;
            totals.working.extend(batch.working);
            totals.launched_graphs.extend(batch.launched_graphs);
            if batch.tally.is_some() {
                totals.tally = batch.tally;
            }
            self.rows = batch.rows;
            self.at = 0;
        }
        Ok(self.rows.get(self.at).map(|row| row.start))
    }
}

/// Names of all tables.
#[derive(Default)]
struct AllNames {
    numbers: FxHashMap<String, usize>,
    texts: Vec<String>,
}

impl AllNames {
    fn number(&mut self, name: String) -> usize {
        let texts = &mut self.texts;
        *self.numbers.entry(name).or_insert_with_key(|name| {
            texts.push(name.clone());
            texts.len() - 1
        })
    }
}

/// Several tables in order of start.
#[derive(Default)]
struct Merge<'p> {
    inputs: Vec<Input<'p>>,
    names: AllNames,
}

impl Merge<'_> {
    fn run(&mut self, each: &mut impl FnMut(&Work<'_>)) -> Result<()> {
        let mut heads = Vec::with_capacity(self.inputs.len());
        for input in &mut self.inputs {
            heads.push(input.head(&mut self.names)?);
        }
        loop {
            let known = heads.iter().enumerate();
            let first = known.filter_map(|(at, head)| head.map(|start| (start, at)));
            let Some((_, at)) = first.min() else {
                return Ok(());
            };
            let Some(input) = self.inputs.get_mut(at) else {
                return Ok(());
            };
            // Rows of one table until another comes first.
            let others = heads.iter().enumerate().filter(|(other, _)| *other != at);
            let next = others.filter_map(|(_, head)| *head).min();
            while let Some(row) = input.rows.get(input.at) {
                if next.is_some_and(|next| row.start > next) {
                    break;
                }
                input.at += 1;
                let dur = row.end.saturating_sub(row.start);
                input.totals.dur_ns = input.totals.dur_ns.saturating_add(dur);
                let name_id = row.name.and_then(|name| input.names.get(name as usize));
                let name = name_id.and_then(|id| self.names.texts.get(*id));
                each(&Work {
                    start_ns: row.start,
                    end_ns: row.end,
                    kind: input.kind,
                    name: name.map(String::as_str),
                    name_id: name_id.copied(),
                    device: row.device,
                    stream: row.stream,
                    launch_ns: row.launch_ns,
                });
            }
            let head = input.head(&mut self.names)?;
            if let Some(slot) = heads.get_mut(at) {
                *slot = head;
            }
        }
    }
}
