//! Kernels and classes; host functions in gaps.

use std::fmt::Write as _;

use super::rows_left_out;
use crate::page::{Section, View};
use crate::shown::{self, NAME};

/// Maximum number of rows.
const KERNELS: usize = 300;
const HOST: usize = 100;

/// Returns a table that the script of the page can search and sort. `heads` are name and kind: `n` for numbers.
fn searchable(caption: &str, search: &str, heads: &[(&str, &str)], rows: &str) -> String {
    let heads: String = heads
        .iter()
        .map(|(name, kind)| {
            let class = if *kind == "n" { " class=\"r\"" } else { "" };
            format!("<th scope=\"col\"{class} data-sort=\"{kind}\">{name}</th>")
        })
        .collect();
    format!(
        "<div class=\"finder\"><p class=\"tools js-only\"><label>{search} <input type=\"search\" autocomplete=\"off\" spellcheck=\"false\"/></label><output class=\"hint\" aria-live=\"polite\"></output></p>\n\
         <div class=\"scroll tall\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table><caption class=\"vh\">{caption}</caption><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table></div></div>\n"
    )
}

pub(crate) fn kernels(view: &View<'_>) -> Option<Section> {
    let kernels = &view.document.figures.kernels;
    let most = view.most(KERNELS);
    let mut rows = String::new();
    for (index, kernel) in kernels.iter().take(most).enumerate() {
        let path = |field: &str| format!("/figures/kernels/{index}/{field}");
        let raw = if kernel.label == kernel.name || kernel.name.is_empty() {
            String::new()
        } else {
            format!(
                "<br/><span class=\"raw\">{}</span>",
                shown::code(&path("name"), &kernel.name, NAME)
            )
        };
        let limit = kernel
            .limit_pct
            .map_or(String::new(), |pct| shown::pct(&path("limit_pct"), pct));
        let _ = writeln!(
            rows,
            "<tr><td class=\"t\">{}{raw}</td>{}<td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r\">{limit}</td></tr>",
            shown::name(&path("label"), &kernel.label, NAME),
            view.classes.cell(&path("class"), &kernel.class),
            shown::count(&path("calls"), kernel.calls),
            shown::ns(&path("total_ns"), kernel.total_ns),
            shown::ns(&path("per_step_ns"), kernel.per_step_ns),
            shown::pct(&path("share_pct"), kernel.share_pct)
        );
    }
    if rows.is_empty() {
        return None;
    }
    let heads = [
        ("kernel", "t"),
        ("class", "t"),
        ("calls", "n"),
        ("total", "n"),
        ("per step", "n"),
        ("of GPU time", "n"),
        ("of its limit", "n"),
    ];
    let body = searchable("Kernels", "Search names and classes", &heads, &rows)
        + &rows_left_out("/figures/kernels", kernels.len(), most);
    Section::new("kernels", "Kernels and classes", body)
}

pub(crate) fn host(view: &View<'_>) -> Option<Section> {
    let list = &view.document.figures.host_gaps;
    let most = view.most(HOST);
    let longest = list
        .iter()
        .map(|row| row.per_step_ns)
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    let mut rows = String::new();
    for (index, row) in list.iter().take(most).enumerate() {
        let path = |field: &str| format!("/figures/host_gaps/{index}/{field}");
        let style = view.classes.style(&row.class);
        let wide = (100.0 * row.per_step_ns as f64 / longest).clamp(0.0, 100.0);
        let _ = writeln!(
            rows,
            "<tr><td class=\"t\">{}</td>{}<td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"mini\"><i class=\"{style}\" style=\"width:{wide:.1}%\"></i></td></tr>",
            shown::code(&path("name"), &row.name, NAME),
            view.classes.cell(&path("class"), &row.class),
            shown::id(&path("rank"), row.rank),
            shown::ns(&path("path_ns"), row.path_ns),
            shown::ns(&path("per_step_ns"), row.per_step_ns)
        );
    }
    if rows.is_empty() {
        return None;
    }
    let heads = [
        ("function", "t"),
        ("class", "t"),
        ("rank", "n"),
        ("on the critical path", "n"),
        ("per step", "n"),
        ("", ""),
    ];
    let body = String::from(
        "<p class=\"sub\">What the host does on the critical path while the GPU idles.</p>\n",
    ) + &searchable("Host functions in gaps", "Search functions", &heads, &rows)
        + &rows_left_out("/figures/host_gaps", list.len(), most);
    Section::new("host", "Host functions in gaps", body)
}
