//! `/proc/PID/maps` and `smaps`: what was mapped where, at one time or at several.
//!
//! With the tensors of the model that is mapped, a snapshot says which address holds which tensor; with several snapshots, from
//! when and until when.

use std::path::Path;

use crate::error::{Error, Result};
use crate::ranges::AddressRange;
use crate::tensors::{Tensor, TensorTable};

/// Anonymous memory that appears with the model counts as the KV cache from this size on, as for the reference.
const CACHE_BYTES: u64 = 2 << 20;
const DELETED: &str = " (deleted)";
/// The line that begins a snapshot of a file with several.
const TIME_MARK: &str = "# time_ns ";

/// One line of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// `r`, `w`, `x` and `p` or `s`, or hyphens.
    pub permissions: [u8; 4],
    /// Place in the file of the first address.
    pub offset: u64,
    /// The file, or a name in square brackets, or nothing; without ` (deleted)`.
    pub path: String,
}

impl Mapping {
    /// Whether it can be read and written and is of no file.
    fn is_anonymous(&self) -> bool {
        self.path.is_empty() && self.permissions.starts_with(b"rw")
    }
}

/// What was mapped at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MapsSnapshot {
    /// When, in the clock of the trace; `None` when nothing says so.
    pub time_ns: Option<u64>,
    /// Mappings by address.
    pub mappings: Vec<Mapping>,
}

impl MapsSnapshot {
    /// Reads the text of a file: one snapshot, or several that begin with a line `# time_ns N` each. The lines that `smaps` has
    /// below each mapping are passed over.
    ///
    /// # Errors
    ///
    /// [`Error::Row`] for a line that is neither, and for times that do not ascend.
    ///
    /// ```
    /// use memtrace_labeller::MapsSnapshot;
    /// let text = b"# time_ns 5\n7f00-8f00 r--s 00001000 08:01 77   /models/m.gguf (deleted)\n";
    /// let snapshots = MapsSnapshot::read("maps", text)?;
    /// assert_eq!(snapshots[0].time_ns, Some(5));
    /// assert_eq!(snapshots[0].mappings[0].path, "/models/m.gguf");
    /// # Ok::<(), memtrace_labeller::Error>(())
    /// ```
    pub fn read(name: &str, text: &[u8]) -> Result<Vec<Self>> {
        let text = String::from_utf8_lossy(text);
        let mut snapshots: Vec<Self> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let wrong = |what: &str| Error::Row {
                name: name.to_owned(),
                line: number,
                what: what.to_owned(),
            };
            if let Some(time) = line.strip_prefix(TIME_MARK) {
                let time = time.trim().parse().map_err(|_| wrong("no time"))?;
                if snapshots
                    .last()
                    .is_some_and(|last| last.time_ns >= Some(time))
                {
                    return Err(wrong("times of snapshots must ascend"));
                }
                snapshots.push(Self {
                    time_ns: Some(time),
                    mappings: Vec::new(),
                });
                continue;
            }
            let first = line.split_ascii_whitespace().next().unwrap_or_default();
            if first.is_empty() || first.starts_with('#') || first.ends_with(':') {
                continue;
            }
            let mapping = mapping(line).ok_or_else(|| wrong("no mapping as /proc/PID/maps has"))?;
            if snapshots.is_empty() {
                snapshots.push(Self::default());
            }
            if let Some(snapshot) = snapshots.last_mut() {
                snapshot.mappings.push(mapping);
            }
        }
        for snapshot in &mut snapshots {
            snapshot.mappings.sort_by_key(|mapping| mapping.start);
        }
        Ok(snapshots)
    }

    /// The mappings that overlap `[start, end)`; they are sorted and do not overlap each other.
    fn within(&self, start: u64, end: u64) -> impl Iterator<Item = &Mapping> {
        let from = self.mappings.partition_point(|known| known.end <= start);
        self.mappings
            .iter()
            .skip(from)
            .take_while(move |known| known.start < end)
    }
}

/// `start-end perms offset dev inode [path]`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut rest = line.trim_start();
    let mut word = || {
        let end = rest.find(' ').unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        rest = tail.trim_start_matches(' ');
        word
    };
    let (start, end) = word().split_once('-')?;
    let permissions = word().as_bytes().try_into().ok()?;
    let offset = u64::from_str_radix(word(), 16).ok()?;
    let (_device, inode) = (word(), word());
    inode.parse::<u64>().ok()?;
    let path = rest.trim_end_matches(['\r', '\n']);
    let mapping = Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        permissions,
        offset,
        path: path.strip_suffix(DELETED).unwrap_or(path).to_owned(),
    };
    (mapping.start < mapping.end).then_some(mapping)
}

