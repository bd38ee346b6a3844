//! Units of numbers.

/// Unit of a number; it fixes the suffix of machine-readable names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// A bare number.
    None,
    /// Nanoseconds.
    Nanos,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Count.
    Count,
    /// Percent.
    Percent,
    /// Hertz.
    Hertz,
    /// Watts.
    Watts,
    /// Degrees Celsius.
    Celsius,
}

impl Unit {
    /// Returns the suffix of a column or key in this unit, for example `_ns`.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Nanos => "_ns",
            Self::Bytes => "_bytes",
            Self::BytesPerSecond => "_bytes_per_s",
            Self::Count => "_count",
            Self::Percent => "_pct",
            Self::Hertz => "_hz",
            Self::Watts => "_w",
            Self::Celsius => "_celsius",
        }
    }

    /// Returns the unit's name in Perfetto's counter tables.
    pub fn perfetto_name(self) -> &'static str {
        match self {
            Self::Nanos => "ns",
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::BytesPerSecond => "bytes/s",
            Self::Percent => "%",
            Self::Hertz => "Hz",
            Self::Watts => "W",
            Self::Celsius => "C",
            Self::None => "",
        }
    }
}
