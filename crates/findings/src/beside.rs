//! Logs beside the steps: use of the GPU and of the engine, on the clock of the recordings.

use blkio_companions::gpu::GpuLog;
use serving_logs::{EngineStates, engine_states};
use trace_model::interval::Interval;

use crate::document::{BesideLog, Reading, Role, Side};
use crate::job::{Job, overlap};
use crate::numbers::share;
use crate::wall::{Printed, SECOND, place};

/// A reading of the use of a GPU is of at most this time before it: NVIDIA's driver averages over 1/6 s to 1 s.
const DRIVER_NS: i64 = SECOND;

/// Maximum number of readings in the document.
const READINGS: usize = 400;

/// A log beside the recordings of a side, in the times that it prints.
#[derive(Clone, Debug)]
pub struct Companion {
    name: String,
    side: Side,
    log: Log,
}

#[derive(Clone, Debug)]
enum Log {
    Gpu(Vec<GpuLog>),
    Engine(EngineStates),
}

impl Companion {
    /// Reads the utilisation of GPUs as nvidia-smi logs it.
    ///
    /// # Errors
    ///
    /// Returns why the text is no such log.
    pub fn gpu(name: &str, side: Side, text: &[u8]) -> Result<Self, String> {
        let logs = GpuLog::parse_all(name, text).map_err(|error| error.to_string())?;
        Ok(Self {
            name: name.to_owned(),
            side,
            log: Log::Gpu(logs),
        })
    }

    /// Reads the log of vLLM or SGLang.
    ///
    /// # Errors
    ///
    /// Returns why the text is no such log.
    pub fn engine(name: &str, side: Side, text: &str) -> Result<Self, String> {
        let states = engine_states(text);
        match states.states.is_empty() && states.preemptions.is_empty() {
            true => Err(match states.without_time {
                0 => "no line states running requests".to_owned(),
                n => format!("its {n} lines about requests have no time"),
            }),
            false => Ok(Self {
                name: name.to_owned(),
                side,
                log: Log::Engine(states),
            }),
        }
    }

    /// Returns the path as given or found.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_of(&self, side: Side) -> bool {
        self.side == Side::Only || self.side == side
    }

    /// First and last time as printed, and the usual time between readings.
    fn times(&self) -> Vec<i64> {
        match &self.log {
            Log::Gpu(logs) => logs
                .iter()
                .flat_map(|log| &log.samples)
                .map(|sample| i64::try_from(sample.t_ns).unwrap_or(i64::MAX))
                .collect(),
            Log::Engine(engine) => {
                let states = engine.states.iter().map(|state| state.at_ns);
                let others = engine.preemptions.iter().map(|one| one.at_ns);
                states.chain(others).collect()
            }
        }
    }

    /// Puts the log on the clock of a job.
    pub(crate) fn on(&self, job: &Job) -> Result<Beside<'_>, String> {
        let (Some(first), Some(last)) = (job.steps.first(), job.steps.last()) else {
            return Err("no steps to put it beside".to_owned());
        };
        if job.base_ns == 0 {
            return Err(
                "the recording states no wall time, so that their clocks cannot be joined"
                    .to_owned(),
            );
        }
        let mut times = self.times();
        times.sort_unstable();
        times.dedup();
        let between = times.windows(2).map(|pair| pair[1] - pair[0]);
        let between_ns = crate::numbers::median(between);
        let (clock, within_ns) = match &self.log {
            Log::Gpu(_) => (None, DRIVER_NS),
            Log::Engine(engine) => (Some(engine.clock), engine.clock.resolution_ns),
        };
        let printed = Printed {
            span: (
                times.first().copied().unwrap_or(0),
                times.last().copied().unwrap_or(0),
            ),
            has_zone: clock.is_some_and(|clock| clock.has_zone),
            has_year: clock.is_none_or(|clock| clock.has_year),
            slack_ns: (2 * between_ns).max(within_ns),
        };
        let base = job.base_ns;
        let span = (
            first.row.begin_ns.saturating_add(base),
            last.row.end_ns.saturating_add(base),
        );
        let shift = place(&printed, span)?;
        let mut beside = Beside {
            name: &self.name,
            log: &self.log,
            how: shift.how,
            shift_ns: shift.ns.saturating_sub(base),
            within_ns,
            between_ns,
            states: Vec::new(),
            preemptions: Vec::new(),
        };
        if let Log::Engine(engine) = &self.log {
            let states = engine.states.iter().map(|state| State {
                at_ns: state.at_ns.saturating_add(beside.shift_ns),
                running: state.running,
                waiting: state.waiting,
                cache_pct: state.cache_pct,
                tokens_per_s: state.tokens_per_s,
            });
            beside.states = states.collect();
            let shift = beside.shift_ns;
            let preemptions = engine.preemptions.iter();
            beside.preemptions = preemptions
                .map(|one| (one.at_ns.saturating_add(shift), one.requests))
                .collect();
        }
        Ok(beside)
    }
}

