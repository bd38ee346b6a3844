//! What a collective moved: operation, message size, group, and the bandwidth that follows.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::ids::StrId;
use crate::kernel::TraceIndex;
use crate::table::args::ArgValue;
use crate::trace::{ArgColumn, Slice, Trace};
use rustc_hash::FxBuildHasher;

/// A collective operation, by PyTorch's names for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum CollectiveOp {
    /// Every rank gets the sum of all.
    AllReduce,
    /// Every rank gets the parts of all.
    AllGather,
    /// Every rank gets its part of the sum of all.
    ReduceScatter,
    /// Every rank sends a part to every other.
    AllToAll,
    /// One rank sends to all.
    Broadcast,
    /// One rank gets the sum of all.
    Reduce,
    /// One rank gets the parts of all.
    Gather,
    /// One rank sends a part to every other.
    Scatter,
    /// To one rank.
    Send,
    /// From one rank.
    Recv,
    /// Nothing is moved.
    Barrier,
}

impl CollectiveOp {
    /// All operations.
    pub const ALL: [Self; 11] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::Broadcast,
        Self::Reduce,
        Self::Gather,
        Self::Scatter,
        Self::Send,
        Self::Recv,
        Self::Barrier,
    ];

    /// The operation that a name stands for: the argument `Collective name` (`allreduce`,
    /// `_allgather_base`), an annotation (`nccl:all_reduce`), a kernel
    /// (`ncclDevKernel_AllReduce_Sum_bf16_RING_LL`) or a call (`ncclAllReduce`).
    pub fn from_name(name: &str) -> Option<Self> {
        let folded: String = name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        const NAMES: [(&str, CollectiveOp); 18] = [
            ("allreduce", CollectiveOp::AllReduce),
            ("allgather", CollectiveOp::AllGather),
            ("reducescatter", CollectiveOp::ReduceScatter),
            ("alltoall", CollectiveOp::AllToAll),
            ("broadcast", CollectiveOp::Broadcast),
            // All-reduces of inference engines and of symmetric memory.
            ("crossdevicereduce", CollectiveOp::AllReduce),
            ("quickreduce", CollectiveOp::AllReduce),
            ("oneshot", CollectiveOp::AllReduce),
            ("twoshot", CollectiveOp::AllReduce),
            ("multimemreduce", CollectiveOp::AllReduce),
            ("arfusion", CollectiveOp::AllReduce),
            ("gather", CollectiveOp::Gather),
            ("scatter", CollectiveOp::Scatter),
            ("sendrecv", CollectiveOp::AllToAll),
            ("send", CollectiveOp::Send),
            ("recv", CollectiveOp::Recv),
            ("barrier", CollectiveOp::Barrier),
            ("reduce", CollectiveOp::Reduce),
        ];
        NAMES
            .iter()
            .find(|(part, _)| folded.contains(part))
            .map(|(_, op)| *op)
    }

    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Send => "send",
            Self::Recv => "recv",
            Self::Barrier => "barrier",
        }
    }

    /// What the algorithm bandwidth is multiplied by for the bandwidth of the busiest link, for `n`
    /// ranks (definition of nccl-tests). None below two ranks.
    pub fn bus_factor(self, n: u32) -> Option<f64> {
        if n < 2 {
            return None;
        }
        let n = f64::from(n);
        Some(match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => (n - 1.0) / n,
            _ => 1.0,
        })
    }

    /// The message size by convention, in elements, from those in and out.
    fn elements(self, input: u64, output: u64) -> u64 {
        match self {
            Self::AllGather => output,
            Self::ReduceScatter | Self::Send | Self::Recv => input,
            _ => input.max(output),
        }
    }
}

/// Bytes of one element of a type that PyTorch names, if it is known.
pub fn dtype_bytes(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "Byte" | "Char" | "Bool" | "UInt8" | "Int8" => 1,
        "Half" | "BFloat16" | "Short" | "UInt16" => 2,
        "Int" | "Float" | "UInt32" => 4,
        "Long" | "Double" | "ComplexFloat" | "UInt64" => 8,
        "ComplexDouble" => 16,
        float8 if float8.starts_with("Float8_") => 1,
        _ => return None,
    })
}

/// How the message size of a collective is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum SizeSource {
    /// The arguments of the collective say it.
    Metadata,
    /// From shape and element type of the input of the operator around its launch
    /// (`Input Dims`, `Input type`).
    Operator,
}

impl SizeSource {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Operator => "operator_input",
        }
    }
}

