//! `blkio fio`.

use std::io::Write as _;

use anyhow::Context as _;
use blkio_companions::fio::FioResult;
use blkio_parser::{AnalysisSet, Stats};
use blkio_report::files::whole;
use blkio_report::fio_check::{NOTE, fio_rows};
use blkio_report::recordings::name_of;
use blkio_report::{document, tables};
use cli::{OrExit as _, Outcome, ProgressLine};
use report::Column;
use serde_json::{Value, json};

use crate::args::FioArgs;
use crate::reading::{OrCode as _, stats_options, trace_files, warn, write_json};

/// Columns of fio's and the trace's totals.
const TOTALS: [&str; 4] = ["fio_ios", "fio_bytes", "trace_ios", "trace_bytes"];
const DIFFERENCES: [&str; 2] = ["difference_ios", "difference_bytes"];

fn difference(trace: u64, fio: u64) -> Option<i64> {
    i64::try_from(i128::from(trace) - i128::from(fio)).ok()
}

pub(crate) fn run(args: &FioArgs) -> anyhow::Result<Outcome> {
    let name = args.file.display().to_string();
    let result = FioResult::parse(&name, &whole(&args.file).or_code()?).or_code()?;
    let trace = trace_files(&args.traces, args.verbosity)?;
    let progress = ProgressLine::start("reading", args.verbosity);
    let mut options = stats_options(&trace, &args.trace, &args.input, &progress)?;
    options.wanted = AnalysisSet::TRAFFIC;
    let stats = Stats::of_files(&trace, &options)
        .or_code()
        .context("reading the trace")?;
    drop(progress);
    if stats.traffic.issues == 0 {
        return Err(anyhow::anyhow!(
            "no requests in {}, so there is nothing to lay beside fio's",
            name_of(&trace)
        ))
        .or_exit(cli::Outcome::Unreadable);
    }
    let rows = fio_rows(&result, &stats);
    let values = rows.map(|row| {
        json!({
            "what": row.what,
            "fio_ios": row.fio.0, "fio_bytes": row.fio.1,
            "trace_ios": row.trace.0, "trace_bytes": row.trace.1,
            "difference_ios": difference(row.trace.0, row.fio.0),
            "difference_bytes": difference(row.trace.1, row.fio.1),
        })
    });
    let mut out = args.output.open()?;
    match args.format.format() {
        cli::Format::Json => {
            let version = &result.version;
            let document =
                json!({"schema_version": 1, "fio_version": version, "rows": values, "note": NOTE});
            write_json(&document, &mut out)?;
        }
        cli::Format::Csv => {
            let mut columns = tables::named_columns(&["what"], &TOTALS);
            columns.extend(DIFFERENCES.map(Column::int));
            let rows = values.iter().map(|row| -> Vec<Value> {
                let keys = TOTALS.iter().chain(&DIFFERENCES);
                let cells = keys.map(|key| row[*key].clone());
                [row["what"].clone()].into_iter().chain(cells).collect()
            });
            tables::print_table(&mut out, report::Format::Csv, &columns, rows).or_code()?;
        }
        cli::Format::Text => {
            writeln!(
                out,
                "{:<36} {:>14} {:>14} {:>13}",
                "", "fio", "trace", "difference"
            )?;
            for row in rows {
                let (ios, bytes) = ((row.fio.0, row.trace.0), (row.fio.1, row.trace.1));
                for (what, (fio, trace)) in [(row.what, ios), ("  bytes", bytes)] {
                    let difference = i128::from(trace) - i128::from(fio);
                    writeln!(out, "{what:<36} {fio:>14} {trace:>14} {difference:>13}")?;
                }
            }
            writeln!(out, "{}", NOTE.replace("; ", ";\n"))?;
        }
    }
    out.finish()?;
    warn(&document::quality(&stats), args.verbosity);
    Ok(Outcome::Fine)
}
