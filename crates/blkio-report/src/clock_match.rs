//! Finds the offset between the clocks of two recordings of one run, from the requests that both have.

use std::path::PathBuf;

use rustc_hash::FxHashMap;

use blkio_companions::num::index;
use blkio_parser::Direction;
use blkio_parser::Result;
use blkio_parser::pipeline::{ReadOptions, read};
use blkio_parser::{Event, EventKind};

/// Requests of one recording that are kept.
const MOST: usize = 1 << 20;
/// Fewest requests in common that say anything.
const FEWEST: usize = 10;

/// What a request is in every recording of a run.
type What = (Direction, u64, u32);

/// Offset of the clock of a second recording to that of a first.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ClockMatch {
    /// Requests that both have, each of them once.
    pub requests: u64,
    /// Second clock minus first clock: the median difference.
    pub offset_ns: i128,
    /// Half of the stretch that holds the middle nine tenths of the differences.
    pub spread_ns: u64,
    /// Change of the offset in parts per million: between the medians of the first and of the last tenth.
    pub drift_ppm: Option<f64>,
}

/// Times of the issues of a trace by what they are; those that are there more than once are `None`.
fn issues(paths: &[PathBuf], options: &ReadOptions) -> Result<FxHashMap<What, Option<u64>>> {
    let found = std::cell::RefCell::new(FxHashMap::<What, Option<u64>>::default());
    let take = |event: &Event| {
        let mut found = found.borrow_mut();
        let what = (event.direction, event.sector, event.nr_sector);
        let has_room = found.len() < MOST;
        match found.get_mut(&what) {
            Some(time) => *time = None,
            None if has_room => {
                found.insert(what, Some(event.t_ns));
            }
            None => {}
        }
    };
    read(
        paths,
        options,
        &mut |events| {
            let issues = events
                .iter()
                .filter(|e| e.kind == EventKind::Issue && e.direction.is_data() && e.nr_sector > 0);
            issues.for_each(take);
        },
        &mut || found.borrow_mut().clear(),
    )?;
    Ok(found.into_inner())
}

/// Finds the requests that two recordings have in common and compares their times. `None` when there are fewer than ten.
///
/// # Errors
///
/// As [`read`].
pub fn clocks(a: &[PathBuf], b: &[PathBuf], options: &ReadOptions) -> Result<Option<ClockMatch>> {
    let (a, b) = (issues(a, options)?, issues(b, options)?);
    let pairs = a.iter().filter_map(|(what, time)| {
        let other = b.get(what).copied().flatten()?;
        Some(((*time)?, other))
    });
    Ok(of_pairs(pairs.collect()))
}

/// Returns the middle one of some differences, which are not empty.
fn median(pairs: &[(u64, u64)]) -> Option<i128> {
    let mut found: Vec<i128> = differences(pairs);
    found.sort_unstable();
    found.get(found.len() / 2).copied()
}

fn differences(pairs: &[(u64, u64)]) -> Vec<i128> {
    let of = |(a, b): &(u64, u64)| i128::from(*b) - i128::from(*a);
    pairs.iter().map(of).collect()
}

fn of_pairs(mut pairs: Vec<(u64, u64)>) -> Option<ClockMatch> {
    if pairs.len() < FEWEST {
        return None;
    }
    pairs.sort_unstable();
    let mut found = differences(&pairs);
    found.sort_unstable();
    let at = |percent: u64| {
        let rank = stats::nearest_rank(percent as f64, found.len() as u64);
        found.get(index(rank.saturating_sub(1))).copied()
    };
    let tenth = (pairs.len() / 10).max(1);
    let early = pairs.get(..tenth)?;
    let late = pairs.get(pairs.len() - tenth..)?;
    let middle_of = |part: &[(u64, u64)]| part.get(part.len() / 2).map(|(time, _)| *time);
    let elapsed = middle_of(late)?.saturating_sub(middle_of(early)?);
    let moved = median(late)? - median(early)?;
    Some(ClockMatch {
        requests: pairs.len() as u64,
        offset_ns: median(&pairs)?,
        spread_ns: u64::try_from((at(95)? - at(5)?) / 2).unwrap_or(u64::MAX),
        drift_ppm: (elapsed > 0).then(|| moved as f64 / elapsed as f64 * 1e6),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_spread_and_drift_are_found() {
        // Twenty parts per million, and every seventh request noted late in one of the recordings.
        let pairs: Vec<(u64, u64)> = (0..1000_u64)
            .map(|n| {
                let t_ns = n * 10_000_000;
                let late = if n % 7 == 0 { 3_000 } else { 0 };
                (t_ns + 5_000_000_000, t_ns + t_ns / 50_000 + late)
            })
            .collect();
        let found = of_pairs(pairs).unwrap();
        assert_eq!(found.requests, 1000);
        assert!((found.offset_ns + 4_999_900_000).abs() < 4_000, "{found:?}");
        assert!((found.drift_ppm.unwrap() - 20.0).abs() < 0.5, "{found:?}");
        assert!((85_000..97_000).contains(&found.spread_ns), "{found:?}");
        assert_eq!(of_pairs(vec![(1, 2); 9]), None);
    }

    #[test]
    fn requests_that_come_twice_say_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let log = |name: &str, offset: u64| {
            let path = dir.path().join(name);
            // One place is read again and again, at other times in each log.
            let line = |n: u64| {
                let again = format!("{}, R, 4096, 8, 8\n", offset + n * 1000 + n % 3);
                format!(
                    "{}, W, 4096, {}, 8\n{again}",
                    offset + n * 1000,
                    800 + n * 8
                )
            };
            std::fs::write(&path, (0..50).map(line).collect::<String>()).unwrap();
            path
        };
        let (a, b) = (log("a", 0), log("b", 77));
        let found = clocks(&[a], &[b], &ReadOptions::default()).unwrap();
        let found = found.unwrap();
        assert_eq!(
            (found.requests, found.offset_ns, found.spread_ns),
            (50, 77, 0)
        );
    }
}
