//! Quantities that are not time: bytes, addresses, sectors, shares, and the unit vocabulary.

use std::fmt;

macro_rules! quantity {
    ($($(#[$doc:meta])* $name:ident($inner:ty) $suffix:literal)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{}", $suffix), self.0)
            }
        }
    )*};
}

quantity! {
    /// An amount of data in bytes.
    Bytes(u64) " B"
    /// A virtual or physical address.
    Addr(u64) ""
    /// A position on a block device in 512-byte sectors.
    Sector(u64) ""
    /// A part of a whole: 1 is all of it.
    Share(f64) ""
}

/// What a number counts. The unit fixes the suffix of machine-readable names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// A bare number.
    None,
    /// Nanoseconds.
    Nanos,
    /// Bytes.
    Bytes,
    /// Bytes in a second.
    BytesPerSecond,
    /// How many.
    Count,
    /// Hundredths.
    Percent,
    /// Hertz.
    Hertz,
    /// Watts.
    Watts,
    /// Degrees Celsius.
    Celsius,
}

impl Unit {
    /// The suffix of a column or key in this unit, for example `_ns`.
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

    /// The unit's name in Perfetto's counter tables.
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
