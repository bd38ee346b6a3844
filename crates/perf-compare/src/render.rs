//! The report as CSV, Markdown and JUnit XML, and what a gate makes of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use report::{Cell, Column, CsvOptions, CsvWriter, RowSink as _};
use trace_model::kernel::display_names;

use crate::analyse::{Better, better};
use crate::document::{Change, Effect, Finding, Report, Statement, Status};
use crate::headline::called;
use crate::report_text::{short, times};
use crate::summary::rated;

/// What a gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gate {
    /// No change for the worse of the size asked about.
    Pass,
    /// Changed for the worse.
    Worse,
    /// It cannot be told whether it changed that much: too few cycles, or too much noise.
    Open,
}

/// What lets a gate fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FailOn {
    /// A change for the worse.
    #[default]
    Regressed,
    /// Any change.
    Changed,
}

pub(crate) fn word(change: Change, verdict: Statement) -> &'static str {
    match (change, verdict) {
        (Change::New, _) => "new",
        (Change::Gone, _) => "gone",
        (Change::Slower, _) => "slower",
        (Change::Faster, _) => "faster",
        (Change::Higher, _) => "higher",
        (Change::Lower, _) => "lower",
        (_, Statement::Equivalent) => "equivalent",
        (_, Statement::Small) => "slightly changed",
        (_, Statement::Insufficient) => "insufficient",
        _ => "inconclusive",
    }
}

/// As [`word()`], and where calls are what changed, how many times as many there are.
pub(crate) fn word_of(finding: &Finding) -> String {
    let plain = word(finding.change, finding.verdict);
    match called(finding) {
        Some(ratio) if matches!(finding.change, Change::Slower | Change::Faster) => {
            format!("{} times as many calls of", times(ratio))
        }
        _ => plain.to_owned(),
    }
}

pub(crate) fn status(report: &Report) -> &'static str {
    match report.comparability.status {
        Status::Comparable => "comparable",
        Status::ComparableWithWarnings => "comparable, with warnings",
        Status::NotComparable if report.comparability.forced => "not comparable (forced)",
        Status::NotComparable => "not comparable",
    }
}

pub(crate) fn interval(effect: &Effect) -> String {
    effect
        .interval
        .map_or("no interval".to_owned(), |[low, high]| {
            format!("{} to {}", short(low), short(high))
        })
}

/// The interval with its unit, behind it the change in percent.
fn change(effect: &Effect, unit: &str) -> String {
    let unit = match effect.interval {
        Some(_) if !unit.is_empty() => format!(" {unit}"),
        _ => String::new(),
    };
    format!("{}{unit}{}", interval(effect), percent(effect))
}

pub(crate) fn percent(effect: &Effect) -> String {
    effect.ratio.map_or(String::new(), |ratio| {
        format!(" ({:+.1} %)", (ratio - 1.0) * 100.0)
    })
}

/// The names of all findings as all tools show them: kernels without parameters, distinct where the names are.
pub(crate) fn names(report: &Report) -> BTreeMap<&str, String> {
    let is_kernel = |f: &&Finding| ["kernel", "collective"].contains(&f.class);
    let kernels = report.findings.iter().filter(is_kernel);
    display_names(kernels.map(|f| f.name.as_str()))
}

/// The name of a finding, by the names of its report.
pub(crate) fn name(finding: &Finding, names: &BTreeMap<&str, String>) -> String {
    let shown = names.get(finding.name.as_str()).unwrap_or(&finding.name);
    let name = report::text::printable(shown).into_owned();
    match finding.kind {
        "collective_transfer" => format!("{name} [transfer, all ranks]"),
        "collective_total" => format!("{name} [sum, all ranks]"),
        "metric" | "tail" => name,
        _ => match &finding.rank {
            Some(rank) => format!("{name} [{rank}, {}]", finding.device),
            None => format!("{name} [{}]", finding.device),
        },
    }
}

