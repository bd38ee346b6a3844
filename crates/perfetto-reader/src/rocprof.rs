//! Reads the JSON that `rocprofv3 --output-format json` writes: records by kind under
//! `buffer_records`, names in separate tables.
//!
//! The document is streamed: besides the events, only the names of kernels and operations and the
//! agents are kept in memory. The tables precede the records, as rocprofv3 writes them; a record
//! whose name is not known by then is named by its number.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufReader, Read};
use std::marker::PhantomData;
use std::rc::Rc;

use byte_source::Source;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use trace_model::{
    Arg, CategoryId, ClockDomain, EventOrder, FinishOptions, IssueKind, LaneId, Pid, Place,
    Process, ProcessId, SliceData, Thread, Tid, Trace, TraceBuilder, Track, TrackKind,
};

use crate::{ArgPolicy, Error, ReadOptions};

/// The only key of the document.
pub(crate) const ROOT: &str = "rocprofiler-sdk-tool";

/// Bytes read at a time.
const BUFFER: usize = 1 << 20;

/// Lists of records that are read, and the category of their slices.
const LISTS: &[(&str, &str)] = &[
    ("kernel_dispatch", "kernel_dispatch"),
    ("memory_copy", "memory_copy"),
    ("hip_api", "hip_api"),
    ("hsa_api", "hsa_api"),
    ("rccl_api", "rccl_api"),
    ("marker_api", "marker_api"),
    ("memory_allocation", "memory_allocation"),
    ("scratch_memory", "scratch_memory"),
];

/// Returns `true` if `head` begins a document of this format.
pub(crate) fn begins(head: &[u8]) -> bool {
    let text = byte_source::magic::skip_utf8_bom(head).trim_ascii_start();
    let key = text.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    let quoted = key.and_then(|key| key.strip_prefix(b"\""));
    quoted.is_some_and(|key| key.starts_with(ROOT.as_bytes()))
}

/// Reads a trace of this format.
///
/// # Errors
///
/// Returns an error if the source cannot be read, or is broken before its first record.
pub(crate) fn read(source: Source, options: &ReadOptions) -> Result<Trace, Error> {
    let name = source.name().to_owned();
    let mut loader = Loader::new(options);
    let read = Rc::new(Cell::new(0));
    let counted = Counted(source.into_read()?, Rc::clone(&read));
    let reader = BufReader::with_capacity(BUFFER, counted);
    let mut json = serde_json::Deserializer::from_reader(reader);
    if let Err(error) = Part::Root(&mut loader).deserialize(&mut json) {
        if loader.builder.events.is_empty() {
            return Err(Error::Json {
                name,
                what: "the document of rocprofv3 is broken",
                byte: 0,
                line: error.line() as u64,
                column: error.column() as u64,
            });
        }
        let diagnostics = &mut loader.builder.diagnostics;
        diagnostics.note(IssueKind::TruncatedJson, Place::Byte(0), error.to_string());
    }
    loader.builder.meta.input_bytes = read.get();
    loader.finish()
}

/// Reads a number; what is none is 0, so that one bad record does not end the document.
fn int<'de, D: Deserializer<'de>>(json: D) -> Result<i64, D::Error> {
    Ok(Value::deserialize(json)?.as_i64().unwrap_or(0))
}

/// The same of a number without sign.
fn uint<'de, D: Deserializer<'de>>(json: D) -> Result<u64, D::Error> {
    Ok(Value::deserialize(json)?.as_u64().unwrap_or(0))
}

/// The same of an index.
fn index<'de, D: Deserializer<'de>>(json: D) -> Result<usize, D::Error> {
    Ok(usize::try_from(uint(json)?).unwrap_or(usize::MAX))
}

/// An event, whatever the format of its record.
pub(crate) struct Call<'c> {
    pub(crate) category: &'static str,
    pub(crate) name: &'c str,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) thread: i64,
    pub(crate) correlation: u64,
    /// Device and queue of a kernel.
    pub(crate) kernel: Option<(i64, u64)>,
    /// Devices that a copy goes to and comes from.
    pub(crate) ends: [Option<i64>; 2],
    pub(crate) stream: Option<u64>,
    pub(crate) bytes: Option<i64>,
}

/// Counts the bytes that are read.
struct Counted<R>(R, Rc<Cell<u64>>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.set(self.1.get() + count as u64);
        Ok(count)
    }
}

