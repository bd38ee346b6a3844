//! Writes the info tables of a rank.

use rusqlite::types::Value;

use super::{COUNTERS, KERNELS, Rank, int, text};
use crate::database::Error;

impl Rank<'_> {
    /// Writes threads, agents, queues, streams, kernels, counters.
    pub(super) fn describe(&mut self) -> Result<(), Error> {
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
}
