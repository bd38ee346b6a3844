//! Figures whose width follows the page: shapes in an SVG that stretches, all text as HTML beside it.
//!
//! The figures of [`crate::plot`] have a fixed size, so their text shrinks on a narrow screen. Here the text keeps its size
//! and the shapes take the room that is left. Colours are classes that the page defines; [`STYLE`] holds the layout.
//!
//! ```
//! use charts::fluid::{Layer, Panel, Shape};
//! use charts::plot::Axis;
//! use report::Unit;
//! let mut panel = Panel::new("Step time", Axis::new("step", Unit::Count), Axis::from_zero("step time", Unit::Nanos));
//! panel.layers.push(Layer::new("decode", Shape::Dots(6.0), vec![(1.0, 11.0e6), (2.0, 12.5e6)]));
//! assert!(panel.to_html().contains("step time (ms)"));
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::plot::{Axis, Ruler};
use crate::svg::{Num, escape};

/// Layout of these figures, for the style sheet of the page. Uses the colours `--rule`, `--faint` and `--paper`.
pub const STYLE: &str = include_str!("fluid.css");

/// Width of the coordinates of a figure; the page stretches them.
const WIDE: f64 = 1000.0;

/// How the points of a layer are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// Dots of this diameter in pixels.
    Dots(f64),
    /// Rings of this diameter in pixels.
    Rings(f64),
    /// Straight lines between points.
    Line,
    /// The value holds until the next point.
    Step,
    /// A bar from the low end of the axis to the value, as wide as this share of the horizontal axis.
    Bars(f64),
}

/// Points of one kind. Points without a place on the axes are left out.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Layer {
    /// Class of the shapes, which gives the colour.
    pub class: Cow<'static, str>,
    /// How they are drawn.
    pub shape: Shape,
    /// The points, x and y.
    pub points: Vec<(f64, f64)>,
    /// A tooltip for each point; empty for none. Lines have none.
    pub tips: Vec<String>,
}

impl Layer {
    /// Creates a layer without tooltips.
    pub fn new(class: impl Into<Cow<'static, str>>, shape: Shape, points: Vec<(f64, f64)>) -> Self {
        Self {
            class: class.into(),
            shape,
            points,
            tips: Vec::new(),
        }
    }

    /// Sets the tooltips.
    #[must_use]
    pub fn tips(mut self, tips: Vec<String>) -> Self {
        self.tips = tips;
        self
    }
}

/// A text at a point.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Label {
    /// Place, in the values of the axes.
    pub at: (f64, f64),
    /// Text.
    pub text: String,
    /// `true` if it stands above the point instead of beside it.
    pub is_above: bool,
}

impl Label {
    /// Creates a label.
    pub fn new(at: (f64, f64), text: impl Into<String>) -> Self {
        Self {
            at,
            text: text.into(),
            is_above: false,
        }
    }

    /// Places the text above the point.
    #[must_use]
    pub fn above(mut self) -> Self {
        self.is_above = true;
        self
    }
}

/// Layers over two axes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Panel {
    /// What it shows, for screen readers.
    pub label: Cow<'static, str>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Layers, the first at the bottom.
    pub layers: Vec<Layer>,
    /// Texts.
    pub labels: Vec<Label>,
    /// Height of the area in pixels.
    pub height_px: f64,
    /// `true` if the horizontal axis is drawn, `false` for a panel above one with the same axis.
    pub has_x: bool,
}

impl Panel {
    /// Creates an empty panel.
    pub fn new(label: impl Into<Cow<'static, str>>, x: Axis, y: Axis) -> Self {
        Self {
            label: label.into(),
            x,
            y,
            layers: Vec::new(),
            labels: Vec::new(),
            height_px: 200.0,
            has_x: true,
        }
    }

