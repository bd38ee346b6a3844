//! Which collectives of several ranks are one, and how the clocks of the ranks differ.
//!
//! Input is one list of [`RankRun`]s for each rank: what is known of each collective kernel, and when it ended on the
//! rank's own clock. [`match_ranks`] joins the lists: within a process group by sequence number, without numbers by the
//! rhythm of the ends, which needs no common clock and survives captures that are cut at either end. [`clocks`] then
//! estimates the offset and the drift of each clock, with an interval ([`ClockFit`]). [`Arrivals`] compares the
//! starts of one collective on the common clock.
//!
//! Without numbers several joins may be possible. Of these, the ones with significantly larger residuals are dropped;
//! among the rest the one that joins most collectives is taken, and the rank is listed in [`Group::ambiguous`].

mod arrivals;
mod clock;
mod job;
mod matching;
pub mod real;
mod sequence;
mod tree;

pub use arrivals::{AlignedRun, Arrivals};
pub use clock::{ClockFit, fit};
pub use job::{JobSize, may_lack_members};
pub use matching::{Group, GroupKey, Matched, Matching, RankRun, is_synchronising, match_ranks};
pub use tree::{RankClock, clocks, share_clocks};
