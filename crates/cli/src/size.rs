//! Parses and formats sizes.

use std::fmt;
use std::str::FromStr;

/// A number of bytes on the command line: `4096`, `64K`, `1.5G`, `2TiB`.
///
/// Suffixes are powers of 1024, in any case, with or without `iB`. `KB` and similar suffixes are
/// rejected because they are ambiguous.
///
/// ```
/// let size: cli::ByteSize = "1.5M".parse()?;
/// assert_eq!(size.bytes(), 1_572_864);
/// # Ok::<(), cli::ByteSizeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    /// Creates a size of this many bytes.
    pub const fn of(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// Reason why a size could not be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ByteSizeError {
    /// The text does not begin with a decimal number.
    Number,
    /// A suffix other than K, M, G, T, with or without `iB`.
    Suffix,
    /// More than 2^64 bytes.
    TooLarge,
}

impl fmt::Display for ByteSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "not a size: write a number with an optional K, M, G or T",
            Self::Suffix => "unknown unit: K, M, G and T are powers of 1024",
            Self::TooLarge => "too large: sizes are below 2^64 bytes",
        })
    }
}

impl std::error::Error for ByteSizeError {}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let text = text.trim();
        let digits = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let unit: u128 = match suffix.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            _ if number.is_empty() => return Err(ByteSizeError::Number),
            _ => return Err(ByteSizeError::Suffix),
        };
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        // Beyond twelve decimals nothing of a tebibyte is left.
        let part = part.get(..12).unwrap_or(part);
        let parse = |digits: &str| digits.parse::<u128>().map_err(|_| ByteSizeError::Number);
        let scale = 10_u128.pow(u32::try_from(part.len()).unwrap_or(0));
        let bytes = parse(whole)?
            .checked_mul(unit)
            .and_then(|bytes| bytes.checked_add(parse(part).ok()? * unit / scale));
        parse(part)?;
        bytes
            .and_then(|bytes| u64::try_from(bytes).ok())
            .map(Self)
            .ok_or(ByteSizeError::TooLarge)
    }
}

impl fmt::Display for ByteSize {
    /// Formats with one decimal and the largest unit that gives a number of at least 1.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        for (shift, unit) in units {
            let size = 1_u64 << shift;
            if self.0 >= size {
                let tenths = u128::from(self.0) * 10 / u128::from(size);
                return write!(f, "{}.{} {unit}", tenths / 10, tenths % 10);
            }
        }
        write!(f, "{} B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let of = |text: &str| text.parse::<ByteSize>().map(ByteSize::bytes);
        assert_eq!(of("0"), Ok(0));
        assert_eq!(of("4096"), Ok(4096));
        assert_eq!(of("64k"), Ok(65_536));
        assert_eq!(of("64 KiB"), Ok(65_536));
        assert_eq!(of("1.5G"), Ok(1_610_612_736));
        assert_eq!(of("0.000000000001T"), Ok(1));
        assert_eq!(of("2T"), Ok(2 << 40));
        assert_eq!(of("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(of("16777216T"), Err(ByteSizeError::TooLarge));
        assert_eq!(of("10KB"), Err(ByteSizeError::Suffix));
        for bad in ["", "G", "-1", "1.2.3", ".", "1.", "x", "\u{661}"] {
            assert_eq!(of(bad), Err(ByteSizeError::Number), "{bad:?}");
        }
    }

    #[test]
    fn shown_for_people() {
        assert_eq!(ByteSize(1023).to_string(), "1023 B");
        assert_eq!(ByteSize(1_610_612_736).to_string(), "1.5 GiB");
        assert_eq!(ByteSize(u64::MAX).to_string(), "16777215.9 TiB");
    }
}
