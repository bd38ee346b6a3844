//! Horizontal bars, and histograms over powers of two.

use std::borrow::Cow;

use report::{Unit, human};

use super::axis::{Axis, short};
use super::frame::{Frame, Head, Key, Side, Sign};
use super::usable;
use crate::colour::category;
use crate::svg::{Anchor, Svg, Type, text_width};

/// One row of a bar chart.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Bar {
    /// Name on the left.
    pub name: Cow<'static, str>,
    /// One value per part, in the order of [`BarChart::parts`]; a plain bar has one.
    pub values: Vec<f64>,
}

impl Bar {
    /// Creates a plain bar.
    pub fn new(name: impl Into<Cow<'static, str>>, value: f64) -> Self {
        Self {
            name: name.into(),
            values: vec![value],
        }
    }

    /// Creates a bar stacked from parts.
    pub fn stacked(name: impl Into<Cow<'static, str>>, values: Vec<f64>) -> Self {
        Self {
            name: name.into(),
            values,
        }
    }
}

/// Horizontal bars, in the given order from the top, each labelled with its value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BarChart {
    /// Heading.
    pub title: Cow<'static, str>,
    /// A line under the heading; left out when empty.
    pub subtitle: Cow<'static, str>,
    /// Axis of the values; bars start at zero, so it must be linear.
    pub axis: Axis,
    /// Names of the parts of stacked bars; empty for plain bars.
    pub parts: Vec<Cow<'static, str>>,
    /// The rows.
    pub bars: Vec<Bar>,
    /// Width of the figure in pixels.
    pub width_px: f64,
}

/// Formats a value; counts with every digit.
fn amount(value: f64, unit: Unit) -> String {
    /// Whole numbers up to this are exact, and short enough next to a bar.
    const WHOLE: f64 = 1e9;
    if unit == Unit::Count && value.fract().abs() < f64::EPSILON && (0.0..WHOLE).contains(&value) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole and in range"
        )]
        return human::count(value as u64);
    }
    human::quantity(value, unit)
}

impl BarChart {
    /// Creates an empty chart, 720 pixels wide.
    pub fn new(
        title: impl Into<Cow<'static, str>>,
        label: impl Into<Cow<'static, str>>,
        unit: Unit,
    ) -> Self {
        let axis = Axis::from_zero(label, unit);
        Self {
            title: title.into(),
            subtitle: Cow::Borrowed(""),
            axis,
            parts: Vec::new(),
            bars: Vec::new(),
            width_px: 720.0,
        }
    }

    /// Draws the chart. Values that are not finite count as zero and are written as they are.
    #[must_use]
    pub fn draw(&self) -> Svg {
        const ROW_PX: f64 = 26.0;
        const BAR_PX: f64 = 17.0;
        let width = usable(self.width_px);
        // Ends of the bars: positive parts to the right of zero, negative ones to the left.
        let side = |bar: &Bar, sign: f64| {
            bar.values
                .iter()
                .filter(|v| v.is_finite() && **v * sign > 0.0)
                .sum::<f64>()
        };
        let ends = self
            .bars
            .iter()
            .flat_map(|bar| [side(bar, 1.0), side(bar, -1.0)]);
        let axis = Axis {
            from_zero: true,
            scale: super::Scale::Linear,
            ..self.axis.clone()
        };
        let ruler = axis.lay_out(ends, (width / 130.0).max(2.0));
        let written: Vec<String> = self
            .bars
            .iter()
            .map(|bar| amount(bar.values.iter().sum(), axis.unit))
            .collect();
        let room = written
            .iter()
            .map(|text| text_width(text, 11.5))
            .fold(0.0, f64::max)
            + 4.0;
        let names: Vec<String> = self
            .bars
            .iter()
            .map(|bar| bar.name.clone().into_owned())
            .collect();
        let keys = self.parts.iter().enumerate();
        let keys = keys
            .map(|(i, name)| Key {
                name: name.clone().into_owned(),
                colour: category(i),
                sign: Sign::Block,
            })
            .collect();
        let head = Head {
            title: &self.title,
            subtitle: &self.subtitle,
            width,
            keys,
            remarks: Vec::new(),
        };
        let height = (self.bars.len() as f64 * ROW_PX).max(ROW_PX);
        let mut frame = Frame::new(head, height, &Side::Names(&names), (&ruler, &axis), room);
        let area = frame.area;
        if self.bars.is_empty() {
            frame.note("no data");
        }
        frame.open_clip();
        for (row, bar) in self.bars.iter().enumerate() {
            let top = area.top + row as f64 * ROW_PX + (ROW_PX - BAR_PX) / 2.0;
            let mut reach = [0.0, 0.0];
            for (part, value) in bar.values.iter().enumerate().filter(|(_, v)| v.is_finite()) {
                let from = &mut reach[usize::from(*value < 0.0)];
                let (start, end) = (*from, *from + value);
                *from = end;
                let (x0, x1) = (
                    area.x(ruler.place(start.min(end))),
                    area.x(ruler.place(start.max(end))),
                );
                let mut tip = vec![bar.name.clone().into_owned()];
                let name = self
                    .parts
                    .get(part)
                    .map_or(String::new(), |name| format!("{name}: "));
                tip.push(format!("{name}{}", amount(*value, axis.unit)));
                let look = [("fill", category(part).into()), ("rx", 1.5.into())];
                frame
                    .canvas
                    .rect((x0, top, x1 - x0, BAR_PX), &look, Some(&tip));
            }
        }
        frame.close_clip();
        for (row, (bar, text)) in self.bars.iter().zip(&written).enumerate() {
            let y = area.top + row as f64 * ROW_PX + ROW_PX / 2.0 + 4.0;
            let end = area
                .x(ruler.place(side(bar, 1.0).max(0.0)))
                .clamp(area.left, area.right());
            frame.canvas.text((end + 5.0, y), text, Type::new(11.5));
        }
        let zero = area.x(ruler.place(0.0)).clamp(area.left, area.right());
        frame.base_line((zero, area.top), (zero, area.bottom()));
        frame.finish()
    }
}

