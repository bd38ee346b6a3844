//! Describes the limit of the steps of a phase: a sentence with its numbers and one advice.

use critical_path::Group;
use rca_cycles::{Analysis, Bottleneck, Limit, Phase, Stalls, StepPaths, bottlenecks};
use report::human;
use serde_json::{Value, json};

use crate::text::{Names, kernel_names, shown_name, time};

fn percent(share: f64) -> String {
    human::percent(share * 100.0)
}

#[expect(clippy::cast_possible_truncation, reason = "calls in a step")]
fn count(n: f64) -> String {
    human::count(n.round() as i64)
}

fn phase_words(phase: Phase) -> &'static str {
    match phase {
        Phase::Unknown => "steps",
        other => other.name(),
    }
}

/// Returns the answer in sentences: verdict, evidence, advice.
pub(crate) fn sentences(names: Names, analysis: &Analysis, b: &Bottleneck) -> Vec<String> {
    let step = time(b.step_ns[0]);
    let mut lines = Vec::new();
    let phase = phase_words(b.phase);
    let has_gpu = analysis.functions.iter().any(|f| f.kind.is_device());
    if b.verdict.is_none() && has_gpu {
        lines.push(format!("{phase}: {}; at least {step} per step", b.answer));
        lines.push(
            "End the recording behind a synchronisation and give the profiler larger buffers; of a graph record its replays, not its capture."
                .to_owned(),
        );
        return lines;
    }
    if b.verdict.is_none() {
        lines.push(format!(
            "{phase}: no GPU activity was recorded, so what limits the step cannot be said: {step} per step"
        ));
        lines
            .push("Record GPU activity (CUPTI, roctracer) together with the host code.".to_owned());
        return lines;
    }
    let mut answer = format!("{phase}: {}; {step} per step", b.answer);
    if let Some(s) = &b.stalls {
        answer.push_str("; ");
        answer.push_str(&stalls(names, analysis, b, s));
    }
    lines.push(answer);
    lines.extend(who_waits(b));
    let graphs = match b.graph_launches {
        n if n >= 0.5 => format!("{} of them a graph", count(n)),
        _ => "no graph".to_owned(),
    };
    let launched = match b.gpu_operations {
        n if n > 0.0 => format!(
            "work starts {} after its launch; {} launches of {} operations, {graphs}",
            time(b.queue_ns),
            count(b.launch_calls),
            count(n),
        ),
        _ => "no GPU activity with a known launch".to_owned(),
    };
    lines.push(format!(
        "GPU time {}, host time {} per step; {}",
        time(b.gpu_ns),
        time(b.host_ns),
        launched,
    ));
    let classes: Vec<String> = b
        .classes
        .iter()
        .filter(|(_, share)| *share > 0.0)
        .take(4)
        .map(|(class, share)| format!("{class} {}", percent(*share)))
        .collect();
    if !classes.is_empty() {
        lines.push(format!("GPU time by class: {}", classes.join(", ")));
    }
    if b.queued_ns > 0 {
        lines.push(format!(
            "The first step was queued {} behind earlier work; that is not part of its time.",
            time(b.queued_ns)
        ));
    }
    lines.extend(advice(names, analysis, b));
    lines
}

/// Returns a sentence on who waits for whom.
fn who_waits(b: &Bottleneck) -> Option<String> {
    let times = format!(
        "the GPU waits for launches {} of the time, the host for the GPU {}",
        percent(b.device_free),
        percent(b.host_wait)
    );
    let mut answer = match b.limit? {
        Limit::Turns => format!("Host and GPU take turns, so both add to the step: {times}."),
        Limit::Host if matches!(b.verdict, Some(Group::Gpu | Group::Comm)) => format!(
            "The host never waits for the GPU, so faster kernels alone do not shorten these steps: {times}."
        ),
        Limit::Balanced => {
            format!("Neither waits for the other, so a shorter step needs both shorter: {times}.")
        }
        _ => format!("{times}."),
    };
    // Capitalizes the sentence.
    answer[..1].make_ascii_uppercase();
    Some(answer)
}

/// Describes the few steps that take much longer than the others.
fn stalls(names: Names, analysis: &Analysis, b: &Bottleneck, s: &Stalls) -> String {
    let short = kernel_names(analysis);
    let in_what = match s.function.map(|i| &analysis.functions[i]) {
        Some(f) => format!("in {}", names.fit(shown_name(&short, f), 60)),
        None => "in no one recorded function".to_owned(),
    };
    let first = s.cycles.iter().take(8);
    let cycles: Vec<String> = first.map(|c| (c + 1).to_string()).collect();
    let more = if s.cycles.len() > cycles.len() {
        ", ..."
    } else {
        ""
    };
    // A stall that spans two adjacent cycles counts once.
    let all = s.cycles.len();
    let stalls = all - s.cycles.windows(2).filter(|w| w[1] == w[0] + 1).count();
    if stalls < all {
        let total = s.excess_ns.saturating_mul(i64::try_from(all).unwrap_or(1));
        return format!(
            "{stalls} stalls in {} steps, {} each {in_what}: cycles {}{more}",
            b.steps,
            time(total / i64::try_from(stalls).unwrap_or(1)),
            cycles.join(", ")
        );
    }
    format!(
        "{all} of {} steps stall {} each {in_what}: cycles {}{more}",
        b.steps,
        time(s.excess_ns),
        cycles.join(", ")
    )
}

