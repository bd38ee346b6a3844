//! Marks at positions, and how many are behind one: bits, and a Fenwick tree of the marks of each 64.

/// Marks at positions, and their number behind one.
#[derive(Debug, Clone)]
pub(super) struct Marks {
    bits: Vec<u64>,
    /// At `n` (from 1), the marks of the words from `n` without its lowest bit up to before `n`.
    sums: Vec<u32>,
    /// All marks.
    count: u64,
}

impl Marks {
    pub(super) fn new(positions: usize) -> Self {
        let words = positions.div_ceil(64);
        Self {
            bits: vec![0; words],
            sums: vec![0; words + 1],
            count: 0,
        }
    }

    pub(super) fn positions(&self) -> usize {
        self.bits.len() * 64
    }

    /// Marks a position, which is not marked.
    pub(super) fn set(&mut self, position: usize) {
        self.turn(position, u32::wrapping_add);
        self.count += 1;
    }

    /// Takes the mark of a position.
    pub(super) fn clear(&mut self, position: usize) {
        self.turn(position, u32::wrapping_sub);
        self.count -= 1;
    }

    fn turn(&mut self, position: usize, change: fn(u32, u32) -> u32) {
        if let Some(bits) = self.bits.get_mut(position >> 6) {
            *bits ^= 1 << (position & 63);
        }
        let mut node = (position >> 6) + 1;
        while let Some(sum) = self.sums.get_mut(node) {
            *sum = change(*sum, 1);
            node += node & node.wrapping_neg();
        }
    }

    /// Returns the number of marks behind a position.
    pub(super) fn behind(&self, position: usize) -> u64 {
        let word = position >> 6;
        // Those up to the position, its own included: two shifts, because one by 64 is none.
        let bits = self
            .bits
            .get(word)
            .map_or(0, |bits| bits << (63 - (position & 63)));
        let mut before = u64::from(bits.count_ones());
        let mut node = word;
        while node > 0 {
            before += self.sums.get(node).copied().map_or(0, u64::from);
            node &= node - 1;
        }
        self.count - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_behind_a_position_are_those_of_counting() {
        let mut marks = Marks::new(1 << 13);
        let mut model = vec![false; 1 << 13];
        for number in 0..9_000_usize {
            let place = number * 7_919 % (1 << 13);
            if model[place] {
                marks.clear(place);
            } else {
                marks.set(place);
            }
            model[place] = !model[place];
        }
        for place in 0..1 << 13 {
            let behind = model[place + 1..].iter().filter(|mark| **mark).count();
            assert_eq!(marks.behind(place), behind as u64, "{place}");
        }
    }
}
