//! Tests the classes of kernels of inference engines and their libraries: vLLM, SGLang,
//! TensorRT-LLM, FlashInfer, DeepGEMM, DeepEP, FlashMLA, AITER, SageAttention,
//! flash-linear-attention and compiled kernels. Expected classes follow from what the functions
//! compute; names come from profiles and from the functions in the sources of these projects.

use std::collections::BTreeMap;

use trace_model::kernel::{class_of, display_names};

/// Test cases: one `CLASS NAME` per line.
const KERNELS: &str = r#"
activation _silu_mul_fp8_quant_deep_gemm
activation void vllm::silu_mul_fp8_quant_deep_gemm_kernel<__nv_bfloat16, __nv_fp8_e4m3, 128, 4>(__nv_bfloat16 const*)
activation _silu_and_mul_post_quant_kernel
activation silu_and_mul_masked_post_quant_kernel
activation void vllm::silu_and_mul_cvt_fp16_to_fp4<__nv_bfloat16, false>(int)
activation void tensorrt_llm::kernels::cutlass_kernels::doActivationKernel<__nv_bfloat16, __nv_bfloat16, 8>(X)
activation void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &(silu(float const&))>(X)
activation _swiglu_bwd_kernel
activation act_and_mul_triton_kernel
activation void act_and_mul_masked_kernel<__nv_bfloat16>(X)
attention kernel_mha
attention void tensorrt_llm::kernels::mmha::masked_multihead_attention_kernel<unsigned short, 128>(X)
attention fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvSlidingOrChunkedCausalP64VarSeqQ128Kv128PersistentContext
attention fmhaSm100aKernel_QE4m3KvE2m1OE4m3H128PagedKvDenseP16VarSeqQ8Kv128PersistentSwapsAbForGen
attention kernel_cutlass_kernel_flash_attncuteflash_fwd_sm100FlashAttentionForwardSm100_object_at__0
attention void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>, cute::C<128> >, 5, 256, 1, false, true, cutlass::bfloat16_t, float, cutlass::arch::Sm90> >(X)
attention flash::prepare_varlen_num_blocks_kernel(int, int)
attention void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128>>(X)
attention void sm90::fwd::sparse_attn_fwd_kernel<sm90::fwd::KernelTemplate<512, true> >(X)
attention void sm90::decode::sparse_fp8::flash_fwd_splitkv_mla_fp8_sparse_kernel<X>(Y)
attention void deep_gemm::sm90_fp8_paged_mqa_logits<1u, 64u>(X)
attention void deep_gemm::smxx_paged_mqa_logits_metadata<4u>(X)
attention void deep_gemm::smxx_clean_logits<8u, 1024u, 1u>(X)
attention void flashinfer::sparse_mla_sm120::sparse_mla_decode_dsv4_kernel<1>(X)
attention get_mla_metadata_kernel
attention kn_mla_reduce_v1_ps
attention mla_a8w8_qh16_qseqlen1
attention _ZN5aiter42pa_bf16_pertokenFp8_gqa10_1tg_4w_mtp3_msk1E
attention _ZN5aiter32fmha_fwd_hd192_hd128_bf16_causalE
attention void ck_tile::kentry<256, 1, ck_tile::FmhaBwdDQDKDVKernel<X> >(Y)
attention void ck_tile::kentry<64, 2, ck_tile::FmhaBwdOGradDotOKernel<X> >(Y)
attention _fwd_kernel_alibi
attention _correct_attn_cp_out_kernel
kv_cache create_flashinfer_kv_indices_triton
kv_cache generate_draft_decode_kv_indices
attention get_num_kv_splits_triton
attention void vllm::convert_vertical_slash_indexes_kernel(X)
attention triton_tem_fused_flex_attention_backward_1
attention chunked_prefill_paged_attention
attention _sparse_attn_fwd_kernel
attention void flashinfer::BlockBatchPagedAttentionPersistent<X>(Y)
collective void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16, 8u, true>(X)
collective void (anonymous namespace)::all_reduce_two_shot_kernel<__nv_bfloat16, 4u, true>(X)
collective void sglang::all_reduce_pull_res_kernel<8u, false, true>(X)
collective void sglang::all_reduce_push_norm_cluster_kernel<8u, 7u>(X)
collective void sglang::moe_finalize_all_reduce_kernel<8>(X)
collective void vllm::sm70_qwen38_hc_down_push_allgather<4>(X)
collective void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8, __nv_bfloat16>(X)
collective void flashinfer::trtllm_alltoall::moeAllToAllKernel(X)
collective void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, false, false>(X)
convolution void cutlass::device_kernel<cutlass::conv::kernel::ConvUniversal<cutlass::conv::ConvProblemShape<X> > >(Y)
convolution void cutlass::Kernel<cutlass::conv::kernel::ImplicitGemmConvolution<X> >(Y)
convolution void at::native::(anonymous namespace)::conv_depthwise2d_forward_kernel<3, float, int>(X)
copy void deep_gemm::transpose_fp32<512u, 64u, 56u>(float const*, float*, unsigned int)
copy void marlin::gptq_marlin_repack_kernel<256, 4, false>(unsigned int const*)
copy void marlin::awq_marlin_repack_kernel<256, 4>(unsigned int const*, unsigned int*, int, int)
copy void vllm::gptq::shuffle_4bit_kernel(unsigned int*, int, int)
copy void vllm::permute_cols_kernel(int4 const*, int const*, int4*, int, int, int)
copy _pack_seq_kernel
copy _unpack_seq_triton_kernel
copy memcpy32_post
copy memcpy128
copy memset32
copy triton_poi_fused_clone_copy_index_select_slice_split_7
copy void TransposePadPermuteKernel<128u, 64u, true, __nv_bfloat16>(X)
elementwise clamp_position_kernel
elementwise compute_position_kernel
elementwise sglang::moe::fused_softcap
embedding void rtp_llm::embedding_lookup_kernel_vec<float4, __nv_bfloat16, false, false, false>(X)
embedding void at::native::(anonymous namespace)::sum_and_scatter<c10::BFloat16, long>(X)
embedding void at::native::(anonymous namespace)::compute_grad_weight<c10::BFloat16, long>(X)
embedding void at::native::(anonymous namespace)::krn_partial_segment_offset<long>(X)
gemm void w4a16_sm90_kernel<Trait<2112, 7168>, true>(CUtensorMap, Params)
gemm void sglang::device::marlin::Marlin<__nv_bfloat16, 1, 256>(X)
gemm kernel_cutlass_kernel_flashinfergemmkernelsdense_blockscaled_gemm_sm100Sm100BlockScaledPersistentDenseGemmKernel_object_at__0
gemm kernel_cutlass_kernel_TiledMMA_ThrLayoutVMNK11110000_PermutationMNK____MMAAtom_ThrID10_ShapeMNK12825616_0
gemm void deep_gemm::sm90_tf32_hc_prenorm_gemm_impl<24u, 16384u, 64u, 32u, 64u, 1u, 128u, 12u>(X)
gemm void deep_gemm::sm100_fp8_fp4_gemm_1d1d_impl<(cute::UMMA::Major)0, 128u, (deep_gemm::GemmType)0, false, cutlass::float_e4m3_t>(int*)
gemm void deep_gemm::sm90_bmk_bnk_mn<128u, 128u>(X)
gemm void fused_a_gemm_kernel<1, 2112, 7168, 16, 16, 256, 12>(__nv_bfloat16*)
gemm void router_gemm_kernel_float_output<__nv_bfloat16, 128, 8, 1, 256, 7168>(float*)
gemm nvjet_sm100_tst_64x16_64x16_2x4_2cta_h_bz_splitK_bias_TNT
gemm nvjet_sm121_tst_mma_128x96x64_3_64x24x64_tmaAB_bz_TNNN
gemm std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16, float, false>(X)
gemm cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_128x128x16_1x1x1_3_tnn_align1_bias_f32_relu
gemm void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_tn_align1>(cutlass_80_simt_sgemm_64x64_8x5_tn_align1::Params)
gemm _ZN5aiter42fp8gemm_bf16_blockscale_BpreShuffle_32x128E
gemm _ZN5aiter33f4gemm_bf16_per1x32Fp4_tn_256x256E
gemm _gemm_afp4wfp4_reduce_kernel
gemm _gemm_a8w8_blockscale_kernel
gemm void tensorrt_llm::kernels::weight_only::kernel<tensorrt_llm::kernels::weight_only::KernelDetails<X>, 1>(Y)
gemm _sgemm_lora_a_kernel
gemm _gate_up_lora_b_kernel
gemm void LLGemm1_kernel<__half, 4>(X)
gemm void wvSplitKQ_hf_<__hip_bfloat16, c10::Float8_e4m3fnuz, 64>(X)
gemm _ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS1_10collective13CollectiveMma
gemm tgemm_bf16
gemm void mul_mat_vec_q<32, 4, block_q4_0, 2, &vec_dot_q4_0_q8_1>(X)
kv_cache void transfer_kernel_impl<&(get_global_offset_lf(char*)), false>(X)
kv_cache void transfer_page_head_kernel_impl<16, false>(X)
kv_cache void sglang::store_kvcache<512l, 512l, 1, false, long>(sglang::StoreKVCacheParams)
kv_cache void vllm::reshape_and_cache_nvfp4_kernel<__nv_bfloat16>(X)
kv_cache _compute_slot_mapping_kernel
kv_cache _compute_slot_mappings_kernel
kv_cache _gather_block_tables_kernel
kv_cache _zero_kv_blocks_kernel
kv_cache assign_draft_cache_locs
kv_cache filter_finished_cache_loc_kernel
kv_cache get_target_cache_loc
kv_cache copy_all_layer_kv_cache_tiled
kv_cache set_mla_kv_scale_buffer_kernel
kv_cache _set_k_and_s_triton_kernel
kv_cache _get_k_and_s_triton_kernel
kv_cache assign_req_to_token_pool
kv_cache write_req_to_token_pool_triton
kv_cache void flashinfer::AppendPagedKVMlaCacheKernel<512u, 64u, int, __nv_bfloat16>(X)
kv_cache void flashinfer::RopeQuantizeAppendPagedKVCacheKernel<true, 128>(X)
kv_cache void vllm::cp_gather_indexer_k_quant_cache_kernel<8>(X)
kv_cache void vllm::cp_gather_cache<__nv_bfloat16>(X)
kv_cache fuse_qk_rope_concat_and_cache_mla_per_head_kernel
kv_cache fused_store_indexer_cache
kv_cache void vllm::gather_and_maybe_dequant_cache<__nv_bfloat16>(X)
kv_cache void tensorrt_llm::kernels::applyBiasRopeUpdateKVCacheV2<__nv_bfloat16, 128, true>(X)
moe deepep_permute_triton_kernel
moe deepep_post_reorder_triton_kernel
moe deepep_compute_src2dst_triton_kernel
moe _fwd_kernel_ep_scatter_1
moe _fwd_kernel_ep_gather
moe void tensorrt_llm::kernels::deepseek_v3_topk_kernel<float, float, int, false>(X)
moe void tensorrt_llm::kernels::cutlass_kernels::blockExpertPrefixSumKernel<1024>(X)
moe void tensorrt_llm::kernels::cutlass_kernels::globalExpertPrefixSumLargeKernel<1024>(X)
moe void tensorrt_llm::kernels::cutlass_kernels::fusedBuildExpertMapsSortFirstTokenKernel<256, 32, 1>(X)
moe void tensorrt_llm::kernels::cutlass_kernels::finalizeMoeRoutingKernel<__nv_bfloat16, __nv_bfloat16>(X)
moe void moe::dev::routing::routingCustom::routingIndicesClusterKernel<X>(Y)
moe void moeTopK<256>(float const*, bool const*)
moe void moe_fused_gate_kernel<cutlass::bfloat16_t, 32, 8>(X)
moe _router_triton_kernel
moe fused_moe_router_cudacore_kernel
moe void ck_tile::kentry<1, ck_tile::MoeSortingMultiPhaseKernel_P0_v1<X> >(Y)
moe compute_masked_m_triton_kernel
moe fill_gateup_input_triton_kernel
moe _count_expert_num_tokens
moe void vllm::moe::topkGating<8, 128, 4, 16, 32, int, __nv_bfloat16, (vllm::moe::ScoringFunc)0>(X)
moe void tensorrt_llm::kernels::invokeNoAuxTc_topk_with_k_idx_kernel<float>(X)
moe_gemm void w4a16_moe_sm90_kernel<Trait<32>>(Params)
moe_gemm void sglang::device::marlin_moe::Marlin<__nv_bfloat16, 1>(X)
moe_gemm bmm_E4m3_E4m3E4m3_Fp32_BtokBfloat16_t128x8x256_s6_et128x8_m128x8x32_c1x1x1_rM_TN_transOut_schPd2x1x2x3_dynB_sm100f
moe_gemm bmm_MxE4m3_MxE2m1MxE4m3_Fp32_Ab32_Bb32_Cb32_t128x128x256_s4x4x4x4x1x4_et128x32_m256x128x32_c2x1x1_rM_dynB_sm100f
moe_gemm _ZN5aiter59fmoe_stage1_bf16_pertokenFp8_blockscale_g1u1_32x128_3tg_pf3E
moe_gemm _fused_moe_lora_kernel
moe_gemm fused_moe_kernel_gptq_awq
moe_gemm sgl_fused_moe_kernel_gptq_awq
moe_gemm void ck::kernel_moe_gemm_2lds<X>(Y)
moe_gemm _grouped_gemm_forward_kernel
moe_gemm flydsl_mxfp4_flat_moe_stage1
norm void vllm::deepseek_v4_fused_ops::fusedDeepseekV4QNormRopeKVRopeQuantInsertKernelReducedGrid<c10::BFloat16, 64>(X)
norm kernel_cutlass_kernel_flashinfernormkernelsfused_add_rmsnormFusedAddRMSNormKernel_object_at__tensorptrbf16_0
norm kernel_cutlass_kernel___main__RMSNormKernel_object_at__tensorptrbf16gmemalign16o409640961_0
norm _fused_add_rmsnorm_fp8_quant_singlepass_kernel
norm fused_rms_fp8_group_quant_kernel
norm _fused_rms_mxfp4_quant_kernel
norm void rmsnorm_gated_exact_kernel<float>(X)
norm triton_per_fused__to_copy__unsafe_view_add_clone_mean_mul_pow_rsqrt_silu_view_0
norm triton_red_fused_fused_add_rms_norm_moe_forward_0
norm _layer_norm_fwd_1pass_kernel
norm void flashinfer::norm::GemmaFusedAddRMSNormKernel<8u, __half>(X)
norm rms_norm_batched_offset
norm void ck_tile::kentry<2, ck_tile::Rmsnorm2dFwd<X> >(Y)
quantization void vllm::gptq::reconstruct_exllama_4bit_kernel(unsigned int const*, int const*)
quantization void vllm::gptq::reconstruct_gptq_kernel<4>(X)
quantization void vllm::segmented_max_reduction<c10::BFloat16, c10::Float8_e4m3fn>(float*)
quantization void MeanScaleKernel<64u, true, __nv_bfloat16>(__nv_bfloat16*)
quantization void QuantInt8Kernel<128u, 64u, 64u, 1u, true, false, __nv_bfloat16>(X)
quantization quant_per_block_int8_kernel
quantization quant_query_per_thread_int8_kernel
quantization void tensorrt_llm::kernels::quantize_with_block_size<(tensorrt_llm::BlockScaleQuantizationType)2, __nv_bfloat16, 32, true>(X)
quantization void (anonymous namespace)::per_token_group_quant_8bit_v2_kernel<(anonymous namespace)::NaiveScheduler, 128, 8, __nv_bfloat16, __nv_fp8_e4m3, false>(X)
quantization kernel_cutlass_kernel_flashinferquantizationMxfp8QuantizeKernel_object_at__tensorptr_0
quantization void vllm::cvt_fp16_to_fp4<__nv_bfloat16, false>(int)
quantization _pack_flashinfer_mxfp8_scale_kernel
quantization void deep_gemm::transpose_and_pack_fp32_into_ue8m0<512u, 48u, 56u>(float const*)
quantization void deep_gemm::pack_fp32_into_ue8m0<4u, 512u, 48u>(float const*)
quantization _dynamic_mxfp4_quant_kernel
quantization void aiter::dynamic_per_token_scaled_quant_kernel<__hip_bfloat16, unsigned char, 256>(X)
quantization void aiter::dynamic_per_group_scaled_quant_kernel<ck_tile::bfloat16_t, ck_tile::fp4x2_t, 64>(X)
quantization void sgl_per_token_quant_fp8_kernel<__nv_bfloat16, c10::Float8_e4m3fn>(X)
quantization void vllm::dequantize_weights<__half>(X)
quantization void dequantize_block_q4_K<c10::Half>(void const*, c10::Half*)
quantization void block_scale_interleave_kernel(int, int, int, unsigned char const*, unsigned char*)
quantization _tma_align_input_scale_kernel
quantization _per_token_group_quant_mla_deep_gemm_masked_fp8
quantization static_quant_fp8
quantization void vllm::scaled_fp8_quant_kernel_strided_group_shape<c10::BFloat16, c10::Float8_e4m3fn>(X)
rotary void (anonymous namespace)::fused_rope_kernel<true, 64l, true, __nv_bfloat16, long, 8u>(X)
rotary _fused_inv_rope_fp8_quant_per_head
rotary void tensorrt_llm::kernels::applyMLARopeAndAssignQKVKernelGeneration<__nv_bfloat16, 256, 512>(X)
rotary void flashinfer::RopeQuantizeKernel<true, 128>(X)
rotary _rope_kernel
sampling void VerifyTreeGreedy<int, long>(long*)
sampling void flashinfer::sampling::TreeSpeculativeSamplingTargetOnly<1024u, X>(Y)
sampling build_tree_efficient
sampling build_tree_efficient_partial_packed
sampling eagle_prepare_inputs_padded_kernel
sampling copy_and_expand_eagle_inputs_kernel
sampling _combine_sampled_and_draft_tokens_kernel
sampling rejection_greedy_sample_kernel
sampling _gumbel_sample_kernel
sampling _logit_bias_kernel
sampling _bad_words_kernel
sampling apply_token_bitmask_inplace_kernel
sampling void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>(X)
sampling void tensorrt_llm::kernels::batchApplyPenalty<float>(X)
sampling void aiter::mix_sample_kernel<__hip_bfloat16>(X)
sampling void tensorrt_llm::kernels::acceptDraftTokensByIdsKernel(X)
sampling void tensorrt_llm::kernels::beamStage1Kernel<float, 4, 64>(X)
sampling void tensorrt_llm::kernels::beamSearchTopK<float>(X)
sampling void tensorrt_llm::kernels::gatherTree(X)
softmax _ce_bwd_kernel
softmax _fused_linear_cross_entropy_kernel
sort void sglang::topk_main_kernel<true, 3>(sglang::TopKPagedParams)
sort void at::native::tensor_kernel_scan_innermost_dim<float, std::plus<float> >(X)
sort void vllm::topKPerRowDecode<512, false>(X)
ssm fused_sigmoid_gating_delta_rule_update_kernel
ssm kernel_cutlass_gdn_decode_bf16state_mtp_ilp4_kernel_tensorptrbf16gmemalign32o1291612812828_0
ssm kernel_cutlass_kernel___main__SSDKernel_object_at__CopyAtom_ThrID10_0
ssm gdr_decode_batch_kernel
ssm chunk_scaled_dot_kkt_fwd_kernel
ssm merge_16x16_to_64x64_inverse_kernel
ssm prepare_wy_repr_fwd_kernel
ssm chunk_kda_scaled_dot_kkt_fwd_kernel
ssm _causal_conv1d_update_kernel_no_cache_len_no_mtp
ssm _chunk_cumsum_fwd_kernel
rotary void sglang::mla_rope_quantize_fp8(X)
copy concat_mla_k_kernel
copy void vllm::concat_mla_q_kernel<512>(X)
kv_cache get_last_loc_kernel
convolution void explicit_convolve_sgemm<float, int, 128>(X)
elementwise void at::native::(anonymous namespace)::upsample_bilinear2d_out_frame<float, float>(X)
attention _attn_bwd_preprocess
attention paged_attention_decode_v2_gluon_kernel
gemm _w8a8_block_int8_matmul
gemm _batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant_kernel
ssm fused_recurrent_gated_delta_rule_packed_decode_kernel
kv_cache _fused_qk_rope_reshape_and_cache_kernel
sampling void flashinfer::sampling::RadixTopKMaskLogitsKernel_MultiCTA<float>(X)
collective one_shot_all_reduce_kernel
"#;

#[test]
fn kernels_of_inference_engines_have_the_classes_of_what_they_compute() {
    let rows: Vec<(&str, &str)> = KERNELS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    assert!(rows.len() >= 200, "{} kernels", rows.len());
    let mut wrong = BTreeMap::new();
    for (class, name) in rows {
        let found = class_of(name).name();
        if found != class {
            wrong.insert(name, (found, class));
        }
    }
    assert!(wrong.is_empty(), "found, expected: {wrong:#?}");
}

#[test]
fn calls_of_function_objects_keep_their_operator() {
    for (name, shown) in [
        (
            "void at::f::operator()(int, float) const",
            "at::f::operator()",
        ),
        ("a::b<int>::operator()<4>(char*)", "a::b::operator()"),
        ("bool a::operator<(a const&, a const&)", "a::operator<"),
    ] {
        assert_eq!(display_names([name])[name], shown, "{name}");
    }
}
