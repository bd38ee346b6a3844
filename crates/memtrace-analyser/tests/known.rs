//! Recordings of an engine whose data lives as long as is known, at several sampling rates and lengths: a verdict is right, or there is
//! none.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use memtrace_analyser::{Analysis, AnalysisOptions, compute_all};
use memtrace_labeller::{Access, Name, Names};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// What is recorded of the accesses.
#[derive(Debug, Clone, Copy)]
enum Kept {
    /// Each with the probability of one in so many.
    Random(u64),
    /// Every so manyth, as a counter does it.
    Every(u64),
}

impl Kept {
    fn period(self) -> u64 {
        match self {
            Self::Random(period) | Self::Every(period) => period,
        }
    }
}

/// An engine: how long it is recorded, how long a step takes, how long a KV block is used.
#[derive(Debug, Clone, Copy)]
struct Engine {
    seconds: u64,
    step: u64,
    block_life: u64,
    /// Lines of the activations.
    lines: u64,
}

/// The accesses that were kept, one after the other.
struct Recording {
    rows: Vec<Access>,
    kept: Kept,
    stated: bool,
    state: u64,
    seen: u64,
}

impl Recording {
    fn access(&mut self, time: u64, address: u64, op: Name, kind: Name) {
        self.seen += 1;
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let is_kept = match self.kept {
            Kept::Random(period) => (self.state >> 20).is_multiple_of(period),
            Kept::Every(period) => self.seen.is_multiple_of(period),
        };
        if is_kept {
            let mut row = Access::new(time, address);
            (row.op, row.region_type) = (op, kind);
            row.region_id = match kind {
                Name::WEIGHT => 1 + (address >> 21),
                _ => 1 + (address >> 12),
            };
            row.period = if self.stated { self.kept.period() } else { 0 };
            self.rows.push(row);
        }
    }
}

const KV: u64 = 1 << 32;
const ACTIVATIONS: u64 = 1 << 33;
const TOUCHED: u64 = 1 << 34;
/// Lines of the weights, and of a KV block.
const WEIGHTS: u64 = 256;
const BLOCK: u64 = 16;
/// When the engine begins its first step.
const LOADED: u64 = 100 * MS;

/// Weights that are stored once and loaded in every step, a KV block every fifth step that is stored once and loaded in every step until it
/// is freed, activations that are stored and loaded in every step, and pages that are touched once.
fn recorded(engine: Engine, kept: Kept, stated: bool, seed: u64) -> Vec<Access> {
    let mut to = Recording {
        rows: Vec::new(),
        kept,
        stated,
        state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        seen: 0,
    };
    for line in 0..WEIGHTS {
        to.access(1 + line * 10_000, line * 64, Name::STORE, Name::WEIGHT);
    }
    let steps = (engine.seconds * SECOND - LOADED) / engine.step;
    let life = engine.block_life / engine.step;
    for step in 0..steps {
        let mut now = LOADED + step * engine.step;
        let mut at = || {
            now += 50;
            now
        };
        for line in 0..WEIGHTS {
            to.access(at(), line * 64, Name::LOAD, Name::WEIGHT);
            let lines = engine.lines.div_ceil(WEIGHTS);
            for own in (line * lines..(line + 1) * lines).take_while(|own| *own < engine.lines) {
                let address = ACTIVATIONS + own * 64;
                to.access(at(), address, Name::STORE, Name::ACTIVATION);
            }
        }
        for block in (step.saturating_sub(life) / 5..=step / 5)
            .filter(|block| step - block * 5 <= life && block * 5 <= step)
        {
            for line in 0..BLOCK {
                let address = KV + block * 4096 + line * 64;
                if step == block * 5 {
                    to.access(at(), address, Name::STORE, Name::KV_CACHE);
                }
                to.access(at(), address, Name::LOAD, Name::KV_CACHE);
            }
        }
        for line in 0..engine.lines {
            to.access(at(), ACTIVATIONS + line * 64, Name::LOAD, Name::ACTIVATION);
        }
        if step < 200 {
            to.access(at(), TOUCHED + step * 4096, Name::PAGE_FAULT, Name::RUNTIME);
        }
    }
    to.rows
}

fn analysed(rows: &[Access]) -> Analysis {
    compute_all(rows, &Names::new(), AnalysisOptions::default()).unwrap()
}

