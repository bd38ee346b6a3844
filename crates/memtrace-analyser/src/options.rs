//! How to analyse.

use std::path::PathBuf;

/// Whose definitions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Semantics {
    /// Ours: integers throughout, nothing is said of the unknown.
    #[default]
    Native,
    /// The reference's, value for value, mistakes included.
    Mrm,
}

impl Semantics {
    /// The name in metadata.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native-1",
            Self::Mrm => "mrm-0.1",
        }
    }
}

/// Limits that a type must reach to be suited for memory that keeps data for a while only.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SuitabilityLimits {
    /// Least mean write-once ratio of `high_mrm`.
    pub high_write_once: f64,
    /// Least 99th percentile of retention of `high_mrm`, seconds.
    pub high_retention_s: f64,
    /// Least mean write-once ratio of `medium_mrm`.
    pub medium_write_once: f64,
    /// Least median retention of `medium_mrm`, seconds.
    pub medium_retention_s: f64,
}

impl Default for SuitabilityLimits {
    fn default() -> Self {
        Self {
            high_write_once: 0.8,
            high_retention_s: 10.0,
            medium_write_once: 0.5,
            medium_retention_s: 1.0,
        }
    }
}

/// How to analyse.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AnalysisOptions {
    /// Whose definitions hold.
    pub semantics: Semantics,
    /// Bytes that the analysis may hold of the rows. Results do not depend on it.
    pub memory_bytes: u64,
    /// Where rows go that do not fit.
    pub spill_folder: PathBuf,
    /// Limits of the suitability classes.
    pub limits: SuitabilityLimits,
    /// Fewest samples of a type for a verdict, in our semantics.
    pub min_samples: u64,
    /// Windows that the run is divided into for figures over time.
    pub windows: usize,
    /// Whether quantiles of many values are taken from a sketch in fixed memory, within [`Analysis::quantile_error`].
    ///
    /// [`Analysis::quantile_error`]: crate::Analysis::quantile_error
    pub approximate: bool,
}

impl Default for AnalysisOptions {
    fn default() -> Self {
        Self {
            semantics: Semantics::Native,
            memory_bytes: 1 << 30,
            spill_folder: std::env::temp_dir(),
            limits: SuitabilityLimits::default(),
            min_samples: 10,
            windows: 64,
            approximate: false,
        }
    }
}

impl AnalysisOptions {
    /// The reference's definitions.
    #[must_use]
    pub fn mrm() -> Self {
        Self {
            semantics: Semantics::Mrm,
            ..Self::default()
        }
    }
}
