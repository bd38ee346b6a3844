//! How to analyse.

use std::path::PathBuf;

use memtrace_labeller::Records;

/// Whether definitions are the tool's own or those of the reference.
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

impl SuitabilityLimits {
    /// Sets a limit by its name, from `NAME=NUMBER`.
    ///
    /// # Errors
    ///
    /// What is wrong with the argument.
    ///
    /// ```
    /// let mut limits = memtrace_analyser::SuitabilityLimits::default();
    /// limits.set("high_retention_s=60")?;
    /// assert_eq!(limits.high_retention_s, 60.0);
    /// assert!(limits.set("high=60").is_err());
    /// # Ok::<(), String>(())
    /// ```
    pub fn set(&mut self, argument: &str) -> Result<(), String> {
        let (name, value) = argument
            .split_once('=')
            .and_then(|(name, value)| Some((name, value.parse::<f64>().ok()?)))
            .filter(|(_, value)| *value >= 0.0)
            .ok_or_else(|| format!("'{argument}' is not NAME=NUMBER with a number from 0"))?;
        let place = match name {
            "high_write_once" => &mut self.high_write_once,
            "high_retention_s" => &mut self.high_retention_s,
            "medium_write_once" => &mut self.medium_write_once,
            "medium_retention_s" => &mut self.medium_retention_s,
            _ => {
                return Err(format!(
                    "'{name}' is none of high_write_once, high_retention_s, medium_write_once, medium_retention_s"
                ));
            }
        };
        *place = value;
        Ok(())
    }
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
    /// Whether definitions are the tool's own or those of the reference.
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
    /// Step of the capture's clock: what lived shorter is counted as such. 0 when times are exact.
    pub resolution_ns: u64,
    /// `true` if times are no times of day or of a run: Lackey counts instructions. Nothing is concluded from them in seconds then.
    pub made_up_clock: bool,
    /// What the rows are: of allocations nothing is said about reads, and of regions that a monitor found nothing about loads and
    /// stores. Our semantics only.
    pub records: Records,
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
            resolution_ns: 0,
            made_up_clock: false,
            records: Records::Accesses,
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
