//! GPU activities of one recording, as columns.

use rustc_hash::FxHashMap;
use trace_model::correlation::LinkMethod;
use trace_model::kernel::{Activity, CopyDirection, KernelClass, TraceIndex};
use trace_model::{ArgColumn, ArgValue, SliceId};

use crate::class::{Class, Lag, Limit};
use crate::clocks::Clocks;
use crate::names::{NONE, Names, place};

/// Maximum number of rows of a matrix product that is limited by memory.
const FEW_ROWS: u64 = 128;

/// Kernels, memcpys and memsets of one recording in ascending start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ops {
    pub(crate) start: Vec<i64>,
    pub(crate) end: Vec<i64>,
    pub(crate) name: Vec<u32>,
    pub(crate) class: Vec<Class>,
    /// The resource that limits the activity, if known.
    pub(crate) limit: Vec<Option<Limit>>,
    /// Index of its stream.
    pub(crate) stream: Vec<u32>,
    /// Index of the call that submitted it.
    pub(crate) call: Vec<u32>,
    /// The activity with the latest end among those ahead on its stream.
    pub(crate) ahead: Vec<u32>,
    /// Activities of each stream in ascending start.
    pub(crate) by_stream: Vec<Vec<u32>>,
    /// Device and stream of each stream index.
    pub(crate) streams: Vec<(i64, i64)>,
    /// Index of the stream with the most computation.
    pub(crate) main: u32,
    /// Number of activities whose links to calls are lost, where that is so many that the others are left out as well.
    pub(crate) lost_links: u64,
}

impl Ops {
    pub(crate) fn len(&self) -> usize {
        self.start.len()
    }

    /// Reads the GPU activities of a trace, set back by what the clock of each device is `ahead`, and the slice of the call that
    /// submitted each.
    pub(crate) fn read(
        index: &TraceIndex<'_>,
        names: &mut Names<'_>,
        ahead: &Clocks,
    ) -> (Self, Vec<Option<SliceId>>) {
        let trace = index.trace();
        let count = index.activities().device_work().len();
        let mut ops = Self::default();
        ops.start.reserve(count);
        ops.end.reserve(count);
        let mut calls = Vec::with_capacity(count);
        let mut places: FxHashMap<(i64, i64), u32> = FxHashMap::default();
        let dims = trace.arg_column("Input Dims");
        for slice in index.device_work() {
            let back = ahead.of(index.device(slice).0);
            let (start, end) = (slice.ts().nanos() - back, slice.end().nanos() - back);
            let call = match index.launch_of(slice) {
                Some((_, LinkMethod::ExternalId)) | None => None,
                Some((call, _)) => Some(call),
            };
            let class = class_of(index, slice);
            let limit = match class {
                Class::Kernel(KernelClass::Gemm) => call
                    .filter(|call| index.activity(*call) != Activity::GraphLaunch)
                    .and_then(|call| {
                        call.ancestors()
                            .filter(|s| index.activity(*s) == Activity::CpuOp)
                            .find_map(|s| rows(&dims, s))
                    })
                    .map(|rows| match rows <= FEW_ROWS {
                        true => Limit::Memory,
                        false => Limit::Compute,
                    }),
                class => limit_of(class),
            };
            let key = (index.device(slice).0, index.stream(slice).0);
            let next = place(ops.streams.len());
            let streams = &mut ops.streams;
            let stream = *places.entry(key).or_insert_with(|| {
                streams.push(key);
                next
            });
            ops.start.push(start);
            ops.end.push(end.max(start));
            ops.name.push(names.place(slice.name_id()));
            ops.class.push(class);
            ops.limit.push(limit);
            ops.stream.push(stream);
            calls.push(call.map(|call| call.id()));
        }
        ops.call = vec![NONE; count];
        ops.order();
        (ops, calls)
    }

    fn order(&mut self) {
        let mut last = vec![NONE; self.streams.len()];
        self.by_stream = vec![Vec::new(); self.streams.len()];
        self.ahead = Vec::with_capacity(self.len());
        for i in 0..self.len() {
            let stream = self.stream[i] as usize;
            self.by_stream[stream].push(place(i));
            let ahead = last[stream];
            self.ahead.push(ahead);
            if ahead == NONE || self.end[i] >= self.end[ahead as usize] {
                last[stream] = place(i);
            }
        }
        self.choose_main(|_| true);
    }

