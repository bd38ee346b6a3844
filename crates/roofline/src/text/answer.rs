//! The answer in one sentence.

use gpu_time::percent;
use report::human;

use super::advice::cures;
use super::gain::gain_text;
use super::phases::{Steps, forward_of, main_phase};
use super::words::{bytes, shown};
use crate::analysis::Analysis;
use crate::steps::StepRow;
use crate::views::nanos;

/// The answer in one sentence: how much of the GPU time has numbers, how near to the limit it runs, and what gains most.
pub fn answer(analysis: &Analysis) -> String {
    let known = analysis.coverage.known_pct().unwrap_or(0.0);
    let mut text = format!(
        "{} of {} GPU time has numbers",
        human::percent(known),
        shown(analysis.coverage.time_ns())
    );
    let steps = main_phase(analysis);
    let share = steps.as_ref().and_then(|steps| {
        let device = analysis.devices.get(steps.median.device)?;
        Some((share_text(steps.median)?, device.name.as_str()))
    });
    let mut gains_of = "most to gain";
    let configured = steps
        .as_ref()
        .and_then(|steps| by_configuration(steps.median, analysis));
    match (&steps, share, limits_text(analysis)) {
        _ if analysis.devices.differ() => {
            text.push_str(&format!("; {}", devices_text(analysis)));
        }
        (Some(steps), Some((share, device)), _) => match gaps_text(steps, &share, device) {
            // Gaps that are longer than all that kernels could gain come first.
            Some(gaps) => {
                text.push_str(&format!("; {gaps}"));
                gains_of = "most to gain in kernels";
            }
            None => text.push_str(&format!(
                "; {} reaches {share} of the limit of {device}",
                steps.named()
            )),
        },
        (Some(steps), None, _) if configured.is_some() => {
            let share = configured.unwrap_or_default();
            text.push_str(&format!("; {} {share}", steps.named()));
            if let Some(cure) = cures(analysis).first() {
                text.push_str(&format!("; for more, {cure}"));
            }
            text.push('.');
            return text;
        }
        // Without a share of the limit, what a reader can do about that comes first.
        (Some(steps), None, Some((_, devices))) if !steps.median.is_known_enough() => {
            let own = steps.median.known_pct().unwrap_or(0.0);
            text.push_str(&format!(
                "; {} of {}, too little for its share of the limit of {devices}",
                human::percent(own),
                steps.named()
            ));
            if let Some(cure) = cures(analysis).first() {
                text.push_str(&format!(": {cure}"));
            }
            text.push('.');
            return text;
        }
        (_, _, Some((share, devices))) => {
            let subject = match known < 99.95 {
                true => "that part",
                false => "it",
            };
            text.push_str(&match analysis.unlimited_ns() {
                0 => format!("; {subject} reaches {share} of the limit of {devices}"),
                _ => format!(
                    "; on {devices}, whose peaks are known, {subject} reaches {share} of the limit"
                ),
            });
        }
        (_, _, None) if analysis.coverage.is_empty() => {
            if let Some(cure) = cures(analysis).first() {
                text.push_str(&format!(": {cure}"));
            }
        }
        (_, _, None) => {
            if let Some(device) = analysis.devices.get(analysis.main_device) {
                text.push_str(&format!("; no limits: {}", device.how));
            }
        }
    }
    if let Some(gain) = analysis.gains.first() {
        text.push_str(&format!("; {gains_of}: {}", gain_text(gain, analysis)));
    }
    text.push('.');
    text
}

/// How long a step is idle, and what that leaves of the limit, where that is more than kernels could gain.
pub(super) fn gaps_text(steps: &Steps<'_>, share: &str, device: &str) -> Option<String> {
    let step = steps.median;
    let (idle, all) = (step.idle_before_all_ns()?, step.step_ns?);
    let of_step = shared(step, step.share_of_time()?);
    Some(format!(
        "{} takes {}, of which the GPU is idle {} ({}): it reaches {of_step} of the limit of {device}, and {share} while \
         the GPU is busy",
        steps.named(),
        shown(all),
        shown(idle),
        human::percent(percent(idle, all).unwrap_or(0.0))
    ))
}

/// How near each of several different devices is to its limit.
pub(super) fn devices_text(analysis: &Analysis) -> String {
    let parts = analysis.by_device.iter().filter_map(|sums| {
        let device = analysis.devices.get(sums.id)?;
        let share = match sums.pct() {
            Some((pct, ends)) => format!("reaches {} of its limit", range(pct, ends)),
            None if device.peaks.is_known() => "has no calls with limits".to_owned(),
            None => format!("has no limit ({})", device.how),
        };
        Some(format!("device {} ({}) {share}", sums.id, device.name))
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// How near to the limit a step is by the configuration alone.
pub(super) fn by_configuration(step: &StepRow, analysis: &Analysis) -> Option<String> {
    let own = forward_of(step, analysis)?;
    let device = analysis.devices.get(step.device)?;
    let busy = nanos(step.busy_ns);
    let limit = own.limit_ns.filter(|_| busy > 0.0)?;
    let at_least = |is: bool| if is { "at least " } else { "" };
    let least = at_least(own.at_least);
    let fewest = at_least(own.needs.weight_bytes_low < own.needs.weight_bytes);
    Some(format!(
        "reaches at least {} of the limit of {} by the configuration (weights {fewest}{}, KV {least}{}), as {} of it has numbers",
        human::percent(100.0 * limit / busy),
        device.name,
        bytes(own.needs.weight_bytes_low),
        bytes(own.needs.kv_bytes),
        human::percent(step.known_pct().unwrap_or(0.0))
    ))
}

/// How near to their limits the calls with numbers run, and on which devices; `None` without limits.
pub(super) fn limits_text(analysis: &Analysis) -> Option<(String, String)> {
    let share = range(analysis.pct()?, analysis.pct_ends());
    let mut names: Vec<&str> = Vec::new();
    for device in analysis.limited_devices() {
        if !names.contains(&device.name.as_str()) {
            names.push(&device.name);
        }
    }
    Some((share, names.join(" and ")))
}

/// A percentage, or from where to where it can be.
pub(super) fn range(pct: f64, [low, high]: [Option<f64>; 2]) -> String {
    let low = low.map(human::percent);
    let high = high.map(human::percent);
    match (low, high) {
        (Some(low), Some(high)) if low == high => low,
        (Some(low), Some(high)) => format!("{low} to {high}"),
        (Some(low), None) => format!("at least {low}"),
        (None, _) => human::percent(pct),
    }
}

/// The share of the limit that a step reaches: at least so much where calls have no numbers or lower bounds, with its ends where
/// the weights that are read are an estimate.
pub(super) fn share_text(step: &StepRow) -> Option<String> {
    Some(shared(step, step.share_of_limit()?))
}

pub(super) fn shared(step: &StepRow, (pct, [low, high]): (f64, [Option<f64>; 2])) -> String {
    let needs = &step.needs;
    let is_partial = needs.unknown_time_ns > 0 || needs.bounded_time_ns > 0;
    let own = human::percent(pct);
    let [low, high] = [low, high].map(|end| end.map(human::percent));
    match (low.filter(|low| *low != own), high) {
        (None, _) if is_partial => format!("at least {own}"),
        (None, _) => own,
        (Some(low), Some(high)) if !is_partial => format!("{own} ({low} to {high})"),
        (Some(low), _) => format!("{own} (at least {low})"),
    }
}
