//! The difference of two sides: parts that add up to it.

use std::fmt::Write as _;

use super::{rows_left_out, table};
use crate::page::{Section, View};
use crate::shown::{self, NAME};

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let comparison = view.document.comparison.as_ref()?;
    let path = |field: &str| format!("/comparison/{field}");
    let mut body = format!(
        "<dl class=\"facts\"><div><dt>phase</dt><dd>{}</dd></div><div><dt>baseline</dt><dd>{}</dd></div><div><dt>candidate</dt><dd>{}</dd></div><div><dt>difference of a step</dt><dd>{}</dd></div></dl>\n",
        shown::name(&path("phase"), &comparison.phase, NAME),
        shown::interval(&path("baseline_ns"), &comparison.baseline_ns),
        shown::interval(&path("candidate_ns"), &comparison.candidate_ns),
        shown::change_interval(&path("difference_ns"), &comparison.difference_ns)
    );
    let most = view.most(40);
    let parts = || comparison.parts.iter().take(most);
    let largest = parts()
        .map(|part| part.difference_ns.unsigned_abs())
        .chain([comparison.unexplained_ns.unsigned_abs()])
        .max()
        .unwrap_or(0)
        .max(1);
    let bar = |value: i64| {
        let wide = 50.0 * value.unsigned_abs() as f64 / largest as f64;
        let (class, left) = if value < 0 {
            ("less", 50.0 - wide)
        } else {
            ("more-time", 50.0)
        };
        format!(
            "<td class=\"waterfall\"><i class=\"{class}\" style=\"left:{left:.2}%;width:{wide:.2}%\"></i></td>"
        )
    };
    let mut rows = String::new();
    for (index, part) in parts().enumerate() {
        let path = |field: &str| format!("/comparison/parts/{index}/{field}");
        let findings = view.document.findings.iter().take(super::findings::MOST);
        let at = part.finding.as_ref().and_then(|id| {
            findings
                .map(|finding| &finding.id)
                .position(|other| other == id)
        });
        let link = at.map_or(String::new(), |at| {
            format!(" <a href=\"#f{at}\">finding</a>")
        });
        let _ = writeln!(
            rows,
            "<tr><td class=\"t\">{}{link}</td><td class=\"r\">{}</td>{}</tr>",
            shown::text(&path("label"), &part.label, NAME),
            shown::change_ns(&path("difference_ns"), part.difference_ns),
            bar(part.difference_ns)
        );
    }
    let _ = writeln!(
        rows,
        "<tr class=\"last\"><td class=\"t\">not explained</td><td class=\"r\">{}</td>{}</tr>",
        shown::change_ns(&path("unexplained_ns"), comparison.unexplained_ns),
        bar(comparison.unexplained_ns)
    );
    let heads = [("what differs", ""), ("of a step", "r"), ("", "")];
    body.push_str(&table("Parts of the difference", &heads, &rows));
    body.push_str(&rows_left_out(&path("parts"), comparison.parts.len(), most));
    Section::new("comparison", "Baseline and candidate", body)
}
