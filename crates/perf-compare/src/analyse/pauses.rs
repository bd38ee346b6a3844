//! Cycles that are far longer than the rest: how many there are on each side, how long, and what ran in them.

use trace_model::Waiting;

use super::panel::{Column, Panel};
use super::together;
use crate::document::{PausedFunction, Pauses, Role};
use crate::side::{Class, is_wait, waits_for};
use crate::stats::{choose, deviation, mean, median};

/// A cycle pauses if it is longer than the median by this many median absolute deviations,
const DEVIATIONS: f64 = 8.0;
/// and by this part of the median.
const PART: f64 = 0.15;
/// Cycles that pause are few: at most one of so many.
const FEW: usize = 3;
/// The same for cycles that are less than [`FAR`] of the typical one longer: as many are a second mode.
const FEW_NEAR: usize = 5;
/// Part of the typical cycle.
const FAR: f64 = 0.5;
/// Pauses of the side with more of them from which on they are compared.
const FEWEST: usize = 3;
/// Chance below which one side is said to pause more often. Four pauses among 48 cycles against none reach it.
const CHANCE: f64 = 0.06;
/// The same where pauses are longer than the typical cycle and the other side has none: four against none, whatever the
/// number of cycles.
const CHANCE_LONG: f64 = 0.0626;
/// Part of a pause that a function must take to be named.
const NAMED: f64 = 0.2;
/// Part of a pause from which on a function explains it by itself.
const MOST: f64 = 0.5;
/// Functions that are named.
const SHOWN: usize = 3;
/// Fewest cycles from one pause to the next for a steady distance to say something.
const SPARSE: i64 = 3;
/// Pauses from which on a function that the other side never calls tells the sides apart, if it takes most of each.
const FEWEST_NEW: usize = 2;

/// Probability that of `all` pauses at least `more` fall on a side of `n` cycles, the other having `m`: the exact test of Fisher.
pub(super) fn by_chance(more: usize, all: usize, n: usize, m: usize) -> f64 {
    let ways = choose(n + m, all) as f64;
    let sum: f64 = (more..=all.min(n))
        .filter(|own| all - own <= m)
        .map(|own| choose(n, own) as f64 * choose(m, all - own) as f64 / ways)
        .sum();
    sum.min(1.0)
}

/// Places next to each other, with numbers that follow each other, are of one pause that the cut between cycles divides.
fn in_a_row(places: &[usize], number: impl Fn(usize) -> i64) -> Vec<Vec<usize>> {
    let mut pauses: Vec<Vec<usize>> = Vec::new();
    for &at in places {
        match pauses.last_mut() {
            Some(pause)
                if pause
                    .last()
                    .is_some_and(|&last| last + 1 == at && number(last) + 1 == number(at)) =>
            {
                pause.push(at);
            }
            _ => pauses.push(vec![at]),
        }
    }
    pauses
}

/// How long one pause is, given the times beyond the median of long cycles in a row, by row: as long as those in a cycle by
/// itself. Where all have neighbours, a row of cycles that are alike holds one pause in each, and one of unlike cycles a pause
/// that the cut between them divides.
fn size_of_one(rows: &[Vec<f64>]) -> f64 {
    const ALIKE: f64 = 1.25;
    let is_alike = |row: &&Vec<f64>| {
        let most = row.iter().copied().fold(0.0, f64::max);
        row.iter().all(|own| own * ALIKE >= most)
    };
    let alone: Vec<f64> = rows
        .iter()
        .filter(|row| row.len() == 1)
        .flatten()
        .copied()
        .collect();
    if !alone.is_empty() {
        return median(&alone);
    }
    match rows.iter().all(|row| is_alike(&row)) {
        true => median(&rows.concat()),
        false => median(
            &rows
                .iter()
                .map(|row| row.iter().sum())
                .collect::<Vec<f64>>(),
        ),
    }
}

