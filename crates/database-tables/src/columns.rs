//! Columns of any type of SQLite as Arrow arrays.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{BinaryBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_schema::DataType;
use sqlite_scan::Value;

/// Type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Int,
    Real,
    Text,
    Blob,
}

impl Kind {
    /// Returns the type of a declaration, by the rules of SQLite; `None` if it decides nothing.
    ///
    /// <https://www.sqlite.org/datatype3.html#determination_of_column_affinity>
    pub(crate) fn declared(declared: &str) -> Option<Self> {
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            Some(Self::Int)
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Some(Self::Text)
        } else if has("BLOB") {
            Some(Self::Blob)
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Some(Self::Real)
        } else {
            None
        }
    }

    /// Returns the type of a value; `None` for NULL.
    pub(crate) fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Null => None,
            Value::Int(_) => Some(Self::Int),
            Value::Real(_) => Some(Self::Real),
            Value::Text(_) => Some(Self::Text),
            Value::Blob(_) => Some(Self::Blob),
        }
    }

    /// Returns the type that holds the values of both.
    pub(crate) fn join(self, other: Self) -> Self {
        match (self, other) {
            (own, other) if own == other => own,
            // A column of reals stores whole numbers as integers.
            (Self::Int | Self::Real, Self::Int | Self::Real) => Self::Real,
            (Self::Blob, Self::Text) | (Self::Text, Self::Blob) => Self::Blob,
            _ => Self::Text,
        }
    }

    pub(crate) fn arrow(self) -> DataType {
        match self {
            Self::Int => DataType::Int64,
            Self::Real => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Blob => DataType::Binary,
        }
    }
}

/// Collects the values of a column.
#[derive(Debug)]
pub(crate) enum Builder {
    Int(Int64Builder),
    Real(Float64Builder),
    Text(StringBuilder),
    Blob(BinaryBuilder),
}

impl Builder {
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Int => Self::Int(Int64Builder::new()),
            Kind::Real => Self::Real(Float64Builder::new()),
            Kind::Text => Self::Text(StringBuilder::new()),
            Kind::Blob => Self::Blob(BinaryBuilder::new()),
        }
    }

    /// Appends a value and returns the number of its bytes; one that does not fit is null, and the result `None`.
    pub(crate) fn push(&mut self, value: Value<'_>) -> Option<usize> {
        match (&mut *self, value) {
            (Self::Int(builder), Value::Int(value)) => builder.append_value(value),
            (Self::Real(builder), Value::Real(value)) => builder.append_value(value),
            // As SQLite reads whole numbers of a column of reals.
            (Self::Real(builder), Value::Int(value)) => builder.append_value(value as f64),
            (Self::Text(builder), Value::Text(bytes) | Value::Blob(bytes)) => {
                builder.append_value(String::from_utf8_lossy(bytes));
                return Some(bytes.len());
            }
            (Self::Text(builder), Value::Int(value)) => builder.append_value(value.to_string()),
            (Self::Text(builder), Value::Real(value)) => builder.append_value(format!("{value:?}")),
            (Self::Blob(builder), Value::Text(bytes) | Value::Blob(bytes)) => {
                builder.append_value(bytes);
                return Some(bytes.len());
            }
            (own, value) => {
                own.null();
                return matches!(value, Value::Null).then_some(0);
            }
        }
        Some(8)
    }

    fn null(&mut self) {
        match self {
            Self::Int(builder) => builder.append_null(),
            Self::Real(builder) => builder.append_null(),
            Self::Text(builder) => builder.append_null(),
            Self::Blob(builder) => builder.append_null(),
        }
    }

    pub(crate) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::Real(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Blob(builder) => Arc::new(builder.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_have_the_affinity_of_sqlite() {
        for (declared, kind) in [
            ("INTEGER", Some(Kind::Int)),
            ("UNSIGNED BIG INT", Some(Kind::Int)),
            ("CHARINT", Some(Kind::Int)),
            ("VARCHAR", Some(Kind::Text)),
            ("BLOB", Some(Kind::Blob)),
            ("DOUBLE PRECISION", Some(Kind::Real)),
            ("", None),
            ("JSONB", None),
            ("NUMERIC", None),
        ] {
            assert_eq!(Kind::declared(declared), kind, "{declared}");
        }
        assert_eq!(Kind::Int.join(Kind::Real), Kind::Real);
        assert_eq!(Kind::Int.join(Kind::Text), Kind::Text);
        assert_eq!(Kind::Blob.join(Kind::Text), Kind::Blob);
    }

    #[test]
    fn values_that_do_not_fit_are_null() {
        let mut ints = Builder::new(Kind::Int);
        assert_eq!(ints.push(Value::Int(i64::MIN)), Some(8));
        assert_eq!(ints.push(Value::Null), Some(0));
        assert_eq!(ints.push(Value::Text(b"7")), None);
        let array = ints.finish();
        assert_eq!((array.len(), array.null_count()), (3, 2));
        let mut texts = Builder::new(Kind::Text);
        texts.push(Value::Text(b"a\xff"));
        texts.push(Value::Real(2.0));
        let array = texts.finish();
        let texts = array.as_any().downcast_ref::<arrow_array::StringArray>();
        let texts: Vec<Option<&str>> = texts.unwrap().iter().collect();
        assert_eq!(texts, [Some("a\u{fffd}"), Some("2.0")]);
    }
}
