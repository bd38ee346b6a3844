//! Collectives of a job.

use std::collections::BTreeMap;
use std::sync::Arc;

use report::{Cell, Column, Table, Unit};
use trace_model::kernel::collective::{Collective, SizeSource};

use super::{count, nanos, pct, real_nanos};
use crate::comm::{CauseKind, CollectiveTime, CommSummary, Job, RankDigest, Run, summarise};

mod tracelens;

pub use tracelens::{
    tracelens_long, tracelens_long_summary, tracelens_sync, tracelens_sync_summary,
};

fn rate(name: &'static str, title: &'static str) -> Column {
    Column::real(name).unit(Unit::BytesPerSecond).title(title)
}

fn bytes(name: &'static str, title: &'static str) -> Column {
    Column::uint(name).unit(Unit::Bytes).title(title)
}

fn run_of(digests: &[RankDigest], (member, place): (usize, usize)) -> Option<(&RankDigest, &Run)> {
    let digest = digests.get(member)?;
    Some((digest, digest.runs.get(place)?))
}

fn rank_at(digests: &[RankDigest], c: &CollectiveTime, at: Option<usize>) -> Cell<'static> {
    at.and_then(|i| c.matched.runs.get(i))
        .and_then(|r| digests.get(r.0))
        .map(|d| d.rank.0)
        .into()
}

/// Returns the source of the message size.
fn size_source(what: &Collective) -> &'static str {
    what.size_source.map_or("unknown", SizeSource::name)
}

/// Returns one row for each collective kernel of each rank, by rank and start.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn kernels(digests: &[RankDigest], job: &Job) -> report::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::uint("collective"),
        Column::text("group"),
        Column::text("group_ranks").title("ranks of the group"),
        Column::uint("group_size"),
        Column::int("seq"),
        Column::text("type"),
        Column::text("name"),
        Column::text("kernel"),
        Column::text("library"),
        Column::text("dtype"),
        bytes("in_bytes", "in"),
        bytes("out_bytes", "out"),
        bytes("message_bytes", "message"),
        Column::text("message_from").title("message known by"),
        Column::int("device"),
        Column::int("stream"),
        Column::int("start_ns").title("start by the file's own clock"),
        Column::int("aligned_start_ns").title("start by the first rank's clock"),
        nanos("dur_ns", "duration"),
        nanos("exposed_ns", "exposed"),
        nanos("overlapped_ns", "overlapped"),
        nanos("wait_ns", "wait"),
        rate("algbw_bytes_per_s", "algorithm bandwidth"),
        rate("busbw_bytes_per_s", "bus bandwidth"),
        nanos("launch_to_start_ns", "launch to start"),
        Column::text("source").title("trace"),
    ];
    let mut table = Table::new("kernels", columns)?;
    // By kernel: index of the collective and of the kernel in it.
    let mut at: BTreeMap<(usize, usize), (usize, usize)> = BTreeMap::new();
    for (i, c) in job.collectives.iter().enumerate() {
        for (k, run) in c.matched.runs.iter().enumerate() {
            at.insert(*run, (i, k));
        }
    }
    for (member, digest) in digests.iter().enumerate() {
        for (place, run) in digest.runs.iter().enumerate() {
            let Some((number, c, k)) = at
                .get(&(member, place))
                .and_then(|(i, k)| Some((*i, job.collectives.get(*i)?, *k)))
            else {
                continue;
            };
            let Some(group) = job.groups.get(c.matched.group) else {
                continue;
            };
            let label = group.key.label();
            let own = digest.what(run);
            let mut what = own.filter(|w| w.op.is_some()).unwrap_or(&c.what).clone();
            if let (None, Some(ranks)) = (what.group_size, c.what.group_size) {
                Arc::make_mut(&mut what.kind).set_group_size(ranks);
            }
            let what = &what;
            let dur = run.duration_ns();
            table.push(&[
                digest.rank.0.into(),
                number.into(),
                label.as_str().into(),
                group.key.ranks.as_deref().into(),
                what.group_size.into(),
                run.seq.into(),
                what.type_name().into(),
                Some(what.name.as_str()).filter(|n| !n.is_empty()).into(),
                digest.kernel_name(run).into(),
                run.library.name().into(),
                what.dtype.as_deref().into(),
                what.bytes_of(what.elements_in).into(),
                what.bytes_of(what.elements_out).into(),
                what.bytes.into(),
                size_source(what).into(),
                run.device.0.into(),
                run.stream.0.into(),
                run.start_ns.into(),
                c.start_ns.get(k).copied().flatten().into(),
                dur.into(),
                run.exposed_ns.into(),
                run.overlapped_ns().into(),
                c.wait_ns.get(k).copied().flatten().into(),
                what.algbw(dur).map(|b| b * 1e9).into(),
                what.busbw(dur).map(|b| b * 1e9).into(),
                run.launch_ns.map(|l| run.start_ns.saturating_sub(l)).into(),
                digest.source.as_str().into(),
            ])?;
        }
    }
    Ok(table)
}