/// The fields of all kinds of records.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Record {
    #[serde(deserialize_with = "index")]
    kind: usize,
    #[serde(deserialize_with = "index")]
    operation: usize,
    #[serde(deserialize_with = "int")]
    thread_id: i64,
    correlation_id: Option<Ids>,
    #[serde(deserialize_with = "int")]
    start_timestamp: i64,
    #[serde(deserialize_with = "int")]
    end_timestamp: i64,
    dispatch_info: Option<Dispatch>,
    dst_agent_id: Option<Handle>,
    src_agent_id: Option<Handle>,
    stream_id: Option<Handle>,
    bytes: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Ids {
    #[serde(deserialize_with = "uint")]
    internal: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Dispatch {
    agent_id: Option<Handle>,
    queue_id: Option<Handle>,
    #[serde(deserialize_with = "uint")]
    kernel_id: u64,
}

#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default)]
struct Handle {
    #[serde(deserialize_with = "uint")]
    handle: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Symbol {
    kernel_id: u64,
    formatted_kernel_name: String,
    demangled_kernel_name: String,
    kernel_name: String,
}

/// Names of a record kind and of its operations.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Operations {
    kind: String,
    operations: Vec<String>,
}

pub(crate) struct Loader<'o> {
    options: &'o ReadOptions,
    pub(crate) builder: TraceBuilder,
    process: Option<ProcessId>,
    pub(crate) pid: i64,
    /// Number of each agent within the process, as in rocPD, by handle.
    agents: HashMap<u64, i64>,
    symbols: HashMap<u64, String>,
    kinds: Vec<Operations>,
    /// Texts of markers by correlation id.
    markers: HashMap<u64, String>,
    lanes: HashMap<String, LaneId>,
}

impl<'o> Loader<'o> {
    pub(crate) fn new(options: &'o ReadOptions) -> Self {
        let mut builder = TraceBuilder::new();
        builder.meta.format = "rocprofv3-json";
        builder.meta.clock = ClockDomain::BootTime;
        Self {
            options,
            builder,
            process: None,
            pid: 0,
            agents: HashMap::new(),
            symbols: HashMap::new(),
            kinds: Vec::new(),
            markers: HashMap::new(),
            lanes: HashMap::new(),
        }
    }

    /// Discards the tables of the previous process.
    fn begin_session(&mut self) {
        self.process = None;
        self.pid = 0;
        for table in [&mut self.symbols, &mut self.markers] {
            table.clear();
        }
        self.agents.clear();
        self.kinds.clear();
        self.lanes.clear();
    }

    fn metadata(&mut self, value: &Value) {
        self.pid = value["pid"].as_i64().unwrap_or(0);
        let words = value["command"].as_array();
        if let Some(program) = words.and_then(|words| words.first()?.as_str()) {
            let process = self.process();
            let name = self.builder.string(program);
            if let Some(row) = self.builder.processes_mut().get_mut(process.index()) {
                row.name = Some(name);
            }
        }
    }

    fn process(&mut self) -> ProcessId {
        let (builder, pid) = (&mut self.builder, self.pid);
        *self
            .process
            .get_or_insert_with(|| builder.process(Process::new(Pid(pid))))
    }

    fn agents(&mut self, list: &Value) {
        let mut names: Vec<Value> = Vec::new();
        for agent in list.as_array().map_or(&[][..], Vec::as_slice) {
            let handle = agent["id"]["handle"].as_u64().unwrap_or(0);
            let number = agent["logical_node_id"]
                .as_i64()
                .or(agent["node_id"].as_i64());
            self.agents.insert(handle, number.unwrap_or(0));
            // 2 is a GPU in rocprofiler_agent_type_t.
            if agent["type"].as_u64() == Some(2) {
                let name = [&agent["product_name"], &agent["name"]];
                let name = name
                    .into_iter()
                    .find_map(|n| n.as_str().filter(|n| !n.is_empty()));
                names.push(serde_json::json!({ "id": number, "name": name }));
            }
        }
        self.devices(names);
    }

    /// States the names of the GPUs.
    pub(crate) fn devices(&mut self, names: Vec<Value>) {
        if !names.is_empty() {
            let entry = (
                "deviceProperties".to_owned(),
                Value::from(names).to_string(),
            );
            self.builder.meta.entries.push(entry);
        }
    }

    fn strings(&mut self, value: &mut Value) {
        let kinds = serde_json::from_value(value["buffer_records"].take());
        self.kinds = kinds.unwrap_or_default();
        for marker in value["marker_api"]
            .as_array()
            .map_or(&[][..], Vec::as_slice)
        {
            if let (Some(key), Some(text)) = (marker["key"].as_u64(), marker["value"].as_str()) {
                self.markers.insert(key, text.to_owned());
            }
        }
    }

