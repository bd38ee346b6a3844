//! Parts shared by all plots: heading, legend, plot area with grid and ticks, remarks.

use super::axis::{Axis, Ruler};
use crate::colour::Rgb;
use crate::svg::{Anchor, Canvas, Svg, Type, fit, text_width};

const TICK_PX: f64 = 12.0;
const LABEL_PX: f64 = 12.5;
const MARGIN_PX: f64 = 14.0;

/// One entry of a legend.
pub(super) struct Key {
    pub(super) name: String,
    pub(super) colour: Rgb,
    pub(super) sign: Sign,
}

/// Symbol of a series in the legend.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Sign {
    Line,
    Dashed,
    Dot,
    Ring,
    Block,
}

/// Heading, size and remarks of a plot.
pub(super) struct Head<'a> {
    pub(super) title: &'a str,
    pub(super) subtitle: &'a str,
    pub(super) width: f64,
    pub(super) keys: Vec<Key>,
    pub(super) remarks: Vec<String>,
}

/// Area in which values are drawn.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn x(&self, share: f64) -> f64 {
        self.left + share * self.width
    }

    pub(super) fn y(&self, share: f64) -> f64 {
        self.top + (1.0 - share) * self.height
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }
}

/// Labels on the left of the area.
pub(super) enum Side<'a> {
    Axis(&'a Ruler, &'a Axis),
    /// Names of rows, from the top.
    Names(&'a [String]),
}

/// A plot with a drawn frame, before its values are drawn.
pub(super) struct Frame {
    pub(super) canvas: Canvas,
    pub(super) area: Area,
    bottom: f64,
    head: HeadEnd,
}

struct HeadEnd {
    remarks: Vec<String>,
    width: f64,
}

/// Returns the rows of a legend: keys by row, each with its x.
fn legend_rows(keys: &[Key], width: f64) -> Vec<Vec<(usize, f64)>> {
    let mut rows: Vec<Vec<(usize, f64)>> = Vec::new();
    let mut x = f64::INFINITY;
    for (index, key) in keys.iter().enumerate() {
        let need = 22.0 + text_width(&key.name, TICK_PX).min(width - 40.0) + 18.0;
        if x + need > width {
            rows.push(Vec::new());
            x = 0.0;
        }
        if let Some(row) = rows.last_mut() {
            row.push((index, x));
        }
        x += need;
    }
    rows
}

