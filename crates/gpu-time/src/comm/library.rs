//! Who wrote a collective kernel.

/// The implementation a collective kernel comes from, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum CommLibrary {
    /// NCCL or RCCL (their kernels have the same names).
    Nccl,
    /// MSCCL or MSCCL++.
    Mscclpp,
    /// All-reduce over peer memory of an inference engine: `cross_device_reduce_1stage` and the
    /// like.
    CustomAllReduce,
    /// Quantised all-reduce over peer memory (`quickreduce`).
    QuickReduce,
    /// Symmetric memory of PyTorch, multicast included: `multimem_*`, `one_shot_*`, `two_shot_*`.
    SymmetricMemory,
    /// All-reduce fused with what follows it (TensorRT-LLM, FlashInfer, AITER).
    FusedAllReduce,
    /// NVSHMEM or ROC SHMEM.
    Shmem,
    /// None of the others.
    Other,
}

/// Parts of names in lower case, the first that occurs counts.
const PARTS: [(&str, CommLibrary); 20] = [
    ("quickreduce", CommLibrary::QuickReduce),
    ("quick_reduce", CommLibrary::QuickReduce),
    ("allreduce_prototype", CommLibrary::QuickReduce),
    ("msccl", CommLibrary::Mscclpp),
    ("nvshmem", CommLibrary::Shmem),
    ("rocshmem", CommLibrary::Shmem),
    ("allreduce_fusion", CommLibrary::FusedAllReduce),
    ("allreduce_fuse", CommLibrary::FusedAllReduce),
    ("allreducefusion", CommLibrary::FusedAllReduce),
    ("lamport", CommLibrary::FusedAllReduce),
    ("moe_reduction_allreduce", CommLibrary::FusedAllReduce),
    ("cross_device_reduce", CommLibrary::CustomAllReduce),
    ("custom_all_reduce", CommLibrary::CustomAllReduce),
    ("multimem", CommLibrary::SymmetricMemory),
    ("symm_mem", CommLibrary::SymmetricMemory),
    ("one_shot", CommLibrary::SymmetricMemory),
    ("two_shot", CommLibrary::SymmetricMemory),
    ("oneshot", CommLibrary::CustomAllReduce),
    ("twoshot", CommLibrary::CustomAllReduce),
    ("ccl", CommLibrary::Nccl),
];

impl CommLibrary {
    /// The library of the kernel called `name`.
    ///
    /// ```
    /// use gpu_time::comm::CommLibrary;
    /// let of = CommLibrary::of_kernel;
    /// assert_eq!(of("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)").name(), "nccl");
    /// assert_eq!(of("void vllm::cross_device_reduce_2stage<half, 8>()").name(), "custom_all_reduce");
    /// ```
    pub fn of_kernel(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        PARTS
            .iter()
            .find(|(part, _)| name.contains(part))
            .map_or(Self::Other, |(_, library)| *library)
    }

    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nccl => "nccl",
            Self::Mscclpp => "mscclpp",
            Self::CustomAllReduce => "custom_all_reduce",
            Self::QuickReduce => "quick_reduce",
            Self::SymmetricMemory => "symmetric_memory",
            Self::FusedAllReduce => "fused_all_reduce",
            Self::Shmem => "shmem",
            Self::Other => "other",
        }
    }
}

/// The number of ranks that is written into the name of a peer-memory all-reduce as the last
/// template argument: 8 for `cross_device_reduce_2stage<half, 8>`.
pub(crate) fn ranks_in_name(name: &str) -> Option<u32> {
    let at = name.find("cross_device_reduce")?;
    let arguments = name.get(at..)?.split_once('<')?.1;
    let mut depth = 1_usize;
    let mut last = 0;
    for (i, c) in arguments.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => {
                depth -= 1;
                if depth == 0 {
                    let size = arguments.get(last..i)?.trim().parse().ok()?;
                    return (2..=64).contains(&size).then_some(size);
                }
            }
            ',' if depth == 1 => last = i + 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_all_libraries() {
        for (name, want) in [
            (
                "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)",
                CommLibrary::Nccl,
            ),
            (
                "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
                CommLibrary::Nccl,
            ),
            ("mscclKernel_Sum_half_Simple_false()", CommLibrary::Mscclpp),
            (
                "void mscclpp::collective::allreduceRsAg<0>()",
                CommLibrary::Mscclpp,
            ),
            (
                "void aiter::cross_device_reduce_1stage<__hip_bfloat16, 8>()",
                CommLibrary::CustomAllReduce,
            ),
            (
                "void quickreduce::allreduce_prototype_twoshot<A>()",
                CommLibrary::QuickReduce,
            ),
            (
                "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>()",
                CommLibrary::SymmetricMemory,
            ),
            (
                "void two_shot_all_reduce_kernel_inplace<float, 16>()",
                CommLibrary::SymmetricMemory,
            ),
            (
                "flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>()",
                CommLibrary::FusedAllReduce,
            ),
            ("nvshmemi_alltoall_kernel", CommLibrary::Shmem),
            ("my_all_gather_kernel", CommLibrary::Other),
        ] {
            assert_eq!(CommLibrary::of_kernel(name), want, "{name}");
        }
    }

    #[test]
    fn ranks_stand_in_the_template_arguments() {
        for (name, want) in [
            (
                "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(RankData*)",
                Some(8),
            ),
            (
                "void x::cross_device_reduce_1stage<T<1, 2>, 4, false>()",
                None,
            ),
            ("void x::cross_device_reduce_1stage<T<1, 2>, 4>()", Some(4)),
            ("cross_device_reduce_1stage", None),
            ("f<half, 8>", None),
        ] {
            assert_eq!(ranks_in_name(name), want, "{name}");
        }
    }
}
