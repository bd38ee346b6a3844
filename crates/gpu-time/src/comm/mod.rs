//! Analyzes the collectives of a job: their costs, wait times and stragglers.
//!
//! Each rank's trace becomes a [`RankDigest`] and can then be dropped; [`assign_ranks`] sorts the
//! digests by rank, and a [`Job`] joins them. It holds the same collectives on several ranks,
//! matched by process group and sequence number or, without numbers, by the rhythm of their ends
//! ([`rank_align::match_ranks`]); the offset and drift of each clock with an interval
//! ([`ClockFit`]); skews, wait times, the straggler, and its work before it was late ([`Cause`]).
//! [`summarise`] sums up by type, group and size; [`tracelens`] has the tables of another analyzer
//! for comparison.
//!
//! Bandwidths follow nccl-tests (`doc/PERFORMANCE.md`): the algorithm bandwidth is message size over
//! time, the bus bandwidth is that times 2 (n - 1) / n for an all-reduce, (n - 1) / n for all-gather,
//! reduce-scatter and all-to-all, 1 for the others. The time is the *latency*, the shortest duration
//! of the collective over the ranks, since all longer ones contain waiting.
//!
//! Limitations: waits for ranks that were not recorded are unknown, and a constant lag of one
//! rank's ends looks like an offset of its clock.

mod answer;
mod cause;
mod digest;
mod host;
mod job;
mod named_ranks;
mod passed_on;
mod preceding_work;
mod summary;
pub mod tracelens;

pub use answer::{answer, lines};
pub use cause::{Cause, CauseKind};
pub use digest::{
    CommRules, RankAssignment, RankDigest, RankSource, RankTime, Run, arg_keys, assign_ranks,
};
pub use host::{HOST_MARKS, HostCollectives, host_collectives, host_communication};
pub use job::{CollectiveTime, Job, LeastWaiting, RankSummary, Straggler};
pub use preceding_work::{Before, Spent};
pub use rank_align::{ClockFit, Group, GroupKey, Matched, Matching, RankClock, is_synchronising};
pub use summary::{CommSummary, SummaryKey, summarise};
pub use trace_model::kernel::CommLibrary;
pub use trace_model::kernel::collective::SHAPE_KEYS;
