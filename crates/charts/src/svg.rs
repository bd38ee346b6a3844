//! Writes SVG text: elements, escaping, coordinates. No scripts, no identifiers, no external
//! references.

use std::fmt::{self, Write as _};

use unicode_width::UnicodeWidthChar;

use crate::colour::Rgb;

/// Monospaced font, for frames in flame graphs.
pub(crate) const MONO: &str = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
/// Font for all other text.
pub(crate) const SANS: &str = "system-ui, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif";

/// A finished figure: well-formed SVG without scripts, identifiers or external references. It can
/// be placed safely inside HTML, any number per page. Colours of paper and ink are presentation
/// attributes, which [`crate::html::Page`] overrides in dark mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Svg {
    text: String,
}

impl Svg {
    /// Returns the SVG element, without XML declaration.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Escapes text for XML content and attributes. Control characters and invisible reordering
/// characters become visible escapes, characters that XML forbids become U+FFFD.
#[must_use]
pub fn escape(text: &str) -> String {
    let text = report::text::printable(text);
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A coordinate with at most two decimals and no trailing zeros.
pub(crate) struct Num(pub(crate) f64);

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A value without a position goes to the origin, so that the figure stays readable.
        let text = format!("{:.2}", if self.0.is_finite() { self.0 } else { 0.0 });
        let text = text.trim_end_matches('0').trim_end_matches('.');
        f.write_str(if text == "-0" { "0" } else { text })
    }
}

/// Value of an attribute.
pub(crate) enum Value<'a> {
    Num(f64),
    Text(&'a str),
    Colour(Rgb),
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Num(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl From<Rgb> for Value<'_> {
    fn from(value: Rgb) -> Self {
        Self::Colour(value)
    }
}

/// Point of a text that its coordinate denotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// Appearance of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Type {
    pub(crate) size: f64,
    pub(crate) anchor: Anchor,
    pub(crate) bold: bool,
    /// `ink` or `faint`.
    pub(crate) class: &'static str,
}

impl Type {
    pub(crate) const fn new(size: f64) -> Self {
        Self {
            size,
            anchor: Anchor::Start,
            bold: false,
            class: "ink",
        }
    }

    pub(crate) const fn anchor(mut self, anchor: Anchor) -> Self {
        self.anchor = anchor;
        self
    }

    pub(crate) const fn faint(mut self) -> Self {
        self.class = "faint";
        self
    }

    pub(crate) const fn bold(mut self) -> Self {
        self.bold = true;
        self
    }
}

/// An SVG being written.
pub(crate) struct Canvas {
    out: String,
}

impl Canvas {
    /// Creates a figure of this size with a background, described by `label` for screen readers.
    pub(crate) fn new(width: f64, height: f64, label: &str) -> Self {
        let mut canvas = Self { out: String::new() };
        let view = format!("0 0 {} {}", Num(width), Num(height));
        let attributes = [
            ("xmlns", "http://www.w3.org/2000/svg".into()),
            ("viewBox", view.as_str().into()),
            ("width", width.into()),
            ("height", height.into()),
            ("role", "img".into()),
            ("aria-label", label.into()),
            ("font-family", SANS.into()),
        ];
        canvas.open("svg", &attributes);
        canvas.out.push('\n');
        canvas.rect(
            (0.0, 0.0, width, height),
            &[("class", "paper".into()), ("fill", Rgb::PAPER.into())],
            None,
        );
        canvas
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, Value<'_>)]) {
        let _ = write!(self.out, "<{name}");
        self.tag_attributes(attributes);
    }

