//! What a fault changes in a program or its replay, and the conditions of both sides.

use super::engines::{Engine, Load};
use super::program::{Op, Work, insert};
use super::replay::{Counters, Fault, Noise};
use serving_synth::rng::Rng;

/// What a step serves, by its number.
pub(crate) type OfStep = Box<dyn Fn(usize, &mut Rng) -> Load>;

/// Conditions of one side.
pub(crate) struct Conditions {
    pub(crate) fault: Fault,
    pub(crate) load: OfStep,
    pub(crate) counters: Option<Counters>,
    pub(crate) flags: &'static [&'static str],
    pub(crate) noise: Noise,
    /// `None` as the engine has.
    pub(crate) gpu: Option<&'static str>,
    pub(crate) layers: Option<usize>,
    /// Files of how many ranks are kept.
    pub(crate) ranks: Option<usize>,
    pub(crate) steps: usize,
}

pub(super) fn steady(requests: u32, context: u32) -> OfStep {
    Box::new(move |step, _| Load {
        step,
        requests,
        context: context + requests * u32::try_from(step).unwrap_or(0),
        prompt: 0,
    })
}

impl Default for Conditions {
    fn default() -> Self {
        Self {
            fault: Fault::default(),
            load: steady(32, 48_000),
            counters: None,
            flags: &["with_stack"],
            noise: Noise::Independent,
            gpu: None,
            layers: None,
            ranks: None,
            steps: 32,
        }
    }
}

/// A pair of sides, and what a reader of the answer must find in it.
#[derive(Default)]
pub(crate) struct Planted {
    pub(crate) normal: Conditions,
    pub(crate) abnormal: Conditions,
    /// One of these is in the answer.
    pub(crate) place: Vec<String>,
}

/// A fault of the abnormal side alone.
pub(super) fn planted(fault: Fault, place: &[&str]) -> Planted {
    Planted {
        abnormal: Conditions {
            fault,
            ..Conditions::default()
        },
        place: place.iter().map(|p| (*p).to_owned()).collect(),
        ..Planted::default()
    }
}

pub(super) fn is_gpu_only(name: &str) -> bool {
    !name.starts_with("nccl") && !name.starts_with("Memcpy")
}

/// Kernels whose name contains one of these take this factor.
pub(super) fn kernels(names: Vec<String>, factor: f64) -> Fault {
    Fault {
        kernel: Some(Box::new(move |name, _, _, _| {
            match names.iter().any(|part| name.contains(part.as_str())) {
                true => factor,
                false => 1.0,
            }
        })),
        ..Fault::default()
    }
}

/// All kernels of one rank, or of all.
pub(super) fn all_kernels(rank: Option<usize>, factor: f64) -> Fault {
    Fault {
        kernel: Some(Box::new(move |name, of, _, _| {
            match is_gpu_only(name) && rank.is_none_or(|rank| rank == of) {
                true => factor,
                false => 1.0,
            }
        })),
        ..Fault::default()
    }
}

/// Host time inside the range of this name takes this factor, on one rank or on all.
pub(super) fn host(name: &str, rank: Option<usize>, factor: f64) -> Fault {
    let name = name.to_owned();
    Fault {
        host: Some(Box::new(move |inside, of, _| {
            match inside.contains(&name) && rank.is_none_or(|rank| rank == of) {
                true => factor,
                false => 1.0,
            }
        })),
        ..Fault::default()
    }
}

/// New operations at the begin of a range in every `every`-th step.
pub(super) fn new_operations(at: &str, new: Vec<Op>, every: usize) -> Fault {
    let at = at.to_owned();
    Fault {
        edit: Some(Box::new(move |ops, step| match step % every == every / 2 {
            true => insert(ops, &at, &new),
            false => ops,
        })),
        ..Fault::default()
    }
}

pub(super) fn call(name: &str, cat: &'static str, us: f64) -> Vec<Op> {
    vec![Op::Open(name.into(), cat), Op::Host(us), Op::Close]
}

pub(super) fn copies(work: &Work, times: usize) -> Vec<Op> {
    vec![Op::Launch("cudaMemcpyAsync".into(), 5.0, vec![work.clone()]); times]
}

pub(super) fn null(noise: [Noise; 2]) -> Planted {
    let side = |noise| Conditions {
        noise,
        ..Conditions::default()
    };
    Planted {
        normal: side(noise[0]),
        abnormal: side(noise[1]),
        place: Vec::new(),
    }
}

/// Counters on both sides, the abnormal ones as given.
pub(super) fn counted(fault: Fault, counters: Counters, place: &[&str]) -> Planted {
    let mut pair = planted(fault, place);
    pair.normal.counters = Some(Counters::default());
    pair.abnormal.counters = Some(counters);
    pair
}

pub(super) fn last_rank(engine: &Engine) -> usize {
    engine.ranks - 1
}
