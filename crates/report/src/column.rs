//! Columns: machine name, kind, unit, title and alignment.

use std::borrow::Cow;
use std::fmt;

use crate::error::{Error, Result};

/// What a column holds. A cell is of its column's kind or null.
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
    /// Lower-case name used in JSON documents: `int`, `uint`, `real`, `text`, `bool`.
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

/// Unit of the numbers of a column. Machine formats write the bare number, text for people scales it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Unit {
    /// A bare number: ids, timestamps, ratios.
    #[default]
    None,
    /// A span in nanoseconds.
    Nanos,
    /// A span in seconds.
    Seconds,
    /// A size in bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Percent: 12.5 means 12.5 %.
    Pct,
    /// A count of things.
    Count,
    /// Events per second.
    PerSecond,
}

impl Unit {
    /// Symbol written in machine-readable schemas; empty for [`Unit::None`].
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

/// How real numbers are written where digits matter: CSV, and text without human units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum RealFormat {
    /// Fewest digits that read back as the same number: `5`, `0.1`, `1e300`.
    #[default]
    Shortest,
    /// The same digits, always recognisable as a real, as Python prints them: `5.0`, `0.1`, `1e+300`.
    ShortestPoint,
    /// This many decimals, exactly rounded half to even: `%.6f` is `Fixed(6)`.
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

/// One column: what it holds and how it is shown.
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
    /// A column with a stable machine name that ends in its unit where it has one: `dur_ns`, `size_bytes`, `share_pct`.
    /// The title starts out equal to the name; numbers are flush right, the rest flush left.
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

    /// A column of `i64`.
    pub fn int(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Kind::Int)
    }

    /// A column of `u64`.
    pub fn uint(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Kind::UInt)
    }

    /// A column of `f64`.
    pub fn real(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Kind::Real)
    }

    /// A column of text.
    pub fn text(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Kind::Text)
    }

    /// A column of truth values.
    pub fn bool(name: impl Into<Cow<'static, str>>) -> Self {
        Self::new(name, Kind::Bool)
    }

    /// Sets the unit.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Sets the heading shown to people.
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

    /// Sets how reals are written in CSV and text. JSON and Parquet always keep every digit.
    #[must_use]
    pub fn reals(mut self, reals: RealFormat) -> Self {
        self.reals = Some(reals);
        self
    }

    /// Says that a column of text holds few different ones: Parquet has it as an Arrow dictionary, in which each stands once.
    #[must_use]
    pub fn repeating(mut self) -> Self {
        self.repeats = self.kind == Kind::Text;
        self
    }

    /// Whether it holds few different texts.
    #[must_use]
    pub fn is_repeating(&self) -> bool {
        self.repeats
    }

    /// Stable machine name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Heading shown to people.
    #[must_use]
    pub fn heading(&self) -> &str {
        &self.title
    }

    /// What the column holds.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Unit of its numbers.
    #[must_use]
    pub fn unit_of(&self) -> Unit {
        self.unit
    }

    /// Alignment in text.
    #[must_use]
    pub fn alignment(&self) -> Align {
        self.align
    }

    /// The real format asked for with [`Column::reals`], if any.
    #[must_use]
    pub fn real_format(&self) -> Option<RealFormat> {
        self.reals
    }
}

/// Refuses an empty set of columns and repeated machine names.
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
