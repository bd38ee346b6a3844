//! Collectives from the ranges of NCCL and RCCL: operation, message size, communicator.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use trace_model::kernel::collective::{CollectiveOp, dtype_bytes};
use trace_model::{Arg, StrId};

use crate::error::Result;
use crate::ids::ProcessKey;
use crate::load::Loader;
use crate::payload::{Field, Named};

/// A range of the library, kept until the ranges around it are known.
#[derive(Debug)]
pub(crate) struct CommRange {
    pub(crate) thread: i64,
    pub(crate) start: i64,
    pub(crate) end: Option<i64>,
    pub(crate) name: StrId,
    pub(crate) args: Vec<Arg>,
    pub(crate) call: Call,
}

/// What a range states of its call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) label: String,
    /// Communicator, as text.
    comm: Option<String>,
    /// Bytes of one message, as the library counts them.
    bytes: Option<u64>,
    count: Option<u64>,
    dtype: Option<&'static str>,
    ranks: Option<u64>,
    rank: Option<u64>,
    number: Option<i64>,
}

impl Call {
    pub(crate) fn new(label: &str, fields: &[Named]) -> Self {
        let mut call = Self {
            label: label.to_owned(),
            ..Self::default()
        };
        let mut operation = None;
        for field in fields {
            let name = field.name.to_ascii_lowercase();
            // Fields of advanced tracing have names; those of the library's own ranges have labels, which differ by version.
            match name.as_str() {
                "commhash" => call.comm = communicator(&field.value),
                "commrank" => call.rank = field.unsigned(),
                "count" => call.count = field.unsigned(),
                "datatype" => call.dtype = dtype(&field.value),
                "operationid" => operation = field.unsigned(),
                "seqnumber" => call.number = field.unsigned().and_then(|n| i64::try_from(n).ok()),
                _ if name.contains("communicator") && [8, 10, 18, 22].contains(&field.kind) => {
                    call.comm = communicator(&field.value);
                }
                _ if field.kind == 22 => call.bytes = field.unsigned(),
                _ if name.contains("ranks") => call.ranks = field.unsigned(),
                "rank" => call.rank = field.unsigned(),
                _ => {}
            }
        }
        // Equal on all ranks, which numbers of one communicator need not be.
        if let Some(operation) = operation.and_then(|n| i64::try_from(n).ok()) {
            call.number = Some(operation);
        }
        call
    }

    fn op(&self) -> Option<CollectiveOp> {
        let label = self.label.to_ascii_lowercase();
        let name = label
            .strip_prefix("nccl")
            .or_else(|| label.strip_prefix("rccl"));
        let name = name.unwrap_or(&label);
        Some(match name {
            "bcast" | "broadcast" => CollectiveOp::Broadcast,
            "allreduce" | "allgather" | "allgatherv" | "reducescatter" | "alltoall"
            | "alltoallv" | "reduce" | "gather" | "scatter" | "send" | "recv"
            | "allreducewithbias" => CollectiveOp::from_name(name)?,
            _ => return None,
        })
    }

    fn is(&self, name: &str) -> bool {
        let label = self.label.to_ascii_lowercase();
        let rest = label
            .strip_prefix("nccl")
            .or_else(|| label.strip_prefix("rccl"));
        rest == Some(name)
    }
}

/// Number of ranks of a communicator, and the rank of the process in it.
#[derive(Clone, Copy, Debug, Default)]
struct Comm {
    ranks: Option<u64>,
    rank: Option<u64>,
}

/// Ranges and communicators of all processes.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    ranges: Vec<CommRange>,
    has_ranges: bool,
    comms: BTreeMap<(ProcessKey, String), Comm>,
}

/// A collective, or several launched together.
struct Described {
    name: String,
    op: Option<CollectiveOp>,
    bytes: Option<u64>,
    dtype: Option<&'static str>,
    comm: Option<String>,
    ranks: Option<u64>,
    number: Option<i64>,
}

impl Collectives {
    /// Remembers what a range states of its communicator; also for ranges before the collection.
    pub(crate) fn learn(&mut self, process: ProcessKey, call: &Call) {
        if let Some(comm) = &call.comm {
            let known = self.comms.entry((process, comm.clone())).or_default();
            known.ranks = known.ranks.or(call.ranks);
            known.rank = known.rank.or(call.rank);
        }
    }

