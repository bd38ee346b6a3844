//! Reads collectives from the arguments of slices; missing sizes come from the surrounding
//! operator.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use super::{Collective, CollectiveKind, CollectiveOp, SizeSource, dtype_bytes};
use crate::ids::StrId;
use crate::kernel::{TraceIndex, Vocabulary};
use crate::table::args::ArgValue;
use crate::trace::{ArgColumn, Slice, Trace};

/// Reads the arguments of collectives in one trace.
#[derive(Clone, Debug)]
pub struct CollectiveReader {
    name: ArgColumn,
    input: ArgColumn,
    output: ArgColumn,
    dtype: ArgColumn,
    size: ArgColumn,
    group: ArgColumn,
    seq: ArgColumn,
    ranks: ArgColumn,
    split_in: ArgColumn,
    split_out: ArgColumn,
    bytes: ArgColumn,
    ends: [ArgColumn; 2],
    dims: ArgColumn,
    types: ArgColumn,
}

/// Keys, without prefix, that [`CollectiveReader`] reads.
pub const COLLECTIVE_KEYS: [&str; 13] = [
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "dtype",
    "Group size",
    "Process Group Name",
    "Seq",
    "Process Group Ranks",
    "In split size",
    "Out split size",
    // Where the recorder states bytes instead of elements.
    "Message bytes",
    "Src Rank",
    "Dst Rank",
];

/// Keys, without prefix, of the operator arguments from which [`CollectiveReader`] takes sizes that
/// a collective does not state.
pub const SHAPE_KEYS: [&str; 2] = ["Input Dims", "Input type"];

impl CollectiveReader {
    /// Looks up the keys.
    pub fn new(trace: &Trace) -> Self {
        let [
            name,
            input,
            output,
            dtype,
            size,
            group,
            seq,
            ranks,
            split_in,
            split_out,
            bytes,
            from,
            to,
        ] = COLLECTIVE_KEYS.map(|k| trace.arg_column(k));
        let [dims, types] = SHAPE_KEYS.map(|k| trace.arg_column(k));
        Self {
            name,
            input,
            output,
            dtype,
            size,
            group,
            seq,
            ranks,
            split_in,
            split_out,
            bytes,
            ends: [from, to],
            dims,
            types,
        }
    }

    /// Returns `true` if `slice` itself carries the arguments of a collective.
    pub fn is_annotated(&self, slice: Slice<'_>) -> bool {
        self.name.get(slice).is_some()
    }

    /// Returns the collective that the arguments of `slice` itself describe.
    pub fn on(&self, slice: Slice<'_>) -> Option<Collective> {
        self.read(slice, &mut KnownKinds::default())
    }

