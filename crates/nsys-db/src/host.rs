//! Calls of host threads: CUDA, operating system, libraries; profiler overhead; time off the CPU.

use rustc_hash::FxHashMap;
use sqlite_scan::Value;
use trace_model::kernel::{is_graph_launch, is_launch_api};
use trace_model::{LaneId, StrId, Track, TrackKind, is_plausible};

use crate::chains::Chains;
use crate::error::Result;
use crate::identity::Recorded;
use crate::ids::{ProcessKey, tid};
use crate::load::{EarlyCall, FreeLanes, Loader};
use crate::tally::Span;

pub(crate) const RUNTIME: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
pub(crate) const SYNC: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";

/// Class of rows that are no calls, but carry the call chain of one.
pub(crate) const BACKTRACE: i64 = 67;

/// Version of the schema from which `syncType` has its present meaning.
const SYNC_TYPES: [u32; 3] = [3, 23, 3];

/// Tables of other calls on host threads, with their category.
pub(crate) const CALLS: [(&str, &str); 14] = [
    ("OSRT_API", "osrt"),
    ("PROFILER_OVERHEAD", "overhead"),
    ("CUPTI_ACTIVITY_KIND_OVERHEAD", "overhead"),
    ("MPI_P2P_EVENTS", "mpi"),
    ("MPI_START_WAIT_EVENTS", "mpi"),
    ("MPI_COLLECTIVES_EVENTS", "mpi"),
    ("MPI_OTHER_EVENTS", "mpi"),
    ("UCP_EVENTS", "ucx"),
    ("UCP_SUBMIT_EVENTS", "ucx"),
    ("UCP_PROGRESS_EVENTS", "ucx"),
    ("CUBLAS_EVENTS", "cublas"),
    ("CUDNN_EVENTS", "cudnn"),
    ("OPENMP_EVENT_KIND_THREAD", "openmp"),
    ("OPENMP_EVENT_KIND_PARALLEL", "openmp"),
];

/// A name of a call, examined once.
#[derive(Clone, Copy)]
struct CallName {
    shown: StrId,
    category: &'static str,
    launches: bool,
    launches_graph: bool,
}

/// A wait of the GPU or for it.
struct Wait {
    row: i64,
    start: i64,
    end: i64,
    place: Recorded,
    correlation: Option<i64>,
    kind: Option<i64>,
    event: Option<i64>,
    /// Name of the call with the same key.
    call: Option<StrId>,
}

