//! The unchanged JSON of a recording, with its periods and virtual events added.

use rca_cycles::compat::{PeriodMethod, Periods};
use serde_json::{Value, json};
use trace_model::Trace;

use crate::rows::stand_in;

/// The JSON has no list of events.
#[derive(Debug, thiserror::Error)]
#[error("no list of events in it")]
#[non_exhaustive]
pub struct NoEvents;

/// Adds the periods that each method found to the JSON of a recording, on tracks of their own, and the virtual events. `trace` is
/// the same recording.
///
/// ```
/// use rca_report::annotated::annotate;
/// use serde_json::json;
/// use trace_model::{FinishOptions, TraceBuilder};
///
/// let trace = TraceBuilder::new().finish(&FinishOptions::default())?;
/// let mut document = json!({"traceEvents": []});
/// assert!(annotate(&mut document, &trace, &[]).is_ok());
/// let error = annotate(&mut json!({}), &trace, &[]).unwrap_err();
/// assert_eq!(error.to_string(), "no list of events in it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Returns an error if the document has no list of events.
pub fn annotate(
    document: &mut Value,
    trace: &Trace,
    found: &[(PeriodMethod, Periods)],
) -> Result<(), NoEvents> {
    let list = match document {
        Value::Array(list) => list,
        Value::Object(map) => match map.get_mut("traceEvents") {
            Some(Value::Array(list)) => list,
            _ => return Err(NoEvents),
        },
        _ => return Err(NoEvents),
    };
    for (method, found) in found {
        add_periods(list, *method, found);
        let stand_ins = found.virtuals.iter();
        list.extend(stand_ins.map(|event| stand_in(trace, event)));
    }
    Ok(())
}

fn add_periods(list: &mut Vec<Value>, method: PeriodMethod, found: &Periods) {
    let mut ends: Vec<f64> = Vec::new();
    for period in &found.list {
        // Each goes on the first free track.
        let track = ends.iter().position(|end| *end <= period.start_us);
        let track = track.unwrap_or_else(|| {
            ends.push(period.end_us);
            ends.len() - 1
        });
        ends[track] = period.end_us;
        list.push(json!({
            "name": format!("period_{}_{}", period.kind, method.name()),
            "cat": "period_finder_results",
            "ph": "X",
            "pid": "Period Split Results",
            "tid": format!("Period Analysis ({}) Track {}", method.name(), track + 1),
            "ts": period.start_us,
            "dur": period.end_us - period.start_us,
            "args": {"count": period.count},
        }));
    }
}
