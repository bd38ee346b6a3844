//! Matches the collective kernels of different ranks.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rustc_hash::FxBuildHasher;
use serde::Serialize;
use trace_model::align::kernel_stem;
use trace_model::kernel::CommLibrary;
use trace_model::kernel::collective::{Collective, CollectiveOp};
use trace_model::{DeviceId, StreamId};

use crate::sequence::{Beat, Token, align};

/// A collective kernel of one rank.
#[derive(Clone, Copy, Debug)]
pub struct RankRun<'a> {
    /// Name of the kernel.
    pub kernel: &'a str,
    /// The collective, as far as it is known.
    pub what: Option<&'a Collective>,
    /// Sequence number within the group.
    pub seq: Option<i64>,
    /// Device on which it ran.
    pub device: DeviceId,
    /// Stream on which it ran.
    pub stream: StreamId,
    /// Library of the kernel.
    pub library: CommLibrary,
    /// Sender and receiver, if it is one side of a message between two ranks.
    pub pair: Option<(u32, u32)>,
    /// End on the clock of the rank, in nanoseconds, base time included.
    pub end_ns: i64,
}

/// Key of a group: collectives that only wait for each other within it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[non_exhaustive]
pub struct GroupKey {
    /// Name of the process group; `None` if no rank knows it.
    pub name: Option<String>,
    /// Its members as the producer wrote them.
    pub ranks: Option<String>,
    /// Library, if the name is unknown.
    pub library: Option<CommLibrary>,
    /// Stream, if the name is unknown and every rank runs the library on the same streams: a
    /// communicator has a stream of its own.
    pub stream: Option<StreamId>,
    /// Sender and receiver of the messages between two ranks of the group: a pair waits for none of
    /// the others.
    pub pair: Option<(u32, u32)>,
}

impl GroupKey {
    /// Returns the label of the group in reports.
    pub fn label(&self) -> String {
        match self.pair {
            Some((from, to)) => format!("{} {from}>{to}", self.label_of_all()),
            None => self.label_of_all(),
        }
    }

    fn label_of_all(&self) -> String {
        match (&self.name, self.library, self.stream) {
            (Some(name), ..) => name.clone(),
            (None, Some(library), Some(stream)) => {
                format!("({}, stream {})", library.name(), stream.0)
            }
            (None, Some(library), None) => format!("({})", library.name()),
            (None, None, _) => "(unknown)".to_owned(),
        }
    }

    /// Returns the members, if known.
    pub fn members(&self) -> Option<Vec<u32>> {
        if let Some((from, to)) = self.pair {
            return Some(vec![from, to]);
        }
        let text = self.ranks.as_deref()?;
        let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
        inner.split(',').map(|r| r.trim().parse().ok()).collect()
    }
}

/// A group with the ranks found in it.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// Key of the group.
    pub key: GroupKey,
    /// Indices of the ranks with runs in it, ascending.
    pub members: Vec<usize>,
    /// Ranks whose runs could be aligned in more than one way.
    pub ambiguous: Vec<usize>,
}

/// A collective: its kernels on the ranks that recorded it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Matched {
    /// Index of its group.
    pub group: usize,
    /// Pairs (index of the rank, index of the run in it), ascending.
    pub runs: Vec<(usize, usize)>,
}

/// Matched collectives of several ranks.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Matching {
    /// The groups in ascending order of their keys.
    pub groups: Vec<Group>,
    /// Collectives, those of one group adjacent and in ascending time; includes those that only one
    /// rank recorded.
    pub collectives: Vec<Matched>,
}

/// Returns `true` for collectives that end at the same time on all ranks: every rank needs data of
/// every other.
pub fn is_synchronising(op: Option<CollectiveOp>) -> bool {
    matches!(
        op,
        Some(
            CollectiveOp::AllReduce
                | CollectiveOp::AllGather
                | CollectiveOp::ReduceScatter
                | CollectiveOp::AllToAll
                | CollectiveOp::Barrier
        )
    )
}

/// Returns the group that a run itself states.
fn stated(run: &RankRun<'_>) -> Option<GroupKey> {
    let group = run.what.and_then(|what| what.group.clone());
    if group.is_none() && run.pair.is_none() {
        return None;
    }
    Some(GroupKey {
        library: group.is_none().then_some(run.library),
        name: group,
        ranks: run.what.and_then(|what| what.ranks.clone()),
        stream: None,
        pair: run.pair,
    })
}

