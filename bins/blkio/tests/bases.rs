//! What numbers are divided by: rates by the time until the last completion, shares by one unit, depth and limits by one device or all.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A request: issue and duration in microseconds, minor number, letters, sector, bytes.
type Request = (u64, u64, u64, &'static str, u64, u64);

const MIB: u64 = 1 << 20;

fn trace(requests: &[Request]) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for (t_us, took_us, minor, rwbs, sector, bytes) in requests {
        for (kind, t_us) in [('I', *t_us), ('C', t_us + took_us)] {
            let t_ns = 1_000_000_000 + t_us * 1000;
            let sectors = bytes / 512;
            let line = format!(
                "{kind}, {t_ns}, 1, 259, {minor}, {rwbs}, {bytes}, {sector}, {sectors}, 0, 42, job\n"
            );
            lines.push((t_ns, line));
        }
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

struct Case {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Case {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.txt");
        std::fs::write(&path, text).unwrap();
        Self { _dir: dir, path }
    }

    fn text(&self, command: &str, more: &[&str]) -> String {
        let words = [&[command, self.path.to_str().unwrap()], more].concat();
        String::from_utf8(crate::blkio(Path::new("."), &words).stdout).unwrap()
    }

    fn json(&self, more: &[&str]) -> Value {
        serde_json::from_str(&self.text("stats", &[&["--json"], more].concat())).unwrap()
    }

    fn page(&self) -> String {
        let page = self.path.with_extension("html");
        self.text("stats", &["--html", page.to_str().unwrap()]);
        std::fs::read_to_string(page).unwrap()
    }
}

/// Requests that are issued one microsecond after the other, and end one every 10 ms.
fn burst(minor: u64, count: u64) -> Vec<Request> {
    let request = |n: u64| (n, (n + 1) * 10_000 - n, minor, "R", n * 2048, MIB);
    (0..count).map(request).collect()
}

#[test]
fn a_burst_lasts_until_its_last_completion() {
    // 100 requests a second, however fast they are issued.
    let both = [burst(0, 64), burst(1, 32)].concat();
    for (requests, wanted) in [
        (burst(0, 1), vec![1]),
        (burst(0, 64), vec![64]),
        (both, vec![64, 32]),
    ] {
        let case = Case::new(&trace(&requests));
        let found = case.json(&[]);
        let per_s = |value: &Value| value.as_f64().unwrap() / MIB as f64;
        let close = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 1e-9;
        let (most, sum) = (wanted.iter().max().unwrap(), wanted.iter().sum::<u64>());
        let seconds = *most as f64 / 100.0;
        let rates = &found["extra"]["mean_rates"];
        assert!(close(rates["span_s"].as_f64().unwrap(), seconds), "{rates}");
        let rate = per_s(&rates["read_bytes_per_s"]);
        assert!(close(rate, sum as f64 / seconds), "{rates}");
        let devices = found["devices"].as_array().unwrap();
        assert_eq!(devices.len(), if wanted.len() > 1 { 2 } else { 0 });
        for device in devices {
            let rate = per_s(&device["read"]["bytes_per_s"]);
            assert!(close(rate, 100.0), "{rate}");
        }
        // What the device served in its best 100 ms, not what was put into its queue.
        let best = per_s(&found["extra"]["best_100ms"]["read_bytes_per_s"]);
        assert!(best <= 100.0 * wanted.len() as f64 + 1e-3, "{best}");
        let (text, page) = (case.text("stats", &[]), case.page());
        let said = format!("over {seconds:.3} s");
        assert!(text.contains(&said), "{said}: {text}");
        for word in ["GB/s", "MB/s", "kB/s"] {
            assert!(!page.contains(word) && !text.contains(word), "{word}");
        }
        assert!(
            case.text("info", &[])
                .contains(&format!("span_s: {seconds}"))
        );
    }
}

/// Requests at this depth, each for so long, from a time on; the device serves `channels` of them at once.
fn closed(from_us: u64, count: u64, depth: u64, took_us: u64, channels: u64) -> Vec<Request> {
    let mut free = vec![0; usize::try_from(channels).unwrap()];
    let mut ready: Vec<u64> = (0..depth).map(|n| from_us + n).collect();
    let mut found = Vec::new();
    for n in 0..count {
        let (slot, issue) = (0..)
            .zip(ready.iter().copied())
            .min_by_key(|(_, t)| *t)
            .unwrap();
        let channel = free.iter_mut().min().unwrap();
        *channel = (*channel).max(issue) + took_us + n * 7 % 5;
        ready[slot] = *channel + 1;
        found.push((issue, *channel - issue, 0, "R", n * 256, 131_072));
    }
    found
}

fn end(requests: &[Request]) -> u64 {
    requests.iter().map(|r| r.0 + r.1).max().unwrap()
}

#[test]
fn think_time_is_the_larger_part_and_no_break_between_phases() {
    let limiter = |requests: &[Request]| {
        let case = Case::new(&trace(requests));
        let found = case.json(&[]);
        let text = crate::joined(&case.text("stats", &[]));
        let limiter = found["limit"]["limiter"].as_str().unwrap().to_owned();
        (limiter, text)
    };
    // One depth each, with one break between them: neither shows a limit.
    let writes: Vec<Request> = closed(0, 600, 8, 300, 2);
    let writes: Vec<Request> = writes
        .into_iter()
        .map(|r| (r.0, r.1, 0, "W", r.4, r.5))
        .collect();
    let reads = closed(end(&writes) + 33_000, 300, 4, 300, 8);
    let (found, text) = limiter(&[writes, reads].concat());
    assert_eq!(found, "cannot say", "{text}");
    assert!(!text.contains("think time"), "{text}");
    assert!(text.contains("% of the time): cannot say"), "{text}");
    assert!(
        text.contains("Over the whole trace nothing is in flight 22."),
        "{text}"
    );
    // Bursts at a device that is full in each, with short and with long pauses between.
    let bursts = |pause_us: u64| {
        let mut all: Vec<Request> = Vec::new();
        for _ in 0..40 {
            let from = if all.is_empty() {
                0
            } else {
                end(&all) + pause_us
            };
            all.extend(closed(from, 320, 32, 100, 8));
        }
        all
    };
    let (found, text) = limiter(&bursts(1500));
    assert_eq!(found, "device", "{text}");
    assert!(text.starts_with("Limited by the device: busy 7"), "{text}");
    assert!(text.contains("Nothing is in flight 2"), "{text}");
    let (found, text) = limiter(&bursts(9000));
    assert_eq!(found, "think time", "{text}");
    // Two long breaks are no think time of a single reader; ten are.
    let runs = |count: u64| {
        let mut all: Vec<Request> = Vec::new();
        for _ in 0..count {
            let from = if all.is_empty() {
                0
            } else {
                end(&all) + 40_000
            };
            all.extend(closed(from, 200, 1, 100, 8));
        }
        all
    };
    for (count, wanted) in [(3, "cannot say"), (11, "think time")] {
        let case = Case::new(&trace(&runs(count)));
        let found = case.json(&["--phase", "all=0s..10s"]);
        let limit = &found["given_phases"][0]["limit"];
        assert_eq!(limit["limiter"], wanted, "{limit}");
        assert!(limit["idle_share"].as_f64().unwrap() > 0.5);
    }
}

#[test]
fn phases_of_two_devices_have_one_base() {
    // The second device is busy in the time in which the first is not.
    let one: Vec<Request> = (0..2000)
        .map(|n| (n * 500, 100, 0, "R", n * 128, 65_536))
        .collect();
    let two = one.iter().map(|r| (r.0 + 200, 200, 1, r.3, r.4, r.5));
    let two: Vec<Request> = two.collect();
    let case = Case::new(&trace(&[one, two].concat()));
    let found = case.json(&[]);
    let phase = &found["phases"]["phases"][0];
    let near = |key: &str, wanted: f64| {
        let found = phase[key].as_f64().unwrap();
        assert!((found - wanted).abs() < 0.01, "{key} {found}");
    };
    near("mean_queue_depth", 0.6);
    near("busy_share", 0.6);
    let device = phase["limit"]["device"].as_str().unwrap();
    assert!(case.text("stats", &[]).contains(&format!("({device})")));
    let page = case.page();
    assert!(page.contains("limit of") && page.contains("are of all devices together"));
    assert!(page.contains("60.0"), "busy of any device");
}

#[test]
fn a_yardstick_is_an_aim_for_requests_of_like_size_alone() {
    let of = |bytes: u64| {
        let requests = (0..2000).map(|n| (n * 101, 100, 0, "R", n * 2048, bytes));
        Case::new(&trace(&requests.collect::<Vec<Request>>()))
    };
    let (small, large) = (of(4096), of(131_072));
    let said = |case: &Case, yardstick: &str| {
        crate::joined(&case.text("stats", &["--yardstick", yardstick]))
    };
    let text = said(&small, "3.2GB/s");
    assert!(!text.contains("up to"), "{text}");
    assert!(
        text.contains("has no size of requests, and these have 4.000 KiB"),
        "{text}"
    );
    assert!(said(&large, "3.2GB/s").contains("The yardstick (3.2GB/s) moved"));
    let fio = |bs: u64, kib_s: u64| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fio.json");
        let bytes = bs * 1000;
        let side =
            serde_json::json!({"io_bytes": bytes, "total_ios": 1000, "bw": kib_s, "runtime": 100});
        let job = serde_json::json!({"jobname": "j", "read": side, "write": {"io_bytes": 0, "total_ios": 0, "bw": 0}});
        let all = serde_json::json!({"fio version": "fio-3.33", "jobs": [job]});
        std::fs::write(&path, all.to_string()).unwrap();
        (dir, path)
    };
    let (_dir, path) = fio(4096, 1_000_000);
    assert!(said(&small, path.to_str().unwrap()).contains("moved 976.6 MiB/s: up to 2"));
    // The same rate of requests, but much smaller ones: neither its rate nor its limit of requests is that of large ones.
    let (_dir, path) = fio(4096, 40_000);
    let text = said(&large, path.to_str().unwrap());
    assert!(text.starts_with("Cannot say whether"), "{text}");
    assert!(text.contains("is of requests of 4.000 KiB"), "{text}");
    let (_dir, path) = fio(1 << 20, 4_000_000);
    let text = said(&small, path.to_str().unwrap());
    assert!(
        !text.contains("up to") && text.contains("is of requests of 1.000 MiB"),
        "{text}"
    );
}

/// Bios of 4 KiB that merge into requests, as blkparse prints them: how many each, time queued before issue, time at the device.
fn merged(bios: u64, device: &str) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for request in 0..50_u64 {
        let (t, sector) = (request * 1000, request * 4096);
        let of = |t: u64, what: &str| {
            let line = format!("{device} 0 1 0.{:09} 7 {what}\n", t * 1000);
            (t, line)
        };
        for bio in 0..bios {
            let place = sector + bio * 8;
            lines.push(of(t + bio, &format!("Q R {place} + 8 [app]")));
            let next = if bio == 0 { "G" } else { "M" };
            lines.push(of(t + bio, &format!("{next} R {place} + 8 [app]")));
        }
        let all = format!("R {sector} + {} [app]", bios * 8);
        lines.push(of(t + 50, &format!("I {all}")));
        lines.push(of(t + 55, &format!("U N [app] {}", bios / 2)));
        lines.push(of(t + 60, &format!("D {all}")));
        lines.push(of(
            t + 200 + request,
            &all.replace("[app]", "[0]").replacen('R', "C R", 1),
        ));
    }
    lines.sort_by_key(|(t, _)| *t);
    lines.into_iter().map(|(_, line)| line).collect()
}

