//! Made-up traces of a run that offloads its KV cache, with the truth about them.
//!
//! Prefill writes, there is silence, and decode reads, token by token, among metadata, flushes and readahead: unless stated
//! otherwise what was written, back in a loop. How requests arrive, how long they take, how large they are and where they go
//! is for a [`Spec`] to say. The same seed gives the same bytes on every machine.

mod places;
mod random;
mod spec;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Write};

use serde_json::{Value, json};

use self::places::{Places, sectors};
use self::random::Random;
pub use self::spec::{Arrivals, LatencyLaw, Pattern, Size, Spec};
use crate::num::whole;

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

/// Requests of a burst.
const BURST: u64 = 64;

/// Time from the request before to this one.
fn gap(spec: &Spec, number: u64, random: &mut Random) -> u64 {
    let mean = spec.mean_gap_ns;
    match spec.arrivals {
        Arrivals::Poisson => random.exponential(mean as f64),
        Arrivals::Constant => mean,
        Arrivals::Bursts if !number.is_multiple_of(BURST) => mean / 10,
        Arrivals::Bursts => (mean * BURST).saturating_sub(mean / 10 * (BURST - 1)),
    }
}

/// Time at the device.
fn latency(spec: &Spec, random: &mut Random) -> u64 {
    let mean = spec.mean_latency_ns;
    match spec.latency_law {
        LatencyLaw::Exponential => mean / 5 + random.exponential((mean - mean / 5) as f64),
        LatencyLaw::Constant => mean,
        LatencyLaw::Uniform => random.below(2 * mean + 1),
        LatencyLaw::Pareto => random.pareto(mean as f64),
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
    let mut sizes: BTreeMap<&'static str, BTreeMap<u64, u64>> = BTreeMap::new();
    let cache_sectors = (spec.cache_bytes / 512).max(2560);
    let mut now = spec.start_ns;
    let (mut writes, mut reads) = (Places::new(spec), Places::new(spec));
    let mut boundary = (0, 0);
    let (mut first, mut last) = (None, 0);
    let (mut pairs, mut lost, mut latency_sum) = (0_u64, 0_u64, 0_u64);
    let (mut outstanding, mut max_depth) = (BinaryHeap::new(), 0);
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
        now += gap(spec, number, &mut random).max(1);
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
            let sectors = sectors(spec, true, &mut random);
            ("W", writes.next(sectors, &mut random), sectors)
        } else {
            let sectors = sectors(spec, false, &mut random);
            ("RA", reads.next(sectors, &mut random), sectors)
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
        *sizes.entry(rwbs).or_default().entry(bytes).or_default() += 1;
        let delay = random.below(spec.reorder_ns.max(1));
        if lines == Lines::Issue {
            let line = format!("{now}, {rwbs}, {bytes}, {sector}, {sectors}\n");
            shuffled.push(now, delay, now, line)?;
            continue;
        }
        let line =
            format!("I, {now}, 0, 7, 0, {rwbs}, {bytes}, {sector}, {sectors}, 0, 100, synth\n");
        shuffled.push(now, delay, now, line)?;
        let latency = latency(spec, &mut random);
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
        while outstanding.peek().is_some_and(|Reverse(done)| *done <= now) {
            outstanding.pop();
        }
        outstanding.push(Reverse(now + latency));
        max_depth = max_depth.max(outstanding.len());
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
        "sizes_by_op": sizes,
        "phase_boundary_ns": (prefill > 0 && prefill < spec.requests).then_some([boundary.0, boundary.1]),
        "events": (lines == Lines::Events).then(|| json!({
            "pairs": pairs,
            "lost_completions": lost,
            "latency_sum_ns": latency_sum,
            "max_depth": max_depth,
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
            let sum: u128 = newest.latency.iter().map(|l| l.sum).sum();
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
            let phases = crate::analyse::phases::of(&stats.traffic, &[]);
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
        let p50 = |stats: Stats| stats.newest.unwrap().latency[0].percentiles(&[50.0])[0] as f64;
        let (whole, lossy) = (p50(whole), p50(lossy));
        assert!((lossy / whole - 1.0).abs() < 0.03, "{whole} {lossy}");
    }

    /// Reads only, of 64 KiB, with what else is asked for.
    fn reads(more: &str) -> (Stats, Value) {
        let text = format!(
            "{{\"requests\": 4000, \"prefill_share\": 0, \"noise_share\": 0, \"sizes\": {{\"65536\": 1}}, {more}}}"
        );
        analyse(&Spec::from_json(text.as_bytes()).unwrap(), 7)
    }

    #[test]
    fn patterns_are_found_by_the_analyses() {
        let class = |more: &str| {
            let (mut stats, _) = reads(more);
            let access = stats.access.take().unwrap();
            let hot = crate::analyse::access::hottest(&access.sectors, &[5])[0].1;
            let [reads, ..] = stats.sequentiality.take().unwrap().classes;
            (reads, hot, access.distinct_blocks().read)
        };
        let (onward, _, blocks) = class("\"pattern\": \"sequential\"");
        assert_eq!((onward.sequential, blocks), (3999, 4000 * 16));
        let (looped, _, blocks) = class("\"pattern\": \"loop\"");
        assert_eq!((looped.backward, blocks), (3, 1024 * 16));
        let (strided, ..) = class("\"pattern\": \"strided\", \"stride_bytes\": 524288");
        assert_eq!(strided.top_strides(1)[0].0, 1024);
        assert!(strided.top_strides(1)[0].1 > 3900);
        let (streams, ..) = class("\"pattern\": \"sequential\", \"streams\": 8");
        assert!(streams.sequential < 1000 && streams.multi_stream > 3800);
        let (random, even, _) = class("\"pattern\": \"random\"");
        let (_, uneven, _) = class("\"pattern\": \"zipf\", \"zipf_exponent\": 1.2");
        assert!(
            random.sequential < 20 && even < 0.3 && uneven > 0.5,
            "{even} {uneven}"
        );
    }

    #[test]
    fn arrivals_latencies_and_sizes_are_as_asked() {
        let (stats, truth) = reads("\"arrivals\": \"constant\", \"latency_law\": \"constant\"");
        assert_eq!(
            (stats.arrivals.gaps.min, stats.arrivals.gaps.max),
            (500_000, 500_000)
        );
        let newest = stats.newest.unwrap();
        assert_eq!(
            (newest.latency[0].min, newest.latency[0].max),
            (120_000, 120_000)
        );
        assert_eq!(truth["events"]["max_depth"], 1);
        let (stats, _) = reads("\"arrivals\": \"bursts\", \"mean_gap_ns\": 4000000");
        assert_eq!(stats.arrivals.bursts, 4000_u64.div_ceil(64));
        for law in ["uniform", "pareto", "exponential"] {
            let (stats, truth) = reads(&format!("\"latency_law\": \"{law}\""));
            let newest = stats.newest.unwrap();
            let all = &newest.latency[0];
            assert_eq!(
                u64::try_from(all.sum).unwrap(),
                truth["events"]["latency_sum_ns"]
            );
            assert!(
                (all.sum as f64 / 4000.0 / 120_000.0 - 1.0).abs() < 0.1,
                "{law}"
            );
            assert_eq!(newest.depth.all.max(), truth["events"]["max_depth"]);
        }
        let spec = Spec::from_json(br#"{"sizes": {"4096": 3, "131072": 1}}"#).unwrap();
        let (stats, truth) = analyse(&spec, 2);
        for (number, operation) in stats.traffic.operations.iter().enumerate() {
            let name = stats.outcome.symbols.rwbs_all()[number].as_str();
            let sizes: BTreeMap<String, u64> = operation
                .sizes
                .iter()
                .map(|(size, n)| (size.to_string(), *n))
                .collect();
            assert_eq!(json!(sizes), truth["sizes_by_op"][name], "{name}");
        }
        let small = truth["sizes_by_op"]["RA"]["4096"].as_f64().unwrap();
        let large = truth["sizes_by_op"]["RA"]["131072"].as_f64().unwrap();
        assert!((small / large / 3.0 - 1.0).abs() < 0.2);
    }

    #[test]
    fn specifications_are_checked() {
        assert_eq!(Spec::from_json(b"{\"requests\": 5}").unwrap().requests, 5);
        for wrong in [
            r#"{"pattern": "Zipf"}"#,
            r#"{"arrivals": 1}"#,
            r#"{"sizes": {}}"#,
            r#"{"sizes": {"100": 1}}"#,
            r#"{"sizes": {"512": 0}}"#,
            r#"{"streams": 0}"#,
            r#"{"zipf_exponent": -1}"#,
        ] {
            assert!(Spec::from_json(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(Spec::from_json(b"{\"request\": 5}").is_err());
        assert!(Spec::from_json(b"{\"noise_share\": 2}").is_err());
        assert!(Spec::from_json(b"[]").is_err());
    }
}
