//! Requests that the driver gives back and that are issued again, against a list that is searched from its end.
use std::fmt::Write as _;

use blkio_parser::{Stats, StatsOptions};
use blkio_report::document::{self, DocumentOptions};
use serde_json::Value;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// A request at the driver, or on its way back there.
struct Request {
    place: u64,
    first_ns: u64,
    last_ns: u64,
    is_back: bool,
}

#[test]
fn latency_from_the_first_issue_is_of_requests_issued_again() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("requests.txt");
    for seed in 1..40 {
        let mut random = Random(seed);
        let mut trace = String::new();
        let mut open: Vec<Request> = Vec::new();
        let (mut again, mut last, mut requeues) = (Vec::new(), Vec::new(), 0_u64);
        let mut now = 1_000_000_000_u64;
        for number in 0..600 {
            now += 1 + random.below(2_000_000);
            let place = random.below(12) * 8;
            let found = open.iter().position(|r| r.place == place);
            let action = match found {
                // Nothing of the place is under way: it is issued for the first time.
                None => {
                    open.push(Request {
                        place,
                        first_ns: now,
                        last_ns: now,
                        is_back: false,
                    });
                    'D'
                }
                Some(at) if open[at].is_back => {
                    open[at].last_ns = now;
                    open[at].is_back = false;
                    'D'
                }
                Some(at) if random.below(3) == 0 => {
                    open[at].is_back = true;
                    requeues += 1;
                    'R'
                }
                Some(at) => {
                    let request = open.remove(at);
                    last.push(now - request.last_ns);
                    if request.first_ns < request.last_ns {
                        again.push(now - request.first_ns);
                    }
                    'C'
                }
            };
            let tail = if action == 'C' { "0" } else { "fio" };
            let (s, ns) = (now / 1_000_000_000, now % 1_000_000_000);
            writeln!(
                trace,
                "259,0 1 {number} {s}.{ns:09} 7 {action} R {place} + 8 [{tail}]"
            )
            .unwrap();
        }
        std::fs::write(&path, trace).unwrap();
        let options = StatsOptions::default();
        let mut stats = Stats::of_files(std::slice::from_ref(&path), &options).unwrap();
        let document = document::stats(&mut stats, &DocumentOptions::default());
        let latency = &document["extra"]["latency"];
        let found = |values: &Value| ["count", "min", "p50", "max"].map(|key| values[key].as_u64());
        let wanted = |list: &mut Vec<u64>| {
            list.sort_unstable();
            let (count, half) = (list.len(), list.len().div_ceil(2) - 1);
            [count as u64, list[0], list[half], list[count - 1]].map(Some)
        };
        assert!(!again.is_empty(), "{seed}");
        let first = &latency["first_issue_to_complete_ns"]["read"];
        assert_eq!(found(first), wanted(&mut again), "{seed}: {first}");
        let all = &latency["read"]["issue_to_complete_ns"];
        assert_eq!(found(all), wanted(&mut last), "{seed}: {all}");
        let matching = &document["metrics"]["pairing_newest"]["matching"];
        assert_eq!(matching["requeues"], requeues, "{seed}: {matching}");
    }
}