/// Returns one row for each collective, by group and time.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn collectives(digests: &[RankDigest], job: &Job) -> report::Result<Table> {
    let columns = vec![
        Column::uint("collective"),
        Column::text("group"),
        Column::int("seq"),
        Column::text("type"),
        Column::text("dtype"),
        bytes("message_bytes", "message"),
        Column::text("message_from").title("message known by"),
        Column::uint("group_size"),
        count("recorded", "ranks recorded"),
        count("missing", "ranks missing"),
        Column::int("aligned_start_ns").title("first start by the first rank's clock"),
        nanos("latency_ns", "latency"),
        Column::bool("latency_includes_wait"),
        rate("algbw_bytes_per_s", "algorithm bandwidth"),
        rate("busbw_bytes_per_s", "bus bandwidth"),
        nanos("exposed_ns", "exposed on all ranks"),
        nanos("skew_ns", "skew"),
        nanos("skew_error_ns", "error of the skew"),
        nanos("end_skew_ns", "skew of the ends"),
        nanos("wait_ns", "all waits"),
        Column::uint("first_rank"),
        Column::uint("last_rank"),
        nanos("late_ns", "last after the one before"),
        nanos("passed_on_ns", "by waits in other groups"),
        nanos("charged_ns", "cost to others"),
        Column::bool("contradiction"),
        Column::text("cause"),
        Column::text("cause_name"),
        nanos("cause_excess_ns", "excess of the cause"),
    ];
    let mut table = Table::new("collectives", columns)?;
    for (number, c) in job.collectives.iter().enumerate() {
        let label = job.groups.get(c.matched.group).map(|g| g.key.label());
        let runs = || c.matched.runs.iter().filter_map(|r| run_of(digests, *r));
        let cause = c.cause.as_ref();
        table.push(&[
            number.into(),
            label.as_deref().into(),
            c.what.seq.into(),
            c.what.type_name().into(),
            c.what.dtype.as_deref().into(),
            c.what.bytes.into(),
            size_source(&c.what).into(),
            c.what.group_size.into(),
            c.matched.runs.len().into(),
            c.missing.map(|m| m as u64).into(),
            c.start_ns.iter().flatten().min().copied().into(),
            c.latency_ns.into(),
            c.includes_waiting().into(),
            c.algbw_bytes_per_s().into(),
            c.busbw_bytes_per_s().into(),
            runs().map(|r| r.1.exposed_ns).sum::<i64>().into(),
            c.skew_ns.into(),
            c.skew_ns.map(|_| c.error_ns).into(),
            c.end_skew_ns.into(),
            c.knows_waits().then(|| c.total_wait_ns()).into(),
            rank_at(digests, c, c.first),
            rank_at(digests, c, c.last),
            c.late_ns.into(),
            c.passed_on_ns.into(),
            c.charged_ns.into(),
            c.contradiction.into(),
            cause.map(|x| x.kind.name()).into(),
            cause.and_then(|x| x.name.as_deref()).into(),
            cause.map(|x| x.excess_ns()).into(),
        ])?;
    }
    Ok(table)
}

