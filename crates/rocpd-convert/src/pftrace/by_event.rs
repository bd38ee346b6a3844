//! Finds the items of an event, regardless of their number.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fs::File;
use std::io::Write as _;
use std::marker::PhantomData;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use spill_sort::{Item, Order, Sorter, SpillOptions};

use crate::{Error, Result};

/// Maximum number of bytes in memory; more are stored in an unnamed file.
pub(super) const MEMORY_BYTES: usize = 8 << 20;
/// Number of items that are read together.
const PAGE_ITEMS: usize = 1024;
/// Number of cached pages: records come by time, and their events are numbered in nearly that
/// order.
const CACHED_PAGES: usize = 32;

/// Partition and event.
pub(super) type Key = (u32, i64);

/// An item of an event.
pub(super) trait OfEvent: Item {
    fn key(&self) -> Key;
}

/// Order by partition and event: items of one event keep their order of insertion.
pub(super) struct InOrder<T>(PhantomData<T>);

impl<T: OfEvent> Order for InOrder<T> {
    type Item = T;

    fn compare(a: &T, b: &T) -> Ordering {
        a.key().cmp(&b.key())
    }
}

/// Sorts items by event; `folder` stores them if they are many.
pub(super) fn sorter<T: OfEvent>(folder: &Path) -> Sorter<InOrder<T>> {
    Sorter::new(SpillOptions {
        folder: folder.to_owned(),
        memory_bytes: MEMORY_BYTES,
    })
}

/// Items by event. Memory is independent of their number except for one key per [`PAGE_ITEMS`].
pub(super) struct ByEvent<T> {
    /// Key of each page's first item.
    pages: Vec<Key>,
    place: Place,
    kind: PhantomData<T>,
}

/// A page in memory: its number and bytes.
type Page = (usize, Vec<u8>);

/// Items as bytes, in order of their keys.
enum Place {
    Memory(Vec<u8>),
    Disk {
        file: File,
        /// Cached pages by page number; empty at first.
        cache: RefCell<Vec<Option<Page>>>,
    },
}

impl<T: OfEvent> ByEvent<T> {
    /// Passes the items of an event to `show`, in the order in which they were added.
    pub(super) fn find(&self, key: Key, mut show: impl FnMut(T)) -> Result<()> {
        if self.pages.is_empty() {
            return Ok(());
        }
        // The items of an event may begin on one page and end on the next.
        let first = self.pages.partition_point(|first| *first < key);
        for page in first.saturating_sub(1)..self.pages.len() {
            if self.pages.get(page).is_some_and(|first| *first > key) {
                break;
            }
            self.with_page(page, |bytes| {
                let count = bytes.len() / T::BYTES;
                let at = |number: usize| {
                    let bytes = bytes.get(number * T::BYTES..(number + 1) * T::BYTES);
                    T::get(bytes.unwrap_or_default())
                };
                let (mut low, mut high) = (0, count);
                while low < high {
                    let middle = low + (high - low) / 2;
                    match at(middle).key() < key {
                        true => low = middle + 1,
                        false => high = middle,
                    }
                }
                let own = (low..count).map(at).take_while(|item| item.key() == key);
                own.for_each(&mut show);
            })?;
        }
        Ok(())
    }

    fn with_page(&self, page: usize, look: impl FnOnce(&[u8])) -> Result<()> {
        let size = PAGE_ITEMS * T::BYTES;
        match &self.place {
            Place::Memory(bytes) => {
                let bytes = bytes.get(page * size..).unwrap_or_default();
                look(bytes.get(..size).unwrap_or(bytes));
            }
            Place::Disk { file, cache } => {
                let mut cache = cache.borrow_mut();
                let Some(slot) = cache.get_mut(page % CACHED_PAGES) else {
                    return Ok(());
                };
                let (known, bytes) = slot.get_or_insert_with(|| (usize::MAX, vec![0; size]));
                if *known != page {
                    *known = usize::MAX;
                    file.read_exact_at(bytes, (page * size) as u64)?;
                    *known = page;
                }
                look(bytes);
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn is_on_disk(&self) -> bool {
        matches!(self.place, Place::Disk { .. })
    }
}

/// Receives items in order of their keys.
pub(super) struct Builder<'p, T> {
    folder: &'p Path,
    memory_bytes: usize,
    pages: Vec<Key>,
    /// Number of items.
    written: usize,
    /// Bytes that are not yet in the file.
    bytes: Vec<u8>,
    file: Option<File>,
    kind: PhantomData<T>,
}

impl<'p, T: OfEvent> Builder<'p, T> {
    pub(super) fn new(folder: &'p Path, memory_bytes: usize) -> Self {
        Self {
            folder,
            memory_bytes,
            pages: Vec::new(),
            written: 0,
            bytes: Vec::new(),
            file: None,
            kind: PhantomData,
        }
    }

    pub(super) fn add(&mut self, item: T) -> Result<()> {
        if self.written.is_multiple_of(PAGE_ITEMS) {
            self.pages.push(item.key());
        }
        self.written += 1;
        item.put(&mut self.bytes);
        if self.bytes.len() > self.memory_bytes {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        let failed = |source| Error::File {
            path: self.folder.to_owned(),
            step: "cannot keep what waits there",
            source,
        };
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(self.folder).map_err(failed)?),
        };
        file.write_all(&self.bytes).map_err(failed)?;
        self.bytes.clear();
        // Further data are written in pieces.
        self.memory_bytes = self.memory_bytes.min(1 << 20);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<ByEvent<T>> {
        if self.file.is_some() {
            // Pages are read as a whole.
            let whole = self.pages.len() * PAGE_ITEMS;
            let missing = (whole - self.written) * T::BYTES;
            self.bytes.resize(self.bytes.len() + missing, u8::MAX);
            self.spill()?;
        }
        let place = match self.file {
            Some(file) => Place::Disk {
                file,
                cache: RefCell::new(vec![None; CACHED_PAGES]),
            },
            None => Place::Memory(self.bytes),
        };
        Ok(ByEvent {
            pages: self.pages,
            place,
            kind: PhantomData,
        })
    }
}

/// Returns a partition's number in the form of keys.
pub(super) fn small(partition: usize) -> u32 {
    u32::try_from(partition).unwrap_or(u32::MAX)
}
