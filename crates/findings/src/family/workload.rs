//! Steps of one phase that have more to do than others.

use super::Context;
use crate::draft::{Draft, Gain, Strength, said};
use crate::job::{Phase, StepFact};
use crate::numbers::{median, time};

/// Ratio of requests or tokens from which steps are of another workload, in percent.
const MORE_PCT: u64 = 150;

/// Fewer steps than this are no group.
const LEAST: usize = 3;

/// Kinds of steps whose number of tokens varies by nature are no shift.
const VARYING: [&str; 2] = ["prefill", "mixed"];

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    if VARYING.contains(&phase.name.as_str()) {
        return None;
    }
    let size = |step: &StepFact| step.batch.or(step.tokens);
    let steps = phase.steps.iter().map(|at| (*at, &job.steps[*at]));
    let each: Option<Vec<(usize, u64, i64)>> = steps
        .map(|(at, step)| Some((at, size(step)?, step.row.duration_ns)))
        .collect();
    let mut each = each?;
    each.sort_by_key(|row| (row.1, row.0));
    // The widest step between neighbouring sizes.
    let cuts = LEAST..=each.len().checked_sub(LEAST)?;
    let is_wide = |at: &usize| each[*at].1 * 100 >= each[*at - 1].1.max(1) * MORE_PCT;
    let cut = cuts
        .filter(is_wide)
        .max_by_key(|at| each[*at].1 * 100 / each[*at - 1].1.max(1))?;
    let (small, large) = each.split_at(cut);
    let usual = median(small.iter().map(|row| row.2));
    let longest = small.iter().map(|row| row.2).max()?;
    let more = median(large.iter().map(|row| row.2));
    if large.iter().any(|row| row.2 <= longest) {
        return None;
    }
    // Steps that change to and fro are how the engine works (drafts, chunks): a shift comes and stays.
    let is_large = |at: &usize| large.iter().any(|row| row.0 == *at);
    let order: Vec<bool> = phase.steps.iter().map(is_large).collect();
    if order.windows(2).filter(|pair| pair[0] != pair[1]).count() > 2 {
        return None;
    }
    let mut draft = Draft::new("workload_shift", phase);
    let values = large.iter().map(|row| (row.0, row.2 - usual));
    draft.values = values.collect();
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    draft.gain = Gain::Cost;
    let middle = |rows: &[(usize, u64, i64)]| {
        median(
            rows.iter()
                .map(|row| i64::try_from(row.1).unwrap_or(i64::MAX)),
        )
    };
    let unit = match job.steps[large[0].0].batch {
        Some(_) => "requests",
        None => "tokens",
    };
    draft.evidence.push(said(
        job,
        format!(
            "steps with {} {unit} take {} (median of {}), those with {} {} (median of {})",
            middle(small),
            time(usual),
            small.len(),
            middle(large),
            time(more),
            large.len()
        ),
    ));
    draft
        .commands
        .push(format!("inferscope cycle-rca analyse {}", context.traces));
    Some(
        draft
            .word("count", large.len().to_string())
            .word("of", each.len().to_string())
            .word("large", middle(large).to_string())
            .word("small", middle(small).to_string())
            .word("unit", unit)
            .word("time", time(more))
            .word("usual", time(usual)),
    )
}
