//! Sizes of requests, in short.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::keyed;
use blkio_companions::num::bit_length;
use blkio_parser::Direction;
use blkio_parser::Stats;
use blkio_parser::analyse::traffic::Amount;
use stats::nearest_rank;

/// By direction, of requests with bytes: mean, median, the size most bytes have, the largest and how many have it, and shares
/// by powers of two. The largest tells the limit of the device or of the kernel (`max_sectors_kb`) where many have it.
pub(super) fn summary(totals: &BTreeMap<Direction, (Amount, BTreeMap<u32, u64>)>) -> Value {
    let known = totals.iter().filter(|(_, (amount, _))| amount.bytes > 0);
    keyed(known.map(|(direction, (amount, sizes))| (direction.name(), of(amount.bytes, sizes))))
}

/// Returns the requests by exact size in bytes, by operation letters.
pub(super) fn by_operation(stats: &Stats) -> Value {
    let symbols = &stats.outcome.symbols;
    let operations = symbols.rwbs_all().iter().zip(&stats.traffic.operations);
    let known = operations.filter(|(_, operation)| !operation.sizes.is_empty());
    keyed(known.map(|(rwbs, operation)| {
        let sizes: BTreeMap<u32, u64> = operation.sizes.iter().map(|(b, n)| (*b, *n)).collect();
        (rwbs, keyed(sizes))
    }))
}

fn of(bytes: u64, sizes: &BTreeMap<u32, u64>) -> Value {
    let sizes: Vec<(u64, u64)> = sizes
        .iter()
        .filter(|(size, _)| **size > 0)
        .map(|(size, count)| (u64::from(*size), *count))
        .collect();
    let requests: u64 = sizes.iter().map(|(_, count)| count).sum();
    let rank = nearest_rank(50.0, requests);
    let mut below = 0;
    let median = sizes.iter().find(|(_, count)| {
        below += count;
        below >= rank
    });
    let dominant = sizes.iter().max_by_key(|(size, count)| size * count);
    let mut classes: BTreeMap<u32, Amount> = BTreeMap::new();
    for (size, count) in &sizes {
        // Class k holds sizes above half of 2^k bytes and up to that.
        let class = bit_length(size - 1);
        classes.entry(class).or_default().add(Amount {
            ios: *count,
            bytes: size * count,
        });
    }
    let share = |part: u64| part as f64 / bytes as f64;
    json!({
        "mean": bytes as f64 / requests as f64,
        "p50": median.map(|(size, _)| size),
        "dominant": dominant.map(|(size, count)| json!({
            "bytes": size,
            "share_of_requests": *count as f64 / requests as f64,
            "share_of_bytes": share(size * count),
        })),
        "max": sizes.last().map(|(size, _)| size),
        "requests_of_max": sizes.last().map(|(_, count)| count),
        "up_to_bytes": keyed(classes.iter().map(|(class, amount)| {
            let value = json!({"ios": amount.ios, "bytes": amount.bytes, "share_of_bytes": share(amount.bytes)});
            (1_u64 << class, value)
        })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_short() {
        let sizes = BTreeMap::from([(0, 9), (512, 6), (4096, 3), (4608, 1), (131_072, 2)]);
        let found = of(3072 + 12_288 + 4608 + 262_144, &sizes);
        assert_eq!(
            (&found["p50"], &found["max"]),
            (&json!(512), &json!(131_072))
        );
        assert_eq!(found["mean"], 282_112.0 / 12.0);
        assert_eq!(found["dominant"]["bytes"], 131_072);
        assert_eq!(found["dominant"]["share_of_requests"], 2.0 / 12.0);
        let classes = found["up_to_bytes"].as_object().unwrap();
        let ios: Vec<(&str, u64)> = classes
            .iter()
            .map(|(class, of)| (class.as_str(), of["ios"].as_u64().unwrap()))
            .collect();
        assert_eq!(ios, [("512", 6), ("4096", 3), ("8192", 1), ("131072", 2)]);
    }
}
