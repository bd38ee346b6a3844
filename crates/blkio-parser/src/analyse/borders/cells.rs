//! Changes of access counts at every block of a piece of the device, side by side.
//!
//! Where requests begin or end at many blocks of a piece, a byte for each takes about the memory of a list of those where they
//! do, and a change costs one addition instead of its share of sorting.

use super::OF_BITS;
use super::piece::{GRID_BITS, Placed};
use crate::num::index;

/// Binary digits of what can be counted here.
pub(super) const DENSE_OF_BITS: u32 = 6;

/// The blocks of a piece, by what is counted; nothing for what is kept elsewhere.
#[derive(Debug, Clone, Default)]
pub(super) struct Cells {
    by: Vec<Vec<i8>>,
}

impl Cells {
    /// Takes a change at a block of the piece; `false` when it has no room.
    #[inline]
    pub(super) fn add(&mut self, block: u64, of: u32, by: i8) -> bool {
        let cells = self.by.get_mut(index(of.into()));
        let cell = cells.and_then(|cells| cells.get_mut(index(block)));
        let Some(cell) = cell else {
            return false;
        };
        let sum = cell.checked_add(by);
        *cell = sum.unwrap_or(*cell);
        sum.is_some()
    }

    /// Makes room for what is counted, at each of so many blocks.
    pub(super) fn make_room(&mut self, of: u32, blocks: usize) {
        let of = index(of.into());
        if of >= self.by.len() {
            self.by.resize_with(of + 1, Vec::new);
        }
        if let Some(cells) = self.by.get_mut(of) {
            cells.resize(blocks, 0);
        }
    }

    /// Whether nothing is counted here.
    pub(super) fn is_empty(&self) -> bool {
        self.by.is_empty()
    }

    /// Becomes a half of a piece of twice the size.
    pub(super) fn widen(&mut self, is_second_half: bool) {
        for cells in self.by.iter_mut().filter(|cells| !cells.is_empty()) {
            let blocks = cells.len();
            cells.resize(2 * blocks, 0);
            if is_second_half {
                cells.rotate_right(blocks);
            }
        }
    }

    /// Takes the changes of the other half.
    pub(super) fn append(&mut self, other: Self) {
        for (of, cells) in other.by.into_iter().enumerate() {
            match self.by.get_mut(of) {
                None => self.by.push(cells),
                Some(own) if own.is_empty() => *own = cells,
                Some(own) => {
                    // Of two halves one is 0 at every block.
                    for (own, by) in own.iter_mut().zip(cells) {
                        *own |= by;
                    }
                }
            }
        }
    }

    /// These changes and others, which are in order of the sector, in this order; the piece begins at a sector.
    pub(super) fn merge(&self, first_sector: u64, others: &[Placed], into: &mut Vec<Placed>) {
        into.clear();
        let dense: Vec<(u64, &[i8])> = (0..)
            .zip(&self.by)
            .filter(|(_, cells)| !cells.is_empty())
            .map(|(of, cells)| (of, cells.as_slice()))
            .collect();
        let blocks = dense.iter().map(|(_, cells)| cells.len()).max();
        let mut others = others;
        for block in 0..blocks.unwrap_or(0) {
            let sector = first_sector + ((block as u64) << GRID_BITS);
            while let Some((other, rest)) = others.split_first()
                && other.0 >> OF_BITS < sector
            {
                into.push(*other);
                others = rest;
            }
            for (of, cells) in &dense {
                let by = cells.get(block).copied().unwrap_or(0);
                if by != 0 {
                    into.push((sector << OF_BITS | of, by.into()));
                }
            }
        }
        into.extend_from_slice(others);
    }
}
