//! Captures with steps of several phases: which comes first decides nothing.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use byte_source::Source;
use rca_cycles::compare::analyse_pair;
use rca_cycles::{Options, Phase, family, reports};
use trace_model::Trace;

/// Steps of 1 ms with a kernel in each; `names` by their place.
fn recorded(steps: u32, name: impl Fn(u32) -> String) -> Trace {
    let mut events = Vec::new();
    for i in 0..steps {
        let (name, ts, id) = (name(i), 1_000 + i * 1_000, i + 1);
        events.push(format!(
            r#"{{"name":"{name}","cat":"user_annotation","ph":"X","pid":1,"tid":1,"ts":{ts},"dur":900}},
            {{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{ts},"dur":1,"args":{{"correlation":{id}}}}},
            {{"name":"gemm","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{},"dur":700,"args":{{"correlation":{id},"device":0}}}}"#,
            ts + 2
        ));
    }
    let json = format!("[{}]", events.join(","));
    let source = Source::from_bytes("mixed.json", json.into_bytes()).unwrap();
    perfetto_reader::read(source, &Default::default()).unwrap()
}

#[test]
fn the_first_step_decides_neither_the_cuts_nor_what_tables_call_a_step() {
    let sglang = |prompt: bool, i: u32| match prompt {
        true => format!("step[EXTEND bs=4 toks={}]", 4_000 + i),
        false => "step[DECODE bs=32 toks=32]".to_owned(),
    };
    let vllm = |prompt: bool, i: u32| {
        let (n, tokens) = if prompt { (1, 1_000 + i) } else { (0, 0) };
        format!(
            "execute_{}_context_{n}({tokens})_generation_32(32)",
            32 + tokens
        )
    };
    type NameOf<'a> = &'a dyn Fn(bool, u32) -> String;
    let kinds: [(NameOf<'_>, Phase); 2] = [(&sglang, Phase::Prefill), (&vllm, Phase::Mixed)];
    for (name, prompts) in kinds {
        // One side begins with a prompt, the other with tokens.
        let sides = [3, 0].map(|at| recorded(40, |i| name(i % 8 == at, i)));
        let pair = analyse_pair(&sides[0], &sides[1], &Options::default()).unwrap();
        assert_eq!((&pair.re_anchored, &pair.not_comparable), (&None, &None));
        assert_eq!(pair.normal.anchor, pair.abnormal.anchor);
        for (trace, analysis) in sides.iter().zip([&pair.normal, &pair.abnormal]) {
            assert_eq!(analysis.cycles.len(), 40);
            let of = |phase| analysis.cycles.iter().filter(|c| c.phase == phase).count();
            assert_eq!((of(Phase::Decode), of(prompts)), (35, 5));
            // Rows of tokens have the batch of their own step.
            for report in reports(trace, analysis) {
                let own = name(report.suffix != "_decode", 999);
                let rows = report.rows.iter();
                for row in rows {
                    assert_eq!(family(&row.anchor_name), family(&own));
                    assert_eq!(row.anchor_name == own, report.suffix == "_decode");
                }
            }
            // The name of the family cuts all kinds again.
            let mut options = Options::default();
            options.marker = Some(analysis.anchor.clone());
            let again = rca_cycles::analyse(trace, &options).unwrap();
            assert_eq!(again.cycles.len(), 40, "{}", analysis.anchor);
        }
    }
    assert_eq!(family("step[DECODE bs=32 toks=32]"), "step[* bs=# toks=#]");
    assert_eq!(family("decoder_7 Prefill"), "decoder_# *");
}

#[test]
fn spans_are_those_of_the_cycles() {
    let trace = recorded(12, |i| match i % 3 {
        0 => format!("step[EXTEND bs=4 toks={}]", 4_000 + i),
        _ => "step[DECODE bs=32 toks=32]".to_owned(),
    });
    let options = Options::default();
    let all = rca_cycles::analyse(&trace, &options).unwrap();
    let (method, spans) = rca_cycles::spans(&trace, &options).unwrap();
    assert_eq!(method, all.method);
    assert_eq!(spans.len(), all.cycles.len());
    for (span, cycle) in spans.iter().zip(&all.cycles) {
        assert_eq!(span.host_ns, cycle.host_ns);
        assert_eq!((span.phase, span.partial), (cycle.phase, cycle.partial));
    }
    let nothing = recorded(0, |_| String::new());
    assert!(rca_cycles::spans(&nothing, &options).is_err());
}
