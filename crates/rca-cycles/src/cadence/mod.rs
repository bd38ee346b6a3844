//! The period of events by the spectrum of their times, as the reference's period finder has it.
//!
//! Every name of every thread is a beat of its own: its times make a histogram, the histogram a
//! spectrum, and the spectrum says the period that the name keeps. Beats of like period are put
//! together; the strongest group wins, and a name that recurs once a period marks where periods
//! begin. Times are binary64 microseconds, since that is what the reference computes with.
//!
//! [`crate::analyse`] does not need this: it looks for what repeats in the order of events, which has
//! no shortest period and does not confuse a beat with its multiples.

mod seeds;
mod spectrum;

use std::collections::BTreeMap;

use crate::num::{quantile, real};

use self::spectrum::Peak;

/// Fewest events of a process.
const LEAST_EVENTS: usize = 100;
/// Fewest events of a stretch without long pauses,
const LEAST_IN_STRETCH: usize = 50;
/// and of a name in it.
const LEAST_OF_NAME: usize = 20;
/// A pause divides stretches if it is longer than this, µs, and than nearly all others.
const PAUSE: f64 = 1_000_000.0;
/// Longest period, µs.
const LONGEST: f64 = 8_000_000.0;

/// An event that may keep the beat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    pub(crate) pid: i64,
    /// Its thread, as a number of the caller's.
    pub(crate) tid: u32,
    pub(crate) name: u32,
    pub(crate) ts: f64,
}

/// What the reference looks for, and what it cannot see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Shortest period, µs.
    pub(crate) shortest: f64,
    /// Look at all processes and not only at the first that has a rhythm.
    pub(crate) align: bool,
}

/// A stretch of time that is one period, µs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Beat {
    pub(crate) start: f64,
    pub(crate) end: f64,
    /// 1 prefill, 2 decode, 3 not known.
    pub(crate) kind: u8,
}

/// The periods of events, given in any order; none without a rhythm.
pub(crate) fn beats(signals: &[Signal], limits: Limits) -> Vec<Beat> {
    if signals.len() < LEAST_EVENTS {
        return Vec::new();
    }
    let mut by_pid: BTreeMap<i64, Vec<Signal>> = BTreeMap::new();
    for s in signals {
        by_pid.entry(s.pid).or_default().push(*s);
    }
    let mut seeds: Vec<(i64, Vec<Stretch>)> = Vec::new();
    for (pid, mut list) in by_pid {
        if list.len() < LEAST_EVENTS {
            continue;
        }
        list.sort_by(|a, b| a.ts.total_cmp(&b.ts));
        let found: Vec<Stretch> = stretches(&list)
            .into_iter()
            .filter_map(|part| stretch(part, limits))
            .collect();
        if found.is_empty() {
            continue;
        }
        if !limits.align {
            return found.iter().flat_map(Stretch::beats).collect();
        }
        seeds.push((pid, found));
    }
    aligned(&seeds)
}

/// Parts between long pauses.
fn stretches(list: &[Signal]) -> Vec<&[Signal]> {
    let gaps: Vec<f64> = list.windows(2).map(|w| w[1].ts - w[0].ts).collect();
    let limit = quantile(&gaps, 0.998).max(PAUSE);
    list.chunk_by(|a, b| b.ts - a.ts <= limit)
        .filter(|part| part.len() >= LEAST_IN_STRETCH)
        .collect()
}

/// Where the periods of one stretch begin.
struct Stretch {
    start: f64,
    period: f64,
    seeds: Vec<f64>,
}

impl Stretch {
    /// From seed to seed; before the first and after the last as long as there is something.
    fn beats(&self) -> Vec<Beat> {
        let mut list = Vec::with_capacity(self.seeds.len() + 1);
        let mut add = |start: f64, end: f64| {
            list.push(Beat {
                start,
                end,
                kind: 3,
            });
        };
        if let Some(&first) = self.seeds.first()
            && first - self.start > 0.2 * self.period
        {
            add(self.start, first);
        }
        for w in self.seeds.windows(2) {
            if w[1] - w[0] > 1.0 {
                add(w[0], w[1]);
            }
        }
        if let Some(&last) = self.seeds.last() {
            add(last, last + self.period);
        }
        list
    }
}

/// A name on a thread and the period that it keeps.
struct Voice {
    tid: u32,
    name: u32,
    period: f64,
    score: f64,
}

