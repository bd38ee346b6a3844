//! An imagined job, rank by rank.

use std::path::{Path, PathBuf};

use rusqlite::types::Value;

use crate::database::{Database, Error};
use crate::random::Random;
use crate::shape::Shape;
use crate::truth::Truth;

/// A database and what is true of it.
#[derive(Debug, Clone)]
pub struct Made {
    /// The file.
    pub path: PathBuf,
    /// What is true of it.
    pub truth: Truth,
}

/// Writes one database for each rank into a folder.
///
/// # Errors
///
/// When files cannot be written.
pub fn generate(folder: &Path, shape: &Shape) -> Result<Vec<Made>, Error> {
    std::fs::create_dir_all(folder)?;
    (0..shape.ranks)
        .map(|rank| one(folder, shape, rank))
        .collect()
}

const KERNELS: [(&str, &str, i64); 7] = [
    (
        "Cijk_Alik_Bljk_HHS_BH_MT128x128x32_SE_K1.kd",
        "Cijk_Alik_Bljk_HHS_BH_MT128x128x32_SE_K1",
        90_000,
    ),
    (
        "_ZN2ck11kernel_gemmIfLi256ELb1EEEvNS_4ArgsE.kd",
        "void ck::kernel_gemm<float, 256, true>(ck::Args)",
        60_000,
    ),
    (
        "_Z12flash_attn_fPKfS0_Pfi.kd",
        "flash_attn_f(float const*, float const*, float*, int)",
        42_000,
    ),
    (
        "_Z14rmsnorm_kernelIfEvPT_S1_.kd",
        "void rmsnorm_kernel<float>(float*, float*)",
        5_000,
    ),
    (
        "_Z15silu_mul_kernelPfS_.kd",
        "silu_mul_kernel(float*, float*)",
        4_900,
    ),
    (
        "zeilen\numbruch.kd",
        "odd \"name\", with\nnewline, comma and \u{fc}ml\u{e4}ut",
        1_500,
    ),
    ("_Z8one_shotv.kd", "one_shot()", 900),
];

const COPIES: [&str; 3] = [
    "MEMORY_COPY_HOST_TO_DEVICE",
    "MEMORY_COPY_DEVICE_TO_HOST",
    "MEMORY_COPY_DEVICE_TO_DEVICE",
];

const COUNTERS: [&str; 2] = ["SQ_WAVES", "GRBM_GUI_ACTIVE"];

/// One rank under construction.
struct Rank<'a> {
    shape: &'a Shape,
    db: Database,
    random: Random,
    truth: Truth,
    nid: i64,
    pid: i64,
    stack_id: i64,
    dispatch_id: i64,
    /// Where the host's clock stands.
    now: i64,
    /// When each stream is free.
    free: Vec<i64>,
    /// Addresses in use and their sizes.
    live: Vec<(i64, i64)>,
    live_bytes: i64,
    tracks: Vec<Option<i64>>,
}

fn int(value: i64) -> Value {
    Value::Integer(value)
}

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

