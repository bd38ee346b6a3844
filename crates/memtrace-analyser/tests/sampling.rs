//! Recordings of known lives at several sampling periods: figures are right within their bounds, or there is none.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use memtrace_analyser::{AnalysisOptions, Rate, TypeMetrics, compute_all};
use memtrace_labeller::{Access, Name, Names};

const MS: u64 = 1_000_000;

fn row(time: u64, address: u64, op: Name, region_type: Name) -> Access {
    let mut row = Access::new(time, address);
    (row.op, row.region_type) = (op, region_type);
    row.region_id = 1 + (address >> 12);
    row
}

/// Lines that are stored every 20 ms and loaded 5 ms later, for 5 s.
fn rewritten() -> Vec<Access> {
    let mut rows = Vec::new();
    for time in (0..250).map(|round| round * 20 * MS) {
        for line in 0..512 {
            let at = time + line * 1000;
            rows.push(row(at, line * 64, Name::STORE, Name::ACTIVATION));
            rows.push(row(at + 5 * MS, line * 64, Name::LOAD, Name::ACTIVATION));
        }
    }
    rows
}

/// Pages that are stored once, one each `step`, and loaded every ninth of their life until its end.
fn stored_once(pages: u64, step: u64, life: u64) -> Vec<Access> {
    let mut rows = Vec::new();
    for page in 0..pages {
        for line in 0..64 {
            let (time, address) = (page * step + line, page * 4096 + line * 64);
            rows.push(row(time, address, Name::STORE, Name::KV_CACHE));
            let reads = (1..=9).map(|read| time + read * life / 9);
            rows.extend(reads.map(|time| row(time, address, Name::LOAD, Name::KV_CACHE)));
        }
    }
    rows
}

/// Keeps rows with the probability of one in `period`.
fn sampled(rows: &[Access], period: u64, stated: bool, seed: u64, end_ns: u64) -> Vec<Access> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut kept: Vec<Access> = rows
        .iter()
        .filter(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20).is_multiple_of(period)
        })
        .copied()
        .collect();
    // Something else goes on until the end.
    kept.push(row(end_ns, 1 << 40, Name::LOAD, Name::RUNTIME));
    for row in &mut kept {
        row.period = if stated { period } else { 0 };
    }
    kept.sort_by_key(|row| row.timestamp_ns);
    kept
}

fn analysed(rows: &[Access], kind: &str) -> Option<TypeMetrics> {
    let analysis = compute_all(rows, &Names::new(), AnalysisOptions::default()).unwrap();
    analysis
        .types
        .into_iter()
        .find(|found| found.region_type == kind)
}

/// A recording: its name, rows, type, class, write-once ratio, quantiles of the age of data when it is read, the last second.
type Case = (Vec<Access>, &'static str, &'static str, f64, [f64; 3], u64);

