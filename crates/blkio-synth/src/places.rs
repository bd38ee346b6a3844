//! Chooses locations and sizes of requests.

use super::index;
use super::random::Random;
use super::spec::{Pattern, Spec};

/// Granularity of random locations in sectors: 4 KiB.
const GRID: u64 = 8;

/// Length of a sequential stream in sectors: a TiB, after which it restarts.
const ONWARD: u64 = 1 << 31;

/// The locations of one phase.
#[derive(Debug, Clone)]
pub(super) struct Places<'s> {
    spec: &'s Spec,
    /// Sectors per stream.
    part: u64,
    /// Next position of each stream, in sectors from the start of its part.
    streams: Vec<u64>,
}

impl<'s> Places<'s> {
    pub(super) fn new(spec: &'s Spec) -> Self {
        let streams = spec.streams.max(1);
        let cache = (spec.cache_bytes / 512).max(2560);
        Self {
            spec,
            part: (cache / streams / GRID * GRID).max(2560),
            streams: vec![0; index(streams)],
        }
    }

    /// Returns the first sector of the next request of this many sectors.
    pub(super) fn next(&mut self, sectors: u64, random: &mut Random) -> u64 {
        let many = self.streams.len() as u64;
        let number = if many > 1 { random.below(many) } else { 0 };
        let part = match self.spec.pattern {
            Pattern::Sequential => ONWARD,
            _ => self.part,
        };
        let begin = self.spec.first_sector + number * part;
        let Some(next) = self.streams.get_mut(index(number)) else {
            return begin;
        };
        let room = part.saturating_sub(sectors);
        let at = match self.spec.pattern {
            Pattern::Loop | Pattern::Sequential => {
                let at = if *next > room { 0 } else { *next };
                *next = at + sectors;
                at
            }
            Pattern::Strided => {
                let at = if *next > room {
                    // The next round begins where the first request of this one ended.
                    let stride = (self.spec.stride_bytes / 512).max(1);
                    (*next % stride + sectors) % stride.min(room.max(1))
                } else {
                    *next
                };
                *next = at + (self.spec.stride_bytes / 512).max(1);
                at
            }
            Pattern::Zipf => {
                let places = (room / GRID).max(1);
                let rank = random.zipf(places, self.spec.zipf_exponent);
                // Popular places are scattered.
                let scattered = u128::from(rank) * 0x9e37_79b9_7f4a_7c15 % u128::from(places);
                u64::try_from(scattered).unwrap_or(0) * GRID
            }
            Pattern::Random => random.below(room / GRID + 1) * GRID,
        };
        begin + at
    }
}

/// Returns the size of the next data request in sectors.
pub(super) fn sectors(spec: &Spec, is_write: bool, random: &mut Random) -> u64 {
    let all: u64 = spec.sizes.iter().map(|size| size.weight).sum();
    if all == 0 {
        return match is_write {
            true => [256, 512, 1024, 2560][index(random.below(4))],
            false => 256,
        };
    }
    let mut drawn = random.below(all);
    for size in &spec.sizes {
        if drawn < size.weight {
            return size.bytes / 512;
        }
        drawn -= size.weight;
    }
    256
}
