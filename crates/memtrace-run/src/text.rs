//! Analyses and tables as text of at most 80 columns.

use std::fmt::Write as _;

use memtrace_analyser::{Analysis, AnalysisTable, Semantics};
use memtrace_labeller::Records;
use report::{Cell, Kind, Table, TextOptions, TextWriter};

use crate::answers::{Answer, answers};
use crate::error::Result;
use crate::tensors::HotTensor;

/// Width of a terminal in columns, plus the blank after the last word.
const LINE: usize = 81;
/// Width of a terminal in columns.
const WIDTH: usize = 80;
/// Longer tables are meant for other programs, and keep their full width.
const NARROW_ROWS: usize = 1000;

/// Which tables follow the answers in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The classes of suitability only, in the reference's semantics all summaries.
    Answer,
    /// The summaries.
    Summaries,
    /// No answers, one table only.
    Only(AnalysisTable),
}

/// Returns an analysis as text: the answers, `extra`, facts of the recording and tables among those that it `has`, as `detail` says.
///
/// # Errors
///
/// A table that cannot be made.
pub fn analysis_text(
    analysis: &Analysis,
    detail: Detail,
    has: &[AnalysisTable],
    extra: &str,
) -> Result<String> {
    let mut out = String::new();
    let mut summaries = vec![
        AnalysisTable::Suitability,
        AnalysisTable::RetentionSummary,
        AnalysisTable::WorkingSetSummary,
        AnalysisTable::LocalitySummary,
        AnalysisTable::Iai,
        AnalysisTable::Types,
        AnalysisTable::Values,
        AnalysisTable::RefreshNeed,
        AnalysisTable::Sampling,
    ];
    let mut left_out = String::new();
    let wanted = match detail {
        Detail::Only(table) => vec![table],
        Detail::Answer | Detail::Summaries => {
            out += &sentences(&answers(analysis));
            out.push_str(extra);
            let _ = writeln!(
                out,
                "{} rows, {} regions, {} types",
                analysis.rows,
                analysis.regions.len(),
                analysis.types.len()
            );
            if analysis.processes > 1 {
                let processes = analysis.processes;
                let what = "equal addresses of two of them are different memory, and what they share counts for each";
                out += &hanging("", &format!("{processes} processes: {what}"));
            }
            let are_shared = analysis.types.iter().any(|of| of.shared_pages > 0);
            if analysis.processes == 0
                && are_shared
                && analysis.semantics == Semantics::Native
                && analysis.records == Records::Accesses
            {
                let what = "several numbers of threads or processes touch the same pages: where they are processes, their memory is taken for one; record both numbers (perf script -F +pid,+tid)";
                out += &hanging("", what);
            }
            if analysis.quantile_error > 0.0 {
                let percent = analysis.quantile_error * 100.0;
                let _ = writeln!(
                    out,
                    "quantiles of many values are within {percent:.2} percent"
                );
            }
            if analysis.made_up_clock {
                let _ = writeln!(
                    out,
                    "the recording has no clock: times count instructions, and are no seconds"
                );
            }
            if analysis.resolution_ns > 0 {
                let step = analysis.resolution_ns / 1_000_000;
                let _ = writeln!(
                    out,
                    "the clock steps by {step} ms: shorter lives are known as < {step} ms"
                );
            }
            // A metric without a summary is shown with its table.
            let summarised = |table: &AnalysisTable| {
                !matches!(table, AnalysisTable::WriteOnce | AnalysisTable::ReadFreq)
            };
            if has.len() < AnalysisTable::of(analysis).len() {
                summaries.extend(has.iter().filter(|table| !summarised(table)));
            }
            let shown = |table: &AnalysisTable| analysis.rows > 0 && has.contains(table);
            summaries.retain(shown);
            if detail == Detail::Answer && analysis.semantics == Semantics::Native {
                let is_answer = |table: &AnalysisTable| *table == AnalysisTable::Suitability;
                let (first, others): (Vec<_>, Vec<_>) = summaries.into_iter().partition(is_answer);
                let names: Vec<&str> = others.into_iter().map(AnalysisTable::name).collect();
                if !names.is_empty() {
                    let text = format!(
                        "tables left out ({}): --summaries, --table NAME, --json",
                        names.join(", ")
                    );
                    left_out = format!("\n{}", hanging("", &text));
                }
                summaries = first;
            }
            summaries
        }
    };
    for table in wanted {
        let _ = writeln!(out, "\n{}", table.name().replace('_', " "));
        out += &narrow_text(&analysis.table(table)?)?;
    }
    Ok(out + &left_out)
}

