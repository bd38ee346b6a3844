//! Reads the standard output of FlexGen and of DeepSpeed's inference example: duration of prefill
//! and decode, and memory.

use std::collections::BTreeMap;

use crate::scan::{contains, real, trim};
use crate::wall_clock::parse_wall;

/// The keys that are read; the last value wins.
const KEYS: [&str; 11] = [
    "model size",
    "cache size",
    "hidden size (p)",
    "peak gpu mem",
    "projected",
    "prefill latency",
    "prefill throughput",
    "decode latency",
    "decode throughput",
    "total latency",
    "total throughput",
];

/// Lines that mark the start of a phase.
const MARKERS: [&str; 3] = ["init weight", "warmup - generate", "benchmark - generate"];

/// Contents of a log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EngineLog {
    /// Values by key, in the printed unit: GB, s, token/s.
    pub values: BTreeMap<&'static str, f64>,
    /// Number of decimals of each value, which bounds its rounding.
    digits: BTreeMap<&'static str, usize>,
    /// Latency of each step: prefill, then one per generated token. Seconds.
    pub token_latency_s: Vec<f64>,
    /// Costs of whole runs in seconds.
    pub costs_s: Vec<f64>,
    /// Batch size, if stated.
    pub batch: Option<u64>,
    /// Prompt length, if stated.
    pub prompt_len: Option<u64>,
    /// Generated length, if stated.
    pub gen_len: Option<u64>,
    /// Model, if stated.
    pub model: Option<String>,
    /// Placement of weights, cache and activations: FlexGen's six shares in percent, if the log has
    /// the command.
    pub percent: Vec<u64>,
    /// Folder of offloaded data, if the log has the command.
    pub offload_dir: Option<String>,
    /// `true` if FlexGen projected its figures from a part of the run.
    pub projected: Option<bool>,
    /// Prefill times of whole runs in seconds.
    pub prefill_timings_s: Vec<f64>,
    /// Phases in order of their start: `init weight`, `warmup - generate`, `benchmark - generate`.
    pub markers: Vec<&'static str>,
    /// The last time-stamped line, as local wall time in nanoseconds.
    pub last_wall_ns: Option<u64>,
    /// The first time-stamped line, as local wall time in nanoseconds.
    pub first_wall_ns: Option<u64>,
    /// The first time-stamped line after the results, or the last one if the results follow all of
    /// them.
    pub end_wall_ns: Option<u64>,
}

/// One relation between printed values.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Identity {
    /// The relation.
    pub name: &'static str,
    /// The printed value.
    pub printed: f64,
    /// The value that follows from the others.
    pub expected: f64,
    /// `true` if they agree within the rounding of the printed digits.
    pub holds: bool,
}

