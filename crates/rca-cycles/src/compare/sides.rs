//! Both sides cut at one function, or not at all.

use std::collections::BTreeMap;

use trace_model::Trace;

use crate::analysis::{Analysis, Failure, analyse};
use crate::num::{real, span};
use crate::phase::family;
use crate::timeline::Kind;

/// Both sides of a pair, cut at the same function.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pair {
    /// The normal side.
    pub normal: Analysis,
    /// The abnormal side.
    pub abnormal: Analysis,
    /// The sides chose different functions by themselves; this one cuts both.
    pub re_anchored: Option<String>,
    /// Why the sides cannot be compared, if so.
    pub not_comparable: Option<String>,
}

/// Both sides of a case with all their recordings, cut at the same function.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sides {
    /// The recordings of the normal side.
    pub normal: Vec<Analysis>,
    /// Those of the abnormal side.
    pub abnormal: Vec<Analysis>,
    /// The recordings chose different functions by themselves; this one cuts all.
    pub re_anchored: Option<String>,
    /// Why they cannot be compared, if so.
    pub not_comparable: Option<String>,
}

/// Analyses both sides of a pair at one function: that which both choose, else one that both call once a cycle, else that of
/// either side that cuts both at a like pace.
///
/// # Errors
///
/// [`Failure`] of a side.
pub fn analyse_pair(
    normal: &Trace,
    abnormal: &Trace,
    options: &crate::Options,
) -> Result<Pair, Failure> {
    let mut sides = analyse_sides(&[normal], &[abnormal], options)?;
    let (Some(normal), Some(abnormal)) = (sides.normal.pop(), sides.abnormal.pop()) else {
        return Err(Failure::Empty);
    };
    Ok(Pair {
        normal,
        abnormal,
        re_anchored: sides.re_anchored,
        not_comparable: sides.not_comparable,
    })
}

/// As [`analyse_pair()`], of sides with several recordings each.
///
/// # Errors
///
/// [`Failure`] of any of them; [`Failure::Empty`] of a side without any.
pub fn analyse_sides(
    normal: &[&Trace],
    abnormal: &[&Trace],
    options: &crate::Options,
) -> Result<Sides, Failure> {
    if normal.is_empty() || abnormal.is_empty() {
        return Err(Failure::Empty);
    }
    let all: Vec<&Trace> = normal.iter().chain(abnormal).copied().collect();
    analyse_each(all.len(), normal.len(), options, |i, options| {
        analyse(all[i], options)
    })
}

/// As [`analyse_sides()`], without all traces in memory at once: `analyse` is asked for each of `count`
/// recordings, of which the first `normal` are those of the normal side, and for all of them again with
/// other options where they are not cut at one function. The last options that it is asked with are
/// those of the result.
///
/// # Errors
///
/// The first that `analyse` returns for the options as they are given.
pub fn analyse_each<E>(
    count: usize,
    normal: usize,
    options: &crate::Options,
    mut analyse: impl FnMut(usize, &crate::Options) -> Result<Analysis, E>,
) -> Result<Sides, E> {
    let mut all = |options: &crate::Options| -> Result<Vec<Analysis>, E> {
        (0..count).map(|i| analyse(i, options)).collect()
    };
    let divide = |mut list: Vec<Analysis>, re_anchored, not_comparable| Sides {
        abnormal: list.split_off(normal.min(list.len())),
        normal: list,
        re_anchored,
        not_comparable,
    };
    let own = all(options)?;
    let Some(reason) = disagreement(&own) else {
        return Ok(divide(own, None, None));
    };
    let mut tried: Vec<&str> = Vec::new();
    let common = once_a_cycle(&own);
    let anchors = own.iter().map(|a| a.anchor.as_str());
    let (of_both, others): (Vec<&str>, Vec<&str>) = anchors.partition(|a| common.contains(a));
    // A function that every recording calls once in each of its own cycles cuts all of them like these.
    let jointly = common.iter().copied().take(MOST_TRIED);
    for anchor in of_both.into_iter().chain(jointly).chain(others) {
        if tried.contains(&anchor) || anchor.to_lowercase().contains("layer") {
            continue;
        }
        tried.push(anchor);
        let mut joint = options.clone();
        joint.marker = Some(anchor.to_owned());
        if let Ok(list) = all(&joint)
            && list.iter().all(|x| x.cycles.len() >= 3)
            && disagreement(&list).is_none()
        {
            return Ok(divide(list, Some(anchor.to_owned()), None));
        }
    }
    if tried.is_empty() {
        return Ok(divide(own, None, Some(reason)));
    }
    Ok(divide(all(options)?, None, Some(reason)))
}

/// Functions that no recording chose and that are tried as a cut of all.
const MOST_TRIED: usize = 2;

/// Names of the host functions that every recording calls exactly once in nearly every whole cycle: those that launch work
/// first, then by own time.
fn once_a_cycle(list: &[Analysis]) -> Vec<&str> {
    /// Part of the whole cycles with one call.
    const NEARLY: f64 = 0.9;
    let of = |run: &Analysis| -> BTreeMap<String, (bool, i64)> {
        let is_whole = |cycle: u32| {
            let cycle = run.cycles.get(cycle as usize);
            cycle.is_some_and(|c| c.partial.is_none())
        };
        let whole = run.cycles.iter().filter(|c| c.partial.is_none()).count();
        let mut found = BTreeMap::new();
        for f in run.functions.iter().filter(|f| f.kind.is_code()) {
            let once = f.cells.iter().filter(|c| c.calls == 1 && is_whole(c.cycle));
            if real(once.count()) >= NEARLY * real(whole.max(1)) {
                let time: i64 = f.cells.iter().map(|c| c.self_ns).sum();
                found.insert(f.name.clone(), (f.kind == Kind::Launch, time));
            }
        }
        found
    };
    let Some((first, others)) = list.split_first() else {
        return Vec::new();
    };
    let mut common = of(first);
    for run in others {
        let own = of(run);
        common.retain(|name, _| own.contains_key(name));
    }
    let mut names: Vec<(&str, (bool, i64))> = first
        .functions
        .iter()
        .filter_map(|f| Some((f.name.as_str(), *common.get(&f.name)?)))
        .collect();
    names.sort_by_key(|(name, (launches, time))| (!launches, -time, *name));
    names.dedup_by_key(|(name, _)| *name);
    names.into_iter().map(|(name, _)| name).collect()
}

/// Why some of these do not speak of the same thing as the first.
fn disagreement(list: &[Analysis]) -> Option<String> {
    let (first, others) = list.split_first()?;
    others.iter().find_map(|other| mismatch(first, other))
}

/// Why two analyses do not speak of the same thing.
fn mismatch(a: &Analysis, b: &Analysis) -> Option<String> {
    // Marked ranges are numbered, or state how large the batch is and for which phase.
    if family(&a.anchor) != family(&b.anchor) {
        return Some(format!(
            "the sides are cut at different functions, {:?} and {:?}: an outer function may have been open already when one recording began",
            a.anchor, b.anchor
        ));
    }
    let pace = |x: &Analysis| x.period_ns().map(|p| span(p.max(1)));
    if let (Some(x), Some(y)) = (pace(a), pace(b)) {
        let ratio = (x / y).max(y / x);
        if ratio > 20.0 {
            return Some(format!(
                "the sides are cut at {:?} at paces {ratio:.0} times apart",
                a.anchor
            ));
        }
    }
    None
}
