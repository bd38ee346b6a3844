//! Series of values by cycle, one for each thing that may be to blame.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use trace_model::callstack::without_addresses;

use super::{Compared, Evidence, Options, Side, ranks};
use crate::analysis::Analysis;
use crate::num::span;
use crate::statistics::{adjusted, difference, p_value};
use crate::timeline::Kind;

/// The recordings of one side and the ranks in them.
pub(super) struct Runs<'a> {
    pub(super) list: Vec<&'a Analysis>,
    /// By recording and process: its rank.
    places: Vec<FxHashMap<u32, usize>>,
    /// How many there are.
    pub(super) ranks: usize,
}

impl<'a> Runs<'a> {
    pub(super) fn new(list: &[&'a Analysis]) -> Self {
        let own: Vec<Vec<u32>> = list.iter().map(|run| ranks(run)).collect();
        let spans: Vec<Option<(i64, i64)>> = list
            .iter()
            .map(|run| Some((run.cycles.first()?.start_ns, run.cycles.last()?.end_ns)))
            .collect();
        // Recordings of one time are of one run: more than half of the shorter is common.
        let at_once = spans.windows(2).all(|w| match (w[0], w[1]) {
            (Some(x), Some(y)) => {
                let common = x.1.min(y.1) - x.0.max(y.0);
                common > (x.1 - x.0).min(y.1 - y.0) / 2
            }
            _ => false,
        });
        // Recordings of one process each that state their ranks have these, in whatever order they come.
        let stated: Vec<usize> = list
            .iter()
            .zip(&own)
            .filter(|(_, processes)| processes.len() == 1)
            .filter_map(|(run, _)| run.rank.map(|rank| rank as usize))
            .collect();
        let mut distinct = stated.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if list.len() > 1 && at_once && distinct.len() == list.len() {
            let each = own.iter().zip(&stated);
            let of_each = |(processes, rank): (&Vec<u32>, &usize)| {
                processes.iter().map(|&p| (p, *rank)).collect()
            };
            return Self {
                places: each.map(of_each).collect(),
                ranks: distinct.last().map_or(0, |most| most + 1),
                list: list.to_vec(),
            };
        }
        let mut before = 0;
        let mut places = Vec::with_capacity(list.len());
        let mut most = 0;
        for processes in &own {
            let from = if at_once { before } else { 0 };
            let each = processes.iter().enumerate();
            places.push(each.map(|(i, &p)| (p, from + i)).collect());
            before += processes.len();
            most = most.max(from + processes.len());
        }
        Self {
            list: list.to_vec(),
            places,
            ranks: most,
        }
    }

    /// Has each recording ranks of its own?
    fn are_apart(&self) -> bool {
        let Some((first, others)) = self.places.split_first() else {
            return false;
        };
        let shares = |x: &FxHashMap<u32, usize>| x.values().any(|v| first.values().any(|w| v == w));
        !others.is_empty() && !others.iter().any(shares)
    }

    /// Is this rank in this recording?
    fn has(&self, recording: usize, rank: usize) -> bool {
        let places = self.places.get(recording);
        places.is_some_and(|p| p.values().any(|&r| r == rank))
    }
}

/// One hypothesis: a series of values per cycle on either side.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) rank: usize,
    pub(super) device: i64,
    pub(super) normal: Vec<f64>,
    pub(super) abnormal: Vec<f64>,
    pub(super) evidence: Vec<Evidence>,
    pub(super) effect: (f64, f64, f64),
    pub(super) adjusted: f64,
}

impl Series {
    /// Does it stand for time of its own? Others wait for something else, or contain it.
    pub(super) fn may_be_blamed(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Sync | Kind::OnCpu | Kind::Annotation | Kind::Other
        )
    }

    pub(super) fn is_slower(&self, options: &Options, length: f64) -> bool {
        self.adjusted <= options.alpha && self.effect.0 >= options.least_share * length
    }
}

