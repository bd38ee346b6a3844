//! What bounds a step is who waits for whom, not what takes most of it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use byte_source::Source;
use rca_cycles::{Bound, Options, Verdict, analyse, bottlenecks};

/// Steps of 20 operators of 100 us that launch a kernel each; a stream runs one kernel at a time.
fn verdict(kernel_us: u32) -> (Verdict, Vec<Option<Bound>>) {
    let mut events = Vec::new();
    let (mut at, mut free, mut id) = (1_000, 0, 0);
    for step in 0..20 {
        let start = at;
        for _ in 0..20 {
            id += 1;
            free = free.max(at + 15);
            events.push(format!(
                r#"{{"name":"aten::mm","cat":"cpu_op","ph":"X","pid":1,"tid":1,"ts":{at},"dur":99}},
                {{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{},"dur":5,"args":{{"correlation":{id}}}}},
                {{"name":"gemm","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{free},"dur":{kernel_us},"args":{{"correlation":{id},"device":0}}}}"#,
                at + 5
            ));
            free += kernel_us;
            at += 100;
        }
        // The tokens of the step are read at its end.
        let wait = free.max(at) - at + 5;
        events.push(format!(
            r#"{{"name":"cudaStreamSynchronize","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{at},"dur":{wait}}},
            {{"name":"step[DECODE bs={step}]","cat":"user_annotation","ph":"X","pid":1,"tid":1,"ts":{start},"dur":{}}}"#,
            at + wait - start
        ));
        at += wait + 1;
    }
    let json = format!("[{}]", events.join(","));
    let source = Source::from_bytes("eager.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    let analysis = analyse(&trace, &Options::default()).unwrap();
    let found = bottlenecks(&analysis)[0].verdict;
    (found, analysis.cycles.iter().map(|c| c.bound()).collect())
}

#[test]
fn kernels_that_wait_for_their_launch_do_not_bound_the_step() {
    // The GPU works for most of the step in each case.
    for (kernel_us, want, bound) in [
        (60, Verdict::Host, Bound::Host),
        (80, Verdict::Host, Bound::Host),
        (130, Verdict::Gpu, Bound::Gpu),
    ] {
        let (found, cycles) = verdict(kernel_us);
        assert_eq!(found, want, "{kernel_us}");
        let like = cycles.iter().filter(|c| **c == Some(bound)).count();
        assert!(like >= 18, "{kernel_us}: {cycles:?}");
    }
}
