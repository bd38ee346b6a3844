//! Serving jobs with one fault each: what is recorded, and what is true.
//!
//! A job decodes with tensor parallelism and a synchronous scheduler, in the manner of vLLM: schedule, prepare, forward (one
//! graph, or kernel by kernel), sample, copy the tokens, wait for them. Times of kernels follow from their shapes at four
//! fifths of the bandwidth of the device. The truth is a difference of two simulations: with the fault, and without.

mod engine;
mod fault;
mod storage;

pub use fault::Fault;

use crate::json::{Json, object};
use crate::kineto::{self, Recorder};
use crate::sim::Rank;

/// True time at which recordings start, since the epoch.
pub(crate) const START: i64 = 1_775_000_000_000_000_000;

/// A job to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Ranks: 1, 2, 8 or any other number.
    pub ranks: usize,
    /// Steps.
    pub steps: usize,
    /// Layers of the model.
    pub layers: i64,
    /// Seed of all variation.
    pub seed: u64,
    /// Size of the fault, in percent of the usual one.
    pub size: i64,
    /// The fault.
    pub fault: Fault,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            ranks: 1,
            steps: 24,
            layers: 16,
            seed: 1,
            size: 100,
            fault: Fault::None,
        }
    }
}

/// A recording of a rank, or a log beside them.
#[derive(Clone, Debug)]
pub struct File {
    /// Name.
    pub name: String,
    /// Contents.
    pub text: String,
}

/// What is true of a job.
#[derive(Clone, Debug)]
pub struct Truth {
    /// The fault.
    pub fault: Fault,
    /// The rank that has it, if one does.
    pub rank: Option<usize>,
    /// Function, kernel or call that has it.
    pub name: Option<String>,
    /// Steps that have it, from 0; all if empty.
    pub steps: Vec<usize>,
    /// Mean time of a decode step.
    pub step_ns: i64,
    /// The same without the fault.
    pub healthy_step_ns: i64,
    /// Mean time of the steps that have the fault, without prefills.
    pub faulty_step_ns: i64,
}

impl Truth {
    /// Returns the truth as JSON.
    pub fn json(&self) -> Json {
        object! {
            "fault": self.fault.name(),
            "kinds": Json::list(self.fault.kinds().iter().copied()),
            "rank": self.rank.map_or_else(Json::null, |rank| i64::try_from(rank).unwrap_or(0).into()),
            "name": self.name.as_deref().map_or_else(Json::null, Into::into),
            "steps": Json::list(self.steps.iter().map(|&step| i64::try_from(step).unwrap_or(0))),
            "step_ns": self.step_ns,
            "healthy_step_ns": self.healthy_step_ns,
            "faulty_step_ns": self.faulty_step_ns,
            "cost_ns_per_step": self.step_ns - self.healthy_step_ns,
        }
    }
}

/// Recordings and truth of a job.
#[derive(Clone, Debug)]
pub struct Made {
    /// One file per rank.
    pub ranks: Vec<File>,
    /// Logs of the same time: block I/O.
    pub beside: Vec<File>,
    /// The truth.
    pub truth: Truth,
}

impl Job {
    /// Simulates the job, with and without its fault.
    pub fn make(&self) -> Made {
        let faulty = engine::run(*self);
        let healthy = engine::run(
            Self {
                fault: Fault::None,
                ..*self
            }
            .like(self.fault),
        );
        let world = i64::try_from(self.ranks).unwrap_or(i64::MAX);
        let ranks = faulty
            .sim
            .ranks
            .iter()
            .map(|rank| File {
                name: format!("rank{}.json", rank.index),
                text: kineto::write(rank, world, &recorder(rank)).text,
            })
            .collect();
        let faulty_steps: Vec<i64> = (0..faulty.times.len())
            .filter(|step| faulty.steps.is_empty() || faulty.steps.contains(step))
            .map(|step| faulty.times[step])
            .collect();
        Made {
            ranks,
            beside: storage::log(&faulty.reads),
            truth: Truth {
                fault: self.fault,
                rank: faulty.rank,
                name: faulty.name,
                step_ns: mean(&faulty.times),
                healthy_step_ns: mean(&healthy.times),
                faulty_step_ns: mean(&faulty_steps),
                steps: faulty.steps,
            },
        }
    }

    /// The same job as one with `fault` would be without it.
    fn like(self, fault: Fault) -> engine::Plan {
        engine::Plan {
            job: self,
            // What is wrong with launches one by one is that there is no graph.
            is_eager: fault.is_eager() && (fault != Fault::Launches || self.fault == fault),
            is_small: matches!(fault, Fault::Launches | Fault::BrokenGraph),
            is_custom: fault == Fault::LateHostCustom,
            has_experts: fault == Fault::UnevenExperts,
        }
    }
}

impl From<Job> for engine::Plan {
    fn from(job: Job) -> Self {
        job.like(job.fault)
    }
}

fn mean(times: &[i64]) -> i64 {
    let n = i64::try_from(times.len()).unwrap_or(1).max(1);
    times.iter().sum::<i64>() / n
}

/// Returns the recorder of a rank; clocks differ by a few microseconds.
fn recorder(rank: &Rank) -> Recorder {
    Recorder {
        name: "job",
        process: "VLLM::Worker",
        base_ns: START - 1_000_000_000,
        ahead_ns: rank.index * 3_700,
    }
}
