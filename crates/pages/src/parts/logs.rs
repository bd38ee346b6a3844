//! Logs of GPUs and engines beside the steps.

use std::fmt::Write as _;

use super::{rows_left_out, table};
use crate::page::{Section, View};
use crate::shown::{self, LINE, NAME};

/// Maximum number of readings of a log.
const READINGS: usize = 40;

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let logs = &view.document.figures.logs;
    if logs.is_empty() {
        return None;
    }
    let mut body = String::new();
    for (index, log) in logs.iter().enumerate() {
        let path = |field: &str| format!("/figures/logs/{index}/{field}");
        // Writing into a String cannot fail, here and below.
        let _ = writeln!(
            body,
            "<h3>{}</h3>\n<p class=\"sub\">{}</p>\n<dl class=\"facts\">",
            shown::name(&path("name"), &log.name, NAME),
            shown::text(&path("clock"), &log.clock, LINE)
        );
        let mut fact = |name: &str, value: String| {
            let _ = write!(body, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        };
        fact(
            "clocks aligned within",
            shown::ns(&path("clock_within_ns"), log.clock_within_ns),
        );
        if let Some(pct) = log.utilisation_pct {
            fact(
                "GPU use by the log",
                shown::pct(&path("utilisation_pct"), pct),
            );
        }
        if let Some(pct) = log.recorded_busy_pct {
            fact(
                "GPU busy in the recording, over the same time",
                shown::pct(&path("recorded_busy_pct"), pct),
            );
        }
        if let Some(count) = log.preempted {
            fact(
                "preempted requests",
                shown::count(&path("preempted"), count),
            );
        }
        body.push_str("</dl>\n");
        let most = view.most(READINGS);
        let mut rows = String::new();
        for (at, reading) in log.readings.iter().take(most).enumerate() {
            let path = |field: &str| format!("/figures/logs/{index}/readings/{at}/{field}");
            let real = |field: &str, value: Option<f64>| {
                value.map_or_else(String::new, |value| shown::large(&path(field), value))
            };
            let pct = |field: &str, value: Option<f64>| {
                value.map_or_else(String::new, |value| shown::pct(&path(field), value))
            };
            let cells = [
                shown::instant(&path("at_ns"), reading.at_ns),
                pct("utilisation_pct", reading.utilisation_pct),
                real("running", reading.running),
                real("waiting", reading.waiting),
                pct("cache_pct", reading.cache_pct),
                real("tokens_per_s", reading.tokens_per_s),
            ];
            let cells = cells.map(|cell| format!("<td class=\"r\">{cell}</td>"));
            let _ = writeln!(rows, "<tr>{}</tr>", cells.concat());
        }
        let heads = [
            ("time", "r"),
            ("GPU use", "r"),
            ("running", "r"),
            ("waiting", "r"),
            ("KV cache", "r"),
            ("tokens per second", "r"),
        ];
        body.push_str(&table("Readings of the log", &heads, &rows));
        body.push_str(&rows_left_out(&path("readings"), log.readings.len(), most));
    }
    Section::new("logs", "Logs beside the steps", body)
}