/// A file of a model, whose mappings hold weights.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelFile {
    /// Names of the file: a mapping is of it when its path is one of them, or ends with one behind a slash.
    pub names: Vec<String>,
    /// Its tensors.
    pub table: TensorTable,
}

impl ModelFile {
    /// A model file of one name.
    #[must_use]
    pub fn new(name: impl Into<String>, table: TensorTable) -> Self {
        Self {
            names: vec![name.into()],
            table,
        }
    }

    /// Reads the tensors of a file on disk, which may be mapped under its own name or that of what it links to.
    ///
    /// # Errors
    ///
    /// As [`TensorTable::read_path`].
    pub fn open(path: &Path) -> Result<Self> {
        let table = TensorTable::read_path(path)?;
        let mut names: Vec<String> = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .into_iter()
            .collect();
        if let Ok(real) = path.canonicalize() {
            names.push(real.to_string_lossy().into_owned());
        }
        Ok(Self { names, table })
    }

    fn is_at(&self, path: &str) -> bool {
        self.names.iter().any(|name| {
            path.strip_suffix(name.as_str()).is_some_and(|before| {
                before.is_empty() || before.ends_with('/') || name.starts_with('/')
            })
        })
    }
}

/// What an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// Something that no type is known of.
    Other,
    /// The model of this number; address minus place in the file, wrapping.
    Model(usize, u64),
    /// The cache that begins there.
    Cache(u64),
}

/// A stretch of addresses with an owner for a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holding {
    start: u64,
    end: u64,
    owner: Owner,
    from_ns: Option<u64>,
    to_ns: Option<u64>,
}

/// The typed ranges of mappings: weights where a model file is mapped, one range for each tensor and one for what lies between;
/// the KV cache where at least 2 MiB of anonymous memory appeared together with the model, which needs a snapshot from before.
///
/// A mapping that is new in a snapshot is valid from the snapshot before, if nothing was there, and one that is gone was valid
/// until then; where one follows another directly, the later snapshot is the border. Snapshots without a time are all valid
/// always, and only the last one is used for what is in place; an earlier one still tells what was there before.
///
/// Ranges are sorted by time and address, and none overlaps another at one time. Costs O(s · m) for s snapshots with m mappings.
#[must_use]
pub fn ranges_of_maps(snapshots: &[MapsSnapshot], models: &[ModelFile]) -> Vec<AddressRange> {
    let before = before_model(snapshots, models);
    let owned: Vec<Vec<(u64, u64, Owner)>> = snapshots
        .iter()
        .enumerate()
        .map(|(at, snapshot)| {
            let earlier = before.filter(|before| *before < at);
            let earlier = earlier.and_then(|before| snapshots.get(before));
            owners(snapshot, earlier, models)
        })
        .collect();
    let times: Option<Vec<u64>> = snapshots.iter().map(|snapshot| snapshot.time_ns).collect();
    let holdings = match times {
        Some(times) if times.len() > 1 => over_time(&owned, &times),
        _ => owned
            .last()
            .into_iter()
            .flatten()
            .map(|(start, end, owner)| Holding {
                start: *start,
                end: *end,
                owner: *owner,
                from_ns: None,
                to_ns: None,
            })
            .collect(),
    };
    let mut ranges = Vec::new();
    for holding in joined(holdings) {
        match holding.owner {
            Owner::Nobody | Owner::Other => {}
            Owner::Cache(_) => ranges.push(
                AddressRange::new(holding.start, holding.end, "kv_cache")
                    .valid(holding.from_ns, holding.to_ns),
            ),
            Owner::Model(number, delta) => {
                if let Some(model) = models.get(number) {
                    weights(model, delta, holding, &mut ranges);
                }
            }
        }
    }
    ranges
}

/// The last snapshot before any model is mapped; without models the first one of several.
fn before_model(snapshots: &[MapsSnapshot], models: &[ModelFile]) -> Option<usize> {
    let mapped = |snapshot: &MapsSnapshot| {
        let of_model = |mapping: &Mapping| models.iter().any(|model| model.is_at(&mapping.path));
        snapshot.mappings.iter().any(of_model)
    };
    match snapshots.iter().position(mapped) {
        Some(first) => first.checked_sub(1),
        None => (snapshots.len() > 1).then_some(0),
    }
}

