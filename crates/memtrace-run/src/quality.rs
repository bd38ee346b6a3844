//! The quality gate of a trace: how much of it says what the analysis needs.

use memtrace_labeller::{Name, Names, RowStream};
use serde::Serialize;

use crate::error::Result;

/// The share of rows that are loads or stores, and not first touches of a page.
pub const ACCESSES: &str = "loads_and_stores";

/// Verdict of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Verdict {
    /// Enough.
    Pass,
    /// Little.
    Warn,
    /// Too little.
    Fail,
}

/// What the trace was collected with: decides what it must say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QualityProfile {
    /// Samples of loads and stores.
    PerfMem,
    /// The same, labelled.
    PerfMemLabelled,
    /// Allocations: nothing is asked.
    Memray,
    /// First touches of pages, which cannot answer what the analysis asks.
    PageFaults,
    /// Anything else.
    Other,
}

impl QualityProfile {
    /// Column, share to pass, share to warn.
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

/// Share of the rows that say something, by column.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Quality {
    /// Rows.
    pub rows: u64,
    /// Verdict of all columns together: the worst.
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
/// When it cannot be read.
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
