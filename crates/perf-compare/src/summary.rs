//! The report in at most 25 lines of 80 columns, for a terminal.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::document::{CycleTime, Evidence, Finding, Report, Statement, Verdict};
use crate::render::{interval, name, names, percent, status, word, word_of};
use crate::report_text::{label, short};

/// Lines in all, columns of a line.
const LINES: usize = 25;
const WIDTH: usize = 80;
/// Findings shown.
const SHOWN: usize = 8;

/// A name in so many columns. Of a path the end is kept, as the two sides often lie in the same place.
fn fitted(name: &str, columns: usize) -> Cow<'_, str> {
    let folders = name.match_indices('/');
    let mut ends = folders.map(|(at, _)| name.get(at..).unwrap_or_default());
    let fits = |end: &&str| end.chars().count() < columns;
    if name.chars().count() > columns
        && let Some(end) = ends.find(fits).filter(|end| end.len() > 1)
    {
        return format!("…{end}").into();
    }
    report::text::shorten(name, columns)
}

/// Lines of text, and whether words that are longer than a line are cut.
struct Lines {
    list: Vec<String>,
    cuts: bool,
}

impl Lines {
    fn new(cuts: bool) -> Self {
        Self {
            list: Vec::new(),
            cuts,
        }
    }

    fn push(&mut self, line: String) {
        self.list.push(line);
    }

    fn len(&self) -> usize {
        self.list.len()
    }
}

/// Words of a line put into lines that fit; all but the first begin with `indent`.
fn wrap(line: &str, indent: &str, out: &mut Lines) {
    let line = report::text::printable(line);
    let start = line.len() - line.trim_start().len();
    let mut current = line[..start].to_owned();
    let mut empty = true;
    for word in line.split_whitespace() {
        let word = match out.cuts {
            true => fitted(word, WIDTH - indent.len().max(start) - 1),
            false => word.into(),
        };
        if !empty && current.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push(std::mem::replace(&mut current, indent.to_owned()));
            empty = true;
        }
        if !empty {
            current.push(' ');
        }
        current.push_str(&word);
        empty = false;
    }
    out.push(current);
}

impl Report {
    /// At most 25 lines of 80 columns for a terminal.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.text(true, true)
    }

    /// Renders the same without the cause, for samples of something that the signatures of causes do not know.
    #[must_use]
    pub fn to_text_without_cause(&self) -> String {
        self.text(false, true)
    }

    /// Renders [`Report::to_text`] for a file or a pipe: names and paths that are longer than a line are not cut.
    #[must_use]
    pub fn to_uncut_text(&self) -> String {
        self.text(true, false)
    }

    fn text(&self, with_cause: bool, cuts: bool) -> String {
        let mut lines = Lines::new(cuts);
        self.head(&mut lines);
        if with_cause && !self.identical && lines.len() <= LINES / 2 {
            self.cause(&mut lines);
        }
        for time in self.cycle_time.iter().take(2) {
            cycle(time, &mut lines);
        }
        let declared = self
            .findings
            .iter()
            .filter(|f| f.verdict == Statement::Changed)
            .count();
        if !self.findings.is_empty() {
            lines.push(format!("{declared} of {} changed:", self.findings.len()));
        }
        let names = names(self);
        // The claim and one line about notes come after the findings.
        for finding in self.findings.iter().take(SHOWN.min(declared.max(3))) {
            let mut more = Lines::new(cuts);
            line(finding, &names, &mut more);
            if lines.len() + more.len() + 2 > LINES {
                break;
            }
            lines.list.extend(more.list);
        }
        lines.list.truncate(LINES - 2);
        lines.push(format!("the claim is about {}", self.claim));
        let mut left = self.notes.len();
        for note in &self.notes {
            let mut more = Lines::new(cuts);
            wrap(&format!("note: {note}"), "  ", &mut more);
            let room = LINES - lines.len() - usize::from(left > 1);
            if more.len() > room {
                break;
            }
            lines.list.extend(more.list);
            left -= 1;
        }
        if left > 0 {
            lines.push(format!("{left} more notes in --format json"));
        }
        lines.list.join("\n") + "\n"
    }

    fn head(&self, lines: &mut Lines) {
        wrap(&format!("{}.", self.headline), "  ", lines);
        lines.push(status(self).to_owned());
        for (side, info) in [
            ("baseline ", &self.baseline),
            ("candidate", &self.candidate),
        ] {
            let name = report::text::printable(&info.name);
            let name = match lines.cuts {
                true => fitted(&name, WIDTH - 12),
                false => name,
            };
            lines.push(format!("  {side} {name}"));
        }
        for reason in self.comparability.reasons.iter().take(3) {
            // What stops is in the first sentence, and so is what was recorded otherwise.
            let is_said = reason.stops && !self.comparability.forced;
            if !is_said && reason.code != "capture" {
                wrap(&format!("  {}", reason.text), "    ", lines);
            }
        }
    }

    fn cause(&self, lines: &mut Lines) {
        lines.push(format!(
            "cause: {} ({}confidence {:.2})",
            self.verdict.cause,
            rated(&self.verdict),
            self.verdict.confidence
        ));
        for row in self.verdict.evidence.iter().take(3) {
            evidence(row, lines);
        }
        let open: Vec<&str> = self
            .verdict
            .not_judged
            .iter()
            .map(|open| open.cause.as_str())
            .take(6)
            .collect();
        if !open.is_empty() {
            wrap(
                &format!(
                    "  not recorded, so neither shown nor ruled out: {}",
                    open.join(", ")
                ),
                "    ",
                lines,
            );
        }
        if let Some(next) = &self.verdict.runner_up {
            lines.push(format!(
                "  runner-up: {} ({:.2})",
                next.cause, next.confidence
            ));
        }
    }
}

