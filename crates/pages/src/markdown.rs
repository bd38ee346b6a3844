//! The answer as Markdown for GitHub.

use std::fmt::Write as _;

use findings::{Confidence, Document, Interval};
use report::human;

use crate::shown::{self, LINE, NAME, SENTENCE};

pub(crate) fn write(document: &Document) -> String {
    let answer = &document.answer;
    // Writing into a String cannot fail, here and below.
    let mut out = format!("### {}\n", words(&answer.sentence, SENTENCE));
    let trust = &document.trust;
    let _ = write!(
        out,
        "\n{} files, {} steps used, {} left out, {} events lost",
        human::count(trust.files),
        human::count(trust.steps_used),
        human::count(trust.steps_left_out),
        human::count(trust.events_lost)
    );
    if !trust.ranks_missing.is_empty() {
        let _ = write!(
            out,
            ", {} ranks not recorded",
            human::count(trust.ranks_missing.len() as u64)
        );
    }
    if let Some(within) = trust.headline_within_ns {
        let _ = write!(
            out,
            "; the step time could move by ±{}",
            human::duration(within as f64)
        );
    }
    out.push_str(".\n");
    for note in trust.notes.iter().take(3) {
        let _ = write!(out, "\n> {}\n", words(&note.text, SENTENCE));
    }
    budgets(document, &mut out);
    findings(document, &mut out);
    comparison(document, &mut out);
    if !document.not_recorded.is_empty() {
        out.push_str("\n#### Not recorded\n\n");
        for missing in document.not_recorded.iter().take(8) {
            let _ = writeln!(
                out,
                "- **{}**: {} {}",
                words(&missing.what, LINE),
                words(&missing.decides, LINE),
                code(&missing.record, SENTENCE)
            );
        }
    }
    if !document.next.is_empty() {
        out.push_str("\n#### Next\n\n");
        for next in document.next.iter().take(5) {
            let _ = writeln!(
                out,
                "- {}: {}",
                code(&next.command, SENTENCE),
                words(&next.shows, LINE)
            );
        }
    }
    out
}

fn budgets(document: &Document, out: &mut String) {
    const BUDGETS: usize = 4;
    const PARTS: usize = 12;
    for budget in document.budget.iter().take(BUDGETS) {
        let mut place = words(&budget.phase, NAME);
        if let Some(rank) = budget.rank {
            let _ = write!(place, ", rank {rank}");
        }
        if let Some(side) = shown::side(budget.side) {
            let _ = write!(place, ", {side}");
        }
        let _ = write!(
            out,
            "\n#### Where a step's time goes: {place}\n\n{} a step, {} steps",
            interval(&budget.step_time_ns),
            human::count(budget.steps)
        );
        if let Some(limit) = budget.limit_ns {
            let _ = write!(
                out,
                "; the limit of the device is {}",
                human::duration(limit as f64)
            );
        }
        out.push_str(".\n\n| part | per step | share |\n|---|--:|--:|\n");
        let mut parts: Vec<_> = budget.parts.iter().collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.total_ns));
        for part in parts.iter().take(PARTS) {
            let _ = writeln!(
                out,
                "| {} | {} | {} |",
                words(&part.label, NAME),
                human::duration(part.per_step_ns as f64),
                human::percent(part.share_pct).replace('<', "&lt;")
            );
        }
        if parts.len() > PARTS {
            let _ = write!(
                out,
                "\n{} smaller parts are not shown.\n",
                human::count((parts.len() - PARTS) as u64)
            );
        }
    }
}

fn findings(document: &Document, out: &mut String) {
    const FINDINGS: usize = 10;
    if document.findings.is_empty() {
        return;
    }
    out.push_str("\n#### Findings\n\n| | finding | saves at most, a step | cost, a step | confidence |\n|--:|---|--:|--:|---|\n");
    for (index, finding) in document.findings.iter().take(FINDINGS).enumerate() {
        let remedy = finding.remedy.as_ref().map_or(String::new(), |remedy| {
            format!(
                "<br>{} ({})",
                words(&remedy.text, LINE),
                words(&remedy.source, LINE)
            )
        });
        let _ = writeln!(
            out,
            "| {} | **{}**{remedy} | {} | {} | {} |",
            index + 1,
            words(&finding.title, LINE),
            match finding.gain_ceiling_ns_per_step {
                0 => "not known".to_owned(),
                gain => human::duration(gain as f64),
            },
            interval(&finding.cost_ns_per_step),
            match finding.confidence {
                Confidence::Established => "established",
                Confidence::Likely => "likely",
                Confidence::Possible => "possible",
            }
        );
    }
    let total = document.total.max(document.findings.len() as u64);
    if total > FINDINGS as u64 {
        let _ = write!(out, "\n{} of {} findings.\n", FINDINGS, human::count(total));
    }
}

fn comparison(document: &Document, out: &mut String) {
    let Some(comparison) = &document.comparison else {
        return;
    };
    let _ = write!(
        out,
        "\n#### Baseline and candidate: {}\n\n{} before, {} after; difference {}.\n\n| what differs | of a step |\n|---|--:|\n",
        words(&comparison.phase, NAME),
        interval(&comparison.baseline_ns),
        interval(&comparison.candidate_ns),
        interval(&comparison.difference_ns)
    );
    for part in comparison.parts.iter().take(12) {
        let _ = writeln!(
            out,
            "| {} | {} |",
            words(&part.label, NAME),
            human::duration(part.difference_ns as f64)
        );
    }
    let _ = writeln!(
        out,
        "| not explained | {} |",
        human::duration(comparison.unexplained_ns as f64)
    );
}

fn interval(value: &Interval) -> String {
    let median = human::duration(value.median as f64);
    if value.low == value.high {
        return median;
    }
    format!(
        "{median} ({} to {})",
        human::duration(value.low as f64),
        human::duration(value.high as f64)
    )
}

/// Escapes text: no markup, no mention of users, no reference to issues, no link.
fn words(text: &str, most: usize) -> String {
    let text = shown::cut(text, most);
    let text = report::text::printable(&text);
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '!' => {
                out.push('\\');
                out.push(c);
            }
            // An empty comment keeps GitHub from seeing a user, an issue or an address.
            '@' | '#' => {
                out.push(c);
                out.push_str("<!-- -->");
            }
            ':' => out.push_str(":<!-- -->"),
            c => out.push(c),
        }
    }
    // A colon followed by a blank is that of a sentence.
    out.replace(":<!-- --> ", ": ")
        .replace("www.", "www<!-- -->.")
}

/// Returns text as code, fenced by more backticks than it contains in a row.
fn code(text: &str, most: usize) -> String {
    let text = shown::cut(text, most);
    let text = report::text::printable(&text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_mentions_nobody_and_links_nowhere() {
        assert_eq!(words("a|b *c* <i>", 50), "a\\|b \\*c\\* &lt;i&gt;");
        assert_eq!(
            words("@team fixes #12", 50),
            "@<!-- -->team fixes #<!-- -->12"
        );
        assert_eq!(
            words("see https://a.b: yes", 50),
            "see https:<!-- -->//a.b: yes"
        );
        assert_eq!(code("a `b`` c", 50), "``` a `b`` c ```");
        assert_eq!(code("x", 50), "`x`");
    }
}
