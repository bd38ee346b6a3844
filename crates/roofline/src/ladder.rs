//! The ladder of a step: lines from what physics allows to what was measured, and what each difference is.

use crate::steps::StepRow;
use crate::views::nanos;

/// One line of a ladder.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Rung {
    /// Name of the line.
    pub line: &'static str,
    /// Its time.
    pub ns: f64,
    /// The line is a lower bound: it lacks calls without numbers, or has calls whose numbers are one. A line that holds the
    /// measured time of calls without numbers is none.
    pub at_least: bool,
    /// Cause of the difference to the line before.
    pub difference: &'static str,
    /// Tokens of the step for each second of it.
    pub tokens_per_s: Option<f64>,
}

impl StepRow {
    /// The lines that are known, each with the difference to the one before.
    pub fn ladder(&self) -> Vec<Rung> {
        let needs = &self.needs;
        let is_partial = needs.unknown_time_ns > 0 || needs.bounded_time_ns > 0;
        let (last, measured) = match self.step_ns {
            Some(ns) => ("step", ns),
            None => ("span", self.span_ns()),
        };
        let lines = [
            ("model", self.model_limit_ns, is_partial, ""),
            (
                "operators",
                self.sure_ns.map(|[operators, _]| operators),
                needs.bounded_time_ns > 0 && needs.unknown_time_ns == 0,
                "intermediate results",
            ),
            (
                "floor",
                self.sure_ns.map(|[_, floor]| floor),
                needs.bounded_time_ns > 0 && needs.unknown_time_ns == 0,
                "too small kernels",
            ),
            (
                "busy",
                Some(nanos(self.busy_ns)),
                false,
                "kernels slower than their limit",
            ),
            (last, Some(nanos(measured)), false, "gaps"),
        ];
        let tokens = self.lengths.tokens().or_else(|| self.lengths.requests());
        let mut before: Option<f64> = None;
        lines
            .into_iter()
            .filter_map(|(line, ns, at_least, difference)| {
                let ns = ns?;
                let difference = match before {
                    // Streams that run at once make the union smaller than the sum.
                    Some(before) if ns < before => "work that overlaps",
                    Some(_) => difference,
                    None => "",
                };
                before = Some(ns);
                Some(Rung {
                    line,
                    ns,
                    at_least,
                    difference,
                    tokens_per_s: tokens
                        .filter(|n| *n > 0 && ns > 0.0)
                        .map(|n| crate::limit::real(n) * 1e9 / ns),
                })
            })
            .collect()
    }

    /// Share of the step's GPU time that the line `model` covers with numbers, in percent.
    pub fn known_pct(&self) -> Option<f64> {
        let known = self.needs.known_time_ns;
        gpu_time::percent(known, known.saturating_add(self.needs.unknown_time_ns))
    }
}
