//! Classes of kernels by name.

use crate::kernel::name::KernelName;
use crate::kernel::rules::KernelRules;

/// Class of a kernel: the computation that it performs.
///
/// The name of a class is the same in every output; `docs/kernels.md` has the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[non_exhaustive]
pub enum KernelClass {
    /// Communication between devices.
    Collective,
    /// Matrix product, including the reduction of its split sums.
    Gemm,
    /// Matrix products over the experts of a mixture: grouped, batched by expert or fused.
    MoeGemm,
    /// Attention, including the reduction of its partial results and its softmax.
    Attention,
    /// Layer, RMS, batch or group normalization, forward and backward, also fused with an addition.
    Norm,
    /// Routing of a mixture of experts, permutation and the sum over experts.
    Moe,
    /// Writes to and moves within the KV cache.
    KvCache,
    /// Rotary position embedding.
    Rotary,
    /// Embedding tables, forward and backward.
    Embedding,
    /// Activation functions, including the product of a gated unit.
    Activation,
    /// Softmax outside of attention, including its loss.
    Softmax,
    /// Conversion to and from low-precision formats.
    Quantization,
    /// Choice of the next token: penalties, top-p, argmax, multinomial, verification of drafts.
    Sampling,
    /// Random numbers and dropout.
    Random,
    /// Sorting, top-k, prefix sums, histograms.
    Sort,
    /// State-space models and linear attention.
    Ssm,
    /// Convolution, including its layout changes.
    Convolution,
    /// Pooling.
    Pooling,
    /// Any other reduction.
    Reduction,
    /// Memcpy, memset, concatenation, transpose, gather and scatter.
    Copy,
    /// Elementwise arithmetic.
    Elementwise,
    /// None of the others.
    Other,
}

impl KernelClass {
    /// All classes.
    pub const ALL: [Self; 22] = [
        Self::Collective,
        Self::Gemm,
        Self::MoeGemm,
        Self::Attention,
        Self::Norm,
        Self::Moe,
        Self::KvCache,
        Self::Rotary,
        Self::Embedding,
        Self::Activation,
        Self::Softmax,
        Self::Quantization,
        Self::Sampling,
        Self::Random,
        Self::Sort,
        Self::Ssm,
        Self::Convolution,
        Self::Pooling,
        Self::Reduction,
        Self::Copy,
        Self::Elementwise,
        Self::Other,
    ];

    /// Returns the class with this machine name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Collective => "collective",
            Self::Gemm => "gemm",
            Self::MoeGemm => "moe_gemm",
            Self::Attention => "attention",
            Self::Norm => "norm",
            Self::Moe => "moe",
            Self::KvCache => "kv_cache",
            Self::Rotary => "rotary",
            Self::Embedding => "embedding",
            Self::Activation => "activation",
            Self::Softmax => "softmax",
            Self::Quantization => "quantization",
            Self::Sampling => "sampling",
            Self::Random => "random",
            Self::Sort => "sort",
            Self::Ssm => "ssm",
            Self::Convolution => "convolution",
            Self::Pooling => "pooling",
            Self::Reduction => "reduction",
            Self::Copy => "copy",
            Self::Elementwise => "elementwise",
            Self::Other => "other",
        }
    }
}

/// Lower-case parts of names that make a kernel worth mentioning if no collective was found.
pub const COLLECTIVE_HINTS: &[&str] = &["nccl", "reduce", "gather", "broadcast", "scatter"];

/// Returns `true` if a kernel of this name is communication by the built-in table.
///
/// Cost: the name is demangled and matched against all patterns; cache the result for frequent
/// names.
pub fn is_collective(kernel: &str) -> bool {
    class_of(kernel) == KernelClass::Collective
}