#[test]
fn verdicts_are_right_or_refused_at_every_period() {
    let ms = 1e6;
    let cases: [Case; 4] = [
        (rewritten(), "activation", "low_mrm", 0.0, [5.0 * ms; 3], 10),
        (
            stored_once(100, 100 * MS, 18_000 * MS),
            "kv_cache",
            "high_mrm",
            1.0,
            [1e4 * ms, 1.8e4 * ms, 1.8e4 * ms],
            90,
        ),
        (
            stored_once(100, 50 * MS, 4500 * MS),
            "kv_cache",
            "medium_mrm",
            1.0,
            [2500.0 * ms, 4500.0 * ms, 4500.0 * ms],
            60,
        ),
        (
            stored_once(300, 20 * MS, 360 * MS),
            "kv_cache",
            "low_mrm",
            1.0,
            [200.0 * ms, 360.0 * ms, 360.0 * ms],
            30,
        ),
    ];
    let mut answered = 0;
    let (mut bounds, mut wrong) = (0, 0);
    for (rows, kind, class, once, ages, end_s) in &cases {
        for (period, stated, seed) in [1, 2, 10, 100, 1000, 10_000]
            .into_iter()
            .flat_map(|period| [true, false].map(|stated| (period, stated)))
            .flat_map(|(period, stated)| (1..3).map(move |seed| (period, stated, seed)))
        {
            let rows = sampled(rows, period, stated, seed, end_s * 1000 * MS);
            let Some(found) = analysed(&rows, kind) else {
                continue;
            };
            let verdict = found.verdict.as_ref().unwrap();
            let told = format!("{kind} {class} at {period}, stated {stated}: {verdict:?}");
            let is_class = verdict.class == *class;
            assert!(is_class || verdict.confidence == "none", "{told}");
            // A complete recording that states its period is always answered. Without a period it may be complete or not.
            assert!(!stated || period > 1 || is_class, "{told}");
            assert_eq!(
                verdict.rate == Rate::Complete,
                stated && period == 1,
                "{told}"
            );
            assert_eq!(verdict.rate == Rate::Unknown, !stated, "{told}");
            answered += u32::from(is_class && period > 1);
            let covers = |low: f64, high: Option<f64>, truth: f64| {
                low <= truth * 1.000_001 && high.is_none_or(|high| high >= truth * 0.999_999)
            };
            let range = verdict.write_once.filter(|_| found.stores > 0);
            if let Some(range) = range {
                assert!(covers(range.low, range.high, *once), "{told}");
            }
            for (range, truth) in verdict.read_age_ns.iter().flatten().zip(ages) {
                bounds += 1;
                wrong += u32::from(!covers(range.low, range.high, *truth));
            }
        }
    }
    assert!(answered >= 10, "{answered}");
    // The bounds are those of 95 %.
    assert!(wrong * 20 <= bounds, "{wrong} of {bounds}");
}

/// What is still read when the recording ends lives at least as long as was seen.
#[test]
fn lives_that_the_end_cuts_off_are_bounds() {
    let rows = stored_once(4, 1, 7902 * MS);
    let cut = sampled(&rows, 1, true, 1, 7903 * MS);
    let found = analysed(&cut, "kv_cache").unwrap().verdict.unwrap();
    assert_eq!(
        (found.class, found.at_least, found.at_most),
        ("cannot_say", "medium_mrm", "high_mrm")
    );
    assert_eq!((found.cut_by_end, found.retention_p99_s.high), (4, None));
    assert!((found.retention_p99_s.low - 7.902).abs() < 1e-6);
    let longer = sampled(&rows, 1, true, 1, 60_000 * MS);
    let found = analysed(&longer, "kv_cache").unwrap().verdict.unwrap();
    assert_eq!(
        (found.class, found.cut_by_end, found.confidence),
        ("medium_mrm", 0, "high")
    );
    // Without its beginning the life is a bound, too.
    let late: Vec<Access> = longer.into_iter().filter(|row| !row.is_store()).collect();
    let found = analysed(&late, "kv_cache").unwrap().verdict.unwrap();
    assert_eq!((found.class, found.begun_before), ("cannot_say", 4));
}

/// Memory is read in bursts: how long a pause is normal follows from the pauses between them, whatever their size.
#[test]
fn lives_are_cut_off_by_the_pause_between_bursts() {
    // Lines, time between two loads of a burst, pause at the end.
    for (lines, within, pause, is_cut) in [1, 2, 64]
        .into_iter()
        .flat_map(|lines| [1000, 700_000].map(|within| (lines, within)))
        .flat_map(|(lines, within)| {
            [(1, true), (6, true), (49, true), (400, false)]
                .map(|(ms, is_cut)| (lines, within, ms * MS, is_cut))
        })
    {
        let line = |at: u64, line: u64, op| row(at + line * within, line * 64, op, Name::WEIGHT);
        let mut rows: Vec<Access> = (0..lines).map(|at| line(0, at, Name::STORE)).collect();
        for burst in 1..80 {
            rows.extend((0..lines).map(|at| line(burst * 50 * MS, at, Name::LOAD)));
        }
        let last = rows.iter().map(|row| row.timestamp_ns).max().unwrap();
        let rows = sampled(&rows, 1, true, 1, last + pause);
        let found = analysed(&rows, "weight").unwrap().verdict.unwrap();
        let told = format!("{lines} lines, {within} ns apart, {pause} ns: {found:?}");
        assert_eq!(found.cut_by_end, u64::from(is_cut), "{told}");
        assert_eq!(found.retention_p50_s.high.is_none(), is_cut, "{told}");
        assert_eq!(found.confidence == "high", !is_cut, "{told}");
    }
}

