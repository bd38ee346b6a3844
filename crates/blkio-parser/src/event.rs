//! The normalised events that all readers produce.

use rustc_hash::FxHashMap;

use crate::num::index;
use crate::rwbs::{Direction, Rwbs};

/// Bytes of a sector, whatever the logical block size of the device.
pub const SECTOR_BYTES: u64 = 512;

/// Set in device numbers that stand for a name, the number of which is in the other bits.
pub(crate) const NAMED_DEVICE: u32 = 1 << 31;

/// What happened to a request or bio.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum EventKind {
    /// A bio entered the block layer.
    Queue,
    /// A request structure was taken for it.
    GetRq,
    /// The request went into the scheduler.
    Insert,
    /// A bio joined an existing request.
    Merge,
    /// The request went to the driver.
    Issue,
    /// The driver gave it back.
    Requeue,
    /// A bio was cut in two.
    Split,
    /// A bio was sent on to another device.
    Remap,
    /// The request ended.
    Complete,
    /// A queue was held back.
    Plug,
    /// A queue was released.
    Unplug,
    /// Anything else.
    Note,
}

impl EventKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 12] = [
        Self::Queue,
        Self::GetRq,
        Self::Insert,
        Self::Merge,
        Self::Issue,
        Self::Requeue,
        Self::Split,
        Self::Remap,
        Self::Complete,
        Self::Plug,
        Self::Unplug,
        Self::Note,
    ];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::GetRq => "get_request",
            Self::Insert => "insert",
            Self::Merge => "merge",
            Self::Issue => "issue",
            Self::Requeue => "requeue",
            Self::Split => "split",
            Self::Remap => "remap",
            Self::Complete => "complete",
            Self::Plug => "plug",
            Self::Unplug => "unplug",
            Self::Note => "note",
        }
    }
}

/// One event. Texts are numbers of [`Symbols`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Time in nanoseconds of the trace's own clock.
    pub t_ns: u64,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Sectors.
    pub nr_sector: u32,
    /// Bytes; sectors times 512 where the trace does not print them.
    pub bytes: u32,
    /// The kernel's device number, `major << 20 | minor`; 0 where the trace names none.
    pub dev: u32,
    /// Process, 0 where unknown.
    pub pid: u32,
    /// Negative errno of a completion, number of requests that an unplug released, else 0.
    pub error: i32,
    /// Number of the process name, 0 where unknown.
    pub comm: u32,
    /// Processor, 0 where unknown.
    pub cpu: u16,
    /// Number of the operation letters.
    pub rwbs: u16,
    /// Time of the other event of the request, of an issue the completion and of a completion the issue, where the record of one
    /// states both; 0 where the two are only known to belong together by their place.
    pub other_ns: u64,
    /// What happened.
    pub kind: EventKind,
    /// What the operation letters mean.
    pub direction: Direction,
}

impl Event {
    /// The issue of a read of which nothing is known, for readers to fill in.
    pub(crate) const BLANK: Self = Self {
        t_ns: 0,
        sector: 0,
        nr_sector: 0,
        bytes: 0,
        dev: 0,
        pid: 0,
        error: 0,
        comm: 0,
        cpu: 0,
        rwbs: 0,
        other_ns: 0,
        kind: EventKind::Issue,
        direction: Direction::Read,
    };

    /// Returns `true` if a completion ends a flush sequence: it is of no request, which completed before.
    pub(crate) fn ends_sequence(&self) -> bool {
        self.nr_sector == 0 && !matches!(self.direction, Direction::Flush | Direction::None)
    }

    /// Order of analysis: time, and at equal times an issue before a completion.
    pub(crate) fn key(&self) -> (u64, bool) {
        (self.t_ns, self.kind == EventKind::Complete)
    }
}

/// The texts that events refer to, in order of first appearance.
#[derive(Debug, Clone)]
pub struct Symbols {
    rwbs: Vec<Rwbs>,
    rwbs_numbers: FxHashMap<Rwbs, u16>,
    comms: Vec<Box<[u8]>>,
    comm_numbers: FxHashMap<Box<[u8]>, u32>,
    last: (Rwbs, u16, Direction),
    last_comm: u32,
}

impl Default for Symbols {
    fn default() -> Self {
        // An all-zero text is no operation, so the cache is empty.
        let nothing = Rwbs::new(b"O").unwrap_or_else(|| unreachable!());
        Self {
            rwbs: Vec::new(),
            rwbs_numbers: FxHashMap::default(),
            comms: vec![Box::default()],
            comm_numbers: FxHashMap::default(),
            last: (nothing, u16::MAX, Direction::Other),
            last_comm: 0,
        }
    }
}

/// Maximum number of distinct operation texts: far more than combinations that exist.
const MAX_RWBS: usize = 4096;
/// Maximum number of texts that every part begins with.
const MAX_BEGUN_WITH: usize = 64;
/// Maximum number of distinct process names that are kept.
const MAX_COMMS: usize = 1 << 20;

