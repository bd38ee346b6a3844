//! Levers: what a recording says would help, against the simulation with that changed.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of a simulation are positive, and far below the limits"
)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;

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

/// A source of requests: a thread that waits for each and pauses, or arrivals that wait for nothing.
#[derive(Clone, Copy)]
struct Source {
    comm: &'static str,
    requests: u32,
    /// Mean pause, or mean time between arrivals.
    pause_us: f64,
    is_open: bool,
    kib: u64,
}

/// A device whose requests take a time each, and share a bus.
#[derive(Clone, Copy)]
struct Device {
    latency_us: f64,
    bus_us: f64,
    /// From when to when nothing completes.
    stall_us: (f64, f64),
}

const THREAD: Source = Source {
    comm: "job",
    requests: 600,
    pause_us: 0.0,
    is_open: false,
    kib: 128,
};
const DISK: Device = Device {
    latency_us: 600.0,
    bus_us: 250.0,
    stall_us: (0.0, 0.0),
};

/// Requests as issue, end in nanoseconds, and source, in order of issue.
fn run(sources: &[Source], device: Device, seed: u64) -> Vec<(u64, u64, Source)> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut ready: BinaryHeap<Reverse<(u64, usize)>> = (0..sources.len())
        .map(|at| Reverse((at as u64 * 700, at)))
        .collect();
    let mut left: Vec<u32> = sources.iter().map(|of| of.requests).collect();
    let mut bus_free = 0.0_f64;
    let mut all = Vec::new();
    while let Some(Reverse((issue, at))) = ready.pop() {
        let source = sources[at];
        let t_us = issue as f64 / 1000.0;
        bus_free = bus_free.max(t_us + device.latency_us * (0.8 + 0.2 * random.next()) * 0.6)
            + device.bus_us * source.kib as f64 / 128.0;
        let mut end_us = bus_free.max(t_us + device.latency_us * (0.9 + 0.2 * random.next()));
        if (device.stall_us.0..device.stall_us.1).contains(&end_us) {
            end_us = device.stall_us.1 + 5.0 * random.next();
            bus_free = bus_free.max(device.stall_us.1);
        }
        let end = (end_us * 1000.0) as u64;
        all.push((issue, end, source));
        left[at] -= 1;
        if left[at] > 0 {
            let pause = (source.pause_us * random.exponential() * 1000.0) as u64 + 2000;
            let next = if source.is_open { issue } else { end } + pause;
            ready.push(Reverse((next, at)));
        }
    }
    all
}

fn seconds(sources: &[Source], device: Device, seed: u64) -> f64 {
    let all = run(sources, device, seed);
    all.iter().map(|of| of.1).max().unwrap() as f64 / 1e9
}

/// The recording, as the collector writes it.
fn text(sources: &[Source], device: Device, seed: u64) -> String {
    let mut lines: Vec<(u64, u8, String)> = Vec::new();
    for (number, (issue, end, source)) in run(sources, device, seed).into_iter().enumerate() {
        let (sector, bytes) = (number * 7919 % 500_000 * 4096, source.kib << 10);
        for (kind, order, t_ns) in [('I', 1, issue), ('C', 0, end)] {
            let mut line = String::new();
            let _ = writeln!(
                line,
                "{kind}, {}, 1, 259, 0, R, {bytes}, {sector}, {}, 0, 42, {}",
                1_000_000_000 + t_ns,
                bytes / 512,
                source.comm
            );
            lines.push((t_ns, order, line));
        }
    }
    lines.sort();
    lines.into_iter().map(|(.., line)| line).collect()
}

fn stats(text: &str) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let document = crate::json(&crate::blkio(dir.path(), &["stats", path, "--json"]));
    let said = crate::blkio(dir.path(), &["stats", path]);
    (
        document,
        crate::joined(&String::from_utf8_lossy(&said.stdout)),
    )
}

fn compare(a: &str, b: &str) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), a).unwrap();
    std::fs::write(dir.path().join("b"), b).unwrap();
    let document = crate::json(&crate::blkio(dir.path(), &["compare", "a", "b", "--json"]));
    let said = crate::blkio(dir.path(), &["compare", "a", "b"]);
    (
        document,
        crate::joined(&String::from_utf8_lossy(&said.stdout)),
    )
}

/// The number in front of an `x` behind some words.
fn factor(said: &str, behind: &str) -> f64 {
    let (_, rest) = said.split_once(behind).unwrap_or_else(|| panic!("{said}"));
    rest.split_once('x').unwrap().0.trim().parse().unwrap()
}

