//! Table b-trees: the leaves in order of row ids, scans over them, and single rows.

use crate::error::{Error, Result};
use crate::file::PageFile;
use crate::record::{Pick, Value, varint};

/// Trees are as deep as the logarithm of the file; more is a cycle.
const MAX_DEPTH: usize = 24;
/// Pages read at once by a scan.
const WINDOW_PAGES: u32 = 64;
/// Pages that lookups keep. Rows are looked up nearly in order, and with many files open at once these add up.
const CACHED_PAGES: usize = 8;
/// Interior pages that cursors keep: tables that several threads wrote are read in several places by turns.
const CACHED_PARENTS: usize = 2;

const LEAF: u8 = 0x0d;
const INTERIOR: u8 = 0x05;

/// Location of the leaves of one table, in order of row ids.
///
/// Only the interior pages above the leaves are kept, each of which names a few hundred: 24 bytes for more than a megabyte
/// of the table.
#[derive(Debug, Clone, Default)]
pub struct Leaves {
    parents: Vec<Parent>,
    /// How many leaves there are.
    count: usize,
    /// The only page of the table, if it needs no more.
    only: Option<u32>,
}

/// An interior page whose children are leaves.
#[derive(Debug, Clone, Copy)]
struct Parent {
    page: u32,
    /// The number of its first leaf.
    first: usize,
    /// The largest row id that its leaves may hold.
    last: i64,
}

impl Leaves {
    /// Finds the leaves of the table whose tree begins at page `root`, by reading the interior pages.
    ///
    /// # Errors
    ///
    /// Returns an error if one of these is damaged, or names pages in circles.
    pub fn of(file: &PageFile, root: u32) -> Result<Self> {
        let mut leaves = Self::default();
        let mut page = Vec::new();
        // Trees are balanced: the depth of the first leaf is that of all, so leaves are not read here.
        let mut depth = 0;
        let mut first = root;
        while let Some(child) = children(file, first, i64::MAX, &mut page)?
            .and_then(|children| children.first().copied())
        {
            first = child.0;
            depth += 1;
            if depth > MAX_DEPTH {
                return Err(file.corrupt(root, "the tree is deeper than any table can be"));
            }
        }
        if depth == 0 {
            leaves.only = Some(root);
            leaves.count = 1;
        } else {
            leaves.descend(file, root, i64::MAX, depth, &mut page)?;
        }
        Ok(leaves)
    }

    /// Returns the number of leaves, at least 1 for a table of a file.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn descend(
        &mut self,
        file: &PageFile,
        number: u32,
        last: i64,
        levels: usize,
        page: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(children) = children(file, number, last, page)? else {
            return Err(file.corrupt(number, "a leaf where an interior page must be"));
        };
        if levels > 1 {
            for (child, key) in children {
                self.descend(file, child, key, levels - 1, page)?;
            }
            return Ok(());
        }
        self.parents.push(Parent {
            page: number,
            first: self.count,
            last,
        });
        self.count += children.len();
        // A cycle would give more leaves than the file has pages.
        if self.count > file.pages() as usize {
            return Err(file.corrupt(number, "the tree of a table goes round in circles"));
        }
        Ok(())
    }
}

/// The leaves below the interior pages that were used last.
#[derive(Debug)]
struct Near {
    /// By the number of the parent.
    slots: Vec<Slot>,
    page: Vec<u8>,
}

/// The leaves below one interior page.
#[derive(Debug, Clone, Default)]
struct Slot {
    /// The parent, from 1; 0 for none yet.
    parent: usize,
    /// The number of the first leaf.
    first: usize,
    /// Page number and largest possible row id of each.
    leaves: Vec<(u32, i64)>,
}

impl Slot {
    fn page(&self, leaf: usize) -> Option<u32> {
        let at = leaf.checked_sub(self.first)?;
        self.leaves.get(at).map(|(page, _)| *page)
    }

