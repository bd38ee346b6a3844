//! Documents as `why` makes them: a healthy decode, a late rank of eight, a host-bound decode, reads that stall steps, two
//! sides, and an answer that cannot be given. Times are planted; all sums hold.

use findings::*;

/// A small generator (SplitMix64), so that documents are the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit.max(1)
    }

    fn around(&mut self, value: i64, spread: i64) -> i64 {
        value - spread + i64::try_from(self.below(2 * spread.unsigned_abs() + 1)).unwrap()
    }
}

pub(crate) fn interval(median: i64, half: i64) -> Interval {
    Interval {
        median,
        low: median - half,
        high: median + half,
    }
}

/// A share with four decimals, which JSON carries exactly.
fn percent(value: i64, whole: i64) -> f64 {
    (1e6 * value as f64 / whole as f64).round() / 1e4
}

/// Label, name, class, mean of a step, calls of a step, share of the limit.
type Kernel = (
    &'static str,
    &'static str,
    &'static str,
    i64,
    u64,
    Option<f64>,
);

/// Label, group, class, mean of a step.
type Part = (&'static str, &'static str, &'static str, i64);

pub(crate) const DECODE: [Part; 12] = [
    (
        "expert GEMM, gate and up, swiglu",
        "gpu",
        "kernel.moe",
        9_812_000,
    ),
    ("GEMM", "gpu", "kernel.gemm", 7_420_000),
    ("attention", "gpu", "kernel.attention", 5_104_000),
    (
        "normalization and rotary embedding",
        "gpu",
        "kernel.norm",
        1_230_000,
    ),
    ("gaps between queued kernels", "gpu", "queue", 418_000),
    (
        "transfer of collectives",
        "comm",
        "comm.transfer",
        2_905_000,
    ),
    ("waiting for a late rank", "comm", "comm.wait", 212_000),
    ("launch calls", "launch", "launch_call", 640_000),
    ("Python", "host", "host_python", 1_120_000),
    ("synchronization", "sync", "sync", 318_000),
    ("memcpy to the GPU", "input", "memcpy_h2d", 96_000),
    ("not explained", "unknown", "unexplained", 54_000),
];

pub(crate) fn budget(
    side: Side,
    phase: &str,
    rank: Option<u32>,
    steps: u64,
    tokens: Option<u64>,
    limit: Option<i64>,
    parts: &[Part],
) -> Budget {
    let count = i64::try_from(steps).unwrap();
    let total: i64 = parts.iter().map(|part| part.3 * count).sum();
    let mean = total / count;
    let half = if steps > 1 { mean / 70 } else { 0 };
    Budget {
        side,
        phase: phase.to_owned(),
        rank,
        steps,
        step_time_ns: interval(mean, half),
        total_ns: total,
        tokens,
        limit_ns: limit,
        gpu_busy_pct: Some(92.5),
        parts: parts
            .iter()
            .map(|(label, group, class, step)| BudgetPart {
                group: (*group).to_owned(),
                class: (*class).to_owned(),
                label: (*label).to_owned(),
                total_ns: step * count,
                per_step_ns: *step,
                per_token_ns: tokens
                    .map(|tokens| step * count / i64::try_from(tokens).unwrap().max(1)),
                share_pct: percent(step * count, total),
            })
            .collect(),
    }
}

/// A document with everything but an answer: decode and prefill on some ranks.
pub(crate) fn base(ranks: u32, steps: u32, parts: &[Part]) -> Document {
    let mut random = Random(u64::from(ranks) << 32 | u64::from(steps));
    let prefill: Vec<Part> = parts
        .iter()
        .take(6)
        .map(|part| (part.0, part.1, part.2, part.3 * 6))
        .collect();
    let mean: i64 = parts.iter().map(|part| part.3).sum();
    let files = (0..ranks).map(|rank| File {
        name: format!("recordings/decode-rank{rank}.json.gz"),
        format: "Kineto JSON".to_owned(),
        role: Role::Trace,
        rank: Some(rank),
        bytes: 61_000_000 + 1_234_567 * u64::from(rank),
        ..File::default()
    });
    let mut document = Document {
        schema_version: SCHEMA_VERSION,
        scope: Scope {
            files: files.collect(),
            assumed: vec![
                "the files are ranks of one job: equal world size and equal steps".to_owned(),
            ],
            ..Scope::default()
        },
        trust: Trust {
            files: u64::from(ranks),
            ranks_present: (0..ranks).collect(),
            steps_used: u64::from(steps),
            steps_left_out: 4,
            clocks_within_ns: (ranks > 1).then_some(1_240),
            model_error_pct: Some(0.84),
            roofline_coverage_pct: Some(91.3),
            headline_within_ns: Some(410_000),
            smallest_effect_ns: Some(520_000),
            ..Trust::default()
        },
        budget: vec![
            budget(
                Side::Only,
                "decode",
                Some(0),
                u64::from(steps),
                Some(u64::from(steps) * 64),
                Some(mean * 64 / 100),
                parts,
            ),
            budget(
                Side::Only,
                "prefill",
                Some(0),
                3,
                Some(3 * 2048),
                Some(mean * 5),
                &prefill,
            ),
        ],
        next: vec![
            Next {
                command: "inferscope trace-info critical-path recordings/".to_owned(),
                shows: "the critical path of each step".to_owned(),
            },
            Next {
                command: "inferscope trace-info roofline recordings/decode-rank0.json.gz"
                    .to_owned(),
                shows: "the distance of each kernel from its limit".to_owned(),
            },
        ],
        not_recorded: vec![Missing {
            what: "Host call stacks".to_owned(),
            decides: "Which line of Python launches the kernels before each gap.".to_owned(),
            record: "with_stack=True".to_owned(),
        }],
        appendix: appendix(),
        ..Document::default()
    };
    figures(&mut document, ranks, steps, mean, &mut random);
    document
}

fn appendix() -> Appendix {
    let note = |kind: &str, text: &str| Note {
        kind: kind.to_owned(),
        text: text.to_owned(),
    };
    Appendix {
        version: "0.1.0".to_owned(),
        command: "inferscope why recordings/ -o page.html".to_owned(),
        rules: vec![
            note(
                "step time",
                "The period of steady steps that overlap, else the time from the first host event to the last GPU event of the step.",
            ),
            note(
                "waiting for a late rank",
                "The part of a collective before its last rank arrives.",
            ),
        ],
        confidence: vec![
            note(
                "established",
                "Recorded directly, above its threshold, in enough steps.",
            ),
            note(
                "likely",
                "The recorded evidence favours it over the other causes.",
            ),
            note(
                "possible",
                "Fits what was recorded; other causes fit as well.",
            ),
        ],
    }
}

fn figures(document: &mut Document, ranks: u32, steps: u32, mean: i64, random: &mut Random) {
    let figures = &mut document.figures;
    let mut begin = 1_000_000_000;
    for step in 1..=steps {
        let is_prefill = steps > 20 && step % 41 == 17;
        for rank in 0..ranks.min(8) {
            let duration = if is_prefill {
                random.around(mean * 6, mean / 4)
            } else {
                random.around(mean, mean / 30)
            };
            figures.steps.push(StepPoint {
                side: Side::Only,
                rank,
                step,
                phase: if is_prefill { "prefill" } else { "decode" }.to_owned(),
                name: format!("step {step}"),
                begin_ns: begin,
                duration_ns: duration,
                bound: "gpu-bound".to_owned(),
                batch: Some(32 + u64::from(step / 16 % 4) * 8),
                tokens: Some(if is_prefill {
                    2048
                } else {
                    32 + u64::from(step / 16 % 4) * 8
                }),
                is_used: step > 2,
            });
        }
        begin += if is_prefill { mean * 6 } else { mean };
    }
    for (role, step, stretch) in [("best", 12, 97), ("median", 40, 100), ("worst", 81, 119)] {
        figures.timelines.push(timeline(
            role,
            0,
            step.min(steps),
            mean * stretch / 100,
            role == "worst",
            random,
        ));
    }
    if steps < 3 {
        figures.timelines.truncate(1);
    }
    if ranks > 1 {
        let columns = steps;
        figures.lateness = Some(Lateness {
            ranks: (0..ranks).collect(),
            steps: (1..=columns).collect(),
            late_ns: (0..ranks)
                .map(|rank| {
                    (0..columns)
                        .map(|step| {
                            let is_lost = rank == 1 && step % 37 > 33;
                            (!is_lost).then(|| {
                                if random.below(5) == 0 {
                                    i64::try_from(random.below(400_000)).unwrap()
                                } else {
                                    0
                                }
                            })
                        })
                        .collect()
                })
                .collect(),
        });
    }
    let kernels: [Kernel; 9] = [
        (
            "expert GEMM, gate and up, swiglu",
            "void fused_moe_kernel<__nv_bfloat16, 128, 128, 64, true>(__nv_bfloat16 const*, __nv_bfloat16 const*, int)",
            "kernel.moe",
            9_812_000,
            58,
            Some(61.2),
        ),
        (
            "GEMM 4096×14336×64",
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
            "kernel.gemm",
            5_120_000,
            96,
            Some(74.0),
        ),
        (
            "paged attention, decode",
            "void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::bfloat16_t>, true>(Flash_fwd_params)",
            "kernel.attention",
            5_104_000,
            32,
            Some(83.4),
        ),
        (
            "all-reduce, one shot, 2 ranks",
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, vllm::RankSignals, vllm::Signal*)",
            "comm.transfer",
            2_905_000,
            64,
            None,
        ),
        (
            "GEMM 4096×4096×64",
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x128x64",
            "kernel.gemm",
            2_300_000,
            64,
            Some(66.1),
        ),
        (
            "RMS norm, fused add",
            "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16*, float, int, int)",
            "kernel.norm",
            810_000,
            64,
            Some(38.0),
        ),
        (
            "rotary embedding",
            "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, int)",
            "kernel.norm",
            420_000,
            32,
            Some(22.5),
        ),
        (
            "sampling, top-k",
            "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(float const*)",
            "kernel.other",
            96_000,
            1,
            None,
        ),
        ("memset", "Memset (Device)", "memset", 12_000, 6, None),
    ];
    let gpu: i64 = kernels.iter().map(|kernel| kernel.3).sum();
    let count = i64::from(steps);
    figures.kernels = kernels
        .iter()
        .map(|(label, name, class, per_step, calls, limit)| KernelRow {
            label: (*label).to_owned(),
            name: (*name).to_owned(),
            class: (*class).to_owned(),
            calls: calls * u64::from(steps),
            total_ns: per_step * count,
            per_step_ns: *per_step,
            share_pct: percent(*per_step, gpu),
            limit_pct: *limit,
        })
        .collect();
    figures.roofline = Some(Roofline {
        device: "H100 SXM".to_owned(),
        flops_per_s: vec![("bf16".to_owned(), 989.4e12), ("fp32".to_owned(), 66.9e12)],
        bytes_per_s: 3.35e12,
        points: vec![
            point(
                "expert GEMM, gate and up, swiglu",
                "kernel.moe",
                1.21e12,
                2.0e10,
                9_812_000,
                "memory",
                61.2,
            ),
            point(
                "GEMM 4096×14336×64",
                "kernel.gemm",
                7.7e11,
                1.27e10,
                5_120_000,
                "memory",
                74.0,
            ),
            point(
                "paged attention, decode",
                "kernel.attention",
                6.0e10,
                1.43e10,
                5_104_000,
                "memory",
                83.4,
            ),
            point(
                "prefill GEMM",
                "kernel.gemm",
                9.1e13,
                1.1e11,
                141_000_000,
                "compute",
                65.2,
            ),
            point(
                "RMS norm, fused add",
                "kernel.norm",
                2.1e8,
                1.0e9,
                810_000,
                "memory",
                38.0,
            ),
            point(
                "rotary embedding",
                "kernel.norm",
                1.2e8,
                3.1e8,
                420_000,
                "memory",
                22.5,
            ),
        ],
    });
    let stack = |frames: &[&str], gpu_ns: i64| StackRow {
        frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
        gpu_ns: gpu_ns * count,
    };
    let top = [
        "EngineCore.run_busy_loop",
        "EngineCore.step",
        "GPUModelRunner.execute_model",
    ];
    let with = |rest: &[&'static str]| {
        top.iter()
            .copied()
            .chain(rest.iter().copied())
            .collect::<Vec<_>>()
    };
    figures.stacks = vec![
        stack(
            &with(&[
                "Model.forward",
                "DecoderLayer.forward",
                "FusedMoE.forward",
                "fused_experts",
            ]),
            9_812_000,
        ),
        stack(
            &with(&[
                "Model.forward",
                "DecoderLayer.forward",
                "Attention.forward",
                "flash_attn_with_kvcache",
            ]),
            5_104_000,
        ),
        stack(
            &with(&[
                "Model.forward",
                "DecoderLayer.forward",
                "QKVParallelLinear.forward",
                "aten::linear",
            ]),
            4_120_000,
        ),
        stack(
            &with(&[
                "Model.forward",
                "DecoderLayer.forward",
                "RowParallelLinear.forward",
                "aten::linear",
            ]),
            3_300_000,
        ),
        stack(
            &with(&[
                "Model.forward",
                "DecoderLayer.forward",
                "RowParallelLinear.forward",
                "tensor_model_parallel_all_reduce",
            ]),
            2_905_000,
        ),
        stack(
            &with(&["Model.forward", "DecoderLayer.forward", "RMSNorm.forward"]),
            1_230_000,
        ),
        stack(&with(&["Sampler.forward", "aten::topk"]), 96_000),
    ];
    figures.host_gaps = [
        ("GPUModelRunner._prepare_inputs", "host_python", 690_000),
        ("Scheduler.schedule", "host_python", 310_000),
        ("cudaGraphLaunch", "launch_call", 240_000),
        ("cudaStreamSynchronize", "sync", 118_000),
    ]
    .iter()
    .map(|(name, class, per_step)| HostRow {
        name: (*name).to_owned(),
        class: (*class).to_owned(),
        rank: 0,
        path_ns: per_step * count,
        per_step_ns: *per_step,
    })
    .collect();
    for at in 0..240_i64 {
        for rank in 0..ranks.min(2) {
            figures.memory.push(MemoryPoint {
                rank,
                at_ns: 1_000_000_000 + at * 17_000_000,
                allocated_bytes: 58_000_000_000
                    + random.below(2_400_000_000)
                    + 1_200_000_000 * u64::from(rank),
                reserved_bytes: Some(66_000_000_000 + u64::from(rank) * 1_500_000_000),
            });
        }
    }
}