/// Returns the group of each run. A communicator has a stream of its own, so runs without metadata
/// (recorded without their launch) belong to the group of their stream if all others of the same
/// library there agree.
fn groups_of(runs: &[RankRun<'_>]) -> Vec<GroupKey> {
    let stated: Vec<Option<GroupKey>> = runs.iter().map(stated).collect();
    let mut by_stream: BTreeMap<_, Option<&GroupKey>> = BTreeMap::new();
    for (run, key) in runs.iter().zip(&stated) {
        if let Some(key) = key {
            let place = (run.device, run.stream, run.library);
            by_stream
                .entry(place)
                .and_modify(|known| {
                    if *known != Some(key) {
                        *known = None;
                    }
                })
                .or_insert(Some(key));
        }
    }
    runs.iter()
        .zip(&stated)
        .map(|(run, key)| {
            let library = run.library;
            let of_stream = || {
                let found = by_stream.get(&(run.device, run.stream, library));
                found.copied().flatten().cloned()
            };
            key.clone().or_else(of_stream).unwrap_or(GroupKey {
                name: None,
                ranks: None,
                library: Some(library),
                stream: None,
                pair: None,
            })
        })
        .collect()
}

/// Separates groups without a name by their streams, if all ranks have the same ones: otherwise two
/// communicators that interleave differently on each rank would form one sequence.
fn split_by_stream(ranks: &[Vec<RankRun<'_>>], keys: &mut [Vec<GroupKey>]) {
    // Streams on the device for each unnamed group and rank.
    let mut places: BTreeMap<GroupKey, BTreeMap<usize, BTreeSet<(DeviceId, StreamId)>>> =
        BTreeMap::new();
    for (member, (runs, keys)) in ranks.iter().zip(keys.iter()).enumerate() {
        for (run, key) in runs.iter().zip(keys) {
            if key.name.is_none() && key.pair.is_none() {
                let of_key = places.entry(key.clone()).or_default();
                let of_rank = of_key.entry(member).or_default();
                of_rank.insert((run.device, run.stream));
            }
        }
    }
    let streams = |places: &BTreeSet<(DeviceId, StreamId)>| -> Vec<StreamId> {
        places.iter().map(|place| place.1).collect()
    };
    let is_split = |ranks: &BTreeMap<usize, BTreeSet<(DeviceId, StreamId)>>| {
        let one_device = |places: &BTreeSet<(DeviceId, StreamId)>| {
            places.first().map(|p| p.0) == places.last().map(|p| p.0)
        };
        let first = ranks.values().next().map(streams).unwrap_or_default();
        ranks.len() > 1
            && first.len() > 1
            && ranks.values().all(|p| one_device(p) && streams(p) == first)
    };
    places.retain(|_, ranks| is_split(ranks));
    for (runs, keys) in ranks.iter().zip(keys) {
        for (run, key) in runs.iter().zip(keys) {
            if places.contains_key(key) {
                key.stream = Some(run.stream);
            }
        }
    }
}

/// Numbers kernel names without templates, the same for all ranks.
#[derive(Default)]
struct Stems(HashMap<String, u32, FxBuildHasher>);

impl Stems {
    fn number(&mut self, name: &str) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(kernel_stem(name)).or_insert(next)
    }
}

fn token(run: &RankRun<'_>, stem: u32) -> Token {
    let what = run.what;
    Token {
        op: what.and_then(|w| w.op).and_then(|op| {
            // Both sides of a message are one.
            let op = run.pair.map_or(op, |_| CollectiveOp::SendRecv);
            let place = CollectiveOp::ALL.iter().position(|o| *o == op)?;
            u8::try_from(place).ok()
        }),
        // For these operations each rank may have a different input size.
        elements: what
            // A receiver may state the size as that of its output.
            .filter(|_| run.pair.is_none())
            .filter(|w| !matches!(w.op, Some(CollectiveOp::AllToAll | CollectiveOp::SendRecv)))
            .and_then(|w| w.elements_in)
            .or_else(|| run.pair.and(what)?.bytes),
        seq: None,
        stem,
    }
}

/// Joins the runs of different ranks: within a group by sequence number where there are any, else
/// by rhythm (the times between ends), so that ranks that miss some of them at the beginning, in the
/// middle or at the end are still matched. Operation and size must agree where both are known.
///
/// Cost: for each group and rank n log n in its runs.
pub fn match_ranks(ranks: &[Vec<RankRun<'_>>]) -> Matching {
    let mut stems = Stems::default();
    // By group: for each rank the indices of its runs.
    let mut by_group: BTreeMap<GroupKey, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    let mut keys: Vec<Vec<GroupKey>> = ranks.iter().map(|runs| groups_of(runs)).collect();
    split_by_stream(ranks, &mut keys);
    for (member, keys) in keys.into_iter().enumerate() {
        for (place, key) in keys.into_iter().enumerate() {
            let places = by_group.entry(key).or_default().entry(member).or_default();
            places.push(place);
        }
    }
    let mut out = Matching::default();
    for (key, members) in by_group {
        let group = out.groups.len();
        let mut lists: Vec<(usize, Vec<(usize, Beat)>)> = members
            .iter()
            .filter_map(|(member, places)| {
                let runs = ranks.get(*member)?;
                Some((*member, beats(runs, places, &mut stems)))
            })
            .collect();
        if key.pair.is_some() && !are_numbered_alike(&lists) {
            let all = lists.iter_mut().flat_map(|(_, list)| list);
            all.for_each(|(_, beat)| beat.token.seq = None);
        }
        let (collectives, ambiguous) = progressive(&lists);
        out.groups.push(Group {
            key,
            members: members.into_keys().collect(),
            ambiguous,
        });
        out.collectives
            .extend(collectives.into_iter().map(|runs| Matched { group, runs }));
    }
    out
}

/// Returns `true` if the sequence numbers of a pair's messages are the same on both sides where both
/// are recorded. Each rank counts its messages with all others, so that the third message from one
/// to the other may be its fifth.
fn are_numbered_alike(lists: &[(usize, Vec<(usize, Beat)>)]) -> bool {
    let numbers = |list: &[(usize, Beat)]| -> Option<BTreeSet<i64>> {
        let each = list.iter().map(|(_, beat)| Some(beat.token.seq?.0));
        each.collect()
    };
    let [(_, a), (_, b)] = lists else {
        return true;
    };
    let (Some(a), Some(b)) = (numbers(a), numbers(b)) else {
        return true;
    };
    let (Some(first), Some(last)) = (a.first().max(b.first()), a.last().min(b.last())) else {
        return true;
    };
    first <= last && a.range(first..=last).eq(b.range(first..=last))
}

/// Returns the ends of runs, ascending, with their indices.
fn beats(runs: &[RankRun<'_>], places: &[usize], stems: &mut Stems) -> Vec<(usize, Beat)> {
    let mut seen: HashMap<(i64, Option<u8>), u32, FxBuildHasher> = HashMap::default();
    let mut list: Vec<(usize, Beat)> = places
        .iter()
        .filter_map(|place| {
            let run = runs.get(*place)?;
            let mut token = token(run, stems.number(run.kernel));
            token.seq = run.seq.map(|seq| {
                let before = seen.entry((seq, token.op)).or_default();
                *before += 1;
                (seq, *before)
            });
            Some((
                *place,
                Beat {
                    end_ns: run.end_ns,
                    token,
                },
            ))
        })
        .collect();
    list.sort_by_key(|b| (b.1.end_ns, b.0));
    list
}

struct Column {
    /// End on the clock of the first rank.
    beat: Beat,
    runs: Vec<(usize, usize)>,
}

/// Aligns one rank after the other with all before it, those with most runs first; a run without a
/// partner becomes a collective of its own, at its time on the first rank's clock.
fn progressive(lists: &[(usize, Vec<(usize, Beat)>)]) -> (Vec<Vec<(usize, usize)>>, Vec<usize>) {
    let mut order: Vec<usize> = (0..lists.len()).collect();
    order.sort_by_key(|i| {
        (
            std::cmp::Reverse(lists.get(*i).map_or(0, |l| l.1.len())),
            *i,
        )
    });
    let mut columns: Vec<Column> = Vec::new();
    // Collectives of ranks that share nothing with the others: their place on the common clock is
    // unknown.
    let mut apart: Vec<Column> = Vec::new();
    let mut ambiguous = Vec::new();
    for at in order {
        let Some((member, list)) = lists.get(at) else {
            continue;
        };
        let a: Vec<Beat> = columns.iter().map(|c| c.beat).collect();
        let b: Vec<Beat> = list.iter().map(|l| l.1).collect();
        let found = align(&a, &b);
        if found.ambiguous {
            ambiguous.push(*member);
        }
        let mut partner: Vec<Option<usize>> = vec![None; b.len()];
        for (i, j) in &found.pairs {
            if let Some(slot) = partner.get_mut(*j) {
                *slot = Some(*i);
            }
        }
        // Offsets of pairs, to convert runs without a partner to the first rank's clock.
        let offsets: Vec<(usize, i64)> = found
            .pairs
            .iter()
            .filter_map(|(i, j)| Some((*j, b.get(*j)?.end_ns.saturating_sub(a.get(*i)?.end_ns))))
            .collect();
        for (j, (place, beat)) in list.iter().enumerate() {
            match partner.get(j).copied().flatten() {
                Some(i) => {
                    if let Some(column) = columns.get_mut(i) {
                        column.runs.push((*member, *place));
                        let token = &mut column.beat.token;
                        token.op = token.op.or(beat.token.op);
                        token.elements = token.elements.or(beat.token.elements);
                        token.seq = token.seq.or(beat.token.seq);
                    }
                }
                None => {
                    let next = offsets.partition_point(|o| o.0 < j);
                    let near = offsets.get(next).or_else(|| offsets.last());
                    let end_ns = beat.end_ns.saturating_sub(near.map_or(0, |o| o.1));
                    let alone = offsets.is_empty() && !a.is_empty();
                    let place_for = if alone { &mut apart } else { &mut columns };
                    place_for.push(Column {
                        beat: Beat { end_ns, ..*beat },
                        runs: vec![(*member, *place)],
                    });
                }
            }
        }
        columns.sort_by_key(|c| c.beat.end_ns);
    }
    columns.append(&mut apart);
    for column in &mut columns {
        column.runs.sort_unstable();
    }
    ambiguous.sort_unstable();
    (columns.into_iter().map(|c| c.runs).collect(), ambiguous)
}
