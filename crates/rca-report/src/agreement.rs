//! Checks whether a culprit agrees with the verdict.
//!
//! The verdict comes from tables of all functions and counters, culprits from tests of the cycles.
//! Neither overrules the other: a culprit that the verdict cannot explain keeps its place in the
//! ranking and is marked. A culprit is *explained* by a verdict if the verdict's cause acts through
//! functions or counters of its kind, as in the table below; it is *contradicted* if there is a
//! cause that acts elsewhere, or if the verdict states that the sides do not differ. An undecided
//! verdict (`unknown`) states nothing about any culprit.

use rca_cycles::compare::CulpritKind;
use trace_model::kernel::Vocabulary;

/// Returns `true` if the verdict explains the culprit; `None` if the verdict is undecided.
pub(crate) fn explained(kind: CulpritKind, name: &str, cause: &str) -> Option<bool> {
    let communicates =
        kind == CulpritKind::Kernel && Vocabulary::default().communication(name).is_some();
    let name = name.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|w| name.contains(w));
    // Host functions have no table of names: these are names of the libraries.
    let collective = communicates || has(&["nccl", "rccl", "allreduce", "all_reduce"]);
    let copy = has(&["memcpy", "memset"]);
    let clock = has(&["frequency", "clock"]);
    let host_counter = name.starts_with("cpu") || name.starts_with("process_cpu");
    let is = |other| kind == other;
    let (kernel, function) = (is(CulpritKind::Kernel), is(CulpritKind::Function));
    let (counter, rank) = (is(CulpritKind::Counter), is(CulpritKind::Rank));
    Some(match cause {
        "unknown" => return None,
        "gpu_kernel" => kernel && !collective,
        // A single slow device is a slow rank.
        "gpu_frequency" => (kernel && !collective) || rank || (counter && clock && !host_counter),
        // The functions that ran in the cycles with pauses are listed with them.
        "pauses" => function || rank,
        "drift" => return None,
        "gpu_contention" | "gpu_slow" => (kernel && !collective) || rank,
        "nvlink_contention" => (kernel && (collective || copy)) || (counter && has(&["link"])),
        "network_contention" => (kernel && collective) || (counter && has(&["net_"])),
        "pcie_contention" => (kernel && copy) || (counter && has(&["pcie"])),
        "cpu_frequency" => function || (counter && clock && host_counter),
        "cpu_contention" => function || rank || (counter && host_counter),
        "host_code" => function || rank,
        "waiting_for_input" => function,
        "disk_contention" => function || (counter && has(&["disk"])),
        "memory_pressure" => function || (kernel && copy) || (counter && has(&["mem"])),
        "collective_slow" | "communication_exposed" => kernel && collective,
        "collective_straggler" => rank || kernel || function,
        // More work lengthens everything that performs it.
        "workload_shift" => kernel || function,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_explain_what_they_act_through_and_nothing_else() {
        let (gemm, reduce) = ("ampere_gemm", "ncclDevKernel_AllReduce_Sum");
        for (kind, name, cause, want) in [
            (CulpritKind::Kernel, gemm, "gpu_kernel", Some(true)),
            (CulpritKind::Kernel, reduce, "gpu_kernel", Some(false)),
            (CulpritKind::Kernel, reduce, "nvlink_contention", Some(true)),
            (CulpritKind::Kernel, reduce, "collective_slow", Some(true)),
            (
                CulpritKind::Kernel,
                "deep_ep::intranode::dispatch",
                "collective_slow",
                Some(true),
            ),
            (CulpritKind::Kernel, gemm, "collective_slow", Some(false)),
            (CulpritKind::Kernel, gemm, "host_code", Some(false)),
            (CulpritKind::Kernel, gemm, "none", Some(false)),
            (CulpritKind::Kernel, gemm, "unknown", None),
            (CulpritKind::Function, "schedule", "host_code", Some(true)),
            (CulpritKind::Function, "schedule", "gpu_kernel", Some(false)),
            (
                CulpritKind::Counter,
                "gpu_sm_frequency",
                "gpu_frequency",
                Some(true),
            ),
            (
                CulpritKind::Counter,
                "gpu_sm_frequency",
                "cpu_frequency",
                Some(false),
            ),
            (
                CulpritKind::Counter,
                "cpu_frequency",
                "cpu_frequency",
                Some(true),
            ),
            (
                CulpritKind::Rank,
                "rank 1",
                "collective_straggler",
                Some(true),
            ),
        ] {
            assert_eq!(explained(kind, name, cause), want, "{name} by {cause}");
        }
    }
}
