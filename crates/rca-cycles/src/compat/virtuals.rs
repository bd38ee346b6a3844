//! Events that are in no trace: kernels of collectives beside the calls that asked for them, and the
//! kernels of an operator as one.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use trace_model::{ArgValue, SliceId, Trace};

use super::cycles::Cycle;
use super::event::{Events, Kind};
use super::tree::{NONE, Tree};
use crate::origin::nested;

/// An event that stands for others.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct VirtualEvent {
    /// What it is called.
    pub name: String,
    /// `virtual_nccl_kernel`, `virtual_op_kernels` or `virtual_cycle_kernels`.
    pub category: &'static str,
    /// Process of the work.
    pub pid: i64,
    /// Text in place of a thread.
    pub tid: String,
    /// Start, µs.
    pub ts_us: f64,
    /// Duration, µs.
    pub dur_us: f64,
    /// The event whose arguments it has, too.
    pub args_of: Option<SliceId>,
    /// Arguments of its own.
    pub args: Vec<(String, String)>,
    /// Kernels that it stands for.
    pub kernels: usize,
}

const COLLECTIVES: [&str; 5] = [
    "ncclAllGather",
    "ncclAllReduce",
    "ncclSend",
    "ncclRecv",
    "ncclBroadcast",
];
/// Arguments of a collective call that name other ranks.
const PEERS: [&str; 6] = ["rp", "rn", "td0", "td1", "td2", "tu"];

/// Where the ranks of communicators are, by what collective calls say of themselves.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// By communicator and rank: node and device.
    devices: BTreeMap<(String, String), (String, String)>,
    /// By communicator and node: host.
    hosts: BTreeMap<(String, String), String>,
}

fn argument(trace: &Trace, slice: SliceId, key: &str) -> Option<String> {
    let column = trace.arg_column(key);
    let slice = trace.slice(slice);
    let inner = trace.arg_column("args");
    let text = inner.get(slice).and_then(ArgValue::as_str);
    if let Some(found) = text.and_then(|t| nested(t, key)) {
        return Some(found.to_owned());
    }
    // A number that is zero counts as none, a text `0` does not.
    match column.get(slice)? {
        ArgValue::Str(t) if !t.is_empty() => Some(t.to_owned()),
        ArgValue::Int(n) if n != 0 => Some(n.to_string()),
        ArgValue::UInt(n) if n != 0 => Some(n.to_string()),
        _ => None,
    }
}

fn is_collective(events: &Events<'_>, i: usize) -> bool {
    events.list[i].kind == Kind::App && COLLECTIVES.contains(&events.name(i))
}

impl Places {
    pub(crate) fn new(events: &Events<'_>) -> Self {
        let mut places = Self::default();
        for i in 0..events.list.len() {
            if !is_collective(events, i) {
                continue;
            }
            let of = |key| argument(events.trace, events.list[i].slice, key);
            let host = of("hostname")
                .or_else(|| events.list[i].host.map(|h| events.names.get(h).to_owned()));
            if let (Some(comm), Some(rank), Some(node), Some(device), Some(host)) =
                (of("commHash"), of("rank"), of("node"), of("cudaDev"), host)
            {
                let on = (comm.clone(), node.clone());
                places.devices.insert((comm, rank), (node, device));
                places.hosts.insert(on, host);
            }
        }
        places
    }

    /// What a collective call says of its peers.
    fn peers(&self, trace: &Trace, call: SliceId) -> Vec<(String, String)> {
        let Some(comm) = argument(trace, call, "commHash") else {
            return Vec::new();
        };
        let known = PEERS.iter().filter_map(|role| {
            let rank = argument(trace, call, role)?;
            let (node, device) = self.devices.get(&(comm.clone(), rank))?;
            let host = self.hosts.get(&(comm.clone(), node.clone()))?;
            let place = format!("host:{host},dev:{device}");
            Some((format!("{role}_peer_info"), place))
        });
        known.collect()
    }
}