fn stretch(list: &[Signal], limits: Limits) -> Option<Stretch> {
    let mut times: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for s in list {
        times.entry((s.tid, s.name)).or_default().push(s.ts);
    }
    let voices: Vec<Voice> = times
        .iter()
        .filter(|(_, t)| t.len() >= LEAST_OF_NAME)
        .filter_map(|(&(tid, name), t)| {
            let (period, score) = voice(&spectrum::peaks(t), t.len(), limits)?;
            Some(Voice {
                tid,
                name,
                period,
                score,
            })
        })
        .collect();
    let cluster = strongest(&voices)?;
    let total: f64 = cluster.iter().map(|v| v.score).sum();
    let period = cluster.iter().map(|v| v.period * v.score).sum::<f64>() / total;
    let mut by_thread: BTreeMap<u32, f64> = BTreeMap::new();
    for v in &cluster {
        *by_thread.entry(v.tid).or_default() += v.score;
    }
    let (pacer, _) = by_thread
        .iter()
        .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)))?;
    let names: Vec<u32> = cluster
        .iter()
        .filter(|v| v.tid == *pacer)
        .map(|v| v.name)
        .collect();
    let own: Vec<(f64, u32)> = list
        .iter()
        .filter(|s| s.tid == *pacer && names.contains(&s.name))
        .map(|s| (s.ts, s.name))
        .collect();
    let (first, last) = (list.first()?.ts, list.last()?.ts);
    let seeds = seeds::seeds(&own, period, last - first);
    (!seeds.is_empty()).then_some(Stretch {
        start: first,
        period,
        seeds,
    })
}

/// The period of a name's peaks, and how sure it is.
fn voice(peaks: &[Peak], events: usize, limits: Limits) -> Option<(f64, f64)> {
    let (low, high) = (1.0 / LONGEST, 1.0 / limits.shortest.max(1e-3));
    let mut best: Option<(f64, Peak)> = None;
    let mut strongest: Option<(f64, Peak)> = None;
    for p in peaks.iter().filter(|p| (low..=high).contains(&p.frequency)) {
        let harmonic = peaks
            .iter()
            .filter(|q| {
                let ratio = q.frequency / p.frequency;
                q.snr >= 3.0 && ((1.95..=2.05).contains(&ratio) || (2.95..=3.05).contains(&ratio))
            })
            .map(|q| q.snr)
            .fold(0.0, f64::max);
        let score = (p.snr + 0.8 * harmonic) / real(events + 1).log10();
        if best.is_none_or(|b| score > b.0) {
            best = Some((score, *p));
        }
        if strongest.is_none_or(|s| p.snr > s.1.snr) {
            strongest = Some((score, *p));
        }
    }
    let (best, strongest) = (best?, strongest?);
    let ratio = best.1.frequency / strongest.1.frequency;
    let keeps =
        best.1 == strongest.1 || (0.48..=0.52).contains(&ratio) || (0.32..=0.34).contains(&ratio);
    let chosen = if keeps { best } else { strongest };
    Some((1.0 / chosen.1.frequency, chosen.0))
}

/// Voices whose periods lie within a tenth of the first one's; the group of largest score.
fn strongest(voices: &[Voice]) -> Option<Vec<&Voice>> {
    let mut groups: Vec<Vec<&Voice>> = Vec::new();
    for v in voices {
        let near = groups.iter_mut().find(|g| {
            g.first()
                .is_some_and(|f| (v.period - f.period).abs() <= 0.1 * f.period)
        });
        match near {
            Some(group) => group.push(v),
            None => groups.push(vec![v]),
        }
    }
    let score = |g: &[&Voice]| g.iter().map(|v| v.score).sum::<f64>();
    groups
        .into_iter()
        .reduce(|a, b| if score(&b) > score(&a) { b } else { a })
}