/// What is known of one collective, its place in the sequence apart: equal for all that an engine
/// launches with one group and one size.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CollectiveKind {
    /// The name as the producer wrote it.
    pub name: String,
    /// The operation.
    pub op: Option<CollectiveOp>,
    /// Message size in bytes; none when the size or the element type is unknown.
    pub bytes: Option<u64>,
    /// How the size is known; none when it is not.
    pub size_source: Option<SizeSource>,
    /// Elements that each rank puts in.
    pub elements_in: Option<u64>,
    /// Elements that each rank gets out.
    pub elements_out: Option<u64>,
    /// Element type, by PyTorch's name for it.
    pub dtype: Option<String>,
    /// Ranks in the group.
    pub group_size: Option<u32>,
    /// Name of the process group.
    pub group: Option<String>,
    /// Members of the process group as the producer wrote them: `[0, 1, 2, 3]`.
    pub ranks: Option<String>,
    /// How the elements that go in are split, as the producer wrote it; `[]` is evenly.
    pub split_in: Option<String>,
    /// How the elements that come out are split.
    pub split_out: Option<String>,
}

/// One collective. A trace has many and they are of few kinds, which they share: 24 bytes each. The
/// fields of its kind can be read from it directly.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Collective {
    /// What it has in common with others.
    pub kind: Arc<CollectiveKind>,
    /// Sequence number within the group.
    pub seq: Option<i64>,
}

impl Deref for Collective {
    type Target = CollectiveKind;

    fn deref(&self) -> &CollectiveKind {
        &self.kind
    }
}

impl From<CollectiveKind> for Collective {
    fn from(kind: CollectiveKind) -> Self {
        Self {
            kind: Arc::new(kind),
            seq: None,
        }
    }
}

impl Collective {
    /// A collective of which only the name and the operation are known.
    pub fn named(name: &str, op: Option<CollectiveOp>) -> Self {
        CollectiveKind::named(name, op).into()
    }
}

impl CollectiveKind {
    /// A kind of which only the name and the operation are known.
    pub fn named(name: &str, op: Option<CollectiveOp>) -> Self {
        Self {
            name: name.to_owned(),
            op,
            bytes: None,
            size_source: None,
            elements_in: None,
            elements_out: None,
            dtype: None,
            group_size: None,
            group: None,
            ranks: None,
            split_in: None,
            split_out: None,
        }
    }

    /// Bytes of `elements` of its type.
    pub fn bytes_of(&self, elements: Option<u64>) -> Option<u64> {
        elements?.checked_mul(dtype_bytes(self.dtype.as_deref()?)?)
    }

    /// Bytes per nanosecond, which is 10⁹ bytes per second: the algorithm bandwidth over
    /// `duration_ns`. None if the size is unknown or the group has fewer than two ranks.
    pub fn algbw(&self, duration_ns: i64) -> Option<f64> {
        if duration_ns <= 0 || self.group_size? < 2 {
            return None;
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "a ratio; sizes are far below 2^53"
        )]
        Some(self.bytes? as f64 / duration_ns as f64)
    }

    /// The bus bandwidth in 10⁹ bytes per second.
    pub fn busbw(&self, duration_ns: i64) -> Option<f64> {
        Some(self.algbw(duration_ns)? * self.op?.bus_factor(self.group_size?)?)
    }
}

/// Finds the arguments of collectives in one trace.
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
    dims: ArgColumn,
    types: ArgColumn,
}

/// Keys, without prefix, that [`CollectiveReader`] reads.
pub const COLLECTIVE_KEYS: [&str; 10] = [
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
];

/// Keys, without prefix, of the operators' arguments that [`CollectiveReader`] takes sizes from where
/// a collective says none.
pub const SHAPE_KEYS: [&str; 2] = ["Input Dims", "Input type"];

