//! Databases as a trace.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::{
    Arg, ArgsRef, CategoryId, ClockDomain, Distributed, FinishOptions, FlowPoint, FlowRole,
    FlowSpace, LaneId, Limit, Pid, ProcessId, Rank, SliceData, Thread as TraceThread, Tid, Trace,
    TraceBuilder, Track, TrackKind,
};

use crate::devices::DeviceNumbers;
use crate::error::Result;
use crate::filter::{Filter, domain_of};
use crate::info::Process;
use crate::records::{Copy, Dispatch, Event, Region};
use crate::scan::Order;
use crate::set::RocpdSet;

/// Reads the records that a filter wants into a trace.
///
/// Slices, tracks, categories and arguments have the names that rocprofv3 gives them in Perfetto traces, so analyses work
/// alike on both: host calls on threads, kernels and copies on `STREAM [n]` tracks of their process, arrows from calls to
/// what they launched. Memory: that of the trace, about 100 bytes a record.
///
/// # Errors
///
/// When a file is damaged, or there are more records than a trace can hold.
pub fn load(set: &RocpdSet, filter: &Filter) -> Result<Trace> {
    let mut loader = Loader::new(set);
    for number in 0..set.partitions().len() {
        for region in set.regions_and_samples(number, filter)? {
            loader.region(&region?);
        }
        for dispatch in set.scan_partition::<Dispatch<'_>>(number, filter, Order::Start)? {
            loader.dispatch(&dispatch?);
        }
        for copy in set.scan_partition::<Copy<'_>>(number, filter, Order::Start)? {
            loader.copy(&copy?);
        }
    }
    loader.builder.meta.limits.extend(replays(set)?);
    Ok(loader.builder.finish(&FinishOptions::default())?)
}

/// Returns the passes of kernel replay, which are dispatches like all others.
fn replays(set: &RocpdSet) -> Result<Option<Limit>> {
    let (mut repeated, mut passes) = (0_u64, 0_i64);
    for partition in set.partitions() {
        if let Some((dispatches, of)) = partition.replays()? {
            repeated += dispatches;
            passes = passes.max(of);
        }
    }
    let text = || {
        format!(
            "{repeated} dispatches are further passes of kernel replay ({passes} passes): calls and durations of \
             kernels count every pass; record without counters to time kernels"
        )
    };
    Ok((repeated > 0).then(|| Limit {
        code: KERNEL_REPLAY,
        count: repeated,
        text: text(),
        is_reason: false,
    }))
}

/// Returns the GPUs as Kineto lists them: number and name.
fn properties(set: &RocpdSet, devices: &DeviceNumbers) -> Option<(String, String)> {
    let gpus = set.agents().filter(|(_, agent)| agent.is_gpu());
    let named = gpus.filter_map(|(process, agent)| {
        let names = [&agent.product_name, &agent.model_name, &agent.name];
        let mut names = names.into_iter().flatten();
        let name = names.find(|name| !name.is_empty())?;
        Some((devices.of(process, Some(agent))?, name.as_str()))
    });
    let named: BTreeMap<i64, &str> = named.collect();
    let list = named
        .iter()
        .map(|(id, name)| serde_json::json!({ "id": id, "name": name }));
    let list = serde_json::Value::from_iter(list).to_string();
    (!named.is_empty()).then(|| ("deviceProperties".to_owned(), list))
}

/// Code of the limit that dispatches are repeated.
const KERNEL_REPLAY: &str = "kernel_replay";

/// Where a record goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Place {
    Process(usize, i64),
    Thread(usize, i64),
    Stream(usize, i64, i64),
}

struct Loader {
    builder: TraceBuilder,
    processes: FxHashMap<(usize, i64), ProcessId>,
    lanes: FxHashMap<Place, LaneId>,
    devices: DeviceNumbers,
}

