//! The views of the format, defined here: those stored in files are never used.
//!
//! `{table}` stands for the rows of one partition, so joins never cross processes; the unified view is the union over
//! partitions. Properties that are no JSON are NULL, so that one broken text does not take a whole view away.
//! `{each name: select}` inside an aggregate is such a union.

/// Name, and the select over one partition.
pub(super) const VIEWS: [(&str, &str); 23] = [
    (
        "code_objects",
        "SELECT CO.id, CO.guid, CO.nid, P.pid, A.absolute_index AS agent_abs_index, CO.uri, CO.load_base, CO.load_size, \
         CO.load_delta, CO.storage_type AS storage_type_str, CASE WHEN JSON_VALID(CO.extdata) THEN JSON_EXTRACT(CO.extdata, '$.size') END AS code_object_size, \
         CASE WHEN JSON_VALID(CO.extdata) THEN JSON_EXTRACT(CO.extdata, '$.storage_type') END AS storage_type, CASE WHEN JSON_VALID(CO.extdata) THEN JSON_EXTRACT(CO.extdata, '$.memory_base') END AS memory_base, \
         CASE WHEN JSON_VALID(CO.extdata) THEN JSON_EXTRACT(CO.extdata, '$.memory_size') END AS memory_size \
         FROM {info_code_object} CO JOIN {info_agent} A ON A.id = CO.agent_id AND A.guid = CO.guid \
         JOIN {info_process} P ON P.id = CO.pid AND P.guid = CO.guid",
    ),
    (
        "kernel_symbols",
        "SELECT KS.id, KS.guid, KS.nid, P.pid, KS.code_object_id, KS.kernel_name, KS.display_name, KS.kernel_object, \
         KS.kernarg_segment_size, KS.kernarg_segment_alignment, KS.group_segment_size, KS.private_segment_size, KS.sgpr_count, \
         KS.arch_vgpr_count, KS.accum_vgpr_count, CASE WHEN JSON_VALID(KS.extdata) THEN JSON_EXTRACT(KS.extdata, '$.size') END AS kernel_symbol_size, \
         CASE WHEN JSON_VALID(KS.extdata) THEN JSON_EXTRACT(KS.extdata, '$.kernel_id') END AS kernel_id, \
         CASE WHEN JSON_VALID(KS.extdata) THEN JSON_EXTRACT(KS.extdata, '$.kernel_code_entry_byte_offset') END AS kernel_code_entry_byte_offset, \
         CASE WHEN JSON_VALID(KS.extdata) THEN JSON_EXTRACT(KS.extdata, '$.formatted_kernel_name') END AS formatted_kernel_name, \
         CASE WHEN JSON_VALID(KS.extdata) THEN JSON_EXTRACT(KS.extdata, '$.demangled_kernel_name') END AS demangled_kernel_name, \
         CASE WHEN JSON_VALID(KS.extdata) THEN JSON_EXTRACT(KS.extdata, '$.truncated_kernel_name') END AS truncated_kernel_name, \
         CASE WHEN JSON_VALID(KS.extdata) THEN JSON_EXTRACT(KS.extdata, '$.kernel_address.handle') END AS kernel_address \
         FROM {info_kernel_symbol} KS JOIN {info_process} P ON P.id = KS.pid AND P.guid = KS.guid",
    ),
    (
        "processes",
        "SELECT N.id AS nid, N.machine_id, N.system_name, N.hostname, N.release AS system_release, N.version AS system_version, \
         P.guid, P.ppid, P.pid, P.init, P.start, P.\"end\", P.fini, P.command \
         FROM {info_process} P JOIN {info_node} N ON N.id = P.nid AND N.guid = P.guid",
    ),
    (
        "threads",
        "SELECT N.id AS nid, N.machine_id, N.system_name, N.hostname, N.release AS system_release, N.version AS system_version, \
         T.guid, P.ppid, P.pid, T.tid, T.start, T.\"end\", T.name \
         FROM {info_thread} T JOIN {info_process} P ON P.id = T.pid AND P.guid = T.guid \
         JOIN {info_node} N ON N.id = T.nid AND N.guid = T.guid",
    ),
    (
        "regions",
        "SELECT R.id, R.guid, {category} AS category, S.string AS name, R.nid, P.pid, T.tid, R.start, R.\"end\", \
         (R.\"end\" - R.start) AS duration, R.event_id, E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id, E.extdata, \
         E.call_stack, E.line_info \
         FROM {region} R JOIN {event} E ON E.id = R.event_id AND E.guid = R.guid \
         JOIN {string} S ON S.id = R.name_id AND S.guid = R.guid JOIN {info_process} P ON P.id = R.pid AND P.guid = R.guid \
         JOIN {info_thread} T ON T.id = R.tid AND T.guid = R.guid",
    ),
    (
        "region_args",
        "SELECT R.id, R.guid, R.nid, P.pid, A.type, A.name, A.value \
         FROM {arg} A JOIN {region} R ON R.event_id = A.event_id AND R.guid = A.guid \
         JOIN {info_process} P ON P.id = R.pid AND P.guid = R.guid",
    ),
    (
        "samples",
        "SELECT R.id, R.guid, {category} AS category, (SELECT string FROM {string} RS WHERE RS.id = COALESCE(R.name_id, TR.name_id) AND RS.guid = R.guid) AS name, TR.nid, \
         P.pid, T.tid, R.timestamp, R.event_id, E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id, E.extdata, \
         E.call_stack, E.line_info {from_samples}",
    ),
    (
        "sample_regions",
        "SELECT R.id, R.guid, {category} AS category, (SELECT string FROM {string} RS WHERE RS.id = COALESCE(R.name_id, TR.name_id) AND RS.guid = R.guid) AS name, TR.nid, \
         P.pid, T.tid, R.timestamp AS start, R.timestamp AS \"END\", (R.timestamp - R.timestamp) AS duration, R.event_id, \
         E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id, E.extdata, E.call_stack, E.line_info {from_samples}",
    ),
    (
        "kernels",
        "SELECT K.id, K.guid, T.tid, {category} AS category, R.string AS region, {kernel_name} AS name, K.nid, P.pid, \
         A.absolute_index AS agent_abs_index, A.logical_index AS agent_log_index, A.type_index AS agent_type_index, \
         A.type AS agent_type, S.code_object_id, K.kernel_id, K.dispatch_id, K.stream_id, K.queue_id, Q.name AS queue, \
         ST.name AS stream, K.start, K.\"end\", (K.\"end\" - K.start) AS duration, K.grid_size_x AS grid_x, \
         K.grid_size_y AS grid_y, K.grid_size_z AS grid_z, K.workgroup_size_x AS workgroup_x, K.workgroup_size_y AS workgroup_y, \
         K.workgroup_size_z AS workgroup_z, K.group_segment_size AS lds_size, K.private_segment_size AS scratch_size, \
         S.arch_vgpr_count AS vgpr_count, S.accum_vgpr_count, S.sgpr_count, S.group_segment_size AS static_lds_size, \
         S.private_segment_size AS static_scratch_size, E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id{since_3_0_2}{event_since_3_0_3} \
         FROM {kernel_dispatch} K JOIN {info_agent} A ON A.id = K.agent_id AND A.guid = K.guid \
         JOIN {event} E ON E.id = K.event_id AND E.guid = K.guid JOIN {string} R ON R.id = K.region_name_id AND R.guid = K.guid \
         JOIN {info_kernel_symbol} S ON S.id = K.kernel_id AND S.guid = K.guid \
         LEFT JOIN {info_stream} ST ON ST.id = K.stream_id AND ST.guid = K.guid \
         JOIN {info_queue} Q ON Q.id = K.queue_id AND Q.guid = K.guid JOIN {info_process} P ON P.id = Q.pid AND P.guid = Q.guid \
         JOIN {info_thread} T ON T.id = K.tid AND T.guid = K.guid",
    ),
    (
        "pmc_info",
        "SELECT PI.id, PI.guid, PI.nid, P.pid, A.absolute_index AS agent_abs_index, PI.is_constant, PI.is_derived, PI.name, \
         PI.description, PI.block, PI.expression \
         FROM {info_pmc} PI JOIN {info_agent} A ON A.id = PI.agent_id AND A.guid = PI.guid \
         JOIN {info_process} P ON P.id = PI.pid AND P.guid = PI.guid",
    ),
    (
        "pmc_events",
        "SELECT PE.id, PE.guid, PE.pmc_id, E.id AS event_id, {category} AS category, \
         (SELECT display_name FROM {info_kernel_symbol} KS WHERE KS.id = K.kernel_id) AS name, K.nid, P.pid, K.dispatch_id, \
         K.start, K.\"end\", (K.\"end\" - K.start) AS duration, PI.name AS counter_name, PE.value AS counter_value \
         FROM {pmc_event} PE JOIN {info_pmc} PI ON PI.id = PE.pmc_id AND PI.guid = PE.guid \
         JOIN {event} E ON E.id = PE.event_id AND E.guid = PE.guid \
         JOIN {kernel_dispatch} K ON K.event_id = PE.event_id AND K.guid = PE.guid \
         JOIN {info_process} P ON P.id = K.pid AND P.guid = K.guid",
    ),
    (
        "events_args",
        "SELECT E.id AS event_id, {category} AS category, E.stack_id, E.parent_stack_id, E.correlation_id, \
         A.position AS arg_position, A.type AS arg_type, A.name AS arg_name, A.value AS arg_value, E.call_stack, E.line_info, \
         A.extdata FROM {arg} A JOIN {event} E ON E.id = A.event_id AND E.guid = A.guid",
    ),
    (
        "stream_args",
        "SELECT A.id AS argument_id, A.event_id, A.position AS arg_position, A.type AS arg_type, A.value AS arg_value, \
         CASE WHEN JSON_VALID(A.extdata) THEN JSON_EXTRACT(A.extdata, '$.stream_id') END AS stream_id, S.nid, P.pid, S.name AS stream_name, S.extdata \
         FROM {arg} A JOIN {info_stream} S ON S.id = CASE WHEN JSON_VALID(A.extdata) THEN JSON_EXTRACT(A.extdata, '$.stream_id') END AND S.guid = A.guid \
         JOIN {info_process} P ON P.id = S.pid AND P.guid = S.guid WHERE A.name = 'stream'",
    ),
    (
        "memory_copies",
        "SELECT M.id, M.guid, {category} AS category, M.nid, P.pid, T.tid, M.start, M.\"end\", (M.\"end\" - M.start) AS duration, \
         S.string AS name, R.string AS region_name, M.stream_id, M.queue_id, ST.name AS stream_name, Q.name AS queue_name, M.size, \
         DA.name AS dst_device, DA.absolute_index AS dst_agent_abs_index, DA.logical_index AS dst_agent_log_index, \
         DA.type_index AS dst_agent_type_index, DA.type AS dst_agent_type, M.dst_address, SA.name AS src_device, \
         SA.absolute_index AS src_agent_abs_index, SA.logical_index AS src_agent_log_index, \
         SA.type_index AS src_agent_type_index, SA.type AS src_agent_type, M.src_address, E.stack_id, E.parent_stack_id, \
         E.correlation_id AS corr_id{copy_since_3_0_2} \
         FROM {memory_copy} M JOIN {string} S ON S.id = M.name_id AND S.guid = M.guid \
         LEFT JOIN {string} R ON R.id = M.region_name_id AND R.guid = M.guid \
         JOIN {info_agent} DA ON DA.id = M.dst_agent_id AND DA.guid = M.guid \
         JOIN {info_agent} SA ON SA.id = M.src_agent_id AND SA.guid = M.guid \
         LEFT JOIN {info_queue} Q ON Q.id = M.queue_id AND Q.guid = M.guid \
         LEFT JOIN {info_stream} ST ON ST.id = M.stream_id AND ST.guid = M.guid \
         JOIN {event} E ON E.id = M.event_id AND E.guid = M.guid JOIN {info_process} P ON P.id = M.pid AND P.guid = M.guid \
         JOIN {info_thread} T ON T.id = M.tid AND T.guid = M.guid",
    ),
    (
        "memory_allocations",
        "SELECT M.id, M.guid, {category} AS category, M.nid, P.pid, T.tid, M.start, M.\"end\", (M.\"end\" - M.start) AS duration, \
         M.type, M.level, A.name AS agent_name, A.absolute_index AS agent_abs_index, A.logical_index AS agent_log_index, \
         A.type_index AS agent_type_index, A.type AS agent_type, M.address, M.size, M.queue_id, Q.name AS queue_name, M.stream_id, \
         ST.name AS stream_name, E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id \
         FROM {memory_allocate} M LEFT JOIN {info_agent} A ON A.id = M.agent_id AND A.guid = M.guid \
         LEFT JOIN {info_queue} Q ON Q.id = M.queue_id AND Q.guid = M.guid \
         LEFT JOIN {info_stream} ST ON ST.id = M.stream_id AND ST.guid = M.guid \
         JOIN {event} E ON E.id = M.event_id AND E.guid = M.guid JOIN {info_process} P ON P.id = M.pid AND P.guid = M.guid \
         JOIN {info_thread} T ON T.id = M.tid AND T.guid = M.guid",
    ),
    (
        "scratch_memory_rows",
        "SELECT M.id, M.guid, M.nid, P.pid, M.type AS operation, A.name AS agent_name, A.absolute_index AS agent_abs_index, \
         A.logical_index AS agent_log_index, A.type_index AS agent_type_index, A.type AS agent_type, M.queue_id, T.tid, \
         CASE WHEN JSON_VALID(M.extdata) THEN JSON_EXTRACT(M.extdata, '$.flags') END AS alloc_flags, M.start, M.\"end\", (M.\"end\" - M.start) AS duration, M.size, M.address, \
         E.correlation_id, E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id, {category} AS category, \
         E.extdata AS event_extdata \
         FROM {memory_allocate} M LEFT JOIN {info_agent} A ON A.id = M.agent_id AND A.guid = M.guid \
         JOIN {event} E ON E.id = M.event_id AND E.guid = M.guid JOIN {info_process} P ON P.id = M.pid AND P.guid = M.guid \
         JOIN {info_thread} T ON T.id = M.tid AND T.guid = M.guid WHERE M.level = 'SCRATCH'",
    ),
    (
        "counters_collection",
        "SELECT MIN(PE.id) AS id, PE.guid, K.dispatch_id, K.kernel_id, E.id AS event_id, E.correlation_id, E.stack_id, \
         E.parent_stack_id, P.pid, T.tid, K.agent_id, A.absolute_index AS agent_abs_index, A.logical_index AS agent_log_index, \
         A.type_index AS agent_type_index, A.type AS agent_type, K.queue_id, K.grid_size_x, K.grid_size_y, K.grid_size_z, \
         (K.grid_size_x * K.grid_size_y * K.grid_size_z) AS grid_size, S.display_name AS kernel_name, \
         (SELECT string FROM {string} RS WHERE RS.id = K.region_name_id AND RS.guid = K.guid) AS kernel_region, K.workgroup_size_x, K.workgroup_size_y, \
         K.workgroup_size_z, (K.workgroup_size_x * K.workgroup_size_y * K.workgroup_size_z) AS workgroup_size, \
         K.group_segment_size AS lds_block_size, K.private_segment_size AS scratch_size, S.arch_vgpr_count AS vgpr_count, \
         S.accum_vgpr_count, S.sgpr_count, PI.name AS counter_name, PI.symbol AS counter_symbol, PI.component, PI.description, \
         PI.block, PI.expression, PI.value_type, PI.id AS counter_id, CASE WHEN COUNT(PE.value) = COUNT(*) AND SUM(TYPEOF(PE.value) IN ('text', 'blob') \
         AND NOT (PE.value GLOB '[.0-9]*' OR PE.value GLOB '[-+][.0-9]*')) = 0 THEN SUM(PE.value) END AS value, K.start, K.\"end\", PI.is_constant, \
         PI.is_derived, (K.\"end\" - K.start) AS duration, {category} AS category, K.nid, E.extdata, S.code_object_id{replay_since_3_0_5} \
         FROM {pmc_event} PE JOIN {info_pmc} PI ON PI.id = PE.pmc_id AND PI.guid = PE.guid \
         JOIN {event} E ON E.id = PE.event_id AND E.guid = PE.guid \
         JOIN {kernel_dispatch} K ON K.event_id = PE.event_id AND K.guid = PE.guid \
         JOIN {info_agent} A ON A.id = K.agent_id AND A.guid = K.guid \
         JOIN {info_kernel_symbol} S ON S.id = K.kernel_id AND S.guid = K.guid \
         JOIN {info_process} P ON P.id = K.pid AND P.guid = K.guid JOIN {info_thread} T ON T.id = K.tid AND T.guid = K.guid \
         WHERE PE.sample_id IS NULL GROUP BY PE.guid, E.id, K.id, PI.name, K.agent_id",
    ),
    (
        "graph_launches",
        "SELECT G.id, G.guid, {category} AS category, G.nid, P.pid, T.tid, A.absolute_index AS agent_abs_index, \
         A.logical_index AS agent_log_index, A.type_index AS agent_type_index, A.type AS agent_type, G.queue_id, G.start, G.\"end\", \
         (G.\"end\" - G.start) AS duration, G.graph_exec_id, G.kernel_dispatch_count, E.stack_id, E.parent_stack_id, \
         E.correlation_id AS corr_id \
         FROM {graph_launch} G LEFT JOIN {info_agent} A ON A.id = G.agent_id AND A.guid = G.guid \
         JOIN {event} E ON E.id = G.event_id AND E.guid = G.guid JOIN {info_process} P ON P.id = G.pid AND P.guid = G.guid \
         LEFT JOIN {info_thread} T ON T.id = G.tid AND T.guid = G.guid",
    ),
    (
        "hip_events",
        "SELECT H.id, H.guid, {category} AS category, COALESCE(S.string, {category}) AS name, H.nid, P.pid, T.tid, \
         A.absolute_index AS agent_abs_index, A.logical_index AS agent_log_index, A.type_index AS agent_type_index, \
         A.type AS agent_type, H.queue_id, H.source_queue_id, H.stream_id, H.hip_event_handle, H.start, H.\"end\", (H.\"end\" - H.start) AS duration, \
         E.stack_id, E.parent_stack_id, E.correlation_id AS corr_id, H.extdata \
         FROM {hip_event} H LEFT JOIN {info_agent} A ON A.id = H.agent_id AND A.guid = H.guid \
         LEFT JOIN {string} S ON S.id = H.name_id AND S.guid = H.guid \
         LEFT JOIN {event} E ON E.id = H.event_id AND E.guid = H.guid \
         JOIN {info_process} P ON P.id = H.pid AND P.guid = H.guid \
         LEFT JOIN {info_thread} T ON T.id = H.tid AND T.guid = H.guid",
    ),
    (
        "spm_counters",
        "SELECT PE.id, PE.guid, K.dispatch_id, K.kernel_id, E.id AS event_id, E.correlation_id, E.stack_id, E.parent_stack_id, \
         P.pid, TH.tid, COALESCE(K.agent_id, PI.agent_id) AS agent_id, A.absolute_index AS agent_abs_index, \
         A.logical_index AS agent_log_index, A.type_index AS agent_type_index, A.type AS agent_type, K.queue_id, K.grid_size_x, \
         K.grid_size_y, K.grid_size_z, (K.grid_size_x * K.grid_size_y * K.grid_size_z) AS grid_size, S.display_name AS kernel_name, \
         (SELECT string FROM {string} RS WHERE RS.id = K.region_name_id AND RS.guid = K.guid) AS kernel_region, K.workgroup_size_x, \
         K.workgroup_size_y, K.workgroup_size_z, (K.workgroup_size_x * K.workgroup_size_y * K.workgroup_size_z) AS workgroup_size, \
         K.group_segment_size AS lds_block_size, K.private_segment_size AS scratch_size, S.arch_vgpr_count AS vgpr_count, \
         S.accum_vgpr_count, S.sgpr_count, PI.name AS counter_name, PI.symbol AS counter_symbol, PI.component, PI.description, \
         PI.block, PI.expression, PI.value_type, PI.id AS counter_id, PE.xcc, PE.shader_engine, PE.instance, PE.value, R.timestamp, \
         PI.is_constant, PI.is_derived, {category} AS category, COALESCE(K.nid, T.nid) AS nid, E.extdata, S.code_object_id, \
         PE.shader_array, PE.wgp, PE.sample_id, PE.pmc_id, PE.value AS counter_value, COALESCE(T.pid, K.pid) AS process_id \
         FROM {pmc_event} PE JOIN {info_pmc} PI ON PI.id = PE.pmc_id AND PI.guid = PE.guid \
         JOIN {sample} R ON R.id = PE.sample_id AND R.guid = PE.guid \
         LEFT JOIN {track} T ON T.id = R.track_id AND T.guid = R.guid \
         LEFT JOIN {kernel_dispatch} K ON K.event_id = PE.event_id AND K.guid = PE.guid \
         LEFT JOIN {event} E ON E.id = COALESCE(PE.event_id, R.event_id) AND E.guid = PE.guid \
         LEFT JOIN {info_agent} A ON A.id = COALESCE(K.agent_id, PI.agent_id) AND A.guid = PE.guid \
         LEFT JOIN {info_kernel_symbol} S ON S.id = K.kernel_id AND S.guid = PE.guid \
         LEFT JOIN {info_process} P ON P.id = COALESCE(K.pid, T.pid) AND P.guid = PE.guid \
         LEFT JOIN {info_thread} TH ON TH.id = COALESCE(K.tid, T.tid) AND TH.guid = PE.guid",
    ),
    (
        "call_stacks",
        "SELECT CS.id, CS.guid, CS.event_id, CS.depth, PC.function, PC.file, PC.line, CS.pc_id, AR.address_base, AR.address_low, \
         AR.address_high, CS.extdata FROM {call_stack} CS LEFT JOIN {info_pc} PC ON PC.id = CS.pc_id AND PC.guid = CS.guid \
         LEFT JOIN {info_address_range} AR ON AR.id = PC.address_id AND AR.guid = CS.guid",
    ),
    (
        "source_lines",
        "SELECT L.id, L.guid, L.event_id, PC.function, COALESCE(SC.file, PC.file) AS file, COALESCE(SC.line_number, PC.line) AS line, \
         SC.lines, SC.instructions, L.pc_id, L.source_code_id, L.extdata FROM {line_info} L \
         LEFT JOIN {info_pc} PC ON PC.id = L.pc_id AND PC.guid = L.guid \
         LEFT JOIN {info_source_code} SC ON SC.id = L.source_code_id AND SC.guid = L.guid",
    ),
    (
        "device_records",
        "SELECT K.guid, E.stack_id, 'kernel' AS kind, S.display_name AS name, K.agent_id, K.queue_id, K.stream_id, K.start, K.\"end\" \
         FROM {kernel_dispatch} K JOIN {event} E ON E.id = K.event_id AND E.guid = K.guid \
         JOIN {info_kernel_symbol} S ON S.id = K.kernel_id AND S.guid = K.guid \
         UNION ALL SELECT M.guid, E.stack_id, 'copy', S.string, M.dst_agent_id, M.queue_id, M.stream_id, M.start, M.\"end\" \
         FROM {memory_copy} M JOIN {event} E ON E.id = M.event_id AND E.guid = M.guid \
         JOIN {string} S ON S.id = M.name_id AND S.guid = M.guid",
    ),
];