/// Threads whose pauses overlap hide how far below its limit the device is: nothing in flight is not all that goes unused.
#[test]
fn pauses_that_overlap_are_the_limit_where_they_cost_most() {
    let threads = |pauses: &[f64]| -> Vec<Source> {
        let of = |pause_us: &f64| Source {
            pause_us: *pause_us,
            ..THREAD
        };
        pauses.iter().map(of).collect()
    };
    for (pauses, seed) in [
        (&[0.0, 0.0, 200.0, 400.0, 800.0, 1600.0][..], 1),
        (&[0.0, 100.0, 300.0, 900.0, 1500.0, 2500.0], 2),
        (&[0.0, 0.0, 1000.0, 1500.0, 2500.0, 3500.0], 3),
    ] {
        let with = threads(pauses);
        let (document, said) = stats(&text(&with, DISK, seed));
        let gain = seconds(&with, DISK, seed) / seconds(&threads(&[0.0; 6]), DISK, seed);
        let faster = Device {
            latency_us: DISK.latency_us / 2.0,
            bus_us: DISK.bus_us / 2.0,
            ..DISK
        };
        let of_device = seconds(&with, DISK, seed) / seconds(&with, faster, seed);
        assert!(gain > of_device, "{gain} {of_device}");
        assert_eq!(document["limit"]["limiter"], "think time", "{gain}: {said}");
        if let Some((_, rest)) = said.split_once("without the pauses about ") {
            let stated: f64 = rest.split_once('x').unwrap().0.parse().unwrap();
            assert!((stated / gain - 1.0).abs() < 0.15, "{gain}: {said}");
        }
        // A bound by the time without requests would be exceeded.
        let idle = document["limit"]["idle_share"].as_f64().unwrap();
        assert!(gain > 1.05 / (1.0 - idle), "{gain}: {said}");
    }
}

/// Requests that wait for nothing are limited by when they come, also where throughput grows with depth.
#[test]
fn arrivals_below_the_device_are_no_lack_of_depth() {
    for (load, seed) in [(0.4, 1), (0.55, 2), (0.7, 3)] {
        let arrivals = Source {
            requests: 4000,
            pause_us: DISK.bus_us / load,
            is_open: true,
            ..THREAD
        };
        let (document, said) = stats(&text(&[arrivals], DISK, seed));
        let limiter = document["limit"]["limiter"].as_str().unwrap();
        assert!(
            limiter == "think time" || load > 0.6 && limiter == "cannot say",
            "{load}: {said}"
        );
        let lead = said.split_once(" 4000 requests issued").unwrap().0;
        assert!(!lead.contains("record a deeper queue"), "{said}");
        if let Some((_, rest)) = lead.split_once("the device moves ") {
            let stated = factor(rest, "/s, ");
            // The bus is the limit.
            assert!(stated <= 1.05 / load && stated > 1.0, "{load}: {said}");
        }
    }
    // Threads without pauses wait for completions, however many there are.
    for count in [2, 3] {
        let threads = vec![THREAD; count];
        let (document, said) = stats(&text(&threads, DISK, 5));
        assert_ne!(document["limit"]["limiter"], "think time", "{said}");
    }
}

/// A device that stands still is named, with the longest time and what requests take otherwise, and depth is no remedy.
#[test]
fn a_device_that_stands_still_is_named() {
    for count in [1, 4] {
        let threads = vec![
            Source {
                requests: 1200 / count as u32,
                ..THREAD
            };
            count
        ];
        let whole = seconds(&threads, DISK, 4);
        let still = Device {
            stall_us: (200_000.0, 200_000.0 + 1.5e6 * whole),
            ..DISK
        };
        let (document, said) = stats(&text(&threads, still, 4));
        let limit = &document["phases"]["phases"][0]["limit"];
        assert_eq!(limit["limiter"], "device", "{said}");
        let longest = limit["stalls"]["longest_ns"].as_f64().unwrap();
        assert!((longest / (1.5e9 * whole) - 1.0).abs() < 0.02, "{longest}");
        assert!(said.contains("which stands still"), "{said}");
        assert!(!said.contains("Record the same job with depth"), "{said}");
        // One phase: nothing was issued meanwhile, but requests were in flight.
        assert_eq!(
            document["phases"]["phases"].as_array().unwrap().len(),
            1,
            "{said}"
        );
        // A short one is said beside what limits the rest.
        let short = Device {
            stall_us: (200_000.0, 200_000.0 + 0.2e6 * whole),
            ..DISK
        };
        let (_, said) = stats(&text(&threads, short, 4));
        assert!(said.contains("the device stands still (once"), "{said}");
    }
    // Large requests among small ones take long, and are no stall.
    let mixed = [
        Source { kib: 4, ..THREAD },
        Source {
            kib: 8192,
            requests: 60,
            ..THREAD
        },
    ];
    let (document, said) = stats(&text(&mixed, DISK, 4));
    assert!(!said.contains("stands still"), "{said} {document}");
}

