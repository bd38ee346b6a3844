//! Where the number of accesses changes.
//!
//! The access count of a sector changes only where requests begin and end. These changes are collected by piece of the device,
//! sorted some thousand at a time, and kept as differences from one to the next, two or three bytes each. When they have grown
//! to a multiple of what they were, those of one place and operation become one. So memory follows the number of distinct
//! places: neither the number of requests nor the range of addresses matters, and no place has to be looked up. Where they are
//! a quarter of all blocks of a piece, every block has a place of its own ([`Cells`]).

use std::collections::BTreeMap;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use super::cells::{Cells, DENSE_OF_BITS};
use crate::num::{index, low16, low32};
use crate::radix::by_digits;

/// Changes of a piece that are sorted at a time: few enough to stay next to the processor.
const TOGETHER: usize = 1 << 9;
/// Most pieces of the device, of those with changes.
const PIECES: usize = 1 << 10;
/// Binary digits of the sectors of a piece at the beginning: 64 MiB.
const PIECE_BITS: u32 = 17;
/// Words at which places are made one for the first time.
const FIRST_LIMIT: usize = 2 << 20;
/// Words of a piece at which its own places are made one for the first time.
const PIECE_LIMIT: usize = 1 << 17;
/// Words that are kept together.
const PAGE: usize = 1 << 11;
/// By how much what is left then may grow until the next time: where it helped, and where less than half went.
const GROWTH: usize = 3;
const GROWTH_WITHOUT_USE: usize = 8;
/// Binary digits of what a change is of.
pub(super) const OF_BITS: u32 = 17;
/// Sectors of so many binary digits, and no more, are sorted.
const SECTOR_BITS: u32 = u64::BITS - OF_BITS - 1;

/// Binary digits of the number of sectors that nearly all places are multiples of.
pub(super) const GRID_BITS: u32 = 3;

/// Which part of the blocks of a piece have to be places for all to be kept side by side.
const DENSE_PART: usize = 4;

/// A change of an access count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// From this sector on.
    pub(super) sector: u64,
    /// What is counted, below 2^17.
    pub(super) of: u32,
    /// By how much.
    pub(super) by: i64,
}

/// Changes of access counts by place.
#[derive(Debug, Clone)]
pub(super) struct Borders {
    pieces: Vec<Piece>,
    piece_bits: u32,
    /// Where the piece of a number is.
    numbers: BTreeMap<u64, usize>,
    /// The same by the end of the number: all there are where pieces lie next to each other.
    near: Vec<(u64, usize)>,
    scratch: Scratch,
    /// Words of all pieces, and at which places are made one.
    words: usize,
    limit: usize,
    /// Changes at sectors that are too large to sort.
    far: BTreeMap<(u64, u32), i64>,
    /// Threads that may help to sort in the end.
    pub(super) helpers: usize,
}

/// No piece has this number.
const NOWHERE: (u64, usize) = (u64::MAX, 0);

impl Default for Borders {
    fn default() -> Self {
        Self {
            pieces: Vec::new(),
            piece_bits: PIECE_BITS,
            numbers: BTreeMap::new(),
            near: vec![NOWHERE; PIECES],
            scratch: Scratch::default(),
            words: 0,
            limit: FIRST_LIMIT,
            far: BTreeMap::new(),
            helpers: 0,
        }
    }
}

impl Borders {
    /// One access more from here on, or one less.
    #[inline]
    pub(super) fn add(&mut self, sector: u64, of: u32, is_less: bool) {
        let number = sector >> self.piece_bits;
        let near = self.near.get(index(number) % PIECES).copied();
        let place = near.filter(|(known, _)| *known == number);
        let Some(piece) = place.and_then(|(_, place)| self.pieces.get_mut(place)) else {
            self.find(sector, of, is_less);
            return;
        };
        let place = sector << OF_BITS | u64::from(of);
        piece.recent.push(place << 1 | u64::from(is_less));
        if piece.recent.len() >= TOGETHER {
            let before = piece.words();
            piece.settle(self.piece_bits, &mut self.scratch);
            if piece.words() > piece.limit {
                piece.make_places_one(self.piece_bits, &mut self.scratch);
            }
            self.words = self.words + piece.words() - before;
            if self.words > self.limit {
                self.make_places_one();
            }
        }
    }

    /// As [`Borders::add`], of a piece that is not among the near ones.
    #[cold]
    fn find(&mut self, sector: u64, of: u32, is_less: bool) {
        if sector >> SECTOR_BITS != 0 {
            let by = if is_less { -1 } else { 1 };
            *self.far.entry((sector, of)).or_default() += by;
            return;
        }
        while self.pieces.len() >= PIECES
            && !self.numbers.contains_key(&(sector >> self.piece_bits))
        {
            self.widen();
        }
        let number = sector >> self.piece_bits;
        let next = self.pieces.len();
        let place = *self.numbers.entry(number).or_insert(next);
        if place == next {
            self.pieces.push(Piece::of(number, self.piece_bits));
        }
        if let Some(near) = self.near.get_mut(index(number) % PIECES) {
            *near = (number, place);
        }
        self.add(sector, of, is_less);
    }

