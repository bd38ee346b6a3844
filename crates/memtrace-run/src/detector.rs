//! Detects phases in the accesses of a run without marks.

use std::collections::BTreeMap;

use memtrace_labeller::{Access, Names, PhaseBoundary, RowStream};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use crate::error::Result;

/// Maximum number of time bins.
const BINS: u64 = 4096;
/// Minimum factor by which a rate must drop at a change.
const DROP: f64 = 4.0;
/// Minimum gain in log-likelihood at a change: chance alone gives a few units for this many places.
const EVIDENCE: f64 = 15.0;
/// Minimum number of non-empty bins before a change; fewer are a burst, or one tick of a coarse
/// clock.
const LASTING: u64 = 4;
/// Share of the best gain that makes a place equally good.
const NEARLY: f64 = 0.8;
/// Minimum number of pages, or loads, to judge a change.
const FEWEST: f64 = 16.0;

/// Loads and stores of a time bin.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    loads: u64,
    stores: u64,
}

/// Finds the end of loading and the beginning of the teardown of a run in its accesses.
///
/// * Loading ends with the first lasting drop of stores to pages without an earlier store (of first
///   accesses, in captures without stores); near that point, where loads begin. Page faults are
///   neither loads nor stores and are ignored.
/// * The teardown is a final stretch with almost no loads, but with stores.
///
/// Both are changes of a rate: the place where two Poisson rates explain the counts best, if the
/// rate drops at least to a quarter and chance does not explain it. The resolution of times is the
/// duration of the run divided by some thousands. The order of the rows does not matter; memory
/// grows with the number of pages.
///
/// ```
/// use memtrace_labeller::{Access, Name};
/// use memtrace_run::PhaseDetector;
/// let mut rows = Vec::new();
/// for page in 0..1000 {
///     let mut row = Access::new(page * 1_000_000, page << 12);
///     row.op = Name::STORE;
///     rows.push(row);
/// }
/// rows.extend((0..9000).map(|at| Access::new((1000 + at) * 1_000_000, (at % 1000) << 12)));
/// let mut detector = PhaseDetector::default();
/// detector.push(&rows);
/// let phases = detector.finish();
/// assert_eq!((phases[0].phase.as_str(), phases[1].phase.as_str()), ("weight_load", "generation"));
/// assert!(phases[0].end_ns.abs_diff(1_000_000_000) < 10_000_000);
/// ```
#[derive(Debug, Default)]
pub struct PhaseDetector {
    /// Width of a bin in nanoseconds, as a power of two.
    shift: u32,
    bins: BTreeMap<u64, Bin>,
    /// Times of the first access and of the first store of each page.
    pages: FxHashMap<u64, (u64, Option<u64>)>,
    last_ns: u64,
}

impl PhaseDetector {
    /// Adds rows, in any order.
    pub fn push(&mut self, rows: &[Access]) {
        // First touches follow the order in which a program happens to use its memory, and are not
        // phases.
        for row in rows.iter().filter(|row| !row.is_page_fault()) {
            let time = row.timestamp_ns;
            self.last_ns = self.last_ns.max(time);
            let bin = self.bins.entry(time >> self.shift).or_default();
            bin.loads += u64::from(row.is_load());
            bin.stores += u64::from(row.is_store());
            let (first, stored) = self.pages.entry(row.address_page).or_insert((time, None));
            *first = time.min(*first);
            if row.is_store() {
                *stored = Some(stored.map_or(time, |known| known.min(time)));
            }
            while self.span() > BINS {
                self.widen();
            }
        }
    }

    fn span(&self) -> u64 {
        match (self.bins.first_key_value(), self.bins.last_key_value()) {
            (Some((first, _)), Some((last, _))) => (last - first).saturating_add(1),
            _ => 0,
        }
    }

    fn widen(&mut self) {
        self.shift += 1;
        for (at, bin) in std::mem::take(&mut self.bins) {
            let wider = self.bins.entry(at >> 1).or_default();
            wider.loads += bin.loads;
            wider.stores += bin.stores;
        }
    }

