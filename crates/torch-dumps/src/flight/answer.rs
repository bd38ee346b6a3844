//! The answer to which rank did not arrive, in words.

use report::human;

use super::{Entry, Group, Job, Problem, ProblemKind, StackId};

/// Returns ranks as text: `0-3, 7`.
pub fn ranks_text(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*rank) => *last = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let one = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let runs: Vec<String> = runs.iter().map(one).collect();
    runs.join(", ")
}

fn ranks_are(ranks: &[u32]) -> String {
    match ranks {
        [one] => format!("rank {one}"),
        several => format!("ranks {}", ranks_text(several)),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}", first.unwrap_or_default(), chars.as_str())
}

impl Job {
    /// Returns the group whose problem is the answer: a root, the one that was called first.
    pub fn main_problem(&self) -> Option<(&Group, &Problem)> {
        let problems = self.groups.iter();
        let problems = problems.filter_map(|group| Some((group, group.problem.as_ref()?)));
        problems.min_by_key(|(group, problem)| {
            let is_weak = matches!(problem.kind, ProblemKind::Running | ProblemKind::Queued);
            (
                !group.is_root,
                is_weak,
                problem.called_ns.unwrap_or(i64::MAX),
                problem.kind,
            )
        })
    }

    /// Returns the last call of a rank, in any group.
    fn last_call(&self, rank: u32) -> Option<&Entry> {
        self.ranks.get(&rank)?.entries.last()
    }

    pub(super) fn place(&self, rank: u32, stack: StackId) -> Option<String> {
        self.ranks.get(&rank)?.stacks.place(stack)
    }

    /// Returns the call of a collective by the first of some ranks.
    pub(super) fn call_of(&self, group: &Group, problem: &Problem) -> Option<(u32, &Entry)> {
        group.ranks.iter().find_map(|rank| {
            let is_p2p = problem.kind == ProblemKind::NoPeer;
            let mut calls = self.calls_of(group, *rank);
            let found = calls.find(|entry| entry.seq == problem.seq && entry.is_p2p() == is_p2p)?;
            Some((*rank, found))
        })
    }

    /// Returns a collective with its number, group, dtype and sizes.
    fn words(&self, group: &Group, problem: &Problem) -> String {
        let mut text = format!(
            "{} {} of group {}",
            problem.operation,
            problem.seq,
            group.label()
        );
        if let Some((_, entry)) = self.call_of(group, problem) {
            let tensors = match entry.inputs.sizes.is_empty() {
                true => &entry.outputs,
                false => &entry.inputs,
            };
            let what = [tensors.dtypes_text(), tensors.sizes_text()].join(" ");
            if !what.trim().is_empty() {
                text = format!("{text} ({})", what.trim());
            }
        }
        text
    }

    /// Returns the answer as one sentence.
    pub fn sentence(&self) -> String {
        let Some((group, problem)) = self.main_problem() else {
            return self.no_problem();
        };
        let what = self.words(group, problem);
        let others = |ranks: &[u32]| match ranks.is_empty() {
            true => String::new(),
            false => format!(
                "{} wait{} in it",
                ranks_are(ranks),
                if ranks.len() == 1 { "s" } else { "" }
            ),
        };
        if !problem.circle.is_empty() {
            return format!(
                "Deadlock: {} wait for each other in different groups, first in {what}: these ranks call the groups in \
                 different orders.",
                ranks_are(&problem.circle)
            );
        }
        let inside: Vec<u32> = {
            let mut all = [problem.waiting.clone(), problem.not_started.clone()].concat();
            all.sort_unstable();
            all
        };
        match problem.kind {
            ProblemKind::Mismatch => self.mismatch_sentence(group, problem),
            ProblemKind::NotCalled => {
                let unknown = match problem.unknown.is_empty() {
                    true => String::new(),
                    false => format!(
                        "; {}, so it is not known whether it was called there",
                        self.why_unknown(group, &problem.unknown)
                    ),
                };
                let waits = others(&inside);
                let waits = if waits.is_empty() {
                    String::new()
                } else {
                    format!("; {waits}")
                };
                let did = match problem.missing.as_slice() {
                    [rank] => self.did_last(*rank),
                    _ => String::new(),
                };
                format!(
                    "{} did not arrive: {what} was not called by {}{waits}{did}{unknown}.",
                    capital(&ranks_are(&problem.missing)),
                    if problem.missing.len() == 1 {
                        "it"
                    } else {
                        "them"
                    }
                )
            }
            ProblemKind::NoPeer if problem.missing.is_empty() => format!(
                "{} in {what}; {}, so it is not known whether it was called there.",
                capital(&waits_of(&problem.waiting)),
                self.why_unknown(group, &problem.unknown)
            ),
            ProblemKind::NoPeer => format!(
                "{} did not arrive: {} in {what}, whose counterpart was not called{}.",
                capital(&ranks_are(&problem.missing)),
                waits_of(&problem.waiting),
                match problem.missing.as_slice() {
                    [rank] => self.did_last(*rank),
                    _ => String::new(),
                }
            ),
            ProblemKind::NoDump => format!(
                "All other ranks called {what} and none completed it; {}: look there first, the process may have ended or hang.",
                self.why_unknown(group, &problem.unknown)
            ),
            ProblemKind::NotStarted => format!(
                "The GPU of {} did not arrive: its host called {what}, the GPU had not begun it, while {} in it: earlier work \
                 on its stream does not end.",
                ranks_are(&problem.not_started),
                waits_of(&problem.waiting)
            ),
            ProblemKind::Queued => format!(
                "All {} ranks called {what}, and no GPU had begun it when the dumps were written: earlier work keeps the GPUs busy.",
                group.ranks.len()
            ),
            ProblemKind::Running => format!(
                "All {} ranks arrived: {what} ran on every GPU when the dumps were written, so no rank is late; if it hangs, \
                 look at the network (NCCL_DEBUG=INFO).",
                group.ranks.len()
            ),
        }
    }