/// The virtual events of one cycle, with its number.
pub(crate) fn of_cycle(
    events: &Events<'_>,
    tree: &Tree,
    places: &Places,
    cycle: &Cycle,
    number: usize,
) -> Vec<VirtualEvent> {
    let mut kernels: FxHashMap<(i64, i64), Vec<u32>> = FxHashMap::default();
    let mut calls: Vec<u32> = Vec::new();
    for m in &cycle.members {
        let e = &events.list[m.event as usize];
        if e.correlation == 0 {
            continue;
        }
        if e.kind.is_gpu() {
            let of = kernels.entry((e.pid, e.correlation)).or_default();
            of.push(m.event);
        } else if e.kind.launches() {
            calls.push(m.event);
        }
    }
    calls.sort_unstable();
    calls.dedup();
    let launched = |call: u32| {
        let e = &events.list[call as usize];
        kernels
            .get(&(e.pid, e.correlation))
            .map_or(&[][..], Vec::as_slice)
    };
    // The list of events is in order of time, so that numbers of events are, too.
    let inside = |from: f64, to: f64| {
        let first = calls.partition_point(|&c| events.list[c as usize].ts < from);
        let last = calls.partition_point(|&c| events.list[c as usize].ts <= to);
        let calls = calls.get(first..last).unwrap_or_default().iter();
        calls
            .copied()
            .filter(move |&c| events.list[c as usize].end() <= to)
    };
    let mut found = Vec::new();
    for m in &cycle.members {
        let i = m.event as usize;
        if !is_collective(events, i) {
            continue;
        }
        let api = &events.list[i];
        let operation = events.name(i).trim_start_matches("nccl");
        let prefix = format!("ncclDevKernel_{operation}_");
        for kernel in inside(api.ts, api.end()).flat_map(launched) {
            let k = &events.list[*kernel as usize];
            let name = events.name(*kernel as usize);
            if k.kind == Kind::Kernel && name.starts_with(&prefix) {
                found.push(VirtualEvent {
                    name: name.to_owned(),
                    category: "virtual_nccl_kernel",
                    pid: k.pid,
                    tid: format!("NCCL Virtual Kernels PID {}", k.pid),
                    ts_us: k.ts,
                    dur_us: k.dur,
                    args_of: Some(api.slice),
                    args: places.peers(events.trace, api.slice),
                    kernels: 1,
                });
            }
        }
    }
    let pids: BTreeSet<i64> = cycle
        .members
        .iter()
        .map(|m| events.list[m.event as usize].pid)
        .collect();
    for pid in pids {
        let before = found.len();
        for (base, operator) in operators(events, tree, cycle, pid) {
            let e = &events.list[operator as usize];
            let own: Vec<u32> = inside(e.ts, e.end())
                .filter(|&c| events.list[c as usize].pid == pid)
                .flat_map(launched)
                .copied()
                .collect();
            let name = events.name(operator as usize).to_owned();
            found.extend(spanning(events, &own).map(|(ts_us, dur_us)| VirtualEvent {
                name: format!("{base}_kernels"),
                category: "virtual_op_kernels",
                pid,
                tid: format!("Operator Kernels (PID {pid})"),
                ts_us,
                dur_us,
                args_of: None,
                args: vec![("original_operator".to_owned(), name)],
                kernels: own.len(),
            }));
        }
        if found.len() > before {
            continue;
        }
        let mut own: Vec<u32> = calls
            .iter()
            .filter(|&&c| events.list[c as usize].pid == pid)
            .flat_map(|&c| launched(c))
            .copied()
            .collect();
        own.sort_unstable();
        own.dedup();
        found.extend(spanning(events, &own).map(|(ts_us, dur_us)| VirtualEvent {
            name: format!("cycle_{number}_kernels"),
            category: "virtual_cycle_kernels",
            pid,
            tid: format!("Cycle Kernels (PID {pid})"),
            ts_us,
            dur_us,
            args_of: None,
            args: Vec::new(),
            kernels: own.len(),
        }));
    }
    found
}

/// From the first start to the last end of these kernels: start and duration.
fn spanning(events: &Events<'_>, kernels: &[u32]) -> Option<(f64, f64)> {
    let each = || kernels.iter().map(|&k| &events.list[k as usize]);
    let start = each().map(|e| e.ts).reduce(f64::min)?;
    let end = each().map(super::event::Event::end).reduce(f64::max)?;
    Some((start, end - start))
}

/// The part of a name before its first dot.
fn base(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// The operators of a process in a cycle: what each is called, and its event.
fn operators<'t>(events: &Events<'t>, tree: &Tree, cycle: &Cycle, pid: i64) -> Vec<(&'t str, u32)> {
    let of_process = |kind: Option<Kind>| {
        let members = cycle.members.iter().map(|m| m.event);
        members.filter(move |&i| {
            let e = &events.list[i as usize];
            e.pid == pid && kind.is_none_or(|k| e.kind == k)
        })
    };
    let python: Vec<u32> = of_process(Some(Kind::Python)).collect();
    let named: BTreeSet<&str> = of_process(Some(Kind::Operator))
        .map(|i| base(events.name(i as usize)))
        .collect();
    if !named.is_empty() {
        let mut list = Vec::new();
        for name in named {
            let holding: Vec<u32> = python
                .iter()
                .copied()
                .filter(|&i| events.name(i as usize).contains(name))
                .collect();
            let least = holding.iter().map(|&i| tree.depth[i as usize]).min();
            let shallowest = holding
                .into_iter()
                .filter(|&i| Some(tree.depth[i as usize]) == least);
            list.extend(shallowest.map(|i| (name, i)));
        }
        return list;
    }
    let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    for &i in &python {
        let up = tree.parent[i as usize];
        if up != NONE {
            children.entry(up).or_default().push(i);
        }
    }
    let layers = layers(events, tree, &python);
    let mut list = Vec::new();
    for layer in layers {
        let own = base(events.name(layer as usize));
        let mut level: Vec<u32> = children.get(&layer).cloned().unwrap_or_default();
        while !level.is_empty() {
            let mut first: BTreeMap<&str, u32> = BTreeMap::new();
            for &i in &level {
                let name = events.name(i as usize);
                if name.contains('.') && base(name) != own {
                    let earliest = first.entry(base(name)).or_insert(i);
                    *earliest = (*earliest).min(i);
                }
            }
            if !first.is_empty() {
                list.extend(first);
                break;
            }
            level = level
                .iter()
                .filter_map(|i| children.get(i))
                .flatten()
                .copied()
                .collect();
        }
    }
    list
}

/// The outermost calls that are named after layers, of the most frequent name.
pub(crate) fn layers(events: &Events<'_>, tree: &Tree, python: &[u32]) -> Vec<u32> {
    let is_layer = |&&i: &&u32| {
        let name = events.name(i as usize);
        base(name).to_lowercase().contains("layer")
    };
    let named: Vec<u32> = python.iter().filter(is_layer).copied().collect();
    let least = named.iter().map(|&i| tree.depth[i as usize]).min();
    let mut by_name: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for i in named {
        if Some(tree.depth[i as usize]) == least {
            by_name.entry(events.name(i as usize)).or_default().push(i);
        }
    }
    by_name
        .into_values()
        .reduce(|a, b| if b.len() > a.len() { b } else { a })
        .unwrap_or_default()
}