/// A row of few requests beside many has the rate at which they come.
#[test]
fn a_phase_beside_which_another_is_large_has_its_own_rate() {
    let slow = Source {
        requests: 300,
        pause_us: 6000.0,
        kib: 64,
        ..THREAD
    };
    let fast = Device {
        latency_us: 100.0,
        bus_us: 5.0,
        ..DISK
    };
    let lines = |part: &[Source], from_ns: u64| -> (Vec<(u64, String)>, u64) {
        let all = text(part, fast, 9);
        let shifted = all.lines().map(|line| {
            let mut words = line.splitn(3, ", ");
            let (kind, t_ns, rest) = (
                words.next().unwrap(),
                words.next().unwrap(),
                words.next().unwrap(),
            );
            let t_ns = t_ns.parse::<u64>().unwrap() + from_ns;
            (t_ns, format!("{kind}, {t_ns}, {rest}\n"))
        });
        let shifted: Vec<(u64, String)> = shifted.collect();
        let end = shifted.last().unwrap().0 - 1_000_000_000;
        (shifted, end)
    };
    let many = vec![
        Source {
            requests: 400,
            ..THREAD
        };
        32
    ];
    let (first, end) = lines(&many, 0);
    // Half a second of silence in front of the slow part, and behind it.
    let (second, end_of_slow) = lines(&[slow], end + 500_000_000);
    let (third, _) = lines(&many, end_of_slow + 500_000_000);
    let length_ns = second.last().unwrap().0 - second[0].0;
    let first_ns = first.last().unwrap().0 - first[0].0;
    let whole: String = [first, second, third]
        .concat()
        .into_iter()
        .map(|(_, line)| line)
        .collect();
    let (document, said) = stats(&whole);
    let phases = document["phases"]["phases"].as_array().unwrap();
    let slow = phases
        .iter()
        .find(|of| of["read"]["ios"] == 300)
        .unwrap_or_else(|| panic!("{said}"));
    let rate = slow["read"]["bytes_per_s"].as_f64().unwrap();
    let truth = 300.0 * 65_536.0 / (length_ns as f64 / 1e9);
    assert!((rate / truth - 1.0).abs() < 0.01, "{rate} {truth}: {said}");
    // That of the first phase is over its own requests, not over the bins in which they lie.
    let rate = phases[0]["read"]["bytes_per_s"].as_f64().unwrap();
    let truth = 32.0 * 400.0 * 131_072.0 / (first_ns as f64 / 1e9);
    assert!((rate / truth - 1.0).abs() < 0.01, "{rate} {truth}: {said}");
}

/// One stall has one answer, with pauses and without.
#[test]
fn one_stall_is_the_device_whether_threads_pause_or_not() {
    for pause_us in [0.0, 200.0] {
        let threads = vec![
            Source {
                requests: 750,
                pause_us,
                ..THREAD
            };
            4
        ];
        let free = Device {
            bus_us: 20.0,
            ..DISK
        };
        let still = Device {
            stall_us: (100_000.0, 900_000.0),
            ..free
        };
        let (document, said) = compare(&text(&threads, free, 6), &text(&threads, still, 6));
        assert_eq!(document["causes"][0]["what"], "device", "{said}");
        assert!(said.contains("a stall of few requests"), "{said}");
        // A single batch of all cannot be sure.
        let terms = document["parts"][0]["terms"].as_array().unwrap();
        let device = terms.iter().find(|of| of["what"] == "device").unwrap();
        assert!(device["standard_error"].as_f64().unwrap() > 0.3, "{device}");
        assert!(
            said.contains("record longer to see whether it comes again"),
            "{said}"
        );
    }
}

/// The end of another process, or of one's own, is no noise, and the process that changed is named.
#[test]
fn a_process_that_changes_is_named_where_it_ends_early() {
    let device = Device {
        bus_us: 5.0,
        latency_us: 400.0,
        ..DISK
    };
    let both = |pause_us: f64| {
        let engine = Source {
            comm: "engine",
            requests: 1500,
            pause_us: 100.0,
            ..THREAD
        };
        let loader = Source {
            comm: "loader",
            requests: 700,
            pause_us,
            kib: 64,
            ..THREAD
        };
        text(&[engine, loader], device, 8)
    };
    let (document, said) = compare(&both(300.0), &both(1500.0));
    let part = &document["parts"][0];
    assert!(said.contains("loader changes most"), "{said}");
    assert_eq!(part["processes"][0]["process"], "loader");
    let change = part["processes"][0]["change_pct"].as_f64().unwrap();
    // From 0.7 ms for a request to 1.9 ms.
    assert!((change / 171.0 - 1.0).abs() < 0.1, "{change}");
    let engine = part["processes"][1]["change_pct"].as_f64().unwrap();
    assert!(engine.abs() < 5.0, "{engine}");
    assert!(!said.contains("Chance may make as much"), "{said}");
}

