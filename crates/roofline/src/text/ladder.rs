//! The ladder of the median step of each phase, as sentences.

use report::human;

use super::answer::share_text;
use super::phases::{PHASES, Steps, forward_of, steps_of};
use super::words::{bytes, counted, whole};
use crate::analysis::Analysis;
use crate::views::nanos;

/// The ladder of the median step of each phase.
pub(super) fn ladders(analysis: &Analysis) -> Vec<String> {
    let all = PHASES.into_iter().filter_map(|p| steps_of(analysis, p));
    let texts = all.map(|steps| {
        let mut text = ladder(&steps, analysis);
        if let Some(own) = forward_of(steps.median, analysis) {
            let least = if own.at_least { "at least " } else { "" };
            text.push_str(&format!(
                " The configuration needs weights of {} and KV of {least}{}",
                bytes(own.needs.weight_bytes),
                bytes(own.needs.kv_bytes)
            ));
            let busy = nanos(steps.median.busy_ns);
            if let Some(limit) = own.limit_ns.filter(|_| busy > 0.0) {
                text.push_str(&format!(
                    ": at least {}, {} of the busy time",
                    human::duration(limit),
                    human::percent(100.0 * limit / busy)
                ));
            }
            text.push('.');
        }
        text
    });
    texts.collect()
}

pub(super) fn ladder(steps: &Steps<'_>, analysis: &Analysis) -> String {
    let (step, phase) = (steps.median, steps.phase);
    let lengths = &step.lengths;
    let mut head = match steps.count {
        1 => format!("1 {} step", phase.name()),
        n => format!("{n} {} steps, the median", phase.name()),
    };
    if let Some(requests) = lengths.requests() {
        head.push_str(&format!(", {}", counted(requests, "request")));
    }
    if let Some(tokens) = lengths.tokens() {
        head.push_str(&format!(", {}", counted(tokens, "token")));
    }
    if let Some(sums) = lengths.sums() {
        head.push_str(&format!(", {}", counted(sums.k, "key")));
    }
    if let Some(device) = analysis.devices.get(step.device) {
        head.push_str(&format!(" on {}", device.name));
    }
    let mut parts = Vec::new();
    for rung in step.ladder() {
        // A lower bound of nothing tells nothing.
        if rung.line == "model" && rung.at_least && rung.ns <= 0.0 {
            continue;
        }
        let at_least = if rung.at_least { "≥ " } else { "" };
        let mut part = format!("{} {at_least}{}", rung.line, human::duration(rung.ns));
        if rung.line == "model" {
            part.push_str(&format!(
                " (weights {}, KV {})",
                bytes(step.needs.weight_bytes),
                bytes(step.needs.kv_bytes)
            ));
        }
        if rung.line == "busy"
            && let Some(share) = share_text(step)
        {
            part.push_str(&format!(": {share} of the device's limit"));
        }
        parts.push(part);
    }
    let mut text = format!("{head}: {}", parts.join(" | "));
    if let Some(pct) = step.known_pct().filter(|pct| *pct < 99.95) {
        text.push_str(&format!(
            "; {} of its GPU time has numbers",
            human::percent(pct)
        ));
        if !step.is_known_enough() {
            text.push_str(", too little for a share of the limit");
        }
    }
    if let (Some(rows), Some(tokens)) = (step.rows, lengths.tokens())
        && rows > tokens
    {
        text.push_str(&format!(
            "; {} for {}: padded",
            counted(rows, "row"),
            counted(tokens, "token")
        ));
    }
    if let Some(balance) = step.balance_tokens {
        text.push_str(&format!(
            "; arithmetic takes as long as the weights from {} tokens on",
            human::count(whole(balance))
        ));
    }
    text.push('.');
    text
}
