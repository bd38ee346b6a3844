//! Reading the CSV files of per-cycle performance data.

mod number;
mod perf;

pub(crate) use number::{is_missing, parse_real};
pub(crate) use perf::{PerfRow, PerfTable, Strictness};

use rustc_hash::FxHashMap;

/// A text that occurs often, as a small number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(u32);

/// The texts of one or more tables, each kept once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    texts: Vec<Box<str>>,
    ids: FxHashMap<Box<str>, Name>,
}

impl Names {
    pub(crate) fn id(&mut self, text: &str) -> Name {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = Name(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.push(text.into());
        self.ids.insert(text.into(), id);
        id
    }

    pub(crate) fn text(&self, id: Name) -> &str {
        self.texts.get(id.0 as usize).map_or("", |text| &**text)
    }
}
