//! Finds the host call stacks that launched given GPU kernels, and the cost of these kernels.
//!
//! A query is answered in steps, each a function over an immutable [`trace_model::Trace`]:
//!
//! * [`find_windows`]: the intervals of host time spanned by slices with a given name;
//! * [`launches`]: kernels with their launch calls, and the evidence for each link;
//! * [`in_windows`]: the launches among these that are in the windows, on the selected threads;
//! * [`graph_launches`], [`captures`], [`match_graphs`]: kernels of a replayed graph with the calls
//!   that were captured into it;
//! * [`stacks()`]: the call stacks of the launches, grouped;
//! * [`Exposure`], [`Meter`]: the cost of the kernels; [`align_ranks`], [`collective_waits`]: the
//!   same collectives on several ranks; [`compare`]: the stacks of two traces;
//! * [`absence`]: the reason why there are no stacks.
//!
//! [`analyse()`] runs all of them for one [`Query`]. The crate does not read files, write formats
//! or render.
//!
//! ```
//! use launch_stacks::{KernelSelector, Query, analyse};
//! use trace_model::{FinishOptions, TraceBuilder};
//!
//! let trace = TraceBuilder::new().finish(&FinishOptions::default())?;
//! let mut query = Query::default();
//! query.kernels = KernelSelector::exact("ncclDevKernel_Generic_1");
//! let answer = analyse(&trace, &query, &[]).unwrap();
//! assert_eq!(answer.outcome.name(), "no-kernels-in-window");
//! # Ok::<(), trace_model::BuildError>(())
//! ```

mod analyse;
mod autograd;
mod capture;
mod diff;
mod error;
mod exposure;
mod filter;
mod graph;
mod link;
mod measure;
mod merge;
mod outcome;
mod ranks;
mod select;
mod stacks;
mod window;

pub use analyse::{Answer, MeasuredStack, Order, Query, WindowChoice, analyse, arg_keys};
pub use capture::{Capture, CaptureNode, GraphMatch, captures, match_graphs};
pub use diff::{Difference, compare};
pub use error::Error;
pub use exposure::{DeviceTime, Exposure, HiddenBy};
pub use filter::{LaunchFilter, in_windows};
pub use graph::{GraphLaunch, graph_launches};
pub use link::{Conflict, Launch, Launches, Linking, launches};
pub use measure::{
    Bandwidth, Breakdown, CollectiveRun, Distribution, KernelPart, Measures, Meter, StreamPart,
};
pub use merge::{MergedStack, RankShare, StackWait, merge, waits_by_rank, waits_by_stack};
pub use outcome::{Absence, KernelCount, Outcome, absence};
pub use ranks::{
    Alignment, CollectiveWait, RankTrace, Transfer, align_ranks, collective_waits, transfers,
};
pub use select::KernelSelector;
pub use stacks::{AUTOGRAD_FRAME, StackGroup, StackOptions, Stacks, stacks};
pub use trace_model::align::{kernel_stem, longest_common};
pub use trace_model::correlation::LinkMethod;
pub use trace_model::kernel::TraceIndex;
pub use trace_model::kernel::collective::{
    COLLECTIVE_KEYS, Collective, CollectiveKind, CollectiveOp, CollectiveReader, dtype_bytes,
};
pub use window::{NameMatch, Pick, Window, find_windows};