/// Periods of several processes: those of the one with most seeds, which the others join by their
/// nearest seed. What comes before a long pause of the pacer is one prefill.
fn aligned(processes: &[(i64, Vec<Stretch>)]) -> Vec<Beat> {
    let seeds_of = |p: &(i64, Vec<Stretch>)| -> Vec<f64> {
        p.1.iter().flat_map(|s| s.seeds.iter().copied()).collect()
    };
    let Some(pacer) = processes
        .iter()
        .rev()
        .max_by_key(|p| p.1.iter().map(|s| s.seeds.len()).sum::<usize>())
    else {
        return Vec::new();
    };
    let period = pacer.1.iter().map(|s| s.period).sum::<f64>() / real(pacer.1.len().max(1));
    let followers: Vec<Vec<f64>> = processes
        .iter()
        .filter(|p| p.0 != pacer.0)
        .map(seeds_of)
        .collect();
    let starts: Vec<f64> = seeds_of(pacer)
        .into_iter()
        .map(|seed| {
            let near = followers.iter().filter_map(|list| {
                let close = |a: &&f64, b: &&f64| (**a - seed).abs().total_cmp(&(**b - seed).abs());
                let s = list.iter().min_by(close)?;
                ((s - seed).abs() <= 0.4 * period).then_some(*s)
            });
            near.fold(seed, f64::min)
        })
        .collect();
    let Some(&last) = starts.last() else {
        return Vec::new();
    };
    // The first long pause ends the prefill.
    let decode = starts
        .windows(2)
        .position(|w| w[1] - w[0] > 1.7 * period)
        .map_or(0, |i| i + 1);
    let mut list = Vec::new();
    if let (Some(&first), Some(&from), true) = (starts.first(), starts.get(decode), decode > 0) {
        list.push(Beat {
            start: first,
            end: from,
            kind: 1,
        });
    }
    let kind = if decode > 0 { 2 } else { 3 };
    for w in starts[decode..].windows(2) {
        list.push(Beat {
            start: w[0],
            end: w[1],
            kind,
        });
    }
    list.push(Beat {
        start: last,
        end: last + period,
        kind,
    });
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `count` periods of 30 ms with a little jitter: one name once, another eight times.
    fn steady(pid: i64, offset: f64, count: usize) -> Vec<Signal> {
        let mut list = Vec::new();
        for i in 0..count {
            let jitter = real(i * 7919 % 41) * 20.0;
            let start = offset + 30_000.0 * real(i) + jitter;
            for k in 0..9_u32 {
                list.push(Signal {
                    pid,
                    tid: 7,
                    name: u32::from(k > 0),
                    ts: start + 2_000.0 * f64::from(k),
                });
            }
        }
        list
    }

    const LIMITS: Limits = Limits {
        shortest: 20_000.0,
        align: false,
    };

    #[test]
    fn a_steady_beat_is_found_period_by_period() {
        let found = beats(&steady(1, 0.0, 200), LIMITS);
        assert!((199..=201).contains(&found.len()), "{}", found.len());
        let mut lengths: Vec<f64> = found.iter().map(|b| b.end - b.start).collect();
        lengths.sort_by(f64::total_cmp);
        assert!((lengths[100] - 30_000.0).abs() < 300.0);
        assert!(found.iter().all(|b| b.kind == 3));
    }

    #[test]
    fn too_few_events_have_none() {
        assert!(beats(&steady(1, 0.0, 11), LIMITS).is_empty());
    }

    /// Noise has peaks, too; what is made of them must still be periods in order.
    #[test]
    fn periods_of_noise_follow_each_other() {
        let noise: Vec<Signal> = (0..2_000_u32)
            .scan(1_u64, |state, name| {
                *state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                Some(Signal {
                    pid: 1,
                    tid: 1,
                    name: name % 2,
                    ts: f64::from(u32::try_from(*state >> 40).unwrap_or(0)),
                })
            })
            .collect();
        let found = beats(&noise, LIMITS);
        assert!(found.iter().all(|b| b.end > b.start));
        assert!(
            found.windows(2).all(|w| w[0].end <= w[1].start),
            "{found:?}"
        );
    }

    #[test]
    fn processes_join_the_one_with_most_periods() {
        let mut all = steady(1, 3_000.0, 150);
        all.extend(steady(2, 0.0, 160));
        let found = beats(
            &all,
            Limits {
                align: true,
                ..LIMITS
            },
        );
        assert!((158..=161).contains(&found.len()), "{}", found.len());
        assert!(found.iter().all(|b| b.kind == 3), "no pause, no prefill");
    }

    #[test]
    fn what_comes_before_a_pause_is_a_prefill() {
        let mut all = steady(1, 0.0, 60);
        all.extend(steady(1, 60.0 * 30_000.0 + 60_000.0, 100));
        let limits = Limits {
            align: true,
            ..LIMITS
        };
        let found = beats(&all, limits);
        assert_eq!(found[0].kind, 1);
        assert!(
            (found[0].end - 1_860_000.0).abs() < 1_000.0,
            "{:?}",
            found[0]
        );
        assert!(found[1..].iter().all(|b| b.kind == 2));
        assert_eq!(found.len(), 101);
    }
}
