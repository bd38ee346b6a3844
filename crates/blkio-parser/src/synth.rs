//! Made-up traces of a run that offloads its KV cache, with the truth about them.
//!
//! Prefill writes, there is silence, and decode reads what was written back in a loop, token by token, among metadata,
//! flushes and readahead. The same seed gives the same bytes on every machine.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::num::whole;

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Spec {
    /// Requests in all.
    pub requests: u64,
    /// Share of the requests in prefill.
    pub prefill_share: f64,
    /// Silence between prefill and decode in nanoseconds.
    pub silence_ns: u64,
    /// Mean time between requests; arrivals are a Poisson process.
    pub mean_gap_ns: u64,
    /// Mean latency; exponential above a fifth of it.
    pub mean_latency_ns: u64,
    /// Size of the cache on the device, in bytes.
    pub cache_bytes: u64,
    /// First sector of the cache.
    pub first_sector: u64,
    /// Share of requests somewhere else: metadata, flushes, discards.
    pub noise_share: f64,
    /// Share of completions that are lost.
    pub lost_completions: f64,
    /// How far lines are out of order, in nanoseconds.
    pub reorder_ns: u64,
    /// Time of the beginning.
    pub start_ns: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            requests: 2000,
            prefill_share: 0.3,
            silence_ns: 3_000_000_000,
            mean_gap_ns: 500_000,
            mean_latency_ns: 120_000,
            cache_bytes: 64 << 20,
            first_sector: 4096,
            noise_share: 0.1,
            lost_completions: 0.0,
            reorder_ns: 2_000_000,
            start_ns: 36_153_665_514_728,
        }
    }
}

impl Spec {
    /// From JSON with any of the fields; the others keep their defaults.
    ///
    /// # Errors
    ///
    /// Text that is no JSON object, fields that do not exist or have the wrong kind of value.
    pub fn from_json(text: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let map = value.as_object().ok_or("expected a JSON object")?;
        let mut spec = Self::default();
        for (key, value) in map {
            let whole = || {
                value
                    .as_u64()
                    .ok_or(format!("{key}: expected a whole number"))
            };
            let share = || {
                value
                    .as_f64()
                    .filter(|v| (0.0..=1.0).contains(v))
                    .ok_or(format!("{key}: expected a number from 0 to 1"))
            };
            match key.as_str() {
                "requests" => spec.requests = whole()?,
                "prefill_share" => spec.prefill_share = share()?,
                "silence_ns" => spec.silence_ns = whole()?,
                "mean_gap_ns" => spec.mean_gap_ns = whole()?,
                "mean_latency_ns" => spec.mean_latency_ns = whole()?,
                "cache_bytes" => spec.cache_bytes = whole()?,
                "first_sector" => spec.first_sector = whole()?,
                "noise_share" => spec.noise_share = share()?,
                "lost_completions" => spec.lost_completions = share()?,
                "reorder_ns" => spec.reorder_ns = whole()?,
                "start_ns" => spec.start_ns = whole()?,
                other => return Err(format!("{other}: no such field")),
            }
        }
        Ok(spec)
    }
}

/// Random numbers by splitmix64: small, quick, the same everywhere.
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn exponential(&mut self, mean: f64) -> u64 {
        whole(-(1.0 - self.unit()).ln() * mean)
    }
}

/// Which lines to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// The five-column issue log.
    Issue,
    /// Issue and completion lines of the collector.
    Events,
}

/// Lines that are held to be put out of order.
struct Shuffled<'w, W: Write> {
    out: &'w mut W,
    held: BTreeMap<(u64, u64), String>,
    window_ns: u64,
    number: u64,
}

impl<W: Write> Shuffled<'_, W> {
    /// Takes a line of time `t_ns` that appears up to the window later, and writes those whose time has come.
    fn push(&mut self, t_ns: u64, delay_ns: u64, now_ns: u64, line: String) -> io::Result<()> {
        self.number += 1;
        self.held.insert((t_ns + delay_ns, self.number), line);
        while let Some(entry) = self.held.first_entry() {
            if entry.key().0 + self.window_ns >= now_ns {
                break;
            }
            self.out.write_all(entry.remove().as_bytes())?;
        }
        Ok(())
    }

    fn finish(self) -> io::Result<()> {
        for line in self.held.values() {
            self.out.write_all(line.as_bytes())?;
        }
        Ok(())
    }
}

