//! Shares of phases among the steps of both sides.

use serde::Serialize;

use crate::report_text::{short, time};
use crate::stats::normal_quantile;

/// Shares of phases that changed: more or fewer steps of one phase, which comparisons phase by phase do not show. Cycles of two
/// modes, short and long ones, have shares as well.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Mix {
    /// The phase whose share changed most: `prefill`, `decode` or `mixed`; of modes `long`.
    pub phase: String,
    /// The length that divides long cycles from short ones, in microseconds, where the shares are those of modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_us: Option<f64>,
    /// Its steps on each side.
    pub steps: [usize; 2],
    /// All steps on each side.
    pub of: [usize; 2],
    /// Mean of all steps on each side, in microseconds.
    pub mean_us: [f64; 2],
    /// Change of the mean step that the shares alone explain, in percent.
    pub effect_pct: f64,
    /// Probability of shares so different by chance, with correlation of neighbouring steps.
    pub p: f64,
    /// `true` if this is less than the level of the test; otherwise the mean step differs with the shares, which may be chance,
    /// or the phase is of one side only, and its steps are compared with none.
    pub established: bool,
    /// `true` if the mean step changed so much, and mostly by the shares of its phases, that they are a possible cause even where chance
    /// may do it: by a tenth with a probability of at most 0.1, by a quarter whatever it is.
    pub large: bool,
}

impl Mix {
    /// Chance below which shares are said to differ.
    pub(crate) const CHANCE: f64 = 0.01;

    /// In words: which phase, how many steps, and the mean step.
    pub(crate) fn said(&self) -> String {
        let share = |side: usize| format!("{} of {}", self.steps[side], self.of[side]);
        let (what, unit) = match self.limit_us {
            Some(limit) => (format!("cycles longer than {}", time(limit)), "cycle"),
            None => (self.phase.clone(), "step"),
        };
        format!(
            "{what} {} -> {} {unit}s, mean {unit} {} -> {} ({:+.1} %)",
            share(0),
            share(1),
            time(self.mean_us[0]),
            time(self.mean_us[1]),
            (self.mean_us[1] / self.mean_us[0] - 1.0) * 100.0
        )
    }

    /// Why the shares may be none of the cause, where chance may do as much.
    pub(crate) fn doubt(&self) -> Option<String> {
        (!self.established).then(|| {
            format!(
                "shares of phases that differ as much occur by chance with a probability of {}: {}",
                short(self.p),
                self.advice()
            )
        })
    }

    /// How many times as many steps would tell these shares from chance. Of a side that has none of the phase, or of shares that
    /// differ by little more than nothing, no number says anything.
    pub(crate) fn advice(&self) -> String {
        /// More than so many times as many steps are no advice.
        const MOST: f64 = 50.0;
        let [needed, found] = [Self::CHANCE, self.p].map(|p| normal_quantile(1.0 - p / 2.0));
        // The distance in standard errors grows with the root of the number.
        let times = (needed / found).powi(2).ceil();
        match times > 1.0 && times <= MOST {
            true => format!("{times:.0} times as many steps would tell"),
            false => "record more steps, or the same requests on both sides".to_owned(),
        }
    }
}
