//! Which functions and operators a command only needs in outline: for the nesting of other slices, and to count them. They make up
//! most of a PyTorch recording.

use gpu_time::comm::HOST_MARKS;
use perfetto_reader::Outlining;
use trace_model::Waiting;
use trace_model::kernel::{Activity, Vocabulary};

/// Selects Python functions and operators, except those that `needs` names.
fn outlining(
    vocabulary: Vocabulary,
    needs: impl Fn(&Vocabulary, Activity, &str) -> bool + Send + Sync + 'static,
) -> Outlining {
    Outlining::new(move |category, name| {
        let activity = vocabulary.activity(category, name);
        let is_code = matches!(activity, Activity::PythonFunction | Activity::CpuOp);
        let is_mark = || HOST_MARKS.iter().any(|mark| name.starts_with(mark));
        is_code && !is_mark() && !needs(&vocabulary, activity, name)
    })
}

/// For answers that ask whether kernels communicate.
pub(crate) fn but_communicating(vocabulary: Vocabulary) -> Outlining {
    outlining(vocabulary, |vocabulary, activity, name| {
        activity == Activity::CpuOp && vocabulary.may_communicate(name)
    })
    .whole_within_kept()
}

/// For answers that ask for the classes of kernels.
pub(crate) fn but_deciding(vocabulary: Vocabulary) -> Outlining {
    outlining(vocabulary, Vocabulary::may_decide)
}

/// For answers that count.
pub(crate) fn all() -> Outlining {
    outlining(Vocabulary::default(), |_, _, _| false)
}

/// For answers about what threads wait for, and what they do in the longest gaps.
pub(crate) fn but_waiting() -> Outlining {
    outlining(Vocabulary::default(), |_, _, name| {
        matches!(
            Waiting::of_own_time(name),
            Some(Waiting::Input | Waiting::Peer)
        )
    })
    .keeping()
    .whole_within_kept()
}
