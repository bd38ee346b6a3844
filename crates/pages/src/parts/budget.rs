//! The budget of a step as one additive bar for each phase.

use std::fmt::Write as _;

use findings::{Budget, BudgetPart};

use super::rows_left_out;
use crate::classes::{Classes, group_label};
use crate::page::{Section, View};
use crate::shown::{self, NAME};

/// Maximum number of bars.
const BARS: usize = 12;
/// Maximum number of parts of a bar.
const PARTS: usize = 40;

pub(crate) fn section(view: &View<'_>) -> Option<Section> {
    let budgets = &view.document.budget;
    let most = view.most(BARS).max(1);
    let shown = &budgets[..budgets.len().min(most)];
    let mut body = String::new();
    for (index, budget) in shown.iter().enumerate() {
        // Bars of one phase have one scale, so that sides and ranks compare.
        let same = shown.iter().filter(|other| other.phase == budget.phase);
        let longest = same.map(mean).fold(0.0, f64::max);
        body.push_str(&bar(view, index, budget, longest));
    }
    body.push_str(&rows_left_out("/budget", budgets.len(), most));
    Section::new("budget", "Where a step's time goes", body)
}

/// Returns the mean step time that the parts add up to.
fn mean(budget: &Budget) -> f64 {
    budget.total_ns as f64 / budget.steps.max(1) as f64
}

fn share(value: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (100.0 * value / whole).clamp(0.0, 100.0)
    } else {
        0.0
    }
}

fn bar(view: &View<'_>, index: usize, budget: &Budget, longest: f64) -> String {
    let path = |field: &str| format!("/budget/{index}/{field}");
    let mut parts: Vec<(usize, &BudgetPart)> = budget.parts.iter().enumerate().collect();
    parts.sort_by_key(|(_, part)| {
        (
            Classes::group_order(&part.group),
            std::cmp::Reverse(part.total_ns),
        )
    });
    let most = view.most(PARTS).max(4);
    // Groups are the order of the bar, size decides what is shown.
    let mut sizes: Vec<i64> = parts.iter().map(|(_, part)| part.total_ns).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let least = sizes.get(most).copied().unwrap_or(i64::MIN);
    let all = parts.len();
    if all > most {
        parts.retain(|(_, part)| part.total_ns > least);
    }
    let mut out = String::from("<article class=\"budget\">\n<h3>");
    let _ = write!(out, "{}", shown::name(&path("phase"), &budget.phase, NAME));
    if let Some(rank) = budget.rank {
        let _ = write!(
            out,
            " <span class=\"of\">rank {}</span>",
            shown::id(&path("rank"), rank)
        );
    }
    if let Some(side) = shown::side(budget.side) {
        let _ = write!(out, " <span class=\"of\">{side}</span>");
    }
    let _ = write!(
        out,
        "<span class=\"lead\">{}</span></h3>\n<p class=\"sub\">{} step{}, {} in all",
        shown::interval(&path("step_time_ns"), &budget.step_time_ns),
        shown::count(&path("steps"), budget.steps),
        if budget.steps == 1 { "" } else { "s" },
        shown::ns(&path("total_ns"), budget.total_ns)
    );
    if let Some(tokens) = budget.tokens {
        let _ = write!(out, ", {} tokens", shown::count(&path("tokens"), tokens));
    }
    if let Some(busy) = budget.gpu_busy_pct {
        let _ = write!(
            out,
            "; GPU busy {}",
            shown::pct(&path("gpu_busy_pct"), busy)
        );
    }
    out.push_str("</p>\n");
    let wide = share(mean(budget), longest);
    let _ = write!(
        out,
        "<div class=\"bar-box\"><div class=\"bar\" role=\"img\" aria-label=\"Parts of the step time; the table below has the same\" style=\"width:{wide:.2}%\">"
    );
    for (_, part) in &parts {
        let width = share(part.total_ns as f64, budget.total_ns as f64);
        if width > 0.0 {
            let _ = write!(
                out,
                "<i class=\"{}\" style=\"width:{width:.3}%\" title=\"{}\"></i>",
                view.classes.style(&part.class),
                shown::plain(&part.label, NAME)
            );
        }
    }
    out.push_str("</div>");
    if let Some(limit) = budget.limit_ns {
        let at = share(limit as f64, longest);
        let _ = write!(
            out,
            "<span class=\"mark{}\" style=\"left:{at:.2}%\"><b>device limit {}</b></span>",
            if at > 60.0 { " before" } else { "" },
            shown::ns(&path("limit_ns"), limit)
        );
    }
    out.push_str("</div>\n");
    let per_token = budget.parts.iter().any(|part| part.per_token_ns.is_some());
    let mut rows = String::new();
    for (at, part) in &parts {
        let path = |field: &str| format!("/budget/{index}/parts/{at}/{field}");
        // The name of the group helps unless the part is named after it.
        let group = group_label(&part.group);
        let group = if part.label.to_lowercase().contains(group) {
            String::new()
        } else {
            format!(" <span class=\"of\">{group}</span>")
        };
        let _ = write!(
            rows,
            "<tr><td class=\"t\"><i class=\"sw {}\"></i>{}{group}</td><td class=\"r\">{}</td><td class=\"r\">{}</td>",
            view.classes.style(&part.class),
            shown::text(&path("label"), &part.label, NAME),
            shown::ns(&path("per_step_ns"), part.per_step_ns),
            shown::pct(&path("share_pct"), part.share_pct)
        );
        if per_token {
            let token = part
                .per_token_ns
                .map_or(String::new(), |ns| shown::ns(&path("per_token_ns"), ns));
            let _ = write!(rows, "<td class=\"r\">{token}</td>");
        }
        rows.push_str("</tr>\n");
    }
    let mut heads = vec![("part", ""), ("per step, mean", "r"), ("share", "r")];
    if per_token {
        heads.push(("per token", "r"));
    }
    out.push_str(&super::table("Parts of the step time", &heads, &rows));
    out.push_str(&rows_left_out(&path("parts"), all, parts.len()));
    out.push_str("</article>\n");
    out
}