impl Loader {
    fn new(set: &RocpdSet) -> Self {
        let mut builder = TraceBuilder::new();
        builder.meta.format = "rocpd";
        builder.meta.input_bytes = set.bytes();
        builder.meta.clock = ClockDomain::BootTime;
        let ranks: Vec<i64> = set.processes().filter_map(|process| process.rank).collect();
        if let [rank] = ranks.as_slice()
            && let Ok(rank) = u32::try_from(*rank)
        {
            builder.meta.distributed = Some(Distributed {
                rank: Some(Rank(rank)),
                ..Distributed::default()
            });
        }
        let devices = DeviceNumbers::new(set);
        let listed = properties(set, &devices);
        builder.meta.entries.extend(listed);
        let mut loader = Self {
            builder,
            processes: FxHashMap::default(),
            lanes: FxHashMap::default(),
            devices,
        };
        for process in set.processes() {
            let mut own = trace_model::Process::new(Pid(process.pid));
            let program = process.command.as_deref().unwrap_or_default();
            let program = program.split_whitespace().next().unwrap_or("process");
            own.name = Some(loader.builder.string(program));
            own.labels = Some(loader.builder.string(&process.hostname));
            let id = loader.builder.process(own);
            let key = (process.partition, process.id);
            loader.processes.insert(key, id);
            loader
                .builder
                .meta
                .entries
                .push(("guid".to_owned(), process.guid.clone()));
        }
        for (process, thread) in set.threads() {
            let own = loader
                .processes
                .get(&(process.partition, process.id))
                .copied();
            let mut row = TraceThread::new(Tid(thread.tid), own);
            row.is_main = thread.tid == process.pid;
            row.name = thread
                .name
                .as_deref()
                .map(|name| loader.builder.string(name));
            let id = loader.builder.thread(row);
            let track = loader.builder.track(Track {
                process: own,
                thread: Some(id),
                ..Track::new(TrackKind::Thread)
            });
            let lane = loader.builder.lane(Some(track));
            loader
                .lanes
                .insert(Place::Thread(process.partition, thread.id), lane);
        }
        loader
    }

    fn lane(&mut self, process: &Process, place: Place, name: impl FnOnce() -> String) -> LaneId {
        if let Some(&lane) = self.lanes.get(&place) {
            return lane;
        }
        let name = self.builder.string(&name());
        let track = self.builder.track(Track {
            name: Some(name),
            process: self
                .processes
                .get(&(process.partition, process.id))
                .copied(),
            ..Track::new(TrackKind::ProcessChild)
        });
        let lane = self.builder.lane(Some(track));
        self.lanes.insert(place, lane);
        lane
    }

    fn data(&mut self, name: &str, category: Option<&str>, args: ArgsRef) -> SliceData {
        let events = &mut self.builder.events;
        let category = match category {
            Some(category) => {
                let text = events.strings.intern(category);
                events.category(text)
            }
            None => CategoryId::NONE,
        };
        SliceData {
            name: Some(events.strings.intern(name)),
            category,
            args,
        }
    }

