//! Requests at the driver, and the choice among several at one place.

use crate::event::Event;
use crate::rwbs::Direction;

/// What to do when a request is issued while one of the same place and size is outstanding.
///
/// It also says whose part a completion is that has fewer sectors than any request at its place. The kernel moves the start
/// of a request behind the part that completed, and completes what is left from there, so that the rest is outstanding at its
/// new place, issued when the whole was. Several larger requests at one place are rare (two readers of the same sectors, or
/// a completion that was lost), and a trace does not tell them apart: as among equal ones, the request that was issued last
/// is meant, or the one that was issued first. Neither does it matter then whether a part of one has already completed, since
/// devices that complete in parts do so with every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// The new one replaces the old one, whose completion was evidently lost. A completion is of the one issued last.
    #[default]
    Newest,
    /// They queue: a completion is of the one issued first. A lost completion then shifts every later latency of the place.
    Fifo,
}

impl Policy {
    /// Returns which of the outstanding requests of a place that `can_be` it is meant, and whether the other policy may mean another.
    pub(super) fn choose(
        self,
        list: &[Outstanding],
        can_be: impl Fn(&Outstanding) -> bool,
    ) -> (Option<usize>, bool) {
        let mut chosen: Option<(usize, u64)> = None;
        let mut is_contested = false;
        for (at, out) in list.iter().enumerate().filter(|(_, out)| can_be(out)) {
            is_contested = chosen.is_some();
            let is_better = chosen.is_none_or(|(_, number)| match self {
                Self::Newest => out.number > number,
                Self::Fifo => out.number < number,
            });
            if is_better {
                chosen = Some((at, out.number));
            }
        }
        (chosen.map(|(at, _)| at), is_contested)
    }
}

/// A request at the driver.
#[derive(Debug, Clone)]
pub(super) struct Outstanding {
    /// Issues up to it.
    pub(super) number: u64,
    pub(super) direction: Direction,
    pub(super) nr_sector: u32,
    pub(super) bytes: u32,
    pub(super) comm: u32,
    pub(super) pid: u32,
    pub(super) rwbs: u16,
    /// First sector of the whole request.
    pub(super) sector: u64,
    pub(super) issue_ns: u64,
    /// When it completes, where the record of the request states it; else 0.
    pub(super) complete_ns: u64,
    /// When it was issued for the first time, if the driver gave it back since.
    pub(super) first_issue_ns: Option<u64>,
    /// When its bios were queued, where the trace says.
    pub(super) queued_ns: Vec<u64>,
}

/// Sectors of the places where flushes and requests without sectors are kept.
const FLUSH: u64 = u64::MAX;
const NOTHING: u64 = u64::MAX - 1;

/// Returns where the request is kept and its size there.
pub(super) fn place(event: &Event) -> ((u32, u64), u32) {
    match event.direction {
        Direction::Flush => ((event.dev, FLUSH), 0),
        Direction::None if event.nr_sector == 0 => ((event.dev, NOTHING), 0),
        _ => ((event.dev, event.sector), event.nr_sector),
    }
}
