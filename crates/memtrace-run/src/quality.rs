//! Quality gate of a trace: checks that it contains what the analysis needs.

use memtrace_labeller::{Name, Names, RowStream};
use serde::Serialize;

use crate::error::Result;

/// Column with the share of rows that are loads or stores, and not first touches of a page.
pub const ACCESSES: &str = "loads_and_stores";

/// Verdict of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Verdict {
    /// Sufficient.
    Pass,
    /// Barely sufficient.
    Warn,
    /// Insufficient.
    Fail,
}

/// Collector of the trace; it decides the required contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QualityProfile {
    /// Samples of loads and stores.
    PerfMem,
    /// The same, labelled.
    PerfMemLabelled,
    /// Allocations: no requirements.
    Memray,
    /// First touches of pages, which cannot answer the analysis's questions.
    PageFaults,
    /// Any other collector.
    Other,
}

impl QualityProfile {
    /// Returns column, share to pass, share to warn.
    const fn limits(self) -> &'static [(&'static str, f64, f64)] {
        match self {
            Self::PerfMem => &[
                ("access_latency_ns", 0.95, 0.50),
                ("cache_level", 0.85, 0.50),
            ],
            Self::PerfMemLabelled => &[
                ("access_latency_ns", 0.95, 0.50),
                ("cache_level", 0.85, 0.50),
                ("region_classified", 0.05, 0.001),
            ],
            Self::Memray => &[],
            Self::PageFaults => &[(ACCESSES, 0.50, 0.10)],
            Self::Other => &[
                ("access_latency_ns", 0.50, 0.10),
                ("cache_level", 0.50, 0.10),
            ],
        }
    }
}

/// Share of the rows with a value, by column.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Quality {
    /// Number of rows.
    pub rows: u64,
    /// Overall verdict: the worst of all columns.
    pub verdict: Verdict,
    /// Column, share, verdict.
    pub columns: Vec<(&'static str, f64, Verdict)>,
    /// Share of rows with a symbol.
    pub symbol_share: f64,
}

/// Judges a trace.
///
/// # Errors
///
/// Returns an error if it cannot be read.
pub fn judge(mut stream: RowStream, profile: QualityProfile) -> Result<Quality> {
    let mut names = Names::new();
    let mut rows = Vec::new();
    let (mut all, mut latency, mut level, mut classified, mut symbols) = (0_u64, 0, 0, 0, 0);
    let mut touches = 0;
    while stream.next_batch(&mut names, &mut rows)? {
        for row in rows.drain(..) {
            all += 1;
            touches += u64::from(row.is_page_fault());
            latency += u64::from(row.access_latency_ns.is_some());
            level += u64::from(!row.cache_level.is_null());
            classified += u64::from(row.region_type != Name::UNKNOWN && !row.region_type.is_null());
            symbols += u64::from(!names.text(row.symbol).is_empty());
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a share is a real")]
    let share = |count: u64| {
        if all == 0 {
            0.0
        } else {
            count as f64 / all as f64
        }
    };
    // An empty trace has no page faults.
    let is_vacuous = all == 0 && profile == QualityProfile::PageFaults;
    let limits = if is_vacuous { &[] } else { profile.limits() };
    let columns: Vec<(&'static str, f64, Verdict)> = limits
        .iter()
        .map(|(column, pass, warn)| {
            let found = share(match *column {
                "access_latency_ns" => latency,
                "cache_level" => level,
                ACCESSES => all - touches,
                _ => classified,
            });
            let verdict = if found < *warn {
                Verdict::Fail
            } else if found < *pass {
                Verdict::Warn
            } else {
                Verdict::Pass
            };
            (*column, found, verdict)
        })
        .collect();
    let worst = columns
        .iter()
        .map(|(_, _, verdict)| *verdict)
        .max()
        .unwrap_or(Verdict::Pass);
    Ok(Quality {
        rows: all,
        verdict: if all == 0 && !is_vacuous {
            Verdict::Fail
        } else {
            worst
        },
        columns,
        symbol_share: share(symbols),
    })
}
