//! Operators of the kernels of replayed graphs, from recordings of the capture.

use rustc_hash::FxHashMap;
use trace_model::align::longest_common;
use trace_model::kernel::TraceIndex;
use trace_model::{Slice, SliceId, StrId, Trace};

use crate::step_name::captured_size;

/// Share of a replay that must have the names of a capture, in the same order, for the two to be joined.
const NEARLY: (usize, usize) = (9, 10);

/// One capture: the launch calls between its begin and its end.
#[derive(Clone, Debug)]
pub(crate) struct Capture {
    /// Which of the recordings it is in.
    pub(crate) source: usize,
    /// Size of the graph, from the annotation around it.
    size: Option<u128>,
    /// The launch calls, in order.
    pub(crate) launches: Vec<SliceId>,
    /// Names of their kernels, where the calls state them.
    names: Vec<Option<String>>,
}

/// Captures of all recordings, and how replays were joined to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Captures {
    all: Vec<Capture>,
    used: Vec<u64>,
    /// Captures that fit a replay with these names.
    by_names: FxHashMap<Vec<Option<StrId>>, Found>,
    /// Replays that were joined with equal names, nearly equal ones, and not at all.
    pub(crate) counts: [u64; 3],
}

/// Which captures fit a list of names.
#[derive(Clone, Debug)]
enum Found {
    Equal(Vec<usize>),
    /// Captures that have equally much in common with it, each with the pairs of places.
    Nearly(Vec<(usize, Vec<(usize, usize)>)>),
    Nothing,
}

/// A replay, joined: by place of its work the launch call within the capture.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub(crate) capture: usize,
    pub(crate) launches: Vec<Option<SliceId>>,
}

/// The captures of one recording, in order.
pub(crate) fn captures_of(index: &TraceIndex<'_>, source: usize) -> Vec<Capture> {
    let trace = index.trace();
    let found = launch_stacks::captures(index, source).into_iter();
    let kept = found.filter(|capture| !capture.nodes.is_empty());
    kept.map(|capture| {
        let first = capture.nodes.first().map(|node| trace.slice(node.launch));
        let mut around = first.into_iter().flat_map(Slice::ancestors);
        Capture {
            source,
            size: around.find_map(|slice| captured_size(slice.name()?)),
            launches: capture.nodes.iter().map(|node| node.launch).collect(),
            names: capture.nodes.into_iter().map(|node| node.kernel).collect(),
        }
    })
    .collect()
}

/// Are so many of `all` names enough to join a replay?
fn is_enough(common: usize, all: usize) -> bool {
    common * NEARLY.1 >= all * NEARLY.0
}

/// How many names two lists have in common, whatever their order.
fn in_common(a: &[Option<&str>], b: &[Option<&str>]) -> usize {
    let mut counts: FxHashMap<Option<&str>, usize> = FxHashMap::default();
    for name in a {
        *counts.entry(*name).or_default() += 1;
    }
    let mut common = 0;
    for name in b {
        if let Some(left) = counts.get_mut(name).filter(|left| **left > 0) {
            *left -= 1;
            common += 1;
        }
    }
    common
}

impl Captures {
    pub(crate) fn new(all: Vec<Capture>) -> Self {
        Self {
            used: vec![0; all.len()],
            all,
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Capture> {
        self.all.get(at)
    }

    /// Number of captures.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Joins a replay, whose work has these names in order of start, in a step of `tokens` tokens.
    ///
    /// Cost: replays with the names of an earlier one are looked up.
    pub(crate) fn join(
        &mut self,
        trace: &Trace,
        names: &[Option<StrId>],
        tokens: Option<u128>,
    ) -> Option<Joined> {
        if !self.by_names.contains_key(names) {
            let texts = names
                .iter()
                .map(|name| name.map_or("", |id| trace.text(id)));
            let found = self.find(&texts.collect::<Vec<&str>>());
            self.by_names.insert(names.to_vec(), found);
        }
        let joined = match self.by_names.get(names)? {
            Found::Nothing => None,
            Found::Equal(fitting) => {
                let best = self.best(fitting, tokens)?;
                let launches = self.all.get(best)?.launches.iter();
                Some(Joined {
                    capture: best,
                    launches: launches.map(|launch| Some(*launch)).collect(),
                })
            }
            Found::Nearly(fitting) => {
                let all: Vec<usize> = fitting.iter().map(|(at, _)| *at).collect();
                let best = self.best(&all, tokens)?;
                let (_, pairs) = fitting.iter().find(|(at, _)| *at == best)?;
                let own = &self.all.get(best)?.launches;
                let mut launches = vec![None; names.len()];
                for (replayed, captured) in pairs {
                    launches[*replayed] = own.get(*captured).copied();
                }
                Some(Joined {
                    capture: best,
                    launches,
                })
            }
        };
        let kind = match (&joined, self.by_names.get(names)) {
            (Some(_), Some(Found::Equal(_))) => 0,
            (Some(_), _) => 1,
            (None, _) => 2,
        };
        self.counts[kind] += 1;
        if let Some(joined) = &joined {
            self.used[joined.capture] += 1;
        }
        joined
    }

    /// The smallest size that holds the tokens; of equal ones that which was used least, then the first.
    fn best(&self, fitting: &[usize], tokens: Option<u128>) -> Option<usize> {
        let size = |at: &usize| self.all.get(*at).and_then(|capture| capture.size);
        let key = |at: &usize| {
            let holds = match (size(at), tokens) {
                (Some(size), Some(tokens)) if size >= tokens => (0, size),
                // Without a size or without tokens there is nothing to choose by.
                _ => (1, 0),
            };
            (holds, self.used.get(*at).copied(), *at)
        };
        fitting.iter().copied().min_by_key(|at| key(at))
    }

    fn find(&self, names: &[&str]) -> Found {
        let of_length = || {
            let all = self.all.iter().enumerate();
            all.filter(|(_, capture)| capture.names.len() == names.len())
        };
        let equal = of_length().filter(|(_, capture)| {
            let pairs = capture.names.iter().zip(names);
            pairs
                .into_iter()
                .all(|(own, name)| own.as_deref() == Some(*name))
        });
        let equal: Vec<usize> = equal.map(|(at, _)| at).collect();
        if !equal.is_empty() {
            return Found::Equal(equal);
        }
        // Where no call states a kernel, the number of kernels is all there is to compare.
        let unnamed = of_length().filter(|(_, c)| c.names.iter().all(Option::is_none));
        let unnamed: Vec<usize> = unnamed.map(|(at, _)| at).collect();
        if !unnamed.is_empty() {
            return Found::Equal(unnamed);
        }
        let names: Vec<Option<&str>> = names.iter().copied().map(Some).collect();
        let mut best: Vec<(usize, Vec<(usize, usize)>)> = Vec::new();
        let mut most = 1;
        for (at, capture) in self.all.iter().enumerate() {
            let captured: Vec<Option<&str>> = capture.names.iter().map(Option::as_deref).collect();
            // No subsequence is longer than what the lists have in common in any order.
            if !is_enough(in_common(&names, &captured), names.len()) {
                continue;
            }
            let pairs = longest_common(&names, &captured);
            if !is_enough(pairs.len(), names.len()) || pairs.len() < most {
                continue;
            }
            if pairs.len() > most {
                best.clear();
            }
            most = pairs.len();
            best.push((at, pairs));
        }
        match best.is_empty() {
            true => Found::Nothing,
            false => Found::Nearly(best),
        }
    }
}
