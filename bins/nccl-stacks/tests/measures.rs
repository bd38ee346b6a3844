//! Compares links, exposed communication and bandwidths of real recordings with brute force.

use byte_source::{OpenOptions, Source};
use launch_stacks::{
    CollectiveReader, Exposure, HiddenBy, KernelSelector, Linking, NameMatch, TraceIndex,
    graph_launches, launches,
};
use perfetto_reader::ReadOptions;
use serde_json::{Value, json};
use trace_model::kernel::Vocabulary;

use crate::support::{data, json as read_json};

const COLLECTIVES: &str = "(?i)^(nccl(Dev)?Kernel|rccl)|multimem_all_reduce|cross_device_reduce";

fn four_decimals(x: Option<f64>) -> Value {
    json!(x.map(|x| (x * 1e4).round() / 1e4))
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn measured_as_by_brute_force() {
    let data = data();
    let measures = read_json(&data.join("measures.json"));
    let measures = measures.as_object().unwrap();
    assert!(measures.len() >= 5);
    for (name, want) in measures {
        let path = data.join("traces").join(name);
        let source = Source::open(&path, &OpenOptions::default()).unwrap();
        let trace = perfetto_reader::read(source, &ReadOptions::default()).unwrap();
        let index = TraceIndex::new(&trace, Vocabulary::default());

        let mut all = KernelSelector::default();
        all.names.push(NameMatch::glob("*"));
        let best = launches(&index, &all, Linking::Best);
        let flows = launches(&index, &all, Linking::Flows);
        assert_eq!(json!(best.kernels), want["kernels"], "{name}");
        let by_correlation = best.by_method()[0].1;
        assert_eq!(
            json!(by_correlation),
            want["kernels_linked_by_correlation"],
            "{name}"
        );
        let mut with_flow: Vec<_> = flows.links.iter().map(|l| l.kernel).collect();
        with_flow.dedup();
        assert_eq!(
            json!(with_flow.len()),
            want["kernels_with_flow_start"],
            "{name}"
        );
        assert_eq!(
            json!(best.under_graphs()),
            want["kernels_under_graph_launch"],
            "{name}"
        );
        assert_eq!(
            json!(best.kernels - by_correlation),
            want["kernels_unlinked"],
            "{name}"
        );
        let graphs = graph_launches(&index, &best.links);
        assert_eq!(
            json!(graphs.len()),
            want["graph_launches_with_kernels"],
            "{name}"
        );

        let pattern = NameMatch::regex(COLLECTIVES).unwrap();
        // In the reference all other activity, including memcpy, hides communication.
        let by = HiddenBy::AnyActivity;
        let by_pattern = Exposure::new(&index, by, |s| pattern.matches(s.name().unwrap_or("")));
        let by_table = Exposure::new(&index, by, |s| index.is_collective(s));
        let times: Vec<_> = by_pattern.devices().collect();
        assert_eq!(
            times,
            by_table.devices().collect::<Vec<_>>(),
            "{name}: the table of kernels agrees with the pattern"
        );
        if let Some(devices) = want.get("devices").and_then(Value::as_object) {
            for (device, want) in devices {
                let (_, t) = times
                    .iter()
                    .find(|(d, _)| d.0.to_string() == *device)
                    .unwrap();
                assert_eq!(
                    json!(t.collective_ns),
                    want["collective_union_ns"],
                    "{name}"
                );
                assert_eq!(json!(t.other_ns), want["other_union_ns"], "{name}");
                assert_eq!(json!(t.exposed_ns), want["exposed_ns"], "{name}");
                assert_eq!(json!(t.hidden_ns), want["hidden_ns"], "{name}");
                assert_eq!(t.exposed_ns + t.hidden_ns, t.collective_ns, "{name}");
            }
        }

        let reader = CollectiveReader::new(&trace);
        let mut runs: Vec<Value> = trace
            .slices()
            .filter(|s| index.is_kernel(*s))
            .filter_map(|s| {
                let what = reader.on(s)?;
                let dur = s.dur()?.get();
                Some(json!({
                    "ts_ns": s.ts().nanos(),
                    "collective": what.name,
                    "bytes": what.bytes,
                    "dur_ns": dur,
                    "group": what.group_size,
                    "algbw_GBps": four_decimals(what.algbw(dur)),
                    "busbw_GBps": four_decimals(what.busbw(dur)),
                }))
            })
            .collect();
        runs.truncate(40);
        if let Some(want) = want.get("bandwidth_first40") {
            assert_eq!(json!(runs), *want, "{name}");
        }
    }
}