    /// Returns why it is not known what some ranks called, as part of a sentence.
    fn why_unknown(&self, group: &Group, ranks: &[u32]) -> String {
        let of = |wanted: &dyn Fn(&u32) -> bool| -> Vec<u32> {
            ranks.iter().copied().filter(|rank| wanted(rank)).collect()
        };
        let is_unreadable = |rank: &u32| self.unreadable.contains(rank);
        let is_silent = |rank: &u32| self.ranks.contains_key(rank);
        let none = of(&|rank| !is_unreadable(rank) && !is_silent(rank));
        let (unreadable, silent) = (of(&is_unreadable), of(&is_silent));
        let mut parts = Vec::new();
        if !none.is_empty() {
            parts.push(format!("{} left no dump", ranks_are(&none)));
        }
        if !unreadable.is_empty() {
            parts.push(format!("{} cannot be read", dumps_of(&unreadable)));
        }
        if let [first, ..] = silent.as_slice() {
            let is_empty = self
                .ranks
                .get(first)
                .is_none_or(|dump| dump.entries.is_empty());
            let what = match is_empty {
                true => "no call and no status".to_owned(),
                false => format!("neither a call nor the status of group {}", group.name),
            };
            let s = if silent.len() == 1 { "s" } else { "" };
            parts.push(format!("{} hold{s} {what}", dumps_of(&silent)));
        }
        parts.join(", ")
    }

    /// Returns what a rank called last, as part of a sentence.
    fn did_last(&self, rank: u32) -> String {
        let Some(entry) = self.last_call(rank) else {
            return format!("; the dump of rank {rank} holds no call");
        };
        let place = self.place(rank, entry.stack);
        let place = place.map_or(String::new(), |place| format!(", in {place}"));
        format!(
            "; the last call of rank {rank} is {} {} of group {} ({}){place}",
            entry.operation,
            entry.seq,
            entry.group,
            entry.state.name()
        )
    }

    fn mismatch_sentence(&self, group: &Group, problem: &Problem) -> String {
        let Some((seq, how, ranks)) = &group.mismatch else {
            return String::new();
        };
        let side = |rank: u32| {
            let mut calls = self.calls_of(group, rank);
            let entry = calls.find(|entry| entry.seq == *seq && !entry.is_p2p())?;
            let sizes = format!(
                "{} -> {}",
                entry.inputs.sizes_text(),
                entry.outputs.sizes_text()
            );
            let place = self.place(rank, entry.stack);
            let place = place.map_or(String::new(), |place| format!(" in {place}"));
            Some(format!(
                "rank {rank} called {} ({} {sizes}){place}",
                entry.operation,
                entry.inputs.dtypes_text()
            ))
        };
        let other = group.ranks.iter().find(|rank| !ranks.contains(rank));
        let other = other.or_else(|| ranks.get(1));
        let sides = [ranks.first(), other]
            .into_iter()
            .flatten()
            .filter_map(|rank| side(*rank));
        let sides: Vec<String> = sides.collect();
        format!(
            "The calls of collective {} of group {} differ in {} on {}, so it cannot complete: {}.",
            problem.seq,
            group.label(),
            how.name(),
            ranks_are(ranks),
            sides.join(", ")
        )
    }

