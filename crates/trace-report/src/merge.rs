//! The clocks of recordings that are merged into one.

use gpu_time::GpuWork;
use gpu_time::comm::{CommRules, Job, RankDigest, assign_ranks};
use trace_convert::Alignment;
use trace_model::Trace;

use crate::Result;

/// Reduces a recording to its collectives; `name` is that of the file.
#[must_use]
pub fn digest(name: &str, trace: &Trace) -> RankDigest {
    let work = GpuWork::new(trace);
    RankDigest::of_part(name, work.index(), CommRules::Extended, |_| true)
}

/// A recording that is placed on the clock of the first one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Placed {
    /// Name of the file.
    pub source: String,
    /// Name of the rank.
    pub label: String,
    /// Time of the file's zero since 1970.
    pub base_ns: i64,
    /// Its clock against that of the first one.
    pub alignment: Alignment,
    /// `true` if its clock should have been estimated, and no collective joins it to that of the first rank: it is as recorded.
    pub is_unaligned: bool,
}

/// Places the recordings of a job, sorted by rank, on the clock of the first one: as recorded, or with `align` by the ends of
/// collectives that wait for all ranks.
///
/// # Errors
///
/// Returns an error if the recordings are not the ranks of one job.
pub fn place(mut digests: Vec<RankDigest>, align: bool) -> Result<Vec<Placed>> {
    assign_ranks(&mut digests)?;
    let job = align.then(|| Job::new(&digests));
    let base = digests.first().map_or(0, |digest| digest.base_time_ns);
    let mut ranks = Vec::with_capacity(digests.len());
    for (at, digest) in digests.iter().enumerate() {
        let own = digest.base_time_ns;
        let recorded = match (base, own) {
            (0, _) | (_, 0) => 0,
            (base, own) => own.saturating_sub(base),
        };
        let mut alignment = Alignment {
            offset_ns: recorded,
            error_ns: None,
        };
        let clock = job.as_ref().and_then(|job| job.clocks.get(at)?.as_ref());
        let wants_clock = align && at > 0;
        if let Some(clock) = clock.filter(|_| wants_clock) {
            let middle = middle(digest);
            let reference = clock.fit.to_reference(middle.saturating_add(own));
            alignment = Alignment {
                offset_ns: reference.saturating_sub(base).saturating_sub(middle),
                error_ns: Some(clock.fit.error_at(middle.saturating_add(own))),
            };
        }
        ranks.push(Placed {
            source: digest.source.clone(),
            label: format!("rank {}", digest.rank.0),
            base_ns: own,
            alignment,
            is_unaligned: wants_clock && clock.is_none(),
        });
    }
    Ok(ranks)
}

/// Returns the middle of the collectives of a rank, in the time of its file.
fn middle(digest: &RankDigest) -> i64 {
    let starts = digest.runs.iter().map(|run| run.start_ns);
    let ends = digest.runs.iter().map(|run| run.end_ns);
    match (starts.min(), ends.max()) {
        (Some(start), Some(end)) => start.midpoint(end),
        _ => 0,
    }
}