/// Returns one row for each rank: its clock, its communication, its wait time, and the delay that
/// it caused to other ranks.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn ranks(digests: &[RankDigest], job: &Job) -> report::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::text("source").title("trace"),
        Column::text("rank_source").title("rank known by"),
        Column::int("base_time_ns").title("added to times, since 1970"),
        count("kernels", "kernels"),
        count("annotated", "with metadata"),
        count("sized_by_operator", "sized by operator"),
        count("unlinked", "without launch"),
        nanos("comm_ns", "communication"),
        nanos("exposed_ns", "exposed"),
        nanos("overlapped_ns", "overlapped"),
        nanos("computation_ns", "computation"),
        nanos("busy_ns", "busy"),
        nanos("span_ns", "span"),
        Column::uint("clock_via_rank"),
        count("clock_samples", "collectives for the clock"),
        nanos("clock_ahead_ns", "clock ahead"),
        nanos("clock_error_ns", "error of the offset"),
        Column::real("drift_ppb").title("drift in ppb"),
        Column::real("drift_low_ppb").title("at least"),
        Column::real("drift_high_ppb").title("at most"),
        nanos("clock_noise_ns", "noise of the ends"),
        count("collectives", "collectives with known waits"),
        nanos("waited_ns", "waited"),
        nanos("inflicted_ns", "others waited for it"),
        nanos("avoidable_ns", "avoidable"),
        count("times_last", "last"),
        count("times_first", "first"),
        Column::text("cause").title("main cause"),
        Column::text("cause_name"),
        count("cause_times", "times"),
    ];
    let mut table = Table::new("ranks", columns)?;
    for ((digest, clock), sum) in digests.iter().zip(&job.clocks).zip(&job.ranks) {
        let fit = clock.map(|c| c.fit);
        let via = clock.and_then(|c| digests.get(c.via)).map(|d| d.rank.0);
        let finite = |x: f64| x.is_finite().then_some(x);
        let cause = sum.causes.first();
        let known = |ns: i64| (sum.collectives > 0).then_some(ns);
        let times = |n: usize| (sum.collectives > 0).then_some(n as u64);
        table.push(&[
            digest.rank.0.into(),
            digest.source.as_str().into(),
            digest.rank_source.name().into(),
            digest.base_time_ns.into(),
            digest.runs.len().into(),
            digest.annotated.into(),
            digest.sized_by_operator.into(),
            digest.unlinked.into(),
            digest.time.comm_ns.into(),
            digest.time.exposed_ns.into(),
            digest.time.overlapped_ns.into(),
            digest.time.computation_ns.into(),
            digest.time.busy_ns.into(),
            digest.time.span_ns.into(),
            via.into(),
            fit.map(|f| f.samples as u64).into(),
            fit.map(|f| f.ahead_ns).into(),
            fit.map(|f| f.ahead_error_ns).into(),
            fit.map(|f| f.drift_ppb).into(),
            fit.and_then(|f| finite(f.drift_low_ppb)).into(),
            fit.and_then(|f| finite(f.drift_high_ppb)).into(),
            fit.map(|f| f.noise_ns).into(),
            sum.collectives.into(),
            known(sum.waited_ns).into(),
            known(sum.inflicted_ns).into(),
            known(sum.avoidable_ns).into(),
            times(sum.times_last).into(),
            times(sum.times_first).into(),
            cause.map(|c| c.0.kind.name()).into(),
            cause.and_then(|c| c.0.name.as_deref()).into(),
            cause.map(|c| c.1 as u64).into(),
        ])?;
    }
    Ok(table)
}

/// Returns the ranks for text output: the main columns in 80 characters.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn ranks_narrow(digests: &[RankDigest], job: &Job) -> report::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        nanos("clock_ahead_ns", "clock ahead"),
        nanos("clock_error_ns", "±"),
        pct("exposed_pct", "exposed"),
        nanos("waited_ns", "wait time"),
        nanos("inflicted_ns", "delay caused"),
        Column::int("times_last").unit(Unit::Count).title("last"),
        Column::text("cause").title("why"),
    ];
    let mut table = Table::new("ranks", columns)?;
    for ((digest, clock), sum) in digests.iter().zip(&job.clocks).zip(&job.ranks) {
        let fit = clock.map(|c| c.fit);
        let time = &digest.time;
        let share = crate::percent(time.exposed_ns, time.span_ns);
        let cause = sum.causes.first();
        let cause = cause.map(|c| match (c.0.kind, c.0.short_name()) {
            (CauseKind::PassedOn, Some(name)) => format!("{} {name}", c.0.kind.words()),
            (_, Some(name)) => name,
            (kind, None) => kind.words().to_owned(),
        });
        // Wait time is unknown for a single rank.
        let known = |ns: i64| (sum.collectives > 0).then_some(ns);
        table.push(&[
            digest.rank.0.into(),
            fit.map(|f| f.ahead_ns).into(),
            fit.map(|f| f.ahead_error_ns).into(),
            share.into(),
            known(sum.waited_ns).into(),
            known(sum.inflicted_ns).into(),
            known(i64::try_from(sum.times_last).unwrap_or(i64::MAX)).into(),
            cause.as_deref().into(),
        ])?;
    }
    Ok(table)
}

