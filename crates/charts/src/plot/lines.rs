//! Lines, steps, areas and points over two axes.

use std::borrow::Cow;
use std::fmt::Write as _;

use rustc_hash::FxHashSet;

use super::axis::{Axis, Ruler};
use super::frame::{Area, Frame, Head, Key, Side, Sign};
use super::usable;
use crate::colour::{Rgb, category, repeats};
use crate::svg::{Anchor, Num, Svg, Type, text_width};

/// Maps a point to its pixel, if it has one.
type Place<'a> = dyn Fn(&(f64, f64)) -> Option<(f64, f64)> + 'a;

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mark {
    /// Straight lines between points; a point that cannot be shown interrupts the line.
    #[default]
    Line,
    /// The value holds until the next point: counters, cumulative distributions.
    Step,
    /// A line with the area down to the axis filled.
    Area,
    /// Dots only: a scatter plot.
    Dots,
}

/// A point that interrupts a line intentionally. Other points that cannot be shown are counted in
/// the figure.
pub const GAP: (f64, f64) = (f64::NAN, f64::NAN);

fn is_gap(point: (f64, f64)) -> bool {
    point.0.is_nan() && point.1.is_nan()
}

/// Points of one kind.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Series {
    /// Name in the legend.
    pub name: Cow<'static, str>,
    /// Drawing style.
    pub mark: Mark,
    /// The points, x and y, in drawing order.
    pub points: Vec<(f64, f64)>,
    /// Looks of the dots, in the order of the points; points beyond are plain.
    pub dots: Vec<Dot>,
}

/// How one dot looks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Dot {
    /// Radius in pixels; 2.6 if `None`.
    pub radius: Option<f64>,
    /// Text that appears under the pointer.
    pub tip: String,
    /// Text beside it, where there is room.
    pub label: Option<String>,
}

impl Series {
    /// Creates a series.
    pub fn new(name: impl Into<Cow<'static, str>>, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            mark,
            points,
            dots: Vec::new(),
        }
    }
}

/// A labelled horizontal line across the plot: a threshold, a budget.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RefLine {
    /// Text above the line.
    pub label: Cow<'static, str>,
    /// Position on the y axis.
    pub y: f64,
}

impl RefLine {
    /// Creates a line at `y`.
    pub fn new(label: impl Into<Cow<'static, str>>, y: f64) -> Self {
        Self {
            label: label.into(),
            y,
        }
    }
}

/// Series over two axes. Lines with more points than pixels keep the first, lowest, highest and
/// last point of every pixel column, so spikes stay visible.
///
/// ```
/// use charts::plot::{Axis, LinePlot, Mark, Series};
/// use report::Unit;
/// let x = Axis::new("step", Unit::Count);
/// let y = Axis::from_zero("decode time", Unit::Nanos);
/// let mut plot = LinePlot::new("Decode steps", x, y);
/// plot.series.push(Series::new("rank 0", Mark::Line, vec![(0.0, 11.0e6), (1.0, 12.5e6), (2.0, 11.2e6)]));
/// assert!(plot.draw().as_str().contains("decode time (ms)"));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LinePlot {
    /// Heading.
    pub title: Cow<'static, str>,
    /// A line under the heading; left out when empty.
    pub subtitle: Cow<'static, str>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Series in drawing order, the first at the bottom.
    pub series: Vec<Series>,
    /// Horizontal reference lines.
    pub ref_lines: Vec<RefLine>,
    /// Width of the figure in pixels.
    pub width_px: f64,
    /// Height of the area of values in pixels.
    pub height_px: f64,
}

impl LinePlot {
    /// Creates an empty plot, 720 pixels wide.
    pub fn new(title: impl Into<Cow<'static, str>>, x: Axis, y: Axis) -> Self {
        let (series, ref_lines) = (Vec::new(), Vec::new());
        Self {
            title: title.into(),
            subtitle: Cow::Borrowed(""),
            x,
            y,
            series,
            ref_lines,
            width_px: 720.0,
            height_px: 280.0,
        }
    }

