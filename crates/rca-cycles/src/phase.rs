//! What a cycle is for: prompts, tokens, or both.

use rustc_hash::FxHashMap;
use trace_model::StrId;
use trace_model::kernel::{KernelClass, class_of};
use trace_model::step_name::{
    self, StepBatch, StepPhase, phase_of_word, phase_word, step_batch, step_phase,
};

use crate::cut::Cuts;
use crate::engine::{Engine, any};
use crate::num::{median, span};
use crate::timeline::{Kind, Timeline};

/// What a cycle is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Phase {
    /// Prompts are processed.
    Prefill,
    /// Tokens are generated.
    Decode,
    /// Both in one batch.
    Mixed,
    /// It cannot be told.
    Unknown,
}

impl Phase {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        }
    }
}

/// What a batch holds, where the trace says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Workload {
    /// Requests whose prompts are processed.
    pub prefill_requests: u32,
    /// Tokens of those prompts.
    pub prefill_tokens: u32,
    /// Requests that get a token.
    pub decode_requests: u32,
    /// Tokens that the prompts attend to, summed over requests: those processed and those cached before.
    pub prefill_kv_tokens: Option<u64>,
    /// Tokens that the other requests attend to, summed over requests.
    pub decode_kv_tokens: Option<u64>,
}

/// A phase and how sure it is: 1 stated by the engine, 0.9 by the name of a function, 0.7 by that
/// of a kernel, 0.5 by the amount and kind of computing alone, 0 unknown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Verdict {
    pub(crate) phase: Phase,
    pub(crate) confidence: f64,
    pub(crate) workload: Option<Workload>,
}

/// Which phases a name speaks for, as bits, and how strongly.
#[derive(Clone, Copy, Default)]
struct Hint {
    prefill: bool,
    decode: bool,
    mixed: bool,
    /// Its requests are counted by kind.
    counted: bool,
    workload: Option<Workload>,
}

/// What the name of a step states of its batch, where it tells all of [`Workload`].
fn workload(batch: &StepBatch) -> Option<Workload> {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let (prefills, decodes) = (batch.prefills()?, batch.decodes()?);
    let is_prefill = prefills.requests > 0;
    Some(Workload {
        prefill_requests: small(prefills.requests),
        prefill_tokens: if is_prefill {
            small(prefills.tokens?)
        } else {
            0
        },
        decode_requests: small(decodes.requests),
        prefill_kv_tokens: prefills.context_tokens.filter(|_| is_prefill),
        decode_kv_tokens: decodes.context_tokens.filter(|_| decodes.requests > 0),
    })
}

impl From<StepPhase> for Phase {
    fn from(phase: StepPhase) -> Self {
        match phase {
            StepPhase::Prefill => Self::Prefill,
            StepPhase::Decode => Self::Decode,
            StepPhase::Mixed => Self::Mixed,
            _ => Self::Unknown,
        }
    }
}

/// What a range is for, if its name says so by a word of its own: `decode_step 7`, not `decoder`.
pub(crate) fn stated(name: &str) -> Option<Phase> {
    phase_word(name).map(Phase::from)
}

/// The name with every number as `#`.
pub(crate) fn without_numbers(name: &str) -> String {
    step_name::without_numbers(name).into_owned()
}

/// Returns the family of a step's name: every number as `#` and every word that states a phase as `*`.
///
/// All steps of one loop are of one family, whatever their batches hold: `step[DECODE bs=32 toks=32]` and
/// `step[EXTEND bs=4 toks=4096]` are both `step[* bs=# toks=#]`. What the first step of a recording is for
/// does not change it.
pub fn family(name: &str) -> String {
    let text = without_numbers(name);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (word, after) = rest.split_at(letters);
        out.push_str(if phase_of_word(word).is_some() {
            "*"
        } else {
            word
        });
        let other = after
            .find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (between, next) = after.split_at(other);
        out.push_str(between);
        rest = next;
    }
    out
}

