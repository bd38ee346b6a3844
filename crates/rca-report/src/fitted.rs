//! Models of the steps of a serving engine that were fitted: what each is good for; and the steps that are watched with them.

use std::io::Write;

use rca_cycles::Phase;
use rca_cycles::sentinel::{GREATEST_ERROR, PhaseModel, Step};
use report::{JsonDocument, TextOptions, TextWriter, human};
use serde_json::Value;
use serving_logs::StepRow;

use crate::document::VERSION;
use crate::nanos;
use crate::watch::{Watched, alarm, episodes, model, rows, unknown_load, watched};

/// Number of steps from which on it is known what is usual.
const ENOUGH: usize = 200;

/// Returns the step that a row of a table, or a line of a log, states; its times are in ns.
///
/// ```
/// let mut row = serving_logs::StepRow::default();
/// (row.start_us, row.duration_us) = (2.5, 8000.0);
/// let step = rca_report::fitted::step(&row);
/// assert_eq!((step.start_ns, step.duration_ns), (2_500, 8_000_000.0));
/// ```
#[must_use]
pub fn step(row: &StepRow) -> Step {
    Step {
        start_ns: nanos(row.start_us),
        duration_ns: row.duration_us * 1000.0,
        phase: match row.prefill {
            true => Phase::Prefill,
            false => Phase::Decode,
        },
        batch: row.batch,
        input: row.input,
        output: row.output,
    }
}

/// Returns how well a model fits, and how often it gives a false alarm.
#[must_use]
pub fn sentence(model: &PhaseModel) -> String {
    let use_of = match model.is_usable() {
        true => {
            let apart = match model.held_out_alarm_steps() {
                0 => String::new(),
                1 => "; 1 stands out and counts for little".to_owned(),
                n => format!("; {n} stand out and count for little"),
            };
            format!("{apart}; a false alarm in {:.1} h", model.false_alarm_hours)
        }
        false => format!(
            "; {} of them alarm: no usable model, so no alarms for this phase",
            human::percent(model.held_out_alarms * 100.0)
        ),
    };
    format!(
        "{}: fitted to {} steps, half of the held-out steps within {}{use_of}",
        model.phase.name(),
        model.steps,
        human::percent(model.error * 100.0)
    )
}

/// Returns why none of the models is usable; `None` if one is.
#[must_use]
pub fn why_unusable(models: &[PhaseModel]) -> Option<String> {
    if models.iter().any(PhaseModel::is_usable) {
        return None;
    }
    let mut models = models.iter();
    let few = models.find(|model| model.error <= GREATEST_ERROR && model.steps < ENOUGH);
    Some(match few {
        Some(model) => format!(
            "too few steps to tell what is usual: {} of {} stand out; record at least {ENOUGH}",
            model.held_out_alarm_steps(),
            model.steps
        ),
        None => "no law of batch and lengths explains these steps, so no model is written: their durations follow something else, or \
                 the steps are not of one healthy system"
            .to_owned(),
    })
}

/// Writes models as a JSON document.
///
/// # Errors
///
/// Returns an error if `out` cannot be written.
pub fn write_models(models: &[PhaseModel], out: &mut dyn Write) -> report::Result<()> {
    let list: Vec<Value> = models.iter().map(model).collect();
    let mut document = JsonDocument::new(out, VERSION)?;
    document.member("models", &list)?;
    document.finish()?;
    Ok(())
}

/// Returns the number of steps that alarm.
#[must_use]
pub fn alarms(steps: &[Watched<'_>]) -> usize {
    steps.iter().filter(|step| alarm(step)).count()
}

/// Writes watched steps as a JSON document.
///
/// # Errors
///
/// Returns an error if `out` cannot be written.
pub fn write_json(steps: &[Watched<'_>], out: &mut dyn Write) -> report::Result<()> {
    let list: Vec<Value> = steps.iter().map(watched).collect();
    let mut document = JsonDocument::new(out, VERSION)?;
    document.member("alarms", &alarms(steps))?;
    document.member("steps", &list)?;
    document.finish()?;
    Ok(())
}

/// Writes watched steps as text: how many alarm, the episodes, and the steps that alarm.
///
/// # Errors
///
/// Returns an error if `out` cannot be written.
pub fn write_text(steps: &[Watched<'_>], out: &mut dyn Write) -> report::Result<()> {
    let known = steps.iter().filter(|step| step.1.is_some()).count();
    writeln!(out, "{} of {} steps alarm", alarms(steps), steps.len())?;
    if known < steps.len() {
        writeln!(
            out,
            "{} steps are of a phase without a usable model: no alarms given",
            steps.len() - known
        )?;
    }
    if let Some(line) = unknown_load(steps) {
        writeln!(out, "{line}")?;
    }
    for line in episodes(steps) {
        writeln!(out, "{line}")?;
    }
    let loud: Vec<Watched<'_>> = steps.iter().copied().filter(alarm).collect();
    if !loud.is_empty() {
        writeln!(out)?;
        rows(
            &loud,
            &mut TextWriter::new(&mut *out, TextOptions::default()),
        )?;
    }
    Ok(())
}
