//! GPU activities: kernels, memcpys, memsets, graphs, synchronisation, memory.

use rustc_hash::FxHashMap;
use sqlite_scan::Value;
use trace_model::{LaneId, StrId, TrackKind, is_plausible};

use crate::error::Result;
use crate::identity::{Recorded, copy_kind, memory_kind};
use crate::ids::ProcessKey;
use crate::load::Loader;

const KERNEL: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const MEMCPY: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
const MEMSET: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
const GRAPH: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
const DECOMPRESS: &str = "CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS";

/// Tables of activities that occupy a GPU.
pub(crate) const TABLES: [&str; 5] = [KERNEL, MEMCPY, MEMSET, GRAPH, DECOMPRESS];

/// A stream that CUDA uses for "none".
const NO_STREAM: i64 = u32::MAX as i64;

/// Lane and numbers of a place.
#[derive(Clone, Copy)]
struct Spot {
    lane: LaneId,
    device: i64,
    stream: i64,
}

/// Lanes of streams, created when first used.
#[derive(Default)]
struct Spots {
    known: FxHashMap<Recorded, Spot>,
    lanes: FxHashMap<(ProcessKey, i64, i64), LaneId>,
    last: Option<(Recorded, Spot)>,
}

/// Columns that all activities have.
pub(crate) const COMMON: [&str; 7] = [
    "start",
    "end",
    "globalPid",
    "deviceId",
    "contextId",
    "streamId",
    "correlationId",
];