fn point(
    name: &str,
    class: &str,
    flops: f64,
    bytes: f64,
    time_ns: i64,
    bound: &str,
    limit_pct: f64,
) -> RooflinePoint {
    RooflinePoint {
        name: name.to_owned(),
        class: class.to_owned(),
        flops,
        bytes,
        time_ns,
        bound: bound.to_owned(),
        limit_pct,
    }
}

/// A step of kernels in layers, with a gap that only a slow step has.
fn timeline(
    role: &str,
    rank: u32,
    step: u32,
    length: i64,
    slow: bool,
    random: &mut Random,
) -> Timeline {
    let span = |begin_ns: i64, duration_ns: i64, class: &str, name: &str, differs: bool| Span {
        begin_ns,
        duration_ns,
        class: class.to_owned(),
        name: name.to_owned(),
        differs,
    };
    let mut stream = Vec::new();
    let mut host = vec![span(0, length, "host_python", "EngineCore.step", false)];
    let gap = if slow { length / 6 } else { length / 60 };
    host.push(span(
        length / 200,
        gap,
        "host_python",
        "GPUModelRunner._prepare_inputs",
        slow,
    ));
    let mut at = gap + length / 100;
    let layer = (length - at) / 32;
    for _ in 0..31 {
        let mut begin = at;
        for (share, class, name) in [
            (6, "kernel.norm", "fused_add_rms_norm_kernel"),
            (24, "kernel.gemm", "sm90_xmma_gemm_bf16"),
            (20, "kernel.attention", "flash_fwd_splitkv_kernel"),
            (10, "comm.transfer", "cross_device_reduce_1stage"),
            (36, "kernel.moe", "fused_moe_kernel"),
        ] {
            let duration = random.around(layer * share / 100, layer / 200);
            stream.push(span(begin, duration, class, name, false));
            begin += duration;
        }
        host.push(span(
            at - layer / 4,
            layer / 5,
            "launch_call",
            "cudaLaunchKernel",
            false,
        ));
        at += layer;
    }
    host.push(span(at, length - at, "sync", "cudaStreamSynchronize", slow));
    host.sort_by_key(|span| (span.begin_ns, std::cmp::Reverse(span.duration_ns)));
    let mut path = vec![span(
        0,
        gap + length / 100,
        "host_python",
        "GPUModelRunner._prepare_inputs",
        slow,
    )];
    path.extend(stream.iter().cloned());
    Timeline {
        role: role.to_owned(),
        rank,
        step,
        begin_ns: 1_000_000_000,
        end_ns: 1_000_000_000 + length,
        lanes: vec![
            Lane {
                name: "path".to_owned(),
                spans: path,
            },
            Lane {
                name: "GPU 0, stream 7".to_owned(),
                spans: stream,
            },
            Lane {
                name: "EngineCore thread".to_owned(),
                spans: host,
            },
        ],
        left_out: 212,
    }
}

