//! Builds a self-contained HTML page: text, tables and figures, no external resources, no scripts.

use std::borrow::Cow;
use std::fmt::Write as _;

use report::{Align, Cell, Kind, Table, human};

use crate::svg::{Svg, escape};

const STYLE: &str = include_str!("page.css");

/// A page under construction.
///
/// ```
/// use charts::html::{Page, Section};
/// let page = Page::new("Run 7").section(Section::new("Summary").text("All 544 kernels were linked."));
/// assert!(page.to_html().starts_with("<!DOCTYPE html>"));
/// ```
#[derive(Debug, Default)]
pub struct Page {
    title: Cow<'static, str>,
    subtitle: Cow<'static, str>,
    sections: Vec<Section>,
}

impl Page {
    /// Creates a page with this heading.
    pub fn new(title: impl Into<Cow<'static, str>>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// Sets the line under the heading.
    #[must_use]
    pub fn subtitle(mut self, subtitle: impl Into<Cow<'static, str>>) -> Self {
        self.subtitle = subtitle.into();
        self
    }

    /// Appends a section.
    #[must_use]
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// Returns the page as HTML. Pages with at least four sections begin with a table of contents.
    /// The content security policy forbids scripts and external resources.
    #[must_use]
    pub fn to_html(&self) -> String {
        let mut out = String::new();
        let title = escape(&self.title);
        out.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
        out.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n");
        out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n");
        out.push_str("<meta name=\"color-scheme\" content=\"light dark\"/>\n");
        // Writing into a String cannot fail, here and below.
        let _ = write!(
            out,
            "<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n"
        );
        if !self.subtitle.is_empty() {
            let _ = writeln!(out, "<p class=\"subtitle\">{}</p>", escape(&self.subtitle));
        }
        out.push_str("</header>\n");
        if self.sections.len() >= 4 {
            out.push_str("<nav>\n<ul>\n");
            for (index, section) in self.sections.iter().enumerate() {
                let _ = writeln!(
                    out,
                    "<li><a href=\"#s{}\">{}</a></li>",
                    index + 1,
                    escape(&section.heading)
                );
            }
            out.push_str("</ul>\n</nav>\n");
        }
        out.push_str("<main>\n");
        for (index, section) in self.sections.iter().enumerate() {
            let _ = writeln!(
                out,
                "<section id=\"s{}\">\n<h2>{}</h2>",
                index + 1,
                escape(&section.heading)
            );
            out.push_str(&section.body);
            out.push_str("</section>\n");
        }
        out.push_str("</main>\n</body>\n</html>\n");
        out
    }
}

/// A part of a page under its own heading.
#[derive(Debug, Default)]
pub struct Section {
    heading: Cow<'static, str>,
    body: String,
}

impl Section {
    /// Creates an empty section.
    pub fn new(heading: impl Into<Cow<'static, str>>) -> Self {
        Self {
            heading: heading.into(),
            body: String::new(),
        }
    }

    /// Appends text; empty lines separate paragraphs. Markup in it is escaped.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        for paragraph in text
            .replace("\r\n", "\n")
            .split("\n\n")
            .filter(|p| !p.trim().is_empty())
        {
            let lines: Vec<String> = paragraph.trim().lines().map(escape).collect();
            let _ = writeln!(self.body, "<p>{}</p>", lines.join("<br/>\n"));
        }
        self
    }

    /// Appends a warning that the reader must not overlook: lost data, missing input.
    #[must_use]
    pub fn warning(mut self, text: &str) -> Self {
        let _ = writeln!(
            self.body,
            "<p class=\"warning\" role=\"note\">{}</p>",
            escape(text)
        );
        self
    }

    /// Appends preformatted text in a monospaced font: call stacks, command lines.
    #[must_use]
    pub fn code(mut self, text: &str) -> Self {
        let lines: Vec<String> = text.lines().map(escape).collect();
        let _ = writeln!(self.body, "<pre>{}</pre>", lines.join("\n"));
        self
    }

    /// Appends a figure and, unless empty, a caption.
    #[must_use]
    pub fn figure(mut self, svg: &Svg, caption: &str) -> Self {
        let _ = write!(self.body, "<figure>\n{svg}");
        if !caption.is_empty() {
            let _ = writeln!(self.body, "<figcaption>{}</figcaption>", escape(caption));
        }
        self.body.push_str("</figure>\n");
        self
    }

    /// Appends a table of at most `max_rows` rows and the number of rows left out. Scaled numbers
    /// show their exact value as a tooltip.
    #[must_use]
    pub fn table(self, table: &Table, max_rows: usize) -> Self {
        self.table_head(table, max_rows, table.rows())
    }

    /// Same as [`Section::table`], for a table of `all_rows` rows of which `table` contains the
    /// first ones.
    #[must_use]
    pub fn table_head(mut self, table: &Table, max_rows: usize, all_rows: usize) -> Self {
        let out = &mut self.body;
        out.push_str("<div class=\"scroll\"><table>\n");
        if !table.name().is_empty() {
            let _ = writeln!(out, "<caption>{}</caption>", escape(table.name()));
        }
        out.push_str("<thead><tr>");
        let classes: Vec<&str> = table
            .columns()
            .iter()
            .map(|c| match (c.alignment(), c.kind()) {
                (Align::Right, _) => " class=\"r\"",
                (Align::Left, Kind::Text) => " class=\"t\"",
                (Align::Left, _) => "",
            })
            .collect();
        for (column, class) in table.columns().iter().zip(&classes) {
            let _ = write!(
                out,
                "<th scope=\"col\"{class}>{}</th>",
                escape(column.heading())
            );
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in 0..table.rows().min(max_rows) {
            out.push_str("<tr>");
            for (index, (column, class)) in table.columns().iter().zip(&classes).enumerate() {
                let cell = table.cell(row, index).unwrap_or_default();
                let text = human::cell(column, cell);
                let exact = exact(cell).filter(|exact| *exact != text);
                let tip = exact.map_or(String::new(), |exact| {
                    format!(" title=\"{} {}\"", exact, column.unit_of().symbol())
                });
                let _ = write!(
                    out,
                    "<td{class}{}>{}</td>",
                    tip.replace(" \"", "\""),
                    escape(&text)
                );
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody>\n</table></div>\n");
        match all_rows.checked_sub(max_rows) {
            Some(more) if more > 0 => {
                let _ = writeln!(
                    out,
                    "<p class=\"more\">rows not shown: {}</p>",
                    human::count(more as u64)
                );
            }
            _ if all_rows == 0 => out.push_str("<p class=\"more\">no rows</p>\n"),
            _ => {}
        }
        self
    }
}

fn exact(cell: Cell<'_>) -> Option<String> {
    match cell {
        Cell::Int(value) => Some(value.to_string()),
        Cell::UInt(value) => Some(value.to_string()),
        Cell::Real(value) => Some(report::real_text(value, report::RealFormat::Shortest)),
        Cell::Null | Cell::Text(_) | Cell::Bool(_) => None,
    }
}
