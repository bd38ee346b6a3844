//! Interference: functions that are slow in a few cycles and as always in the others.

use crate::analysis::Cycle;
use crate::measure::Function;
use crate::num::{median, nanos, real, span};
use crate::phase::Phase;

/// A function that is slow in a few cycles only.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Interference {
    /// Which function, by place in the list of functions.
    pub function: usize,
    /// Phase of the cycles it is compared with.
    pub phase: Phase,
    /// The slow cycles.
    pub cycles: Vec<u32>,
    /// Mean excess over the median in those, ns.
    pub excess_ns: i64,
}

/// A cycle is slow if it exceeds the median by more than this many deviations (1.4826 MAD), where
/// a normal sample does so about once in a billion,
const DEVIATIONS: f64 = 6.0;
/// and by this share of the function's median,
const OWN_SHARE: f64 = 0.25;
/// and by this share of the cycle.
const CYCLE_SHARE: f64 = 0.01;
/// Of more cycles than this share it is no interference.
pub(crate) const MOST: f64 = 0.3;

/// The median of values of cycles of this length, and from where on one is slow.
pub(crate) fn limit(values: &[f64], length: f64) -> (f64, f64) {
    let middle = median(values);
    let deviations: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let mad = 1.4826 * median(&deviations);
    let above = (DEVIATIONS * mad)
        .max(OWN_SHARE * middle)
        .max(CYCLE_SHARE * length);
    (middle, middle + above)
}

pub(crate) fn interference(cycles: &[Cycle], functions: &[Function]) -> Vec<Interference> {
    let mut found = Vec::new();
    for phase in [Phase::Prefill, Phase::Decode, Phase::Mixed, Phase::Unknown] {
        let members: Vec<usize> = (0..cycles.len())
            .filter(|&i| cycles[i].phase == phase && cycles[i].partial.is_none())
            .collect();
        if members.len() < 8 {
            continue;
        }
        let lengths: Vec<f64> = members
            .iter()
            .map(|&i| span(cycles[i].length_ns()))
            .collect();
        let length = median(&lengths);
        let mut own = vec![0.0; cycles.len()];
        for (f, function) in functions.iter().enumerate() {
            own.iter_mut().for_each(|v| *v = 0.0);
            for cell in &function.cells {
                if let Some(v) = own.get_mut(cell.cycle as usize) {
                    *v = span(cell.self_ns);
                }
            }
            let values: Vec<f64> = members.iter().map(|&i| own[i]).collect();
            let (middle, limit) = limit(&values, length);
            let slow: Vec<usize> = members
                .iter()
                .copied()
                .filter(|&i| own[i] > limit)
                .collect();
            if slow.is_empty() || real(slow.len()) > MOST * real(members.len()) {
                continue;
            }
            let excess: f64 = slow.iter().map(|&i| own[i] - middle).sum();
            found.push(Interference {
                function: f,
                phase,
                excess_ns: nanos(excess / real(slow.len())),
                cycles: slow.into_iter().map(crate::num::row).collect(),
            });
        }
    }
    found.sort_by_key(|i| {
        let count = i64::try_from(i.cycles.len()).unwrap_or(i64::MAX);
        (
            std::cmp::Reverse(i.excess_ns.saturating_mul(count)),
            i.function,
        )
    });
    found
}
