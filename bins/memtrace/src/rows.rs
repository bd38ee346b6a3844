//! The commands `parse`, `label`, `convert`: rows in, rows out.

use std::io::{self, BufWriter, Stdout, Write};

use byte_source::output::AtomicFile;
use cli::{Outcome, VerbosityArgs};
use memtrace_labeller::{
    Access, Compression, Names, ReadReport, TraceWriter, csv_header, push_csv_row, push_json_row,
};
use memtrace_run::{Processed, RowOutput, Steps, process, report_json};

use crate::args::RowsArgs;
use crate::input::{coded, refuse_nothing};

pub(crate) fn parse(args: &RowsArgs) -> anyhow::Result<Outcome> {
    let mut names = Names::new();
    let stream = args.read.open(&args.input, &mut names)?.stream;
    let mut steps = Steps::default();
    steps.store_symbols.clone_from(&args.read.store_symbols);
    write(args, stream, names, steps)
}

pub(crate) fn label(args: &RowsArgs) -> anyhow::Result<Outcome> {
    let mut names = Names::new();
    let stream = args.read.open(&args.input, &mut names)?.stream;
    let mut steps = args.label.steps(&args.read, stream.is_labelled())?;
    if let Some(label) = &mut steps.label {
        label.maps = false;
    }
    write(args, stream, names, steps)
}

/// Destination of rows, written by another thread: a file that appears whole or not at all, or
/// standard output.
enum Destination {
    File(AtomicFile),
    Stdout(BufWriter<Stdout>),
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(out) => out.flush(),
        }
    }
}

impl Destination {
    fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::File(file) => coded(file.commit()),
            Self::Stdout(mut out) => Ok(out.flush()?),
        }
    }
}

/// Writes rows as lines.
struct Lines<'a> {
    out: &'a mut Destination,
    push: fn(&Access, &Names, &mut Vec<u8>),
}

impl RowOutput for Lines<'_> {
    fn rows(&mut self, rows: &[Access], names: &Names) -> memtrace_run::Result<()> {
        let mut text = Vec::with_capacity(rows.len() * 256);
        for row in rows {
            (self.push)(row, names, &mut text);
        }
        self.out
            .write_all(&text)
            .map_err(|source| memtrace_run::Error::Io {
                name: "output".to_owned(),
                source,
            })
    }
}

fn write(
    args: &RowsArgs,
    stream: memtrace_labeller::RowStream,
    names: Names,
    steps: Steps,
) -> anyhow::Result<Outcome> {
    cli::refuse_overwrite([&args.input], [&args.output])?;
    let to_stdout = args.output.as_os_str() == "-";
    let mut out = if to_stdout {
        Destination::Stdout(BufWriter::new(io::stdout()))
    } else {
        Destination::File(coded(AtomicFile::create(&args.output))?)
    };
    let suffix = args.output.extension().and_then(|suffix| suffix.to_str());
    let processed = if suffix == Some("parquet") {
        let mut writer = TraceWriter::new(
            args.output.display().to_string(),
            &mut out,
            args.read.semantics(),
            Compression::Zstd,
        )
        .clock_step(stream.resolution_ns())
        .instruction_clock(stream.counts_instructions())
        .records(stream.records());
        let processed = coded(process(stream, names, steps, Some(&mut writer)))?;
        coded(writer.finish())?;
        processed
    } else {
        let mut lines = Lines {
            out: &mut out,
            push: push_json_row,
        };
        if suffix == Some("csv") {
            let hardware = args.read.compat.is_none();
            lines.out.write_all(csv_header(hardware).as_bytes())?;
            lines.push = if hardware {
                |row, names, out| push_csv_row(row, names, true, out)
            } else {
                |row, names, out| push_csv_row(row, names, false, out)
            };
        }
        coded(process(stream, names, steps, Some(&mut lines)))?
    };
    let Processed { report, .. } = processed;
    if args.json {
        cli::terminal::say(&report_json(&report).to_string());
    } else {
        tell(&report, args.read.verbosity);
    }
    refuse_nothing(&args.input, &report, &args.read)?;
    out.finish()?;
    Ok(outcome(&report, args.read.input.strict))
}

/// Reports skipped data.
pub(crate) fn tell(report: &ReadReport, verbosity: VerbosityArgs) {
    if let Some(note) = report.note {
        verbosity.note(note);
    }
    if report.lines == 0 && report.rows == 0 {
        verbosity.note("the input is empty: was the recording finished and copied completely?");
    }
    if report.skipped_total() == 0 && report.damage.is_empty() {
        verbosity.detail(|| format!("{} lines, {} rows", report.lines, report.rows));
        return;
    }
    let skipped: Vec<String> = report
        .skipped
        .iter()
        .map(|(reason, skipped)| {
            let first: Vec<String> = skipped.first.iter().map(u64::to_string).collect();
            format!(
                "{} {} (lines {})",
                skipped.count,
                reason.name(),
                first.join(", ")
            )
        })
        .collect();
    let mut line = format!(
        "{} lines, {} rows, skipped {}",
        report.lines,
        report.rows,
        report.skipped_total()
    );
    if !skipped.is_empty() {
        line.push_str(": ");
        line.push_str(&skipped.join(", "));
    }
    for damage in &report.damage {
        line.push_str("; ");
        line.push_str(damage);
    }
    if !report.is_complete() {
        verbosity.note(line);
    } else {
        verbosity.detail(|| line);
    }
}

/// Returns the outcome: with `--strict`, any missing data is a failure.
pub(crate) fn outcome(report: &ReadReport, strict: bool) -> Outcome {
    if strict && !report.is_complete() {
        Outcome::Unreadable
    } else {
        Outcome::Fine
    }
}
