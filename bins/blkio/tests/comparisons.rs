//! Why two runs differ: changes planted by a simulation of applications and devices, and pairs without one.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of a simulation are positive, and far below the limits"
)]

use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -(1.0 - self.next()).ln()
    }
}

/// Verdicts on loads of all kinds never contradict what the simulation does when that is changed which they say limits it.
#[test]
fn limits_agree_with_what_a_change_brings() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    let mut said = std::collections::BTreeMap::<String, u32>::new();
    let rate = |app: App, device: Device| -> f64 {
        let text = trace(
            &[App {
                requests: 1500,
                ..app
            }],
            device,
            9,
        );
        let time = |line: &str| line.split(", ").nth(1).unwrap().parse::<f64>().unwrap();
        let (first, last) = (text.lines().next().unwrap(), text.lines().last().unwrap());
        1500.0 / (time(last) - time(first))
    };
    let mut seed = 0;
    for parallel in [1, 4, 16] {
        for threads in [1, 2, 8, 32] {
            for think_us in [0.0, 40.0, 400.0] {
                for (is_sequential, bytes) in [(true, 131_072), (false, 4096)] {
                    seed += 1;
                    let device = Device {
                        parallel,
                        seek_us: 50.0,
                        stray: 0.0,
                        ..DISK
                    };
                    let app = App {
                        threads,
                        think_us,
                        is_sequential,
                        bytes,
                        ..READS
                    };
                    // A part of the trace comes from fewer threads, which shows how latency goes with depth.
                    let fewer = App {
                        requests: 600,
                        threads: threads.div_ceil(4),
                        ..app
                    };
                    let text = trace(&[fewer, app], device, seed);
                    std::fs::write(&path, text).unwrap();
                    let words = ["stats", path.to_str().unwrap(), "--json"];
                    let document = crate::json(&crate::blkio(dir.path(), &words));
                    let limit = &document["limit"];
                    let limiter = limit["limiter"].as_str().unwrap();
                    *said.entry(limiter.to_owned()).or_default() += 1;
                    let now = rate(app, device);
                    let deeper = rate(
                        App {
                            threads: threads * 2,
                            ..app
                        },
                        device,
                    ) / now;
                    let without = rate(
                        App {
                            think_us: 0.0,
                            ..app
                        },
                        device,
                    ) / now;
                    let told = format!(
                        "{parallel} at a time, {threads} threads, {think_us} us, {bytes}: {limiter}; deeper {deeper:.2}, without pauses {without:.2}: {limit}"
                    );
                    match limiter {
                        "device" | "request size" => {
                            assert!(deeper < 1.25 && without < 1.25, "{told}")
                        }
                        "queue depth" => assert!(deeper > 1.25, "{told}"),
                        "think time" => assert!(without > 1.25, "{told}"),
                        _ => {}
                    }
                    // No depth is above the largest that the simulation has.
                    for phase in document["phases"]["phases"].as_array().unwrap() {
                        let mean = phase["mean_queue_depth"].as_f64().unwrap_or(0.0);
                        assert!(mean <= threads as f64, "{mean}: {told}");
                    }
                }
            }
        }
    }
    // Most are decided.
    let unknown = said.get("cannot say").copied().unwrap_or(0);
    assert!(unknown * 2 < said.values().sum(), "{said:?}");
}

/// A phase that is cut where requests are in flight has the depth that was there.
#[test]
fn a_given_phase_is_no_deeper_than_the_queue() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    let app = App {
        threads: 16,
        think_us: 0.0,
        ..READS
    };
    let serial = Device {
        parallel: 1,
        stray: 0.0,
        ..DISK
    };
    std::fs::write(&path, trace(&[app], serial, 4)).unwrap();
    for (from_us, until_us) in [
        (0, 1500),
        (20_000, 21_000),
        (20_000, 21_700),
        (100_000, 101_000),
    ] {
        let phase = format!("part={from_us}us..{until_us}us");
        let words = ["stats", path.to_str().unwrap(), "--json", "--phase", &phase];
        let document = crate::json(&crate::blkio(dir.path(), &words));
        let depth = &document["given_phases"][0]["mean_queue_depth"];
        let depth = depth.as_f64().unwrap();
        let most = if from_us == 0 { 15.99 } else { 16.0 };
        assert!((15.5..=most).contains(&depth), "{phase}: {depth}");
    }
}

