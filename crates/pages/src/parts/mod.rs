//! The sections of the page, in its order.

pub(crate) mod answer;
pub(crate) mod budget;
pub(crate) mod closing;
pub(crate) mod comparison;
pub(crate) mod findings;
pub(crate) mod lateness;
pub(crate) mod logs;
pub(crate) mod roofline;
pub(crate) mod series;
pub(crate) mod stacks;
pub(crate) mod storage;
pub(crate) mod tables;
pub(crate) mod timeline;

use crate::shown;

/// Returns the remark that rows are left out; nothing if all are shown.
pub(crate) fn rows_left_out(path: &str, all: usize, shown: usize) -> String {
    if all <= shown {
        return String::new();
    }
    format!(
        "<p class=\"more\">{} of {} are not shown; <code>--json</code> holds all.</p>\n",
        shown::rest(path, all, shown),
        shown::length(path, all)
    )
}

/// Returns a table of the given heading cells (name, `r` for numbers) and rows of HTML.
pub(crate) fn table(caption: &str, heads: &[(&str, &str)], rows: &str) -> String {
    let heads: String = heads
        .iter()
        .map(|(name, class)| format!("<th scope=\"col\" class=\"{class}\">{name}</th>"))
        .collect();
    format!(
        "<div class=\"scroll\"><table><caption class=\"vh\">{caption}</caption><thead><tr>{heads}</tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// Returns values for the script of the page, which are no script themselves.
pub(crate) fn data_block(id: &str, value: &serde_json::Value) -> String {
    // Nothing in it can end the element or begin a comment.
    let text = value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    format!("<script type=\"application/json\" id=\"{id}\">{text}</script>\n")
}

/// Returns at most `most` indices of `values`: of each stretch the smallest and the largest value.
pub(crate) fn thinned(values: &[i64], most: usize) -> Vec<usize> {
    if values.len() <= most {
        return (0..values.len()).collect();
    }
    let stretches = (most / 2).max(1);
    let mut kept = Vec::with_capacity(most);
    for stretch in 0..stretches {
        let from = stretch * values.len() / stretches;
        let to = (stretch + 1) * values.len() / stretches;
        let least = (from..to).min_by_key(|at| values[*at]);
        let largest = (from..to).max_by_key(|at| values[*at]);
        kept.extend(least);
        kept.extend(largest);
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}