    /// Adds what later ranges state of communicators.
    pub(crate) fn absorb(&mut self, later: Self) {
        for (key, comm) in later.comms {
            let known = self.comms.entry(key).or_default();
            known.ranks = known.ranks.or(comm.ranks);
            known.rank = known.rank.or(comm.rank);
        }
    }

    pub(crate) fn add(&mut self, range: CommRange) {
        self.has_ranges = true;
        self.ranges.push(range);
    }

    /// Returns `true` if there were no ranges of the library.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_ranges
    }

    /// Returns the rank of a process in its largest communicator, and the size of that.
    pub(crate) fn rank_of(&self, process: ProcessKey) -> Option<(u64, Option<u64>)> {
        let own = self.comms.iter().filter(|((of, _), _)| *of == process);
        let ranked = own.filter_map(|(_, comm)| Some((comm.ranks, comm.rank?)));
        // Of equally large ones, the first by name.
        let best = ranked.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(ranks, rank)| (rank, ranks))
    }

    fn describe(&self, range: &CommRange) -> Option<Described> {
        let call = &range.call;
        let op = call.op()?;
        let process = ProcessKey::of(range.thread);
        let comm = call.comm.as_ref();
        let known = comm.and_then(|comm| self.comms.get(&(process, comm.clone())));
        let ranks = call.ranks.or(known.and_then(|comm| comm.ranks));
        let element = call.dtype.and_then(dtype_bytes);
        let counted = call
            .count
            .zip(element)
            .and_then(|(count, bytes)| count.checked_mul(bytes));
        let bytes = call.bytes.or(counted).and_then(|bytes| match op {
            // The library counts what one rank sends or receives.
            CollectiveOp::AllGather | CollectiveOp::ReduceScatter => bytes.checked_mul(ranks?),
            _ => Some(bytes),
        });
        Some(Described {
            name: match op {
                CollectiveOp::Broadcast => "broadcast".to_owned(),
                _ => call.label.clone(),
            },
            op: Some(op),
            bytes,
            dtype: call.dtype,
            comm: comm.cloned(),
            ranks,
            number: call.number,
        })
    }
}

/// Returns what several calls of one launch do together; `None` if they have nothing in common.
fn together(mut calls: Vec<Described>) -> Option<Described> {
    if calls.len() < 2 {
        return calls.pop();
    }
    let sum = |op: Option<CollectiveOp>| {
        let mut own = calls.iter().filter(|call| op.is_none() || call.op == op);
        own.try_fold(0_u64, |sum, call| sum.checked_add(call.bytes?))
    };
    let is_exchange = calls
        .iter()
        .all(|call| matches!(call.op, Some(CollectiveOp::Send | CollectiveOp::Recv)));
    let first = calls.first()?;
    let (op, bytes) = if is_exchange {
        let sent = sum(Some(CollectiveOp::Send));
        let received = sum(Some(CollectiveOp::Recv));
        let larger = sent
            .zip(received)
            .map(|(sent, received)| sent.max(received));
        (Some(CollectiveOp::AllToAll), larger)
    } else if calls.iter().all(|call| call.op == first.op) {
        (first.op, sum(None))
    } else {
        return None;
    };
    let same = calls.iter().all(|call| call.comm == first.comm);
    Some(Described {
        name: op.map_or("", CollectiveOp::name).to_owned(),
        op,
        bytes,
        dtype: first
            .dtype
            .filter(|dtype| calls.iter().all(|call| call.dtype == Some(*dtype))),
        comm: first.comm.clone().filter(|_| same),
        ranks: first.ranks.filter(|_| same),
        number: None,
    })
}