    fn make_places_one(&mut self) {
        for piece in &mut self.pieces {
            piece.make_places_one(self.piece_bits, &mut self.scratch);
        }
        let before = self.words;
        self.words = self.pieces.iter().map(|piece| piece.words()).sum();
        let growth = if self.words < before / 2 {
            GROWTH
        } else {
            GROWTH_WITHOUT_USE
        };
        self.limit = FIRST_LIMIT.max(self.words * growth);
    }

    /// Makes pieces of twice the size.
    fn widen(&mut self) {
        self.piece_bits += 1;
        self.near.fill(NOWHERE);
        let mut pieces = std::mem::take(&mut self.pieces);
        for (number, place) in std::mem::take(&mut self.numbers) {
            let Some(mut piece) = pieces.get_mut(place).map(std::mem::take) else {
                continue;
            };
            piece.first_sector = (number / 2) << self.piece_bits;
            piece.cells.widen(number % 2 == 1);
            let next = self.pieces.len();
            let place = *self.numbers.entry(number / 2).or_insert(next);
            match self.pieces.get_mut(place) {
                Some(before) => before.append(piece),
                None => self.pieces.push(piece),
            }
        }
    }

    /// All changes, in order of the sector; a sector may come several times. Nothing is left.
    pub(super) fn for_each_in_order(&mut self, mut take: impl FnMut(Change)) {
        let mut take_all = |places: &[Placed]| {
            for (place, by) in places {
                take(Change {
                    sector: place >> OF_BITS,
                    of: low32(bits(*place, 0, OF_BITS)),
                    by: *by,
                });
            }
        };
        let pieces = &mut self.pieces;
        let places = std::mem::take(&mut self.numbers).into_values();
        let pieces = places.filter_map(|place| pieces.get_mut(place).map(std::mem::take));
        if self.helpers == 0 {
            let mut places = Vec::new();
            for piece in pieces {
                piece.into_order(self.piece_bits, &mut places, &mut self.scratch);
                take_all(&places);
            }
        } else {
            in_order_with_helpers(pieces, self.piece_bits, self.helpers, take_all);
        }
        for ((sector, of), by) in std::mem::take(&mut self.far) {
            take(Change { sector, of, by });
        }
    }
}

/// Hands on the changes of each piece in order; every helper sorts one piece while those before are taken.
fn in_order_with_helpers(
    pieces: impl Iterator<Item = Piece>,
    piece_bits: u32,
    helpers: usize,
    mut take: impl FnMut(&[Placed]),
) {
    let mut shares: Vec<Vec<Piece>> = Vec::new();
    shares.resize_with(helpers, Vec::new);
    let mut count = 0;
    for (piece, share) in pieces.zip((0..helpers).cycle()) {
        if let Some(share) = shares.get_mut(share) {
            share.push(piece);
        }
        count += 1;
    }
    thread::scope(|scope| {
        let helpers: Vec<_> = shares
            .into_iter()
            .map(|share| {
                let (here, sorted) = sync_channel(1);
                let (back, used) = channel::<Vec<Placed>>();
                scope.spawn(move || {
                    let mut scratch = Scratch::default();
                    for piece in share {
                        let mut places = used.try_recv().unwrap_or_default();
                        piece.into_order(piece_bits, &mut places, &mut scratch);
                        // Nobody waits any more only where that thread is dying.
                        if here.send(places).is_err() {
                            return;
                        }
                    }
                });
                (sorted, back)
            })
            .collect();
        for (sorted, back) in helpers.iter().cycle().take(count) {
            let Ok(places) = sorted.recv() else { return };
            take(&places);
            // The last ones are not used again.
            let _ = back.send(places);
        }
    });
}

/// A place (sector and what is counted) and by how much the count changes there.
pub(super) type Placed = (u64, i64);

/// Memory for sorting, used again from piece to piece.
#[derive(Debug, Clone, Default)]
struct Scratch {
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
struct Piece {
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
fn bits(word: u64, from: u32, count: u32) -> u64 {
    word >> from & ((1 << count) - 1)
}

impl Piece {
    /// The piece of a number.
    fn of(number: u64, piece_bits: u32) -> Self {
        Self {
            first_sector: number << piece_bits,
            // The first time tells whether the piece is one of those where most blocks are places.
            limit: PIECE_LIMIT.min(blocks_of(piece_bits) / DENSE_PART),
            ..Self::default()
        }
    }

