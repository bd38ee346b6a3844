//! Heat maps: a grid of cells whose colour shows the amount.

use std::borrow::Cow;

use report::{Unit, human};

use super::axis::{Axis, Scale};
use super::frame::{Frame, Head, Side};
use super::usable;
use crate::colour::{Rgb, amount};
use crate::svg::{Svg, Type, text_width};

/// Share of the colour scale for the smallest amount on a logarithmic scale, so that it differs
/// from an empty cell.
const PALEST: f64 = 0.08;

/// Amounts over a regular grid of two linear axes. Darker is more; cells of zero and cells without
/// value stay empty.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HeatMap {
    /// Heading.
    pub title: Cow<'static, str>,
    /// A line under the heading; left out when empty.
    pub subtitle: Cow<'static, str>,
    /// Horizontal axis; its range is the span of the columns.
    pub x: Axis,
    /// Vertical axis; its range is the span of the rows.
    pub y: Axis,
    /// Cells per row.
    pub columns: usize,
    /// Amounts row by row, lowest row first; an incomplete last row is left empty.
    pub cells: Vec<f64>,
    /// Unit of the amounts.
    pub unit: Unit,
    /// `true` if colour follows the logarithm of the amount, for amounts of very different size.
    pub log_colour: bool,
    /// Width of the figure in pixels.
    pub width_px: f64,
    /// Height of the area of cells in pixels.
    pub height_px: f64,
}

impl HeatMap {
    /// Creates a map of `cells` in rows of `columns`; both axes need a range.
    pub fn new(
        title: impl Into<Cow<'static, str>>,
        x: Axis,
        y: Axis,
        columns: usize,
        cells: Vec<f64>,
        unit: Unit,
    ) -> Self {
        let subtitle = Cow::Borrowed("");
        Self {
            title: title.into(),
            subtitle,
            x,
            y,
            columns,
            cells,
            unit,
            log_colour: false,
            width_px: 720.0,
            height_px: 280.0,
        }
    }

    /// Draws the map.
    #[must_use]
    pub fn draw(&self) -> Svg {
        let width = usable(self.width_px);
        let linear = |axis: &Axis| Axis {
            scale: Scale::Linear,
            ..axis.clone()
        };
        let (x_axis, y_axis) = (linear(&self.x), linear(&self.y));
        let columns = self.columns.max(1);
        let rows = (self.cells.len() / columns).max(1);
        let ranged = |axis: Axis, cells: usize| match axis.range {
            Some(_) => axis,
            None => axis.range(0.0, cells as f64),
        };
        let (x_axis, y_axis) = (ranged(x_axis, columns), ranged(y_axis, rows));
        let x = x_axis.lay_out(std::iter::empty(), (width / 130.0).max(2.0));
        let y = y_axis.lay_out(std::iter::empty(), 5.0);
        let amounts = || {
            self.cells
                .iter()
                .copied()
                .filter(|v| v.is_finite() && *v > 0.0)
        };
        let most = amounts().fold(0.0, f64::max);
        let least = amounts().fold(f64::INFINITY, f64::min);
        let log = self.log_colour && most > least;
        let floor = if log { PALEST } else { 0.0 };
        let share = |value: f64| {
            if self.log_colour && most > least {
                PALEST + (1.0 - PALEST) * (value / least).ln() / (most / least).ln()
            } else {
                value / most
            }
        };
        let odd = self
            .cells
            .iter()
            .filter(|v| !v.is_finite() || **v < 0.0)
            .count();
        let mut remarks = if odd > 0 {
            vec![format!(
                "cells that are negative or not numbers, not shown: {}",
                human::count(odd as u64)
            )]
        } else {
            Vec::new()
        };
        if log {
            remarks.push("colour follows the logarithm of the amount".to_owned());
        }
        let labels = [
            human::quantity(most, self.unit),
            human::quantity(
                if self.log_colour {
                    least.min(most)
                } else {
                    0.0
                },
                self.unit,
            ),
        ];
        let bar = 14.0
            + 12.0
            + 6.0
            + labels
                .iter()
                .map(|l| text_width(l, 11.5))
                .fold(0.0, f64::max);
        let head = Head {
            title: &self.title,
            subtitle: &self.subtitle,
            width,
            keys: Vec::new(),
            remarks,
        };
        let mut frame = Frame::new(
            head,
            self.height_px.clamp(60.0, 20_000.0),
            &Side::Axis(&y, &y_axis),
            (&x, &x_axis),
            bar,
        );
        let area = frame.area;
        let (cell_w, cell_h) = (area.width / columns as f64, area.height / rows as f64);
        frame
            .canvas
            .open("g", &[("shape-rendering", "crispEdges".into())]);
        for (row, line) in self.cells.chunks_exact(columns).enumerate() {
            // Adjacent cells of one colour become one rectangle.
            let mut from = 0;
            let colour =
                |value: &f64| (value.is_finite() && *value > 0.0).then(|| amount(share(*value)));
            for run in line.chunk_by(|a, b| colour(a) == colour(b)) {
                if let Some(fill) = colour(&run[0]) {
                    let place = (
                        area.left + from as f64 * cell_w,
                        area.bottom() - (row + 1) as f64 * cell_h,
                        run.len() as f64 * cell_w,
                        cell_h,
                    );
                    let tip = (run.len() == 1).then(|| vec![human::quantity(run[0], self.unit)]);
                    frame
                        .canvas
                        .rect(place, &[("fill", fill.into())], tip.as_deref());
                }
                from += run.len();
            }
        }
        frame.canvas.close("g");
        if amounts().next().is_none() {
            frame.note("no data");
        } else {
            let left = area.right() + 14.0;
            for step in 0..32_u32 {
                let height = area.height / 32.0;
                let fill: Rgb = amount(floor + (1.0 - floor) * (f64::from(step) + 0.5) / 32.0);
                frame.canvas.rect(
                    (
                        left,
                        area.bottom() - f64::from(step + 1) * height,
                        12.0,
                        height + 0.3,
                    ),
                    &[("fill", fill.into())],
                    None,
                );
            }
            frame.canvas.text(
                (left + 18.0, area.top + 9.0),
                &labels[0],
                Type::new(11.5).faint(),
            );
            frame.canvas.text(
                (left + 18.0, area.bottom()),
                &labels[1],
                Type::new(11.5).faint(),
            );
        }
        frame.base_line((area.left, area.bottom()), (area.right(), area.bottom()));
        frame.finish()
    }
}
