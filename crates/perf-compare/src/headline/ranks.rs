//! A late rank in words.

use super::{cycle, from_to, of};
use crate::document::{Evidence, Finding, Report};
use crate::report_text::{label, short, time};

pub(super) fn straggler(report: &Report) -> String {
    let tail = cycle(report).map_or(String::new(), |cycle| format!("; {cycle}"));
    if let Some(row) = of(report, "rank_host_late_us") {
        return late_host(report, row, &tail);
    }
    if let Some(moves) = moving(report, &tail) {
        return moves;
    }
    let better = report.verdict.direction == "better";
    // Less than what its signatures ask for is no reason to be late.
    let skew = of(report, "rank_skew_pct").filter(|row| row.effect.abs() >= 2.5);
    let host = of(report, "rank_host_skew_pct").filter(|row| row.effect.abs() > 0.0);
    if let Some(row) = skew {
        let by = (row.candidate - row.baseline).abs();
        let how = if better {
            "more slowly no longer: it was"
        } else {
            "more slowly:"
        };
        return format!(
            "{} runs its kernels {how} {} % behind the other ranks{tail}",
            row.device,
            short(by)
        );
    }
    if let Some(row) = of(report, "rank_late_us") {
        let (how, more) = if better {
            ("no longer comes late to collectives", "less")
        } else {
            ("comes late to collectives", "longer")
        };
        return format!(
            "{} {how}: the other ranks wait {} {more} per cycle{tail}",
            row.device,
            time((row.candidate - row.baseline).abs())
        );
    }
    if let Some(row) = host {
        return format!(
            "{}: its threads compute {} % more than the other ranks'{tail}",
            row.device,
            short(row.effect.abs())
        );
    }
    format!("One rank is late and the others wait for it{tail}")
}

/// Imbalance of which no rank is to blame by itself: who comes last how often, and the kernel that is uneven.
fn moving(report: &Report, tail: &str) -> Option<String> {
    let row = |metric: &str| report.counters.iter().find(|row| row.metric == metric);
    let better = report.verdict.direction == "better";
    let what = match better {
        false => "Imbalance between ranks that moves, no rank is always late",
        true => "Imbalance between ranks that moved is gone, no rank was always late",
    };
    let kernel = |metric: &str, how: &str| {
        let own = row(metric).filter(|row| (row.effect > 0.0) != better);
        own.map_or(String::new(), |row| {
            let times = from_to(row.baseline, row.candidate);
            format!("; kernel {} {how} {times}", label(&row.device))
        })
    };
    if let Some(row) = of(report, "rank_moving_wait_us") {
        let who = match better {
            false => row.device.as_str(),
            true => "another one in each cycle",
        };
        return Some(format!(
            "{what}: last are {who}, and the others wait {} for it in collectives per cycle{}{tail}",
            from_to(row.baseline, row.candidate),
            kernel(
                "rank_moving_kernel_us",
                "takes on the slowest rank of a cycle longer than on the others by"
            )
        ));
    }
    let row = of(report, "rank_moving_within_us")?;
    Some(format!(
        "{what}: in each layer of a step another one is last, and all ranks wait for one another in collectives ({} of waiting per cycle \
         and rank){}{tail}",
        from_to(row.baseline, row.candidate),
        kernel(
            "rank_moving_calls_us",
            "differs from its shortest to its longest call in a step by"
        )
    ))
}

/// Communication beside which nothing runs any longer, with the collective that takes most.
pub(super) fn exposed(report: &Report) -> String {
    let row = |metric: &str| report.counters.iter().find(|row| row.metric == metric);
    let collectives = report.findings.iter().filter(|f| f.class == "collective");
    let most = collectives.max_by(|a, b| {
        let time = |f: &Finding| f.effect.candidate.max(f.effect.baseline);
        time(a).total_cmp(&time(b))
    });
    let name = most.map_or(String::new(), |f| format!(" ({})", label(&f.name)));
    let what = match report.verdict.direction {
        "better" => "Communication overlaps with computation again",
        _ => "Communication overlaps with computation no longer",
    };
    let numbers = [
        row("exposed_comm_us").map(|row| {
            let times = from_to(row.baseline, row.candidate);
            format!("{times} of a cycle in collectives{name} with no other work beside them")
        }),
        row("comm_beside_work_pct").map(|row| {
            let [before, after] = [row.baseline, row.candidate].map(|pct| format!("{pct:.0} %"));
            format!("{before} -> {after} of their time beside other work")
        }),
    ];
    let numbers: Vec<String> = numbers.into_iter().flatten().collect();
    let tail = cycle(report).map_or(String::new(), |cycle| format!("; {cycle}"));
    format!("{what}: {}{tail}", numbers.join(", "))
}

/// A rank whose host code takes longer by itself.
fn late_host(report: &Report, row: &Evidence, tail: &str) -> String {
    let by = time(row.effect.abs());
    let function = of(report, "rank_host_function_us").and_then(|function| {
        let name = function.device.strip_prefix(&format!("{}: ", row.device))?;
        let times = from_to(function.baseline, function.candidate);
        Some(format!(" ({} {times})", label(name)))
    });
    let function = function.unwrap_or_default();
    match report.verdict.direction {
        "better" => format!(
            "{} is late no longer: its host code took {by} more per cycle than before{function}, and the other ranks waited for it{tail}",
            row.device
        ),
        _ => format!(
            "{} is late: its host code takes {by} longer per cycle, that of the other ranks does not{function}; they wait for it in collectives{tail}",
            row.device
        ),
    }
}
