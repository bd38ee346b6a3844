//! Writes documents where and as the command line says.

use byte_source::output::AtomicFile;
use cli::Output;
use trace_report::{Document, Error};

use crate::args::{ReportArgs, ReportFormat};

/// Destination of a document. It is opened before the trace is read, so that a wrong path fails at
/// once.
pub(crate) enum Destination {
    Stream(Output, ReportFormat),
    Parquet(AtomicFile),
}

impl Destination {
    pub(crate) fn open(args: &ReportArgs) -> anyhow::Result<Self> {
        let format = args.format.format();
        if format != ReportFormat::Parquet {
            return Ok(Self::Stream(args.output.open()?, format));
        }
        match &args.output.output {
            Some(path) if path.as_os_str() != "-" => Ok(Self::Parquet(AtomicFile::create(path)?)),
            _ => Err(cli::usage(
                "--format parquet needs --output FILE: Parquet is not written to standard output",
            )),
        }
    }

    /// Writes a document in the format of the destination.
    pub(crate) fn write(self, document: Document) -> anyhow::Result<()> {
        match self {
            Self::Parquet(mut file) => {
                document.write_parquet(&mut file)?;
                file.commit()?;
            }
            Self::Stream(mut out, format) => {
                match format {
                    ReportFormat::Json if cli::in_process::is_active() && out.is_stdout() => {
                        give(document);
                    }
                    ReportFormat::Json => document.write_json(&mut out)?,
                    ReportFormat::Csv => document.write_csv(&mut out)?,
                    ReportFormat::Md => document.write_markdown(&mut out)?,
                    ReportFormat::Text | ReportFormat::Parquet => {
                        document.write_text(cli::terminal::table_width(), &mut out)?;
                    }
                }
                out.finish()?;
            }
        }
        Ok(())
    }
}

/// Gives the tables of `--json`, and the answers in words, to the program that runs the tool.
pub(crate) fn give(document: Document) {
    let sentences = document.sentences().map(str::to_owned).collect();
    cli::in_process::give(document.version(), document.into_tables(), sentences);
}

/// Words an error for the command line, with its exit code.
pub(crate) fn explain(error: Error) -> anyhow::Error {
    match error {
        Error::NoStepChosen { all, side: None } => {
            anyhow::anyhow!("--step chooses none of the {all} steps, which count from 0")
        }
        Error::NoStepChosen {
            all,
            side: Some(side),
        } => cli::usage(format!(
            "--step chooses none of the {all} steps of {side}, which count from 0"
        )),
        Error::Window(error) => cli::usage(format!("--window: {error}")),
        Error::Roofline(roofline::Error::Config(error)) => cli::usage(format!("--model: {error}")),
        Error::Roofline(error) => cli::usage(error.to_string()),
        Error::NoSuchDevice { .. } => cli::usage(format!("{error} (--list-devices)")),
        Error::NoSuchSlice { .. }
        | Error::NoCommonSteps { .. }
        | Error::NothingToCompare { .. }
        | Error::NotOneJob(_)
        | Error::CriticalPath(_) => cli::cannot_answer(error.to_string()),
        Error::Table(error) => error.into(),
        Error::Dump(error) => error.into(),
        error => error.into(),
    }
}
