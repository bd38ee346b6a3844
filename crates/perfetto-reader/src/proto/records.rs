//! Counts the packets of each kind in a file.

use rustc_hash::FxHashMap;

/// Names of the fields of `TracePacket` by number. Packets of other fields are counted as
/// `field N`.
const NAMES: &[(u32, &str)] = &[
    (1, "ftrace_events"),
    (2, "process_tree"),
    (4, "inode_file_map"),
    (5, "chrome_events"),
    (6, "clock_snapshot"),
    (7, "sys_stats"),
    (9, "process_stats"),
    (11, "track_event"),
    (33, "trace_config"),
    (34, "ftrace_stats"),
    (35, "trace_stats"),
    (36, "synchronization_marker"),
    (37, "profile_packet"),
    (38, "battery"),
    (39, "android_log"),
    (40, "power_rails"),
    (43, "process_descriptor"),
    (44, "thread_descriptor"),
    (45, "system_info"),
    (46, "trigger"),
    (47, "packages_list"),
    (48, "chrome_benchmark_metadata"),
    (49, "perfetto_metatrace"),
    (50, "compressed_packets"),
    (51, "chrome_metadata"),
    (52, "gpu_counter_event"),
    (53, "gpu_render_stage_event"),
    (54, "streaming_profile_packet"),
    (56, "heap_graph"),
    (57, "graphics_frame_event"),
    (60, "track_descriptor"),
    (61, "module_symbols"),
    (62, "vulkan_memory_event"),
    (63, "gpu_log"),
    (64, "deobfuscation_mapping"),
    (65, "vulkan_api_event"),
    (66, "perf_sample"),
    (67, "cpu_info"),
    (68, "smaps_packet"),
    (69, "service_event"),
    (70, "initial_display_state"),
    (71, "gpu_mem_total_event"),
    (72, "extension_descriptor"),
    (73, "memory_tracker_snapshot"),
    (76, "frame_timeline_event"),
    (77, "android_energy_estimation_breakdown"),
    (78, "ui_state"),
    (82, "translation_table"),
    (84, "statsd_atom"),
    (86, "android_system_property"),
    (89, "trace_uuid"),
    (90, "track_event_range_of_interest"),
    (91, "entity_state_residency"),
    (95, "etw_events"),
    (107, "remote_clock_sync"),
    (109, "chrome_trigger"),
    (113, "clone_snapshot_trigger"),
    (117, "generic_kernel_task_state_event"),
    (118, "generic_kernel_cpu_freq_event"),
    (120, "generic_kernel_task_rename_event"),
    (122, "generic_kernel_process_tree"),
    (126, "trace_attributes"),
    (128, "gpu_info"),
    (129, "generic_gpu_frequency_event"),
    (133, "zstd_compressed_packets"),
    (134, "concurrent_session_event"),
    (135, "stack_sample"),
];

/// Fields below this have a counter in the array.
const SMALL: usize = 160;

/// Packets by the field of their payload.
#[derive(Debug)]
pub(crate) struct Records {
    small: [u64; SMALL],
    large: FxHashMap<u32, u64>,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            small: [0; SMALL],
            large: FxHashMap::default(),
        }
    }
}

impl Records {
    #[inline]
    pub(crate) fn count(&mut self, field: u32) {
        match self.small.get_mut(field as usize) {
            Some(slot) => *slot += 1,
            // Real numbers are far smaller; a broken file must not exhaust the memory.
            None if self.large.len() < 4096 || self.large.contains_key(&field) => {
                *self.large.entry(field).or_default() += 1;
            }
            None => {}
        }
    }

    /// Returns the number of packets with a track event.
    pub(crate) fn track_events(&self) -> u64 {
        self.small.get(11).copied().unwrap_or(0)
    }

    /// Returns names and counts, ascending by field number.
    pub(crate) fn list(&self) -> Vec<(String, u64)> {
        let mut all: Vec<(u32, u64)> = (0..)
            .zip(self.small)
            .filter(|&(_, count)| count > 0)
            .collect();
        let mut large: Vec<(u32, u64)> = self.large.iter().map(|(&f, &n)| (f, n)).collect();
        large.sort();
        all.extend(large);
        all.into_iter().map(|(f, n)| (name(f), n)).collect()
    }
}

fn name(field: u32) -> String {
    match NAMES.binary_search_by_key(&field, |&(n, _)| n) {
        Ok(at) => NAMES[at].1.to_owned(),
        Err(_) => format!("field {field}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_by_name_in_the_order_of_the_numbers() {
        assert!(NAMES.is_sorted_by_key(|n| n.0));
        let mut records = Records::default();
        for field in [1_000_000, 11, 1, 11, 3] {
            records.count(field);
        }
        let list = records.list();
        let list: Vec<(&str, u64)> = list.iter().map(|(n, c)| (n.as_str(), *c)).collect();
        assert_eq!(
            list,
            [
                ("ftrace_events", 1),
                ("field 3", 1),
                ("track_event", 2),
                ("field 1000000", 1)
            ]
        );
    }
}