/// Small requests are no idleness, and nor is a time in which nothing is issued while requests are in flight.
#[test]
fn a_log_of_writes_has_no_false_idle_phase() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.txt");
    let labels = |text: String| -> Vec<String> {
        std::fs::write(&path, text).unwrap();
        let words = ["stats", path.to_str().unwrap(), "--json"];
        let document = crate::json(&crate::blkio(dir.path(), &words));
        let phases = document["phases"]["phases"].as_array().unwrap().clone();
        for phase in &phases {
            let (from, until) = (&phase["active_from_ns"], &phase["active_until_ns"]);
            assert!(from.as_u64() < until.as_u64(), "{phase}");
        }
        phases
            .iter()
            .map(|of| of["label"].as_str().unwrap().to_owned())
            .collect()
    };
    let large = (0..400_u64).map(|n| (1_000_000_000 + n * 1_000_000, 1_048_576, n * 2048));
    let small = (0..400_u64).map(|n| (1_400_000_000 + n * 2_000_000, 4096, n * 8));
    let line = |(t, bytes, sector): (u64, u64, u64)| {
        format!("{t}, W, {bytes}, {sector}, {}\n", bytes / 512)
    };
    assert_eq!(
        labels(large.chain(small).map(line).collect()),
        ["write-heavy"]
    );
    // Bursts of 64 writes every 150 ms, the last of which takes until the next burst.
    let mut lines: Vec<(u64, String)> = Vec::new();
    for burst in 0..40_u64 {
        for n in 0..64 {
            let issue = 1_000_000_000 + burst * 150_000_000 + n * 300_000;
            let done = issue + 100_000 + n * 2_300_000;
            let sector = (burst * 64 + n) * 256;
            for (t, kind) in [(issue, 'I'), (done, 'C')] {
                lines.push((
                    t,
                    format!("{kind}, {t}, 1, 259, 0, W, 131072, {sector}, 256, 0, 1, a\n"),
                ));
            }
        }
    }
    lines.sort();
    assert_eq!(
        labels(lines.into_iter().map(|(_, line)| line).collect()),
        ["write-heavy"]
    );
}

/// An application: threads that each wait for a request, pause, and issue the next.
#[derive(Clone, Copy)]
struct App {
    requests: u64,
    threads: usize,
    /// Mean pause of a thread, exponentially distributed unless it is regular.
    think_us: f64,
    is_regular: bool,
    bytes: u64,
    is_sequential: bool,
    write_share: f64,
    /// Bytes of a write, if they differ.
    write_bytes: u64,
    /// All threads wait for each other, and pause together.
    is_in_rounds: bool,
    /// A pause of all threads behind the part.
    then_ms: u64,
}

/// A device that serves so many requests at a time, in the order of their issue.
#[derive(Clone, Copy)]
struct Device {
    parallel: usize,
    fixed_us: f64,
    us_per_mib: f64,
    /// What a random request takes more, and a write.
    seek_us: f64,
    write_us: f64,
    /// A file system's thread that writes beside the application, in requests for each of it.
    stray: f64,
}

const READS: App = App {
    requests: 4000,
    threads: 4,
    think_us: 60.0,
    is_regular: false,
    bytes: 128 << 10,
    is_sequential: true,
    write_share: 0.0,
    write_bytes: 128 << 10,
    is_in_rounds: false,
    then_ms: 0,
};
const WRITES: App = App {
    write_share: 1.0,
    ..READS
};
const DISK: Device = Device {
    parallel: 8,
    fixed_us: 60.0,
    us_per_mib: 300.0,
    seek_us: 0.0,
    write_us: 20.0,
    stray: 0.002,
};

