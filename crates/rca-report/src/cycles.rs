//! The table of cycles.

use critical_path::{Group, StepRow};
use rca_cycles::{Analysis, StepPaths};

/// The columns of the table of cycles.
pub const COLUMNS: [&str; 14] = [
    "job",
    "cycle",
    "start_ns",
    "end_ns",
    "phase",
    "partial",
    "bound",
    "prefill_requests",
    "prefill_tokens",
    "decode_requests",
    "prefill_kv_tokens",
    "decode_kv_tokens",
    "step_begin_ns",
    "step_end_ns",
];

/// Returns a row for each cycle of a recording, with the cells of [`COLUMNS`].
#[must_use]
pub fn rows(name: &str, analysis: &Analysis, paths: &StepPaths) -> Vec<Vec<String>> {
    let each = analysis.cycles.iter().enumerate();
    each.map(|(i, c)| {
        let of = |f: &dyn Fn(&rca_cycles::Workload) -> Option<u64>| {
            let known = c.workload.as_ref().and_then(f);
            known.map_or_else(String::new, |n| n.to_string())
        };
        let step = paths.of_cycle(i);
        let at =
            |f: &dyn Fn(&StepRow) -> i64| step.map_or_else(String::new, |row| f(row).to_string());
        let bound = step.and_then(|row| row.groups.largest());
        vec![
            name.to_owned(),
            // Numbered from 1, as in tables, batch and period.
            (i + 1).to_string(),
            c.start_ns.to_string(),
            c.end_ns.to_string(),
            c.phase.name().to_owned(),
            c.partial.is_some().to_string(),
            bound.map_or("", Group::name).to_owned(),
            of(&|w| Some(w.prefill_requests.into())),
            of(&|w| Some(w.prefill_tokens.into())),
            of(&|w| Some(w.decode_requests.into())),
            of(&|w| w.prefill_kv_tokens),
            of(&|w| w.decode_kv_tokens),
            at(&|row| row.begin_ns),
            at(&|row| row.end_ns),
        ]
    })
    .collect()
}
