//! Generates block I/O traces with known truth, for tests and measurements.
//!
//! [`write()`] generates the trace of a run that offloads its KV cache: prefill writes, a silence,
//! and decode reads the written data token by token, mixed with metadata, flushes and readahead. A
//! [`Spec`] defines arrivals, latencies, sizes and locations of requests. The truth about the trace
//! is counted while it is written and returned as JSON. The same seed gives the same bytes on every
//! machine.
//!
//! The crate reads no traces and imitates no program.
//!
//! ```
//! use blkio_synth::{Lines, Spec, write};
//!
//! let mut spec = Spec::default();
//! spec.requests = 100;
//! let mut log = Vec::new();
//! let truth = write(&spec, 1, Lines::Issue, &mut log)?;
//! assert_eq!(truth["requests"], 100);
//! // A line of the tracer, then one line for each request.
//! assert_eq!(log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), 101);
//! # Ok::<(), std::io::Error>(())
//! ```

mod places;
mod random;
mod spec;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Write};

use serde_json::{Value, json};

use self::places::{Places, sectors};
use self::random::Random;
pub use self::spec::{Arrivals, LatencyLaw, Pattern, Size, Spec, SpecError};

/// Format of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lines {
    /// The five-column issue log.
    Issue,
    /// Issue and completion lines of the collector.
    Events,
}

/// Buffers lines to write them out of order.
struct Shuffled<'w, W: Write> {
    out: &'w mut W,
    held: BTreeMap<(u64, u64), String>,
    window_ns: u64,
    number: u64,
}

impl<W: Write> Shuffled<'_, W> {
    /// Adds a line of time `t_ns` that appears up to the window later, and writes the lines that
    /// are due.
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

/// Number of requests of a burst.
const BURST: u64 = 64;

/// Returns the time from the previous request to this one.
fn gap(spec: &Spec, number: u64, random: &mut Random) -> u64 {
    let mean = spec.mean_gap_ns;
    match spec.arrivals {
        Arrivals::Poisson => random.exponential(mean as f64),
        Arrivals::Constant => mean,
        Arrivals::Bursts if !number.is_multiple_of(BURST) => mean / 10,
        Arrivals::Bursts => (mean * BURST).saturating_sub(mean / 10 * (BURST - 1)),
    }
}

/// Returns the time at the device.
fn latency(spec: &Spec, random: &mut Random) -> u64 {
    let mean = spec.mean_latency_ns;
    match spec.latency_law {
        LatencyLaw::Exponential => mean / 5 + random.exponential((mean - mean / 5) as f64),
        LatencyLaw::Constant => mean,
        LatencyLaw::Uniform => random.below(2 * mean + 1),
        LatencyLaw::Pareto => random.pareto(mean as f64),
    }
}

/// Writes a trace and returns the truth about it as a JSON object: counts and bytes by operation,
/// the silence, pairs.
///
/// # Errors
///
/// Returns an error if writing to `out` fails.
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
        // Requests for the same place never overlap at the device.
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

/// Returns the whole part of a number that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and negative values become 0"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

/// Converts an index; a value that does not fit cannot be allocated either.
fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