/// Views over the unified tables and views. `{each: ...}` is a union over partitions.
pub(super) const OVER_ALL: [(&str, &str); 8] = [
    (
        "regions_and_samples",
        "SELECT * FROM regions UNION ALL SELECT * FROM sample_regions",
    ),
    (
        "scratch_memory",
        "SELECT * FROM scratch_memory_rows ORDER BY start ASC",
    ),
    (
        "top_kernels",
        "SELECT name, COUNT(*) AS total_calls, SUM(duration) / 1000.0 AS total_duration, \
         (SUM(duration) / COUNT(*)) / 1000.0 AS average, \
         SUM(duration) * 100.0 / (SELECT SUM(\"end\" - start) FROM rocpd_kernel_dispatch) AS percentage \
         FROM ({each: SELECT S.display_name AS name, (K.\"end\" - K.start) AS duration FROM {kernel_dispatch} K \
         JOIN {info_kernel_symbol} S ON S.id = K.kernel_id AND S.guid = K.guid}) GROUP BY name ORDER BY total_duration DESC, name",
    ),
    (
        "busy",
        "SELECT agent_id, type, GpuTime, WallTime, GpuTime * 1.0 / WallTime AS Busy FROM ({each: \
         SELECT U.agent_id, A.type, U.guid, SUM(U.\"end\" - U.start) AS GpuTime FROM (SELECT agent_id, guid, \"end\", start FROM \
         {kernel_dispatch} UNION ALL SELECT dst_agent_id, guid, \"end\", start FROM {memory_copy}) U \
         JOIN {info_agent} A ON A.id = U.agent_id AND A.guid = U.guid GROUP BY U.agent_id, U.guid}) CROSS JOIN \
         (SELECT MAX(\"end\") - MIN(start) AS WallTime FROM (SELECT \"end\", start FROM rocpd_kernel_dispatch UNION ALL \
         SELECT \"end\", start FROM rocpd_memory_copy))",
    ),
    (
        "top",
        "SELECT name, COUNT(*) AS total_calls, SUM(duration) / 1000.0 AS total_duration, \
         (SUM(duration) / COUNT(*)) / 1000.0 AS average, SUM(duration) * 100.0 / total_time AS percentage FROM ({each: \
         SELECT S.display_name AS name, (K.\"end\" - K.start) AS duration FROM {kernel_dispatch} K \
         JOIN {info_kernel_symbol} S ON S.id = K.kernel_id AND S.guid = K.guid UNION ALL \
         SELECT S.string AS name, (M.\"end\" - M.start) AS duration FROM {memory_copy} M \
         JOIN {string} S ON S.id = M.name_id AND S.guid = M.guid UNION ALL \
         SELECT S.string AS name, (R.\"end\" - R.start) AS duration FROM {region} R \
         JOIN {string} S ON S.id = R.name_id AND S.guid = R.guid}) CROSS JOIN \
         (SELECT SUM(d) AS total_time FROM (SELECT \"end\" - start AS d FROM rocpd_kernel_dispatch UNION ALL \
         SELECT \"end\" - start FROM rocpd_memory_copy UNION ALL SELECT \"end\" - start FROM rocpd_region)) \
         GROUP BY name ORDER BY total_duration DESC, name",
    ),
    (
        "launch_links",
        "SELECT D.guid, D.stack_id, R.name AS api_name, R.tid, R.start AS api_start, R.\"end\" AS api_end, D.kind, D.name, D.agent_id, \
         D.queue_id, D.stream_id, D.start, D.\"end\", (D.start - R.start) AS launch_latency_ns \
         FROM device_records D JOIN regions R ON R.guid = D.guid AND R.stack_id = D.stack_id",
    ),
    (
        "steps",
        "SELECT guid, pid, tid, COALESCE(CASE WHEN JSON_VALID(extdata) THEN JSON_EXTRACT(extdata, '$.message') END, name) AS name, start, \"end\", duration AS duration_ns, \
         ROW_NUMBER() OVER (PARTITION BY guid, tid ORDER BY start) AS step FROM regions \
         WHERE category LIKE 'MARKER%' AND parent_stack_id = 0",
    ),
    (
        "gaps",
        "SELECT guid, agent_id, stream_id, busy_until AS start, start AS \"end\", (start - busy_until) AS gap_ns FROM (SELECT guid, \
         agent_id, stream_id, start, MAX(\"end\") OVER (PARTITION BY guid, agent_id, stream_id ORDER BY start, \"end\" \
         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS busy_until FROM device_records) WHERE start > busy_until",
    ),
];

