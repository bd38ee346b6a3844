//! The dumps of all ranks of a job, by process group.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::mismatch;
use super::problem::{Problem, ProblemKind, find_roots};
use super::{Entry, Mismatch, RankDump, State, Status};
use crate::error::{Error, Result};

/// All dumps of a job.
#[derive(Debug)]
#[non_exhaustive]
pub struct Job {
    /// Dumps by rank.
    pub ranks: BTreeMap<u32, RankDump>,
    /// Process groups, by name and members.
    pub groups: Vec<Group>,
}

/// A process group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Group {
    /// Name, which groups of different members may share.
    pub name: String,
    /// Description that the program gave, or empty.
    pub description: String,
    /// Members, ascending.
    pub ranks: Vec<u32>,
    /// `true` if the dumps state the members; else these are the ranks that called it.
    pub is_stated: bool,
    /// Members without a dump.
    pub without_dump: Vec<u32>,
    /// Last collective that each member with a dump called, started and completed; 0 for none.
    pub last: BTreeMap<u32, [i64; 3]>,
    /// First collective that all dumps with calls of this group still hold.
    pub first_seq: Option<i64>,
    /// The first collective that did not complete, if any.
    pub problem: Option<Problem>,
    /// The first collective whose calls differ between ranks, how, and the ranks that differ.
    pub mismatch: Option<(i64, Mismatch, Vec<u32>)>,
    /// `true` if the problem is one that no other group explains.
    pub is_root: bool,
}

impl Group {
    /// Returns its name with its description.
    pub fn label(&self) -> String {
        match self.description.as_str() {
            "" => self.name.clone(),
            description if description == self.name => self.name.clone(),
            description => format!("{} ({description})", self.name),
        }
    }
}

type Calls<'j> = BTreeMap<i64, BTreeMap<u32, Vec<&'j Entry>>>;

impl Job {
    /// Joins the dumps of a job.
    ///
    /// # Errors
    ///
    /// Returns an error if the rank of a dump is unknown, or two dumps are of the same rank.
    pub fn new(dumps: Vec<RankDump>) -> Result<Self> {
        let mut ranks: BTreeMap<u32, RankDump> = BTreeMap::new();
        for dump in dumps {
            let rank = dump.known_rank()?;
            if let Some(other) = ranks.get(&rank) {
                return Err(Error::Rank {
                    what: format!(
                        "is a second dump of rank {rank} beside {}: give the dumps of one job, one for each rank",
                        other.name
                    ),
                    name: dump.name,
                });
            }
            ranks.insert(rank, dump);
        }
        let mut job = Self {
            groups: Vec::new(),
            ranks,
        };
        let groups = job.members().into_iter().map(|group| job.examine(group));
        job.groups = groups.collect();
        find_roots(&mut job.groups);
        Ok(job)
    }

    /// Returns the process groups with their members.
    fn members(&self) -> Vec<Group> {
        let mut groups: BTreeMap<(String, Vec<u32>), String> = BTreeMap::new();
        let mut unstated: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for (rank, dump) in &self.ranks {
            for (name, config) in &dump.configs {
                // A process knows groups without being a member.
                if config.ranks.contains(rank) {
                    groups
                        .entry((name.clone(), config.ranks.clone()))
                        .or_insert_with(|| config.description.clone());
                }
            }
            for entry in &dump.entries {
                let config = dump.configs.get(&entry.group);
                if config.is_none_or(|config| !config.ranks.contains(rank)) {
                    unstated
                        .entry(entry.group.clone())
                        .or_default()
                        .insert(*rank);
                }
            }
        }
        let make =
            |(name, ranks): (String, Vec<u32>), description: String, is_stated: bool| Group {
                without_dump: ranks
                    .iter()
                    .copied()
                    .filter(|rank| !self.ranks.contains_key(rank))
                    .collect(),
                name,
                description,
                ranks,
                is_stated,
                last: BTreeMap::new(),
                first_seq: None,
                problem: None,
                mismatch: None,
                is_root: false,
            };
        let mut all: Vec<Group> = groups
            .into_iter()
            .map(|(key, description)| make(key, description, true))
            .collect();
        for (name, ranks) in unstated {
            all.push(make(
                (name, ranks.into_iter().collect()),
                String::new(),
                false,
            ));
        }
        all
    }