/// What is true of a type: class, share of addresses that are written once, age of data when it is read (99 %) of a type whose values all
/// live alike.
fn truths(engine: Engine) -> [(&'static str, &'static [&'static str], f64, Option<f64>); 3] {
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    let life = engine.block_life as f64 / 1e9;
    let block: &[&str] = match life {
        life if life >= 10.0 => &["high_mrm"],
        life if life >= 1.0 => &["medium_mrm"],
        _ => &["low_mrm"],
    };
    [
        // Weights live until the recording ends, at least: longer than it shows.
        ("weight", &["high_mrm"], 1.0, None),
        ("kv_cache", block, 1.0, Some(life)),
        ("activation", &["low_mrm"], 0.0, None),
    ]
}

#[test]
fn verdicts_are_right_or_there_is_none() {
    let engine = |seconds, step_ms, life_ms, lines| Engine {
        seconds,
        step: step_ms * MS,
        block_life: life_ms * MS,
        lines,
    };
    // The last has activations of more lines than are sampled in a step.
    let engines = [
        engine(2, 20, 300, 128),
        engine(8, 80, 320, 100),
        engine(8, 80, 3040, 128),
        engine(60, 400, 3200, 127),
        engine(60, 400, 15_200, 128),
        engine(8, 100, 300, 6007),
    ];
    let mut wrong = Vec::new();
    let (mut answered, mut refused, mut at_one) = (0, 0, 0);
    for engine in engines {
        let all = [1, 10, 100, 1000].into_iter().map(Kept::Random);
        for kept in all.chain([2, 10, 101, 1000].into_iter().map(Kept::Every)) {
            for stated in [true, false] {
                let rows = recorded(engine, kept, stated, 3);
                let analysis = analysed(&rows);
                for (kind, classes, once, age) in truths(engine) {
                    let Some(found) = analysis.types.iter().find(|one| one.region_type == kind)
                    else {
                        continue;
                    };
                    let verdict = found.verdict.as_ref().unwrap();
                    let told =
                        format!("{kind} of {engine:?}, {kept:?}, stated {stated}: {verdict:?}");
                    let is_class = verdict.confidence != "none";
                    // A class of a life that the end cuts off may not be lower than what was seen.
                    if is_class && !classes.contains(&verdict.class) {
                        wrong.push(format!("class of {told}"));
                    }
                    let slack = 1e-6;
                    if let Some(range) = verdict.write_once
                        && found.stores > 0
                        && !(range.low <= once + slack
                            && range.high.is_none_or(|high| high >= once - slack))
                    {
                        wrong.push(format!("write once of {told}"));
                    }
                    if let (Some(age), Some([_, _, p99])) = (age, verdict.read_age_ns)
                        && p99.low / 1e9 > age * 1.001
                    {
                        wrong.push(format!("age of {told}"));
                    }
                    if is_class {
                        answered += 1;
                    } else {
                        refused += 1;
                    }
                    if kept.period() == 1 && stated && kind != "weight" {
                        at_one += 1;
                        if !is_class && kind != "kv_cache" {
                            wrong.push(format!("no answer: {told}"));
                        }
                    }
                }
                // What was touched once says nothing.
                let touched = analysis
                    .types
                    .iter()
                    .find(|one| one.region_type == "runtime");
                let verdict = touched.and_then(|touched| touched.verdict.as_ref());
                if verdict.is_some_and(|verdict| verdict.confidence != "none") {
                    wrong.push(format!("touches of {engine:?}, {kept:?}: {verdict:?}"));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        answered > 40 && at_one > 0,
        "{answered} answered, {refused} refused"
    );
}

/// A counter that takes every so manyth access of a program that repeats itself may come by each line once: no line seems to be stored to
/// again.
#[test]
fn what_a_counter_never_sees_twice_is_not_written_once() {
    for (lines, rounds, period) in [(509, 101, 101), (509, 1000, 1000), (100_003, 150, 997)] {
        for stated in [true, false] {
            let mut rows = Vec::new();
            let round = 2 * lines;
            for at in (0..rounds * round).step_by(usize::try_from(period).unwrap()) {
                let line = at % lines;
                let op = if at % round < lines {
                    Name::STORE
                } else {
                    Name::LOAD
                };
                let time = at / round * 200 * MS + at % round * 500;
                let mut row = Access::new(time, line * 64);
                (row.op, row.region_type, row.period) =
                    (op, Name::ACTIVATION, if stated { period } else { 0 });
                row.region_id = 1 + (line >> 6);
                rows.push(row);
            }
            // Something else goes on until the end.
            let mut last = Access::new(rounds * 400 * MS, 1 << 40);
            (last.region_type, last.region_id, last.period) =
                (Name::RUNTIME, 1 << 30, if stated { period } else { 0 });
            rows.push(last);
            let analysis = analysed(&rows);
            let verdict = analysis.types[0].verdict.as_ref().unwrap();
            let told = format!("{lines}, {rounds}, {period}, {stated}: {verdict:?}");
            assert!(
                verdict.confidence == "none" || verdict.class == "low_mrm",
                "{told}"
            );
            assert!(
                verdict.write_once.is_none_or(|once| once.low <= 0.0),
                "{told}"
            );
        }
    }
}
