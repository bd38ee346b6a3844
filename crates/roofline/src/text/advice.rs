//! What would give more of the GPU time numbers.

use gpu_time::Lack;

use super::words::counted;
use crate::analysis::Analysis;
use crate::calls::NO_OPERATOR;
use crate::coverage::Cause;

/// What would give more of the GPU time numbers, most time first.
pub(super) fn cures(analysis: &Analysis) -> Vec<String> {
    let coverage = &analysis.coverage;
    let lacking = |reason: &str| -> i64 {
        let all = coverage.missing.iter();
        all.filter(|m| m.reason == reason).map(|m| m.time_ns).sum()
    };
    let captures = analysis.list.captures;
    let graph = match (captures.captures, captures.too_small) {
        (0, _) if captures.recordings > 0 => {
            "what was given with --capture has no capture of a graph: give a recording of the \
             engine's start, when it captures its graphs"
                .to_owned()
        }
        (0, _) => "give the recording of the graph capture with --capture".to_owned(),
        (_, 0) => format!(
            "for {} there is no capture with their kernels: give the recording of the capture by the same model and version",
            counted(captures.unmatched.into(), "replay")
        ),
        (_, n) => format!(
            "for {} the captures are of too few tokens: give the recording of the larger ones",
            counted(n.into(), "replay")
        ),
    };
    // Where operators are recorded, kernels outside of them are launched by other code, which no recording changes.
    let kinds = &analysis.list.kinds;
    let has_operators = kinds.iter().any(|kind| kind.op != NO_OPERATOR);
    let outside = match has_operators {
        true => 0,
        false => coverage.time_without(Cause::NoOperator),
    };
    let mut all = [
        (
            outside,
            format!(
                "record the operators of the framework ({})",
                Lack::Operators.how(analysis.recorder)
            ),
        ),
        (
            coverage.time_without(Cause::NoLaunch),
            "begin the recording before the work is launched: work whose launch is not recorded has no operator".to_owned(),
        ),
        (coverage.time_without(Cause::Graph), graph),
        (
            lacking("no shapes"),
            format!("record shapes ({})", Lack::Sizes.how(analysis.recorder)),
        ),
        (
            lacking("sizes of the experts are not recorded"),
            "give the configuration of the model with --model".to_owned(),
        ),
        (
            lacking("no model"),
            "operators of your own get numbers with --extensions".to_owned(),
        ),
    ];
    all.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let all = all.into_iter().filter(|(ns, _)| *ns > 0);
    all.map(|(_, text)| text).collect()
}

/// What would tell more.
pub(super) fn advice(analysis: &Analysis) -> String {
    let mut parts = cures(analysis);
    let bounded = analysis
        .list
        .kinds
        .iter()
        .filter_map(|kind| kind.answer.as_ref().ok())
        .any(|numbers| numbers.note == "keys of earlier steps are not recorded");
    if bounded {
        parts.push(
            "lengths of requests in the annotation of the step tell the keys of attention"
                .to_owned(),
        );
    }
    match parts.is_empty() {
        true => match analysis.coverage.missing.is_empty() {
            true => "nothing: all GPU time has numbers".to_owned(),
            false => "nothing: what has no numbers is named under \"no numbers\"".to_owned(),
        },
        false => parts.join("; "),
    }
}