/// The name of a step as tables have it, if it differs from step to step in more than a number: with its
/// numbers if these are of the batch (`bs=32`), else with `#` for them. None for other names.
pub(crate) fn label(name: &str) -> Option<String> {
    let is_pair = |pair: &[u8]| pair[0] == b'=' && pair[1].is_ascii_digit();
    if step_batch(name).is_some() || name.as_bytes().windows(2).any(is_pair) {
        return Some(name.to_owned());
    }
    stated(name).map(|_| without_numbers(name))
}

/// Returns the phase that the name of an annotation states, for example `step[DECODE bs=32]` or
/// `execute_32_context_0(sq0)_generation_32(sq32)`, or `None` if it states none.
pub fn phase_in_name(name: &str) -> Option<Phase> {
    step_phase(name).map(Phase::from)
}

fn hint(name: &str, kind: Kind, engine: Option<&Engine>) -> Hint {
    let mut hint = Hint::default();
    if kind == Kind::Annotation {
        let batch = step_batch(name).unwrap_or_default();
        hint.workload = workload(&batch);
        if let (Some(prefills), Some(decodes)) = (batch.prefills(), batch.decodes()) {
            hint.counted = true;
            hint.prefill = prefills.requests > 0;
            hint.decode = decodes.requests > 0;
            return hint;
        }
    }
    if let Some(engine) = engine {
        hint.prefill = any(&engine.prefill, name);
        hint.decode = any(&engine.decode, name);
        hint.mixed = any(&engine.mixed, name);
    }
    let lower = name.to_lowercase();
    if kind.is_device() {
        hint.prefill |= lower.contains("prefill");
        hint.decode |= lower.contains("batchdecode") || lower.contains("decode_kernel");
    } else if engine.is_none() {
        hint.prefill |= lower.contains("forward_extend") || lower.contains("forward_prefill");
        hint.decode |= lower.contains("forward_decode");
    }
    hint
}

pub(crate) fn phases(
    timeline: &Timeline<'_>,
    cuts: &Cuts,
    engine: Option<&Engine>,
) -> Vec<Verdict> {
    #[derive(Clone, Copy, Default)]
    struct Seen {
        prefill: f64,
        decode: f64,
        mixed: f64,
        workload: Option<Workload>,
    }
    let mut seen = vec![Seen::default(); cuts.cycles().len()];
    let mut cache: FxHashMap<(StrId, Kind), Hint> = FxHashMap::default();
    let mut take = |seen: &mut Vec<Seen>, cycle: u32, name: StrId, kind: Kind| {
        let h = *cache
            .entry((name, kind))
            .or_insert_with(|| hint(timeline.trace.text(name), kind, engine));
        if !(h.prefill || h.decode || h.mixed) {
            return;
        }
        let strength = if h.counted {
            1.0
        } else if kind.is_device() {
            0.7
        } else {
            0.9
        };
        if let Some(s) = seen.get_mut(cycle as usize) {
            let raise = |v: &mut f64, on: bool| {
                if on {
                    *v = v.max(strength);
                }
            };
            raise(&mut s.prefill, h.prefill);
            raise(&mut s.decode, h.decode);
            raise(&mut s.mixed, h.mixed);
            // A step may be marked twice: what says more counts.
            let says = |w: &Workload| w.prefill_kv_tokens.or(w.decode_kv_tokens).is_some();
            if s.workload.is_none_or(|w| !says(&w)) && h.workload.is_some() {
                s.workload = h.workload.filter(says).or(s.workload).or(h.workload);
            }
        }
    };
    for slice in timeline.trace.slices() {
        let kind = timeline.kind(slice);
        if kind.is_device() || kind == Kind::Other {
            continue;
        }
        // Ranges and functions around several cycles speak of none.
        let process = timeline.process(slice);
        if let (Some(name), Some(cycle)) = (slice.name_id(), cuts.at(process, slice.ts().nanos())) {
            take(&mut seen, cycle, name, kind);
        }
    }
    for work in &timeline.work {
        let at = work.launch.map_or(work.ts, |l| l.1);
        if let Some(cycle) = cuts.at(work.process, at) {
            take(&mut seen, cycle, work.name, work.kind);
        }
    }
    for (seen, window) in seen.iter_mut().zip(cuts.cycles()) {
        let anchor = window.anchor.map(|id| timeline.trace.slice(id));
        let range = anchor.filter(|a| timeline.kind(*a) == Kind::Annotation);
        let name = range.and_then(trace_model::Slice::name).unwrap_or("");
        let of = match stated(name) {
            Some(Phase::Prefill) => &mut seen.prefill,
            Some(Phase::Decode) => &mut seen.decode,
            Some(Phase::Mixed) => &mut seen.mixed,
            _ => continue,
        };
        *of = of.max(0.9);
    }
    let mut verdicts: Vec<Verdict> = seen
        .iter()
        .map(|s| {
            let both = s.prefill.min(s.decode);
            let strongest = s.prefill.max(s.decode).max(s.mixed);
            let phase = if strongest <= 0.0 {
                Phase::Unknown
            } else if s.mixed >= strongest || both >= strongest {
                Phase::Mixed
            } else if s.prefill > s.decode {
                Phase::Prefill
            } else {
                Phase::Decode
            };
            Verdict {
                phase,
                confidence: strongest,
                workload: s.workload,
            }
        })
        .collect();
    if verdicts.iter().all(|v| v.phase == Phase::Unknown) {
        by_work(timeline, cuts, &mut verdicts);
    }
    verdicts
}