impl CollectiveReader {
    /// Looks the keys up.
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
            dims,
            types,
        }
    }

    /// Does `slice` itself carry the arguments of a collective?
    pub fn is_annotated(&self, slice: Slice<'_>) -> bool {
        self.name.get(slice).is_some()
    }

    /// The arguments on `slice` itself.
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
        };
        let seq = self.seq.int(slice);
        let kind = known.stated(stated);
        Some(Collective { kind, seq })
    }

    /// What is known of the collective that `kernel` is part of: its own arguments, else those of
    /// the nearest `record_param_comms` around its launch or with its external id, else what names
    /// around the launch or the kernel's own say. The size is then that of the first tensor that the
    /// nearest operator of the same kind around the launch takes: all-reduces of inference engines and
    /// of symmetric memory leave no other record of it.
    pub fn of(
        &self,
        index: &TraceIndex<'_>,
        kernel: Slice<'_>,
        launch: Option<Slice<'_>>,
    ) -> Option<Collective> {
        self.find(index, kernel, launch, &mut KnownKinds::default())
    }

    /// As [`CollectiveReader::of`] for many kernels: each kind is made once.
    pub fn find<'t>(
        &self,
        index: &TraceIndex<'t>,
        kernel: Slice<'t>,
        launch: Option<Slice<'t>>,
        known: &mut KnownKinds<'t>,
    ) -> Option<Collective> {
        if let Some(own) = self.read(kernel, known) {
            return Some(own);
        }
        if !self.name.is_empty() {
            let around = launch.and_then(|l| l.ancestors().find_map(|a| self.read(a, known)));
            let found = around.or_else(|| {
                let op = index.external().op_of(kernel, index.activities())?;
                std::iter::once(op)
                    .chain(op.ancestors())
                    .find_map(|a| self.read(a, known))
            });
            if found.is_some() {
                return found;
            }
        }
        if !index.is_collective(kernel) {
            return None;
        }
        let marked = launch.and_then(|l| {
            l.ancestors().find_map(|s| {
                let name = s.name()?;
                let is_mark = name.starts_with("nccl") || name.starts_with("rccl");
                is_mark.then(|| known.named(s))?
            })
        });
        let mut kind = marked.or_else(|| known.named(kernel))?;
        if !self.dims.is_empty()
            && let Some(launch) = launch
            && let Some((elements, dtype)) = self.size_by_operator(launch, kind.op)
        {
            let sized = Arc::make_mut(&mut kind);
            (sized.elements_in, sized.elements_out) = (Some(elements), Some(elements));
            sized.bytes = dtype_bytes(dtype).and_then(|size| elements.checked_mul(size));
            sized.size_source = sized.bytes.map(|_| SizeSource::Operator);
            sized.dtype = Some(dtype.to_owned());
        }
        Some(Collective { kind, seq: None })
    }

    /// Elements and type of what the nearest operator `op` around `launch` takes. Only all-reduces are
    /// believed, whose input and output are of one size.
    fn size_by_operator<'t>(
        &self,
        launch: Slice<'t>,
        op: Option<CollectiveOp>,
    ) -> Option<(u64, &'t str)> {
        if op != Some(CollectiveOp::AllReduce) {
            return None;
        }
        launch.ancestors().find_map(|a| {
            let dims = self.dims.get(a).and_then(ArgValue::as_str)?;
            (CollectiveOp::from_name(a.name()?) == op).then_some(())?;
            first_tensor(dims, self.types.get(a).and_then(ArgValue::as_str)?)
        })
    }
}

/// PyTorch's name of an element type that an operator's arguments call by its C++ name.
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

/// Elements and type of the first tensor among the inputs of an operator: from `[[], [888, 2880]]`
/// and `['Scalar', 'c10::BFloat16']` it is 888 * 2880 of `BFloat16`. Behind a list of tensors, whose
/// shapes nest deeper, none is looked for.
fn first_tensor<'a>(dims: &str, types: &'a str) -> Option<(u64, &'a str)> {
    let dims = dims.trim().strip_prefix('[')?.strip_suffix(']')?;
    let types = types.trim().strip_prefix('[')?.strip_suffix(']')?;
    let mut types = types.split(',').map(|t| t.trim().trim_matches(['\'', '"']));
    let mut rest = dims;
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
        return Some((elements, dtype));
    }
    None
}

/// A value as its producer wrote it.
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
}

impl Stated<'_> {
    fn kind(self) -> CollectiveKind {
        let op = CollectiveOp::from_name(self.name);
        let size = self.dtype.and_then(dtype_bytes);
        let bytes = match (op, self.elements_in, self.elements_out) {
            (Some(op), Some(input), Some(output)) => {
                size.and_then(|size| op.elements(input, output).checked_mul(size))
            }
            _ => None,
        };
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
        }
    }
}

/// The kinds of collectives met so far in one trace, so that equal ones are one.
#[derive(Default)]
pub struct KnownKinds<'t> {
    /// By the name of a slice; none if the name stands for no operation.
    named: HashMap<StrId, Option<Arc<CollectiveKind>>, FxBuildHasher>,
    stated: HashMap<Stated<'t>, Arc<CollectiveKind>, FxBuildHasher>,
}