    fn read<'t>(&self, slice: Slice<'t>, known: &mut KnownKinds<'t>) -> Option<Collective> {
        let name = self.name.get(slice).and_then(ArgValue::as_str)?;
        let count = |c: &ArgColumn| c.int(slice).and_then(|n| u64::try_from(n).ok());
        let text = |c: &ArgColumn| c.get(slice).map(Written::of);
        let stated = Stated {
            name,
            elements_in: count(&self.input),
            elements_out: count(&self.output),
            dtype: self.dtype.get(slice).and_then(ArgValue::as_str),
            group_size: count(&self.size).and_then(|n| u32::try_from(n).ok()),
            group: text(&self.group),
            ranks: text(&self.ranks),
            split_in: text(&self.split_in),
            split_out: text(&self.split_out),
            bytes: count(&self.bytes),
            ends: [0, 1].map(|i| self.ends[i].int(slice).and_then(|n| u32::try_from(n).ok())),
        };
        let seq = self.seq.int(slice);
        let kind = known.stated(stated);
        Some(Collective { kind, seq })
    }

    /// Returns the collective that `kernel` is part of. Its data come from the kernel's own
    /// arguments, else from the nearest `record_param_comms` that its launch is, lies in, or shares
    /// its external id with, else from the names around the launch or of the kernel itself. In the
    /// last case the size is that of the first tensor input of the nearest operator of the same
    /// kind around the launch: all-reduces of inference engines and of symmetric memory leave no
    /// other record of it.
    pub fn of(
        &self,
        index: &TraceIndex<'_>,
        kernel: Slice<'_>,
        launch: Option<Slice<'_>>,
    ) -> Option<Collective> {
        self.find(index, kernel, launch, &mut KnownKinds::default())
    }

    /// Returns the same as [`CollectiveReader::of`] for many kernels: each kind is created once.
    pub fn find<'t>(
        &self,
        index: &TraceIndex<'t>,
        kernel: Slice<'t>,
        launch: Option<Slice<'t>>,
        known: &mut KnownKinds<'t>,
    ) -> Option<Collective> {
        let with_op = |mut found: Collective| {
            // `coalesced` denotes no operation; the kernel may.
            let op = || Self::op_of(index, kernel, launch);
            if found.op.is_none()
                && let Some(op) = op()
            {
                Arc::make_mut(&mut found.kind).set_op(op);
            }
            found
        };
        if let Some(own) = self.read(kernel, known) {
            return Some(with_op(own));
        }
        if !self.name.is_empty() {
            // If the link is a flow or an external id, the launch is the operator itself.
            let mut around = |s: Slice<'t>| {
                let mut from_s = std::iter::once(s).chain(s.ancestors());
                from_s.find_map(|a| self.read(a, known))
            };
            let found = launch
                .and_then(&mut around)
                .or_else(|| index.external().op_of(kernel).and_then(around));
            if let Some(found) = found {
                return Some(with_op(found));
            }
        }
        index.communication(kernel)?;
        let marked = launch.and_then(|l| {
            l.ancestors().find_map(|s| {
                let name = s.name()?;
                let is_mark = name.starts_with("nccl") || name.starts_with("rccl");
                is_mark.then(|| known.named(s))?
            })
        });
        let op = || Self::op_of(index, kernel, launch);
        let mut kind = marked.or_else(|| known.kernel(kernel, op()?))?;
        if !self.dims.is_empty()
            && let Some(launch) = launch
            && let Some(found) = self.size_by_operator(index, launch, kind.op)
        {
            found.store(Arc::make_mut(&mut kind));
        }
        Some(Collective { kind, seq: None })
    }

    /// Returns the collective that `slice` marks, as `gloo:all_reduce` does, from its name and its
    /// own `Input Dims` and `Input type`; `None` if the name denotes no operation.
    pub fn marked(&self, slice: Slice<'_>) -> Option<Collective> {
        let name = slice.name()?;
        let op = CollectiveOp::from_name(name)?;
        let mut kind = CollectiveKind::named(name, Some(op));
        if let Some(found) = self.sizes_on(slice, op, None) {
            found.store(&mut kind);
        }
        Some(kind.into())
    }

    /// Returns elements and dtype of the input of the nearest operator `op` around `launch`.
    fn size_by_operator<'t>(
        &self,
        index: &TraceIndex<'t>,
        launch: Slice<'t>,
        op: Option<CollectiveOp>,
    ) -> Option<OperatorSize<'t>> {
        let op = op?;
        let vocabulary = Some(index.vocabulary());
        let mut around = std::iter::once(launch).chain(launch.ancestors());
        around.find_map(|a| self.sizes_on(a, op, vocabulary))
    }

    /// Returns the operation of the communication kernel `kernel`. For kernels that only exchange
    /// messages between pairs, it is that of the `c10d` operator around the launch.
    fn op_of(
        index: &TraceIndex<'_>,
        kernel: Slice<'_>,
        launch: Option<Slice<'_>>,
    ) -> Option<CollectiveOp> {
        let own = index.communication(kernel)?.op;
        if !matches!(own, None | Some(CollectiveOp::SendRecv)) {
            return own;
        }
        let around = launch.and_then(|launch| {
            let mut around = std::iter::once(launch).chain(launch.ancestors());
            around.find_map(|s| {
                let name = s.name().filter(|name| name.contains("c10d"))?;
                CollectiveOp::from_name(name)
            })
        });
        around.or(own)
    }

    /// Returns elements and dtype of the input of `slice`, if it is an operator `op`. Annotations
    /// of a backend (`nccl:all_to_all`) list the input tensors; operators of `c10d` that take one
    /// tensor each way (`c10d::alltoall_base_`) list the output first; operators of symmetric
    /// memory, of vLLM and functional collectives list the input first. All other operators count
    /// only for all-reduces, whose first tensor is the message, and for tokens to and from experts,
    /// whose first tensor is the input.
    fn sizes_on<'t>(
        &self,
        slice: Slice<'t>,
        op: CollectiveOp,
        vocabulary: Option<&Vocabulary>,
    ) -> Option<OperatorSize<'t>> {
        let name = slice.name()?;
        let dims = self.dims.get(slice).and_then(ArgValue::as_str)?;
        let moves_tokens = || {
            let may = op == CollectiveOp::AllToAll
                && ["dispatch", "combine"]
                    .iter()
                    .any(|part| name.contains(part));
            let rule = vocabulary.filter(|_| may)?.exchange(name)??;
            (rule.op == Some(op)).then_some(())
        };
        let is_named = CollectiveOp::from_name(name) == Some(op);
        let moves_tokens = !is_named && moves_tokens().is_some();
        (is_named || moves_tokens).then_some(())?;
        let types = self.types.get(slice).and_then(ArgValue::as_str)?;
        let is_mark = ["nccl:", "rccl:", "gloo:", "mpi:", "ucc:", "xccl:", "hccl:"]
            .iter()
            .any(|mark| name.starts_with(mark));
        if is_mark {
            let all = tensors(dims, types)?;
            let (_, dtype) = *all.first()?;
            let same = all.iter().all(|tensor| tensor.1 == dtype);
            let sizes = all.iter().map(|tensor| tensor.0);
            let sum = sizes.clone().try_fold(0_u64, u64::checked_add);
            let elements_in = sum.filter(|_| same)?;
            return Some(OperatorSize {
                op,
                dtype,
                elements_in: Some(elements_in),
                elements_out: op.keeps_size().then_some(elements_in),
            });
        }
        let is_base = ["alltoall_base", "_allgather_base", "_reduce_scatter_base"];
        if name.starts_with("c10d::") && is_base.iter().any(|base| name.contains(base)) {
            let all = tensors(dims, types)?;
            let ((out, dtype), (input, _)) = (*all.first()?, *all.get(1)?);
            return Some(OperatorSize {
                op,
                dtype,
                elements_in: Some(input),
                elements_out: Some(out),
            });
        }
        // These operators list the input first; those of symmetric memory list the output next.
        let is_symmetric = name.starts_with("symm_mem::");
        let is_input_first = is_symmetric
            || ["vllm::", "_c10d_functional::"]
                .iter()
                .any(|space| name.starts_with(space));
        let parts = matches!(op, CollectiveOp::AllGather | CollectiveOp::ReduceScatter);
        if is_input_first && parts {
            let all = tensors(dims, types)?;
            let (input, dtype) = *all.first()?;
            let out = all.get(1).filter(|out| is_symmetric && out.1 == dtype);
            return Some(OperatorSize {
                op,
                dtype,
                elements_in: Some(input),
                elements_out: out.map(|out| out.0),
            });
        }
        if op != CollectiveOp::AllReduce && !moves_tokens {
            return None;
        }
        let (elements, dtype) = *tensors(dims, types)?.first()?;
        Some(OperatorSize {
            op,
            dtype,
            elements_in: Some(elements),
            elements_out: (!moves_tokens).then_some(elements),
        })
    }
}

