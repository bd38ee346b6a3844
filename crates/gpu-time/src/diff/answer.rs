//! The answer on two traces in words.

use rank_align::real::real;
use report::human;
use trace_model::step_name::{StepBatch, phase_of_word, step_batch, step_group};

use crate::Lack;
use crate::diff::{
    Basis, Comparison, ENOUGH_STEPS, HostChange, HostKind, Metric, StepKind, StepTime,
};

/// Returns the number of steps of both sides whose times are compared.
fn timed(kind: &StepKind) -> [u64; 2] {
    kind.metric(Metric::Wall).map(|spread| spread.count)
}

/// Returns a step of a kind in words: by its phase where that is the kind.
pub fn a_step(kind: &str) -> String {
    match phase_of_word(kind) {
        Some(phase) => format!("a {} step", phase.name()),
        None => format!("a step {kind}"),
    }
}

/// Returns in words how many steps the times are of.
pub fn steps_of(kind: &StepKind) -> String {
    match timed(kind) {
        [a, b] if a == b => format!("{a} step{} each", if a == 1 { "" } else { "s" }),
        [a, b] => format!("{a} steps of A and {b} of B"),
    }
}

/// Returns the answer: a sentence for each kind of step, differences that chance does not explain first,
/// those of few steps last, else those with most time.
pub fn answers(found: &Comparison, unlike: bool) -> Vec<String> {
    if found.is_equal() {
        return vec![
            "A and B do not differ: the same GPU activity with the same times.".to_owned(),
        ];
    }
    if found.kinds.is_empty() {
        return vec!["A and B have nothing in common that can be compared.".to_owned()];
    }
    let mut kinds: Vec<&StepKind> = found.kinds.iter().collect();
    let is_few = |kind: &StepKind| timed(kind).iter().any(|n| *n < ENOUGH_STEPS);
    kinds.sort_by_key(|kind| (!kind.is_significant(), is_few(kind)));
    let more = kinds.split_off(kinds.len().min(MOST_SENTENCES));
    let mut out: Vec<String> = kinds
        .into_iter()
        .map(|kind| answer(found, kind, unlike))
        .collect();
    match more.len() {
        0 => {}
        1 => out.push("Another kind of step is below.".to_owned()),
        n => out.push(format!("{n} other kinds of steps are below.")),
    }
    out
}

/// Maximum number of kinds of steps that have a sentence.
const MOST_SENTENCES: usize = 4;

