//! Steps found without any engine's rules, in parts of recordings: windows of time, and some ranks of
//! all. Truth is what the generator says.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

#[path = "../../../xtask/src/dataset/faults/model.rs"]
#[expect(dead_code, reason = "the corpus uses more of it")]
mod model;

use byte_source::Source;
use model::{Config, Iteration, Made, make};
use rca_cycles::{Analysis, Options, analyse};

/// The events of `made` that `keep` wants, by rank and time in ns.
fn analysed(made: &Made, keep: impl Fn(usize, i64, i64) -> bool) -> Analysis {
    let lines: Vec<&str> = made
        .json
        .lines()
        .map(|l| l.trim_end_matches(','))
        .filter(|l| l.starts_with("{\"ph\":\"X\""))
        .filter(|l| {
            let event: serde_json::Value = serde_json::from_str(l).unwrap();
            let pid = event["pid"].as_str().unwrap();
            let digits: String = pid[5..].chars().filter(char::is_ascii_digit).collect();
            let rank = digits.parse::<usize>().unwrap() - 4000;
            // Decimal text: a real would round.
            let ns = |key: &str| -> i64 {
                let text = event[key].to_string();
                let (whole, part) = text.split_once('.').unwrap_or((&text, "0"));
                whole.parse::<i64>().unwrap() * 1000
                    + format!("{part:0<3}")[..3].parse::<i64>().unwrap()
            };
            let ts = ns("ts");
            keep(rank, ts, ts + ns("dur"))
        })
        .collect();
    let json = format!("[{}]", lines.join(","));
    let source = Source::from_bytes("part.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    let mut options = Options::default();
    options.engines.clear();
    analyse(&trace, &options).unwrap()
}

/// Starts of whole cycles, less what all are off by (a step begins before its first kernel).
fn starts(analysis: &Analysis, truth: &[Iteration]) -> Vec<i64> {
    let found: Vec<i64> = analysis
        .cycles
        .iter()
        .filter(|c| c.partial.is_none())
        .map(|c| c.start_ns)
        .collect();
    let mut off: Vec<i64> = found
        .iter()
        .map(|s| {
            let before = truth.iter().rev().find(|t| t.start <= *s);
            s - before.map_or(*s, |t| t.start)
        })
        .collect();
    off.sort_unstable();
    let middle = off.get(off.len() / 2).copied().unwrap_or(0);
    found.into_iter().map(|s| s - middle).collect()
}

/// F1 in percent of these starts against those of the truth, within two percent of the period.
fn score(found: &[i64], truth: &[i64], period: i64) -> usize {
    let right = truth
        .iter()
        .filter(|t| found.iter().any(|f| (f - **t).abs() * 50 <= period))
        .count();
    200 * right / (found.len() + truth.len()).max(1)
}

#[test]
fn windows_of_a_recording_are_cut_as_the_whole_is() {
    for python in [false, true] {
        for seed in 1..5 {
            let config = Config {
                seed,
                python,
                iterations: 60,
                // Small enough that the host's jitter stays below the tolerance.
                jitter: 10,
                ..Config::default()
            };
            let made = make(config);
            let first = made.iterations[0].start;
            let length = made.iterations[59].end - first;
            for (from, to) in [(0, 100), (0, 45), (30, 70), (52, 100)] {
                let (a, b) = (first + length * from / 100, first + length * to / 100);
                let found = analysed(&made, |_, ts, end| ts >= a && end <= b);
                let inside: Vec<i64> = made
                    .iterations
                    .iter()
                    .filter(|i| i.start >= a && i.end <= b)
                    .map(|i| i.start)
                    .collect();
                let mut starts = starts(&found, &made.iterations);
                // A step that the window cuts may be there, too, flagged or not.
                starts
                    .retain(|s| s + 600_000 >= inside[0] && s - 600_000 <= *inside.last().unwrap());
                let f1 = score(&starts, &inside, config.period_ns);
                assert!(
                    f1 >= 98,
                    "seed {seed}, python {python}, {from}..{to} %: {f1} %, {} of {} by {:?} at {}",
                    starts.len(),
                    inside.len(),
                    found.method,
                    found.anchor
                );
            }
        }
    }
}

#[test]
fn every_second_rank_gives_the_cycles_of_all() {
    for python in [false, true] {
        for seed in 1..4 {
            let config = Config {
                seed,
                python,
                ranks: 4,
                layers: 4,
                iterations: 40,
                ..Config::default()
            };
            let made = make(config);
            let all = analysed(&made, |_, _, _| true);
            let some = analysed(&made, |rank, _, _| rank % 2 == 1);
            for (name, found, ranks) in [("all", &all, 4), ("odd", &some, 2)] {
                let whole = found.cycles.iter().filter(|c| c.partial.is_none());
                let count = whole.count();
                assert!(
                    (39..=40).contains(&count),
                    "seed {seed}, python {python}, {name}: {count} by {:?}",
                    found.method
                );
                let working = rca_cycles::compare::ranks(found).len();
                assert_eq!(working, ranks, "{name}");
            }
        }
    }
}
