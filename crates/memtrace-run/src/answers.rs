//! Answers of an analysis, one sentence per region type.

use serde::Serialize;

use memtrace_analyser::{Analysis, Bounds, Rate, Semantics, TypeMetrics, Verdict};
use memtrace_labeller::Records;

/// The answer for one region type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Answer {
    /// The type.
    pub region_type: String,
    /// `high`, `medium`, or `none` if nothing can be concluded.
    pub confidence: &'static str,
    /// The result in one sentence, and what to record if the data is insufficient.
    pub sentence: String,
    /// The end of the sentence that says what to record; it is often the same for several types.
    pub advice: Option<String>,
    /// Bytes accessed per token, 64 per access; `None` if the rows lack the token or the sampling
    /// period.
    pub bytes_per_token: Option<u64>,
}

/// Returns the answers for all types in byte order; empty in the reference's semantics.
///
/// ```
/// use memtrace_analyser::{AnalysisOptions, compute_all};
/// use memtrace_labeller::Names;
/// let nothing = compute_all(&[], &Names::new(), AnalysisOptions::default())?;
/// assert!(memtrace_run::answers(&nothing).is_empty());
/// # Ok::<(), memtrace_analyser::Error>(())
/// ```
#[must_use]
pub fn answers(analysis: &Analysis) -> Vec<Answer> {
    if analysis.semantics == Semantics::Mrm {
        return Vec::new();
    }
    let types = analysis.types.iter().filter(|kind| kind.n_regions > 0);
    types
        .filter_map(|kind| Some((kind, kind.verdict.as_ref()?)))
        .map(|(kind, verdict)| Answer {
            region_type: kind.region_type.clone(),
            confidence: verdict.confidence,
            sentence: sentence(analysis, kind, verdict),
            advice: match analysis.records {
                Records::Allocations => None,
                _ => advice(verdict, kind)
                    .map(|(_, record)| record)
                    .filter(|record| !record.is_empty()),
            },
            bytes_per_token: bytes_per_token(analysis, kind, verdict),
        })
        .collect()
}

fn sentence(analysis: &Analysis, kind: &TypeMetrics, verdict: &Verdict) -> String {
    let reason = match kind.has_accesses() {
        true => verdict.reason,
        false if analysis.records == Records::Accesses => {
            "only first touches were recorded, no loads or stores"
        }
        false => verdict.reason,
    };
    let mut parts = vec![format!(
        "{}: {}",
        kind.region_type,
        match verdict.class {
            "cannot_say" | "too_few_samples" | "unknown" => format!("cannot say ({reason})"),
            class => class.to_owned(),
        }
    )];
    let size = bytes(kind.distinct_pages * 4096);
    parts.push(match (analysis.records, verdict.rate) {
        (Records::Allocations, _) => format!("{size} allocated"),
        (Records::Accesses, Rate::Complete) => format!("{size} touched"),
        (Records::Accesses, _) => format!("at least {size} touched"),
        _ => format!("{size} found accessed"),
    });
    if analysis.records == Records::Allocations {
        parts.extend(allocations(analysis, kind));
        return parts.join(", ");
    }
    let seen = verdict.retention_p50_s;
    if kind.has_accesses() && !analysis.made_up_clock && (seen.low > 0.0 || seen.high.is_some()) {
        parts.push(lives(verdict));
    }
    if verdict.never_stored && !analysis.made_up_clock {
        parts.push("not stored to during the recording".to_owned());
    }
    if let Some(once) = verdict
        .write_once
        .filter(|once| once.low > 0.0 || once.high < Some(0.99))
    {
        parts.push(format!("{} of written addresses written once", share(once)));
    }
    if kind.stores > 0 && verdict.rate == Rate::Complete {
        #[expect(clippy::cast_precision_loss, reason = "a mean is a real")]
        let reads = kind.weighted_loads as f64 / kind.weighted_stores as f64;
        parts.push(format!("{} reads per write", number(reads)));
    }
    // Without a recorded store the age of the data read is unknown.
    if !analysis.made_up_clock
        && kind.stores > 0
        && let Some([_, _, age]) = verdict.read_age_ns
        && (age.low > 0.0 || age.high.is_some())
    {
        // A lower bound of the quantile only shows that some reads find older data.
        parts.push(match age.high {
            Some(high) if verdict.ages_go_on => format!(
                "99 % of reads find data <= {} old until the recording ends, later ones older data",
                seconds(high / 1e9)
            ),
            Some(high) => format!("99 % of reads find data <= {} old", seconds(high / 1e9)),
            None => format!(
                "at least 1 % of reads find data >= {} old",
                seconds(age.low / 1e9)
            ),
        });
    }
    if let Some(unchanged) = verdict
        .unchanged
        .filter(|of| of.share_low > 0.0)
        // Of a complete recording the ratio says it, unless data was rewritten earlier.
        .filter(|of| {
            verdict.rate != Rate::Complete
                || verdict
                    .write_once
                    .is_some_and(|once| once.low < of.share_low / 2.0)
        })
        .filter(|_| !analysis.made_up_clock)
    {
        let last = std::time::Duration::from_nanos(unchanged.last_ns).as_secs_f64();
        parts.push(format!(
            "{}{} % of the addresses in use not stored to in the last {}",
            if verdict.rate == Rate::Complete {
                ""
            } else {
                "at least "
            },
            number((unchanged.share_low * 100.0).floor()),
            seconds(last)
        ));
    }
    if let Some(each) = bytes_per_token(analysis, kind, verdict) {
        parts.push(format!("about {} accessed for each token", bytes(each)));
    }
    if let Some((known, record)) = advice(verdict, kind) {
        parts.push(known + &record);
    }
    parts.join(", ")
}