impl Report {
    /// The JSON document, one object.
    ///
    /// # Errors
    ///
    /// None in practice: everything in a report can be expressed as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// One row per function or metric.
    ///
    /// # Errors
    ///
    /// None in practice: the rows fit their columns.
    pub fn to_csv(&self) -> report::Result<String> {
        let text = [
            "id",
            "kind",
            "cycle_type",
            "name",
            "class",
            "device",
            "change",
            "verdict",
            "unit",
        ];
        let real = [
            "baseline",
            "candidate",
            "delta",
            "delta_low",
            "delta_high",
            "ratio",
            "ratio_low",
            "ratio_high",
            "p",
            "q",
            "p_brunner_munzel",
            "shift",
            "cliffs_delta",
            "calls_ratio",
            "us_per_call_ratio",
            "explained_pct",
            "effective_n_baseline",
            "effective_n_candidate",
        ];
        let mut columns: Vec<Column> = text.iter().map(|name| Column::text(*name)).collect();
        columns.extend(real.iter().map(|name| Column::real(*name)));
        columns.extend(["n_baseline", "n_candidate"].map(Column::uint));
        let mut out = Vec::new();
        let mut csv = CsvWriter::new(&mut out, CsvOptions::default());
        csv.begin(&columns)?;
        for f in &self.findings {
            let e = &f.effect;
            let maybe = |value: Option<f64>| value.map_or(Cell::Null, Cell::from);
            let end = |pair: Option<[f64; 2]>, at: usize| maybe(pair.map(|pair| pair[at]));
            let verdict = match f.verdict {
                Statement::Changed => "changed",
                Statement::Equivalent => "equivalent",
                Statement::Small => "small",
                Statement::Inconclusive => "inconclusive",
                Statement::Insufficient => "insufficient",
            };
            csv.row(&[
                Cell::from(&*f.id),
                Cell::from(f.kind),
                Cell::from(&*f.cycle_type),
                Cell::from(&*f.name),
                Cell::from(f.class),
                Cell::from(&*f.device),
                Cell::from(word(f.change, f.verdict)),
                Cell::from(verdict),
                Cell::from(&*f.unit),
                Cell::from(e.baseline),
                Cell::from(e.candidate),
                Cell::from(e.delta),
                end(e.interval, 0),
                end(e.interval, 1),
                maybe(e.ratio),
                end(e.ratio_interval, 0),
                end(e.ratio_interval, 1),
                maybe(e.p),
                maybe(f.q),
                maybe(e.p_brunner_munzel),
                maybe(e.shift),
                maybe(e.cliffs_delta),
                maybe(f.calls_ratio),
                maybe(f.us_per_call_ratio),
                maybe(f.explained_pct),
                Cell::from(e.effective_n[0]),
                Cell::from(e.effective_n[1]),
                Cell::from(e.n[0] as u64),
                Cell::from(e.n[1] as u64),
            ])?;
        }
        csv.finish()?;
        drop(csv);
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    /// For a pull request.
    #[must_use]
    pub fn to_markdown(&self) -> String {
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let mut out = format!(
            "## Performance: {} → {}\n\n**{}.**\n\n{}; cause: **{}** ({}confidence {:.2})\n\n",
            cell(&self.baseline.name),
            cell(&self.candidate.name),
            cell(&self.headline),
            status(self),
            self.verdict.cause,
            rated(&self.verdict),
            self.verdict.confidence
        );
        for reason in &self.comparability.reasons {
            let _ = writeln!(out, "- {}", cell(&reason.text));
        }
        if !self.cycle_time.is_empty() {
            out.push_str("\n| cycle | verdict | baseline µs | candidate µs | difference (95 %) | cycles for 2 % |\n|---|---|---:|---:|---:|---:|\n");
            for time in &self.cycle_time {
                let kind = match time.cycle_type.as_str() {
                    "" => "all".to_owned(),
                    _ => time.kind(),
                };
                let needed = time
                    .cycles_needed_for_2pct
                    .map_or("-".to_owned(), |n| n.to_string());
                let _ = writeln!(
                    out,
                    "| {kind} | {} | {} | {} | {}{} | {needed} |",
                    word(time.change, time.verdict),
                    short(time.effect.baseline),
                    short(time.effect.candidate),
                    interval(&time.effect),
                    percent(&time.effect)
                );
            }
        }
        let declared: Vec<&Finding> = self
            .findings
            .iter()
            .filter(|f| f.verdict == Statement::Changed)
            .collect();
        let names = names(self);
        if !declared.is_empty() {
            out.push_str("\n| change | what | baseline | candidate | difference (95 %) | q |\n|---|---|---:|---:|---:|---:|\n");
            for f in declared.iter().take(20) {
                let unit = cell(&f.unit);
                let _ = writeln!(
                    out,
                    "| {} | `{}` | {} {unit} | {} {unit} | {} | {} |",
                    word_of(f),
                    cell(&name(f, &names)),
                    short(f.effect.baseline),
                    short(f.effect.candidate),
                    change(&f.effect, &unit),
                    f.q.map_or("-".to_owned(), short)
                );
            }
        }
        if !self.verdict.evidence.is_empty() {
            out.push_str("\n<details><summary>Evidence</summary>\n\n| metric | device | baseline | candidate | unit |\n|---|---|---:|---:|---|\n");
            for row in &self.verdict.evidence {
                let _ = writeln!(
                    out,
                    "| {} | {} | {} | {} | {} |",
                    row.metric,
                    cell(&row.device),
                    short(row.baseline),
                    short(row.candidate),
                    row.unit
                );
            }
            out.push_str("\n</details>\n");
        }
        let _ = writeln!(
            out,
            "\n{} of {} changed; the claim is about {}.",
            declared.len(),
            self.findings.len(),
            self.claim
        );
        out
    }

    /// Judges for continuous integration: is anything worse by at least `min_effect_pct`?
    ///
    /// Cycle time and metrics count relative to themselves, functions relative to the cycle. Without a change of that
    /// size the gate is open unless every interval excludes it.
    #[must_use]
    pub fn gate(&self, fail_on: FailOn, min_effect_pct: f64) -> Gate {
        let bad = |change: Change| match fail_on {
            FailOn::Regressed => matches!(change, Change::Slower | Change::New),
            FailOn::Changed => change != Change::None,
        };
        let cases = self.cases(min_effect_pct);
        if cases
            .iter()
            .any(|case| case.declared && bad(case.change) && case.bound_pct >= min_effect_pct)
        {
            Gate::Worse
        } else if cases.is_empty()
            || self.mix.as_ref().is_some_and(|mix| !mix.established)
            || cases.iter().any(|case| case.decisive && case.open)
        {
            Gate::Open
        } else {
            Gate::Pass
        }
    }

    fn cases(&self, min_effect_pct: f64) -> Vec<Case> {
        let cycle = self
            .cycle_time
            .first()
            .map_or(0.0, |time| time.effect.baseline);
        let mut cases = Vec::new();
        let open = |effect: &Effect, verdict: Statement, base: f64, up_is_bad: bool| {
            if verdict == Statement::Insufficient {
                return true;
            }
            // Without a size to ask about, the statement itself decides.
            if min_effect_pct <= 0.0 {
                return verdict == Statement::Inconclusive;
            }
            let worst = effect.interval.map_or(
                f64::INFINITY,
                |[low, high]| if up_is_bad { high } else { -low },
            );
            worst > min_effect_pct / 100.0 * base
        };
        let bound = |effect: &Effect, base: f64| {
            let [low, high] = effect.interval.unwrap_or([0.0, 0.0]);
            let nearest = if low > 0.0 {
                low
            } else if high < 0.0 {
                -high
            } else {
                0.0
            };
            if base > 0.0 {
                nearest / base * 100.0
            } else {
                f64::INFINITY
            }
        };
        for time in &self.cycle_time {
            cases.push(Case {
                name: match time.cycle_type.contains('/') {
                    true => time.kind(),
                    false => format!("cycle {}", time.cycle_type).trim().to_owned(),
                },
                change: time.change,
                declared: time.verdict == Statement::Changed,
                decisive: true,
                open: open(&time.effect, time.verdict, time.effect.baseline, true),
                bound_pct: bound(&time.effect, time.effect.baseline),
                text: change(&time.effect, "us"),
            });
        }
        for time in &self.cycle_time {
            let Some(tail) = &time.tail else { continue };
            let [low, high] = tail.change_us.1;
            cases.push(Case {
                name: format!("p{:.0} {}", tail.quantile * 100.0, time.cycle_type)
                    .trim()
                    .to_owned(),
                change: if tail.longer {
                    Change::Slower
                } else {
                    Change::Faster
                },
                declared: true,
                decisive: false,
                open: false,
                bound_pct: low.abs().min(high.abs()) / tail.values_us[0] * 100.0,
                text: tail.said(),
            });
        }
        for time in &self.cycle_time {
            let Some(pauses) = time.pauses.as_ref().filter(|pauses| pauses.established) else {
                continue;
            };
            let more = usize::from(pauses.more_in_candidate);
            let part = pauses.pauses[more] as f64 / pauses.of[more].max(1) as f64;
            let cost = part * pauses.excess_us[more].unwrap_or(0.0);
            cases.push(Case {
                name: format!("pauses {}", time.cycle_type).trim().to_owned(),
                change: if pauses.more_in_candidate {
                    Change::Slower
                } else {
                    Change::Faster
                },
                declared: true,
                decisive: false,
                open: false,
                bound_pct: cost / time.median_us[0] * 100.0,
                text: pauses.said(),
            });
        }
        for time in &self.cycle_time {
            let Some(growth) = &time.growth else { continue };
            cases.push(Case {
                name: format!("growth {}", time.cycle_type).trim().to_owned(),
                change: Change::Slower,
                declared: true,
                decisive: false,
                open: false,
                bound_pct: (time.mean_us[1] / growth.baseline_us - 1.0) * 100.0,
                text: growth.said(),
            });
        }
        // More long cycles are longer cycles, whatever each mode by itself does.
        let modes = self
            .mix
            .as_ref()
            .filter(|mix| mix.established && mix.limit_us.is_some());
        if let Some(mix) = modes {
            cases.push(Case {
                name: "long cycles".to_owned(),
                change: match mix.effect_pct > 0.0 {
                    true => Change::Slower,
                    false => Change::Faster,
                },
                declared: true,
                decisive: false,
                open: false,
                bound_pct: mix.effect_pct.abs(),
                text: mix.said(),
            });
        }
        let names = names(self);
        for finding in &self.findings {
            let metric = finding.class == "metric";
            let better = match metric {
                true => better(&finding.name, &finding.unit),
                false => Better::Less,
            };
            // A saved recording has the cycle among its metrics: it decides, and functions count relative to it.
            let whole = self.findings.iter().find(|f| {
                f.kind == "metric" && f.name == "cycle" && f.cycle_type == finding.cycle_type
            });
            // What cannot become worse leaves no gate open; a tail is there because it is established.
            let decisive = finding.kind == "metric"
                && better != Better::Neither
                && whole.is_none_or(|whole| whole.id == finding.id);
            let base = match whole {
                Some(whole) => whole.effect.baseline,
                None if metric => finding.effect.baseline.abs(),
                None => cycle,
            };
            let up_is_bad = better != Better::More;
            cases.push(Case {
                name: name(finding, &names),
                change: finding.change,
                declared: finding.verdict == Statement::Changed && !finding.no_effect_on_cycle,
                decisive,
                open: open(&finding.effect, finding.verdict, base, up_is_bad),
                bound_pct: bound(&finding.effect, base),
                text: change(&finding.effect, &finding.unit),
            });
        }
        cases
    }

    /// The gate as JUnit XML: one test case per cycle type, metric and declared function.
    #[must_use]
    pub fn to_junit(&self, fail_on: FailOn, min_effect_pct: f64) -> String {
        let escape = |text: &str| {
            let clean: String = text.chars().filter(|c| !c.is_control()).collect();
            clean
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
                .replace('"', "&quot;")
        };
        let mut body = String::new();
        let (mut tests, mut failures, mut skipped) = (0, 0, 0);
        if self.comparability.status == Status::NotComparable && !self.comparability.forced {
            tests += 1;
            failures += 1;
            let reasons: Vec<&str> = self
                .comparability
                .reasons
                .iter()
                .map(|r| r.text.as_str())
                .collect();
            let _ = writeln!(
                body,
                "  <testcase classname=\"perf-compare\" name=\"comparability\"><failure message=\"not comparable\">{}</failure></testcase>",
                escape(&reasons.join("; "))
            );
        }
        for case in self
            .cases(min_effect_pct)
            .iter()
            .filter(|case| case.decisive || case.declared)
        {
            tests += 1;
            let bad = match fail_on {
                FailOn::Regressed => matches!(case.change, Change::Slower | Change::New),
                FailOn::Changed => case.change != Change::None,
            };
            let inner = if case.declared && bad && case.bound_pct >= min_effect_pct {
                failures += 1;
                format!(
                    "<failure message=\"changed by at least {:.2} %\">cause: {}; difference {}</failure>",
                    case.bound_pct,
                    escape(&self.verdict.cause),
                    escape(&case.text)
                )
            } else if case.decisive && case.open {
                skipped += 1;
                "<skipped message=\"cannot be told from this many cycles\"/>".to_owned()
            } else {
                String::new()
            };
            let _ = writeln!(
                body,
                "  <testcase classname=\"perf-compare\" name=\"{}\">{inner}</testcase>",
                escape(&case.name)
            );
        }
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"perf-compare\" tests=\"{tests}\" failures=\"{failures}\" skipped=\"{skipped}\">\n{body}</testsuite>\n"
        )
    }
}

/// Something a gate looks at.
struct Case {
    name: String,
    change: Change,
    declared: bool,
    /// Whether an open question here leaves the gate open.
    decisive: bool,
    open: bool,
    bound_pct: f64,
    text: String,
}