/// Returns how long both take, and what of the time differs most.
fn answer(found: &Comparison, kind: &StepKind, unlike: bool) -> String {
    let by_step = matches!(found.basis, Basis::Steps | Basis::StepsByTime);
    let by_mean = by_step && follows_mean(kind);
    let typical = |metric: Metric| {
        kind.metric(metric).map(|spread| match by_mean {
            true => spread.mean_ns,
            false => spread.median_ns,
        })
    };
    let [a, b] = typical(Metric::Wall);
    let what = match found.basis {
        Basis::Steps | Basis::StepsByTime => {
            let average = if by_mean { "mean of" } else { "median of" };
            let (median, of) = (average, steps_of(kind));
            match phase_of_word(&kind.name) {
                Some(phase) => format!("per {} step ({median} {of})", phase.name()),
                None => format!("per step ({median} {of}, {})", kind.name),
            }
        }
        Basis::Window => "in the window".to_owned(),
        _ => "for all of the recording".to_owned(),
    };
    let parts = [
        (Metric::Idle, "GPU idle"),
        (Metric::Computation, "computation"),
        (Metric::ExposedComm, "exposed communication"),
        (Metric::ExposedOther, "exposed memcpy and other"),
    ];
    let mut changes: Vec<(f64, &str)> = parts
        .iter()
        .map(|(metric, name)| {
            let [a, b] = typical(*metric);
            (b - a, *name)
        })
        .filter(|(change, _)| change.abs() >= 1.0)
        .collect();
    changes.sort_by(|x, y| y.0.abs().total_cmp(&x.0.abs()));
    let signed = |ns: f64| match ns < 0.0 {
        true => format!("-{}", human::duration(-ns)),
        false => format!("+{}", human::duration(ns)),
    };
    let changes: Vec<String> = changes
        .iter()
        .take(3)
        .map(|(change, name)| format!("{name} {}", signed(*change)))
        .collect();
    let changes = match changes.is_empty() {
        true => String::new(),
        false => format!("; {}", changes.join(", ")),
    };
    let ratio = match a > 0.0 {
        true => format!(" ({})", human::percent(100.0 * b / a)),
        false => String::new(),
    };
    let word = match b - a {
        _ if kind.is_alike() && !by_mean => "about as fast as",
        change if change > 0.0 => "slower than",
        _ => "faster than",
    };
    let few = timed(kind).iter().any(|n| *n < ENOUGH_STEPS);
    let chance = match kind.wall_p {
        _ if !by_step => String::new(),
        _ if few => " Too few steps to tell a difference from chance.".to_owned(),
        Some(p) if !kind.is_alike() && !kind.is_significant() => {
            format!(" Chance can explain this difference (Mann-Whitney p = {p:.2}).")
        }
        _ => String::new(),
    };
    let but = match unlike {
        true => "A and B cannot be compared step with step (see caution): ",
        false => "",
    };
    let host = match by_step {
        true => host_change(found, kind),
        false => String::new(),
    };
    let tail = if by_step { tail(kind) } else { String::new() };
    let batches = unlike_batches(found, kind).map_or_else(String::new, |text| {
        format!(" Not like with like: by their names, steps of B hold {text} (medians).")
    });
    format!(
        "{but}B is {word} A {what}: {} against {}{ratio}{changes}.{tail}{batches}{chance}{host}",
        human::duration(b),
        human::duration(a)
    )
}

/// Returns the GPU activities per step of each side if one side has more than one and a half times
/// as many: then the sides do different work.
fn unequal(kind: &StepKind) -> Option<[u64; 2]> {
    let mean = [0, 1].map(|i| kind.events[i].div_ceil(kind.steps[i].max(1)));
    (2 * mean[0].max(mean[1]) > 3 * mean[0].min(mean[1])).then_some(mean)
}

/// Minimum part of the change of idle time that a function's own time must have changed by, to be
/// named for it.
const NAMED_PART: f64 = 0.25;

/// Returns a sentence on the host code behind a change that is mostly idle time of the GPU.
fn host_change(found: &Comparison, kind: &StepKind) -> String {
    let change = |metric: Metric| {
        let [a, b] = kind.metric(metric).map(|spread| spread.median_ns);
        b - a
    };
    let (wall, idle) = (change(Metric::Wall), change(Metric::Idle));
    if kind.is_alike() || wall * idle <= 0.0 || idle.abs() * 2.0 < wall.abs() {
        return String::new();
    }
    let at = found.kinds.iter().position(|of| std::ptr::eq(of, kind));
    let rows = || found.host.iter().filter(|row| Some(row.step_kind) == at);
    let least = NAMED_PART * idle.abs();
    let grown = |row: &&HostChange| row.diff_ns() * idle > 0.0 && row.diff_ns().abs() >= least;
    // A wait for the GPU lasts as long as the GPU takes; it is a reason only where there are more or
    // fewer of them, each of which lets the GPU run dry.
    let is_device = |row: &&HostChange| row.kind == HostKind::DeviceWait;
    let first = rows().filter(|row| !is_device(row)).find(grown);
    let syncs = rows()
        .filter(is_device)
        .filter(|row| row.more_calls() * idle > 0.0 && row.more_calls().abs() >= 0.5)
        .max_by(|x, y| x.more_calls().abs().total_cmp(&y.more_calls().abs()));
    let more_syncs = syncs.map(|row| {
        let [a, b] = row.calls_per_step.map(number);
        format!("{} is called {b} times per step instead of {a}", row.name)
    });
    let more_syncs = |lead: &str| {
        more_syncs
            .as_ref()
            .map_or_else(String::new, |text| format!("{lead}{text}"))
    };
    if let Some(row) = first {
        let [a, b] = row.per_step_ns.map(human::duration);
        let wait = match row.kind {
            HostKind::InputWait => " (a wait for requests, data, a lock or time)",
            _ => "",
        };
        let syncs = more_syncs("; ");
        let name = &row.name;
        return format!(" On the host, {name}{wait} takes {b} per step instead of {a}{syncs}.");
    }
    if syncs.is_some() {
        return format!("{}.", more_syncs(" On the host, "));
    }
    if !rows().any(|row| row.kind == HostKind::Code) {
        return format!(
            " What the GPU waits for is not in the recordings: record Python functions on both sides ({}).",
            Lack::PythonFunctions.how(found.recorders[0])
        );
    }
    match rows().find(grown) {
        Some(row) => {
            let [a, b] = row.per_step_ns.map(human::duration);
            format!(
                " The host waits for the GPU in {} for {b} per step instead of {a}; no other function or call \
                 of the launching threads changed by as much.",
                row.name
            )
        }
        None => " No recorded function or call of the launching threads changed by as much: critical-path \
                 tells for each recording what the GPU waits for."
            .to_owned(),
    }
}