impl EngineLog {
    /// Parses a log; other lines are skipped. Lines end at line feeds and at the carriage returns
    /// of progress bars.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        let mut log = Self::default();
        for line in text.split(|b| matches!(b, b'\n' | b'\r')).map(trim) {
            log.line(line);
        }
        log.end_wall_ns = log.end_wall_ns.or(log.last_wall_ns);
        log
    }

    fn line(&mut self, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        if let Some(rest) = line.strip_prefix(b"[")
            && let Some(wall) = rest.get(..23).and_then(parse_wall)
        {
            self.first_wall_ns.get_or_insert(wall);
            self.last_wall_ns = Some(wall);
            if self.values.contains_key("total latency") {
                self.end_wall_ns.get_or_insert(wall);
            }
        }
        if let Some(rest) = line.strip_prefix(b"token_latency=") {
            self.token_latency_s = list(rest);
        }
        if let Some(rest) = line.strip_prefix(b"costs = ") {
            self.costs_s = list(rest);
        }
        if let Some(at) = memchr::memmem::find(line, b"prefill_timings = ") {
            self.prefill_timings_s = list(line.get(at..).unwrap_or_default());
        }
        let begins = |marker: &&str| line.starts_with(marker.as_bytes());
        self.markers.extend(MARKERS.into_iter().find(begins));
        for key in KEYS {
            let pattern = [key.as_bytes(), b": "].concat();
            let Some(at) = memchr::memmem::find(line, &pattern) else {
                continue;
            };
            let value = line.get(at + pattern.len()..).unwrap_or_default();
            let end = value
                .iter()
                .position(|b| matches!(b, b' ' | b'\t' | b','))
                .unwrap_or(value.len());
            let value = value.get(..end).unwrap_or_default();
            if key == "projected" {
                self.projected = match value {
                    b"True" => Some(true),
                    b"False" => Some(false),
                    _ => self.projected,
                };
            } else if let Some(number) = real(value) {
                let point = value.iter().position(|b| *b == b'.');
                let digits = point.map_or(0, |at| value.len() - at - 1);
                self.values.insert(key, number);
                // The last of several runs counts.
                self.end_wall_ns = None;
                self.digits.insert(key, digits);
            }
        }
        let number = |after: &[u8]| -> Option<u64> {
            let at = memchr::memmem::find(line, after)? + after.len();
            crate::scan::Cursor::new(line.get(at..)?).uint()
        };
        if contains(line, b"--prompt-len") || contains(line, b"--gen-len") {
            self.command(line);
        }
        if line.starts_with(b"benchmark, ") {
            self.prompt_len = number(b"prompt_len = ").or(self.prompt_len);
            self.gen_len = number(b"execute_gen_len = ").or(self.gen_len);
            self.batch = number(b"torch.Size([").or(self.batch);
        }
        if let Some(at) = memchr::memmem::find(line, b"args.model: ") {
            let name = trim(line.get(at + 12..).unwrap_or_default());
            self.model = Some(String::from_utf8_lossy(name).into_owned());
        }
    }

    /// Reads the options of the command that started the run: a shell command or a Python list.
    fn command(&mut self, line: &[u8]) {
        let is_between =
            |b: &u8| matches!(b, b' ' | b'\t' | b'=' | b'\'' | b'"' | b',' | b'[' | b']');
        let words: Vec<&[u8]> = line
            .split(is_between)
            .filter(|word| !word.is_empty())
            .collect();
        let behind = |option: &[u8]| {
            let at = words.iter().rposition(|word| *word == option)?;
            words.get(at + 1..)
        };
        let number = |option: &[u8]| crate::scan::whole_uint(behind(option)?.first()?);
        let text = |option: &[u8]| {
            let word = behind(option)?.first()?;
            Some(String::from_utf8_lossy(word).into_owned())
        };
        self.prompt_len = number(b"--prompt-len").or(self.prompt_len);
        self.gen_len = number(b"--gen-len").or(self.gen_len);
        let batch = number(b"--gpu-batch-size").or_else(|| number(b"--batch-size"));
        let batches = number(b"--num-gpu-batches").unwrap_or(1);
        self.batch = batch.and_then(|n| n.checked_mul(batches)).or(self.batch);
        self.model = text(b"--model").or(self.model.take());
        self.offload_dir = text(b"--offload-dir").or(self.offload_dir.take());
        if let Some(shares) = behind(b"--percent") {
            self.percent = shares
                .iter()
                .map_while(|word| crate::scan::whole_uint(word))
                .collect();
        }
    }

    /// Returns the seconds of prefill, of decode and of both.
    #[must_use]
    pub fn latencies_s(&self) -> Option<(f64, f64, f64)> {
        let value = |key| self.values.get(key).copied();
        Some((
            value("prefill latency")?,
            value("decode latency")?,
            value("total latency")?,
        ))
    }

    /// Returns the tokens of the prompt and the generated tokens of all sequences, if the printed
    /// throughputs determine them.
    #[must_use]
    pub fn tokens(&self) -> Option<(f64, f64)> {
        match (self.batch, self.prompt_len, self.gen_len) {
            (Some(batch), Some(prompt), Some(generated)) => Some((
                batch as f64 * prompt as f64,
                batch as f64 * generated as f64,
            )),
            _ => Some((
                self.roundest("prefill throughput", "prefill latency")?,
                self.roundest("total throughput", "total latency")?,
            )),
        }
    }

    /// Returns the number of decode steps: tokens generated per sequence except the first, which
    /// prefill generates.
    #[must_use]
    pub fn decode_steps(&self) -> Option<u64> {
        if let Some(generated) = self.gen_len {
            return generated.checked_sub(1);
        }
        let all = crate::num::whole(self.tokens()?.1);
        // All sequences generate the same number of tokens, so their number divides both products.
        let of_decode = self.products("decode throughput", "decode latency")?;
        let sequences = of_decode.map(|decode| all.saturating_sub(decode));
        let sequences = sequences.filter(|n| *n > 0 && all.is_multiple_of(*n));
        sequences.max().map(|n| all / n - 1)
    }

    /// Returns the range of whole numbers that a rate times a time can be, given the rounding of
    /// both.
    fn products(
        &self,
        rate: &'static str,
        time: &'static str,
    ) -> Option<std::ops::RangeInclusive<u64>> {
        let (a, b) = (*self.values.get(rate)?, *self.values.get(time)?);
        let slack = self.step(rate) * b + self.step(time) * a;
        let low = crate::num::whole((a * b - slack).ceil());
        let high = crate::num::whole((a * b + slack).floor());
        Some(low..=high.min(low.saturating_add(1 << 16)))
    }

    /// Returns the number in the range with the most trailing zero bits: batches and lengths are
    /// round.
    fn roundest(&self, rate: &'static str, time: &'static str) -> Option<f64> {
        self.products(rate, time)?
            .max_by_key(|n| (n.trailing_zeros(), std::cmp::Reverse(*n)))
            .map(|n| n as f64)
    }

    /// Returns half a unit of the last printed digit.
    fn step(&self, key: &str) -> f64 {
        let digits = self.digits.get(key).copied().unwrap_or(0);
        0.5 * 10_f64.powi(-i32::try_from(digits).unwrap_or(0))
    }

    /// Returns the relations that must hold among the printed values; relations with unknown values
    /// are left out.
    #[must_use]
    pub fn identities(&self) -> Vec<Identity> {
        let value = |key: &'static str| self.values.get(key).copied();
        let mut found = Vec::new();
        let mut check = |name, printed: Option<f64>, expected: Option<f64>, tolerance: f64| {
            if let (Some(printed), Some(expected)) = (printed, expected) {
                found.push(Identity {
                    name,
                    printed,
                    expected,
                    holds: (printed - expected).abs() <= tolerance,
                });
            }
        };
        let sum = value("prefill latency")
            .zip(value("decode latency"))
            .map(|(p, d)| p + d);
        let step = |key| self.step(key);
        check(
            "total latency = prefill latency + decode latency",
            value("total latency"),
            sum,
            step("total latency") * 3.0 + 1e-9,
        );
        if let (Some(batch), Some(prompt), Some(generated)) =
            (self.batch, self.prompt_len, self.gen_len)
        {
            let rate =
                |tokens: u64, key: &'static str| value(key).map(|latency| tokens as f64 / latency);
            let mut throughput = |name, key, tokens: u64, latency_key| {
                let expected = rate(tokens, latency_key);
                let latency = value(latency_key).unwrap_or(1.0);
                let slack = expected.unwrap_or(0.0) * step(latency_key) / latency;
                check(name, value(key), expected, step(key) + slack + 1e-9);
            };
            throughput(
                "prefill throughput = batch x prompt / prefill latency",
                "prefill throughput",
                batch.saturating_mul(prompt),
                "prefill latency",
            );
            throughput(
                "decode throughput = batch x (generated - 1) / decode latency",
                "decode throughput",
                batch.saturating_mul(generated.saturating_sub(1)),
                "decode latency",
            );
            throughput(
                "total throughput = batch x generated / total latency",
                "total throughput",
                batch.saturating_mul(generated),
                "total latency",
            );
        }
        found
    }
}

