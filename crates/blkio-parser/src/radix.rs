//! Sorting by digits: for numbers that spread over a known range this costs the same whatever their order, and much less
//! than comparing.

use crate::num::index;

/// Items from which on digits of eleven bits are worth their counts, which stay in the nearest cache; fewer have digits of
/// nine.
const MANY: usize = 1 << 13;

/// Sorts by numbers, keeping the order of equal ones; `other` is memory for it. Digits in which no number differs are free.
pub(crate) fn by_digits<T: Copy>(
    items: &mut Vec<T>,
    other: &mut Vec<T>,
    number: impl Fn(&T) -> u64,
) {
    let Some(first) = items.first().copied() else {
        return;
    };
    let mut differing = 0;
    let mut before = number(&first);
    let mut is_sorted = true;
    for item in &*items {
        let number = number(item);
        differing |= number ^ before;
        is_sorted &= before <= number;
        before = number;
    }
    if is_sorted {
        return;
    }
    other.clear();
    other.resize(items.len(), first);
    if items.len() < MANY {
        by_differing::<T, 9, 512>(items, other, differing, number);
    } else {
        by_differing::<T, 11, 2048>(items, other, differing, number);
    }
}

/// Sorts by digits of so many bits, of which there are so many, where the numbers have different bits.
fn by_differing<T: Copy, const BITS: u32, const DIGITS: usize>(
    items: &mut Vec<T>,
    other: &mut Vec<T>,
    differing: u64,
    number: impl Fn(&T) -> u64,
) {
    let mut shift = 0;
    while let Some(rest) = differing.checked_shr(shift).filter(|rest| *rest > 0) {
        shift += rest.trailing_zeros();
        let digit = |item: &T| index(number(item) >> shift) % DIGITS;
        let mut starts = [0_usize; DIGITS];
        for item in &*items {
            if let Some(count) = starts.get_mut(digit(item)) {
                *count += 1;
            }
        }
        let mut start = 0;
        for place in &mut starts {
            start += std::mem::replace(place, start);
        }
        for item in &*items {
            if let Some(place) = starts.get_mut(digit(item)) {
                if let Some(free) = other.get_mut(*place) {
                    *free = *item;
                }
                *place += 1;
            }
        }
        std::mem::swap(items, other);
        shift += BITS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_a_stable_sort(
            numbers in prop_oneof![
                prop::collection::vec(any::<u64>(), 0..200),
                prop::collection::vec(any::<u64>(), MANY..MANY + 9),
            ],
            mask in prop::sample::select(vec![u64::MAX, 7, 0xff << 56, 1 << 63 | 1 << 30, 0xfff << 20]),
        ) {
            let mut items: Vec<(u64, usize)> = numbers.iter().map(|n| n & mask).zip(0..).collect();
            let mut twin = items.clone();
            twin.sort_by_key(|(number, _)| *number);
            by_digits(&mut items, &mut Vec::new(), |(number, _)| *number);
            prop_assert_eq!(items, twin);
        }
    }
}