    fn no_problem(&self) -> String {
        let calls: usize = self.ranks.values().map(|dump| dump.entries.len()).sum();
        let calls = human::count(calls as u64);
        let mut missing: Vec<u32> = self
            .groups
            .iter()
            .flat_map(|group| group.without_dump.clone())
            .collect();
        missing.sort_unstable();
        missing.dedup();
        let dumps = match self.ranks.len() {
            1 => "1 dump".to_owned(),
            n => format!("{n} dumps"),
        };
        let unreadable: Vec<u32> = self.unreadable.iter().copied().collect();
        let mut text = match missing.is_empty() && unreadable.is_empty() {
            true => format!(
                "No rank is missing: all collectives in {dumps} ({calls} calls) completed on some rank"
            ),
            false => format!("All collectives in {dumps} ({calls} calls) completed on some rank"),
        };
        if !missing.is_empty() {
            text = format!("{text}; {} left no dump", ranks_are(&missing));
        }
        if !unreadable.is_empty() {
            text = format!("{text}; {} cannot be read", dumps_of(&unreadable));
        }
        if let Some(inside) = self.groups.iter().find_map(unfinished_text) {
            text = format!("{text}; {inside}");
        }
        format!("{text}.")
    }

    /// Returns what else to know, each with a label.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let main = self
            .main_problem()
            .map(|(group, _)| (&group.name, &group.ranks));
        for group in &self.groups {
            let is_main = main == Some((&group.name, &group.ranks));
            if let Some((seq, how, ranks)) = &group.mismatch
                && !(is_main
                    && group
                        .problem
                        .as_ref()
                        .is_some_and(|p| p.kind == ProblemKind::Mismatch))
            {
                lines.push((
                    "mismatch",
                    format!(
                        "collective {seq} of group {} differs in {} on {}",
                        group.label(),
                        how.name(),
                        ranks_are(ranks)
                    ),
                ));
            }
            if let Some(problem) = group
                .problem
                .as_ref()
                .filter(|_| !is_main && !group.is_root)
            {
                lines.push((
                    "follows",
                    format!(
                        "{} waits for {}, which wait in other groups",
                        self.words(group, problem),
                        ranks_are(problem.blamed())
                    ),
                ));
            }
        }
        if main.is_some() {
            let unfinished = self.groups.iter().filter_map(unfinished_text);
            lines.extend(unfinished.map(|text| ("not completed", text)));
            let unreadable: Vec<u32> = self.unreadable.iter().copied().collect();
            if !unreadable.is_empty() {
                let they = if unreadable.len() == 1 { "it" } else { "they" };
                let text = format!("{}: what {they} called is not known", dumps_of(&unreadable));
                lines.push(("unreadable", text));
            }
        }
        let doubtful = self.ranks.iter().filter(|(_, dump)| dump.is_doubtful());
        let doubtful: Vec<u32> = doubtful.map(|(rank, _)| *rank).collect();
        if !doubtful.is_empty() {
            lines.push((
                "ranks",
                format!(
                    "the dumps state other members than {}, the numbers in the names of the files: ranks here are those numbers",
                    ranks_text(&doubtful)
                ),
            ));
        }
        let cut = self.ranks.values().filter(|dump| dump.is_cut).count();
        if cut > 0 {
            lines.push((
                "cut",
                format!(
                    "{cut} of {} dumps begin in the middle: older calls were overwritten (TORCH_NCCL_TRACE_BUFFER_SIZE)",
                    self.ranks.len()
                ),
            ));
        }
        let skipped: u64 = self.ranks.values().map(|dump| dump.skipped).sum();
        if skipped > 0 {
            let skipped = human::count(skipped);
            lines.push((
                "left out",
                format!("{skipped} calls without name, number or state"),
            ));
        }
        lines
    }
}

fn dumps_of(ranks: &[u32]) -> String {
    let s = if ranks.len() == 1 { "" } else { "s" };
    format!("the dump{s} of {}", ranks_are(ranks))
}

/// Returns the ranks of a group that were in a collective that others had completed.
fn unfinished_text(group: &Group) -> Option<String> {
    let inside = group.unfinished.as_ref()?;
    let (was, its) = match inside.ranks.len() {
        1 => ("was", "its dump was"),
        _ => ("were", "their dumps were"),
    };
    Some(format!(
        "{} {was} still in {} {} of group {}, which others had completed, when {its} written: if all dumps are of one moment, \
         look at that GPU and its network",
        ranks_are(&inside.ranks),
        inside.operation,
        inside.seq,
        group.label()
    ))
}

fn waits_of(ranks: &[u32]) -> String {
    let s = if ranks.len() == 1 { "s" } else { "" };
    format!("{} wait{s}", ranks_are(ranks))
}