/// Writes a trace and gives the truth about it: counts and bytes by operation, the silence, pairs.
///
/// # Errors
///
/// Those of `out`.
pub fn write<W: Write>(spec: &Spec, seed: u64, lines: Lines, out: &mut W) -> io::Result<Value> {
    let mut random = Random(seed);
    match lines {
        Lines::Issue => writeln!(out, "Attaching 1 probe...")?,
        Lines::Events => writeln!(
            out,
            "Attaching 3 probes...\n# blkio-events 1\n# fields: ev, nsecs, cpu, major, minor, rwbs, bytes, sector, nr_sector, error, pid, comm"
        )?,
    }
    let mut counts: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    let prefill = whole(spec.requests as f64 * spec.prefill_share);
    let cache_sectors = (spec.cache_bytes / 512).max(2560);
    let mut now = spec.start_ns;
    let (mut write_at, mut read_at) = (0_u64, 0_u64);
    let mut boundary = (0, 0);
    let (mut first, mut last) = (None, 0);
    let (mut pairs, mut lost, mut latency_sum) = (0_u64, 0_u64, 0_u64);
    let mut free_at: BTreeMap<u64, u64> = BTreeMap::new();
    let mut shuffled = Shuffled {
        out,
        held: BTreeMap::new(),
        window_ns: spec.reorder_ns,
        number: 0,
    };
    for number in 0..spec.requests {
        if number == prefill && prefill > 0 {
            boundary.0 = last;
            now += spec.silence_ns;
        }
        now += random.exponential(spec.mean_gap_ns as f64).max(1);
        let is_noise = random.unit() < spec.noise_share;
        let (rwbs, sector, sectors): (&'static str, u64, u64) = if is_noise {
            let far = spec.first_sector + cache_sectors * 2 + random.below(1 << 16) * 8;
            match random.below(5) {
                0 => ("FF", 0, 0),
                1 => ("WSM", far, 8),
                2 => ("RM", far, 8),
                3 => ("WFS", far, 8),
                _ => ("RS", far, 8 << random.below(4)),
            }
        } else if number < prefill {
            let sectors = [256, 512, 1024, 2560][crate::num::index(random.below(4))];
            if write_at + sectors > cache_sectors {
                write_at = 0;
            }
            let at = write_at;
            write_at += sectors;
            ("W", spec.first_sector + at, sectors)
        } else {
            if read_at + 256 > cache_sectors {
                read_at = 0;
            }
            let at = read_at;
            read_at += 256;
            ("RA", spec.first_sector + at, 256)
        };
        let bytes = sectors * 512;
        // No two requests of one place are at the device at once.
        if let Some(free) = free_at.get(&sector) {
            now = now.max(free + 1);
        }
        if number == prefill {
            boundary.1 = now;
        }
        first.get_or_insert(now);
        last = now;
        let entry = counts.entry(rwbs).or_default();
        entry.0 += 1;
        entry.1 += bytes;
        let delay = random.below(spec.reorder_ns.max(1));
        if lines == Lines::Issue {
            let line = format!("{now}, {rwbs}, {bytes}, {sector}, {sectors}\n");
            shuffled.push(now, delay, now, line)?;
            continue;
        }
        let line =
            format!("I, {now}, 0, 7, 0, {rwbs}, {bytes}, {sector}, {sectors}, 0, 100, synth\n");
        shuffled.push(now, delay, now, line)?;
        let least = spec.mean_latency_ns / 5;
        let latency = least + random.exponential((spec.mean_latency_ns - least) as f64);
        free_at.insert(sector, now + latency);
        if free_at.len() > 4096 {
            free_at.retain(|_, free| *free > now);
        }
        if random.unit() < spec.lost_completions {
            lost += 1;
            continue;
        }
        pairs += 1;
        latency_sum += latency;
        let place = if rwbs == "FF" { u64::MAX } else { sector };
        let done = now + latency;
        let line =
            format!("C, {done}, 0, 7, 0, {rwbs}, {bytes}, {place}, {sectors}, 0, 0, swapper\n");
        shuffled.push(done, delay, now, line)?;
    }
    shuffled.finish()?;
    let of = |pick: fn(&(u64, u64)) -> u64| -> serde_json::Map<String, Value> {
        let items = counts.iter();
        items
            .map(|(op, c)| ((*op).to_owned(), pick(c).into()))
            .collect()
    };
    Ok(json!({
        "schema_version": 1,
        "seed": seed,
        "requests": spec.requests,
        "first_issue_ns": first,
        "last_issue_ns": last,
        "count_by_op": of(|c| c.0),
        "bytes_by_op": of(|c| c.1),
        "phase_boundary_ns": (prefill > 0 && prefill < spec.requests).then_some([boundary.0, boundary.1]),
        "events": (lines == Lines::Events).then(|| json!({
            "pairs": pairs,
            "lost_completions": lost,
            "latency_sum_ns": latency_sum,
        })),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Stats, StatsOptions};

    fn analyse(spec: &Spec, seed: u64) -> (Stats, Value) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let mut text = Vec::new();
        let truth = write(spec, seed, Lines::Events, &mut text).unwrap();
        std::fs::write(&path, text).unwrap();
        (
            Stats::of_files(&[path], &StatsOptions::default()).unwrap(),
            truth,
        )
    }

    #[test]
    fn the_analyses_find_the_planted_truth() {
        for seed in 1..6 {
            let (stats, truth) = analyse(&Spec::default(), seed);
            let newest = stats.newest.unwrap();
            assert_eq!(newest.matching.pairs, truth["events"]["pairs"]);
            let sum: u128 = newest.latency.iter().map(|l| l.all.sum).sum();
            // Flushes may overlap, and a later one then replaces an earlier one.
            if newest.matching.superseded_issues == 0 {
                assert_eq!(
                    u64::try_from(sum).unwrap(),
                    truth["events"]["latency_sum_ns"]
                );
            }
            for (number, operation) in stats.traffic.operations.iter().enumerate() {
                let name = stats.outcome.symbols.rwbs_all()[number].as_str();
                let count: u64 = operation.sizes.values().sum();
                assert_eq!(count, truth["count_by_op"][name], "{name}");
            }
            let phases = crate::analyse::phases::of(&stats.traffic);
            let first = stats.traffic.first_issue_ns.unwrap();
            let (end, start) = phases.boundary_ns.unwrap();
            let silence = &truth["phase_boundary_ns"];
            let bin = phases.bin_ns;
            assert!((first + end).abs_diff(silence[0].as_u64().unwrap()) <= bin);
            assert!((first + start).abs_diff(silence[1].as_u64().unwrap()) <= bin);
        }
    }

    #[test]
    fn lost_completions_hardly_move_the_median() {
        let whole = analyse(
            &Spec {
                requests: 20_000,
                ..Spec::default()
            },
            3,
        )
        .0;
        let lossy = Spec {
            requests: 20_000,
            lost_completions: 0.06,
            ..Spec::default()
        };
        let lossy = analyse(&lossy, 3).0;
        let p50 =
            |stats: Stats| stats.newest.unwrap().latency[0].all.percentiles(&[50.0])[0] as f64;
        let (whole, lossy) = (p50(whole), p50(lossy));
        assert!((lossy / whole - 1.0).abs() < 0.03, "{whole} {lossy}");
    }

    #[test]
    fn specifications_are_checked() {
        assert_eq!(Spec::from_json(b"{\"requests\": 5}").unwrap().requests, 5);
        assert!(Spec::from_json(b"{\"request\": 5}").is_err());
        assert!(Spec::from_json(b"{\"noise_share\": 2}").is_err());
        assert!(Spec::from_json(b"[]").is_err());
    }
}