/// Describes the lifetimes of allocations.
fn allocations(analysis: &Analysis, kind: &TypeMetrics) -> Option<String> {
    let values = kind.values.filter(|values| values.n_values > 0)?;
    let [p50, _, p99, _] = values.retention_ns?;
    let kept = values.n_values - values.n_read;
    // Allocations that were not released count until the end of the recording.
    let is_bound =
        |share: u64| kept > 0 && kept.saturating_mul(100) >= values.n_values.saturating_mul(share);
    let span = |ns: f64, is_bound: bool| {
        let floor = std::time::Duration::from_nanos(analysis.resolution_ns).as_secs_f64();
        match is_bound {
            _ if ns / 1e9 < floor => format!("< {}", seconds(floor)),
            true => format!(">= {}", seconds(ns / 1e9)),
            false => seconds(ns / 1e9),
        }
    };
    let mut text = format!(
        "{} allocations live {} (median), {} (99 %)",
        values.n_values,
        span(p50, is_bound(50)),
        span(p99, is_bound(1))
    );
    if kept > 0 {
        text.push_str(&format!("; {kept} not released by the end"));
    }
    Some(text)
}

/// Returns the bytes of a type accessed per token, 64 per access, if the rows have the token and
/// the sampling period.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a mean of counts, as a whole number of bytes"
)]
fn bytes_per_token(analysis: &Analysis, kind: &TypeMetrics, verdict: &Verdict) -> Option<u64> {
    if verdict.rate == Rate::Unknown || analysis.records != Records::Accesses {
        return None;
    }
    // Loads and stores may have different sampling periods.
    let period = |weighted: u64, rows: u64| weighted as f64 / rows.max(1) as f64;
    let load = period(kind.weighted_loads, kind.loads);
    let store = period(kind.weighted_stores, kind.stores);
    let name = |at: usize| analysis.types.get(at).map(|kind| &kind.region_type);
    let tokens: std::collections::BTreeSet<u32> =
        analysis.tokens.iter().map(|row| row.token_index).collect();
    let own = analysis.tokens.iter();
    let own = own.filter(|row| name(row.type_index) == Some(&kind.region_type));
    let accesses: f64 = own
        .map(|row| row.loads as f64 * load + row.stores as f64 * store)
        .sum();
    if accesses <= 0.0 {
        return None;
    }
    Some((accesses * 64.0 / tokens.len() as f64) as u64)
}

