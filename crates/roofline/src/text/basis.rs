//! On what the numbers rest: devices, peaks, captures, assumptions, and what is left out.

use gpu_time::percent;
use report::human;

use super::Line;
use super::answer::limits_text;
use super::words::{counted, short, shown};
use crate::analysis::Analysis;
use crate::calls::CaptureCounts;
use crate::device::PeakKey;
use crate::limit::RecordedDevice;
use crate::numbers::{Basis, Numbers, UnitKind};

/// Reasons that are listed.
pub(super) const REASONS: usize = 5;

/// On what the numbers rest, and how near to their limits all calls with numbers run together.
pub(super) fn numbers_line(analysis: &Analysis) -> String {
    let coverage = &analysis.coverage;
    let all = coverage.time_ns();
    let parts = Basis::ALL.iter().zip(&coverage.by_basis);
    let parts = parts.filter(|(_, share)| share.calls > 0);
    let parts: Vec<String> = parts
        .map(|(basis, share)| {
            let share = percent(share.time_ns, all).unwrap_or(0.0);
            format!("{} {}", basis.name(), human::percent(share))
        })
        .collect();
    let mut text = parts.join(", ");
    if let Some((share, _)) = limits_text(analysis) {
        text.push_str(&format!(
            "; calls with numbers reach {share} of their limits"
        ));
        let without = analysis.unlimited_ns();
        if without > 0 {
            text.push_str(&format!(
                ", but for {} on devices whose peaks are not known",
                shown(without)
            ));
        }
    }
    text
}

/// The attention whose window is not known.
pub(super) fn window_line(analysis: &Analysis) -> Option<String> {
    if analysis.list.tp.is_some() {
        // The configuration says which layers have one.
        return None;
    }
    let (mut calls, mut ns) = (0_u64, 0_i64);
    for row in &analysis.calls.rows {
        let kind = analysis.list.kinds.get(row.name as usize);
        let numbers = kind.and_then(|kind| kind.answer.as_ref().ok());
        if numbers.is_some_and(Numbers::assumes_no_window) {
            calls += row.calls;
            ns = ns.saturating_add(row.time_ns);
        }
    }
    (calls > 0).then(|| {
        format!(
            "no window assumed in {} of attention ({}), as none is recorded: if layers have one, these need fewer keys; --model says which do",
            counted(calls.into(), "call"),
            shown(ns)
        )
    })
}

/// What the numbers were made with: devices, peaks, captures, and what is left out.
pub(super) fn head(analysis: &Analysis) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let used = used_peaks(analysis);
    let several = analysis.devices.differ();
    for device in analysis.devices.iter() {
        let number = several.then(|| format!("{}: ", device.id));
        let text = format!("{}{}", number.unwrap_or_default(), device_line(device));
        lines.push(("device", text));
        lines.push(("peaks", peaks_line(device, &used)));
    }
    if let Some(shortest) = analysis.shortest_ns {
        let text = format!(
            "1 % of the GPU activities take less than {}",
            shown(shortest)
        );
        lines.push(("shortest", text));
    }
    for (own, taken) in &analysis.fallbacks {
        let text = format!(
            "no units for {}: the peak of {} is taken",
            own.name(),
            taken.name()
        );
        lines.push(("fallback", text));
    }
    let captures = analysis.list.captures;
    if captures.recordings > 0 {
        lines.push(("captures", captures_line(captures)));
    }
    for missing in analysis.coverage.missing.iter().take(REASONS) {
        let share = percent(missing.time_ns, analysis.coverage.time_ns()).unwrap_or(0.0);
        let op = short(&missing.op);
        let cause = missing.cause.map(|cause| format!(" ({})", cause.text()));
        let text = format!(
            "{} ({}) in {op}: {}{}",
            shown(missing.time_ns),
            human::percent(share),
            missing.reason,
            cause.unwrap_or_default()
        );
        lines.push(("no numbers", text));
    }
    lines
}

pub(super) fn captures_line(captures: CaptureCounts) -> String {
    let mut text = format!(
        "{} in {}: {} {} one, {} nearly, {} none",
        match captures.captures {
            0 => "no captures".to_owned(),
            n => counted(n.into(), "capture"),
        },
        counted(captures.recordings.into(), "recording"),
        counted(captures.matched.into(), "replay"),
        match captures.matched {
            1 => "matches",
            _ => "match",
        },
        human::count(captures.nearly),
        human::count(captures.unmatched)
    );
    if captures.too_small > 0 {
        text.push_str(&format!(
            "; for {} of them all captures with these kernels are of fewer tokens than the step has",
            human::count(captures.too_small)
        ));
    }
    if captures.unsure > 0 {
        text.push_str(&format!(
            "; for {} several captures fit that may be of different sizes, so their numbers are estimates where these differ",
            counted(captures.unsure.into(), "replay")
        ));
    }
    text
}

/// The peaks that limits were computed with.
pub(super) fn used_peaks(analysis: &Analysis) -> Vec<PeakKey> {
    let mut used = vec![PeakKey::Hbm, PeakKey::Launch];
    for row in &analysis.calls.rows {
        let kind = analysis.list.kinds.get(row.name as usize);
        let Some(numbers) = kind.and_then(|kind| kind.answer.as_ref().ok()) else {
            continue;
        };
        let precision = row.fallback.or(numbers.precision);
        match (numbers.unit, precision) {
            (UnitKind::Matrix, Some(precision)) => used.push(PeakKey::Arithmetic(precision)),
            (UnitKind::Vector, _) => used.push(PeakKey::Vector),
            _ => {}
        }
        match (numbers.link_bytes, numbers.to_host) {
            (0, _) => {}
            (_, true) => used.push(PeakKey::Pcie),
            (_, false) => used.push(PeakKey::Link),
        }
    }
    used.sort_unstable();
    used.dedup();
    used
}

pub(super) fn device_line(device: &RecordedDevice) -> String {
    let key = device.key.as_deref().map(|key| format!(" ({key})"));
    format!("{}{}, {}", device.name, key.unwrap_or_default(), device.how)
}

/// A peak as its source states it; one that is scaled, to four digits.
pub(super) fn peak_text(value: f64) -> String {
    let text = value.to_string();
    match text.len() > 7 {
        true => human::short_count(value),
        false => text,
    }
}

/// The peaks that were used, with their sources.
pub(super) fn peaks_line(device: &RecordedDevice, used: &[PeakKey]) -> String {
    let mut parts = Vec::new();
    let mut sources: Vec<&str> = Vec::new();
    for (key, peak) in device.peaks.iter().filter(|(key, _)| used.contains(key)) {
        parts.push(format!(
            "{} {} {}",
            key.name(),
            peak_text(peak.value),
            key.unit()
        ));
        if !sources.contains(&peak.source.as_str()) {
            sources.push(&peak.source);
        }
    }
    match device.peaks.is_known() {
        true => format!("{}; source: {}", parts.join(", "), sources.join("; ")),
        false => "not known: name the device with --device, or peaks with --peak".to_owned(),
    }
}
