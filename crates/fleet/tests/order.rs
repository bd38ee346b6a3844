//! The order of findings: what costs most leads, whatever its certainty, and the first sentence follows it.

mod written_jobs;

use fleet::Strength;
use serving_synth::fleet as synth;
use written_jobs::{findings, titles};

#[test]
fn what_costs_most_leads_and_what_has_no_cost_follows() {
    // A slow link is likely only, as a topology may be its reason. It costs more than a late rank of its own, or less.
    for (permille, late_ns, first) in [
        (8_000, 100_000, "slow_link-tp:5"),
        (1_500, 3_000_000, "late_rank-9"),
    ] {
        let job = synth::Fleet {
            slow_link: Some((5, permille)),
            late_ranks: vec![(9, 10, late_ns)],
            other_kernel: Some(30),
            cut: Some((33, 6)),
            ..synth::Fleet::default()
        };
        let (found, _) = findings(&job);
        let titles = titles(&found);
        let all = &found.findings;
        assert_eq!(all[0].id, first, "{titles:#?}");
        assert!(found.answer.starts_with(&all[0].title), "{}", found.answer);
        let of_job = all.iter().filter(|of| !of.kind.is_about_recordings());
        let order: Vec<_> = of_job.map(|of| (of.cost_ns, of.strength)).collect();
        assert!(order.is_sorted_by(|a, b| a.0 >= b.0), "{order:?}");
        let strengths: Vec<Strength> = order.iter().map(|of| of.1).collect();
        assert!(strengths.contains(&Strength::Likely), "{titles:#?}");
        let ids: Vec<&str> = all.iter().map(|of| of.id.as_str()).collect();
        let at = |id: &str| ids.iter().position(|known| *known == id);
        // Another kernel has no cost; a cut recording is about recordings.
        assert!(at("late_rank-9") < at("other_kernels-30"), "{ids:?}");
        assert_eq!(at("truncated-33"), Some(ids.len() - 1), "{ids:?}");
    }
}
