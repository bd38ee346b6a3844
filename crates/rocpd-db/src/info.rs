//! What the info tables describe: nodes, processes, threads, agents, queues, streams, kernels, counters.

use crate::error::Result;
use crate::ids::{IdMap, Texts};
use crate::partition::{Partition, Table};
use crate::value::Fields;
use sqlite_scan::Value;

/// A machine.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Node {
    /// Id within its process's tables.
    pub id: i64,
    /// The machine's identifier.
    pub machine_id: String,
    /// Operating system.
    pub system_name: Option<String>,
    /// Host name.
    pub hostname: Option<String>,
    /// Kernel release.
    pub release: Option<String>,
    /// Kernel version.
    pub version: Option<String>,
}

/// A recorded process: what everything else belongs to.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Process {
    /// The key of the process among all databases.
    pub guid: String,
    /// Number of its partition in the set.
    pub partition: usize,
    /// Id within its tables.
    pub id: i64,
    /// Id of its node.
    pub nid: i64,
    /// The parent's process id.
    pub ppid: Option<i64>,
    /// Process id of the operating system.
    pub pid: i64,
    /// When recording began, ns.
    pub init_ns: Option<i64>,
    /// When recording ended, ns.
    pub fini_ns: Option<i64>,
    /// When the process began, ns.
    pub start_ns: Option<i64>,
    /// When the process ended, ns.
    pub end_ns: Option<i64>,
    /// The command line.
    pub command: Option<String>,
    /// Host name of its node.
    pub hostname: String,
    /// Rank, from the environment that was recorded (MPI, torchrun, Slurm).
    pub rank: Option<i64>,
}

/// A thread.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Thread {
    /// Id within its tables.
    pub id: i64,
    /// Id of its process within the tables.
    pub process_id: i64,
    /// Thread id of the operating system.
    pub tid: i64,
    /// Name.
    pub name: Option<String>,
    /// When it began, ns.
    pub start_ns: Option<i64>,
    /// When it ended, ns.
    pub end_ns: Option<i64>,
}

/// A processor: host or GPU.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Agent {
    /// Id within its tables.
    pub id: i64,
    /// Id of its process within the tables.
    pub process_id: i64,
    /// Id of its node.
    pub nid: i64,
    /// `CPU`, `GPU` or `NIC`.
    pub kind: Option<String>,
    /// Index on the machine.
    pub absolute_index: Option<i64>,
    /// Index among those the process may use.
    pub logical_index: Option<i64>,
    /// Index among those of its kind.
    pub type_index: Option<i64>,
    /// Name, for example `gfx942`.
    pub name: Option<String>,
    /// Model.
    pub model_name: Option<String>,
    /// Vendor.
    pub vendor_name: Option<String>,
    /// Product.
    pub product_name: Option<String>,
    /// Its properties, as JSON.
    pub extdata: Option<String>,
}

impl Agent {
    /// Whether it may be a GPU: nothing says that it is a CPU.
    pub(crate) fn is_gpu(&self) -> bool {
        self.kind.as_deref() != Some("CPU")
    }
}

/// A queue or stream.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Channel {
    /// Id within its tables.
    pub id: i64,
    /// Id of its process within the tables.
    pub process_id: i64,
    /// Name.
    pub name: Option<String>,
}

/// A kernel as it was loaded.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Symbol {
    /// Id within its tables.
    pub id: i64,
    /// Id of its code object.
    pub code_object_id: Option<i64>,
    /// The name in the object file: mangled, ending in `.kd`.
    pub kernel_name: Option<String>,
    /// The name for people.
    pub display_name: Option<String>,
    /// Static LDS, bytes.
    pub group_segment_size: Option<i64>,
    /// Static scratch, bytes.
    pub private_segment_size: Option<i64>,
    /// Scalar registers.
    pub sgpr_count: Option<i64>,
    /// Vector registers.
    pub arch_vgpr_count: Option<i64>,
    /// Accumulation registers.
    pub accum_vgpr_count: Option<i64>,
}

/// A hardware counter.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Pmc {
    /// Id within its tables.
    pub id: i64,
    /// Id of its agent.
    pub agent_id: Option<i64>,
    /// Name.
    pub name: String,
    /// What it counts in.
    pub units: Option<String>,
}

/// What samples are on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Track {
    pub(crate) nid: Option<i64>,
    pub(crate) process_id: Option<i64>,
    pub(crate) thread_id: Option<i64>,
    pub(crate) name_id: Option<i64>,
    pub(crate) agent_id: Option<i64>,
    pub(crate) queue_id: Option<i64>,
    pub(crate) stream_id: Option<i64>,
}