/// The summaries that files of rocprofiler-systems bring along: name, by which column of which view.
pub(super) const SUMMARIES: [(&str, &str, &str); 4] = [
    ("kernel_summary", "name", "kernels"),
    ("kernel_summary_region", "region", "kernels"),
    ("memory_copy_summary", "name", "memory_copies"),
    ("memory_allocation_summary", "type", "memory_allocations"),
];

/// What they are, by column `{key}` of `{view}`.
pub(super) const SUMMARY: &str = "SELECT {key} AS name, COUNT(*) AS calls, SUM(duration) AS \"DURATION (nsec)\", \
    SUM(duration * 1.0 * duration) AS \"SQR (nsec)\", AVG(duration) AS \"AVERAGE (nsec)\", \
    SUM(duration) * 100.0 / (SELECT SUM(duration) FROM {view}) AS \"PERCENT (INC)\", MIN(duration) AS \"MIN (nsec)\", \
    MAX(duration) AS \"MAX (nsec)\", SUM(off * off) / (COUNT(*) - 1) AS VARIANCE, \
    SQRT(SUM(off * off) / (COUNT(*) - 1)) AS STD_DEV \
    FROM (SELECT {key}, duration, duration - AVG(duration) OVER (PARTITION BY {key}) AS off FROM {view}) \
    GROUP BY {key} ORDER BY \"DURATION (nsec)\" DESC, name";

