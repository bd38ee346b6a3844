//! Reads the tables that `rocprofv3 --output-format csv` writes, one file for each kind of record, and those of `rocpd convert -f csv`.
//!
//! Columns are found by name. The events are those of the JSON of the same run.

use byte_source::{Reader, Source};
use serde_json::Value;
use trace_model::{IssueKind, Place, Trace};

use crate::rocprof::{Call, Loader};
use crate::{Error, ReadOptions};

/// Ends of the names of the files, and the category of their records; the table of agents has none.
const FILES: &[(&str, &str)] = &[
    ("kernel_trace.csv", "kernel_dispatch"),
    ("memory_copy_trace.csv", "memory_copy"),
    ("hip_api_trace.csv", "hip_api"),
    ("hsa_api_trace.csv", "hsa_api"),
    ("rccl_api_trace.csv", "rccl_api"),
    ("marker_api_trace.csv", "marker_api"),
    ("memory_allocation_trace.csv", "memory_allocation"),
    ("scratch_memory_trace.csv", "scratch_memory"),
    ("regions_trace.csv", REGIONS),
    ("samples_trace.csv", REGIONS),
    ("agent_info.csv", ""),
];

/// Calls and markers of all kinds in one file, as `rocpd convert` writes them; each row has its domain.
const REGIONS: &str = "regions";

/// Returns the category of a domain such as `HIP_RUNTIME_API_EXT`.
fn category_of(domain: &str) -> &'static str {
    let categories = [
        ("HIP", "hip_api"),
        ("HSA", "hsa_api"),
        ("RCCL", "rccl_api"),
        ("MARKER", "marker_api"),
    ];
    let found = categories
        .iter()
        .find(|(start, _)| domain.starts_with(start));
    found.map_or(REGIONS, |(_, category)| category)
}

/// Splits the name of such a file into what the files of one process have in common, and its end; `None` for other files.
///
/// ```
/// use perfetto_reader::rocprof_csv::split_name;
///
/// assert_eq!(split_name("40023_kernel_trace.csv"), Some(("40023_", "kernel_trace.csv")));
/// assert_eq!(split_name("kernels.csv"), None);
/// ```
pub fn split_name(name: &str) -> Option<(&str, &'static str)> {
    FILES.iter().find_map(|(end, _)| {
        let prefix = name.strip_suffix(end)?;
        let is_whole = prefix.is_empty() || prefix.ends_with(['_', '-', '.']);
        is_whole.then_some((prefix, *end))
    })
}

/// Returns `true` if these are the first bytes of a table of records.
pub fn begins(head: &[u8]) -> bool {
    let text = byte_source::magic::skip_utf8_bom(head);
    let line = text.split(|b| *b == b'\n').next().unwrap_or(text);
    let has = |name: &[u8]| line.windows(name.len()).any(|part| part == name);
    let is_record = has(b"Kind") || has(b"Domain");
    is_record && has(b"Correlation_Id") && has(b"Start_Timestamp") && has(b"End_Timestamp")
}

/// A table of records, read row by row.
struct Rows {
    name: String,
    columns: Vec<String>,
    reader: csv::Reader<Reader>,
}

impl Rows {
    fn new(source: Source) -> Result<Self, Error> {
        let name = source.name().to_owned();
        let mut rows = Self {
            name,
            columns: Vec::new(),
            // A row that is cut has fewer cells.
            reader: csv::ReaderBuilder::new()
                .flexible(true)
                .has_headers(false)
                .from_reader(source.into_read()?),
        };
        let header = rows.next()?.unwrap_or_default();
        let cells = header
            .iter()
            .map(|cell| cell.trim_start_matches('\u{feff}'));
        rows.columns = cells.map(|cell| cell.trim().to_owned()).collect();
        Ok(rows)
    }

    fn next(&mut self) -> Result<Option<Vec<String>>, Error> {
        let mut row = csv::ByteRecord::new();
        let is_row = self.reader.read_byte_record(&mut row);
        let is_row = is_row.map_err(|error| unreadable(&self.name, self.offset(), error.into()))?;
        let cells = row
            .iter()
            .map(|cell| String::from_utf8_lossy(cell).into_owned());
        Ok(is_row.then(|| cells.collect()))
    }