fn owners(
    snapshot: &MapsSnapshot,
    before: Option<&MapsSnapshot>,
    models: &[ModelFile],
) -> Vec<(u64, u64, Owner)> {
    let owner = |mapping: &Mapping| {
        if let Some(model) = models.iter().position(|model| model.is_at(&mapping.path)) {
            return Owner::Model(model, mapping.start.wrapping_sub(mapping.offset));
        }
        let is_new =
            before.is_some_and(|before| before.within(mapping.start, mapping.end).next().is_none());
        if is_new && mapping.is_anonymous() && mapping.end - mapping.start >= CACHE_BYTES {
            return Owner::Cache(mapping.start);
        }
        Owner::Other
    };
    snapshot
        .mappings
        .iter()
        .map(|mapping| (mapping.start, mapping.end, owner(mapping)))
        .collect()
}

/// Follows each stretch of addresses between two borders through the snapshots.
fn over_time(owned: &[Vec<(u64, u64, Owner)>], times: &[u64]) -> Vec<Holding> {
    let mut edges: Vec<u64> = owned
        .iter()
        .flatten()
        .flat_map(|(start, end, _)| [*start, *end])
        .collect();
    edges.sort_unstable();
    edges.dedup();
    let mut now: Vec<(Owner, Option<u64>)> = vec![(Owner::Nobody, None); edges.len()];
    let mut holdings = Vec::new();
    let mut end_of = |at: usize, (owner, from_ns): (Owner, Option<u64>), to_ns: Option<u64>| {
        if let (Some(start), Some(end)) = (edges.get(at), edges.get(at + 1))
            && owner != Owner::Nobody
        {
            holdings.push(Holding {
                start: *start,
                end: *end,
                owner,
                from_ns,
                to_ns,
            });
        }
    };
    let mut last_time = None;
    for (list, time) in owned.iter().zip(times) {
        let mut list = list.iter().peekable();
        for ((at, edge), state) in edges.iter().enumerate().zip(&mut now) {
            while list.peek().is_some_and(|(_, end, _)| end <= edge) {
                list.next();
            }
            let owner = match list.peek() {
                Some((start, _, owner)) if start <= edge => *owner,
                _ => Owner::Nobody,
            };
            if owner == state.0 {
                continue;
            }
            let from = match (last_time, state.0) {
                (None, _) => None,
                (Some(last), Owner::Nobody) => Some(last),
                (Some(_), _) => Some(*time),
            };
            end_of(at, *state, Some(*time));
            *state = (owner, from);
        }
        last_time = Some(*time);
    }
    for (at, state) in now.into_iter().enumerate() {
        end_of(at, state, None);
    }
    holdings
}

/// Puts together what lies side by side and belongs together.
fn joined(mut holdings: Vec<Holding>) -> Vec<Holding> {
    holdings.sort_by_key(|holding| (holding.from_ns, holding.to_ns, holding.start));
    let mut out: Vec<Holding> = Vec::with_capacity(holdings.len());
    for holding in holdings {
        match out.last_mut() {
            Some(last)
                if (last.owner, last.from_ns, last.to_ns, last.end)
                    == (holding.owner, holding.from_ns, holding.to_ns, holding.start) =>
            {
                last.end = holding.end;
            }
            _ => out.push(holding),
        }
    }
    out.sort_by_key(|holding| (holding.from_ns, holding.start));
    out
}

/// The tensors of a mapped stretch of a model, and what lies between them under the model's name.
fn weights(model: &ModelFile, delta: u64, holding: Holding, ranges: &mut Vec<AddressRange>) {
    let mut push = |start: u64, end: u64, name: &str| {
        if start < end {
            ranges.push(
                AddressRange::new(start, end, "weight")
                    .named(name)
                    .valid(holding.from_ns, holding.to_ns),
            );
        }
    };
    let file_start = holding.start.wrapping_sub(delta);
    let file_end = file_start.saturating_add(holding.end - holding.start);
    let name = model.names.first().map_or("model", String::as_str);
    let name = name.rsplit('/').next().unwrap_or(name);
    let mut done = file_start;
    for tensor in overlapping(&model.table.tensors, file_start, file_end) {
        // Of tensors that share bytes the first one has them.
        let start = tensor.offset.max(done);
        let end = tensor.offset.saturating_add(tensor.bytes).min(file_end);
        if start < end {
            push(done.wrapping_add(delta), start.wrapping_add(delta), name);
            push(
                start.wrapping_add(delta),
                end.wrapping_add(delta),
                &tensor.name,
            );
            done = end;
        }
    }
    push(done.wrapping_add(delta), holding.end, name);
}

