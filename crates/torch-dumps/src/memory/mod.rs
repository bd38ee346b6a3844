//! Snapshots of PyTorch's caching allocator, as `torch.cuda.memory._dump_snapshot` writes them.
//!
//! A snapshot holds the *segments* that the allocator reserved with their blocks as they were when it was taken, and, if
//! `_record_memory_history` was on, the events before it. The events are played forward from the state that leads to the
//! recorded blocks, so allocations that are older than the history count from its beginning.

mod answer;
mod category;
mod fragmentation;
mod replay;
pub mod tables;

use rustc_hash::FxHashMap;

use crate::data::{Data, Id};
use crate::error::Result;
pub use crate::frames::{StackId, Stacks};

pub use answer::{Answer, DeviceAnswer};
pub use category::Category;
pub use fragmentation::{Fragmentation, fragmentation};
pub use replay::{Holder, Point, Replay, replay};

/// A snapshot of the memory of all devices.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// Name of the input.
    pub name: String,
    /// Devices with segments or events, in ascending order.
    pub devices: Vec<DeviceMemory>,
    /// Stacks of blocks and events.
    pub stacks: Stacks,
    /// Explicit categories of blocks and events, by number.
    labels: Vec<String>,
    /// Records that lack what they need, and were left out.
    pub skipped: u64,
}

/// Memory of one device.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeviceMemory {
    /// Number of the device.
    pub device: i64,
    /// Segments, in the order of the snapshot.
    pub segments: Vec<Segment>,
    /// Events before the snapshot, oldest first.
    pub events: Vec<Event>,
}

/// Memory that the allocator reserved at once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Segment {
    /// Size.
    pub bytes: i64,
    /// Stream that it belongs to.
    pub stream: i64,
    /// Pool that it belongs to; (0, 0) is the one of all memory outside of CUDA graphs.
    pub pool: (i64, i64),
    /// Blocks, which cover it.
    pub blocks: Vec<Block>,
}

/// State of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockState {
    /// Used by a tensor.
    Allocated,
    /// Released, but another stream may still use it.
    AwaitingFree,
    /// Free for reuse.
    Inactive,
}

/// A part of a segment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Block {
    /// Address, if recorded.
    pub address: Option<i64>,
    /// Size.
    pub bytes: i64,
    /// Size that was asked for, which the allocator rounds up.
    pub requested_bytes: i64,
    /// State.
    pub state: BlockState,
    /// Where it was allocated.
    pub stack: StackId,
    /// Number of its explicit category.
    label: Option<u32>,
}

/// What the allocator did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Memory was allocated.
    Alloc,
    /// The program released memory.
    FreeRequested,
    /// Released memory became free for reuse.
    FreeCompleted,
    /// A segment was reserved, or mapped.
    Reserve,
    /// A segment was given back, or unmapped.
    Release,
    /// An allocation failed.
    OutOfMemory,
    /// Anything else.
    Other,
}

impl Action {
    fn of(name: &str) -> Self {
        match name {
            "alloc" => Self::Alloc,
            "free_requested" | "free" => Self::FreeRequested,
            "free_completed" => Self::FreeCompleted,
            "segment_alloc" | "segment_map" => Self::Reserve,
            "segment_free" | "segment_unmap" => Self::Release,
            "oom" => Self::OutOfMemory,
            _ => Self::Other,
        }
    }
}

/// One event of the history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// What happened.
    pub action: Action,
    /// Address; of a failed allocation, the memory that the device had free.
    pub address: i64,
    /// Size.
    pub bytes: i64,
    /// Time in microseconds since 1970, if recorded.
    pub time_us: Option<i64>,
    /// Where it happened.
    pub stack: StackId,
    /// `true` if it belongs to the pool of a CUDA graph.
    pub in_pool: bool,
    label: Option<u32>,
}

/// Returns `true` if these are data of a snapshot.
pub(crate) fn is_snapshot(data: &Data, root: Id) -> bool {
    if data.field(root, "segments").is_some() || data.field(root, "device_traces").is_some() {
        return true;
    }
    // The list of `torch.cuda.memory_snapshot()`.
    let first = data.items(root).first();
    first.is_some_and(|first| data.field(*first, "blocks").is_some())
}

impl Snapshot {
    pub(crate) fn of(name: &str, data: &Data, root: Id) -> Result<Self> {
        let mut reader = Reader {
            data,
            stacks: Stacks::default(),
            labels: Vec::new(),
            label_of: FxHashMap::default(),
            skipped: 0,
        };
        let mut devices: Vec<DeviceMemory> = Vec::new();
        let segments = match data.field(root, "segments") {
            Some(segments) => data.items(segments),
            None => data.items(root),
        };
        for id in segments {
            let device = data.int_of(*id, "device").unwrap_or(0);
            if let Some(segment) = reader.segment(*id) {
                device_of(&mut devices, device).segments.push(segment);
            }
        }
        for (number, list) in data.list(root, "device_traces").iter().enumerate() {
            let items = data.items(*list);
            if items.is_empty() {
                continue;
            }
            let device = i64::try_from(number).unwrap_or(i64::MAX);
            let events = items.iter().filter_map(|id| reader.event(*id)).collect();
            device_of(&mut devices, device).events = events;
        }
        devices.sort_by_key(|device| device.device);
        reader.stacks.seal();
        Ok(Self {
            name: name.to_owned(),
            devices,
            stacks: reader.stacks,
            labels: reader.labels,
            skipped: reader.skipped,
        })
    }