    /// The leaf that would hold a row, if it is certain that it is one of these.
    fn find(&self, rowid: i64, hint: usize) -> Option<(usize, u32)> {
        let holds = |at: usize| {
            let last = |at: usize| self.leaves.get(at).map(|(_, last)| *last);
            // Whether a row belongs to the first leaf or to one before is not known here.
            let before = at.checked_sub(1).and_then(last);
            before.is_some_and(|last| rowid > last) && last(at).is_some_and(|last| rowid <= last)
        };
        let mut at = hint.wrapping_sub(self.first);
        if !holds(at) {
            at = self.leaves.partition_point(|(_, last)| *last < rowid);
        }
        let (page, _) = self.leaves.get(at).filter(|_| holds(at))?;
        Some((self.first + at, *page))
    }
}

impl Near {
    fn new(slots: usize) -> Self {
        Self {
            slots: vec![Slot::default(); slots],
            page: Vec::new(),
        }
    }

    /// The leaves below a parent.
    fn below(&mut self, file: &PageFile, leaves: &Leaves, parent: usize) -> Result<&Slot> {
        let count = self.slots.len().max(1);
        let Some(slot) = self.slots.get_mut(parent % count) else {
            return Err(file.corrupt(1, "no interior page names a leaf"));
        };
        if slot.parent != parent + 1 {
            slot.parent = 0;
            if let Some(only) = leaves.only {
                slot.leaves = vec![(only, i64::MAX)];
            } else if let Some(above) = leaves.parents.get(parent) {
                let children = children(file, above.page, above.last, &mut self.page)?;
                slot.leaves = children.unwrap_or_default();
                slot.first = above.first;
            }
            slot.parent = parent + 1;
        }
        Ok(slot)
    }

    /// The page of a leaf, and those of its siblings.
    fn page(&mut self, file: &PageFile, leaves: &Leaves, leaf: usize) -> Result<(u32, &Slot)> {
        let behind = leaves
            .parents
            .partition_point(|parent| parent.first <= leaf);
        let slot = self.below(file, leaves, behind.saturating_sub(1))?;
        Ok((slot.page(leaf).unwrap_or_default(), slot))
    }

    /// Number and page of the leaf that would hold a row; `hint` is where the last one was.
    #[inline]
    fn find(
        &mut self,
        file: &PageFile,
        leaves: &Leaves,
        rowid: i64,
        hint: usize,
    ) -> Result<Option<(usize, u32)>> {
        if let [slot] = self.slots.as_slice()
            && let Some(found) = slot.find(rowid, hint)
        {
            return Ok(Some(found));
        }
        let parent = leaves.parents.partition_point(|parent| parent.last < rowid);
        if parent == leaves.parents.len() && leaves.only.is_none() {
            return Ok(None);
        }
        let slot = self.below(file, leaves, parent)?;
        let at = slot.leaves.partition_point(|(_, last)| *last < rowid);
        let found = slot.leaves.get(at);
        Ok(found.map(|(page, _)| (slot.first + at, *page)))
    }
}

/// Children of an interior page with the largest row id of each; `None` for a leaf.
fn children(
    file: &PageFile,
    number: u32,
    last: i64,
    page: &mut Vec<u8>,
) -> Result<Option<Vec<(u32, i64)>>> {
    file.read(number, 1, page)?;
    let header = header_at(number);
    match page.get(header) {
        Some(&LEAF) => return Ok(None),
        Some(&INTERIOR) => {}
        _ => return Err(file.corrupt(number, "no page of a table")),
    }
    let damaged = || file.corrupt(number, "an interior page names no child");
    let cells = usize::from(u16_at(page, header + 3).ok_or_else(damaged)?);
    let mut children = Vec::with_capacity(cells.min(page.len() / 6) + 1);
    for cell in 0..cells {
        let mut at = usize::from(u16_at(page, header + 12 + 2 * cell).ok_or_else(damaged)?);
        let child = u32_at(page, at).ok_or_else(damaged)?;
        at += 4;
        let key = varint(page, &mut at).ok_or_else(damaged)?;
        children.push((child, key));
    }
    children.push((u32_at(page, header + 8).ok_or_else(damaged)?, last));
    Ok(Some(children))
}

