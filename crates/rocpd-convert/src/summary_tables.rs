//! A summary as tables: a table for each view, for all processes together and for each, and for domains.

use rocpd_db::{DomainRow, Process, Quantiles, SqlValue, Stat, Summary, SummaryRow};

use crate::extended::Put;
use crate::wide::Wide;

/// Columns of the reference.
const COLUMNS: [&str; 8] = [
    "Name",
    "Calls",
    "DURATION (nsec)",
    "AVERAGE (nsec)",
    "PERCENT (INC)",
    "MIN (nsec)",
    "MAX (nsec)",
    "STD_DEV",
];

/// Columns that `--extended` adds.
const EXTENDED: [&str; 8] = [
    "P50 (nsec)",
    "P90 (nsec)",
    "P95 (nsec)",
    "P99 (nsec)",
    "P99.9 (nsec)",
    "MAD (nsec)",
    "BYTES",
    "GB/s",
];

/// Which tables, and with which columns.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Adds tables by process.
    pub by_rank: bool,
    /// Adds tables of domains.
    pub domains: bool,
    /// Adds quantiles and bytes.
    pub extended: bool,
    /// The reference's numbers where ours are others.
    pub compat: bool,
}

/// Passes each table that is not empty to `put`, in order.
///
/// # Errors
///
/// Those of `put`.
pub fn each<E>(summary: &Summary<'_>, options: Options, put: &Put<'_, E>) -> Result<(), E> {
    let tables = Tables {
        options,
        processes: &summary.processes,
        put,
    };
    for view in &summary.views {
        let rows = view.overall();
        let word = file_word(&view.view);
        // The time of an allocation is that of a call: a rate of bytes over it is meaningless.
        let has_rate = view.view == "memory_copies";
        tables.rows(&format!("{word}_summary"), &rows, (false, has_rate))?;
        if options.by_rank {
            let rows = view.by_rank(&summary.processes);
            tables.rows(&format!("{word}_summary_by_rank"), &rows, (true, has_rate))?;
        }
    }
    if options.domains {
        tables.domains("domain_summary", &summary.domains(), false)?;
        if options.by_rank {
            tables.domains("domain_summary_by_rank", &summary.domains_by_rank(), true)?;
        }
    }
    Ok(())
}

/// Maximum length of the part of a file's name that comes from the data, in bytes.
const LONGEST_WORD: usize = 120;

/// Returns a domain as part of a file's name: domains are texts of the recording, and must not lead
/// to other folders.
fn file_word(domain: &str) -> String {
    let mut word = String::new();
    for c in domain.chars() {
        let c = match c {
            '/' | '\\' => '_',
            c if c.is_control() => '_',
            c => c,
        };
        if word.len() + c.len_utf8() > LONGEST_WORD {
            break;
        }
        word.push(c);
    }
    word
}

struct Tables<'a, 'p, E> {
    options: Options,
    processes: &'a [&'a Process],
    put: &'a Put<'p, E>,
}

/// A row under construction.
type Values<'v> = Vec<SqlValue<'v>>;

