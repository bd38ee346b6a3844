//! The sheet of agents, from their recorded properties.

use serde_json::Value;

use super::Job;
use super::sheet::{Field, Quotes};
use crate::Result;

/// Title of each column, and the path of its property.
const PROPERTIES: [(&str, &str); 51] = [
    ("Node_Id", "node_id"),
    ("Logical_Node_Id", "logical_node_id"),
    ("Agent_Type", ""),
    ("Cpu_Cores_Count", "cpu_cores_count"),
    ("Simd_Count", "simd_count"),
    ("Cpu_Core_Id_Base", "cpu_core_id_base"),
    ("Simd_Id_Base", "simd_id_base"),
    ("Max_Waves_Per_Simd", "max_waves_per_simd"),
    ("Lds_Size_In_Kb", "lds_size_in_kb"),
    ("Gds_Size_In_Kb", "gds_size_in_kb"),
    ("Num_Gws", "num_gws"),
    ("Wave_Front_Size", "wave_front_size"),
    ("Num_Xcc", "num_xcc"),
    ("Cu_Count", "cu_count"),
    ("Array_Count", "array_count"),
    ("Num_Shader_Banks", "num_shader_banks"),
    ("Simd_Arrays_Per_Engine", "simd_arrays_per_engine"),
    ("Cu_Per_Simd_Array", "cu_per_simd_array"),
    ("Simd_Per_Cu", "simd_per_cu"),
    ("Max_Slots_Scratch_Cu", "max_slots_scratch_cu"),
    ("Gfx_Target_Version", "gfx_target_version"),
    ("Vendor_Id", "vendor_id"),
    ("Device_Id", "device_id"),
    ("Location_Id", "location_id"),
    ("Domain", "domain"),
    ("Drm_Render_Minor", "drm_render_minor"),
    ("Num_Sdma_Engines", "num_sdma_engines"),
    ("Num_Sdma_Xgmi_Engines", "num_sdma_xgmi_engines"),
    ("Num_Sdma_Queues_Per_Engine", "num_sdma_queues_per_engine"),
    ("Num_Cp_Queues", "num_cp_queues"),
    ("Max_Engine_Clk_Ccompute", "max_engine_clk_ccompute"),
    ("Max_Engine_Clk_Fcompute", "max_engine_clk_fcompute"),
    ("Sdma_Fw_Version", "sdma_fw_version.uCodeSDMA"),
    ("Fw_Version", "fw_version.uCode"),
    ("Capability", "capability"),
    ("Cu_Per_Engine", "cu_per_engine"),
    ("Max_Waves_Per_Cu", "max_waves_per_cu"),
    ("Family_Id", "family_id"),
    ("Workgroup_Max_Size", "workgroup_max_size"),
    ("Grid_Max_Size", "grid_max_size"),
    ("Local_Mem_Size", "local_mem_size"),
    ("Hive_Id", "hive_id"),
    ("Gpu_Id", "gpu_id"),
    ("Workgroup_Max_Dim_X", "workgroup_max_dim.x"),
    ("Workgroup_Max_Dim_Y", "workgroup_max_dim.y"),
    ("Workgroup_Max_Dim_Z", "workgroup_max_dim.z"),
    ("Grid_Max_Dim_X", "grid_max_dim.x"),
    ("Grid_Max_Dim_Y", "grid_max_dim.y"),
    ("Grid_Max_Dim_Z", "grid_max_dim.z"),
    ("Name", "name"),
    ("Vendor_Name", "vendor_name"),
];

/// Capabilities, each a column of the newer layout.
const CAPABILITIES: [&str; 25] = [
    "HotPluggable",
    "HSAMMUPresent",
    "SharedWithGraphics",
    "QueueSizePowerOfTwo",
    "QueueSize32bit",
    "QueueIdleEvent",
    "VALimit",
    "WatchPointsSupported",
    "WatchPointsTotalBits",
    "DoorbellType",
    "AQLQueueDoubleMap",
    "DebugTrapSupported",
    "WaveLaunchTrapOverrideSupported",
    "WaveLaunchModeSupported",
    "PreciseMemoryOperationsSupported",
    "DEPRECATED_SRAM_EDCSupport",
    "Mem_EDCSupport",
    "RASEventNotify",
    "ASICRevision",
    "SRAM_EDCSupport",
    "SVMAPISupported",
    "CoherentHostAccess",
    "DebugSupportedFirmware",
    "PreciseALUOperationsSupported",
    "PerQueueResetSupported",
];

/// Returns titles and paths of the properties in a layout.
fn properties(unified: bool) -> Vec<(String, String)> {
    let mut all = Vec::with_capacity(PROPERTIES.len() + CAPABILITIES.len());
    for (title, path) in PROPERTIES {
        match title {
            "Capability" if unified => all.extend(
                CAPABILITIES.map(|bit| (format!("Cap_{bit}"), format!("capability.{bit}"))),
            ),
            _ => all.push((title.to_owned(), path.to_owned())),
        }
    }
    all
}

pub(super) fn write(job: &Job<'_>) -> Result<()> {
    let properties = properties(job.quotes == Quotes::Needed);
    let mut columns = String::from("Guid");
    for (title, _) in &properties {
        columns += " ";
        columns += title;
    }
    columns += " Product_Name Model_Name";
    let mut sheet = job.sheet("agent_info.csv", &columns)?;
    for (process, agent) in job.set.agents() {
        let extdata: Value = agent
            .extdata
            .as_deref()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or(Value::Null);
        let texts: Vec<String> = properties
            .iter()
            .map(|(title, path)| match title.as_str() {
                "Agent_Type" => agent.kind.clone().unwrap_or_default(),
                "Node_Id" => number(&extdata, path, agent.absolute_index),
                "Logical_Node_Id" => number(&extdata, path, agent.logical_index),
                "Name" => agent.name.clone().unwrap_or_default(),
                "Vendor_Name" => agent.vendor_name.clone().unwrap_or_default(),
                _ => number(&extdata, path, None),
            })
            .collect();
        let mut fields = vec![Field::Text(&process.guid)];
        for (text, (title, _)) in texts.iter().zip(&properties) {
            fields.push(match title.as_str() {
                "Agent_Type" | "Name" | "Vendor_Name" => Field::Text(text),
                _ if text.bytes().all(|b| b.is_ascii_digit() || b == b'-') => Field::Bare(text),
                _ => Field::Text(text),
            });
        }
        fields.push(Field::Text(
            agent.product_name.as_deref().unwrap_or_default(),
        ));
        fields.push(Field::Text(agent.model_name.as_deref().unwrap_or_default()));
        sheet.row(&fields)?;
    }
    sheet.finish()
}

/// Returns a property by its path; bits of a capability are combined into a number.
fn number(extdata: &Value, path: &str, fallback: Option<i64>) -> String {
    let mut value = extdata;
    for key in path.split('.') {
        value = value.get(key).unwrap_or(&Value::Null);
    }
    match value {
        Value::Null => fallback.map_or_else(String::new, |value| value.to_string()),
        Value::String(text) => text.clone(),
        Value::Object(_) => value
            .get("Value")
            .or_else(|| value.get("value"))
            .map_or_else(|| value.to_string(), Value::to_string),
        value => value.to_string(),
    }
}
