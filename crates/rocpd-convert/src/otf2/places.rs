//! Locations of OTF2 and their definitions.

use otf2_writer::{Archive, GroupKind, Location as Events, LocationKind, Role};
use rocpd_db::{Agent, Process, RocpdSet};
use rustc_hash::FxHashMap;
use trace_model::LaneTimes;

use super::program;
use crate::{AgentIndex, Result};

/// Place of events of a process, by row ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// Thread.
    Thread(Option<i64>),
    /// Thread and destination agent of a memcpy.
    Copy(Option<i64>, i64),
    /// Thread and agent.
    Allocate(Option<i64>, i64),
    /// Thread.
    Free(Option<i64>),
    /// Thread, agent and queue.
    Compute(Option<i64>, i64, i64),
}

impl Place {
    /// Returns the device of the place, if it is on one.
    const fn device(self) -> Option<i64> {
        match self {
            Self::Copy(_, agent) | Self::Compute(_, agent, _) => Some(agent),
            _ => None,
        }
    }
}

/// A location under construction.
#[derive(Debug)]
struct Location {
    events: Events,
    name: String,
    kind: LocationKind,
    group: u32,
    /// Ends and regions that are open, innermost last.
    open: Vec<(i64, u32)>,
    /// Index of its lanes, and of the lane among them.
    lanes: usize,
    lane: usize,
}

impl Location {
    /// Returns the latest end of a record that begins now.
    fn room(&self) -> i64 {
        self.open.last().map_or(i64::MAX, |(until, _)| *until)
    }
}

/// The locations of one place: one lane for each depth of overlap.
#[derive(Debug, Default)]
struct Lanes {
    locations: Vec<usize>,
    /// [`Location::room`] of each lane.
    rooms: LaneTimes,
}

/// Numbered texts or regions.
#[derive(Debug)]
struct Numbers<K> {
    known: FxHashMap<K, u32>,
    list: Vec<K>,
}

impl<K> Default for Numbers<K> {
    fn default() -> Self {
        Self {
            known: FxHashMap::default(),
            list: Vec::new(),
        }
    }
}

impl<K: Clone + Eq + std::hash::Hash> Numbers<K> {
    fn of(&mut self, key: &K) -> u32 {
        if let Some(&number) = self.known.get(key) {
            return number;
        }
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX - 1);
        self.known.insert(key.clone(), number);
        self.list.push(key.clone());
        number
    }
}

/// A group of locations: a process or a device that it uses.
#[derive(Debug)]
struct Group {
    name: String,
    kind: GroupKind,
    node: u32,
}

/// The locations of an archive.
#[derive(Debug)]
pub(super) struct Places {
    archive: Archive,
    index: AgentIndex,
    locations: Vec<Location>,
    lanes: Vec<Lanes>,
    /// Lanes by partition, process and place.
    lanes_of: FxHashMap<(usize, i64, Place), usize>,
    queues: FxHashMap<(usize, i64, i64), FxHashMap<i64, usize>>,
    strings: Numbers<String>,
    regions: Numbers<(u32, Role)>,
    nodes: Vec<String>,
    groups: Vec<Group>,
    /// Group by partition and process, and by partition, process and agent.
    group_of: FxHashMap<(usize, i64, Option<i64>), u32>,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
}

/// Clock resolution: times are nanoseconds.
const TICKS_PER_SECOND: u64 = 1_000_000_000;
/// Number of the only attribute.
const CATEGORY: u32 = 0;

impl Places {
    pub(super) fn new(archive: Archive, set: &RocpdSet, index: AgentIndex) -> Self {
        let mut places = Self {
            archive,
            index,
            locations: Vec::new(),
            lanes: Vec::new(),
            lanes_of: FxHashMap::default(),
            queues: FxHashMap::default(),
            strings: Numbers::default(),
            regions: Numbers::default(),
            nodes: Vec::new(),
            groups: Vec::new(),
            group_of: FxHashMap::default(),
            first_ns: set.processes().filter_map(begin).min(),
            last_ns: set
                .processes()
                .filter_map(|process| process.fini_ns.or(process.end_ns))
                .max(),
        };
        // Readers require the empty text.
        places.strings.of(&String::new());
        for process in set.processes() {
            let node = places
                .nodes
                .iter()
                .position(|known| *known == process.hostname)
                .unwrap_or_else(|| {
                    places.nodes.push(process.hostname.clone());
                    places.nodes.len() - 1
                });
            let node = u32::try_from(node).unwrap_or(u32::MAX);
            let key = (process.partition, process.id, None);
            places.group(key, program(process).to_owned(), GroupKind::Process, node);
            for (own, agent) in set.agents() {
                if own.partition == process.partition && own.id == process.id {
                    let key = (process.partition, process.id, Some(agent.id));
                    let name = places.agent(Some(agent));
                    places.group(key, name, GroupKind::Accelerator, node);
                }
            }
        }
        places
    }

    fn group(&mut self, key: (usize, i64, Option<i64>), name: String, kind: GroupKind, node: u32) {
        let number = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        self.groups.push(Group { name, kind, node });
        self.group_of.insert(key, number);
    }

    /// Returns the label of an agent: `GPU Agent-1`.
    pub(super) fn agent(&self, agent: Option<&Agent>) -> String {
        agent.map_or_else(
            || "UNK".to_owned(),
            |agent| {
                let kind = agent.kind.as_deref().unwrap_or("UNK");
                format!("{kind} {}", self.index.dashed(agent))
            },
        )
    }

