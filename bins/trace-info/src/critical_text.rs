//! The critical path as text: the answer first.

use std::collections::BTreeMap;

use critical_path::{Analysis, Group, Limit, StepRow};
use gpu_time::Note;
use report::human;
use report::{Column, Table, Unit};
use trace_model::kernel::display_names;

use crate::critical_path::CriticalPathArgs;
use crate::document::Document;
use crate::kernels::precise;

/// Shares from which on a second group is named, in percent.
const ALSO: f64 = 5.0;

/// Errors of the model from which on predictions are doubted, in percent.
const DOUBTFUL: f64 = 5.0;

fn shown(ns: i64) -> String {
    human::duration(precise(ns))
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn share(part: i64, whole: i64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 * 100.0 / whole as f64,
    }
}

/// What is to be doubted.
pub(crate) fn doubts(analysis: &Analysis) -> Vec<Note> {
    let mut notes = Vec::new();
    let launches = analysis.edges.get("launch").copied().unwrap_or(0);
    if analysis.contradicted.saturating_mul(100) > launches.max(1) {
        notes.push(
            Note::new(
                "contradicted",
                "dependencies contradict the recorded times and are left out: the clocks of host and device, or of ranks, \
                 may differ",
            )
            .count(analysis.contradicted),
        );
    }
    if analysis.replay.model_error_pct.abs() > DOUBTFUL {
        let text = format!(
            "typical latencies alone miss the recorded time by {}: gains are uncertain by as much",
            human::percent(analysis.replay.model_error_pct.abs())
        );
        notes.push(Note::new("model_error", text));
    }
    for change in analysis.what_if.iter().filter(|change| change.touched == 0) {
        let text = format!("the change {} touches nothing in the window", change.change);
        notes.push(Note::new("touches_nothing", text));
    }
    notes
}

/// Steps of one phase.
struct Phase<'a> {
    name: String,
    steps: Vec<&'a StepRow>,
}

/// The phase of a step by its name: what the engine says, else the name without numbers.
fn phase_of(name: &str) -> String {
    if let Some(phase) = rca_cycles::phase_in_name(name) {
        return phase.name().to_owned();
    }
    let end = name.find(|c: char| c.is_ascii_digit() || c == '#' || c == '(');
    let stem = name.get(..end.unwrap_or(name.len())).unwrap_or(name);
    let stem = stem.trim_end_matches(['_', ' ', ':', '[']);
    if stem.is_empty() { name } else { stem }.to_owned()
}

fn phases(analysis: &Analysis) -> Vec<Phase<'_>> {
    let mut by_name: BTreeMap<String, Vec<&StepRow>> = BTreeMap::new();
    for step in &analysis.steps {
        by_name.entry(phase_of(&step.name)).or_default().push(step);
    }
    let phases = by_name.into_iter();
    let mut phases: Vec<Phase<'_>> = phases.map(|(name, steps)| Phase { name, steps }).collect();
    phases.sort_by_key(|phase| {
        let all: i64 = phase.steps.iter().map(|step| step.duration_ns).sum();
        std::cmp::Reverse(all)
    });
    phases
}

fn median(steps: &[&StepRow]) -> i64 {
    let mut times: Vec<i64> = steps.iter().map(|step| step.duration_ns).collect();
    times.sort_unstable();
    times
        .get((times.len().max(1) - 1) / 2)
        .copied()
        .unwrap_or(0)
}

