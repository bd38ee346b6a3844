//! One step against its neighbours.

use critical_path::Group;

use crate::catalogue::Catalogue;
use crate::document::{Answer, Finding, Shape};
use crate::family::{begins_behind_another, excess};
use crate::job::{Job, StepFact};
use crate::numbers::{counted, interval, median, pct, share, time};

/// Share of the step time from which a step is longer than its neighbours, in percent.
const NOTABLE: f64 = 3.0;

/// Answers why the step at a place was as long as it was.
pub(crate) fn answer(job: &Job, catalogue: &Catalogue, findings: &[Finding], at: usize) -> Answer {
    let step = &job.steps[at];
    let alike: Vec<&StepFact> = job
        .steps
        .iter()
        .enumerate()
        .filter(|(other, fact)| *other != at && fact.is_used && fact.phase == step.phase)
        .map(|(_, fact)| fact)
        .collect();
    let phase = crate::draft::phase_word(&step.phase);
    let ns = step.row.duration_ns;
    let number = step.row.step;
    let mut answer = Answer {
        bound: Some(step.row.verdict.to_owned()),
        phase: Some(step.phase.clone()),
        rank: Some(job.rank()),
        step_time_ns: Some(interval([ns])),
        ..Answer::default()
    };
    if alike.is_empty() {
        answer.shape = Shape::CannotSay;
        answer.sentence = format!(
            "Cannot say: step {number} takes {}, and no other {phase} step was recorded to compare it with.",
            time(ns)
        );
        return answer;
    }
    let usual = interval(alike.iter().map(|step| step.row.duration_ns));
    let difference = ns - usual.median;
    let others = counted(alike.len() as u64, "other", "others");
    let batch = |step: &StepFact| step.tokens.or(step.batch);
    let usual_batch = median(alike.iter().filter_map(|s| i64::try_from(batch(s)?).ok()));
    let work = match batch(step) {
        Some(own) if i64::try_from(own).unwrap_or(0) != usual_batch && usual_batch > 0 => {
            format!("; it has {own} tokens or requests instead of {usual_batch}")
        }
        _ => String::new(),
    };
    if share(difference.abs(), usual.median) < NOTABLE {
        answer.shape = Shape::Nothing;
        answer.sentence = format!(
            "Step {number} takes {}, like the {others} of its phase (median {}){work}; {} more or less would be noted.",
            time(ns),
            time(usual.median),
            pct(NOTABLE)
        );
        return answer;
    }
    let longer = difference > 0;
    let parts: Vec<String> = match longer {
        true => excess(&[step], &alike),
        false => Vec::new(),
    }
    .iter()
    .filter(|part| part.ns * 20 >= difference)
    .take(3)
    .map(|part| {
        let more = match (part.class.group(), part.calls) {
            (Group::Gpu | Group::Comm, n) if n > 0 => format!(", {n} more calls"),
            _ => String::new(),
        };
        format!("{} in {}{more}", time(part.ns), part.words())
    })
    .collect();
    // It begins where the GPU work of the step before ends; what the host still does of that is no part of its own work.
    let is_behind = longer && begins_behind_another(job, at, usual.median);
    let because = match parts.is_empty() {
        _ if is_behind => format!(
            ": {} of it pass before its own begin on the host, which still ends the step before, one of another phase",
            time(step.before_ns())
        ),
        true => String::new(),
        false => format!(": {}", parts.join("; ")),
    };
    let sign = if longer { "+" } else { "-" };
    let found = findings.iter().find(|finding| {
        finding.place.steps.contains(&number)
            && crate::explain::is_cause(catalogue, finding)
            && matches!(finding.kind.as_str(), "pause" | "periodic_stall")
    });
    answer.shape = Shape::Cause;
    answer.finding = found.map(|finding| finding.id.clone());
    answer.sentence = format!(
        "Step {number} takes {} instead of {} (median of {others} of its phase; {sign}{}){because}{work}.",
        time(ns),
        time(usual.median),
        time(difference.abs())
    );
    answer
}