/// Returns the answers, one paragraph each. Advice that several of them share stands once below them.
fn sentences(answers: &[Answer]) -> String {
    let mut out = String::new();
    let mut shared: Vec<(&str, Vec<&str>)> = Vec::new();
    for answer in answers {
        let advice = answer.advice.as_deref();
        let same = answers
            .iter()
            .filter(|other| other.advice.as_deref() == advice);
        let is_shared = same.count() > 1;
        let (mut text, mut note) = (answer.sentence.as_str(), "");
        if let Some(advice) = advice.filter(|_| is_shared)
            && let Some(before) = text.strip_suffix(advice)
        {
            text = before.trim_end_matches([',', ';', ' ']);
            note = advice;
        }
        let confidence = answer.confidence;
        out += &hanging("", &format!("{text} [confidence {confidence}]"));
        if !note.is_empty() {
            match shared.iter_mut().find(|(advice, _)| *advice == note) {
                Some((_, types)) => types.push(&answer.region_type),
                None => shared.push((note, vec![&answer.region_type])),
            }
        }
    }
    for (advice, types) in shared {
        out += &hanging("", &format!("{}: {advice}", types.join(", ")));
    }
    out
}

/// Returns a table as text. One that is too wide is split into parts below each other, each with the columns
/// that identify a row: the first column, and text columns directly after it.
///
/// # Errors
///
/// A part that cannot be made.
pub fn narrow_text(table: &Table) -> Result<String> {
    let mut out = String::new();
    let all: Vec<usize> = (0..table.columns().len()).collect();
    let texts = table.columns().iter().skip(1);
    let texts = texts.take_while(|column| column.kind() == Kind::Text);
    let Some((keys, mut rest)) = all.split_at_checked(1 + texts.count()) else {
        return Ok(out);
    };
    if table.rows() > NARROW_ROWS || rest.is_empty() {
        return Ok(table.to_text(&TextOptions::default()));
    }
    let mut apart = false;
    while !rest.is_empty() {
        let mut text = String::new();
        let mut taken = 0;
        while taken < rest.len() {
            let mut columns = keys.to_vec();
            columns.extend(rest.iter().take(taken + 1));
            let wider = part(table, &columns)?;
            let fits = wider.lines().all(|line| line.chars().count() <= WIDTH);
            if !fits && taken > 0 {
                break;
            }
            text = wider;
            taken += 1;
        }
        if std::mem::replace(&mut apart, true) {
            out.push('\n');
        }
        out += &text;
        rest = rest.get(taken..).unwrap_or_default();
    }
    Ok(out)
}

/// Formats some columns of a table.
fn part(table: &Table, columns: &[usize]) -> Result<String> {
    let chosen = columns
        .iter()
        .filter_map(|at| table.columns().get(*at).cloned())
        .collect();
    let mut some = Table::new("part", chosen)?;
    for row in 0..table.rows() {
        let cells: Vec<Cell<'_>> = columns
            .iter()
            .filter_map(|at| table.cell(row, *at))
            .collect();
        some.push(&cells)?;
    }
    let mut text = Vec::new();
    some.write_to(&mut TextWriter::new(&mut text, TextOptions::default()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the most accessed tensors as text, one line each.
#[must_use]
pub fn tensors_text(tensors: &[HotTensor]) -> String {
    let line = |tensor: &HotTensor| {
        format!(
            "hot: {} ({}), {} samples\n",
            tensor.name, tensor.region_type, tensor.samples
        )
    };
    tensors.iter().map(line).collect()
}

/// Returns a text after a head in lines of a terminal, with continuation lines indented to its beginning.
#[must_use]
pub fn hanging(head: &str, text: &str) -> String {
    let mut out = String::new();
    let indent = head.chars().count();
    let mut line = head.to_owned();
    let mut width = indent;
    for word in text.split_whitespace() {
        let more = word.chars().count() + 1;
        if width > indent && width + more > LINE {
            let _ = writeln!(out, "{}", line.trim_end());
            line = " ".repeat(indent);
            width = indent;
        }
        line.push_str(word);
        line.push(' ');
        width += more;
    }
    let _ = writeln!(out, "{}", line.trim_end());
    out
}
