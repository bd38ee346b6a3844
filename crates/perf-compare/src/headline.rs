//! The answer in one sentence that an engineer can act on.

mod host;
mod kernels;
mod ranks;
mod unchanged;
mod work;

use crate::document::{Change, CycleTime, Evidence, Finding, Report, Statement, Status, Tail};
use crate::report_text::{label, quantity, short, time, times};
use crate::side::is_wait;

use host::{allocates, host, input, nothing_recorded, whole_host};
use kernels::{kernel, may_be_lengths, slow_gpus};
use ranks::{exposed, straggler};
use unchanged::{leads, most_telling, nothing};
pub(crate) use work::called;
use work::{how, more_work, swaps};

/// Causes that the same sentence fits: what happened, and what happened where the baseline had the trouble.
const SAID: [(&str, &str, &str); 10] = [
    (
        "collective_slow",
        "Collectives are slower on all ranks alike, no rank is late",
        "Collectives are faster on all ranks alike",
    ),
    ("cpu_frequency", "CPU clock lower", "CPU clock higher"),
    (
        "cpu_contention",
        "Threads wait for processors",
        "Threads wait less for processors",
    ),
    ("gpu_frequency", "GPU clock lower", "GPU clock higher"),
    (
        "gpu_contention",
        "Another process uses the GPU",
        "The GPU is shared no more",
    ),
    (
        "nvlink_contention",
        "Links between GPUs carry other traffic",
        "Links between GPUs are free again",
    ),
    (
        "pcie_contention",
        "Copies between host and GPU are slower",
        "Copies between host and GPU are faster",
    ),
    (
        "memory_pressure",
        "Memory runs short",
        "Memory is sufficient again",
    ),
    (
        "disk_contention",
        "Reads and writes are slower",
        "Reads and writes are faster",
    ),
    (
        "network_contention",
        "The network carries other traffic",
        "The network is free again",
    ),
];

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// `a -> b` in one unit that suits the larger.
fn from_to(a: f64, b: f64) -> String {
    let (unit, scale) = match a.abs().max(b.abs()) {
        most if most >= 1e6 => ("s", 1e6),
        most if most >= 1e3 => ("ms", 1e3),
        _ => ("us", 1.0),
    };
    format!("{} -> {} {unit}", short(a / scale), short(b / scale))
}

/// Both values of a row with their unit.
fn amounts(row: &Evidence) -> String {
    match row.unit.as_str() {
        "us" => from_to(row.baseline, row.candidate),
        unit @ ("B" | "B/s") => {
            let bytes = |value: f64| {
                let (scaled, prefix) = match value.abs() {
                    size if size >= 1e9 => (value / 1e9, "G"),
                    size if size >= 1e6 => (value / 1e6, "M"),
                    size if size >= 1e3 => (value / 1e3, "k"),
                    _ => (value, ""),
                };
                format!("{} {prefix}{unit}", short(scaled))
            };
            format!("{} -> {}", bytes(row.baseline), bytes(row.candidate))
        }
        unit => format!("{} -> {} {unit}", short(row.baseline), short(row.candidate)),
    }
}

/// What was recorded of the cause, in brackets: the counters that decide it, else its first evidence.
fn recorded(report: &Report) -> String {
    const CLOCKS: [&str; 3] = ["gpu_sm_frequency", "gpu_frequency", "gpu_mem_frequency"];
    let evidence = &report.verdict.evidence;
    if report.verdict.cause == "gpu_frequency"
        && let Some(row) = evidence
            .iter()
            .find(|row| CLOCKS.contains(&row.metric.as_str()))
    {
        return format!(" ({} on {})", amounts(row), slow_gpus(report, row));
    }
    let Some(first) = evidence.first() else {
        return String::new();
    };
    let row = |metric: &str| {
        let rows = || report.counters.iter().filter(|row| row.metric == metric);
        // What is known of all GPUs is known of the only one.
        let alone = report.roles.len() == 1;
        rows()
            .find(|row| row.device == first.device)
            .or_else(|| rows().find(|row| alone && row.device == "all GPUs"))
    };
    if report.verdict.cause == "gpu_contention" {
        let shown = [
            ("gpu_usage", "usage"),
            ("process_gpu_usage", "of it this process"),
            ("gpu_usage_of_others", "others"),
            ("gpu_mem_used", "memory in use"),
        ];
        let said: Vec<String> = shown
            .into_iter()
            .filter_map(|(metric, words)| Some(format!("{words} {}", amounts(row(metric)?))))
            .collect();
        if !said.is_empty() {
            return format!(" ({}: {})", first.device, said.join(", "));
        }
    }
    format!(
        " ({} on {} {})",
        quantity(&first.metric),
        first.device,
        amounts(first)
    )
}