/// The least factor between the cycles of a prompt and those of a token.
const APART: f64 = 1.5;

/// Where a gap parts a few long cycles from the others, if one does: from which value on they are long.
///
/// The long ones are at least `least` times as long as the middle one, and nothing lies between them and the others for
/// a factor of [`APART`]: a fixed limit would part cycles of one kind by chance where they lie around it.
fn gap(values: &[f64], least: f64) -> Option<f64> {
    if values.len() < 3 {
        return None;
    }
    let middle = median(values);
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .windows(2)
        .filter(|w| w[0] >= middle && w[0] > 0.0 && w[1] > least * middle)
        .map(|w| (w[1] / w[0], w[1]))
        .filter(|g| g.0 >= APART)
        .max_by(|x, y| x.0.total_cmp(&y.0))
        .map(|g| g.1)
}

/// What a cycle computes: time on devices, and time and calls of each kernel.
#[derive(Clone, Default)]
struct Computed {
    time: f64,
    kernels: FxHashMap<StrId, (f64, f64)>,
}

impl Computed {
    /// Part of the time in kernels that are called more or less often than `usual` has them, or not at all there.
    fn other_work(&self, usual: &FxHashMap<StrId, f64>) -> f64 {
        let is_other = |(name, (_, calls)): &(&StrId, &(f64, f64))| {
            let before = usual.get(*name).copied().unwrap_or(0.0);
            !(1.0 / SAME_CALLS..=SAME_CALLS).contains(&(*calls / before))
        };
        let other = self.kernels.iter().filter(is_other);
        other.map(|(_, (time, _))| time).sum::<f64>() / self.time
    }
}

/// Calls of a kernel that differ by no more than this factor are equally many.
const SAME_CALLS: f64 = 1.1;

