//! How far from the limit, as text: the answer first, then the ladder of a step, what gains most, and on what that rests.

mod gains;

use gpu_time::{Note, percent};
use report::human;
use report::{Column, Table, Unit};
use roofline::{
    Analysis, Basis, By, CaptureCounts, Cause, Gain, Numbers, PeakKey, Phase, RecordedDevice, Row,
    StepForward, StepRow, UnitKind,
};
use trace_model::kernel::display_names;

use crate::document::Document;
use crate::kernels::precise;
use crate::roofline::{ByName, RooflineArgs};

use gains::{advice, cures, gain_text, steps};

/// Rows of text unless another number is asked for.
const SHOWN: usize = 20;

/// Reasons that are listed.
const REASONS: usize = 5;

/// Sizes up to which they are shown in text, in characters.
const LONGEST: usize = 36;

fn shown(ns: i64) -> String {
    human::duration(precise(ns))
}

/// The answer in one sentence: how much of the GPU time has numbers, how near to the limit it runs, and what gains most.
pub(crate) fn answer(analysis: &Analysis) -> String {
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
fn gaps_text(steps: &Steps<'_>, share: &str, device: &str) -> Option<String> {
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
fn devices_text(analysis: &Analysis) -> String {
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

/// The needs of a step by the configuration.
fn forward_of<'a>(step: &StepRow, analysis: &'a Analysis) -> Option<&'a StepForward> {
    let at = analysis
        .steps
        .iter()
        .position(|own| std::ptr::eq(own, step))?;
    analysis.forward.get(at)?.as_ref()
}

/// How near to the limit a step is by the configuration alone.
fn by_configuration(step: &StepRow, analysis: &Analysis) -> Option<String> {
    let own = forward_of(step, analysis)?;
    let device = analysis.devices.get(step.device)?;
    let busy = precise(step.busy_ns);
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
fn limits_text(analysis: &Analysis) -> Option<(String, String)> {
    let share = range(analysis.pct()?, analysis.pct_ends());
    let mut names: Vec<&str> = Vec::new();
    for device in analysis.limited_devices() {
        if !names.contains(&device.name.as_str()) {
            names.push(&device.name);
        }
    }
    Some((share, names.join(" and ")))
}

/// On what the numbers rest, and how near to their limits all calls with numbers run together.
fn numbers_line(analysis: &Analysis) -> String {
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

/// A percentage, or from where to where it can be.
fn range(pct: f64, [low, high]: [Option<f64>; 2]) -> String {
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
fn share_text(step: &StepRow) -> Option<String> {
    Some(shared(step, step.share_of_limit()?))
}

fn shared(step: &StepRow, (pct, [low, high]): (f64, [Option<f64>; 2])) -> String {
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

/// The steps of one kind.
struct Steps<'a> {
    phase: Phase,
    count: usize,
    /// Sum of their busy times.
    busy_ns: i64,
    /// The one with the median busy time.
    median: &'a StepRow,
}

impl Steps<'_> {
    fn named(&self) -> String {
        match self.count {
            1 => format!("the {} step", self.phase.name()),
            n => format!("the median of {n} {} steps", self.phase.name()),
        }
    }
}

/// The steps of a phase, if there are any.
fn steps_of(analysis: &Analysis, phase: Phase) -> Option<Steps<'_>> {
    let all = analysis.steps.iter();
    let mut steps: Vec<&StepRow> = all.filter(|step| step.phase() == Some(phase)).collect();
    steps.sort_by_key(|step| step.busy_ns);
    Some(Steps {
        phase,
        count: steps.len(),
        busy_ns: steps.iter().map(|step| step.busy_ns).sum(),
        median: steps.get(steps.len().saturating_sub(1) / 2)?,
    })
}

/// Phases with work, in the order in which they are shown.
const PHASES: [Phase; 3] = [Phase::Prefill, Phase::Decode, Phase::Mixed];

/// The phase with most GPU time.
fn main_phase(analysis: &Analysis) -> Option<Steps<'_>> {
    let all = PHASES.into_iter().rev();
    let all = all.filter_map(|phase| steps_of(analysis, phase));
    all.max_by_key(|steps| steps.busy_ns)
}

pub(crate) fn write(
    document: &mut Document,
    args: &RooflineArgs,
    (label, analysis): (&str, &Analysis),
    notes: &[Note],
) -> anyhow::Result<()> {
    document.heading(label);
    document.sentence(answer(analysis));
    ladders(document, analysis);
    for gain in &analysis.gains {
        document.line("gain", gain_text(gain, analysis));
    }
    document.line("numbers", numbers_line(analysis));
    if let Some(pct) = analysis.achievable_pct() {
        let fractions = args.achievable.iter();
        let fractions = fractions.map(|(key, by)| format!("{} {by}", key.name()));
        let text = format!(
            "calls with numbers reach {} of what is achievable at fractions of {}",
            human::percent(pct),
            fractions.collect::<Vec<_>>().join(", ")
        );
        document.line("achievable", text);
    }
    if let Some(text) = window_line(analysis) {
        document.line("window", text);
    }
    head(document, analysis);
    document.notes(notes);
    let mut beyond: Vec<(String, String)> = Vec::new();
    match args.by {
        ByName::Step => {
            let top = args.top.unwrap_or(SHOWN);
            document.table("steps", steps(analysis, top)?);
        }
        by => {
            let rows = match by {
                ByName::Call => &analysis.calls,
                _ => &analysis.rows,
            };
            let mut order: Vec<&Row> = rows.rows.iter().collect();
            // The question is what to gain, unless another order was asked for.
            if args.sort.is_none() {
                order.sort_by(|a, b| {
                    let key = |row: &Row| row.gain_ns().unwrap_or(f64::NEG_INFINITY);
                    key(b).total_cmp(&key(a))
                });
            }
            let count = args.top.unwrap_or(SHOWN).min(order.len());
            let title = format!("{count} of {} rows", order.len());
            document.table(&title, rows_table(analysis, by, &order[..count])?);
            for row in &order[..count] {
                if let Some(pct) = row.pct().filter(|pct| *pct > 100.0) {
                    let reasons = row.beyond.iter().map(roofline::Beyond::text);
                    let reasons: Vec<&str> = reasons.collect();
                    let name = row_name(analysis, by, row);
                    let text = format!("{}: {}", human::percent(pct), reasons.join("; "));
                    beyond.push((name, text));
                }
            }
        }
    }
    for (name, text) in beyond {
        document.line("beyond", format!("{name} {text}"));
    }
    document.line("more", advice(analysis));
    Ok(())
}

/// The attention whose window is not known.
fn window_line(analysis: &Analysis) -> Option<String> {
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
fn head(document: &mut Document, analysis: &Analysis) {
    let used = used_peaks(analysis);
    let several = analysis.devices.differ();
    for device in analysis.devices.iter() {
        let number = several.then(|| format!("{}: ", device.id));
        let text = format!("{}{}", number.unwrap_or_default(), device_line(device));
        document.line("device", text);
        document.line("peaks", peaks_line(device, &used));
    }
    if let Some(shortest) = analysis.shortest_ns {
        let text = format!(
            "1 % of the GPU activities take less than {}",
            shown(shortest)
        );
        document.line("shortest", text);
    }
    for (own, taken) in &analysis.fallbacks {
        let text = format!(
            "no units for {}: the peak of {} is taken",
            own.name(),
            taken.name()
        );
        document.line("fallback", text);
    }
    let captures = analysis.list.captures;
    if captures.recordings > 0 {
        document.line("captures", captures_line(captures));
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
        document.line("no numbers", text);
    }
}

fn captures_line(captures: CaptureCounts) -> String {
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
fn used_peaks(analysis: &Analysis) -> Vec<PeakKey> {
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

fn device_line(device: &RecordedDevice) -> String {
    let key = device.key.as_deref().map(|key| format!(" ({key})"));
    format!("{}{}, {}", device.name, key.unwrap_or_default(), device.how)
}

/// A peak as its source states it; one that is scaled, to four digits.
fn peak_text(value: f64) -> String {
    let text = value.to_string();
    match text.len() > 7 {
        true => human::short_count(value),
        false => text,
    }
}

/// The peaks that were used, with their sources.
fn peaks_line(device: &RecordedDevice, used: &[PeakKey]) -> String {
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

/// The name of a kernel or an operator, so short that it fits a row.
pub(crate) fn short(name: &str) -> String {
    let shown = display_names([name]);
    cut(shown.get(name).map_or(name, String::as_str))
}

/// The ladder of the median step of each phase.
fn ladders(document: &mut Document, analysis: &Analysis) {
    for steps in PHASES.into_iter().filter_map(|p| steps_of(analysis, p)) {
        let mut text = ladder(&steps, analysis);
        if let Some(own) = forward_of(steps.median, analysis) {
            let least = if own.at_least { "at least " } else { "" };
            text.push_str(&format!(
                " The configuration needs weights of {} and KV of {least}{}",
                bytes(own.needs.weight_bytes),
                bytes(own.needs.kv_bytes)
            ));
            let busy = precise(steps.median.busy_ns);
            if let Some(limit) = own.limit_ns.filter(|_| busy > 0.0) {
                text.push_str(&format!(
                    ": at least {}, {} of the busy time",
                    human::duration(limit),
                    human::percent(100.0 * limit / busy)
                ));
            }
            text.push('.');
        }
        document.sentence(text);
    }
}

fn ladder(steps: &Steps<'_>, analysis: &Analysis) -> String {
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

#[expect(
    clippy::cast_possible_truncation,
    reason = "a number of tokens, rounded up"
)]
fn whole(tokens: f64) -> i64 {
    tokens.ceil() as i64
}

/// A number of things, with their name in the right number.
pub(crate) fn counted(n: u128, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{} {what}s", count_of(n)),
    }
}

pub(crate) fn count_of(n: u128) -> String {
    human::count(i128::try_from(n).unwrap_or(i128::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
pub(crate) fn bytes(n: u128) -> String {
    human::bytes(n as f64)
}

/// The percentage of a row, with the ends that its bytes allow.
fn pct_text(row: &Row) -> String {
    let Some(pct) = row.pct() else {
        return String::new();
    };
    let of = |limit: Option<f64>| {
        let time = precise(row.known_time_ns);
        limit.filter(|_| time > 0.0).map(|ns| 100.0 * ns / time)
    };
    let digits = |pct: f64| format!("{pct:.1}");
    match row.basis() {
        Basis::Bound => format!("≥ {}", digits(of(row.limit_low_ns).unwrap_or(pct))),
        Basis::Estimate => match (of(row.limit_low_ns), of(row.limit_high_ns)) {
            (Some(low), Some(high)) if digits(low) != digits(high) => {
                format!("{} ({} to {})", digits(pct), digits(low), digits(high))
            }
            _ => digits(pct),
        },
        _ => digits(pct),
    }
}

/// Resource that bounds a row; calls shorter than the launch floor are bound by their launch.
fn bound_text(row: &Row, analysis: &Analysis) -> &'static str {
    let device = row.device.unwrap_or(analysis.main_device);
    let device = analysis.devices.get(device);
    match row.bound() {
        Some(_) if device.is_some_and(|device| row.is_launch_bound(&device.peaks)) => "launch",
        Some(bound) => bound.name(),
        None => "",
    }
}

/// The name of a row, with the sizes of a call.
fn row_name(analysis: &Analysis, by: ByName, row: &Row) -> String {
    let list = &analysis.list;
    if by != ByName::Call {
        let name = analysis.rows.name(list, row);
        return match analysis.rows.by {
            By::Kernel => short(name),
            _ => cut(name),
        };
    }
    let Some(kind) = list.kinds.get(row.name as usize) else {
        return String::new();
    };
    let name = match kind.kernel.as_str() {
        "" => cut(&kind.op),
        kernel => short(kernel),
    };
    match shapes(&kind.dims) {
        shapes if shapes.is_empty() => name,
        shapes => format!("{name} {shapes}"),
    }
}

fn rows_table(analysis: &Analysis, by: ByName, rows: &[&Row]) -> anyhow::Result<Table> {
    let is_call = by == ByName::Call;
    let mut columns = vec![Column::text(if is_call { "op" } else { by.name() })];
    let right = |name: &'static str| Column::text(name).align(report::Align::Right);
    columns.extend([
        Column::uint("calls").unit(Unit::Count),
        Column::int("time").unit(Unit::Nanos),
        Column::real("share").unit(Unit::Pct),
        right("TFLOP/s"),
        right("GB/s"),
        right("FLOP/B"),
        Column::text("bound"),
        right("% of limit"),
        Column::real("gain").unit(Unit::Nanos),
    ]);
    let differ = analysis.devices.differ();
    if differ {
        columns.push(Column::int("device"));
    }
    let mut table = Table::new("rows", columns)?;
    let all = analysis.coverage.time_ns();
    let number = |value: Option<f64>| value.map_or(String::new(), report::human::short_count);
    for row in rows {
        let name = row_name(analysis, by, row);
        let (tflops, gbs) = (number(row.tflops()), number(row.gbs()));
        let intensity = number(row.intensity());
        let pct = pct_text(row);
        let mut cells: Vec<report::Cell<'_>> = vec![name.as_str().into()];
        cells.extend([
            report::Cell::from(row.calls),
            row.time_ns.into(),
            percent(row.time_ns, all).into(),
            tflops.as_str().into(),
            gbs.as_str().into(),
            intensity.as_str().into(),
            bound_text(row, analysis).into(),
            pct.as_str().into(),
            row.gain_ns().into(),
        ]);
        if differ {
            cells.push(row.device.into());
        }
        table.push(&cells)?;
    }
    Ok(table)
}

/// Text that fits a column.
pub(crate) fn cut(text: &str) -> String {
    match text.chars().count() > LONGEST {
        true => {
            let cut: String = text.chars().take(LONGEST - 1).collect();
            format!("{cut}…")
        }
        false => text.to_owned(),
    }
}

/// Sizes without those of scalars: `[[32,4096],[4096,9216],[]]` is `32,4096 4096,9216`.
pub(crate) fn shapes(dims: &str) -> String {
    let inner = dims.strip_prefix('[').and_then(|d| d.strip_suffix(']'));
    let parts = inner.unwrap_or(dims).split("],");
    let parts: Vec<&str> = parts
        .map(|part| part.trim_matches(['[', ']', ',']))
        .filter(|part| !part.is_empty())
        .collect();
    cut(&parts.join(" "))
}