/// The small info tables, read when a file is opened.
#[derive(Debug, Default)]
pub(crate) struct Info {
    pub(crate) nodes: IdMap<Node>,
    pub(crate) processes: IdMap<Process>,
    pub(crate) threads: IdMap<Thread>,
    pub(crate) agents: IdMap<Agent>,
    pub(crate) queues: IdMap<Channel>,
    pub(crate) streams: IdMap<Channel>,
}

/// The larger dictionaries, read when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) strings: Texts,
    /// Categories of generation 4.
    pub(crate) categories: Option<Texts>,
    pub(crate) symbols: IdMap<Symbol>,
    pub(crate) pmcs: IdMap<Pmc>,
    pub(crate) tracks: IdMap<Track>,
}

/// Reads a whole table; rows of wrong types are counted and left out.
fn each<const N: usize>(
    partition: &Partition,
    base: &'static str,
    names: [&'static str; N],
    mut take: impl FnMut(i64, Fields<'_, '_>) -> std::result::Result<(), crate::value::BadSlot>,
) -> Result<()> {
    let Some(table) = partition.table(base) else {
        return Ok(());
    };
    let pick = table.def.pick(names);
    let mut cursor = table.cursor(partition)?;
    while let Some((rowid, values)) = cursor.next(&pick)? {
        if let Err(slot) = take(rowid, Fields(&values)) {
            partition.bad_value(table, &names, &values, rowid, slot);
        }
    }
    Ok(())
}

impl Info {
    pub(crate) fn read(partition: &Partition, default_guid: &str, number: usize) -> Result<Self> {
        let mut info = Self::default();
        let columns = [
            "id",
            "machine_id",
            "system_name",
            "hostname",
            "release",
            "version",
        ];
        each(partition, "rocpd_info_node", columns, |rowid, row| {
            let node = Node {
                id: row.int(0)?.unwrap_or(rowid),
                machine_id: row.text(1).unwrap_or_default(),
                system_name: row.text(2),
                hostname: row.text(3),
                release: row.text(4),
                version: row.text(5),
            };
            info.nodes.push(node.id, node);
            Ok(())
        })?;
        let columns = [
            "id",
            "guid",
            "nid",
            "ppid",
            "pid",
            "init",
            "fini",
            "start",
            "end",
            "command",
            "environment",
        ];
        let nodes = &info.nodes;
        let processes = &mut info.processes;
        each(partition, "rocpd_info_process", columns, |rowid, row| {
            let nid = row.need(2)?;
            let guid = row.text(1).filter(|guid| is_guid(guid));
            let id = row.int(0)?.unwrap_or(rowid);
            processes.push(
                id,
                Process {
                    guid: guid.unwrap_or_else(|| default_guid.to_owned()),
                    partition: number,
                    id,
                    nid,
                    ppid: row.int(3)?,
                    pid: row.need(4)?,
                    init_ns: row.int(5)?,
                    fini_ns: row.int(6)?,
                    start_ns: row.int(7)?,
                    end_ns: row.int(8)?,
                    command: row.text(9),
                    hostname: nodes
                        .get(nid)
                        .and_then(|node| node.hostname.clone())
                        .unwrap_or_default(),
                    rank: rank(row.bytes(10)),
                },
            );
            Ok(())
        })?;
        let columns = ["id", "pid", "tid", "name", "start", "end"];
        let threads = &mut info.threads;
        each(partition, "rocpd_info_thread", columns, |rowid, row| {
            let thread = Thread {
                id: row.int(0)?.unwrap_or(rowid),
                process_id: row.need(1)?,
                tid: row.need(2)?,
                name: row.text(3),
                start_ns: row.int(4)?,
                end_ns: row.int(5)?,
            };
            threads.push(thread.id, thread);
            Ok(())
        })?;
        let columns = [
            "id",
            "pid",
            "nid",
            "type",
            "absolute_index",
            "logical_index",
            "type_index",
            "name",
            "model_name",
            "vendor_name",
            "product_name",
            "extdata",
        ];
        let agents = &mut info.agents;
        each(partition, "rocpd_info_agent", columns, |rowid, row| {
            let agent = Agent {
                id: row.int(0)?.unwrap_or(rowid),
                process_id: row.need(1)?,
                nid: row.need(2)?,
                kind: row.text(3),
                absolute_index: row.int(4)?,
                logical_index: row.int(5)?,
                type_index: row.int(6)?,
                name: row.text(7),
                model_name: row.text(8),
                vendor_name: row.text(9),
                product_name: row.text(10),
                extdata: row.text(11),
            };
            agents.push(agent.id, agent);
            Ok(())
        })?;
        for (base, channels) in [
            ("rocpd_info_queue", &mut info.queues),
            ("rocpd_info_stream", &mut info.streams),
        ] {
            each(partition, base, ["id", "pid", "name"], |rowid, row| {
                let channel = Channel {
                    id: row.int(0)?.unwrap_or(rowid),
                    process_id: row.need(1)?,
                    name: row.text(2),
                };
                channels.push(channel.id, channel);
                Ok(())
            })?;
        }
        Ok(info)
    }
}

impl Names {
    pub(crate) fn read(partition: &Partition) -> Result<Self> {
        let mut names = Self::default();
        each(partition, "rocpd_string", ["string"], |rowid, row| {
            names.strings.push(rowid, row.bytes(0));
            Ok(())
        })?;
        if let Some(table) = partition.table("rocpd_info_category") {
            let column = ["name", "category", "string"]
                .into_iter()
                .find(|column| table.def.column(column).is_some())
                .unwrap_or("name");
            let mut categories = Texts::default();
            each(partition, "rocpd_info_category", [column], |rowid, row| {
                categories.push(rowid, row.bytes(0));
                Ok(())
            })?;
            names.categories = Some(categories);
        }
        let columns = [
            "code_object_id",
            "kernel_name",
            "display_name",
            "group_segment_size",
            "private_segment_size",
            "sgpr_count",
            "arch_vgpr_count",
            "accum_vgpr_count",
        ];
        each(partition, "rocpd_info_kernel_symbol", columns, |id, row| {
            let symbol = Symbol {
                id,
                code_object_id: row.int(0)?,
                kernel_name: row.text(1),
                display_name: row.text(2),
                group_segment_size: row.int(3)?,
                private_segment_size: row.int(4)?,
                sgpr_count: row.int(5)?,
                arch_vgpr_count: row.int(6)?,
                accum_vgpr_count: row.int(7)?,
            };
            names.symbols.push(id, symbol);
            Ok(())
        })?;
        let columns = ["agent_id", "name", "units"];
        each(partition, "rocpd_info_pmc", columns, |id, row| {
            let pmc = Pmc {
                id,
                agent_id: row.int(0)?,
                name: row.text(1).unwrap_or_default(),
                units: row.text(2),
            };
            names.pmcs.push(id, pmc);
            Ok(())
        })?;
        let columns = [
            "nid",
            "pid",
            "tid",
            "name_id",
            "agent_id",
            "queue_id",
            "stream_id",
        ];
        each(partition, "rocpd_track", columns, |id, row| {
            let track = Track {
                nid: row.int(0)?,
                process_id: row.int(1)?,
                thread_id: row.int(2)?,
                name_id: row.int(3)?,
                agent_id: row.int(4)?,
                queue_id: row.int(5)?,
                stream_id: row.int(6)?,
            };
            names.tracks.push(id, track);
            Ok(())
        })?;
        Ok(names)
    }
}

/// Some early writers left the name of the template's variable.
pub(crate) fn is_guid(text: &str) -> bool {
    !text.is_empty() && !text.contains("{{")
}

/// The rank that launchers put into the environment.
fn rank(environment: &[u8]) -> Option<i64> {
    const VARIABLES: [&str; 6] = [
        "OMPI_COMM_WORLD_RANK",
        "MPI_RANK",
        "PMI_RANK",
        "MV2_COMM_WORLD_RANK",
        "RANK",
        "SLURM_PROCID",
    ];
    let environment: serde_json::Value = serde_json::from_slice(environment).ok()?;
    VARIABLES
        .iter()
        .find_map(|name| match environment.get(name)? {
            serde_json::Value::String(text) => text.parse().ok(),
            value => value.as_i64(),
        })
}

/// A table of key and value: the metadata of a partition.
pub(crate) fn metadata(
    partition_file: &sqlite_scan::PageFile,
    table: &Table,
) -> Result<Vec<(String, String)>> {
    let pick = table.def.pick(["tag", "value"]);
    let leaves = table.leaves(partition_file)?;
    let mut cursor = sqlite_scan::Cursor::new(partition_file, leaves);
    let mut rows = Vec::new();
    while let Some((_, values)) = cursor.next(&pick)? {
        if let [Value::Text(_), _] = values {
            let row = Fields(&values);
            rows.push((
                row.text(0).unwrap_or_default(),
                row.text(1).unwrap_or_default(),
            ));
        }
    }
    Ok(rows)
}