fn signed(us: f64) -> String {
    let sign = if us < 0.0 { "-" } else { "+" };
    format!("{sign}{}", time(us.abs()))
}

fn kind(time: &CycleTime) -> String {
    time.kind()
}

/// Returns `true` if the interval of the difference excludes zero: a small change is no unchanged time.
fn excludes_zero(time: &CycleTime) -> bool {
    let interval = time.effect.interval;
    interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0)
}

/// Cycle time that changed, or that it did not.
fn cycle(report: &Report) -> Option<String> {
    let changed = report
        .cycle_time
        .iter()
        .find(|time| time.verdict == Statement::Changed);
    let shown = changed.or_else(|| most_telling(report))?;
    let effect = &shown.effect;
    if changed.is_some() {
        // A tail that grows more than all says more than all do.
        let by = effect.ratio.map_or(0.0, |ratio| (ratio - 1.0).abs());
        let tail = shown.tail.as_ref().filter(|tail| {
            let [before, after] = tail.values_us;
            (after / before - 1.0).abs() > 2.0 * by
        });
        return Some(format!(
            "{} time {} ({}){}",
            kind(shown),
            from_to(effect.baseline, effect.candidate),
            percent(effect.ratio.unwrap_or(1.0)),
            tail.map_or(String::new(), |tail| format!(", {}", tail.said()))
        ));
    }
    Some(match shown.verdict {
        _ if shown.tail.is_some() => format!(
            "typical {} time {}, {}",
            kind(shown),
            from_to(effect.baseline, effect.candidate),
            shown.tail.as_ref().map_or(String::new(), Tail::said)
        ),
        Statement::Equivalent if excludes_zero(shown) => format!(
            "{} time {} ({}), the same within the margin",
            kind(shown),
            from_to(effect.baseline, effect.candidate),
            percent(effect.ratio.unwrap_or(1.0))
        ),
        Statement::Equivalent => format!(
            "{} time unchanged at {}",
            kind(shown),
            time(effect.candidate)
        ),
        // An interval without zero is no proof where cycles vary slowly, and no reason to say that nothing changed.
        _ => match effect.interval.filter(|_| excludes_zero(shown)) {
            Some([low, high]) => format!(
                "{} time probably {} ({} to {})",
                kind(shown),
                from_to(effect.baseline, effect.candidate),
                signed(low),
                signed(high)
            ),
            None => format!("no change of {} time established", kind(shown)),
        },
    })
}

/// What is added to every cycle, else what a function takes longer.
fn added(report: &Report, finding: Option<&Finding>) -> String {
    let changed = report
        .cycle_time
        .iter()
        .find(|time| time.verdict == Statement::Changed);
    match (changed, finding) {
        (Some(time), _) => format!(
            "{} time {} ({})",
            kind(time),
            signed(time.effect.delta),
            percent(time.effect.ratio.unwrap_or(1.0))
        ),
        (None, Some(finding)) => {
            let cycle = cycle(report).map_or(String::new(), |cycle| format!("; {cycle}"));
            format!(
                "{} in all its calls of a cycle{cycle}",
                signed(finding.effect.delta)
            )
        }
        (None, None) => cycle(report).unwrap_or_default(),
    }
}

fn of<'r>(report: &'r Report, metric: &str) -> Option<&'r Evidence> {
    report.verdict.evidence.iter().find(|e| e.metric == metric)
}

/// The first changed finding in the direction of the verdict.
fn changed<'r>(report: &'r Report, classes: &'r [&'r str]) -> Option<&'r Finding> {
    all_changed(report, classes).next()
}

