//! Traffic over time in the bins that were asked for.

use serde_json::{Map, Value, json};

use super::{dense, keyed};
use blkio_parser::Stats;
use blkio_parser::analyse::spread::SpreadBins;
use blkio_parser::analyse::traffic::{Amount, Bins, DATA, MAX_BINS, REST};

/// Returns the requests by bin three times over: where they were issued, where they completed, and, of reads and writes, with their bytes
/// spread over the time in flight. All begin at the same time; each ends with its own last bin. Directions beside reads and
/// writes are there where the trace has them.
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
    let [rest_issued, rest_completed] = &traffic.rest_bins;
    let counted = |span: Option<u64>, bins: &[Bins; 2], rest: &[Bins; 5]| {
        let of = |of: &Bins| with_peak(of, dense(of, length(span)));
        let mut value = series(span, bins.each_ref().map(of));
        for (direction, bins) in REST.iter().zip(rest) {
            if !bins.finish().is_empty() {
                value[direction.name()] = of(bins);
            }
        }
        value
    };
    let issued = until(Some(traffic.last_issue_ns));
    let mut map = Map::new();
    map.insert(
        "issued_per_bin".into(),
        counted(issued, traffic.bins(), rest_issued),
    );
    let Some(completed) = until(traffic.last_complete_ns) else {
        return map;
    };
    let completed = Some(completed);
    map.insert(
        "completed_per_bin".into(),
        counted(completed, traffic.completed_bins(), rest_completed),
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

/// Returns a series with its fullest bins, the first of equal ones; of a series that is too long for a list, these alone.
fn with_peak(bins: &Bins, series: Value) -> Value {
    let mut map = match series {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let found = bins.finish();
    let most = |count: fn(&Amount) -> u64| {
        let fullest = found.iter().rev().max_by_key(|(_, amount)| count(amount));
        fullest.map(|(bin, amount)| (*bin, count(amount)))
    };
    let by_bytes =
        most(|amount| amount.bytes).map(|(bin, bytes)| json!({"bin": bin, "bytes": bytes}));
    let by_ios = most(|amount| amount.ios).map(|(bin, ios)| json!({"bin": bin, "ios": ios}));
    map.insert("peak_bytes".into(), by_bytes.into());
    map.insert("peak_ios".into(), by_ios.into());
    map.into()
}

fn in_flight(spread: &SpreadBins, length: u64) -> [Value; 2] {
    if length > MAX_BINS {
        return [Value::Null, Value::Null];
    }
    spread
        .dense(length)
        .map(|bytes| keyed([("bytes", Value::from(bytes))]))
}