/// The trace of some applications, one after the other, as the collector writes it.
fn trace(apps: &[App], device: Device, seed: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut lines: Vec<(u64, u8, String)> = Vec::new();
    let mut sector = 2048_u64;
    let mut put = |issue: f64, end: f64, write: bool, sector: u64, bytes: u64| {
        for (order, kind, t_ns) in [(1, 'I', issue), (0, 'C', end)] {
            let t_ns = 1_000_000_000 + t_ns as u64;
            let mut line = String::new();
            let _ = writeln!(
                line,
                "{kind}, {t_ns}, 1, 259, 0, {}, {bytes}, {sector}, {}, 0, 42, job",
                if write { 'W' } else { 'R' },
                bytes / 512
            );
            lines.push((t_ns, order, line));
        }
    };
    let mut servers = vec![0.0_f64; device.parallel];
    let mut now = 0.0;
    for app in apps {
        // The earliest first.
        let mut ready: BinaryHeap<std::cmp::Reverse<u64>> = (0..app.threads)
            .map(|thread| std::cmp::Reverse((now + thread as f64 * 500.0) as u64))
            .collect();
        for _ in 0..app.requests {
            let issue = ready.pop().unwrap().0 as f64;
            let is_write = random.next() < app.write_share;
            let bytes = if is_write { app.write_bytes } else { app.bytes };
            if !app.is_sequential {
                sector = 2048 + (random.next() * 1e8) as u64 * 256;
            }
            let mut service = device.fixed_us + device.us_per_mib * bytes as f64 / 1_048_576.0;
            service += if app.is_sequential {
                0.0
            } else {
                device.seek_us
            };
            service += if is_write { device.write_us } else { 0.0 };
            service *= 1000.0 * (0.9 + 0.2 * random.next());
            let server = servers.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            let end = issue.max(*server) + service;
            *server = end;
            put(issue, end, is_write, sector, bytes);
            if random.next() < device.stray {
                let place = (1 << 33) + (random.next() * 1e6) as u64 * 8;
                put(issue + 900.0, issue + 15_000.0, true, place, 4096);
            }
            sector += bytes / 512;
            let pause = if app.is_regular {
                1.0
            } else {
                random.exponential()
            };
            let next = end + app.think_us * 1000.0 * pause + 300.0;
            now = end.max(now);
            if !app.is_in_rounds {
                ready.push(std::cmp::Reverse(next as u64));
            } else if ready.is_empty() {
                let next = now + app.think_us * 1000.0 * pause;
                let all = (0..app.threads).map(|thread| (next + thread as f64 * 200.0) as u64);
                ready.extend(all.map(std::cmp::Reverse));
            }
        }
        now += app.then_ms as f64 * 1e6;
    }
    lines.sort();
    lines.into_iter().map(|(.., line)| line).collect()
}

/// A pair of runs, and what changed between them: the causes by part.
struct Case {
    name: &'static str,
    a: (Vec<App>, Device),
    b: (Vec<App>, Device),
    wanted: &'static [(&'static str, &'static str)],
}

fn case(
    name: &'static str,
    a: (&[App], Device),
    b: (&[App], Device),
    wanted: &'static [(&'static str, &'static str)],
) -> Case {
    Case {
        name,
        a: (a.0.to_vec(), a.1),
        b: (b.0.to_vec(), b.1),
        wanted,
    }
}

const IN_READS: &str = "read-heavy";
const IN_WRITES: &str = "write-heavy";