    /// Returns the phases found; empty if no rate changed. They cover the run from its first row to
    /// its last.
    #[must_use]
    pub fn finish(self) -> Vec<PhaseBoundary> {
        let Some((start, _)) = self.bins.first_key_value() else {
            return Vec::new();
        };
        let (start, count) = (*start, self.span());
        let dense: Vec<Bin> = (start..start + count)
            .map(|at| self.bins.get(&at).copied().unwrap_or_default())
            .collect();
        let has_stores = dense.iter().any(|bin| bin.stores > 0);
        let mut fresh = vec![0_u64; dense.len()];
        #[expect(
            clippy::iter_over_hash_type,
            reason = "counters are added to, in any order"
        )]
        for (first, stored) in self.pages.values() {
            let time = if has_stores { *stored } else { Some(*first) };
            let place = time.and_then(|time| (time >> self.shift).checked_sub(start));
            let bin = place.and_then(|at| fresh.get_mut(usize::try_from(at).ok()?));
            if let Some(bin) = bin {
                *bin += 1;
            }
        }
        let loads: Vec<u64> = dense.iter().map(|bin| bin.loads).collect();
        let Some(loaded) = drop_of(&fresh, has_stores.then_some(&*loads)) else {
            return Vec::new();
        };
        let time = |bins: usize| {
            let bins = start.saturating_add(bins as u64);
            i64::try_from(u128::from(bins) << self.shift).unwrap_or(i64::MAX)
        };
        let end = i64::try_from(self.last_ns.saturating_add(1)).unwrap_or(i64::MAX);
        let mut phases = vec![
            PhaseBoundary::new("weight_load", time(0), time(loaded)),
            PhaseBoundary::new("generation", time(loaded), end),
        ];
        let after = dense.get(loaded..).unwrap_or_default();
        if let Some(at) = teardown(after) {
            let begins = time(loaded + at);
            if let Some(generation) = phases.last_mut() {
                generation.end_ns = begins;
            }
            phases.push(PhaseBoundary::new("teardown", begins, end));
        }
        phases
    }
}

/// Infers phases from all rows of a stream, which is read to its end.
///
/// # Errors
///
/// Returns an error if the input cannot be read.
pub fn infer_phases(stream: &mut RowStream) -> Result<Vec<PhaseBoundary>> {
    let mut detector = PhaseDetector::default();
    let (mut names, mut rows) = (Names::new(), Vec::new());
    while stream.next_batch(&mut names, &mut rows)? {
        detector.push(&rows);
        rows.clear();
    }
    detector.push(&rows);
    Ok(detector.finish())
}

/// Returns phases and their source as JSON, in the form used by files and metadata.
#[must_use]
pub fn phases_json(phases: &[PhaseBoundary], source: &str) -> Value {
    let list: Vec<Value> = phases
        .iter()
        .map(|phase| {
            json!({"phase": phase.phase, "start_ns": phase.start_ns, "end_ns": phase.end_ns})
        })
        .collect();
    json!({"phase_boundaries": list, "source": source})
}

/// Returns the bin after the load in which the teardown begins.
fn teardown(bins: &[Bin]) -> Option<usize> {
    let loads: Vec<u64> = bins.iter().map(|bin| bin.loads).collect();
    let at = drop_of(&loads, None)?;
    let (before, after) = bins.split_at(at);
    let share = |bins: &[Bin]| {
        let stores: u64 = bins.iter().map(|bin| bin.stores).sum();
        let all: u64 = stores + bins.iter().map(|bin| bin.loads).sum::<u64>();
        real(stores) / real(all.max(1))
    };
    // An engine that only waits does not tear down.
    (share(after) > 2.0 * share(before) && share(after) > 0.5).then_some(at)
}

/// Returns how much better two rates explain the counts than one, for a change after each place but
/// the last.
fn gains(counts: &[u64]) -> impl Iterator<Item = Change> + '_ {
    let all = real(counts.iter().sum());
    let width = real(counts.len() as u64);
    let term = |count: f64, bins: f64| {
        if count > 0.0 {
            count * (count / bins).ln()
        } else {
            0.0
        }
    };
    let (mut sum, mut busy) = (0, 0);
    let places = counts.len().saturating_sub(1);
    counts
        .iter()
        .enumerate()
        .take(places)
        .map(move |(at, count)| {
            sum += count;
            busy += u64::from(*count > 0);
            let (before, bins) = (real(sum), real(at as u64 + 1));
            Change {
                place: at + 1,
                before,
                busy,
                rates: [before / bins, (all - before) / (width - bins)],
                gain: term(before, bins) + term(all - before, width - bins) - term(all, width),
            }
        })
}