/// How many pauses each row of long cycles holds: two pauses may be next to each other, and take twice as long then as one.
fn count(rows: &[Vec<f64>]) -> Vec<usize> {
    let one = size_of_one(rows);
    let of_row = |row: &Vec<f64>| {
        let total: f64 = row.iter().sum();
        let at_least = (1..=row.len()).rev();
        let mut fitting = at_least.filter(|n| *n as f64 <= total / one + 0.5);
        fitting.next().unwrap_or(1)
    };
    rows.iter().map(of_row).collect()
}

/// From which length on a cycle pauses, one for both sides: a limit of each side's own would count the cycles of one mode on one
/// side and leave them out on the other. Beyond the larger median, so that a shift of all cycles is no pause; where that falls
/// among cycles of like length, it moves down to the widest gap beneath.
fn limit(lengths: &[Vec<f64>; 2], middle: f64, spread: f64) -> f64 {
    let limit = middle + (DEVIATIONS * spread).max(PART * middle);
    let mut all = lengths.concat();
    all.sort_by(f64::total_cmp);
    // Without a cycle beyond it there is no pause, wherever gaps are.
    if all.last().is_none_or(|longest| *longest <= limit) {
        return limit;
    }
    let gaps = all.windows(2).filter_map(|pair| match pair {
        [below, above] if *below >= middle && *below <= limit => Some((above - below, *below)),
        _ => None,
    });
    let widest = gaps.max_by(|a, b| a.0.total_cmp(&b.0));
    widest.map_or(limit, |(_, below)| below.min(limit))
}

/// Returns `true` for waits for input.
pub(super) fn is_input(name: &str, class: Class) -> bool {
    class == Class::Requests || waits_for(name) == Some(Waiting::Input)
}

/// How many cycles apart pauses are, if they come at a steady distance, give or take a cycle: what is done every so many steps.
fn every(starts: &[i64]) -> Option<usize> {
    let gaps: Vec<i64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut sorted = gaps.clone();
    sorted.sort_unstable();
    let typical = *sorted.get(gaps.len() / 2)?;
    let is_steady = gaps.iter().all(|gap| (gap - typical).abs() <= 1);
    let enough = starts.len() >= FEWEST && typical >= SPARSE;
    (enough && is_steady)
        .then(|| usize::try_from(typical).ok())
        .flatten()
}