#[test]
fn shares_of_stages_add_up_with_merges() {
    for bios in [1, 2, 8, 16] {
        let found = Case::new(&merged(bios, "259,0")).json(&[]);
        let table = found["extra"]["stage_table"].as_array().unwrap();
        let share = |names: &[&str]| -> f64 {
            let rows = table
                .iter()
                .filter(|row| names.iter().any(|name| row["stage"] == **name));
            rows.map(|row| row["share_of_q2c"].as_f64().unwrap()).sum()
        };
        let steps = share(&["q2g", "g2i", "i2d", "q2m", "m2d", "d2c"]);
        assert!((steps - 1.0).abs() < 1e-9, "{bios}: {steps}");
        let halves = share(&["q2d", "d2c"]);
        assert!((halves - 1.0).abs() < 1e-9, "{bios}: {halves}");
        assert_eq!(
            found["extra"]["stage_shares_are_of"],
            "the time of all bios"
        );
    }
}

#[test]
fn unplugs_are_of_the_device_asked_for() {
    let both = [merged(2, "259,0"), merged(8, "259,1")].concat();
    let case = Case::new(&both);
    for (device, wanted) in [("259:0", 1.0), ("259:1", 4.0)] {
        let found = case.json(&["--device", device]);
        assert_eq!(found["extra"]["ios_per_unplug"], wanted, "{device}");
    }
    assert_eq!(case.json(&[])["extra"]["ios_per_unplug"], 2.5);
}