    fn args(&mut self, list: &[(&str, Option<Given<'_>>)]) -> ArgsRef {
        let events = &mut self.builder.events;
        let mut args = Vec::with_capacity(list.len());
        for (key, value) in list {
            let Some(value) = value else { continue };
            let key = events.strings.intern(key);
            args.push(match value {
                Given::Int(value) => Arg::int(key, *value),
                Given::Text(text) => Arg::text(key, events.strings.intern(text)),
            });
        }
        events.args(&args)
    }

    fn put(&mut self, lane: LaneId, (start, end): (i64, i64), data: SliceData, flow: Option<u64>) {
        if end > start {
            self.builder.events.complete(lane, start, end - start, data);
        } else {
            self.builder.events.instant(lane, start, data);
        }
        if let Some(id) = flow {
            self.builder.events.attach_flow(FlowPoint {
                id,
                category: None,
                name: None,
                space: FlowSpace::TrackEvent,
                role: FlowRole::Through,
            });
        }
    }

    fn region(&mut self, region: &Region<'_>) {
        let process = region.process;
        let known = region
            .thread
            .and_then(|thread| self.lanes.get(&Place::Thread(process.partition, thread.id)))
            .copied();
        let lane = known.unwrap_or_else(|| {
            let place = Place::Process(process.partition, process.id);
            self.lane(process, place, || "unknown thread".to_owned())
        });
        let category = region.category();
        let args = self.args(&[
            ("debug.tid", region.thread.map(|t| Given::Int(t.tid))),
            ("debug.kind", category.map(Given::Text)),
            ("debug.operation", region.name.map(Given::Text)),
            ("debug.corr_id", stack(region.event)),
            (
                "debug.ancestor_id",
                region.event.and_then(|e| e.parent_stack_id).map(Given::Int),
            ),
        ]);
        let name = region.shown_name().unwrap_or("?");
        let data = self.data(name, slice_category(category), args);
        let flow = match domain_of(category) {
            "MARKER" => None,
            _ => flow_id(process, region.event),
        };
        self.put(lane, (region.start_ns, region.end_ns), data, flow);
    }

    fn dispatch(&mut self, dispatch: &Dispatch<'_>) {
        let process = dispatch.process;
        let stream = dispatch.stream_id.unwrap_or(0);
        let place = Place::Stream(process.partition, process.id, stream);
        let lane = self.lane(process, place, || format!("STREAM [{stream}]"));
        let number = self.devices.of_dispatch(dispatch);
        let agent = number.map(|number| format!("Agent {number}"));
        let args = self.args(&[
            ("debug.kind", Some(Given::Text("KERNEL_DISPATCH"))),
            ("debug.agent", agent.as_deref().map(Given::Text)),
            ("debug.device", number.map(Given::Int)),
            ("debug.corr_id", stack(dispatch.event)),
            ("debug.queue", dispatch.queue_id.map(Given::Int)),
            ("debug.tid", dispatch.thread.map(|t| Given::Int(t.tid))),
            ("debug.kernel_id", dispatch.kernel_id.map(Given::Int)),
            ("debug.dispatch_id", dispatch.dispatch_id.map(Given::Int)),
            ("debug.stream", Some(Given::Int(stream))),
            ("debug.stream_id", Some(Given::Int(stream))),
        ]);
        let name = crate::KernelNames::default().of(dispatch);
        let data = self.data(&name, Some("kernel_dispatch"), args);
        let flow = flow_id(process, dispatch.event);
        self.put(lane, (dispatch.start_ns, dispatch.end_ns), data, flow);
    }

    fn copy(&mut self, copy: &Copy<'_>) {
        let process = copy.process;
        let stream = copy.stream_id.unwrap_or(0);
        let place = Place::Stream(process.partition, process.id, stream);
        let lane = self.lane(process, place, || format!("STREAM [{stream}]"));
        let device = self.devices.of_copy(copy);
        let args = self.args(&[
            ("debug.kind", Some(Given::Text("MEMORY_COPY"))),
            ("debug.device", device.map(Given::Int)),
            ("debug.copy_bytes", Some(Given::Int(copy.size_bytes))),
            ("debug.corr_id", stack(copy.event)),
            ("debug.tid", copy.thread.map(|t| Given::Int(t.tid))),
            ("debug.stream", Some(Given::Int(stream))),
            ("debug.stream_id", Some(Given::Int(stream))),
        ]);
        let data = self.data(copy.name.unwrap_or("?"), Some("memory_copy"), args);
        let flow = flow_id(process, copy.event);
        self.put(lane, (copy.start_ns, copy.end_ns), data, flow);
    }
}

/// An argument's value.
#[derive(Debug, Clone, std::marker::Copy)]
enum Given<'v> {
    Int(i64),
    Text(&'v str),
}

fn stack<'v>(event: Option<Event<'_>>) -> Option<Given<'v>> {
    event.and_then(|event| event.stack_id).map(Given::Int)
}

/// Equal for a call and what it launched; different for equal ids of different processes.
fn flow_id(process: &Process, event: Option<Event<'_>>) -> Option<u64> {
    use std::hash::BuildHasher as _;
    let stack = event?.stack_id.filter(|id| *id != 0)?;
    Some(rustc_hash::FxBuildHasher.hash_one((process.guid.as_str(), stack)))
}

/// The category of a slice by the domain of its call.
#[must_use]
pub fn slice_category(category: Option<&str>) -> Option<&'static str> {
    match domain_of(category) {
        "HIP" => Some("hip_api"),
        "HSA" => Some("hsa_api"),
        "MARKER" => Some("marker_api"),
        "RCCL" => Some("rccl_api"),
        "ROCDECODE" => Some("rocdecode_api"),
        "ROCJPEG" => Some("rocjpeg_api"),
        "OMPT" => Some("openmp"),
        "KFD" => Some("kfd_events"),
        _ => None,
    }
}