impl<E> Tables<'_, '_, E> {
    fn header(&self, by_rank: bool) -> Vec<&'static str> {
        let rank: &[&str] = if by_rank {
            &["ProcessID", "Hostname"]
        } else {
            &[]
        };
        let more: &[&str] = if self.options.extended {
            &EXTENDED
        } else {
            &[]
        };
        let guid: &[&str] = if self.options.extended && by_rank {
            &["Guid", "Rank"]
        } else {
            &[]
        };
        [rank, &COLUMNS, more, guid].concat()
    }

    fn process<'v>(&'v self, by_rank: bool, process: usize, values: &mut Values<'v>) {
        if by_rank && let Some(process) = self.processes.get(process) {
            values.push(SqlValue::Int(process.pid));
            values.push(SqlValue::Text(&process.hostname));
        }
    }

    fn process_after<'v>(&'v self, by_rank: bool, process: usize, values: &mut Values<'v>) {
        if by_rank
            && self.options.extended
            && let Some(process) = self.processes.get(process)
        {
            values.push(SqlValue::Text(&process.guid));
            values.push(process.rank.map_or(SqlValue::Null, SqlValue::Int));
        }
    }

    fn rows(
        &self,
        file: &str,
        rows: &[SummaryRow],
        (by_rank, has_rate): (bool, bool),
    ) -> Result<(), E> {
        let guid = |process: usize| self.processes.get(process).map(|p| p.guid.as_str());
        let total = |process: usize| -> i128 {
            rows.iter()
                .filter(|row| !by_rank || guid(row.process) == guid(process))
                .map(|row| row.stat.total_ns)
                .sum()
        };
        let wide = Wide::of(rows.iter().map(|row| [row.stat.total_ns, row.bytes]));
        let totals: Vec<i128> = (0..self.processes.len().max(1)).map(total).collect();
        self.write(file, by_rank, rows.len(), |at, values| {
            let Some(row) = rows.get(at) else { return };
            let whole = totals
                .get(if by_rank { row.process } else { 0 })
                .copied()
                .unwrap_or_default();
            self.process(by_rank, row.process, values);
            values.push(SqlValue::Text(&row.name));
            let stddev = row.stat.stddev_ns();
            numbers(
                (&row.stat, wide.value(at, 0)),
                row.stat.mean_ns(),
                row.stat.share_pct(whole),
                stddev,
                values,
            );
            if self.options.extended {
                let mut durations = row.durations_ns.clone();
                quantiles(&Quantiles::of(&mut durations), values);
                bytes(row, (wide.value(at, 1), has_rate), values);
            }
            self.process_after(by_rank, row.process, values);
        })
    }

    fn domains(&self, file: &str, rows: &[DomainRow], by_rank: bool) -> Result<(), E> {
        let wide = Wide::of(rows.iter().map(|row| [row.stat.total_ns, 0]));
        self.write(file, by_rank, rows.len(), |at, values| {
            let Some(row) = rows.get(at) else { return };
            self.process(by_rank, row.process, values);
            values.push(SqlValue::Text(&row.name));
            // The reference sums averages and deviations, which is meaningless.
            let (mean, stddev) = match self.options.compat {
                true => (row.sum_of_means_ns, row.sum_of_stddevs_ns),
                false => (row.stat.mean_ns(), row.stat.stddev_ns()),
            };
            let total = (&row.stat, wide.value(at, 0));
            numbers(total, mean, row.share_pct, stddev, values);
            if self.options.extended {
                quantiles(&row.quantiles.unwrap_or_default(), values);
                values.push(SqlValue::Null);
                values.push(SqlValue::Null);
            }
            self.process_after(by_rank, row.process, values);
        })
    }

    fn write<'v>(
        &'v self,
        file: &str,
        by_rank: bool,
        rows: usize,
        fill: impl Fn(usize, &mut Values<'v>),
    ) -> Result<(), E> {
        if rows == 0 {
            return Ok(());
        }
        let rows = (0..rows).map(|at| {
            let mut values = Vec::with_capacity(16);
            fill(at, &mut values);
            values
        });
        (self.put)(file, &self.header(by_rank), rows.collect())
    }
}

fn numbers<'v>(
    (stat, total): (&Stat, SqlValue<'v>),
    mean: f64,
    share: Option<f64>,
    stddev: Option<f64>,
    values: &mut Values<'v>,
) {
    values.push(SqlValue::Int(i64::try_from(stat.calls).unwrap_or(i64::MAX)));
    values.push(total);
    values.push(SqlValue::Real(mean));
    values.push(share.map_or(SqlValue::Null, SqlValue::Real));
    values.push(SqlValue::Int(stat.min_ns));
    values.push(SqlValue::Int(stat.max_ns));
    values.push(stddev.map_or(SqlValue::Null, SqlValue::Real));
}

fn quantiles(found: &Quantiles, values: &mut Values<'_>) {
    for value in [
        found.p50_ns,
        found.p90_ns,
        found.p95_ns,
        found.p99_ns,
        found.p999_ns,
        found.mad_ns,
    ] {
        values.push(SqlValue::Real(value));
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate is a ratio of reals")]
fn bytes<'v>(row: &SummaryRow, (sum, has_rate): (SqlValue<'v>, bool), values: &mut Values<'v>) {
    if row.bytes == 0 {
        values.extend([SqlValue::Null, SqlValue::Null]);
        return;
    }
    values.push(sum);
    // Bytes per nanosecond are gigabytes per second.
    values.push(match row.stat.total_ns {
        total if total <= 0 || !has_rate => SqlValue::Null,
        total => SqlValue::Real(row.bytes as f64 / total as f64),
    });
}
