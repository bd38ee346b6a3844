//! Marks at positions, and how many are behind one.
//!
//! Marks are bits with counts per 64, 4,096 and 262,144, so that marking touches four places, and counting reads a word, a
//! line of bytes and a line or four of counts.

/// Marks at positions, and their number behind one.
#[derive(Debug, Clone)]
pub(super) struct Marks {
    bits: Vec<u64>,
    /// Marks per word, by group of 64 words.
    words: Vec<[u8; 64]>,
    /// Marks per group, by region of 64 groups.
    groups: Vec<[u32; 64]>,
    /// Marks per region.
    regions: Vec<u32>,
}

impl Marks {
    pub(super) fn new(positions: usize) -> Self {
        Self {
            bits: vec![0; positions.div_ceil(64)],
            words: vec![[0; 64]; positions.div_ceil(1 << 12)],
            groups: vec![[0; 64]; positions.div_ceil(1 << 18)],
            regions: vec![0; positions.div_ceil(1 << 18)],
        }
    }

    pub(super) fn positions(&self) -> usize {
        self.bits.len() * 64
    }

    /// Marks `count` positions from `from` on, which are not marked.
    pub(super) fn set(&mut self, from: usize, count: usize) {
        self.words_of(from, count, |marks, word, mask, many| {
            if let Some(bits) = marks.bits.get_mut(word) {
                *bits |= mask;
            }
            if let Some(count) = marks.of_word(word) {
                *count += many;
            }
            if let Some(count) = marks.of_group(word >> 6) {
                *count += u32::from(many);
            }
            if let Some(count) = marks.regions.get_mut(word >> 12) {
                *count += u32::from(many);
            }
        });
    }

    /// Takes the marks of `count` positions from `from` on, which are all marked.
    pub(super) fn clear(&mut self, from: usize, count: usize) {
        self.words_of(from, count, |marks, word, mask, many| {
            if let Some(bits) = marks.bits.get_mut(word) {
                *bits &= !mask;
            }
            if let Some(count) = marks.of_word(word) {
                *count -= many;
            }
            if let Some(count) = marks.of_group(word >> 6) {
                *count -= u32::from(many);
            }
            if let Some(count) = marks.regions.get_mut(word >> 12) {
                *count -= u32::from(many);
            }
        });
    }

    fn of_word(&mut self, word: usize) -> Option<&mut u8> {
        self.words.get_mut(word >> 6)?.get_mut(word & 63)
    }

    fn of_group(&mut self, group: usize) -> Option<&mut u32> {
        self.groups.get_mut(group >> 6)?.get_mut(group & 63)
    }

    /// Calls `change` for each word of a range, with the bits in it and their number.
    #[inline]
    fn words_of(&mut self, from: usize, count: usize, change: impl Fn(&mut Self, usize, u64, u8)) {
        let mut at = from;
        let end = from + count;
        while at < end {
            let stop = end.min((at | 63) + 1);
            let many = stop - at;
            let mask = (u64::MAX >> (64 - many)) << (at & 63);
            change(self, at >> 6, mask, u8::try_from(many).unwrap_or(64));
            at = stop;
        }
    }

    /// Looks at what the marks behind a position are counted from, so that it is near the processor afterwards; gives something
    /// that depends on it.
    #[inline]
    pub(super) fn fetch(&self, position: usize) -> u64 {
        let word = position >> 6;
        let bits = self.bits.get(word).copied().unwrap_or(0);
        let words = self.words.get(word >> 6);
        let groups = self.groups.get(word >> 12);
        bits ^ words.map_or(0, |counts| counts[0].into())
            ^ groups.map_or(0, |counts| counts[0].into())
    }

    /// Marks behind a position.
    #[inline(never)]
    pub(super) fn behind(&self, position: usize) -> u64 {
        let (word, group, region) = (position >> 6, position >> 12, position >> 18);
        let in_word = self.bits.get(word).map_or(0, |bits| {
            // Two shifts, because one by 64 is none.
            (bits >> (position & 63) >> 1).count_ones()
        });
        let words = self.words.get(group).unwrap_or(&[0; 64]);
        let in_group = bytes_behind(words, word & 63);
        let groups = self.groups.get(region).unwrap_or(&[0; 64]);
        let in_region = counts_behind(groups, group & 63);
        let in_rest: u32 = self
            .regions
            .get(region + 1..)
            .unwrap_or_default()
            .iter()
            .sum();
        u64::from(in_word) + in_group + in_region + u64::from(in_rest)
    }
}

/// For each place of a line of bytes, the bytes behind it.
static BEHIND: [[u64; 8]; 64] = {
    let mut masks = [[0; 8]; 64];
    let mut place = 0;
    while place < 64 {
        let mut at = place + 1;
        while at < 64 {
            masks[place][at / 8] |= 0xff << (8 * (at % 8));
            at += 1;
        }
        place += 1;
    }
    masks
};

/// The sum of the counts behind a place, each at most 64: eight at a time, in pairs, of which no sum passes 16 bits.
#[inline]
fn bytes_behind(counts: &[u8; 64], place: usize) -> u64 {
    const LOW: u64 = 0x00ff_00ff_00ff_00ff;
    let (eights, _) = counts.as_chunks::<8>();
    let mut sums = 0;
    for (eight, behind) in eights.iter().zip(BEHIND.get(place).unwrap_or(&[0; 8])) {
        let eight = u64::from_le_bytes(*eight) & behind;
        sums += (eight & LOW) + (eight >> 8 & LOW);
    }
    sums.wrapping_mul(0x0001_0001_0001_0001) >> 48
}

/// The sum of the counts behind a place, four at a time.
#[inline]
fn counts_behind(counts: &[u32; 64], place: usize) -> u64 {
    let (fours, _) = counts.as_chunks::<4>();
    let (before, behind) = fours.split_at((place / 4 + 1).min(fours.len()));
    let [mut a, mut b, mut c, mut d] = [0; 4];
    for four in behind {
        a += four[0];
        b += four[1];
        c += four[2];
        d += four[3];
    }
    let own = before.last().copied().unwrap_or_default();
    let rest = match place % 4 {
        0 => own[1] + own[2] + own[3],
        1 => own[2] + own[3],
        2 => own[3],
        _ => 0,
    };
    u64::from(a + b + c + d + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_counted_across_all_levels() {
        let mut marks = Marks::new(1 << 20);
        let places: Vec<usize> = (0..1 << 20).step_by(37).collect();
        places.iter().for_each(|place| marks.set(*place, 1));
        for place in [0, 63, 64, 4095, 4096, (1 << 18) - 1, 1 << 18, (1 << 20) - 1] {
            let twin = places.iter().filter(|p| **p > place).count();
            assert_eq!(marks.behind(place), twin as u64, "{place}");
        }
    }

    #[test]
    fn marks_of_a_range_are_set_and_taken_as_one_by_one() {
        let ranges = [
            (0, 1),
            (3, 61),
            (64, 64),
            (130, 700),
            (4090, 10),
            (1 << 18, 1),
        ];
        let (mut ranged, mut single) = (Marks::new(1 << 19), Marks::new(1 << 19));
        for (from, count) in ranges {
            ranged.set(from, count);
            (from..from + count).for_each(|place| single.set(place, 1));
        }
        ranged.clear(200, 500);
        (200..700).for_each(|place| single.clear(place, 1));
        for place in [0, 2, 63, 127, 199, 300, 699, 4095, 4099, 1 << 18] {
            assert_eq!(ranged.behind(place), single.behind(place), "{place}");
        }
        assert_eq!(ranged.bits, single.bits);
    }
}
