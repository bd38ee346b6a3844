//! A piece of the device: its changes in a few bytes each.

use super::OF_BITS;
use super::cells::{Cells, DENSE_OF_BITS};
use crate::num::{index, low16, low32};
use crate::radix::by_digits;

/// Changes of a piece that are sorted at a time: few enough to stay next to the processor.
const TOGETHER: usize = 1 << 9;
/// Words of a piece at which its own places are made one for the first time.
const PIECE_LIMIT: usize = 1 << 17;
/// Words that are kept together.
const PAGE: usize = 1 << 11;
/// Binary digits of the number of sectors that nearly all places are multiples of.
pub(super) const GRID_BITS: u32 = 3;
/// Which part of the blocks of a piece have to be places for all to be kept side by side.
const DENSE_PART: usize = 4;

/// A place (sector and what is counted) and by how much the count changes there.
pub(super) type Placed = (u64, i64);

/// Memory for sorting, used again from piece to piece.
#[derive(Debug, Clone, Default)]
pub(super) struct Scratch {
    keys: Vec<u64>,
    places: Vec<Placed>,
    sorted: Vec<Placed>,
}

/// The changes of a piece of the device, by their distance from the one before, as words of sixteen bits.
///
/// The last two bits of a word say how it goes on. One access more or less: six bits of what is counted and eight of the
/// distance. The same from farther away: whether it is less, six bits of what is counted, seven of the distance, and sixteen
/// more in the next word. Anything else, as the first change of the device's beginning: four words of the place and four of
/// the change follow.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// Changes by one on their way to the others: sector, what is counted, and whether it is less.
    recent: Vec<u64>,
    /// Of [`PAGE`] words, because one list that grows would leave holes in memory; no change goes over an end.
    pages: Vec<Vec<u16>>,
    /// Binary digits of the sectors between places that distances count in.
    grid_bits: u32,
    /// Sector of the last change.
    last: u64,
    /// Words at which its places are made one.
    limit: usize,
    first_sector: u64,
    /// What is not in the pages because most blocks are places of it.
    cells: Cells,
}

impl Default for Piece {
    fn default() -> Self {
        Self {
            recent: Vec::new(),
            pages: Vec::new(),
            grid_bits: GRID_BITS,
            last: 0,
            limit: PIECE_LIMIT,
            first_sector: 0,
            cells: Cells::default(),
        }
    }
}

const MORE: u64 = 0;
const LESS: u64 = 1;
const FAR: u64 = 2;
const OTHER: u64 = 3;
/// What is counted fits into so many bits but for [`OTHER`].
const SHORT_OF_BITS: u32 = 6;
/// Bits of a near distance, and of a far one.
const NEAR_BITS: u32 = 8;
const FAR_BITS: u32 = 23;

/// So many bits of a word from one on.
#[inline]
pub(super) fn bits(word: u64, from: u32, count: u32) -> u64 {
    word >> from & ((1 << count) - 1)
}

impl Piece {
    /// The piece of a number.
    pub(super) fn of(number: u64, piece_bits: u32) -> Self {
        Self {
            first_sector: number << piece_bits,
            // The first time tells whether the piece is one of those where most blocks are places.
            limit: PIECE_LIMIT.min(blocks_of(piece_bits) / DENSE_PART),
            ..Self::default()
        }
    }

    /// Takes a change by one; says whether so many wait that they are worth sorting.
    #[inline]
    pub(super) fn add(&mut self, place: u64, is_less: bool) -> bool {
        self.recent.push(place << 1 | u64::from(is_less));
        self.recent.len() >= TOGETHER
    }

    /// Becomes a half of the piece of a number, which is twice the size.
    pub(super) fn widen(&mut self, number: u64, piece_bits: u32, is_second_half: bool) {
        self.first_sector = number << piece_bits;
        self.cells.widen(is_second_half);
    }

    /// Whether its changes have grown so much that those of one place are to be made one.
    pub(super) fn has_grown(&self) -> bool {
        self.words() > self.limit
    }

    /// Whether something of it is kept for every block.
    #[cfg(test)]
    pub(super) fn is_dense(&self) -> bool {
        !self.cells.is_empty()
    }

    /// Puts the recent changes to the others.
    pub(super) fn settle(&mut self, piece_bits: u32, scratch: &mut Scratch) {
        let mut recent = std::mem::take(&mut self.recent);
        if !self.cells.is_empty() {
            recent.retain(|key| {
                let by = if key & 1 == 0 { 1 } else { -1 };
                !self.add_to_cells(key >> 1, by, piece_bits)
            });
        }
        // Only by sector: what else can be made one is when all places are.
        by_digits(&mut recent, &mut scratch.keys, |key| key >> (OF_BITS + 1));
        for alike in recent.chunk_by(|a, b| a >> 1 == b >> 1) {
            let place = alike.first().map_or(0, |key| key >> 1);
            let less: u64 = alike.iter().map(|key| key & 1).sum();
            let by = (alike.len() as u64).cast_signed() - 2 * less.cast_signed();
            if by != 0 {
                self.push(place, by);
            }
        }
        recent.clear();
        self.recent = recent;
    }