/// A place where a rate may change.
struct Change {
    /// Number of bins before it.
    place: usize,
    /// Sum of the counts before it.
    before: f64,
    /// Number of non-empty bins before it.
    busy: u64,
    /// Counts per bin before and after it.
    rates: [f64; 2],
    /// Gain in log-likelihood.
    gain: f64,
}

impl Change {
    fn is_drop(&self) -> bool {
        let [before, behind] = self.rates;
        self.before >= FEWEST
            && self.busy >= LASTING
            && before >= DROP * behind
            && self.gain >= EVIDENCE
    }
}

/// Returns the place before which counts are higher by at least [`DROP`], if chance does not
/// explain it. Among nearly equal places (new pages also appear later, with the cache), chooses the
/// one where `rising` begins.
fn drop_of(counts: &[u64], rising: Option<&[u64]>) -> Option<usize> {
    let drops = || gains(counts).filter(Change::is_drop);
    let most = drops().map(|change| change.gain).reduce(f64::max)?;
    let Some(rising) = rising else {
        return drops()
            .find(|change| change.gain >= most)
            .map(|change| change.place);
    };
    let other: Vec<f64> = gains(rising)
        .map(|change| match change.rates {
            [before, behind] if before < behind => change.gain,
            _ => 0.0,
        })
        .collect();
    let with_other = |change: Change| {
        let more = other.get(change.place - 1).copied().unwrap_or(0.0);
        (change.gain + more, change.place)
    };
    drops()
        .filter(|change| change.gain >= NEARLY * most)
        .map(with_other)
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, place)| place)
}

#[expect(clippy::cast_precision_loss, reason = "rates are reals")]
fn real(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use memtrace_labeller::Name;

    use super::*;

    fn row(time: u64, page: u64, op: Name) -> Access {
        let mut row = Access::new(time, page << 12);
        row.op = op;
        row
    }

    fn found(rows: &[Access]) -> Vec<PhaseBoundary> {
        let mut detector = PhaseDetector::default();
        detector.push(rows);
        detector.finish()
    }

    #[test]
    fn nothing_is_found_where_nothing_changes() {
        assert!(found(&[]).is_empty());
        assert!(found(&[row(7, 1, Name::STORE)]).is_empty());
        assert!(found(&[row(u64::MAX, 1, Name::STORE), row(0, 2, Name::LOAD)]).is_empty());
        // New pages throughout, loads and stores mixed.
        let mixed: Vec<Access> = (0..5000)
            .map(|at| {
                row(
                    at * 1000,
                    at,
                    if at % 3 == 0 { Name::STORE } else { Name::LOAD },
                )
            })
            .collect();
        assert!(found(&mixed).is_empty());
        // A burst at one time is not a phase either.
        let burst: Vec<Access> = (0..900)
            .map(|at| row(if at < 400 { 0 } else { at * 1000 }, at, Name::STORE))
            .collect();
        assert!(found(&burst).is_empty());
        // A dozen pages are not enough evidence.
        let few: Vec<Access> = (0..12)
            .map(|at| row(at, at, Name::STORE))
            .chain((0..5000).map(|at| row(at * 1000, at % 12, Name::LOAD)))
            .collect();
        assert!(found(&few).is_empty());
    }

    #[test]
    fn an_engine_that_waits_does_not_tear_down() {
        let mut rows: Vec<Access> = (0..500).map(|at| row(at * 1000, at, Name::STORE)).collect();
        rows.extend((0..5000).map(|at| row(500_000 + at * 1000, at % 500, Name::LOAD)));
        rows.push(row(20_000_000, 1, Name::LOAD));
        let phases = found(&rows);
        let names: Vec<&str> = phases.iter().map(|phase| &*phase.phase).collect();
        assert_eq!(names, ["weight_load", "generation"]);
        assert_eq!(phases[1].end_ns, 20_000_001);
        // The same in any order.
        rows.reverse();
        assert_eq!(found(&rows), phases);
    }
}
