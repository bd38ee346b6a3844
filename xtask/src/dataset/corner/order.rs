//! Times and nesting: exact decimals, partial overlaps, events in any order.

use super::super::json::{Json, object};
use super::super::rng::Rng;
use super::super::{Fixture, pack};
use super::{document, pair, slice, x};

pub(super) fn build(seed: u64) -> Vec<Fixture> {
    let mut files = Vec::new();
    files.extend(epoch());
    files.extend(overlap());
    files.extend(shuffled(seed));
    files
}

/// Microseconds since 1970 with three decimals: a double cannot distinguish them, decimal text can.
fn epoch() -> [Fixture; 2] {
    const E: i64 = 1_711_964_646_000_000_000;
    let row = (2_910_249, 2_910_249);
    let times = [
        ("step", 0, 10_003, 0, None),
        ("forward", 1, 9_000, 1, Some("step")),
        ("linear", 101, 250, 2, Some("forward")),
        ("relu", 351, 8_650, 2, Some("forward")),
        ("tail", 9_001, 1_002, 1, Some("step")),
        ("last", 10_002, 1, 2, Some("tail")),
        ("after", 10_003, 1, 0, None),
    ];
    let events: Vec<Json> = times
        .iter()
        .map(|&(name, ts, dur, ..)| x(name, "cpu_op", row, E + ts, dur))
        .collect();
    let rows = times
        .iter()
        .map(|&(name, ts, dur, depth, parent)| slice(name, row, (E + ts, dur), 0, depth, parent));
    let shows = "microseconds since 1970 with three decimals: exact only as decimal text";
    pair(
        "epoch-microseconds",
        shows,
        document(&events),
        object! { "slices": Json::Arr(rows.collect()) },
    )
}

/// Kernels of one stream that overlap without nesting.
fn overlap() -> [Fixture; 2] {
    let row = (0, 7);
    let times = [
        // name, start, duration, lane, depth, parent
        ("a", 1_000, 4_000, 0, 0, None),
        ("b starts in a and ends after it", 3_000, 4_000, 1, 0, None),
        ("c lies in a", 4_000, 500, 0, 1, Some("a")),
        ("d starts where a ends", 5_000, 1_000, 0, 0, None),
        ("e is free again", 6_500, 1_500, 0, 0, None),
        ("f overlaps e and fits behind b", 7_500, 1_500, 1, 0, None),
        ("g overlaps e and f", 7_600, 1_900, 2, 0, None),
        ("h lies in f's time, on its own row", 8_100, 300, 0, 0, None),
    ];
    let events: Vec<Json> = times
        .iter()
        .map(|&(name, ts, dur, ..)| x(name, "kernel", row, ts, dur))
        .collect();
    let rows = times.iter().map(|&(name, ts, dur, lane, depth, parent)| {
        slice(name, row, (ts, dur), lane, depth, parent)
    });
    let truth = object! { "slices": Json::Arr(rows.collect()), "spilled": 3 };
    pair(
        "partial-overlap",
        "kernels of one stream that overlap without nesting",
        document(&events),
        truth,
    )
}

struct Tree {
    rng: Rng,
    events: Vec<Json>,
    truth: Vec<Json>,
}

impl Tree {
    /// Adds slices inside `from..to`, some of which share their parent's start or end exactly.
    fn grow(&mut self, row: (i64, i64), from: i64, to: i64, depth: i64, parent: Option<&str>) {
        let mut at = from;
        while depth < 7 && to - at > 400 {
            let start = at
                + if self.rng.below(3) == 0 {
                    0
                } else {
                    self.rng.between(1, (to - at) / 4)
                };
            let end = if self.rng.below(4) == 0 {
                to
            } else {
                self.rng.between(start + 2, to)
            };
            if (start, end) == (from, to) {
                break;
            }
            let name = format!("n{}", self.truth.len());
            self.events
                .push(x(&name, "python_function", row, start, end - start));
            self.truth
                .push(slice(&name, row, (start, end - start), 0, depth, parent));
            self.grow(row, start, end, depth + 1, Some(&name));
            at = end;
        }
    }
}

/// A random forest on three threads, written in random order; also as two gzip members.
fn shuffled(seed: u64) -> Vec<Fixture> {
    let mut tree = Tree {
        rng: Rng::new(seed ^ 0x5f),
        events: Vec::new(),
        truth: Vec::new(),
    };
    for tid in [11, 12, 13] {
        tree.grow((10, tid), 1_000, 90_000 + tid, 0, None);
    }
    tree.rng.shuffle(&mut tree.events);
    let text = document(&tree.events);
    let truth = object! { "slices": Json::Arr(tree.truth) };
    let mut files = Vec::from(pair(
        "shuffled",
        "a forest of slices in random order",
        text.as_bytes(),
        truth,
    ));
    let (head, tail) = text.as_bytes().split_at(text.len() / 3);
    let members = [pack::gzip(head), pack::gzip(tail)].concat();
    files.push(Fixture::plain(
        "kineto/shuffled-two-members.json.gz",
        "shuffled.json as two gzip members, cut inside an event",
        members,
    ));
    files
}