fn sentence(phase: &Phase<'_>) -> String {
    let count = phase.steps.len();
    let time = shown(median(&phase.steps));
    let subject = match (count, phase.name.as_str()) {
        (1, "whole") => format!("The whole recording takes {time}"),
        (1, name) => format!("1 {name} step takes {time}"),
        (n, name) => format!("{} {name} steps, median {time}", human::count(n as u64)),
    };
    let total: i64 = phase.steps.iter().map(|step| step.groups.total()).sum();
    let mut groups: Vec<(Group, i64)> = Group::ALL
        .into_iter()
        .map(|group| {
            (
                group,
                phase.steps.iter().map(|step| step.groups.of(group)).sum(),
            )
        })
        .collect();
    groups.sort_by_key(|(group, ns)| (std::cmp::Reverse(*ns), *group));
    let Some((largest, most)) = groups.first().copied().filter(|first| first.1 > 0) else {
        return format!("{subject}: no time on the path is known.");
    };
    let limit = match largest {
        Group::Gpu => common_limit(&phase.steps),
        _ => String::new(),
    };
    let pct = share(most, total);
    let verdict = match largest {
        Group::Unknown => format!("what bounds them is unknown for {}", human::percent(pct)),
        group => format!("{}{limit} {}", group.verdict(), human::percent(pct)),
    };
    let several = match pct < 50.0 {
        true => ", the largest of several",
        false => "",
    };
    let rest = groups
        .iter()
        .skip(1)
        .filter(|(_, ns)| share(*ns, total) >= ALSO);
    let rest: Vec<String> = rest
        .map(|(group, ns)| format!("{} {}", group.name(), human::percent(share(*ns, total))))
        .collect();
    let rest = match rest.is_empty() {
        true => String::new(),
        false => format!("; {}", rest.join(", ")),
    };
    format!("{subject}: {verdict}{several}{rest}.")
}

/// The limit that most of the time of the steps has.
fn common_limit(steps: &[&StepRow]) -> String {
    let mut times: BTreeMap<Limit, i64> = BTreeMap::new();
    for step in steps {
        if let Some(limit) = step.limit {
            *times.entry(limit).or_default() += step.duration_ns;
        }
    }
    let most = times.into_iter().max_by_key(|entry| entry.1);
    match most {
        Some((limit, _)) => format!(" ({})", limit.name()),
        None => String::new(),
    }
}

pub(crate) fn document(
    document: &mut Document,
    args: &CriticalPathArgs,
    analysis: &Analysis,
    steps_by: &str,
    notes: &[Note],
) -> anyhow::Result<()> {
    for phase in phases(analysis) {
        document.sentence(sentence(&phase));
    }
    lines(document, analysis, steps_by, notes);
    document.table("budget", budget(analysis)?);
    if !args.what_if.is_empty() {
        document.table("what if", what_if(analysis)?);
    }
    if !analysis.opportunities.is_empty() {
        document.table(
            "without the largest names on the path",
            opportunities(analysis)?,
        );
    }
    if analysis.steps.len() > 1 {
        document.table("steps", steps(analysis, 12)?);
    }
    document.table("largest on the path", names(analysis, 12)?);
    if args.path {
        document.table("path", segments(analysis)?);
    }
    if args.ops {
        document.table("GPU activities", ops(analysis)?);
    }
    Ok(())
}

fn lines(document: &mut Document, analysis: &Analysis, steps_by: &str, notes: &[Note]) {
    let mut limits: Vec<_> = analysis
        .limits
        .iter()
        .filter(|row| row.gain_ns > 0)
        .collect();
    limits.retain(|row| row.group != Group::Unknown);
    limits.sort_by_key(|row| std::cmp::Reverse(row.gain_ns));
    let gains: Vec<String> = limits
        .iter()
        .take(3)
        .map(|row| {
            format!(
                "without {} {} less ({})",
                group_words(row.group),
                human::percent(row.gain_pct),
                shown(row.gain_ns)
            )
        })
        .collect();
    if !gains.is_empty() {
        document.line("at most", gains.join("; "));
    }
    let replay = &analysis.replay;
    document.line(
        "model",
        format!(
            "typical latencies alone give {} ({}{}); replay without a change is off by {} ns",
            shown(replay.model_ns),
            if replay.model_error_pct > 0.0 {
                "+"
            } else {
                ""
            },
            human::percent(replay.model_error_pct),
            replay.identity_error_ns
        ),
    );
    let how = match steps_by {
        "annotation" => "annotations of the engine",
        "cycle" => "cycles of the engine's loop",
        _ => "the whole recording",
    };
    let period = analysis.period_ns.map_or_else(String::new, |ns| {
        format!("; begin to begin on the host {} (median)", shown(ns))
    });
    document.line("steps", format!("{how}{period}"));
    if analysis.collectives > 0 {
        let text = format!(
            "{} collectives join {} ranks; {} on the path on other ranks",
            human::count(analysis.collectives),
            analysis.recordings.len(),
            shown(analysis.steps.iter().map(|step| step.other_ranks_ns).sum())
        );
        document.line("ranks", text);
    }
    let guessed: Vec<String> = analysis
        .edges
        .iter()
        .filter(|(name, _)| name.contains('/'))
        .map(|(name, count)| format!("{} {}", human::count(*count), name.replace('/', " by ")))
        .collect();
    if !guessed.is_empty() {
        let on_path: i64 = analysis.steps.iter().map(|step| step.guessed_ns).sum();
        let text = format!(
            "{}; {} of the path rest on them (--no-guesses leaves them out)",
            guessed.join(", "),
            shown(on_path)
        );
        document.line("guessed", text);
    }
    document.notes(notes);
}