    /// Puts the recent changes to the others.
    fn settle(&mut self, piece_bits: u32, scratch: &mut Scratch) {
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
    fn append(&mut self, mut next: Self) {
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
    fn into_order(mut self, piece_bits: u32, places: &mut Vec<Placed>, scratch: &mut Scratch) {
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
    fn words(&self) -> usize {
        let open = self.pages.last().map_or(0, Vec::len);
        self.pages.len().saturating_sub(1) * PAGE + open
    }

    /// Changes of the same place and operation become one, and those of an operation that most blocks are places of move to
    /// the cells.
    fn make_places_one(&mut self, piece_bits: u32, scratch: &mut Scratch) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn changes_come_back_in_order_and_add_up(
            changes in prop::collection::vec(
                (prop_oneof![0_u64..100, (0_u64..32).prop_map(|s| s * 8), 0_u64..1 << 20, any::<u64>(), (0_u64..1 << 16).prop_map(|s| s * 8)], prop_oneof![3 => 0_u32..3, 1 => 0_u32..1 << 17], any::<bool>(), 1_usize..5),
                0..200,
            ),
            limit in 0_usize..200,
            settle in 1_usize..50,
            helpers in 0_usize..3,
            // Pieces of so few blocks that some are places of most.
            piece_bits in prop::sample::select(vec![PIECE_BITS, 5, 7]),
            widen in 0_usize..400,
        ) {
            let mut borders = Borders { helpers, piece_bits, ..Borders::default() };
            let mut twin: BTreeMap<(u64, u32), i64> = BTreeMap::new();
            for (at, (sector, of, is_less, times)) in changes.iter().enumerate() {
                for _ in 0..*times {
                    borders.add(*sector, *of, *is_less);
                    *twin.entry((*sector, *of)).or_default() += if *is_less { -1 } else { 1 };
                }
                if at % settle == 0 {
                    for piece in &mut borders.pieces {
                        piece.settle(borders.piece_bits, &mut borders.scratch);
                    }
                    borders.words = borders.pieces.iter().map(|piece| piece.words()).sum();
                    if borders.words > limit {
                        borders.make_places_one();
                    }
                }
                if at == widen {
                    borders.widen();
                }
            }
            let mut found: BTreeMap<(u64, u32), i64> = BTreeMap::new();
            let mut last = 0;
            borders.for_each_in_order(|change| {
                assert!(last <= change.sector);
                last = change.sector;
                *found.entry((change.sector, change.of)).or_default() += change.by;
            });
            twin.retain(|_, by| *by != 0);
            found.retain(|_, by| *by != 0);
            prop_assert_eq!(found, twin);
        }
    }

    #[test]
    fn one_place_far_away_leaves_the_pieces_of_the_others_small() {
        let mut borders = Borders::default();
        borders.add(1 << 45, 0, false);
        for number in 0..4_000_u64 {
            borders.add((number * 7_919 % 1_000) << PIECE_BITS, 0, false);
        }
        assert_eq!(
            (borders.pieces.len(), borders.piece_bits),
            (1_001, PIECE_BITS)
        );
        (0..100).for_each(|number| borders.add((5_000 + number) << PIECE_BITS, 0, false));
        assert!(borders.pieces.len() < PIECES && borders.piece_bits == PIECE_BITS + 1);
        let mut sum = 0;
        borders.for_each_in_order(|change| sum += change.by);
        assert_eq!(sum, 4_101);
    }

    #[test]
    fn places_at_most_blocks_take_a_byte_for_each() {
        let mut borders = Borders::default();
        let blocks = 1 << 18_u64;
        let mut twin = vec![0_i64; index(blocks)];
        for number in 0..16 * blocks {
            let block = number * 7919 % blocks * 3 / 4;
            let is_less = number % 5 == 0;
            borders.add(block << GRID_BITS, 2, is_less);
            twin[index(block)] += if is_less { -1 } else { 1 };
        }
        // More than a byte holds.
        (0..1000).for_each(|_| borders.add(0, 2, false));
        twin[0] += 1000;
        assert!(
            borders
                .pieces
                .iter()
                .all(|piece| !piece.cells.is_empty() || piece.words() == 0)
        );
        assert!(borders.words < 100_000, "{}", borders.words);
        let mut found = vec![0_i64; index(blocks)];
        borders.for_each_in_order(|change| found[index(change.sector >> GRID_BITS)] += change.by);
        assert_eq!(found, twin);
    }

    #[test]
    fn memory_follows_the_places() {
        let mut borders = Borders::default();
        for number in 0..1 << 20_u64 {
            borders.add(number * 7919 % 1000 * 8, 1, number % 3 == 0);
        }
        assert!(borders.words < 2 * FIRST_LIMIT, "{}", borders.words);
        borders.make_places_one();
        assert!(borders.words < 10_000, "{}", borders.words);
    }
}
