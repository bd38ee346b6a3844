//! Sums that may exceed 64 bits, as values of tables.

use rocpd_db::SqlValue;

/// Sums by row and column. Sums beyond 64 bits are texts of all their digits: no integer of the
/// formats holds them, and none is truncated.
#[derive(Debug)]
pub(crate) struct Wide(Vec<Vec<(i128, Option<String>)>>);

impl Wide {
    /// Takes the sums of each row.
    pub(crate) fn of<R: IntoIterator<Item = i128>>(rows: impl Iterator<Item = R>) -> Self {
        let text = |sum: i128| match i64::try_from(sum) {
            Ok(_) => (sum, None),
            Err(_) => (sum, Some(sum.to_string())),
        };
        Self(
            rows.map(|sums| sums.into_iter().map(text).collect())
                .collect(),
        )
    }

    /// Returns the sum of a row in a column; NULL where there is none.
    pub(crate) fn value(&self, row: usize, column: usize) -> SqlValue<'_> {
        match self.0.get(row).and_then(|sums| sums.get(column)) {
            Some((_, Some(text))) => SqlValue::Text(text),
            Some((sum, None)) => i64::try_from(*sum).map_or(SqlValue::Null, SqlValue::Int),
            None => SqlValue::Null,
        }
    }
}