fn group_words(group: Group) -> &'static str {
    match group {
        Group::Gpu => "GPU work",
        Group::Comm => "communication",
        Group::Launch => "launches",
        Group::Host => "host code",
        Group::Sync => "synchronisation",
        Group::Wait => "waiting for requests",
        Group::Input => "input",
        Group::Unknown => "unexplained time",
    }
}

fn nanos(name: &'static str, title: &'static str) -> Column {
    Column::int(name).unit(Unit::Nanos).title(title)
}

fn pct(name: &'static str, title: &'static str) -> Column {
    Column::real(name).unit(Unit::Pct).title(title)
}

fn budget(analysis: &Analysis) -> anyhow::Result<Table> {
    let columns = vec![
        Column::text("group"),
        nanos("path_ns", "on the path"),
        pct("share_pct", "share"),
        nanos("gain_ns", "gain without"),
        pct("gain_pct", "gain"),
    ];
    let mut table = Table::new("budget", columns)?;
    let total = analysis.window.groups.total();
    for row in &analysis.limits {
        if row.path_ns == 0 && row.gain_ns == 0 {
            continue;
        }
        table.push(&[
            row.group.name().into(),
            row.path_ns.into(),
            share(row.path_ns, total).into(),
            row.gain_ns.into(),
            row.gain_pct.into(),
        ])?;
    }
    Ok(table)
}

fn what_if(analysis: &Analysis) -> anyhow::Result<Table> {
    let columns = vec![
        Column::text("change"),
        nanos("recorded_ns", "recorded"),
        nanos("predicted_ns", "predicted"),
        nanos("gain_ns", "gain"),
        pct("gain_pct", "%"),
        pct("uncertainty_pct", "±"),
    ];
    let mut table = Table::new("what_if", columns)?;
    for row in &analysis.what_if {
        table.push(&[
            row.change.as_str().into(),
            row.recorded_ns.into(),
            row.predicted_ns.into(),
            row.gain_ns.into(),
            row.gain_pct.into(),
            row.uncertainty_pct.into(),
        ])?;
    }
    Ok(table)
}

fn opportunities(analysis: &Analysis) -> anyhow::Result<Table> {
    let columns = vec![
        Column::text("class"),
        Column::text("name"),
        nanos("path_ns", "on the path"),
        nanos("gain_ns", "gain without"),
        pct("gain_pct", "%"),
    ];
    let mut table = Table::new("opportunities", columns)?;
    let short = short(analysis.opportunities.iter().map(|row| row.name.as_str()));
    for (row, name) in analysis.opportunities.iter().zip(&short) {
        let class = row.class.name();
        table.push(&[
            class.as_str().into(),
            name.as_str().into(),
            row.path_ns.into(),
            row.gain_ns.into(),
            row.gain_pct.into(),
        ])?;
    }
    Ok(table)
}

