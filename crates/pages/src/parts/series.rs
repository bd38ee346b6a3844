//! Steps over time with batch and tokens; GPU memory over time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use charts::fluid::{Layer, Panel, Shape};
use charts::plot::Axis;
use findings::{MemoryPoint, Side, StepPoint};
use report::{Unit, human};

use super::{rows_left_out, table, thinned};
use crate::page::{Section, View};
use crate::shown;

/// Maximum number of steps drawn.
const STEPS: usize = 1600;
/// Maximum number of phases, and of ranks in a figure of memory.
const PHASES: usize = 4;
const RANKS: usize = 8;

pub(crate) fn steps(view: &View<'_>) -> Option<Section> {
    let steps = &view.document.figures.steps;
    let start = steps.iter().map(|step| step.begin_ns).min()?;
    let end = steps
        .iter()
        .map(|step| step.begin_ns.saturating_add(step.duration_ns))
        .max()?;
    let most = view.most(STEPS);
    let durations: Vec<i64> = steps.iter().map(|step| step.duration_ns).collect();
    let kept = thinned(&durations, most);
    let points: Vec<&StepPoint> = kept.iter().map(|at| &steps[*at]).collect();
    let wide = end.saturating_sub(start).max(1) as f64;
    let time = || Axis::new("time since the first step", Unit::Nanos).range(0.0, wide);
    let at = |step: &StepPoint| step.begin_ns.saturating_sub(start) as f64;
    // A panel for each phase: decode and prefill have no common scale.
    let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
    for step in steps {
        *phases.entry(step.phase.as_str()).or_default() += 1;
    }
    let mut phases: Vec<_> = phases.into_iter().collect();
    phases.sort_by_key(|(phase, steps)| (std::cmp::Reverse(*steps), *phase));
    let has_sides = steps.iter().any(|step| step.side != Side::Only);
    let mut panels = Vec::new();
    for (index, (phase, _)) in phases.iter().take(PHASES).enumerate() {
        let label = format!("{} step time", shown::cut(phase, 40));
        let mut panel = Panel::new(
            format!("{label} over time; the table of steps has the numbers"),
            time(),
            Axis::from_zero(label, Unit::Nanos),
        );
        panel.height_px = if index == 0 { 150.0 } else { 90.0 };
        for (side, class) in [(Side::Only, 0), (Side::Baseline, 3), (Side::Candidate, 0)] {
            let (used, unused): (Vec<&StepPoint>, Vec<&StepPoint>) = points
                .iter()
                .filter(|step| step.side == side && step.phase == *phase)
                .partition(|step| step.is_used);
            for (list, shape, class) in [
                (unused, Shape::Rings(7.0), format!("s{class} unused")),
                (used, Shape::Dots(5.5), format!("s{class}")),
            ] {
                if !list.is_empty() {
                    let values = list
                        .iter()
                        .map(|step| (at(step), step.duration_ns as f64))
                        .collect();
                    let tips = list.iter().map(|step| tip(step)).collect();
                    panel
                        .layers
                        .push(Layer::new(class, shape, values).tips(tips));
                }
            }
        }
        panels.push(panel);
    }
    let mut legend = String::new();
    if has_sides {
        legend.push_str(
            "<li><i class=\"dot s3\"></i>baseline</li><li><i class=\"dot s0\"></i>candidate</li>",
        );
    }
    if steps.iter().any(|step| !step.is_used) {
        legend.push_str("<li><i class=\"dot ring\"></i>not used for the answer</li>");
    }
    for (label, value) in [
        (
            "batch (requests)",
            (|step: &StepPoint| step.batch) as fn(&StepPoint) -> Option<u64>,
        ),
        ("tokens of a step", |step| step.tokens),
    ] {
        let values: Vec<(f64, f64)> = points
            .iter()
            .filter_map(|step| Some((at(step), value(step)? as f64)))
            .collect();
        if !values.is_empty() {
            let mut panel = Panel::new(label, time(), Axis::from_zero(label, Unit::Count));
            panel.height_px = 60.0;
            panel
                .layers
                .push(Layer::new("plain", Shape::Dots(3.5), values));
            panels.push(panel);
        }
    }
    let last = panels.len() - 1;
    let mut body = if legend.is_empty() {
        String::new()
    } else {
        format!("<ul class=\"key\">{legend}</ul>\n")
    };
    for (index, panel) in panels.iter_mut().enumerate() {
        panel.has_x = index == last;
        body.push_str(&panel.to_html());
    }
    if phases.len() > PHASES {
        body.push_str("<p class=\"more\">Steps of further phases are in the table only.</p>\n");
    }
    if steps.len() > kept.len() {
        let _ = writeln!(
            body,
            "<p class=\"more\">{} of {} steps are not drawn; the shortest and the longest of each stretch are.</p>",
            shown::rest("/figures/steps", steps.len(), kept.len()),
            shown::length("/figures/steps", steps.len())
        );
    }
    body.push_str(&step_table(view));
    Section::new("steps", "Steps over time", body)
}

