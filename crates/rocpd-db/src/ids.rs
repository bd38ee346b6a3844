//! Rows by id: an array where ids are consecutive, a sorted list where not.

/// Values by ascending id.
#[derive(Debug, Clone)]
pub(crate) struct IdMap<T> {
    ids: Vec<i64>,
    values: Vec<T>,
    consecutive: bool,
}

impl<T> Default for IdMap<T> {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            values: Vec::new(),
            consecutive: true,
        }
    }
}

impl<T> IdMap<T> {
    /// Adds a value; ids come in ascending order, as tables store them.
    pub(crate) fn push(&mut self, id: i64, value: T) {
        if let Some(&last) = self.ids.last() {
            self.consecutive &= last.checked_add(1) == Some(id);
        }
        self.ids.push(id);
        self.values.push(value);
    }

    /// The place of an id among the values.
    #[inline]
    pub(crate) fn index(&self, id: i64) -> Option<usize> {
        if self.consecutive {
            let first = *self.ids.first()?;
            let at = usize::try_from(id.checked_sub(first)?).ok()?;
            return (at < self.ids.len()).then_some(at);
        }
        self.ids.binary_search(&id).ok()
    }

    #[inline]
    pub(crate) fn get(&self, id: i64) -> Option<&T> {
        self.values.get(self.index(id)?)
    }

    pub(crate) fn values(&self) -> &[T] {
        &self.values
    }

    pub(crate) fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }
}

/// Texts by id, in one piece of memory.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    bytes: String,
    ends: IdMap<usize>,
}

impl Texts {
    pub(crate) fn push(&mut self, id: i64, text: &[u8]) {
        self.bytes.push_str(&String::from_utf8_lossy(text));
        self.ends.push(id, self.bytes.len());
    }

    #[inline]
    pub(crate) fn get(&self, id: i64) -> Option<&str> {
        let at = self.ends.index(id)?;
        self.at(at)
    }

    /// All texts.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.values().len()).filter_map(|at| self.at(at))
    }

    /// The text at a place that the interner gave.
    pub(crate) fn at(&self, at: usize) -> Option<&str> {
        let ends = self.ends.values();
        let start = if at == 0 { 0 } else { *ends.get(at - 1)? };
        self.bytes.get(start..*ends.get(at)?)
    }
}