/// The first page begins with the header of the file.
const fn header_at(page: u32) -> usize {
    if page == 1 { 100 } else { 0 }
}

/// Number of cells of a leaf.
fn leaf_cells(file: &PageFile, number: u32, page: &[u8]) -> Result<usize> {
    let header = header_at(number);
    if page.get(header) != Some(&LEAF) {
        return Err(file.corrupt(number, "no leaf of a table where one must be"));
    }
    let cells = usize::from(u16_at(page, header + 3).unwrap_or_default());
    if header + 8 + 2 * cells > page.len() {
        return Err(file.corrupt(number, "more rows than fit on the page"));
    }
    Ok(cells)
}

/// A cell of a leaf: its row id, where its bytes on the page are, and what follows elsewhere.
struct Cell {
    rowid: i64,
    start: usize,
    end: usize,
    /// Bytes on overflow pages, and the first of those.
    overflow: Option<(usize, u32)>,
}

#[inline]
fn cell(page: &[u8], header: usize, index: usize, usable: usize) -> Option<Cell> {
    let mut at = usize::from(u16_at(page, header + 8 + 2 * index)?);
    let payload = usize::try_from(varint(page, &mut at)?).ok()?;
    let rowid = varint(page, &mut at)?;
    let most = usable - 35;
    if payload <= most {
        let end = at.checked_add(payload)?;
        return (end <= page.len()).then_some(Cell {
            rowid,
            start: at,
            end,
            overflow: None,
        });
    }
    let least = (usable - 12) * 32 / 255 - 23;
    let local = least + (payload - least) % (usable - 4);
    let local = if local <= most { local } else { least };
    let end = at.checked_add(local)?;
    Some(Cell {
        rowid,
        start: at,
        end,
        overflow: Some((payload - local, u32_at(page, end)?)),
    })
}

/// Follows overflow pages and gathers a whole record.
fn gather(file: &PageFile, leaf: u32, page: &[u8], cell: &Cell, whole: &mut Vec<u8>) -> Result<()> {
    whole.clear();
    whole.extend_from_slice(page.get(cell.start..cell.end).unwrap_or_default());
    let (mut left, mut next) = cell.overflow.unwrap_or_default();
    // A length that the file cannot hold is damage, and must not become an allocation.
    if left as u64 > u64::from(file.pages()) * file.page_bytes() as u64 {
        return Err(file.corrupt(leaf, "a row longer than the file"));
    }
    let mut buffer = Vec::new();
    while left > 0 {
        file.read(next, 1, &mut buffer)?;
        let part = left.min(file.usable_bytes() - 4);
        let bytes = buffer
            .get(4..4 + part)
            .ok_or_else(|| file.corrupt(next, "an overflow page is too short"))?;
        whole.extend_from_slice(bytes);
        left -= part;
        next = u32_at(&buffer, 0).unwrap_or_default();
    }
    Ok(())
}

const BAD_ROW: &str = "a row does not fit its page";

/// A row as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct Row<'p> {
    /// Its id.
    pub rowid: i64,
    /// Its record, to be decoded with a [`Pick`].
    pub record: &'p [u8],
    page: u32,
}

impl Row<'_> {
    /// Returns the error of a record that does not decode.
    pub fn damaged(&self, file: &PageFile) -> Error {
        file.corrupt(self.page, BAD_ROW)
    }
}

/// Reads rows in order of their ids, or the leaves of a table in any order.
#[derive(Debug)]
pub struct Cursor<'a> {
    file: &'a PageFile,
    leaves: &'a Leaves,
    near: Near,
    /// The leaf being read, and the one after the last to read.
    leaf: usize,
    end: usize,
    cell: usize,
    cells: usize,
    /// Pages read together: the first one's number, how many, their bytes.
    window: (u32, u32, Vec<u8>),
    /// Number of the current page, and where it is in the window.
    number: u32,
    page_at: usize,
    whole: Vec<u8>,
}