impl Frame {
    /// Draws everything around an area `height` pixels high. `right` is free space next to it in
    /// pixels.
    pub(super) fn new(
        head: Head<'_>,
        height: f64,
        side: &Side<'_>,
        (x, x_axis): (&Ruler, &Axis),
        right: f64,
    ) -> Self {
        let width = head.width;
        let inner = width - 2.0 * MARGIN_PX;
        let keys = legend_rows(&head.keys, inner);
        let labels: Vec<(f64, &str)> = match side {
            Side::Axis(ruler, _) => ruler
                .ticks
                .iter()
                .map(|(v, text)| (ruler.place(*v), text.as_str()))
                .collect(),
            Side::Names(names) => {
                let place = |i: usize| 1.0 - (i as f64 + 0.5) / names.len().max(1) as f64;
                names
                    .iter()
                    .enumerate()
                    .map(|(i, name)| (place(i), name.as_str()))
                    .collect()
            }
        };
        let widest = labels
            .iter()
            .map(|(_, text)| text_width(text, TICK_PX))
            .fold(0.0, f64::max);
        let label_room = widest.min(width * 0.4);
        let y_title = match side {
            Side::Axis(ruler, axis) => ruler.title(&axis.label),
            Side::Names(_) => String::new(),
        };

        let mut y = if head.title.is_empty() {
            MARGIN_PX
        } else {
            32.0
        };
        let title_y = 26.0;
        let subtitle_y = y + 14.0;
        y += if head.subtitle.is_empty() { 0.0 } else { 20.0 };
        let legend_y = y + 14.0;
        y += 20.0 * keys.len() as f64;
        let y_title_y = y + 18.0;
        y += if y_title.is_empty() { 12.0 } else { 30.0 };
        let last_label = x.ticks.last().map_or(0.0, |(v, text)| {
            (x.place(*v) - 1.0) * 10.0 + text_width(text, TICK_PX) / 2.0
        });
        let area = Area {
            left: MARGIN_PX + label_room + 8.0,
            top: y,
            width: 0.0,
            height,
        };
        let area = Area {
            width: (width - area.left - (MARGIN_PX + right).max(last_label + 4.0)).max(40.0),
            ..area
        };
        let x_title = x.title(&x_axis.label);
        let ticks_bottom = area.bottom() + if x.ticks.is_empty() { 0.0 } else { 20.0 };
        let bottom = ticks_bottom + if x_title.is_empty() { 0.0 } else { 20.0 };
        let full = bottom + 16.0 * head.remarks.len() as f64 + MARGIN_PX;

        let mut canvas = Canvas::new(width, full, head.title);
        if let Some(title) = fit(head.title, inner, |t| text_width(t, 16.0)) {
            canvas.text((MARGIN_PX, title_y), &title, Type::new(16.0).bold());
        }
        if let Some(subtitle) = fit(head.subtitle, inner, |t| text_width(t, LABEL_PX)) {
            canvas.text(
                (MARGIN_PX, subtitle_y),
                &subtitle,
                Type::new(LABEL_PX).faint(),
            );
        }
        for (row, entries) in keys.iter().enumerate() {
            for &(index, x) in entries {
                let at = (MARGIN_PX + x, legend_y + 20.0 * row as f64);
                draw_key(&mut canvas, &head.keys[index], at, inner - 40.0);
            }
        }
        if let Some(text) = fit(&y_title, inner, |t| text_width(t, LABEL_PX)) {
            canvas.text((MARGIN_PX, y_title_y), &text, Type::new(LABEL_PX).faint());
        }

        let grid = [
            ("class", "grid".into()),
            ("stroke", Rgb::GRID.into()),
            ("stroke-width", 1.0.into()),
        ];
        canvas.open("g", &grid);
        if let Side::Axis(..) = side {
            for (place, _) in &labels {
                canvas.line(
                    (area.left, area.y(*place)),
                    (area.right(), area.y(*place)),
                    &[],
                );
            }
        }
        if matches!(side, Side::Names(_)) || x_axis.range.is_some() || !x.ticks.is_empty() {
            for (value, _) in &x.ticks {
                let at = area.x(x.place(*value));
                canvas.line((at, area.top), (at, area.bottom()), &[]);
            }
        }
        canvas.close("g");
        for (place, text) in &labels {
            if let Some(text) = fit(text, label_room, |t| text_width(t, TICK_PX)) {
                let look = Type::new(TICK_PX).anchor(Anchor::End);
                let look = if matches!(side, Side::Names(_)) {
                    look
                } else {
                    look.faint()
                };
                canvas.text((area.left - 8.0, area.y(*place) + 4.2), &text, look);
            }
        }
        // If labels would touch, only every n-th is written; the grid lines stay.
        let span = |(value, text): &(f64, String)| {
            let half = text_width(text, TICK_PX) / 2.0 + 3.0;
            (
                area.x(x.place(*value)) - half,
                area.x(x.place(*value)) + half,
            )
        };
        let spans: Vec<(f64, f64)> = x.ticks.iter().map(span).collect();
        let clear = |every: &usize| {
            let kept: Vec<_> = spans.iter().step_by(*every).collect();
            kept.windows(2).all(|pair| pair[0].1 <= pair[1].0)
        };
        let every = (1..=spans.len().max(1)).find(clear).unwrap_or(1);
        for (value, text) in x.ticks.iter().step_by(every) {
            let at = (area.x(x.place(*value)), area.bottom() + 17.0);
            canvas.text(at, text, Type::new(TICK_PX).anchor(Anchor::Middle).faint());
        }
        if let Some(text) = fit(&x_title, area.width + area.left - MARGIN_PX, |t| {
            text_width(t, LABEL_PX)
        }) {
            canvas.text(
                (area.right(), ticks_bottom + 17.0),
                &text,
                Type::new(LABEL_PX).anchor(Anchor::End).faint(),
            );
        }
        Self {
            canvas,
            area,
            bottom,
            head: HeadEnd {
                remarks: head.remarks,
                width: inner,
            },
        }
    }