    /// Draws the plot.
    #[must_use]
    pub fn draw(&self) -> Svg {
        let width = usable(self.width_px);
        let shown = |p: &(f64, f64)| self.x.takes(p.0) && self.y.takes(p.1);
        let points = || {
            self.series
                .iter()
                .flat_map(|s| &s.points)
                .filter(|p| shown(p))
        };
        // Lines extend over the full width; dots keep away from the edges.
        let tight = self.series.iter().all(|s| s.mark != Mark::Dots) && points().next().is_some();
        let x = self
            .x
            .lay_out_ends(points().map(|p| p.0), (width / 110.0).max(2.0), tight);
        let y = self.y.lay_out(
            points()
                .map(|p| p.1)
                .chain(self.ref_lines.iter().map(|l| l.y)),
            5.0,
        );
        let omitted = self
            .series
            .iter()
            .flat_map(|s| &s.points)
            .filter(|p| !shown(p) && !is_gap(**p))
            .count();
        let mut remarks = Vec::new();
        if omitted > 0 {
            remarks.push(format!(
                "points without a place on these axes, not shown: {}",
                report::human::count(omitted as u64)
            ));
        }
        let several = self.series.len() > 1;
        let keys = self
            .series
            .iter()
            .enumerate()
            .filter(|_| several)
            .map(|(index, s)| key(index, s))
            .collect();
        let head = Head {
            title: &self.title,
            subtitle: &self.subtitle,
            width,
            keys,
            remarks,
        };
        let side = Side::Axis(&y, &self.y);
        let mut frame = Frame::new(
            head,
            self.height_px.clamp(60.0, 20_000.0),
            &side,
            (&x, &self.x),
            0.0,
        );
        let area = frame.area;
        let base = y.place(0.0_f64.clamp(y.low, y.high));
        let base = if base.is_finite() { base } else { 0.0 };
        frame.base_line((area.left, area.y(base)), (area.right(), area.y(base)));
        if points().next().is_none() {
            frame.note("no data");
        }
        frame.open_clip();
        for (index, series) in self.series.iter().enumerate() {
            let place =
                |p: &(f64, f64)| shown(p).then(|| (area.x(x.place(p.0)), area.y(y.place(p.1))));
            self.draw_series(&mut frame, index, series, &place, area.y(base));
        }
        let mut taken: Vec<(f64, f64, f64)> = Vec::new();
        for series in &self.series {
            let named = series.points.iter().zip(&series.dots);
            for (point, dot) in named.filter(|(point, _)| shown(point)) {
                let Some(label) = &dot.label else { continue };
                let radius = dot.radius.unwrap_or(2.6);
                let at = (area.x(x.place(point.0)), area.y(y.place(point.1)));
                draw_label(&mut frame, label, (at, radius), &mut taken);
            }
        }
        frame.close_clip();
        self.draw_ref_lines(&mut frame, &y, area);
        frame.finish()
    }

    fn draw_ref_lines(&self, frame: &mut Frame, y: &Ruler, area: Area) {
        for line in self
            .ref_lines
            .iter()
            .filter(|l| self.y.takes(l.y) && (y.low..=y.high).contains(&l.y))
        {
            let at = area.y(y.place(line.y));
            let look = [
                ("class", "ref".into()),
                ("stroke", Rgb::INK.into()),
                ("stroke-dasharray", "6 4".into()),
            ];
            frame
                .canvas
                .line((area.left, at), (area.right(), at), &look);
            frame.canvas.text(
                (area.right() - 4.0, at - 5.0),
                &line.label,
                Type::new(11.5).anchor(Anchor::End),
            );
        }
    }

    fn draw_series(
        &self,
        frame: &mut Frame,
        index: usize,
        series: &Series,
        place: &Place<'_>,
        base: f64,
    ) {
        let colour = category(index);
        if series.mark == Mark::Dots {
            let opacity = if series.points.len() > 300 { 0.45 } else { 0.8 };
            // Where colours repeat, rings stand for dots.
            let ring = [
                ("fill", "none".into()),
                ("stroke", colour.into()),
                ("stroke-width", 1.4.into()),
            ];
            let filled = [("fill", colour.into()), ("fill-opacity", opacity.into())];
            let look = match repeats(index) {
                0 => &filled[..],
                _ => &ring[..],
            };
            frame.canvas.open("g", look);
            // Plain dots on the same half pixel are drawn once.
            let mut seen = FxHashSet::default();
            for (number, point) in series.points.iter().enumerate() {
                let Some(at) = place(point) else { continue };
                let half = |x: f64| (x * 2.0).round().to_bits();
                let dot = series.dots.get(number);
                if dot.is_none() && !seen.insert((half(at.0), half(at.1))) {
                    continue;
                }
                let radius = dot.and_then(|dot| dot.radius).unwrap_or(2.6);
                let tip = dot.map_or("", |dot| dot.tip.as_str());
                frame.canvas.dot_with_tip(at, radius, tip);
            }
            frame.canvas.close("g");
            return;
        }
        let dash = if repeats(index) > 0 { "5 3" } else { "none" };
        // A point that cannot be shown ends a segment of the line.
        for stretch in series.points.split(|p| place(p).is_none()) {
            let points = thin(|| stretch.iter().filter_map(place), frame.area);
            let Some((first, last)) = points.first().zip(points.last()) else {
                continue;
            };
            let mut path = format!("M{} {}", Num(first.0), Num(first.1));
            for pair in points.windows(2) {
                if series.mark == Mark::Step {
                    let _ = write!(path, "H{}V{}", Num(pair[1].0), Num(pair[1].1));
                } else {
                    let _ = write!(path, "L{} {}", Num(pair[1].0), Num(pair[1].1));
                }
            }
            if series.mark == Mark::Area {
                let area = format!("{path}V{}H{}Z", Num(base), Num(first.0));
                frame.canvas.leaf(
                    "path",
                    &[
                        ("d", area.as_str().into()),
                        ("fill", colour.into()),
                        ("fill-opacity", 0.18.into()),
                    ],
                );
            }
            if points.len() == 1 {
                frame.canvas.open("g", &[("fill", colour.into())]);
                frame.canvas.dot(*last, 2.2);
                frame.canvas.close("g");
                continue;
            }
            let look = [
                ("d", path.as_str().into()),
                ("fill", "none".into()),
                ("stroke", colour.into()),
                ("stroke-width", 1.8.into()),
                ("stroke-linejoin", "round".into()),
                ("stroke-dasharray", dash.into()),
            ];
            frame.canvas.leaf("path", &look);
        }
    }
}