fn overlapping(tensors: &[Tensor], start: u64, end: u64) -> impl Iterator<Item = &Tensor> {
    tensors
        .iter()
        .skip_while(move |tensor| tensor.offset.saturating_add(tensor.bytes) <= start)
        .take_while(move |tensor| tensor.offset < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> ModelFile {
        let header = r#"{"a": {"data_offsets": [24, 4120]}, "b": {"data_offsets": [4120, 8216]}}"#;
        let header = format!("{header:4064}");
        let mut file = 4064_u64.to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        // The data begin at 4072, the tensors at 4096 and 8192.
        let table = TensorTable::read("m.safetensors", &file[..], None).unwrap();
        ModelFile::new("m.safetensors", table)
    }

    /// Start, end, name or type, from, to.
    type Plain<'a> = (u64, u64, &'a str, Option<u64>, Option<u64>);

    fn plain(ranges: &[AddressRange]) -> Vec<Plain<'_>> {
        ranges
            .iter()
            .map(|range| {
                let name = range.name.as_deref().unwrap_or(&range.region_type);
                (
                    range.addr_start,
                    range.addr_end,
                    name,
                    range.from_ns,
                    range.to_ns,
                )
            })
            .collect()
    }

    #[test]
    fn lines_of_maps_and_smaps() {
        let text = "55d0c8a00000-55d0c8a21000 rw-p 00000000 00:00 0                          [heap]\nSize:                132 kB\nVmFlags: rd wr mr\n\n7f0000000000-7f0000003000 r--s 00001000 08:01 131090                     /models/a b/m.safetensors (deleted)\nffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
        let found = MapsSnapshot::read("maps", text.as_bytes()).unwrap();
        assert_eq!(found.len(), 1);
        let mappings = &found[0].mappings;
        assert_eq!(mappings.len(), 3);
        assert_eq!(mappings[1].path, "/models/a b/m.safetensors");
        assert_eq!(
            (mappings[1].offset, &mappings[1].permissions),
            (0x1000, b"r--s")
        );
        assert_eq!(mappings[2].end, 0xffff_ffff_ff60_1000);
        for bad in [
            "zz-1 r--p 0 0:0 0",
            "10-10 r--p 0 0:0 0",
            "10-20 r--p",
            "x",
            "10-20 r--p 0 0:0 z",
        ] {
            let error = MapsSnapshot::read("maps", bad.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with("maps: line 1"), "{error}");
        }
        let back = b"# time_ns 5\n# time_ns 5\n";
        assert!(MapsSnapshot::read("maps", back).is_err());
    }

    #[test]
    fn a_mapped_part_of_a_file_holds_the_tensors_of_that_part() {
        let text = "7f0000000000-7f0000002000 r--s 00001000 08:01 1 /x/m.safetensors\n7f0000002000-7f0000003000 r--s 00003000 08:01 1 /x/m.safetensors\n7f0000003000-7f0000004000 r--s 00000000 08:01 1 /x/other-m.safetensors\n";
        let snapshots = MapsSnapshot::read("maps", text.as_bytes()).unwrap();
        let ranges = ranges_of_maps(&snapshots, &[model()]);
        let base = 0x7f00_0000_0000;
        assert_eq!(
            plain(&ranges),
            [
                (base, base + 4096, "a", None, None),
                (base + 4096, base + 8192, "b", None, None),
                (base + 8192, base + 12288, "m.safetensors", None, None),
            ]
        );
    }

    #[test]
    fn validity_follows_the_snapshots() {
        let text = "# time_ns 100\n10000-20000 rw-p 0 00:00 0\n# time_ns 200\n10000-20000 rw-p 0 00:00 0\n100000-103000 r--s 00000000 08:01 1 /m.safetensors\n400000-700000 rw-p 0 00:00 0\n800000-900000 rw-p 0 00:00 0\n# time_ns 300\n101000-102000 rw-p 0 00:00 0\n400000-780000 rw-p 0 00:00 0\n";
        let snapshots = MapsSnapshot::read("maps", text.as_bytes()).unwrap();
        let ranges = ranges_of_maps(&snapshots, &[model()]);
        assert_eq!(
            plain(&ranges),
            [
                // Unmapped until 100, gone at 300, where other memory follows in the middle.
                (0x10_0000, 0x10_1000, "m.safetensors", Some(100), Some(300)),
                (0x10_1000, 0x10_2000, "a", Some(100), Some(300)),
                (0x10_2000, 0x10_3000, "b", Some(100), Some(300)),
                // Three megabytes are a cache, one is not, and it grows.
                (0x40_0000, 0x70_0000, "kv_cache", Some(100), None),
                (0x70_0000, 0x78_0000, "kv_cache", Some(200), None),
            ]
        );
        // Alone, a snapshot cannot tell what is new.
        let alone = ranges_of_maps(&snapshots[1..2], &[model()]);
        assert!(alone.iter().all(|range| range.region_type == "weight"));
        assert_eq!(alone.len(), 3);
    }
}
