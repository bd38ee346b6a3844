//! Traffic over time in the bins that were asked for.

use serde_json::{Map, Value};

use super::{dense, keyed};
use crate::analyse::spread::SpreadBins;
use crate::analyse::traffic::{Bins, DATA, MAX_BINS};
use crate::stats::Stats;

/// Reads and writes by bin three times over: where they were issued, where they completed, and with their bytes spread over
/// the time in flight. All begin at the same time; each ends with its own last bin.
pub(super) fn per_bin(stats: &Stats) -> Map<String, Value> {
    let traffic = &stats.traffic;
    let bin_ns = traffic.bin_ns();
    let begin_ns = traffic.bins_begin_ns();
    let until = |last_ns: Option<u64>| {
        let (begin, last) = begin_ns.zip(last_ns)?;
        Some(last.saturating_sub(begin))
    };
    let length = |span: Option<u64>| span.map_or(0, |span| span / bin_ns + 1);
    let series = |span: Option<u64>, directions: [Value; 2]| {
        let mut map = Map::new();
        map.insert("bin_ns".into(), bin_ns.into());
        map.insert("first_bin_starts_ns".into(), begin_ns.into());
        // What the rate of the last bin is to be divided by.
        map.insert(
            "last_bin_lasts_ns".into(),
            span.map(|span| span % bin_ns).into(),
        );
        for (direction, values) in DATA.iter().zip(directions) {
            map.insert(direction.name().into(), values);
        }
        Value::Object(map)
    };
    let counted = |span: Option<u64>, bins: &[Bins; 2]| {
        series(span, bins.each_ref().map(|of| dense(of, length(span))))
    };
    let issued = until(Some(traffic.last_issue_ns));
    let mut map = Map::new();
    map.insert("issued_per_bin".into(), counted(issued, traffic.bins()));
    let Some(completed) = until(traffic.last_complete_ns) else {
        return map;
    };
    let completed = Some(completed);
    map.insert(
        "completed_per_bin".into(),
        counted(completed, traffic.completed_bins()),
    );
    let pairing = stats.newest.as_ref().filter(|p| p.matching.pairs > 0);
    if let Some((pairing, spread)) =
        pairing.and_then(|p| Some((p, p.detail.as_ref()?.spread.as_ref()?)))
    {
        let last = until(pairing.span.map(|(_, last)| last));
        map.insert(
            "spread_per_bin".into(),
            series(last, in_flight(spread, length(last))),
        );
    }
    map
}

fn in_flight(spread: &SpreadBins, length: u64) -> [Value; 2] {
    if length > MAX_BINS {
        return [Value::Null, Value::Null];
    }
    spread
        .dense(length)
        .map(|bytes| keyed([("bytes", Value::from(bytes))]))
}
