//! List of items in order of insertion.

use std::fs::File;
use std::sync::{Arc, Mutex};

use crate::{Error, Item, READ_BYTES, Reader, Result, SpillOptions};

/// Stores items in order of insertion, and returns them any number of times.
///
/// Items that exceed the budget are in an unnamed file.
///
/// ```
/// use spill_sort::{SpillList, SpillOptions};
///
/// let mut list = SpillList::new(SpillOptions { folder: std::env::temp_dir(), memory_bytes: 16 });
/// for number in 0..10_u64 {
///     list.push(number)?;
/// }
/// assert_eq!(list.get(7)?, Some(7));
/// let all: Vec<u64> = list.iter().collect::<Result<_, _>>()?;
/// assert_eq!(all.len(), 10);
/// # Ok::<(), spill_sort::Error>(())
/// ```
#[derive(Debug)]
pub struct SpillList<T> {
    options: SpillOptions,
    file: Option<Arc<Mutex<File>>>,
    /// Number of items in the file, which precede those in memory.
    written: u64,
    held: Vec<T>,
}

impl<T: Item> SpillList<T> {
    /// Creates an empty list.
    #[must_use]
    pub fn new(options: SpillOptions) -> Self {
        Self {
            options,
            file: None,
            written: 0,
            held: Vec::new(),
        }
    }

    /// Adds an item.
    ///
    /// # Errors
    ///
    /// Returns an error if spilled items cannot be written.
    pub fn push(&mut self, item: T) -> Result<()> {
        self.held.push(item);
        // Once there is a file, items in memory only reduce the number of writes.
        let most = match self.file {
            Some(_) => self.options.memory_bytes.min(READ_BYTES),
            None => self.options.memory_bytes,
        };
        if self.held.len() * T::BYTES > most {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        let failed = self.options.failed();
        let file = self.options.file(&mut self.file)?;
        let mut file = file.lock().map_err(|_| Error::Thread)?;
        crate::seek(&mut file, self.written * T::BYTES as u64).map_err(&failed)?;
        let held = std::mem::take(&mut self.held);
        crate::write_items(&mut file, &held).map_err(&failed)?;
        self.written += held.len() as u64;
        Ok(())
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.written + self.held.len() as u64
    }

    /// Returns `true` if there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over all items, in order.
    #[must_use]
    pub fn iter(&self) -> Items<'_, T> {
        self.from(0)
    }

    /// Returns the item at an index from 0; `None` after the last one.
    ///
    /// # Errors
    ///
    /// Returns an error if spilled items cannot be read.
    pub fn get(&self, at: u64) -> Result<Option<T>> {
        if let Some(at) = at.checked_sub(self.written) {
            let held = usize::try_from(at).ok().and_then(|at| self.held.get(at));
            return Ok(held.copied());
        }
        self.from(at).next().transpose()
    }

    fn from(&self, at: u64) -> Items<'_, T> {
        let written = self.file.as_ref().map(|file| Reader::Disk {
            file: Arc::clone(file),
            at: at * T::BYTES as u64,
            left: self.written.saturating_sub(at),
            buffer: Vec::new(),
            used: 0,
            read_bytes: READ_BYTES,
        });
        Items {
            list: self,
            written,
            held: self.held.iter(),
        }
    }
}

impl<'a, T: Item> IntoIterator for &'a SpillList<T> {
    type Item = Result<T>;
    type IntoIter = Items<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterates over the items of a [`SpillList`]; yields an error when spilled items cannot be read.
pub struct Items<'a, T> {
    list: &'a SpillList<T>,
    written: Option<Reader<T>>,
    held: std::slice::Iter<'a, T>,
}

impl<T> std::fmt::Debug for Items<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Items").finish_non_exhaustive()
    }
}

impl<T: Item> Iterator for Items<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        if let Some(written) = &mut self.written {
            match written.next(&self.list.options.folder) {
                Ok(Some(item)) => return Some(Ok(item)),
                Ok(None) => self.written = None,
                Err(error) => {
                    // A failed read is not retried.
                    self.written = None;
                    self.held = [].iter();
                    return Some(Err(error));
                }
            }
        }
        self.held.next().map(|item| Ok(*item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_to_disk_comes_back_in_order_and_twice() {
        for (memory_bytes, count) in [
            (0, 1),
            (0, 9),
            (40, 5),
            (40, 6),
            (1 << 20, 9),
            (100, 40_000),
        ] {
            let mut list = SpillList::new(SpillOptions {
                folder: std::env::temp_dir(),
                memory_bytes,
            });
            let expected: Vec<u64> = (0..count).map(|at| at * 3 + 1).collect();
            for (pushed, value) in (1..).zip(&expected) {
                list.push(*value).unwrap();
                assert_eq!(list.len(), pushed);
            }
            assert_eq!(list.file.is_some(), count * 8 > memory_bytes as u64);
            for _ in 0..2 {
                let found: Vec<u64> = list.iter().map(Result::unwrap).collect();
                assert_eq!(found, expected);
            }
            for at in [0, count / 2, count - 1] {
                assert_eq!(list.get(at).unwrap(), Some(at * 3 + 1));
            }
            assert_eq!(list.get(count).unwrap(), None);
            // Reading moves the position in the file; writing must still append.
            list.push(7).unwrap();
            assert_eq!(list.iter().last().unwrap().unwrap(), 7);
            assert_eq!(list.iter().count() as u64, count + 1);
        }
    }
}
