//! One fault each among many ranks, a thousand with `INFERSCOPE_FLEET_RANKS=1000`, which takes minutes: it is found, and nothing else
//! is named.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

use byte_source::Source;
use fleet::{Failure, Fleet, Kind, Racks, RankSummary, reduce, summarise, summary};
use perfetto_reader::{ArgPolicy, ReadOptions};
use serving_synth::fleet as synth;
use trace_model::parallel::in_parallel;

/// A multiple of 8, the devices of a host, above all numbers of the faults.
const RANKS: u32 = 144;

fn ranks() -> u32 {
    let text = std::env::var("INFERSCOPE_FLEET_RANKS").unwrap_or_default();
    text.parse().unwrap_or(RANKS)
}

/// Summary of a recording, and a hash of its text.
type Made = (u64, RankSummary);

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn summary_of(rank: u32, text: String) -> Result<RankSummary, Failure> {
    let name = synth::Fleet::name(rank);
    let mut options = ReadOptions::default();
    options.args = ArgPolicy::Only(summary::arg_keys());
    options.threads = 1;
    let failed = |error: &dyn std::fmt::Display| Failure::new(&name, &error.to_string());
    let source = Source::from_bytes(&name, text.into_bytes()).map_err(|error| failed(&error))?;
    let trace = perfetto_reader::read(source, &options).map_err(|error| failed(&error))?;
    Ok(summarise(&name, &trace))
}

/// Summarises the ranks of a job; those whose recording is that of the healthy job are not read again.
fn made(job: &synth::Fleet, healthy: &[Made]) -> Result<Vec<Made>, Failure> {
    let line = job.timeline();
    let ranks: Vec<u32> = (0..job.ranks).collect();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let all = in_parallel(&ranks, threads, |at, rank| {
        let text = line.rank(*rank);
        let hash = hash(&text);
        match healthy.get(at).filter(|known| known.0 == hash) {
            Some(known) => Ok(known.clone()),
            None => Ok((hash, summary_of(*rank, text)?)),
        }
    });
    all.into_iter().collect()
}

/// Returns kind, name and ranks of each finding.
fn said(found: &Fleet) -> Vec<(Kind, &str, &[u32])> {
    let each = found.findings.iter();
    each.map(|finding| (finding.kind, finding.id.as_str(), finding.ranks.as_slice()))
        .collect()
}

#[test]
fn each_fault_is_found_among_many_ranks() {
    let plain = synth::Fleet {
        ranks: ranks(),
        steps: 16,
        layers: 1,
        moving_start_ns: 10_000,
        ..synth::Fleet::default()
    };
    let compared = |made: &[Made], without: Option<u32>| {
        let kept = made.iter().map(|of| of.1.clone());
        let kept = kept.filter(|of| Some(of.rank) != without).map(Ok);
        reduce(kept, Vec::new(), &Racks::default()).unwrap()
    };
    let host = |host: u32| (host * 8..host * 8 + 8).collect::<Vec<u32>>();
    let healthy = made(&plain, &[]).unwrap();
    let found = compared(&healthy, None);
    assert_eq!(said(&found), []);
    let all = (ranks(), ranks() / 8);
    assert_eq!(
        (
            u32::try_from(found.scope.ranks),
            u32::try_from(found.scope.hosts)
        ),
        (Ok(all.0), Ok(all.1))
    );
    let found = compared(&healthy, Some(113));
    assert_eq!(
        said(&found),
        [(Kind::MissingRank, "missing_rank-ranks", &[113][..])]
    );
    type Plant = fn(&mut synth::Fleet);
    type Named = (Kind, &'static str, Vec<u32>);
    let faults: [(Plant, Vec<Named>); 7] = [
        (
            |job| job.late_ranks = vec![(117, 118, 1_000_000)],
            vec![(Kind::LateRank, "late_rank-117", vec![117])],
        ),
        (
            |job| job.late_hosts = Some((12, 13, 1_000_000)),
            vec![(Kind::LateHost, "late_host-host012", host(12))],
        ),
        (
            |job| job.slow_gpu = Some((117, 1300)),
            vec![
                (Kind::LateRank, "late_rank-117", vec![117]),
                (Kind::SlowDevice, "slow_device-117", vec![117]),
            ],
        ),
        (
            |job| job.slow_link = Some((5, 3000)),
            vec![(Kind::SlowLink, "slow_link-tp:5", host(5))],
        ),
        (
            |job| job.clock = Some((17, -52_000_000)),
            vec![(Kind::HostClock, "host_clock-host017", host(17))],
        ),
        (
            |job| job.other_kernel = Some(30),
            vec![(Kind::OtherKernels, "other_kernels-30", vec![30])],
        ),
        (
            |job| job.cut = Some((33, 6)),
            vec![(Kind::Truncated, "truncated-33", vec![33])],
        ),
    ];
    for (plant, expected) in faults {
        let mut job = plain.clone();
        plant(&mut job);
        let found = compared(&made(&job, &healthy).unwrap(), None);
        let expected: Vec<(Kind, &str, &[u32])> = expected
            .iter()
            .map(|(kind, id, ranks)| (*kind, *id, ranks.as_slice()))
            .collect();
        let titles: Vec<&str> = found.findings.iter().map(|f| f.title.as_str()).collect();
        assert_eq!(said(&found), expected, "{titles:#?}");
    }
}
