//! Stable sort of more rows than fit in memory.
//!
//! [`Sorter`] takes [`Item`]s of fixed size one by one and returns them in their [`Order`]. Items
//! beyond a memory budget are stored in an unnamed file, which the system removes when the process
//! ends, however it ends. [`SpillList`] stores items in the same way in order of insertion.
//!
//! ```
//! use std::cmp::Ordering;
//! use spill_sort::{Order, Sorter, SpillOptions};
//!
//! struct Ascending;
//! impl Order for Ascending {
//!     type Item = u64;
//!     fn compare(a: &u64, b: &u64) -> Ordering {
//!         a.cmp(b)
//!     }
//! }
//!
//! let mut sorter = Sorter::<Ascending>::new(SpillOptions { folder: std::env::temp_dir(), memory_bytes: 1 << 20 });
//! for number in [3, 1, 2] {
//!     sorter.push(number)?;
//! }
//! let mut sorted = sorter.finish()?;
//! assert_eq!(sorted.next_item()?, Some(1));
//! # Ok::<(), spill_sort::Error>(())
//! ```

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::vec;

mod list;

pub use list::{Items, SpillList};

/// Error of sorting rows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder for spilled rows could not be used.
    #[error("spilling to {folder}: {source}")]
    Spill {
        /// The folder.
        folder: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A thread could not be started or has failed.
    #[error("a sorting thread failed")]
    Thread,
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An item of fixed size that can be sorted on disk.
pub trait Item: Copy + Send + 'static {
    /// Number of bytes that [`Item::put`] appends.
    const BYTES: usize;
    /// Appends exactly [`Item::BYTES`] bytes.
    fn put(&self, out: &mut Vec<u8>);
    /// Decodes exactly [`Item::BYTES`] bytes.
    fn get(bytes: &[u8]) -> Self;
}

impl Item for u64 {
    const BYTES: usize = 8;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn get(bytes: &[u8]) -> Self {
        word(bytes, 0)
    }
}

/// Order of items.
pub trait Order: Send + 'static {
    /// Type of the items.
    type Item: Item;
    /// Compares two items; equal ones keep their order of insertion.
    fn compare(a: &Self::Item, b: &Self::Item) -> Ordering;
}