/// What is stored to over and over from the beginning of the recording may have been in use before it, which nothing shows.
#[test]
fn lives_that_the_beginning_may_cut_off_are_bounds() {
    for (start_ms, may_begin) in [(3, 1), (500, 0)] {
        let mut rows = vec![row(0, 1 << 40, Name::LOAD, Name::RUNTIME)];
        for round in 0..50 {
            let at = (start_ms + round * 20) * MS;
            rows.push(row(at, 0, Name::STORE, Name::ACTIVATION));
            rows.push(row(at + MS, 0, Name::LOAD, Name::ACTIVATION));
        }
        let rows = sampled(&rows, 1, true, 1, 5000 * MS);
        let found = analysed(&rows, "activation").unwrap().verdict.unwrap();
        assert_eq!(
            (found.begun_before, found.partly),
            (0, may_begin),
            "{found:?}"
        );
    }
}

/// Loads and stores have periods of their own: each counts as the accesses it stands for.
#[test]
fn shares_of_loads_do_not_depend_on_the_periods() {
    for (load_period, store_period) in [(1000, 100), (10, 1000), (7, 7), (1, 50)] {
        let (mut covered, mut runs) = (0, 0);
        for seed in 1..60 {
            let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed) | 1;
            let mut rows = Vec::new();
            for at in 0..60_000_u64 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Two loads for each store.
                let (op, period) = match at % 3 {
                    0 => (Name::STORE, store_period),
                    _ => (Name::LOAD, load_period),
                };
                if (state >> 20).is_multiple_of(period) {
                    let mut row = row(at, at % 512 * 64, op, Name::ACTIVATION);
                    row.period = period;
                    row.region_id = 1;
                    rows.push(row);
                }
            }
            let analysis = compute_all(&rows, &Names::new(), AnalysisOptions::default()).unwrap();
            let sampling = analysis.types[0].sampling.unwrap();
            let region = analysis.regions.get(0).unwrap().unwrap();
            assert!((sampling.read_fraction.value - region.read_fraction()).abs() < 1e-12);
            for (found, truth) in [
                (sampling.read_fraction, 2.0 / 3.0),
                (sampling.accesses, 60_000.0),
            ] {
                covered += u32::from(found.low <= truth && truth <= found.high);
                runs += 1;
            }
        }
        assert!(
            covered * 100 >= runs * 88,
            "{load_period}, {store_period}: {covered} of {runs}"
        );
    }
}

/// Blocks of a cache that come and go: each is loaded every 20 ms until its sequence of 3 s ends.
fn serving(end_s: u64) -> Vec<Access> {
    let mut rows = Vec::new();
    let steps = end_s * 50;
    for step in 0..steps {
        let (first, address) = (step / 150 * 150, (1 << 30) + step * 4096);
        rows.push(row(step * 20 * MS, address, Name::STORE, Name::KV_CACHE));
        let loads = (step..steps.min(first + 150)).map(|at| at * 20 * MS + MS);
        rows.extend(loads.map(|time| row(time, address, Name::LOAD, Name::KV_CACHE)));
    }
    rows
}