impl Loader<'_> {
    /// Reads all activities.
    pub(crate) fn device(&mut self) -> Result<()> {
        let mut spots = Spots::default();
        self.kernels(&mut spots)?;
        self.memcpys(&mut spots)?;
        self.memsets(&mut spots)?;
        self.graphs(&mut spots)?;
        self.decompressions(&mut spots)?;
        self.cuda_events(&mut spots)?;
        self.memory_events()
    }

    /// Reads what happens on devices and does not occupy them.
    pub(crate) fn events_beside_work(&mut self) -> Result<()> {
        self.cuda_events(&mut Spots::default())?;
        self.memory_events()
    }

    fn spot(&mut self, spots: &mut Spots, place: Recorded) -> Spot {
        if let Some((last, spot)) = spots.last
            && last == place
        {
            return spot;
        }
        let spot = match spots.known.get(&place) {
            Some(spot) => *spot,
            None => {
                let identity = self.identity.as_ref();
                let device =
                    identity.map_or(place.device, |i| i.device(place.process, place.device));
                let stream = identity.map_or(place.stream, |i| i.stream(place));
                let key = (place.process, device, stream);
                let lane = match spots.lanes.get(&key) {
                    Some(lane) => *lane,
                    None => {
                        let name = format!("GPU {device} stream {stream}");
                        let lane = self.named_lane(place.process, TrackKind::ProcessChild, &name);
                        spots.lanes.insert(key, lane);
                        lane
                    }
                };
                let spot = Spot {
                    lane,
                    device,
                    stream,
                };
                spots.known.insert(place, spot);
                spot
            }
        };
        spots.last = Some((place, spot));
        spot
    }

    /// Reads a table of activities, which has `more` columns than those that all have; `ALL` is the number of both. `describe` adds
    /// arguments for them and returns the name.
    fn activities<const MORE: usize, const ALL: usize>(
        &mut self,
        spots: &mut Spots,
        (table, category): (&'static str, &'static str),
        more: [&'static str; MORE],
        mut describe: impl FnMut(&mut Self, (i64, i64), [Value<'_>; MORE]) -> Result<Option<StrId>>,
    ) -> Result<()> {
        const { assert!(ALL == MORE + COMMON.len()) };
        let columns: [&str; ALL] = std::array::from_fn(|at| match at.checked_sub(COMMON.len()) {
            None => COMMON[at],
            Some(at) => more[at],
        });
        self.export.scan(table, columns, |row, values| {
            let own: [Value<'_>; COMMON.len()] = std::array::from_fn(|at| values[at]);
            let more: [Value<'_>; MORE] = std::array::from_fn(|at| values[at + COMMON.len()]);
            let Some((times, lane)) = self.begin(table, row, own, spots)? else {
                return Ok(());
            };
            let name = describe(self, times, more)?;
            if let Some(data) = self.data(name, category) {
                self.put(lane, times.0, Some(times.1), data);
            }
            Ok(())
        })
    }

    /// Checks an activity, and finds its place; the arguments that all activities have go to the list.
    fn begin(
        &mut self,
        table: &'static str,
        row: i64,
        [start, end, process, device, context, stream, correlation]: [Value<'_>; COMMON.len()],
        spots: &mut Spots,
    ) -> Result<Option<((i64, i64), LaneId)>> {
        let place = Recorded {
            process: self.process_of_work(process)?,
            device: device.as_int().unwrap_or(0),
            context: context.as_int().unwrap_or(0),
            stream: stream.as_int().unwrap_or(0),
        };
        let process = place.process;
        if !self.wants_process(process) {
            return Ok(None);
        }
        let Some(times) = self.within(table, row, start, end) else {
            return Ok(None);
        };
        self.count_row(table);
        self.counts.device_work += 1;
        if process.is_known() {
            self.working.insert(process);
        } else {
            self.counts.unattributed += 1;
        }
        let correlation = correlation.as_int();
        if let Some(id) = correlation.filter(|id| *id != 0) {
            self.found_work_of((process, id));
        }
        let spot = self.spot(spots, place);
        self.list.clear();
        self.int(self.keys.device, Some(spot.device));
        self.int(self.keys.stream, Some(spot.stream));
        self.int(self.keys.correlation, correlation);
        self.int(self.keys.context, Some(place.context));
        Ok(Some((times, spot.lane)))
    }

    /// Marks a launch of a graph as recorded, and keeps the calls before the collection that launched the activity.
    fn found_work_of(&mut self, key: (ProcessKey, i64)) {
        if !self.graph_launches.is_empty()
            && let Some(found) = self.graph_launches.get_mut(&key)
        {
            *found = true;
        }
        if !self.early_calls.is_empty()
            && let Some(calls) = self.early_calls.remove(&key)
        {
            for call in calls {
                self.tally.before = self.tally.before.saturating_sub(1);
                let lane = self.thread(call.thread);
                self.put(lane, call.start, Some(call.end), call.data);
            }
        }
    }

    fn node(&mut self, node: Value<'_>) -> bool {
        let node = node.as_int().filter(|node| *node != 0);
        self.int(self.keys.graph_node, node);
        node.is_some()
    }

    fn kernels(&mut self, spots: &mut Spots) -> Result<()> {
        let columns = [
            "demangledName",
            "shortName",
            "mangledName",
            "registersPerThread",
            "gridX",
            "gridY",
            "gridZ",
            "blockX",
            "blockY",
            "blockZ",
            "staticSharedMemory",
            "dynamicSharedMemory",
            "graphNodeId",
            "graphId",
            "clusterX",
            "clusterY",
            "clusterZ",
        ];
        self.activities::<17, 24>(spots, (KERNEL, "kernel"), columns, |own, _, values| {
            let [
                demangled,
                short,
                mangled,
                registers,
                grid_x,
                grid_y,
                grid_z,
                block_x,
                block_y,
                block_z,
                fixed,
                dynamic,
                node,
                graph,
                cluster_x,
                cluster_y,
                cluster_z,
            ] = values;
            own.triple(own.keys.grid, [grid_x, grid_y, grid_z]);
            own.triple(own.keys.block, [block_x, block_y, block_z]);
            own.int(own.keys.registers, registers.as_int());
            if let (Some(fixed), Some(dynamic)) = (fixed.as_int(), dynamic.as_int()) {
                own.int(own.keys.shared, Some(fixed.saturating_add(dynamic)));
            }
            if cluster_x.as_int().is_some_and(|x| x > 0) {
                own.triple(own.keys.cluster, [cluster_x, cluster_y, cluster_z]);
            }
            if own.node(node) {
                own.counts.kernels_in_graphs += 1;
                own.int(own.keys.graph, graph.as_int());
            }
            for value in [demangled, short, mangled] {
                let name = own.name(value)?;
                if name.is_some() {
                    return Ok(name);
                }
            }
            Ok(None)
        })
    }

    fn memcpys(&mut self, spots: &mut Spots) -> Result<()> {
        let columns = [
            "bytes",
            "copyKind",
            "srcKind",
            "dstKind",
            "graphNodeId",
            "copyCount",
        ];
        let mut names: FxHashMap<[Option<i64>; 3], StrId> = FxHashMap::default();
        let table = (MEMCPY, "gpu_memcpy");
        self.activities::<6, 13>(spots, table, columns, |own, _, values| {
            let [bytes, kind, from, to, node, copies] = values;
            own.int(own.keys.bytes, bytes.as_int());
            let copies = copies.as_int().filter(|copies| *copies > 1);
            own.int(own.keys.copies, copies);
            own.node(node);
            let kinds = [kind.as_int(), from.as_int(), to.as_int()];
            let name = *names.entry(kinds).or_insert_with(|| {
                let [kind, from, to] = kinds;
                own.builder.string(&memcpy_name(kind, from, to))
            });
            Ok(Some(name))
        })
    }

    fn memsets(&mut self, spots: &mut Spots) -> Result<()> {
        let columns = ["bytes", "value", "memKind", "graphNodeId"];
        let table = (MEMSET, "gpu_memset");
        self.activities::<4, 11>(spots, table, columns, |own, _, values| {
            let [bytes, value, kind, node] = values;
            own.int(own.keys.bytes, bytes.as_int());
            own.int(own.keys.value, value.as_int());
            own.node(node);
            let name = memset_name(kind.as_int());
            Ok(Some(own.builder.string(&name)))
        })
    }

    fn graphs(&mut self, spots: &mut Spots) -> Result<()> {
        let columns = ["graphId", "graphExecId"];
        let table = (GRAPH, "cuda_graph");
        self.activities::<2, 9>(spots, table, columns, |own, (start, end), values| {
            own.counts.graphs += 1;
            let time = end.saturating_sub(start);
            own.counts.graph_ns = own.counts.graph_ns.saturating_add(time);
            let [graph, exec] = values.map(|id| id.as_int());
            own.int(own.keys.graph, graph);
            own.int(own.keys.graph_exec, exec);
            let name = graph_name(graph, exec);
            Ok(Some(own.builder.string(&name)))
        })
    }

    fn decompressions(&mut self, spots: &mut Spots) -> Result<()> {
        let table = (DECOMPRESS, "gpu_memcpy");
        self.activities::<1, 8>(spots, table, ["bytes"], |own, _, [bytes]| {
            own.int(own.keys.bytes, bytes.as_int());
            Ok(Some(own.builder.string("Decompress")))
        })
    }

    /// Records of CUDA events: instants where the GPU's time was recorded.
    fn cuda_events(&mut self, spots: &mut Spots) -> Result<()> {
        const TABLE: &str = "CUPTI_ACTIVITY_KIND_CUDA_EVENT";
        if !self.wants("cuda_event") {
            return Ok(());
        }
        let columns = [
            "timestamp",
            "globalPid",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "eventId",
        ];
        self.export.scan(TABLE, columns, |row, values| {
            let [time, process, device, context, stream, correlation, event] = values;
            self.count_row(TABLE);
            let Some(time) = time.as_int().filter(|time| *time != 0) else {
                self.counts.events_without_time += 1;
                return Ok(());
            };
            if !is_plausible(time, time) {
                self.far_time(TABLE, row);
                return Ok(());
            }
            let place = Recorded {
                process: self.process_of_work(process)?,
                device: device.as_int().unwrap_or(0),
                context: context.as_int().unwrap_or(0),
                stream: stream.as_int().unwrap_or(0),
            };
            if time < self.session.start_ns() || !self.wants_process(place.process) {
                return Ok(());
            }
            let spot = self.spot(spots, place);
            self.list.clear();
            self.int(self.keys.device, Some(spot.device));
            self.int(self.keys.stream, Some(spot.stream));
            self.int(self.keys.correlation, correlation.as_int());
            self.int(self.keys.event, event.as_int());
            let name = self.builder.string("CUDA event");
            if let Some(data) = self.data(Some(name), "cuda_event") {
                self.put(spot.lane, time, Some(time), data);
            }
            Ok(())
        })
    }

    /// Allocations and releases of GPU memory, as PyTorch's allocator records its own.
    fn memory_events(&mut self) -> Result<()> {
        const TABLE: &str = "CUDA_GPU_MEMORY_USAGE_EVENTS";
        /// PyTorch's number of CUDA devices.
        const CUDA: i64 = 1;
        if !self.wants("cpu_instant_event") {
            return Ok(());
        }
        let columns = [
            "start",
            "globalPid",
            "deviceId",
            "bytes",
            "memoryOperationType",
            "memKind",
            "address",
        ];
        let mut lanes: FxHashMap<ProcessKey, LaneId> = FxHashMap::default();
        self.export.scan(TABLE, columns, |row, values| {
            let [time, process, device, bytes, operation, kind, address] = values;
            let Some(time) = time.as_int() else {
                self.bad_value(TABLE, row, "start");
                return Ok(());
            };
            if !is_plausible(time, time) {
                self.far_time(TABLE, row);
                return Ok(());
            }
            let process = self.process_of_work(process)?;
            if time < self.session.start_ns() || !self.wants_process(process) {
                return Ok(());
            }
            self.count_row(TABLE);
            let lane = match lanes.get(&process) {
                Some(lane) => *lane,
                None => {
                    let lane = self.named_lane(process, TrackKind::ProcessChild, "GPU memory");
                    lanes.insert(process, lane);
                    lane
                }
            };
            let ordinal = device.as_int().unwrap_or(0);
            let identity = self.identity.as_ref();
            let device = identity.map_or(ordinal, |identity| identity.device(process, ordinal));
            let bytes = bytes.as_int().unwrap_or(0);
            let change = match operation.as_int() {
                Some(0) => bytes,
                Some(1) => 0_i64.saturating_sub(bytes),
                _ => return Ok(()),
            };
            self.list.clear();
            self.int(self.keys.memory_bytes, Some(change));
            self.int(self.keys.device_id, Some(device));
            self.int(self.keys.device_type, Some(CUDA));
            self.int(self.keys.addr, address.as_int());
            self.arg_text(self.keys.memory_kind, memory_kind(kind.as_int()));
            let name = self.builder.string("[memory]");
            if let Some(data) = self.data(Some(name), "cpu_instant_event") {
                self.put(lane, time, Some(time), data);
            }
            Ok(())
        })
    }

    /// Returns the number of a stream in a wait; `None` where CUDA records none.
    pub(crate) fn waiting_stream(&self, place: Recorded) -> Option<i64> {
        let stream = self
            .identity
            .as_ref()
            .map_or(place.stream, |i| i.stream(place));
        (place.stream != NO_STREAM).then_some(stream)
    }
}

/// Name of a memcpy, as Kineto has it.
pub(crate) fn memcpy_name(kind: Option<i64>, from: Option<i64>, to: Option<i64>) -> String {
    let (from, to) = (memory_kind(from), memory_kind(to));
    format!("Memcpy {} ({from} -> {to})", copy_kind(kind))
}

/// Name of a memset.
pub(crate) fn memset_name(kind: Option<i64>) -> String {
    format!("Memset ({})", memory_kind(kind))
}

/// Name of a graph recorded as a whole.
pub(crate) fn graph_name(graph: Option<i64>, exec: Option<i64>) -> String {
    let shown = |id: Option<i64>| id.map_or_else(|| "?".to_owned(), |id| id.to_string());
    format!("CUDA graph {} exec {}", shown(graph), shown(exec))
}
