//! One run of an engine that offloads its KV cache to a disk, in the formats of five recorders.
//!
//! Prefill writes the cache sequentially, there is a silence, and decode reads all of it once per
//! token. Planted truth: requests, bytes, the silence, and every latency.

use super::Fixture;
use super::json::{Json, object};
use super::rng::Rng;
use std::fmt::Write as _;

const START_NS: u64 = 86_400_000_000_123;
const SILENCE_NS: u64 = 2_000_000_000;
const WRITES: u64 = 32;
const WRITE_SECTORS: u64 = 1024;
const READ_SECTORS: u64 = 256;
const FIRST_SECTOR: u64 = 2048;
const TOKENS: u64 = 4;
const PID: u32 = 4242;
/// Major and minor number of the device.
const DEVICE: (u32, u32) = (8, 16);

/// A request with its issue and completion.
struct Request {
    issue_ns: u64,
    done_ns: u64,
    is_write: bool,
    sector: u64,
    sectors: u64,
}

impl Request {
    const fn operation(&self) -> &'static str {
        if self.is_write { "W" } else { "R" }
    }

    const fn bytes(&self) -> u64 {
        self.sectors * 512
    }
}

/// An event of a recorder: the time, whether the request is complete, and the request.
type Seen<'r> = (u64, bool, &'r Request);

pub(super) fn build(seed: u64) -> Vec<Fixture> {
    let requests = requests(&mut Rng::new(seed));
    let mut seen: Vec<Seen<'_>> = Vec::new();
    for request in &requests {
        seen.push((request.issue_ns, false, request));
        seen.push((request.done_ns, true, request));
    }
    seen.sort_by_key(|&(ns, done, request)| (ns, done, request.sector));
    let file = |name: &str, shows: &str, bytes: Vec<u8>| {
        Fixture::plain(&format!("blkio/offload.{name}"), shows, bytes)
    };
    vec![
        file(
            "issues.txt",
            "issues of a run that offloads its cache, five columns",
            five_columns(&requests).into_bytes(),
        ),
        file(
            "events.txt",
            "the same run as our collector writes it, issues and completions",
            collector(&seen).into_bytes(),
        ),
        file(
            "blkparse.txt",
            "the same run as blkparse prints it",
            blkparse(&seen).into_bytes(),
        ),
        file(
            "perf.txt",
            "the same run as perf script prints it",
            perf_script(&seen).into_bytes(),
        ),
        file(
            "blktrace.0",
            "the same run in the records of blktrace",
            blktrace(&seen),
        ),
        Fixture::truth("blkio/offload", &truth(&requests)),
    ]
}

fn requests(rng: &mut Rng) -> Vec<Request> {
    let mut requests: Vec<Request> = Vec::new();
    let mut now = START_NS;
    let mut add = |now: u64, rng: &mut Rng, is_write: bool, sector: u64, sectors: u64| {
        requests.push(Request {
            issue_ns: now,
            done_ns: now + 60_000 + rng.below(200_000),
            is_write,
            sector,
            sectors,
        });
    };
    for write in 0..WRITES {
        let sector = FIRST_SECTOR + write * WRITE_SECTORS;
        add(now, rng, true, sector, WRITE_SECTORS);
        now += 300_000 + rng.below(400_000);
    }
    now += SILENCE_NS;
    for _ in 0..TOKENS {
        for read in 0..WRITES * WRITE_SECTORS / READ_SECTORS {
            let sector = FIRST_SECTOR + read * READ_SECTORS;
            add(now, rng, false, sector, READ_SECTORS);
            now += 50_000 + rng.below(100_000);
        }
    }
    requests
}

fn five_columns(requests: &[Request]) -> String {
    let mut text = "Attaching 1 probe...\n".to_owned();
    for r in requests {
        let (ns, operation, bytes) = (r.issue_ns, r.operation(), r.bytes());
        let _ = writeln!(
            text,
            "{ns}, {operation}, {bytes}, {}, {}",
            r.sector, r.sectors
        );
    }
    text
}

