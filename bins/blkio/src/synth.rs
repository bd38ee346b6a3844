//! `blkio synth`.

use std::io::Write as _;

use blkio_report::files::whole;
use blkio_synth::{Lines, Spec, write};
use cli::{OrExit as _, Outcome, Output};

use crate::args::SynthArgs;
use crate::reading::OrCode as _;

pub(crate) fn run(args: &SynthArgs) -> anyhow::Result<Outcome> {
    let mut spec = match &args.spec {
        None => Spec::default(),
        Some(path) => Spec::from_json(&whole(path).or_code()?)
            .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
            .or_exit(cli::Outcome::Unreadable)?,
    };
    if let Some(requests) = args.requests {
        spec.requests = requests;
    }
    let lines = if args.events {
        Lines::Events
    } else {
        Lines::Issue
    };
    let mut out = args.output.open()?;
    let truth = write(&spec, args.seed, lines, &mut out)?;
    out.finish()?;
    if let Some(path) = &args.truth {
        let mut out = Output::file(path)?;
        serde_json::to_writer_pretty(&mut out, &truth)?;
        writeln!(out)?;
        out.finish()?;
    }
    Ok(Outcome::Fine)
}