/// Weights that are loaded every 20 ms and were stored before the recording.
fn loaded(end_s: u64) -> Vec<Access> {
    let at = |step: u64| (0..16).map(move |line| (step * 20 * MS + line, line * 4096));
    let all = (0..end_s * 50).flat_map(at);
    all.map(|(time, address)| row(time, address, Name::LOAD, Name::WEIGHT))
        .collect()
}

/// A server goes on when its recording ends: the lives that are cut off do not hide how long the others are.
#[test]
fn lives_that_are_cut_off_are_estimated_from_the_others() {
    for (end_s, class) in [(60, "medium_mrm"), (10, "medium_mrm"), (2, "cannot_say")] {
        let rows = sampled(&serving(end_s), 1, true, 1, end_s * 1000 * MS);
        let found = analysed(&rows, "kv_cache").unwrap().verdict.unwrap();
        assert_eq!(found.class, class, "{end_s}: {found:?}");
        assert!(
            found.cut_by_end > 0 && found.confidence != "high",
            "{found:?}"
        );
        if let Some(high) = found.retention_p99_s.high {
            assert!((2.9..3.1).contains(&high), "{found:?}");
        }
    }
}

/// Where every store would have been recorded, data without one stays as it is.
#[test]
fn data_that_nothing_stores_to_is_not_rewritten() {
    for (end_s, at_least, class) in [
        (60, "high_mrm", "high_mrm"),
        (8, "medium_mrm", "cannot_say"),
    ] {
        let rows = [loaded(end_s), serving(end_s)].concat();
        let rows = sampled(&rows, 1, true, 1, end_s * 1000 * MS);
        let found = analysed(&rows, "weight").unwrap().verdict.unwrap();
        assert_eq!(
            (found.class, found.at_least),
            (class, at_least),
            "{found:?}"
        );
        assert!(found.never_stored && found.begun_before == 16 && found.write_once.is_none());
    }
    // A recording of loads alone does not show what is stored.
    let found = analysed(&sampled(&loaded(60), 1, true, 1, 60_000 * MS), "weight").unwrap();
    let found = found.verdict.unwrap();
    assert_eq!(
        (found.class, found.never_stored),
        ("cannot_say", false),
        "{found:?}"
    );
}

/// A complete recording knows what was written once: what was rewritten long before the end has the class of its ratio, and no other.
#[test]
fn what_a_complete_recording_shows_rewritten_is_not_written_once() {
    for rewritten_s in [20, 29, 45] {
        let stores = [0, rewritten_s].map(|second| {
            (0..16).map(move |line| {
                row(
                    second * 1000 * MS + line,
                    line * 4096,
                    Name::STORE,
                    Name::WEIGHT,
                )
            })
        });
        let rows: Vec<Access> = loaded(60)
            .into_iter()
            .chain(stores.into_iter().flatten())
            .collect();
        let mut rows = [rows, rewritten_by(60)].concat();
        rows.sort_by_key(|row| row.timestamp_ns);
        let rows = sampled(&rows, 1, true, 1, 60_000 * MS);
        let found = analysed(&rows, "weight").unwrap().verdict.unwrap();
        assert_eq!(found.class, "low_mrm", "{rewritten_s}: {found:?}");
        let once = found.write_once.unwrap();
        assert_eq!((once.low, once.high), (0.0, Some(0.0)));
    }
}

/// Samples that show the same rewriting, at an address or at a page, give no class of what is written once.
#[test]
fn rewriting_that_samples_show_is_not_denied() {
    for (period, seed) in [(4, 1), (16, 2), (64, 3)] {
        let lines = |second: u64, op| {
            (0..2048).map(move |line| {
                row(
                    second * 1000 * MS + line * 1000,
                    (1 << 20) + line * 256,
                    op,
                    Name::WEIGHT,
                )
            })
        };
        let mut rows: Vec<Access> = lines(0, Name::STORE)
            .chain(lines(20, Name::STORE))
            .collect();
        for step in 0..600 {
            let loads = lines(0, Name::LOAD).filter(|row| row.address / 256 % 5 == step % 5);
            rows.extend(loads.map(|mut row| {
                row.timestamp_ns += step * 100 * MS + 50 * MS;
                row
            }));
        }
        rows.extend(rewritten_by(60));
        rows.sort_by_key(|row| row.timestamp_ns);
        let found = analysed(&sampled(&rows, period, true, seed, 60_000 * MS), "weight");
        let found = found.unwrap().verdict.unwrap();
        assert!(found.class != "high_mrm", "{period}: {found:?}");
    }
}

