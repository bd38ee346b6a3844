//! Where the number of accesses changes.
//!
//! The access count of a sector changes only where requests begin and end. These changes are collected by piece of the device,
//! sorted some thousand at a time, and kept as differences from one to the next, two or three bytes each. When they have grown
//! to a multiple of what they were, those of one place and operation become one. So memory follows the number of distinct
//! places: neither the number of requests nor the range of addresses matters, and no place has to be looked up. Where they are
//! a quarter of all blocks of a piece, every block has a place of its own ([`cells`]).

mod cells;
mod piece;

use std::collections::BTreeMap;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use self::piece::{Piece, Placed, Scratch, bits};
use crate::num::{index, low32};

/// Maximum number of pieces of the device, of those with changes.
const PIECES: usize = 1 << 10;
/// Binary digits of the sectors of a piece at the beginning: 64 MiB.
const PIECE_BITS: u32 = 17;
/// Words at which places are made one for the first time.
const FIRST_LIMIT: usize = 2 << 20;
/// By how much what is left then may grow until the next time: where it helped, and where less than half went.
const GROWTH: usize = 3;
const GROWTH_WITHOUT_USE: usize = 8;
/// Binary digits of what a change is of.
const OF_BITS: u32 = 17;
/// Sectors of so many binary digits, and no more, are sorted.
const SECTOR_BITS: u32 = u64::BITS - OF_BITS - 1;

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
        if piece.add(place, is_less) {
            let before = piece.words();
            piece.settle(self.piece_bits, &mut self.scratch);
            if piece.has_grown() {
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
            piece.widen(number / 2, self.piece_bits, number % 2 == 1);
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
#[cfg(test)]
mod tests {
    use super::piece::GRID_BITS;
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
        assert!(borders.pieces.iter().all(Piece::is_dense));
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