/// Cycles that compute far more than the others, and other things: prompts.
///
/// How long a cycle computes does not tell a prompt from a slow step. Those that call the same kernels equally often are steps
/// like the others, however long they take; if all do, nothing tells what any cycle is for. Only a model that attends has prompts
/// and tokens: a loop of other work has long cycles of other kernels as well.
fn by_work(timeline: &Timeline<'_>, cuts: &Cuts, verdicts: &mut [Verdict]) {
    const MORE_WORK: f64 = 1.8;
    /// Part of the time in other kernels, or in other numbers of them, from which on the work is another.
    const OTHER: f64 = 0.05;
    let mut computed = vec![Computed::default(); cuts.cycles().len()];
    for w in timeline.work.iter().filter(|w| w.kind == Kind::Compute) {
        let at = w.launch.map_or(w.ts, |l| l.1);
        if let Some(own) = cuts
            .at(w.process, at)
            .and_then(|cycle| computed.get_mut(cycle as usize))
        {
            let time = span(w.end - w.ts);
            own.time += time;
            let kernel = own.kernels.entry(w.name).or_default();
            (kernel.0, kernel.1) = (kernel.0 + time, kernel.1 + 1.0);
        }
    }
    let whole: Vec<&Computed> = {
        let each = cuts.cycles().iter().zip(&computed);
        each.filter(|(w, _)| w.partial.is_none())
            .map(|(_, own)| own)
            .collect()
    };
    let times: Vec<f64> = whole.iter().map(|own| own.time).collect();
    let Some(long) = gap(&times, MORE_WORK) else {
        return;
    };
    let usual = usual_calls(whole.into_iter().filter(|own| own.time < long));
    let is_other = |own: &Computed| own.time >= long && own.other_work(&usual) >= OTHER;
    let is_prompt: Vec<bool> = computed.iter().map(is_other).collect();
    let attends = |own: &Computed| {
        let mut names = own.kernels.keys().map(|name| timeline.trace.text(*name));
        names.any(|name| class_of(name) == KernelClass::Attention)
    };
    let mut prompts = computed.iter().filter(|own| is_other(own));
    if !is_prompt.contains(&true) || !prompts.all(attends) {
        return;
    }
    for (verdict, is_prompt) in verdicts.iter_mut().zip(is_prompt) {
        verdict.phase = if is_prompt {
            Phase::Prefill
        } else {
            Phase::Decode
        };
        verdict.confidence = 0.5;
    }
}

/// The median calls of each kernel in these cycles.
fn usual_calls<'c>(cycles: impl Iterator<Item = &'c Computed>) -> FxHashMap<StrId, f64> {
    let mut calls: FxHashMap<StrId, Vec<f64>> = FxHashMap::default();
    let mut count = 0;
    for own in cycles {
        count += 1;
        #[expect(clippy::iter_over_hash_type, reason = "one value per name and cycle")]
        for (name, (_, n)) in &own.kernels {
            calls.entry(*name).or_default().push(*n);
        }
    }
    let each = calls.into_iter().map(|(name, mut list)| {
        list.resize(count, 0.0);
        (name, median(&list))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_parts_long_cycles_wherever_it_lies() {
        // Around three times the middle, where a fixed limit would take some and leave others.
        let lengths = [4.6, 4.5, 13.7, 4.7, 4.6, 13.9, 4.4, 13.4, 4.5];
        assert_eq!(gap(&lengths, 1.8), Some(13.4));
        assert_eq!(gap(&lengths, 3.0), None);
        assert_eq!(gap(&[1.0, 1.2, 1.4, 1.7, 2.0, 2.5, 3.1], 1.8), None);
        assert_eq!(gap(&[1.0, 1.0, 1.0, 1.0, 1.7], 1.8), None);
        assert_eq!(gap(&[1.0, 5.0], 1.8), None);
    }

    #[test]
    fn marked_batches_say_what_they_hold() {
        let vllm =
            "execute_34_context_2(sq30sk930sqsq500sqsk14000)_generation_4(sq4sk8100sqsq4sqsk8100)";
        let old = "execute_context_1(888_788544)_generation_0(0)";
        for (name, prefill, decode) in [
            (old, (1, 888, None), (0, None)),
            (vllm, (2, 30, Some(930)), (4, Some(8100))),
            (
                "execute_5_context_0(sq0sk0)_generation_5(sq5sk77)",
                (0, 0, None),
                (5, Some(77)),
            ),
            ("step[DECODE bs=32]", (0, 0, None), (32, None)),
            (
                "step[EXTEND bs=15 toks=15360]",
                (15, 15_360, None),
                (0, None),
            ),
        ] {
            let of = workload(&step_batch(name).unwrap()).unwrap();
            assert_eq!(
                (of.prefill_requests, of.prefill_tokens, of.prefill_kv_tokens),
                prefill
            );
            assert_eq!((of.decode_requests, of.decode_kv_tokens), decode, "{name}");
        }
        // What is not stated of a batch is not 0.
        for name in [
            "step[MIXED bs=4 toks=90]",
            "execute_new_1_cached_3",
            "[Executor] _forward_step 3: 1 ctx reqs, 0 gen reqs",
        ] {
            assert_eq!(workload(&step_batch(name).unwrap()), None, "{name}");
        }
    }
}