pub(crate) fn finding(
    id: &str,
    kind: &str,
    title: &str,
    gain: i64,
    step: i64,
    confidence: Confidence,
) -> Finding {
    Finding {
        id: id.to_owned(),
        kind: kind.to_owned(),
        title: title.to_owned(),
        place: Place {
            phase: Some("decode".to_owned()),
            rank: Some(0),
            device: Some(0),
            steps: vec![81, 17, 44],
            step_count: 92,
            ..Place::default()
        },
        cost_ns_per_step: interval(gain * 11 / 10, gain / 12),
        share_pct: percent(gain * 11 / 10, step),
        cost_ns_per_affected_step: interval(gain * 12 / 10, gain / 11),
        gain_ceiling_ns_per_step: gain,
        gain_pct: percent(gain, step),
        confidence,
        evidence: vec![
            Evidence {
                text: "the GPU idles 7.1 ms before the first kernel of the step".to_owned(),
                file: Some("recordings/decode-rank0.json.gz".to_owned()),
                rank: Some(0),
                step: Some(81),
                event_id: Some(812_345),
                name: Some("GPUModelRunner._prepare_inputs".to_owned()),
                begin_ns: Some(3_412_345_678),
                duration_ns: Some(7_100_000),
            },
            Evidence {
                text: "the same in 91 of 92 steps".to_owned(),
                ..Evidence::default()
            },
        ],
        commands: vec![
            "inferscope trace-info critical-path recordings/decode-rank0.json.gz --step 81"
                .to_owned(),
        ],
        refute: "A recording without with_stack in which the gap is shorter than 3 % of the step."
            .to_owned(),
        remedy: Some(Remedy {
            text:
                "Prepare the inputs of the next step while the GPU works (asynchronous scheduling)."
                    .to_owned(),
            source: "https://docs.vllm.ai/en/latest/configuration/engine_args.html".to_owned(),
        }),
        cost_ns_total: gain * 11 / 10 * 92,
        of_steps: 92,
        is_gain_known: gain > 0,
    }
}

