//! Tables beside a summary: busy times, launch latencies, imbalance of processes, exclusive times, live memory, outliers.

use std::collections::BTreeMap;

use rocpd_db::{Filter, KernelNames, Process, RocpdSet, SqlValue, Summary};

use crate::wide::Wide;

/// Receives a table: its name, columns and rows.
pub type Put<'p, E> = dyn Fn(&str, &[&str], Vec<Vec<SqlValue<'_>>>) -> Result<(), E> + 'p;

/// Passes each table that is not empty to `put`, in order. Cost: some passes over the records.
///
/// # Errors
///
/// A database that cannot be read, and those of `put`.
pub fn each<E: From<rocpd_db::Error>>(
    set: &RocpdSet,
    filter: &Filter,
    summary: &Summary<'_>,
    kernel_names: KernelNames,
    put: &Put<'_, E>,
) -> Result<(), E> {
    let put = |file: &str, columns: &[&str], rows: Vec<Vec<SqlValue<'_>>>| match rows.is_empty() {
        true => Ok(()),
        false => put(file, columns, rows),
    };
    let int = |value: u64| SqlValue::Int(i64::try_from(value).unwrap_or(i64::MAX));

    let busy = rocpd_db::busy(set, filter)?;
    let rows = busy
        .iter()
        .map(|b| {
            let mut row = process(b.process);
            row.extend([
                SqlValue::Int(b.agent),
                SqlValue::Text(b.kind),
                SqlValue::Int(b.sum_ns),
                SqlValue::Int(b.busy_ns),
                SqlValue::Int(b.wall_ns),
                SqlValue::Real(share(b.busy_ns, b.wall_ns)),
                int(b.gaps),
                SqlValue::Int(b.longest_gap_ns),
            ]);
            row
        })
        .collect();
    put(
        "busy_summary",
        &[
            "ProcessID",
            "Hostname",
            "Guid",
            "Agent",
            "Type",
            "SUM (nsec)",
            "BUSY (nsec)",
            "WALL (nsec)",
            "BUSY (%)",
            "Gaps",
            "LONGEST_GAP (nsec)",
        ],
        rows,
    )?;

    let latencies = rocpd_db::launch_latency(set, filter, kernel_names)?;
    let rows = latencies
        .iter()
        .map(|l| {
            let mut row = process(l.process);
            row.extend([
                SqlValue::Text(&l.name),
                int(l.stat.calls),
                SqlValue::Real(l.stat.mean_ns()),
                SqlValue::Int(l.stat.min_ns),
                SqlValue::Int(l.stat.max_ns),
                SqlValue::Real(l.quantiles.p50_ns),
                SqlValue::Real(l.quantiles.p99_ns),
            ]);
            row
        })
        .collect();
    put(
        "launch_latency_summary",
        &[
            "ProcessID",
            "Hostname",
            "Guid",
            "Name",
            "Calls",
            "AVERAGE (nsec)",
            "MIN (nsec)",
            "MAX (nsec)",
            "P50 (nsec)",
            "P99 (nsec)",
        ],
        rows,
    )?;

    let imbalance = summary.imbalance();
    let wide = Wide::of(imbalance.iter().map(|i| [i.max_ns]));
    let rows = imbalance
        .iter()
        .enumerate()
        .map(|(at, i)| {
            let slowest = summary.processes.get(i.slowest);
            vec![
                SqlValue::Text(&i.name),
                int(i.processes as u64),
                SqlValue::Real(i.mean_ns),
                wide.value(at, 0),
                SqlValue::Real(i.ratio),
                slowest.map_or(SqlValue::Null, |p| SqlValue::Int(p.pid)),
                slowest.map_or(SqlValue::Null, |p| SqlValue::Text(&p.hostname)),
            ]
        })
        .collect();
    put(
        "rank_imbalance_summary",
        &[
            "Name",
            "Processes",
            "MEAN (nsec)",
            "MAX (nsec)",
            "MAX/MEAN",
            "SlowestProcessID",
            "SlowestHostname",
        ],
        rows,
    )?;

    let exclusive = rocpd_db::exclusive(set, filter)?;
    let rows = exclusive
        .iter()
        .map(|e| {
            let mut row = process(e.process);
            row.extend([
                SqlValue::Text(e.domain),
                SqlValue::Text(&e.name),
                int(e.calls),
                SqlValue::Int(e.inclusive_ns),
                SqlValue::Int(e.exclusive_ns),
            ]);
            row
        })
        .collect();
    put(
        "exclusive_summary",
        &[
            "ProcessID",
            "Hostname",
            "Guid",
            "Domain",
            "Name",
            "Calls",
            "INCLUSIVE (nsec)",
            "EXCLUSIVE (nsec)",
        ],
        rows,
    )?;

    let memory = rocpd_db::live_memory(set, filter)?;
    let rows = memory
        .iter()
        .map(|m| {
            let mut row = process(m.process);
            row.extend([
                m.agent.map_or(SqlValue::Null, SqlValue::Int),
                SqlValue::Int(m.peak_bytes),
                SqlValue::Int(m.end_bytes),
                int(m.unfreed),
                SqlValue::Int(m.largest_unfreed_bytes),
                m.slope_bytes_per_s.map_or(SqlValue::Null, SqlValue::Real),
            ]);
            row
        })
        .collect();
    put(
        "live_memory_summary",
        &[
            "ProcessID",
            "Hostname",
            "Guid",
            "Agent",
            "PEAK (bytes)",
            "LIVE_AT_END (bytes)",
            "Unfreed",
            "LARGEST_UNFREED (bytes)",
            "SLOPE (bytes/s)",
        ],
        rows,
    )?;

    pivot(summary, &put)?;
    anomalies(set, filter, kernel_names, &put)
}

