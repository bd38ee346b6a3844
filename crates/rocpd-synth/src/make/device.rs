//! Device activity: dispatches, memcpy, memory.

use rusqlite::types::Value;

use super::{COPIES, COUNTERS, KERNELS, Rank, int, text};
use crate::database::Error;

impl Rank<'_> {
    pub(super) fn dispatch(
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
        // Every seventh kernel does not wait for the previous one, so they overlap.
        let waits = id % 7 != 3;
        let start = if waits {
            (launched + 2_000).max(self.free[place])
        } else {
            launched + 1_500
        };
        let end = start + duration;
        self.free[place] = self.free[place].max(end + 200);
        // The host runs at most a millisecond ahead of the devices.
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

    pub(super) fn copy(&mut self, thread: i64, step: u32) -> Result<(), Error> {
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

    /// Allocates memory; every third step frees the last allocation instead, and its address is
    /// reused.
    pub(super) fn allocate(&mut self, thread: i64, step: u32) -> Result<(), Error> {
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

    pub(super) fn memory(
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
}
