//! Writes the answer, and derives the exit code from it.

use std::io::Write as _;

use byte_source::output::AtomicFile;
use cli::{Outcome, Output};
use findings::{Confidence, Document, Finding, Shape, Side};

use crate::args::{FailOn, WhyCli};

/// Checks that no output replaces an input, or without `--force` an earlier result.
pub(crate) fn check(cli: &WhyCli) -> anyhow::Result<()> {
    let inputs = [
        &cli.question.paths,
        &cli.question.baseline,
        &cli.question.candidate,
    ];
    let files = [&cli.perfetto, &cli.output, &cli.speedscope];
    cli::refuse_overwrite(inputs.into_iter().flatten(), files.into_iter().flatten())?;
    let mut earlier = files.into_iter().flatten().filter(|path| path.is_file());
    match earlier.next() {
        Some(path) if !cli.force => Err(cli::usage(format!(
            "{}: exists already: name another file, or replace it with --force",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Writes the answer where it is asked for.
pub(crate) fn write(cli: &WhyCli, document: &Document) -> anyhow::Result<()> {
    // It may have been written while the recordings were read.
    check(cli)?;
    if let Some(path) = &cli.perfetto {
        let mut file = AtomicFile::create(path)?;
        perfetto_reader::write::write_trace(&findings::tracks(document)?, &mut file)?;
        file.commit()?;
    }
    if let Some(path) = &cli.output {
        let mut file = AtomicFile::create(path)?;
        file.write_all(pages::html(document).as_bytes())?;
        file.commit()?;
    }
    if let Some(path) = &cli.speedscope {
        let mut file = AtomicFile::create(path)?;
        let profile = findings::speedscope(document);
        file.write_all((profile.to_string() + "\n").as_bytes())?;
        file.commit()?;
    }
    if cli.json {
        let json = match cli.limit {
            Some(rows) => {
                let cut = document.clone().cut(rows.max(1), cli.after.as_deref());
                serde_json::to_string(&cut)?
            }
            None => serde_json::to_string(document)?,
        };
        return print(&(json + "\n"));
    }
    match cli.markdown {
        true => print(&pages::markdown(document)),
        false => print(&findings::text(document, cli::terminal::width())),
    }
}

pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = Output::stdout();
    out.write_all(text.as_bytes())?;
    out.finish()
}

/// Exit code of an answer that the recordings do not hold.
const CANNOT_SAY: u8 = 3;

pub(crate) fn outcome(cli: &WhyCli, document: &Document) -> Outcome {
    if document.answer.shape == Shape::CannotSay {
        return Outcome::Code(CANNOT_SAY);
    }
    let side = match document.comparison {
        Some(_) => Side::Candidate,
        None => Side::Only,
    };
    let own = document.findings.iter();
    let own = own.filter(|finding| finding.place.side == side);
    let is_cause = |finding: &&Finding| {
        let kind = findings::Catalogue::builtin().kind(&finding.kind);
        let is_cause = kind.is_some_and(|kind| kind.role == findings::KindRole::Cause);
        // A state of the steps has no cost.
        let has_cost = finding.cost_ns_per_affected_step.median > 0;
        is_cause && has_cost && finding.confidence >= Confidence::Likely
    };
    let met = cli.fail_on.iter().any(|condition| {
        own.clone().any(|finding| match condition {
            FailOn::Kind(kind) => finding.kind == *kind && finding.confidence >= Confidence::Likely,
            FailOn::Share(share) => is_cause(&finding) && finding.share_pct >= *share,
            FailOn::Cost(ns) => is_cause(&finding) && finding.cost_ns_per_step.median >= *ns,
        })
    });
    match met {
        true => Outcome::ConditionFailed,
        false => Outcome::Fine,
    }
}
