//! Latencies.

use serde_json::{Map, Value, json};

use super::{distribution, keyed, text};
use blkio_parser::Direction;
use blkio_parser::Symbols;
use blkio_parser::analyse::detail::{Detail, SIZE_CLASSES_KIB};
use blkio_parser::analyse::latency_bins::LatencyBin;
use blkio_parser::analyse::pairing::Pairing;
use blkio_parser::analyse::traffic::SECOND;

/// Returns the latencies by direction, size, stage, time and process, and the time by queue depth.
pub(super) fn all(pairing: &mut Pairing, symbols: &Symbols, first_ns: u64) -> Value {
    let mut map = Map::new();
    by_direction(pairing, &mut map);
    if let Some(detail) = &mut pairing.detail {
        by_stage(detail, &mut map);
    }
    map.insert(
        "time_by_queue_depth_ns".into(),
        keyed(pairing.depth.all.time_at()),
    );
    if let Some(detail) = &mut pairing.detail {
        by_time(detail, first_ns, &mut map);
        by_process(detail, symbols, &mut map);
    }
    Value::Object(map)
}

fn by_direction(pairing: &mut Pairing, map: &mut Map<String, Value>) {
    let mut labels: Vec<String> = SIZE_CLASSES_KIB
        .iter()
        .map(|k| format!("<={k}KiB"))
        .collect();
    labels.push(">1024KiB".to_owned());
    let mut detail = pairing.detail.as_mut();
    for (direction, latency) in Direction::ALL.iter().zip(&mut pairing.latency) {
        if latency.count == 0 {
            continue;
        }
        let mut of = Map::new();
        of.insert("issue_to_complete_ns".into(), distribution(latency, true));
        let sizes = detail
            .as_mut()
            .and_then(|detail| detail.by_size.get_mut(direction.slot()));
        let classes = labels.iter().zip(sizes.into_iter().flatten());
        let classes = classes.filter(|(_, values)| values.count > 0);
        of.insert(
            "by_size".into(),
            keyed(classes.map(|(label, values)| (label, distribution(values, true)))),
        );
        map.insert(direction.name().into(), of.into());
    }
}

fn by_stage(detail: &mut Detail, map: &mut Map<String, Value>) {
    for (key, by_direction) in [
        (
            "queue_to_complete_ns",
            detail.queue_to_complete.as_mut_slice(),
        ),
        ("queue_to_issue_ns", detail.queue_to_issue.as_mut_slice()),
        (
            "first_issue_to_complete_ns",
            detail.first_issue_to_complete.as_mut_slice(),
        ),
    ] {
        let found = Direction::ALL.iter().zip(by_direction);
        let found = found.filter(|(_, values)| values.count > 0);
        let found: Map<String, Value> = found
            .map(|(d, values)| (d.name().to_owned(), distribution(values, true)))
            .collect();
        if !found.is_empty() {
            map.insert(key.into(), found.into());
        }
    }
}

fn by_time(detail: &Detail, first_ns: u64, map: &mut Map<String, Value>) {
    let values = |bin: &LatencyBin| {
        [
            ("count", bin.count),
            ("p50_ns", bin.p50_ns),
            ("p99_ns", bin.p99_ns),
            ("max_ns", bin.max_ns),
        ]
    };
    let seconds = detail.by_second.bins().iter().map(|second| {
        let since_s = second.bin.saturating_sub(first_ns / SECOND);
        let when = [
            ("clock_second", second.bin),
            ("since_first_issue_s", since_s),
        ];
        keyed(when.into_iter().chain(values(second)))
    });
    let seconds: Vec<Value> = seconds.collect();
    map.insert("by_second_of_completion".into(), seconds.into());
    if let Some(found) = &detail.by_bin {
        let bins = found.bins().iter();
        let bins = bins.map(|bin| keyed([("bin", bin.bin)].into_iter().chain(values(bin))));
        let bins: Vec<Value> = bins.collect();
        map.insert(
            "by_bin_of_completion".into(),
            json!({"bin_ns": found.width_ns(), "bins": bins}),
        );
    }
}

fn by_process(detail: &mut Detail, symbols: &Symbols, map: &mut Map<String, Value>) {
    let processes: Map<String, Value> = detail
        .by_process
        .iter_mut()
        .map(|(comm, values)| (text(symbols.comm_of(*comm)), distribution(values, true)))
        .collect();
    if !processes.is_empty() {
        map.insert("by_process_ns".into(), processes.into());
    }
}
