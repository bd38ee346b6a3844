//! Processes that use a device beside an application in one of two runs.

use std::collections::BTreeMap;

use blkio_parser::Stats;
use report::human;
use rustc_hash::FxHashSet;
use serde_json::{Value, json};

/// Share of the bytes or requests from which a process is looked at.
const NOTABLE: f64 = 0.05;
/// Fewest requests of either kind that are compared.
const LEAST_BESIDE: f64 = 8.0;
/// Factor by which a process must do more, in relation to the application, to be another than before.
const MORE: f64 = 2.0;

/// Bytes read and written, and requests.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    bytes: [f64; 2],
    requests: f64,
}

impl Use {
    fn add(&mut self, other: &Self) {
        for (sum, bytes) in self.bytes.iter_mut().zip(other.bytes) {
            *sum += bytes;
        }
        self.requests += other.requests;
    }

    fn all(&self) -> f64 {
        self.bytes.iter().sum()
    }

    /// Share of this in all, of bytes or of requests.
    fn share(&self, all: &Self) -> f64 {
        (self.all() / all.all().max(1.0)).max(self.requests / all.requests.max(1.0))
    }
}

/// Threads of the kernel do the work of any process.
pub(super) fn is_of_kernel(name: &str) -> bool {
    let kernel = [
        "kworker",
        "jbd2",
        "kswapd",
        "ksoftirqd",
        "swapper",
        "xfsaild",
        "flush-",
    ];
    kernel.iter().any(|of| name.starts_with(of))
}

/// The name without characters that a terminal takes for commands.
pub(super) fn shown(name: &str) -> String {
    name.chars()
        .map(|of| {
            if of.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                of
            }
        })
        .collect()
}

pub(super) fn name_of(stats: &Stats, number: u32) -> String {
    String::from_utf8_lossy(stats.outcome.symbols.comm_of(number)).into_owned()
}

/// What each process of a run does.
fn uses(stats: &Stats) -> BTreeMap<String, Use> {
    let mut found: BTreeMap<u32, Use> = BTreeMap::new();
    let detail = stats.newest.as_ref().and_then(|of| of.detail.as_ref());
    let blocks = detail.map(|detail| detail.samples.within(0, u64::MAX));
    for sample in blocks.iter().flatten().flatten().filter(|of| of.is_data()) {
        let own = found.entry(sample.comm).or_default();
        own.requests += 1.0;
        if let Some(bytes) = own.bytes.get_mut(usize::from(sample.is_write())) {
            *bytes += f64::from(sample.bytes);
        }
    }
    let mut named: BTreeMap<String, Use> = BTreeMap::new();
    for (number, own) in found {
        named.entry(name_of(stats, number)).or_default().add(&own);
    }
    named
}

/// A process and what it does in both runs.
#[derive(Debug)]
struct Other {
    name: String,
    sides: [Use; 2],
    shares: [f64; 2],
}

/// Processes that do much more in one run than in the other, beside an application that both have.
#[derive(Debug)]
pub(super) struct Others {
    /// Name of the application's process with the most bytes.
    main: String,
    others: Vec<Other>,
}

impl Others {
    /// `None` where there are none, or the runs have no process in common.
    pub(super) fn of(stats: [&Stats; 2]) -> Option<Self> {
        let [a, b] = stats.map(uses);
        let sum = |of: &BTreeMap<String, Use>| {
            let mut all = Use::default();
            of.values().for_each(|own| all.add(own));
            all
        };
        let all = [sum(&a), sum(&b)];
        let of = |name: &str| {
            let own = |of: &BTreeMap<String, Use>| of.get(name).copied().unwrap_or_default();
            [own(&a), own(&b)]
        };
        let shares = |name: &str| {
            let [x, y] = of(name);
            [x.share(&all[0]), y.share(&all[1])]
        };
        let least = |name: &str| {
            let [x, y] = shares(name);
            x.min(y)
        };
        let names = || a.keys().filter(|name| !name.is_empty());
        let main = names().max_by(|x, y| least(x).total_cmp(&least(y)))?;
        if least(main) < NOTABLE || is_of_kernel(main) {
            return None;
        }
        let mains = of(main).map(|of| of.all().max(1.0));
        let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let mut others: Vec<Other> = names
            .into_iter()
            .filter(|name| *name != main && !name.is_empty() && !is_of_kernel(name))
            .filter_map(|name| {
                let (sides, shares) = (of(name), shares(name));
                let [x, y] = [(0, mains[0]), (1, mains[1])]
                    .map(|(side, main)| sides.get(side).map_or(0.0, Use::all) / main);
                let is_other = x.max(y) > MORE * x.min(y);
                let is_notable = shares.iter().any(|share| *share >= NOTABLE);
                (is_other && is_notable).then(|| Other {
                    name: name.clone(),
                    sides,
                    shares,
                })
            })
            .collect();
        let most = |of: &Other| of.sides.iter().map(Use::all).fold(0.0, f64::max);
        others.sort_by(|x, y| most(y).total_cmp(&most(x)));
        (!others.is_empty()).then(|| Self {
            main: main.clone(),
            others,
        })
    }

