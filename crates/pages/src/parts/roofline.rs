//! Kernels against the limits of the device.

use std::fmt::Write as _;

use charts::fluid::{Label, Layer, Panel, Shape};
use charts::plot::Axis;
use findings::{Roofline, RooflinePoint};
use report::Unit;

use super::{rows_left_out, table};
use crate::page::{Section, View};
use crate::shown::{self, NAME};

/// Maximum number of points.
const POINTS: usize = 120;

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let roofline = view.document.figures.roofline.as_ref()?;
    let mut order: Vec<usize> = (0..roofline.points.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(roofline.points[*at].time_ns), *at));
    let most = view.most(POINTS);
    let all = order.len();
    order.truncate(most);
    if order.is_empty() {
        return None;
    }
    let mut body = String::from("<p class=\"sub\">");
    let _ = write!(
        body,
        "{}: memory {}",
        shown::text("/figures/roofline/device", &roofline.device, NAME),
        shown::byte_rate("/figures/roofline/bytes_per_s", roofline.bytes_per_s)
    );
    for (index, (kind, rate)) in roofline.flops_per_s.iter().enumerate().take(6) {
        let _ = write!(
            body,
            ", {} {}FLOP/s",
            shown::text(
                &format!("/figures/roofline/flops_per_s/{index}/0"),
                kind,
                20
            ),
            shown::large(&format!("/figures/roofline/flops_per_s/{index}/1"), *rate)
        );
    }
    body.push_str(". Larger dots take more time.</p>\n");
    let placed: Vec<&RooflinePoint> = order
        .iter()
        .map(|at| &roofline.points[*at])
        .filter(|point| has_place(point))
        .collect();
    if !placed.is_empty() {
        let legend = view
            .classes
            .legend(placed.iter().map(|point| point.class.as_str()));
        let rings = placed.iter().any(|point| point.bound != "memory");
        let rings = if rings {
            "<li><i class=\"dot ring\"></i>not limited by memory</li></ul>"
        } else {
            "</ul>"
        };
        body.push_str(&legend.replace("</ul>", rings));
        body.push_str(&scatter(view, roofline, &placed));
    }
    let mut rows = String::new();
    for at in &order {
        let point = &roofline.points[*at];
        let path = |field: &str| format!("/figures/roofline/points/{at}/{field}");
        let _ = writeln!(
            rows,
            "<tr><td class=\"t\"><i class=\"sw {}\"></i>{}</td><td class=\"r\">{}</td><td>{}</td><td class=\"r\">{}</td><td class=\"r\">{}FLOP</td><td class=\"r\">{}</td></tr>",
            view.classes.style(&point.class),
            shown::name(&path("name"), &point.name, NAME),
            shown::ns(&path("time_ns"), point.time_ns),
            shown::text(&path("bound"), &point.bound, 20),
            shown::pct(&path("limit_pct"), point.limit_pct),
            shown::large(&path("flops"), point.flops),
            shown::bytes(&path("bytes"), point.bytes)
        );
    }
    let heads = [
        ("kernel or operator", ""),
        ("time", "r"),
        ("limit", ""),
        ("of the limit", "r"),
        ("work", "r"),
        ("bytes", "r"),
    ];
    let _ = writeln!(
        body,
        "<details class=\"quiet\"><summary>The points as a table</summary>{}{}</details>",
        table("Points of the roofline", &heads, &rows),
        rows_left_out("/figures/roofline/points", all, order.len())
    );
    let without = order.len() - placed.len();
    if without > 0 {
        body.push_str("<p class=\"more\">Points without operations, bytes or time are in the table only.</p>\n");
    }
    Section::new("roofline", "Distance from the limits of the device", body)
}

fn has_place(point: &RooflinePoint) -> bool {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    positive(point.flops) && positive(point.bytes) && point.time_ns > 0
}

fn scatter(view: &View<'_>, roofline: &Roofline, points: &[&RooflinePoint]) -> String {
    let place = |point: &RooflinePoint| {
        (
            point.flops / point.bytes,
            point.flops * 1e9 / point.time_ns as f64,
        )
    };
    let ends = |values: &dyn Fn(&RooflinePoint) -> f64| {
        let values = points.iter().map(|point| values(point));
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let peak = roofline
        .flops_per_s
        .iter()
        .map(|(_, rate)| *rate)
        .fold(0.0, f64::max);
    let ridge = if roofline.bytes_per_s > 0.0 {
        peak / roofline.bytes_per_s
    } else {
        1.0
    };
    let (low, high) = ends(&|point| place(point).0);
    let (low, high) = (low / 2.0, high.max(ridge) * 4.0);
    let bottom = ends(&|point| place(point).1).0 / 2.0;
    let x = Axis::log("operations per byte", Unit::None).range(low, high);
    let mut panel = Panel::new(
        "Roofline; the table below has the numbers",
        x,
        Axis::log("FLOP/s", Unit::None),
    );
    panel.height_px = 340.0;
    if peak > 0.0 && roofline.bytes_per_s > 0.0 {
        let from = low.max(bottom / roofline.bytes_per_s);
        let mut roofs: Vec<(f64, String)> = Vec::new();
        let mut peaks: Vec<&(String, f64)> = roofline.flops_per_s.iter().take(8).collect();
        peaks.sort_by(|a, b| a.1.total_cmp(&b.1));
        for (kind, rate) in peaks.into_iter().filter(|(_, rate)| *rate > 0.0) {
            let knee = rate / roofline.bytes_per_s;
            let from = from.min(knee);
            let line = vec![
                (from, from * roofline.bytes_per_s),
                (knee, *rate),
                (high, *rate),
            ];
            panel.layers.push(Layer::new("roof", Shape::Line, line));
            // Names of roofs that are too close to each other for a line of text share one.
            match roofs.last_mut() {
                Some((last, names)) if *rate < *last * 2.5 => {
                    *last = *rate;
                    *names = format!("{names}, {}", shown::cut(kind, 20));
                }
                _ => roofs.push((*rate, shown::cut(kind, 20))),
            }
        }
        for (rate, names) in roofs {
            panel.labels.push(Label::new((high, rate), names).above());
        }
    }
    let longest = points.iter().map(|point| point.time_ns).max().unwrap_or(1) as f64;
    // The longest first, so that it hides none.
    for point in points {
        let size = match point.time_ns as f64 / longest {
            share if share >= 0.3 => 14.0,
            share if share >= 0.05 => 10.0,
            _ => 7.0,
        };
        let shape = if point.bound == "memory" {
            Shape::Dots(size)
        } else {
            Shape::Rings(size)
        };
        let layer = Layer::new(view.classes.style(&point.class), shape, vec![place(point)]);
        panel
            .layers
            .push(layer.tips(vec![shown::cut(&point.name, NAME)]));
    }
    // Names of the longest ones, unless they would cover each other.
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for point in points.iter().take(6) {
        let at = place(point);
        let near = taken
            .iter()
            .any(|other| (at.1 / other.1).ln().abs() < 0.35 && (at.0 / other.0).ln().abs() < 2.5);
        if !near {
            taken.push(at);
            panel
                .labels
                .push(Label::new(at, shown::cut(&point.name, 40)));
        }
    }
    panel.to_html()
}
