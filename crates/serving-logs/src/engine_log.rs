//! Lines of an engine's log that state its throughput.

use crate::StepRow;

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

/// Microseconds of the first clock time of a line (`15:32:54`), with the date before it if there is one (`2025-07-18`, `07-18`); a
/// date without a year is one of 1970.
fn clock_us(line: &str) -> Option<f64> {
    let bytes = line.as_bytes();
    let is_time = |w: &[u8]| {
        w.iter().enumerate().all(|(at, b)| match at {
            2 | 5 => *b == b':',
            _ => b.is_ascii_digit(),
        })
    };
    let at = bytes.windows(8).position(is_time)?;
    let number = |text: &str| text.parse::<i64>().ok();
    let clock = line.get(at..at + 8)?;
    let mut parts = clock.split(':').filter_map(number);
    let seconds = parts.next()? * 3600 + parts.next()? * 60 + parts.next()?;
    let date = line.get(..at)?.trim_end_matches([' ', 'T']);
    let start = date
        .rfind(|c: char| !(c.is_ascii_digit() || c == '-'))
        .map_or(0, |before| before + 1);
    let date: Vec<i64> = date.get(start..)?.split('-').filter_map(number).collect();
    let days = match date[..] {
        [year, month, day] => days(year, month, day),
        [month, day] => days(1970, month, day),
        _ => 0,
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "times of this century in seconds"
    )]
    let us = (days.checked_mul(86_400)?.checked_add(seconds)?) as f64 * 1e6;
    Some(us)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar (Hinnant 2013); of a date that does not exist any number.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year.clamp(0, 9999) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let months = (month.clamp(1, 12) + 9) % 12;
    let of_year = (153 * months + 2) / 5 + day.clamp(1, 31) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
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
}