/// All changed findings in the direction of the verdict, most important first.
fn all_changed<'r>(
    report: &'r Report,
    classes: &'r [&'r str],
) -> impl Iterator<Item = &'r Finding> {
    let wanted = if report.verdict.direction == "better" {
        [Change::Faster, Change::Gone]
    } else {
        [Change::Slower, Change::New]
    };
    // What the work explains is not what else changed.
    let apart = report.verdict.cause != "workload_shift";
    report.findings.iter().filter(move |f| {
        f.verdict == Statement::Changed
            && wanted.contains(&f.change)
            && classes.contains(&f.class)
            && f.part_of.is_none()
            && !(f.by_work && apart)
    })
}

fn workload(report: &Report) -> String {
    if let Some(more) = more_work(report) {
        return more;
    }
    let steps: Vec<String> = report
        .verdict
        .evidence
        .iter()
        .filter(|row| row.metric.starts_with("step_"))
        .map(|row| {
            let name = row.metric.trim_start_matches("step_").replace('_', " ");
            let change = row
                .change_pct
                .map_or(String::new(), |c| format!(" ({c:+.0} %)"));
            format!(
                "{name} {} -> {}{change}",
                short(row.baseline),
                short(row.candidate)
            )
        })
        .collect();
    let tail = cycle(report).map_or(String::new(), |cycle| format!("; {cycle}"));
    if let (Some(mix), true) = (&report.mix, of(report, "phase_share_pct").is_some()) {
        return match mix.established {
            true => format!("The mix of steps changed: {}{tail}", mix.said()),
            // Counted, so that it is true of these captures; of the condition it may not be.
            false => format!(
                "The mix of steps differs, which may be chance (p = {}; {}): {}{tail}",
                short(mix.p),
                mix.advice(),
                mix.said()
            ),
        };
    }
    let is_unequal = of(report, "kernel_ratio_spread").is_some()
        || of(report, "attention_beyond_matrix_pct").is_some();
    if steps.is_empty() && is_unequal {
        return format!(
            "The same kernels are slower by different factors: other requests (longer contexts, larger batches), or another process that takes \
             time of the GPU: the recording does not tell{tail}"
        );
    }
    if steps.is_empty() {
        return format!(
            "The requests are others: kernels were called more or less often, or for other shapes{tail}"
        );
    }
    format!("The work of a step changed: {}{tail}", steps.join(", "))
}

/// Another declared change that is a good part of what a cycle takes longer and is not of the kind of the verdict.
fn also(report: &Report) -> Option<String> {
    const PART: f64 = 15.0;
    let classes: &[&str] = match report.verdict.cause.as_str() {
        "host_code" => &["kernel", "collective"],
        "gpu_kernel" if of(report, "kernel_class_us").is_none() => &["host", "kernel"],
        "gpu_kernel" | "gpu_slow" | "collective_slow" => &["host"],
        "workload_shift" if of(report, "kernel_top_calls").is_some() => &["host"],
        "workload_shift" if of(report, "copy_us").is_some() => &["kernel"],
        _ => return None,
    };
    // Calls that launch or copy follow the work that they launch.
    let is_api = |name: &str| {
        ["cuda", "hip", "cu"]
            .iter()
            .any(|api| name.starts_with(api))
    };
    // The kernel that the sentence is about.
    let named = of(report, "kernel_top_us_per_call")
        .and_then(|row| row.device.split_once(": "))
        .map(|(_, name)| name)
        .or_else(|| Some(changed(report, &["kernel"])?.name.as_str()))
        .filter(|_| report.verdict.cause == "gpu_kernel");
    let is_named = |f: &&Finding| f.class == "kernel" && named == Some(f.name.as_str());
    let second = all_changed(report, classes)
        .filter(|f| f.kind != "collective_total" && !is_named(f))
        .filter(|f| !is_wait(&f.name) && !is_api(&f.name))
        .find(|f| f.explained_pct.is_some_and(|part| part.abs() >= PART))?;
    let kind = match second.class {
        "kernel" => "kernel",
        "collective" => "collective",
        _ => "host function",
    };
    Some(format!(
        "; also {kind} {} {} ({})",
        label(&second.name),
        how(second),
        from_to(second.effect.baseline, second.effect.candidate)
    ))
}