/// Returns a mean number of calls, without a fraction where it has none.
fn number(mean: f64) -> String {
    let text = format!("{mean:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

/// Returns how batches differ that the names of the steps state, by medians.
fn unlike_batches(found: &Comparison, kind: &StepKind) -> Option<String> {
    type Count = fn(&StepBatch) -> Option<u64>;
    let counts: [(&str, Count); 4] = [
        ("requests", StepBatch::batch_size),
        ("tokens", StepBatch::all_tokens),
        ("prompt tokens", |batch| batch.prefills()?.tokens),
        ("generating requests", |batch| {
            Some(batch.decodes()?.requests)
        }),
    ];
    let median = |side: usize, count: Count| {
        let of_kind = |step: &&StepTime| step_group(&step.name) == kind.name;
        let steps = found.steps.get(side)?.iter().filter(of_kind);
        let mut values: Vec<u64> = steps
            .filter_map(|step| count(&step_batch(&step.name)?))
            .collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied()
    };
    let mut said: Vec<String> = Vec::new();
    for (what, count) in counts {
        let (Some(a), Some(b)) = (median(0, count), median(1, count)) else {
            continue;
        };
        // Of equal counts one is enough: the tokens of a decode step are its requests.
        let text = format!("{} against {} ", human::count(b), human::count(a));
        if a != b && !said.iter().any(|known| known.starts_with(&text)) {
            said.push(format!("{text}{what}"));
        }
    }
    (!said.is_empty()).then(|| said.join(", "))
}

/// Returns a sentence where the medians are about the same and the means are not.
fn tail(kind: &StepKind) -> String {
    let [a, b] = kind.metric(Metric::Wall);
    let is_apart = (b.mean_ns - a.mean_ns).abs() >= TAIL_PART * a.mean_ns;
    if !kind.is_alike() || !is_apart || timed(kind).iter().any(|n| *n < ENOUGH_STEPS) {
        return String::new();
    }
    let of = |ns: [f64; 2]| {
        let [a, b] = ns.map(human::duration);
        format!("{b} against {a}")
    };
    if follows_mean(kind) {
        return format!(
            " Most steps are alike: the median is {}, the 90th percentile {}.",
            of([a.median_ns, b.median_ns]),
            of([a.p90_ns, b.p90_ns])
        );
    }
    format!(
        " Only the medians are alike: the mean is {}, the 90th percentile {}.",
        of([a.mean_ns, b.mean_ns]),
        of([a.p90_ns, b.p90_ns])
    )
}

/// Returns `true` if the medians hide how long steps take: they are alike, while means and 90th percentiles both differ by more
/// than half. A step that is found at every other place, or every other one that stalls, looks like that.
fn follows_mean(kind: &StepKind) -> bool {
    const APART: f64 = 1.5;
    let [a, b] = kind.metric(Metric::Wall);
    let apart = |a: f64, b: f64| a > 0.0 && b > 0.0 && (b / a).ln().abs() >= APART.ln();
    kind.is_alike()
        && timed(kind).iter().all(|n| *n >= ENOUGH_STEPS)
        && apart(a.mean_ns, b.mean_ns)
        && apart(a.p90_ns, b.p90_ns)
        && (b.mean_ns > a.mean_ns) == (b.p90_ns > a.p90_ns)
}

/// Minimum difference of means, as a part of the first, that medians which are alike do not hide.
const TAIL_PART: f64 = 0.05;

/// Returns which steps have no time because none is before or after them.
fn outer_steps(found: &Comparison) -> Option<String> {
    let each = found.kinds.iter().filter_map(|kind| {
        let count = timed(kind);
        let sides = [("A", 0), ("B", 1)].into_iter();
        let sides = sides.filter(|(_, i)| count[*i] < kind.steps[*i]);
        let sides: Vec<String> = sides
            .map(|(side, i)| format!("{} of {} in {side}", count[i], kind.steps[i]))
            .collect();
        let name = match phase_of_word(&kind.name) {
            Some(phase) => phase.name(),
            None => kind.name.as_str(),
        };
        (!sides.is_empty()).then(|| format!("{name} {}", sides.join(" and ")))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| {
        format!(
            "times are of {}: the first and the last step of a recording lack the time to the step beside them",
            each.join("; ")
        )
    })
}

/// Returns what the answer rests on and its caveats, each with its label.
pub fn lines(found: &Comparison) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let ns = |ns: i64| human::duration(real(ns));
    if found.basis == Basis::StepsByTime {
        let text = "no launch call lies in a step: a step holds the GPU activity that starts in it"
            .to_owned();
        out.push(("steps", text));
    }
    for kind in &found.kinds {
        if let Some([a, b]) = unequal(kind) {
            out.push((
                "caution",
                format!(
                    "{} holds {a} GPU activities in A and {b} in B: not the same work",
                    match kind.name.as_str() {
                        "" => "the recording".to_owned(),
                        name => a_step(name),
                    }
                ),
            ));
        }
    }
    if let Some(text) = outer_steps(found) {
        out.push(("steps", text));
    }
    for kind in &found.lonely {
        let side = if kind.steps[0] > 0 { "A" } else { "B" };
        let count = human::count(kind.steps[0].max(kind.steps[1]));
        let text = match (phase_of_word(&kind.name), count.as_str()) {
            (Some(phase), "1") => {
                format!("1 {} step is only in {side}: not compared", phase.name())
            }
            (Some(phase), _) => {
                format!(
                    "{count} {} steps are only in {side}: not compared",
                    phase.name()
                )
            }
            (None, "1") => format!("1 step {} is only in {side}: not compared", kind.name),
            (None, _) => format!(
                "{count} steps {} are only in {side}: not compared",
                kind.name
            ),
        };
        out.push(("steps", text));
    }
    let [a, b] = found.left_out;
    if a.0 + b.0 > 0 {
        out.push((
            "left out",
            format!(
                "{} GPU activities of A ({}) and {} of B ({}) belong to no step that is compared",
                human::count(a.0),
                ns(a.1),
                human::count(b.0),
                ns(b.1)
            ),
        ));
    }
    let only = |status: &str, side: usize| {
        let rows = || found.diff.kernels.iter().filter(|k| k.status() == status);
        let count: u64 = rows().map(|k| k.count[side]).sum();
        let sum: i64 = rows().map(|k| k.ns[side]).sum();
        format!("{} ({})", human::count(count), ns(sum))
    };
    out.push((
        "unpaired",
        format!(
            "{} kernels only in A, {} only in B",
            only("gone", 0),
            only("new", 1)
        ),
    ));
    out
}