    /// Chooses the stream with the most computation by calls of one engine: `is_own` by the index of a call.
    pub(crate) fn choose_main(&mut self, is_own: impl Fn(usize) -> bool) {
        let mut compute = vec![0_i64; self.streams.len()];
        for i in 0..self.len() {
            let call = self.call[i];
            if matches!(self.class[i], Class::Kernel(_)) && (call == NONE || is_own(call as usize))
            {
                compute[self.stream[i] as usize] += self.end[i] - self.start[i];
            }
        }
        let most = (0..compute.len()).max_by_key(|&s| {
            let busy = compute[s];
            (busy, self.streams[s])
        });
        self.main = most.map_or(NONE, place);
    }

    /// Returns the latency between an activity and the one ahead of it: memcpys and memsets take
    /// longer to start, and delay the start after them.
    pub(crate) fn gap_lag(&self, op: usize) -> Lag {
        let is_copy = |op: usize| self.class[op].is_copy() || self.class[op] == Class::Memset;
        match self.ahead[op] {
            NONE => Lag::Stream,
            ahead if self.call[op] != NONE && self.call[op] == self.call[ahead as usize] => {
                Lag::Graph
            }
            _ if is_copy(op) => Lag::Copy,
            ahead if is_copy(ahead as usize) => Lag::AfterCopy,
            _ => Lag::Stream,
        }
    }

    pub(crate) fn is_comm(&self, op: usize) -> bool {
        self.class[op] == Class::Comm
    }
}

fn class_of(index: &TraceIndex<'_>, slice: trace_model::Slice<'_>) -> Class {
    match index.activity(slice) {
        Activity::GpuMemcpy => copy_class(slice.name().unwrap_or("")),
        Activity::GpuMemset => Class::Memset,
        _ if index.is_collective(slice) => Class::Comm,
        _ => Class::Kernel(index.class(slice)),
    }
}

/// Returns the class of a memcpy from its direction.
fn copy_class(name: &str) -> Class {
    match CopyDirection::of_name(name) {
        CopyDirection::HostToDevice => Class::MemcpyH2d,
        CopyDirection::DeviceToHost => Class::MemcpyD2h,
        _ => Class::MemcpyD2d,
    }
}

/// Returns the resource that limits work of a class other than matrix products; `None` if it is
/// unknown.
fn limit_of(class: Class) -> Option<Limit> {
    use KernelClass as K;
    match class {
        Class::Kernel(K::Convolution) => Some(Limit::Compute),
        Class::Kernel(
            K::Gemm | K::MoeGemm | K::Attention | K::Ssm | K::Collective | K::Other | K::Moe,
        ) => None,
        Class::Kernel(_) | Class::MemcpyD2d | Class::Memset => Some(Limit::Memory),
        _ => None,
    }
}

/// Returns the rows of the product that an operator computes, from its input shapes: `[[512, 64],
/// [64, 128]]`.
fn rows(dims: &ArgColumn, operator: trace_model::Slice<'_>) -> Option<u64> {
    let text = dims.get(operator).and_then(ArgValue::as_str)?;
    rows_of(text)
}

fn rows_of(text: &str) -> Option<u64> {
    let mut matrices = text.split('[').filter_map(|part| {
        let inside = part.split(']').next()?;
        let sizes: Result<Vec<u64>, _> = inside.split(',').map(|n| n.trim().parse()).collect();
        sizes.ok().filter(|sizes: &Vec<u64>| sizes.len() >= 2)
    });
    let (first, second) = (matrices.next()?, matrices.next()?);
    let (_, leading) = first.split_last()?;
    match second.len() {
        2 => leading
            .iter()
            .try_fold(1_u64, |rows, n| rows.checked_mul(*n)),
        _ => leading.last().copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_products() {
        for (text, want) in [
            ("[[512, 512], [512, 512]]", Some(512)),
            ("[[64], [8, 512], [512, 64], [], []]", Some(8)),
            ("[[2, 7, 512], [64, 512]]", Some(14)),
            ("[[32, 9, 64], [32, 64, 9]]", Some(9)),
            ("[[512]]", None),
            ("", None),
        ] {
            assert_eq!(rows_of(text), want, "{text}");
        }
    }

    #[test]
    fn directions_of_copies() {
        assert_eq!(
            copy_class("Memcpy DtoH (Device -> Pageable)"),
            Class::MemcpyD2h
        );
        assert_eq!(copy_class("MEMORY_COPY_HOST_TO_DEVICE"), Class::MemcpyH2d);
        assert_eq!(
            copy_class("Memcpy DtoD (Device -> Device)"),
            Class::MemcpyD2d
        );
    }
}
