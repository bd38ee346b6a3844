//! Best, median and worst step as lanes of spans on one scale.
//!
//! Spans are thick lines whose coordinates are the nanoseconds of the document: zooming changes the view box alone.
//! Rectangles would not do, because browsers cut lengths of elements, though not coordinates of paths, at 2^25 units.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use findings::{Lane, Span, Timeline};

use super::{rows_left_out, table};
use crate::page::{Section, View};
use crate::shown::{self, NAME};

/// Maximum number of steps, lanes of a step, and spans of a lane.
const STEPS: usize = 6;
const LANES: usize = 24;
const SPANS: usize = 1500;
/// Height of a row of spans, and maximum number of rows of nested spans.
const ROW_PX: usize = 18;
/// Height of a span.
const BAR_PX: usize = 14;
const ROWS: usize = 5;

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let timelines = &view.document.figures.timelines;
    let lengths = timelines
        .iter()
        .take(STEPS)
        .map(|step| step.end_ns.saturating_sub(step.begin_ns));
    let longest = lengths.max().unwrap_or(0).max(1);
    let mut names = Names::default();
    let mut body = String::new();
    for (index, timeline) in timelines.iter().take(STEPS).enumerate() {
        body.push_str(&step(view, index, timeline, longest, &mut names));
    }
    if body.is_empty() {
        return None;
    }
    let used = timelines
        .iter()
        .take(STEPS)
        .flat_map(|step| step.lanes.iter().take(LANES));
    let legend = view
        .classes
        .legend(used.flat_map(|lane| lane.spans.iter().map(|span| span.class.as_str())));
    let body = format!(
        "<p class=\"sub\">One scale for all steps. A red line above a span marks what differs from the median step.</p>\n{legend}\n\
         <div class=\"timelines\" id=\"timelines\" data-length=\"{longest}\" tabindex=\"0\" role=\"group\" aria-label=\"Timelines; plus and minus zoom, arrow keys move, 0 shows all\">\n\
         <p class=\"tools js-only\"><button type=\"button\" data-zoom=\"in\">Zoom in</button><button type=\"button\" data-zoom=\"out\">Zoom out</button>\
         <button type=\"button\" data-zoom=\"left\" aria-label=\"Earlier\">←</button><button type=\"button\" data-zoom=\"right\" aria-label=\"Later\">→</button>\
         <button type=\"button\" data-zoom=\"all\">All</button><span class=\"hint\">drag to move, Ctrl and wheel to zoom</span></p>\n\
         {body}<div class=\"ruler\" aria-hidden=\"true\"></div>\n<output class=\"readout js-only\" aria-live=\"polite\">Point at a span to read it.</output>\n</div>\n{}{}",
        rows_left_out("/figures/timelines", timelines.len(), STEPS),
        names.block()
    );
    Section::new("timelines", "Best, median and worst step", body).map(|mut section| {
        section.anchor = "steps-compared";
        section
    })
}

/// Names of spans, each stored once.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    index: BTreeMap<String, usize>,
}

impl Names {
    fn of(&mut self, name: &str) -> usize {
        let name = report::text::printable(&shown::cut(name, NAME)).into_owned();
        if let Some(index) = self.index.get(&name) {
            return *index;
        }
        self.index.insert(name.clone(), self.list.len());
        self.list.push(name);
        self.list.len() - 1
    }

    fn block(&self) -> String {
        super::data_block("span-names", &serde_json::json!(self.list))
    }
}

fn step(
    view: &View<'_>,
    index: usize,
    timeline: &Timeline,
    longest: i64,
    names: &mut Names,
) -> String {
    let path = |field: &str| format!("/figures/timelines/{index}/{field}");
    let length = timeline.end_ns.saturating_sub(timeline.begin_ns);
    let left_out = if timeline.left_out > 0 {
        format!(
            "; {} short spans left out",
            shown::count(&path("left_out"), timeline.left_out)
        )
    } else {
        String::new()
    };
    let mut out = format!(
        "<article class=\"tl\"><h3>{} step <span class=\"of\">{}, rank {}{left_out}</span><span class=\"lead\"><span class=\"n\" data-path=\"/figures/timelines/{index}\" data-unit=\"length_ns\" data-v=\"{length}\">{}</span></span></h3>\n",
        shown::name(&path("role"), &timeline.role, 40),
        shown::id(&path("step"), timeline.step),
        shown::id(&path("rank"), timeline.rank),
        report::human::duration(length as f64)
    );
    let most_lanes = view.most(LANES).max(1);
    for (at, lane) in timeline.lanes.iter().take(most_lanes).enumerate() {
        out.push_str(&one_lane(view, (index, at), lane, longest, names));
    }
    out.push_str(&rows_left_out(
        &path("lanes"),
        timeline.lanes.len(),
        most_lanes,
    ));
    out.push_str(&longest_spans(view, index, timeline));
    out.push_str("</article>\n");
    out
}