/// Compares the pauses of both sides; `None` where neither pauses or so many cycles are long that they are no pauses. With two
/// modes of cycles, `between` is the length that divides them, and the long ones are those that pause.
///
/// Collectives wait for the rank that pauses, on all other ranks: they are named where no other function takes the time.
pub(super) fn compare(panel: &Panel, roles: &[Role], between: Option<f64>) -> Option<Pauses> {
    let lengths = panel.lengths();
    if lengths.iter().any(|side| side.len() < 5) {
        return None;
    }
    let middles = lengths.each_ref().map(|side| median(side));
    let spreads = lengths.each_ref().map(|side| deviation(side));
    let spread = spreads.into_iter().fold(0.0, f64::max);
    let limit = between.unwrap_or_else(|| limit(&lengths, middles[0].max(middles[1]), spread));
    let places = [0, 1].map(|side| {
        let all = lengths[side].iter().enumerate();
        all.filter(|(_, length)| **length > limit)
            .map(|(at, _)| at)
            .collect::<Vec<usize>>()
    });
    let each = [0, 1].map(|side| {
        in_a_row(&places[side], |at| {
            panel.cycles[side].get(at).map_or(-1, |cycle| cycle.0)
        })
    });
    let cycles = places.each_ref().map(Vec::len);
    let rows = [0, 1].map(|side| {
        let beyond = |at: &usize| lengths[side][*at] - middles[side];
        let all = each[side].iter();
        all.map(|row| row.iter().map(beyond).collect::<Vec<f64>>())
            .collect::<Vec<_>>()
    });
    let counts = rows.each_ref().map(|side| count(side));
    let pauses = counts.each_ref().map(|side| side.iter().sum::<usize>());
    let of = lengths.each_ref().map(Vec::len);
    if pauses == [0, 0] || (0..2).any(|side| pauses[side] * FEW > of[side]) {
        return None;
    }
    // By pause, not by row of cycles: neighbours are as many pauses as they are counted for.
    let excess_us = [0, 1].map(|side| {
        let per_row = rows[side].iter().zip(&counts[side]);
        let all: Vec<f64> = per_row
            .flat_map(|(row, n)| vec![row.iter().sum::<f64>() / *n as f64; *n])
            .collect();
        (!all.is_empty()).then(|| median(&all))
    });
    // Which side has more of them, relative to its cycles.
    let more = usize::from(pauses[1] * of[0] >= pauses[0] * of[1]);
    let is_far = excess_us[more].is_some_and(|excess| excess >= FAR * middles[more]);
    if !is_far && cycles[more] * FEW_NEAR > of[more] {
        return None;
    }
    let p = by_chance(pauses[more], pauses[0] + pauses[1], of[more], of[1 - more]);
    let is_long = pauses[1 - more] == 0 && excess_us[more] >= Some(middles[more]);
    let chance = if is_long { CHANCE_LONG } else { CHANCE };
    let rank_of = |role: Option<usize>| {
        let role = roles.iter().find(|known| Some(known.role) == role)?;
        role.ranks[more].clone().filter(|_| roles.len() > 1)
    };
    let taken_by = |wanted: &dyn Fn(&str, Class) -> bool| -> Vec<PausedFunction> {
        let columns = panel.columns.iter();
        columns
            .filter(|column| {
                column.values[more].len() == of[more] && wanted(&column.key.name, column.key.class)
            })
            .filter_map(|column| {
                let values = &column.values[more];
                let middle = median(values);
                let beyond = |at: usize| values[at] - middle;
                // A rank that pauses before its mark makes the next cycle of those long that wait for it.
                let before = |pause: &Vec<usize>| {
                    let at = pause.first().and_then(|first| first.checked_sub(1));
                    let at = at.filter(|at| roles.len() > 1 && !places[more].contains(at));
                    at.map_or(0.0, beyond).max(0.0)
                };
                let of_pause = |pause: &Vec<usize>| {
                    pause.iter().map(|at| beyond(*at)).sum::<f64>() + before(pause)
                };
                let excess = each[more].iter().map(of_pause).sum::<f64>() / pauses[more] as f64;
                (excess >= NAMED * excess_us[more]?).then(|| PausedFunction {
                    name: column.key.name.clone(),
                    device: column.key.device.clone(),
                    rank: rank_of(column.key.role),
                    excess_us: excess,
                })
            })
            .collect()
    };
    let works = |name: &str, class| {
        !is_wait(name) && !matches!(class, Class::Collective | Class::Sync | Class::Requests)
    };
    let mut functions = taken_by(&works);
    let is_most = |f: &PausedFunction| excess_us[more].is_some_and(|all| f.excess_us >= MOST * all);
    if !functions.iter().any(is_most) {
        functions = taken_by(&|name, class| !is_wait(name) && class != Class::Requests);
    }
    if functions.is_empty() {
        functions.extend(together::one_each(panel, roles, more, &places[more]));
    }
    let waits = functions.is_empty();
    if waits {
        functions = taken_by(&is_input);
    }
    functions.sort_by(|a, b| {
        b.excess_us
            .total_cmp(&a.excess_us)
            .then(a.name.cmp(&b.name))
    });
    functions.truncate(SHOWN);
    // All kernels of a device that are slower alike say more than the longest of them.
    if let Some(excess) = excess_us[more].filter(|_| !waits) {
        let is_long = |at: &usize| places[more].contains(at);
        let (long, rest): (Vec<usize>, Vec<usize>) = (0..of[more]).partition(is_long);
        let times = |column: &Column| {
            let values = &column.values[more];
            let of_all =
                |places: &[usize]| mean(&places.iter().map(|at| values[*at]).collect::<Vec<f64>>());
            (values.len() == of[more]).then(|| [of_all(&rest), of_all(&long)])
        };
        let alike = together::functions(panel, roles, more, excess, &times);
        if alike
            .first()
            .is_some_and(|f| f.name.starts_with("all kernels of "))
        {
            functions = alike;
        }
    }
    let numbers: Vec<i64> = places[more]
        .iter()
        .filter_map(|at| Some(panel.cycles[more].get(*at)?.0))
        .collect();
    let starts = each[more].iter().filter_map(|pause| pause.first());
    let starts: Vec<i64> = starts
        .filter_map(|at| Some(panel.cycles[more].get(*at)?.0))
        .collect();
    let every = every(&starts);
    let other = 1 - more;
    // What comes at a steady distance would have come on the other side, too, had it been done there.
    let is_missing = every.is_some_and(|every| pauses[other] == 0 && of[other] >= 2 * every);
    // What ran in them alone, and never on the other side, is no chance either.
    let is_new = |f: &PausedFunction| {
        let mut columns = panel
            .columns
            .iter()
            .filter(|column| column.key.name == f.name);
        is_most(f) && columns.all(|column| !column.present[other])
    };
    let is_told = !waits && is_far && functions.iter().any(is_new);
    let is_seen = is_far || functions.iter().any(is_most);
    let told = (is_missing && is_seen && pauses[more] >= FEWEST)
        || (is_told && pauses[other] == 0 && pauses[more] >= FEWEST_NEW);
    Some(Pauses {
        cycles,
        pauses,
        of,
        excess_us,
        mean_us: lengths.each_ref().map(|side| mean(side)),
        p,
        established: (told || (p <= chance && pauses[more] >= FEWEST)) && !panel.by_run,
        every,
        often: false,
        more_in_candidate: more == 1,
        numbers,
        waits_for_input: waits && !functions.is_empty(),
        functions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_over_two_cycles_is_one() {
        let numbers = [1, 2, 3, 4, 9, 10];
        let found = in_a_row(&[1, 2, 3, 4], |at| numbers[at]);
        assert_eq!(found, [vec![1, 2, 3], vec![4]]);
        assert_eq!(in_a_row(&[0, 2, 5], |at| numbers[at]).len(), 3);
        // One cut in two, one by itself, and two next to each other.
        let of = |rows: &[&[f64]]| count(&rows.iter().map(|row| row.to_vec()).collect::<Vec<_>>());
        assert_eq!(
            of(&[&[10.0, 15.0], &[24.0], &[25.0, 26.0], &[26.0]]),
            [1, 1, 2, 1]
        );
        // None by itself: each cut in two, or each in a cycle of its own.
        assert_eq!(of(&[&[5.0, 20.0], &[14.0, 10.0]]), [1, 1]);
        assert_eq!(of(&[&[25.0, 25.0], &[24.0, 26.0, 25.0]]), [2, 3]);
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn steady_distances() {
        assert_eq!(every(&[4, 14, 24, 34]), Some(10));
        assert_eq!(every(&[4, 14, 25, 34]), Some(10));
        assert_eq!(every(&[4, 14, 34]), None);
        assert_eq!(every(&[4, 14]), None);
        assert_eq!(every(&[4, 5, 6, 7]), None);
        assert_eq!(every(&[]), None);
    }

    #[test]
    fn the_limit_does_not_divide_a_mode() {
        // The upper mode is from 115 to 118; 8 deviations and 15 % above the median are both 116 or less.
        let side = |upper: [f64; 3]| -> Vec<f64> {
            let typical = (0..9).map(|at| 100.0 + f64::from(at) / 10.0);
            typical.chain(upper).collect()
        };
        let sides = [side([115.0, 115.2, 115.4]), side([117.0, 117.5, 118.0])];
        let found = limit(&sides, 100.5, 0.3);
        let above = |side: &Vec<f64>| side.iter().filter(|x| **x > found).count();
        assert_eq!(sides.each_ref().map(above), [3, 3]);
        // A pause far beyond leaves the limit where it divides nothing.
        let sides = [side([100.9; 3]), side([100.9, 100.9, 300.0])];
        let found = limit(&sides, 100.5, 0.3);
        assert!((100.9..300.0).contains(&found));
    }

    #[test]
    fn chance() {
        assert!((by_chance(4, 4, 48, 48) - 0.058_57).abs() < 1e-4);
        assert!((by_chance(0, 4, 48, 48) - 1.0).abs() < 1e-12);
        assert!((by_chance(2, 2, 2, 2) - 1.0 / 6.0).abs() < 1e-12);
    }
}
