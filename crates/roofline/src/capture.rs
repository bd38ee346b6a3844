//! Operators of the kernels of replayed graphs, from recordings of the capture.

use rustc_hash::FxHashMap;
use trace_model::align::longest_common;
use trace_model::kernel::TraceIndex;
use trace_model::{Slice, SliceId, StrId, Trace};

use crate::calls::CaptureCounts;
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
    /// Place in `lists` of the captures that fit a replay with these names.
    by_names: FxHashMap<Vec<Option<StrId>>, usize>,
    lists: Vec<Found>,
    /// How replays were joined.
    pub(crate) counts: CaptureCounts,
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
    /// Captures that fit equally well and may be of another size, if any; nothing tells which of them was replayed.
    pub(crate) unsure: Option<Unsure>,
}

/// Captures among which nothing decides.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Unsure {
    /// Place of the list of names that they fit.
    list: usize,
    captures: Vec<usize>,
}

/// What the size of a graph tells about a replay.
enum Choice {
    /// These captures fit, and are known to be equally large.
    Sure(Vec<usize>),
    /// These fit, and may be of different sizes.
    Unsure(Vec<usize>),
    /// All that fit are of fewer tokens than the step has.
    TooSmall,
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
        let list = match self.by_names.get(names) {
            Some(list) => *list,
            None => {
                let texts = names
                    .iter()
                    .map(|name| name.map_or("", |id| trace.text(id)));
                let found = self.find(&texts.collect::<Vec<&str>>());
                self.by_names.insert(names.to_vec(), self.lists.len());
                self.lists.push(found);
                self.lists.len() - 1
            }
        };
        let found = self.lists.get(list)?;
        let choice = match found {
            Found::Nothing => {
                self.counts.unmatched += 1;
                return None;
            }
            Found::Equal(fitting) => self.choose(fitting, tokens),
            Found::Nearly(fitting) => {
                let all: Vec<usize> = fitting.iter().map(|(at, _)| *at).collect();
                self.choose(&all, tokens)
            }
        };
        let (captures, is_sure) = match choice {
            Choice::Sure(captures) => (captures, true),
            Choice::Unsure(captures) => (captures, false),
            Choice::TooSmall => {
                self.counts.unmatched += 1;
                self.counts.too_small += 1;
                return None;
            }
        };
        // That which was used least, then the first.
        let best = captures.iter().copied();
        let best = best.min_by_key(|at| (self.used.get(*at).copied(), *at))?;
        let launches = self.launches(list, best, names.len());
        match found {
            Found::Equal(_) => self.counts.matched += 1,
            _ => self.counts.nearly += 1,
        }
        self.counts.unsure += u64::from(!is_sure);
        self.used[best] += 1;
        Some(Joined {
            capture: best,
            launches,
            unsure: (!is_sure).then_some(Unsure { list, captures }),
        })
    }

    /// The launch calls of one capture for the work of a replay with the names of `list`, which are `count`.
    fn launches(&self, list: usize, capture: usize, count: usize) -> Vec<Option<SliceId>> {
        let Some(own) = self.all.get(capture).map(|capture| &capture.launches) else {
            return Vec::new();
        };
        match self.lists.get(list) {
            Some(Found::Equal(_)) => own.iter().copied().map(Some).collect(),
            Some(Found::Nearly(fitting)) => {
                let mut launches = vec![None; count];
                let found = fitting.iter().find(|(at, _)| *at == capture);
                for (replayed, captured) in found.map_or(&[][..], |(_, pairs)| pairs) {
                    launches[*replayed] = own.get(*captured).copied();
                }
                launches
            }
            _ => Vec::new(),
        }
    }

    /// The recordings and the launch calls of all captures among which nothing decides.
    pub(crate) fn alternatives(
        &self,
        unsure: &Unsure,
        count: usize,
    ) -> Vec<(usize, Vec<Option<SliceId>>)> {
        let all = unsure.captures.iter().filter_map(|capture| {
            let source = self.all.get(*capture)?.source;
            Some((source, self.launches(unsure.list, *capture, count)))
        });
        all.collect()
    }

    /// Those of the captures that fit which hold the tokens of the step: of the smallest size that does; those without size if
    /// there is none.
    fn choose(&self, fitting: &[usize], tokens: Option<u128>) -> Choice {
        let size = |at: usize| self.all.get(at).and_then(|capture| capture.size);
        let with = |wanted: Option<u128>| -> Vec<usize> {
            let all = fitting.iter().copied();
            all.filter(|at| size(*at) == wanted).collect()
        };
        let sizes = || fitting.iter().map(|at| size(*at));
        let Some(tokens) = tokens else {
            let first = sizes().next().flatten();
            let alike = first.is_some() && sizes().all(|size| size == first);
            return match alike || fitting.len() == 1 {
                true => Choice::Sure(fitting.to_vec()),
                false => Choice::Unsure(fitting.to_vec()),
            };
        };
        let smallest = sizes().flatten().filter(|size| *size >= tokens).min();
        match (smallest, with(None)) {
            (Some(_), _) => Choice::Sure(with(smallest)),
            (None, unsized_ones) => match unsized_ones.len() {
                0 => Choice::TooSmall,
                1 => Choice::Sure(unsized_ones),
                _ => Choice::Unsure(unsized_ones),
            },
        }
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
