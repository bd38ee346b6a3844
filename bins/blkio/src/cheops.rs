//! `blkio cheops25`.

use std::io::Write as _;

use blkio_parser::StatsOptions;
use blkio_report::cheops::{Figures, figure_2, figures_of_run};
use cli::{Outcome, ProgressLine};

use crate::args::CheopsArgs;
use crate::reading::{OrCode as _, write_json};

pub(crate) fn run(args: &CheopsArgs) -> anyhow::Result<Outcome> {
    let out = args.out.as_deref();
    let found = if args.figure == 2 {
        figure_2(&args.dir, args.compat, out)
    } else {
        let progress = ProgressLine::start("reading", args.verbosity);
        let mut options = StatsOptions::default();
        options.read.threads = args.input.threads().get();
        options.read.strict = args.input.strict;
        options.read.open = args.input.open_options(Some(progress.counter()));
        figures_of_run(&args.dir, args.figure, args.compat, options, out)
    };
    print(args, &found.or_code()?)
}

/// Prints the document, or how much each of the figures shows; each comes with the stem of its name.
fn print(args: &CheopsArgs, found: &Figures) -> anyhow::Result<Outcome> {
    let (document, figures) = (&found.document, &found.figures);
    let mut out = args.output.open()?;
    match args.format.format() {
        cli::Format::Json => {
            write_json(document, &mut out)?;
        }
        cli::Format::Csv => {
            // The name of the figure, then its own table.
            for (stem, figure) in figures {
                writeln!(out, "# {stem}-{}", figure.suffix)?;
                out.write_all(figure.to_csv().as_bytes())?;
            }
        }
        cli::Format::Text => {
            for (stem, figure) in figures {
                let points: usize = figure.curves.iter().map(|c| c.points.len()).sum();
                let rows = figure.table.as_ref().map_or(points, Vec::len);
                writeln!(out, "{stem}-{}: {rows} values", figure.suffix)?;
            }
            if let Some(line) = document["average_gpu_util_line"].as_str() {
                writeln!(out, "{line}")?;
            }
            for line in document["stdout_min_max"].as_array().into_iter().flatten() {
                writeln!(out, "{}", line.as_str().unwrap_or_default())?;
            }
        }
    }
    out.finish()?;
    for warning in &found.warnings {
        args.verbosity.note(format!("blkio: warning: {warning}"));
    }
    for what in &found.missing {
        args.verbosity.note(format!("blkio: missing: {what}"));
    }
    Ok(Outcome::Fine)
}