/// Every function of either side as a series, tested; [`adjust()`] is still to be done.
pub(super) fn hypotheses(a: &Side<'_>, b: &Side<'_>) -> Vec<Series> {
    type Key<'n> = (Cow<'n, str>, Kind, usize, i64);
    let mut index: FxHashMap<Key<'_>, usize> = FxHashMap::default();
    let mut list: Vec<Series> = Vec::new();
    let several = a.runs.ranks.max(b.runs.ranks) > 1;
    for (side, is_normal) in [(a, true), (b, false)] {
        // By recording and cycle: the place in the series.
        let mut place: Vec<Vec<usize>> = side
            .runs
            .list
            .iter()
            .map(|run| vec![usize::MAX; run.cycles.len()])
            .collect();
        for (i, &(r, c)) in side.cycles.iter().enumerate() {
            place[r][c as usize] = i;
        }
        for (r, run) in side.runs.list.iter().enumerate() {
            for (function, f) in run.functions.iter().enumerate() {
                let rank = side.runs.places[r].get(&f.process).copied().unwrap_or(0);
                let device = if several || !f.kind.is_device() {
                    -1
                } else {
                    f.device
                };
                let name = without_addresses(&f.name);
                let key = (name.clone(), f.kind, rank, device);
                let at = *index.entry(key).or_insert_with(|| {
                    list.push(Series {
                        name: name.into_owned(),
                        kind: f.kind,
                        rank,
                        device: f.device,
                        normal: vec![0.0; a.cycles.len()],
                        abnormal: vec![0.0; b.cycles.len()],
                        evidence: Vec::new(),
                        effect: (0.0, 0.0, 0.0),
                        adjusted: 1.0,
                    });
                    list.len() - 1
                });
                let one = &mut list[at];
                let mut best: Vec<(i64, Evidence)> = Vec::new();
                for cell in &f.cells {
                    let Some(&p) = place[r]
                        .get(cell.cycle as usize)
                        .filter(|p| **p != usize::MAX)
                    else {
                        continue;
                    };
                    let value = span(cell.self_ns) * side.scale[p];
                    if is_normal {
                        one.normal[p] += value;
                    } else {
                        one.abnormal[p] += value;
                        best.push((
                            cell.longest_ns,
                            Evidence {
                                slice: cell.longest,
                                cycle: cell.cycle,
                                run: r,
                                function,
                                at_ns: cell.longest_at,
                            },
                        ));
                    }
                }
                best.sort_by_key(|e| (std::cmp::Reverse(e.0), e.1.slice));
                one.evidence.extend(best.into_iter().take(3).map(|e| e.1));
            }
        }
    }
    keep_to_own_runs(&mut list, a, true);
    keep_to_own_runs(&mut list, b, false);
    for s in &mut list {
        s.effect = difference(&s.normal, &s.abnormal);
        s.adjusted = p_value(&s.normal, &s.abnormal);
    }
    list
}

/// Adjusts the probabilities of all phases for their number, together.
pub(super) fn adjust(phases: &mut [Compared<'_>]) {
    let all = |phases: &[Compared<'_>]| -> Vec<f64> {
        let series = phases.iter().flat_map(|p| &p.series);
        series.map(|s| s.adjusted).collect()
    };
    let found = adjusted(&all(phases));
    let series = phases.iter_mut().flat_map(|p| &mut p.series);
    for (s, q) in series.zip(found) {
        s.adjusted = q;
    }
}

/// Ranks in files of their own: the cycles of the other files say nothing of a rank.
fn keep_to_own_runs(list: &mut [Series], side: &Side<'_>, is_normal: bool) {
    if !side.runs.are_apart() {
        return;
    }
    for s in list {
        let values = if is_normal {
            &mut s.normal
        } else {
            &mut s.abnormal
        };
        let mut own = side.cycles.iter().map(|&(r, _)| side.runs.has(r, s.rank));
        values.retain(|_| own.next().unwrap_or(true));
    }
}

/// The cycles that the values of a rank are of: recording and number.
pub(super) fn cycles_of(side: &Side<'_>, rank: usize) -> Vec<(usize, u32)> {
    let apart = side.runs.are_apart();
    let each = side.cycles.iter().copied();
    each.filter(|&(r, _)| !apart || side.runs.has(r, rank))
        .collect()
}

/// A rank on which at least two things are slower and whose work grew three times as much as that
/// of any other.
pub(super) fn late_rank(
    series: &[Series],
    options: &Options,
    length: f64,
) -> Option<(usize, (f64, f64, f64))> {
    let ranks = series
        .iter()
        .filter(|s| s.kind.is_device())
        .map(|s| s.rank)
        .max()?
        + 1;
    if ranks < 2 {
        return None;
    }
    let mut growth = vec![(0.0, 0.0, 0.0); ranks];
    let mut count = vec![0; ranks];
    for s in series {
        let own = matches!(
            s.kind,
            Kind::Compute | Kind::Copy | Kind::Python | Kind::Op | Kind::Overhead
        );
        if own && s.is_slower(options, length) {
            let g: &mut (f64, f64, f64) = &mut growth[s.rank];
            g.0 += s.effect.0;
            g.1 += s.effect.1;
            g.2 += s.effect.2;
            count[s.rank] += 1;
        }
    }
    let most = (0..ranks).max_by(|&x, &y| growth[x].0.total_cmp(&growth[y].0))?;
    let other = (0..ranks)
        .filter(|&r| r != most)
        .map(|r| growth[r].0)
        .fold(0.0, f64::max);
    (count[most] >= 2 && growth[most].0 > 3.0 * other).then(|| (most, growth[most]))
}