fn one(folder: &Path, shape: &Shape, rank: u32) -> Result<Made, Error> {
    let node = i64::from(rank % shape.nodes.max(1));
    let number = i64::from(rank);
    let mut random = Random(
        shape
            .seed
            .wrapping_mul(0x1000_0001)
            .wrapping_add(u64::from(rank)),
    );
    let word = random.next();
    let guid = format!(
        "{:08x}-{:04x}-7{:03x}-8{:03x}-{:012x}",
        word >> 32,
        word >> 16 & 0xffff,
        word & 0xfff,
        random.next() & 0xfff,
        random.next() & 0xffff_ffff_ffff
    );
    let suffix = match shape.without_suffix {
        true => String::new(),
        false => format!("_{}", guid.replace('-', "_")),
    };
    let pid = if shape.equal_pids {
        4000
    } else {
        4000 + number
    };
    let hostname = format!("host-{node}");
    let path = folder.join(format!("{hostname}_{pid}_{rank}_results.db"));
    let mut db = Database::create(&path, &guid, &suffix, shape.generation)?;
    let nid = 1_000_003 + node;
    let begin = 1_700_000_000_000_000 + shape.time_offset_ns + number * 1_000;
    let version = match shape.generation {
        0 => "3".to_owned(),
        n => format!("3.0.{n}"),
    };
    for (tag, value) in [
        ("schema_version", version),
        ("uuid", suffix),
        ("guid", guid.clone()),
    ] {
        db.add("metadata", "tag, value", [text(tag), text(value)])?;
    }
    db.add_with_id(
        "info_node",
        "hash, machine_id, system_name, hostname, release, version",
        nid,
        [
            int(nid * 77),
            text(format!("machine-{node}")),
            text("Linux"),
            text(hostname.clone()),
            text("6.8.0"),
            text("#1 SMP"),
        ],
    )?;
    db.add_with_id(
        "info_process",
        "nid, ppid, pid, init, fini, start, \"end\", command, environment",
        pid,
        [
            int(nid),
            int(pid - 1),
            int(pid),
            int(begin),
            int(begin + 60_000_000_000),
            int(begin),
            Value::Null,
            text(format!("/opt/bin/serve --rank {rank}")),
            text(format!("{{\"OMPI_COMM_WORLD_RANK\": \"{rank}\"}}")),
        ],
    )?;
    let truth = Truth {
        guid,
        pid,
        hostname,
        bounds_ns: (i64::MAX, i64::MIN),
        ..Truth::default()
    };
    let streams = shape.streams as usize + 1;
    let mut this = Rank {
        shape,
        db,
        random,
        truth,
        nid,
        pid,
        stack_id: 0,
        dispatch_id: 0,
        now: begin + 1_000_000,
        free: vec![0; streams],
        live: Vec::new(),
        live_bytes: 0,
        tracks: vec![None; shape.threads as usize],
    };
    this.describe()?;
    for step in 0..shape.steps {
        this.step(step)?;
    }
    if shape.orphans {
        this.orphans()?;
    }
    this.truth.live_bytes_end = this.live_bytes;
    this.db.finish()?;
    Ok(Made {
        path,
        truth: this.truth,
    })
}