/// What an engine stated at a time of the job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) at_ns: i64,
    pub(crate) running: f64,
    pub(crate) waiting: Option<f64>,
    pub(crate) cache_pct: Option<f64>,
    pub(crate) tokens_per_s: Option<f64>,
}

/// A log on the clock of a job.
#[derive(Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) name: &'a str,
    log: &'a Log,
    /// How its clock was joined.
    pub(crate) how: String,
    shift_ns: i64,
    /// Uncertainty of its times.
    pub(crate) within_ns: i64,
    /// Usual time between its readings.
    between_ns: i64,
    /// States of the engine, in ascending time.
    pub(crate) states: Vec<State>,
    /// Time and number of requests.
    preemptions: Vec<(i64, u64)>,
}

/// Use of a GPU by its log and by the recording, over the same time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Use {
    pub(crate) log_pct: f64,
    pub(crate) recorded_pct: f64,
    pub(crate) readings: usize,
    pub(crate) span: Interval,
}

impl Use {
    /// By how much both may differ although the recording holds all work, in percent points: the first and the last reading may
    /// be of other work.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub(crate) fn within_pct(&self) -> f64 {
        let span = (self.span.1 - self.span.0).max(1) as f64;
        5.0 + 100.0 * (2 * DRIVER_NS) as f64 / span
    }

    pub(crate) fn agrees(&self) -> bool {
        (self.log_pct - self.recorded_pct).abs() <= self.within_pct()
    }
}

