//! Sequentiality beyond the reference, and address against time.

use serde_json::{Map, Value, json};

use super::{keyed, row, text};
use blkio_parser::Symbols;
use blkio_parser::analyse::by_pid::ByPid;
use blkio_parser::analyse::heat::HeatMap;
use blkio_parser::analyse::sequential::{Class, Sequentiality};

/// Names of the classes, in their order.
const CLASSES: [&str; 3] = ["read", "write", "all"];
/// Maximum number of address bins and time bins of the scaled heat map.
const HEAT_BINS: (u64, u64) = (512, 1024);

fn share(class: &Class, count: u64) -> Option<f64> {
    (class.requests > 0).then(|| count as f64 / class.requests as f64)
}

/// Shares, runs and seeks by class.
pub(super) fn sequentiality(found: &Sequentiality) -> Value {
    let of = |class: &Class| {
        json!({
            "sequential_share": share(class, class.sequential),
            "multi_stream_share": share(class, class.multi_stream),
            "bytes_in_runs_of_8_and_more": class.bytes_in_long_runs,
            "strides_are_exact": !class.strides_are_approximate(),
            "runs_by_log2_length": keyed((0_u32..).zip(class.run_lengths).filter(|(_, count)| *count > 0)),
            "abs_seek_sectors_mean": class.seeks.mean(),
            "seek_bytes_cumulative_share": class.seek_curve().iter()
                .map(|(bytes, share)| json!([u64::try_from(*bytes).ok(), share])).collect::<Vec<Value>>(),
        })
    };
    keyed(CLASSES.iter().zip(&found.classes).map(|(n, c)| (*n, of(c))))
}

/// Returns the shares by process, most requests first; `None` where the trace names no processes.
pub(super) fn by_pid(found: &ByPid, symbols: &Symbols) -> Option<Value> {
    let pids = found.pids();
    if pids.is_empty() {
        return None;
    }
    let mut rows: Vec<(u64, u32, Value)> = pids
        .into_iter()
        .map(|(pid, of)| {
            let classes = CLASSES.iter().zip(&of.sequentiality.classes);
            let classes = classes.filter(|(_, class)| class.requests > 0);
            let mut map: Map<String, Value> = classes
                .map(|(name, class)| {
                    let value = json!({
                        "requests": class.requests,
                        "sequential_share": share(class, class.sequential),
                        "multi_stream_share": share(class, class.multi_stream),
                        "near_1mib_share": share(class, class.near),
                        "runs": class.runs,
                        "longest_run": class.longest_run,
                        "bytes_in_runs_of_8_and_more": class.bytes_in_long_runs,
                    });
                    ((*name).to_owned(), value)
                })
                .collect();
            map.insert("pid".into(), pid.into());
            map.insert("process".into(), text(symbols.comm_of(of.comm)).into());
            let [.., all] = &of.sequentiality.classes;
            (all.requests, pid, map.into())
        })
        .collect();
    rows.sort_by_key(|(requests, pid, _)| (std::cmp::Reverse(*requests), *pid));
    let rows: Vec<Value> = rows.into_iter().map(|(_, _, value)| value).collect();
    Some(json!({"pids": rows, "requests_of_other_pids": found.other_requests}))
}

/// Returns the bytes read and written by address and time, in bins wide enough that there are at most 512 by 1024 of them.
pub(super) fn heat(map: &HeatMap) -> Value {
    let scaled = crate::scaled_heat_map::scaled(map, HEAT_BINS.0, HEAT_BINS.1);
    let rows: Vec<Value> = scaled
        .rows
        .iter()
        .map(|(address, time, [read, write])| row([*address, *time, *read, *write]))
        .collect();
    keyed([
        ("address_bin_bytes", Value::from(scaled.address_bin_bytes)),
        ("time_bin_ns", scaled.time_bin_ns.into()),
        ("first_address_bin", scaled.first_address_bin.into()),
        ("rows_address_time_read_write", rows.into()),
    ])
}
