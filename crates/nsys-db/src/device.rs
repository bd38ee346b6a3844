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

/// The common columns of a row.
struct Common<'v> {
    row: i64,
    start: Value<'v>,
    end: Value<'v>,
    place: Recorded,
    correlation: Option<i64>,
}

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

    fn common<'v>(&mut self, row: i64, values: [Value<'v>; 7]) -> Result<Common<'v>> {
        let [start, end, process, device, context, stream, correlation] = values;
        Ok(Common {
            row,
            start,
            end,
            place: Recorded {
                process: self.process_of_work(process)?,
                device: device.as_int().unwrap_or(0),
                context: context.as_int().unwrap_or(0),
                stream: stream.as_int().unwrap_or(0),
            },
            correlation: correlation.as_int(),
        })
    }

    /// Checks an activity, and finds its place; the arguments that all activities have go to the list.
    fn begin(
        &mut self,
        table: &'static str,
        common: &Common<'_>,
        spots: &mut Spots,
    ) -> Option<(i64, i64, LaneId)> {
        if !self.wants_process(common.place.process) {
            return None;
        }
        let (start, end) = self.within(table, common.row, common.start, common.end)?;
        self.count_row(table);
        self.counts.device_work += 1;
        let process = common.place.process;
        if process.is_known() {
            self.working.insert(process);
        } else {
            self.counts.unattributed += 1;
        }
        if let Some(id) = common.correlation.filter(|id| *id != 0) {
            let key = (process, id);
            if !self.graph_launches.is_empty()
                && let Some(found) = self.graph_launches.get_mut(&key)
            {
                *found = true;
            }
            if !self.early_calls.is_empty()
                && let Some(calls) = self.early_calls.remove(&key)
            {
                for call in calls {
                    self.counts.before = self.counts.before.saturating_sub(1);
                    let lane = self.thread(call.thread);
                    self.put(lane, call.start, Some(call.end), call.data);
                }
            }
        }
        let spot = self.spot(spots, common.place);
        self.list.clear();
        self.int(self.keys.device, Some(spot.device));
        self.int(self.keys.stream, Some(spot.stream));
        self.int(self.keys.correlation, common.correlation);
        self.int(self.keys.context, Some(common.place.context));
        Some((start, end, spot.lane))
    }

    fn end(
        &mut self,
        (start, end, lane): (i64, i64, LaneId),
        name: Option<StrId>,
        category: &'static str,
    ) {
        if let Some(data) = self.data(name, category) {
            self.put(lane, start, Some(end), data);
        }
    }

    fn kernels(&mut self, spots: &mut Spots) -> Result<()> {
        let columns = [
            "start",
            "end",
            "globalPid",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
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
        self.export.scan(KERNEL, columns, |row, values| {
            let [
                start,
                end,
                process,
                device,
                context,
                stream,
                correlation,
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
            let own = [start, end, process, device, context, stream, correlation];
            let common = self.common(row, own)?;
            let Some(at) = self.begin(KERNEL, &common, spots) else {
                return Ok(());
            };
            self.triple(self.keys.grid, [grid_x, grid_y, grid_z]);
            self.triple(self.keys.block, [block_x, block_y, block_z]);
            self.int(self.keys.registers, registers.as_int());
            if let (Some(fixed), Some(dynamic)) = (fixed.as_int(), dynamic.as_int()) {
                self.int(self.keys.shared, Some(fixed.saturating_add(dynamic)));
            }
            if cluster_x.as_int().is_some_and(|x| x > 0) {
                self.triple(self.keys.cluster, [cluster_x, cluster_y, cluster_z]);
            }
            if let Some(node) = node.as_int().filter(|node| *node != 0) {
                self.counts.kernels_in_graphs += 1;
                self.int(self.keys.graph_node, Some(node));
                self.int(self.keys.graph, graph.as_int());
            }
            let mut name = None;
            for value in [demangled, short, mangled] {
                name = self.name(value)?;
                if name.is_some() {
                    break;
                }
            }
            self.end(at, name, "kernel");
            Ok(())
        })
    }

    fn memcpys(&mut self, spots: &mut Spots) -> Result<()> {
        let columns = [
            "start",
            "end",
            "globalPid",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "bytes",
            "copyKind",
            "srcKind",
            "dstKind",
            "graphNodeId",
            "copyCount",
        ];
        let mut names: FxHashMap<[Option<i64>; 3], StrId> = FxHashMap::default();
        self.export.scan(MEMCPY, columns, |row, values| {
            let [
                start,
                end,
                process,
                device,
                context,
                stream,
                correlation,
                bytes,
                kind,
                from,
                to,
                node,
                copies,
            ] = values;
            let own = [start, end, process, device, context, stream, correlation];
            let common = self.common(row, own)?;
            let Some(at) = self.begin(MEMCPY, &common, spots) else {
                return Ok(());
            };
            self.int(self.keys.bytes, bytes.as_int());
            self.int(
                self.keys.copies,
                copies.as_int().filter(|copies| *copies > 1),
            );
            self.int(
                self.keys.graph_node,
                node.as_int().filter(|node| *node != 0),
            );
            let kinds = [kind.as_int(), from.as_int(), to.as_int()];
            let builder = &mut self.builder;
            let name = *names.entry(kinds).or_insert_with(|| {
                let [kind, from, to] = kinds;
                let (from, to) = (memory_kind(from), memory_kind(to));
                builder.string(&format!("Memcpy {} ({from} -> {to})", copy_kind(kind)))
            });
            self.end(at, Some(name), "gpu_memcpy");
            Ok(())
        })
    }

    fn memsets(&mut self, spots: &mut Spots) -> Result<()> {
        let columns = [
            "start",
            "end",
            "globalPid",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "bytes",
            "value",
            "memKind",
            "graphNodeId",
        ];
        self.export.scan(MEMSET, columns, |row, values| {
            let [
                start,
                end,
                process,
                device,
                context,
                stream,
                correlation,
                bytes,
                value,
                kind,
                node,
            ] = values;
            let own = [start, end, process, device, context, stream, correlation];
            let common = self.common(row, own)?;
            let Some(at) = self.begin(MEMSET, &common, spots) else {
                return Ok(());
            };
            self.int(self.keys.bytes, bytes.as_int());
            self.int(self.keys.value, value.as_int());
            self.int(
                self.keys.graph_node,
                node.as_int().filter(|node| *node != 0),
            );
            let name = self
                .builder
                .string(&format!("Memset ({})", memory_kind(kind.as_int())));
            self.end(at, Some(name), "gpu_memset");
            Ok(())
        })
    }

    fn graphs(&mut self, spots: &mut Spots) -> Result<()> {
        let columns = [
            "start",
            "end",
            "globalPid",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "graphId",
            "graphExecId",
        ];
        self.export.scan(GRAPH, columns, |row, values| {
            let [
                start,
                end,
                process,
                device,
                context,
                stream,
                correlation,
                graph,
                exec,
            ] = values;
            let own = [start, end, process, device, context, stream, correlation];
            let common = self.common(row, own)?;
            let Some(at) = self.begin(GRAPH, &common, spots) else {
                return Ok(());
            };
            self.counts.graphs += 1;
            self.counts.graph_ns = self
                .counts
                .graph_ns
                .saturating_add(at.1.saturating_sub(at.0));
            let (graph, exec) = (graph.as_int(), exec.as_int());
            self.int(self.keys.graph, graph);
            self.int(self.keys.graph_exec, exec);
            let shown = |id: Option<i64>| id.map_or_else(|| "?".to_owned(), |id| id.to_string());
            let name = format!("CUDA graph {} exec {}", shown(graph), shown(exec));
            let name = self.builder.string(&name);
            self.end(at, Some(name), "cuda_graph");
            Ok(())
        })
    }

    fn decompressions(&mut self, spots: &mut Spots) -> Result<()> {
        let columns = [
            "start",
            "end",
            "globalPid",
            "deviceId",
            "contextId",
            "streamId",
            "correlationId",
            "bytes",
        ];
        self.export.scan(DECOMPRESS, columns, |row, values| {
            let [
                start,
                end,
                process,
                device,
                context,
                stream,
                correlation,
                bytes,
            ] = values;
            let own = [start, end, process, device, context, stream, correlation];
            let common = self.common(row, own)?;
            let Some(at) = self.begin(DECOMPRESS, &common, spots) else {
                return Ok(());
            };
            self.int(self.keys.bytes, bytes.as_int());
            let name = self.builder.string("Decompress");
            self.end(at, Some(name), "gpu_memcpy");
            Ok(())
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
