//! What can be concluded about a type, and how sure that is.

use memtrace_labeller::Records;

use crate::evidence::Rate;
use crate::late::Unchanged;
use crate::options::{AnalysisOptions, Semantics, SuitabilityLimits};
use crate::quantile::real;
use crate::result::TypeMetrics;

/// A figure that lies between two bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Bounds {
    /// At least this.
    pub low: f64,
    /// At most this; `None` where the recording sets no limit.
    pub high: Option<f64>,
}

impl Bounds {
    pub(crate) const fn new(low: f64, high: Option<f64>) -> Self {
        Self { low, high }
    }

    /// Both bounds are the same number.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.high.is_some_and(|high| high <= self.low)
    }

    /// The figure, where its bounds are less than a factor of two apart.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        let high = self.high.filter(|high| *high <= self.low * 2.0)?;
        Some((self.low * high).sqrt())
    }
}

/// What can be concluded about a type.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// The class if the evidence allows only one: `high_mrm`, `medium_mrm`, `low_mrm`; else `cannot_say`, `too_few_samples`, or
    /// `unknown` for rows that nothing classified.
    pub class: &'static str,
    /// The lowest class that the evidence allows.
    pub at_least: &'static str,
    /// The highest class that the evidence allows.
    pub at_most: &'static str,
    /// Why there is no class; empty if there is one.
    pub reason: &'static str,
    /// `high`: everything was recorded and no life is cut off; `medium`: bounds agree on a class; `none`: no class.
    pub confidence: &'static str,
    /// How accesses were sampled.
    pub rate: Rate,
    /// Share of the accesses that go to addresses that were seen (Good and Turing).
    pub coverage: f64,
    /// Share of the written addresses that are written once; `None` where nothing was stored.
    pub write_once: Option<Bounds>,
    /// Median over regions of the time from the first store to the last load, seconds.
    pub retention_p50_s: Bounds,
    /// 99th percentile of the same.
    pub retention_p99_s: Bounds,
    /// Regions that were probably still in use when the recording ended: their lives are at least as long as was seen.
    pub cut_by_end: u64,
    /// Regions that were loaded before any store to them; 0 unless every access was recorded, since others may have been stored to
    /// between samples.
    pub begun_before: u64,
    /// Regions of which only a part of the life is known: those of `cut_by_end` and `begun_before`, and those that are stored to over
    /// and over and may have been before.
    pub partly: u64,
    /// Age of data when it is read, ns: 50, 90, 99 %. `None` where no load's store was recorded.
    pub read_age_ns: Option<[Bounds; 3]>,
    /// `true` if data is read that is so old that the length of the recording limits its age: later reads find older data.
    pub ages_go_on: bool,
    /// What stays as it is while it is loaded; `None` where nothing can be said.
    pub unchanged: Option<Unchanged>,
    /// `true` if every access was recorded, and none was a store to this type: what is read stays as it is.
    pub never_stored: bool,
    /// Pairs of a load and an earlier store that bounds of ages come from; 0 where every access is there.
    pub pairs: u64,
}

/// What a verdict is made from, beside the figures of the type.
pub(crate) struct Grounds {
    pub(crate) rate: Rate,
    pub(crate) coverage: f64,
    pub(crate) write_once: Option<Bounds>,
    pub(crate) retention_s: [Bounds; 2],
    pub(crate) cut_by_end: u64,
    pub(crate) begun_before: u64,
    pub(crate) partly: u64,
    pub(crate) never_stored: bool,
    pub(crate) unchanged: Option<Unchanged>,
    /// `true` if samples show that some of the type was stored to again.
    pub(crate) shows_rewriting: bool,
    /// Time from the first recorded store, or the first row where there is none, to the end.
    pub(crate) data_since_ns: u64,
    pub(crate) read_age_ns: Option<[Bounds; 3]>,
    pub(crate) pairs: u64,
    /// Samples are spaced evenly, and by a period that does not vary.
    pub(crate) is_even: bool,
    pub(crate) is_in_step: bool,
}

/// Share of the time since the first store above which ages are limited by it: of data that is never stored again, a quarter of the
/// reads find it younger.
const LIMITED: f64 = 0.25;

/// Why pairs of samples show nothing.
const EVENLY: &str =
    "every Nth access was recorded: in a program that repeats itself these are no random samples";
/// The same of samples that are as far apart in time as they are by the number of accesses not.
const STEADILY: &str = "samples at a steady rate do not show what is stored to again soon";