impl Symbols {
    /// Returns the number and direction of operation letters; `None` when there are absurdly many.
    pub(crate) fn rwbs(&mut self, rwbs: Rwbs) -> Option<(u16, Direction)> {
        if self.last.0 == rwbs && self.last.1 != u16::MAX {
            return Some((self.last.1, self.last.2));
        }
        let number = match self.rwbs_numbers.get(&rwbs) {
            Some(number) => *number,
            None => {
                if self.rwbs.len() >= MAX_RWBS {
                    return None;
                }
                let number = u16::try_from(self.rwbs.len()).ok()?;
                self.rwbs.push(rwbs);
                self.rwbs_numbers.insert(rwbs, number);
                number
            }
        };
        let direction = rwbs.decode().direction;
        self.last = (rwbs, number, direction);
        Some((number, direction))
    }

    /// Returns the number of a process name; 0, which is no name, when there are absurdly many.
    pub(crate) fn comm(&mut self, comm: &[u8]) -> u32 {
        if comm == self.comm_of(self.last_comm) {
            return self.last_comm;
        }
        if comm.is_empty() {
            return 0;
        }
        if let Some(number) = self.comm_numbers.get(comm) {
            self.last_comm = *number;
            return *number;
        }
        let number = self.comms.len();
        if number >= MAX_COMMS {
            return 0;
        }
        let number = u32::try_from(number).unwrap_or(0);
        self.comms.push(comm.into());
        self.comm_numbers.insert(comm.into(), number);
        number
    }

    /// Returns the operation letters of a number.
    #[must_use]
    pub fn rwbs_of(&self, number: u16) -> Option<Rwbs> {
        self.rwbs.get(usize::from(number)).copied()
    }

    /// Returns all operation letters, by number.
    #[must_use]
    pub fn rwbs_all(&self) -> &[Rwbs] {
        &self.rwbs
    }

    /// Returns the process name of a number, empty for 0.
    #[must_use]
    pub fn comm_of(&self, number: u32) -> &[u8] {
        usize::try_from(number)
            .ok()
            .and_then(|number| self.comms.get(number))
            .map_or(&[], |comm| comm)
    }

    /// Returns `true` if a device number stands for a name, because the trace has no other.
    #[must_use]
    pub fn is_named_device(&self, dev: u32) -> bool {
        dev & NAMED_DEVICE != 0
    }

    /// Returns a device as `major:minor`, or by the name that the trace has for it.
    #[must_use]
    pub fn device_name(&self, dev: u32) -> String {
        if dev & NAMED_DEVICE != 0 {
            let name = self.comm_of(dev & !NAMED_DEVICE);
            return String::from_utf8_lossy(name).into_owned();
        }
        format!("{}:{}", dev >> 20, dev & 0xf_ffff)
    }

    /// What a reader of a part begins with, so that its numbers are these: all texts while they are few.
    pub(crate) fn to_begin_with(&self) -> Self {
        if self.comms.len() + self.rwbs.len() <= MAX_BEGUN_WITH {
            self.clone()
        } else {
            Self::default()
        }
    }

    /// Takes over the texts of `other` and gives the numbers that its numbers become.
    pub(crate) fn absorb(&mut self, other: &Self) -> Renumber {
        Renumber {
            rwbs: other
                .rwbs
                .iter()
                .map(|rwbs| self.rwbs(*rwbs).map_or(0, |(number, _)| number))
                .collect(),
            comms: other.comms.iter().map(|comm| self.comm(comm)).collect(),
        }
    }
}

/// What the numbers of one table become in another.
pub(crate) struct Renumber {
    rwbs: Vec<u16>,
    comms: Vec<u32>,
}

impl Renumber {
    /// Returns `true` if nothing changes.
    pub(crate) fn is_identity(&self) -> bool {
        self.rwbs
            .iter()
            .enumerate()
            .all(|(i, n)| usize::from(*n) == i)
            && self
                .comms
                .iter()
                .enumerate()
                .all(|(i, n)| usize::try_from(*n) == Ok(i))
    }

    /// Returns the number that a number of operation letters becomes.
    pub(crate) fn rwbs(&self, number: u16) -> u16 {
        self.rwbs
            .get(usize::from(number))
            .copied()
            .unwrap_or(number)
    }

    pub(crate) fn apply(&self, event: &mut Event) {
        event.rwbs = self.rwbs(event.rwbs);
        let comm = |number: u32| self.comms.get(index(number.into())).copied();
        event.comm = comm(event.comm).unwrap_or(event.comm);
        if event.dev & NAMED_DEVICE != 0
            && let Some(name) = comm(event.dev & !NAMED_DEVICE)
        {
            event.dev = NAMED_DEVICE | name;
        }
    }
}