/// Counts over power-of-two bins: zero, [1, 2), [2, 4), [4, 8) and so on.
///
/// ```
/// use charts::plot::Histogram;
/// use report::Unit;
/// let mut sizes = Histogram::new("Message sizes", "size", Unit::Bytes);
/// [0, 1, 4096, 5000, 8191].into_iter().for_each(|size| sizes.add(size));
/// assert_eq!(sizes.bins(), vec![(0, 1), (1, 1), (4096, 3)]);
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Histogram {
    /// Heading.
    pub title: Cow<'static, str>,
    /// A line under the heading; left out when empty.
    pub subtitle: Cow<'static, str>,
    /// Name of the values.
    pub label: Cow<'static, str>,
    /// Unit of the values.
    pub unit: Unit,
    /// Width of the figure in pixels.
    pub width_px: f64,
    /// Counts per bin: index 0 for zero, index n for values with n significant bits.
    counts: [u64; 65],
}

impl Histogram {
    /// Creates an empty histogram, 720 pixels wide.
    pub fn new(
        title: impl Into<Cow<'static, str>>,
        label: impl Into<Cow<'static, str>>,
        unit: Unit,
    ) -> Self {
        Self {
            title: title.into(),
            subtitle: Cow::Borrowed(""),
            label: label.into(),
            unit,
            width_px: 720.0,
            counts: [0; 65],
        }
    }

    /// Counts one value.
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Counts a value that occurred `times` times.
    pub fn add_many(&mut self, value: u64, times: u64) {
        let bin = (u64::BITS - value.leading_zeros()) as usize;
        self.counts[bin] = self.counts[bin].saturating_add(times);
    }

    /// Returns the non-empty bins with their lower ends and counts, ascending.
    #[must_use]
    pub fn bins(&self) -> Vec<(u64, u64)> {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(bin, count)| (lower(bin), *count))
            .collect()
    }

    /// Draws the histogram: vertical bars from the first to the last non-empty bin.
    #[must_use]
    pub fn draw(&self) -> Svg {
        let width = usable(self.width_px);
        let first = self.counts.iter().position(|c| *c > 0).unwrap_or(0);
        let last = self.counts.iter().rposition(|c| *c > 0).unwrap_or(0);
        let y_axis = Axis::from_zero("count", Unit::Count);
        let y = y_axis.lay_out(self.counts.iter().map(|c| *c as f64), 5.0);
        // Bins have equal widths: bin n spans n to n + 1 on an axis whose ticks, the ends of bins,
        // are set explicitly.
        let x_axis =
            Axis::new(self.label.clone(), Unit::None).range(first as f64, last as f64 + 1.0);
        let mut x = x_axis.lay_out(std::iter::empty(), 1.0);
        x.ticks = (first..=last + 1)
            .map(|bin| (bin as f64, short(lower_real(bin), self.unit)))
            .collect();
        let head = Head {
            title: &self.title,
            subtitle: &self.subtitle,
            width,
            keys: Vec::new(),
            remarks: Vec::new(),
        };
        let mut frame = Frame::new(head, 220.0, &Side::Axis(&y, &y_axis), (&x, &x_axis), 0.0);
        let area = frame.area;
        if self.counts.iter().all(|c| *c == 0) {
            frame.note("no data");
        }
        let bin_px = area.width / (last + 1 - first) as f64;
        let labelled = self
            .counts
            .iter()
            .all(|c| text_width(&human::count(*c), 11.0) <= bin_px);
        for (bin, &count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            let left = area.x(x.place(bin as f64));
            let top = area.y(y.place(count as f64));
            let tip = [
                format!(
                    "{} to {}",
                    short(lower_real(bin), self.unit),
                    short(lower_real(bin + 1), self.unit)
                ),
                human::count(count),
            ];
            frame.canvas.rect(
                (
                    left + 1.0,
                    top,
                    (bin_px - 2.0).max(1.0),
                    area.bottom() - top,
                ),
                &[("fill", category(0).into())],
                Some(&tip),
            );
            if labelled {
                let at = (left + bin_px / 2.0, top - 4.0);
                let look = Type::new(11.0).anchor(Anchor::Middle);
                frame.canvas.text(at, &human::count(count), look);
            }
        }
        frame.base_line((area.left, area.bottom()), (area.right(), area.bottom()));
        frame.finish()
    }
}

fn lower(bin: usize) -> u64 {
    if bin == 0 { 0 } else { 1 << (bin - 1) }
}

/// Returns the lower end of a bin, also of the one after the last.
fn lower_real(bin: usize) -> f64 {
    if bin == 65 {
        2.0 * lower(64) as f64
    } else {
        lower(bin) as f64
    }
}