/// Returns `true` for the name of a graph whose kernels are not recorded.
fn is_whole_graph(name: &str) -> bool {
    name.strip_prefix("CUDA graph ")
        .is_some_and(|ids| ids.contains(" exec "))
}

fn advice(names: Names, analysis: &Analysis, b: &Bottleneck) -> Option<String> {
    // Kernels and functions of this rank are not what its steps wait for.
    if let Some((rank, share)) = b.elsewhere {
        return Some(format!(
            "Begin with rank {rank}: {} of the path is on other ranks, most of it there.",
            percent(share)
        ));
    }
    let short = kernel_names(analysis);
    let called = |i: usize| names.fit(shown_name(&short, &analysis.functions[i]), 60);
    // What runs beside a host that never waits gains nothing.
    let verdict = match (b.verdict?, b.limit) {
        (Group::Gpu | Group::Comm, Some(Limit::Host)) => Group::Host,
        (verdict, _) => verdict,
    };
    let words = match verdict {
        Group::Gpu => {
            let (kernel, share) = b.kernel?;
            let class = b.classes.first()?;
            if is_whole_graph(&analysis.functions[kernel].name) {
                return Some(format!(
                    "Record what runs inside the CUDA graphs first (`nsys profile --cuda-graph-trace=node`): they are \
                     recorded as a whole, and {} alone takes {} of the GPU time.",
                    called(kernel),
                    percent(share)
                ));
            }
            return Some(format!(
                "Begin with {}, {} of the GPU time; its kernel with most time is {}: {}.",
                class.0,
                percent(class.1),
                called(kernel),
                percent(share)
            ));
        }
        #[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
        Group::Launch => {
            let each = human::duration(b.step_ns[0] as f64 / b.launch_calls.max(1.0));
            let kernel = human::duration(b.gpu_ns as f64 / b.gpu_operations.max(1.0));
            let advice = match b.graph_launches {
                n if n >= 0.5 => "Bring more of the step into graphs",
                _ => "Run the step with CUDA or HIP graphs",
            };
            return Some(format!(
                "{advice}: the host launches once in {each}, an operation takes {kernel} of GPU time."
            ));
        }
        Group::Host => {
            let (function, ns) = b.function?;
            return Some(format!(
                "Begin with {}: {} of own time per step.",
                called(function),
                time(ns)
            ));
        }
        Group::Comm if b.is_joined => {
            "Overlap or shrink collectives: time in which ranks wait for a late one is no part of this."
        }
        Group::Comm => {
            "Compare the ranks (trace-info comm): a late rank makes others wait; else overlap or shrink collectives."
        }
        Group::Sync => {
            "See which calls wait for the GPU (trace-info critical-path), and whether the step needs their result at once."
        }
        Group::Wait => {
            "The engine waits for requests or a lock: faster code or kernels do not shorten these steps."
        }
        Group::Input => "Load data ahead of the step, and copy it from pinned memory.",
        Group::Unknown => {
            "Record Python functions of the process that schedules, to see the time between steps."
        }
    };
    Some(words.to_owned())
}

/// Returns the same as JSON.
pub(crate) fn document(analysis: &Analysis, paths: &StepPaths) -> Vec<Value> {
    let each = bottlenecks(analysis, paths).into_iter();
    each.map(|b| {
        let classes: Vec<Value> = b
            .classes
            .iter()
            .map(|(class, share)| json!({"class": class, "share_pct": share * 100.0}))
            .collect();
        json!({
            "phase": b.phase.name(),
            "steps": b.steps,
            "bound": b.verdict.map_or("no_gpu_activity", Group::name),
            "gpu_limit": b.gpu_limit.map(critical_path::Limit::name),
            "budget_ns": b.budget,
            "elsewhere": b.elsewhere.map(|(rank, share)| json!({"rank": rank, "share_pct": share * 100.0})),
            "model_error_pct": paths.error().map(|error| error.model_error_pct),
            "limit": b.limit.map(Limit::name),
            "gpu_waits_pct": b.device_free * 100.0,
            "host_waits_pct": b.host_wait * 100.0,
            "share_pct": b.share * 100.0,
            "second": b.second.map(|(v, share)| json!({"bound": v.name(), "share_pct": share * 100.0})),
            "step_p50_ns": b.step_ns[0],
            "step_p95_ns": b.step_ns[1],
            "step_p99_ns": b.step_ns[2],
            "gpu_ns": b.gpu_ns,
            "host_ns": b.host_ns,
            "queue_ns": b.queue_ns,
            "queued_ns": b.queued_ns,
            "launch_calls": b.launch_calls,
            "graph_launches": b.graph_launches,
            "gpu_operations": b.gpu_operations,
            "classes": classes,
            "top_kernel": b.kernel.map(|(i, share)| json!({
                "name": analysis.functions[i].name,
                "share_pct": share * 100.0,
            })),
            "top_function": b.function.map(|(i, ns)| json!({
                "name": analysis.functions[i].name,
                "self_ns_per_step": ns,
            })),
            "stalls": b.stalls.as_ref().map(|s| json!({
                "cycles": s.cycles.iter().map(|c| c + 1).collect::<Vec<_>>(),
                "excess_ns": s.excess_ns,
                "function": s.function.map(|i| &analysis.functions[i].name),
            })),
            "text": sentences(Names::Whole, analysis, &b),
        })
    })
    .collect()
}
