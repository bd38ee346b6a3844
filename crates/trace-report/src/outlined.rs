//! Which slices an answer needs only in outline: for the nesting of other slices, and to count them. They make up most of a
//! recording of PyTorch, and a reader that leaves them out saves as much memory.

use gpu_time::comm::HOST_MARKS;
use trace_model::Waiting;
use trace_model::kernel::{Activity, Vocabulary};

/// What an answer examines of the host's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Examined {
    Nothing,
    Communicating,
    Deciding,
    Waiting,
}

/// Python functions and operators of which an answer needs only place, time and name: all but those that it examines.
///
/// ```
/// use trace_report::Outlined;
///
/// let outlined = Outlined::but_waiting();
/// assert!(outlined.contains("cpu_op", "aten::add"));
/// assert!(!outlined.contains("kernel", "gemm"));
/// ```
#[derive(Clone, Debug)]
pub struct Outlined {
    vocabulary: Vocabulary,
    examined: Examined,
}

impl Outlined {
    /// All: for answers that count.
    #[must_use]
    pub fn all() -> Self {
        Self {
            vocabulary: Vocabulary::default(),
            examined: Examined::Nothing,
        }
    }

    /// All but operators that may communicate: for answers that ask whether kernels communicate.
    #[must_use]
    pub fn but_communicating(vocabulary: Vocabulary) -> Self {
        Self {
            vocabulary,
            examined: Examined::Communicating,
        }
    }

    /// All but those that decide the class of a kernel: for answers that ask for the classes.
    #[must_use]
    pub fn but_deciding(vocabulary: Vocabulary) -> Self {
        Self {
            vocabulary,
            examined: Examined::Deciding,
        }
    }

    /// All but functions that wait for input or for another thread: for answers about what threads wait for, and what they do
    /// in the longest gaps.
    #[must_use]
    pub fn but_waiting() -> Self {
        Self {
            vocabulary: Vocabulary::default(),
            examined: Examined::Waiting,
        }
    }

    /// Returns `true` if the answer needs only the outline of a slice with this category and name.
    #[must_use]
    pub fn contains(&self, category: &str, name: &str) -> bool {
        let activity = self.vocabulary.activity(category, name);
        let is_code = matches!(activity, Activity::PythonFunction | Activity::CpuOp);
        if !is_code || HOST_MARKS.iter().any(|mark| name.starts_with(mark)) {
            return false;
        }
        let is_examined = match self.examined {
            Examined::Nothing => false,
            Examined::Communicating => {
                activity == Activity::CpuOp && self.vocabulary.may_communicate(name)
            }
            Examined::Deciding => self.vocabulary.may_decide(activity, name),
            Examined::Waiting => matches!(
                Waiting::of_own_time(name),
                Some(Waiting::Input | Waiting::Peer)
            ),
        };
        !is_examined
    }

    /// Returns `true` if the outlines are part of the answer, and are kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.examined == Examined::Waiting
    }

    /// Returns `true` if the answer needs all that lies within the slices that it examines.
    #[must_use]
    pub fn is_whole_within_examined(&self) -> bool {
        matches!(self.examined, Examined::Communicating | Examined::Waiting)
    }
}
