//! Collectives: operation, message size, group, and the resulting bandwidth.

mod reader;

use std::ops::Deref;
use std::sync::Arc;

pub use reader::{COLLECTIVE_KEYS, CollectiveReader, KnownKinds, SHAPE_KEYS};

/// A collective operation, named as in PyTorch.
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
    /// Messages between pairs of ranks whose name gives no more detail: a pipeline as well as an
    /// all-to-all.
    SendRecv,
    /// Moves nothing.
    Barrier,
}

impl CollectiveOp {
    /// All operations.
    pub const ALL: [Self; 12] = [
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
        Self::SendRecv,
        Self::Barrier,
    ];

    /// Returns the operation of a name: the argument `Collective name` (`allreduce`,
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
            ("sendrecv", CollectiveOp::SendRecv),
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

    /// Returns the stable machine name.
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
            Self::SendRecv => "send_recv",
            Self::Barrier => "barrier",
        }
    }

    /// Returns the factor from the algorithm bandwidth to the bandwidth of the busiest link, for
    /// `n` ranks (definition of nccl-tests). `None` below two ranks.
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

    /// Returns `true` if output and input have the same size.
    fn keeps_size(self) -> bool {
        matches!(
            self,
            Self::AllReduce | Self::Broadcast | Self::Reduce | Self::AllToAll
        )
    }

    /// Returns the message size by convention, in elements, from those of input and output; `None`
    /// if a required one is unknown.
    fn elements(self, input: Option<u64>, output: Option<u64>) -> Option<u64> {
        match self {
            Self::AllGather => output,
            Self::ReduceScatter | Self::Send | Self::Recv => input,
            // Input and output have the same size: either of the two suffices.
            Self::AllReduce | Self::Broadcast | Self::Reduce | Self::SendRecv => input.max(output),
            Self::AllToAll | Self::Gather | Self::Scatter | Self::Barrier => {
                Some(input?.max(output?))
            }
        }
    }
}

/// Returns the bytes of one element of a PyTorch dtype, if known.
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

/// Source of the message size of a collective.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum SizeSource {
    /// The arguments of the collective.
    Metadata,
    /// Shape and dtype of the input of the operator around its launch (`Input Dims`, `Input type`).
    Operator,
}

impl SizeSource {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Operator => "operator_input",
        }
    }
}

/// Properties of a collective except its place in the sequence: equal for all collectives that an
/// engine launches with one group and one size.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CollectiveKind {
    /// The name as the producer wrote it.
    pub name: String,
    /// The operation.
    pub op: Option<CollectiveOp>,
    /// Message size in bytes; `None` if the size or the dtype is unknown. For an all-to-all of
    /// unknown output, such as that of tokens to experts, it is the input.
    pub bytes: Option<u64>,
    /// Source of the size; `None` if the size is unknown.
    pub size_source: Option<SizeSource>,
    /// Number of input elements of each rank.
    pub elements_in: Option<u64>,
    /// Number of output elements of each rank.
    pub elements_out: Option<u64>,
    /// Dtype, as named in PyTorch.
    pub dtype: Option<String>,
    /// Number of ranks in the group.
    pub group_size: Option<u32>,
    /// Name of the process group.
    pub group: Option<String>,
    /// Members of the process group as the producer wrote them: `[0, 1, 2, 3]`.
    pub ranks: Option<String>,
    /// Split of the input elements, as the producer wrote it; `[]` is an even split.
    pub split_in: Option<String>,
    /// Split of the output elements.
    pub split_out: Option<String>,
    /// Rank that sends a message and rank that gets it, as far as they are stated.
    pub ends: [Option<u32>; 2],
}

/// One collective. A trace has many collectives of few kinds, which they share: 24 bytes each. The
/// fields of its kind are accessible directly.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Collective {
    /// Properties shared with other collectives.
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
    /// Creates a collective of which only the name and the operation are known.
    pub fn named(name: &str, op: Option<CollectiveOp>) -> Self {
        CollectiveKind::named(name, op).into()
    }
}