    fn symbol(&mut self, symbol: Symbol) {
        let names = [
            symbol.formatted_kernel_name,
            symbol.demangled_kernel_name,
            symbol.kernel_name,
        ];
        if let Some(name) = names.into_iter().find(|name| !name.is_empty()) {
            self.symbols.insert(symbol.kernel_id, name);
        }
    }

    fn lane(&mut self, name: String, thread: Option<i64>) -> LaneId {
        if let Some(lane) = self.lanes.get(&name) {
            return *lane;
        }
        let process = self.process();
        let builder = &mut self.builder;
        let mut track = Track::new(match thread {
            Some(_) => TrackKind::Thread,
            None => TrackKind::ProcessChild,
        });
        track.process = Some(process);
        match thread {
            Some(tid) => {
                track.thread = Some(builder.thread(Thread::new(Tid(tid), Some(process))));
            }
            None => track.name = Some(builder.string(&name)),
        }
        let track = builder.track(track);
        let lane = builder.lane(Some(track));
        self.lanes.insert(name, lane);
        lane
    }

    fn record(&mut self, category: &'static str, record: &Record) {
        let agent = |handle: Option<Handle>| self.agents.get(&handle?.handle).copied();
        let correlation = record.correlation_id.as_ref().map_or(0, |ids| ids.internal);
        let known = self.kinds.get(record.kind);
        let operation = known.and_then(|kind| kind.operations.get(record.operation));
        let mut name = operation.cloned().unwrap_or_else(|| {
            let kind = known.map_or(category, |kind| kind.kind.as_str());
            format!("{kind} {}", record.operation)
        });
        let mut kernel = None;
        if let Some(dispatch) = &record.dispatch_info {
            let queue = dispatch.queue_id.unwrap_or_default().handle;
            kernel = Some((agent(dispatch.agent_id).unwrap_or(0), queue));
            let symbol = self.symbols.get(&dispatch.kernel_id);
            name = symbol
                .cloned()
                .unwrap_or_else(|| format!("kernel {}", dispatch.kernel_id));
        } else if category == "marker_api"
            && let Some(text) = self.markers.get(&correlation)
        {
            name.clone_from(text);
        }
        let call = Call {
            category,
            name: &name,
            start: record.start_timestamp,
            end: record.end_timestamp,
            thread: record.thread_id,
            correlation,
            kernel,
            ends: [agent(record.dst_agent_id), agent(record.src_agent_id)],
            stream: record.stream_id.map(|stream| stream.handle),
            bytes: record.bytes,
        };
        self.call(&call);
    }

    /// Adds an event.
    pub(crate) fn call(&mut self, call: &Call<'_>) {
        self.builder.meta.events += 1;
        if call.start == 0 && call.end == 0 {
            let place = Place::Byte(0);
            self.builder
                .diagnostics
                .count(IssueKind::JsonNoTimestamp, place);
            return;
        }
        let (mut row, mut thread) = (format!("thread {}", call.thread), Some(call.thread));
        let mut args: Vec<(&str, Value)> = vec![("correlation_id", call.correlation.into())];
        if let Some((number, queue)) = call.kernel {
            (row, thread) = (
                format!("COMPUTE Agent [{number}] QUEUE [{queue}] GPU"),
                None,
            );
            args.push(("agent", format!("Agent {number}").into()));
            args.push(("queue", queue.into()));
        } else if call.category == "memory_copy" {
            for (key, end) in ["dst_agent", "src_agent"].into_iter().zip(call.ends) {
                if let Some(number) = end {
                    args.push((key, format!("Agent-{number}").into()));
                }
            }
            let to = call.ends.first().copied().flatten().unwrap_or(0);
            (row, thread) = (
                format!("COPY to AGENT [{to}] THREAD [{}] (GPU)", call.thread),
                None,
            );
        }
        args.extend(call.stream.map(|stream| ("stream_id", stream.into())));
        args.extend(call.bytes.map(|bytes| ("bytes", bytes.into())));
        let lane = self.lane(row, thread);
        let data = self.data(call.name, call.category, &args);
        match call.end.checked_sub(call.start).filter(|dur| *dur >= 0) {
            Some(dur) => self.builder.events.complete(lane, call.start, dur, data),
            None => {
                let place = Place::Byte(0);
                self.builder
                    .diagnostics
                    .count(IssueKind::NegativeDuration, place);
            }
        }
    }

