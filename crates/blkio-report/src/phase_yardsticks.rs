//! Phases of one recording as yardsticks for each other.
//!
//! A phase at one depth does not show whether more requests at a time would give more. Another phase of the same device, with
//! requests of the same direction, size and access pattern at another depth, shows it.

use serde_json::{Value, json};

use crate::limit::Limiter;
use crate::value::number;

/// Share of a direction from which a phase is of that direction.
const PURE: f64 = 0.9;
/// Largest ratio of mean sizes, and largest difference of sequential shares, of requests that are alike.
const ALIKE: f64 = 1.25;
const ALIKE_SHARE: f64 = 0.3;
/// Ratio from which a depth or a size is another one.
const DEEPER: f64 = 1.5;
/// Ratio of rates from which a phase shows that there is more, and up to which a deeper one shows that there is not.
const MORE: f64 = 1.25;
const SAME: f64 = 1.1;

/// What is compared of a phase.
struct Of {
    at: usize,
    direction: String,
    device: Value,
    size: f64,
    sequential: Option<f64>,
    depth: f64,
    /// Bytes per second while busy.
    rate: f64,
}

impl Of {
    /// `None` where a phase has too few requests, or both directions.
    fn new(at: usize, phase: &Value) -> Option<Self> {
        let limit = &phase["limit"];
        let writes = limit["write_share"].as_f64()?;
        let found = Self {
            at,
            direction: limit["direction"].as_str()?.to_owned(),
            device: limit["device"].clone(),
            size: limit["mean_bytes"].as_f64()?,
            sequential: limit["sequential_share"].as_f64(),
            depth: limit["depth_while_busy"].as_f64()?,
            rate: limit["bytes_per_busy_s"].as_f64()?,
        };
        let is_pure = writes.max(1.0 - writes) >= PURE;
        let is_known = found.size > 0.0 && found.depth > 0.0 && found.rate > 0.0;
        (limit["is_enough"] == true && is_pure && is_known).then_some(found)
    }

    fn is_like(&self, other: &Self) -> bool {
        let pattern = match (self.sequential, other.sequential) {
            (Some(a), Some(b)) => (a - b).abs() <= ALIKE_SHARE,
            (a, b) => a.is_none() && b.is_none(),
        };
        self.direction == other.direction && self.device == other.device && pattern
    }

    fn is_as_large(&self, other: &Self) -> bool {
        (self.size / other.size).max(other.size / self.size) <= ALIKE
    }
}

/// Judges each phase by the others, or by those of `others`, all of them values with a member `limit`: its limiter may become
/// known, and the phase that shows it is its member `other_phase`. Times of phases are of a clock on which the trace begins at
/// `first_ns`. Cost: the square of the number of phases.
pub fn compare(phases: &mut [Value], others: Option<&[Value]>, first_ns: u64) {
    let of = |phases: &[Value]| -> Vec<Of> {
        let all = phases.iter().enumerate();
        all.filter_map(|(at, phase)| Of::new(at, phase)).collect()
    };
    let own = of(phases);
    let known = others.map(of);
    let candidates = known.as_ref().unwrap_or(&own);
    let found: Vec<(usize, Option<Limiter>, Value)> = own
        .iter()
        .filter_map(|this| {
            let phase = phases.get(this.at)?;
            let overlaps = |that: &Of| match others.and_then(|others| others.get(that.at)) {
                Some(that) => {
                    number(&that["start_ns"]) < number(&phase["end_ns"])
                        && number(&phase["start_ns"]) < number(&that["end_ns"])
                }
                None => that.at == this.at,
            };
            let alike: Vec<&Of> = candidates
                .iter()
                .filter(|that| !overlaps(that) && this.is_like(that))
                .collect();
            let (limiter, that, what) = judge(this, &phase["limit"], &alike)?;
            let of_that =
                others.map_or_else(|| phases.get(that.at), |others| others.get(that.at))?;
            let start_ns = of_that["start_ns"].as_u64().unwrap_or(0);
            let value = json!({
                "differs_in": what,
                "starts_after_ns": start_ns.saturating_sub(first_ns),
                "label": of_that["label"],
                "depth_while_busy": that.depth,
                "mean_bytes": that.size,
                "bytes_per_busy_s": that.rate,
                "factor": that.rate / this.rate,
            });
            Some((this.at, limiter, value))
        })
        .collect();
    for (at, limiter, value) in found {
        let Some(phase) = phases.get_mut(at) else {
            continue;
        };
        if let Some(limiter) = limiter {
            phase["limit"]["limiter"] = limiter.name().into();
        }
        phase["limit"]["other_phase"] = value;
    }
}

/// What the others show of a phase, if anything: its limiter where that becomes known, the phase that shows it, and in what that
/// one differs.
fn judge<'a>(
    this: &Of,
    limit: &Value,
    others: &[&'a Of],
) -> Option<(Option<Limiter>, &'a Of, &'static str)> {
    let limiter = limit["limiter"].as_str()?;
    let is = |of: Limiter| limiter == of.name();
    if is(Limiter::ThinkTime) {
        return None;
    }
    let by_rate = |a: &&&Of, b: &&&Of| a.rate.total_cmp(&b.rate);
    let as_large = || others.iter().filter(|that| that.is_as_large(this));
    if is(Limiter::Unknown) || is(Limiter::QueueDepth) {
        let deeper = as_large().filter(|that| that.depth >= DEEPER * this.depth);
        if let Some(best) = deeper.max_by(by_rate) {
            let factor = best.rate / this.rate;
            if factor >= MORE {
                return Some((Some(Limiter::QueueDepth), best, "depth"));
            }
            // Twice the depth would have shown it.
            if (1.0 / SAME..=SAME).contains(&factor) && best.depth >= 2.0 * this.depth {
                return Some((Some(Limiter::Device), best, "depth"));
            }
        }
    }
    if is(Limiter::Unknown) {
        let shallower = as_large().filter(|that| that.depth * 2.0 <= this.depth);
        let nearest = shallower.max_by(|a, b| a.depth.total_cmp(&b.depth));
        if let Some(that) =
            nearest.filter(|that| that.rate * SAME >= this.rate && that.rate <= this.rate * SAME)
        {
            return Some((Some(Limiter::Device), that, "depth"));
        }
    }
    if is(Limiter::RequestSize) {
        let larger = others
            .iter()
            .filter(|that| that.size >= DEEPER * this.size && that.rate >= MORE * this.rate);
        return larger.max_by(by_rate).map(|that| (None, *that, "size"));
    }
    None
}