    /// Returns the calls of a rank in a group.
    pub(super) fn calls_of<'j>(
        &'j self,
        group: &Group,
        rank: u32,
    ) -> impl DoubleEndedIterator<Item = &'j Entry> {
        let entries = self.ranks.get(&rank).map_or(&[][..], |dump| &dump.entries);
        let name = group.name.clone();
        entries.iter().filter(move |entry| entry.group == name)
    }

    fn status(&self, group: &Group, rank: u32) -> Status {
        let number = self
            .calls_of(group, rank)
            .find_map(|entry| entry.group_number);
        let status = number.and_then(|number| self.ranks.get(&rank)?.status.get(&number));
        status.copied().unwrap_or_default()
    }

    /// Returns the collectives of a group by number.
    fn collectives(&self, group: &Group) -> Calls<'_> {
        let mut calls = Calls::new();
        for rank in group
            .ranks
            .iter()
            .filter(|rank| self.ranks.contains_key(rank))
        {
            for entry in self.calls_of(group, *rank).filter(|entry| !entry.is_p2p()) {
                let of = calls.entry(entry.seq).or_default();
                of.entry(*rank).or_default().push(entry);
            }
        }
        calls
    }

    fn examine(&self, mut group: Group) -> Group {
        let calls = self.collectives(&group);
        let mut first: BTreeMap<u32, i64> = BTreeMap::new();
        for rank in group
            .ranks
            .clone()
            .iter()
            .filter(|rank| self.ranks.contains_key(rank))
        {
            let status = self.status(&group, *rank);
            let mut last = [status.called, status.started, status.completed];
            for (seq, of) in &calls {
                let Some(list) = of.get(rank) else { continue };
                first.entry(*rank).or_insert(*seq);
                let least = list.iter().map(|entry| entry.state).min();
                for (at, state) in [State::Scheduled, State::Started, State::Completed]
                    .iter()
                    .enumerate()
                {
                    if least >= Some(*state)
                        && let Some(slot) = last.get_mut(at)
                    {
                        *slot = (*slot).max(*seq);
                    }
                }
            }
            group.last.insert(*rank, last);
        }
        group.first_seq = first.values().max().copied();
        for (seq, of) in &calls {
            if group.mismatch.is_none()
                && let Some((how, ranks)) = mismatch(of)
            {
                group.mismatch = Some((*seq, how, ranks));
            }
            if group.problem.is_none() {
                group.problem = self.incomplete(&group, *seq, of);
            }
        }
        if group.problem.is_none() {
            group.problem = self.unpaired(&group);
        }
        group
    }

    /// Returns the problem of a collective that did not complete.
    fn incomplete(
        &self,
        group: &Group,
        seq: i64,
        of: &BTreeMap<u32, Vec<&Entry>>,
    ) -> Option<Problem> {
        let state = |list: &Vec<&Entry>| list.iter().map(|entry| entry.state).min();
        let operation = of.values().flatten().next()?.operation.clone();
        let behind = group.last.iter().filter(|(_, last)| last[0] < seq);
        let behind = behind.map(|(rank, _)| *rank);
        // Without status and with all its calls overwritten, nothing is known of a rank.
        let is_known = |rank: &u32| {
            let is_cut = self.ranks.get(rank).is_some_and(|dump| dump.is_cut);
            !is_cut || group.last.get(rank).is_some_and(|last| last[0] > 0)
        };
        let missing: Vec<u32> = behind.filter(is_known).collect();
        if of
            .values()
            .any(|list| state(list) == Some(State::Completed))
        {
            // Where one rank completed it, all had arrived, and the others had not noticed yet; but a root may be done early.
            let is_rooted = matches!(
                operation.as_str(),
                "broadcast" | "_broadcast_oop" | "reduce" | "_reduce_oop" | "gather" | "scatter"
            );
            if !is_rooted || missing.is_empty() {
                return None;
            }
        }
        let mut problem = Problem::new(seq, operation);
        for (rank, list) in of {
            match state(list) {
                Some(State::Scheduled) => problem.not_started.push(*rank),
                Some(State::Started) => problem.waiting.push(*rank),
                _ => {}
            }
        }
        problem.missing = missing;
        problem.without_dump.clone_from(&group.without_dump);
        problem.called_ns = of
            .values()
            .flatten()
            .filter_map(|entry| entry.created_ns)
            .min();
        problem.kind = match () {
            () if group.mismatch.as_ref().is_some_and(|(at, ..)| *at == seq) => {
                ProblemKind::Mismatch
            }
            () if !problem.missing.is_empty() => ProblemKind::NotCalled,
            () if !problem.without_dump.is_empty() => ProblemKind::NoDump,
            () if problem.not_started.is_empty() => ProblemKind::Running,
            () if problem.waiting.is_empty() => ProblemKind::Queued,
            () => ProblemKind::NotStarted,
        };
        Some(problem)
    }

    /// Returns the first send or receive that is not complete and whose counterpart was not called.
    fn unpaired(&self, group: &Group) -> Option<Problem> {
        let global = |local: u32| group.ranks.get(local as usize).copied();
        let mut found: Option<Problem> = None;
        for rank in &group.ranks {
            // The number of the k-th call is known only where none was overwritten.
            let is_whole = |rank: u32| self.ranks.get(&rank).is_some_and(|dump| !dump.is_cut);
            let mut seen: BTreeMap<(bool, u32), usize> = BTreeMap::new();
            for entry in self.calls_of(group, *rank) {
                let Some((Some(from), to)) = entry.peers else {
                    continue;
                };
                let (Some(from), Some(to)) = (global(from), global(to)) else {
                    continue;
                };
                let is_send = from == *rank;
                let peer = if is_send { to } else { from };
                let number = seen.entry((is_send, peer)).or_default();
                let at = *number;
                *number += 1;
                if entry.state == State::Completed {
                    continue;
                }
                let has_dump = self.ranks.contains_key(&peer);
                let counterpart = self.calls_of(group, peer).filter(|other| {
                    let peers = other.peers.map(|(a, b)| (a.and_then(global), global(b)));
                    peers == Some((Some(from), Some(to)))
                });
                let is_there = counterpart.count() > at;
                let can_tell = !has_dump || (is_whole(*rank) && is_whole(peer));
                if is_there || !can_tell {
                    continue;
                }
                let mut problem = Problem::new(entry.seq, entry.operation.clone());
                problem.kind = ProblemKind::NoPeer;
                problem.waiting.push(*rank);
                match has_dump {
                    true => problem.missing.push(peer),
                    false => problem.without_dump.push(peer),
                }
                problem.called_ns = entry.created_ns;
                let is_earlier = found.as_ref().is_none_or(|known| {
                    problem.called_ns.unwrap_or(i64::MAX) < known.called_ns.unwrap_or(i64::MAX)
                });
                if is_earlier {
                    found = Some(problem);
                }
            }
        }
        found
    }
}