/// Size of a collective, as stated by an operator.
struct OperatorSize<'t> {
    op: CollectiveOp,
    dtype: &'t str,
    elements_in: Option<u64>,
    elements_out: Option<u64>,
}

impl OperatorSize<'_> {
    fn store(&self, kind: &mut CollectiveKind) {
        (kind.elements_in, kind.elements_out) = (self.elements_in, self.elements_out);
        kind.dtype = Some(self.dtype.to_owned());
        let elements = match (self.op, self.elements_out) {
            (CollectiveOp::AllToAll, None) => self.elements_in,
            (op, out) => op.elements(self.elements_in, out),
        };
        kind.bytes = kind.bytes_of(elements);
        kind.size_source = kind.bytes.map(|_| SizeSource::Operator);
    }
}

/// Returns PyTorch's name of a dtype from the C++ name in an operator's arguments.
fn torch_name(c_name: &str) -> Option<&str> {
    Some(match c_name {
        "float" => "Float",
        "double" => "Double",
        "int" => "Int",
        "long" | "long int" | "int64_t" => "Long",
        "short" | "short int" => "Short",
        "signed char" => "Char",
        "unsigned char" => "Byte",
        "bool" => "Bool",
        other => {
            let name = other.strip_prefix("c10::")?;
            dtype_bytes(name)?;
            name
        }
    })
}

