//! Steps with prompts between steps that generate tokens.

use super::Context;
use crate::draft::{Draft, Gain, Strength, said};
use crate::job::Phase;
use crate::numbers::{median, time};

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    if phase.name != "decode" {
        return None;
    }
    let usual = median(job.of(phase).map(|step| step.row.duration_ns));
    let first = *phase.steps.first()?;
    let others = job.phases.iter();
    let others = others.filter(|other| ["prefill", "mixed"].contains(&other.name.as_str()));
    let mut draft = Draft::new("prefill_interrupts", phase);
    let mut whole = (phase.steps.len(), phase.total_ns);
    for other in others {
        whole = (whole.0 + other.steps.len(), whole.1 + other.total_ns);
        let between = other.steps.iter().filter(|at| first < **at);
        // A single kernel that is far longer than its other runs is not the prompt.
        let long = super::kernels::long_run(job, other);
        for at in between {
            let ns = job.steps[*at].row.duration_ns;
            let own = long.as_ref().filter(|long| long.step() == *at);
            let ns = ns - own.map_or(0, |long| long.excess_ns());
            // What the requests that run wait longer for their next token.
            // Waiting for requests is found by itself.
            let waits = job.steps[*at].sum(|item| item.group() == critical_path::Group::Wait);
            let ns = ns - waits;
            let excess = ns - usual;
            if ns >= usual + usual / 2 {
                draft.values.push((*at, excess));
            }
        }
    }
    draft.whole = Some(whole);
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Recorded;
    draft.gain = Gain::Cost;
    draft.rank = Some(job.rank());
    let times = draft
        .values
        .iter()
        .map(|(at, _)| job.steps[*at].row.duration_ns);
    let middle = median(times);
    let count = draft.values.len();
    let is_mixed = draft
        .values
        .iter()
        .all(|(at, _)| job.steps[*at].phase == "mixed");
    let name = if is_mixed { "mixed" } else { "prefill" };
    draft.evidence.push(said(
        job,
        format!(
            "decode steps take {} (median of {})",
            time(usual),
            phase.steps.len()
        ),
    ));
    draft
        .commands
        .push(format!("inferscope cycle-rca analyse {}", context.traces));
    Some(
        draft
            .word("count", count.to_string())
            .word(
                "name",
                match count {
                    1 => format!("{name} step"),
                    _ => format!("{name} steps"),
                },
            )
            .word("run", if count == 1 { "runs" } else { "run" })
            .word("time", time(middle))
            .word("decode", time(usual)),
    )
}