impl Loader<'_> {
    /// Reads all calls of host threads.
    pub(crate) fn host(&mut self) -> Result<()> {
        let mut waits = self.waits()?;
        self.api(&mut waits)?;
        self.put_waits(waits)?;
        for (table, category) in CALLS {
            self.calls(table, category)?;
        }
        self.openacc()?;
        self.samples()?;
        if self.options.counters {
            self.scheduling()?;
        }
        Ok(())
    }

    fn waits(&mut self) -> Result<Waits> {
        let mut waits = Waits::default();
        if !self.wants("cuda_sync") {
            return Ok(waits);
        }
        let columns = [
            "start",
            "end",
            "globalPid",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "syncType",
            "eventId",
        ];
        self.export.scan(SYNC, columns, |row, values| {
            let [
                start,
                end,
                process,
                device,
                context,
                stream,
                correlation,
                kind,
                event,
            ] = values;
            let process = self.process_of_work(process)?;
            if !self.wants_process(process) {
                return Ok(());
            }
            let Some((start, end)) = self.within(SYNC, row, start, end) else {
                return Ok(());
            };
            self.count_row(SYNC);
            if self.linked.is_some() {
                self.extend(start, end);
                return Ok(());
            }
            let none = i64::from(u32::MAX);
            let wait = Wait {
                row,
                start,
                end,
                place: Recorded {
                    process,
                    device: device.as_int().unwrap_or(0),
                    context: context.as_int().unwrap_or(0),
                    stream: stream.as_int().unwrap_or(none),
                },
                correlation: correlation.as_int(),
                kind: kind.as_int(),
                event: event.as_int().filter(|event| *event != none),
                call: None,
            };
            if let Some(id) = wait.correlation.filter(|id| *id != 0) {
                waits
                    .by_call
                    .entry((process, id))
                    .or_default()
                    .push(waits.list.len());
            }
            waits.list.push(wait);
            Ok(())
        })?;
        Ok(waits)
    }

    /// Reads the calls of the CUDA runtime and driver.
    fn api(&mut self, waits: &mut Waits) -> Result<()> {
        let mut chains = Chains::new(self)?;
        let mut names: FxHashMap<i64, CallName> = FxHashMap::default();
        let columns = [
            "start",
            "end",
            "eventClass",
            "globalTid",
            "correlationId",
            "nameId",
            "returnValue",
            "callchainId",
        ];
        self.export.scan(RUNTIME, columns, |row, values| {
            let [
                start,
                end,
                class,
                thread,
                correlation,
                name,
                returned,
                chain,
            ] = values;
            if class.as_int() == Some(BACKTRACE) {
                return Ok(());
            }
            let Some(thread) = thread.as_int() else {
                self.bad_value(RUNTIME, row, "globalTid");
                return Ok(());
            };
            let process = ProcessKey::of(thread);
            if !self.wants_process(process) {
                return Ok(());
            }
            let (start, end, is_early) = match self.span(RUNTIME, row, start, end) {
                Span::Bad => return Ok(()),
                Span::Early(start, end) => (start, end, true),
                Span::Within(start, end) => (start, end, false),
            };
            let correlation = correlation.as_int().filter(|id| *id != 0);
            let call = match name.as_int().and_then(|id| names.get(&id)) {
                Some(call) => *call,
                None => {
                    let call = self.call_name(name)?;
                    if let Some(id) = name.as_int() {
                        names.insert(id, call);
                    }
                    call
                }
            };
            let category = match class.as_int() {
                Some(0) => "cuda_runtime",
                Some(1) => "cuda_driver",
                _ => call.category,
            };
            if let Some(id) = correlation {
                let key = (process, id);
                if !waits.by_call.is_empty()
                    && let Some(list) = waits.by_call.get(&key)
                {
                    for at in list {
                        if let Some(wait) = waits.list.get_mut(*at) {
                            wait.call = Some(call.shown);
                        }
                    }
                }
                if call.launches_graph && !is_early {
                    self.graph_launches.insert(key, false);
                }
            }
            if !is_early {
                self.count_row(RUNTIME);
                self.counts.api_calls += 1;
                if call.launches || call.launches_graph {
                    self.launching.insert(process);
                }
            }
            let is_kept = self
                .linked
                .as_ref()
                .is_none_or(|linked| correlation.is_some_and(|id| linked.contains(process, id)));
            if !is_kept {
                let has_chain = chains.id_of_call(thread, correlation, chain).is_some();
                self.counts.chains += u64::from(has_chain && !is_early);
                match is_early {
                    true => self.tally.before += 1,
                    false => self.extend(start, end),
                }
                return Ok(());
            }
            self.list.clear();
            self.int(self.keys.correlation, correlation);
            self.int(
                self.keys.returned,
                returned.as_int().filter(|value| *value != 0),
            );
            let has_chain = chains.id_of_call(thread, correlation, chain).is_some();
            self.counts.chains += u64::from(has_chain && !is_early);
            if let Some(text) = chains.of_call(self, thread, correlation, chain)?
                && let Some(key) = self.keys.call_chain
            {
                self.list.push(trace_model::Arg::text(key, text));
            }
            let Some(data) = self.data(Some(call.shown), category) else {
                return Ok(());
            };
            if !is_early {
                let lane = self.thread(thread);
                self.put(lane, start, Some(end), data);
                return Ok(());
            }
            // What it launched may have run in the collection; that is known later.
            self.tally.before += 1;
            if let Some(id) = correlation {
                let calls = self.early_calls.entry((process, id)).or_default();
                calls.push(EarlyCall {
                    thread,
                    start,
                    end,
                    data,
                });
            }
            Ok(())
        })
    }

    fn call_name(&mut self, name: Value<'_>) -> Result<CallName> {
        let text = match self.name(name)? {
            Some(id) => self.str(id).to_owned(),
            None => "unknown call".to_owned(),
        };
        let shown = without_version(&text);
        Ok(CallName {
            shown: self.builder.string(shown),
            category: if is_driver_call(shown) {
                "cuda_driver"
            } else {
                "cuda_runtime"
            },
            launches: is_launch_api(shown),
            launches_graph: is_graph_launch(shown),
        })
    }

    /// Puts waits on tracks beside the streams, which they overlap.
    fn put_waits(&mut self, waits: Waits) -> Result<()> {
        let is_new = self.session.is_at_least(SYNC_TYPES);
        let mut lanes = FreeLanes::new();
        let mut list = waits.list;
        list.sort_by_key(|wait| (wait.start, -wait.end, wait.row));
        for wait in list {
            let identity = self.identity.as_ref();
            let device = identity.map_or(wait.place.device, |i| {
                i.device(wait.place.process, wait.place.device)
            });
            let stream = self.waiting_stream(wait.place);
            let of_call = wait.call.and_then(|call| wait_of_call(self.str(call)));
            let of_type = match wait.kind {
                Some(1) if is_new => Some("Event Sync"),
                Some(2) if is_new => Some("Stream Wait Event"),
                Some(3) if is_new => Some("Stream Sync"),
                Some(4) if is_new => Some("Context Sync"),
                _ => None,
            };
            let name = of_call.or(of_type).unwrap_or("Sync");
            let key = (wait.place.process, device, stream);
            let track = match stream {
                Some(stream) => format!("GPU {device} stream {stream} sync"),
                None => format!("GPU {device} sync"),
            };
            let lane = lanes.get(key, (wait.start, wait.end), || {
                let kind = TrackKind::ProcessChildUnmerged;
                self.named_lane(wait.place.process, kind, &track)
            });
            self.list.clear();
            self.int(self.keys.device, Some(device));
            self.int(self.keys.stream, stream);
            self.int(self.keys.correlation, wait.correlation);
            self.int(self.keys.context, Some(wait.place.context));
            self.int(self.keys.event, wait.event);
            let name = self.builder.string(name);
            if let Some(data) = self.data(Some(name), "cuda_sync") {
                self.put(lane, wait.start, Some(wait.end), data);
            }
        }
        Ok(())
    }

    /// Reads a table of calls: start, end, thread, name.
    fn calls(&mut self, table: &str, category: &'static str) -> Result<()> {
        if !self.wants(category) {
            return Ok(());
        }
        let columns = [
            "start",
            "end",
            "globalTid",
            "nameId",
            "textId",
            "overheadType",
            "eventClass",
        ];
        let is_overhead = category == "overhead";
        let mut overhead = Vec::new();
        self.export.scan(table, columns, |row, values| {
            let [start, end, thread, name, text, kind, class] = values;
            if class.as_int() == Some(BACKTRACE) {
                return Ok(());
            }
            if thread
                .as_int()
                .is_some_and(|thread| !self.wants_process(ProcessKey::of(thread)))
            {
                return Ok(());
            }
            let Some((start, end)) = self.within(table, row, start, end) else {
                return Ok(());
            };
            self.count_row(table);
            if self.linked.is_some() {
                self.counts.overhead += u64::from(is_overhead);
                self.extend(start, end);
                return Ok(());
            }
            let name = match self.name(name)? {
                Some(name) => Some(name),
                None => self.name(text)?,
            };
            let name = match (name, kind.as_int()) {
                (None, Some(kind)) => Some(self.builder.string(overhead_name(kind))),
                (name, _) => name,
            };
            self.counts.overhead += u64::from(is_overhead);
            self.list.clear();
            let Some(data) = self.data(name, category) else {
                return Ok(());
            };
            match thread.as_int() {
                Some(thread) if !is_overhead => {
                    let lane = self.thread(thread);
                    self.put(lane, start, Some(end), data);
                }
                thread => overhead.push((thread, start, end, row, data)),
            }
            Ok(())
        })?;
        // It overlaps the calls of its thread, and itself.
        overhead.sort_by_key(|(thread, start, end, row, _)| (*thread, *start, *end, *row));
        let mut lanes = FreeLanes::new();
        for (thread, start, end, _, data) in overhead {
            let lane = lanes.get(thread, (start, end), || self.beside(thread, category));
            self.put(lane, start, Some(end), data);
        }
        Ok(())
    }

    /// Returns a lane on a track beside that of a thread.
    fn beside(&mut self, thread: Option<i64>, name: &str) -> LaneId {
        let process = thread.and_then(|thread| self.process(ProcessKey::of(thread)));
        let label = match thread {
            Some(thread) => format!("{name} {}", tid(thread)),
            None => name.to_owned(),
        };
        let label = self.builder.string(&label);
        let track = Track {
            name: Some(label),
            process,
            ..Track::new(TrackKind::ProcessChildUnmerged)
        };
        let track = self.builder.track(track);
        self.builder.lane(Some(track))
    }

    /// Reads the tables of OpenACC, whose names end in the kind of event.
    fn openacc(&mut self) -> Result<()> {
        let names = self.export.table_names();
        let tables: Vec<String> = names
            .filter(|name| is_openacc(name))
            .map(str::to_owned)
            .collect();
        for table in tables {
            self.calls(&table, "openacc")?;
        }
        Ok(())
    }

    /// Counts samples of the CPU, which no analysis reads.
    pub(crate) fn samples(&mut self) -> Result<()> {
        let table = "COMPOSITE_EVENTS";
        self.export.scan(table, ["start"], |_, [_]| {
            self.counts.samples += 1;
            self.count_row(table);
            Ok(())
        })
    }

    /// Reads when threads were off their CPU: from the row that takes one off to its next row.
    pub(crate) fn scheduling(&mut self) -> Result<()> {
        const TABLE: &str = "SCHED_EVENTS";
        struct Switch {
            thread: i64,
            time: i64,
            is_on: bool,
            state: Option<i64>,
            reason: Option<i64>,
        }
        if !self.wants("sched") {
            return Ok(());
        }
        let mut switches = Vec::new();
        let columns = [
            "start",
            "isSchedIn",
            "globalTid",
            "threadState",
            "threadBlock",
        ];
        self.export.scan(
            TABLE,
            columns,
            |row, [time, is_on, thread, state, reason]| {
                let Some(thread) = thread.as_int() else {
                    return Ok(());
                };
                if !self.wants_process(ProcessKey::of(thread)) {
                    return Ok(());
                }
                let Some(time) = time.as_int() else {
                    self.bad_value(TABLE, row, "start");
                    return Ok(());
                };
                if !is_plausible(time, time) {
                    self.far_time(TABLE, row);
                    return Ok(());
                }
                self.count_row(TABLE);
                switches.push(Switch {
                    thread,
                    time,
                    is_on: is_on.as_int() == Some(1),
                    state: state.as_int(),
                    reason: reason.as_int(),
                });
                Ok(())
            },
        )?;
        switches.sort_by_key(|switch| (switch.thread, switch.time, switch.is_on));
        let (states, reasons) = (
            self.labels("ENUM_SAMPLING_THREAD_STATE")?,
            self.labels("ENUM_SCHEDULING_THREAD_BLOCK")?,
        );
        let start_ns = self.session.start_ns();
        let mut lane: Option<(i64, LaneId)> = None;
        for at in 0..switches.len() {
            let (Some(off), Some(next)) = (switches.get(at), switches.get(at + 1)) else {
                continue;
            };
            if off.is_on || next.thread != off.thread || next.time < start_ns {
                continue;
            }
            let (thread, start, end) = (off.thread, off.time, next.time);
            let on = match lane {
                Some((of, lane)) if of == thread => lane,
                _ => {
                    let process = self.process(ProcessKey::of(thread));
                    let label = self.builder.string(&format!("off CPU {}", tid(thread)));
                    let track = self.builder.track(Track {
                        name: Some(label),
                        process,
                        ..Track::new(TrackKind::ProcessChild)
                    });
                    let new = self.builder.lane(Some(track));
                    lane = Some((thread, new));
                    new
                }
            };
            let (state, reason) = (off.state, off.reason);
            self.list.clear();
            for (key, value, labels) in [
                (self.keys.state, state, &states),
                (self.keys.reason, reason, &reasons),
            ] {
                match value.and_then(|value| labels.get(&value)) {
                    Some(label) => self.arg_text(key, label),
                    None => self.int(key, value),
                }
            }
            let name = self.builder.string("off CPU");
            if let Some(data) = self.data(Some(name), "sched") {
                self.put(on, start, Some(end), data);
            }
        }
        Ok(())
    }

    /// Reads the labels of an enumeration.
    fn labels(&mut self, table: &str) -> Result<FxHashMap<i64, String>> {
        let mut labels = FxHashMap::default();
        self.export
            .scan(table, ["id", "label", "name"], |_, [id, label, name]| {
                let label = crate::strings::text(label).or_else(|| crate::strings::text(name));
                if let (Some(id), Some(label)) = (id.as_int(), label) {
                    labels.insert(id, label);
                }
                Ok(())
            })?;
        Ok(labels)
    }
}