fn sentence(report: &Report) -> String {
    let verdict = &report.verdict;
    if let Some(why) = report
        .not_comparable()
        .filter(|_| !report.comparability.forced)
    {
        return format!("Not comparable: {why}");
    }
    if report.identical {
        return "Identical input: both sides hold the same cycles and functions".to_owned();
    }
    let better = verdict.direction == "better";
    let tail = || cycle(report).map_or(String::new(), |cycle| format!("; {cycle}"));
    match verdict.cause.as_str() {
        "gpu_kernel" => kernel(report),
        "collective_straggler" => straggler(report),
        "communication_exposed" => exposed(report),
        "workload_shift" => workload(report),
        "gpu_slow" => {
            let row = of(report, "kernel_time_beyond_clock_pct");
            let by = row.map_or(0.0, |row| row.effect.abs());
            let place = row.map_or("the GPU".to_owned(), |row| slow_gpus(report, row));
            if let Some(beyond) = beyond_work(report) {
                return format!(
                    "All kernels of {place} {beyond}: clock, contention or power; record clocks to tell{}",
                    tail()
                );
            }
            if better {
                format!(
                    "All kernels of {place} faster than in the baseline, where they took {by:.1} % longer: clock, contention or power; record clocks to tell{}",
                    tail()
                )
            } else {
                format!(
                    "All kernels of {place} slower by {by:.1} %: clock, contention or power; record clocks to tell{}",
                    tail()
                )
            }
        }
        "pauses" => {
            let paused = report
                .cycle_time
                .iter()
                .find_map(|time| time.pauses.as_ref().filter(|pauses| pauses.established));
            paused.map_or_else(String::new, |pauses| {
                let [before, after] = pauses.mean_us;
                let tail = report.cycle_time.iter().find_map(|time| time.tail.as_ref());
                format!(
                    "{}; mean cycle {} ({}){}",
                    pauses.said(),
                    from_to(before, after),
                    percent(after / before),
                    tail.map_or(String::new(), |tail| format!(", {}", tail.said()))
                )
            })
        }
        "gpu_contention" if of(report, "kernel_stalls_us").is_some() => {
            format!("{}{}", stopped(report, better), tail())
        }
        "host_code" => host(report, better, &tail()),
        "memory_pressure" if swaps(report).is_some() => swaps(report).unwrap_or_default(),
        "memory_pressure" if allocates(report).is_some() => {
            format!("{}{}", allocates(report).unwrap_or_default(), tail())
        }
        "waiting_for_input" => input(report, better),
        "none" => nothing(report),
        "unknown"
            if report.cycle_time.iter().any(|time| time.tail.is_some())
                && report
                    .cycle_time
                    .iter()
                    .all(|time| time.verdict != Statement::Changed) =>
        {
            nothing(report)
        }
        "unknown" if says_modes(report) => {
            let mix = report.mix.as_ref();
            mix.map_or_else(String::new, |mix| {
                let more = mix.steps[1] * mix.of[0] >= mix.steps[0] * mix.of[1];
                let how = if more { "More" } else { "Fewer" };
                format!(
                    "{how} cycles are long: {}; the cause was not recorded",
                    mix.said()
                )
            })
        }
        "unknown" => {
            let first = report
                .findings
                .iter()
                .find(|f| f.verdict == Statement::Changed && !f.by_work);
            let largest = first.map_or(String::new(), |f| {
                format!(
                    "; largest change: {} {}",
                    label(&f.name),
                    signed(f.effect.delta)
                )
            });
            match (cycle(report), first) {
                (Some(cycle), _) => match cycle.contains(" time unchanged ") {
                    true => format!("{cycle}{largest}"),
                    false => format!("Cause unknown: {cycle}{largest}"),
                },
                (None, Some(_)) => nothing(report),
                // Samples of which none are enough.
                (None, None) if !report.findings.is_empty() => nothing(report),
                (None, None) => "Cause unknown: times cannot be compared".to_owned(),
            }
        }
        cause => match SAID.iter().find(|(name, _, _)| *name == cause) {
            Some((_, worse, better_words)) => {
                let words = if better { better_words } else { worse };
                format!("{words}{}{}", recorded(report), tail())
            }
            None => verdict.summary.clone(),
        },
    }
}

