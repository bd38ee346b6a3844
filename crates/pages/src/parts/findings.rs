//! Findings by gain, each with its evidence a click away.

use std::fmt::Write as _;

use findings::{Confidence, Evidence, Finding, Place};

use super::{rows_left_out, table};
use crate::page::{Section, View};
use crate::shown::{self, LINE, NAME, SENTENCE};

/// Maximum number of findings.
pub(crate) const MOST: usize = 10;

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let document = view.document;
    let all = &document.findings;
    let longest = all
        .iter()
        .map(|finding| finding.gain_pct)
        .filter(|gain| gain.is_finite())
        .fold(0.0, f64::max);
    let mut body = String::new();
    if !all.is_empty() {
        body.push_str("<p class=\"sub\">Ordered by what a replay of the step without them saves.</p>\n<p class=\"tools js-only\"><button type=\"button\" data-open=\"#findings details\">Open all evidence</button></p>\n<ol class=\"findings\">\n");
        for (index, finding) in all.iter().take(MOST).enumerate() {
            body.push_str(&article(view, index, finding, longest));
        }
        body.push_str("</ol>\n");
        if all.len() > MOST {
            body.push_str(&rows_left_out("/findings", all.len(), MOST));
        } else if document.total > all.len() as u64 {
            let _ = writeln!(
                body,
                "<p class=\"more\">{} findings in all; <code>--json</code> holds the rest.</p>",
                shown::count("/total", document.total)
            );
        }
    }
    if !document.next.is_empty() {
        let heading = if all.is_empty() { "" } else { "<h3>Next</h3>" };
        let _ = write!(
            body,
            "<div class=\"next\">{heading}\n<ul class=\"commands\">"
        );
        for (index, next) in document.next.iter().enumerate().take(8) {
            let _ = write!(
                body,
                "<li>{}<span class=\"of\">{}</span></li>",
                command(&format!("/next/{index}/command"), &next.command),
                shown::text(&format!("/next/{index}/shows"), &next.shows, LINE)
            );
        }
        body.push_str("</ul></div>\n");
    }
    Section::new(
        "findings",
        if all.is_empty() { "Next" } else { "Findings" },
        body,
    )
}

/// Returns a command line with a button that copies it.
pub(crate) fn command(path: &str, text: &str) -> String {
    format!(
        "<span class=\"cmd\">{}<button type=\"button\" class=\"copy js-only\" aria-label=\"Copy the command\">copy</button></span>",
        shown::code(path, text, SENTENCE)
    )
}

fn article(view: &View<'_>, index: usize, finding: &Finding, longest: f64) -> String {
    let path = |field: &str| format!("/findings/{index}/{field}");
    let (word, level) = match finding.confidence {
        Confidence::Established => ("established", 3),
        Confidence::Likely => ("likely", 2),
        Confidence::Possible => ("possible", 1),
    };
    let definition = view
        .document
        .appendix
        .confidence
        .iter()
        .find(|note| note.kind == word);
    let definition = definition.map_or(String::new(), |note| {
        format!(" title=\"{}\"", shown::plain(&note.text, LINE))
    });
    let mut out =
        format!("<li><article class=\"finding\" id=\"f{index}\">\n<div class=\"what\">\n<h3>");
    let _ = write!(
        out,
        "{}</h3>\n<p class=\"where\"><span class=\"sure s{level}\"{definition}><i></i><i></i><i></i>{word}</span>",
        shown::text(&path("title"), &finding.title, LINE)
    );
    out.push_str(&place(index, &finding.place));
    out.push_str("</p>\n");
    if let Some(remedy) = &finding.remedy {
        let _ = writeln!(
            out,
            "<p class=\"remedy\">{} <span class=\"source\">{}</span></p>",
            shown::text(&path("remedy/text"), &remedy.text, SENTENCE),
            source(&path("remedy/source"), &remedy.source)
        );
    }
    out.push_str("</div>\n<div class=\"cost\">");
    let wide = if longest > 0.0 {
        (100.0 * finding.gain_pct / longest).clamp(0.0, 100.0)
    } else {
        0.0
    };
    let cost = shown::interval(&path("cost_ns_per_step"), &finding.cost_ns_per_step);
    let share = shown::pct(&path("share_pct"), finding.share_pct);
    let _ = if finding.gain_ceiling_ns_per_step == 0 {
        // Something to know, which no replay can take away.
        write!(
            out,
            "<p class=\"gain none\">{cost}</p><p class=\"sub\">of a step, {share} of all; what a change would save is not known</p>"
        )
    } else {
        write!(
            out,
            "<p class=\"gain\">{}</p><p class=\"sub\">saved per step at most, {}</p><div class=\"gain-bar\" aria-hidden=\"true\"><i style=\"width:{wide:.1}%\"></i></div>\n<p class=\"sub\">costs {cost} of a step, {share} of all</p>",
            shown::ns(
                &path("gain_ceiling_ns_per_step"),
                finding.gain_ceiling_ns_per_step
            ),
            shown::pct(&path("gain_pct"), finding.gain_pct)
        )
    };
    out.push_str("</div>\n");
    out.push_str(&evidence(view, index, finding));
    out.push_str("</article></li>\n");
    out
}