impl Rank<'_> {
    /// Threads, agents, queues, streams, kernels, counters.
    fn describe(&mut self) -> Result<(), Error> {
        let (nid, pid) = (int(self.nid), int(self.pid));
        for thread in 0..i64::from(self.shape.threads) {
            let name = if thread == 0 {
                text("main-loop")
            } else {
                Value::Null
            };
            let tid = self.tid(thread);
            self.db.add_with_id(
                "info_thread",
                "nid, ppid, pid, tid, name",
                tid,
                [nid.clone(), int(self.pid - 1), pid.clone(), int(tid), name],
            )?;
        }
        let agent = "nid, pid, type, absolute_index, logical_index, type_index, name, product_name, extdata";
        self.db.add_with_id(
            "info_agent",
            agent,
            0,
            [
                nid.clone(),
                pid.clone(),
                text("CPU"),
                int(0),
                int(0),
                int(0),
                text("EPYC"),
                text("EPYC"),
                text("{\"node_id\": 0}"),
            ],
        )?;
        for gpu in 0..i64::from(self.shape.gpus) {
            let id = 4 + 2 * gpu;
            self.db.add_with_id(
                "info_agent",
                agent,
                id,
                [
                    nid.clone(),
                    pid.clone(),
                    text("GPU"),
                    int(id),
                    int(1 + gpu),
                    int(gpu),
                    text("gfx942"),
                    text("MI300X"),
                    text(format!("{{\"node_id\": {id}, \"cu_count\": 304}}")),
                ],
            )?;
        }
        for (table, kind) in [("info_queue", "Queue"), ("info_stream", "Stream")] {
            for at in 0..=i64::from(self.shape.streams) {
                let name = if at == 0 {
                    format!("Default {kind}")
                } else {
                    format!("{kind} {}", at - 1)
                };
                self.db.add_with_id(
                    table,
                    "nid, pid, name",
                    at,
                    [nid.clone(), pid.clone(), text(name)],
                )?;
            }
        }
        self.db.add_with_id(
            "info_code_object",
            "nid, pid, agent_id, uri, load_base, load_size, load_delta, storage_type",
            1,
            [
                nid.clone(),
                pid.clone(),
                int(4),
                text("file:///opt/lib1.so"),
                int(4096),
                int(65_536),
                int(0),
                text("FILE"),
            ],
        )?;
        for (at, (mangled, name, _)) in (1..).zip(KERNELS) {
            self.db.add_with_id("info_kernel_symbol", "nid, pid, code_object_id, kernel_name, display_name, kernel_object, kernarg_segment_size, kernarg_segment_alignment, group_segment_size, private_segment_size, sgpr_count, arch_vgpr_count, accum_vgpr_count", at, [
                nid.clone(), pid.clone(), int(1), text(mangled), text(name), int(at * 256), int(64), int(16), int(1024 * at), int(0), int(32), int(64), int(8),
            ])?;
        }
        for (at, name) in (1..).zip(COUNTERS) {
            self.db.add_with_id("info_pmc", "nid, pid, agent_id, target_arch, name, symbol, description, component, value_type, is_constant, is_derived", at, [
                nid.clone(), pid.clone(), int(4), text("GPU"), text(name), text(name), text(format!("{name} description")), text("rocm"), text("ABS"), int(0), int(0),
            ])?;
        }
        Ok(())
    }

    fn tid(&self, thread: i64) -> i64 {
        self.pid + thread * 1000
    }

    fn event(
        &mut self,
        category: &str,
        stack: i64,
        parent: i64,
        extdata: Option<String>,
    ) -> Result<i64, Error> {
        let category = self.db.string(category)?;
        self.db.add(
            "event",
            "category_id, stack_id, parent_stack_id, correlation_id, extdata",
            [
                int(category),
                int(stack),
                int(parent),
                int(0),
                text(extdata.unwrap_or_else(|| "{}".to_owned())),
            ],
        )
    }

    fn bounds(&mut self, start: i64, end: i64) {
        let bounds = &mut self.truth.bounds_ns;
        *bounds = (bounds.0.min(start), bounds.1.max(end));
    }

    /// A region of a domain.
    fn region(
        &mut self,
        thread: i64,
        (start, end): (i64, i64),
        category: &str,
        name: &str,
        (stack, parent): (i64, i64),
    ) -> Result<i64, Error> {
        let event = self.event(category, stack, parent, None)?;
        let name_id = self.db.string(name)?;
        let tid = self.tid(thread);
        self.db.add(
            "region",
            "nid, pid, tid, start, \"end\", name_id, event_id",
            [
                int(self.nid),
                int(self.pid),
                int(tid),
                int(start),
                int(end),
                int(name_id),
                int(event),
            ],
        )?;
        let domain = category.split('_').next().unwrap_or_default().to_owned();
        self.truth
            .domains
            .entry(domain)
            .or_default()
            .entry(name.to_owned())
            .or_default()
            .add(end - start);
        self.truth.regions += 1;
        self.bounds(start, end);
        Ok(event)
    }

    /// A marker range.
    fn marker(
        &mut self,
        thread: i64,
        (start, end): (i64, i64),
        message: &str,
        (stack, parent): (i64, i64),
    ) -> Result<(), Error> {
        let event = self.event(
            "MARKER_CORE_RANGE_API",
            stack,
            parent,
            Some(format!("{{\"message\": \"{message}\"}}")),
        )?;
        let name_id = self.db.string("roctxRangePushA")?;
        let tid = self.tid(thread);
        self.db.add(
            "region",
            "nid, pid, tid, start, \"end\", name_id, event_id",
            [
                int(self.nid),
                int(self.pid),
                int(tid),
                int(start),
                int(end),
                int(name_id),
                int(event),
            ],
        )?;
        self.truth
            .markers
            .entry(message.to_owned())
            .or_default()
            .add(end - start);
        self.truth.regions += 1;
        self.bounds(start, end);
        Ok(())
    }

    fn next_stack(&mut self) -> i64 {
        self.stack_id += 1;
        self.stack_id
    }

    fn step(&mut self, step: u32) -> Result<(), Error> {
        let thread = i64::from(step % self.shape.threads.max(1));
        let step_stack = self.next_stack();
        let step_start = self.now;
        for layer in 0..self.shape.layers {
            let layer_stack = self.next_stack();
            let layer_start = self.now;
            for launch in 0..self.shape.launches {
                self.launch(thread, layer_stack, step == 0 && layer == 0 && launch == 0)?;
            }
            let end = self.now;
            self.marker(
                thread,
                (layer_start, end),
                &format!("layer_{layer}"),
                (layer_stack, step_stack),
            )?;
            self.now += 50;
        }
        self.copy(thread, step)?;
        self.allocate(thread, step)?;
        if step % 2 == 1 {
            let stack = self.next_stack();
            let start = self.now;
            let end = start + self.random.between(5_000, 15_000);
            self.region(
                thread,
                (start, end),
                "RCCL_API",
                "ncclAllReduce",
                (stack, 0),
            )?;
            self.now = end + 100;
        }
        self.mark(thread, step)?;
        let end = self.now;
        let message = if step == 0 { "prefill" } else { "decode" };
        self.marker(thread, (step_start, end), message, (step_stack, 0))?;
        self.now += 500;
        Ok(())
    }

    /// A launch, the HSA calls in it, and the kernel.
    fn launch(&mut self, thread: i64, parent: i64, first: bool) -> Result<(), Error> {
        let stack = self.next_stack();
        let start = self.now;
        let end = start + self.random.between(1_000, 2_500);
        if self.shape.hsa {
            let a = start + 100;
            let b = a + self.random.between(50, 400);
            let own = self.next_stack();
            let event = self.region(
                thread,
                (a, b),
                "HSA_CORE_API",
                "hsa_signal_store_screlease",
                (own, stack),
            )?;
            if self.shape.args {
                self.arg(event, "hsa_signal_t", "signal", &own.to_string(), "{}")?;
            }
        }
        let stream = self.random.between(0, i64::from(self.shape.streams));
        let event = self.region(
            thread,
            (start, end),
            "HIP_RUNTIME_API_EXT",
            "hipLaunchKernel",
            (stack, parent),
        )?;
        if self.shape.args {
            self.arg(
                event,
                "hipStream_t",
                "stream",
                &stream.to_string(),
                &format!("{{\"stream_id\": {stream}}}"),
            )?;
        }
        self.now = end + self.random.between(20, 200);
        let last = i64::try_from(KERNELS.len()).unwrap_or(1) - 1;
        // The last kernel runs once only.
        let kernel = if first {
            last
        } else {
            self.random.between(0, last - 1)
        };
        self.dispatch(thread, stack, stream, kernel, end)
    }

    fn arg(
        &mut self,
        event: i64,
        kind: &str,
        name: &str,
        value: &str,
        extdata: &str,
    ) -> Result<(), Error> {
        self.db.add(
            "arg",
            "event_id, position, type, name, value, extdata",
            [
                int(event),
                int(0),
                text(kind),
                text(name),
                text(value),
                text(extdata),
            ],
        )?;
        Ok(())
    }

    fn dispatch(
        &mut self,
        thread: i64,
        stack: i64,
        stream: i64,
        kernel: i64,
        launched: i64,
    ) -> Result<(), Error> {
        self.dispatch_id += 1;
        let id = self.dispatch_id;
        let at = usize::try_from(kernel).unwrap_or(0);
        let (_, name, typical) = KERNELS[at];
        let mut duration = typical + self.random.between(-typical / 8, typical / 8);
        if id % 97 == 50 {
            duration *= 25;
            self.truth.outliers.push(id);
        }
        let place = usize::try_from(stream).unwrap_or(0);
        // Every seventh kernel does not wait for the one before: they overlap.
        let waits = id % 7 != 3;
        let start = if waits {
            (launched + 2_000).max(self.free[place])
        } else {
            launched + 1_500
        };
        let end = start + duration;
        self.free[place] = self.free[place].max(end + 200);
        // The host does not run ahead of the devices by more than a millisecond.
        self.now = self.now.max(end - 1_000_000);
        let agent = 4 + 2 * self.random.between(0, i64::from(self.shape.gpus) - 1);
        let event = self.event("KERNEL_DISPATCH", stack, stack, None)?;
        let orphan = self.shape.orphans && id % 11 == 5;
        let region = if orphan {
            Value::Null
        } else {
            int(self.db.string("")?)
        };
        self.db.add("kernel_dispatch", "nid, pid, tid, agent_id, kernel_id, dispatch_id, queue_id, stream_id, start, \"end\", private_segment_size, group_segment_size, workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, region_name_id, event_id", [
            int(self.nid), int(self.pid), int(self.tid(thread)), int(agent), int(kernel + 1), int(id), int(stream), int(stream),
            int(start), int(end), int(0), int(1024), int(64), int(2), int(1), int(4096), int(2), int(1), region, int(event),
        ])?;
        if orphan {
            self.truth.lost_dispatches += 1;
        } else {
            self.truth.dispatches += 1;
            self.truth
                .kernels
                .entry(name.to_owned())
                .or_default()
                .add(duration);
        }
        *self.truth.busy_ns.entry(agent).or_default() += duration;
        self.bounds(start, end);
        if id % 2 == 0 {
            for (pmc, name) in (1..).zip(COUNTERS) {
                for _ in 0..self.shape.counter_instances {
                    let value = self.random.between(0, 50_000);
                    #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
                    let real = value as f64;
                    self.db.add(
                        "pmc_event",
                        "event_id, pmc_id, value",
                        [int(event), int(pmc), Value::Real(real)],
                    )?;
                    *self.truth.counters.entry(name.to_owned()).or_default() += value;
                }
            }
        }
        Ok(())
    }

    fn copy(&mut self, thread: i64, step: u32) -> Result<(), Error> {
        let stack = self.next_stack();
        let start = self.now;
        let end = start + self.random.between(2_000, 5_000);
        self.region(
            thread,
            (start, end),
            "HIP_RUNTIME_API_EXT",
            "hipMemcpyAsync",
            (stack, 0),
        )?;
        self.now = end + 100;
        let direction = COPIES[step as usize % COPIES.len()];
        let (src, dst) = match step % 3 {
            0 => (0, 4),
            1 => (4, 0),
            _ => (4, 4),
        };
        let size = self.random.between(1, 2048) * 4096;
        let begin = end + 1_000;
        let stop = begin + size / 40 + 1_000;
        let event = self.event("MEMORY_COPY", stack, stack, None)?;
        let orphan = self.shape.orphans && step == 3;
        let name = self.db.string(direction)?;
        self.db.add("memory_copy", "nid, pid, tid, start, \"end\", name_id, dst_agent_id, dst_address, src_agent_id, src_address, size, stream_id, event_id", [
            int(self.nid), int(self.pid), int(self.tid(thread)), int(begin), int(stop), int(name), int(dst), int(4096),
            if orphan { Value::Null } else { int(src) }, int(8192), int(size), int(0), int(event),
        ])?;
        if orphan {
            self.truth.lost_copies += 1;
        } else {
            self.truth
                .copies
                .entry(direction.to_owned())
                .or_default()
                .add(stop - begin);
            *self
                .truth
                .copied_bytes
                .entry(direction.to_owned())
                .or_default() += size;
        }
        *self.truth.busy_ns.entry(dst).or_default() += stop - begin;
        self.bounds(begin, stop);
        Ok(())
    }

    /// Memory comes and goes; the second of every three is freed, and its address used again.
    fn allocate(&mut self, thread: i64, step: u32) -> Result<(), Error> {
        let frees = step % 3 == 2 && !self.live.is_empty();
        let (address, size, kind) = match self.live.pop() {
            Some((address, size)) if frees => (address, size, "FREE"),
            kept => {
                self.live.extend(kept);
                let address =
                    0x7000_0000_0000 + i64::try_from(self.live.len()).unwrap_or(0) * 0x1000_0000;
                (address, self.random.between(1, 64) * 65_536, "ALLOC")
            }
        };
        let (agent, stored) = if frees {
            (Value::Null, 0)
        } else {
            (int(4), size)
        };
        self.memory(thread, (kind, "REAL"), agent, address, stored)?;
        if frees {
            self.live_bytes -= size;
        } else {
            self.live.push((address, size));
            self.live_bytes += size;
            self.truth.live_bytes_peak = self.truth.live_bytes_peak.max(self.live_bytes);
        }
        if step % 4 == 1 {
            self.memory(thread, ("ALLOC", "SCRATCH"), int(4), 0, 262_144)?;
            self.memory(thread, ("FREE", "SCRATCH"), Value::Null, 0, 0)?;
        }
        Ok(())
    }

    fn memory(
        &mut self,
        thread: i64,
        (kind, level): (&str, &str),
        agent: Value,
        address: i64,
        size: i64,
    ) -> Result<(), Error> {
        let stack = self.next_stack();
        let start = self.now;
        let end = start + self.random.between(500, 9_000);
        self.now = end + 100;
        let scratch = level == "SCRATCH";
        let category = if scratch {
            "SCRATCH_MEMORY"
        } else {
            "MEMORY_ALLOCATION"
        };
        let event = self.event(category, stack, 0, None)?;
        self.db.add("memory_allocate", "nid, pid, tid, agent_id, type, level, start, \"end\", address, size, queue_id, stream_id, event_id, extdata", [
            int(self.nid), int(self.pid), int(self.tid(thread)), agent, text(kind), text(level), int(start), int(end), int(address),
            int(size), int(0), int(0), int(event), text(if scratch { "{\"flags\": \"2\"}" } else { "{}" }),
        ])?;
        self.truth
            .allocations
            .entry(kind.to_owned())
            .or_default()
            .add(end - start);
        if scratch {
            self.truth
                .scratch
                .entry(kind.to_owned())
                .or_default()
                .add(end - start);
        }
        self.bounds(start, end);
        Ok(())
    }

    /// A mark: a sample on a track of its thread.
    fn mark(&mut self, thread: i64, step: u32) -> Result<(), Error> {
        let name = self.db.string("MARKER_CORE_API")?;
        let place = usize::try_from(thread).unwrap_or(0);
        let track = match self.tracks[place] {
            Some(track) => track,
            None => {
                let tid = self.tid(thread);
                self.db.add(
                    "track",
                    "nid, pid, tid, name_id",
                    [int(self.nid), int(self.pid), int(tid), int(name)],
                )?
            }
        };
        self.tracks[place] = Some(track);
        let stack = self.next_stack();
        let message = format!("token_{}", step % 4);
        let event = self.event(
            "MARKER_CORE_API",
            stack,
            0,
            Some(format!("{{\"message\": \"{message}\"}}")),
        )?;
        let now = self.now;
        self.db.add(
            "sample",
            "track_id, timestamp, event_id",
            [int(track), int(now), int(event)],
        )?;
        self.truth.markers.entry(message).or_default().add(0);
        self.truth.samples += 1;
        self.bounds(now, now);
        Ok(())
    }

    /// A region without event.
    fn orphans(&mut self) -> Result<(), Error> {
        let name = self.db.string("hipOrphan")?;
        let (start, end) = (self.now, self.now + 777);
        self.db.add(
            "region",
            "nid, pid, tid, start, \"end\", name_id, event_id",
            [
                int(self.nid),
                int(self.pid),
                int(self.tid(0)),
                int(start),
                int(end),
                int(name),
                Value::Null,
            ],
        )?;
        self.truth.lost_regions += 1;
        self.bounds(start, end);
        Ok(())
    }
}