impl<'t> KnownKinds<'t> {
    /// What the name of `slice` says; each name is looked at once.
    fn named(&mut self, slice: Slice<'t>) -> Option<Arc<CollectiveKind>> {
        let kind = self.named.entry(slice.name_id()?).or_insert_with(|| {
            let name = slice.name()?;
            let op = CollectiveOp::from_name(name)?;
            Some(Arc::new(CollectiveKind::named(name, Some(op))))
        });
        kind.clone()
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
        let kinds = self.stated.len() + self.named.len();
        f.debug_struct("KnownKinds").field("kinds", &kinds).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collective(name: &str, input: u64, output: u64, size: u64, n: u32) -> Collective {
        let op = CollectiveOp::from_name(name);
        Collective::from(CollectiveKind {
            bytes: op.map(|o| o.elements(input, output) * size),
            group_size: Some(n),
            ..CollectiveKind::named(name, op)
        })
    }

    #[test]
    fn names_of_all_kinds() {
        for (name, want) in [
            ("allreduce", CollectiveOp::AllReduce),
            ("allreduce_coalesced", CollectiveOp::AllReduce),
            ("_allgather_base", CollectiveOp::AllGather),
            ("_reduce_scatter_base", CollectiveOp::ReduceScatter),
            ("all_to_allv", CollectiveOp::AllToAll),
            ("nccl:all_reduce", CollectiveOp::AllReduce),
            (
                "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
                CollectiveOp::ReduceScatter,
            ),
            ("ncclBroadcast", CollectiveOp::Broadcast),
            (
                "void sglang::cross_device_reduce_2stage<half, 8>(sglang::RankData*)",
                CollectiveOp::AllReduce,
            ),
            (
                "quickreduce::allreduce_prototype_twoshot<CodecFP>",
                CollectiveOp::AllReduce,
            ),
            (
                "void one_shot_reduce_scatter_kernel<bf16>()",
                CollectiveOp::ReduceScatter,
            ),
            ("multimem_all_gather_kernel", CollectiveOp::AllGather),
            ("reduce", CollectiveOp::Reduce),
            ("gather", CollectiveOp::Gather),
            ("send", CollectiveOp::Send),
        ] {
            assert_eq!(CollectiveOp::from_name(name), Some(want), "{name}");
        }
        assert_eq!(CollectiveOp::from_name("ncclDevKernel_Generic_1"), None);
    }

    #[test]
    fn bandwidths_by_hand() {
        // 1 MiB of floats reduced over 8 ranks in 100 us: 10.48576 GB/s, times 2 * 7 / 8.
        let c = collective("allreduce", 1 << 18, 1 << 18, 4, 8);
        assert_eq!(c.bytes, Some(1 << 20));
        assert!((c.algbw(100_000).unwrap() - 10.48576).abs() < 1e-12);
        assert!((c.busbw(100_000).unwrap() - 18.350_08).abs() < 1e-12);
        // Gathering 4 x 1000 halves: the size is what comes out.
        let c = collective("_allgather_base", 1000, 4000, 2, 4);
        assert_eq!(c.bytes, Some(8000));
        assert!((c.busbw(1000).unwrap() - 6.0).abs() < 1e-12);
        let c = collective("_reduce_scatter_base", 4000, 1000, 2, 4);
        assert_eq!(c.bytes, Some(8000));
        let c = collective("recv", 10, 20, 1, 2);
        assert_eq!((c.bytes, c.busbw(10)), (Some(10), Some(1.0)));
    }

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
            // Of no shape, cut off, too large, of a negative size, of no type, a list of tensors.
            ("[[], []]", "['Scalar', 'long int']", None),
            ("[[7], [3", "['', 'float']", None),
            ("[[4294967296, 4294967296]]", "['float']", None),
            ("[[-7]]", "['float']", None),
            ("[[7], [8]]", "['']", None),
            ("[[[7], [8]], [9]]", "['TensorList', 'float']", None),
            ("", "", None),
        ] {
            assert_eq!(first_tensor(dims, types), want, "{dims} {types}");
        }
    }

    #[test]
    fn one_rank_or_no_time_has_no_bandwidth() {
        let c = collective("allreduce", 10, 10, 4, 1);
        assert_eq!((c.algbw(10), c.busbw(10)), (None, None));
        let c = collective("allreduce", 10, 10, 4, 2);
        assert_eq!(c.algbw(0), None);
        assert_eq!(dtype_bytes("Float8_e4m3fn"), Some(1));
        assert_eq!(dtype_bytes("Unheard"), None);
    }
}
