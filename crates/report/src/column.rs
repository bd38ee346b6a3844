//! Columns: machine name, kind, unit, title and alignment.

use std::borrow::Cow;
use std::fmt;

use crate::error::{Error, Result};

/// Type of a column. A cell has its column's kind or is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `i64`.
    Int,
    /// `u64`.
    UInt,
    /// `f64`.
    Real,
    /// UTF-8 text.
    Text,
    /// `true` or `false`.
    Bool,
}

impl Kind {
    /// Returns the lower-case name used in JSON documents: `int`, `uint`, `real`, `text`, `bool`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::UInt => "uint",
            Self::Real => "real",
            Self::Text => "text",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Unit of the numbers of a column. Machine formats write the plain number, text output scales it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Unit {
    /// A bare number: ids, timestamps, ratios.
    #[default]
    None,
    /// A duration in nanoseconds.
    Nanos,
    /// A duration in seconds.
    Seconds,
    /// A size in bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Percent: 12.5 means 12.5 %.
    Pct,
    /// A count.
    Count,
    /// Events per second.
    PerSecond,
}

impl Unit {
    /// Returns the symbol written in machine-readable schemas; empty for [`Unit::None`].
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Nanos => "ns",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "bytes/s",
            Self::Pct => "%",
            Self::Count => "count",
            Self::PerSecond => "1/s",
        }
    }
}

/// Format of real numbers in CSV, and in text without human units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RealFormat {
    /// Fewest digits that read back as the same number: `5`, `0.1`, `1e300`.
    #[default]
    Shortest,
    /// The same digits, but always recognisable as a real, as Python prints them: `5.0`, `0.1`,
    /// `1e+300`.
    ShortestPoint,
    /// This many decimals, rounded half to even exactly: `%.6f` is `Fixed(6)`.
    Fixed(u8),
    /// 15 significant digits and always a point, as SQLite displays reals: `5.0`, `0.1`, `1.0e+300`.
    Significant15,
}

/// Horizontal alignment in text and HTML.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Align {
    /// Flush left.
    Left,
    /// Flush right.
    Right,
}

/// One column: its type and its presentation.
///
/// ```
/// use report::{Column, Kind, Unit};
/// let column = Column::uint("dur_ns").unit(Unit::Nanos).title("duration");
/// assert_eq!((column.name(), column.kind()), ("dur_ns", Kind::UInt));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    name: Cow<'static, str>,
    title: Cow<'static, str>,
    kind: Kind,
    unit: Unit,
    align: Align,
    reals: Option<RealFormat>,
    repeats: bool,
}

impl Column {
    /// Creates a column with a stable machine name that ends in its unit, if it has one: `dur_ns`,
    /// `size_bytes`, `share_pct`. The title is initially the name; numbers are right-aligned, other
    /// kinds left-aligned.
    pub fn new(name: impl Into<Cow<'static, str>>, kind: Kind) -> Self {
        let name = name.into();
        let align = match kind {
            Kind::Text | Kind::Bool => Align::Left,
            Kind::Int | Kind::UInt | Kind::Real => Align::Right,
        };
        Self {
            title: name.clone(),
            name,
            kind,
            unit: Unit::None,
            align,
            reals: None,
            repeats: false,
        }
    }

    /// Creates a column of `i64`.
    pub fn int(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Kind::Int)
    }

    /// Creates a column of `u64`.
    pub fn uint(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Kind::UInt)
    }

    /// Creates a column of `f64`.
    pub fn real(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Kind::Real)
    }

    /// Creates a column of text.
    pub fn text(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Kind::Text)
    }

    /// Creates a column of booleans.
    pub fn bool(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Kind::Bool)
    }

    /// Sets the unit.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Sets the heading of text output.
    #[must_use]
    pub fn title(mut self, title: impl Into<Cow<'static, str>>) -> Self {
        self.title = title.into();
        self
    }

    /// Sets the alignment.
    #[must_use]
    pub fn align(mut self, align: Align) -> Self {
        self.align = align;
        self
    }

    /// Sets the format of reals in CSV and text. JSON and Parquet always keep every digit.
    #[must_use]
    pub fn reals(mut self, reals: RealFormat) -> Self {
        self.reals = Some(reals);
        self
    }

    /// Marks a text column as having few distinct values: Parquet stores it as an Arrow dictionary,
    /// which contains each value once.
    #[must_use]
    pub fn repeating(mut self) -> Self {
        self.repeats = self.kind == Kind::Text;
        self
    }

    /// Returns `true` if the column has few distinct texts.
    #[must_use]
    pub fn is_repeating(&self) -> bool {
        self.repeats
    }

    /// Returns the stable machine name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the heading of text output.
    #[must_use]
    pub fn heading(&self) -> &str {
        &self.title
    }

    /// Returns the kind of the column.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the unit of its numbers.
    #[must_use]
    pub fn unit_of(&self) -> Unit {
        self.unit
    }

    /// Returns the alignment in text.
    #[must_use]
    pub fn alignment(&self) -> Align {
        self.align
    }

    /// Returns the real format set with [`Column::reals`], if any.
    #[must_use]
    pub fn real_format(&self) -> Option<RealFormat> {
        self.reals
    }
}

/// Rejects an empty set of columns and repeated machine names.
pub(crate) fn check_columns(columns: &[Column]) -> Result<()> {
    if columns.is_empty() {
        return Err(Error::NoColumns);
    }
    let mut names: Vec<&str> = columns.iter().map(Column::name).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Error::DuplicateColumn {
            name: pair[0].into(),
        }),
        None => Ok(()),
    }
}
