//! Conversions between number types, and ranks.

/// Converts an index; a value that does not fit cannot be allocated either.
#[inline]
pub fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Returns a hash of `bits` bits (1 to 64) that adjacent values rarely share: the first bits of a
/// product with an odd number near 2^64 divided by the golden ratio.
#[inline]
pub fn spread(value: u64, bits: u32) -> usize {
    index(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits))
}

/// Returns the low 32 bits: the counters of the traces are printed with, and wrap at, that width.
#[expect(
    clippy::cast_possible_truncation,
    reason = "keeping the low bits is the purpose"
)]
#[inline]
pub fn low32(value: u64) -> u32 {
    value as u32
}

/// Returns the low 8 bits.
#[expect(
    clippy::cast_possible_truncation,
    reason = "keeping the low bits is the purpose"
)]
#[inline]
pub fn low8(value: u64) -> u8 {
    value as u8
}

/// Returns the number of significant bits: 0 for 0, 1 for 1, 2 for 2 and 3, 3 for 4 to 7.
#[inline]
pub fn bit_length(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// Returns the whole part of a number that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and negative values become 0"
)]
pub fn whole(value: f64) -> u64 {
    value as u64
}