/// Samples without stores bound the share of addresses that are rewritten.
#[test]
fn samples_bound_what_is_rewritten_while_it_is_used() {
    let mut answered = 0;
    // Lines of weights, loaded once each `step` ms; every `rewritten`th is stored to once in the second half.
    for (lines, step, rewritten) in [
        (3000_u64, 500_u64, 0_u64),
        (3000, 500, 50),
        (3000, 500, 2),
        (200, 500, 0),
    ] {
        for (period, seed) in [(10, 1), (10, 2), (20, 3)] {
            let mut rows = Vec::new();
            for at in 0..30_000 / step {
                let line = |line: u64, op| {
                    row(
                        at * step * MS + line * 1000,
                        (1 << 20) + line * 64,
                        op,
                        Name::WEIGHT,
                    )
                };
                rows.extend((0..lines).map(|at| line(at, Name::LOAD)));
                let stored =
                    (0..lines).filter(|line| rewritten > 0 && line.is_multiple_of(rewritten));
                if at == 45_000 / 2 / step {
                    rows.extend(stored.map(|at| line(at, Name::STORE)));
                }
            }
            rows.extend(rewritten_by(30));
            rows.sort_by_key(|row| row.timestamp_ns);
            let found =
                analysed(&sampled(&rows, period, true, seed, 30_000 * MS), "weight").unwrap();
            let found = found.verdict.unwrap();
            let truth = if rewritten == 0 {
                1.0
            } else {
                1.0 - 1.0 / rewritten as f64
            };
            let share = found.unchanged.map_or(0.0, |unchanged| unchanged.share_low);
            assert!(share <= truth, "{lines}, {rewritten}: {found:?}");
            assert!(
                matches!(found.class, "high_mrm" | "cannot_say"),
                "{found:?}"
            );
            assert!(truth >= 0.8 || found.class == "cannot_say", "{found:?}");
            answered += u32::from(found.class == "high_mrm");
        }
    }
    assert!(answered >= 4, "{answered}");
}

/// Activations that are stored and loaded every 20 ms.
fn rewritten_by(end_s: u64) -> Vec<Access> {
    let steps = (0..end_s * 50)
        .flat_map(|step| (0..32).map(move |line| (step * 20 * MS, (1 << 35) + line * 64)));
    steps
        .flat_map(|(time, address)| {
            [(time, Name::STORE), (time + MS, Name::LOAD)]
                .map(|(time, op)| row(time, address, op, Name::ACTIVATION))
        })
        .collect()
}

/// Regions that are stored to again were not stored before the recording unless a load says so.
#[test]
fn rewriting_is_no_sign_of_earlier_stores() {
    let mut rows = Vec::new();
    for line in 0..20 {
        for (second, op) in [
            (1, Name::STORE),
            (2, Name::LOAD),
            (5, Name::STORE),
            (6, Name::LOAD),
            (8, Name::LOAD),
        ] {
            rows.push(row(
                second * 1000 * MS + line,
                line * 4096,
                op,
                Name::KV_CACHE,
            ));
        }
    }
    let found = analysed(&sampled(&rows, 1, true, 1, 8001 * MS), "kv_cache").unwrap();
    assert_eq!(found.verdict.unwrap().begun_before, 0);
}