/// Returns the number in eight bytes from `at`, least significant first; 0 if they are out of
/// range. For [`Item::get`].
#[must_use]
pub fn word(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .and_then(|part| part.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

/// Number of bytes sorted at once.
const PIECE_BYTES: usize = 16 << 20;
/// Number of bytes of a run written at once, and read at once if there are few runs.
const READ_BYTES: usize = 128 << 10;
/// Minimum number of bytes read at once, however many runs there are.
const LEAST_READ_BYTES: usize = 4 << 10;

/// Location of spilled rows, and memory budget.
#[derive(Debug, Clone)]
pub struct SpillOptions {
    /// Folder of the file.
    pub folder: PathBuf,
    /// Memory budget in bytes.
    pub memory_bytes: usize,
}

impl SpillOptions {
    /// Wraps an error of the folder.
    fn failed(&self) -> impl Fn(io::Error) -> Error + use<> {
        let folder = self.folder.display().to_string();
        move |source| Error::Spill {
            folder: folder.clone(),
            source,
        }
    }

    /// Returns the file; creates it in the folder if there is none.
    fn file(&self, file: &mut Option<Arc<Mutex<File>>>) -> Result<Arc<Mutex<File>>> {
        if let Some(file) = file {
            return Ok(Arc::clone(file));
        }
        let made = tempfile::tempfile_in(&self.folder).map_err(self.failed())?;
        Ok(Arc::clone(file.insert(Arc::new(Mutex::new(made)))))
    }
}

/// Writes items at the current position of the file.
fn write_items<T: Item>(file: &mut File, items: &[T]) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(READ_BYTES + T::BYTES);
    for item in items {
        item.put(&mut buffer);
        if buffer.len() >= READ_BYTES {
            file.write_all(&buffer)?;
            buffer.clear();
        }
    }
    file.write_all(&buffer)
}

/// Collects items and returns them in order; equal ones in order of insertion.
///
/// Pieces are sorted on separate threads. When the budget is exceeded, the oldest pieces go to an
/// unnamed file, which the system removes when the process ends, however it ends.
pub struct Sorter<O: Order> {
    options: SpillOptions,
    piece: Vec<O::Item>,
    piece_items: usize,
    runs: Vec<Run<O::Item>>,
    in_memory: usize,
    file: Option<Arc<Mutex<File>>>,
    written: u64,
}

enum Run<T> {
    Sorting(JoinHandle<Vec<T>>),
    Memory(Vec<T>),
    Disk { start: u64, items: u64 },
}

impl<O: Order> Sorter<O> {
    /// Creates an empty sorter.
    #[must_use]
    pub fn new(options: SpillOptions) -> Self {
        let budget = options.memory_bytes / 4;
        let piece_items = (budget.clamp(64 << 10, PIECE_BYTES) / O::Item::BYTES).max(1);
        Self {
            options,
            piece: Vec::new(),
            piece_items,
            runs: Vec::new(),
            in_memory: 0,
            file: None,
            written: 0,
        }
    }

    /// Adds an item.
    ///
    /// # Errors
    ///
    /// Returns an error if spilled items cannot be written, or a thread cannot be started.
    pub fn push(&mut self, item: O::Item) -> Result<()> {
        self.piece.push(item);
        if self.piece.len() >= self.piece_items {
            self.close_piece()?;
        }
        Ok(())
    }

    /// Changes the memory budget in bytes, from the next piece on.
    pub fn set_memory(&mut self, bytes: usize) {
        self.options.memory_bytes = bytes;
    }

    fn close_piece(&mut self) -> Result<()> {
        let mut piece = std::mem::take(&mut self.piece);
        self.in_memory += piece.len() * O::Item::BYTES;
        let sorting = thread::Builder::new()
            .name("sort".to_owned())
            .spawn(move || {
                piece.sort_by(O::compare);
                piece
            })
            .map_err(|_| Error::Thread)?;
        self.runs.push(Run::Sorting(sorting));
        // At most one piece is being sorted while the next one fills.
        let before_last = self.runs.len().saturating_sub(2);
        for run in self.runs.iter_mut().skip(before_last).take(1) {
            settle(run)?;
        }
        if self.in_memory + self.piece_items * O::Item::BYTES > self.options.memory_bytes {
            self.spill()?;
        }
        Ok(())
    }

    /// Writes every run that is in memory.
    fn spill(&mut self) -> Result<()> {
        let failed = self.options.failed();
        let file = self.options.file(&mut self.file)?;
        let mut file = file.lock().map_err(|_| Error::Thread)?;
        for run in &mut self.runs {
            settle(run)?;
            let Run::Memory(items) = run else { continue };
            let start = self.written;
            let count = items.len() as u64;
            write_items(&mut file, &std::mem::take(items)).map_err(&failed)?;
            self.written += count * O::Item::BYTES as u64;
            *run = Run::Disk {
                start,
                items: count,
            };
        }
        self.in_memory = 0;
        Ok(())
    }

    /// Returns all items, in order.
    ///
    /// # Errors
    ///
    /// Returns an error if spilled items cannot be read, or a thread failed.
    pub fn finish(mut self) -> Result<Merged<O>> {
        if !self.piece.is_empty() {
            self.piece.sort_by(O::compare);
            let piece = std::mem::take(&mut self.piece);
            self.runs.push(Run::Memory(piece));
        }
        let runs = self.runs.len().max(1);
        let read_bytes = self.options.memory_bytes / 2 / runs;
        let read_bytes = read_bytes.clamp(LEAST_READ_BYTES, READ_BYTES);
        let mut readers = Vec::with_capacity(self.runs.len());
        for mut run in self.runs {
            settle(&mut run)?;
            readers.push(match run {
                Run::Memory(items) => Reader::Memory(items.into_iter()),
                Run::Disk { start, items } => Reader::Disk {
                    file: self.file.clone().ok_or(Error::Thread)?,
                    at: start,
                    left: items,
                    buffer: Vec::new(),
                    used: 0,
                    read_bytes,
                },
                Run::Sorting(_) => return Err(Error::Thread),
            });
        }
        Merged::new(readers, self.options.folder)
    }
}

/// Waits for a piece that is being sorted.
fn settle<T>(run: &mut Run<T>) -> Result<()> {
    if let Run::Sorting(_) = run
        && let Run::Sorting(sorting) = std::mem::replace(run, Run::Memory(Vec::new()))
    {
        *run = Run::Memory(sorting.join().map_err(|_| Error::Thread)?);
    }
    Ok(())
}

enum Reader<T> {
    Memory(vec::IntoIter<T>),
    Disk {
        file: Arc<Mutex<File>>,
        at: u64,
        left: u64,
        buffer: Vec<u8>,
        used: usize,
        read_bytes: usize,
    },
}

impl<T: Item> Reader<T> {
    fn next(&mut self, folder: &Path) -> Result<Option<T>> {
        match self {
            Self::Memory(items) => Ok(items.next()),
            Self::Disk {
                file,
                at,
                left,
                buffer,
                used,
                read_bytes,
            } => {
                if *left == 0 {
                    return Ok(None);
                }
                if *used == buffer.len() {
                    let most = usize::try_from(*left).unwrap_or(usize::MAX);
                    let items = (*read_bytes / T::BYTES).clamp(1, most);
                    buffer.resize(items * T::BYTES, 0);
                    let mut file = file.lock().map_err(|_| Error::Thread)?;
                    read_at(&mut file, *at, buffer).map_err(|source| Error::Spill {
                        folder: folder.display().to_string(),
                        source,
                    })?;
                    *at += buffer.len() as u64;
                    *used = 0;
                }
                let item = T::get(buffer.get(*used..*used + T::BYTES).unwrap_or_default());
                *used += T::BYTES;
                *left -= 1;
                Ok(Some(item))
            }
        }
    }
}

fn seek(file: &mut File, at: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(at)).map(drop)
}

