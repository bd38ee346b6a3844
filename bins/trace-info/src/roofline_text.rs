//! How far from the limit, as text: the coverage first, then the ladder of a step, then what gains most.

use gpu_time::{Note, percent};
use report::human;
use report::{Column, Table, Unit};
use roofline::{Analysis, Basis, By, Phase, RecordedDevice, Row, StepRow};
use trace_model::kernel::display_names;

use crate::document::Document;
use crate::kernels::precise;
use crate::roofline::{ByName, RooflineArgs};

/// Rows of text unless another number is asked for.
const SHOWN: usize = 20;

/// Reasons that are listed.
const REASONS: usize = 5;

/// Sizes up to which they are shown in text, in characters.
const LONGEST: usize = 36;

fn shown(ns: i64) -> String {
    human::duration(precise(ns))
}

/// The first line: how much of the GPU time has numbers, and on what these rest.
pub(crate) fn coverage(analysis: &Analysis) -> String {
    let coverage = &analysis.coverage;
    let all = coverage.time_ns();
    let known = coverage.known_pct().unwrap_or(0.0);
    let mut text = format!(
        "{} of {} GPU time has numbers",
        human::percent(known),
        shown(all)
    );
    let parts: Vec<String> = Basis::ALL
        .iter()
        .zip(&coverage.by_basis)
        .filter(|(basis, share)| **basis != Basis::Unknown && share.calls > 0)
        .map(|(basis, share)| {
            let share = percent(share.time_ns, all).unwrap_or(0.0);
            format!("{} {}", basis.name(), human::percent(share))
        })
        .collect();
    if !parts.is_empty() {
        text.push_str(&format!(" ({})", parts.join(", ")));
    }
    match (analysis.pct(), analysis.devices.get(analysis.main_device)) {
        (Some(pct), Some(device)) => {
            let subject = match known < 99.95 {
                true => "that part runs",
                false => "it runs",
            };
            text.push_str(&format!(
                "; {subject} at {} of the limit of {}",
                range(pct, analysis.pct_ends()),
                device.name
            ));
        }
        (None, Some(device)) if !coverage.is_empty() => {
            text.push_str(&format!("; no limits: {}", device.how));
        }
        _ => {}
    }
    text.push('.');
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

pub(crate) fn write(
    document: &mut Document,
    args: &RooflineArgs,
    (label, analysis): (&str, &Analysis),
    notes: &[Note],
) -> anyhow::Result<()> {
    document.heading(label);
    document.sentence(coverage(analysis));
    for device in analysis.devices.iter() {
        document.line("device", device_line(device));
        document.line("peaks", peaks_line(device));
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
    if captures.captures > 0 {
        document.line(
            "captures",
            format!(
                "{}: {} replays match one, {} nearly, {} none",
                match captures.captures {
                    1 => "1 capture".to_owned(),
                    n => format!("{} captures", human::count(n)),
                },
                human::count(captures.matched),
                human::count(captures.nearly),
                human::count(captures.unmatched)
            ),
        );
    }
    document.notes(notes);
    for missing in analysis.coverage.missing.iter().take(REASONS) {
        let share = percent(missing.time_ns, analysis.coverage.time_ns()).unwrap_or(0.0);
        let op = short(&missing.op);
        let text = format!(
            "{} ({}) in {op}: {}",
            shown(missing.time_ns),
            human::percent(share),
            missing.reason
        );
        document.line("no numbers", text);
    }
    ladders(document, analysis);
    if let Some(text) = largest_gain(analysis) {
        document.line("gain", text);
    }
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
        }
    }
    document.line("more", advice(analysis));
    Ok(())
}

fn device_line(device: &RecordedDevice) -> String {
    let key = device.key.as_deref().map(|key| format!(" ({key})"));
    format!("{}{}, {}", device.name, key.unwrap_or_default(), device.how)
}

