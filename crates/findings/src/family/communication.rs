//! Collectives with nothing beside them, and collectives slower than their link.

use critical_path::Class;
use gpu_time::comm::summarise;

use super::{Context, replay, sums};
use crate::draft::{Draft, Strength, longest_of, said};
use crate::job::{Item, Phase, Portion, StepFact};
use crate::numbers::{pct, time};

/// Message size from which a collective should reach the speed of its link.
const LARGE_BYTES: u64 = 1 << 20;

/// Share of the link's speed below which such a collective is slow, in percent.
const SLOW: f64 = 33.0;

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let mut out = Vec::new();
    let job = context.job;
    let takes = |item: &Item| item.class == Class::Comm && item.portion != Portion::Wait;
    let mut draft = Draft::new("communication_exposed", phase).over(job, phase, takes);
    if draft.reported(context.catalogue, phase).is_none() {
        return out;
    }
    let includes_waiting = !job.comm.knows_waits();
    draft.strength = match includes_waiting {
        true => Strength::Fits,
        false => Strength::Favoured,
    };
    draft.gain = replay("comm:transfer=0");
    draft.rank = Some(job.rank());
    let name = sums(job, phase, |item| takes(item).then(|| item.name.clone()));
    let name = name
        .into_iter()
        .next()
        .map_or_else(String::new, |(name, _)| name);
    let steps: Vec<&StepFact> = job.of(phase).collect();
    draft.evidence.extend(longest_of(job, &steps, &name, takes));
    if includes_waiting {
        draft.evidence.push(said(
            job,
            "waiting for ranks that are not recorded is part of this time".to_owned(),
        ));
    }
    let rows = summarise(&job.digests, &job.comm);
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
        .push(format!("inferscope trace-info comm {}", context.paths));
    draft.name = Some(name.clone());
    // What is slower than its link is named as that.
    let limits = &job.headline_facts().limits;
    let link = limits.link_bytes_per_s.filter(|link| *link > 0.0);
    let slow = rows.iter().find_map(|row| {
        let is_large = row.key.bytes.is_some_and(|bytes| bytes >= LARGE_BYTES);
        let rate = row.busbw_bytes_per_s.filter(|_| is_large)?;
        let reached = 100.0 * rate / link?;
        (reached < SLOW).then_some((row, rate, reached))
    });
    if let Some((row, rate, reached)) = slow {
        let mut slow = draft.clone();
        slow.kind = "communication_slow";
        slow.strength = Strength::Favoured;
        slow.gain = match link {
            Some(link) => replay(&format!("comm=link:{:.3}", link / 1e9)),
            None => replay("comm:transfer=0"),
        };
        let op = row.key.op.map_or("collective", |op| op.name());
        slow = slow
            .word("name", op)
            .word("rate", report::human::byte_rate(rate))
            .word("limit", pct(reached))
            .word("device", limits.device.clone());
        if slow.reported(context.catalogue, phase).is_some() {
            out.push(slow);
        }
    }
    out.push(draft);
    out
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn real(n: u64) -> f64 {
    n as f64
}