/// Returns the class of a kernel of this name by the built-in table, from the name alone.
///
/// Cost: as [`is_collective`].
pub fn class_of(kernel: &str) -> KernelClass {
    let name = KernelName::of(kernel);
    let rules = KernelRules::builtin();
    if rules.communication(&name).flatten().is_some() {
        return KernelClass::Collective;
    }
    let class = rules.class(&name).or_else(|| rules.fallback(&name));
    class.unwrap_or(KernelClass::Other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Vocabulary;

    /// Classes of kernels by their names alone; one `CLASS NAME` per line.
    const BY_NAME: &str = r#"
gemm void cublasLt::splitKreduce_kernel<32, 16, int>(float)
gemm Cijk_Alik_Bljk_BBS_BH_MT128x128x64
gemm void w8a16_scaled_mm_kernel<64>(float const*)
other void acme::barrier_comm_kernel<8>(int)
elementwise void acme::downsample_kernel<float>(float const*)
reduction void multi_tensor_apply_kernel<TensorListMetadata<1>, L2NormFunctor<float>, float*, bool>(long)
moe_gemm void ck_tile::MoeFlatmmKernel<ck_tile::Tile<128>>(int)
softmax void soft_max_f32<true, 0, 0, float>(float const*, float const*, float*, soft_max_params)
norm void norm_f32<1024>(float const*, float*, int, long, long, long, float)
norm void rms_norm_f32<1024, true, false>(float const*, float*, int)
norm _ZL12rms_norm_f32ILi1024ELb1ELb0EEvPKfPfixx
norm void l2_norm_f32<32>(float const*, float*, int)
norm void group_norm_f32<1024>(float const*, float*, int, int, float)
elementwise void k_bin_bcast<&(op_add(float, float)), float, float, float, float const*>(float const*, float const*, float*)
copy void k_bin_bcast<&(op_repeat(float, float)), float, float, float>(float const*, float const*, float*)
copy void k_get_rows_float<float, float>(float const*, int const*, float*)
embedding void k_get_rows<32, 2, &(dequantize_q4_0)>(void const*, int const*, float*)
kv_cache void k_set_rows<float, long, __half>(float const*, long const*, __half*)
activation void unary_gated_op_kernel<&(op_silu(float)), float>(float const*, float const*, float*)
activation void unary_op_kernel<&(op_gelu(float)), float>(float const*, float*, int)
elementwise void unary_op_kernel<&(op_sqrt(float)), float>(float const*, float*, int)
gemm void dequantize_mul_mat_vec<1, 1, &(dequantize_q4_0)>(void const*, float const*, float*, int, int)
gemm void mul_mat_q<(ggml_type)12, 64, false>(char const*, int const*, float*)
gemm void mul_mat_vec_q<(ggml_type)2, 1, false>(void const*, void const*, float*)
gemm void mul_mat_q_stream_k_fixup<(ggml_type)12, 64, true>(int const*)
quantization void quantize_q8_1(float const*, void*, long)
quantization void quantize_mmq_q8_1<(mmq_q8_1_ds_layout)0>(float const*)
quantization void dequantize_block_q4_K<__half>(void const*, __half*)
rotary void rope_norm<true, false, float>(float const*, float*, int)
rotary void rope_neox<true, false, float>(float const*, float*, int)
copy void cpy_flt<&(cpy_1_flt<float, __half>)>(char const*, char*, int)
copy cpy_f32_f16
quantization void cpy_f32_q<&cpy_blck_f32_q8_0, 32>(char const*, char*, int)
attention void flash_attn_ext_vec<128, 1, (ggml_type)1, (ggml_type)1, false>(char const*)
attention void flash_attn_stream_k_fixup<128, 8, 8>(float*, float2 const*)
moe void topk_moe_cuda<128, true>(float const*, float*, int*)
reduction void reduce_rows_f32<true>(float const*, float*, int)
quantization void tensorrt_llm::kernels::cvt_fp16_to_fp4_expert<__nv_bfloat16, 16>(int)
quantization void moe::dev::convertsf::convertSfKernel<moe::dev::convertsf::KernelParams<1>>(X)
activation void moe::dev::activation::activationKernel<moe::dev::activation::KernelParams<cutlass::bfloat16_t>>(X)
kv_cache create_flashinfer_kv_indices_triton
rotary void aiter::kn_entry_2c_sbhd_cached_indirect_inplace<aiter::OpCachedFwd, 0, true>(X)
quantization void transformer_engine::cast_transpose_kernel<128, 1>(float const*)
quantization cast_transpose_kernel
moe _compute_writeback_idx
moe _compute_expt_data
moe permute_with_mask_map_kernel
moe eplb_map_to_physical_kernel
moe_gemm void fp8_blockscale_gemm::fp8_gemm_offset_kernel<128>(X)
attention void natten::cuda::fna::fna_forward_kernel<X>(Y)
attention parallel_nsa_fwd_kernel
gemm void quip::decode_matvec_e8p_kernel(X)
sampling _ranks_kernel
quantization void transformer_engine::delayed_scaling_recipe::kernel_bulk(X)
embedding void tensorrt_llm::kernels::lookup_kernel<float>(X)
attention void kernel_mha<128, 64>(Params)
collective barrier_all_intra_node_atomic_cas_block
elementwise Op2dTensorLite
gemm nvjet_tst_64x8_64x16_4x1_v_bz_TNT
gemm void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>, cutlass::gemm::collective::CollectiveMma<X>>>(Params)
gemm void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, 0u, 7168u, (deep_gemm::GemmType)0, float>(float*)
moe_gemm void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, 0u, 7168u, (deep_gemm::GemmType)1, float>(float*)
moe_gemm void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u, (deep_gemm::GemmType)2>(cutlass::bfloat16_t*)
moe_gemm void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int>>, X>>(Params)
moe_gemm bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_transOut_schedP2x1x2x3_biasM_bN_tma_tmaOpt_clmp_swiGlu_dynBatch_sm100f
moe_gemm bmm_Bfloat16_E2m1E2m1_Fp32_t128x8x512_s5_et128x8_m128x8x64_cga1x1x1_16dp256b_TN_transOut_schedS_bN_ldgsts_rgTma_clmp_dynBatch_sm100a
moe_gemm fused_moe_kernel
moe_gemm _matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu
moe_gemm _ZN5aiter41fmoe_bf16_pertokenFp8_g1u1_vs_silu_1tg_32x256E.kd
moe_gemm void marlin_moe_wna16::Marlin<1, 2>(int4 const*)
moe void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<cutlass::bfloat16_t, cutlass::bfloat16_t, 4, true> >(X)
moe void vllm::moe::topkGatingSoftmax<8, 128, 4, 16>(float const*)
moe void vllm::moe::moe_align_block_size_kernel<int>(int const*)
moe _topk_forward
moe void moe::dev::routing::routingRenormalize::routingIndicesHistogramScoresKernel<X>(Y)
moe void ck_tile::kentry<1, ck_tile::MoeSortingKernel<ck_tile::MoeSortingProblem<int, float>>>(X)
moe void tensorrt_llm::kernels::expandInputRowsKernel<float, float>(X)
moe _finalize_matmul_scatter_bf16
attention void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>>(X)
attention void flash::flash_fwd_splitkv_combine_kernel<X>(Y)
attention void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>>(flash::Params)
attention void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, __nv_bfloat16>(X)
attention void flashinfer::BatchPrefillWithRaggedKVCacheKernel<X>(Y)
attention void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u>(X)
attention void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64>>(X)
attention void flash_fwd_splitkv_mla_combine_kernel<float, 512>(X)
attention fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext
attention qk_int_sv_f16_attn_kernel
attention sage_fwd
attention void qk_int8_sv_f8_accum_f32_fuse_v_scale_attn_inst_buf_kernel<128u>(X)
attention _attn_fwd
attention attn_fwd
attention _fwd_kernel
attention _fwd_grouped_kernel_stage1
attention fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t, cutlass::arch::Sm80>::Params)
attention _ZN5aiter24fmha_fwd_hd128_bf16_rtneE.kd
attention _ZN5aiter18mla_a16w16_qh16_m1E.kd
attention void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, 128>(float const*)
attention kernel_unified_attention_2d
attention cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0
attention triton_tem_fused_flex_attention_0
attention _bwd_kernel
attention _bwd_preprocess_do_o_dot
norm _bwd_kernel_rmsnorm
norm _fused_rms_fp8_group_quant_kernel
pooling cudnn_pooling_fw_4d_nhwc
norm cudnn_batchnorm_fwd_nhwc
convolution cudnn_infer_volta_conv_nhwc
other dispatch
other void combine<float>(float*)
other symm_mem_alloc_helper
collective void symm_mem::all_to_all_vdev_kernel<int>(int*)
collective void aiter::local_device_load_rmsnorm<float>(float*)
collective void deep_ep::internode::dispatch<true, 8>(int4*)
gemm Custom_Cijk_Alik_Bljk_F8BS_MT256x256
moe_gemm batched_triton_kernel
moe compute_problem_sizes
moe void compute_arg_sorts<int>(int*)
kv_cache alloc_extend_kernel
kv_cache write_req_to_token_pool_triton
quantization void kDequantizeBlockwise<__nv_bfloat16, 512, 64, 8, 2>(float*)
quantization void kdequant_mm_int32_fp16<4, 512>(int*)
quantization void tensorrt_llm::kernels::fp8_blockscale_gemm::scale_1x128_kernel<float>(float*)
activation silu_mul_fp8_quant_deep_gemm
sampling void flashinfer::sampling::OnlineSoftmaxFusedKernel<1024u>(float*)
elementwise void kOptimizer32bit2State<float, 0>(float*)
attention void vllm::merge_attn_states_kernel<float, 128>(X)
kv_cache void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>(X)
kv_cache void vllm::concat_and_cache_mla_kernel<__nv_bfloat16>(X)
kv_cache void (anonymous namespace)::store_kvcache<2048l, 4, false, long>(X)
kv_cache set_mla_kv_buffer_kernel
rotary void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)
rotary void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheEnhancedKernel<true, 128u>(X)
rotary triton_poi_fused__to_copy_add_cat_cos_mul_neg_sin_3
norm void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)
norm std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)
norm void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(cudnn::bn_fw_tr_1C11_args<float>)
norm void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)
norm void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(long)
norm void at::native::(anonymous namespace)::RowwiseMomentsCUDAKernel<float>(long)
norm void cuComputeGradGammaBeta<float, float, float>(float const*)
norm void at::native::(anonymous namespace)::ComputeInternalGradientsCUDAKernel<float>(X)
norm _ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib
norm _ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_27Rmsnorm2dFwdPipelineOnePassIiEEEEEEvT0_
norm MIOpenBatchNormFwdTrainSpatial
norm triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0
norm triton_per_fused__to_copy_native_layer_norm_4
softmax void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*)
softmax void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float, X>(float*)
softmax triton_per_fused__softmax_1
activation void vllm::act_and_mul_kernel<c10::BFloat16, &(c10::BFloat16 vllm::silu_kernel<c10::BFloat16>(c10::BFloat16 const&)), true>(X)
activation void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)::{lambda()#2}, std::array<char*, 2ul> >(int)
activation triton_poi_fused_mul_silu_slice_0
quantization void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>(X)
quantization void per_token_group_quant_8bit_kernel<__nv_bfloat16, c10::Float8_e4m3fn>(X)
quantization void dpsk::per_token_cast_to_fp8<4>(X)
quantization void at::native::vectorized_elementwise_kernel<4, at::native::float8_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#1}>(int)
sampling void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u, X>(Y)
sampling void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4> >(X)
random void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, X>(long)
random void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, unsigned int, 1, 4, bool>(X)
sort void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800, false>(int*)
sort void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(X)
embedding void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long>(X)
embedding void split_embedding_codegen_forward_unweighted_kernel<c10::Half>(X)
convolution void cudnn::cnn::wgrad_alg0_engine<float, 512, 6, 5, 3, 3, 3, false, 512>(int)
convolution sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_execute_kernel_cudnn
convolution _ZN2ck16tensor_operation6device12_GLOBAL__N_139kernel_grouped_conv_fwd_xdl_cshuffle_v3IiEEvT_
convolution igemm_bwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x128x32
convolution miopenSp3AsmConv_v30_3_1_gfx9_fp16_dot2_stride1
pooling void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int)
reduction void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>()
reduction triton_red_fused_mean_1
copy void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<long>>(int)
copy void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2, 64, 64>(float*)
copy triton_poi_fused__to_copy_1
elementwise void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float>>>(int)
elementwise void at::native::vectorized_elementwise_kernel<4, foo<cutlass::bfloat16_t, cutlass::half_t> >(int)
elementwise triton_poi_fused_add_all_gather_into_tensor_moe_forward_0
ssm void selective_scan_fwd_kernel<Selective_Scan_fwd_kernel_traits<32, 4>>(SSMParamsBase)
ssm chunk_gated_delta_rule_fwd_kernel_h_blockdim64
ssm _causal_conv1d_update_kernel
convolution volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_interior_nhwc_tn_v1
convolution turing_int8_i8816cudnn_int8_256x128_ldg16_relu_singleBuffer_small_nt_v1
gemm volta_sgemm_128x64_relu_nn
attention _splitK_reduce
attention void xformers::_splitK_reduce_varargs<float>(float*)
attention _fwd_kernel_splitK
attention void cudnn::fusion::compute_dot_do_o<true, __nv_bfloat16, float, 128>(X)
attention void cudnn::fusion::convert_dq_to_16bits<__nv_bfloat16, 128>(X)
moe deepgemm_post_reorder_triton_kernel
moe pre_reorder_triton_kernel
moe fused_moe_all_gather_indices_kernel
collective void nixl_ep::ep_kernels::dispatch<true, 4>(int*)
collective _combine_kernel_nixl_ep
gemm triton_mm
gemm triton_bmm_4
elementwise triton_poi_fused_addmm_mul_0
elementwise triton_acme_17
kv_cache void vllm::convert_fp8_kernel<unsigned char, float>(X)
sampling _topk_topp_kernel
moe void moe_lora_align_sum_kernel<int>(X)
gemm void vllm::aqlm::Code1x16MatVec<8>(X)
quantization void vllm::aqlm::Code1x16Dequant<8>(X)
moe_gemm void moe_vec_q4_0<float>(X)
moe void ep_pre_reorder_cuda_kernel<float>(X)
moe void apply_shuffle_mul_sum_kernel<float>(X)
copy void flashinfer::quantization::SegmentPackBitsKernel<1>(X)
attention fp8_index_kernel
gemm _qkv_lora_b_kernel
gemm _gate_up_lora_b_kernel
copy fused_qkvzba_split_reshape_cat_kernel
attention void flashinfer::PersistentKernelTemplate<flashinfer::BlockBatchPagedAttentionPersistent<X>>(Y)
attention void flashinfer::PODWithKVCacheTensorKernel<X>(Y)
attention void flashinfer::BatchPODWithKVCacheTensorKernel<X>(Y)
sampling void tensorrt_llm::kernels::ban_repeat_ngram<float>(X)
sampling void tensorrt_llm::kernels::ban_bad_words<float>(X)
sampling void tensorrt_llm::kernels::stop_words_criterion(X)
sampling void tensorrt_llm::kernels::topKStage1<float, 256, 8>(X)
sampling void tensorrt_llm::kernels::airTopPInitialize<float>(X)
sampling void tensorrt_llm::kernels::addBiasSoftMax<float>(X)
sampling void tensorrt_llm::kernels::speculative_decoding::scatterMedusaDraftLogits<float>(X)
sampling void tensorrt_llm::kernels::speculative_decoding::prepareGenerationKernel<float>(X)
ssm void tensorrt_llm::kernels::rg_lru_kernel<float>(X)
softmax _jsd_kernel
activation _fg_kernel
activation _DWf_DW_dfg_kernel
ssm fused_chunk_based_fwd_kernel
ssm chunk_gla_fwd_A_kernel_intra_sub_inter
ssm chunk_simple_gla_bwd_kernel_dv
ssm chunk_retention_fwd_kernel_h
ssm hgrn_fwd_kernel
ssm fused_recurrent_rwkv6_fwd_kernel
ssm chunk_dplr_fwd_kernel_o
ssm token_shift_fwd_kernel
ssm chunk_comba_fwd_kernel
attention parallel_path_fwd_kernel
attention moba_attn_varlen_kernel
moe _row_id_map_pass_1_kernel
moe _sort_chunks_by_map_kernel
moe _make_chunk_sort_map_kernel
moe void transformer_engine::fused_topk_with_score_function_forward_kernel<float>(X)
moe void transformer_engine::fused_moe_aux_loss_forward_kernel<float>(X)
moe void transformer_engine::fused_score_for_moe_aux_loss_forward_kernel<float>(X)
attention void transformer_engine::context_parallel::thd_out_correction_kernel<float>(X)
attention void transformer_engine::context_parallel::thd_lse_kernel<float>(X)
moe void top_k_gating_kernel<float, 1>(X)
gemm void kspmm_coo_very_sparse_naive<float, 8, 16>(X)
elementwise void kPercentileClipping<float, 2048, 4>(X)
kv_cache void turbomind::ProcessKV_v2<128>(X)
kv_cache void turbomind::flattenKV_v2<128>(X)
moe void turbomind::MoeGateKernel_v8<16>(X)
moe void turbomind::MoeGatherKernel<16>(X)
moe void turbomind::MoeReduceKernel<16>(X)
gemm bitblas_kernel_fp16_int4
attention batch_prefill_paged_kv_kernel
attention batch_decode_paged_kv_kernel
convolution void upfirdn2d_kernel_small<float>(X)
pooling void vision::ops::roi_align_forward_kernel_impl<float>(X)
attention void ms_deformable_im2col_gpu_kernel<float>(X)
gemm void nunchaku::kernels::invoke_kernel<nunchaku::kernels::GEMM_W4A4<X>::gemm_w4a4_fp4_block_kernel>(Y)
quantization void nunchaku::kernels::invoke_kernel<nunchaku::kernels::quantize_w4a4_act_kernel>(Y)
gemm void trsm_left_kernel<double, 256>(X)
gemm void cusparse::csrmv_v3_kernel<float>(X)
copy void at::native::(anonymous namespace)::reflection_pad2d_out_kernel<float>(X)
sort void at::native::mbtopk::radixFindKthValues<float, unsigned int, unsigned int, 4, 1>(X)
softmax void at::native::(anonymous namespace)::ctc_loss_log_alpha_gpu_kernel<float, long>(X)
norm void at::native::(anonymous namespace)::weight_norm_fwd_first_dim_kernel<float, float>(X)
sort void cub::detail::select::DeviceSelectSweepKernel<X>(Y)
sort void cub::CUB_200700::DeviceRunLengthEncodeKernel<X>(Y)
elementwise void cub::CUB_200700::detail::for_each::static_kernel<policy_hub_t, long, thrust::op_wrapper_t<long, square>>(X)
elementwise void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<thrust::cuda_cub::__transform::unary_transform_f<X>>>(Y)
gemm gemm_fusion_dot_5
elementwise loop_add_fusion_3
elementwise loop_select_fusion
reduction input_reduce_fusion_1
copy loop_dynamic_slice_fusion
copy loop_dynamic_update_slice_fusion
copy input_concatenate_fusion
copy loop_broadcast_fusion_2
copy loop_transpose_fusion
elementwise wrapped_add
elementwise loop_convert_fusion
activation void act_mul_kernel<true, 0>(X)
quantization void fp16_to_q_kv_kernel<4, 4>(X)
quantization void q_to_fp16_kv_kernel<4, 4>(X)
kv_cache void onnxruntime::contrib::cuda::ConcatNewToPastKV<float>(X)
gemm __myl_Fc_myl0_2
norm __myl_MulMeanAddSqrtDivMul_0x1234_myl0_3
attention _gemm_mha_v2_0x5a5a
activation __myl_SiluMul_0x12_myl0_4
elementwise __myl_AddMul_0x12_myl0_4
attention _fwd_kernel_token_att1
gemm rocblas_dot_kernel
elementwise rocblas_axpy_kernel
moe_gemm void vllm::marlin_moe_wna16::Marlin<1>(X)
moe _fwd_kernel_ep_scatter_1
activation silu_and_mul_masked_post_quant_kernel
norm fused_dual_residual_rmsnorm_kernel
moe experts_combine_kernel
gemm void gemvx::kernel<int, int, float>(X)
copy _pack_seq_kernel
kv_cache align_evict_mask_to_page_size
sampling create_extend_after_decode_spec_info
moe void vllm::moe::count_and_sort_expert_tokens_kernel<int>(X)
sort void vllm::topKPerRowDecode<512, true>(X)
moe void loraReorder(X)
copy void at::native::(anonymous namespace)::unfold_backward_kernel<float>(X)
activation void at::native::glu_kernel<float>(X)
kv_cache _copy_page_indices_kernel
attention void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<X>(Y)
gemm fused_fused_dequantize1_NT_matmul5
moe permute_kernel_moe
norm void onnxruntime::contrib::cuda::SkipLayerNormKernelSmall<float>(X)
elementwise void onnxruntime::cuda::_BinaryElementWiseSimple<float>(X)
sampling _combine_sampled_and_draft_tokens_kernel
gemm sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas
convolution sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn
other my kernel
other foo<softmax, gemm>(attention)
"#;

    #[test]
    fn kernels_fall_into_their_class_by_name() {
        let v = Vocabulary::default();
        for line in BY_NAME.lines().filter(|line| !line.is_empty()) {
            let (class, name) = line.split_once(' ').unwrap();
            assert_eq!(v.class(name).name(), class, "{name}");
            assert!(KernelClass::from_name(class).is_some(), "{class}");
        }
    }

    #[test]
    fn types_among_the_template_arguments_decide_nothing() {
        let v = Vocabulary::default();
        let types = [
            "cutlass::bfloat16_t",
            "flash::Params",
            "softmax_t",
            "cublasGemmParams",
            "ncclComm",
        ];
        for (class, function) in [
            ("moe", "moe::dev::finalize::finalizeKernel"),
            ("norm", "vllm::rms_norm_kernel"),
            ("rotary", "x::(anonymous namespace)::apply_rope_kernel"),
            ("other", "acme::kernel_17"),
        ] {
            for of in types {
                let name = format!("void {function}<{of}, 4, ({of})0>({of}*, X<{of}>)");
                assert_eq!(v.class(&name).name(), class, "{name}");
            }
        }
    }
}