impl Loader<'_> {
    /// Puts the ranges of the library on their threads, with what is known of their collectives.
    pub(crate) fn put_collectives(&mut self) -> Result<()> {
        let mut ranges = std::mem::take(&mut self.collectives.ranges);
        ranges.sort_by_key(|range| {
            (
                range.thread,
                range.start,
                Reverse(range.end.unwrap_or(i64::MAX)),
            )
        });
        let mut described: Vec<Option<Described>> = Vec::with_capacity(ranges.len());
        let mut queued: Vec<usize> = Vec::new();
        let (mut depth, mut thread) = (0_usize, None);
        for (at, range) in ranges.iter().enumerate() {
            if thread != Some(range.thread) {
                thread = Some(range.thread);
                depth = 0;
                queued.clear();
            }
            let mut own = self.collectives.describe(range);
            if range.call.is("groupstart") {
                depth += 1;
            } else if range.call.is("groupend") {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    let calls = queued.drain(..).filter_map(|at| {
                        let queued: &CommRange = ranges.get(at)?;
                        self.collectives.describe(queued)
                    });
                    own = together(calls.collect());
                }
            } else if range.call.label == "API Group" {
                let inside = ranges.iter().skip(at + 1).take_while(|inner| {
                    inner.thread == range.thread && range.end.is_none_or(|end| inner.start < end)
                });
                let calls = inside.filter_map(|inner| self.collectives.describe(inner));
                own = together(calls.collect());
            } else if own.is_some() && depth > 0 {
                queued.push(at);
            }
            described.push(own);
        }
        for (range, described) in ranges.into_iter().zip(described) {
            self.list = range.args;
            if let Some(described) = described {
                self.arg_text(self.keys.collective, &described.name);
                let count = |value: Option<u64>| value.and_then(|n| i64::try_from(n).ok());
                self.int(self.keys.message_bytes, count(described.bytes));
                self.int(self.keys.group_size, count(described.ranks));
                self.int(self.keys.number, described.number);
                if let Some(dtype) = described.dtype {
                    self.arg_text(self.keys.dtype, dtype);
                }
                if let Some(comm) = &described.comm {
                    self.arg_text(self.keys.group, comm);
                }
            }
            if let Some(data) = self.data(Some(range.name), "nvtx") {
                let lane = self.thread(range.thread);
                self.put(lane, range.start, range.end, data);
            }
        }
        Ok(())
    }
}

/// Returns a communicator as `0x` and hexadecimal digits.
fn communicator(value: &Field) -> Option<String> {
    Some(match value {
        Field::UInt(number) => format!("0x{number:x}"),
        Field::Int(number) => format!("0x{:x}", number.cast_unsigned()),
        Field::Text(text) => match text.strip_prefix("0x") {
            Some(_) => text.to_ascii_lowercase(),
            None => match text.parse::<u64>() {
                Ok(number) => format!("0x{number:x}"),
                Err(_) => format!("0x{}", text.to_ascii_lowercase()),
            },
        },
        Field::Real(_) => return None,
    })
}

/// Returns PyTorch's name of a dtype of NCCL.
fn dtype(value: &Field) -> Option<&'static str> {
    let Field::Text(name) = value else {
        // Numbers of ncclDataType_t.
        let number = match value {
            Field::Int(number) => u64::try_from(*number).ok()?,
            Field::UInt(number) => *number,
            _ => return None,
        };
        return [
            "Char",
            "Byte",
            "Int",
            "UInt32",
            "Long",
            "UInt64",
            "Half",
            "Float",
            "Double",
            "BFloat16",
            "Float8_e4m3fn",
            "Float8_e5m2",
        ]
        .get(usize::try_from(number).ok()?)
        .copied();
    };
    let name = name.to_ascii_lowercase();
    let name = name
        .strip_prefix("nccl")
        .or_else(|| name.strip_prefix("rccl"))
        .unwrap_or(&name);
    Some(match name {
        "int8" | "char" => "Char",
        "uint8" => "Byte",
        "int32" | "int" => "Int",
        "uint32" => "UInt32",
        "int64" => "Long",
        "uint64" => "UInt64",
        "float16" | "half" => "Half",
        "float32" | "float" => "Float",
        "float64" | "double" => "Double",
        "bfloat16" => "BFloat16",
        "float8e4m3" | "fp8e4m3" => "Float8_e4m3fn",
        "float8e5m2" | "fp8e5m2" => "Float8_e5m2",
        _ => return None,
    })
}
