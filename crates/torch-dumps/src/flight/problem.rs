//! Why a collective did not complete, and which group's problem explains the others.

use std::collections::{BTreeMap, BTreeSet};

use super::Group;

/// Why a collective did not complete.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The ranks called different collectives.
    Mismatch,
    /// Some ranks did not call it.
    NotCalled,
    /// The counterpart of a send or receive was not called.
    NoPeer,
    /// All ranks of which a dump tells called it; of others none does.
    NoDump,
    /// All called it; the GPUs of some had not begun.
    NotStarted,
    /// All called it, and no GPU had begun: earlier work keeps them busy.
    Queued,
    /// The GPUs of all ranks were in it.
    Running,
}

impl ProblemKind {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mismatch => "mismatch",
            Self::NotCalled => "not_called",
            Self::NoPeer => "no_peer",
            Self::NoDump => "no_dump",
            Self::NotStarted => "not_started",
            Self::Queued => "queued",
            Self::Running => "running",
        }
    }
}

/// A collective that did not complete.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// Its number in its group.
    pub seq: i64,
    /// Its operation, as the first rank called it.
    pub operation: String,
    /// Why it did not complete.
    pub kind: ProblemKind,
    /// Ranks that did not call it.
    pub missing: Vec<u32>,
    /// Ranks whose host called it and whose GPU had not begun.
    pub not_started: Vec<u32>,
    /// Ranks whose GPU was in it.
    pub waiting: Vec<u32>,
    /// Members of which no dump tells whether they called it.
    pub unknown: Vec<u32>,
    /// Time of the first call in ns since 1970.
    pub called_ns: Option<i64>,
    /// Ranks that wait for each other across groups, if this closes a circle.
    pub circle: Vec<u32>,
}

impl Problem {
    pub(super) fn new(seq: i64, operation: String) -> Self {
        Self {
            seq,
            operation,
            kind: ProblemKind::Running,
            missing: Vec::new(),
            not_started: Vec::new(),
            waiting: Vec::new(),
            unknown: Vec::new(),
            called_ns: None,
            circle: Vec::new(),
        }
    }

    /// Returns the ranks that the others wait for.
    pub fn blamed(&self) -> &[u32] {
        match self.kind {
            ProblemKind::NotCalled => &self.missing,
            ProblemKind::NoPeer if !self.missing.is_empty() => &self.missing,
            ProblemKind::NoDump | ProblemKind::NoPeer => &self.unknown,
            ProblemKind::NotStarted => &self.not_started,
            ProblemKind::Mismatch | ProblemKind::Queued | ProblemKind::Running => &[],
        }
    }

    /// Returns the ranks that called it and did not complete it.
    fn inside(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().chain(&self.not_started).copied()
    }
}

/// Marks the groups whose problems no other group explains: those with a rank that is waited for and waits in no other group
/// itself, those in which the ranks differ, and those that close a circle.
pub(super) fn find_roots(groups: &mut [Group]) {
    // Whom each rank waits for, through the groups in which it waits for others.
    let mut waits: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut stuck_elsewhere: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
    for (number, group) in groups.iter().enumerate() {
        let Some(problem) = &group.problem else {
            continue;
        };
        let blamed: BTreeSet<u32> = problem.blamed().iter().copied().collect();
        for rank in problem.inside().filter(|rank| !blamed.contains(rank)) {
            waits.entry(rank).or_default().extend(&blamed);
            stuck_elsewhere.entry(rank).or_default().insert(number);
        }
    }
    let circle = circle(&waits);
    for (number, group) in groups.iter_mut().enumerate() {
        let Some(problem) = &mut group.problem else {
            continue;
        };
        let blamed = problem.blamed();
        let is_free = |rank: &u32| {
            let places = stuck_elsewhere.get(rank);
            places.is_none_or(|places| places.iter().all(|place| *place == number))
        };
        let closes = blamed.iter().any(|rank| circle.contains(rank));
        group.is_root = blamed.is_empty() || blamed.iter().any(is_free) || closes;
        if closes && !blamed.iter().any(is_free) {
            problem.circle = circle.iter().copied().collect();
        }
    }
}

/// Returns the ranks that wait for each other in a circle.
fn circle(waits: &BTreeMap<u32, BTreeSet<u32>>) -> BTreeSet<u32> {
    let reach = |from: u32| {
        let mut seen: BTreeSet<u32> = BTreeSet::new();
        let mut next: Vec<u32> = vec![from];
        while let Some(rank) = next.pop() {
            for to in waits.get(&rank).into_iter().flatten() {
                if seen.insert(*to) {
                    next.push(*to);
                }
            }
        }
        seen
    };
    waits
        .keys()
        .copied()
        .filter(|rank| reach(*rank).contains(rank))
        .collect()
}