/// Waits, and which belong to a call.
#[derive(Default)]
struct Waits {
    list: Vec<Wait>,
    by_call: FxHashMap<(ProcessKey, i64), Vec<usize>>,
}

/// Returns `true` for the tables of OpenACC, whose names end in the kind of event.
pub(crate) fn is_openacc(table: &str) -> bool {
    table.starts_with("CUPTI_ACTIVITY_KIND_OPENACC")
}

/// Returns the name of a call without the version that its recorder adds: `cudaLaunchKernel_v7000`.
pub(crate) fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((base, version))
            if version.len() >= 4 && version.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            base
        }
        _ => name,
    }
}

/// Returns `true` for calls of the driver: `cuLaunchKernel`, but not `cudaLaunchKernel` or `cublasCreate`.
fn is_driver_call(name: &str) -> bool {
    let rest = name.strip_prefix("cu");
    rest.and_then(|rest| rest.chars().next())
        .is_some_and(|first| first.is_ascii_uppercase())
}

/// Returns what a call waits for.
fn wait_of_call(name: &str) -> Option<&'static str> {
    Some(match name {
        name if name.contains("WaitEvent") => "Stream Wait Event",
        name if name.contains("StreamSynchronize") => "Stream Sync",
        name if name.contains("EventSynchronize") => "Event Sync",
        name if name.contains("DeviceSynchronize") || name.contains("CtxSynchronize") => {
            "Context Sync"
        }
        _ => return None,
    })
}

fn overhead_name(kind: i64) -> &'static str {
    match kind {
        1 => "Driver compiler",
        65_536 => "Buffer flush",
        131_072 => "Instrumentation",
        196_608 => "Resource creation",
        262_144 => "Runtime triggered module loading",
        327_680 => "Lazy function loading",
        393_216 => "Command buffer full",
        458_752 => "Activity buffer request",
        524_288 => "UVM activity initialisation",
        _ => "Profiler overhead",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_calls() {
        assert_eq!(
            without_version("cudaLaunchKernel_v7000"),
            "cudaLaunchKernel"
        );
        assert_eq!(
            without_version("cuMemcpyHtoDAsync_v2"),
            "cuMemcpyHtoDAsync_v2"
        );
        assert_eq!(without_version("cudaMalloc_v3020"), "cudaMalloc");
        assert!(is_driver_call("cuLaunchKernelEx"));
        assert!(!is_driver_call("cudaLaunchKernel") && !is_driver_call("cublasCreate_v2"));
    }
}
