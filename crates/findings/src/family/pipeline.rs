//! Stages of a pipeline that wait for each other in messages between two ranks.

use critical_path::Class;
use trace_model::interval::Interval;

use super::Context;
use crate::draft::{Draft, Gain, Strength, longest_of, said};
use crate::job::{Item, Phase, Portion, StepFact, overlap};
use crate::numbers::{median, time};
use crate::recording::Facts;

/// Part of the time of messages in which the other rank has to compute for them to be waiting for it, in tenths.
const LEAST: i64 = 6;

/// Factor of the computation of one stage over that of the other from which the stages are uneven.
const UNEVEN: f64 = 1.2;

/// Returns when another rank comes to a message: when its side of it begins, else when the last of its kernels meanwhile ends.
fn comes(other: &Facts, (begin, end): Interval) -> i64 {
    let last = |all: &[Interval]| {
        let behind = all.partition_point(|interval| interval.0 < end);
        let last = *all.get(behind.checked_sub(1)?)?;
        (last.1 > begin).then_some(last)
    };
    let own = last(&other.messages).map(|message| message.0);
    let own = own.or_else(|| last(&other.computing).map(|kernels| kernels.1));
    own.unwrap_or(begin).clamp(begin, end)
}

/// Messages of the headline's rank during which another rank computes: they wait for its stage.
pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let own = job.headline_facts();
    if job.facts.len() < 2 || own.messages.is_empty() {
        return None;
    }
    let takes = |item: &Item| {
        item.class == Class::Comm && item.portion != Portion::Wait && item.on_rank == job.rank()
    };
    // Of each step the messages in it, and the part of them in which the other rank computes and this one does not.
    let waits = |other: &Facts, step: &StepFact| -> (i64, i64) {
        let (from, to) = (step.row.begin_ns, step.row.end_ns);
        let mut sum = (0, 0);
        for (begin, end) in own.messages.iter().take_while(|message| message.0 < to) {
            let (begin, end) = ((*begin).max(from), (*end).min(to));
            if begin < end {
                let computes = overlap(&own.computing, (begin, end));
                let all = end - begin - computes;
                let is_waiting = overlap(&other.computing, (begin, end)) * 10 >= all * LEAST;
                let waited = match is_waiting {
                    true => comes(other, (begin, end)) - begin,
                    false => 0,
                };
                sum = (sum.0 + all, sum.1 + (waited - computes).max(0));
            }
        }
        sum
    };
    let others = job.facts.iter().filter(|facts| facts.rank != own.rank);
    let found = others.map(|other| {
        let each = phase.steps.iter().map(|at| {
            let (all, waited) = waits(other, &job.steps[*at]);
            // No more than what is on the path.
            (*at, all, waited.min(job.steps[*at].sum(takes)))
        });
        let each: Vec<(usize, i64, i64)> = each.collect();
        let waited: i64 = each.iter().map(|step| step.2).sum();
        (waited, other, each)
    });
    let (waited, other, each) =
        found.max_by_key(|(ns, other, _)| (*ns, std::cmp::Reverse(other.rank)))?;
    let all: i64 = each.iter().map(|step| step.1).sum();
    if waited * 10 < all * LEAST {
        return None;
    }
    let mut draft = Draft::new("pipeline_bubble", phase);
    draft.values = each.into_iter().map(|(at, _, ns)| (at, ns)).collect();
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    // With an equally long stage, or other work meanwhile, it would not wait.
    draft.gain = Gain::Cost;
    draft.rank = Some(other.rank);
    draft.about = format!("rank{}", other.rank);
    let computes = |facts: &Facts| {
        median(
            job.of(phase)
                .map(|step| overlap(&facts.computing, (step.row.begin_ns, step.row.end_ns))),
        )
    };
    let (here, there) = (computes(own), computes(other));
    let steps: Vec<&StepFact> = job.of(phase).collect();
    let longest = job
        .of(phase)
        .flat_map(|step| &step.items)
        .find(|item| takes(item));
    if let Some(item) = longest {
        draft
            .evidence
            .extend(longest_of(job, &steps, &item.name, takes));
    }
    draft.evidence.push(said(
        job,
        format!(
            "in {} of {} in messages, rank {} waits until rank {} comes",
            time(waited),
            time(all),
            own.rank,
            other.rank
        ),
    ));
    draft
        .commands
        .push(format!("inferscope trace-info comm {}", context.traces));
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let is_uneven = there as f64 >= UNEVEN * here as f64;
    let why = match is_uneven {
        true => format!("computes {} a step instead of {}", time(there), time(here)),
        false => format!(
            "computes {} a step, as long as the other: the stages take turns",
            time(there)
        ),
    };
    Some(
        draft
            .word("who", format!("rank {}", own.rank))
            .word("other", format!("rank {}", other.rank))
            .word("why", why),
    )
}