/// Kernels that are stopped while something else has the GPU.
fn stopped(report: &Report, better: bool) -> String {
    let row = of(report, "kernel_stalls_us");
    let place = row.map_or("the GPU", |row| row.device.as_str());
    let times = row.map_or(String::new(), |row| from_to(row.baseline, row.candidate));
    let what = match better {
        false => "are stopped, others in each cycle",
        true => "are stopped no longer",
    };
    format!(
        "Single kernels of {place} {what} ({times} per cycle): another process has slices of the time of the GPU; record the usage of the \
         GPU by process to tell"
    )
}

/// By how much all kernels changed beyond their work, where steps did other work.
fn beyond_work(report: &Report) -> Option<String> {
    let [low, high] = report.workload.as_ref()?.kernels_beyond_pct?;
    let how = if low > 0.0 { "slower" } else { "faster" };
    let (least, most) = (low.abs().min(high.abs()), low.abs().max(high.abs()));
    Some(format!(
        "{how} by {least:.0} to {most:.0} % beyond what the work of a step explains"
    ))
}

impl Report {
    /// Returns why the sides may not be compared, if so. Cuts that differ are told only where nothing else does: other models and
    /// hardware have other cuts.
    #[must_use]
    pub fn not_comparable(&self) -> Option<String> {
        const CUTS: [&str; 2] = ["anchor", "cycle_type"];
        if self.comparability.status != Status::NotComparable {
            return None;
        }
        let stops = || self.comparability.reasons.iter().filter(|r| r.stops);
        let is_cut = |code: &str| CUTS.contains(&code);
        let only_cuts = stops().all(|r| is_cut(r.code));
        let shown = stops().filter(|r| only_cuts || !is_cut(r.code));
        let reasons: Vec<&str> = shown.map(|r| r.text.as_str()).collect();
        Some(reasons.join("; "))
    }

    /// Returns `true` if all code of the host is slower alike, so that no function is to blame.
    #[must_use]
    pub fn is_whole_host(&self) -> bool {
        whole_host(self).is_some()
    }
}

/// Returns why the recordings cannot establish the cause: what would look the same, if so.
pub(crate) fn doubt(report: &Report) -> Option<String> {
    let mut reasons = report.comparability.reasons.iter();
    if let Some(capture) = reasons.find(|reason| reason.code == "capture") {
        return Some(capture.text.clone());
    }
    if nothing_recorded(report) {
        return Some(
            "nothing was recorded on the host in the time that a cycle takes longer: code, a lock, or requests that do not come"
                .to_owned(),
        );
    }
    if report.verdict.cause == "gpu_slow" && beyond_work(report).is_some() {
        return Some(
            "steps did other work too, and how far each kernel follows that is not known"
                .to_owned(),
        );
    }
    let counted = |row: &Evidence| row.metric == "gpu_usage_of_others";
    if of(report, "kernel_stalls_us").is_some() && !report.counters.iter().any(counted) {
        return Some(
            "which processes use the GPU was not recorded (gpu_usage and process_gpu_usage would tell)"
                .to_owned(),
        );
    }
    if of_stated_work(report) {
        return Some(
            "steps state as many requests and tokens as before: the program itself may do more for the same work"
                .to_owned(),
        );
    }
    may_be_lengths(report).then(|| {
        "longer sequences make attention slower too, and how long they were was not recorded"
            .to_owned()
    })
}

/// Returns `true` if more calls or copies are taken for other work, while all that steps state of their work is as before.
fn of_stated_work(report: &Report) -> bool {
    /// Change in percent up to which a quantity is as before: contexts grow from step to step.
    const SAME: f64 = 5.0;
    const MORE: [&str; 3] = ["copy_us", "copies_on_device", "kernel_top_calls"];
    let stated = || {
        let rows = report.counters.iter();
        rows.filter(|row| row.metric.starts_with("step_"))
    };
    let is_same = |row: &Evidence| row.change_pct.unwrap_or(row.effect).abs() <= SAME;
    report.verdict.cause == "workload_shift"
        && MORE.iter().any(|metric| of(report, metric).is_some())
        && stated().next().is_some()
        && stated().all(is_same)
}

