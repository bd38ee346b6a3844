//! The answer as text: at most 40 lines.

use std::fmt::Write as _;

use report::human;
use report::text::wrapped;

use crate::document::{Budget, Confidence, Document, Finding, Shape, Side};
use crate::numbers::{counted, pct, shortened, time};

/// Fewest columns that text is wrapped to.
const NARROWEST: usize = 40;

/// Lines.
const LINES: usize = 40;

/// Findings.
const FINDINGS: usize = 5;

/// How much is shown beside the findings, at most.
#[derive(Clone, Copy)]
struct Space {
    /// Rows of a budget.
    parts: usize,
    /// Notes; one more if it is the last.
    notes: usize,
    /// Commands, and as many lines about what was not recorded.
    next: usize,
    /// Findings for which there has to be room.
    findings: usize,
}

/// Layouts in order of preference: the first that leaves room for its findings is taken. Readers come for a reason and its remedy, so
/// everything else gives way, and notes on what was not read come last.
const SPACES: [Space; 4] = [
    Space {
        parts: 7,
        notes: 3,
        next: 3,
        findings: 2,
    },
    Space {
        parts: 5,
        notes: 3,
        next: 2,
        findings: 2,
    },
    Space {
        parts: 3,
        notes: 3,
        next: 1,
        findings: 1,
    },
    Space {
        parts: 3,
        notes: 1,
        next: 1,
        findings: 0,
    },
];