/// Returns elements and dtype of each tensor among the inputs of an operator: `[[], [888, 2880]]`
/// and `['Scalar', 'c10::BFloat16']` give 888 * 2880 of `BFloat16`. `None` if the inputs include
/// lists of tensors, whose shapes nest deeper, or if a shape or dtype cannot be parsed.
fn tensors<'a>(dims: &str, types: &'a str) -> Option<Vec<(u64, &'a str)>> {
    let dims = dims.trim().strip_prefix('[')?.strip_suffix(']')?;
    let types = types.trim().strip_prefix('[')?.strip_suffix(']')?;
    let mut types = types.split(',').map(|t| t.trim().trim_matches(['\'', '"']));
    let mut rest = dims;
    let mut out = Vec::new();
    while let Some((_, from)) = rest.split_once('[') {
        let (inner, after) = from.split_once(']')?;
        if inner.contains('[') {
            return None;
        }
        rest = after;
        let Some(dtype) = torch_name(types.next()?).filter(|_| !inner.trim().is_empty()) else {
            continue;
        };
        let mut sizes = inner.split(',').map(|n| n.trim().parse::<u64>().ok());
        let elements = sizes.try_fold(1_u64, |product, n| product.checked_mul(n?))?;
        out.push((elements, dtype));
    }
    Some(out)
}

/// A value as written by its producer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Written<'t> {
    Text(&'t str),
    Number(Option<i64>),
}

impl<'t> Written<'t> {
    fn of(value: ArgValue<'t>) -> Self {
        match value {
            ArgValue::Str(s) | ArgValue::Json(s) => Self::Text(s),
            other => Self::Number(other.as_i64()),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Text(text) => text.to_owned(),
            Self::Number(number) => number.map(|n| n.to_string()).unwrap_or_default(),
        }
    }
}

/// The arguments of a collective, without its sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Stated<'t> {
    name: &'t str,
    elements_in: Option<u64>,
    elements_out: Option<u64>,
    dtype: Option<&'t str>,
    group_size: Option<u32>,
    group: Option<Written<'t>>,
    ranks: Option<Written<'t>>,
    split_in: Option<Written<'t>>,
    split_out: Option<Written<'t>>,
    bytes: Option<u64>,
    ends: [Option<u32>; 2],
}

