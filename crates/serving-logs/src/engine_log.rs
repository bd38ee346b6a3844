//! Lines of an engine's log that state its throughput, and what it did meanwhile.

use crate::StepRow;
use crate::log_clock::{LogClock, log_clock};

/// The number after `key`.
fn after(line: &str, key: &str) -> Option<f64> {
    let rest = line.split_once(key)?.1.trim_start();
    let end = rest
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(rest.len());
    // A sentence may end after the number.
    rest[..end].trim_end_matches('.').parse().ok()
}

/// Returns the step that a line of the log of SGLang (`Decode batch`) or vLLM (`Avg generation throughput`) stands for: the mean time
/// of a token of each running request since the line before. Lines without requests or without throughput are no steps.
///
/// SGLang states the tokens of all contexts; vLLM the part of its cache that they fill, which counts as thousands of tokens per percent:
/// a factor that a fit finds.
///
/// ```
/// let line = "[2025-07-18 15:32:54 TP0] Decode batch. #running-req: 32, #token: 64000, token usage: 0.10, \
///     cuda graph: True, gen throughput (token/s): 3200.00, #queue-req: 0";
/// let step = serving_logs::log_step(line).unwrap();
/// assert_eq!((step.duration_us, step.batch, step.input), (10_000.0, 32.0, 2_000.0));
/// ```
#[must_use]
pub fn log_step(line: &str) -> Option<StepRow> {
    let (running, rate, context) = if line.contains("Decode batch") {
        (
            after(line, "#running-req:")?,
            after(line, "gen throughput (token/s):")?,
            after(line, "#token:").unwrap_or(0.0),
        )
    } else {
        (
            after(line, "Running:")?,
            after(line, "Avg generation throughput:")?,
            1000.0 * after(line, "GPU KV cache usage:").unwrap_or(0.0),
        )
    };
    (running >= 1.0 && rate > 0.0).then(|| StepRow {
        start_us: clock_us(line).unwrap_or(0.0),
        duration_us: running / rate * 1e6,
        batch: running,
        input: context / running,
        ..StepRow::default()
    })
}

/// Returns `true` if one of the first lines of a text states a throughput, or is of an engine's log at all.
#[must_use]
pub fn is_engine_log(text: &str) -> bool {
    let mut first = text.lines().take(2_000);
    first.any(|line| {
        line.contains("Avg generation throughput:") || line.contains("Decode batch. #running-req:")
    })
}

/// What an engine states of its requests at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct EngineState {
    /// Time of the line as printed, in nanoseconds since 1970; see [`EngineStates::clock`].
    pub at_ns: i64,
    /// Requests that run.
    pub running: f64,
    /// Requests that wait.
    pub waiting: Option<f64>,
    /// Used part of the KV cache, in percent.
    pub cache_pct: Option<f64>,
    /// Generated tokens per second since the line before.
    pub tokens_per_s: Option<f64>,
}

/// Requests that lost their place in the KV cache and are computed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Preemption {
    /// Time of the line as printed.
    pub at_ns: i64,
    /// Number of requests.
    pub requests: u64,
}

/// What the log of an engine states over time.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct EngineStates {
    /// By time.
    pub states: Vec<EngineState>,
    /// By time.
    pub preemptions: Vec<Preemption>,
    /// How the times are printed; that of the first line.
    pub clock: LogClock,
    /// Lines of this kind without a time.
    pub without_time: u64,
}

/// Reads what the log of vLLM or SGLang states of running and waiting requests, of the KV cache and of preemptions. Of several
/// engines in one log those of the first are read.
///
/// ```
/// let log = "[2025-07-18 15:32:54 TP0] Decode batch. #running-req: 32, #token: 64000, token usage: 0.99, \
///     cuda graph: True, gen throughput (token/s): 3200.00, #queue-req: 5\n\
///     [2025-07-18 15:32:55 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 2\n";
/// let found = serving_logs::engine_states(log);
/// let state = found.states[0];
/// assert_eq!((state.running, state.waiting, state.cache_pct), (32.0, Some(5.0), Some(99.0)));
/// assert_eq!((found.preemptions[0].requests, found.clock.has_year), (2, true));
/// ```
#[must_use]
pub fn engine_states(text: &str) -> EngineStates {
    let mut out = EngineStates::default();
    let mut first_engine = None;
    let mut is_first = true;
    for line in text.lines() {
        let preempted = preempted(line);
        let state = state(line);
        if preempted.is_none() && state.is_none() {
            continue;
        }
        let engine = after(line, "Engine ");
        if first_engine.is_none() {
            first_engine = engine;
        }
        if engine.is_some() && engine != first_engine {
            continue;
        }
        let Some((at_ns, clock)) = log_clock(line) else {
            out.without_time += 1;
            continue;
        };
        if is_first {
            (is_first, out.clock) = (false, clock);
        }
        if let Some(requests) = preempted.filter(|n| *n > 0) {
            out.preemptions.push(Preemption { at_ns, requests });
        }
        out.states
            .extend(state.map(|state| EngineState { at_ns, ..state }));
    }
    out.states.sort_by_key(|state| state.at_ns);
    out.preemptions.sort_by_key(|one| one.at_ns);
    out
}

