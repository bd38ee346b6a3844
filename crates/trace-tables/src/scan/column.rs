//! Builds Arrow columns from values by row.

use std::sync::Arc;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
};
use trace_model::StrId;

use super::Recording;

pub(super) fn ints(rows: &[usize], value: impl Fn(usize) -> Option<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter(rows.iter().map(|row| value(*row))))
}

pub(super) fn reals(rows: &[usize], value: impl Fn(usize) -> Option<f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter(rows.iter().map(|row| value(*row))))
}

pub(super) fn flags(rows: &[usize], value: impl Fn(usize) -> Option<bool>) -> ArrayRef {
    Arc::new(BooleanArray::from_iter(rows.iter().map(|row| value(*row))))
}

/// Returns a column of texts with a dictionary of its own.
pub(super) fn texts<T: AsRef<str>>(rows: &[usize], value: impl Fn(usize) -> Option<T>) -> ArrayRef {
    let mut builder = StringDictionaryBuilder::<Int32Type>::new();
    for row in rows {
        builder.append_option(value(*row));
    }
    Arc::new(builder.finish())
}

/// Returns a column of strings of the trace. All such columns of a recording share one dictionary.
pub(super) fn names(
    recording: &Recording,
    rows: &[usize],
    value: impl Fn(usize) -> Option<StrId>,
) -> ArrayRef {
    let trace = &recording.trace;
    let Some(dictionary) = dictionary(recording) else {
        return texts(rows, |row| value(row).map(|id| trace.text(id)));
    };
    let keys = rows
        .iter()
        .map(|row| value(*row).and_then(|id| i32::try_from(id.index()).ok()));
    let keys = Int32Array::from_iter(keys);
    match DictionaryArray::try_new(keys, dictionary) {
        Ok(array) => Arc::new(array),
        Err(_) => texts(rows, |row| value(row).map(|id| trace.text(id))),
    }
}

/// Returns the strings of the trace; `None` if they are too many or too long for one dictionary.
fn dictionary(recording: &Recording) -> Option<ArrayRef> {
    let made = recording.names.get_or_init(|| {
        let strings = recording.trace.strings();
        let bytes: usize = strings.iter().map(|(_, text)| text.len()).sum();
        let fits = |count| i32::try_from(count).is_ok();
        (fits(strings.len()) && fits(bytes)).then(|| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(
                strings.iter().map(|(_, text)| text),
            ))
        })
    });
    made.clone()
}

/// Returns a column that every table has.
pub(super) fn common(recording: &Recording, name: &str, rows: usize) -> Option<ArrayRef> {
    let value = match name {
        "file_id" => Some(i64::from(recording.file_id)),
        "rank" => recording.rank.map(|rank| i64::from(rank.0)),
        _ => return None,
    };
    Some(Arc::new(Int64Array::from_iter(std::iter::repeat_n(
        value, rows,
    ))))
}

/// Returns a count as a signed number.
pub(super) fn count(value: impl TryInto<i64>) -> Option<i64> {
    Some(value.try_into().unwrap_or(i64::MAX))
}