    /// Opens a nested viewport that clips to the area; coordinates stay those of the figure.
    pub(super) fn open_clip(&mut self) {
        let Area {
            left,
            top,
            width,
            height,
        } = self.area;
        let view = format!(
            "{} {} {} {}",
            left - 1.0,
            top - 1.0,
            width + 2.0,
            height + 2.0
        );
        let place = [
            ("x", (left - 1.0).into()),
            ("y", (top - 1.0).into()),
            ("width", (width + 2.0).into()),
            ("height", (height + 2.0).into()),
            ("viewBox", view.as_str().into()),
            ("overflow", "hidden".into()),
        ];
        self.canvas.open("svg", &place);
    }

    pub(super) fn close_clip(&mut self) {
        self.canvas.close("svg");
    }

    /// Draws the zero line of the values, the base of bars and areas.
    pub(super) fn base_line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let look = [
            ("class", "axis".into()),
            ("stroke", Rgb::AXIS.into()),
            ("stroke-width", 1.0.into()),
        ];
        self.canvas.line(from, to, &look);
    }

    pub(super) fn note(&mut self, text: &str) {
        let at = (self.area.x(0.5), self.area.y(0.5));
        self.canvas
            .text(at, text, Type::new(LABEL_PX).anchor(Anchor::Middle).faint());
    }

    pub(super) fn finish(mut self) -> Svg {
        for (index, remark) in self.head.remarks.iter().enumerate() {
            let text = fit(remark, self.head.width, |t| text_width(t, 11.0)).unwrap_or_default();
            self.canvas.text(
                (MARGIN_PX, self.bottom + 16.0 * (index + 1) as f64),
                &text,
                Type::new(11.0).faint(),
            );
        }
        self.canvas.finish()
    }
}

fn draw_key(canvas: &mut Canvas, key: &Key, (x, y): (f64, f64), room: f64) {
    let middle = y - 4.0;
    match key.sign {
        Sign::Line | Sign::Dashed => {
            let dash = if key.sign == Sign::Dashed {
                "5 3"
            } else {
                "none"
            };
            let look = [
                ("stroke", key.colour.into()),
                ("stroke-width", 2.2.into()),
                ("stroke-dasharray", dash.into()),
            ];
            canvas.line((x, middle), (x + 16.0, middle), &look);
        }
        Sign::Dot => {
            canvas.open("g", &[("fill", key.colour.into())]);
            canvas.dot((x + 8.0, middle), 4.0);
            canvas.close("g");
        }
        Sign::Ring => {
            let look = [
                ("fill", "none".into()),
                ("stroke", key.colour.into()),
                ("stroke-width", 1.4.into()),
            ];
            canvas.open("g", &look);
            canvas.dot((x + 8.0, middle), 4.0);
            canvas.close("g");
        }
        Sign::Block => {
            canvas.rect(
                (x + 2.0, middle - 5.5, 11.0, 11.0),
                &[("fill", key.colour.into()), ("rx", 2.0.into())],
                None,
            );
        }
    }
    if let Some(name) = fit(&key.name, room, |t| text_width(t, TICK_PX)) {
        canvas.text((x + 21.0, y), &name, Type::new(TICK_PX));
    }
}
