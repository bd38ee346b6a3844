//! Steps that are watched: models as JSON, alarms as lines and documents, tables.

use rca_cycles::Phase;
use rca_cycles::sentinel::{Event, NOMINAL_STEP_LIMIT, PhaseModel, Seen, Step, nominal_limits};
use report::{Cell, Column, RowSink, Unit, human};
use serde_json::{Value, json};

/// A step, with the result of the watch if its phase has a model.
pub type Watched<'s> = (&'s Step, Option<Seen>);

/// Returns `true` if a step alarms.
#[must_use]
pub fn alarm((_, seen): &Watched<'_>) -> bool {
    seen.is_some_and(|s| s.alarm)
}

/// Returns how many steps have a workload outside of the model's data, and how long these took.
#[must_use]
pub fn unknown_load(seen: &[Watched<'_>]) -> Option<String> {
    let outside = seen.iter().filter_map(|(step, seen)| {
        let seen = seen.filter(|s| s.out_of_support)?;
        Some(step.duration_ns / seen.expected_ns)
    });
    let mut ratios: Vec<f64> = outside.collect();
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.get(ratios.len() / 2)?;
    let steps = |n: usize| human::count(i64::try_from(n).unwrap_or(i64::MAX));
    Some(format!(
        "{} of {} steps have a workload that the model was not fitted to: no alarms given; their\nmedian is {} of what the model extrapolates; fit it to such steps to watch them",
        steps(ratios.len()),
        steps(seen.len()),
        human::percent(middle * 100.0)
    ))
}

/// Returns a sentence for each stretch of steps that alarm, the longest first: how much slower than expected, from where to where.
#[must_use]
pub fn episodes(seen: &[Watched<'_>]) -> Vec<String> {
    /// Stretches that are told, and quiet steps that a stretch may hold.
    const SHOWN: usize = 3;
    const QUIET: usize = 8;
    let loud = seen.iter().enumerate().filter(|(_, one)| alarm(one));
    let mut stretches: Vec<Vec<usize>> = Vec::new();
    for (at, _) in loud {
        match stretches.last_mut() {
            Some(own) if own.last().is_some_and(|last| at - last <= QUIET) => own.push(at),
            _ => stretches.push(vec![at]),
        }
    }
    let all = stretches.len();
    stretches.sort_by_key(|own| (std::cmp::Reverse(own.len()), own[0]));
    let told = stretches.iter().take(SHOWN).map(|own| {
        let ratio = |at: &usize| {
            let (step, one) = &seen[*at];
            one.map_or(1.0, |one| step.duration_ns / one.expected_ns)
        };
        let mut ratios: Vec<f64> = own.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let by = (ratios[ratios.len() / 2] - 1.0) * 100.0;
        let how = if by >= 0.0 { "slower" } else { "faster" };
        let (first, last) = (own[0], own[own.len() - 1]);
        let start = |at: usize| {
            #[expect(clippy::cast_precision_loss, reason = "shown")]
            let since = (seen[at].0.start_ns - seen[0].0.start_ns) as f64;
            human::duration(since)
        };
        format!(
            "{} {how} than expected in steps {} to {}, from {} to {} after the first",
            human::percent(by.abs()),
            first + 1,
            last + 1,
            start(first),
            start(last)
        )
    });
    let mut told: Vec<String> = told.collect();
    if all > SHOWN {
        told.push(format!("{} more such stretches", all - SHOWN));
    }
    told
}

/// Returns the line of an alarm that begins or ends.
#[must_use]
pub fn said(event: Event, step: &Step, seen: &Seen) -> String {
    let times = format!(
        "{} step of {:.0} requests took {}, {} expected",
        step.phase.name(),
        step.batch,
        human::duration(step.duration_ns),
        human::duration(seen.expected_ns)
    );
    match event {
        Event::Begins => format!("alarm: {times} ({:+.1} standard deviations)", seen.z),
        Event::Ends => format!("alarm ended: {times}"),
    }
}

/// Returns the same for programs.
#[must_use]
pub fn told(event: Event, step: &Step, seen: &Seen) -> String {
    json!({
        "event": match event { Event::Begins => "alarm", Event::Ends => "recovered" },
        "text": said(event, step, seen),
        "step": watched(&(step, Some(*seen))),
    })
    .to_string()
}

/// Returns a step with the result of the watch as JSON.
#[must_use]
pub fn watched((s, seen): &Watched<'_>) -> Value {
    json!({
        "start_ns": s.start_ns,
        "phase": s.phase.name(),
        "duration_ns": s.duration_ns,
        "expected_ns": seen.map(|s| s.expected_ns),
        "band_ns": seen.map(|s| [s.band_ns.0, s.band_ns.1]),
        "z": seen.map(|s| s.z),
        "ewma": seen.map(|s| s.ewma),
        "cusum": seen.map(|s| s.cusum),
        "out_of_support": seen.map(|s| s.out_of_support),
        "alarm": seen.is_some_and(|s| s.alarm),
    })
}

/// Writes a row for each step.
///
/// # Errors
///
/// Those of `sink`.
pub fn rows(list: &[Watched<'_>], sink: &mut dyn RowSink) -> Result<(), report::Error> {
    let time = |name, title| Column::real(name).unit(Unit::Nanos).title(title);
    sink.begin(&[
        Column::int("start_ns"),
        Column::text("phase"),
        time("duration_ns", "took"),
        time("expected_ns", "expected"),
        time("band_low_ns", "from"),
        time("band_high_ns", "to"),
        Column::real("z"),
        Column::real("ewma"),
        Column::real("cusum"),
        Column::bool("out_of_support").title("unknown load"),
        Column::bool("alarm"),
    ])?;
    for (s, seen) in list {
        let real = |of: fn(&Seen) -> f64| Cell::from(seen.as_ref().map(of));
        sink.row(&[
            Cell::from(s.start_ns),
            Cell::from(s.phase.name()),
            Cell::from(s.duration_ns),
            real(|s| s.expected_ns),
            real(|s| s.band_ns.0),
            real(|s| s.band_ns.1),
            real(|s| s.z),
            real(|s| s.ewma),
            real(|s| s.cusum),
            Cell::from(seen.map(|s| s.out_of_support)),
            Cell::from(seen.is_some_and(|s| s.alarm)),
        ])?;
    }
    sink.finish()
}

/// Returns a model as JSON.
#[must_use]
pub fn model(m: &PhaseModel) -> Value {
    json!({
        "phase": m.phase.name(),
        "coefficients_ns": m.coefficients,
        "support": m.support.map(|s| [s.0, s.1]),
        "residual_centre": m.centre,
        "residual_spread": m.spread,
        "residual_band": [m.band.0, m.band.1],
        "held_out_error": m.error,
        "usable": m.is_usable(),
        "ewma_limit": m.limits.0,
        "cusum_limit": m.limits.1,
        "step_limit": m.step_limit,
        "steps": m.steps,
        "false_alarm_steps": m.false_alarm_steps,
        "false_alarm_hours": m.false_alarm_hours,
        "held_out_alarms": m.held_out_alarms,
    })
}

/// Why a file holds no models.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The text is not JSON.
    #[error("{0}; expected the JSON that `sentinel fit` writes")]
    Json(String),
    /// A member is missing, or of another type.
    #[error("{0} is missing; expected the JSON that `sentinel fit` writes")]
    Missing(&'static str),
    /// There is no such phase.
    #[error("phase {0:?} has no model")]
    Phase(String),
}

/// Parses the models of a document with [`model`]s in its member `models`.
///
/// # Errors
///
/// The text is not such a document.
pub fn models(text: &str) -> Result<Vec<PhaseModel>, ModelError> {
    let document: Value =
        serde_json::from_str(text).map_err(|error| ModelError::Json(error.to_string()))?;
    let list = document["models"].as_array();
    let list = list.ok_or(ModelError::Missing("the list `models`"))?;
    // Files of earlier versions do not state their limits, which were these.
    let nominal = nominal_limits(1e5);
    list.iter()
        .map(|m| {
            let real = |v: &Value| v.as_f64().ok_or(ModelError::Missing("a number"));
            let pair =
                |v: &Value| -> Result<(f64, f64), ModelError> { Ok((real(&v[0])?, real(&v[1])?)) };
            let c = &m["coefficients_ns"];
            let s = &m["support"];
            Ok(PhaseModel {
                phase: match m["phase"].as_str() {
                    Some("prefill") => Phase::Prefill,
                    Some("decode") => Phase::Decode,
                    Some("mixed") => Phase::Mixed,
                    other => {
                        return Err(ModelError::Phase(other.unwrap_or("").to_owned()));
                    }
                },
                coefficients: [real(&c[0])?, real(&c[1])?, real(&c[2])?],
                support: [pair(&s[0])?, pair(&s[1])?, pair(&s[2])?],
                centre: real(&m["residual_centre"])?,
                spread: real(&m["residual_spread"])?,
                band: pair(&m["residual_band"])?,
                error: real(&m["held_out_error"])?,
                limits: (
                    m["ewma_limit"].as_f64().unwrap_or(nominal.0),
                    m["cusum_limit"].as_f64().unwrap_or(nominal.1),
                ),
                step_limit: m["step_limit"].as_f64().unwrap_or(NOMINAL_STEP_LIMIT),
                steps: m["steps"]
                    .as_u64()
                    .and_then(|n| usize::try_from(n).ok())
                    .unwrap_or(0),
                false_alarm_steps: m["false_alarm_steps"].as_f64().unwrap_or(1e5),
                false_alarm_hours: m["false_alarm_hours"].as_f64().unwrap_or(0.0),
                held_out_alarms: m["held_out_alarms"].as_f64().unwrap_or(0.0),
            })
        })
        .collect()
}