    /// Returns the explicit category of a block or event.
    fn label(&self, label: Option<u32>) -> Option<&str> {
        let label = self.labels.get(label? as usize)?;
        Some(label)
    }
}

fn device_of(devices: &mut Vec<DeviceMemory>, device: i64) -> &mut DeviceMemory {
    let known = devices.iter().position(|known| known.device == device);
    let at = known.unwrap_or_else(|| {
        devices.push(DeviceMemory {
            device,
            ..DeviceMemory::default()
        });
        devices.len() - 1
    });
    &mut devices[at]
}

struct Reader<'d> {
    data: &'d Data,
    stacks: Stacks,
    labels: Vec<String>,
    label_of: FxHashMap<String, u32>,
    skipped: u64,
}

impl Reader<'_> {
    fn segment(&mut self, id: Id) -> Option<Segment> {
        let data = self.data;
        let Some(bytes) = data.int_of(id, "total_size").filter(|bytes| *bytes >= 0) else {
            self.skipped += 1;
            return None;
        };
        let mut next = data.int_of(id, "address");
        let mut blocks = Vec::new();
        for block in data.list(id, "blocks") {
            let Some(block) = self.block(*block, next) else {
                self.skipped += 1;
                next = None;
                continue;
            };
            // Older snapshots have no addresses of blocks, which follow each other.
            next = block.address.and_then(|at| at.checked_add(block.bytes));
            blocks.push(block);
        }
        Some(Segment {
            bytes,
            stream: data.int_of(id, "stream").unwrap_or(0),
            pool: pool(data, data.field(id, "segment_pool_id")),
            blocks,
        })
    }

    fn block(&mut self, id: Id, next: Option<i64>) -> Option<Block> {
        let data = self.data;
        let bytes = data.int_of(id, "size").filter(|bytes| *bytes >= 0)?;
        // Until PyTorch 2.0, stack and requested size were in a list of the block's uses, the last one first.
        let history = data.list(id, "history").first().copied();
        let requested = data.int_of(id, "requested_size");
        let requested = requested
            .or_else(|| data.int_of(history?, "real_size"))
            .filter(|n| *n >= 0);
        let frames = data.field(id, "frames");
        let frames = frames.or_else(|| data.field(history?, "frames"));
        Some(Block {
            address: data.int_of(id, "address").or(next),
            bytes,
            requested_bytes: requested.unwrap_or(bytes).min(bytes),
            state: match data.text_of(id, "state")? {
                "active_allocated" => BlockState::Allocated,
                "active_awaiting_free" | "active_pending_free" => BlockState::AwaitingFree,
                _ => BlockState::Inactive,
            },
            stack: self.stacks.add(data, frames),
            label: self.label(id),
        })
    }

    fn event(&mut self, id: Id) -> Option<Event> {
        let data = self.data;
        let action = data.text_of(id, "action").map(Action::of);
        let bytes = data.int_of(id, "size").filter(|bytes| *bytes >= 0);
        let address = match action {
            Some(Action::OutOfMemory) => data.int_of(id, "device_free").or(Some(0)),
            Some(Action::Other) => Some(0),
            _ => data.int_of(id, "addr"),
        };
        let bytes = bytes.or((action == Some(Action::Other)).then_some(0));
        let (Some(action), Some(bytes), Some(address)) = (action, bytes, address) else {
            self.skipped += 1;
            return None;
        };
        Some(Event {
            action,
            address,
            bytes,
            time_us: data.int_of(id, "time_us").filter(|time| *time > 0),
            stack: self.stacks.add(data, data.field(id, "frames")),
            in_pool: pool(data, data.field(id, "pool_id")) != (0, 0),
            label: self.label(id),
        })
    }

    /// Returns the number of the category that the program gave: `category` of snapshots made of profiles, or the metadata
    /// set by `_set_memory_metadata`.
    fn label(&mut self, id: Id) -> Option<u32> {
        let data = self.data;
        let text = data.text_of(id, "category");
        let text = text.or_else(|| data.text_of(id, "user_metadata"));
        let text = text.filter(|text| !text.is_empty())?;
        if let Some(known) = self.label_of.get(text) {
            return Some(*known);
        }
        let number = u32::try_from(self.labels.len()).ok()?;
        self.labels.push(text.to_owned());
        self.label_of.insert(text.to_owned(), number);
        Some(number)
    }
}

fn pool(data: &Data, id: Option<Id>) -> (i64, i64) {
    let Some(id) = id else { return (0, 0) };
    match data.items(id) {
        [a, b] => (data.int(*a).unwrap_or(0), data.int(*b).unwrap_or(0)),
        _ => (0, 0),
    }
}