impl Stated<'_> {
    fn kind(self) -> CollectiveKind {
        let op = CollectiveOp::from_name(self.name);
        let size = self.dtype.and_then(dtype_bytes);
        let elements = op.and_then(|op| op.elements(self.elements_in, self.elements_out));
        let bytes = elements.and_then(|elements| elements.checked_mul(size?));
        let bytes = self.bytes.or(bytes);
        CollectiveKind {
            name: self.name.to_owned(),
            op,
            bytes,
            size_source: bytes.map(|_| SizeSource::Metadata),
            elements_in: self.elements_in,
            elements_out: self.elements_out,
            dtype: self.dtype.map(str::to_owned),
            group_size: self.group_size,
            group: self.group.map(Written::text),
            ranks: self.ranks.map(Written::text),
            split_in: self.split_in.map(Written::text),
            split_out: self.split_out.map(Written::text),
            ends: self.ends,
        }
    }
}

/// The kinds of collectives found so far in one trace, so that equal kinds are shared.
#[derive(Default)]
pub struct KnownKinds<'t> {
    /// Kinds by the name of a slice; `None` if the name denotes no operation.
    named: HashMap<StrId, Option<Arc<CollectiveKind>>, FxBuildHasher>,
    /// Kinds by the name of a communication kernel and its operation.
    kernels: HashMap<(StrId, CollectiveOp), Arc<CollectiveKind>, FxBuildHasher>,
    stated: HashMap<Stated<'t>, Arc<CollectiveKind>, FxBuildHasher>,
}

impl<'t> KnownKinds<'t> {
    /// Returns the kind from the name of `slice`; each name is parsed once.
    fn named(&mut self, slice: Slice<'t>) -> Option<Arc<CollectiveKind>> {
        let kind = self.named.entry(slice.name_id()?).or_insert_with(|| {
            let name = slice.name()?;
            let op = CollectiveOp::from_name(name)?;
            Some(Arc::new(CollectiveKind::named(name, Some(op))))
        });
        kind.clone()
    }

    /// Returns the kind of the communication kernel `slice` with the operation `op`, from its name.
    fn kernel(&mut self, slice: Slice<'t>, op: CollectiveOp) -> Option<Arc<CollectiveKind>> {
        let name = slice.name()?;
        let make = || Arc::new(CollectiveKind::named(name, Some(op)));
        let kind = self
            .kernels
            .entry((slice.name_id()?, op))
            .or_insert_with(make);
        Some(Arc::clone(kind))
    }

    fn stated(&mut self, stated: Stated<'t>) -> Arc<CollectiveKind> {
        let kind = self
            .stated
            .entry(stated)
            .or_insert_with(|| Arc::new(stated.kind()));
        Arc::clone(kind)
    }
}

impl std::fmt::Debug for KnownKinds<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds = self.stated.len() + self.named.len() + self.kernels.len();
        f.debug_struct("KnownKinds").field("kinds", &kinds).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tensor_of_an_operator() {
        for (dims, types, want) in [
            (
                "[[888, 2880], []]",
                "['c10::BFloat16', '']",
                Some((2_557_440, "BFloat16")),
            ),
            (
                "[[], [], [16, 8]]",
                r#"["Scalar","","float"]"#,
                Some((128, "Float")),
            ),
            ("[[7]]", "['c10::Half']", Some((7, "Half"))),
            (
                "[[7], [3]]",
                "['c10::Unheard', 'c10::Float8_e4m3fn']",
                Some((3, "Float8_e4m3fn")),
            ),
            // No shape, truncated, too large, negative size, no dtype, list of tensors.
            ("[[], []]", "['Scalar', 'long int']", None),
            ("[[7], [3", "['', 'float']", None),
            ("[[4294967296, 4294967296]]", "['float']", None),
            ("[[-7]]", "['float']", None),
            ("[[7], [8]]", "['']", None),
            ("[[[7], [8]], [9]]", "['TensorList', 'float']", None),
            ("", "", None),
        ] {
            let found = tensors(dims, types).and_then(|all| all.first().copied());
            assert_eq!(found, want, "{dims} {types}");
        }
    }
}