    /// Returns the figure as HTML.
    #[must_use]
    pub fn to_html(&self) -> String {
        let points = || self.layers.iter().flat_map(|layer| &layer.points);
        let x = self.x.lay_out_ends(points().map(|p| p.0), 6.0, true);
        let y = self
            .y
            .lay_out(points().map(|p| p.1), (self.height_px / 45.0).max(2.0));
        let mut out = String::new();
        // Writing into a String cannot fail.
        let _ = write!(
            out,
            "<div class=\"panel\" role=\"img\" aria-label=\"{}\">",
            escape(&self.label)
        );
        let title = y.title(&self.y.label);
        let _ = write!(out, "<div class=\"panel-t\">{}</div>", escape(&title));
        out.push_str("<div class=\"panel-y\">");
        for (value, text) in &y.ticks {
            let place = 100.0 * y.place(*value);
            let _ = write!(
                out,
                "<i style=\"bottom:{}%\">{}</i>",
                Num(place),
                escape(text)
            );
        }
        let _ = write!(
            out,
            "</div><div class=\"panel-area\" style=\"height:{0}px\"><svg viewBox=\"0 0 1000 {0}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
            Num(self.height_px)
        );
        self.grid(&mut out, &x, &y);
        let low = self.height_px;
        for layer in &self.layers {
            let place = |p: &(f64, f64)| {
                (self.x.takes(p.0) && self.y.takes(p.1))
                    .then(|| (WIDE * x.place(p.0), low * (1.0 - y.place(p.1))))
            };
            draw(&mut out, layer, &place, low);
        }
        out.push_str("</svg>");
        for label in &self.labels {
            if self.x.takes(label.at.0) && self.y.takes(label.at.1) {
                let left = 100.0 * x.place(label.at.0);
                let before = if left > 66.0 { " before" } else { "" };
                let above = if label.is_above { " above" } else { "" };
                let _ = write!(
                    out,
                    "<span class=\"panel-l{before}{above}\" style=\"left:{}%;bottom:{}%\">{}</span>",
                    Num(left),
                    Num(100.0 * y.place(label.at.1)),
                    escape(&label.text)
                );
            }
        }
        out.push_str("</div>");
        if self.has_x {
            out.push_str("<div class=\"panel-x\">");
            for (value, text) in &x.ticks {
                let place = 100.0 * x.place(*value);
                let _ = write!(
                    out,
                    "<i style=\"left:{}%\">{}</i>",
                    Num(place),
                    escape(text)
                );
            }
            let title = x.title(&self.x.label);
            let _ = write!(out, "</div><div class=\"panel-b\">{}</div>", escape(&title));
        }
        out.push_str("</div>\n");
        out
    }

    fn grid(&self, out: &mut String, x: &Ruler, y: &Ruler) {
        out.push_str("<path class=\"grid\" d=\"");
        for (value, _) in &y.ticks {
            let _ = write!(
                out,
                "M0 {}H1000",
                Num(self.height_px * (1.0 - y.place(*value)))
            );
        }
        for (value, _) in &x.ticks {
            let _ = write!(
                out,
                "M{} 0V{}",
                Num(WIDE * x.place(*value)),
                Num(self.height_px)
            );
        }
        out.push_str("\"/>");
    }
}

/// Maps a point to its place in the coordinates of the figure, if it has one.
type Place<'a> = dyn Fn(&(f64, f64)) -> Option<(f64, f64)> + 'a;