fn cases() -> Vec<Case> {
    let reads = |change: fn(&mut App)| {
        let mut app = READS;
        change(&mut app);
        [app]
    };
    let disk = |change: fn(&mut Device)| {
        let mut device = DISK;
        change(&mut device);
        device
    };
    let serial = disk(|of| of.parallel = 1);
    let slow = disk(|of| of.fixed_us *= 1.6);
    let seeking = disk(|of| of.seek_us = 400.0);
    let plain = [READS];
    let both = [
        App {
            then_ms: 400,
            ..WRITES
        },
        READS,
    ];
    let slow_writes = disk(|of| of.write_us = 120.0);
    vec![
        // Nothing changed but the seed.
        case("null", (&plain, DISK), (&plain, DISK), &[]),
        case(
            "null, serial device",
            (&plain, serial),
            (&plain, serial),
            &[],
        ),
        case("null, two parts", (&both, DISK), (&both, DISK), &[]),
        case(
            "null, one thread",
            (&reads(|a| a.threads = 1), DISK),
            (&reads(|a| a.threads = 1), DISK),
            &[],
        ),
        case(
            "null, long pauses",
            (&reads(|a| a.think_us = 3000.0), DISK),
            (&reads(|a| a.think_us = 3000.0), DISK),
            &[],
        ),
        case(
            "null, random",
            (&reads(|a| a.is_sequential = false), seeking),
            (&reads(|a| a.is_sequential = false), seeking),
            &[],
        ),
        case(
            "null, mixed",
            (&reads(|a| a.write_share = 0.3), DISK),
            (&reads(|a| a.write_share = 0.3), DISK),
            &[],
        ),
        case(
            "null of other length",
            (&reads(|a| a.requests = 2500), DISK),
            (&reads(|a| a.requests = 5000), DISK),
            &[],
        ),
        // Pauses.
        case(
            "pauses longer",
            (&plain, DISK),
            (&reads(|a| a.think_us = 300.0), DISK),
            &[("think time", IN_READS)],
        ),
        case(
            "pauses gone",
            (&reads(|a| a.think_us = 500.0), DISK),
            (&reads(|a| a.think_us = 0.0), DISK),
            &[("think time", IN_READS)],
        ),
        case(
            "pauses longer, one thread",
            (&reads(|a| (a.threads, a.think_us) = (1, 50.0)), DISK),
            (&reads(|a| (a.threads, a.think_us) = (1, 150.0)), DISK),
            &[("think time", IN_READS)],
        ),
        case(
            "pauses much longer, many threads",
            (&reads(|a| (a.threads, a.think_us) = (8, 200.0)), DISK),
            (&reads(|a| (a.threads, a.think_us) = (8, 1000.0)), DISK),
            &[("think time", IN_READS)],
        ),
        case(
            "pauses longer, serial device",
            (&reads(|a| a.think_us = 0.0), serial),
            (&reads(|a| a.think_us = 1500.0), serial),
            &[("think time", IN_READS)],
        ),
        // Depth.
        case(
            "one to eight",
            (&reads(|a| (a.threads, a.think_us) = (1, 0.0)), DISK),
            (&reads(|a| (a.threads, a.think_us) = (8, 0.0)), DISK),
            &[("queue depth", IN_READS)],
        ),
        case(
            "eight to two",
            (&reads(|a| (a.threads, a.think_us) = (8, 0.0)), DISK),
            (&reads(|a| (a.threads, a.think_us) = (2, 0.0)), DISK),
            &[("queue depth", IN_READS)],
        ),
        case(
            "four to eight with pauses",
            (&plain, DISK),
            (&reads(|a| a.threads = 8), DISK),
            &[("queue depth", IN_READS)],
        ),
        case(
            "four to sixteen beyond what the device serves",
            (&reads(|a| a.think_us = 0.0), DISK),
            (&reads(|a| (a.threads, a.think_us) = (16, 0.0)), DISK),
            &[("queue depth", IN_READS)],
        ),
        // Without effect: the device serves one at a time all the time.
        case(
            "deeper queue of a saturated device",
            (&reads(|a| (a.threads, a.think_us) = (8, 0.0)), serial),
            (&reads(|a| (a.threads, a.think_us) = (32, 0.0)), serial),
            &[],
        ),
        // Size.
        case(
            "smaller requests",
            (&plain, DISK),
            (&reads(|a| a.bytes = 16 << 10), DISK),
            &[("request size", IN_READS)],
        ),
        case(
            "larger requests",
            (&reads(|a| (a.bytes, a.think_us) = (64 << 10, 0.0)), DISK),
            (&reads(|a| (a.bytes, a.think_us) = (512 << 10, 0.0)), DISK),
            &[("request size", IN_READS)],
        ),
        // Device.
        case(
            "slower device",
            (&plain, DISK),
            (&plain, slow),
            &[("device", IN_READS)],
        ),
        case(
            "faster device",
            (&plain, slow),
            (&plain, DISK),
            &[("device", IN_READS)],
        ),
        case(
            "slower serial device",
            (&reads(|a| (a.threads, a.think_us) = (16, 0.0)), serial),
            (
                &reads(|a| (a.threads, a.think_us) = (16, 0.0)),
                disk(|of| (of.parallel, of.fixed_us) = (1, 100.0)),
            ),
            &[("device", IN_READS)],
        ),
        case(
            "slower device, long pauses",
            (&reads(|a| a.think_us = 200.0), DISK),
            (
                &reads(|a| a.think_us = 200.0),
                disk(|of| of.fixed_us = 200.0),
            ),
            &[("device", IN_READS)],
        ),
        case(
            "fewer channels",
            (&reads(|a| (a.threads, a.think_us) = (8, 0.0)), DISK),
            (
                &reads(|a| (a.threads, a.think_us) = (8, 0.0)),
                disk(|of| of.parallel = 2),
            ),
            &[("device", IN_READS)],
        ),
        // Threads that take turns: never all at once, though there are four.
        case(
            "slower device, threads that take turns",
            (
                &reads(|a| (a.think_us, a.is_regular, a.bytes) = (100.0, true, 4096)),
                disk(|of| (of.parallel, of.fixed_us) = (1, 20.0)),
            ),
            (
                &reads(|a| (a.think_us, a.is_regular, a.bytes) = (100.0, true, 4096)),
                disk(|of| (of.parallel, of.fixed_us) = (1, 80.0)),
            ),
            &[("device", IN_READS)],
        ),
        case(
            "longer pauses of threads that take turns",
            (
                &reads(|a| (a.threads, a.think_us, a.is_regular) = (2, 100.0, true)),
                disk(|of| (of.parallel, of.fixed_us) = (1, 240.0)),
            ),
            (
                &reads(|a| (a.threads, a.think_us, a.is_regular) = (2, 330.0, true)),
                disk(|of| (of.parallel, of.fixed_us) = (1, 240.0)),
            ),
            &[("think time", IN_READS)],
        ),
        // Rounds: all requests at once, then a pause.
        case(
            "null, rounds",
            (
                &reads(|a| (a.threads, a.think_us, a.is_in_rounds) = (16, 500.0, true)),
                DISK,
            ),
            (
                &reads(|a| (a.threads, a.think_us, a.is_in_rounds) = (16, 500.0, true)),
                DISK,
            ),
            &[],
        ),
        case(
            "longer pauses between rounds",
            (
                &reads(|a| (a.threads, a.think_us, a.is_in_rounds) = (16, 500.0, true)),
                DISK,
            ),
            (
                &reads(|a| (a.threads, a.think_us, a.is_in_rounds) = (16, 2000.0, true)),
                DISK,
            ),
            &[("think time", IN_READS)],
        ),
        case(
            "smaller rounds",
            (
                &reads(|a| (a.threads, a.think_us, a.is_in_rounds) = (16, 500.0, true)),
                DISK,
            ),
            (
                &reads(|a| (a.threads, a.think_us, a.is_in_rounds) = (4, 500.0, true)),
                DISK,
            ),
            &[("queue depth", IN_READS)],
        ),
        case(
            "slower device, rounds",
            (
                &reads(|a| (a.threads, a.think_us, a.is_in_rounds) = (16, 300.0, true)),
                DISK,
            ),
            (
                &reads(|a| (a.threads, a.think_us, a.is_in_rounds) = (16, 300.0, true)),
                disk(|of| of.fixed_us *= 4.0),
            ),
            &[("device", IN_READS)],
        ),
        // Pattern and mix.
        case(
            "random instead of sequential",
            (&plain, seeking),
            (&reads(|a| a.is_sequential = false), seeking),
            &[("access pattern", IN_READS)],
        ),
        case(
            "sequential instead of random",
            (
                &reads(|a| (a.is_sequential, a.threads) = (false, 1)),
                seeking,
            ),
            (&reads(|a| a.threads = 1), seeking),
            &[("access pattern", IN_READS)],
        ),
        case(
            "more writes among reads",
            (
                &reads(|a| (a.write_share, a.think_us) = (0.05, 0.0)),
                slow_writes,
            ),
            (
                &reads(|a| (a.write_share, a.think_us) = (0.45, 0.0)),
                slow_writes,
            ),
            &[("direction mix", IN_READS)],
        ),
        case(
            "more writes among reads of one thread",
            (
                &reads(|a| (a.write_share, a.threads) = (0.05, 1)),
                slow_writes,
            ),
            (
                &reads(|a| (a.write_share, a.threads) = (0.45, 1)),
                slow_writes,
            ),
            &[("direction mix", IN_READS)],
        ),
        case(
            "small writes among reads",
            (
                &reads(|a| (a.write_share, a.write_bytes) = (0.1, 4096)),
                DISK,
            ),
            (
                &reads(|a| (a.write_share, a.write_bytes) = (0.6, 4096)),
                DISK,
            ),
            &[("direction mix", IN_READS)],
        ),
        // In the lighter part.
        case(
            "writes are slower beside many reads",
            (
                &[
                    App {
                        requests: 2000,
                        then_ms: 400,
                        ..WRITES
                    },
                    App {
                        requests: 5000,
                        ..READS
                    },
                ],
                DISK,
            ),
            (
                &[
                    App {
                        requests: 2000,
                        then_ms: 400,
                        ..WRITES
                    },
                    App {
                        requests: 5000,
                        ..READS
                    },
                ],
                disk(|of| of.write_us = 400.0),
            ),
            &[("device", IN_WRITES)],
        ),
        case(
            "pauses in the reads behind heavier writes",
            (
                &[
                    App {
                        bytes: 1 << 20,
                        write_bytes: 1 << 20,
                        requests: 2000,
                        then_ms: 400,
                        ..WRITES
                    },
                    READS,
                ],
                DISK,
            ),
            (
                &[
                    App {
                        bytes: 1 << 20,
                        write_bytes: 1 << 20,
                        requests: 2000,
                        then_ms: 400,
                        ..WRITES
                    },
                    App {
                        think_us: 900.0,
                        ..READS
                    },
                ],
                DISK,
            ),
            &[("think time", IN_READS)],
        ),
        case(
            "depth of the writes and pauses of the reads",
            (&both, DISK),
            (
                &[
                    App {
                        threads: 1,
                        then_ms: 400,
                        ..WRITES
                    },
                    App {
                        think_us: 400.0,
                        ..READS
                    },
                ],
                DISK,
            ),
            &[("think time", IN_READS), ("queue depth", IN_WRITES)],
        ),
        case(
            "depth and size",
            (&reads(|a| a.think_us = 0.0), DISK),
            (
                &reads(|a| (a.think_us, a.threads, a.bytes) = (0.0, 1, 16 << 10)),
                DISK,
            ),
            &[("queue depth", IN_READS), ("request size", IN_READS)],
        ),
    ]
}