    /// Returns the number of a queue among those of its agent, in order of appearance.
    pub(super) fn queue_number(&mut self, process: &Process, agent: i64, queue: i64) -> usize {
        let key = (process.partition, process.id, agent);
        let queues = self.queues.entry(key).or_default();
        let next = queues.len();
        *queues.entry(queue).or_insert(next)
    }

    /// Returns the location where a record nests in the open ones, or a new one if there is none.
    pub(super) fn of(
        &mut self,
        process: &Process,
        place: Place,
        (start, end): (i64, i64),
        name: impl FnOnce() -> String,
    ) -> Result<usize> {
        let key = (process.partition, process.id, place);
        let known = self.lanes.len();
        let own = *self.lanes_of.entry(key).or_insert(known);
        if own == known {
            self.lanes.push(Lanes::default());
        }
        let lanes = &mut self.lanes[own];
        let mut next = 0;
        while let Some(lane) = lanes.rooms.first_outside(next, start, end) {
            let number = lanes.locations[lane];
            let location = &mut self.locations[number];
            while let Some(&(until, region)) = location.open.last()
                && until <= start
            {
                location.open.pop();
                self.archive.leave(location.events, time(until), region)?;
            }
            lanes.rooms.set(lane, location.room());
            if end <= location.room() {
                return Ok(number);
            }
            next = lane + 1;
        }
        let mut name = name();
        let lane = lanes.locations.len();
        if lane > 0 {
            name = format!("{name} #{}", lane + 1);
        }
        let number = self.locations.len();
        lanes.locations.push(number);
        lanes.rooms.push(i64::MAX);
        let device = place
            .device()
            .and_then(|agent| self.group_of.get(&(key.0, key.1, Some(agent))));
        let group = device.or_else(|| self.group_of.get(&(key.0, key.1, None)));
        let kind = match place {
            Place::Compute(..) => LocationKind::AcceleratorStream,
            _ => LocationKind::Thread,
        };
        self.locations.push(Location {
            events: self.archive.add_location(),
            name,
            kind,
            group: group.copied().unwrap_or_default(),
            open: Vec::new(),
            lanes: own,
            lane,
        });
        Ok(number)
    }

    /// Writes the begin of a record, and schedules its end.
    pub(super) fn put(
        &mut self,
        location: usize,
        (start, end): (i64, i64),
        (name, role): (&str, Role),
        category: Option<&str>,
    ) -> Result<()> {
        let name = self.string(name);
        let region = self.regions.of(&(name, role));
        let attribute = category.map(|category| (CATEGORY, self.string(category)));
        let end = end.max(start);
        self.first_ns = Some(self.first_ns.map_or(start, |first| first.min(start)));
        self.last_ns = Some(self.last_ns.map_or(end, |last| last.max(end)));
        let Some(location) = self.locations.get_mut(location) else {
            return Ok(());
        };
        self.archive
            .enter(location.events, time(start), region, attribute)?;
        location.open.push((end, region));
        if let Some(lanes) = self.lanes.get_mut(location.lanes) {
            lanes.rooms.set(location.lane, end);
        }
        Ok(())
    }

    fn string(&mut self, text: &str) -> u32 {
        // The map is queried with a borrowed text first: nearly all texts are known.
        match self.strings.known.get(text) {
            Some(&number) => number,
            None => self.strings.of(&text.to_owned()),
        }
    }

    /// Writes the remaining ends, and all definitions.
    pub(super) fn finish(mut self) -> Result<()> {
        for location in &mut self.locations {
            while let Some((until, region)) = location.open.pop() {
                self.archive.leave(location.events, time(until), region)?;
            }
        }
        let first = self.first_ns.map_or(0, time);
        let last = self.last_ns.map_or(first, time);
        self.archive
            .clock(TICKS_PER_SECOND, first, last.saturating_sub(first))?;

        // Adds texts that only definitions use.
        let class = self.string("node");
        let category = self.string("category");
        let description = self.string("what kind of call or operation it is");
        let names = |places: &mut Self, list: Vec<String>| -> Vec<u32> {
            list.iter().map(|name| places.string(name)).collect()
        };
        let node_names = std::mem::take(&mut self.nodes);
        let node_names = names(&mut self, node_names);
        let group_names = self.groups.iter().map(|g| g.name.clone()).collect();
        let group_names = names(&mut self, group_names);
        let location_names = self.locations.iter().map(|l| l.name.clone()).collect();
        let location_names = names(&mut self, location_names);

        let archive = &mut self.archive;
        // The archive numbers definitions from 0, like the lists.
        for text in &self.strings.list {
            archive.string(text)?;
        }
        archive.string_attribute(category, description)?;
        for name in node_names {
            archive.node(name, class)?;
        }
        for (group, name) in self.groups.iter().zip(group_names) {
            archive.group(name, group.kind, group.node)?;
        }
        for (location, name) in self.locations.iter().zip(location_names) {
            archive.location(location.events, name, location.kind, location.group)?;
        }
        for (name, role) in &self.regions.list {
            archive.region(*name, *role)?;
        }
        self.archive.finish()?;
        Ok(())
    }
}

/// Returns when recording of a process began.
fn begin(process: &Process) -> Option<i64> {
    process.init_ns.or(process.start_ns)
}

/// Converts a time; the format has no times before the clock began.
fn time(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}