fn total(parts: &[Part]) -> i64 {
    parts.iter().map(|part| part.3).sum()
}

/// Decode at the limit of memory bandwidth.
pub(crate) fn healthy() -> Document {
    let mut document = base(1, 96, &DECODE);
    let step = total(&DECODE);
    document.answer = Answer {
        shape: Shape::Limit,
        sentence: "Decode steps take 29.33 ms (median of 96; 95 % interval 28.91 to 29.75) and are bound by memory bandwidth: 76 % of the time is matrix products and attention at 61 to 83 % of the bandwidth of an H100 SXM. At the limit of the device the step would take 18.77 ms.".to_owned(),
        bound: Some("gpu-bound".to_owned()),
        phase: Some("decode".to_owned()),
        rank: Some(0),
        step_time_ns: Some(document.budget[0].step_time_ns),
        finding: Some("limit-memory-decode".to_owned()),
        cause: None,
    };
    document.findings = vec![finding(
        "limit-memory-decode",
        "device_limit",
        "Expert GEMM runs at 61 % of the memory bandwidth",
        3_790_000,
        step,
        Confidence::Established,
    )];
    document.total = 1;
    document
}

/// Rank 3 of eight is late.
pub(crate) fn late_rank() -> Document {
    let mut parts = DECODE;
    parts[6].3 = 6_900_000;
    let mut document = base(8, 96, &parts);
    let step = total(&parts);
    document.answer = Answer {
        shape: Shape::Cause,
        sentence: "Decode steps take 36.02 ms instead of 29.12 ms (+6.9 ± 0.6 ms) because rank 3 is late: 6.9 ms are gaps before its first kernel, while Python runs `_prepare_inputs`; the other ranks show the same time as all-reduce.".to_owned(),
        bound: Some("comm-bound".to_owned()),
        phase: Some("decode".to_owned()),
        rank: Some(3),
        step_time_ns: Some(document.budget[0].step_time_ns),
        cause: Some("collective_straggler".to_owned()),
        finding: Some("rank-skew-3".to_owned()),
    };
    let mut skew = finding(
        "rank-skew-3",
        "rank_skew",
        "Rank 3 keeps seven ranks waiting: its host prepares inputs before the first kernel",
        6_900_000,
        step,
        Confidence::Established,
    );
    skew.place.rank = Some(3);
    skew.place.name = Some("GPUModelRunner._prepare_inputs".to_owned());
    skew.place.stack = [
        "EngineCore.run_busy_loop",
        "EngineCore.step",
        "GPUModelRunner.execute_model",
        "GPUModelRunner._prepare_inputs",
    ]
    .map(str::to_owned)
    .to_vec();
    document.findings = vec![
        skew,
        finding(
            "slow-moe",
            "slow_kernel",
            "Expert GEMM runs at 61 % of the memory bandwidth",
            3_100_000,
            step,
            Confidence::Likely,
        ),
        finding(
            "class",
            "kernel_class",
            "Matrix products take half of the decode time",
            0,
            step,
            Confidence::Established,
        ),
        finding(
            "unfused-norm",
            "unfused_chain",
            "Chains of small kernels around the normalization could be fused",
            720_000,
            step,
            Confidence::Possible,
        ),
    ];
    document.total = 5;
    document.trust.ranks_present.retain(|rank| *rank != 6);
    document.trust.ranks_missing = vec![6];
    document.trust.events_lost = 1_204;
    document.trust.notes = vec![
        Note {
            kind: "rank_missing".to_owned(),
            text: "Rank 6 is not recorded: what the others waited for it is a lower bound."
                .to_owned(),
        },
        Note {
            kind: "lost".to_owned(),
            text: "1,204 events were lost in the first step, which is left out.".to_owned(),
        },
    ];
    if let Some(lateness) = &mut document.figures.lateness {
        for (step, cell) in lateness.late_ns[3].iter_mut().enumerate() {
            *cell = Some(6_400_000 + i64::try_from(step % 11).unwrap() * 100_000);
        }
        lateness.late_ns[6].fill(None);
    }
    document
}