/// Returns the row of each span: spans within another are drawn below it.
fn rows(spans: &[(usize, &Span)]) -> Vec<usize> {
    let mut open: Vec<i64> = Vec::new();
    spans
        .iter()
        .map(|(_, span)| {
            while open.last().is_some_and(|end| *end <= span.begin_ns) {
                open.pop();
            }
            let row = open.len().min(ROWS - 1);
            open.push(span.begin_ns.saturating_add(span.duration_ns));
            row
        })
        .collect()
}

fn one_lane(
    view: &View<'_>,
    (step, at): (usize, usize),
    lane: &Lane,
    longest: i64,
    names: &mut Names,
) -> String {
    let path = format!("/figures/timelines/{step}/lanes/{at}");
    let most = view.most(SPANS);
    let mut spans: Vec<(usize, &Span)> = lane.spans.iter().enumerate().collect();
    if spans.len() > most {
        spans.sort_by_key(|(_, span)| (!span.differs, std::cmp::Reverse(span.duration_ns)));
        spans.truncate(most);
    }
    spans.sort_by_key(|(_, span)| (span.begin_ns, std::cmp::Reverse(span.duration_ns)));
    let rows = rows(&spans);
    let height = 6 + ROW_PX * (1 + rows.iter().copied().max().unwrap_or(0));
    let mut out = format!(
        "<div class=\"lane\"><span class=\"lane-name\">{}</span><div class=\"lane-area\"><svg class=\"spans\" viewBox=\"0 0 {longest} {height}\" height=\"{height}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{} spans\" data-lane=\"{path}\">",
        shown::name(&format!("{path}/name"), &lane.name, 60),
        lane.spans.len()
    );
    let mut marks = String::new();
    for ((index, span), row) in spans.iter().zip(&rows) {
        let y = 5 + ROW_PX * row;
        let _ = write!(
            out,
            "<path d=\"M{} {}h{}\" class=\"{}\" data-i=\"{index}\" data-n=\"{}\"/>",
            span.begin_ns,
            y + BAR_PX / 2,
            span.duration_ns.max(0),
            view.classes.style(&span.class),
            names.of(&span.name)
        );
        if span.differs {
            let _ = write!(
                marks,
                "M{} {}h{}",
                span.begin_ns,
                y - 2,
                span.duration_ns.max(0)
            );
        }
    }
    if !marks.is_empty() {
        let _ = write!(out, "<path class=\"differs\" d=\"{marks}\"/>");
    }
    out.push_str("</svg></div></div>\n");
    if lane.spans.len() > most {
        let _ = writeln!(
            out,
            "<p class=\"more\">{} shorter spans of {} are not drawn.</p>",
            shown::rest(&format!("{path}/spans"), lane.spans.len(), most),
            shown::name(&format!("{path}/name"), &lane.name, 60)
        );
    }
    out
}

/// Returns the spans of a step that take longest as a table, for readers of text.
fn longest_spans(view: &View<'_>, step: usize, timeline: &Timeline) -> String {
    let lanes = timeline.lanes.iter().enumerate().take(LANES);
    let mut spans: Vec<(usize, usize, &Span)> = lanes
        .flat_map(|(lane, list)| {
            list.spans
                .iter()
                .enumerate()
                .map(move |(at, span)| (lane, at, span))
        })
        .collect();
    spans.sort_by_key(|(lane, at, span)| {
        (
            !span.differs,
            std::cmp::Reverse(span.duration_ns),
            *lane,
            *at,
        )
    });
    let mut out = String::new();
    for (lane, at, span) in spans.into_iter().take(view.most(10).max(3)) {
        let path =
            |field: &str| format!("/figures/timelines/{step}/lanes/{lane}/spans/{at}/{field}");
        let _ = writeln!(
            out,
            "<tr><td class=\"r\">{}</td><td class=\"r\">{}</td>{}<td class=\"t\">{}</td><td>{}</td></tr>",
            shown::ns(&path("begin_ns"), span.begin_ns),
            shown::ns(&path("duration_ns"), span.duration_ns),
            view.classes.cell(&path("class"), &span.class),
            shown::code(&path("name"), &span.name, NAME),
            if span.differs { "differs" } else { "" }
        );
    }
    if out.is_empty() {
        return out;
    }
    let heads = [
        ("begin in the step", "r"),
        ("duration", "r"),
        ("class", ""),
        ("name", ""),
        ("", ""),
    ];
    format!(
        "<details class=\"quiet\"><summary>Differing and longest spans as a table</summary>{}</details>\n",
        table("Spans", &heads, &out)
    )
}