#[test]
fn a_converted_table_is_read_back() {
    let two = [burst(0, 64), burst(1, 32)].concat();
    for text in [trace(&two), merged(8, "259,0")] {
        let case = Case::new(&text);
        let table = case.path.with_extension("csv");
        let table = table.to_str().unwrap();
        case.text("convert", &[table]);
        let out = crate::blkio(Path::new("."), &["stats", table, "--json"]);
        let again: Value = crate::json(&out);
        let first = case.json(&[]);
        assert_eq!(again["inputs"][0]["format"], "converted");
        for key in ["limit", "devices", "phases", "extra", "metrics"] {
            // A heading is one line more, and the table has no number of released requests.
            let bare = |of: &Value| -> Vec<String> {
                let text = serde_json::to_string_pretty(&of[key]).unwrap();
                let lines = text.lines().filter(|line| {
                    ["lines_not_events", "ios_per_unplug"]
                        .iter()
                        .all(|key| !line.contains(key))
                });
                lines.map(str::to_owned).collect()
            };
            let (again, first) = (bare(&again), bare(&first));
            let differs = again.iter().zip(&first).find(|(a, b)| a != b);
            assert_eq!(differs, None, "{key}");
            assert_eq!(again.len(), first.len(), "{key}");
        }
    }
}