pub(crate) fn class_of(
    limits: &SuitabilityLimits,
    ratio: f64,
    p50_s: f64,
    p99_s: f64,
) -> &'static str {
    if ratio >= limits.high_write_once && p99_s >= limits.high_retention_s {
        "high_mrm"
    } else if ratio >= limits.medium_write_once && p50_s >= limits.medium_retention_s {
        "medium_mrm"
    } else {
        "low_mrm"
    }
}

pub(crate) fn verdict(
    metrics: &TypeMetrics,
    grounds: Grounds,
    options: &AnalysisOptions,
) -> Verdict {
    let [p50, p99] = grounds.retention_s;
    let limits = &options.limits;
    // Without a store nothing is known about rewriting, unless every store would have been recorded.
    let least = if grounds.never_stored { 1.0 } else { 0.0 };
    let mut once = grounds.write_once.unwrap_or(Bounds::new(least, Some(1.0)));
    // What is in use and stays as it is for long enough has the class of what is written once, where a sampled recording cannot tell how
    // often it was stored to before. A complete one knows the ratio, and samples may show that it was stored to again.
    let is_long = |unchanged: &Unchanged| real(unchanged.last_ns) / 1e9 >= limits.high_retention_s;
    let may_be_once = matches!(grounds.rate, Rate::Sampled(_)) && !grounds.shows_rewriting;
    if let Some(unchanged) = grounds.unchanged.filter(|of| may_be_once && is_long(of)) {
        let most = once.high.unwrap_or(1.0);
        once.low = once.low.max(unchanged.share_low.min(most));
    }
    // What is stored once and then read finds data as old as the recording is long, and later reads older data.
    let ages_go_on = grounds.read_age_ns.is_some_and(|[_, _, age]| {
        let oldest = age.high.unwrap_or(age.low);
        grounds.cut_by_end > 0 && oldest > real(grounds.data_since_ns) * LIMITED
    });
    let most = |bounds: Bounds| bounds.high.unwrap_or(f64::INFINITY);
    let at_least = class_of(limits, once.low, p50.low, p99.low);
    let at_most = class_of(limits, most(once), most(p50), most(p99));
    let (class, reason) = if options.semantics == Semantics::Mrm {
        (at_least, "")
    } else if metrics.region_type == "unknown" {
        ("unknown", "nothing says what this memory holds")
    } else if options.records == Records::Allocations {
        (
            "cannot_say",
            "allocations were recorded, no loads or stores",
        )
    } else if options.records == Records::Regions {
        (
            "cannot_say",
            "regions that were found accessed were recorded, no loads or stores",
        )
    } else if !metrics.has_accesses() {
        ("cannot_say", "only first touches were recorded")
    } else if metrics.samples < options.min_samples {
        ("too_few_samples", "too few samples")
    } else if options.made_up_clock {
        (
            "cannot_say",
            "the clock of the recording counts instructions, not time",
        )
    } else if at_least == at_most {
        (at_least, "")
    } else {
        ("cannot_say", why(&grounds, &once))
    };
    let complete = grounds.rate == Rate::Complete && grounds.partly == 0;
    Verdict {
        class,
        at_least,
        at_most,
        reason,
        confidence: match class {
            "high_mrm" | "medium_mrm" | "low_mrm" if complete => "high",
            "high_mrm" | "medium_mrm" | "low_mrm" => "medium",
            _ => "none",
        },
        rate: grounds.rate,
        coverage: grounds.coverage,
        write_once: grounds.write_once,
        retention_p50_s: p50,
        retention_p99_s: p99,
        cut_by_end: grounds.cut_by_end,
        begun_before: grounds.begun_before,
        partly: grounds.partly,
        read_age_ns: grounds.read_age_ns,
        ages_go_on,
        unchanged: grounds.unchanged,
        never_stored: grounds.never_stored,
        pairs: grounds.pairs,
    }
}

/// What is missing for a class.
fn why(grounds: &Grounds, once: &Bounds) -> &'static str {
    match grounds.rate {
        Rate::Unknown => "the recording does not state its sampling period",
        _ if grounds.write_once.is_none() && !grounds.never_stored => "no store was recorded",
        _ if grounds.is_in_step => EVENLY,
        // Some of it is not stored to: more samples show more of that.
        Rate::Sampled(_)
            if grounds.is_even && grounds.unchanged.is_none_or(|of| of.share_low <= 0.0) =>
        {
            STEADILY
        }
        Rate::Sampled(_) if !once.is_exact() && once.low < 0.8 => {
            "too few samples of each address to tell rewriting"
        }
        _ if grounds.cut_by_end > 0 => "lives are cut off by the end of the recording",
        _ if grounds.begun_before > 0 => "data was stored before the recording began",
        _ if grounds.partly > 0 => "data may have been stored before the recording began",
        _ => "too few samples of each region",
    }
}
