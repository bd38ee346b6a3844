//! Memory snapshots: who holds the peak, fragmentation, the course.

use std::collections::BTreeMap;

use byte_source::Source;
use serde_json::Value;
use torch_dumps::memory::{Answer, tables};
use torch_dumps::memory::{Category, Snapshot};
use torch_dumps::{Dump, read};

fn snapshot(name: &str, bytes: &[u8]) -> Snapshot {
    match read(Source::from_bytes(name, bytes.to_vec()).unwrap()).unwrap() {
        Dump::Memory(snapshot) => snapshot,
        Dump::Flight(_) => panic!("{name} is a memory snapshot"),
    }
}

#[test]
fn peak_and_holders_equal_those_of_brute_force() {
    for (name, bytes, expected) in [
        (
            "whole",
            &include_bytes!("../data/whole.pickle")[..],
            include_str!("../data/whole.json"),
        ),
        (
            "cut",
            include_bytes!("../data/cut.pickle"),
            include_str!("../data/cut.json"),
        ),
    ] {
        let expected: Value = serde_json::from_str(expected).unwrap();
        let answer = Answer::new(name.to_owned(), snapshot(name, bytes), 7);
        let [device] = answer.devices.as_slice() else {
            panic!("one device")
        };
        let replay = &device.replay;
        let number = |key: &str| expected[key].as_i64().unwrap();
        for (key, found) in [
            ("events", replay.events.cast_signed()),
            ("first_bytes", replay.first_bytes),
            ("peak_bytes", replay.peak_bytes),
            ("peak_event", replay.peak_event.cast_signed()),
            ("peak_us", replay.peak_us.unwrap()),
            ("last_bytes", replay.last_bytes),
            ("older_bytes", replay.older_bytes),
            ("reserved_at_peak_bytes", replay.reserved_at_peak_bytes),
            ("last_reserved_bytes", replay.last_reserved_bytes),
        ] {
            assert_eq!(found, number(key), "{name}: {key}");
        }
        let mut holders: BTreeMap<String, i64> = BTreeMap::new();
        for holder in &replay.holders {
            *holders
                .entry(answer.snapshot.stacks.text(holder.stack))
                .or_default() += holder.bytes;
        }
        let wanted = expected["holders"].as_object().unwrap();
        let wanted = wanted
            .iter()
            .map(|(stack, bytes)| (stack.clone(), bytes.as_i64().unwrap()));
        assert_eq!(holders, wanted.collect(), "{name}");
        // The course has the peak and the end, whatever its stretches.
        assert_eq!(replay.series.len(), 7);
        let peak = replay.series.iter().map(|point| point.peak_bytes).max();
        assert_eq!(peak, Some(replay.peak_bytes));
        assert_eq!(
            replay.series.last().map(|point| point.last_bytes),
            Some(replay.last_bytes)
        );
    }
}

#[test]
fn reserved_memory_is_accounted_for() {
    for (name, bytes, expected) in [
        (
            "whole",
            &include_bytes!("../data/whole.pickle")[..],
            include_str!("../data/whole.json"),
        ),
        (
            "cut",
            include_bytes!("../data/cut.pickle"),
            include_str!("../data/cut.json"),
        ),
        (
            "none",
            include_bytes!("../data/none.pickle"),
            include_str!("../data/none.json"),
        ),
    ] {
        let expected: Value = serde_json::from_str(expected).unwrap();
        let answer = Answer::new(name.to_owned(), snapshot(name, bytes), 0);
        let all = answer.devices[0].reserved();
        let number = |key: &str| expected[key].as_i64().unwrap();
        assert_eq!(all.reserved_bytes, number("last_reserved_bytes"));
        assert_eq!(all.split_bytes, number("split_bytes"));
        assert_eq!(all.split_blocks.cast_signed(), number("split_blocks"));
        assert_eq!(all.releasable_bytes, number("releasable_bytes"));
        assert_eq!(all.largest_free_bytes, number("largest_free_bytes"));
        assert_eq!(all.rounding_bytes, number("rounding_bytes"));
        assert_eq!(all.awaiting_free_bytes, number("awaiting_free_bytes"));
        let parts =
            all.allocated_bytes + all.awaiting_free_bytes + all.split_bytes + all.releasable_bytes;
        assert_eq!(
            (all.allocated_bytes, parts),
            (number("allocated_bytes"), all.reserved_bytes)
        );
    }
}

#[test]
fn without_history_the_snapshot_itself_is_the_answer() {
    let answer = Answer::new(
        "none".to_owned(),
        snapshot("none", include_bytes!("../data/none.pickle")),
        4,
    );
    let device = &answer.devices[0];
    let expected: Value = serde_json::from_str(include_str!("../data/none.json")).unwrap();
    assert_eq!(
        device.replay.peak_bytes,
        expected["last_bytes"].as_i64().unwrap()
    );
    let sentence = device.sentence(&answer.snapshot);
    assert!(
        sentence.contains("when the snapshot was taken"),
        "{sentence}"
    );
    let lines = device.lines(&answer.snapshot);
    assert!(
        lines
            .iter()
            .any(|(_, text)| text.contains("_record_memory_history")),
        "{lines:?}"
    );
}

#[test]
fn categories_come_from_the_program_or_from_the_stack() {
    let answer = Answer::new(
        "cut".to_owned(),
        snapshot("cut", include_bytes!("../data/cut.pickle")),
        0,
    );
    let names: Vec<&str> = answer.devices[0]
        .categories()
        .iter()
        .map(|row| row.0)
        .collect();
    for name in [
        "KV cache",
        "weights",
        "activations",
        "sampling",
        "other",
        "no stack",
    ] {
        assert!(names.contains(&name), "{name} of {names:?}");
    }
    let sentence = answer.devices[0].sentence(&answer.snapshot);
    assert!(
        sentence.starts_with("Allocated memory of GPU 0 peaks at"),
        "{sentence}"
    );
    assert!(
        sentence.contains("allocated in kv_cache.py:40:alloc_kv"),
        "{sentence}"
    );
}