/// Host code bounds the steps.
pub(crate) fn host_bound() -> Document {
    let mut parts = DECODE;
    parts[8].3 = 14_300_000;
    parts[7].3 = 3_900_000;
    let mut document = base(1, 60, &parts);
    let step = total(&parts);
    document.answer = Answer {
        shape: Shape::Cause,
        sentence: "Decode steps take 45.77 ms and are bound by the host: the GPU idles 14.3 ms of each step while Python runs `Scheduler.schedule` and `_prepare_inputs`.".to_owned(),
        bound: Some("host-bound".to_owned()),
        phase: Some("decode".to_owned()),
        step_time_ns: Some(document.budget[0].step_time_ns),
        cause: Some("host_code".to_owned()),
        finding: Some("host-schedule".to_owned()),
        rank: None,
    };
    document.findings = vec![
        finding(
            "host-schedule",
            "host_bound",
            "The GPU waits for Python between steps: Scheduler.schedule and _prepare_inputs",
            13_900_000,
            step,
            Confidence::Established,
        ),
        finding(
            "launch",
            "launch_bound",
            "Steps are launched kernel by kernel: no CUDA graph",
            3_400_000,
            step,
            Confidence::Likely,
        ),
    ];
    document.total = 2;
    document
}

/// Reads of KV blocks stall steps.
pub(crate) fn storage() -> Document {
    let mut parts = DECODE;
    parts[10] = ("reads of KV blocks", "input", "input", 8_100_000);
    let mut document = base(2, 80, &parts);
    let mut random = Random(7);
    document.answer = Answer {
        shape: Shape::Cause,
        sentence: "Decode steps take 37.33 ms, of which the GPU idles 8.1 ms while KV blocks are read from disk.".to_owned(),
        bound: Some("input-bound".to_owned()),
        phase: Some("decode".to_owned()),
        step_time_ns: Some(document.budget[0].step_time_ns),
        cause: Some("disk_contention".to_owned()),
        finding: Some("kv-reads".to_owned()),
        rank: None,
    };
    document.findings = vec![finding(
        "kv-reads",
        "disk_reads",
        "The GPU idles while KV blocks are read from nvme0n1",
        7_800_000,
        total(&parts),
        Confidence::Established,
    )];
    document.total = 1;
    document.scope.files.push(File {
        name: "recordings/nvme0n1.blktrace".to_owned(),
        format: "blkparse".to_owned(),
        role: Role::BlockIo,
        bytes: 8_123_456,
        ..File::default()
    });
    document.scope.files.push(File {
        name: "recordings/gpu.csv".to_owned(),
        format: "unknown".to_owned(),
        role: Role::Unused,
        bytes: 99,
        problem: Some("no column names a time".to_owned()),
        ..File::default()
    });
    document.trust.files = 4;
    document.figures.storage = Some(Storage {
        clock: "The block log and the trace share CLOCK_MONOTONIC; joined by the start of the recording.".to_owned(),
        clock_within_ns: 48_000,
        bytes_per_step: (1..=80)
            .map(|step| {
                let reads = step % 9 < 3;
                StepBytes { rank: 0, step, bytes: if reads { 180_000_000 + random.below(60_000_000) } else { random.below(2_000_000) }, idle_ns: if reads { 21_000_000 + i64::try_from(random.below(6_000_000)).unwrap() } else { 0 } }
            })
            .collect(),
        bytes_per_token: Some(1_834_211.5),
        idle_while_reading_ns: 648_000_000,
        longest_ns: 9_412_000,
    });
    document
}