/// Call stacks of events, the innermost frame (depth 0) first, as a JSON list.
pub(super) const CALL_STACK: &str = "SELECT event_id AS of_event, JSON_GROUP_ARRAY(JSON_OBJECT('depth', depth, 'function', function, \
    'file', file, 'line', line)) AS list FROM (SELECT CS.event_id, CS.depth, PC.function, PC.file, PC.line FROM {call_stack} CS \
    LEFT JOIN {info_pc} PC ON PC.id = CS.pc_id AND PC.guid = CS.guid ORDER BY CS.event_id, CS.depth, CS.id) GROUP BY event_id";

/// Source lines of events as a JSON list.
pub(super) const LINE_INFO: &str = "SELECT event_id AS of_event, JSON_GROUP_ARRAY(JSON_OBJECT('function', function, 'file', file, \
    'line', line)) AS list FROM (SELECT L.event_id, PC.function, COALESCE(SC.file, PC.file) AS file, \
    COALESCE(SC.line_number, PC.line) AS line FROM {line_info} L LEFT JOIN {info_pc} PC ON PC.id = L.pc_id AND PC.guid = L.guid \
    LEFT JOIN {info_source_code} SC ON SC.id = L.source_code_id AND SC.guid = L.guid ORDER BY L.event_id, L.id) GROUP BY event_id";

/// Joins of samples.
pub(super) const FROM_SAMPLES: &str = "FROM {sample} R JOIN {track} TR ON TR.id = R.track_id AND TR.guid = R.guid \
    JOIN {event} E ON E.id = R.event_id AND E.guid = R.guid JOIN {info_process} P ON P.id = TR.pid AND P.guid = TR.guid \
    JOIN {info_thread} T ON T.id = TR.tid AND T.guid = TR.guid";