/// Returns where a finding is, in a line.
fn place(index: usize, place: &Place) -> String {
    let path = |field: &str| format!("/findings/{index}/where/{field}");
    let mut items = Vec::new();
    if let Some(side) = shown::side(place.side) {
        items.push(side.to_owned());
    }
    if let Some(phase) = &place.phase {
        items.push(shown::name(&path("phase"), phase, NAME));
    }
    if let Some(rank) = place.rank {
        items.push(format!("rank {}", shown::id(&path("rank"), rank)));
    }
    if let Some(device) = place.device {
        items.push(format!("device {}", shown::id(&path("device"), device)));
    }
    if place.step_count > 0 {
        let plural = if place.step_count == 1 { "" } else { "s" };
        items.push(format!(
            "{} step{plural}",
            shown::count(&path("step_count"), place.step_count)
        ));
    }
    if let Some(name) = &place.name {
        items.push(shown::code(&path("name"), name, NAME));
    }
    items
        .iter()
        .map(|item| format!("<span>{item}</span>"))
        .collect()
}

/// Returns a source; an address becomes a link, which is followed only when it is clicked.
fn source(path: &str, source: &str) -> String {
    let is_address = source.starts_with("https://")
        && source.len() < 300
        && source
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"\"'<>\\".contains(&byte));
    let text = shown::text(path, source, LINE);
    if is_address {
        format!(
            "<a href=\"{}\" rel=\"noreferrer noopener\">{text}</a>",
            charts::escape(source)
        )
    } else {
        text
    }
}

fn evidence(view: &View<'_>, index: usize, finding: &Finding) -> String {
    let path = |field: &str| format!("/findings/{index}/{field}");
    let mut out = String::from(
        "<details><summary>Evidence and how to check it</summary>\n<div class=\"proof\">",
    );
    let affected = &finding.cost_ns_per_affected_step;
    if affected.median != 0 && *affected != finding.cost_ns_per_step {
        let _ = writeln!(
            out,
            "<p>It costs {} of each step that it affects.</p>",
            shown::interval(&path("cost_ns_per_affected_step"), affected)
        );
    }
    let most = view.most(20).max(2);
    let rows: String = finding
        .evidence
        .iter()
        .take(most)
        .enumerate()
        .map(|(at, row)| evidence_row(index, at, row))
        .collect();
    if !rows.is_empty() {
        let heads = [
            ("what it shows", ""),
            ("step", "r"),
            ("rank", "r"),
            ("begin", "r"),
            ("duration", "r"),
            ("event", ""),
        ];
        out.push_str(&table("Evidence", &heads, &rows));
        out.push_str(&rows_left_out(
            &path("evidence"),
            finding.evidence.len(),
            most,
        ));
    }
    if !finding.place.steps.is_empty() {
        let steps: Vec<String> = finding
            .place
            .steps
            .iter()
            .take(20)
            .enumerate()
            .map(|(at, step)| shown::id(&path(&format!("where/steps/{at}")), *step))
            .collect();
        let _ = writeln!(
            out,
            "<h4>Steps, the longest first</h4>\n<p>{}</p>",
            steps.join(", ")
        );
    }
    if !finding.place.stack.is_empty() {
        out.push_str("<h4>Host stack</h4>\n<ol class=\"stack\">");
        let skip = finding
            .place
            .stack
            .len()
            .saturating_sub(view.most(32).max(4));
        for (at, frame) in finding.place.stack.iter().enumerate().skip(skip) {
            let _ = write!(
                out,
                "<li>{}</li>",
                shown::code(&path(&format!("where/stack/{at}")), frame, NAME)
            );
        }
        out.push_str("</ol>\n");
    }
    if !finding.commands.is_empty() {
        out.push_str("<h4>See it yourself</h4>\n<ul class=\"commands\">");
        for (at, line) in finding.commands.iter().enumerate().take(8) {
            let _ = write!(
                out,
                "<li>{}</li>",
                command(&path(&format!("commands/{at}")), line)
            );
        }
        out.push_str("</ul>\n");
    }
    if !finding.refute.is_empty() {
        let _ = writeln!(
            out,
            "<h4>It is wrong if</h4>\n<p>{}</p>",
            shown::text(&path("refute"), &finding.refute, SENTENCE)
        );
    }
    let _ = writeln!(
        out,
        "<p class=\"of\">{} · {}</p></div></details>",
        shown::text(&path("kind"), &finding.kind, NAME),
        shown::code(&path("id"), &finding.id, NAME)
    );
    out
}

fn evidence_row(index: usize, at: usize, row: &Evidence) -> String {
    let path = |field: &str| format!("/findings/{index}/evidence/{at}/{field}");
    let mut event = Vec::new();
    if let Some(name) = &row.name {
        event.push(shown::code(&path("name"), name, NAME));
    }
    if let Some(id) = row.event_id {
        event.push(format!(
            "<span class=\"of\">event {}</span>",
            shown::count(&path("event_id"), id)
        ));
    }
    if let Some(file) = &row.file {
        event.push(format!(
            "<span class=\"of\">{}</span>",
            shown::name(&path("file"), file, NAME)
        ));
    }
    let some = |value: Option<String>| value.unwrap_or_default();
    format!(
        "<tr><td class=\"t\">{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"t\">{}</td></tr>\n",
        shown::text(&path("text"), &row.text, LINE),
        some(row.step.map(|step| shown::id(&path("step"), step))),
        some(row.rank.map(|rank| shown::id(&path("rank"), rank))),
        some(row.begin_ns.map(|ns| shown::instant(&path("begin_ns"), ns))),
        some(
            row.duration_ns
                .map(|ns| shown::ns(&path("duration_ns"), ns))
        ),
        event.join("<br/>")
    )
}