/// Before and after a change.
pub(crate) fn two_sides() -> Document {
    let mut after = DECODE;
    after[8].3 += 1_527_000;
    after[1].3 += 187_300;
    let mut document = base(1, 48, &DECODE);
    let (first, second) = (total(&DECODE), total(&after));
    document.budget = vec![
        budget(
            Side::Baseline,
            "decode",
            Some(0),
            48,
            None,
            Some(18_700_000),
            &DECODE,
        ),
        budget(
            Side::Candidate,
            "decode",
            Some(0),
            48,
            None,
            Some(18_700_000),
            &after,
        ),
    ];
    for (index, step) in document.figures.steps.iter_mut().enumerate() {
        step.side = if index % 2 == 0 {
            Side::Baseline
        } else {
            Side::Candidate
        };
        step.duration_ns += if index % 2 == 0 { 0 } else { second - first };
    }
    document.answer = Answer {
        shape: Shape::Cause,
        sentence: "Decode steps became 1.72 ms longer (29.33 to 31.04 ms): 1.53 ms are `Sampler.forward` on the host.".to_owned(),
        bound: Some("gpu-bound".to_owned()),
        phase: Some("decode".to_owned()),
        step_time_ns: Some(interval(second, 210_000)),
        cause: Some("host_code".to_owned()),
        finding: Some("sampler".to_owned()),
        rank: None,
    };
    let mut sampler = finding(
        "sampler",
        "host_bound",
        "Sampler.forward takes twice as long",
        1_490_000,
        second,
        Confidence::Likely,
    );
    sampler.place.side = Side::Candidate;
    document.findings = vec![sampler];
    document.total = 1;
    document.comparison = Some(Comparison {
        phase: "decode".to_owned(),
        baseline_ns: interval(first, 190_000),
        candidate_ns: interval(second, 210_000),
        difference_ns: interval(second - first, 280_000),
        parts: vec![
            DifferencePart {
                label: "function Sampler.forward".to_owned(),
                difference_ns: 1_527_000,
                finding: Some("sampler".to_owned()),
                ..DifferencePart::default()
            },
            DifferencePart {
                label: "GEMM".to_owned(),
                difference_ns: 187_300,
                finding: None,
                ..DifferencePart::default()
            },
            DifferencePart {
                label: "attention".to_owned(),
                difference_ns: -61_000,
                finding: None,
                ..DifferencePart::default()
            },
        ],
        unexplained_ns: second - first - 1_527_000 - 187_300 + 61_000,
        ..Comparison::default()
    });
    document
}

