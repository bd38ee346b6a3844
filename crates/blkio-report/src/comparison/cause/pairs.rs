//! Pairs of parts of both runs, and the sentence that they make.

use super::*;

/// Parts of both runs that do the same, and what is left.
#[derive(Debug, Default)]
pub(in crate::comparison) struct Pairs {
    pub(in crate::comparison) pairs: Vec<Pair>,
    /// Side and name of parts without a counterpart, with their time in nanoseconds.
    pub(in crate::comparison) alone: Vec<(usize, String, f64)>,
    /// First issue to last completion of each side, in nanoseconds.
    pub(in crate::comparison) span_ns: [f64; 2],
    /// Processes that use the device in one run only, whose requests are in no part.
    pub(in crate::comparison) others: Option<Others>,
    /// Why there is no pair.
    pub(in crate::comparison) reason: Option<String>,
    /// Time of each side between parts, where it is not what the pairs leave.
    pub(in crate::comparison) between: Option<[f64; 2]>,
    /// Share of the completions that each side lost.
    pub(in crate::comparison) lost: [f64; 2],
}

impl Pairs {
    /// Returns those of two runs before any is found.
    pub(in crate::comparison) fn new(stats: [&Stats; 2], documents: [&Value; 2]) -> Self {
        Self {
            span_ns: documents.map(|document| {
                let span = document.pointer("/extra/mean_rates/span_s");
                span.and_then(Value::as_f64).unwrap_or(0.0) * 1e9
            }),
            lost: stats.map(|of| Loss::of(of).all),
            ..Self::default()
        }
    }

    /// Time of each side that is in no part: breaks and what lies between parts.
    pub(in crate::comparison) fn between_ns(&self) -> [f64; 2] {
        if let Some(between) = self.between {
            return between;
        }
        let mut rest = self.span_ns;
        for (side, rest) in rest.iter_mut().enumerate() {
            for pair in &self.pairs {
                let of = pair.sides.get(side);
                let bytes = pair.bytes.get(side).copied().unwrap_or(0.0);
                *rest -= of.map_or(0.0, |of| of.per_byte() * bytes);
            }
            let alone = self.alone.iter().filter(|of| of.0 == side);
            *rest -= alone.map(|of| of.2).sum::<f64>();
            // Parts may overlap by a latency.
            *rest = rest.max(0.0);
        }
        rest
    }

    /// Says that completions were lost, and what that leaves to compare; `None` where none were.
    fn loss(&self) -> Option<String> {
        let sides = ["A", "B"].into_iter().zip(self.lost);
        let lost: Vec<String> = sides
            .filter(|(_, lost)| *lost > 0.0)
            .map(|(side, lost)| format!("{:.1} % of the completions of {side}", lost * 100.0))
            .collect();
        (!lost.is_empty()).then(|| {
            format!(
                "The recording lost {}: bytes, rates and pauses are by what was issued, latencies of the requests that are left, and numbers of requests at a time are known only to about {:.0} %.",
                lost.join(" and "),
                (self.lost[0].max(self.lost[1]) * 150.0).ceil()
            )
        })
    }

    /// Says what changed, that which matters most first.
    pub(in crate::comparison) fn finding(&self) -> String {
        let others = self.others.as_ref().map(Others::text);
        if let Some(reason) = &self.reason {
            return others
                .into_iter()
                .chain([reason.clone()])
                .collect::<Vec<_>>()
                .join(" ");
        }
        let mut pairs: Vec<&Pair> = self.pairs.iter().collect();
        pairs.sort_by(|a, b| b.weight_ns().abs().total_cmp(&a.weight_ns().abs()));
        let is_changed =
            |of: &&&Pair| !of.causes().is_empty() || of.latency_at_own_pace().is_some();
        let changed: Vec<&&Pair> = pairs.iter().filter(is_changed).collect();
        let text = |of: &Pair| match pairs.len() {
            1 => of.text(),
            _ => format!("In the {}: {}", of.part(), of.text()),
        };
        let beside = self.others.is_some();
        let tails = pairs.first().filter(|_| beside);
        let tails = tails.map(|of| format!("Their latency: {}.", of.tails()));
        let mut sentences: Vec<String> = match (changed.is_empty(), pairs.first()) {
            (true, Some(first)) => vec![text(first)],
            _ => changed.iter().map(|of| text(of)).collect(),
        };
        let [was, is] = self.between_ns();
        let most = self.span_ns[0].max(self.span_ns[1]);
        let mut differences: Vec<(f64, String)> = Vec::new();
        if (is - was).abs() >= CHANGED * most {
            differences.push((
                is - was,
                format!(
                    "Pauses between parts changed: {} to {} without requests.",
                    time(was),
                    time(is)
                ),
            ));
        }
        for pair in &pairs {
            let [a, b] = pair.bytes;
            let per_byte = pair.both(Pace::per_byte).iter().sum::<f64>() / 2.0;
            let effect = (b - a) * per_byte;
            if effect.abs() >= CHANGED * most {
                differences.push((
                    effect,
                    format!(
                        "Bytes of the {} changed: {}, {} {}.",
                        pair.part(),
                        pair.amounts(),
                        time(effect.abs()),
                        if effect > 0.0 { "more" } else { "less" }
                    ),
                ));
            }
        }
        for (side, label, ns) in &self.alone {
            if *ns >= CHANGED * most {
                let side = if *side == 0 { "A" } else { "B" };
                let text = format!(
                    "Only {side} has a {label} part of this kind, of {}.",
                    time(*ns)
                );
                differences.push((*ns, text));
            }
        }
        differences.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        let heaviest = pairs.first().map_or(0.0, |of| of.weight_ns().abs());
        let (more, less): (Vec<_>, Vec<_>) = differences
            .into_iter()
            .partition(|of| changed.is_empty() || of.0.abs() > heaviest);
        let texts = |of: Vec<(f64, String)>| of.into_iter().map(|(_, text)| text);
        let mut all: Vec<String> = others.into_iter().collect();
        all.extend(tails);
        all.extend(texts(more));
        all.append(&mut sentences);
        all.extend(texts(less));
        all.extend(self.loss());
        all.join(" ")
    }

    /// Names of the causes, that which matters most first: those of the pairs by time.
    pub(in crate::comparison) fn causes(&self) -> Vec<Value> {
        let mut found: Vec<(f64, Value)> = Vec::new();
        for pair in &self.pairs {
            let per_byte = pair.both(Pace::per_byte).iter().sum::<f64>() / 2.0;
            let time = per_byte * pair.bytes.iter().sum::<f64>() / 2.0;
            if let Some(log) = pair.latency_at_own_pace() {
                let value = json!({
                    "what": Cause::Device.name(),
                    "of": "latency",
                    "part": pair.label,
                    "device": pair.device,
                    "change_pct": log.exp_m1() * 100.0,
                    "detail": pair.latencies(),
                });
                found.push((log.abs() * time, value));
                continue;
            }
            for term in pair.causes() {
                found.push((
                    term.log.abs() * time,
                    json!({
                        "what": pair.name(term.cause),
                        "of": "time per byte",
                        "part": pair.label,
                        "device": pair.device,
                        "change_pct": term.log.exp_m1() * 100.0,
                        "detail": pair.detail(term.cause),
                    }),
                ));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().map(|(_, value)| value).collect()
    }
}