#[test]
fn single_values_include_limit_devices_stages_and_phases() {
    let both = Case::new(&trace(&[burst(0, 64), burst(1, 32)].concat()));
    let csv = both.text("stats", &["--csv"]);
    for row in [
        "limit.limiter,device",
        "devices.259:1.read.ios,32",
        "devices.259:1.limit.limiter,",
        "phases.1.label,read-heavy",
        "mean_rates.span_s,0.64",
        "issues,96",
    ] {
        assert!(
            csv.lines().any(|line| line.starts_with(row)),
            "{row}: {csv}"
        );
    }
    let merged = Case::new(&merged(8, "259,0")).text("stats", &["--csv"]);
    assert!(merged.contains("\nstages.q2c.count,400\n"), "{merged}");
}

#[test]
fn files_without_devices_are_named_as_one_address_space() {
    let log = |from: u64| -> String {
        let lines = (0..50).map(|n| format!("{}, R, 4096, {}, 8\n", from + n * 1000, n * 8));
        lines.collect()
    };
    let (a, b) = (Case::new(&log(0)), Case::new(&log(500)));
    let warnings = |found: &Value| found["quality"]["warnings"].to_string();
    assert!(!warnings(&a.json(&[])).contains("no column of devices"));
    let both = a.json(&[b.path.to_str().unwrap()]);
    assert!(
        warnings(&both).contains("2 inputs have no column of devices"),
        "{both}"
    );
}