impl Beside<'_> {
    /// Returns what the engine stated around an interval: the states in it within the uncertainty, and the nearest one on each side
    /// that is not farther than lines usually are apart.
    pub(crate) fn around(&self, (begin, end): Interval) -> &[State] {
        let (begin, end) = (begin - self.within_ns, end + self.within_ns);
        let apart = 2 * self.between_ns.max(self.within_ns);
        let mut from = self.states.partition_point(|state| state.at_ns < begin);
        let mut to = self.states.partition_point(|state| state.at_ns <= end);
        if from > 0 && begin - self.states[from - 1].at_ns <= apart {
            from -= 1;
        }
        if to < self.states.len() && self.states[to].at_ns - end <= apart {
            to += 1;
        }
        self.states.get(from..to).unwrap_or_default()
    }

    /// Returns the number of requests that were preempted in an interval, within the uncertainty.
    pub(crate) fn preempted(&self, (begin, end): Interval) -> u64 {
        let (begin, end) = (begin - self.within_ns, end + self.within_ns);
        let own = self.preemptions.iter();
        let own = own.filter(|(at, _)| (begin..=end).contains(at));
        own.map(|(_, requests)| requests).sum()
    }

    /// Returns the log of the GPU of the rank that the answer is about; `None` if it is another log, or its GPU is not known.
    fn gpu(&self, job: &Job) -> Option<&GpuLog> {
        let Log::Gpu(logs) = self.log else {
            return None;
        };
        let device = job.headline_facts().device?;
        match logs.as_slice() {
            [one] => Some(one),
            all => all.iter().find(|log| log.gpu == device.to_string()),
        }
    }

    /// Readings of a GPU: time on the clock of the job, value.
    fn readings<'l>(&self, log: &'l GpuLog) -> impl Iterator<Item = (i64, Option<f64>)> + 'l {
        let shift = self.shift_ns;
        log.samples.iter().map(move |sample| {
            let at = i64::try_from(sample.t_ns).unwrap_or(i64::MAX);
            (at.saturating_add(shift), sample.percent)
        })
    }

    /// Returns the use of the GPU over the readings that are wholly of recorded time; `None` with fewer than two of them.
    pub(crate) fn usage(&self, job: &Job) -> Option<Use> {
        let log = self.gpu(job)?;
        let busy = &job.headline_facts().busy;
        let (begin, end) = (busy.first()?.0, busy.last()?.1);
        let own = self.readings(log);
        let own = own.filter(|(at, _)| *at - DRIVER_NS >= begin && *at <= end);
        let own: Vec<(i64, f64)> = own.filter_map(|(at, pct)| Some((at, pct?))).collect();
        let (first, last) = (own.first()?.0, own.last()?.0);
        if own.len() < 2 {
            return None;
        }
        let span = (first - DRIVER_NS, last);
        #[expect(clippy::cast_precision_loss, reason = "numbers of readings")]
        let log_pct = own.iter().map(|(_, pct)| pct).sum::<f64>() / own.len() as f64;
        Some(Use {
            log_pct,
            recorded_pct: share(overlap(busy, span), span.1 - span.0),
            readings: own.len(),
            span,
        })
    }

    /// Returns the medians of the columns besides the utilisation in readings of some times and of others: name, here, elsewhere.
    /// Readings are of the instant; those within no interval count nowhere.
    pub(crate) fn columns(
        &self,
        job: &Job,
        here: &[Interval],
        elsewhere: &[Interval],
    ) -> Vec<(String, f64, f64)> {
        let Some(log) = self.gpu(job) else {
            return Vec::new();
        };
        let is_in = |all: &[Interval], at: i64| all.iter().any(|(a, b)| *a <= at && at < *b);
        let times: Vec<i64> = self.readings(log).map(|(at, _)| at).collect();
        let of = |values: &[Option<f64>], all: &[Interval]| -> Vec<f64> {
            let each = times.iter().zip(values);
            let each = each.filter(|(at, _)| is_in(all, **at));
            each.filter_map(|(_, value)| *value).collect()
        };
        let columns = log.others.iter().filter_map(|column| {
            let (here, there) = (of(&column.values, here), of(&column.values, elsewhere));
            let is_known = here.len() >= 2 && there.len() >= 2;
            is_known.then(|| {
                let name = column.name.clone();
                (name, stats::median(&here), stats::median(&there))
            })
        });
        columns.collect()
    }

    /// Returns the log as rows of the document: readings around the steps.
    pub(crate) fn rows(&self, job: &Job) -> BesideLog {
        let (first, last) = (job.steps.first(), job.steps.last());
        let begin = first.map_or(0, |step| step.row.begin_ns);
        let end = last.map_or(0, |step| step.row.end_ns);
        let margin = 2 * self.between_ns.max(self.within_ns);
        let is_near = |at: i64| begin - margin <= at && at <= end + margin;
        let mut readings: Vec<Reading> = match self.log {
            Log::Gpu(_) => {
                let own = self.gpu(job).map(|log| self.readings(log));
                let own = own.into_iter().flatten();
                own.filter(|(at, _)| is_near(*at))
                    .map(|(at_ns, utilisation_pct)| Reading {
                        at_ns,
                        utilisation_pct,
                        ..Reading::default()
                    })
                    .collect()
            }
            Log::Engine(_) => {
                let own = self.states.iter().filter(|state| is_near(state.at_ns));
                own.map(|state| Reading {
                    at_ns: state.at_ns,
                    running: Some(state.running),
                    waiting: state.waiting,
                    cache_pct: state.cache_pct,
                    tokens_per_s: state.tokens_per_s,
                    ..Reading::default()
                })
                .collect()
            }
        };
        readings.sort_by_key(|reading| reading.at_ns);
        let all = readings.len();
        readings.truncate(READINGS);
        let usage = self.usage(job);
        BesideLog {
            name: self.name.to_owned(),
            role: match self.log {
                Log::Gpu(_) => Role::GpuLog,
                Log::Engine(_) => Role::EngineLog,
            },
            clock: self.how.clone(),
            clock_within_ns: self.within_ns,
            left_out: (all - readings.len()) as u64,
            readings,
            utilisation_pct: usage.as_ref().map(|usage| usage.log_pct),
            recorded_busy_pct: usage.as_ref().map(|usage| usage.recorded_pct),
            preempted: match self.log {
                Log::Gpu(_) => None,
                Log::Engine(_) => Some(self.preempted((begin, end))),
            },
        }
    }

    /// Returns why the log decides nothing here, if it does not.
    pub(crate) fn problem(&self, job: &Job) -> Option<String> {
        let Log::Gpu(logs) = self.log else {
            return None;
        };
        if self.gpu(job).is_none() {
            return Some(match job.headline_facts().device {
                None => "the recording states no device".to_owned(),
                Some(device) => format!(
                    "it is of {} GPUs, none of which it calls {device}",
                    logs.len()
                ),
            });
        }
        self.usage(job).is_none().then(|| {
            format!(
                "a reading is of up to {} before it, and fewer than two lie wholly in the recording: it neither confirms nor contradicts it",
                crate::numbers::time(DRIVER_NS)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(log: &Log) -> Beside<'_> {
        let state = |at: i64, waiting: f64| State {
            at_ns: at * SECOND,
            running: 8.0,
            waiting: Some(waiting),
            cache_pct: None,
            tokens_per_s: None,
        };
        Beside {
            name: "log",
            log,
            how: String::new(),
            shift_ns: 0,
            within_ns: SECOND,
            between_ns: 10 * SECOND,
            states: vec![
                state(10, 1.0),
                state(20, 2.0),
                state(30, 3.0),
                state(90, 4.0),
            ],
            preemptions: vec![(19 * SECOND, 2), (40 * SECOND, 5)],
        }
    }

    #[test]
    fn states_around_a_step_are_those_on_both_sides() {
        let log = Log::Engine(EngineStates::default());
        let found = beside(&log);
        let waiting = |begin: i64, end: i64| -> Vec<f64> {
            let states = found.around((begin * SECOND, end * SECOND));
            states.iter().filter_map(|state| state.waiting).collect()
        };
        assert_eq!(waiting(22, 25), [2.0, 3.0]);
        assert_eq!(waiting(19, 25), [1.0, 2.0, 3.0]);
        // Farther from a line than two are apart.
        assert_eq!(waiting(60, 61), [] as [f64; 0]);
        assert_eq!(waiting(0, 1), [1.0]);
        assert_eq!(found.preempted((20 * SECOND, 21 * SECOND)), 2);
        assert_eq!(found.preempted((21 * SECOND, 30 * SECOND)), 0);
    }

    #[test]
    fn use_agrees_within_what_the_ends_may_differ() {
        let of = |log_pct, recorded_pct, seconds: i64| {
            let found = Use {
                log_pct,
                recorded_pct,
                readings: 9,
                span: (0, seconds * SECOND),
            };
            found.agrees()
        };
        assert!(of(50.0, 45.0, 100) && !of(50.0, 40.0, 100));
        assert!(of(50.0, 40.0, 20) && !of(100.0, 40.0, 20));
    }
}
