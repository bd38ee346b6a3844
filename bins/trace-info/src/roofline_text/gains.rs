//! What gains most, step by step, and what would tell more.

use super::*;

pub(super) fn steps(analysis: &Analysis, top: usize) -> anyhow::Result<Table> {
    let columns = vec![
        Column::uint("step").unit(Unit::Count),
        Column::text("phase"),
        Column::text("requests").align(report::Align::Right),
        Column::text("tokens").align(report::Align::Right),
        Column::uint("kernels").unit(Unit::Count),
        Column::real("known").unit(Unit::Pct),
        Column::real("model").unit(Unit::Nanos),
        Column::real("operators").unit(Unit::Nanos),
        Column::real("floor").unit(Unit::Nanos),
        Column::int("busy").unit(Unit::Nanos),
        Column::int("time").unit(Unit::Nanos),
        Column::text("% of limit").align(report::Align::Right),
    ];
    let mut table = Table::new("steps", columns)?;
    for (number, step) in (0_u64..).zip(&analysis.steps).take(top) {
        let requests = step.lengths.requests().map(count_of).unwrap_or_default();
        let tokens = step.lengths.tokens().map(count_of).unwrap_or_default();
        let ladder = step.ladder();
        let line = |name: &str| {
            let rung = ladder.iter().find(|rung| rung.line == name);
            rung.map(|rung| rung.ns)
        };
        let share = share_text(step).unwrap_or_default();
        table.push(&[
            number.into(),
            step.phase().map_or("", |phase| phase.name()).into(),
            requests.as_str().into(),
            tokens.as_str().into(),
            step.needs.kernels.into(),
            step.known_pct().into(),
            line("model").into(),
            line("operators").into(),
            line("floor").into(),
            step.busy_ns.into(),
            step.step_ns.unwrap_or_else(|| step.span_ns()).into(),
            share.as_str().into(),
        ])?;
    }
    Ok(table)
}

/// What the calls of an operator would gain at their limit, with the kernel that takes most of their time.
pub(super) fn gain_text(gain: &Gain, analysis: &Analysis) -> String {
    let row = &gain.row;
    // A lower bound leaves less to gain, an estimate as much as it is right.
    let sure = match row.basis() {
        Basis::Bound => "at most ",
        Basis::Estimate => "about ",
        _ => "",
    };
    let mut text = format!(
        "{sure}{} in {} {}",
        human::duration(row.gain_ns().unwrap_or(0.0)),
        human::count(row.calls),
        gain.op
    );
    let mut inside = Vec::new();
    if gain.kinds > 1 {
        inside.push(format!("{} rows", human::count(gain.kinds)));
    }
    if !gain.kernel.is_empty() && gain.kernel != gain.op {
        inside.push(format!("mostly kernel {}", short(&gain.kernel)));
    }
    if !inside.is_empty() {
        text.push_str(&format!(" ({})", inside.join(", ")));
    }
    match bound_text(row, analysis) {
        "" => {}
        bound => text.push_str(&format!(", bound by {bound}")),
    }
    if row.pct().is_some() {
        text.push_str(&format!(", at {} %", pct_text(row)));
        text.push_str(" of the limit");
    }
    if let Some(device) = row.device.and_then(|id| analysis.devices.get(id)) {
        text.push_str(&format!(" of device {} ({})", device.id, device.name));
    }
    if gain.no_window {
        text.push_str(" if no layer has a window");
    }
    text
}

/// What would give more of the GPU time numbers, most time first.
pub(super) fn cures(analysis: &Analysis) -> Vec<String> {
    let coverage = &analysis.coverage;
    let lacking = |reason: &str| -> i64 {
        let all = coverage.missing.iter();
        all.filter(|m| m.reason == reason).map(|m| m.time_ns).sum()
    };
    let captures = analysis.list.captures;
    let graph = match (captures.captures, captures.too_small) {
        (0, _) if captures.recordings > 0 => {
            "what was given with --capture has no capture of a graph: give a recording of the \
             engine's start, when it captures its graphs"
                .to_owned()
        }
        (0, _) => "give the recording of the graph capture with --capture".to_owned(),
        (_, 0) => format!(
            "for {} there is no capture with their kernels: give the recording of the capture by the same model and version",
            counted(captures.unmatched.into(), "replay")
        ),
        (_, n) => format!(
            "for {} the captures are of too few tokens: give the recording of the larger ones",
            counted(n.into(), "replay")
        ),
    };
    let mut all = [
        (
            coverage.time_without(Cause::NoLaunch),
            "begin the recording before the work is launched: work whose launch is not recorded has no operator".to_owned(),
        ),
        (coverage.time_without(Cause::Graph), graph),
        (
            lacking("no shapes"),
            "record with record_shapes=True".to_owned(),
        ),
        (
            lacking("sizes of the experts are not recorded"),
            "give the configuration of the model with --model".to_owned(),
        ),
        (
            lacking("no model"),
            "operators of your own get numbers with --extensions".to_owned(),
        ),
    ];
    all.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let all = all.into_iter().filter(|(ns, _)| *ns > 0);
    all.map(|(_, text)| text).collect()
}

/// What would tell more.
pub(super) fn advice(analysis: &Analysis) -> String {
    let mut parts = cures(analysis);
    let bounded = analysis
        .list
        .kinds
        .iter()
        .filter_map(|kind| kind.answer.as_ref().ok())
        .any(|numbers| numbers.note == "keys of earlier steps are not recorded");
    if bounded {
        parts.push(
            "lengths of requests in the annotation of the step tell the keys of attention"
                .to_owned(),
        );
    }
    match parts.is_empty() {
        true => "nothing: all GPU time that can have numbers has them".to_owned(),
        false => parts.join("; "),
    }
}
