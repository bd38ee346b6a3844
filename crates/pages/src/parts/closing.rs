//! What was not recorded and how to record it; the appendix.

use std::fmt::Write as _;

use super::findings::command;
use super::rows_left_out;
use crate::page::{Section, View};
use crate::shown::{self, LINE, SENTENCE};

pub(crate) fn missing(view: &View<'_>) -> Option<Section> {
    let list = &view.document.not_recorded;
    let most = view.most(30);
    let mut body = String::new();
    for (index, missing) in list.iter().take(most).enumerate() {
        let path = |field: &str| format!("/not_recorded/{index}/{field}");
        let _ = writeln!(
            body,
            "<div class=\"missing\"><h3>{}</h3><p>{}</p><p>{}</p></div>",
            shown::text(&path("what"), &missing.what, LINE),
            shown::text(&path("decides"), &missing.decides, SENTENCE),
            shown::code(&path("record"), &missing.record, SENTENCE)
        );
    }
    body.push_str(&rows_left_out("/not_recorded", list.len(), most));
    Section::new("missing", "Not recorded", body)
}

pub(crate) fn appendix(view: &View<'_>) -> Option<Section> {
    let document = view.document;
    let appendix = &document.appendix;
    let mut body = String::new();
    if !appendix.command.is_empty() {
        let _ = writeln!(
            body,
            "<p>{}</p>",
            command("/appendix/command", &appendix.command)
        );
    }
    body.push_str("<dl class=\"rules\">");
    let notes = [
        ("confidence", &appendix.confidence),
        ("rules", &appendix.rules),
    ];
    for (field, list) in notes {
        for (index, note) in list.iter().enumerate().take(view.most(60)) {
            let path = |part: &str| format!("/appendix/{field}/{index}/{part}");
            let _ = write!(
                body,
                "<dt>{}</dt><dd>{}</dd>",
                shown::text(&path("kind"), &note.kind, 80),
                shown::text(&path("text"), &note.text, SENTENCE)
            );
        }
    }
    let _ = writeln!(
        body,
        "<dt>version</dt><dd>inferscope {}, layout {} of the JSON</dd></dl>",
        shown::text("/appendix/version", &appendix.version, 60),
        shown::count("/schema_version", u64::from(document.schema_version))
    );
    body.push_str("<p class=\"sub\">Each number on this page is one of <code>--json</code>; its place is in the attribute <code>data-path</code>.</p>\n");
    Section::new("appendix", "Appendix", body)
}
