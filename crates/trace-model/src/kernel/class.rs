//! What a kernel computes, by its name.

use crate::kernel::Vocabulary;

/// What a kernel computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KernelClass {
    /// Communication between devices.
    Collective,
    /// Matrix product, the reduction of its split sums included.
    Gemm,
    /// Attention, its reductions included.
    Attention,
    /// Layer or RMS normalisation, also fused with an addition.
    Norm,
    /// Routing and permutation of a mixture of experts.
    Moe,
    /// Positions, embeddings, gathers.
    Embedding,
    /// Activation functions.
    Activation,
    /// Conversion to and from low-precision formats.
    Quantise,
    /// Softmax, top-k, argmax, random numbers.
    Sampling,
    /// Convolution.
    Convolution,
    /// Any other reduction.
    Reduction,
    /// Copies, fills, concatenations and transposes.
    Copy,
    /// Elementwise arithmetic.
    Elementwise,
    /// None of the others.
    Other,
}

impl KernelClass {
    /// All classes.
    pub const ALL: [Self; 14] = [
        Self::Collective,
        Self::Gemm,
        Self::Attention,
        Self::Norm,
        Self::Moe,
        Self::Embedding,
        Self::Activation,
        Self::Quantise,
        Self::Sampling,
        Self::Convolution,
        Self::Reduction,
        Self::Copy,
        Self::Elementwise,
        Self::Other,
    ];

    /// Returns the class of this machine name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Collective => "collective",
            Self::Gemm => "gemm",
            Self::Attention => "attention",
            Self::Norm => "norm",
            Self::Moe => "moe",
            Self::Embedding => "embedding",
            Self::Activation => "activation",
            Self::Quantise => "quantise",
            Self::Sampling => "sampling",
            Self::Convolution => "convolution",
            Self::Reduction => "reduction",
            Self::Copy => "copy",
            Self::Elementwise => "elementwise",
            Self::Other => "other",
        }
    }
}

/// One row of the table: globs without regard to case, alternatives separated by `|`.
#[derive(Clone, Copy, Debug)]
pub struct ClassRule {
    /// Name of the kernel.
    pub name: &'static str,
    /// What it computes.
    pub class: KernelClass,
}

const fn rule(name: &'static str, class: KernelClass) -> ClassRule {
    ClassRule { name, class }
}

/// Rows in order of precedence. The first rows are what looks like a collective and is none: a
/// reduction inside attention, a matrix product or a sum over an axis.
pub const CLASS_RULES: &[ClassRule] = &[
    rule(
        "*attention*reduce*|*attn*reduce*|*_reduce_segments*|*mla*reduce*|*flash*combine*",
        KernelClass::Attention,
    ),
    rule("*splitK*reduce*|*split_k*reduce*", KernelClass::Gemm),
    rule("*at::native::reduce_kernel*", KernelClass::Reduction),
    rule(
        "*flash_fwd*|*flash_bwd*|*FlashAttn*|*attention*|*fmha*|*attn_fwd*|*attn_kernel*|*BatchDecode*|*BatchPrefill*|\
*SinglePrefill*|*paged_attn*|*reshape_and_cache*|*mla_*|*xqa*|*_fwd_kernel*attn*|*pa_fwd*|*pa_decode*",
        KernelClass::Attention,
    ),
    rule(
        "*layer_norm*|*layernorm*|*rmsnorm*|*rms_norm*|*batch_norm*|*group_norm*|*groupnorm*|*add_norm*",
        KernelClass::Norm,
    ),
    rule(
        "*fused_moe*|*moe_*|*_moe*|*topk_gating*|*topkGating*|*expert*|*routing*|*moeSoftmax*",
        KernelClass::Moe,
    ),
    rule(
        "*gemm*|Cijk_*|*matmul*|nvjet*|*cutlass*|*cublas*|*wgmma*|*_mm_*|*gemv*|*hipblas*|*ampere_*_nn*|*ampere_*_tn*",
        KernelClass::Gemm,
    ),
    rule(
        "*conv2d*|*conv_*|*convolution*|*implicit_con*|*winograd*|*cudnn*|*miopen*|*naive_conv*",
        KernelClass::Convolution,
    ),
    rule(
        "*rotary*|*rope*|*embedding*|*vectorized_gather*|*indexSelect*|*index_elementwise*|*gather_kernel*",
        KernelClass::Embedding,
    ),
    rule(
        "*act_and_mul*|*silu*|*gelu*|*swiglu*|*relu*|*activation*",
        KernelClass::Activation,
    ),
    rule("*quant*|*fp8*cast*|*scaled_cast*", KernelClass::Quantise),
    rule(
        "*softmax*|*topk*|*argmax*|*ArgMax*|*sampling*|*multinomial*|*distribution_*|*radix*sort*|*philox*",
        KernelClass::Sampling,
    ),
    rule("*reduce*|*_sum_kernel*|*cunn_*", KernelClass::Reduction),
    rule(
        "*memcpy*|*memset*|*copy_kernel*|*_copy_*|*CatArray*|*transpose*|*FillFunctor*|*fillBuffer*|*copyBuffer*|*direct_copy*",
        KernelClass::Copy,
    ),
    rule(
        "*elementwise*|*multi_tensor_apply*|*pointwise*|triton_poi_*",
        KernelClass::Elementwise,
    ),
    rule("triton_red_*|triton_per_*", KernelClass::Reduction),
];

/// Parts of names, in lower case, that make a kernel worth naming when a collective was looked for
/// and not found.
pub const COLLECTIVE_HINTS: &[&str] = &["nccl", "reduce", "gather", "broadcast", "scatter"];

/// Returns `true` if a kernel of this name is communication by the built-in table. For many names use
/// [`Vocabulary::communication`].
pub fn is_collective(kernel: &str) -> bool {
    Vocabulary::default().communication(kernel).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_fall_into_their_class() {
        let v = Vocabulary::default();
        for (name, want) in [
            (
                "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
                KernelClass::Collective,
            ),
            (
                "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
                KernelClass::Collective,
            ),
            (
                "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
                KernelClass::Collective,
            ),
            (
                "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(sglang::RankData*)",
                KernelClass::Collective,
            ),
            (
                "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1>()",
                KernelClass::Collective,
            ),
            (
                "void vllm::two_shot_all_reduce<half>(half*)",
                KernelClass::Collective,
            ),
            (
                "void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, 128>(float const*)",
                KernelClass::Attention,
            ),
            (
                "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>()",
                KernelClass::Reduction,
            ),
            (
                "void cublasLt::splitKreduce_kernel<32, 16, int>(float)",
                KernelClass::Gemm,
            ),
            ("reduce_segments", KernelClass::Reduction),
            (
                "kernel_unified_attention_reduce_segments",
                KernelClass::Attention,
            ),
            ("Cijk_Alik_Bljk_BBS_BH_MT128x128x64", KernelClass::Gemm),
            ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", KernelClass::Gemm),
            (
                "void flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>(flash::Params)",
                KernelClass::Attention,
            ),
            (
                "void flashinfer::norm::FusedAddRMSNormKernel<8u>(__nv_bfloat16*)",
                KernelClass::Norm,
            ),
            (
                "void at::native::vectorized_gather_kernel<16, long>(char*)",
                KernelClass::Embedding,
            ),
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<long>>(int)",
                KernelClass::Copy,
            ),
            ("my kernel", KernelClass::Other),
        ] {
            assert_eq!(v.class(name), want, "{name}");
            assert_eq!(
                is_collective(name),
                want == KernelClass::Collective,
                "{name}"
            );
        }
    }
}
