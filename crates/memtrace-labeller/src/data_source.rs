//! The `data_src` word of a memory sample (`perf_event_open(2)`, union `perf_mem_data_src`).

use crate::names::Name;

/// Where an access was served from, in the bits of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataSource(u64);

impl DataSource {
    /// The word as the kernel gives it.
    #[must_use]
    pub const fn new(word: u64) -> Self {
        Self(word)
    }

    /// Whether it is a store; `None` when it is neither a load nor a store. A load and store at once is a store.
    #[must_use]
    pub const fn is_store(self) -> Option<bool> {
        if self.0 & 4 != 0 {
            Some(true)
        } else if self.0 & 2 != 0 {
            Some(false)
        } else {
            None
        }
    }

    /// The remote bit as a number; `None` for a word that says nothing, as samples of other events carry it.
    #[must_use]
    pub fn remote(self) -> Option<u8> {
        if self.is_store().is_none() && self.level().is_null() && !self.is_remote() {
            None
        } else {
            Some(u8::from(self.is_remote()))
        }
    }

    /// The remote bit, 37.
    #[must_use]
    pub const fn is_remote(self) -> bool {
        self.0 >> 37 & 1 == 1
    }

    /// Whether the level is one that missed.
    #[must_use]
    pub const fn is_miss(self) -> bool {
        self.0 >> 5 & 4 != 0
    }

    /// Hops to another core cluster, node or socket, 0 for none; `None` for a word that says nothing. The older levels of remote
    /// memory and caches count for one and two, where the word has no number.
    #[must_use]
    pub fn hops(self) -> Option<u8> {
        self.remote()?;
        let old = self.0 >> 5;
        // A level with a number that is near stays near, whatever the older bits say.
        let may_be_far = self.is_remote() || matches!(self.0 >> 33 & 0xf, 0 | 0xb | 0xf);
        let said = (self.0 >> 43 & 7) as u8;
        Some(match said {
            0 if may_be_far && old & 0xa00 != 0 => 2,
            0 if may_be_far && old & 0x500 != 0 => 1,
            said => said,
        })
    }

    /// The level, from its number (bits 33 to 36), or from the older bits 5 to 18 when the number says nothing.
    #[must_use]
    pub const fn level(self) -> Name {
        match self.0 >> 33 & 0xf {
            1 => return Name::L1,
            2 => return Name::L2,
            3 => return Name::L3,
            4 => return Name::L4,
            0xc => return Name::LFB,
            0xd | 0xe => return Name::DRAM,
            _ => {}
        }
        let old = self.0 >> 5;
        if old & 0x8 != 0 {
            Name::L1
        } else if old & 0x10 != 0 {
            Name::LFB
        } else if old & 0x20 != 0 {
            Name::L2
        } else if old & 0x40 != 0 {
            Name::L3
        } else if old & 0x380 != 0 {
            Name::DRAM
        } else {
            Name::NULL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits() {
        // A load that hit L1: op 2, level hit and L1, level number 1.
        let load = DataSource::new(2 | (2 | 8) << 5 | 1 << 33);
        assert_eq!(load.is_store(), Some(false));
        assert_eq!(load.level(), Name::L1);
        assert!(!load.is_remote() && !load.is_miss());
        let far = DataSource::new(4 | 0x100 << 5 | 1 << 37 | 2 << 43);
        assert_eq!(far.is_store(), Some(true));
        assert_eq!((far.level(), far.hops()), (Name::DRAM, Some(2)));
        assert_eq!((load.hops(), DataSource::new(0).hops()), (Some(0), None));
        // Without a number: remote memory two hops away, a cache one hop away.
        assert_eq!(DataSource::new(2 | 0x200 << 5).hops(), Some(2));
        assert_eq!(DataSource::new(2 | 0x400 << 5).hops(), Some(1));
        assert_eq!(DataSource::new(2 | 0x400 << 5 | 1 << 33).hops(), Some(0));
        assert!(far.is_remote());
        assert_eq!(DataSource::new(1).is_store(), None);
        // Nothing of it is known: PERF_MEM_NA.
        assert_eq!(
            DataSource::new(1 | 1 << 5 | 1 << 19 | 1 << 24 | 1 << 26).remote(),
            None
        );
        assert_eq!((load.remote(), far.remote()), (Some(0), Some(1)));
    }
}