impl CollectiveKind {
    /// Sets the number of ranks, and the values derived from it: for an all-gather or gather of
    /// which only the input is known, the output.
    pub fn set_group_size(&mut self, ranks: u32) {
        self.group_size = Some(ranks);
        let gathers = matches!(
            self.op,
            Some(CollectiveOp::AllGather | CollectiveOp::Gather)
        );
        if gathers && self.elements_out.is_none() {
            self.elements_out = self.elements_in.and_then(|n| n.checked_mul(ranks.into()));
            let elements = self
                .op
                .and_then(|op| op.elements(self.elements_in, self.elements_out));
            self.bytes = self.bytes_of(elements);
            self.size_source = self.bytes.map(|_| SizeSource::Operator);
        }
    }

    /// Creates a kind of which only the name and the operation are known.
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
            ends: [None; 2],
        }
    }

    /// Makes it the message between two ranks of which both sides are known.
    pub fn set_message(&mut self) {
        self.op = Some(CollectiveOp::SendRecv);
        self.group_size = Some(2);
    }

    /// Returns the sender and the receiver of a message between two ranks that rank `own` recorded;
    /// `None` if it is another kind of collective or one of them is unknown. A rank that sends is
    /// the sender, so one stated end suffices.
    pub fn pair(&self, own: u32) -> Option<(u32, u32)> {
        let [from, to] = self.ends;
        match self.op? {
            CollectiveOp::Send => Some((from.unwrap_or(own), to?)),
            CollectiveOp::Recv => Some((from?, to.unwrap_or(own))),
            _ => None,
        }
    }

    /// Sets the operation where the producer's name denotes none (`coalesced`), and the resulting
    /// message size.
    pub(crate) fn set_op(&mut self, op: CollectiveOp) {
        self.op = Some(op);
        self.bytes = self.bytes_of(op.elements(self.elements_in, self.elements_out));
        self.size_source = self.bytes.map(|_| SizeSource::Metadata);
    }

    /// Returns the operation, else the producer's name; `None` if neither is known.
    pub fn type_name(&self) -> Option<&str> {
        let name = Some(self.name.as_str()).filter(|name| !name.is_empty());
        self.op.map(CollectiveOp::name).or(name)
    }

    /// Returns the bytes of `elements` of its dtype.
    pub fn bytes_of(&self, elements: Option<u64>) -> Option<u64> {
        elements?.checked_mul(dtype_bytes(self.dtype.as_deref()?)?)
    }

    /// Returns the algorithm bandwidth over `duration_ns` in bytes per nanosecond, which is 10⁹
    /// bytes per second. `None` if the size is unknown or the group has fewer than two ranks.
    pub fn algbw(&self, duration_ns: i64) -> Option<f64> {
        let is_half_known = self.op == Some(CollectiveOp::AllToAll)
            && self.elements_in.is_some()
            && self.elements_out.is_none();
        if duration_ns <= 0 || self.group_size? < 2 || is_half_known {
            return None;
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "a ratio; sizes are far below 2^53"
        )]
        Some(self.bytes? as f64 / duration_ns as f64)
    }

    /// Returns the bus bandwidth in 10⁹ bytes per second.
    pub fn busbw(&self, duration_ns: i64) -> Option<f64> {
        Some(self.algbw(duration_ns)? * self.op?.bus_factor(self.group_size?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collective(name: &str, input: u64, output: u64, size: u64, n: u32) -> Collective {
        let op = CollectiveOp::from_name(name);
        let elements = op.and_then(|o| o.elements(Some(input), Some(output)));
        Collective::from(CollectiveKind {
            bytes: elements.map(|elements| elements * size),
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
            ("ncclDevKernel_SendRecv", CollectiveOp::SendRecv),
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
        // Gathering 4 x 1000 halves: the message size is the output.
        let c = collective("_allgather_base", 1000, 4000, 2, 4);
        assert_eq!(c.bytes, Some(8000));
        assert!((c.busbw(1000).unwrap() - 6.0).abs() < 1e-12);
        let c = collective("_reduce_scatter_base", 4000, 1000, 2, 4);
        assert_eq!(c.bytes, Some(8000));
        let c = collective("recv", 10, 20, 1, 2);
        assert_eq!((c.bytes, c.busbw(10)), (Some(10), Some(1.0)));
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
