//! `blkio stacks`.

use std::io::Write as _;
use std::path::Path;

use blkio_report::files::whole;
use blkio_report::stacks::{OwnRules, Stacks};
use cli::{OrExit as _, Outcome, Output};

use crate::args::StacksArgs;
use crate::reading::{OrCode as _, write_json};

fn own_rules(path: &Path) -> anyhow::Result<OwnRules> {
    let text = whole(path).or_code()?;
    OwnRules::parse(&String::from_utf8_lossy(&text))
        .map_err(|line| {
            anyhow::anyhow!(
                "{}: line {line}: a class without beginnings of function names",
                path.display()
            )
        })
        .or_exit(cli::Outcome::Unreadable)
}

pub(crate) fn run(args: &StacksArgs) -> anyhow::Result<Outcome> {
    let own = match &args.rules {
        None => OwnRules::default(),
        Some(path) => own_rules(path)?,
    };
    let found = Stacks::parse_with(&whole(&args.file).or_code()?, &own);
    if found.stacks.is_empty() {
        return Err(anyhow::anyhow!(
            "{}: no stacks: expected what bpftrace prints of a map of stacks, or a trace with call chains (perf script)",
            args.file.display()
        ))
        .or_exit(cli::Outcome::Unreadable);
    }
    if let Some(path) = &args.svg {
        let mut out = Output::file(path)?;
        out.write_all(found.flame_graph().as_bytes())?;
        out.finish()?;
    }
    if found.malformed > 0 {
        args.verbosity.note(format!(
            "blkio: warning: {}: entries that are cut or have no count, left out: {}",
            args.file.display(),
            found.malformed
        ));
    }
    let mut out = args.output.open()?;
    if args.folded {
        out.write_all(found.folded().as_bytes())?;
        out.finish()?;
        return Ok(Outcome::Fine);
    }
    match args.format.format() {
        cli::Format::Json => write_json(&found.document(), &mut out)?,
        cli::Format::Csv => found.write_csv(&mut out)?,
        cli::Format::Text => out.write_all(found.text().as_bytes())?,
    }
    out.finish()?;
    Ok(Outcome::Fine)
}
