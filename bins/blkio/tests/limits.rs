//! What limits a trace: each limit planted by a simulation of an application and a device, and traces that show none.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

/// What the tool prints.
fn said(words: &[&str]) -> String {
    let out = crate::blkio(Path::new("."), words);
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// How requests are made and served.
struct Plan {
    requests: u64,
    /// Requests in flight, by time: the last holds.
    depths: &'static [u64],
    bytes: u64,
    /// Pause of the application before each request.
    think_ns: u64,
    /// Time at the device for each request by itself.
    latency_ns: u64,
    /// Time for which a request keeps all others from being served.
    service_ns: u64,
}

/// Numbers between 0 and a limit.
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

/// The trace of a closed loop as the collector writes it.
fn trace(plan: &Plan, seed: u64) -> String {
    let mut random = Random(seed);
    let mut lines: Vec<(u64, String)> = Vec::new();
    let mut device_free = 0;
    // When each slot of the queue is free.
    let mut slots = vec![1_000_000_000_u64; 64];
    let mut before = 0;
    for number in 0..plan.requests {
        let stage = number * plan.depths.len() as u64 / plan.requests;
        if stage != before {
            before = stage;
            let now = slots.iter().copied().max().unwrap();
            slots.fill(now);
        }
        let depth = plan.depths[usize::try_from(stage).unwrap()];
        let slot = slots
            .iter_mut()
            .take(usize::try_from(depth).unwrap())
            .min()
            .unwrap();
        let issue = *slot + plan.think_ns / 2 + random.below(plan.think_ns) + random.below(200);
        device_free = issue.max(device_free) + plan.service_ns;
        let jitter = plan.latency_ns / 4;
        let alone = issue + plan.latency_ns - jitter / 2 + random.below(jitter);
        let end = device_free.max(alone);
        *slot = end;
        let (sector, sectors) = (number * 4096 + random.below(64) * 8, plan.bytes / 512);
        for (kind, t_ns) in [('I', issue), ('C', end)] {
            let mut line = String::new();
            let _ = writeln!(
                line,
                "{kind}, {t_ns}, 1, 259, 0, R, {}, {sector}, {sectors}, 0, 42, job",
                plan.bytes
            );
            lines.push((t_ns, line));
        }
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

fn limit(plan: &Plan, seed: u64, more: &[&str]) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    std::fs::write(&path, trace(plan, seed)).unwrap();
    let path = path.to_str().unwrap();
    let json = said(&[&["stats", path, "--json"], more].concat());
    let document: Value = serde_json::from_str(&json).unwrap();
    let text = said(&[&["stats", path], more].concat());
    let first = crate::joined(&text);
    (
        document["limit"]["limiter"]
            .as_str()
            .unwrap_or("none")
            .to_owned(),
        first,
    )
}

#[test]
fn each_planted_limit_is_named() {
    const BASE: Plan = Plan {
        requests: 3000,
        depths: &[1],
        bytes: 128 << 10,
        think_ns: 0,
        latency_ns: 100_000,
        service_ns: 1_000,
    };
    let cases = [
        (
            "think time",
            Plan {
                think_ns: 200_000,
                ..BASE
            },
        ),
        // A device that serves one request at a time looks the same.
        ("cannot say", BASE),
        (
            "queue depth",
            Plan {
                depths: &[2, 8],
                ..BASE
            },
        ),
        (
            "device",
            Plan {
                depths: &[4, 32],
                service_ns: 50_000,
                ..BASE
            },
        ),
        (
            "request size",
            Plan {
                depths: &[4, 32],
                service_ns: 50_000,
                bytes: 4096,
                ..BASE
            },
        ),
        // One depth shows nothing, and few requests show nothing.
        (
            "cannot say",
            Plan {
                depths: &[3],
                latency_ns: 90_000,
                service_ns: 30_000,
                ..BASE
            },
        ),
        (
            "cannot say",
            Plan {
                requests: 40,
                ..BASE
            },
        ),
    ];
    for (wanted, plan) in &cases {
        for seed in 1..4 {
            let (found, said) = limit(plan, seed, &[]);
            assert_eq!(found, *wanted, "{said}");
            assert!(said.to_lowercase().contains(wanted), "{wanted}: {said}");
        }
    }
    // A yardstick decides where the trace alone does not.
    let (_, plan) = &cases[5];
    assert_eq!(limit(plan, 1, &["--yardstick", "4.4GB/s"]).0, "device");
    assert_eq!(limit(plan, 1, &["--yardstick", "20GB/s"]).0, "queue depth");
    let (_, plan) = &cases[1];
    let (_, said) = limit(plan, 1, &["--yardstick", "13GB/s"]);
    assert!(
        said.contains("up to 9.") || said.contains("up to 10."),
        "{said}"
    );
}

/// Rates of a closed loop, in requests per second, and what the tool finds in its trace.
fn rate(plan: &Plan) -> f64 {
    let text = trace(plan, 7);
    let times = text.lines().filter_map(|line| line.split(", ").nth(1));
    let times: Vec<u64> = times.map(|t_ns| t_ns.parse().unwrap()).collect();
    plan.requests as f64 * 1e9 / (times[times.len() - 1] - times[0]) as f64
}

#[test]
fn a_bound_without_pauses_holds_where_they_are_removed() {
    let mut stated = 0;
    for depths in [&[1_u64][..], &[2], &[4], &[8]] {
        for think_ns in [300_000, 1_000_000, 4_000_000] {
            for service_ns in [1_000, 60_000, 100_000] {
                let plan = |think_ns| Plan {
                    requests: 6000,
                    depths: Box::leak(depths.to_vec().into_boxed_slice()),
                    bytes: 128 << 10,
                    think_ns,
                    latency_ns: 100_000,
                    service_ns,
                };
                let (found, said) = limit(&plan(think_ns), 3, &[]);
                if found != "think time" {
                    continue;
                }
                let gain = rate(&plan(0)) / rate(&plan(think_ns));
                let number = |behind: &str| -> Option<f64> {
                    let (_, rest) = said.split_once(behind)?;
                    rest.split_once('x')?.0.parse().ok()
                };
                if let Some(most) = number("up to ") {
                    stated += 1;
                    assert!(gain <= most * 1.01, "{gain}: {said}");
                }
                if let Some(least) = number("without the pauses about ") {
                    assert!(gain >= least * 0.97, "{gain}: {said}");
                }
            }
        }
    }
    assert!(stated >= 9, "{stated}");
}

#[test]
fn a_phase_is_a_yardstick_for_another() {
    // One at a time, then at depth 8, of a device that serves eight at once and of one that serves one after the other.
    for (service_us, wanted) in [(100, "device"), (12, "queue depth")] {
        let one = (0..5000).map(|n| (n * 100, 100, "R", 65_536));
        let all: Vec<_> = one
            .chain((0..20_000_u64).map(|n| {
                let end = (n + 1) * service_us;
                let issue = n.saturating_sub(7) * service_us;
                (3_000_000 + issue, end - issue, "R", 65_536)
            }))
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.txt");
        std::fs::write(&path, requests(&all)).unwrap();
        let path = path.to_str().unwrap();
        let document: Value = serde_json::from_str(&said(&["stats", path, "--json"])).unwrap();
        let limit = &document["phases"]["phases"][0]["limit"];
        assert_eq!(limit["limiter"], wanted, "{limit}");
        let factor = limit["other_phase"]["factor"].as_f64().unwrap();
        let truth = 100.0 / service_us as f64;
        assert!((factor / truth - 1.0).abs() < 0.02, "{factor}");
    }
}

#[test]
fn a_yardstick_below_the_trace_is_not_used() {
    let plan = |think_ns| Plan {
        requests: 3000,
        depths: &[1],
        bytes: 128 << 10,
        think_ns,
        latency_ns: 100_000,
        service_ns: 1_000,
    };
    // 1.3 GB/s at depth 1.
    for low in ["200MB/s", "900MB/s"] {
        let (found, said) = limit(&plan(0), 1, &["--yardstick", low]);
        assert_eq!(found, "cannot say", "{said}");
        assert!(!said.contains("or give --yardstick"), "{said}");
        assert!(
            said.contains(&format!("The yardstick ({low}) is too low")),
            "{said}"
        );
        assert!(!said.contains("would only add latency"), "{said}");
    }
    let (found, said) = limit(&plan(400_000), 1, &["--yardstick", "3GB/s"]);
    assert_eq!(found, "think time", "{said}");
    assert!(said.contains("The yardstick (3GB/s) moved"), "{said}");
    // No more than the yardstick is promised, however long the pauses are.
    let rate = |said: &str| -> f64 {
        let (_, rest) = said.split_once("without the pauses up to ").unwrap();
        rest.split_once('x').unwrap().0.parse().unwrap()
    };
    let (_, free) = limit(&plan(2_000_000), 1, &[]);
    let (_, capped) = limit(&plan(2_000_000), 1, &["--yardstick", "600MB/s"]);
    assert!(rate(&free) > 15.0, "{free}");
    // It moves 1.3 GB/s while busy: a lower yardstick is disproved, and promises nothing.
    assert!(
        capped.contains("The yardstick (600MB/s) is too low"),
        "{capped}"
    );
    assert!((rate(&capped) - rate(&free)).abs() < 0.01, "{capped}");
    let (_, capped) = limit(&plan(2_000_000), 1, &["--yardstick", "1280MB/s"]);
    assert!(rate(&capped) < rate(&free), "{capped}");
}

/// Requests as the collector writes them: issue, duration, letters, bytes, in microseconds.
fn requests(of: &[(u64, u64, &str, u64)]) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for (number, (t_us, took_us, rwbs, bytes)) in of.iter().enumerate() {
        for (kind, t_us) in [('I', *t_us), ('C', t_us + took_us)] {
            let t_ns = 1_000_000_000 + t_us * 1000;
            let line = format!(
                "{kind}, {t_ns}, 1, 259, 0, {rwbs}, {bytes}, {}, {}, 0, 42, job\n",
                number * 4096,
                bytes / 512
            );
            lines.push((t_ns, line));
        }
    }
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

#[test]
fn rates_while_busy_are_of_what_completed_in_its_own_time() {
    // Writes busy 80 % of 1 s, reads 20 % of 2 s; every tenth read has no completion.
    let writes = (0..1000).map(|n| (n * 1000, 800, "W", 131_072));
    let reads = (0..4000).map(|n| (1_500_000 + n * 500, 100, "R", 65_536));
    let all: Vec<_> = writes.chain(reads).collect();
    let text = requests(&all);
    let mut number = 0;
    let lost: String = text
        .lines()
        .filter(|line| {
            number += u32::from(line.starts_with('C') && line.contains(" R,"));
            !(line.starts_with('C') && line.contains(" R,") && number % 10 == 0)
        })
        .map(|line| format!("{line}\n"))
        .collect();
    for text in [text, lost] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.txt");
        std::fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap();
        let document: Value = serde_json::from_str(&said(&["stats", path, "--json"])).unwrap();
        let rates = &document["extra"]["rates_while_busy"];
        for (key, wanted) in [
            ("read_bytes_per_s", 655.36e6),
            ("write_bytes_per_s", 163.84e6),
        ] {
            let found = rates[key].as_f64().unwrap();
            assert!((found / wanted - 1.0).abs() < 1e-6, "{key} {found}");
        }
        // A phase that ends behind the trace lasts as long as the trace; one behind it is refused.
        let phase = ["stats", path, "--json", "--phase", "end=2500ms..600s"];
        let document: Value = serde_json::from_str(&said(&phase)).unwrap();
        let rate = document["given_phases"][0]["read"]["bytes_per_s"].as_f64();
        assert!((rate.unwrap() / 131.072e6 - 1.0).abs() < 0.01, "{rate:?}");
        let out = crate::blkio(Path::new("."), &["stats", path, "--phase", "end=10s..11s"]);
        assert_eq!(out.status.code(), Some(4));
        assert!(String::from_utf8_lossy(&out.stderr).contains("lies outside of the trace"));
    }
}

#[test]
fn a_trace_of_a_second_device_is_not_alike() {
    let dir = tempfile::tempdir().unwrap();
    let one: Vec<_> = (0..2000).map(|n| (n * 500, 100, "R", 65_536)).collect();
    let a = requests(&one);
    let b = a
        .lines()
        .flat_map(|line| [line.to_owned(), line.replace(" 259, 0,", " 259, 1,")]);
    let b: String = b.map(|line| line + "\n").collect();
    let paths = [("a", a), ("b", b)].map(|(name, text)| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let said = said(&["compare", &paths[0], &paths[1]]);
    assert!(
        said.starts_with("Number of devices changed from 1 to 2. "),
        "{said}"
    );
    assert!(said.contains("part: 0.50x ("), "{said}");
}

#[test]
fn phases_of_different_limits_have_no_common_one() {
    // Writes at depth 16 of a serial device, reads one at a time, then reads with pauses.
    let writes = (0..8000_u64).map(|n| {
        (
            n.saturating_sub(15) * 125,
            125 * 16.min(n + 1),
            "W",
            131_072,
        )
    });
    let reads = (0..9000).map(|n| (1_500_000 + n * 102, 100, "R", 65_536));
    let slow = (0..600).map(|n| (3_000_000 + n * 2000, 100, "R", 65_536));
    let all: Vec<_> = writes.chain(reads).chain(slow).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.txt");
    std::fs::write(&path, requests(&all)).unwrap();
    let path = path.to_str().unwrap();
    let document: Value = serde_json::from_str(&said(&["stats", path, "--json"])).unwrap();
    assert_eq!(
        document["limit"]["limiter"], "differs by phase",
        "{}",
        document["phases"]
    );
    let text = crate::joined(&said(&["stats", path]));
    assert!(text.starts_with("Limits differ by phase. "), "{text}");
}

#[test]
fn a_trace_of_issues_alone_says_what_to_record() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("issues.txt");
    let lines =
        (0..200_u64).map(|n| format!("{}, R, 4096, {}, 8\n", 1_000_000_000 + n * 1000, n * 8));
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    let text = crate::joined(&said(&["stats", path.to_str().unwrap()]));
    let wanted = "Cannot say what limits it: the trace has no completions";
    assert!(text.starts_with(wanted), "{text}");
}

#[test]
fn comparing_names_the_deeper_queue() {
    let dir = tempfile::tempdir().unwrap();
    let plan = |depths| Plan {
        requests: 4000,
        depths,
        bytes: 128 << 10,
        think_ns: 0,
        latency_ns: 100_000,
        service_ns: 1_000,
    };
    let paths = [("a", &[1][..]), ("b", &[8][..])].map(|(name, depths)| {
        let path = dir.path().join(name);
        // A few writes, as a file system makes them, say nothing.
        let mut log = trace(&plan(depths), 3);
        for n in 0..8_u64 {
            let t_ns = 1_000_000_000 + n * 7_000_000;
            let took = if name == "a" { 90_000 } else { 60_000 };
            let _ = write!(
                log,
                "I, {t_ns}, 1, 259, 0, W, 4096, {0}, 8, 0, 42, job\nC, {1}, 1, 259, 0, W, 4096, {0}, 8, 0, 42, job\n",
                n * 8 + 1,
                t_ns + took
            );
        }
        std::fs::write(&path, log).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let said = said(&["compare", &paths[0], &paths[1]]);
    let first = crate::joined(&said);
    let wanted = "Queue depth changed: 1 to 8 requests at a time (0.13x time per byte). ";
    assert!(first.starts_with(wanted), "{said}");
    assert!(!said.contains("faster write"), "{said}");
    // The signatures of other tools' causes have no say.
    assert!(!said.contains("cause:"), "{said}");
}

/// Without some of its completions a trace has the rates, the busy time and the yardstick that it has with them.
#[test]
fn rates_of_a_log_with_lost_completions_agree() {
    for (depths, think_ns) in [(&[1][..], 0), (&[4], 0), (&[8], 300_000)] {
        let plan = Plan {
            requests: 6000,
            depths,
            bytes: 128 << 10,
            think_ns,
            latency_ns: 100_000,
            service_ns: 1_000,
        };
        let text = trace(&plan, 5);
        let document = |lost: u64| -> Value {
            let mut state = 3_u64;
            let kept = text.lines().filter(|line| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                !line.starts_with('C') || (state >> 33) % 100 >= lost
            });
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("trace.txt");
            std::fs::write(
                &path,
                kept.map(|line| format!("{line}\n")).collect::<String>(),
            )
            .unwrap();
            let words = [
                "stats",
                path.to_str().unwrap(),
                "--json",
                "--yardstick",
                "20GB/s",
            ];
            serde_json::from_str(&said(&words)).unwrap()
        };
        let whole = document(0);
        for lost in [6, 20] {
            let found = document(lost);
            let mean = found["extra"]["mean_rates"]["read_bytes_per_s"]
                .as_f64()
                .unwrap();
            let busy = found["extra"]["rates_while_busy"]["read_bytes_per_s"]
                .as_f64()
                .unwrap();
            let best = found["extra"]["best_100ms"]["read_bytes_per_s"]
                .as_f64()
                .unwrap();
            assert!(
                busy >= mean * 0.999 && best >= mean * 0.97,
                "{depths:?} {lost}: {mean} {busy} {best}"
            );
            for place in [
                "/extra/rates_while_busy/read_bytes_per_s",
                "/limit/bytes_per_s",
                "/limit/bytes_per_busy_s",
                "/limit/depth_while_busy",
                "/limit/yardstick/share_of_bytes_per_s",
                "/phases/phases/0/limit/bytes_per_s",
            ] {
                let [was, is] =
                    [&whole, &found].map(|of| of.pointer(place).unwrap().as_f64().unwrap());
                assert!(
                    (is / was - 1.0).abs() < 0.03,
                    "{depths:?} {lost} {place}: {was} {is}"
                );
            }
        }
    }
}