/// How many requests steps serve on each side where that differs, and what a cycle takes for each of them: a shorter step that
/// serves fewer is not faster.
fn by_request(report: &Report) -> Option<String> {
    const LEAST: f64 = 0.1;
    // Quantities of steps are those of one type of cycle, and time per request means nothing where prompts are read.
    let [shown] = &report.cycle_time[..] else {
        return None;
    };
    let row = |metric: &str| report.counters.iter().find(|row| row.metric == metric);
    let reads = row("step_prompt_tokens").is_some_and(|row| row.baseline.max(row.candidate) > 0.0);
    let row = row("step_requests").filter(|_| !reads)?;
    let served = [row.baseline, row.candidate];
    let differs = (served[1] / served[0] - 1.0).abs() >= LEAST;
    if !differs || served.iter().any(|n| *n <= 0.0) {
        return None;
    }
    let each = [0, 1].map(|side| shown.mean_us[side] / served[side]);
    Some(format!(
        "steps serve {} -> {} requests, cycle time per request {} ({})",
        times(served[0]),
        times(served[1]),
        from_to(each[0], each[1]),
        percent(each[1] / each[0])
    ))
}

/// Returns `true` if shares of short and long cycles are all that changed.
fn says_modes(report: &Report) -> bool {
    let of_modes = |mix: &crate::document::Mix| mix.established && mix.limit_us.is_some();
    report.verdict.cause == "unknown"
        && report.mix.as_ref().is_some_and(of_modes)
        && (report.cycle_time.iter()).all(|time| time.verdict != Statement::Changed)
}

/// Other work of the steps beside another cause, and the most that it explains.
fn beside(report: &Report, served: bool) -> Option<String> {
    const NOTHING_US: f64 = 1.0;
    let causes = ["workload_shift", "none", "unknown"];
    if causes.contains(&report.verdict.cause.as_str()) || report.not_comparable().is_some() {
        return None;
    }
    let work = report.workload.as_ref()?;
    // How many requests steps serve was said first.
    let said = work.said(if served { "requests" } else { "" })?;
    Some(match work.explained_us.abs() >= NOTHING_US {
        true => format!(
            "; the work of a step changed too: {said}, which explains at most {} of it",
            signed(work.explained_us)
        ),
        false => format!("; the work of a step changed too: {said}, which explains none of it"),
    })
}

/// Returns the sentence of a report, with a capital and without a full stop.
pub(crate) fn of_report(report: &Report) -> String {
    let mut text = String::new();
    // What makes the sides unlike comes before what they differ by.
    let stopped = report.comparability.status == Status::NotComparable;
    if !stopped && !report.identical {
        let unlike = report.comparability.reasons.iter();
        for reason in unlike.filter(|reason| reason.code == "capture") {
            text += &reason.text;
            text += ". ";
        }
    }
    let by_request = by_request(report).filter(|_| !stopped && !report.identical);
    let is_work = report.verdict.cause == "workload_shift";
    let served = by_request.is_some();
    if let Some(served) = by_request.as_ref().filter(|_| !is_work) {
        // Kernels of other batches are not alike, so this comes before what is said of them.
        text += served;
        text += ", so compare at one batch size: ";
    }
    text += &sentence(report);
    if let Some(served) = by_request.filter(|_| is_work) {
        text += "; ";
        text += &served;
    }
    text += &also(report).unwrap_or_default();
    text += &beside(report, served).unwrap_or_default();
    let says_mix = |_: &&crate::document::Mix| {
        of(report, "phase_share_pct").is_some() || says_modes(report) || leads(report)
    };
    if let Some(mix) = report.mix.as_ref().filter(|mix| !says_mix(mix)) {
        let how = match (mix.established, mix.steps.contains(&0)) {
            (true, _) => "changed too".to_owned(),
            (_, true) => {
                "differs, which may be chance, and its steps are compared with none".to_owned()
            }
            _ => format!(
                "differs, which may be chance (p = {}; {})",
                short(mix.p),
                mix.advice()
            ),
        };
        text += &format!("; the mix of steps {how}: {}", mix.said());
    }
    // Names of metrics keep their letters.
    let word = text.split_whitespace().next().unwrap_or_default();
    if word.contains('_') {
        return text;
    }
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => text,
    }
}
