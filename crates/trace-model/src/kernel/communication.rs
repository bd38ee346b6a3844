//! Communication between devices: operations and libraries of kernels.

use super::collective::CollectiveOp;

/// Operation and library of a communication kernel, as far as its name gives them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Communication {
    /// Operation; `None` if the name does not give it (`ncclDevKernel_Generic`).
    pub op: Option<CollectiveOp>,
    /// The implementation.
    pub library: CommLibrary,
}

/// Library of a communication kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum CommLibrary {
    /// NCCL or RCCL (their kernels have the same names).
    Nccl,
    /// MSCCL or MSCCL++.
    Mscclpp,
    /// All-reduce over peer memory of an inference engine: `cross_device_reduce_1stage` and the like.
    CustomAllReduce,
    /// Quantized all-reduce over peer memory (`quickreduce`).
    QuickReduce,
    /// Symmetric memory of PyTorch, multicast included: `multimem_*`, `one_shot_*`, `two_shot_*`.
    SymmetricMemory,
    /// All-reduce fused with what follows it (TensorRT-LLM, FlashInfer, AITER).
    FusedAllReduce,
    /// NVSHMEM or ROC SHMEM.
    Shmem,
    /// DeepEP: dispatch and combine of expert parallelism.
    DeepEp,
    /// Dispatch and combine of pplx-kernels and pplx-garden.
    Pplx,
    /// Dispatch, combine and collectives of MORI.
    Mori,
    /// All-to-all of TensorRT-LLM for mixtures of experts, also in FlashInfer.
    TrtLlmAllToAll,
    /// oneCCL.
    OneCcl,
    /// None of the others.
    Other,
}

impl CommLibrary {
    /// All libraries.
    pub const ALL: [Self; 13] = [
        Self::Nccl,
        Self::Mscclpp,
        Self::CustomAllReduce,
        Self::QuickReduce,
        Self::SymmetricMemory,
        Self::FusedAllReduce,
        Self::Shmem,
        Self::DeepEp,
        Self::Pplx,
        Self::Mori,
        Self::TrtLlmAllToAll,
        Self::OneCcl,
        Self::Other,
    ];

    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nccl => "nccl",
            Self::Mscclpp => "mscclpp",
            Self::CustomAllReduce => "custom_all_reduce",
            Self::QuickReduce => "quick_reduce",
            Self::SymmetricMemory => "symmetric_memory",
            Self::FusedAllReduce => "fused_all_reduce",
            Self::Shmem => "shmem",
            Self::DeepEp => "deepep",
            Self::Pplx => "pplx",
            Self::Mori => "mori",
            Self::TrtLlmAllToAll => "trtllm_all_to_all",
            Self::OneCcl => "oneccl",
            Self::Other => "other",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|library| library.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Vocabulary;
    use proptest::prelude::*;