fn read_at(file: &mut File, at: u64, buffer: &mut [u8]) -> io::Result<()> {
    seek(file, at)?;
    file.read_exact(buffer)
}

/// The first item of a run.
struct Head<O: Order> {
    item: O::Item,
    run: usize,
}

impl<O: Order> PartialEq for Head<O> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<O: Order> Eq for Head<O> {}

impl<O: Order> PartialOrd for Head<O> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<O: Order> Ord for Head<O> {
    /// Reversed: the heap returns the greatest. Among equal items, that of the older run comes
    /// first.
    fn cmp(&self, other: &Self) -> Ordering {
        O::compare(&other.item, &self.item).then(other.run.cmp(&self.run))
    }
}

/// Iterates over the items of all runs in order.
pub struct Merged<O: Order> {
    readers: Vec<Reader<O::Item>>,
    heads: BinaryHeap<Head<O>>,
    folder: PathBuf,
}

impl<O: Order> Merged<O> {
    fn new(mut readers: Vec<Reader<O::Item>>, folder: PathBuf) -> Result<Self> {
        let mut heads = BinaryHeap::with_capacity(readers.len());
        for (run, reader) in readers.iter_mut().enumerate() {
            if let Some(item) = reader.next(&folder)? {
                heads.push(Head { item, run });
            }
        }
        Ok(Self {
            readers,
            heads,
            folder,
        })
    }

    /// Returns the next item.
    ///
    /// # Errors
    ///
    /// Returns an error if spilled items cannot be read.
    pub fn next_item(&mut self) -> Result<Option<O::Item>> {
        let Some(mut head) = self.heads.peek_mut() else {
            return Ok(None);
        };
        let item = head.item;
        let following = match self.readers.get_mut(head.run) {
            Some(reader) => reader.next(&self.folder)?,
            None => None,
        };
        match following {
            // The heap is reordered when the guard is dropped.
            Some(next) => head.item = next,
            None => {
                std::collections::binary_heap::PeekMut::pop(head);
            }
        }
        Ok(Some(item))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A key and its original position.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Row(u64, u64);

    impl Item for Row {
        const BYTES: usize = 16;

        fn put(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.0.to_le_bytes());
            out.extend_from_slice(&self.1.to_le_bytes());
        }

        fn get(bytes: &[u8]) -> Self {
            Self(word(bytes, 0), word(bytes, 8))
        }
    }

    struct ByKey;

    impl Order for ByKey {
        type Item = Row;

        fn compare(a: &Row, b: &Row) -> Ordering {
            a.0.cmp(&b.0)
        }
    }

    fn sorted(rows: &[Row], memory_bytes: usize) -> Vec<Row> {
        let mut sorter = Sorter::<ByKey>::new(SpillOptions {
            folder: std::env::temp_dir(),
            memory_bytes,
        });
        sorter.piece_items = 7;
        for row in rows {
            sorter.push(*row).unwrap();
        }
        let mut merged = sorter.finish().unwrap();
        let mut out = Vec::new();
        while let Some(row) = merged.next_item().unwrap() {
            out.push(row);
        }
        out
    }

    proptest! {
        #[test]
        fn spilled_or_not_it_is_the_stable_sort(keys in prop::collection::vec(0_u64..9, 0..200)) {
            let rows: Vec<Row> = keys.iter().copied().zip(0..).map(|(key, at)| Row(key, u64::MAX - at)).collect();
            let mut expected = rows.clone();
            expected.sort_by_key(|row| row.0);
            prop_assert_eq!(&sorted(&rows, usize::MAX), &expected);
            prop_assert_eq!(&sorted(&rows, 0), &expected);
        }
    }

    #[test]
    fn a_budget_that_shrinks_is_kept_from_then_on() {
        let mut sorter = Sorter::<ByKey>::new(SpillOptions {
            folder: std::env::temp_dir(),
            memory_bytes: usize::MAX,
        });
        sorter.piece_items = 7;
        let fill = |sorter: &mut Sorter<ByKey>| {
            for at in 0..70 {
                sorter.push(Row(70 - at, 0)).unwrap();
            }
            sorter.in_memory
        };
        assert_eq!(fill(&mut sorter), 70 * 16);
        sorter.set_memory(21 * 16);
        assert!(fill(&mut sorter) <= 21 * 16 && sorter.written > 0);
        let mut merged = sorter.finish().unwrap();
        for at in 0..140 {
            assert_eq!(merged.next_item().unwrap(), Some(Row(1 + at / 2, 0)));
        }
    }
}
