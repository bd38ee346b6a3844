//! Metrics in Prometheus' text format: one scrape, or several one after the other.

use std::collections::BTreeMap;

use crate::samples::Samples;

/// Returns `true` if a file begins as a scrape does.
///
/// ```
/// assert!(serving_logs::is_prometheus(b"# HELP vllm:num_requests_running Requests\n# TYPE vllm:num_requests_running gauge\n"));
/// assert!(!serving_logs::is_prometheus(b"metric,unit,value\n"));
/// ```
pub fn is_prometheus(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .next()
        .is_some_and(|line| line.starts_with("# HELP ") || line.starts_with("# TYPE "))
}

/// Readings of one series, in the order of the file: number of the scrape, time in milliseconds, value.
type Readings = Vec<(u64, Option<f64>, f64)>;

/// Reads metrics. A gauge is a sample of each scrape; of histograms and summaries the mean of what came between two scrapes is, of
/// counters the rate where the scrapes have times and the increase otherwise. Of a single scrape, histograms give their mean, and
/// counters nothing.
///
/// ```
/// let text = "# TYPE q gauge\nq{e=\"0\"} 3\n# TYPE t histogram\nt_bucket{le=\"1\"} 2\nt_sum 1.5\nt_count 3\n";
/// let found = serving_logs::prometheus(text);
/// let rows: Vec<_> = found.samples.iter().map(|s| (s.metric.as_str(), s.group.as_str(), s.value)).collect();
/// assert_eq!(rows, [("q", "e=\"0\"", 3.0), ("t mean", "", 0.5)]);
/// ```
pub fn prometheus(text: &str) -> Samples {
    let mut found = Samples::default();
    let mut types: BTreeMap<&str, &str> = BTreeMap::new();
    let mut series: BTreeMap<(&str, String), Readings> = BTreeMap::new();
    let mut scrape = 0;
    for line in text.lines().map(str::trim) {
        if let Some(about) = line.strip_prefix("# TYPE ") {
            if let Some((name, kind)) = about.trim().split_once(char::is_whitespace) {
                types.insert(name, kind.trim());
            }
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, labels, value, time)) = reading(line) else {
            found.bad_values += 1;
            continue;
        };
        if name.ends_with("_bucket") || labels.contains("quantile=") {
            continue;
        }
        let own = series.entry((name, labels.to_owned())).or_default();
        // A series occurs once in each scrape.
        if own.last().is_some_and(|(last, _, _)| *last == scrape) {
            scrape += 1;
        }
        own.push((scrape, time, value));
    }
    for ((name, labels), readings) in &series {
        let part = |end: &str| name.strip_suffix(end);
        let kind_of = |name: &str| types.get(name).copied().unwrap_or("");
        let is_spread = |name: &str| matches!(kind_of(name), "histogram" | "summary");
        if part("_count").is_some_and(is_spread) || part("_created").is_some() {
            continue;
        }
        if let Some(base) = part("_sum").filter(|base| is_spread(base)) {
            let count = format!("{base}_count");
            let counts = series.get(&(count.as_str(), labels.clone()));
            means(&mut found, base, labels, readings, counts);
            continue;
        }
        let base = part("_total").unwrap_or(name);
        match kind_of(name) == "counter" || kind_of(base) == "counter" {
            true => rates(&mut found, name, labels, readings),
            false => {
                for (scrape, _, value) in readings {
                    found.push((name, unit(name)), labels, (1, *scrape), Some(*value));
                }
            }
        }
    }
    found
}

fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    let ends = |end: &str| name.ends_with(end);
    match name {
        _ if ends("_seconds") => "s",
        _ if ends("_milliseconds") || ends("_ms") => "ms",
        _ if ends("_bytes") => "B",
        _ => "",
    }
}

/// Means of what was observed between two scrapes, or up to the only one.
fn means(
    found: &mut Samples,
    base: &str,
    labels: &str,
    sums: &Readings,
    counts: Option<&Readings>,
) {
    let Some(counts) = counts else {
        found.bad_values += 1;
        return;
    };
    let metric = format!("{base} mean");
    let mut before = (0.0, 0.0);
    for (at, ((scrape, _, sum), (_, _, count))) in sums.iter().zip(counts).enumerate() {
        let (grown, more) = (sum - before.0, count - before.1);
        before = (*sum, *count);
        // What came before the first of several scrapes is not of this run.
        let is_before = at == 0 && sums.len() > 1;
        // A restart of the server begins anew.
        if !is_before && more > 0.0 && grown >= 0.0 {
            found.push(
                (&metric, unit(base)),
                labels,
                (1, *scrape),
                Some(grown / more),
            );
        }
    }
}