impl<'a> Cursor<'a> {
    /// Starts at the first of all rows.
    pub fn new(file: &'a PageFile, leaves: &'a Leaves) -> Self {
        let mut cursor = Self {
            file,
            leaves,
            near: Near::new(CACHED_PARENTS),
            leaf: 0,
            end: leaves.len(),
            cell: 0,
            cells: 0,
            window: (0, 0, Vec::new()),
            number: 0,
            page_at: usize::MAX,
            whole: Vec::new(),
        };
        cursor.select(0, leaves.len());
        cursor
    }

    /// Goes to the first row of leaf `start`, and ends before leaf `end`.
    pub fn select(&mut self, start: usize, end: usize) {
        self.leaf = start;
        self.end = end.min(self.leaves.len());
        self.cell = 0;
        self.cells = 0;
        self.page_at = usize::MAX;
    }

    fn page(&self) -> &[u8] {
        let bytes = self.file.page_bytes();
        self.window
            .2
            .get(self.page_at..self.page_at + bytes)
            .unwrap_or_default()
    }

    /// Makes the page of the current leaf available.
    fn load(&mut self) -> Result<u32> {
        let (number, siblings) = self.near.page(self.file, self.leaves, self.leaf)?;
        let (first, count, _) = self.window;
        if number < first || number >= first + count {
            // As many of the following leaves as lie just behind this one. Copying a page of another table between
            // them costs more than another call.
            let mut last = number;
            for leaf in self.leaf + 1..self.end.min(self.leaf + WINDOW_PAGES as usize) {
                match siblings.page(leaf) {
                    Some(next) if next == last + 1 => last = next,
                    _ => break,
                }
            }
            self.window.0 = number;
            self.window.1 = 0;
            self.window.1 = self
                .file
                .read(number, last - number + 1, &mut self.window.2)?;
        }
        self.page_at = (number - self.window.0) as usize * self.file.page_bytes();
        Ok(number)
    }

    /// Returns the id and the picked values of the next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns an error if a page or record is damaged. After an error of a page, the rest of the table is given up.
    #[inline]
    pub fn next<const N: usize>(
        &mut self,
        pick: &Pick<N>,
    ) -> Result<Option<(i64, [Value<'_>; N])>> {
        let file = self.file;
        let Some(row) = self.next_row()? else {
            return Ok(None);
        };
        match pick.decode(row.rowid, row.record) {
            Some(values) => Ok(Some((row.rowid, values))),
            None => Err(row.damaged(file)),
        }
    }

    /// Returns the next row as it is stored; `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns an error if a page is damaged. The rest of the table is then given up.
    #[inline]
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>> {
        while self.cell >= self.cells {
            if self.page_at != usize::MAX {
                self.leaf += 1;
            }
            if self.leaf >= self.end {
                return Ok(None);
            }
            self.cell = 0;
            self.cells = match self.enter() {
                Ok(cells) => cells,
                Err(error) => return Err(self.give_up(error)),
            };
        }
        let page = self.number;
        let found = cell(
            self.page(),
            header_at(page),
            self.cell,
            self.file.usable_bytes(),
        );
        self.cell += 1;
        let Some(found) = found else {
            let error = self.file.corrupt(page, BAD_ROW);
            return Err(self.give_up(error));
        };
        if found.overflow.is_some() {
            let mut whole = std::mem::take(&mut self.whole);
            let gathered = gather(self.file, page, self.page(), &found, &mut whole);
            self.whole = whole;
            if let Err(error) = gathered {
                return Err(self.give_up(error));
            }
        }
        let record = if found.overflow.is_some() {
            self.whole.as_slice()
        } else {
            self.page().get(found.start..found.end).unwrap_or_default()
        };
        Ok(Some(Row {
            rowid: found.rowid,
            record,
            page,
        }))
    }

    /// Loads the current leaf and counts its rows.
    fn enter(&mut self) -> Result<usize> {
        self.number = self.load()?;
        leaf_cells(self.file, self.number, self.page())
    }

    /// Nothing is read after an error.
    fn give_up(&mut self, error: Error) -> Error {
        self.end = 0;
        self.cells = 0;
        self.cell = 0;
        error
    }
}

/// Reads single rows by id, with the pages it used last at hand.
#[derive(Debug)]
pub struct Lookup<'a> {
    file: &'a PageFile,
    leaves: &'a Leaves,
    near: Near,
    /// Where the last row was found, and its id.
    leaf: usize,
    cell: usize,
    rowid: i64,
    /// By page number: pages, and how many cells they have.
    cache: Vec<(u32, usize, Vec<u8>)>,
    whole: Vec<u8>,
}