fn small(events: &str, segments: &str) -> Answer {
    let json = format!("{{\"segments\": [{segments}], \"device_traces\": [[], [{events}]]}}");
    Answer::new("t".to_owned(), snapshot("t.json", json.as_bytes()), 0)
}

#[test]
fn a_failed_allocation_is_called_fragmentation_only_if_enough_was_free() {
    let segment = |free: &str| {
        format!(
            r#"{{"device": 1, "address": 0, "total_size": 3000, "stream": 0, "blocks": [
            {{"size": 1000, "requested_size": 1000, "address": 0, "state": "active_allocated", "frames": []}}, {free}]}}"#
        )
    };
    let oom = r#"{"action": "alloc", "addr": 0, "size": 1000, "stream": 0, "frames": []},
        {"action": "oom", "device_free": 5, "size": 1500, "stream": 0, "frames": []},
        {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "frames": []}"#;
    let halves = r#"{"size": 1000, "state": "inactive", "frames": []}, {"size": 1000, "state": "inactive", "frames": []}"#;
    let answer = small(oom, &segment(halves));
    let line = &answer.devices[0].lines(&answer.snapshot)[0];
    assert_eq!(line.0, "out of memory");
    assert!(
        line.1
            .contains("fragmentation, because 1.953 KiB of the reserved memory were free"),
        "{}",
        line.1
    );
    assert_eq!(answer.devices[0].device, 1);
    let answer = small(
        oom,
        &segment(r#"{"size": 1000, "state": "inactive", "frames": []}"#),
    );
    let line = &answer.devices[0].lines(&answer.snapshot)[0];
    assert!(!line.1.contains("fragmentation"), "{}", line.1);
    // After more events, the blocks are not those that the allocation met.
    let later =
        format!(r#"{oom}, {{"action": "alloc", "addr": 9, "size": 1, "stream": 0, "frames": []}}"#);
    let answer = small(&later, &segment(halves));
    assert!(
        !answer.devices[0].lines(&answer.snapshot)[0]
            .1
            .contains("largest free block")
    );
}

#[test]
fn own_words_and_pools_are_categories_and_odd_records_are_counted() {
    let events = r#"
        {"action": "alloc", "addr": 1, "size": 10, "stream": 0, "frames": [], "user_metadata": "draft model"},
        {"action": "alloc", "addr": 2, "size": 20, "stream": 0, "frames": [], "pool_id": [0, 3]},
        {"action": "alloc", "addr": 3, "size": -1, "stream": 0, "frames": []},
        {"action": "alloc", "size": 7, "stream": 0, "frames": []},
        {"size": 7},
        {"action": "from the future"}"#;
    let answer = small(events, "");
    let device = &answer.devices[0];
    let found: Vec<(Category, i64)> = device
        .replay
        .holders
        .iter()
        .map(|holder| (holder.category.clone(), holder.bytes))
        .collect();
    let wanted = [
        (Category::Known("CUDA graphs"), 20),
        (Category::Own("draft model".to_owned()), 10),
    ];
    assert_eq!(found, wanted);
    assert_eq!(answer.snapshot.skipped, 3);
    assert_eq!(tables::holders(&[answer]).unwrap().rows(), 2);
}

#[test]
fn folders_of_frames_are_not_shown() {
    let answer = Answer::new(
        "cut".to_owned(),
        snapshot("cut", include_bytes!("../data/cut.pickle")),
        0,
    );
    let table = tables::holders(&[answer]).unwrap();
    let mut cells = Vec::new();
    for row in 0..table.rows() {
        table.row_into(row, &mut cells);
        assert!(!format!("{cells:?}").contains("/opt"), "{cells:?}");
    }
}

#[test]
fn one_free_block_is_not_fragmented_and_holes_are() {
    let block = |bytes: i64, state: &str| {
        format!(
            r#"{{"size": {bytes}, "requested_size": {bytes}, "state": "{state}", "frames": []}}"#
        )
    };
    let segment = |blocks: &[String], bytes: i64| {
        format!(
            r#"{{"device": 0, "address": 0, "total_size": {bytes}, "stream": 0, "blocks": [{}]}}"#,
            blocks.join(",")
        )
    };
    let line = |answer: &Answer| {
        let lines = answer.devices[0].lines(&answer.snapshot);
        lines
            .into_iter()
            .find(|line| line.0 == "fragmentation")
            .unwrap()
            .1
    };
    let tail = segment(
        &[block(100, "active_allocated"), block(900, "inactive")],
        1000,
    );
    let answer = small("", &tail);
    let all = answer.devices[0].reserved();
    assert_eq!((all.split_bytes, all.scattered_bytes), (900, 0));
    let text = line(&answer);
    assert!(
        !text.contains("fragmented") && text.contains("in 1 block of"),
        "{text}"
    );
    // Ten holes of 50 between ten blocks: all but the largest are of no use to an allocation of 51.
    let holes: Vec<String> = (0..10)
        .flat_map(|_| [block(50, "active_allocated"), block(50, "inactive")])
        .collect();
    let answer = small("", &segment(&holes, 1000));
    let all = answer.devices[0].reserved();
    assert_eq!((all.split_bytes, all.scattered_bytes), (500, 450));
    assert!(line(&answer).contains("fragmented"));
}