    /// Byte behind the last row.
    fn offset(&self) -> u64 {
        self.reader.position().byte()
    }

    fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|name| name == column)
    }
}

fn unreadable(name: &str, offset: u64, source: std::io::Error) -> Error {
    let name = name.to_owned();
    byte_source::Error::Read {
        name,
        offset,
        source,
    }
    .into()
}

/// An agent of the table of agents.
struct Agent {
    node: i64,
    logical: i64,
    is_gpu: bool,
}

/// Numbers of devices.
#[derive(Default)]
struct Agents {
    all: Vec<Agent>,
    /// Agents are named by their node, which is not their number in the process.
    by_node: bool,
}

impl Agents {
    /// Returns the number of an agent within the process: of `Agent 4`, `GPU 0` or `4`.
    fn number(&self, text: &str) -> Option<i64> {
        let digits = text.trim().rsplit(|c: char| !c.is_ascii_digit()).next()?;
        let number: i64 = digits.parse().ok()?;
        if text.trim_start().starts_with("GPU") {
            let mut gpus = self.all.iter().filter(|agent| agent.is_gpu);
            let found = gpus.nth(usize::try_from(number).ok()?);
            return Some(found.map_or(number, |agent| agent.logical));
        }
        let found = self.all.iter().find(|agent| agent.node == number);
        match found.filter(|_| self.by_node) {
            Some(agent) => Some(agent.logical),
            None => Some(number),
        }
    }

    /// Decides what agents are named by, from those that run kernels.
    fn decide(&mut self, used: &[i64]) {
        let is_logical = |number: &i64| {
            let mut gpus = self.all.iter().filter(|agent| agent.is_gpu);
            gpus.any(|agent| agent.logical == *number)
        };
        self.by_node = !used.iter().all(is_logical);
    }
}

/// Reads the files of one process. `open` opens each of `count` files; it is called twice for most of them, because devices are
/// numbered by all that run kernels. Memory: that of the trace.
///
/// # Errors
///
/// Returns an error if a file cannot be read, or lacks a column that its records need.
pub fn read(
    count: usize,
    open: impl Fn(usize) -> Result<Source, byte_source::Error>,
    options: &ReadOptions,
) -> Result<Trace, Error> {
    let mut loader = Loader::new(options);
    loader.builder.meta.format = "rocprofv3-csv";
    let mut agents = Agents::default();
    let mut used = Vec::new();
    let mut names = Vec::new();
    let mut kinds = Vec::new();
    for at in 0..count {
        let source = open(at)?;
        let kind = split_name(source.logical_name()).map_or("", |(_, end)| end);
        kinds.push(kind);
        let mut rows = Rows::new(source)?;
        if kind == "agent_info.csv" {
            agents_of(&mut rows, &mut agents, &mut names)?;
            loader.builder.meta.input_bytes += rows.offset();
        } else if let Some(at) = rows.place("Process_Id") {
            let pid = rows.next()?.and_then(|row| row.get(at)?.parse().ok());
            loader.pid = pid.filter(|_| loader.pid == 0).unwrap_or(loader.pid);
        } else if let Some(at) = rows.place("Agent_Id") {
            let plain = Agents::default();
            while let Some(row) = rows.next()? {
                let number = row.get(at).filter(|text| !text.starts_with("GPU"));
                if let Some(number) = number.and_then(|text| plain.number(text))
                    && !used.contains(&number)
                {
                    used.push(number);
                }
            }
        }
    }
    agents.decide(&used);
    loader.devices(names);
    for (at, kind) in kinds.into_iter().enumerate() {
        let category = FILES.iter().find(|(end, _)| *end == kind);
        if let Some((_, category)) = category.filter(|(_, category)| !category.is_empty()) {
            let mut rows = Rows::new(open(at)?)?;
            records(&mut rows, category, &agents, &mut loader)?;
            loader.builder.meta.input_bytes += rows.offset();
        }
    }
    loader.finish()
}

