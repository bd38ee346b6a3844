//! Compares two runs of one model on an H100 and an MI300 with the tables of TraceLens and HTA.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "nanoseconds become the reference's microseconds"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{csv, number, peers, read};
use gpu_time::GpuWork;
use gpu_time::diff::{Evidence, diff, hta, tracelens};
use trace_model::Trace;

fn both(peers: &Path) -> [Trace; 2] {
    ["h100_qwen15", "mi300_qwen15"].map(|n| read(&peers.join(format!("traces/{n}.json.gz"))))
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn every_piece_of_work_is_in_one_row_and_each_side_adds_up() {
    let peers = peers();
    let traces = both(&peers);
    let work = [GpuWork::new(&traces[0]), GpuWork::new(&traces[1])];
    let found = diff(&work[0], &work[1]);
    for (side, work) in work.iter().enumerate() {
        let events = work.events();
        let ns: i64 = events.iter().map(|e| e.dur_ns()).sum();
        let count = events.len() as u64;
        assert_eq!(
            (found.totals[side].events, found.totals[side].ns),
            (count, ns)
        );
        assert_eq!(found.totals[side].by_evidence_ns.iter().sum::<i64>(), ns);
        let rows = &found.kernels;
        assert_eq!(rows.iter().map(|r| r.count[side]).sum::<u64>(), count);
        assert_eq!(rows.iter().map(|r| r.ns[side]).sum::<i64>(), ns);
        let rows = &found.operators;
        assert_eq!(rows.iter().map(|r| r.kernels[side]).sum::<u64>(), count);
        assert_eq!(rows.iter().map(|r| r.ns[side]).sum::<i64>(), ns);
        // The sums equal the groups by name, kernel for kernel.
        let mut by_name: BTreeMap<&str, i64> = BTreeMap::new();
        for row in &found.kernels {
            if let Some(name) = &row.kernels[side] {
                *by_name.entry(name).or_default() += row.ns[side];
            }
        }
        let mut want: BTreeMap<&str, i64> = BTreeMap::new();
        for event in events {
            *want.entry(work.name(event)).or_default() += event.dur_ns();
        }
        assert_eq!(by_name, want);
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn runs_on_different_hardware_line_up() {
    let peers = peers();
    let traces = both(&peers);
    let found = diff(&GpuWork::new(&traces[0]), &GpuWork::new(&traces[1]));
    // Activity launched within the recordings is matched by structure, except for the memsets that
    // only one of the libraries needs.
    for total in &found.totals {
        let linked = total.ns - total.unlinked_ns;
        assert!(total.by_evidence_ns[0] * 100 > linked * 98, "{total:?}");
    }
    let products: Vec<_> = found
        .kernels
        .iter()
        .filter(|k| k.operator == "aten::mm" && k.evidence == Evidence::Structure)
        .collect();
    // Each side has 96 products, of differently named kernels.
    for side in 0..2 {
        assert_eq!(products.iter().map(|k| k.count[side]).sum::<u64>(), 96);
    }
    assert!(products.iter().all(|k| k.kernels[0] != k.kernels[1]));
    let fills = found
        .kernels
        .iter()
        .filter(|k| k.status() == "gone" && k.operator == "aten::mm");
    assert_eq!(fills.map(|k| k.count[0]).sum::<u64>(), 96);
    let mm = || found.operators.iter().filter(|o| o.operator == "aten::mm");
    for (side, kernels) in [192, 96].into_iter().enumerate() {
        assert_eq!(mm().map(|o| o.calls[side]).sum::<u64>(), 96);
        assert_eq!(mm().map(|o| o.kernels[side]).sum::<u64>(), kernels);
    }
    assert_eq!(mm().map(|o| o.matched).sum::<u64>(), 96);
    // The MLP of each of 24 layers has three, under the names of its modules.
    let mlp = mm().find(|o| o.calls == [72, 72]).unwrap();
    assert!(
        mlp.module.ends_with("DecoderLayer/Qwen2MLP/Linear"),
        "{mlp:?}"
    );
}

type Rows = Vec<(String, usize, String, String, i64, i64, String)>;

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn tracelens_rows() {
    let peers = peers();
    let traces = both(&peers);
    let ours = tracelens::diff_stats(&GpuWork::new(&traces[0]), &GpuWork::new(&traces[1]));
    let theirs = csv(&peers.join("diff_h100_vs_mi300_qwen15/tracelens/diff_stats_df.csv"));
    let ns = |row: &BTreeMap<String, String>, column: &str| {
        (number(row, column).unwrap() * 1000.0).round() as i64
    };
    let mut want: Rows = theirs
        .iter()
        .map(|r| {
            (
                r["name"].clone(),
                usize::from(r["source"] == "trace2"),
                r["cpu_op_name"].clone(),
                r["Input Dims"].clone()
                    + &r["Input Strides"]
                    + &r["Input type"]
                    + &r["Concrete Inputs"],
                ns(r, "kernel_time"),
                ns(r, "busy_time"),
                r["lowest_common_ancestor_name"].clone(),
            )
        })
        .collect();
    let mut got: Rows = ours
        .iter()
        .map(|r| {
            (
                r.name.clone(),
                r.side,
                r.operator.clone(),
                r.inputs.concat(),
                r.kernel_ns,
                r.busy_ns,
                r.ancestor.clone(),
            )
        })
        .collect();
    want.sort();
    got.sort();
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(&want) {
        assert_eq!(g, w);
    }
    // Equal rows have equal ancestors.
    type Group = Vec<(usize, String, i64)>;
    let groups = |rows: Vec<(String, (usize, String, i64))>| -> BTreeSet<(Group, usize)> {
        let mut table: BTreeMap<String, Group> = BTreeMap::new();
        for (ancestor, row) in rows {
            table.entry(ancestor).or_default().push(row);
        }
        let mut all: Vec<Group> = table.into_values().collect();
        all.iter_mut().for_each(|g| g.sort());
        all.sort();
        let mut counted: BTreeMap<Group, usize> = BTreeMap::new();
        for group in all {
            *counted.entry(group).or_default() += 1;
        }
        counted.into_iter().collect()
    };
    let of_theirs = theirs.iter().map(|r| {
        let side = usize::from(r["source"] == "trace2");
        let row = (side, r["name"].clone(), ns(r, "kernel_time"));
        (r["lowest_common_ancestor_id"].clone(), row)
    });
    let of_ours = ours.iter().map(|r| {
        let row = (r.side, r.name.clone(), r.kernel_ns);
        (r.ancestor_number.to_string(), row)
    });
    assert_eq!(groups(of_ours.collect()), groups(of_theirs.collect()));
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn hta_rows() {
    let peers = peers();
    let traces = both(&peers);
    let ours = hta::compare(&traces[0], &traces[1]);
    let theirs = csv(&peers.join("diff_h100_vs_mi300_qwen15/hta/compare_traces.csv"));
    let by_name: BTreeMap<&str, &BTreeMap<String, String>> =
        theirs.iter().map(|r| (r["name"].as_str(), r)).collect();
    let names: BTreeSet<&str> = ours.iter().map(|r| r.name.as_str()).collect();
    let want: BTreeSet<&str> = by_name.keys().copied().collect();
    let off: Vec<_> = names.symmetric_difference(&want).collect();
    assert!(off.is_empty(), "{off:?}");
    for row in &ours {
        let theirs = by_name[row.name.as_str()];
        for (ours, column) in [
            (row.counts[0], "control_counts"),
            (row.counts[1], "test_counts"),
            (row.total_us[0], "control_total_duration"),
            (row.total_us[1], "test_total_duration"),
        ] {
            assert_eq!(
                Some(ours as f64),
                number(theirs, column),
                "{column} of {row:?}"
            );
        }
        assert_eq!(row.change(), theirs["counts_change_categories"]);
    }
}
