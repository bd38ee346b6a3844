//! Traces of several devices, side by side and stacked.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

/// What the tool prints.
fn said(words: &[&str]) -> String {
    let out = crate::blkio(Path::new("."), words);
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// A request of a device: issue, completion, device as `major,minor`, sector.
type Request = (u64, u64, &'static str, u64);

/// A trace as tracefs prints it, of reads of 64 KiB.
fn trace(requests: &[Request], remaps: &[&str]) -> String {
    let mut events: Vec<(u64, bool, String)> = Vec::new();
    for (issue, end, device, sector) in requests {
        let head = |t: &u64| {
            format!(
                " job-42 [001] ..... {}.{:06}:",
                t / 1_000_000,
                t % 1_000_000
            )
        };
        let line = format!(
            "{} block_rq_issue: {device} R 65536 () {sector} + 128 [job]\n",
            head(issue)
        );
        events.push((*issue, false, line));
        let line = format!(
            "{} block_rq_complete: {device} R () {sector} + 128 [0]\n",
            head(end)
        );
        events.push((*end, true, line));
    }
    events.sort();
    let mut out = String::from("# tracer: nop\n");
    for remap in remaps {
        let _ = writeln!(
            out,
            " job-42 [001] ..... 0.999999: block_bio_remap: {remap}"
        );
    }
    events
        .into_iter()
        .fold(out, |out, (_, _, line)| out + &line)
}

fn stats(text_of: &str, more: &[&str]) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    std::fs::write(&path, text_of).unwrap();
    let path = path.to_str().unwrap();
    serde_json::from_str(&said(&[&["stats", path, "--json"], more].concat())).unwrap()
}

fn read_bytes(document: &Value) -> u64 {
    document["metrics"]["totals"]["read"]["bytes"]
        .as_u64()
        .unwrap()
}

#[test]
fn devices_side_by_side_keep_their_places() {
    // Both read the same sectors once, in turn and in order.
    let requests: Vec<Request> = (0..1000_u64)
        .flat_map(|n| {
            let t = 1_000_000 + n * 200;
            [
                (t, t + 90, "259,0", n * 128),
                (t + 100, t + 190, "259,1", n * 128),
            ]
        })
        .collect();
    let found = stats(&trace(&requests, &[]), &[]);
    let all = &found["metrics"]["sequentiality"]["read"];
    assert_eq!(
        (&all["requests"], &all["sequential"]),
        (&2000.into(), &1998.into())
    );
    assert_eq!(
        found["metrics"]["working_set_4k_blocks"]["union"],
        2 * 1000 * 16
    );
    assert!((found["extra"]["reuse"]["re_read_factor"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(found["metrics"]["reuse_distance_128k_blocks"]["cold"], 1000);
    assert_eq!(found["stacked_devices"].as_array().map(Vec::len), Some(0));
    let devices = found["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 2);
    for device in devices {
        let of = &device["metrics"];
        assert_eq!(of["issues"], 1000);
        assert_eq!(of["sequentiality"]["read"]["sequential"], 999);
        assert_eq!(of["working_set_4k_blocks"]["union"], 16_000);
        assert!((device["re_read_factor"].as_f64().unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(device["queue_depth"]["all"]["busy_ns"], 90_000_000);
    }
    // Both together are never idle; each is, since requests go to the other then.
    assert_eq!(found["limit"]["limiter"], "queue depth");
    assert!(found["limit"]["turns"]["idle_share"].as_f64().unwrap() < 0.2);
    for device in devices {
        assert_eq!(device["limit"]["limiter"], "queue depth");
    }
    assert!((found["limit"]["depth_while_busy"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    let share = found["limit"]["idle_share"].as_f64().unwrap();
    assert!((share - 0.55).abs() < 0.01, "{share}");
    let one = stats(&trace(&requests, &[]), &["--device", "259:1"]);
    // As busy as each other, neither is the busiest.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    std::fs::write(&path, trace(&requests, &[])).unwrap();
    let text = crate::joined(&said(&["stats", path.to_str().unwrap()]));
    assert!(
        text.starts_with("Device 259:0, as busy as 259:1: "),
        "{text}"
    );
    assert_eq!(one["metrics"], {
        let mut of = devices[1]["metrics"].clone();
        of["lines_not_events"] = one["metrics"]["lines_not_events"].clone();
        of
    });
}

#[test]
fn stacked_devices_are_counted_once() {
    // Several at a time, in no order; the lower device has its data a thousand sectors on.
    let both = |upper: &'static str, lower: &'static str, shift: u64| -> Vec<Request> {
        let requests = (0..500_u64).flat_map(|n| {
            let t = 1_000_000 + n * 40;
            let sector = n * 7919 % 500 * 128;
            [
                (t, t + 150 + n % 37, upper, sector),
                (t + 3, t + 147 + n % 37, lower, sector + shift),
            ]
        });
        requests.collect()
    };
    let bytes = 500 * 65536;
    for (upper, lower) in [("253,0", "259,0"), ("9,0", "8,0"), ("7,0", "254,0")] {
        let text_of = trace(&both(upper, lower, 1000), &[]);
        let found = stats(&text_of, &[]);
        assert_eq!(read_bytes(&found), bytes, "{upper}");
        let pair = &found["stacked_devices"][0];
        let names = [upper, lower].map(|name| name.replace(',', ":"));
        assert_eq!(
            (&pair["upper"], &pair["lower"]),
            (&names[0].as_str().into(), &names[1].as_str().into())
        );
        assert_eq!(pair["upper_is_left_out"], true);
        let top = stats(&text_of, &["--device", &names[0]]);
        assert_eq!(read_bytes(&top), bytes);
    }
    // Disks do not lie on disks, however alike their requests are; remap events say otherwise.
    let text_of = trace(&both("8,16", "8,0", 0), &[]);
    assert_eq!(read_bytes(&stats(&text_of, &[])), 2 * bytes);
    let remap = "8,0 R 1000 + 128 <- (8,16) 0";
    let found = stats(&trace(&both("8,16", "8,0", 0), &[remap]), &[]);
    assert_eq!(read_bytes(&found), bytes);
    assert_eq!(found["stacked_devices"][0]["evidence"], "remap events");
    // Virtual disks that work at the same time are not stacked.
    let mut random = 9_u64;
    let mut below = |limit: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % limit
    };
    let mut requests: Vec<Request> = Vec::new();
    for n in 0..600_u64 {
        for device in ["254,0", "254,16"] {
            let t = 1_000_000 + n * 50 + below(40);
            requests.push((t, t + 100 + below(400), device, below(1 << 20) * 128));
        }
    }
    let found = stats(&trace(&requests, &[]), &[]);
    assert_eq!(found["stacked_devices"].as_array().map(Vec::len), Some(0));
    assert_eq!(found["devices"].as_array().map(Vec::len), Some(2));
}

/// A trace of reads of 128 KiB, one after the other and each a millisecond after the one before: half of the time on a disk, half a
/// pause. The bio of each is queued at the volume first if there is one, and remapped to one of the disks in turn.
fn passed_on(volumes: &[&str], disks: &[&str], remaps: bool) -> String {
    let mut out = String::from("# tracer: nop\n");
    let mut say = |us: u64, event: String| {
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        let _ = writeln!(out, " job-42 [001] ..... {s}.{us:06}: {event}");
    };
    for n in 0..1000_u64 {
        let t = 10_000_000 + n * 1000;
        let disk = disks[usize::try_from(n).unwrap() % disks.len()];
        let sector = 4096 + n / disks.len() as u64 * 256;
        let chain: Vec<&str> = volumes.iter().chain([&disk]).copied().collect();
        for (step, pair) in (0_u64..).zip(chain.windows(2)) {
            let t = t - 60 + step * 10;
            let at = n * 256;
            say(
                t,
                format!("block_bio_queue: {} R {at} + 256 [job]", pair[0]),
            );
            let below = if pair[1] == disk { sector } else { at };
            if remaps {
                let event = format!("{} R {below} + 256 <- ({}) {at}", pair[1], pair[0]);
                say(t + 5, format!("block_bio_remap: {event}"));
            }
        }
        say(
            t - 20,
            format!("block_bio_queue: {disk} R {sector} + 256 [job]"),
        );
        say(
            t,
            format!("block_rq_issue: {disk} R 131072 () {sector} + 256 [job]"),
        );
        say(
            t + 500,
            format!("block_rq_complete: {disk} R () {sector} + 256 [0]"),
        );
    }
    out
}

#[test]
fn bios_that_are_passed_on_are_counted_once() {
    for (volumes, disks, remaps) in [
        (&["253,0"][..], &["8,0"][..], true),
        (&["253,0"], &["8,0", "8,16"], true),
        (&["253,1", "253,0"], &["8,0", "8,16"], true),
        (&["9,0"], &["259,0", "259,1"], false),
        (&[], &["8,0"], true),
    ] {
        let found = stats(&passed_on(volumes, disks, remaps), &[]);
        let what = format!("{volumes:?} {disks:?}");
        assert_eq!(found["metrics"]["issues"], 1000, "{what}");
        assert_eq!(found["extra"]["queued"], 1000, "{what}");
        let rows = found["extra"]["stage_table"].as_array().unwrap();
        let row = |stage: &str| rows.iter().find(|row| row["stage"] == stage).unwrap();
        assert_eq!(row("q2q")["count"], 999, "{what}");
        assert_eq!(row("q2q")["mean_ns"], 1_000_000.0, "{what}");
        assert_eq!(row("q2d")["mean_ns"], 20_000.0, "{what}");
        let pairs = found["stacked_devices"].as_array().unwrap();
        assert_eq!(pairs.is_empty(), volumes.is_empty() || !remaps, "{what}");
        for pair in pairs {
            assert_eq!(pair["upper_has_requests"], false, "{what}");
            assert_eq!(pair["upper_is_left_out"], true, "{what}");
        }
        // One request is in flight for half of the time, on whichever disk.
        assert_eq!(found["limit"]["limiter"], "think time", "{what}");
        let gain = found["limit"]["most_without_pauses"].as_f64().unwrap();
        assert!((gain - 2.0).abs() < 0.02, "{what}: {gain}");
    }
    // Said in words.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    std::fs::write(&path, passed_on(&["253,0"], &["8,0", "8,16"], true)).unwrap();
    let text = crate::joined(&said(&["stats", path.to_str().unwrap()]));
    for part in [
        "Devices 8:0 and 8:16 as one (below 253:0): limited by think time",
        "up to 2.00x of now",
        "253:0 lies on 8:16 (remap events): bios are counted once, at 8:16",
        "1000 bios queued, 0 merged, 1.00 bios a request",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn bios_of_partitions_are_those_of_their_disks() {
    // The bios of the partition are queued there alone, and those of the volume there and on the partition.
    let lines = passed_on(&["253,0"], &["8,0"], true);
    let text_of: String = lines
        .lines()
        .map(|line| match line.contains("block_rq") {
            true => format!("{line}\n"),
            false => format!("{}\n", line.replace(" 8,0 ", " 8,1 ")),
        })
        .collect();
    assert_eq!(stats(&text_of, &[])["extra"]["queued"], 1000);
    let without: String = text_of
        .lines()
        .filter(|line| !line.contains("253,0"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(stats(&without, &[])["extra"]["queued"], 1000);
}

#[test]
fn disks_of_two_applications_keep_their_own_pauses() {
    // Each serves one request at a time, at its own pace, and they overlap.
    let requests = (0..1000_u64).flat_map(|n| {
        let t = 1_000_000 + n * 1000;
        let other = 1_000_000 + n * 1370;
        [
            (t, t + 200, "8,0", n * 128),
            (other, other + 200, "8,16", n * 128),
        ]
    });
    let found = stats(&trace(&requests.collect::<Vec<Request>>(), &[]), &[]);
    assert!(found["limit"]["as_one"].is_null());
    let gain = found["limit"]["most_without_pauses"].as_f64().unwrap();
    assert!((gain - 5.0).abs() < 0.05, "{gain}");
}

#[test]
fn the_most_limiting_device_leads_and_is_named() {
    // A slow device, busy nearly all the time, beside a fast one that moves as much or more.
    let both = |busy_us: u64, fast: u64| -> Vec<Request> {
        let requests = (0..600_u64).flat_map(|n| {
            let t = 1_000_000 + n * 1000;
            let slow = (t, t + busy_us, "8,0", n * 128);
            let others = (0..fast).map(move |k| {
                let t = t + 10 + k * 200;
                (t, t + 50, "259,0", (n * fast + k) * 128)
            });
            [slow].into_iter().chain(others)
        });
        requests.collect()
    };
    for (busy_us, fast) in [(800, 1), (990, 4), (960, 3)] {
        let text_of = trace(&both(busy_us, fast), &[]);
        let found = stats(&text_of, &[]);
        assert_eq!(found["limit"]["device"], "8:0", "{busy_us} {fast}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.txt");
        std::fs::write(&path, &text_of).unwrap();
        let text = said(&["stats", path.to_str().unwrap()]);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let first = crate::joined(&text);
        assert!(first.starts_with("Device 8:0, the busiest: "), "{first}");
        assert!(first.contains("259:0 busy "), "{first}");
    }
}

/// Sequential numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit.max(1)
    }
}

/// A request as `trace` has it, of any size: issue, completion, device, sector, sectors, direction.
type Sized = (u64, u64, String, u64, u64, char);

fn sized(requests: &[Sized]) -> String {
    let mut events: Vec<(u64, bool, String)> = Vec::new();
    for (issue, end, device, sector, sectors, direction) in requests {
        let head = |t: u64| {
            format!(
                " job-42 [001] ..... {}.{:06}:",
                t / 1_000_000,
                t % 1_000_000
            )
        };
        let bytes = sectors * 512;
        let line = format!(
            "{} block_rq_issue: {device} {direction} {bytes} () {sector} + {sectors} [job]\n",
            head(*issue)
        );
        events.push((*issue, false, line));
        let line = format!(
            "{} block_rq_complete: {device} {direction} () {sector} + {sectors} [0]\n",
            head(*end)
        );
        events.push((*end, true, line));
    }
    events.sort();
    let lines = events.into_iter().map(|(_, _, line)| line);
    String::from("# tracer: nop\n") + &lines.collect::<String>()
}

/// How an upper device lies on its disks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Map {
    /// Pieces of so many sectors in turn.
    Stripes(u64),
    /// One disk behind the other, each of so many sectors.
    Linear(u64),
    /// Pieces of 128 sectors at places without order.
    Thin,
}

impl Map {
    /// Disk, sector and length of the piece at a sector, and of at most so many.
    fn piece(self, sector: u64, length: u64, disks: u64) -> (u64, u64, u64) {
        match self {
            Self::Stripes(chunk) => {
                let (number, within) = (sector / chunk, sector % chunk);
                let place = number / disks * chunk + within + 2048;
                (number % disks, place, length.min(chunk - within))
            }
            Self::Linear(size) => {
                let within = sector % size;
                (sector / size, within + 2048, length.min(size - within))
            }
            Self::Thin => {
                let (number, within) = (sector / 128, sector % 128);
                let place = Random(number + 17).below(1 << 24) * 128;
                (number % disks, place + within, length.min(128 - within))
            }
        }
    }
}

#[test]
fn every_mapping_onto_several_disks_is_found() {
    let mut random = Random(5);
    for (upper, disks) in [
        ("253,0", ["8,0", "8,16", "8,32", "8,48"]),
        ("252,3", ["259,0", "259,1", "259,2", "259,3"]),
        ("9,127", ["259,0", "259,5", "8,0", "254,0"]),
    ] {
        for count in 1..=4_u64 {
            for map in [
                Map::Stripes(128),
                Map::Stripes(1024),
                Map::Linear(1 << 19),
                Map::Thin,
            ] {
                if map == Map::Linear(1 << 19) && count == 1 {
                    continue;
                }
                for (sectors, is_sequential) in [(64, false), (512, false), (2048, true)] {
                    let mut requests: Vec<Sized> = Vec::new();
                    let mut bytes = 0;
                    for n in 0..300_u64 {
                        let t = 1_000_000 + n * 90;
                        let range = (count << 19) - sectors;
                        let sector = if is_sequential {
                            n * sectors % range
                        } else {
                            random.below(range / 8) * 8
                        };
                        let direction = if n % 3 == 0 { 'W' } else { 'R' };
                        let lasts = 300 + random.below(200);
                        requests.push((t, t + lasts, upper.to_owned(), sector, sectors, direction));
                        let mut at = sector;
                        let mut merged: Vec<(u64, u64, u64)> = Vec::new();
                        while at < sector + sectors {
                            let (disk, place, length) = map.piece(at, sector + sectors - at, count);
                            at += length;
                            let before = merged
                                .iter_mut()
                                .find(|(of, from, length)| *of == disk && from + *length == place);
                            match before {
                                Some(before) => before.2 += length,
                                None => merged.push((disk, place, length)),
                            }
                        }
                        for (k, (disk, place, length)) in (1..).zip(merged) {
                            bytes += length * 512;
                            let disk = disks[usize::try_from(disk).unwrap()].to_owned();
                            let begun = t + k.min(90);
                            let end = (t + lasts - 1 - random.below(60)).max(begun + 1);
                            requests.push((begun, end, disk, place, length, direction));
                        }
                    }
                    let found = stats(&sized(&requests), &[]);
                    let totals = &found["metrics"]["totals"];
                    let of = |direction: &str| totals[direction]["bytes"].as_u64().unwrap_or(0);
                    let case = format!("{upper} on {count} {map:?} {sectors}");
                    assert_eq!(of("read") + of("write"), bytes, "{case}");
                    let left_out = &found["devices_left_out"];
                    assert_eq!(left_out.as_array().map(Vec::len), Some(1), "{case}");
                    assert_eq!(left_out[0]["metrics"]["issues"], 300, "{case}");
                    let name = upper.replace(',', ":");
                    assert_eq!(left_out[0]["device"], name.as_str(), "{case}");
                }
            }
        }
    }
}

#[test]
fn devices_that_work_at_the_same_time_are_counted_each() {
    for devices in [["254,0", "254,16"], ["253,0", "259,0"], ["252,0", "8,0"]] {
        for seed in 1..5 {
            let mut random = Random(seed);
            let mut requests: Vec<Sized> = Vec::new();
            for device in devices {
                let mut at = 0;
                for n in 0..500_u64 {
                    let t = 1_000_000 + n * 100 + random.below(80);
                    let sectors = 8 << random.below(5);
                    at += sectors;
                    let sector = if seed % 2 == 0 {
                        at
                    } else {
                        random.below(1 << 24) * 8
                    };
                    let end = t + 100 + random.below(600);
                    requests.push((t, end, device.to_owned(), sector, sectors, 'R'));
                }
            }
            let found = stats(&sized(&requests), &[]);
            let case = format!("{devices:?} {seed}");
            let stacked = found["stacked_devices"].as_array().map(Vec::len);
            assert_eq!(stacked, Some(0), "{case}");
            assert_eq!(found["devices"].as_array().map(Vec::len), Some(2), "{case}");
        }
    }
}

/// The same requests of two devices as a tracer writes them.
fn written(format: &str, requests: &[Sized]) -> String {
    let mut events: Vec<(u64, bool, String)> = Vec::new();
    let mut rows: Vec<(u64, String)> = Vec::new();
    for (issue, end, device, sector, sectors, direction) in requests {
        let bytes = sectors * 512;
        let (major, minor) = device.split_once(',').unwrap();
        let seconds = |t: u64| format!("{}.{:06}", t / 1_000_000, t % 1_000_000);
        let pair = match format {
            "perf" => [
                format!(
                    " job 42 [001] {}: block:block_rq_issue: {device} {direction} {bytes} () {sector} + {sectors} [job]\n",
                    seconds(*issue)
                ),
                format!(
                    " job 42 [001] {}: block:block_rq_complete: {device} {direction} () {sector} + {sectors} [0]\n",
                    seconds(*end)
                ),
            ],
            "blkparse" => [
                format!(
                    "{device} 1 1 {}000 42 D {direction} {sector} + {sectors} [job]\n",
                    seconds(*issue)
                ),
                format!(
                    "{device} 1 1 {}000 42 C {direction} {sector} + {sectors} [0]\n",
                    seconds(*end)
                ),
            ],
            "collector" => [
                format!(
                    "I, {}, 1, {major}, {minor}, {direction}, {bytes}, {sector}, {sectors}, 0, 42, job\n",
                    issue * 1000
                ),
                format!(
                    "C, {}, 1, {major}, {minor}, {direction}, {bytes}, {sector}, {sectors}, 0, 42, job\n",
                    end * 1000
                ),
            ],
            _ => {
                let disk = if *device == *"8,0" { "sda" } else { "nvme0n1" };
                let row = format!(
                    "{} job 42 {disk} {direction} {sector} {bytes} {:.3}\n",
                    seconds(*end),
                    (end - issue) as f64 / 1e3
                );
                rows.push((*end, row));
                continue;
            }
        };
        let [first, last] = pair;
        events.push((*issue, false, first));
        events.push((*end, true, last));
    }
    events.sort();
    rows.sort();
    let head = match format {
        "biosnoop" => "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n",
        _ => "",
    };
    let lines = events.into_iter().map(|(_, _, line)| line);
    head.to_owned()
        + &lines
            .chain(rows.into_iter().map(|row| row.1))
            .collect::<String>()
}

#[test]
fn measures_of_each_device_are_those_of_a_recount_in_every_format() {
    let mut random = Random(3);
    let mut requests: Vec<Sized> = Vec::new();
    for device in ["8,0", "259,0"] {
        let mut free = 1_000_000 + random.below(50);
        let mut next = 4096;
        for _ in 0..400_u64 {
            // One at a time on each device, so that times and depth are plain.
            let issue = free + 1 + random.below(50);
            let end = issue + 40 + random.below(400);
            free = end;
            let sectors = 8 << random.below(5);
            let sector = if random.below(3) > 0 {
                next
            } else {
                random.below(4096) * 8
            };
            next = sector + sectors;
            let direction = if random.below(4) == 0 { 'W' } else { 'R' };
            requests.push((issue, end, device.to_owned(), sector, sectors, direction));
        }
    }
    for format in ["tracefs", "perf", "blkparse", "collector", "biosnoop"] {
        let text_of = match format {
            "tracefs" => sized(&requests),
            _ => written(format, &requests),
        };
        let found = stats(&text_of, &[]);
        let devices = found["devices"].as_array().unwrap();
        assert_eq!(devices.len(), 2, "{format}");
        let mut union = 0;
        for (device, name) in [("8,0", "sda"), ("259,0", "nvme0n1")] {
            let of: Vec<&Sized> = requests.iter().filter(|r| r.2 == device).collect();
            let number = device.replace(',', ":");
            let by_name = devices
                .iter()
                .find(|d| d["device"] == name || d["device"] == number.as_str());
            let by_name = by_name.unwrap();
            let metrics = &by_name["metrics"];
            let bytes =
                |d: char| -> u64 { of.iter().filter(|r| r.5 == d).map(|r| r.4 * 512).sum() };
            assert_eq!(metrics["issues"], of.len(), "{format}");
            assert_eq!(metrics["totals"]["read"]["bytes"], bytes('R'), "{format}");
            assert_eq!(metrics["totals"]["write"]["bytes"], bytes('W'), "{format}");
            let pairs = of.windows(2).filter(|w| w[0].3 + w[0].4 == w[1].3).count();
            assert_eq!(
                metrics["sequentiality"]["all"]["sequential"], pairs,
                "{format}"
            );
            let blocks: std::collections::BTreeSet<u64> = of
                .iter()
                .flat_map(|r| r.3 / 8..(r.3 + r.4).div_ceil(8))
                .collect();
            assert_eq!(
                metrics["working_set_4k_blocks"]["union"],
                blocks.len(),
                "{format}"
            );
            union += blocks.len();
            let busy: u64 = of.iter().map(|r| (r.1 - r.0) * 1000).sum();
            assert_eq!(by_name["queue_depth"]["all"]["busy_ns"], busy, "{format}");
            let latency = &metrics["pairing_newest"]["latency_ns"]["read"]["max"];
            let most = of
                .iter()
                .filter(|r| r.5 == 'R')
                .map(|r| (r.1 - r.0) * 1000)
                .max();
            assert_eq!(latency.as_u64(), most, "{format}");
            // The device by its name gives the same.
            let one = stats(&text_of, &["--device", name]);
            assert_eq!(
                one["metrics"]["totals"], metrics["totals"],
                "{format} {name}"
            );
        }
        assert_eq!(
            found["metrics"]["working_set_4k_blocks"]["union"], union,
            "{format}"
        );
    }
}

#[test]
fn devices_are_compared_each_for_itself() {
    let run = |lasts: u64| -> String {
        let requests = (0..400_u64).flat_map(|n| {
            let t = 1_000_000 + n * 1000;
            [
                (t, t + 100, "8,0".to_owned(), n * 64, 64, 'R'),
                (t, t + lasts, "259,0".to_owned(), n * 64, 64, 'R'),
            ]
        });
        sized(&requests.collect::<Vec<_>>())
    };
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = [("a.txt", 200), ("b.txt", 400)].map(|(name, lasts)| {
        let path = dir.path().join(name);
        std::fs::write(&path, run(lasts)).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let found: Value = serde_json::from_str(&said(&["compare", &a, &b, "--json"])).unwrap();
    let rows = found["devices"].as_array().unwrap();
    let change = |device: &str| {
        let mut rows = rows.iter();
        let row = rows.find(|row| row["device"] == device && row["what"] == "read_latency_p50_ns");
        row.unwrap()["change_pct"].as_f64().unwrap()
    };
    assert!(change("8:0").abs() < 1e-9);
    assert!((change("259:0") - 100.0).abs() < 1e-9);
}

#[test]
fn processors_and_unplugs_are_counted_as_blkparse_does() {
    let mut text = String::new();
    let mut number = 0;
    let mut line = |cpu: u64, t_us: u64, rest: &str| {
        number += 1;
        let _ = writeln!(text, "8,0 {cpu} {number} 0.{t_us:06}000 42 {rest}");
    };
    for n in 0..10_u64 {
        let (cpu, t) = (n % 2, n * 1000);
        let direction = if n % 5 == 0 { 'W' } else { 'R' };
        let sector = n * 1024;
        line(cpu, t, &format!("Q {direction} {sector} + 8 [job]"));
        line(cpu, t + 1, &format!("G {direction} {sector} + 8 [job]"));
        line(cpu, t + 2, "P N [job]");
        line(
            cpu,
            t + 3,
            &format!("Q {direction} {} + 8 [job]", sector + 8),
        );
        line(
            cpu,
            t + 4,
            &format!("M {direction} {} + 8 [job]", sector + 8),
        );
        line(cpu, t + 5, &format!("I {direction} {sector} + 16 [job]"));
        line(cpu, t + 6, &format!("U N [job] {}", 1 + n % 3));
        line(cpu, t + 7, &format!("D {direction} {sector} + 16 [job]"));
        // All completions are handled by one processor.
        line(1, t + 90, &format!("C {direction} {sector} + 16 [0]"));
    }
    let found = stats(&text, &[]);
    let extra = &found["extra"];
    // 1, 2, 3, 1, 2, 3, 1, 2, 3, 1 requests.
    assert_eq!(
        (&extra["unplugs"], &extra["ios_per_unplug"]),
        (&10.into(), &1.9.into())
    );
    let cpus = extra["cpus"].as_array().unwrap();
    assert_eq!(cpus.len(), 2);
    let ios = |cpu: usize, what: &str, of: &str| cpus[cpu][what][of]["ios"].as_u64().unwrap();
    for (cpu, writes) in [(0, 1), (1, 1)] {
        assert_eq!(cpus[cpu]["cpu"], cpu);
        assert_eq!(ios(cpu, "queued", "read"), 2 * (5 - writes));
        assert_eq!(ios(cpu, "queued", "write"), 2 * writes);
        assert_eq!(ios(cpu, "dispatched", "read"), 5 - writes);
        assert_eq!(ios(cpu, "merged", "write"), writes);
        assert_eq!(ios(cpu, "completed", "read"), if cpu == 1 { 8 } else { 0 });
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    std::fs::write(&path, &text).unwrap();
    let shown = said(&["stats", path.to_str().unwrap()]);
    assert!(
        shown.contains("10 plugs, 10 unplugs, 1.90 IOs per unplug"),
        "{shown}"
    );
    assert!(shown.contains("requests by CPU (read/write):"), "{shown}");
    assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
}
