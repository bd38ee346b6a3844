//! Accesses by the token that was being made.

use std::collections::BTreeMap;

use crate::record::{LOAD, STORE};

/// Loads and stores of each type while a token was made.
#[derive(Debug, Default)]
pub(crate) struct TokenCounts {
    pub(crate) by_token: BTreeMap<(u32, u16), (u64, u64)>,
}

impl TokenCounts {
    pub(crate) fn add(&mut self, token: u32, kind: u16, op: u8) {
        let (loads, stores) = self.by_token.entry((token, kind)).or_default();
        *loads += u64::from(op == LOAD);
        *stores += u64::from(op == STORE);
    }
}
