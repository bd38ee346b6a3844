//! What bounds the GPU time of a recording, as a sentence with its evidence.

use std::panic::resume_unwind;
use std::thread;

use gpu_time::{GpuTime, GpuWork, IdleBound, IdleVerdict, Split, idle_parts, percent};
use rca_cycles::Limit;
use report::human;
use trace_model::kernel::LaunchCalls;

use crate::precise;

/// What the calls of the host tell: who waits for whom, and why the device idles.
pub(crate) struct Host {
    slack: Option<rca_cycles::Slack>,
    verdict: IdleVerdict,
}

impl Host {
    pub(crate) fn of(work: &GpuWork<'_>, how: &Split, threads: usize) -> Self {
        let slack = || rca_cycles::slack(work.trace(), how.window);
        let (slack, verdict) = match threads {
            1 => (slack(), idle_verdict(work, how)),
            _ => thread::scope(|scope| {
                let slack = scope.spawn(slack);
                let verdict = idle_verdict(work, how);
                (
                    slack.join().unwrap_or_else(|panic| resume_unwind(panic)),
                    verdict,
                )
            }),
        };
        Self { slack, verdict }
    }
}

/// Minimum share of exposed communication in the span that bounds a trace, in percent.
const MUCH: f64 = gpu_time::IDLE_MUCH_PCT;

/// Returns why the device idles, as decided by the answer about [idle time](crate::idle).
fn idle_verdict(work: &GpuWork<'_>, how: &Split) -> IdleVerdict {
    let mut whole = Split::default();
    whole.window = how.window;
    let parts = idle_parts(work, &whole, 0);
    IdleVerdict::of(parts.iter().map(|part| &part.idle))
}

/// Returns why the device idles, if it idles much and not for lack of launches.
fn idle_reason(verdict: &IdleVerdict) -> Option<String> {
    match verdict.bound {
        IdleBound::Input
        | IdleBound::LongCall
        | IdleBound::Gaps
        | IdleBound::Blocked
        | IdleBound::Unknown => {
            let (cause, _) = verdict.causes().into_iter().next()?;
            let idle = human::percent(verdict.idle_pct());
            let why = cause.explanation();
            Some(format!(
                "The GPU idles {idle} of the time, most of that {why}"
            ))
        }
        _ => None,
    }
}

/// Returns the bound of the GPU time, with its evidence in numbers.
/// Where much work of the launches is missing, that is not known. `host` is `None` where only the launches of the host were read, so that nothing is said of its waits; `remedy` states what to
/// do then.
pub(crate) fn headline(
    time: &GpuTime,
    launches: LaunchCalls,
    host: Option<Host>,
    remedy: &str,
) -> String {
    let share = |ns: i64| percent(ns, time.span_ns).unwrap_or(0.0);
    let (idle, comm) = (share(time.idle_ns), share(time.exposed_comm_ns));
    let copy = share(time.exposed_memcpy_ns);
    let is_copy = copy > idle.max(comm).max(share(time.comp_ns));
    let is_examined = host.is_some();
    // The host could not have started work sooner that starts long after its launch.
    let (slack, verdict) = match host {
        Some(host) => (host.slack, host.verdict),
        None => (None, IdleVerdict::of([])),
    };
    let limit = slack.and_then(|slack| Some((slack, slack.limit()?)));
    let is_host = |(slack, limit): (rca_cycles::Slack, Limit)| match limit {
        Limit::Host => true,
        Limit::Turns => slack.mostly_host(),
        _ => false,
    };
    let reason = match idle >= comm && is_examined {
        true => idle_reason(&verdict),
        false => None,
    };
    let word = match (limit, reason) {
        _ if launches.is_capture => {
            "The recording of a graph capture, whose launches ran on no GPU, says nothing of what limits a step".to_owned()
        }
        _ if launches.lack_much() => format!(
            "What limits it cannot be said, as {} of {} launches have no GPU activity",
            human::count(launches.without_work),
            human::count(launches.calls)
        ),
        _ if is_copy => "Copy-bound".to_owned(),
        (_, Some(word)) => word,
        (Some(both @ (_, Limit::Turns)), _) => match is_host(both) {
            true => "Host and GPU take turns, mostly the host".to_owned(),
            false => "Host and GPU take turns, mostly the GPU".to_owned(),
        },
        (Some((_, Limit::Balanced)), _) => {
            "Host and GPU are balanced: neither waits for the other".to_owned()
        }
        (Some(both), _) if is_host(both) && verdict.bound.is_launch() => {
            format!("{} (the GPU waits for launches)", verdict.bound.words())
        }
        // Which part is launching depends on what a gap between two launches is taken for.
        (Some(both), _) if is_host(both) => {
            "Host-bound (the GPU waits for the host, launches included)".to_owned()
        }
        (Some(_), _) if comm > share(time.comp_ns) => "Communication-bound".to_owned(),
        (Some(_), _) => "GPU-bound".to_owned(),
        (None, _) if comm >= MUCH => "Communication-bound".to_owned(),
        (None, _) if share(time.comp_ns) >= 100.0 - MUCH => "GPU-bound".to_owned(),
        (None, _) if !is_examined => {
            let remedy = match remedy {
                "" => String::new(),
                remedy => format!("; {remedy}"),
            };
            format!("Host not examined (of a file of this size only its launches are read{remedy})")
        }
        (None, _) => "Neither idle time nor communication dominates".to_owned(),
    };
    let waits = match slack.filter(|_| limit.is_some()) {
        Some(slack) => format!(
            "; the GPU waits for launches {}, the host for the GPU {}",
            human::percent(slack.device_free() * 100.0),
            human::percent(slack.host_wait() * 100.0)
        ),
        None => String::new(),
    };
    let overlap = match time.comm_comp_overlap_pct() {
        Some(pct) => format!(
            "; {} of communication overlaps computation",
            human::percent(pct)
        ),
        None if time.graphs > 0 => String::new(),
        None => "; no communication".to_owned(),
    };
    let copies = match copy >= 1.0 {
        true => format!(", copies exposed {}", human::percent(copy)),
        false => String::new(),
    };
    let span = human::duration(precise(time.span_ns));
    let (computes, exposed) = (human::percent(share(time.comp_ns)), human::percent(comm));
    let idles = human::percent(idle);
    if time.graphs == 0 {
        return format!(
            "{word}: of {span} the GPU computes {computes}, communicates exposed {exposed}{copies}, idles {idles}{overlap}{waits}."
        );
    }
    let communicates = match time.comm_comp_overlap_pct() {
        Some(_) => format!(", communicates exposed at least {exposed}"),
        None => String::new(),
    };
    let graphs = match time.graphs {
        1 => "1 CUDA graph counts as computation".to_owned(),
        n => format!("{} CUDA graphs count as computation", human::count(n)),
    };
    format!(
        "{word}: of {span} the GPU computes or runs graphs {computes}{communicates}{copies}, idles at least \
         {idles}{overlap}{waits}. {graphs}: what runs inside, communication included, is not recorded; record with \
         `nsys profile --cuda-graph-trace=node`."
    )
}