/// A recording without GPU activity.
pub(crate) fn cannot_say() -> Document {
    Document {
        schema_version: SCHEMA_VERSION,
        scope: Scope { files: vec![File { name: "cpu-only.json".to_owned(), format: "Kineto JSON".to_owned(), bytes: 12_345, rank: Some(0), ..File::default() }], ..Scope::default() },
        answer: Answer { shape: Shape::CannotSay, sentence: "Cannot say: cpu-only.json holds no GPU activity, so neither the step time nor its cause can be told. Record with activities=[CPU, CUDA].".to_owned(), ..Answer::default() },
        trust: Trust { files: 1, ranks_present: vec![0], ..Trust::default() },
        next: vec![Next { command: "inferscope trace-info summary cpu-only.json".to_owned(), shows: "what the recording holds".to_owned() }],
        not_recorded: vec![
            Missing { what: "GPU activity".to_owned(), decides: "Whether the steps are bound by the GPU, by the host or by communication.".to_owned(), record: "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])".to_owned() },
            Missing { what: "Steps of the engine".to_owned(), decides: "Where a decode step begins and ends.".to_owned(), record: "torch.profiler.record_function(\"decode\") around each step".to_owned() },
        ],
        appendix: appendix(),
        ..Document::default()
    }
}

/// Nothing abnormal.
pub(crate) fn nothing() -> Document {
    let mut document = base(2, 64, &DECODE);
    document.answer = Answer {
        shape: Shape::Nothing,
        sentence: "Nothing abnormal: 64 decode steps of 2 ranks take 29.33 ms each; a late rank, idle time, synchronization or a slow kernel that costs 0.52 ms of a step or more would have been found.".to_owned(),
        bound: Some("gpu-bound".to_owned()),
        phase: Some("decode".to_owned()),
        step_time_ns: Some(document.budget[0].step_time_ns),
        ..Answer::default()
    };
    document
}

/// Every document by name.
pub(crate) fn all() -> Vec<(&'static str, Document)> {
    vec![
        ("healthy", healthy()),
        ("late-rank", late_rank()),
        ("host-bound", host_bound()),
        ("storage", storage()),
        ("two-sides", two_sides()),
        ("cannot-say", cannot_say()),
        ("nothing", nothing()),
        ("one-step", base(1, 1, &DECODE)),
        ("many-steps", base(1, 10_000, &DECODE)),
        ("many-ranks", base(64, 300, &DECODE)),
    ]
}
