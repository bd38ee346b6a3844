//! Which parts of a KV block its current fill has written, and which of these were read.
//!
//! A fill is all stores that make one content of a block: it is written token by token, with reads of earlier tokens between. A new one
//! begins where something is stored over that was stored and read before. What is stored over without having been read, as memory that
//! is set to zero first, is of the same fill.

/// Bytes of the parts that are kept apart, at most and at least.
const LARGEST: u64 = 64;
const SMALLEST: u64 = 4;
const BITS: u64 = 64;

/// Two bits for each part of each block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fills {
    part_bytes: u64,
    parts: u64,
    words: usize,
    written: Vec<u64>,
    read: Vec<u64>,
}

impl Fills {
    /// For blocks of so many bytes.
    pub(crate) fn new(block_bytes: u64) -> Self {
        let block_bytes = block_bytes.max(1);
        let part_bytes = (block_bytes / BITS).clamp(SMALLEST, LARGEST);
        let parts = block_bytes.div_ceil(part_bytes);
        Self {
            part_bytes,
            parts,
            words: usize::try_from(parts.div_ceil(BITS)).unwrap_or(usize::MAX),
            written: Vec::new(),
            read: Vec::new(),
        }
    }

    /// Words and their bits that an access covers, of the block with this index.
    fn covered(
        &self,
        block: usize,
        offset: u64,
        bytes: u32,
    ) -> impl Iterator<Item = (usize, u64)> + use<> {
        let first = offset / self.part_bytes.max(1);
        let last = offset.saturating_add(u64::from(bytes).max(1) - 1) / self.part_bytes.max(1);
        let last = last.min(self.parts.saturating_sub(1)).max(first);
        let begin = block * self.words;
        (first..=last).map(move |part| {
            let word = usize::try_from(part / BITS).unwrap_or(usize::MAX);
            (begin.saturating_add(word), 1 << (part % BITS))
        })
    }

    /// Takes a store; returns `true` if it begins a new fill.
    pub(crate) fn store(&mut self, block: usize, offset: u64, bytes: u32) -> bool {
        let end = (block + 1) * self.words;
        if self.written.len() < end {
            self.written.resize(end, 0);
            self.read.resize(end, 0);
        }
        let is_over = self
            .covered(block, offset, bytes)
            .any(|(word, bit)| self.read.get(word).is_some_and(|bits| bits & bit != 0));
        if is_over {
            for bits in [&mut self.written, &mut self.read] {
                if let Some(bits) = bits.get_mut(block * self.words..end) {
                    bits.fill(0);
                }
            }
        }
        for (word, bit) in self.covered(block, offset, bytes) {
            if let Some(bits) = self.written.get_mut(word) {
                *bits |= bit;
            }
        }
        is_over
    }

    /// Takes a load, of which only what this fill has written counts.
    pub(crate) fn load(&mut self, block: usize, offset: u64, bytes: u32) {
        for (word, bit) in self.covered(block, offset, bytes) {
            let written = self.written.get(word).copied().unwrap_or(0);
            if let Some(bits) = self.read.get_mut(word) {
                *bits |= bit & written;
            }
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        (self.written.capacity() + self.read.capacity()) * size_of::<u64>()
    }

    /// Forgets everything.
    pub(crate) fn close(&mut self) {
        (self.written, self.read) = (Vec::new(), Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_ends_where_what_was_read_is_stored_over() {
        for block_bytes in [64, 256, 4096, 32 << 10] {
            let mut fills = Fills::new(block_bytes);
            let token = fills.part_bytes;
            // Set to zero, then filled token by token, each read from then on.
            for fill in 0..3 {
                let mut begun = 0;
                for at in (0..block_bytes).step_by(4) {
                    begun += u32::from(fills.store(7, at, 4));
                }
                for token_at in (0..block_bytes).step_by(usize::try_from(token).unwrap()) {
                    for at in (token_at..token_at + token).step_by(4) {
                        begun += u32::from(fills.store(7, at, 4));
                    }
                    fills.load(7, 0, u32::try_from(token_at + token).unwrap());
                    fills.load(3, token_at, 4);
                }
                assert_eq!(begun, u32::from(fill > 0), "{block_bytes}, fill {fill}");
            }
        }
        // Loads of what was stored before the recording end no fill, and an access beyond the block touches no other.
        let mut fills = Fills::new(4096);
        fills.load(0, 100, 8);
        assert!(!fills.store(0, 100, 8));
        fills.load(0, 4090, 1 << 20);
        assert!(!fills.store(1, 0, 8) && !fills.store(0, 4090, 8));
    }
}