    /// Communication functions with their operation and library.
    const KNOWN: &[(&str, Option<CollectiveOp>, CommLibrary)] = &[
        ("ncclDevKernel_Generic_1", None, CommLibrary::Nccl),
        (
            "ncclKernel_AllReduce_RING_LL_Sum_float",
            Some(CollectiveOp::AllReduce),
            CommLibrary::Nccl,
        ),
        (
            "ncclDevKernel_SendRecv",
            Some(CollectiveOp::SendRecv),
            CommLibrary::Nccl,
        ),
        (
            "ncclSymkDevKernel_ReduceScatter_LD",
            Some(CollectiveOp::ReduceScatter),
            CommLibrary::Nccl,
        ),
        (
            "mscclKernel_Sum_half_Simple_false",
            None,
            CommLibrary::Mscclpp,
        ),
        (
            "mscclpp::collective::allreduceRsAg",
            Some(CollectiveOp::AllReduce),
            CommLibrary::Mscclpp,
        ),
        (
            "deep_ep::intranode::dispatch",
            Some(CollectiveOp::AllToAll),
            CommLibrary::DeepEp,
        ),
        (
            "deep_ep::intranode::cached_notify_combine",
            Some(CollectiveOp::AllToAll),
            CommLibrary::DeepEp,
        ),
        (
            "deep_ep::internode_ll::combine",
            Some(CollectiveOp::AllToAll),
            CommLibrary::DeepEp,
        ),
        (
            "deep_ep::internode_ll::clean_low_latency_buffer",
            Some(CollectiveOp::Barrier),
            CommLibrary::DeepEp,
        ),
        (
            "dpsk::ep::internode::notify_dispatch",
            Some(CollectiveOp::AllToAll),
            CommLibrary::DeepEp,
        ),
        (
            "dpsk::ep::internode::cached_notify",
            Some(CollectiveOp::AllToAll),
            CommLibrary::DeepEp,
        ),
        (
            "dpsk::ep::intranode::barrier",
            Some(CollectiveOp::Barrier),
            CommLibrary::DeepEp,
        ),
        (
            "hybrid_ep::dispatch_kernel",
            Some(CollectiveOp::AllToAll),
            CommLibrary::DeepEp,
        ),
        (
            "notify_dispatch",
            Some(CollectiveOp::AllToAll),
            CommLibrary::DeepEp,
        ),
        (
            "mori::moe::EpDispatchIntraNodeKernel",
            Some(CollectiveOp::AllToAll),
            CommLibrary::Mori,
        ),
        (
            "mori::moe::EpCombineInterNodeV1Kernel",
            Some(CollectiveOp::AllToAll),
            CommLibrary::Mori,
        ),
        (
            "pplx::dispatchKernel",
            Some(CollectiveOp::AllToAll),
            CommLibrary::Pplx,
        ),
        (
            "a2a_combine_recv_kernel",
            Some(CollectiveOp::AllToAll),
            CommLibrary::Pplx,
        ),
        (
            "tensorrt_llm::kernels::moe_alltoall::moeA2ADispatchKernel",
            Some(CollectiveOp::AllToAll),
            CommLibrary::TrtLlmAllToAll,
        ),
        (
            "tensorrt_llm::kernels::fusedMoeCommKernel",
            Some(CollectiveOp::AllToAll),
            CommLibrary::TrtLlmAllToAll,
        ),
        (
            "nvshmemi_alltoall_kernel",
            Some(CollectiveOp::AllToAll),
            CommLibrary::Shmem,
        ),
        ("nvshmemi_proxy_quiet_entrypoint", None, CommLibrary::Shmem),
        (
            "barrier_all_on_stream_kernel",
            Some(CollectiveOp::Barrier),
            CommLibrary::Shmem,
        ),
        (
            "c10d::nvshmem_extension::allToAllV",
            Some(CollectiveOp::AllToAll),
            CommLibrary::Shmem,
        ),
        (
            "multimem_all_reduce_kernel",
            Some(CollectiveOp::AllReduce),
            CommLibrary::SymmetricMemory,
        ),
        (
            "multimem_all_gather_kernel",
            Some(CollectiveOp::AllGather),
            CommLibrary::SymmetricMemory,
        ),
        (
            "two_shot_all_reduce_kernel_inplace",
            Some(CollectiveOp::AllReduce),
            CommLibrary::SymmetricMemory,
        ),
        (
            "sglang::cross_device_reduce_1stage",
            Some(CollectiveOp::AllReduce),
            CommLibrary::CustomAllReduce,
        ),
        (
            "aiter::reduce_scatter_cross_device_store",
            Some(CollectiveOp::ReduceScatter),
            CommLibrary::CustomAllReduce,
        ),
        (
            "tensorrt_llm::kernels::oneShotAllReduceKernel",
            Some(CollectiveOp::AllReduce),
            CommLibrary::CustomAllReduce,
        ),
        (
            "quickreduce::allreduce_prototype_twoshot",
            Some(CollectiveOp::AllReduce),
            CommLibrary::QuickReduce,
        ),
        (
            "flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
            Some(CollectiveOp::AllReduce),
            CommLibrary::FusedAllReduce,
        ),
        (
            "flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport",
            Some(CollectiveOp::AllReduce),
            CommLibrary::FusedAllReduce,
        ),
        (
            "tensorrt_llm::kernels::lamport_style_one_shot_all_reduce_norm_kernel",
            Some(CollectiveOp::AllReduce),
            CommLibrary::FusedAllReduce,
        ),
        (
            "oneccl_allgatherv_small",
            Some(CollectiveOp::AllGather),
            CommLibrary::OneCcl,
        ),
        (
            "my_all_gather_kernel",
            Some(CollectiveOp::AllGather),
            CommLibrary::Other,
        ),
    ];

    /// Functions whose names resemble communication but that are local.
    const LOCAL: &[&str] = &[
        "at::native::reduce_kernel",
        "at::native::vectorized_gather_kernel",
        "triton_poi_fused_add_all_gather_into_tensor_0",
        "triton_red_fused_all_reduce_mean_1",
        "deep_ep::layout::get_dispatch_layout",
        "flash_fwd_splitkv_combine_kernel",
        "flash::FlashAttnFwdCombine",
        "fsdp_all_gather_copy_in_kernel",
        "cublasLt::splitKreduce_kernel",
        "paged_attention_ll4mi_reduce_kernel",
        "kernel_unified_attention_reduce_segments",
        "permute_pooled_embs_kernel",
        "barrier_free_gemm",
        "ag_gemm_kernel",
        "softmax_block_all_reduce",
        "scatter_add",
    ];

    #[test]
    fn libraries_and_operations_of_kernels() {
        let v = Vocabulary::default();
        for (name, op, library) in KNOWN {
            let found = v.communication(name).map(|c| (c.op, c.library));
            assert_eq!(found, Some((*op, *library)), "{name}");
        }
        for name in LOCAL {
            assert_eq!(v.communication(name), None, "{name}");
        }
    }

    /// Returns the Itanium symbol of the function template `path<int>(int*)`.
    fn mangled(path: &str) -> String {
        let parts: Vec<&str> = path.split("::").collect();
        let coded: String = parts.iter().map(|p| format!("{}{p}", p.len())).collect();
        if parts.len() > 1 {
            format!("_ZN{coded}IiEEvPT_")
        } else {
            format!("_Z{coded}IiEvPT_")
        }
    }

    proptest! {
        #[test]
        fn spelling_does_not_matter(
            at in 0..KNOWN.len() + LOCAL.len(),
            unnamed in any::<bool>(),
            arguments in "(<[a-z_]{1,9}, 8>|<ncclComm, deep_ep::Config<3>, all_reduce>|)",
            kd in any::<bool>(),
        ) {
            let v = Vocabulary::default();
            let (name, want) = match KNOWN.get(at) {
                Some((name, op, library)) => (*name, Some((*op, *library))),
                None => (LOCAL[at - KNOWN.len()], None),
            };
            let scoped = match name.rsplit_once("::") {
                Some((scope, function)) if unnamed => format!("{scope}::(anonymous namespace)::{function}"),
                _ => name.to_owned(),
            };
            let symbol = mangled(name) + if kd { ".kd" } else { "" };
            for spelled in [format!("void {scoped}{arguments}(int*, nccl::X<4>)"), symbol] {
                let found = v.communication(&spelled).map(|c| (c.op, c.library));
                prop_assert_eq!(found, want, "{}", spelled);
            }
        }
    }
}