/// Data that is read until the recording ends is read later, too: how old it is then is not known.
#[test]
fn ages_that_the_recording_limits_are_marked() {
    for (end_s, kv_is_cut) in [(60, false), (2, true)] {
        let mut rows = serving(end_s);
        rows.extend((0..16).map(|line| row(line, line * 4096, Name::STORE, Name::WEIGHT)));
        rows.extend(loaded(end_s).into_iter().skip(16));
        rows.extend(rewritten_by(end_s));
        let rows = sampled(&rows, 1, true, 1, end_s * 1000 * MS);
        let cut = |kind: &str| analysed(&rows, kind).unwrap().verdict.unwrap().ages_go_on;
        assert_eq!(
            ["weight", "kv_cache", "activation"].map(cut),
            [true, kv_is_cut, false],
            "{end_s}"
        );
    }
}

/// A session that waits for its user is idle for longer than it ever was: others show that sessions go on after such a pause.
#[test]
fn pauses_of_sessions_are_no_ends() {
    let mut all = Vec::new();
    for block in 0..60_u64 {
        let at = |ms: u64| (block * 1000 + ms) * MS;
        all.push(row(at(0), block << 12, Name::STORE, Name::KV_CACHE));
        // Two turns of a second, 20 s apart.
        let turns = [0, 21_000]
            .into_iter()
            .flat_map(|turn| (1..100).map(move |load| turn + load * 10));
        all.extend(turns.map(|ms| row(at(ms), block << 12, Name::LOAD, Name::KV_CACHE)));
    }
    for (end_s, cut) in [(60, true), (140, false)] {
        let end = end_s * 1000 * MS;
        let mut rows: Vec<Access> = all
            .iter()
            .filter(|row| row.timestamp_ns < end)
            .copied()
            .collect();
        rows.push(row(end, 1 << 40, Name::LOAD, Name::RUNTIME));
        let found = analysed(&sampled(&rows, 1, true, 1, end), "kv_cache")
            .unwrap()
            .verdict
            .unwrap();
        // The last ones to begin are not taken for blocks of one turn.
        assert_eq!(found.cut_by_end >= 38, cut, "{found:?}");
        assert_eq!(found.confidence == "high", !cut, "{found:?}");
        assert_eq!(found.class, "high_mrm", "{found:?}");
    }
}

/// Every Nth access without a period looks like a complete recording of a slower program: nothing that needs every access is concluded.
#[test]
fn every_nth_access_without_a_period_is_not_complete() {
    for (rows, kind, end_s) in [
        (rewritten(), "activation", 10_u64),
        (stored_once(100, 50 * MS, 4500 * MS), "kv_cache", 60),
    ] {
        let mut sorted = rows;
        sorted.sort_by_key(|row| row.timestamp_ns);
        for nth in [1, 2, 7, 64, 1001] {
            let mut kept: Vec<Access> = sorted.iter().step_by(nth).copied().collect();
            kept.push(row(end_s * 1000 * MS, 1 << 40, Name::LOAD, Name::RUNTIME));
            kept.iter_mut().for_each(|row| row.period = 0);
            let found = analysed(&kept, kind).unwrap().verdict.unwrap();
            assert_eq!(found.rate, Rate::Unknown, "{nth}: {found:?}");
            // That something is stored to again and again is seen in any part of its accesses.
            let is_seen = found.class == "low_mrm" && kind == "activation";
            assert!(found.confidence == "none" || is_seen, "{nth}: {found:?}");
            assert!(
                found.read_age_ns.is_none() && !found.never_stored,
                "{nth}: {found:?}"
            );
        }
    }
}