fn compared(dir: &Path, case: &Case, seed: u64) -> (Value, String) {
    let paths = [("a", &case.a, seed), ("b", &case.b, seed + 500)].map(|(name, side, seed)| {
        let path = dir.join(name);
        std::fs::write(&path, trace(&side.0, side.1, seed)).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let words = ["compare", &paths[0], &paths[1], "--json"];
    let document = crate::json(&crate::blkio(dir, &words));
    let finding = document["finding"].as_str().unwrap().to_owned();
    (document, finding)
}

#[test]
fn each_planted_change_is_named_and_no_other() {
    let cases = cases();
    assert!(cases.len() >= 24);
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let (document, finding) = compared(dir.path(), case, 1);
        let causes = document["causes"].as_array().unwrap();
        let text = |of: &Value, key: &str| of[key].as_str().unwrap().to_owned();
        let mut found: Vec<(String, String)> = causes
            .iter()
            .map(|of| (text(of, "what"), text(of, "part")))
            .collect();
        let wanted: Vec<(String, String)> = case
            .wanted
            .iter()
            .map(|(what, part)| ((*what).to_owned(), (*part).to_owned()))
            .collect();
        found.sort();
        let mut sorted = wanted.clone();
        sorted.sort();
        if found != sorted {
            wrong.push(format!("{}: {finding}\n{:#}", case.name, document["parts"]));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn terms_add_up_to_the_change() {
    let dir = tempfile::tempdir().unwrap();
    for case in cases().iter().step_by(3) {
        let (document, _) = compared(dir.path(), case, 3);
        for part in document["parts"].as_array().unwrap() {
            let terms = part["terms"].as_array().unwrap();
            let sum: f64 = terms
                .iter()
                .map(|of| of["log_factor"].as_f64().unwrap())
                .sum();
            let follows = (part["latency_follows_pct"].as_f64().unwrap() / 100.0).ln_1p();
            let whole = (part["change_pct"].as_f64().unwrap() / 100.0).ln_1p();
            assert!(
                (sum + follows - whole).abs() < 1e-6,
                "{}: {part}",
                case.name
            );
        }
    }
}

#[test]
fn what_does_not_compare_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let other = case("other things", (&[READS], DISK), (&[WRITES], DISK), &[]);
    let (_, finding) = compared(dir.path(), &other, 1);
    assert!(
        finding.starts_with("The runs do different things"),
        "{finding}"
    );
    let pause = [
        App {
            then_ms: 300,
            ..WRITES
        },
        READS,
    ];
    let longer = [
        App {
            then_ms: 2000,
            ..WRITES
        },
        READS,
    ];
    let pauses = case("pause between", (&pause, DISK), (&longer, DISK), &[]);
    let (document, finding) = compared(dir.path(), &pauses, 1);
    assert!(
        finding.starts_with("Pauses between parts changed"),
        "{finding}"
    );
    let between = document["between_parts_ns"][1].as_f64().unwrap();
    assert!((between / 2e9 - 1.0).abs() < 0.02, "{between}");
    let less = [App {
        then_ms: 300,
        ..WRITES
    }];
    let gone = case("no reads", (&pause, DISK), (&less, DISK), &[]);
    let (_, finding) = compared(dir.path(), &gone, 1);
    assert!(
        finding.contains("Only A has a read-heavy part"),
        "{finding}"
    );
    let few = case(
        "few",
        (
            &[App {
                requests: 20,
                ..READS
            }],
            DISK,
        ),
        (&[READS], DISK),
        &[],
    );
    let (_, finding) = compared(dir.path(), &few, 1);
    assert!(
        finding.starts_with("Cannot say why the runs differ: no part of A"),
        "{finding}"
    );
}

/// The trace without this share of its completions, each lost by chance.
fn without_completions(text: &str, share: f64, seed: u64) -> String {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    text.lines()
        .filter(|line| !line.starts_with('C') || random.next() >= share)
        .map(|line| format!("{line}\n"))
        .collect()
}

fn compared_texts(texts: [&str; 2]) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let paths = [("a", texts[0]), ("b", texts[1])].map(|(name, text)| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let words = ["compare", &paths[0], &paths[1], "--json"];
    let document = crate::json(&crate::blkio(dir.path(), &words));
    let finding = document["finding"].as_str().unwrap().to_owned();
    (document, finding)
}

fn named(document: &Value) -> Vec<&str> {
    let causes = document["causes"].as_array().unwrap().iter();
    causes.map(|of| of["what"].as_str().unwrap()).collect()
}

/// That a log lacks completions changes nothing that the application or the device does, and hides no change of these.
#[test]
fn lost_completions_are_no_cause() {
    let slower = Device {
        fixed_us: 110.0,
        us_per_mib: 550.0,
        ..DISK
    };
    let app = |threads, think_us| App {
        threads,
        think_us,
        ..READS
    };
    let narrow = Device {
        parallel: 2,
        ..DISK
    };
    let rounds = App {
        is_in_rounds: true,
        ..READS
    };
    let mut seed = 40;
    for share in [0.05, 0.1] {
        for (a, b, device, other, wanted) in [
            (app(4, 0.0), app(4, 0.0), DISK, DISK, None),
            (app(1, 0.0), app(1, 0.0), DISK, DISK, None),
            (app(32, 0.0), app(32, 0.0), narrow, narrow, None),
            (app(4, 500.0), app(4, 500.0), DISK, DISK, None),
            (rounds, rounds, DISK, DISK, None),
            (app(4, 0.0), app(4, 0.0), DISK, slower, Some("device")),
            (app(2, 0.0), app(6, 0.0), DISK, DISK, Some("queue depth")),
            (app(4, 100.0), app(4, 900.0), DISK, DISK, Some("think time")),
        ] {
            for lost_of in [[0.0, share], [share, 0.0], [0.01, share]] {
                seed += 7;
                let texts = [(a, device, 1), (b, other, 2)]
                    .map(|(app, device, more)| trace(&[app], device, seed + more));
                let a = without_completions(&texts[0], lost_of[0], seed);
                let b = without_completions(&texts[1], lost_of[1], seed + 1);
                let (document, finding) = compared_texts([&a, &b]);
                let found = named(&document);
                assert_eq!(
                    found,
                    wanted.into_iter().collect::<Vec<_>>(),
                    "{lost_of:?} {seed}: {finding}\n{:#}",
                    document["parts"]
                );
                assert!(!finding.contains("Bytes of"), "{finding}");
                assert!(finding.contains("of the completions of"), "{finding}");
            }
        }
    }
}

/// One of two devices becomes slower, or gets fewer requests at a time: that device is named, and nothing of the other.
#[test]
fn the_device_that_changed_is_named() {
    let both = |first: (App, Device), second: (App, Device), seed: u64| -> String {
        let one = trace(&[first.0], first.1, seed);
        let other = trace(&[second.0], second.1, seed + 90).replace(", 259, 0,", ", 259, 1,");
        let time = |line: &str| line.split(", ").nth(1).unwrap().parse::<u64>().unwrap();
        let mut lines: Vec<&str> = one.lines().chain(other.lines()).collect();
        lines.sort_by_key(|line| (time(line), line.starts_with('I')));
        lines.iter().map(|line| format!("{line}\n")).collect()
    };
    let reads = App {
        think_us: 0.0,
        ..READS
    };
    let disk = Device { stray: 0.0, ..DISK };
    let slower = Device {
        fixed_us: 240.0,
        us_per_mib: 1200.0,
        ..disk
    };
    // Both last as long: the slower one has fewer requests.
    let fewer = App {
        requests: 1000,
        ..reads
    };
    let deeper = App {
        threads: 8,
        requests: 8000,
        ..reads
    };
    let a = both((reads, disk), (reads, disk), 3);
    for (b, wanted) in [
        (both((reads, disk), (reads, disk), 5), None),
        (
            both((fewer, slower), (reads, disk), 7),
            Some(("device", "259:0")),
        ),
        (
            both((reads, disk), (reads, slower), 9),
            Some(("device", "259:1")),
        ),
        (
            both((reads, disk), (deeper, disk), 11),
            Some(("queue depth", "259:1")),
        ),
    ] {
        let (document, finding) = compared_texts([&a, &b]);
        let causes = document["causes"].as_array().unwrap().iter();
        let found: Vec<(&str, &str)> = causes
            .map(|of| (of["what"].as_str().unwrap(), of["device"].as_str().unwrap()))
            .collect();
        assert_eq!(found, wanted.into_iter().collect::<Vec<_>>(), "{finding}");
        if let Some((_, device)) = wanted {
            assert!(finding.contains(&format!("device {device}")), "{finding}");
        }
    }
}

/// Requests that arrive at a pace of their own are served more slowly: throughput stays, and latency is said to have changed.
#[test]
fn a_slower_device_is_named_where_requests_arrive_by_themselves() {
    let open = |pace_us: f64, service_us: f64, seed: u64| -> String {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut servers = [0.0_f64; 8];
        let (mut lines, mut now) = (Vec::new(), 0.0);
        for number in 0..3000_u64 {
            now += pace_us * random.exponential();
            let server = servers.iter_mut().min_by(|a, b| a.total_cmp(b)).unwrap();
            let end = now.max(*server) + service_us * (0.9 + 0.2 * random.next());
            *server = end;
            for (order, kind, t_us) in [(1, 'I', now), (0, 'C', end)] {
                let t_ns = 1_000_000_000 + (t_us * 1000.0) as u64;
                let sector = number * 7919 % 100_000 * 256;
                let line =
                    format!("{kind}, {t_ns}, 1, 259, 0, R, 65536, {sector}, 128, 0, 42, srv\n");
                lines.push((t_ns, order, line));
            }
        }
        lines.sort();
        lines.into_iter().map(|(.., line)| line).collect()
    };
    for (pace_us, was_us, is_us) in [
        (500.0, 250.0, 370.0),
        (200.0, 400.0, 900.0),
        (500.0, 400.0, 200.0),
        (500.0, 300.0, 300.0),
    ] {
        for seed in [1, 2, 3] {
            let (a, b) = (open(pace_us, was_us, seed), open(pace_us, is_us, seed + 30));
            let (document, finding) = compared_texts([&a, &b]);
            let is_changed = f64::abs(was_us - is_us) > 1.0;
            let is_named = finding.starts_with("Device changed: mean latency")
                || finding.contains("Without effect on it: Device changed");
            assert_eq!(
                is_named, is_changed,
                "{pace_us} {was_us} {is_us}: {finding}"
            );
            assert!(
                named(&document)
                    .iter()
                    .all(|of| *of == "device" && is_changed),
                "{finding}"
            );
        }
    }
}
