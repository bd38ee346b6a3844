//! The tables of the format.

/// Returns the tables of a generation: 3.0.0 and 3.0.3 to 3.0.5 differ in columns.
pub(crate) fn tables(suffix: &str, guid: &str, generation: u32) -> String {
    let id = "id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL";
    let own = format!("{id}, guid TEXT DEFAULT \"{guid}\" NOT NULL");
    let json = "extdata JSONB DEFAULT \"{}\" NOT NULL";
    let place = "nid INTEGER NOT NULL, pid INTEGER NOT NULL";
    let mut out = String::new();
    let mut table = |name: &str, columns: String| {
        out += &format!("CREATE TABLE `rocpd_{name}{suffix}` ({columns});\n");
    };
    table(
        "metadata",
        format!("{id}, tag TEXT NOT NULL, value TEXT NOT NULL"),
    );
    table(
        "string",
        format!("{own}, string TEXT NOT NULL UNIQUE ON CONFLICT ABORT"),
    );
    table(
        "info_node",
        format!(
            "{own}, hash BIGINT NOT NULL UNIQUE, machine_id TEXT NOT NULL UNIQUE, system_name TEXT, hostname TEXT, release TEXT, version TEXT, hardware_name TEXT, domain_name TEXT"
        ),
    );
    table(
        "info_process",
        format!(
            "{own}, nid INTEGER NOT NULL, ppid INTEGER, pid INTEGER NOT NULL, init BIGINT, fini BIGINT, start BIGINT, \"end\" BIGINT, command TEXT, environment JSONB DEFAULT \"{{}}\" NOT NULL, {json}"
        ),
    );
    table(
        "info_thread",
        format!(
            "{own}, nid INTEGER NOT NULL, ppid INTEGER, pid INTEGER NOT NULL, tid INTEGER NOT NULL, name TEXT, start BIGINT, \"end\" BIGINT, {json}"
        ),
    );
    table(
        "info_agent",
        format!(
            "{own}, {place}, type TEXT CHECK (type IN ('CPU', 'GPU', 'NIC')), absolute_index INTEGER, logical_index INTEGER, type_index INTEGER, uuid INTEGER, name TEXT, model_name TEXT, vendor_name TEXT, product_name TEXT, user_name TEXT, {json}"
        ),
    );
    table("info_queue", format!("{own}, {place}, name TEXT, {json}"));
    table("info_stream", format!("{own}, {place}, name TEXT, {json}"));
    table(
        "info_pmc",
        format!(
            "{own}, {place}, agent_id INTEGER, target_arch TEXT, event_code INT, instance_id INTEGER, name TEXT NOT NULL, symbol TEXT NOT NULL, description TEXT, long_description TEXT DEFAULT \"\", component TEXT, units TEXT DEFAULT \"\", value_type TEXT, block TEXT, expression TEXT, is_constant INTEGER, is_derived INTEGER, {json}"
        ),
    );
    table(
        "info_code_object",
        format!(
            "{own}, {place}, agent_id INTEGER, uri TEXT, load_base BIGINT, load_size BIGINT, load_delta BIGINT, storage_type TEXT, {json}"
        ),
    );
    table(
        "info_kernel_symbol",
        format!(
            "{own}, {place}, code_object_id INTEGER NOT NULL, kernel_name TEXT, display_name TEXT, kernel_object INTEGER, kernarg_segment_size INTEGER, kernarg_segment_alignment INTEGER, group_segment_size INTEGER, private_segment_size INTEGER, sgpr_count INTEGER, arch_vgpr_count INTEGER, accum_vgpr_count INTEGER, {json}"
        ),
    );
    table(
        "track",
        format!("{own}, nid INTEGER NOT NULL, pid INTEGER, tid INTEGER, name_id INTEGER, {json}"),
    );
    table(
        "event",
        format!(
            "{own}, category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, call_stack JSONB DEFAULT \"{{}}\" NOT NULL, line_info JSONB DEFAULT \"{{}}\" NOT NULL, {json}"
        ),
    );
    table(
        "arg",
        format!(
            "{own}, event_id INTEGER NOT NULL, position INTEGER NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL, value TEXT, {json}"
        ),
    );
    let spm = if generation >= 3 {
        ", sample_id INTEGER, xcc INTEGER, shader_engine INTEGER, instance INTEGER"
    } else {
        ""
    };
    table(
        "pmc_event",
        format!(
            "{own}, event_id INTEGER, pmc_id INTEGER NOT NULL, value REAL DEFAULT 0.0, extdata JSONB DEFAULT \"{{}}\"{spm}"
        ),
    );
    table(
        "region",
        format!(
            "{own}, {place}, tid INTEGER NOT NULL, start BIGINT NOT NULL, \"end\" BIGINT NOT NULL, name_id INTEGER NOT NULL, event_id INTEGER, {json}"
        ),
    );
    table(
        "sample",
        format!(
            "{own}, track_id INTEGER NOT NULL, timestamp BIGINT NOT NULL, event_id INTEGER, {json}"
        ),
    );
    let graph = if generation >= 2 {
        ", graph_exec_id INTEGER, graph_node_id INTEGER"
    } else {
        ""
    };
    let replay = if generation >= 5 {
        ", replay_pass INTEGER"
    } else {
        ""
    };
    table(
        "kernel_dispatch",
        format!(
            "{own}, {place}, tid INTEGER, agent_id INTEGER NOT NULL, kernel_id INTEGER NOT NULL, dispatch_id INTEGER NOT NULL, queue_id INTEGER NOT NULL, stream_id INTEGER NOT NULL, start BIGINT NOT NULL, \"end\" BIGINT NOT NULL, private_segment_size INTEGER, group_segment_size INTEGER, workgroup_size_x INTEGER NOT NULL, workgroup_size_y INTEGER NOT NULL, workgroup_size_z INTEGER NOT NULL, grid_size_x INTEGER NOT NULL, grid_size_y INTEGER NOT NULL, grid_size_z INTEGER NOT NULL, region_name_id INTEGER, event_id INTEGER, {json}{graph}{replay}"
        ),
    );
    table(
        "memory_copy",
        format!(
            "{own}, {place}, tid INTEGER, start BIGINT NOT NULL, \"end\" BIGINT NOT NULL, name_id INTEGER NOT NULL, dst_agent_id INTEGER, dst_address INTEGER, src_agent_id INTEGER, src_address INTEGER, size INTEGER NOT NULL, queue_id INTEGER, stream_id INTEGER, region_name_id INTEGER, event_id INTEGER, {json}{graph}"
        ),
    );
    table(
        "memory_allocate",
        format!(
            "{own}, {place}, tid INTEGER, agent_id INTEGER, type TEXT, level TEXT, start BIGINT NOT NULL, \"end\" BIGINT NOT NULL, address INTEGER, size INTEGER NOT NULL, queue_id INTEGER, stream_id INTEGER, event_id INTEGER, {json}"
        ),
    );
    out
}