/// Samples answer what the complete recording answers, or nothing: also where regions differ in size, and where what is in use was
/// stored to several times before.
#[test]
fn samples_do_not_contradict_the_complete_recording() {
    // One region of many addresses that are rewritten and many small ones that are not; and the reverse.
    let uneven = |large_is_rewritten: bool| {
        let mut rows = Vec::new();
        for second in 0..30_u64 {
            for line in 0..640_u64 {
                let at = |time: u64, op| {
                    let mut row = row(second * 1000 * MS + time, line * 64, op, Name::KV_CACHE);
                    row.region_id = if line < 600 { 1 } else { line };
                    row
                };
                if second == 0 || (line < 600) == large_is_rewritten {
                    rows.push(at(line, Name::STORE));
                }
                rows.extend((1..20).map(|read| at(read * 40 * MS, Name::LOAD)));
            }
        }
        rows
    };
    // Stored three times while loading, then used for half a minute.
    let settled = || {
        let mut rows = Vec::new();
        for line in 0..600_u64 {
            let at = |time: u64, op| row(time + line, line * 64, op, Name::WEIGHT);
            rows.extend((0..3).map(|time| at(time * 200 * MS, Name::STORE)));
            rows.extend((1..310).map(|time| at(time * 100 * MS + MS, Name::LOAD)));
        }
        rows.extend(rewritten_by(31));
        rows
    };
    let mut classes = Vec::new();
    for (rows, kind) in [
        (uneven(true), "kv_cache"),
        (uneven(false), "kv_cache"),
        (settled(), "weight"),
    ] {
        let mut rows = rows;
        rows.sort_by_key(|row| row.timestamp_ns);
        let complete = sampled(&rows, 1, true, 1, 45_000 * MS);
        let complete = analysed(&complete, kind).unwrap().verdict.unwrap();
        classes.push(complete.class);
        for (period, seed) in [(2, 1), (5, 2), (20, 3), (100, 4), (1000, 5)] {
            let some = sampled(&rows, period, true, seed, 45_000 * MS);
            let Some(found) = analysed(&some, kind) else {
                continue;
            };
            let found = found.verdict.unwrap();
            assert!(
                found.confidence == "none" || found.class == complete.class,
                "{period}: {found:?}\n{complete:?}"
            );
            if let (Some(of), Some(truth)) = (found.write_once, complete.write_once) {
                let high = of.high.unwrap();
                assert!(
                    of.low <= truth.low && truth.low <= high,
                    "{period}: {of:?}, {truth:?}"
                );
            }
        }
    }
    assert_eq!(classes, ["low_mrm", "high_mrm", "low_mrm"]);
}

/// A counter of one kind of access: one in `period`, which follows the rate as Linux does it where a frequency is given
/// (`perf_adjust_period`), in samples per nanosecond.
struct Counter {
    frequency: Option<f64>,
    period: u64,
    left: u64,
    last_ns: u64,
    /// Accesses since the last tick, and when that was.
    seen: u64,
    tick_ns: u64,
}

const TICK: u64 = 4 * MS;

impl Counter {
    fn new(frequency: Option<f64>, period: u64) -> Self {
        Self {
            frequency,
            period,
            left: period,
            last_ns: 0,
            seen: 0,
            tick_ns: 0,
        }
    }

    fn adjust(&mut self, time_ns: u64, count: u64) {
        let Some(frequency) = self.frequency else {
            return;
        };
        let wanted = count as f64 / (time_ns.max(1) as f64 * frequency);
        let eighth = ((wanted - self.period as f64) / 8.0).trunc();
        let next = (self.period as f64 + eighth).max(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at least 1, and far below 2^63"
        )]
        let next = next as u64;
        self.period = next;
        if self.left > 8 * self.period {
            self.left = 1;
        }
    }

    /// Counts `lines` accesses from `address` on, in `length_ns` from `start_ns` on.
    fn count(
        &mut self,
        (start_ns, length_ns): (u64, u64),
        (address, lines): (u64, u64),
        (op, kind): (Name, Name),
        rows: &mut Vec<Access>,
    ) {
        while start_ns.saturating_sub(self.tick_ns) >= TICK {
            let seen = std::mem::take(&mut self.seen);
            self.adjust(TICK, seen);
            self.tick_ns += TICK;
        }
        let mut at = 0;
        while at + self.left <= lines {
            at += self.left;
            self.seen += self.left;
            let time = start_ns + length_ns * (at - 1) / lines;
            let mut sample = row(time, address + (at - 1) * 64, op, kind);
            sample.period = self.period;
            rows.push(sample);
            let since = time.saturating_sub(self.last_ns);
            if since > 0 && since < 2 * TICK {
                self.adjust(since, self.period);
            }
            self.last_ns = time;
            self.left = self.period;
        }
        self.seen += lines - at;
        self.left -= lines - at;
    }
}

