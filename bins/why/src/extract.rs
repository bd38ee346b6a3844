//! Cuts the step that a finding costs most out of its recording.

use std::path::Path;

use byte_source::output::AtomicFile;
use cli::{OrExit as _, Outcome};

use crate::args::ExtractCli;
use crate::found;

pub(crate) fn run(cli: ExtractCli) -> anyhow::Result<Outcome> {
    let question = &cli.question;
    let given = [&question.paths, &question.baseline, &question.candidate];
    cli::refuse_overwrite(given.into_iter().flatten(), [&cli.output])?;
    let mut file = AtomicFile::create(&cli.output)?;
    let document = why_input::answer(question, String::new())?;
    let finding = found(&document, &cli.id)?;
    let rank = finding.place.rank.or(document.answer.rank);
    let step = finding.place.steps.first();
    let steps = document.figures.steps.iter();
    let mut steps = steps.filter(|point| {
        point.side == finding.place.side && Some(point.rank) == rank && Some(&point.step) == step
    });
    let Some(point) = steps.next() else {
        return Err(anyhow::anyhow!("the finding names no step")).or_exit(Outcome::CannotAnswer);
    };
    // The recording of the rank, else that of the evidence.
    let files = document.scope.files.iter();
    let mut files = files.filter(|file| file.side == finding.place.side && file.problem.is_none());
    let name = finding
        .evidence
        .iter()
        .find_map(|evidence| evidence.file.as_deref());
    let name = match name {
        Some(name) => name.to_owned(),
        None => files
            .find(|file| file.rank == rank)
            .map(|file| file.name.clone())
            .ok_or_else(|| cli::cannot_answer("the finding names no recording"))?,
    };
    let input = trace_input::read(
        Path::new(&name),
        &question.input,
        question.verbosity,
        |options| {
            // Keeps times as recorded.
            options.snap_ns = 0;
        },
    )?;
    // Ranks other than the first are on a clock of their own: the margin covers what clocks differ by.
    let margin = point.duration_ns / 10;
    let window = (
        point.begin_ns.saturating_sub(margin),
        point
            .begin_ns
            .saturating_add(point.duration_ns)
            .saturating_add(margin),
    );
    let shift = document.clock_shift(&name);
    let window = (
        window.0.saturating_sub(shift),
        window.1.saturating_sub(shift),
    );
    let part = findings::cut_out(&input.trace, window)?;
    perfetto_reader::write::write_trace(&part, &mut file)?;
    file.commit()?;
    question.verbosity.note(format!(
        "step {} of {name}, with a tenth of its time on both sides",
        point.step
    ));
    Ok(Outcome::Fine)
}
