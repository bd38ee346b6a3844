//! One value of a table.

use crate::column::Kind;

/// One value; text is borrowed, so a row costs no allocation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Cell<'a> {
    /// No value.
    #[default]
    Null,
    /// For an `Int` column.
    Int(i64),
    /// For a `UInt` column.
    UInt(u64),
    /// For a `Real` column.
    Real(f64),
    /// For a `Text` column.
    Text(&'a str),
    /// For a `Bool` column.
    Bool(bool),
}

impl Cell<'_> {
    /// Returns the kind of column this value belongs to; `None` for null, which fits every column.
    #[must_use]
    pub const fn kind(&self) -> Option<Kind> {
        match self {
            Self::Null => None,
            Self::Int(_) => Some(Kind::Int),
            Self::UInt(_) => Some(Kind::UInt),
            Self::Real(_) => Some(Kind::Real),
            Self::Text(_) => Some(Kind::Text),
            Self::Bool(_) => Some(Kind::Bool),
        }
    }
}

macro_rules! cell_from {
    ($($source:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$source> for Cell<'_> {
            fn from(value: $source) -> Self {
                Self::$variant(value.into())
            }
        }
    )+};
}

cell_from!(i32 => Int, i64 => Int, u8 => UInt, u16 => UInt, u32 => UInt, u64 => UInt, f64 => Real, bool => Bool);

impl From<usize> for Cell<'_> {
    fn from(value: usize) -> Self {
        Self::UInt(value as u64)
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a String> for Cell<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(value)
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
