//! The dumps of all ranks of a job, by process group.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::mismatch;
use super::problem::{Problem, ProblemKind, find_roots};
use super::{Entry, Mismatch, RankDump, State};
use crate::error::{Error, Result};

/// All dumps of a job.
#[derive(Debug)]
#[non_exhaustive]
pub struct Job {
    /// Dumps by rank.
    pub ranks: BTreeMap<u32, RankDump>,
    /// Process groups, by name and members.
    pub groups: Vec<Group>,
    /// Ranks whose dump is there and cannot be read.
    pub unreadable: BTreeSet<u32>,
}

/// A collective that some ranks had completed while others were in it when their dumps were written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Unfinished {
    /// Its number in its group.
    pub seq: i64,
    /// Its operation.
    pub operation: String,
    /// The ranks that were in it.
    pub ranks: Vec<u32>,
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
    /// Members of which no dump tells what they called in this group: those without a dump, with an unreadable one, and with
    /// one that holds neither a call nor a status of it.
    pub unknown: Vec<u32>,
    /// The first collective that some ranks had completed and others had not.
    pub unfinished: Option<Unfinished>,
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

/// Returns the state of the calls of one rank: that of the least advanced.
fn state(calls: &[&Entry]) -> Option<State> {
    calls.iter().map(|entry| entry.state).min()
}

/// Returns the collective if some ranks had completed it and others had not.
fn unfinished(seq: i64, of: &BTreeMap<u32, Vec<&Entry>>) -> Option<Unfinished> {
    let is_done = |list: &Vec<&Entry>| state(list) == Some(State::Completed);
    let inside = of.iter().filter(|(_, list)| !is_done(list));
    let ranks: Vec<u32> = inside.map(|(rank, _)| *rank).collect();
    let operation = of.values().flatten().next()?.operation.clone();
    (!ranks.is_empty() && ranks.len() < of.len()).then_some(Unfinished {
        seq,
        operation,
        ranks,
    })
}

type Calls<'j> = BTreeMap<i64, BTreeMap<u32, Vec<&'j Entry>>>;

impl Job {
    /// Joins the dumps of a job.
    ///
    /// # Errors
    ///
    /// Returns an error if the rank of a dump is unknown, or two dumps are of the same rank.
    pub fn new(dumps: Vec<RankDump>) -> Result<Self> {
        Self::beside(dumps, BTreeSet::new())
    }

    /// Same as [`Job::new`], beside dumps of other ranks that cannot be read.
    ///
    /// # Errors
    ///
    /// Same as [`Job::new`].
    pub fn beside(dumps: Vec<RankDump>, mut unreadable: BTreeSet<u32>) -> Result<Self> {
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
        unreadable.retain(|rank| !ranks.contains_key(rank));
        let mut job = Self {
            groups: Vec::new(),
            ranks,
            unreadable,
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
                    .filter(|rank| {
                        !self.ranks.contains_key(rank) && !self.unreadable.contains(rank)
                    })
                    .collect(),
                unknown: Vec::new(),
                unfinished: None,
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

    /// Returns the number of a group within the process of a rank, as its calls state it.
    fn number(&self, group: &Group, rank: u32) -> Option<i64> {
        let mut calls = self.calls_of(group, rank);
        calls.find_map(|entry| entry.group_number)
    }

    /// Returns the number of a group that all of its members with calls give it.
    fn common_number(&self, group: &Group) -> Option<i64> {
        let all = group.ranks.iter();
        let mut numbers: BTreeSet<i64> = all.filter_map(|rank| self.number(group, *rank)).collect();
        numbers.pop_first().filter(|_| numbers.is_empty())
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
        let common = self.common_number(&group);
        for rank in group
            .ranks
            .clone()
            .iter()
            .filter(|rank| self.ranks.contains_key(rank))
        {
            // A rank without calls does not state the number of the group, whose status its dump may hold all the same.
            let number = self.number(&group, *rank).or(common);
            let dump = self.ranks.get(rank);
            let status = number.and_then(|number| dump?.status.get(&number).copied());
            let known = status.unwrap_or_default();
            // Before the first collective they are -1.
            let mut last = [known.called, known.started, known.completed].map(|seq| seq.max(0));
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
            // Calls of other groups in a dump from the beginning mean that there was none of this group.
            let tells = dump.is_some_and(|dump| !dump.is_cut && !dump.entries.is_empty());
            if status.is_none() && !first.contains_key(rank) && !tells {
                group.unknown.push(*rank);
            }
            group.last.insert(*rank, last);
        }
        let without = group.ranks.iter();
        let without = without.filter(|rank| !self.ranks.contains_key(rank));
        group.unknown.extend(without);
        group.unknown.sort_unstable();
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
            if group.unfinished.is_none() {
                group.unfinished = unfinished(*seq, of);
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
        let operation = of.values().flatten().next()?.operation.clone();
        let behind = group.last.iter().filter(|(_, last)| last[0] < seq);
        let behind = behind.map(|(rank, _)| *rank);
        let missing: Vec<u32> = behind
            .filter(|rank| !group.unknown.contains(rank))
            .collect();
        // Ranks whose calls are not in their dumps, by their status.
        let others = group.last.iter().filter(|(rank, _)| !of.contains_key(rank));
        let others: Vec<(u32, [i64; 3])> = others.map(|(rank, last)| (*rank, *last)).collect();
        if of
            .values()
            .any(|list| state(list) == Some(State::Completed))
            || others.iter().any(|(_, last)| last[2] >= seq)
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
        for (rank, last) in others.iter().filter(|(_, last)| last[0] >= seq) {
            match last[1] >= seq {
                true => problem.waiting.push(*rank),
                false => problem.not_started.push(*rank),
            }
        }
        problem.waiting.sort_unstable();
        problem.not_started.sort_unstable();
        problem.missing = missing;
        problem.unknown.clone_from(&group.unknown);
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
            () if !problem.unknown.is_empty() => ProblemKind::NoDump,
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
                    false => problem.unknown.push(peer),
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