impl<'a> Lookup<'a> {
    /// Reads rows of the table with these leaves.
    pub fn new(file: &'a PageFile, leaves: &'a Leaves) -> Self {
        Self {
            file,
            leaves,
            near: Near::new(1),
            leaf: 0,
            cell: 0,
            rowid: 0,
            cache: vec![(0, 0, Vec::new()); CACHED_PAGES],
            whole: Vec::new(),
        }
    }

    /// Returns the row of that id, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if a page or record is damaged.
    #[inline]
    pub fn get<const N: usize>(
        &mut self,
        rowid: i64,
        pick: &Pick<N>,
    ) -> Result<Option<[Value<'_>; N]>> {
        let found = self.near.find(self.file, self.leaves, rowid, self.leaf)?;
        let Some((leaf, number)) = found else {
            return Ok(None);
        };
        // Ids mostly have no gaps, so a row is as many cells further as its id is larger.
        let guess = if leaf == self.leaf {
            let step = isize::try_from(rowid.wrapping_sub(self.rowid)).unwrap_or(0);
            self.cell.saturating_add_signed(step)
        } else {
            0
        };
        self.leaf = leaf;
        let place = number as usize % CACHED_PAGES;
        let Some(entry) = self.cache.get_mut(place) else {
            return Ok(None);
        };
        if entry.0 != number {
            entry.0 = 0;
            self.file.read(number, 1, &mut entry.2)?;
            entry.1 = leaf_cells(self.file, number, &entry.2)?;
            entry.0 = number;
        }
        let (_, cells, page) = &*entry;
        let (header, usable) = (header_at(number), self.file.usable_bytes());
        let damaged = || self.file.corrupt(number, BAD_ROW);
        let mut low = 0;
        let mut high = *cells;
        let mut probe = guess.min(cells.saturating_sub(1));
        let found = loop {
            if low >= high {
                return Ok(None);
            }
            let this = cell(page, header, probe, usable).ok_or_else(damaged)?;
            match this.rowid.cmp(&rowid) {
                std::cmp::Ordering::Equal => break this,
                std::cmp::Ordering::Less => low = probe + 1,
                std::cmp::Ordering::Greater => high = probe,
            }
            probe = low + (high - low) / 2;
        };
        self.cell = probe;
        self.rowid = rowid;
        let record = if found.overflow.is_some() {
            gather(self.file, number, page, &found, &mut self.whole)?;
            &self.whole
        } else {
            page.get(found.start..found.end).unwrap_or_default()
        };
        pick.decode(rowid, record).map(Some).ok_or_else(damaged)
    }
}

fn u16_at(page: &[u8], at: usize) -> Option<u16> {
    match page.get(at..at + 2) {
        Some(&[a, b]) => Some(u16::from_be_bytes([a, b])),
        _ => None,
    }
}

fn u32_at(page: &[u8], at: usize) -> Option<u32> {
    match page.get(at..at + 4) {
        Some(&[a, b, c, d]) => Some(u32::from_be_bytes([a, b, c, d])),
        _ => None,
    }
}
