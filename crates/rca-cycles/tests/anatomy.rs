//! A recording taken apart: counts that the generator knows, and sums over single instants.

#[path = "../../../xtask/src/dataset/faults/model.rs"]
#[expect(dead_code, reason = "the corpus uses more of it")]
mod model;

use byte_source::Source;
use model::{Config, KERNELS, make};
use rca_cycles::anatomy::{Folding, Node, anatomy};
use rca_cycles::{Options, analyse};

fn below(node: &Node, name: &str) -> usize {
    let own = if node.durations.name == name {
        node.durations.count
    } else {
        0
    };
    own + node.children.iter().map(|c| below(c, name)).sum::<usize>()
}

#[test]
fn cycles_are_taken_apart_down_to_kernels() {
    for seed in 1..5 {
        let made = make(Config {
            seed,
            prefill_every: 20,
            ..Config::default()
        });
        let source = Source::from_bytes("made.json", made.json.into_bytes()).unwrap();
        let trace = perfetto_reader::read(source, &Default::default()).unwrap();
        let analysis = analyse(&trace, &Options::default()).unwrap();
        let found = anatomy(&trace, &analysis, &[7], Folding::Wrappers);
        let slices: usize = found.categories.iter().map(|c| c.1).sum();
        assert_eq!(slices, trace.len());
        assert_eq!(found.layers[0].count, 60 * 8);
        assert!(found.operators.is_empty(), "no operators of a framework");
        // Who calls whom, in every iteration.
        let place = |name: &str| {
            let mut names = found.graph.functions.iter();
            names.position(|f| f.name == name).unwrap()
        };
        let calls = |from, to| {
            let wanted = (place(from), place(to));
            let edge = found.graph.calls.iter().find(|c| (c.0, c.1) == wanted);
            edge.map_or(0, |c| c.2)
        };
        let forward = "TpModelWorker.forward_batch_generation";
        assert_eq!(calls("Scheduler.run_batch", forward), 60);
        assert_eq!(calls("Qwen3DecoderLayer.forward", "Qwen3MLP.forward"), 480);
        assert_eq!(calls(forward, "Scheduler.run_batch"), 0);
        let one = &found.cycles[0];
        let outer = &one.by_depth[0];
        assert_eq!(outer[0].name, "Scheduler.run_batch", "seed {seed}");
        assert_eq!(one.python[0].name, "Scheduler.run_batch");
        // Eight layers alike are one, with all their kernels.
        assert_eq!(one.layers.len(), 1, "{:#?}", one.layers);
        let layer = &one.layers[0];
        assert_eq!(layer.durations.count, 8);
        for (name, _) in KERNELS {
            assert_eq!(below(layer, name), 8, "{name}");
        }
        assert_eq!(below(layer, "cudaLaunchKernel"), 32);
        let inner: i64 = layer.children.iter().map(|c| c.durations.total_ns).sum();
        assert_eq!(layer.own_ns, layer.durations.total_ns - inner);
        // One stream in order: the union is the sum.
        let sum: i64 = one.device.iter().map(|d| d.total_ns).sum();
        assert_eq!(one.busy_ns, sum);
        assert_eq!(one.streams.len(), 1);
        assert_eq!(one.streams[0].count, 32);
        assert!(one.idle_ns >= 0);
        // Folded further, depths that pass their time on are gone, and no kernel is.
        let folded = anatomy(&trace, &analysis, &[7], Folding::Aggressive);
        let folded = &folded.cycles[0];
        let totals: Vec<i64> = (one.by_depth.iter())
            .map(|level| level.iter().map(|d| d.total_ns).sum())
            .collect();
        let mut hidden = 0;
        for (depth, level) in one.by_depth.iter().enumerate() {
            let next = totals.get(depth + 1).copied().unwrap_or(0);
            let passes_on = next * 10 > totals[depth] * 9;
            hidden += usize::from(passes_on);
            let expected = if passes_on { &[][..] } else { level };
            assert_eq!(folded.by_depth[depth], expected, "depth {depth}");
        }
        assert!(hidden > 0, "{totals:?}");
        for (name, _) in KERNELS {
            let kernels: usize = folded.layers.iter().map(|l| below(l, name)).sum();
            assert_eq!(kernels, 8, "{name}");
        }
    }
}