/// How certain a cause is, with a comma behind it.
pub(crate) fn rated(verdict: &Verdict) -> String {
    match verdict.certainty {
        "open" => String::new(),
        certainty => format!("{certainty}, "),
    }
}

fn evidence(row: &Evidence, lines: &mut Lines) {
    let (place, name) = row.device.split_once(": ").unwrap_or((&row.device, ""));
    let on = if name.is_empty() {
        place.to_owned()
    } else {
        format!("{place}, {}", label(name))
    };
    let change = row
        .change_pct
        .map_or(String::new(), |change| format!(" ({change:+.1} %)"));
    wrap(
        &format!(
            "  {} ({on}): {} -> {} {}{change}",
            row.metric,
            short(row.baseline),
            short(row.candidate),
            row.unit
        ),
        "    ",
        lines,
    );
}

fn cycle(time: &CycleTime, lines: &mut Lines) {
    let kind = time.kind();
    let mean = &time.effect;
    wrap(
        &format!(
            "{kind} time {}: {} {} -> {} us{}, difference {} us",
            word(time.change, time.verdict),
            if is_trimmed(time) {
                "trimmed mean"
            } else {
                "mean"
            },
            short(mean.baseline),
            short(mean.candidate),
            percent(mean),
            interval(mean),
        ),
        "  ",
        lines,
    );
    let quantiles = [
        ("p50", time.median_us, time.median_change_us),
        ("p95", time.p95_us, time.p95_change_us),
        ("p99", time.p99_us, time.p99_change_us),
    ];
    if is_trimmed(time) {
        let [a, b] = time.mean_us;
        let change = (b / a - 1.0) * 100.0;
        wrap(
            &format!(
                "  us: mean of all {} -> {} ({change:+.1} %)",
                short(a),
                short(b)
            ),
            "    ",
            lines,
        );
    }
    let quantiles = quantiles.map(|(name, [a, b], (_, [low, high]))| {
        format!(
            "{name} {} -> {} ({} to {})",
            short(a),
            short(b),
            short(low),
            short(high)
        )
    });
    wrap(&format!("  us: {}", quantiles.join(", ")), "    ", lines);
    if let Some(pauses) = &time.pauses
        && (pauses.established || pauses.cycles[0] != pauses.cycles[1])
    {
        wrap(&format!("  {}", pauses.said()), "    ", lines);
    }
    if let Some(needed) = time.cycles_needed_for_2pct
        && time.verdict != Statement::Changed
    {
        let have = time.effect.n[0].min(time.effect.n[1]) as u64;
        lines.push(match needed.saturating_sub(have) {
            0 => format!("  {have} cycles a side are enough to establish 2 %"),
            more => format!("  {more} more cycles a side needed to establish 2 %"),
        });
    }
}

/// Returns `true` if the effect is that of most cycles and not that of the mean of all.
#[expect(clippy::float_cmp, reason = "the same number, or another")]
fn is_trimmed(time: &CycleTime) -> bool {
    time.effect.baseline != time.mean_us[0]
}

fn line(finding: &Finding, names: &BTreeMap<&str, String>, lines: &mut Lines) {
    wrap(
        &format!(
            "  {} {}: {}{}, {} {}{}",
            word_of(finding),
            name(finding, names),
            short(finding.effect.delta),
            percent(&finding.effect),
            interval(&finding.effect),
            finding.unit,
            match finding.verdict == Statement::Changed {
                true if finding.by_work => ", no more than the work of a step explains",
                true if finding.no_effect_on_cycle => ", no effect on cycle time",
                _ => "",
            }
        ),
        "    ",
        lines,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit() {
        let mut lines = Lines::new(true);
        let text = format!("  note {} end {}", "word ".repeat(40), "x".repeat(200));
        wrap(&text, "    ", &mut lines);
        let mut whole = Lines::new(false);
        wrap(&text, "    ", &mut whole);
        assert!(
            whole
                .list
                .iter()
                .any(|line| line.contains(&"x".repeat(200)))
        );
        let lines = lines.list;
        assert!(lines.len() > 3);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert!(lines[0].starts_with("  note word") && lines[1].starts_with("    word"));
    }

    #[test]
    fn paths_keep_what_tells_them_apart() {
        let of = |side: &str| format!("/a/long/{}/{side}/result.csv", "folder/".repeat(20));
        let (normal, abnormal) = (of("normal"), of("abnormal"));
        let shown = fitted(&abnormal, 30);
        assert!(shown.ends_with("/abnormal/result.csv") && shown.starts_with("…/"));
        assert!(shown.chars().count() <= 30);
        assert_ne!(fitted(&normal, 30), shown);
        assert_eq!(fitted("short", 30), "short");
        assert_eq!(fitted("a_name_without_any_folder_in_it", 9), "a_na…n_it");
    }
}
