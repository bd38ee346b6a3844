//! What `rocpd summary --extended` writes besides.

use rocpd_db::{Filter, KernelNames, Process, RocpdSet, SqlValue, Summary};

use crate::args::{QueryFormat, SummaryArgs};
use crate::names::OutputNames;
use crate::tables::{self, Look};

pub(crate) fn write(
    set: &RocpdSet,
    filter: &Filter,
    summary: &Summary<'_>,
    args: &SummaryArgs,
    names: &OutputNames,
) -> anyhow::Result<()> {
    let put = |file: &str, columns: &[&str], rows: Vec<Vec<SqlValue<'_>>>| -> anyhow::Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let path = match args.format {
            QueryFormat::Console => std::path::PathBuf::new(),
            format => names.with(&format!("{file}.{}", tables::extension(format)))?,
        };
        let look = Look {
            heading: Some(file.to_ascii_uppercase()),
            ..Look::default()
        };
        let columns: Vec<String> = columns.iter().map(|&column| column.to_owned()).collect();
        let mut sink = tables::open(args.format, &columns, &path, &look)?;
        for row in rows {
            sink.row(&|column| row.get(column).copied().unwrap_or(SqlValue::Null))?;
        }
        sink.finish()
    };
    let int = |value: u64| SqlValue::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let kernel_names = KernelNames::from(&args.names);

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
    let rows = imbalance
        .iter()
        .map(|i| {
            let slowest = summary.processes.get(i.slowest);
            vec![
                SqlValue::Text(&i.name),
                int(i.processes as u64),
                SqlValue::Real(i.mean_ns),
                SqlValue::Int(i.max_ns),
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

    let outliers = rocpd_db::outliers(set, filter, kernel_names)?;
    let texts: Vec<String> = outliers
        .iter()
        .map(|o| {
            format!(
                "{:.1} times the median of its kernel, grid and workgroup",
                o.score_ratio()
            )
        })
        .collect();
    let rows = outliers
        .iter()
        .zip(&texts)
        .map(|(o, text)| {
            vec![
                SqlValue::Text("slow_dispatch"),
                SqlValue::Text(&o.process.guid),
                SqlValue::Int(o.id),
                SqlValue::Int(o.start_ns),
                SqlValue::Text(&o.name),
                SqlValue::Int(o.duration_ns),
                SqlValue::Real(o.expected_ns),
                SqlValue::Real(o.score),
                SqlValue::Text(text),
            ]
        })
        .collect();
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
