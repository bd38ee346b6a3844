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
    // Both together are never idle; each is, and the limit is that of one device.
    assert_eq!(found["limit"]["limiter"], "think time");
    assert!((found["limit"]["depth_while_busy"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    let share = found["limit"]["idle_share"].as_f64().unwrap();
    assert!((share - 0.55).abs() < 0.01, "{share}");
    let one = stats(&trace(&requests, &[]), &["--device", "259:1"]);
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
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("Device 8:0, the busiest: "), "{first}");
        assert!(first.contains("259:0 busy "), "{first}");
    }
}