    #[inline]
    fn push(&mut self, place: u64, by: i64) {
        // Most that a change can take are nine words.
        if self.pages.last().is_none_or(|page| page.len() > PAGE - 9) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let (sector, of) = (place >> OF_BITS, bits(place, 0, OF_BITS));
        let further = sector.wrapping_sub(self.last).rotate_right(self.grid_bits);
        self.last = sector;
        let is_less = u64::from(by < 0);
        let is_short = of >> SHORT_OF_BITS == 0 && (by == 1 || by == -1);
        let Some(page) = self.pages.last_mut() else {
            return;
        };
        if is_short && further >> NEAR_BITS == 0 {
            page.push(low16(further << 8 | of << 2 | is_less));
        } else if is_short && further >> FAR_BITS == 0 {
            let high = further >> 16;
            page.push(low16(high << 9 | of << 3 | is_less << 2 | FAR));
            page.push(low16(further));
        } else {
            self.push_other(place, by);
        }
    }

    #[cold]
    fn push_other(&mut self, place: u64, by: i64) {
        if self.grid_bits > 0 && !(place >> OF_BITS).is_multiple_of(1 << GRID_BITS) {
            let mut places = Vec::new();
            self.read(&mut places);
            self.pages.clear();
            self.grid_bits = 0;
            self.last = 0;
            for (place, by) in places {
                self.push(place, by);
            }
            self.push(place, by);
            return;
        }
        let numbers = [place, by.cast_unsigned()];
        let words = numbers.map(|number| [0, 16, 32, 48].map(|from| low16(number >> from)));
        if let Some(page) = self.pages.last_mut() {
            page.push(low16(OTHER));
            page.extend(words.as_flattened());
        }
    }

    /// Takes the changes of the piece behind.
    pub(super) fn append(&mut self, mut next: Self) {
        self.cells.append(std::mem::take(&mut next.cells));
        self.recent.extend_from_slice(&next.recent);
        let mut places = Vec::new();
        next.read(&mut places);
        for (place, by) in places {
            self.push(place, by);
        }
    }

    /// The changes as they were pushed.
    fn read(&self, places: &mut Vec<Placed>) {
        places.clear();
        let mut sector = 0_u64;
        for page in &self.pages {
            let mut words = page.iter().copied().map(u64::from);
            while let Some(word) = words.next() {
                let (further, of, by) = match word & 3 {
                    MORE => (bits(word, 8, 8), bits(word, 2, 6), 1),
                    LESS => (bits(word, 8, 8), bits(word, 2, 6), -1),
                    FAR => {
                        let further = bits(word, 9, 7) << 16 | words.next().unwrap_or(0);
                        let by = if word & 4 == 0 { 1 } else { -1 };
                        (further, bits(word, 3, 6), by)
                    }
                    _ => {
                        let mut number = || {
                            let words = words.by_ref().take(4).zip(0..);
                            words.fold(0, |number, (word, at)| number | word << (16 * at))
                        };
                        let place = number();
                        sector = place >> OF_BITS;
                        (0, bits(place, 0, OF_BITS), number().cast_signed())
                    }
                };
                sector += further << self.grid_bits;
                places.push((sector << OF_BITS | of, by));
            }
        }
    }

    /// The changes in order of the sector.
    pub(super) fn into_order(
        mut self,
        piece_bits: u32,
        places: &mut Vec<Placed>,
        scratch: &mut Scratch,
    ) {
        self.settle(piece_bits, scratch);
        self.read(places);
        by_digits(places, &mut scratch.sorted, |(place, _)| place >> OF_BITS);
        if !self.cells.is_empty() {
            self.cells
                .merge(self.first_sector, places, &mut scratch.sorted);
            std::mem::swap(places, &mut scratch.sorted);
        }
    }

    /// Words in all pages, not quite all of them used.
    pub(super) fn words(&self) -> usize {
        let open = self.pages.last().map_or(0, Vec::len);
        self.pages.len().saturating_sub(1) * PAGE + open
    }

    /// Changes of the same place and operation become one, and those of an operation that most blocks are places of move to
    /// the cells.
    pub(super) fn make_places_one(&mut self, piece_bits: u32, scratch: &mut Scratch) {
        let Scratch { places, sorted, .. } = scratch;
        self.read(places);
        by_digits(places, sorted, |(place, _)| *place);
        self.pages.clear();
        self.last = 0;
        let mut count = [0_usize; 1 << DENSE_OF_BITS];
        places.dedup_by(|next, before| {
            let is_same = next.0 == before.0;
            if is_same {
                before.1 += next.1;
            }
            is_same
        });
        places.retain(|(_, by)| *by != 0);
        for (place, _) in &*places {
            if let Some(count) = count.get_mut(index(bits(*place, 0, OF_BITS))) {
                *count += 1;
            }
        }
        let blocks = blocks_of(piece_bits);
        for (of, count) in (0..).zip(count) {
            if count > blocks / DENSE_PART {
                self.cells.make_room(of, blocks);
            }
        }
        for (place, by) in &*places {
            if !self.add_to_cells(*place, *by, piece_bits) {
                self.push(*place, *by);
            }
        }
        // As long as they are few, their part of all blocks is looked at often.
        let many = if self.words() < blocks {
            0
        } else {
            PIECE_LIMIT
        };
        self.limit = (2 * self.words()).max(many).max(blocks / DENSE_PART);
    }

    /// Takes a change where every block has its own place, if it fits there.
    #[inline]
    fn add_to_cells(&mut self, place: u64, by: i64, piece_bits: u32) -> bool {
        let (sector, of) = (place >> OF_BITS, low32(bits(place, 0, OF_BITS)));
        let block = bits(sector, 0, piece_bits) >> GRID_BITS;
        let is_block = sector.is_multiple_of(1 << GRID_BITS);
        is_block && i8::try_from(by).is_ok_and(|by| self.cells.add(block, of, by))
    }
}

/// Blocks of a piece.
fn blocks_of(piece_bits: u32) -> usize {
    1 << piece_bits.saturating_sub(GRID_BITS)
}
