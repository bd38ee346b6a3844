//! Figures of the study as drawings.

use blkio_parser::cheops::{Figure, Mark};
use charts::Svg;
use charts::plot::{Axis, LinePlot, Series};
use report::Unit;

/// Draws a figure; a table is drawn as its bars.
pub(crate) fn draw(figure: &Figure, title: &str) -> Svg {
    let mut x = Axis::new(figure.x_label.clone(), Unit::None);
    let mut y = Axis::from_zero(figure.y_label.clone(), Unit::None);
    if let Some(axes) = &figure.axes {
        x = x.range(0.0, axes.x_max);
        y = y.range(0.0, axes.y_max);
    }
    if let Some(rows) = &figure.table {
        let mut bars = charts::plot::BarChart::new(title.to_owned(), "requests", Unit::Count);
        bars.bars = rows
            .iter()
            .map(|(size, count)| charts::plot::Bar::new(format!("{size} KiB"), *count as f64))
            .collect();
        return bars.draw();
    }
    let is_bars = figure.curves.iter().any(|curve| curve.mark == Mark::Bar);
    if is_bars {
        let mut bars =
            charts::plot::BarChart::new(title.to_owned(), figure.y_label.clone(), Unit::Count);
        for curve in &figure.curves {
            bars.bars.extend(
                curve
                    .points
                    .iter()
                    .map(|(x, y)| charts::plot::Bar::new(format!("{x} KiB"), *y)),
            );
        }
        return bars.draw();
    }
    if !figure.x_names.is_empty() {
        // Sizes double from place to place.
        x = Axis::log(figure.x_label.clone(), Unit::None);
    }
    let mut plot = LinePlot::new(title.to_owned(), x, y);
    for curve in &figure.curves {
        let points = curve.points.iter().map(|(x, y)| {
            let name = figure
                .x_names
                .iter()
                .enumerate()
                .find(|(i, _)| ((i + 1) as f64 - x).abs() < 0.5);
            let x = name.and_then(|(_, n)| n.parse::<f64>().ok()).unwrap_or(*x);
            (x, *y)
        });
        let label = if curve.label == "placeholder" {
            String::new()
        } else {
            curve.label.clone()
        };
        plot.series.push(Series::new(
            label,
            charts::plot::Mark::Line,
            points.collect(),
        ));
    }
    plot.draw()
}