/// Draws a layer. Dots are lines of no length with round ends, which stay round while the figure is stretched.
fn draw(out: &mut String, layer: &Layer, place: &Place<'_>, low: f64) {
    let class = escape(&layer.class);
    let _ = match layer.shape {
        Shape::Dots(size) => write!(
            out,
            "<g class=\"dots {class}\" stroke-width=\"{}\">",
            Num(size)
        ),
        Shape::Rings(_) => write!(out, "<g class=\"rings {class}\">"),
        Shape::Line | Shape::Step => write!(out, "<g class=\"line {class}\">"),
        Shape::Bars(_) => write!(out, "<g class=\"bars {class}\">"),
    };
    match layer.shape {
        Shape::Line | Shape::Step => {
            out.push_str("<path d=\"");
            let mut is_open = false;
            for point in &layer.points {
                let Some((x, y)) = place(point) else {
                    is_open = false;
                    continue;
                };
                let _ = match (is_open, layer.shape) {
                    (false, _) => write!(out, "M{} {}", Num(x), Num(y)),
                    (true, Shape::Step) => write!(out, "H{}V{}", Num(x), Num(y)),
                    (true, _) => write!(out, "L{} {}", Num(x), Num(y)),
                };
                is_open = true;
            }
            out.push_str("\"/>");
        }
        Shape::Dots(_) | Shape::Rings(_) if layer.tips.is_empty() => {
            let mut path = String::new();
            for (x, y) in layer.points.iter().filter_map(place) {
                let _ = write!(path, "M{} {}h0", Num(x), Num(y));
            }
            dot(out, &path, layer.shape, None);
        }
        Shape::Dots(_) | Shape::Rings(_) => {
            for (point, tip) in layer.points.iter().zip(&layer.tips) {
                if let Some((x, y)) = place(point) {
                    let path = format!("M{} {}h0", Num(x), Num(y));
                    dot(out, &path, layer.shape, Some(tip));
                }
            }
        }
        Shape::Bars(share) => {
            let wide = WIDE * share;
            for (index, point) in layer.points.iter().enumerate() {
                let Some((x, y)) = place(point) else { continue };
                let _ = write!(
                    out,
                    "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
                    Num(x - wide / 2.0),
                    Num(y),
                    Num(wide),
                    Num((low - y).max(0.0))
                );
                let _ = match layer.tips.get(index) {
                    Some(tip) => write!(out, "><title>{}</title></rect>", tip_text(tip)),
                    None => write!(out, "/>"),
                };
            }
        }
    }
    out.push_str("</g>");
}

fn dot(out: &mut String, path: &str, shape: Shape, tip: Option<&String>) {
    let title = tip.map_or(String::new(), |tip| {
        format!("<title>{}</title>", tip_text(tip))
    });
    let _ = match shape {
        // A ring is a dot with a smaller one of the paper's colour on top.
        Shape::Rings(size) => write!(
            out,
            "<g>{title}<path stroke-width=\"{}\" d=\"{path}\"/><path class=\"hole\" stroke-width=\"{}\" d=\"{path}\"/></g>",
            Num(size),
            Num((size - 3.0).max(1.0))
        ),
        _ if title.is_empty() => write!(out, "<path d=\"{path}\"/>"),
        _ => write!(out, "<path d=\"{path}\">{title}</path>"),
    };
}

/// Escapes the lines of a tooltip.
fn tip_text(tip: &str) -> String {
    let lines: Vec<String> = tip.lines().map(escape).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Unit;

    fn panel(points: Vec<(f64, f64)>, shape: Shape) -> Panel {
        let x = Axis::new("step", Unit::Count).range(0.0, 10.0);
        let y = Axis::new("time", Unit::Nanos).range(0.0, 100.0);
        let mut panel = Panel::new("a <b>", x, y);
        panel.height_px = 100.0;
        panel.layers.push(Layer::new("c", shape, points));
        panel
    }

    #[test]
    fn points_have_the_place_of_their_values() {
        let html = panel(vec![(5.0, 25.0), (10.0, 100.0)], Shape::Dots(4.0)).to_html();
        assert!(html.contains("<path d=\"M500 75h0M1000 0h0\"/>"), "{html}");
        let html = panel(vec![(0.0, 0.0), (5.0, 50.0)], Shape::Step).to_html();
        assert!(html.contains("d=\"M0 100H500V50\""), "{html}");
        let html = panel(vec![(5.0, 40.0)], Shape::Bars(0.1)).to_html();
        assert!(
            html.contains("<rect x=\"450\" y=\"60\" width=\"100\" height=\"40\"/>"),
            "{html}"
        );
    }

    #[test]
    fn points_without_a_place_are_left_out_and_text_is_escaped() {
        let html = panel(
            vec![
                (1.0, 10.0),
                (f64::NAN, 20.0),
                (2.0, f64::INFINITY),
                (3.0, 30.0),
            ],
            Shape::Line,
        )
        .to_html();
        assert!(html.contains("d=\"M100 90M300 70\""), "{html}");
        assert!(html.contains("aria-label=\"a &lt;b&gt;\""), "{html}");
        let mut empty = panel(Vec::new(), Shape::Dots(4.0));
        empty.x = Axis::log("work", Unit::None);
        empty.labels.push(Label::new((-1.0, 0.0), "</script>"));
        assert!(!empty.to_html().contains("script"));
    }
}