/// Returns one row for each group of ranks.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn groups(digests: &[RankDigest], job: &Job) -> report::Result<Table> {
    let columns = vec![
        Column::text("group"),
        Column::text("group_ranks").title("ranks of the group"),
        count("recorded", "ranks recorded"),
        count("collectives", "collectives"),
        count("partial", "not on all recorded"),
        count("ambiguous", "ranks aligned ambiguously"),
        count("contradictions", "contradictions"),
        nanos("kernel_ns", "kernel time"),
        nanos("exposed_ns", "exposed"),
        nanos("wait_ns", "all waits"),
        nanos("max_skew_ns", "largest skew"),
    ];
    let mut table = Table::new("groups", columns)?;
    for (at, group) in job.groups.iter().enumerate() {
        let label = group.key.label();
        let of = || job.collectives.iter().filter(|c| c.matched.group == at);
        let runs = || {
            of().flat_map(|c| &c.matched.runs)
                .filter_map(|r| run_of(digests, *r))
        };
        let members = group.members.len();
        table.push(&[
            label.as_str().into(),
            group.key.ranks.as_deref().into(),
            members.into(),
            of().count().into(),
            of().filter(|c| c.matched.runs.len() < members)
                .count()
                .into(),
            group.ambiguous.len().into(),
            of().filter(|c| c.contradiction).count().into(),
            runs().map(|r| r.1.duration_ns()).sum::<i64>().into(),
            runs().map(|r| r.1.exposed_ns).sum::<i64>().into(),
            of().any(CollectiveTime::knows_waits)
                .then(|| of().map(CollectiveTime::total_wait_ns).sum::<i64>())
                .into(),
            of().filter_map(|c| c.skew_ns).max().into(),
        ])?;
    }
    Ok(table)
}

/// Returns one row for each operation, group, dtype and size, most kernel time first.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn types(digests: &[RankDigest], job: &Job) -> report::Result<Table> {
    let columns = vec![
        Column::text("type"),
        Column::text("group"),
        Column::text("library"),
        Column::text("dtype"),
        bytes("message_bytes", "message"),
        count("collectives", "collectives"),
        count("kernels", "kernels"),
        nanos("kernel_ns", "kernel time"),
        nanos("exposed_ns", "exposed"),
        count("complete", "complete"),
        nanos("latency_ns", "latency, all"),
        Column::bool("latency_includes_wait"),
        nanos("min_latency_ns", "least"),
        real_nanos("median_latency_ns", "median"),
        nanos("max_latency_ns", "most"),
        Column::real("mean_skew_ns")
            .unit(Unit::Nanos)
            .title("mean skew"),
        nanos("wait_ns", "all waits"),
        rate("algbw_bytes_per_s", "algorithm bandwidth"),
        rate("busbw_bytes_per_s", "bus bandwidth"),
    ];
    let mut table = Table::new("types", columns)?;
    for row in summarise(digests, job) {
        let label = job.groups.get(row.key.group).map(|g| g.key.label());
        table.push(&[
            row.key.op.map(|op| op.name()).into(),
            label.as_deref().into(),
            row.key.library.name().into(),
            row.key.dtype.as_deref().into(),
            row.key.bytes.into(),
            row.collectives.into(),
            row.kernels.into(),
            row.kernel_ns.into(),
            row.exposed_ns.into(),
            row.complete.into(),
            row.latency_ns.into(),
            row.includes_waiting.into(),
            row.min_latency_ns.into(),
            row.median_latency_ns.into(),
            row.max_latency_ns.into(),
            row.mean_skew_ns.into(),
            row.wait_ns.into(),
            row.algbw_bytes_per_s.into(),
            row.busbw_bytes_per_s.into(),
        ])?;
    }
    Ok(table)
}

/// Returns the collectives that hosts carried out themselves, by rank and kind, most time first.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn host(digests: &[RankDigest]) -> report::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::text("name"),
        Column::text("type"),
        Column::text("dtype"),
        bytes("in_bytes", "in"),
        bytes("message_bytes", "message"),
        count("count", "n"),
        nanos("sum_ns", "sum"),
        real_nanos("median_ns", "median"),
        nanos("max_ns", "max"),
    ];
    let mut table = Table::new("host_collectives", columns)?;
    for digest in digests {
        for row in &digest.host {
            table.push(&[
                digest.rank.0.into(),
                row.what.name.as_str().into(),
                row.what.type_name().into(),
                row.what.dtype.as_deref().into(),
                row.what.bytes_of(row.what.elements_in).into(),
                row.what.bytes.into(),
                row.durations.count.into(),
                row.durations.sum_ns.into(),
                row.durations.median_ns.into(),
                row.durations.max_ns.into(),
            ])?;
        }
    }
    Ok(table)
}