fn rates(found: &mut Samples, name: &str, labels: &str, readings: &Readings) {
    if readings.len() < 2 {
        found.single_readings += 1;
        return;
    }
    for pair in readings.windows(2) {
        let [(_, from, before), (scrape, to, after)] = pair else {
            continue;
        };
        let grown = after - before;
        let seconds = from.zip(*to).map(|(from, to)| (to - from) / 1e3);
        // A restart of the server begins anew.
        if grown < 0.0 {
            continue;
        }
        let (metric, unit, value) = match seconds.filter(|seconds| *seconds > 0.0) {
            Some(seconds) => (format!("{name} rate"), "1/s", grown / seconds),
            None => (format!("{name} increase"), unit(name), grown),
        };
        found.push((&metric, unit), labels, (1, *scrape), Some(value));
    }
}

/// Parses `name{labels} value [time]`.
pub(crate) fn reading(line: &str) -> Option<(&str, &str, f64, Option<f64>)> {
    let (name, labels, rest) = match line.find('{') {
        Some(open) => {
            let close = close_of(line, open)?;
            (
                &line[..open],
                line[open + 1..close].trim_end_matches(','),
                &line[close + 1..],
            )
        }
        None => {
            let end = line.find(char::is_whitespace)?;
            (&line[..end], "", &line[end..])
        }
    };
    let mut words = rest.split_whitespace();
    let value = words.next()?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        text => text.parse().ok()?,
    };
    let time = words.next().and_then(|time| time.parse().ok());
    (!name.is_empty()).then_some((name.trim(), labels, value, time))
}

/// The brace that closes the labels: one in a quoted value closes nothing.
fn close_of(line: &str, open: usize) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (at, b) in line.bytes().enumerate().skip(open + 1) {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrapes_that_follow_one_another_are_measured_between_them() {
        let scrape = |running: u32, tokens: u32, sum: f64, count: u32, ms: u32| {
            format!(
                "# HELP vllm:n x\n# TYPE vllm:n gauge\nvllm:n{{m=\"a}}b\",}} {running} {ms}\n\
                 # TYPE vllm:tokens counter\nvllm:tokens_total {tokens} {ms}\n\
                 # TYPE vllm:ttft_seconds histogram\nvllm:ttft_seconds_bucket{{le=\"+Inf\"}} {count} {ms}\n\
                 vllm:ttft_seconds_sum {sum} {ms}\nvllm:ttft_seconds_count {count} {ms}\n"
            )
        };
        let text = [
            scrape(1, 100, 10.0, 10, 0),
            scrape(4, 300, 11.0, 12, 2000),
            scrape(2, 50, 14.0, 15, 4000),
        ]
        .concat();
        assert!(is_prometheus(text.as_bytes()));
        let found = prometheus(&text);
        let rows: Vec<(&str, &str, &str, u64, f64)> = found
            .samples
            .iter()
            .map(|s| {
                (
                    s.metric.as_str(),
                    s.unit,
                    s.group.as_str(),
                    s.cycle,
                    s.value,
                )
            })
            .collect();
        assert_eq!(
            rows,
            [
                ("vllm:n", "", "m=\"a}b\"", 0, 1.0),
                ("vllm:n", "", "m=\"a}b\"", 1, 4.0),
                ("vllm:n", "", "m=\"a}b\"", 2, 2.0),
                // The counter began anew before the third scrape.
                ("vllm:tokens_total rate", "1/s", "", 1, 100.0),
                ("vllm:ttft_seconds mean", "s", "", 1, 0.5),
                ("vllm:ttft_seconds mean", "s", "", 2, 1.0),
            ]
        );
        assert_eq!(found.bad_values, 0);
    }

    #[test]
    fn lines_that_cannot_be_read_are_counted() {
        let found =
            prometheus("# TYPE a gauge\na{b=\"c} 1\na x\na\nb NaN\nc_total 5\n# TYPE c counter\n");
        assert_eq!((found.samples.len(), found.bad_values), (0, 4));
        assert_eq!(found.single_readings, 1);
    }
}