/// Returns the number of requests that a line calls preempted (vLLM) or retracted (SGLang).
fn preempted(line: &str) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count; casts of reals saturate"
    )]
    let count = |n: f64| n as u64;
    if line.contains("is preempted by") {
        return Some(1);
    }
    let keys = ["#retracted_reqs:", "#retracted_reqs =", "Preemptions:"];
    keys.iter().find_map(|key| after(line, key)).map(count)
}

/// Returns what a line states, without its time.
fn state(line: &str) -> Option<EngineState> {
    let of_sglang = line.contains("Decode batch") || line.contains("Prefill batch");
    let (running, waiting, cache_pct, tokens_per_s) = match of_sglang {
        true => (
            after(line, "#running-req:")?,
            after(line, "#queue-req:"),
            after(line, "token usage:").map(|part| 100.0 * part),
            after(line, "gen throughput (token/s):"),
        ),
        false => (
            after(line, "Running:")?,
            after(line, "Waiting:").or_else(|| after(line, "Pending:")),
            after(line, "GPU KV cache usage:"),
            Some(after(line, "Avg generation throughput:")?),
        ),
    };
    Some(EngineState {
        at_ns: 0,
        running,
        waiting,
        cache_pct,
        tokens_per_s,
    })
}

/// Microseconds of the first clock time of a line, in whole seconds.
fn clock_us(line: &str) -> Option<f64> {
    let (ns, _) = log_clock(line)?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "times of this century in seconds"
    )]
    let us = ns.div_euclid(1_000_000_000) as f64 * 1e6;
    Some(us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_engines_and_of_neither() {
        let line = "(APIServer pid=7151) INFO 07-24 14:10:08 [loggers.py:273] Engine 000: Avg prompt throughput: 3539.1 tokens/s, Avg generation throughput: 3150.0 tokens/s, Running: 126 reqs, Waiting: 0 reqs, GPU KV cache usage: 36.4%, Prefix cache hit rate: 0.0%";
        let step = log_step(line).unwrap();
        assert!((step.duration_us - 40_000.0).abs() < 1e-9);
        assert_eq!((step.batch, step.prefill), (126.0, false));
        assert!((step.batch * step.input - 36_400.0).abs() < 1e-6);
        // 204 days of 1970 and the time of the day.
        assert!((step.start_us - (204.0 * 86_400.0 + 51_008.0) * 1e6).abs() < 1e-3);
        for line in [
            "",
            "INFO: Application startup complete.",
            "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs",
            "Decode batch. #running-req: 32",
            "Decode batch. #running-req: x, gen throughput (token/s): 1",
            "Prefill batch. #new-seq: 1, #new-token: 2192, #running-req: 0",
        ] {
            assert_eq!(log_step(line), None, "{line}");
        }
        assert!(is_engine_log(&format!("start\n{line}\n")) && !is_engine_log("a,b\n1,2\n"));
    }

    #[test]
    fn dates_and_times() {
        let of = |line: &str| clock_us(line).map(|us| us / 1e6);
        // As `date -u -d 2025-07-18T15:32:54 +%s` prints it.
        let wanted = Some(1_752_852_774.0);
        assert_eq!(of("[2025-07-18 15:32:54 TP0] x"), wanted);
        assert_eq!(of("2025-07-18T15:32:54.159Z x"), wanted);
        assert_eq!(of("at 00:00:07"), Some(7.0));
        assert_eq!(of("h\u{e9} 12:0"), None);
    }

    #[test]
    fn states_of_both_engines() {
        let log = "INFO 07-24 14:10:08 [loggers.py:273] Engine 000: Avg prompt throughput: 3539.1 tokens/s, Avg generation throughput: 3150.0 tokens/s, Running: 126 reqs, Waiting: 7 reqs, GPU KV cache usage: 98.4%, Prefix cache hit rate: 0.0%\n\
            INFO 07-24 14:10:08 [loggers.py:273] Engine 001: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.4%\n\
            WARNING 07-24 14:10:11 [scheduler.py:1057] Sequence group 32 is preempted by PreemptionMode.RECOMPUTE mode\n\
            nonsense\n\
            Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Swapped: 0 reqs, Pending: 0 reqs\n\
            INFO 07-24 14:10:18 x] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Swapped: 0 reqs, Pending: 4 reqs, GPU KV cache usage: 0.0%";
        let found = engine_states(log);
        let each: Vec<_> = found
            .states
            .iter()
            .map(|s| (s.running, s.waiting, s.cache_pct))
            .collect();
        assert_eq!(
            each,
            [(126.0, Some(7.0), Some(98.4)), (0.0, Some(4.0), Some(0.0))]
        );
        assert_eq!(
            found.states[1].at_ns - found.states[0].at_ns,
            10_000_000_000
        );
        assert_eq!((found.preemptions.len(), found.without_time), (1, 1));
        assert_eq!(
            (found.clock.has_year, found.clock.resolution_ns),
            (false, 1_000_000_000)
        );
        let prefill = "[2025-07-18 15:32:54 TP0] Prefill batch. #new-seq: 1, #new-token: 2192, #cached-token: 0, token usage: 0.25, #running-req: 3, #queue-req: 2";
        let found = engine_states(prefill);
        assert_eq!(
            (found.states[0].running, found.states[0].cache_pct),
            (3.0, Some(25.0))
        );
        assert_eq!(engine_states("").states, []);
    }
}