/// Returns the types for text output: the main columns in 80 characters.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn types_narrow(digests: &[RankDigest], job: &Job, top: usize) -> report::Result<Table> {
    let rows = summarise(digests, job);
    let latency = match rows.iter().any(|row| row.includes_waiting) {
        true => "with wait",
        false => "latency",
    };
    // Complete collectives are counted apart only where some are not.
    let has_partial = rows.iter().any(CommSummary::is_partly_complete);
    let mut columns = vec![
        Column::text("type"),
        Column::text("group"),
        bytes("message_bytes", "message"),
        count("collectives", "n"),
    ];
    if has_partial {
        columns.push(count("complete", "complete"));
    }
    columns.extend([
        nanos("exposed_ns", "exposed"),
        real_nanos("mean_latency_ns", latency),
        rate("busbw_bytes_per_s", "bus"),
        nanos("wait_ns", "waits"),
    ]);
    let mut table = Table::new("types", columns)?;
    for row in rows.iter().take(top) {
        let label = job.groups.get(row.key.group).map(|g| g.key.label());
        let mut cells: Vec<Cell<'_>> = vec![
            row.key.op.map_or("(unknown)", |op| op.name()).into(),
            label.as_deref().into(),
            row.key.bytes.into(),
            row.collectives.into(),
        ];
        if has_partial {
            cells.push(row.complete.into());
        }
        let more: [Cell<'_>; 4] = [
            row.exposed_ns.into(),
            row.mean_latency_ns().into(),
            row.busbw_bytes_per_s.into(),
            row.wait_ns.into(),
        ];
        cells.extend(more);
        table.push(&cells)?;
    }
    Ok(table)
}

/// Returns the collectives whose last rank was late by more than the clocks' error, most costly
/// first, with the work of the rank before.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn late(digests: &[RankDigest], job: &Job, top: usize) -> report::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::text("group"),
        Column::int("aligned_start_ns").title("start by the first rank's clock"),
        nanos("late_ns", "late by"),
        nanos("passed_on_ns", "by waits in other groups"),
        nanos("charged_ns", "cost to others"),
        nanos("wait_ns", "all waits"),
        Column::text("cause").title("why"),
        Column::text("cause_name").title("what"),
        nanos("here_ns", "here"),
        nanos("others_ns", "others"),
        Column::int("here_count").unit(Unit::Count).title("n here"),
        Column::int("others_count")
            .unit(Unit::Count)
            .title("n others"),
    ];
    let mut table = Table::new("late", columns)?;
    for c in job.late().into_iter().take(top) {
        let label = job.groups.get(c.matched.group).map(|g| g.key.label());
        let cause = c.cause.as_ref();
        table.push(&[
            rank_at(digests, c, c.last),
            label.as_deref().into(),
            c.last
                .and_then(|i| c.start_ns.get(i).copied().flatten())
                .into(),
            c.late_ns.into(),
            c.passed_on_ns.into(),
            c.charged_ns.into(),
            c.total_wait_ns().into(),
            cause.map(|x| x.kind.name()).into(),
            cause.and_then(|x| x.name.as_deref()).into(),
            cause.map(|x| x.here_ns).into(),
            cause.map(|x| x.others_ns).into(),
            cause.map(|x| x.here_count).into(),
            cause.map(|x| x.others_count).into(),
        ])?;
    }
    Ok(table)
}

/// Returns the late collectives for text output: the main columns in 80 characters.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn late_narrow(digests: &[RankDigest], job: &Job, top: usize) -> report::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        nanos("late_ns", "late by"),
        Column::text("cause").title("why"),
        Column::text("cause_name").title("what"),
        nanos("here_ns", "here"),
        nanos("others_ns", "others"),
    ];
    let mut table = Table::new("late", columns)?;
    for c in job.late().into_iter().take(top) {
        let cause = c.cause.as_ref();
        let name = cause.and_then(|x| x.short_name());
        table.push(&[
            rank_at(digests, c, c.last),
            c.late_ns.into(),
            cause.map(|x| x.kind.words()).into(),
            name.as_deref().into(),
            cause.map(|x| x.here_ns).into(),
            cause.map(|x| x.others_ns).into(),
        ])?;
    }
    Ok(table)
}