/// Arrivals that slow down are described by numbers that are in the recording.
#[test]
fn arrivals_are_not_described_as_rounds() {
    let arrivals = |every_us: f64| {
        let source = Source {
            requests: 1800,
            pause_us: every_us,
            is_open: true,
            kib: 64,
            ..THREAD
        };
        let device = Device {
            latency_us: 250.0,
            bus_us: 20.0,
            ..DISK
        };
        text(&[source], device, 8)
    };
    let (document, said) = compare(&arrivals(400.0), &arrivals(840.0));
    let cause = document["causes"][0]["what"].as_str().unwrap();
    assert!(cause.starts_with("think time"), "{said}");
    assert!(!said.contains("they look the same"), "{said}");
    // Mean times between arrivals, with the 2 us that each takes at least.
    let (_, rest) = said.split_once("a request every ").unwrap();
    let times: Vec<f64> = rest
        .split(" µs")
        .take(2)
        .map(|of| of.trim_start_matches(" to ").parse().unwrap())
        .collect();
    assert!((times[0] / 402.0 - 1.0).abs() < 0.08, "{said}");
    assert!((times[1] / 842.0 - 1.0).abs() < 0.08, "{said}");
}

/// Pauses of a single thread have a sure gain, short of half of the time too.
#[test]
fn the_sure_gain_of_pauses_is_stated() {
    let one = |pause_us: f64| {
        vec![Source {
            requests: 3000,
            pause_us,
            ..THREAD
        }]
    };
    for (pause_us, limiter) in [
        (100.0, "cannot say"),
        (350.0, "think time"),
        (560.0, "think time"),
    ] {
        let with = one(pause_us);
        let device = Device {
            bus_us: 20.0,
            ..DISK
        };
        let (document, said) = stats(&text(&with, device, 2));
        assert_eq!(document["limit"]["limiter"], limiter, "{said}");
        if limiter == "cannot say" {
            continue;
        }
        let gain = seconds(&with, device, 2) / seconds(&one(0.0), device, 2);
        let stated = factor(&said, "without the pauses up to ");
        assert!((stated / gain - 1.0).abs() < 0.03, "{gain}: {said}");
    }
}

/// Rates of requests are those of the device while it is busy, and sizes are means where they differ.
#[test]
fn rates_and_sizes_are_those_of_the_device() {
    // Small requests of threads that pause, on a device that takes a time for each.
    let device = Device {
        latency_us: 120.0,
        bus_us: 3200.0,
        ..DISK
    };
    let mut stated = 0;
    for pause_us in [300.0, 600.0, 800.0, 900.0, 1000.0] {
        let threads = vec![
            Source {
                requests: 1500,
                pause_us,
                kib: 4,
                ..THREAD
            };
            12
        ];
        let (document, said) = stats(&text(&threads, device, 2));
        let limit = &document["limit"];
        if limit["limiter"] != "request size" {
            continue;
        }
        stated += 1;
        let idle = limit["idle_share"].as_f64().unwrap();
        let (_, rest) = said.split_once("its rate of requests, ").unwrap();
        let (rate, rest) = rest.split_once(" k/s ").unwrap();
        assert_eq!(
            rest.starts_with("while busy, of 4.000 KiB"),
            idle >= 0.05,
            "{said}"
        );
        // The bus serves one in 100 us while the device is busy.
        let rate: f64 = rate.parse().unwrap();
        assert!((8.0..=10.2).contains(&rate), "{said}");
    }
    assert!(stated > 0);
    let sizes = [4, 64, 512].map(|kib| Source {
        requests: 2000,
        kib,
        ..THREAD
    });
    let device = Device {
        latency_us: 60.0,
        ..DISK
    };
    let (_, said) = stats(&text(&[sizes, sizes].concat(), device, 2));
    let lead = said.split_once(" requests issued").unwrap().0;
    if lead.contains(" of reads of ") {
        assert!(lead.contains("193.3 KiB on average"), "{said}");
    }
}

/// Another process that is there for a short time is what its requests do to those beside them.
#[test]
fn a_process_that_is_there_for_a_moment_is_a_cause() {
    let engine = Source {
        comm: "engine",
        requests: 1500,
        pause_us: 200.0,
        ..THREAD
    };
    // Large writes keep the bus for milliseconds each.
    let other = Source {
        comm: "rsync",
        requests: 30,
        kib: 8192,
        ..THREAD
    };
    let run = |sources: &[Source]| text(sources, DISK, 3);
    let (document, said) = compare(&run(&[engine, other, other]), &run(&[engine]));
    assert!(
        said.contains("Another process uses the device in A only: rsync"),
        "{said}"
    );
    assert_eq!(document["causes"][0]["what"], "other process", "{said}");
    assert!(said.contains("while it has some in flight"), "{said}");
    assert!(!said.contains("Chance may make as much"), "{said}");
}