/// Writes kernels by process: the time of each on each process, and the imbalance.
fn pivot<E>(summary: &Summary<'_>, put: &Put<'_, E>) -> Result<(), E> {
    let Some(view) = summary.views.iter().find(|view| view.view == "kernels") else {
        return Ok(());
    };
    if summary.processes.len() < 2 {
        return Ok(());
    }
    let by_rank = view.by_rank(&summary.processes);
    let mut totals: BTreeMap<&str, Vec<i128>> = BTreeMap::new();
    for row in &by_rank {
        let list = totals
            .entry(&row.name)
            .or_insert_with(|| vec![0; summary.processes.len()]);
        if let Some(total) = list.get_mut(row.process) {
            *total = row.stat.total_ns;
        }
    }
    let heads: Vec<String> = summary
        .processes
        .iter()
        .map(|process| match process.rank {
            Some(rank) => format!("rank {rank} {}:{} (nsec)", process.hostname, process.pid),
            None => format!("{}:{} (nsec)", process.hostname, process.pid),
        })
        .collect();
    let mut columns = vec!["Name"];
    columns.extend(heads.iter().map(String::as_str));
    columns.push("MAX/MEAN");
    let mut totals: Vec<(&str, Vec<i128>, i128)> = totals
        .into_iter()
        .map(|(name, list)| {
            let sum = list.iter().sum();
            (name, list, sum)
        })
        .collect();
    totals.sort_by(|a, b| b.2.cmp(&a.2).then(a.0.cmp(b.0)));
    let wide = Wide::of(totals.iter().map(|(_, list, _)| list.iter().copied()));
    let rows = totals
        .iter()
        .enumerate()
        .map(|(at, (name, list, sum))| {
            let mut row = vec![SqlValue::Text(name)];
            row.extend((0..list.len()).map(|column| wide.value(at, column)));
            let most = list.iter().copied().max().unwrap_or(0);
            row.push(SqlValue::Real(uneven(most, *sum, list.len())));
            row
        })
        .collect();
    put("kernel_rank_pivot", &columns, rows)
}

/// Returns the maximum divided by the mean.
#[expect(clippy::cast_precision_loss, reason = "a ratio for display")]
fn uneven(most: i128, sum: i128, count: usize) -> f64 {
    if sum == 0 {
        return 1.0;
    }
    most as f64 * count as f64 / sum as f64
}

/// Writes outliers among similar dispatches, and level changes of steps.
fn anomalies<E: From<rocpd_db::Error>>(
    set: &RocpdSet,
    filter: &Filter,
    kernel_names: KernelNames,
    put: &Put<'_, E>,
) -> Result<(), E> {
    let outliers = rocpd_db::outliers(set, filter, kernel_names)?;
    let changes = rocpd_db::change_points(set, filter)?;
    let outlier_texts: Vec<String> = outliers
        .iter()
        .map(|o| {
            format!(
                "{:.1} times the median of its kernel, grid and workgroup",
                o.score_ratio()
            )
        })
        .collect();
    let change_texts: Vec<String> = changes
        .iter()
        .map(|c| {
            format!(
                "from here on {:.2} times the median before",
                c.after_ns / c.before_ns.max(1.0)
            )
        })
        .collect();
    let mut rows: Vec<Vec<SqlValue<'_>>> = Vec::new();
    for (o, text) in outliers.iter().zip(&outlier_texts) {
        rows.push(vec![
            SqlValue::Text("slow_dispatch"),
            SqlValue::Text(&o.process.guid),
            SqlValue::Int(o.id),
            SqlValue::Int(o.start_ns),
            SqlValue::Text(&o.name),
            SqlValue::Int(o.duration_ns),
            SqlValue::Real(o.expected_ns),
            SqlValue::Real(o.score),
            SqlValue::Text(text),
        ]);
    }
    for (c, text) in changes.iter().zip(&change_texts) {
        rows.push(vec![
            SqlValue::Text("step_change"),
            SqlValue::Text(&c.process.guid),
            SqlValue::Int(c.id),
            SqlValue::Int(c.start_ns),
            SqlValue::Text(&c.name),
            SqlValue::Real(c.after_ns),
            SqlValue::Real(c.before_ns),
            SqlValue::Real(c.score),
            SqlValue::Text(text),
        ]);
    }
    put(
        "anomalies",
        &[
            "Kind",
            "Guid",
            "Id",
            "TIME (nsec)",
            "Name",
            "VALUE (nsec)",
            "EXPECTED (nsec)",
            "Score",
            "Explanation",
        ],
        rows,
    )
}

fn process(process: &Process) -> Vec<SqlValue<'_>> {
    vec![
        SqlValue::Int(process.pid),
        SqlValue::Text(&process.hostname),
        SqlValue::Text(&process.guid),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "a share for display")]
fn share(part: i64, whole: i64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 * 100.0 / whole as f64
}