    /// Returns their names.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.others.iter().map(|of| of.name.as_str()).collect();
        names.join(" and ")
    }

    /// Says who they are and what they do.
    pub(super) fn text(&self) -> String {
        let mut sentences = Vec::new();
        for other in &self.others {
            let of = |side: usize| {
                let own = other.sides.get(side).copied().unwrap_or_default();
                let share = other.shares.get(side).copied().unwrap_or(0.0);
                let size = |bytes: f64| human::quantity(bytes, report::Unit::Bytes);
                let [read, write] = own.bytes;
                let amounts = [(read, "read"), (write, "written")]
                    .into_iter()
                    .filter(|(bytes, _)| *bytes > 0.0)
                    .map(|(bytes, what)| format!("{} {what}", size(bytes)))
                    .collect::<Vec<_>>();
                match amounts.is_empty() {
                    true => "nothing".to_owned(),
                    false => format!(
                        "{} ({:.1} % of the bytes or requests)",
                        amounts.join(" and "),
                        share * 100.0
                    ),
                }
            };
            let [a, b] = other.sides.map(|of| of.all());
            let name = shown(&other.name);
            sentences.push(match (a > 0.0, b > 0.0) {
                (false, _) => format!(
                    "Another process uses the device in B only: {name}, {}.",
                    of(1)
                ),
                (_, false) => format!(
                    "Another process uses the device in A only: {name}, {}.",
                    of(0)
                ),
                _ => format!(
                    "Another process uses the device differently: {name}, {} in A and {} in B.",
                    of(0),
                    of(1)
                ),
            });
        }
        sentences.push(format!(
            "What follows is of the requests of all others ({}).",
            shown(&self.main)
        ));
        sentences.join(" ")
    }

    pub(super) fn to_value(&self) -> Value {
        let side = |other: &Other, at: usize| {
            let own = other.sides.get(at).copied().unwrap_or_default();
            let [read, write] = own.bytes;
            json!({
                "read_bytes": read,
                "write_bytes": write,
                "requests": own.requests,
                "share": other.shares.get(at),
            })
        };
        let others = self.others.iter();
        let others =
            others.map(|of| json!({"process": of.name, "a": side(of, 0), "b": side(of, 1)}));
        json!({"main": self.main, "others": others.collect::<Vec<_>>()})
    }
}

/// Mean latencies of an application's requests: of those issued while another process has some in flight, and of the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    pub(super) during_ns: f64,
    pub(super) otherwise_ns: f64,
}

/// Compares the requests of an application in some stretches by whether those of `foreign` are in flight as they are issued; `None` where
/// either kind is too rare.
pub(super) fn beside(
    stats: &Stats,
    stretches: &[std::ops::Range<u64>],
    foreign: &FxHashSet<u32>,
) -> Option<Beside> {
    if foreign.is_empty() {
        return None;
    }
    let samples = &stats.newest.as_ref()?.detail.as_ref()?.samples;
    let mut sums = [(0.0_f64, 0.0_f64); 2];
    for stretch in stretches {
        for block in samples.within(stretch.start, stretch.end) {
            let mut busy_until = 0;
            for sample in block {
                if foreign.contains(&sample.comm) {
                    busy_until = sample.end_ns().max(busy_until);
                } else if sample.is_data()
                    && let Some((count, sum)) =
                        sums.get_mut(usize::from(busy_until > sample.issue_ns))
                {
                    *count += 1.0;
                    *sum += sample.latency_ns as f64;
                }
            }
        }
    }
    let [(otherwise, sum_otherwise), (during, sum_during)] = sums;
    (otherwise.min(during) >= LEAST_BESIDE).then(|| Beside {
        during_ns: sum_during / during,
        otherwise_ns: sum_otherwise / otherwise,
    })
}

/// Returns the numbers of their names in a run.
pub(super) fn numbers(stats: &Stats, others: Option<&Others>) -> FxHashSet<u32> {
    let Some(others) = others else {
        return FxHashSet::default();
    };
    let detail = stats.newest.as_ref().and_then(|of| of.detail.as_ref());
    let blocks = detail.map(|detail| detail.samples.within(0, u64::MAX));
    let all: FxHashSet<u32> = blocks
        .iter()
        .flatten()
        .flatten()
        .map(|of| of.comm)
        .collect();
    let is_one = |number: &u32| {
        let name = name_of(stats, *number);
        others.others.iter().any(|other| other.name == name)
    };
    all.into_iter().filter(is_one).collect()
}
