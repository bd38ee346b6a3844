//! Numbers of devices and streams: `deviceId` and `streamId` hold within one process only.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::error::Result;
use crate::export::Export;
use crate::ids::ProcessKey;

/// Difference between the numbers of streams that share an id on one device.
const STREAM_STEP: i64 = 1 << 20;

/// Place of a GPU activity as recorded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Recorded {
    pub(crate) process: ProcessKey,
    pub(crate) device: i64,
    pub(crate) context: i64,
    pub(crate) stream: i64,
}

/// Source of the numbers of devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The export maps each process's devices to GPUs.
    Mapped,
    /// The ordinals of CUDA, which do not contradict each other.
    Ordinal,
    /// Each process's devices count as GPUs of their own.
    Assumed,
}

impl Source {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mapped => "cuda_device_table",
            Self::Ordinal => "cuda_ordinal",
            Self::Assumed => "assumed",
        }
    }
}

/// Numbers of the devices and streams of an export.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) source: Source,
    devices: BTreeMap<(ProcessKey, i64), i64>,
    streams: FxHashMap<Recorded, i64>,
    /// Name of each GPU of the machine, by its number there.
    names: BTreeMap<i64, String>,
    /// Name by ordinal, which does not tell processes apart.
    ordinals: BTreeMap<i64, String>,
}

impl Identity {
    /// Numbers the devices and streams of all places where GPU activities ran.
    pub(crate) fn new(export: &Export, places: &[Recorded]) -> Result<Self> {
        let mut map: BTreeMap<(i64, i64), i64> = BTreeMap::new();
        let columns = ["pid", "cudaId", "gpuId"];
        export.scan("TARGET_INFO_CUDA_DEVICE", columns, |_, [pid, cuda, gpu]| {
            if let (Some(pid), Some(cuda), Some(gpu)) = (pid.as_int(), cuda.as_int(), gpu.as_int())
            {
                // Some columns of this name hold global ids.
                let pid = if !(0..=0xff_ffff).contains(&pid) {
                    ProcessKey::of(pid).pid()
                } else {
                    pid
                };
                map.entry((pid, cuda)).or_insert(gpu);
            }
            Ok(())
        })?;
        let (mut names, mut ordinals) = (BTreeMap::new(), BTreeMap::new());
        export.scan(
            "TARGET_INFO_GPU",
            ["id", "name", "cuDevice"],
            |_, [id, name, ordinal]| {
                if let Some(name) = crate::strings::text(name) {
                    if let Some(id) = id.as_int() {
                        names.entry(id).or_insert_with(|| name.clone());
                    }
                    if let Some(ordinal) = ordinal.as_int() {
                        ordinals.entry(ordinal).or_insert(name);
                    }
                }
                Ok(())
            },
        )?;
        let mut used: Vec<(ProcessKey, i64)> = places
            .iter()
            .map(|place| (place.process, place.device))
            .collect();
        used.sort_unstable();
        used.dedup();
        let mapped: Option<BTreeMap<_, _>> = used
            .iter()
            .map(|key| Some((*key, *map.get(&(key.0.pid(), key.1))?)))
            .collect();
        let mut ordinal_of: BTreeMap<i64, ProcessKey> = BTreeMap::new();
        let are_distinct = used
            .iter()
            .all(|(process, device)| *ordinal_of.entry(*device).or_insert(*process) == *process);
        // Several machines number their GPUs alike.
        let machine = used.first().map(|key| key.0.machine());
        let is_one_machine = used.iter().all(|key| Some(key.0.machine()) == machine);
        let (source, devices) = match mapped {
            Some(mapped) if is_one_machine => (Source::Mapped, mapped),
            _ if are_distinct => {
                let own = used.iter().map(|key| (*key, key.1)).collect();
                (Source::Ordinal, own)
            }
            _ => (Source::Assumed, used.iter().copied().zip(0..).collect()),
        };
        let mut sharing: BTreeMap<(i64, i64), Vec<(ProcessKey, i64)>> = BTreeMap::new();
        for place in places {
            if let Some(device) = devices.get(&(place.process, place.device)) {
                let own = sharing.entry((*device, place.stream)).or_default();
                own.push((place.process, place.context));
            }
        }
        for list in sharing.values_mut() {
            list.sort_unstable();
            list.dedup();
        }
        let mut streams = FxHashMap::default();
        for place in places {
            let device = devices.get(&(place.process, place.device));
            let list = device.and_then(|device| sharing.get(&(*device, place.stream)));
            let own = (place.process, place.context);
            let at = list
                .and_then(|list| list.binary_search(&own).ok())
                .unwrap_or(0);
            let step = i64::try_from(at).unwrap_or(0).saturating_mul(STREAM_STEP);
            streams.insert(*place, place.stream.saturating_add(step));
        }
        Ok(Self {
            source,
            devices,
            streams,
            names,
            ordinals,
        })
    }

    pub(crate) fn device(&self, process: ProcessKey, device: i64) -> i64 {
        self.devices
            .get(&(process, device))
            .copied()
            .unwrap_or(device)
    }

    pub(crate) fn stream(&self, place: Recorded) -> i64 {
        self.streams.get(&place).copied().unwrap_or(place.stream)
    }

    /// Returns the devices in use: number, name if known, processes.
    pub(crate) fn devices(&self) -> Vec<(i64, Option<&str>, Vec<ProcessKey>)> {
        let mut list: BTreeMap<i64, (Option<&str>, Vec<ProcessKey>)> = BTreeMap::new();
        for ((process, ordinal), number) in &self.devices {
            let name = match self.source {
                Source::Mapped => self.names.get(number),
                // Ordinals give a name, but not which of several equal GPUs it is.
                _ => self.ordinals.get(ordinal).or_else(|| self.only_name()),
            };
            let entry = list.entry(*number).or_default();
            entry.0 = entry.0.or(name.map(String::as_str));
            entry.1.push(*process);
        }
        list.into_iter()
            .map(|(number, (name, processes))| (number, name, processes))
            .collect()
    }

    /// Returns the name that all GPUs share.
    fn only_name(&self) -> Option<&String> {
        let first = self.names.values().next()?;
        self.names
            .values()
            .all(|name| name == first)
            .then_some(first)
    }
}

/// Name of a kind of memory; one less than CUPTI's numbers.
pub(crate) fn memory_kind(kind: Option<i64>) -> &'static str {
    match kind {
        Some(0) => "Pageable",
        Some(1) => "Pinned",
        Some(2) => "Device",
        Some(3) => "Array",
        Some(4) => "Managed",
        Some(5) => "Device Static",
        Some(6) => "Managed Static",
        _ => "Unknown",
    }
}

/// Name of a direction of a memcpy.
pub(crate) fn copy_kind(kind: Option<i64>) -> &'static str {
    match kind {
        Some(1) => "HtoD",
        Some(2) => "DtoH",
        Some(3) => "HtoA",
        Some(4) => "AtoH",
        Some(5) => "AtoA",
        Some(6) => "AtoD",
        Some(7) => "DtoA",
        Some(8) => "DtoD",
        Some(9) => "HtoH",
        Some(10) => "PtoP",
        Some(11) => "UVM HtoD",
        Some(12) => "UVM DtoH",
        Some(13) => "UVM DtoD",
        _ => "Unknown",
    }
}