/// Height of a label beside a dot.
const LABEL: f64 = 11.0;

/// Writes a label to the right of a dot, or to its left, where no other label is; else nowhere. `taken` has the places of labels: left end,
/// right end and base line.
fn draw_label(
    frame: &mut Frame,
    label: &str,
    ((x, y), radius): ((f64, f64), f64),
    taken: &mut Vec<(f64, f64, f64)>,
) {
    let wide = text_width(label, LABEL);
    let base = y + LABEL / 3.0;
    let beside = radius + 3.0;
    let places = [
        (x + beside, x + beside + wide, Anchor::Start),
        (x - beside - wide, x - beside, Anchor::End),
    ];
    let is_free = |left: f64, right: f64| {
        let inside = left >= frame.area.left && right <= frame.area.right();
        let mut others = taken.iter();
        inside
            && others
                .all(|(from, to, at)| right < *from || left > *to || (base - at).abs() >= LABEL)
    };
    let free = places
        .into_iter()
        .find(|(left, right, _)| is_free(*left, *right));
    let Some((left, right, anchor)) = free else {
        return;
    };
    let at = if anchor == Anchor::Start { left } else { right };
    let look = Type::new(LABEL).anchor(anchor);
    frame.canvas.text((at, base), label, look);
    taken.push((left, right, base));
}

fn key(index: usize, series: &Series) -> Key {
    let sign = match series.mark {
        Mark::Dots if repeats(index) > 0 => Sign::Ring,
        Mark::Dots => Sign::Dot,
        Mark::Area => Sign::Block,
        Mark::Line | Mark::Step if repeats(index) > 0 => Sign::Dashed,
        Mark::Line | Mark::Step => Sign::Line,
    };
    Key {
        name: series.name.clone().into_owned(),
        colour: category(index),
        sign,
    }
}

/// Returns the first, lowest, highest and last point of every pixel column, if there are many more
/// points than pixels and x is non-decreasing; all points otherwise. Points are computed anew in
/// each pass, so that they are not held in memory twice.
fn thin<I: Iterator<Item = (f64, f64)>>(points: impl Fn() -> I, area: Area) -> Vec<(f64, f64)> {
    let (mut count, mut before, mut backwards) = (0.0, None, false);
    for (x, _) in points() {
        count += 1.0;
        backwards |= before.is_some_and(|before| x < before);
        before = Some(x);
    }
    if count < 4.0 * area.width || backwards {
        return points().collect();
    }
    let mut kept = Vec::new();
    let mut column: Option<PixelColumn> = None;
    for (index, point) in points().enumerate() {
        match &mut column {
            Some(column) if point.0.floor() <= column.last.1.0.floor() => column.add(index, point),
            _ => {
                if let Some(done) = column.replace(PixelColumn::new(index, point)) {
                    done.keep(&mut kept);
                }
            }
        }
    }
    if let Some(done) = column {
        done.keep(&mut kept);
    }
    kept
}

/// The points kept of a pixel column, with their indexes.
struct PixelColumn {
    first: (usize, (f64, f64)),
    low: (usize, (f64, f64)),
    high: (usize, (f64, f64)),
    last: (usize, (f64, f64)),
}

impl PixelColumn {
    fn new(index: usize, point: (f64, f64)) -> Self {
        let one = (index, point);
        Self {
            first: one,
            low: one,
            high: one,
            last: one,
        }
    }

    fn add(&mut self, index: usize, point: (f64, f64)) {
        self.last = (index, point);
        if point.1.total_cmp(&self.low.1.1).is_lt() {
            self.low = self.last;
        }
        if point.1.total_cmp(&self.high.1.1).is_ge() {
            self.high = self.last;
        }
    }

    /// Adds the points in their order, each once.
    fn keep(self, kept: &mut Vec<(f64, f64)>) {
        let mut picks = [self.first, self.low, self.high, self.last];
        picks.sort_unstable_by_key(|(index, _)| *index);
        let mut last = None;
        for (index, point) in picks {
            if last != Some(index) {
                kept.push(point);
            }
            last = Some(index);
        }
    }
}