    pub(crate) fn open(&mut self, name: &str, attributes: &[(&str, Value<'_>)]) {
        self.tag(name, attributes);
        self.out.push('>');
    }

    pub(crate) fn close(&mut self, name: &str) {
        let _ = writeln!(self.out, "</{name}>");
    }

    pub(crate) fn leaf(&mut self, name: &str, attributes: &[(&str, Value<'_>)]) {
        self.tag(name, attributes);
        self.out.push_str("/>\n");
    }

    /// Draws a rectangle (x, y, width, height), with a tooltip of several lines if `tip` is given.
    pub(crate) fn rect(
        &mut self,
        (x, y, w, h): (f64, f64, f64, f64),
        look: &[(&str, Value<'_>)],
        tip: Option<&[String]>,
    ) {
        let _ = write!(
            self.out,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            Num(x),
            Num(y),
            Num(w),
            Num(h)
        );
        self.tag_rest(look, tip);
    }

    /// Draws a dot with the attributes of the surrounding group.
    pub(crate) fn dot(&mut self, (x, y): (f64, f64), radius: f64) {
        let _ = writeln!(
            self.out,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"/>",
            Num(x),
            Num(y),
            Num(radius)
        );
    }

    /// Draws a dot with a text that appears under the pointer, unless it is empty.
    pub(crate) fn dot_with_tip(&mut self, at: (f64, f64), radius: f64, tip: &str) {
        if tip.is_empty() {
            return self.dot(at, radius);
        }
        let _ = writeln!(
            self.out,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{}</title></circle>",
            Num(at.0),
            Num(at.1),
            Num(radius),
            escape(tip)
        );
    }

    fn tag_rest(&mut self, look: &[(&str, Value<'_>)], tip: Option<&[String]>) {
        self.tag_attributes(look);
        match tip {
            None => self.out.push_str("/>\n"),
            Some(lines) => {
                self.out.push_str("><title>");
                for (index, line) in lines.iter().enumerate() {
                    if index > 0 {
                        self.out.push('\n');
                    }
                    self.out.push_str(&escape(line));
                }
                self.out.push_str("</title></rect>\n");
            }
        }
    }

    fn tag_attributes(&mut self, attributes: &[(&str, Value<'_>)]) {
        for (key, value) in attributes {
            // Writing into a String cannot fail.
            let _ = match value {
                Value::Num(value) => write!(self.out, " {key}=\"{}\"", Num(*value)),
                Value::Text(value) => write!(self.out, " {key}=\"{}\"", escape(value)),
                Value::Colour(value) => write!(self.out, " {key}=\"{value}\""),
            };
        }
    }

    pub(crate) fn line(
        &mut self,
        (x1, y1): (f64, f64),
        (x2, y2): (f64, f64),
        look: &[(&str, Value<'_>)],
    ) {
        let _ = write!(
            self.out,
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"",
            Num(x1),
            Num(y1),
            Num(x2),
            Num(y2)
        );
        self.tag_attributes(look);
        self.out.push_str("/>\n");
    }

    /// Writes one line of text with its own attributes.
    pub(crate) fn text(&mut self, (x, y): (f64, f64), text: &str, look: Type) {
        let fill = if look.class == "ink" {
            Rgb::INK
        } else {
            Rgb::FAINT
        };
        let _ = write!(
            self.out,
            "<text x=\"{}\" y=\"{}\" class=\"{}\" fill=\"{fill}\"",
            Num(x),
            Num(y),
            look.class
        );
        let _ = write!(self.out, " font-size=\"{}\"", Num(look.size));
        match look.anchor {
            Anchor::Start => {}
            Anchor::Middle => self.out.push_str(" text-anchor=\"middle\""),
            Anchor::End => self.out.push_str(" text-anchor=\"end\""),
        }
        if look.bold {
            self.out.push_str(" font-weight=\"600\"");
        }
        let _ = writeln!(self.out, ">{}</text>", escape(text));
    }

    /// Writes one line of text with the attributes of the surrounding group.
    pub(crate) fn plain_text(&mut self, (x, y): (f64, f64), text: &str) {
        let _ = writeln!(
            self.out,
            "<text x=\"{}\" y=\"{}\">{}</text>",
            Num(x),
            Num(y),
            escape(text)
        );
    }

    pub(crate) fn finish(mut self) -> Svg {
        self.out.push_str("</svg>\n");
        Svg { text: self.out }
    }
}

/// Returns the width of a text in the sans-serif font, overestimated, so that reserved space is
/// sufficient.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let ems: f64 = report::text::printable(text)
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | 'I' | ' ' | 'f' | 't'
            | '(' | ')' => 0.38,
            'm' | 'w' | 'M' | 'W' | '%' | '@' | '…' => 0.95,
            'A'..='Z' => 0.7,
            c if c.is_ascii() => 0.62,
            c => match c.width().unwrap_or(0) {
                0 => 0.0,
                1 => 0.68,
                _ => 1.05,
            },
        })
        .sum();
    ems * size
}

/// Truncates text so that it fits in `room` pixels by `measure`; `None` if fewer than three
/// characters would remain.
pub(crate) fn fit(text: &str, room: f64, measure: impl Fn(&str) -> f64) -> Option<String> {
    let text = report::text::printable(text);
    if measure(&text) <= room {
        return Some(text.into_owned());
    }
    let mut fitting = None;
    let mut used = measure("…");
    for (index, (at, c)) in text.char_indices().enumerate() {
        used += measure(&text[at..at + c.len_utf8()]);
        if used > room {
            break;
        }
        if index >= 1 {
            fitting = Some(at + c.len_utf8());
        }
    }
    fitting.map(|end| format!("{}…", &text[..end]))
}

/// Returns the width of a text in the monospaced font.
pub(crate) fn mono_width(text: &str, size: f64) -> f64 {
    let columns: usize = text.chars().map(|c| c.width().unwrap_or(0)).sum();
    columns as f64 * 0.605 * size
}