/// A program of 30 s: 2 MiB of weights, stored once and read every 50 ms, of which a part is stored to each time, and 512 KiB of activations
/// that are stored and read every 20 ms.
fn served(frequency: Option<f64>, stored_lines: u64, seed: u64) -> Vec<Access> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    // No two turns take the same time.
    let mut varied = |time: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        time * (980 + (random >> 20) % 40) / 1000
    };
    type Work = (u64, u64, u64, u64, Name, Name);
    let mut works: Vec<Work> = vec![(0, 500 * MS, 0, 32_768, Name::STORE, Name::WEIGHT)];
    let end = 30_000 * MS;
    let mut time = 600 * MS;
    while time < end {
        let length = varied(50 * MS);
        works.push((time, length / 5 * 4, 0, 32_768, Name::LOAD, Name::WEIGHT));
        if stored_lines > 0 {
            let store = (length / 10, 0, stored_lines, Name::STORE, Name::WEIGHT);
            works.push((
                time + length / 5 * 4,
                store.0,
                store.1,
                store.2,
                store.3,
                store.4,
            ));
        }
        time += length;
    }
    let mut time = 600 * MS;
    while time < end {
        let (length, base) = (varied(20 * MS), 1 << 30);
        works.push((time, length / 4, base, 8192, Name::STORE, Name::ACTIVATION));
        works.push((
            time + length / 4,
            length / 4,
            base,
            8192,
            Name::LOAD,
            Name::ACTIVATION,
        ));
        time += length;
    }
    let mut parts: Vec<Work> = Vec::new();
    for (time, length, address, lines, op, kind) in works {
        for from in (0..lines).step_by(512) {
            let count = 512.min(lines - from);
            let part = (time + length * from / lines, length * count / lines);
            parts.push((part.0, part.1, address + from * 64, count, op, kind));
        }
    }
    parts.sort_by_key(|part| (part.0, part.2));
    let mut counters = [Counter::new(frequency, 700), Counter::new(frequency, 700)];
    let mut rows = Vec::new();
    for (time, length, address, lines, op, kind) in parts {
        let [loads, stores] = &mut counters;
        let counter = if op == Name::STORE { stores } else { loads };
        counter.count((time, length), (address, lines), (op, kind), &mut rows);
    }
    rows.sort_by_key(|row| row.timestamp_ns);
    rows
}

#[test]
fn samples_by_frequency_give_the_class_that_a_fixed_period_cannot() {
    let per_ns = 2000.0 / 1e9;
    let weights = |frequency: Option<f64>, stored_lines: u64, seed: u64| {
        let found = analysed(&served(frequency, stored_lines, seed), "weight").unwrap();
        found.verdict.unwrap()
    };
    for seed in 0..4 {
        let fixed = weights(None, 0, seed);
        assert_eq!(fixed.class, "cannot_say");
        assert!(fixed.reason.starts_with("every Nth"), "{}", fixed.reason);
        let kept = weights(Some(per_ns), 0, seed);
        assert_eq!(kept.class, "high_mrm", "{}", kept.reason);
        assert_eq!(kept.confidence, "medium");
        assert!(kept.unchanged.unwrap().share_low >= 0.8);
        // What is stored to again is never said to be kept.
        for stored_lines in [8_000, 16_000, 32_768] {
            let stored = weights(Some(per_ns), stored_lines, seed);
            assert_ne!(stored.class, "high_mrm", "{stored_lines}");
            assert!(!stored.reason.starts_with("every Nth"), "{}", stored.reason);
        }
    }
}
