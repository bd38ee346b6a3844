//! Two sides of tables of cycles or samples: the answer of `perf-compare` as a document.

use perf_compare::document::{Change, CycleTime, Statement};
use perf_compare::{Options, Report, Side as Table};

use crate::Catalogue;
use crate::document::{
    Answer, Appendix, Comparison, DifferencePart, Document, Interval, Next, Note, SCHEMA_VERSION,
    Scope, Shape,
};
use crate::explain::Request;
use crate::numbers::whole_ns;
use crate::words;

/// Maximum number of parts of the difference.
const PARTS: usize = 40;

/// Answers what differs between two sides of tables. There is no recording, so that no step is taken apart and no finding replayed.
pub fn explain_tables(baseline: &Table, candidate: &Table, request: &Request) -> Document {
    let report = perf_compare::compare(baseline, candidate, &Options::default());
    let changed = report
        .cycle_time
        .iter()
        .find(|time| time.verdict == Statement::Changed);
    let main = changed.or_else(|| report.cycle_time.first());
    let mut document = Document {
        schema_version: SCHEMA_VERSION,
        scope: Scope {
            files: request.files.clone(),
            ..Scope::default()
        },
        answer: Answer {
            shape: shape(&report, main),
            sentence: sentence(&report),
            phase: main.map(|time| time.cycle_type.clone()),
            step_time_ns: main.map(|time| {
                let [_, candidate] = time.median_us;
                let ns = whole_ns(candidate * 1e3);
                Interval {
                    median: ns,
                    low: ns,
                    high: ns,
                }
            }),
            cause: Some(report.verdict.cause.clone())
                .filter(|cause| !matches!(cause.as_str(), "none" | "unknown")),
            ..Answer::default()
        },
        comparison: main.map(|time| comparison(&report, time)),
        appendix: Appendix {
            version: request.version.clone(),
            command: request.command.clone(),
            rules: Vec::new(),
            confidence: Catalogue::builtin().confidence(),
        },
        ..Document::default()
    };
    let cycles = baseline.cycles() + candidate.cycles();
    document.trust.files = request.files.len() as u64;
    let used = report.cycle_time.iter().flat_map(|time| time.effect.n);
    let used = used.sum::<usize>().min(cycles);
    document.trust.steps_used = used as u64;
    document.trust.steps_left_out = (cycles - used) as u64;
    let reasons = report.comparability.reasons.iter().map(|r| &r.text);
    let notes = reasons.chain(&report.notes).map(|text| Note {
        kind: "comparison".to_owned(),
        text: text.clone(),
    });
    document.trust.notes = notes.collect();
    let paths = [baseline.name(), candidate.name()].map(words::quoted);
    document.next.push(Next {
        command: format!(
            "inferscope perf-compare --baseline {} {}",
            paths[0], paths[1]
        ),
        shows: "all functions and counters with their tests".to_owned(),
    });
    document
}

/// Returns the headline. Where cycles cannot be compared and counters name a cause all the same, that comes first.
fn sentence(report: &Report) -> String {
    let verdict = &report.verdict;
    let has_cause = !matches!(verdict.cause.as_str(), "none" | "unknown");
    match report.headline.strip_prefix("Not comparable: ") {
        Some(why) if has_cause => {
            format!("{} ({}): {why}.", verdict.summary, verdict.certainty)
        }
        _ => report.headline.clone(),
    }
}

fn shape(report: &Report, main: Option<&CycleTime>) -> Shape {
    let has_changed = |found: &Change| matches!(found, Change::Slower | Change::Faster);
    match main {
        Some(time) if has_changed(&time.change) => Shape::Cause,
        _ if !matches!(report.verdict.cause.as_str(), "none" | "unknown") => Shape::Cause,
        Some(time) if time.verdict != Statement::Insufficient => Shape::Nothing,
        None if report
            .findings
            .iter()
            .any(|found| has_changed(&found.change)) =>
        {
            Shape::Cause
        }
        None if !report.findings.is_empty() => Shape::Nothing,
        _ => Shape::CannotSay,
    }
}

fn comparison(report: &Report, time: &CycleTime) -> Comparison {
    let ns = |us: f64| whole_ns(us * 1e3);
    let effect = &time.effect;
    let around = |middle: f64, ends: Option<[f64; 2]>| {
        let [low, high] = ends.unwrap_or([middle; 2]);
        Interval {
            median: ns(middle),
            low: ns(low),
            high: ns(high),
        }
    };
    let difference_ns = around(effect.delta, effect.interval);
    let own = report.findings.iter().filter(|found| {
        let is_declared = found.verdict == Statement::Changed && !found.no_effect_on_cycle;
        is_declared && found.cycle_type == time.cycle_type && found.part_of.is_none()
    });
    let parts: Vec<DifferencePart> = own
        .take(PARTS)
        .map(|found| DifferencePart {
            label: match &found.rank {
                Some(rank) => format!("{} ({rank})", words::function(&found.name)),
                None => words::function(&found.name),
            },
            class: String::new(),
            difference_ns: ns(found.effect.delta),
            low_ns: found.effect.interval.map(|ends| ns(ends[0])),
            high_ns: found.effect.interval.map(|ends| ns(ends[1])),
            q: found.q,
            finding: None,
        })
        .collect();
    let explained: i64 = parts.iter().map(|part| part.difference_ns).sum();
    Comparison {
        phase: time.cycle_type.clone(),
        baseline_ns: around(time.median_us[0], None),
        candidate_ns: around(time.median_us[1], None),
        unexplained_ns: difference_ns.median - explained,
        difference_ns,
        parts,
        p: effect.p,
        method: effect.method.clone(),
        notes: vec!["functions overlap, so that their differences may add up to more than that of the cycle".to_owned()],
    }
}
