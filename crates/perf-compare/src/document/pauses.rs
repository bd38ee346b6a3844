//! Cycles that pause, and candidates that become slower within themselves.

use serde::Serialize;

use crate::report_text::{label, time};

/// Cycles far longer than the rest: beyond 8 median absolute deviations and 15 % above the median of their side.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Pauses {
    /// Number of such cycles on each side.
    pub cycles: [usize; 2],
    /// Number of pauses on each side: long cycles in a row are of one.
    pub pauses: [usize; 2],
    /// Number of all cycles on each side.
    pub of: [usize; 2],
    /// Median time of a pause beyond that of its cycles' median, by side.
    pub excess_us: [Option<f64>; 2],
    /// Mean of all cycles on each side, in microseconds.
    pub mean_us: [f64; 2],
    /// Probability that chance puts so many of them on the side that has more (Fisher's exact test).
    pub p: f64,
    /// `true` if one side is said to pause more often.
    pub established: bool,
    /// `true` if they are no exceptions: every now and then a cycle of that side is slow, up to seven in ten, and the others are
    /// as long as those of the other side.
    pub often: bool,
    /// `true` if the candidate has more of them.
    pub more_in_candidate: bool,
    /// Numbers of these cycles on the side that has more.
    pub numbers: Vec<i64>,
    /// How many cycles apart they are on that side, give or take one, if they come at a steady distance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<usize>,
    /// `true` if `functions` are those in which the engine waits for input, since no other takes the time.
    pub waits_for_input: bool,
    /// Functions that take at least a fifth of the pauses of that side, longest first; empty where no recorded function does.
    pub functions: Vec<PausedFunction>,
}

/// A candidate that becomes slower within itself, while the baseline does not.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Growth {
    /// Typical time of its first cycles, and of its last, in microseconds; with `since`, of the other cycles and of those.
    pub cycle_us: [f64; 2],
    /// Cycle from which on it is slower at once, and the last one that is slower, where it does not grow bit by bit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<[i64; 2]>,
    /// `true` if the last cycles are as fast as the first ones again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
    /// Typical time of the baseline's cycles, in microseconds.
    pub baseline_us: f64,
    /// Functions that take at least a fifth of the growth, and by how much each grows from the first cycles to the last; kernels
    /// of a device that grow alike are one.
    pub functions: Vec<PausedFunction>,
}

impl Growth {
    /// In words: from where to where, and what grows.
    pub(crate) fn said(&self) -> String {
        let [from, to] = self.cycle_us;
        let each = self.functions.iter().map(|f| {
            let rank = f.rank.as_ref();
            let place = rank.map_or(String::new(), |rank| format!(" on {rank}"));
            format!("{} +{}{place}", label(&f.name), time(f.excess_us))
        });
        let each: Vec<String> = each.collect();
        let what = match each.is_empty() {
            true => "no recorded function grows with it".to_owned(),
            false => format!("what grows: {}", each.join(", ")),
        };
        let when = match (self.since, self.ends) {
            (None, _) => "from its first cycles to its last".to_owned(),
            (Some([first, _]), false) => format!("from cycle {first} on"),
            (Some([first, last]), true) => format!("in cycles {first} to {last}"),
        };
        let what = match self.since {
            None => what,
            Some(_) => what
                .replacen("what grows", "what takes longer", 1)
                .replacen(
                    "no recorded function grows with it",
                    "no recorded function takes longer there",
                    1,
                ),
        };
        format!(
            "{} -> {} {when} ({:+.1} %), the baseline stays at {}; {what}",
            time(from),
            time(to),
            (to / from - 1.0) * 100.0,
            time(self.baseline_us)
        )
    }

    /// Returns `true` if all kernels of a device grow, as those of one that warms up do.
    pub(crate) fn is_of_gpu(&self) -> bool {
        let first = self.functions.first();
        first.is_some_and(|f| f.name.starts_with("all kernels of "))
    }
}

/// A function that takes longer in cycles that pause, or grows.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PausedFunction {
    /// The function.
    pub name: String,
    /// Its device.
    pub device: String,
    /// Its rank (`rank 3`), where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
    /// Mean time in a pause beyond its median.
    pub excess_us: f64,
}

impl Pauses {
    /// In words: how many, how long, where, and in which functions.
    pub(crate) fn said(&self) -> String {
        let more = usize::from(self.more_in_candidate);
        let names = ["baseline", "candidate"];
        let is_cut = self.pauses != self.cycles;
        let count = |side: usize| match is_cut {
            true => format!("{} in {}", self.pauses[side], self.of[side]),
            false => format!("{} of {}", self.cycles[side], self.of[side]),
        };
        let what = match is_cut {
            true => format!(
                "{} pauses in {} cycles of the {},",
                self.pauses[more], self.of[more], names[more]
            ),
            false => format!("{} cycles of the {} pause,", count(more), names[more]),
        };
        let what = match self.often {
            true => format!(
                "{} cycles of the {} are slow every now and then,",
                count(more),
                names[more]
            ),
            false => what,
        };
        let numbers: Vec<String> = self.numbers.iter().take(8).map(i64::to_string).collect();
        let rest = if self.numbers.len() > 8 { ", …" } else { "" };
        let functions: Vec<String> = self
            .functions
            .iter()
            .map(|f| {
                let place = f
                    .rank
                    .as_ref()
                    .map_or(String::new(), |rank| format!(" on {rank}"));
                format!("{} +{}{place}", label(&f.name), time(f.excess_us))
            })
            .collect();
        let functions = if functions.is_empty() {
            "no recorded function accounts for them".to_owned()
        } else if self.waits_for_input {
            format!(
                "the engine waits for input in them: {}",
                functions.join(", ")
            )
        } else {
            format!("in them: {}", functions.join(", "))
        };
        format!(
            "{what} {} longer than the {}{} ({} in the {}); {}cycles {}{rest}; {functions}",
            time(self.excess_us[more].unwrap_or(0.0)),
            if self.often { "" } else { "typical " },
            match (is_cut, self.often) {
                (true, _) => "cycle each",
                (_, true) => "others",
                _ => "one",
            },
            count(1 - more),
            names[1 - more],
            self.every
                .map_or(String::new(), |n| format!("one every {n} cycles: ")),
            numbers.join(", "),
        )
    }
}
