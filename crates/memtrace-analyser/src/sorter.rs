//! A stable sort of more rows than fit in memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::vec;

use crate::error::{Error, Result};
use crate::record::{Item, Order};

/// Bytes sorted at once.
const PIECE_BYTES: usize = 16 << 20;
/// Bytes of a run on disk that are read at once.
const READ_BYTES: usize = 128 << 10;

/// Where rows go that do not fit, and how much may stay.
#[derive(Debug, Clone)]
pub(crate) struct SpillOptions {
    pub(crate) folder: PathBuf,
    /// Bytes that may stay in memory.
    pub(crate) memory_bytes: usize,
}

/// Collects items and gives them back in order; equal ones in the order in which they came.
///
/// Pieces are sorted on threads of their own. When more than the budget is held, the oldest pieces go to a file without a name,
/// which the system removes when the process ends, however it ends.
pub(crate) struct Sorter<O: Order> {
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
    pub(crate) fn new(options: SpillOptions) -> Self {
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

    pub(crate) fn push(&mut self, item: O::Item) -> Result<()> {
        self.piece.push(item);
        if self.piece.len() >= self.piece_items {
            self.close_piece()?;
        }
        Ok(())
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
        let folder = self.options.folder.clone();
        let failed = |source| Error::Spill {
            folder: folder.display().to_string(),
            source,
        };
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            None => {
                let file = tempfile::tempfile_in(&self.options.folder).map_err(failed)?;
                Arc::clone(self.file.insert(Arc::new(Mutex::new(file))))
            }
        };
        let mut file = file.lock().map_err(|_| Error::Thread)?;
        let mut buffer = Vec::with_capacity(READ_BYTES + 64);
        for run in &mut self.runs {
            settle(run)?;
            let Run::Memory(items) = run else { continue };
            let start = self.written;
            let count = items.len() as u64;
            for item in std::mem::take(items) {
                item.put(&mut buffer);
                if buffer.len() >= READ_BYTES {
                    file.write_all(&buffer).map_err(failed)?;
                    buffer.clear();
                }
            }
            file.write_all(&buffer).map_err(failed)?;
            buffer.clear();
            self.written += count * O::Item::BYTES as u64;
            *run = Run::Disk {
                start,
                items: count,
            };
        }
        self.in_memory = 0;
        Ok(())
    }

    /// All items, in order.
    pub(crate) fn finish(mut self) -> Result<Merged<O>> {
        if !self.piece.is_empty() {
            self.piece.sort_by(O::compare);
            let piece = std::mem::take(&mut self.piece);
            self.runs.push(Run::Memory(piece));
        }
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
            } => {
                if *left == 0 {
                    return Ok(None);
                }
                if *used == buffer.len() {
                    let items =
                        (READ_BYTES / T::BYTES).min(usize::try_from(*left).unwrap_or(usize::MAX));
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

fn read_at(file: &mut File, at: u64, buffer: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
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
    /// Reversed: the heap gives the greatest. Of equal items the one of the older run is first.
    fn cmp(&self, other: &Self) -> Ordering {
        O::compare(&other.item, &self.item).then(other.run.cmp(&self.run))
    }
}

/// The items of all runs in order.
pub(crate) struct Merged<O: Order> {
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

    pub(crate) fn next(&mut self) -> Result<Option<O::Item>> {
        let Some(mut head) = self.heads.peek_mut() else {
            return Ok(None);
        };
        let item = head.item;
        let following = match self.readers.get_mut(head.run) {
            Some(reader) => reader.next(&self.folder)?,
            None => None,
        };
        match following {
            // The heap settles when the guard is dropped.
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
    use crate::record::{ByRegion, Record};

    fn sorted(records: &[Record], memory_bytes: usize) -> Vec<Record> {
        let mut sorter = Sorter::<ByRegion>::new(SpillOptions {
            folder: std::env::temp_dir(),
            memory_bytes,
        });
        sorter.piece_items = 7;
        for record in records {
            sorter.push(*record).unwrap();
        }
        let mut merged = sorter.finish().unwrap();
        let mut out = Vec::new();
        while let Some(record) = merged.next().unwrap() {
            out.push(record);
        }
        out
    }

    proptest! {
        #[test]
        fn spilled_or_not_it_is_the_stable_sort(keys in prop::collection::vec((0_u32..3, 0_u64..4), 0..200)) {
            let records: Vec<Record> = (0_u64..).zip(&keys).map(|(at, (region, time))| Record {
                time: *time, address: at, page: u64::MAX - at, region: *region, kind: 7, op: 1, thread: 3,
            }).collect();
            let mut expected = records.clone();
            expected.sort_by_key(|record| (record.region, record.time));
            prop_assert_eq!(&sorted(&records, usize::MAX), &expected);
            prop_assert_eq!(&sorted(&records, 0), &expected);
        }
    }
}
