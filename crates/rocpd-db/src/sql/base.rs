//! The tables of the format as one generation has them, for SQL.

/// Tables and the names of their columns, with blanks between: those of all generations of 3.x.
pub(super) const BASE: [(&str, &str); 28] = [
    ("rocpd_metadata", "id tag value"),
    ("rocpd_string", "id guid string"),
    (
        "rocpd_info_node",
        "id guid hash machine_id system_name hostname release version hardware_name domain_name",
    ),
    (
        "rocpd_info_process",
        "id guid nid ppid pid init fini start end command environment extdata",
    ),
    (
        "rocpd_info_thread",
        "id guid nid ppid pid tid name start end extdata",
    ),
    (
        "rocpd_info_agent",
        "id guid nid pid type absolute_index logical_index type_index uuid name model_name vendor_name product_name user_name extdata",
    ),
    ("rocpd_info_queue", "id guid nid pid name extdata"),
    ("rocpd_info_stream", "id guid nid pid name extdata"),
    (
        "rocpd_info_pmc",
        "id guid nid pid agent_id target_arch event_code instance_id name symbol description long_description component units value_type block expression is_constant is_derived extdata spm_support",
    ),
    (
        "rocpd_info_code_object",
        "id guid nid pid agent_id uri load_base load_size load_delta storage_type extdata",
    ),
    (
        "rocpd_info_kernel_symbol",
        "id guid nid pid code_object_id kernel_name display_name kernel_object kernarg_segment_size kernarg_segment_alignment group_segment_size private_segment_size sgpr_count arch_vgpr_count accum_vgpr_count extdata",
    ),
    ("rocpd_track", "id guid nid pid tid name_id extdata"),
    (
        "rocpd_event",
        "id guid category_id stack_id parent_stack_id correlation_id call_stack line_info extdata",
    ),
    (
        "rocpd_arg",
        "id guid event_id position type name value extdata",
    ),
    (
        "rocpd_pmc_event",
        "id guid event_id pmc_id value extdata sample_id xcc shader_engine instance shader_array wgp",
    ),
    (
        "rocpd_region",
        "id guid nid pid tid start end name_id event_id extdata",
    ),
    (
        "rocpd_sample",
        "id guid track_id timestamp event_id extdata name_id",
    ),
    (
        "rocpd_kernel_dispatch",
        "id guid nid pid tid agent_id kernel_id dispatch_id queue_id stream_id start end private_segment_size group_segment_size workgroup_size_x workgroup_size_y workgroup_size_z grid_size_x grid_size_y grid_size_z region_name_id event_id extdata graph_exec_id graph_node_id replay_pass",
    ),
    (
        "rocpd_memory_copy",
        "id guid nid pid tid start end name_id dst_agent_id dst_address src_agent_id src_address size queue_id stream_id region_name_id event_id extdata graph_exec_id graph_node_id",
    ),
    (
        "rocpd_memory_allocate",
        "id guid nid pid tid agent_id type level start end address size queue_id stream_id event_id extdata",
    ),
    (
        "rocpd_graph_launch",
        "id guid nid pid tid agent_id queue_id start end graph_exec_id kernel_dispatch_count event_id",
    ),
    (
        "rocpd_hip_event",
        "id guid nid pid tid agent_id queue_id source_queue_id stream_id start end name_id hip_event_handle event_id extdata",
    ),
    ("rocpd_info_category", "id guid name"),
    ("rocpd_call_stack", "id guid event_id pc_id depth extdata"),
    (
        "rocpd_line_info",
        "id guid event_id source_code_id pc_id extdata",
    ),
    (
        "rocpd_info_pc",
        "id guid nid pid function address_id file line extdata",
    ),
    (
        "rocpd_info_address_range",
        "id guid nid pid address_base address_low address_high extdata",
    ),
    (
        "rocpd_info_source_code",
        "id guid nid pid address_id file line_number lines instructions extdata",
    ),
];

/// The columns of a table of [`BASE`].
pub(super) fn columns(list: &str) -> Vec<&str> {
    list.split(' ').collect()
}

/// Tables with a begin and an end, which a window applies to.
pub(super) const SPANS: [&str; 6] = [
    "rocpd_region",
    "rocpd_kernel_dispatch",
    "rocpd_memory_copy",
    "rocpd_memory_allocate",
    "rocpd_graph_launch",
    "rocpd_hip_event",
];

/// Columns that generation 4 keeps in the track of a record.
pub(super) const IN_TRACK: [&str; 6] = ["nid", "pid", "tid", "agent_id", "queue_id", "stream_id"];