fn collector(seen: &[Seen<'_>]) -> String {
    let mut text = "Attaching 3 probes...\n# blkio-events 1\n\
        # fields: ev, nsecs, cpu, major, minor, rwbs, bytes, sector, nr_sector, error, pid, comm\n"
        .to_owned();
    let (major, minor) = DEVICE;
    for &(ns, done, r) in seen {
        let (event, pid, comm) = if done {
            ("C", 0, "swapper/0")
        } else {
            ("I", PID, "engine")
        };
        let _ = writeln!(
            text,
            "{event}, {ns}, 0, {major}, {minor}, {}, {}, {}, {}, 0, {pid}, {comm}",
            r.operation(),
            r.bytes(),
            r.sector,
            r.sectors,
        );
    }
    text
}

/// Formats seconds with nine decimals.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

fn blkparse(seen: &[Seen<'_>]) -> String {
    let mut text = String::new();
    let (major, minor) = DEVICE;
    for (number, &(ns, done, r)) in (1..).zip(seen) {
        // Times are relative to the first event.
        let time = seconds(ns - START_NS);
        let (action, pid, comm) = if done {
            ("C", 0, "0")
        } else {
            ("D", PID, "engine")
        };
        let _ = writeln!(
            text,
            "{major:>3},{minor:<3} 0 {number:>8} {time:>14} {pid:>5}  {action}   {} {} + {} [{comm}]",
            r.operation(),
            r.sector,
            r.sectors,
        );
    }
    text
}

fn perf_script(seen: &[Seen<'_>]) -> String {
    let mut text = String::new();
    let (major, minor) = DEVICE;
    for &(ns, done, r) in seen {
        let (time, operation) = (seconds(ns), r.operation());
        let (sector, sectors) = (r.sector, r.sectors);
        let _ = if done {
            writeln!(
                text,
                "         swapper     0 [000] {time}: block:block_rq_complete: \
                 {major},{minor} {operation} () {sector} + {sectors} [0]"
            )
        } else {
            let bytes = r.bytes();
            writeln!(
                text,
                "          engine {PID:>5} [000] {time}:    block:block_rq_issue: \
                 {major},{minor} {operation} {bytes} () {sector} + {sectors} [engine]"
            )
        };
    }
    text
}

/// `struct blk_io_trace` of the kernel's `blktrace_api.h`, little-endian, version 7.
fn blktrace(seen: &[Seen<'_>]) -> Vec<u8> {
    const MAGIC: u32 = 0x6561_7407;
    // Categories (BLK_TC_*) are in the bits above the actions (__BLK_TA_ISSUE, __BLK_TA_COMPLETE).
    const ISSUED: u32 = 7 | 1 << (6 + 16);
    const COMPLETED: u32 = 8 | 1 << (7 + 16);
    const READ: u32 = 1 << 16;
    const WRITE: u32 = 1 << 17;
    let device = DEVICE.0 << 20 | DEVICE.1;
    let mut out = Vec::new();
    for (number, &(ns, done, r)) in (1_u32..).zip(seen) {
        let direction = if r.is_write { WRITE } else { READ };
        let action = if done { COMPLETED } else { ISSUED } | direction;
        let bytes = u32::try_from(r.bytes()).unwrap_or(u32::MAX);
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&ns.to_le_bytes());
        out.extend_from_slice(&r.sector.to_le_bytes());
        for word in [bytes, action, if done { 0 } else { PID }, device, 0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        // No error, no payload.
        out.extend_from_slice(&[0; 4]);
    }
    out
}

fn truth(requests: &[Request]) -> Json {
    let of = |is_write: bool| {
        let some = requests.iter().filter(move |r| r.is_write == is_write);
        let (count, bytes) = some.fold((0_u64, 0), |(n, sum), r| (n + 1, sum + r.bytes()));
        object! { "ios": count, "bytes": bytes }
    };
    let latency = |is_write: bool| {
        let some = requests.iter().filter(|r| r.is_write == is_write);
        let all: Vec<u64> = some.map(|r| r.done_ns - r.issue_ns).collect();
        object! {
            "count": all.len() as u64,
            "min": all.iter().copied().min().unwrap_or(0),
            "max": all.iter().copied().max().unwrap_or(0),
            "sum": all.iter().sum::<u64>(),
        }
    };
    let (first, last) = (&requests[0], &requests[requests.len() - 1]);
    object! {
        "issues": requests.len() as u64,
        "first_issue_ns": first.issue_ns,
        "last_issue_ns": last.issue_ns,
        "write": of(true),
        "read": of(false),
        "latency_ns": object! { "read": latency(false), "write": latency(true) },
        "tokens": TOKENS,
        "read_bytes_per_token": WRITES * WRITE_SECTORS * 512,
        "silence_at_least_ns": SILENCE_NS,
    }
}
