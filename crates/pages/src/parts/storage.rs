//! Storage beside the steps.

use std::fmt::Write as _;

use charts::fluid::{Layer, Panel, Shape};
use charts::plot::Axis;
use findings::StepBytes;
use report::{Unit, human};

use super::{table, thinned};
use crate::page::{Section, View};
use crate::shown::{self, LINE};

/// Maximum number of bars.
const BARS: usize = 400;

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let storage = view.document.figures.storage.as_ref()?;
    let path = |field: &str| format!("/figures/storage/{field}");
    let mut body = String::from("<dl class=\"facts\">");
    let mut fact = |name: &str, value: String| {
        let _ = write!(body, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    };
    fact(
        "GPU idle while reads were in flight",
        shown::ns(
            &path("idle_while_reading_ns"),
            storage.idle_while_reading_ns,
        ),
    );
    if let Some(bytes) = storage.bytes_per_token {
        fact(
            "read per token",
            shown::bytes(&path("bytes_per_token"), bytes),
        );
    }
    fact(
        "longest request",
        shown::ns(&path("longest_ns"), storage.longest_ns),
    );
    fact(
        "clocks aligned within",
        shown::ns(&path("clock_within_ns"), storage.clock_within_ns),
    );
    let _ = writeln!(
        body,
        "</dl>\n<p class=\"sub\">{}</p>",
        shown::text(&path("clock"), &storage.clock, LINE)
    );
    let rows = &storage.bytes_per_step;
    if !rows.is_empty() {
        let amounts: Vec<i64> = rows
            .iter()
            .map(|row| i64::try_from(row.bytes).unwrap_or(i64::MAX))
            .collect();
        let kept = thinned(&amounts, view.most(BARS).max(2));
        let list: Vec<&StepBytes> = kept.iter().map(|at| &rows[*at]).collect();
        let (first, last) = ends(&list);
        let steps = (last - first + 1.0).max(1.0);
        let bar = (0.8 / steps).max(0.0012);
        let x = || Axis::new("step", Unit::Count).range(first - 0.5, last + 0.5);
        let tips = |text: &dyn Fn(&StepBytes) -> String| {
            list.iter()
                .map(|row| format!("step {}, rank {}: {}", row.step, row.rank, text(row)))
                .collect::<Vec<_>>()
        };
        let mut read = Panel::new(
            "Bytes read during each step",
            x(),
            Axis::from_zero("read during the step", Unit::Bytes),
        );
        read.height_px = 130.0;
        read.has_x = false;
        let values = list
            .iter()
            .map(|row| (f64::from(row.step), row.bytes as f64))
            .collect();
        read.layers.push(
            Layer::new("g-input", Shape::Bars(bar), values)
                .tips(tips(&|row| human::bytes(row.bytes as f64))),
        );
        let mut idle = Panel::new(
            "GPU idle while reads were in flight",
            x(),
            Axis::from_zero("GPU idle during reads", Unit::Nanos),
        );
        idle.height_px = 110.0;
        let values = list
            .iter()
            .map(|row| (f64::from(row.step), row.idle_ns as f64))
            .collect();
        idle.layers.push(
            Layer::new("g-wait", Shape::Bars(bar), values)
                .tips(tips(&|row| human::duration(row.idle_ns as f64))),
        );
        body.push_str(&read.to_html());
        body.push_str(&idle.to_html());
        if kept.len() < rows.len() {
            let _ = writeln!(
                body,
                "<p class=\"more\">{} of {} steps are not drawn; those with the most and the least bytes of each stretch are.</p>",
                shown::rest(&path("bytes_per_step"), rows.len(), kept.len()),
                shown::length(&path("bytes_per_step"), rows.len())
            );
        }
        body.push_str(&most_idle(view, rows));
    }
    Section::new("storage", "Storage beside the steps", body)
}

fn ends(list: &[&StepBytes]) -> (f64, f64) {
    let first = list.iter().map(|row| row.step).min().unwrap_or(0);
    let last = list.iter().map(|row| row.step).max().unwrap_or(0);
    (f64::from(first), f64::from(last))
}

fn most_idle(view: &View<'_>, all: &[StepBytes]) -> String {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse((all[*at].idle_ns, all[*at].bytes)), *at));
    let mut rows = String::new();
    for at in order.into_iter().take(view.most(12).max(3)) {
        let path = |field: &str| format!("/figures/storage/bytes_per_step/{at}/{field}");
        let _ = writeln!(
            rows,
            "<tr><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td></tr>",
            shown::id(&path("step"), all[at].step),
            shown::id(&path("rank"), all[at].rank),
            shown::bytes(&path("bytes"), all[at].bytes as f64),
            shown::ns(&path("idle_ns"), all[at].idle_ns)
        );
    }
    let heads = [
        ("step", "r"),
        ("rank", "r"),
        ("read", "r"),
        ("GPU idle during reads", "r"),
    ];
    format!(
        "<details class=\"quiet\"><summary>The steps with most idle time as a table</summary>{}</details>\n",
        table("Reads by step", &heads, &rows)
    )
}
