//! Collectives with nothing beside them, and collectives slower than their link.

use critical_path::Class;
use gpu_time::comm::summarise;

use super::{Context, replay, sums};
use crate::draft::{Draft, Strength, longest_of, said};
use crate::job::{Item, Phase, Portion, StepFact};
use crate::numbers::{pct, time};

/// Time of a collective within a node whatever its size, in nanoseconds: what nccl-tests show for a few bytes.
const LATENCY_NS: f64 = 15_000.0;

/// Factor over the time that its bytes and its latency need from which a collective is slow.
const SLOWER: f64 = 2.0;

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let mut out = Vec::new();
    let job = context.job;
    let takes = |item: &Item| item.class == Class::Comm && item.portion != Portion::Wait;
    let mut draft = Draft::new("communication_exposed", phase).over_idle(job, phase, takes);
    if draft.reported(context.catalogue, phase).is_none() {
        return out;
    }
    let rows = summarise(&job.digests, &job.comm);
    let limits = &job.headline_facts().limits;
    let link = limits.link_bytes_per_s.filter(|link| *link > 0.0);
    let needed = link.and_then(|link| needed(&rows, link));
    let includes_waiting = !job.knows_all_waits();
    draft.strength = match includes_waiting {
        true => Strength::Fits,
        false => Strength::Favoured,
    };
    // Of a collective that other members are missing of, waiting and transfer are one.
    let is_parted = job.of(phase).all(|step| {
        let mut taken = step.items.iter().filter(|item| takes(item));
        taken.all(|item| item.portion == Portion::Transfer)
    });
    draft.gain = match is_parted {
        true => replay("comm:transfer=0"),
        false => replay("comm=0").capped(),
    };
    draft.rank = Some(job.rank());
    let name = sums(job, phase, |item| takes(item).then(|| item.name.clone()));
    let name = name
        .into_iter()
        .next()
        .map_or_else(String::new, |(name, _)| name);
    let steps: Vec<&StepFact> = job.of(phase).collect();
    draft.evidence.extend(longest_of(job, &steps, &name, takes));
    let own = job.digests.get(job.at).map(|digest| &digest.time);
    if let Some(own) = own.filter(|own| own.comm_ns > 0) {
        draft.evidence.push(said(
            job,
            format!(
                "of {} in collectives on the GPU, no other work runs beside {} in the whole recording",
                time(own.comm_ns),
                time(own.exposed_ns)
            ),
        ));
    }
    if includes_waiting {
        draft.evidence.push(said(
            job,
            "waiting for ranks that are not recorded is part of this time".to_owned(),
        ));
    }
    draft.evidence.push(said(
        job,
        match needed {
            Some(needed) => format!(
                "their bytes need {} of this time at the speed of the link, and the latency of each collective is part of the rest: what other collectives could save is less than all of it",
                pct(needed)
            ),
            None => format!(
                "{}: between nothing and all of this time could be saved",
                match (link, rows.iter().any(|row| row.key.bytes.is_some())) {
                    (None, true) => "the speed of the link is not known, which the rates below have to be held against",
                    (None, false) => "neither their sizes nor the speed of the link are known",
                    (Some(_), _) => "the sizes of most of them are not known",
                }
            ),
        },
    ));
    for row in rows.iter().take(3) {
        let bytes = row.key.bytes;
        let size = bytes.map_or_else(
            || "unknown size".to_owned(),
            |bytes| report::human::bytes(real(bytes)),
        );
        let rate = row.busbw_bytes_per_s.map_or_else(String::new, |rate| {
            format!(", {} bus bandwidth", report::human::byte_rate(rate))
        });
        draft.evidence.push(said(
            job,
            format!(
                "{} of {size}: {} times, median {}{rate}",
                row.key.op.map_or("collective", |op| op.name()),
                row.collectives,
                time(crate::numbers::whole_ns(row.median_latency_ns)),
            ),
        ));
    }
    draft
        .commands
        .push(format!("inferscope trace-info comm {}", context.traces));
    draft.name = Some(name.clone());
    draft = draft.word(
        "bounds",
        match needed {
            Some(needed) => format!(
                "; their bytes need {} of it at the speed of the link",
                pct(needed)
            ),
            None => String::new(),
        },
    );
    // What is slower than its link is named as that.
    let slow = rows.iter().find_map(|row| {
        let rate = row.busbw_bytes_per_s.filter(|rate| *rate > 0.0)?;
        let latency = row.mean_latency_ns()?;
        let reached = rate / link?;
        // Time that the bytes need, and what a collective of no bytes takes.
        let expected = latency * reached + LATENCY_NS;
        (latency > SLOWER * expected).then_some((row, rate, reached, expected / latency))
    });
    if let Some((row, rate, reached, part)) = slow {
        let mut slow = draft.clone();
        slow.kind = "communication_slow";
        slow.strength = Strength::Favoured;
        // What they take longer than expected.
        for (_, ns) in &mut slow.values {
            #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
            let longer = *ns as f64 * (1.0 - part);
            *ns = crate::numbers::whole_ns(longer);
        }
        slow.gain = replay(&format!("comm:transfer={part:.6}")).capped();
        let op = row.key.op.map_or("collective", |op| op.name());
        slow = slow
            .word("name", op)
            .word("rate", report::human::byte_rate(rate))
            .word("limit", pct(100.0 * reached))
            .word("device", limits.device.clone());
        if slow.reported(context.catalogue, phase).is_some() {
            out.push(slow);
        }
    }
    out.push(draft);
    out
}

/// Returns the share of the time of collectives that their bytes need at the speed of the link, in percent; `None` unless the sizes of
/// most of that time are known.
fn needed(rows: &[gpu_time::comm::CommSummary], link: f64) -> Option<f64> {
    let (mut all, mut known, mut need) = (0.0, 0.0, 0.0);
    for row in rows {
        let Some(latency) = row.mean_latency_ns() else {
            continue;
        };
        let time = latency * real(row.collectives as u64);
        all += time;
        if let Some(rate) = row.busbw_bytes_per_s {
            known += time;
            need += time * (rate / link).min(1.0);
        }
    }
    (known * 2.0 >= all && all > 0.0).then(|| 100.0 * need / known)
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn real(n: u64) -> f64 {
    n as f64
}