fn steps(analysis: &Analysis, all: usize) -> anyhow::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::uint("step"),
        Column::text("name"),
        nanos("duration_ns", "step time"),
        Column::text("verdict"),
        pct("share_pct", "share"),
        Column::text("flags"),
    ];
    let mut table = Table::new("steps", columns)?;
    for row in analysis.steps.iter().take(all) {
        let flags: Vec<&str> = row.flags.iter().map(|flag| flag.name()).collect();
        let flags = flags.join(" ");
        let verdict = match row.limit {
            Some(limit) => format!("{} ({})", row.verdict, limit.name()),
            None => row.verdict.to_owned(),
        };
        table.push(&[
            u64::from(row.rank).into(),
            u64::from(row.step).into(),
            row.name.as_str().into(),
            row.duration_ns.into(),
            verdict.as_str().into(),
            row.share_pct.into(),
            flags.as_str().into(),
        ])?;
    }
    Ok(table)
}

/// Names as people call them.
fn short<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    let shown = display_names(names.iter().copied());
    let name_of = |name: &&str| shown.get(name).map_or(*name, String::as_str).to_owned();
    names.iter().map(name_of).collect()
}

/// The largest names of all steps together.
fn names(analysis: &Analysis, all: usize) -> anyhow::Result<Table> {
    let mut sums: BTreeMap<(String, &str), (i64, u64)> = BTreeMap::new();
    for row in &analysis.path {
        let slot = sums.entry((row.class.name(), &row.name)).or_default();
        slot.0 += row.path_ns;
        slot.1 += row.count;
    }
    let total: i64 = analysis.path.iter().map(|row| row.path_ns).sum();
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|entry| std::cmp::Reverse(entry.1.0));
    let columns = vec![
        Column::text("class"),
        Column::text("name"),
        nanos("path_ns", "on the path"),
        pct("share_pct", "share"),
        Column::uint("count").unit(Unit::Count),
    ];
    let mut table = Table::new("path", columns)?;
    sums.truncate(all);
    let short = short(sums.iter().map(|entry| entry.0.1));
    for (((class, _), (ns, count)), name) in sums.iter().zip(&short) {
        table.push(&[
            class.as_str().into(),
            name.as_str().into(),
            (*ns).into(),
            share(*ns, total).into(),
            (*count).into(),
        ])?;
    }
    Ok(table)
}

fn segments(analysis: &Analysis) -> anyhow::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::uint("step"),
        nanos("since_ns", "since begin"),
        nanos("length_ns", "length"),
        Column::text("class"),
        Column::text("name"),
        Column::text("evidence"),
        Column::uint("on_rank"),
    ];
    let mut table = Table::new("segments", columns)?;
    for row in &analysis.segments {
        let segment = &row.segment;
        let class = segment.class.name();
        table.push(&[
            u64::from(row.rank).into(),
            u64::from(row.step).into(),
            (segment.begin_ns - analysis.window.begin_ns).into(),
            (segment.end_ns - segment.begin_ns).into(),
            class.as_str().into(),
            segment.name.as_str().into(),
            segment.evidence.name().into(),
            u64::from(segment.on_rank).into(),
        ])?;
    }
    Ok(table)
}

fn ops(analysis: &Analysis) -> anyhow::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::uint("step"),
        Column::text("class"),
        Column::text("name"),
        nanos("since_ns", "since begin"),
        nanos("length_ns", "length"),
        nanos("slack_ns", "slack"),
    ];
    let mut table = Table::new("ops", columns)?;
    for row in &analysis.ops {
        let class = row.class.name();
        table.push(&[
            u64::from(row.rank).into(),
            row.step.map(u64::from).into(),
            class.as_str().into(),
            row.name.as_str().into(),
            (row.begin_ns - analysis.window.begin_ns).into(),
            (row.end_ns - row.begin_ns).into(),
            row.slack_ns.into(),
        ])?;
    }
    Ok(table)
}
