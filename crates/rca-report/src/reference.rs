//! The answer of the reference's analysis about one recording: text, rows of the table of cycles, members of the document.

use rca_cycles::compat::{Analysis, Phase};
use serde_json::{Value, json};

use crate::cycles::COLUMNS;
use crate::document::Members;

/// A cycle of the reference's analysis.
struct Cycle {
    /// Number, from 0.
    index: usize,
    start_ns: i64,
    end_ns: i64,
    phase: &'static str,
    diagnosis: Option<Value>,
}

/// Returns the cycles of all phases, in the order of their numbers.
fn cycles(analysis: &Analysis) -> Vec<Cycle> {
    // A quarter of a microsecond is what the times of a recording since 1970 resolve.
    #[expect(clippy::cast_possible_truncation, reason = "microseconds since 1970")]
    let ns = |us: f64| (us * 4.0).round() as i64 * 250;
    let all = analysis.reports.iter().flat_map(|report| &report.cycles);
    let mut cycles: Vec<Cycle> = all
        .map(|cycle| Cycle {
            index: cycle.number.saturating_sub(1),
            start_ns: ns(cycle.start_us),
            end_ns: ns(cycle.end_us),
            phase: match cycle.phase {
                Phase::Prefill => "prefill",
                Phase::Decode => "decode",
                Phase::Generic => "unknown",
            },
            diagnosis: cycle
                .diagnosis
                .as_ref()
                .map(|d| json!({"fingerprint": d.fingerprint, "score": d.score, "z": d.z})),
        })
        .collect();
    cycles.sort_unstable_by_key(|cycle| cycle.index);
    cycles
}

/// Returns the answer as text: the anchor, and the number of cycles of each phase.
#[must_use]
pub fn text(job: &str, analysis: &Analysis) -> String {
    let mut text = format!("[Success] {job}: cut at {}\n", analysis.anchor);
    for report in &analysis.reports {
        let suffix = report.suffix.replace('_', " ");
        text.push_str(&format!("  {} cycles{suffix}\n", report.cycles.len()));
    }
    text
}

/// Returns a row of the [table of cycles](crate::cycles) for each cycle; what the reference does not know is empty.
#[must_use]
pub fn rows(job: &str, analysis: &Analysis) -> Vec<Vec<String>> {
    let rows = cycles(analysis).into_iter().map(|cycle| {
        let mut row = vec![
            job.to_owned(),
            cycle.index.to_string(),
            cycle.start_ns.to_string(),
            cycle.end_ns.to_string(),
            cycle.phase.to_owned(),
            "false".to_owned(),
        ];
        row.resize(COLUMNS.len(), String::new());
        row
    });
    rows.collect()
}

/// Adds the anchor and the cycles to the document of a job.
///
/// # Errors
///
/// Returns an error for a value that JSON cannot hold.
pub fn add(analysis: &Analysis, members: &mut Members) -> serde_json::Result<()> {
    let list: Vec<Value> = cycles(analysis)
        .into_iter()
        .map(|cycle| {
            json!({
                "index": cycle.index,
                "start_ns": cycle.start_ns,
                "end_ns": cycle.end_ns,
                "phase": cycle.phase,
                "partial": false,
                "diagnosis": cycle.diagnosis,
            })
        })
        .collect();
    members.insert("anchor", &analysis.anchor)?;
    members.insert("cycles", &list)
}
