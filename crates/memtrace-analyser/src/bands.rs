//! Where accesses went over time, by neighbouring pages.

use crate::result::AddressBand;

/// Accesses over time of neighbouring pages. Pages come in order of their addresses and nobody knows how many there will be, so
/// when there are too many bands, each two become one.
#[derive(Debug, Default)]
pub(crate) struct Bands {
    pub(crate) bands: Vec<AddressBand>,
    /// Pages of a full band.
    width: u64,
}

/// Bands of a type, at most.
const MAX_BANDS: usize = 32;

impl Bands {
    /// Begins with a page, which is behind all before it.
    pub(crate) fn page(&mut self, page: u64, windows: usize) {
        let is_full = self
            .bands
            .last()
            .is_none_or(|last| last.pages >= self.width.max(1));
        if is_full && self.bands.len() == MAX_BANDS {
            let mut joined = Vec::with_capacity(MAX_BANDS);
            let mut bands = std::mem::take(&mut self.bands).into_iter();
            while let (Some(mut first), Some(second)) = (bands.next(), bands.next()) {
                first.pages += second.pages;
                for (count, more) in first.accesses.iter_mut().zip(&second.accesses) {
                    *count += more;
                }
                joined.push(first);
            }
            self.bands = joined;
            self.width = self.width.max(1) * 2;
        }
        if is_full {
            self.bands.push(AddressBand {
                first_page: page,
                pages: 0,
                accesses: vec![0; windows],
            });
        }
        if let Some(last) = self.bands.last_mut() {
            last.pages += 1;
        }
    }

    pub(crate) fn access(&mut self, window: usize) {
        if let Some(count) = self
            .bands
            .last_mut()
            .and_then(|last| last.accesses.get_mut(window))
        {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_hold_every_page_once_whatever_their_number() {
        for pages in [1_u64, 31, 32, 33, 64, 65, 1000, 5000] {
            let mut bands = Bands::default();
            for page in 0..pages {
                bands.page(page * 3, 4);
                for _ in 0..=page % 2 {
                    bands.access(usize::try_from(page % 4).unwrap());
                }
            }
            let found = &bands.bands;
            assert!(
                found.len() <= MAX_BANDS && found.len() as u64 >= pages.min(16),
                "{pages}"
            );
            assert_eq!(found.iter().map(|band| band.pages).sum::<u64>(), pages);
            let accesses: u64 = found.iter().flat_map(|band| &band.accesses).sum();
            assert_eq!(accesses, pages + pages / 2);
            let mut before = 0;
            for band in found {
                assert_eq!(band.first_page, before * 3, "{pages}");
                before += band.pages;
            }
        }
    }
}