    /// Makes the trace.
    ///
    /// # Errors
    ///
    /// Returns an error if there are too many events.
    pub(crate) fn finish(self) -> Result<Trace, Error> {
        let mut finish = FinishOptions::default();
        finish.order = EventOrder::Chrome;
        finish.overlap = self.options.overlap;
        finish.keep_negative = self.options.keep_negative;
        Ok(self.builder.finish(&finish)?)
    }

    fn data(&mut self, name: &str, category: &str, args: &[(&str, Value)]) -> SliceData {
        let events = &mut self.builder.events;
        let mut kept = Vec::with_capacity(args.len());
        for (key, value) in args {
            let is_wanted = match &self.options.args {
                ArgPolicy::All => true,
                ArgPolicy::None => false,
                ArgPolicy::Only(keys) => keys.iter().any(|wanted| wanted == key),
            };
            if !is_wanted {
                continue;
            }
            let key = events.strings.intern(&format!("args.{key}"));
            kept.push(match (value, value.as_i64()) {
                (Value::String(text), _) => Arg::text(key, events.strings.intern(text)),
                (_, number) => Arg::int(key, number.unwrap_or(i64::MAX)),
            });
        }
        let category = events.strings.intern(category);
        let category: CategoryId = events.category(category);
        SliceData {
            name: Some(events.strings.intern(name)),
            category,
            args: events.args(&kept),
        }
    }
}

/// A list whose elements are passed to a function one by one.
struct Each<T, F>(F, PhantomData<T>);

impl<'de, T: Deserialize<'de>, F: FnMut(T)> DeserializeSeed<'de> for Each<T, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>, F: FnMut(T)> Visitor<'de> for Each<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            (self.0)(element);
        }
        Ok(())
    }
}

/// An object of the document, by its position.
enum Part<'l, 'o> {
    Root(&'l mut Loader<'o>),
    Session(&'l mut Loader<'o>),
    Records(&'l mut Loader<'o>),
}

/// The list of sessions.
struct Sessions<'l, 'o>(&'l mut Loader<'o>);