fn tip(step: &StepPoint) -> String {
    let mut text = format!(
        "step {}, rank {}: {}",
        step.step,
        step.rank,
        human::duration(step.duration_ns as f64)
    );
    if !step.bound.is_empty() {
        let _ = write!(text, "\n{}", shown::cut(&step.bound, 40));
    }
    if let Some(batch) = step.batch {
        let _ = write!(text, "\nbatch {}", human::count(batch));
    }
    text
}

fn step_table(view: &View<'_>) -> String {
    let steps = &view.document.figures.steps;
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(steps[*at].duration_ns), *at));
    let most = view.most(30).max(5);
    let mut rows = String::new();
    for at in order.into_iter().take(most) {
        let step = &steps[at];
        let path = |field: &str| format!("/figures/steps/{at}/{field}");
        let some = |field: &str, value: Option<u64>| {
            value.map_or(String::new(), |value| shown::count(&path(field), value))
        };
        let _ = writeln!(
            rows,
            "<tr><td class=\"r\">{}</td><td class=\"r\">{}</td><td>{}</td><td class=\"r\">{}</td><td>{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td></tr>",
            shown::id(&path("step"), step.step),
            shown::id(&path("rank"), step.rank),
            shown::name(&path("phase"), &step.phase, 40),
            shown::ns(&path("duration_ns"), step.duration_ns),
            shown::text(&path("bound"), &step.bound, 40),
            some("batch", step.batch),
            some("tokens", step.tokens)
        );
    }
    let heads = [
        ("step", "r"),
        ("rank", "r"),
        ("phase", ""),
        ("step time", "r"),
        ("bound", ""),
        ("batch", "r"),
        ("tokens", "r"),
    ];
    format!(
        "<details class=\"quiet\"><summary>The longest steps as a table</summary>{}{}</details>\n",
        table("Steps", &heads, &rows),
        rows_left_out("/figures/steps", steps.len(), most)
    )
}

pub(crate) fn memory(view: &View<'_>) -> Option<Section> {
    let memory = &view.document.figures.memory;
    let start = memory.iter().map(|point| point.at_ns).min()?;
    let mut ranks: BTreeMap<u32, Vec<&MemoryPoint>> = BTreeMap::new();
    for point in memory {
        ranks.entry(point.rank).or_default().push(point);
    }
    let x = Axis::new("time since the first value", Unit::Nanos);
    let mut panel = Panel::new(
        "GPU memory over time",
        x,
        Axis::from_zero("GPU memory", Unit::Bytes),
    );
    let mut legend = String::from("<ul class=\"key\">");
    let most = view.most(800).max(2);
    let mut drawn = 0;
    for (index, (rank, points)) in ranks.iter().take(RANKS).enumerate() {
        let values: Vec<i64> = points
            .iter()
            .map(|point| i64::try_from(point.allocated_bytes).unwrap_or(i64::MAX))
            .collect();
        let kept = thinned(&values, most);
        drawn += kept.len();
        let at = |point: &MemoryPoint| point.at_ns.saturating_sub(start) as f64;
        let kept = || kept.iter().map(|at| points[*at]);
        let reserved: Vec<(f64, f64)> = kept()
            .filter_map(|p| Some((at(p), p.reserved_bytes? as f64)))
            .collect();
        if !reserved.is_empty() {
            panel.layers.push(Layer::new(
                format!("s{index} reserved"),
                Shape::Step,
                reserved,
            ));
        }
        let allocated = kept().map(|p| (at(p), p.allocated_bytes as f64)).collect();
        panel
            .layers
            .push(Layer::new(format!("s{index}"), Shape::Step, allocated));
        let _ = write!(legend, "<li><i class=\"dot s{index}\"></i>rank {rank}</li>");
    }
    if memory.iter().any(|point| point.reserved_bytes.is_some()) {
        legend.push_str("<li><i class=\"dash\"></i>reserved</li>");
    }
    legend.push_str("</ul>\n");
    let mut body = format!("{legend}{}", panel.to_html());
    if ranks.len() > RANKS {
        body.push_str(
            "<p class=\"more\">Further ranks are not drawn; <code>--json</code> holds them.</p>\n",
        );
    } else if drawn < memory.len() {
        body.push_str(&rows_left_out("/figures/memory", memory.len(), drawn));
    }
    let peak = memory
        .iter()
        .enumerate()
        .max_by_key(|(at, point)| (point.allocated_bytes, std::cmp::Reverse(*at)));
    if let Some((at, point)) = peak {
        let path = |field: &str| format!("/figures/memory/{at}/{field}");
        let reserved = point.reserved_bytes.map_or(String::new(), |bytes| {
            format!(
                ", {} reserved",
                shown::bytes(&path("reserved_bytes"), bytes as f64)
            )
        });
        let _ = writeln!(
            body,
            "<p class=\"sub\">Most at one time: {} allocated{reserved}, on rank {}.</p>",
            shown::bytes(&path("allocated_bytes"), point.allocated_bytes as f64),
            shown::id(&path("rank"), point.rank)
        );
    }
    Section::new("memory", "GPU memory", body)
}