fn agents_of(rows: &mut Rows, agents: &mut Agents, names: &mut Vec<Value>) -> Result<(), Error> {
    let places = [
        "Node_Id",
        "Logical_Node_Id",
        "Agent_Type",
        "Product_Name",
        "Name",
    ];
    let places = places.map(|column| rows.place(column));
    while let Some(row) = rows.next()? {
        let [node, logical, kind, product, name] = places.map(|at| {
            row.get(at?)
                .map(String::as_str)
                .filter(|cell| !cell.is_empty())
        });
        let Some(node) = node.and_then(|text| text.parse::<i64>().ok()) else {
            continue;
        };
        let logical = logical.and_then(|text| text.parse().ok()).unwrap_or(node);
        let is_gpu = kind == Some("GPU");
        if is_gpu {
            names.push(serde_json::json!({ "id": logical, "name": product.or(name) }));
        }
        agents.all.push(Agent {
            node,
            logical,
            is_gpu,
        });
    }
    Ok(())
}

/// Reads the records of one file.
fn records(
    rows: &mut Rows,
    category: &'static str,
    agents: &Agents,
    loader: &mut Loader<'_>,
) -> Result<(), Error> {
    let needed = |rows: &Rows, column: &'static str| {
        rows.place(column).ok_or_else(|| Error::Json {
            name: rows.name.clone(),
            what: "the table of rocprofv3 lacks the columns of its times",
            byte: 0,
            line: 1,
            column: 1,
        })
    };
    let start = needed(rows, "Start_Timestamp")?;
    let end = needed(rows, "End_Timestamp")?;
    let place = |names: &[&str]| names.iter().find_map(|name| rows.place(name));
    let name_at = place(&["Kernel_Name", "Function", "Direction", "Operation", "Kind"]);
    let (thread, correlation) = (place(&["Thread_Id"]), place(&["Correlation_Id"]));
    let domain = place(&["Domain"]).filter(|_| category == REGIONS);
    let (agent, queue, stream) = (
        place(&["Agent_Id"]),
        place(&["Queue_Id"]),
        place(&["Stream_Id"]),
    );
    let (from, to) = (
        place(&["Source_Agent_Id"]),
        place(&["Destination_Agent_Id"]),
    );
    while let Some(row) = rows.next()? {
        let cell = |at: Option<usize>| {
            row.get(at?)
                .map(String::as_str)
                .filter(|text| !text.is_empty())
        };
        let int = |at: Option<usize>| cell(at).and_then(|text| text.trim().parse::<i64>().ok());
        let (Some(start), Some(end)) = (int(Some(start)), int(Some(end))) else {
            loader.builder.meta.events += 1;
            let diagnostics = &mut loader.builder.diagnostics;
            diagnostics.count(IssueKind::JsonNoTimestamp, Place::Byte(rows.offset()));
            continue;
        };
        let category = cell(domain).map_or(category, category_of);
        loader.call(&Call {
            category,
            name: cell(name_at).unwrap_or(category),
            start,
            end,
            thread: int(thread).unwrap_or(0),
            correlation: int(correlation)
                .and_then(|id| u64::try_from(id).ok())
                .unwrap_or(0),
            kernel: (category == "kernel_dispatch").then(|| {
                let device = cell(agent)
                    .and_then(|text| agents.number(text))
                    .unwrap_or(0);
                (
                    device,
                    int(queue)
                        .and_then(|id| u64::try_from(id).ok())
                        .unwrap_or(0),
                )
            }),
            ends: [
                cell(to).and_then(|text| agents.number(text)),
                cell(from).and_then(|text| agents.number(text)),
            ],
            stream: int(stream).and_then(|id| u64::try_from(id).ok()),
            bytes: None,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES_OF_RUN: [(&str, &str); 4] = [
        (
            "d/7_agent_info.csv",
            "Node_Id,Logical_Node_Id,Agent_Type,Name,Product_Name\n0,0,CPU,EPYC,EPYC\n4,1,GPU,gfx942,\"AMD Instinct MI300X, 192 GB\"\n",
        ),
        (
            "d/7_kernel_trace.csv",
            "Kind,Agent_Id,Queue_Id,Stream_Id,Thread_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n\
                 KERNEL_DISPATCH,Agent 4,3,2,9,\"one \"\"x\"\", (int)\",5,2000,2500\n\
                 KERNEL_DISPATCH,Agent 4,3,2,9,bad,6,,2500\n",
        ),
        (
            "d/7_hip_api_trace.csv",
            "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n\
                 HIP_RUNTIME_API,hipLaunchKernel,77,9,5,1000,1100\n",
        ),
        (
            "d/7_memory_copy_trace.csv",
            "Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n\
                 MEMORY_COPY,MEMORY_COPY_HOST_TO_DEVICE,0,Agent 0,Agent 4,8,3000,3100\n",
        ),
    ];

    fn read(files: &[(&str, &[u8])]) -> Result<Trace, Error> {
        let open = |at: usize| Source::from_bytes(files[at].0, files[at].1.to_vec());
        super::read(files.len(), open, &ReadOptions::default())
    }

    #[test]
    fn tables_are_kernels_copies_and_calls() {
        use trace_model::kernel::{Activity, TraceIndex, Vocabulary};

        let trace = read(&FILES_OF_RUN.map(|(name, text)| (name, text.as_bytes()))).unwrap();
        let bytes: usize = FILES_OF_RUN.iter().map(|(_, text)| text.len()).sum();
        assert_eq!(trace.meta().input_bytes, bytes as u64);
        let index = TraceIndex::new(&trace, Vocabulary::default());
        let rows: Vec<_> = trace
            .slices()
            .map(|s| {
                (
                    index.activity(s),
                    s.name().unwrap(),
                    s.ts().nanos(),
                    s.dur().unwrap().get(),
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                (Activity::Launch, "hipLaunchKernel", 1000, 100),
                (Activity::Kernel, "one \"x\", (int)", 2000, 500),
                (Activity::GpuMemcpy, "MEMORY_COPY_HOST_TO_DEVICE", 3000, 100),
            ]
        );
        // Node 4 is device 1 of the process, as in the JSON and the database of the same run.
        let devices: Vec<i64> = index
            .device_work()
            .map(|work| index.device(work).0)
            .collect();
        assert_eq!(devices, [1, 1]);
        let kernel = index.device_work().next().unwrap();
        assert_eq!(
            index.launch_of(kernel).unwrap().0.name(),
            Some("hipLaunchKernel")
        );
        assert_eq!(
            trace.processes().first().map(|process| process.pid.0),
            Some(77)
        );
        assert_eq!(trace.diagnostics().count_of(IssueKind::JsonNoTimestamp), 1);
        assert!(
            trace
                .meta()
                .entry("deviceProperties")
                .unwrap()
                .contains("MI300X, 192 GB")
        );
    }

    #[test]
    fn agents_may_be_named_by_their_number_in_the_process() {
        let mut agents = Agents::default();
        for (node, logical, is_gpu) in [(0, 0, false), (4, 1, true), (6, 2, true)] {
            agents.all.push(Agent {
                node,
                logical,
                is_gpu,
            });
        }
        agents.decide(&[4, 6]);
        assert_eq!(
            (agents.number("Agent 6"), agents.number("GPU 1")),
            (Some(2), Some(2))
        );
        agents.decide(&[1, 2]);
        assert_eq!(
            (agents.number("Agent 2"), agents.number("2")),
            (Some(2), Some(2))
        );
        assert_eq!(agents.number("none"), None);
    }

    #[test]
    fn calls_of_all_kinds_may_be_in_one_file() {
        let text = "Guid,Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n\
                    g,HIP_RUNTIME_API_EXT,hipLaunchKernel,7,7,3,1000,1100\ng,MARKER_CORE_API,step,7,7,4,1000,1200\n";
        let text = format!("\u{feff}{text}");
        let trace = read(&[("out_regions_trace.csv", text.as_bytes())]).unwrap();
        let categories: Vec<_> = trace
            .slices()
            .filter_map(|slice| slice.category())
            .collect();
        assert_eq!(categories.len(), 2);
        assert!(categories.contains(&"hip_api") && categories.contains(&"marker_api"));
    }

    #[test]
    fn arbitrary_cuts_do_not_panic() {
        let text = "Kind,Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp\nK,\"Agent, 4\",1,5,9\n\n\"";
        for at in 0..=text.len() {
            let _ = read(&[("kernel_trace.csv", &text.as_bytes()[..at])]);
        }
        assert!(begins(text.as_bytes()) && !begins(b"Kind,name\n1,2"));
    }
}
