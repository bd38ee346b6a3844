//! Whether the times that belong to a cause are long enough to be the reason of what they are named for.

use super::signal::{Signal, Stat};
use super::signature::Signature;
use crate::report_text::time;

/// The part of what a cycle takes longer that the time of a cause must reach.
const EXPLAINED: f64 = 0.5;

/// What a typical cycle takes longer, where that is established, us.
fn cycle_change(signals: &[Signal]) -> Option<f64> {
    let declared = signals.iter().find(|s| s.metric == "declared_cycles")?;
    let cycle = signals.iter().find(|s| s.metric == "cycle_us")?;
    let [before, after] = cycle.typical(Stat::Median);
    let is_declared = declared.typical(Stat::Median)[1] > 0.0;
    (is_declared && after > before).then_some(after - before)
}

/// Why the times that belong to a cause are too short to be the reason of longer cycles; none where they are long enough
/// or neither was recorded.
pub(super) fn falls_short(signature: &Signature, signals: &[Signal]) -> Option<String> {
    let change = cycle_change(signals)?;
    let grown = |signal: &Signal| {
        let by = [Stat::Median, Stat::Mean].map(|stat| {
            let [before, after] = signal.typical(stat);
            after - before
        });
        by[0].max(by[1])
    };
    let own = signals
        .iter()
        .filter(|s| signature.explains.contains(&s.metric));
    let most = own.max_by(|a, b| grown(a).total_cmp(&grown(b)))?;
    (grown(most) < EXPLAINED * change).then(|| {
        format!(
            "{} on {} grew by {}, which does not explain that a cycle takes {} longer",
            most.metric,
            most.device,
            time(grown(most).max(0.0)),
            time(change)
        )
    })
}