fn peaks_line(device: &RecordedDevice) -> String {
    let mut parts = Vec::new();
    let mut sources: Vec<&str> = Vec::new();
    for (key, peak) in device.peaks.iter() {
        parts.push(format!("{} {} {}", key.name(), peak.value, key.unit()));
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
    for phase in [Phase::Prefill, Phase::Decode, Phase::Mixed] {
        let mut steps: Vec<&StepRow> = analysis
            .steps
            .iter()
            .filter(|step| step.phase() == Some(phase))
            .collect();
        steps.sort_by_key(|step| step.busy_ns);
        let Some(step) = steps.get(steps.len().saturating_sub(1) / 2) else {
            continue;
        };
        let mut text = ladder(step, phase, steps.len(), analysis);
        let pairs = analysis.steps.iter().zip(&analysis.forward);
        let needs = pairs.into_iter().find(|(own, _)| std::ptr::eq(*own, *step));
        if let Some((_, Some(needs))) = needs {
            text.push_str(&format!(
                " The configuration needs weights of {} and KV of {}.",
                bytes(needs.weight_bytes),
                bytes(needs.kv_bytes)
            ));
        }
        document.sentence(text);
    }
}

/// Share of a step's GPU time that has numbers from which on its share of the limit is stated, in percent.
const ENOUGH_KNOWN: f64 = 90.0;

/// What a step needs at least over its busy time, in percent; `None` where too little of that has numbers.
fn share_of_limit(step: &StepRow) -> Option<f64> {
    step.known_pct().filter(|pct| *pct >= ENOUGH_KNOWN)?;
    let busy = precise(step.busy_ns);
    (busy > 0.0).then(|| Some(100.0 * step.model_limit_ns? / busy))?
}

fn ladder(step: &StepRow, phase: Phase, count: usize, analysis: &Analysis) -> String {
    let lengths = &step.lengths;
    let mut head = match count {
        1 => format!("1 {} step", phase.name()),
        n => format!("{n} {} steps, the median", phase.name()),
    };
    if let Some(requests) = lengths.requests() {
        head.push_str(&format!(", {} requests", count_of(requests)));
    }
    if let Some(tokens) = lengths.tokens() {
        head.push_str(&format!(", {} tokens", count_of(tokens)));
    }
    if let Some(sums) = lengths.sums() {
        head.push_str(&format!(", {} keys", count_of(sums.k)));
    }
    if let Some(device) = analysis.devices.get(step.device) {
        head.push_str(&format!(" on {}", device.name));
    }
    let mut parts = Vec::new();
    for rung in step.ladder() {
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
            && let Some(pct) = share_of_limit(step)
        {
            part.push_str(&format!(": {} of the device's limit", human::percent(pct)));
        }
        parts.push(part);
    }
    let mut text = format!("{head}: {}", parts.join(" | "));
    if let Some(pct) = step.known_pct().filter(|pct| *pct < 99.95) {
        text.push_str(&format!(
            "; {} of its GPU time has numbers",
            human::percent(pct)
        ));
        if pct < ENOUGH_KNOWN {
            text.push_str(", too little for a share of the limit");
        }
    }
    if let (Some(rows), Some(tokens)) = (step.rows, lengths.tokens())
        && rows > tokens
    {
        text.push_str(&format!(
            "; {} rows for {} tokens: padded",
            count_of(rows),
            count_of(tokens)
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
            (Some(low), Some(high)) => {
                format!("{} ({} to {})", digits(pct), digits(low), digits(high))
            }
            _ => digits(pct),
        },
        _ => digits(pct),
    }
}

/// Resource that bounds a row; calls shorter than the launch floor are bound by their launch.
fn bound_text(row: &Row, analysis: &Analysis) -> &'static str {
    let device = analysis.devices.get(analysis.main_device);
    let floor = device.map_or(0.0, |device| device.peaks.launch_ns());
    let each = match row.kernels {
        0 => f64::INFINITY,
        #[expect(clippy::cast_precision_loss, reason = "counts are below 2^52")]
        n => precise(row.time_ns) / n as f64,
    };
    match row.bound() {
        Some(_) if each < floor => "launch",
        Some(bound) => bound.name(),
        None => "",
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
    let mut table = Table::new("rows", columns)?;
    let all = analysis.coverage.time_ns();
    let number = |value: Option<f64>| value.map_or(String::new(), report::human::short_count);
    let rows_of = match by.name() {
        _ if is_call => &analysis.calls,
        _ => &analysis.rows,
    };
    for row in rows {
        let kind = analysis
            .list
            .kinds
            .get(row.name as usize)
            .filter(|_| is_call);
        let name = match kind {
            Some(kind) if !kind.kernel.is_empty() => short(&kind.kernel),
            _ if rows_of.by == By::Kernel => short(rows_of.name(&analysis.list, row)),
            _ => cut(rows_of.name(&analysis.list, row)),
        };
        let name = match kind.map(|kind| shapes(&kind.dims)) {
            Some(shapes) if !shapes.is_empty() => format!("{name} {shapes}"),
            _ => name,
        };
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

fn steps(analysis: &Analysis, top: usize) -> anyhow::Result<Table> {
    let columns = vec![
        Column::text("phase"),
        Column::text("requests").align(report::Align::Right),
        Column::text("tokens").align(report::Align::Right),
        Column::uint("kernels").unit(Unit::Count),
        Column::real("model").unit(Unit::Nanos),
        Column::real("operators").unit(Unit::Nanos),
        Column::real("floor").unit(Unit::Nanos),
        Column::int("busy").unit(Unit::Nanos),
        Column::int("span").unit(Unit::Nanos),
        Column::real("% of limit"),
    ];
    let mut table = Table::new("steps", columns)?;
    for step in analysis.steps.iter().take(top) {
        let requests = step.lengths.requests().map(count_of).unwrap_or_default();
        let tokens = step.lengths.tokens().map(count_of).unwrap_or_default();
        table.push(&[
            step.phase().map_or("", |phase| phase.name()).into(),
            requests.as_str().into(),
            tokens.as_str().into(),
            step.needs.kernels.into(),
            step.model_limit_ns.into(),
            step.ops_limit_ns.into(),
            step.floor_limit_ns.into(),
            step.busy_ns.into(),
            step.span_ns().into(),
            share_of_limit(step).into(),
        ])?;
    }
    Ok(table)
}

/// The operator that would gain most at its limit.
fn largest_gain(analysis: &Analysis) -> Option<String> {
    let row = analysis.ops.rows.first()?;
    let gain = row.gain_ns().filter(|gain| *gain > 0.0)?;
    let bound = match bound_text(row, analysis) {
        "" => String::new(),
        bound => format!(", bound by {bound}"),
    };
    Some(format!(
        "{} in {} {} at {} of the limit{bound}",
        human::duration(gain),
        human::count(row.calls),
        analysis.ops.name(&analysis.list, row),
        human::percent(row.pct()?),
    ))
}

/// What would tell more.
fn advice(analysis: &Analysis) -> String {
    let missing = &analysis.coverage.missing;
    let lacks = |reason: &str| missing.iter().any(|m| m.reason == reason);
    let mut parts: Vec<&str> = Vec::new();
    if lacks("no shapes") {
        parts.push("record with record_shapes=True");
    }
    let captures = analysis.list.captures;
    let graphs = analysis.list.calls.iter().any(|call| {
        let kind = analysis.list.kind(call);
        call.in_graph && kind.is_some_and(|kind| kind.op == roofline::NO_OPERATOR)
    });
    if graphs && (captures.captures == 0 || captures.unmatched > 0) {
        parts.push("give the recording of the graph capture with --capture");
    }
    if lacks("sizes of the experts are not recorded") {
        parts.push("give the configuration of the model with --model");
    }
    let bounded = analysis
        .list
        .kinds
        .iter()
        .filter_map(|kind| kind.answer.as_ref().ok())
        .any(|numbers| numbers.note == "keys of earlier steps are not recorded");
    if bounded {
        parts.push("lengths of requests in the annotation of the step tell the keys of attention");
    }
    if lacks("no model") {
        parts.push("operators of your own get numbers with --extensions");
    }
    match parts.is_empty() {
        true => "nothing: all GPU time that can have numbers has them".to_owned(),
        false => parts.join("; "),
    }
}