impl<'de> DeserializeSeed<'de> for Part<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Part<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match (&mut self, key.as_str()) {
                (Part::Root(loader), ROOT) => map.next_value_seed(Sessions(loader))?,
                (Part::Session(loader), "metadata") => loader.metadata(&map.next_value()?),
                (Part::Session(loader), "agents") => loader.agents(&map.next_value()?),
                (Part::Session(loader), "strings") => loader.strings(&mut map.next_value()?),
                (Part::Session(loader), "kernel_symbols") => {
                    map.next_value_seed(Each(|symbol| loader.symbol(symbol), PhantomData))?;
                }
                (Part::Session(loader), "buffer_records") => {
                    map.next_value_seed(Part::Records(loader))?;
                }
                (Part::Records(loader), key) => match LISTS.iter().find(|list| list.0 == key) {
                    Some((_, category)) => {
                        let on = |record: Record| loader.record(category, &record);
                        map.next_value_seed(Each(on, PhantomData))?;
                    }
                    None => {
                        map.next_value::<IgnoredAny>()?;
                    }
                },
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Sessions<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Sessions<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of sessions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        loop {
            self.0.begin_session();
            if list.next_element_seed(Part::Session(self.0))?.is_none() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a document in the layout of rocprofv3: two agents, the second a GPU, and one record
    /// of each list.
    fn document(kernels: usize) -> String {
        let id = |n: usize| format!(r#""correlation_id":{{"internal":{n},"external":0}}"#);
        let time = |n: usize| {
            format!(
                r#""start_timestamp":{},"end_timestamp":{}"#,
                1000 + 100 * n,
                1050 + 100 * n
            )
        };
        let dispatch = |n: usize| {
            format!(
                r#"{{"size":8,"kind":1,"operation":0,"thread_id":7,{},{},"dispatch_info":{{"agent_id":{{"handle":22}},"queue_id":{{"handle":3}},"kernel_id":5,"grid_size":{{"x":1}}}}}}"#,
                id(n),
                time(n)
            )
        };
        let dispatches: Vec<String> = (1..=kernels).map(dispatch).collect();
        format!(
            r#"{{"rocprofiler-sdk-tool":[{{"metadata":{{"pid":41,"command":["python3","x.py"]}},
"agents":[{{"id":{{"handle":11}},"type":1,"node_id":0}},{{"id":{{"handle":22}},"type":2,"node_id":4,"product_name":"AMD Instinct MI300X"}}],
"strings":{{"buffer_records":[{{"kind":"NONE","operations":[]}},{{"kind":"KERNEL_DISPATCH","operations":["NONE"]}},
{{"kind":"MEMORY_COPY","operations":["NONE","MEMORY_COPY_HOST_TO_DEVICE"]}},{{"kind":"HIP_RUNTIME_API","operations":["hipMalloc","hipLaunchKernel"]}}]}},
"kernel_symbols":[{{"kernel_id":5,"formatted_kernel_name":"gemm_kernel(float*)"}}],
"callback_records":{{"counter_collection":[{{"a":[1,{{}}]}}]}},
"buffer_records":{{"kernel_dispatch":[{}],"memory_copy":[{{"kind":2,"operation":1,"thread_id":7,{},{},"dst_agent_id":{{"handle":22}},"src_agent_id":{{"handle":11}},"bytes":64}}],
"hip_api":[{{"kind":3,"operation":1,"thread_id":7,{},{}}}],"other_api":[{{"x":1}}]}}}}]}}"#,
            dispatches.join(","),
            id(90),
            time(90),
            id(1),
            time(0),
        )
    }

    fn read_text(text: &str) -> Result<Trace, Error> {
        let source = Source::from_bytes("r.json", text.as_bytes().to_vec())?;
        crate::read(source, &ReadOptions::default())
    }

    #[test]
    fn records_are_kernels_copies_and_calls() {
        use trace_model::kernel::{Activity, TraceIndex, Vocabulary};

        let trace = read_text(&document(3)).unwrap();
        let index = TraceIndex::new(&trace, Vocabulary::default());
        let rows: Vec<_> = trace
            .slices()
            .map(|s| {
                (
                    index.activity(s),
                    s.name().unwrap(),
                    s.ts().nanos(),
                    s.dur().unwrap().get(),
                )
            })
            .collect();
        let kernel = |ts| (Activity::Kernel, "gemm_kernel(float*)", ts, 50);
        assert_eq!(
            rows,
            [
                (Activity::Launch, "hipLaunchKernel", 1000, 50),
                kernel(1100),
                kernel(1200),
                kernel(1300),
                (
                    Activity::GpuMemcpy,
                    "MEMORY_COPY_HOST_TO_DEVICE",
                    10_000,
                    50
                ),
            ]
        );
        let first = index.device_work().next().unwrap();
        assert_eq!((index.device(first).0, index.stream(first).0), (4, 3));
        assert_eq!(
            index.launch_of(first).unwrap().0.name(),
            Some("hipLaunchKernel")
        );
        let copy = index.device_work().last().unwrap();
        assert_eq!(index.device(copy).0, 4);
        assert!(
            trace
                .meta()
                .entry("deviceProperties")
                .unwrap()
                .contains("MI300X")
        );
        assert!(trace.diagnostics().is_clean());
    }

    #[test]
    fn a_bad_value_costs_its_record_alone() {
        let text = document(3);
        for (from, to) in [
            ("\"thread_id\":7", "\"thread_id\":null"),
            (
                "\"correlation_id\":{\"internal\":2,",
                "\"correlation_id\":{\"internal\":\"x\",",
            ),
            ("\"start_timestamp\":1200", "\"start_timestamp\":null"),
            ("\"agent_id\":{\"handle\":22}", "\"agent_id\":null"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            let trace = read_text(&changed).unwrap();
            assert!(trace.len() >= 4, "{from}: {}", trace.len());
            assert_eq!(
                trace.diagnostics().count_of(IssueKind::TruncatedJson),
                0,
                "{from}"
            );
        }
    }

    #[test]
    fn the_device_is_that_of_the_process() {
        use trace_model::kernel::{TraceIndex, Vocabulary};

        let text = document(1).replace("\"node_id\":4,", "\"node_id\":4,\"logical_node_id\":1,");
        let trace = read_text(&text).unwrap();
        let index = TraceIndex::new(&trace, Vocabulary::default());
        assert!(index.device_work().all(|work| index.device(work).0 == 1));
    }

    #[test]
    fn a_cut_document_gives_what_came_before() {
        let text = document(100);
        let cut = &text[..text.len() / 2];
        let trace = read_text(cut).unwrap();
        assert!(trace.len() > 10 && trace.len() < 100);
        assert_eq!(trace.diagnostics().count_of(IssueKind::TruncatedJson), 1);
        assert!(read_text(r#"{"rocprofiler-sdk-tool": 5}"#).is_err());
        for at in 0..text.len().min(3000) {
            let _ = read_text(&text[..at]);
        }
    }
}