/// Returns the answer as text of a number of columns. Commands are broken with a backslash at the end of the line, as a shell reads
/// them.
pub fn text(document: &Document, width: usize) -> String {
    let width = width.max(NARROWEST);
    let mut lines = Vec::new();
    for space in SPACES {
        let is_enough;
        (lines, is_enough) = lines_in(document, width, space);
        if is_enough {
            break;
        }
    }
    let mut text = String::new();
    for line in lines {
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// Returns the lines, and whether enough findings are among them.
fn lines_in(document: &Document, width: usize, space: Space) -> (Vec<String>, bool) {
    let mut out: Vec<String> = wrapped(&document.answer.sentence, width);
    out.push(String::new());
    out.extend(trust(document, width, space.notes));
    let budget = main_budget(document);
    if let Some(budget) =
        budget.filter(|_| document.answer.shape != Shape::CannotSay || !document.budget.is_empty())
    {
        out.push(String::new());
        out.extend(budget_lines(budget, width, space.parts));
    }
    if let Some(comparison) = &document.comparison {
        let parts = comparison.parts.iter().take(5);
        for part in parts {
            let sign = if part.difference_ns < 0 { "-" } else { "+" };
            out.push(row(&[
                (&part.label, 52, false),
                (
                    &format!("{sign}{}", time(part.difference_ns.abs())),
                    12,
                    true,
                ),
            ]));
        }
        let sign = if comparison.unexplained_ns < 0 {
            "-"
        } else {
            "+"
        };
        out.push(row(&[
            ("unexplained", 52, false),
            (
                &format!("{sign}{}", time(comparison.unexplained_ns.abs())),
                12,
                true,
            ),
        ]));
    }
    let missing: Vec<String> = missing(document, width, space.next);
    let next: Vec<String> = next(document, width, space.next);
    let tail = missing.len() + next.len();
    // Limits and shares are in the sentence and the budget.
    let catalogue = crate::Catalogue::builtin();
    let side = match document.comparison {
        Some(_) => Side::Candidate,
        None => Side::Only,
    };
    let shown = document.findings.iter().filter(|finding| {
        if document.comparison.is_some() && finding.place.side != side {
            return false;
        }
        let role = catalogue.kind(&finding.kind).map(|kind| kind.role);
        role == Some(crate::KindRole::Cause)
            || document.answer.finding.as_ref() == Some(&finding.id)
    });
    // The answer's own first, then what is established, whatever it would save.
    let mut shown: Vec<&Finding> = shown.collect();
    shown.sort_by_key(|finding| {
        let is_answer = document.answer.finding.as_ref() == Some(&finding.id);
        match (is_answer, finding.confidence) {
            (true, _) => 0,
            (_, Confidence::Established) => 1,
            _ => 2,
        }
    });
    let mut findings: Vec<String> = Vec::new();
    let wanted = shown.len().min(space.findings);
    let mut count = 0;
    for finding in shown.into_iter().take(FINDINGS) {
        let lines = finding_lines(finding, document, width);
        if out.len() + findings.len() + lines.len() + tail + 1 > LINES {
            break;
        }
        findings.extend(lines);
        count += 1;
    }
    if !findings.is_empty() {
        out.push(String::new());
        out.extend(findings);
    }
    out.extend(next);
    out.extend(missing);
    out.truncate(LINES);
    (out, count >= wanted)
}

fn main_budget(document: &Document) -> Option<&Budget> {
    let phase = document.answer.phase.as_deref();
    let side = match document.comparison {
        Some(_) => Side::Candidate,
        None => Side::Only,
    };
    let mut all = document.budget.iter().filter(|budget| budget.side == side);
    all.find(|budget| phase == Some(budget.phase.as_str()))
        .or_else(|| document.budget.first())
}

/// Maximum number of lines of a note.
const NOTE_LINES: usize = 4;

fn trust(document: &Document, width: usize, most: usize) -> Vec<String> {
    let mut out = indented("trust", &trust_words(document), width);
    let notes = &document.trust.notes;
    // A line that counts one note takes the place of that note.
    let shown = match notes.len() {
        n if n <= most + 1 => n,
        _ => most,
    };
    for note in notes.iter().take(shown) {
        let mut lines = indented("note", &note.text, width);
        if lines.len() > NOTE_LINES {
            lines.truncate(NOTE_LINES);
            if let Some(last) = lines.last_mut() {
                let kept: String = last.chars().take(width.saturating_sub(4)).collect();
                *last = format!("{} ...", kept.trim_end());
            }
        }
        out.extend(lines);
    }
    if notes.len() > shown {
        let more = format!("{} more notes, in --json", notes.len() - shown);
        out.extend(indented("note", &more, width));
    }
    out
}

/// What the answer stands on, in one line.
fn trust_words(document: &Document) -> String {
    let trust = &document.trust;
    let mut words = vec![counted(trust.files, "recording", "recordings")];
    if !trust.ranks_missing.is_empty() {
        let n = trust.ranks_missing.len() + trust.ranks_present.len();
        let shown: Vec<String> = trust
            .ranks_missing
            .iter()
            .take(4)
            .map(u32::to_string)
            .collect();
        let more = if trust.ranks_missing.len() > 4 {
            ", ..."
        } else {
            ""
        };
        words.push(format!(
            "{} of {n} ranks (not {}{more})",
            trust.ranks_present.len(),
            shown.join(", ")
        ));
    } else if trust.ranks_present.len() > 1 {
        words.push(format!("{0} of {0} ranks", trust.ranks_present.len()));
    }
    if trust.steps_used > 0 {
        words.push(format!(
            "{} used, {} left out",
            counted(trust.steps_used, "step", "steps"),
            human::count(trust.steps_left_out)
        ));
    }
    if trust.events_lost > 0 {
        words.push(format!(
            "{} lost or damaged",
            counted(trust.events_lost, "event", "events")
        ));
    }
    if let Some(within) = trust.clocks_within_ns {
        words.push(format!("clocks within {}", time(within)));
    }
    if let Some(error) = trust.model_error_pct {
        words.push(format!("model off by {}", pct(error.abs())));
    }
    if let Some(known) = trust.roofline_coverage_pct {
        words.push(format!("limits known for {} of GPU time", pct(known)));
    }
    words.join("; ")
}

/// A label and a wrapped text beside it.
fn indented(label: &str, text: &str, width: usize) -> Vec<String> {
    let lines = wrapped(text, width - 7);
    let each = lines.iter().enumerate().map(|(at, line)| match at {
        0 => format!("{label:<7}{line}"),
        _ => format!("       {line}"),
    });
    each.collect()
}

/// Cells with their width; `true` for those that are right-aligned.
fn row(cells: &[(&str, usize, bool)]) -> String {
    let mut line = String::from("  ");
    for (text, width, is_right) in cells {
        let text = shortened(text, *width);
        // Widths count characters, as `format!` does.
        _ = match is_right {
            true => write!(line, "{text:>width$}"),
            false => write!(line, "{text:<width$}"),
        };
        line.push(' ');
    }
    line
}

fn budget_lines(budget: &Budget, width: usize, most: usize) -> Vec<String> {
    let word = format!("{} step", crate::draft::phase_word(&budget.phase));
    let rank = match budget.rank {
        Some(rank) => format!(" of rank {rank}"),
        None => String::new(),
    };
    let n = i64::try_from(budget.steps).unwrap_or(1).max(1);
    let busy = budget.gpu_busy_pct;
    let head = format!(
        "critical path of {word}s{rank}: mean {} of {}{}",
        time(budget.total_ns / n),
        human::count(budget.steps),
        busy.map_or_else(String::new, |busy| format!(", GPU busy {}", pct(busy)))
    );
    let mut out = wrapped(&head, width);
    let mut rest = (0, 0.0, 0);
    for (at, part) in budget.parts.iter().enumerate() {
        if at < most && (part.share_pct >= 1.0 || at == 0) {
            out.push(row(&[
                (&part.label, 36, false),
                (&time(part.per_step_ns), 10, true),
                (&pct(part.share_pct), 8, true),
            ]));
        } else {
            rest = (rest.0 + part.total_ns, rest.1 + part.share_pct, rest.2 + 1);
        }
    }
    if rest.2 > 0 && rest.0 > 0 {
        out.push(row(&[
            (&format!("{} more parts", rest.2), 36, false),
            (&time(rest.0 / n), 10, true),
            (&pct(rest.1), 8, true),
        ]));
    }
    out
}

fn finding_lines(finding: &Finding, document: &Document, width: usize) -> Vec<String> {
    let steps = match finding.place.step_count {
        1 => format!(
            " in step {}",
            finding.place.steps.first().copied().unwrap_or(0)
        ),
        n => format!(" in {n} steps"),
    };
    let gain = match finding.gain_ceiling_ns_per_step {
        0 if finding.is_gain_known => "nothing would be saved".to_owned(),
        0 => "gain not known".to_owned(),
        _ => format!("gain at most {}", pct(finding.gain_pct)),
    };
    let cost = finding.cost_ns_per_affected_step.median;
    // Shares are of the phase of the answer unless another one is named.
    let whole = match (&finding.place.phase, &document.answer.phase) {
        (Some(own), Some(main)) if own != main => {
            format!(" of {} steps", crate::draft::phase_word(own))
        }
        _ => String::new(),
    };
    let numbers = match cost {
        // A state of the steps.
        0 => format!("{}; what it costs is not known", steps.trim_start()),
        cost => format!(
            "{}{steps}, {}{whole}; {gain}",
            time(cost),
            pct(finding.share_pct)
        ),
    };
    let mut out = wrapped(
        &format!(
            "{}: {} [{numbers}]",
            finding.confidence.name(),
            finding.title
        ),
        width - 2,
    );
    for line in out.iter_mut().skip(1) {
        *line = format!("  {line}");
    }
    if let Some(remedy) = &finding.remedy
        && document.answer.finding.as_ref() == Some(&finding.id)
    {
        let lines = wrapped(&format!("-> {}", remedy.text), width - 4);
        out.extend(lines.into_iter().map(|line| format!("  {line}")));
    }
    out
}

fn next(document: &Document, width: usize, most: usize) -> Vec<String> {
    let mut out = Vec::new();
    for next in document.next.iter().take(most) {
        if out.is_empty() {
            out.push(String::new());
        }
        let lines = broken(&next.command, width - 7);
        out.extend(lines.into_iter().enumerate().map(|(at, line)| match at {
            0 => format!("next   {line}"),
            _ => format!("       {line}"),
        }));
    }
    out
}

/// Returns a command as lines that a shell reads as one: broken at blanks outside of quotes, with a backslash at the end of each line
/// but the last. A word that is longer than a line stays whole.
fn broken(command: &str, width: usize) -> Vec<String> {
    let mut is_quoted = false;
    let words = command.split(|c: char| {
        is_quoted ^= c == '\'';
        c == ' ' && !is_quoted
    });
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in words.filter(|word| !word.is_empty()) {
        let is_full = line.chars().count() + 1 + word.chars().count() + 2 > width;
        if is_full && !line.is_empty() {
            lines.push(format!("{line} \\"));
            line = format!("  {word}");
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines.push(line);
    lines
}

fn missing(document: &Document, width: usize, most: usize) -> Vec<String> {
    let mut out = Vec::new();
    for lack in document.not_recorded.iter().take(most) {
        if out.is_empty() {
            out.push(String::new());
        }
        let text = format!("{}: {}. Record: {}", lack.what, lack.decides, lack.record);
        out.extend(indented("lacks", &text, width).into_iter().take(5));
    }
    out
}

/// Returns one finding with all its evidence as text.
pub fn show(finding: &Finding, width: usize) -> String {
    let mut out = wrapped(&format!("{}.", finding.title), width.max(NARROWEST));
    let place = &finding.place;
    let mut line = |label: &str, text: String| {
        if !text.is_empty() {
            out.push(format!("{label:<12}{text}"));
        }
    };
    line("id", finding.id.clone());
    line("kind", finding.kind.clone());
    line("strength", finding.confidence.name().to_owned());
    line("phase", place.phase.clone().unwrap_or_default());
    line(
        "rank",
        place.rank.map_or_else(String::new, |rank| rank.to_string()),
    );
    let cost = finding.cost_ns_per_affected_step;
    line(
        "cost",
        format!(
            "{} ({} to {}) of {}; {} of the phase",
            time(cost.median),
            time(cost.low),
            time(cost.high),
            counted(place.step_count, "step", "steps"),
            pct(finding.share_pct)
        ),
    );
    line(
        "gain",
        match finding.is_gain_known {
            true => format!(
                "{} a step at most, {} of the phase",
                time(finding.gain_ceiling_ns_per_step),
                pct(finding.gain_pct)
            ),
            false => "not known".to_owned(),
        },
    );
    let numbers: Vec<String> = place.steps.iter().map(u32::to_string).collect();
    line("steps", numbers.join(" "));
    line("name", place.name.clone().unwrap_or_default());
    for (at, frame) in place.stack.iter().enumerate() {
        line(if at == 0 { "stack" } else { "" }, frame.clone());
    }
    for (at, evidence) in finding.evidence.iter().enumerate() {
        line(if at == 0 { "evidence" } else { "" }, evidence.text.clone());
        if let (Some(id), Some(file)) = (evidence.event_id, &evidence.file) {
            line(
                "",
                format!(
                    "  event {id} of {file}, at {} ns",
                    evidence.begin_ns.unwrap_or(0)
                ),
            );
        }
    }
    line("refuted by", finding.refute.clone());
    if let Some(remedy) = &finding.remedy {
        line("helps", remedy.text.clone());
        line("", remedy.source.clone());
    }
    for (at, command) in finding.commands.iter().enumerate() {
        line(if at == 0 { "commands" } else { "" }, command.clone());
    }

    out.push(String::new());
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::broken;

    #[test]
    fn broken_commands_are_the_same_to_a_shell() {
        let command = "inferscope show a.b 'traces/of one job.json' --step 3 --path";
        for width in 20..90 {
            let lines = broken(command, width);
            let joined = lines.join("\n").replace(" \\\n  ", " ");
            assert_eq!(joined, command, "{width}");
            for line in &lines {
                let is_one_word = line.trim_end_matches(" \\").trim().matches(' ').count() == 0;
                let is_quoted = line.contains('\'');
                assert!(line.len() <= width || is_one_word || is_quoted, "{line}");
            }
        }
        assert_eq!(broken("inferscope why", 30), ["inferscope why"]);
    }
}
