//! Processes of a trace: a virtual address holds within one of them.

use rustc_hash::FxHashMap;

use crate::access::{Access, PAGE_BITS};

/// Bits of a virtual address; those above tell processes apart.
const ADDRESS_BITS: u32 = 48;

/// Numbers the processes of rows from 0, in order of appearance. Rows that state no process are of the first.
///
/// Workers that were forked have equal addresses for different memory. What they share counts for each.
///
/// ```
/// use memtrace_labeller::{Access, Processes};
/// let mut processes = Processes::default();
/// let mut row = Access::new(1, 0x7f00_0000_1000);
/// row.process_id = Some(11);
/// let of_first = processes.place(&row);
/// row.process_id = Some(22);
/// assert_ne!(processes.place(&row), of_first);
/// assert_eq!(of_first, (0x7f00_0000_1000, 0x7_f000_0001));
/// assert_eq!(processes.count(), 2);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Processes {
    numbers: FxHashMap<u32, u16>,
    last: Option<(u32, u16)>,
}

impl Processes {
    /// Returns the number of a row's process.
    pub fn number(&mut self, row: &Access) -> u16 {
        let Some(process) = row.process_id else {
            return 0;
        };
        if let Some((known, number)) = self.last
            && known == process
        {
            return number;
        }
        let next = u16::try_from(self.numbers.len()).unwrap_or(u16::MAX);
        let number = *self.numbers.entry(process).or_insert(next);
        self.last = Some((process, number));
        number
    }

    /// Returns the address and the page of a row as numbers that no other process has: its own in the first process.
    pub fn place(&mut self, row: &Access) -> (u64, u64) {
        let number = self.number(row);
        if number == 0 || row.address >> ADDRESS_BITS != 0 {
            return (row.address, row.address_page);
        }
        let number = u64::from(number);
        (
            row.address | number << ADDRESS_BITS,
            row.address_page | number << (ADDRESS_BITS - PAGE_BITS),
        )
    }

    /// Returns the number of processes so far that rows state.
    #[must_use]
    pub fn count(&self) -> usize {
        self.numbers.len()
    }
}
