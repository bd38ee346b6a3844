//! Draws the figures of the study.

use super::{Figure, Mark};
use charts::Svg;
use charts::plot::{Axis, Bar, BarChart, LinePlot, Series};
use report::Unit;

/// Returns the title of a figure; its file name is the published one.
fn title(suffix: &str) -> String {
    let of = |prefix: &str| suffix.strip_prefix(prefix);
    if let Some(letters) = of("size-hist-") {
        return format!("Sizes of {letters} requests");
    }
    if let Some(letters) = of("sector-access-cdf-") {
        return format!("Accesses per sector by {letters} requests");
    }
    match suffix {
        "gpu_util" => "GPU utilization",
        "bitesize-total-read" => "Sizes of RA requests",
        "bitesize-pre-sec-readwrite" => "Read and write bandwidth",
        "bitesize-pre-sec-write" => "Write bandwidth",
        "deepnvme-load" => "Loading tensors",
        "deepnvme-store" => "Storing tensors",
        other => other,
    }
    .to_owned()
}

fn bars(figure: &Figure, run: &str) -> Option<Svg> {
    let label = match figure.y_label.as_str() {
        "" => "requests",
        label => label,
    };
    let mut chart = BarChart::new(title(&figure.suffix), label.to_owned(), Unit::Count);
    chart.subtitle = run.to_owned().into();
    let bar = |size: &dyn std::fmt::Display, count: f64| Bar::new(format!("{size} KiB"), count);
    if let Some(rows) = &figure.table {
        let rows = rows.iter();
        chart.bars = rows.map(|(size, n)| bar(size, *n as f64)).collect();
        return Some(chart.draw());
    }
    let curves = figure.curves.iter().filter(|c| c.mark == Mark::Bar);
    let points: Vec<&(f64, f64)> = curves.flat_map(|curve| &curve.points).collect();
    let is_bars = figure.curves.iter().any(|curve| curve.mark == Mark::Bar);
    chart.bars = points.into_iter().map(|(x, n)| bar(x, *n)).collect();
    is_bars.then(|| chart.draw())
}

/// Returns the x axis, and the factor by which places on it differ from those of the data.
fn x_axis(figure: &Figure) -> (Axis, f64) {
    const MINUTE: f64 = 60.0;
    if !figure.x_names.is_empty() {
        // Sizes that double from place to place, in MiB.
        let label = figure.x_label.trim_end_matches(" (MiB)").to_owned();
        return (Axis::log(label, Unit::Bytes), 1024.0 * 1024.0);
    }
    let axis = Axis::new(figure.x_label.clone(), Unit::None);
    match &figure.axes {
        // The published ticks are minutes on an axis of seconds.
        Some(axes) if figure.x_label.contains("minutes") => {
            (axis.range(0.0, axes.x_max / MINUTE), MINUTE.recip())
        }
        Some(axes) => (axis.range(0.0, axes.x_max), 1.0),
        None => (axis, 1.0),
    }
}

/// Draws a figure of this run; a table is drawn as its bars.
#[must_use]
pub fn draw(figure: &Figure, run: &str, compat: bool) -> Svg {
    if let Some(drawn) = bars(figure, run) {
        return drawn;
    }
    let (x, factor) = x_axis(figure);
    let mut y = Axis::from_zero(figure.y_label.clone(), Unit::None);
    if let Some(axes) = &figure.axes {
        y = y.range(0.0, axes.y_max);
    }
    // A share of sectors jumps at each count; the published curve joins the jumps.
    let jumps = !compat && figure.suffix.starts_with("sector-access-cdf-");
    let mark = if jumps {
        charts::plot::Mark::Step
    } else {
        charts::plot::Mark::Line
    };
    let mut plot = LinePlot::new(title(&figure.suffix), x, y);
    plot.subtitle = run.to_owned().into();
    for curve in &figure.curves {
        let points = curve.points.iter().map(|(x, y)| {
            // Places 1, 2, 3, ... of categories stand for their names.
            let mut names = (1_u32..).zip(&figure.x_names);
            let name = names.find(|(place, _)| (f64::from(*place) - x).abs() < 0.5);
            let x = name.and_then(|(_, n)| n.parse::<f64>().ok()).unwrap_or(*x);
            (x * factor, *y)
        });
        // The last jump is seen from both sides.
        let last = curve.points.last().filter(|_| jumps);
        let start = last.map(|_| (0.0, 0.0));
        let end = last.map(|(x, y)| ((x + 1.0) * factor, *y));
        let label = if curve.label == "placeholder" {
            String::new()
        } else {
            curve.label.clone()
        };
        let points = start.into_iter().chain(points).chain(end).collect();
        plot.series.push(Series::new(label, mark, points));
    }
    plot.draw()
}
