//! The answer in words.

use crate::finding::Finding;
use crate::reduce::{Fleet, Scope};
use crate::words::{counted, ranks, shown};

/// Returns the answer in one sentence: the finding that costs most, and what it rests on.
pub fn sentence(fleet: &Fleet) -> String {
    let scope = &fleet.scope;
    if scope.ranks == 0 {
        return match scope.unreadable {
            0 => "Nothing can be told: no recording is given.".to_owned(),
            n => format!(
                "Nothing can be told: {} cannot be read.",
                counted(n, "recording", "recordings")
            ),
        };
    }
    let rest = rest(scope);
    let about_job = |finding: &&Finding| !finding.kind.is_about_recordings();
    let mut findings = fleet.findings.iter().filter(about_job);
    let Some(first) = findings.next() else {
        return format!("{}{rest}.", nothing(fleet));
    };
    let more = findings.count();
    let more = match more {
        0 => String::new(),
        n => format!(
            "; {} below",
            counted(n, "more finding is", "more findings are")
        ),
    };
    format!("{}{more}{rest}.", first.title)
}

/// Returns that no rank stands out, with what was compared.
fn nothing(fleet: &Fleet) -> String {
    let scope = &fleet.scope;
    if scope.ranks == 1 {
        return "Ranks cannot be compared: one recording is read".to_owned();
    }
    if fleet.ranks.iter().all(|row| row.busy_ns == 0) {
        return "Nothing can be told: no recording has GPU activity".to_owned();
    }
    if fleet.ranks.iter().all(|row| row.collectives == 0) {
        let why = "as no collective that waits for all ranks is found on two of them";
        return match slowest(fleet) {
            Some((rank, own, others)) => format!(
                "Nothing tells whether ranks wait for each other, {why}; the steps of rank {rank} take longest, {} instead of {} (medians)",
                shown(own),
                shown(others)
            ),
            None => format!(
                "Nothing tells which rank is late, {why}; kernels, counts, clocks and step times of no rank stand out"
            ),
        };
    }
    let most = fleet.ranks.first();
    let most = most.and_then(|row| Some((row.rank, row.inflicted_ns?, row.delay_share_pct?)));
    let most = most.filter(|(_, _, share)| *share > 0.0);
    match most {
        Some((rank, ns, share)) => format!(
            "No rank, host or link stands out beyond chance; the others wait longest for rank {rank}, {} ({} % of their time in its \
             collectives)",
            shown(ns),
            (share * 10.0).round() / 10.0
        ),
        None => "No rank, host or link stands out".to_owned(),
    }
}

/// How much longer the steps of a rank take than those of the others at least to be told, in percent.
const SLOWER_PCT: i64 = 10;

/// Returns the rank with the longest steps, their median and that of the other ranks, where they are that much longer.
fn slowest(fleet: &Fleet) -> Option<(u32, i64, i64)> {
    let rows = fleet.ranks.iter();
    let mut times: Vec<(i64, u32)> = rows
        .filter_map(|row| Some((row.step_median_ns?, row.rank)))
        .collect();
    times.sort_unstable();
    let (own, rank) = times.pop()?;
    let (others, _) = *times.get(times.len() / 2)?;
    let is_slower =
        own.saturating_sub(others).saturating_mul(100) >= others.saturating_mul(SLOWER_PCT);
    is_slower.then_some((rank, own, others))
}

/// Returns how much of the job the answer rests on.
fn rest(scope: &Scope) -> String {
    let mut lacks = Vec::new();
    if scope.unreadable > 0 {
        lacks.push(format!(
            "{} cannot be read",
            counted(scope.unreadable, "recording", "recordings")
        ));
    }
    if !scope.missing.is_empty() {
        let verb = if scope.missing.len() == 1 {
            "is"
        } else {
            "are"
        };
        lacks.push(format!("{} {verb} missing", ranks(&scope.missing)));
    }
    match lacks.is_empty() {
        true => String::new(),
        false => {
            let compared = match scope.ranks {
                1 => String::new(),
                n => format!("{n} ranks are compared, "),
            };
            format!("; {compared}{}", lacks.join(", "))
        }
    }
}

/// Number of findings that text shows.
const SHOWN: usize = 10;

/// Returns label and text of each line below the answer: what it rests on, findings with the commands that show them, caveats.
pub fn lines(fleet: &Fleet) -> Vec<(&'static str, String)> {
    let scope = &fleet.scope;
    let mut out = Vec::new();
    let world = scope
        .world_size
        .map_or_else(String::new, |world| format!(" of {world}"));
    let hosts = match scope.hosts {
        0 => String::new(),
        n => format!(" on {}", counted(n, "host", "hosts")),
    };
    out.push((
        "job",
        format!(
            "{}{world}{hosts}; {} recorded by several ranks",
            counted(scope.ranks, "rank", "ranks"),
            counted(scope.collectives, "collective", "collectives"),
        ),
    ));
    for finding in fleet.findings.iter().take(SHOWN) {
        let word = match finding.kind {
            kind if kind.is_about_recordings() => "recordings",
            _ => finding.strength.name(),
        };
        let stop = if finding.title.ends_with(['.', '?', '!']) {
            ""
        } else {
            "."
        };
        out.push((word, format!("{}{stop}", finding.title)));
        if let Some(command) = &finding.command {
            out.push(("see", command.clone()));
        }
    }
    if fleet.findings.len() > SHOWN {
        out.push((
            "more",
            format!(
                "{} in findings and fleet.json",
                counted(fleet.findings.len() - SHOWN, "finding", "findings")
            ),
        ));
    }
    out.extend(fleet.notes.iter().map(|note| ("caution", note.clone())));
    out
}
