//! Waits for input: batches of a loader, items of a queue; apart from waits for locks and for what the device computes.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use byte_source::Source;
use rca_cycles::compat::{CallTimes, Report};
use rca_cycles::{Analysis, Options, Wait, analyse, reports};

/// Frames inside one another, outermost first, with the wait in the innermost; it lasts 900 us of a step of 2 ms, and the GPU works
/// meanwhile or not.
struct Engine<'n> {
    frames: &'n [(&'n str, &'n str)],
    busy: bool,
}

impl Engine<'_> {
    fn json(&self) -> String {
        let mut events = Vec::new();
        let mut event = |name: &str, cat: &str, tid: u32, ts: i64, dur: i64, id: i64| {
            let args = match id {
                0 => String::new(),
                id => format!(r#","args":{{"correlation":{id},"device":0,"stream":7}}"#),
            };
            let pid = u32::from(cat != "kernel");
            events.push(format!(
                r#"{{"name":"{name}","cat":"{cat}","ph":"X","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur}{args}}}"#
            ));
        };
        event("train.py(10): train", "python_function", 1, 0, 26_000, 0);
        for i in 0..12 {
            let at = 100 + i * 2_000;
            event(
                &format!("ProfilerStep#{i}"),
                "user_annotation",
                1,
                at,
                1_990,
                0,
            );
            event("train.py(20): run_step", "python_function", 1, at, 1_900, 0);
            for (depth, (name, cat)) in (0..).zip(self.frames) {
                event(name, cat, 1, at + 10 + depth, 900 - 2 * depth, 0);
            }
            for k in 0..4 {
                let id = 1 + i * 4 + k;
                event(
                    "cudaLaunchKernel",
                    "cuda_runtime",
                    1,
                    at + 950 + 10 * k,
                    5,
                    id,
                );
                // The third call takes longer than the others.
                let dur = if k == 2 { 160 } else { 100 };
                let begin = if self.busy {
                    at + 1_960 + 250 * k
                } else {
                    at + 1_000 + 200 * k
                };
                event(
                    "gemm",
                    "kernel",
                    7,
                    begin,
                    if self.busy { 240 } else { dur },
                    id,
                );
            }
        }
        format!("[{}]", events.join(","))
    }

    fn analysed(&self) -> (Analysis, Vec<Report>) {
        let source = Source::from_bytes("input.json", self.json().into_bytes()).unwrap();
        let trace = perfetto_reader::read(source, &Default::default()).unwrap();
        let mut options = Options::default();
        options.marker = Some("train.py(20): run_step".to_owned());
        let analysis = analyse(&trace, &options).unwrap();
        let tables = reports(&trace, &analysis);
        (analysis, tables)
    }

    /// What the innermost frame waits for in most steps.
    fn waits(&self) -> Option<Wait> {
        let (analysis, _) = self.analysed();
        let (name, _) = self.frames.last().unwrap();
        let own = analysis.functions.iter().filter(|f| f.name == *name);
        // The GPU has nothing to do yet in the first step.
        own.max_by_key(|f| f.cells.len()).unwrap().waits
    }
}

const PYTHON: &str = "python_function";
const LOCK: &str = "<method 'acquire' of '_thread.lock' objects>";

#[test]
fn waits_for_a_batch_or_an_item_are_for_input() {
    let loader = "torch/utils/data/dataloader.py(701): __next__";
    let queue = "queue.py(154): get";
    for frames in [
        &[(loader, PYTHON)][..],
        &[(loader, PYTHON), (queue, PYTHON), (LOCK, PYTHON)],
        &[("feed.py(3): fetch", PYTHON), (queue, PYTHON)],
        &[
            ("feed.py(3): fetch", PYTHON),
            (queue, PYTHON),
            (LOCK, PYTHON),
        ],
        &[(
            "<built-in method get of _queue.SimpleQueue object at 0x7f11>",
            PYTHON,
        )],
        &[("feed.py(3): get_batch", PYTHON)],
    ] {
        let idle = Engine {
            frames,
            busy: false,
        };
        assert_eq!(idle.waits(), Some(Wait::Requests), "{frames:?}");
    }
    // A lock by itself is none, nor an item that is ready when the device is.
    let lock = &[("feed.py(3): fetch", PYTHON), (LOCK, PYTHON)];
    let lock = Engine {
        frames: lock,
        busy: false,
    };
    assert_eq!(lock.waits(), Some(Wait::Other));
    let result = &[("worker.py(3): result_of_step", PYTHON), (queue, PYTHON)];
    let result = Engine {
        frames: result,
        busy: true,
    };
    assert_eq!(result.waits(), Some(Wait::Other));
    // A function that computes is no wait.
    let code = Engine {
        frames: &[("feed.py(3): decode", PYTHON)],
        busy: false,
    };
    assert_eq!(code.waits(), None);
}

#[test]
fn tables_state_the_shortest_and_the_longest_of_several_calls() {
    let engine = Engine {
        frames: &[("feed.py(3): decode", PYTHON)],
        busy: false,
    };
    let (_, tables) = engine.analysed();
    let rows = || tables.iter().flat_map(|report| &report.rows);
    let gemms: Vec<_> = rows().filter(|row| row.function_name == "gemm").collect();
    assert!(gemms.len() > 8);
    for row in gemms {
        let want = CallTimes {
            shortest_us: 100.0,
            longest_us: 160.0,
            longest: 3,
        };
        assert_eq!((row.instances, row.calls), (4, Some(want)));
    }
    let once = rows()
        .find(|row| row.function_name.contains("decode"))
        .unwrap();
    assert_eq!(once.calls, None);
}