/// Describes the lifetimes of regions.
fn lives(verdict: &Verdict) -> String {
    let p50 = verdict.retention_p50_s;
    // A store before the first load may not have been sampled.
    let begun_before = match verdict.rate {
        Rate::Complete => verdict.begun_before,
        _ => 0,
    };
    let mut text = format!("in use for {} (median over regions", span(p50));
    let cut = verdict.cut_by_end;
    if cut > 0 && verdict.rate == Rate::Complete {
        text.push_str(&format!("; {cut} still in use at the end"));
    } else if cut > 0 {
        // A region that was not sampled again may or may not have been used again.
        text.push_str(&format!(
            "; for {cut} it cannot be decided whether they were still in use at the end"
        ));
    }
    if begun_before > 0 {
        text.push_str(&format!("; {begun_before} stored before the recording"));
    }
    text.push(')');
    text
}

/// Recommends what to record to get an answer.
fn advice(verdict: &Verdict, kind: &TypeMetrics) -> Option<(String, String)> {
    if !matches!(verdict.class, "cannot_say" | "too_few_samples") || !kind.has_accesses() {
        return None;
    }
    let allowed = match verdict.at_least == verdict.at_most {
        true => String::new(),
        false => format!("{} to {} is possible; ", verdict.at_least, verdict.at_most),
    };
    let seen = format!(
        "{allowed}{:.0} % of accesses go to addresses seen; ",
        verdict.coverage * 100.0
    );
    let (known, record) = match verdict.rate {
        Rate::Unknown => (
            seen,
            "record the period (perf script -F +period) or give --period N (1 if every access was recorded)".to_owned(),
        ),
        Rate::Sampled(_) if verdict.reason.starts_with("every Nth") => {
            (
                seen,
                "let the period vary: perf mem record -F 4000 instead of -c, or memtrace run without --period".to_owned(),
            )
        }
        Rate::Sampled(_) if verdict.reason.starts_with("samples at a steady rate") => {
            (seen, "record every access of a few words (-c 1 with mem:ADDR, see memtrace --help)".to_owned())
        }
        // Ten times as many are all, or nearly.
        Rate::Sampled(p) if p > 1.0 / 15.0 => {
            (seen, "record every access (-c 1) or less of the program".to_owned())
        }
        Rate::Sampled(_) => (
            seen,
            "sample 10x denser (perf mem record -F with 10 times the frequency) or record less of the program".to_owned(),
        ),
        Rate::Complete if verdict.reason.contains("instructions") => (
            String::new(),
            "record with a clock (perf mem) for times".to_owned(),
        ),
        Rate::Complete if verdict.cut_by_end > 0 => (allowed, "record for longer".to_owned()),
        Rate::Complete if verdict.begun_before > 0 || verdict.write_once.is_none() => {
            (allowed, "record from before the data is stored".to_owned())
        }
        Rate::Complete => (allowed.trim_end_matches("; ").to_owned(), String::new()),
    };
    Some((known, record)).filter(|(known, record)| !known.is_empty() || !record.is_empty())
}

fn span(bounds: Bounds) -> String {
    match bounds.high {
        // To the digits that are shown, both are the same number.
        Some(high) if bounds.is_exact() || seconds(high) == seconds(bounds.low) => {
            seconds(bounds.low)
        }
        Some(high) => format!("{} to {}", seconds(bounds.low), seconds(high)),
        None => format!(">= {}", seconds(bounds.low)),
    }
}

fn share(once: Bounds) -> String {
    let percent = |share: f64| format!("{} %", number(share * 100.0));
    match once.high {
        Some(high) if once.is_exact() || percent(high) == percent(once.low) => percent(once.low),
        Some(high) => format!("{} to {}", percent(once.low), percent(high)),
        None => format!(">= {}", percent(once.low)),
    }
}

/// Formats a time with its unit and four digits.
fn seconds(value: f64) -> String {
    let (scale, unit) = match value {
        value if value >= 1.0 || value <= 0.0 => (1.0, "s"),
        value if value >= 1e-3 => (1e3, "ms"),
        value if value >= 1e-6 => (1e6, "us"),
        _ => (1e9, "ns"),
    };
    format!("{} {unit}", number(value * scale))
}

/// Formats a number with four digits.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 1000.0 || value <= 0.0 => 0,
        value if value >= 100.0 => 1,
        value if value >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// Formats a size with its binary unit.
pub(crate) fn bytes(value: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a size with a unit is a real")]
    let mut scaled = value as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
    let mut unit = units.next().unwrap_or("B");
    for larger in units {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = larger;
    }
    format!("{} {unit}", number(scaled))
}