/// Returns a Python list of numbers.
fn list(text: &[u8]) -> Vec<f64> {
    let start = memchr::memchr(b'[', text).map_or(0, |at| at + 1);
    let end = memchr::memchr(b']', text).unwrap_or(text.len());
    text.get(start..end)
        .unwrap_or_default()
        .split(|b| *b == b',')
        .filter_map(|item| real(trim(item)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_engines() {
        let flexgen = EngineLog::parse(
            b"python -m flexgen.flex_opt --model facebook/opt-6.7b --gpu-batch-size 64 --prompt-len 256 --gen-len 256\nmodel size: 12.386 GB, cache size: 16.000 GB, hidden size (prefill): 0.250 GB\ninit weight...\nprefill latency: 21.923 s\tprefill throughput: 747.328 token/s\ndecode latency: 1463.125 s\tdecode throughput: 11.154 token/s\ntotal latency: 1485.049 s\ttotal throughput: 11.033 token/s\n",
        );
        assert_eq!(flexgen.latencies_s(), Some((21.923, 1463.125, 1485.049)));
        assert_eq!(flexgen.tokens(), Some((16384.0, 16384.0)));
        assert_eq!(flexgen.decode_steps(), Some(255));
        let without_command = EngineLog {
            batch: None,
            prompt_len: None,
            gen_len: None,
            ..flexgen.clone()
        };
        assert_eq!(without_command.decode_steps(), Some(255));
        let identities = flexgen.identities();
        assert_eq!(identities.len(), 4);
        assert!(identities.iter().all(|i| i.holds), "{identities:?}");
        let deepspeed = EngineLog::parse(
            b"bar 1\rbar 2\r[2025-01-21 01:35:15,998] [INFO] [launch.py:351:main] x\nbenchmark, prompt_len = 256, execute_gen_len = 32, input_ids.shape = torch.Size([1, 256])\ntoken_latency=[5.98, 3.80]\ncosts = [109.4], prefill_timings = [5.97]\npeak gpu mem: 0.929 GB\tprefill latency: 5.980 s\tprefill throughput: 42.810 token/s\n",
        );
        assert_eq!((deepspeed.batch, deepspeed.gen_len), (Some(1), Some(32)));
        assert_eq!(deepspeed.token_latency_s, [5.98, 3.8]);
        assert_eq!(deepspeed.costs_s, [109.4]);
        assert_eq!(
            deepspeed.last_wall_ns,
            parse_wall(b"2025-01-21 01:35:15,998")
        );
        assert_eq!(deepspeed.end_wall_ns, deepspeed.last_wall_ns);
        let results = "decode latency: 1.000 s\ntotal latency: 2.000 s\n";
        let stamp = |second: u32| format!("[2025-01-21 01:35:{second},998] [INFO] x\n");
        let text = [
            &stamp(10),
            results,
            &stamp(20),
            results,
            &stamp(30),
            &stamp(40),
        ]
        .concat();
        let twice = EngineLog::parse(text.as_bytes());
        assert_eq!(twice.end_wall_ns, parse_wall(b"2025-01-21 01:35:30,998"));
        assert!(deepspeed.identities().iter().all(|i| i.holds));
        assert_eq!(deepspeed.prefill_timings_s, [5.97]);
        let markers = EngineLog::parse(b"init weight...\nwarmup - generate\nbenchmark - generate\npeak gpu mem: 1.5 GB\tprojected: False\n");
        assert_eq!(markers.markers, MARKERS);
        assert_eq!(markers.projected, Some(false));
    }

    #[test]
    fn the_command_in_all_its_forms() {
        for line in [
            "python3 -m flexllmgen.flex_opt --model facebook/opt-6.7b --percent 100 0 0 0 100 0 --gpu-batch-size 32 --num-gpu-batches 2 --prompt-len 256 --gen-len 32 --offload-dir /mnt/x",
            "x --model=facebook/opt-6.7b --percent 100 0 0 0 100 0 --batch-size=64 --prompt-len=256 --gen-len=32 --offload-dir=/mnt/x",
            "process 5 spawned with command: ['python', '--model', 'facebook/opt-6.7b', '--percent', '100', '0', '0', '0', '100', '0', '--offload-dir', '/mnt/x', '--prompt-len', '256', '--gen-len', '32', '--batch-size', '64']",
        ] {
            let found = EngineLog::parse(line.as_bytes());
            let lengths = (found.batch, found.prompt_len, found.gen_len);
            assert_eq!(lengths, (Some(64), Some(256), Some(32)), "{line}");
            assert_eq!(found.percent, [100, 0, 0, 0, 100, 0]);
            assert_eq!(found.model.as_deref(), Some("facebook/opt-6.7b"));
            assert_eq!(found.offload_dir.as_deref(), Some("/mnt/x"));
        }
    }

    #[test]
    fn wild_lengths_are_no_failure() {
        let most = u64::MAX;
        let text = format!(
            "x --prompt-len {most} --gen-len {most} --batch-size 9\nprefill latency: 1.000 s\nprefill throughput: 5.0 token/s\n"
        );
        let log = EngineLog::parse(text.as_bytes());
        assert!(!log.identities()[0].holds);
        assert!(log.tokens().is_some_and(|(prompt, _)| prompt > 1e20));
    }

    #[test]
    fn a_wrong_number_is_found() {
        let log = EngineLog::parse(
            b"prefill latency: 1.000 s\ndecode latency: 2.000 s\ntotal latency: 4.000 s\n",
        );
        assert!(!log.identities()[0].holds);
    }
}
