//! Ranges that the program marks within its steps.

use critical_path::Mark;
use rustc_hash::FxHashMap;
use trace_model::StrId;
use trace_model::kernel::{Activity, TraceIndex};
use trace_model::step_name::step_kind;

use crate::place_in_code::place_in_code;

/// Returns the outermost ranges within marked steps, other than the steps, ascending, and their names.
pub(crate) fn ranges_of(
    index: &TraceIndex<'_>,
    marks: &[Mark],
) -> (Vec<(i64, i64, u32)>, Vec<String>) {
    let trace = index.trace();
    let is_step = |name: &str| {
        let kind = step_kind(name);
        marks
            .iter()
            .take(64)
            .any(|mark| step_kind(&mark.name) == kind)
    };
    let mut steps: FxHashMap<StrId, bool> = FxHashMap::default();
    let mut places: FxHashMap<StrId, u32> = FxHashMap::default();
    let (mut all, mut names) = (Vec::new(), Vec::new());
    for slice in trace.slices() {
        if index.activity(slice) != Activity::UserAnnotation {
            continue;
        }
        let Some(name) = slice.name_id() else {
            continue;
        };
        if *steps
            .entry(name)
            .or_insert_with(|| is_step(trace.text(name)))
        {
            continue;
        }
        let place = *places.entry(name).or_insert_with(|| {
            names.push(place_in_code(trace.text(name)));
            u32::try_from(names.len() - 1).unwrap_or(u32::MAX)
        });
        all.push((slice.ts().nanos(), slice.end().nanos(), place));
    }
    all.sort_unstable_by_key(|(begin, end, place)| (*begin, std::cmp::Reverse(*end), *place));
    let mut last = i64::MIN;
    all.retain(|(begin, end, _)| {
        let is_outermost = *begin >= last && end > begin;
        if is_outermost {
            last = *end;
        }
        is_outermost
    });
    (all, names)
}
