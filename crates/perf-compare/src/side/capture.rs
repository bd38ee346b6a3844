//! One perf-data file as series over cycles.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use trace_model::callstack::without_addresses;
use trace_model::kernel::{KernelClass, class_of};

use super::class::Class;
use super::counters::Counters;
use super::rank::Rank;
use super::step::{Work, shape, template, work};
use crate::table::{Name, Names, PerfRow};

/// One cycle.
#[derive(Debug, Clone)]
pub(crate) struct Cycle {
    pub(crate) number: i64,
    pub(crate) dur_us: f64,
    pub(crate) start_us: f64,
    /// What the step did, if its name says it.
    pub(crate) work: Option<Work>,
    /// Part of its time in functions of the host whose change its work explains: the GPU may be idle in it for that reason.
    pub(crate) apart_us: f64,
}

/// One process of a capture.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: i64,
    /// Its rank, if each rank has a file of its own, or by its place where devices do not tell ranks apart.
    pub(crate) rank: Option<Rank>,
    pub(crate) host: String,
    /// Devices it used, sorted.
    pub(crate) devices: Vec<String>,
}

/// Time and calls of one function of one process on one device, by cycle.
#[derive(Debug, Clone)]
pub(crate) struct Function {
    pub(crate) process: usize,
    pub(crate) device: String,
    pub(crate) name: String,
    pub(crate) class: Class,
    /// What a kernel computes: as the table states it, else by its name; none of all else.
    pub(crate) kernel: Option<KernelClass>,
    /// Microseconds; 0 where it was not seen, NaN where nothing could be seen (capture was off).
    pub(crate) dur_us: Vec<f64>,
    /// Calls, as `dur_us`; NaN throughout when the file does not say.
    pub(crate) calls: Vec<f64>,
    /// Bytes that copies moved; NaN where the file does not say.
    pub(crate) bytes: Vec<f64>,
    /// Single calls, where the file says it of a cycle at least.
    pub(crate) single: Option<SingleCalls>,
    /// Whether a change of the steps' work explains how it changed, so that no cause is concluded from it.
    pub(crate) apart: bool,
}

/// The shortest and the longest of the calls of a function, by cycle; NaN where it was called once or the table does not say.
#[derive(Debug, Clone)]
pub(crate) struct SingleCalls {
    pub(crate) shortest_us: Vec<f64>,
    pub(crate) longest_us: Vec<f64>,
    /// Which call is the longest, in order of time from 1; NaN for calls of several objects together.
    pub(crate) longest: Vec<f64>,
}

/// A counter that goes with a device, by cycle; NaN where there was none.
#[derive(Debug, Clone)]
pub(crate) struct DeviceCounter {
    pub(crate) metric: String,
    pub(crate) device: String,
    pub(crate) process: usize,
    pub(crate) values: Vec<f64>,
    /// Whether a real sample is behind a value; values between samples are no observations.
    pub(crate) sampled: Vec<bool>,
}

/// How long the devices of a process worked, by cycle; NaN where the table does not say.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeviceTime {
    /// Work that ran at once counted once.
    pub(crate) busy_us: Vec<f64>,
    /// The part of it in which nothing but communication ran.
    pub(crate) exposed_us: Vec<f64>,
}

/// A whole file.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    pub(crate) file: String,
    /// `prefill`, `decode`, `layer`, or nothing.
    pub(crate) kind: String,
    pub(crate) anchors: Vec<String>,
    pub(crate) cycles: Vec<Cycle>,
    pub(crate) processes: Vec<Process>,
    pub(crate) functions: Vec<Function>,
    /// By process.
    pub(crate) device_times: Vec<DeviceTime>,
    pub(crate) device_counters: Vec<DeviceCounter>,
    pub(crate) counters: Counters,
    /// Whether counters came from the file beside, and not from the rows.
    pub(crate) has_counter_file: bool,
    /// Rows given twice with other numbers.
    pub(crate) contradictions: u64,
    /// Cycles whose length is missing or not positive.
    pub(crate) bad_cycles: u64,
    /// Cycles that some ranks have and others lack.
    pub(crate) partial_cycles: u64,
    /// The cycles, from and to, during which device capture was on throughout; all without device rows.
    pub(crate) whole: (usize, usize),
}

/// Weighted sum of a counter in a cycle, the weights, and whether a real sample is among them.
type Coincident = (f64, f64, bool);

/// Time, calls, bytes, shortest and longest call and the place of the latter, by cycle.
type Series = [Vec<f64>; 6];

/// One name may be of two kinds: a copy waits in one call and not in another.
type FunctionKey = (i64, String, String, Class);

/// The rows of one file of a capture.
#[derive(Debug)]
pub(crate) struct Part<'r> {
    pub(crate) rank: Option<Rank>,
    pub(crate) rows: &'r [PerfRow],
}

/// Common cycles from which on those that some ranks lack are left out.
const COMMON: usize = 5;

impl Capture {
    /// Gathers the rows of a file, or of the files of all ranks of one run. A process number is that of a process within its
    /// file only. Cycles of the same number are one cycle: it begins with the first rank and takes as long as the slowest.
    pub(crate) fn gather(file: String, kind: String, parts: &[Part<'_>], names: &Names) -> Self {
        let text = |name| names.text(name);
        let pids = parts.iter().enumerate();
        let pids: BTreeSet<(usize, i64)> = pids
            .flat_map(|(part, own)| own.rows.iter().map(move |row| (part, row.pid)))
            .collect();
        let identities: Vec<(usize, i64)> = pids.into_iter().collect();
        let numbers: BTreeMap<(usize, i64), i64> = identities.iter().copied().zip(0..).collect();
        let numbered = |part: usize, row: &PerfRow| PerfRow {
            pid: numbers.get(&(part, row.pid)).copied().unwrap_or(0),
            ..*row
        };
        let rows: Vec<PerfRow> = parts
            .iter()
            .enumerate()
            .flat_map(|(part, own)| own.rows.iter().map(move |row| numbered(part, row)))
            .collect();
        let part_of = |number: i64| {
            usize::try_from(number)
                .ok()
                .and_then(|at| identities.get(at).copied())
                .unwrap_or((0, 0))
        };
        // The order of rows in the file must not show, not even in the last digit of a sum.
        let mut sorted: Vec<&PerfRow> = rows.iter().collect();
        let key = |row: &PerfRow| {
            (
                row.cycle,
                row.pid,
                row.function.map(text),
                row.device.map(text),
                row.metric.map(text),
            )
        };
        sorted.sort_by(|a, b| {
            key(a)
                .cmp(&key(b))
                .then(a.dur_us.total_cmp(&b.dur_us))
                .then(a.mu_pct.total_cmp(&b.mu_pct))
        });
        let rows = sorted;
        let mut cycles: BTreeMap<i64, (Cycle, BTreeMap<usize, f64>)> = BTreeMap::new();
        let mut anchors: BTreeSet<Name> = BTreeSet::new();
        let mut capture = Self {
            file,
            kind,
            ..Self::default()
        };
        let mut bad: BTreeSet<i64> = BTreeSet::new();
        for row in rows.iter().copied() {
            if !(row.cycle_us > 0.0 && row.cycle_us.is_finite()) {
                bad.insert(row.cycle);
                continue;
            }
            let fresh = Cycle {
                number: row.cycle,
                dur_us: row.cycle_us,
                start_us: row.start_us,
                work: row.anchor.and_then(|name| work(text(name))),
                apart_us: 0.0,
            };
            let (cycle, seen) = cycles
                .entry(row.cycle)
                .or_insert_with(|| (fresh, BTreeMap::new()));
            // Within a file the first row counts.
            if let Entry::Vacant(own) = seen.entry(part_of(row.pid).0) {
                own.insert(row.cycle_us);
                cycle.start_us = cycle.start_us.min(row.start_us);
            }
            anchors.extend(row.anchor);
        }
        capture.bad_cycles = bad.len() as u64;
        // Names that differ from step to step are one anchor.
        let named = if anchors.len() > 1 { shape } else { template };
        let anchors: BTreeSet<String> = anchors.into_iter().map(|name| named(text(name))).collect();
        capture.anchors = anchors.into_iter().collect();
        let complete = |seen: &BTreeMap<usize, f64>| seen.len() == parts.len();
        let common = cycles.values().filter(|(_, seen)| complete(seen)).count();
        if common >= COMMON {
            capture.partial_cycles = (cycles.len() - common) as u64;
            cycles.retain(|_, (_, seen)| complete(seen));
        }
        let slowest = slowest(cycles.values().map(|(_, seen)| seen));
        capture.cycles = cycles
            .into_values()
            .map(|(cycle, seen)| {
                let own = slowest.and_then(|part| seen.get(&part).copied());
                let longest = seen.values().copied().fold(0.0, f64::max);
                let dur_us = own.unwrap_or(longest);
                Cycle { dur_us, ..cycle }
            })
            .collect();
        capture.cycles.sort_by(|a, b| {
            a.start_us
                .total_cmp(&b.start_us)
                .then(a.number.cmp(&b.number))
        });
        let place: BTreeMap<i64, usize> = capture
            .cycles
            .iter()
            .enumerate()
            .map(|(at, cycle)| (cycle.number, at))
            .collect();
        let n = capture.cycles.len();

        let mut processes: BTreeMap<i64, (String, BTreeSet<String>)> = BTreeMap::new();
        let mut functions: BTreeMap<FunctionKey, Series> = BTreeMap::new();
        let mut stated: BTreeMap<&str, Name> = BTreeMap::new();
        // Rows repeat their names, and a class costs many comparisons.
        let mut classes: BTreeMap<[Option<Name>; 3], Class> = BTreeMap::new();
        let mut times_of: BTreeMap<i64, [Vec<f64>; 2]> = BTreeMap::new();
        // Weighted by the time of the function, as the recorder weights them.
        let mut coincident: BTreeMap<(String, String, i64), Vec<Coincident>> = BTreeMap::new();
        for row in rows.iter().copied() {
            let (Some(&at), Some(name)) = (place.get(&row.cycle), row.function.map(text)) else {
                continue;
            };
            let device = row.device.map_or("Host", text);
            let class = *classes
                .entry([row.func_type, row.function, row.device])
                .or_insert_with(|| Class::of(row.func_type.map_or("", text), name, device));
            if let Some(kernel) = row.kernel_class {
                stated.entry(name).or_insert(kernel);
            }
            let [busy, exposed] = times_of
                .entry(row.pid)
                .or_insert_with(|| [(); 2].map(|()| vec![f64::NAN; n]));
            (busy[at], exposed[at]) = (row.busy_us, row.exposed_us);
            let process = processes.entry(row.pid).or_default();
            if let Some(host) = row.host {
                process.0 = text(host).to_owned();
            }
            if class.on_device() {
                process.1.insert(device.to_owned());
            }
            let dur_us = if row.dur_us.is_nan() {
                row.beta_pct / 100.0 * row.cycle_us
            } else {
                row.dur_us
            };
            let key = (row.pid, device.to_owned(), name.to_owned(), class);
            let [durs, calls, bytes, shortest, longest, place_of_longest] = functions
                .entry(key)
                .or_insert_with(|| [(); 6].map(|()| vec![f64::NAN; n]));
            if durs[at].is_nan() {
                durs[at] = dur_us;
                calls[at] = row.calls;
                bytes[at] = row.copy_bytes;
                (shortest[at], longest[at]) = (row.shortest_us, row.longest_us);
                place_of_longest[at] = row.longest;
            } else if (durs[at] - dur_us).abs() > 1e-3 {
                capture.contradictions += 1;
            }
            if let (Some(metric), false) = (row.metric.map(text), row.mu_pct.is_nan()) {
                let sums = coincident
                    .entry((metric.to_owned(), device.to_owned(), row.pid))
                    .or_insert_with(|| vec![(0.0, 0.0, false); n]);
                let weight = dur_us.max(1e-6);
                sums[at].0 += weight * row.mu_pct;
                sums[at].1 += weight;
                sums[at].2 |= row.sampled;
            }
        }
        let mut found: Vec<(i64, Process)> = processes
            .into_iter()
            .map(|(number, (host, devices))| {
                let (part, pid) = part_of(number);
                let process = Process {
                    pid,
                    rank: parts.get(part).and_then(|part| part.rank.clone()),
                    host,
                    devices: devices.into_iter().collect(),
                };
                (number, process)
            })
            .collect();
        // By place, not by pid: pids are accidental.
        found.sort_by(|(_, a), (_, b)| {
            (&a.rank, &a.host, &a.devices, a.pid).cmp(&(&b.rank, &b.host, &b.devices, b.pid))
        });
        let index: BTreeMap<i64, usize> = found
            .iter()
            .enumerate()
            .map(|(at, (number, _))| (*number, at))
            .collect();
        let none = || [(); 2].map(|()| vec![f64::NAN; n]);
        capture.device_times = found
            .iter()
            .map(|(number, _)| {
                let [busy_us, exposed_us] = times_of.remove(number).unwrap_or_else(none);
                DeviceTime {
                    busy_us,
                    exposed_us,
                }
            })
            .collect();
        capture.processes = found.into_iter().map(|(_, process)| process).collect();
        capture.functions = by_plain_name(functions)
            .into_iter()
            .filter_map(|((pid, device, name, class), series)| {
                let [dur_us, calls, bytes, shortest_us, longest_us, longest] = series;
                let is_known = longest_us.iter().any(|us| !us.is_nan());
                let kernel = (class == Class::Kernel).then(|| {
                    let stated = stated.get(name.as_str());
                    let stated = stated.and_then(|class| KernelClass::from_name(text(*class)));
                    stated.unwrap_or_else(|| class_of(&name))
                });
                Some(Function {
                    process: *index.get(&pid)?,
                    device,
                    name,
                    class,
                    kernel,
                    dur_us,
                    calls,
                    bytes,
                    single: is_known.then_some(SingleCalls {
                        shortest_us,
                        longest_us,
                        longest,
                    }),
                    apart: false,
                })
            })
            .collect();
        capture.device_counters = coincident
            .into_iter()
            .filter_map(|((metric, device, pid), sums)| {
                Some(DeviceCounter {
                    metric,
                    device,
                    process: *index.get(&pid)?,
                    values: sums.iter().map(|(sum, weight, _)| sum / weight).collect(),
                    sampled: sums.iter().map(|sum| sum.2).collect(),
                })
            })
            .collect();
        capture.number_ranks();
        capture.fill_gaps();
        capture
    }

    /// Gives processes that communicate a rank by their place in order of host and number, as `cycle-rca` does, where they name
    /// their devices alike: each process may see its own GPU as GPU 0, and a slow one must not be taken for any other.
    fn number_ranks(&mut self) {
        let communicates: BTreeSet<usize> = self
            .functions
            .iter()
            .filter(|f| f.class == Class::Collective)
            .map(|f| f.process)
            .collect();
        let own = || communicates.iter().filter_map(|at| self.processes.get(*at));
        let devices: BTreeSet<&[String]> = own().map(|process| &process.devices[..]).collect();
        if devices.len() == communicates.len() || own().any(|process| process.rank.is_some()) {
            return;
        }
        // Ranks are places among all that work on a device.
        let mut order: Vec<usize> = (0..self.processes.len()).collect();
        order.retain(|at| !self.processes[*at].devices.is_empty());
        order.sort_by_key(|at| {
            let process = &self.processes[*at];
            (process.host.clone(), process.pid)
        });
        for (number, at) in (0..).zip(order) {
            self.processes[at].rank = Some(Rank::Number(number));
        }
    }

    /// Returns `true` if anything was recorded in a cycle: on a device, or on the host.
    pub(crate) fn is_on(&self, at: usize, device: bool) -> bool {
        let mut functions = self.functions.iter();
        functions.any(|f| f.class.on_device() == device && !f.dur_us[at].is_nan())
    }

    /// What was not seen is 0 where capture was on, and stays missing where it was off: a process without a single device
    /// row in a cycle was not captured on the device then.
    fn fill_gaps(&mut self) {
        let n = self.cycles.len();
        let mut device_on = vec![vec![false; n]; self.processes.len()];
        let mut host_on = vec![vec![false; n]; self.processes.len()];
        for function in &self.functions {
            let on = if function.class.on_device() {
                &mut device_on
            } else {
                &mut host_on
            };
            for (seen, dur) in on[function.process].iter_mut().zip(&function.dur_us) {
                *seen |= !dur.is_nan();
            }
        }
        for function in &mut self.functions {
            let on = if function.class.on_device() {
                &device_on
            } else {
                &host_on
            };
            let series = function.dur_us.iter_mut().zip(&mut function.calls);
            for ((dur, calls), on) in series.zip(&on[function.process]) {
                if dur.is_nan() && *on {
                    *dur = 0.0;
                    *calls = 0.0;
                }
            }
        }
        let any_device = |at: usize| device_on.iter().any(|on| on[at]);
        self.whole = (0, n);
        if (0..n).any(any_device) {
            self.whole = self.whole_cycles(&any_device);
        }
    }

    /// Without cycles at either end that have no device rows, and without the next one if it lacks calls: capture began or
    /// ended inside it.
    fn whole_cycles(&self, any_device: &dyn Fn(usize) -> bool) -> (usize, usize) {
        /// Part of the usual number of calls below which a cycle is cut.
        const CUT: f64 = 0.97;
        let n = self.cycles.len();
        let from = (0..n).take_while(|&at| !any_device(at)).count();
        let to = n - (0..n).rev().take_while(|&at| !any_device(at)).count();
        let device = || self.functions.iter().filter(|f| f.class.on_device());
        let calls = |at: usize| {
            device()
                .map(|f| f.calls[at])
                .filter(|c| !c.is_nan())
                .sum::<f64>()
        };
        let all: Vec<f64> = (from..to).map(calls).collect();
        let usual = crate::stats::median(&all);
        if to - from < 3 || usual <= 0.0 {
            return (from, to);
        }
        let cut = |at: usize| calls(at) < CUT * usual;
        (from + usize::from(cut(from)), to - usize::from(cut(to - 1)))
    }
}

/// Adds up functions whose names differ in the addresses of objects alone.
fn by_plain_name(functions: BTreeMap<FunctionKey, Series>) -> BTreeMap<FunctionKey, Series> {
    let mut plain: BTreeMap<FunctionKey, Series> = BTreeMap::new();
    for ((pid, device, name, class), series) in functions {
        let name = without_addresses(&name).into_owned();
        match plain.entry((pid, device, name, class)) {
            Entry::Vacant(none) => {
                none.insert(series);
            }
            Entry::Occupied(mut some) => {
                let add: fn(f64, f64) -> f64 = |a, b| a + b;
                // The order of the calls of several objects is not known.
                let none: fn(f64, f64) -> f64 = |_, _| f64::NAN;
                let how = [add, add, add, f64::min, f64::max, none];
                let pairs = some.get_mut().iter_mut().zip(&series).zip(how);
                let values = pairs.flat_map(|((all, more), how)| {
                    let each = all.iter_mut().zip(more);
                    each.map(move |(one, more)| (one, *more, how))
                });
                for (one, more, how) in values.filter(|(_, more, _)| !more.is_nan()) {
                    *one = if one.is_nan() { more } else { how(*one, more) };
                }
            }
        }
    }
    plain
}

/// Returns the file of a job whose cycles last longest in all; the first of several. Ranks that wait for each other last
/// equally long in all, but a pause may fall behind the begin of one rank's cycle and before that of another's: the
/// longest of each number would count it twice.
fn slowest<'c>(cycles: impl Iterator<Item = &'c BTreeMap<usize, f64>>) -> Option<usize> {
    let seen: Vec<&BTreeMap<usize, f64>> = cycles.collect();
    let parts = seen.iter().map(|own| own.len()).max()?;
    let mut totals: BTreeMap<usize, f64> = BTreeMap::new();
    for own in seen.iter().filter(|own| own.len() == parts) {
        for (part, dur) in *own {
            *totals.entry(*part).or_default() += dur;
        }
    }
    let mut found: Option<(usize, f64)> = None;
    for (part, total) in totals {
        if found.is_none_or(|(_, most)| total > most) {
            found = Some((part, total));
        }
    }
    found.map(|(part, _)| part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_is_missing_and_unseen_is_zero() {
        let mut names = Names::default();
        let ids = [
            "oncpu",
            "gemm",
            "topk",
            "GPU 0",
            "Host",
            "gpu_compute",
            "step",
        ]
        .map(|t| names.id(t));
        let row = |cycle, function: usize, device: usize, dur_us| PerfRow {
            cycle,
            pid: 1,
            host: None,
            function: Some(ids[function]),
            metric: None,
            device: Some(ids[device]),
            func_type: None,
            anchor: Some(ids[6]),
            beta_pct: 1.0,
            mu_pct: f64::NAN,
            dur_us,
            cycle_us: 100.0,
            start_us: 0.0,
            calls: 1.0,
            copy_bytes: f64::NAN,
            kernel_class: None,
            busy_us: f64::NAN,
            exposed_us: f64::NAN,
            shortest_us: f64::NAN,
            longest_us: f64::NAN,
            longest: f64::NAN,
            sampled: true,
        };
        let rows = [
            row(1, 0, 4, 50.0),
            row(2, 0, 4, 50.0),
            row(2, 1, 3, 20.0),
            row(3, 0, 4, 50.0),
            row(3, 1, 3, 20.0),
            row(3, 2, 3, 2.0),
            row(3, 2, 3, 9.0),
        ];
        let capture = Capture::gather(
            "f".into(),
            String::new(),
            &[Part {
                rank: None,
                rows: &rows,
            }],
            &names,
        );
        assert_eq!(capture.whole, (1, 3));
        assert_eq!(capture.contradictions, 1);
        let of = |name: &str| capture.functions.iter().find(|f| f.name == name).unwrap();
        assert!(of("topk").dur_us[0].is_nan());
        assert_eq!(of("topk").dur_us[1..], [0.0, 2.0]);
        assert_eq!(of("gemm").calls[1..], [1.0, 1.0]);
        assert_eq!(of("oncpu").dur_us, [50.0; 3]);
    }
    #[test]
    fn a_pause_at_the_border_of_ranks_counts_once() {
        // Rank 1 pauses before its mark, so that its cycle 2 is long, and cycle 3 of the ranks that wait for it.
        let ranks = [[2.0, 2.0, 17.0, 2.0], [2.0, 17.0, 2.0, 2.0]];
        let cycles: Vec<BTreeMap<usize, f64>> = (0..4)
            .map(|at| ranks.iter().map(|own| own[at]).enumerate().collect())
            .collect();
        assert_eq!(slowest(cycles.iter()), Some(0));
        // A cycle that one rank alone recorded says nothing of which is slower.
        let mut cycles = cycles;
        cycles[0].insert(1, 3.0);
        cycles.push([(0, 100.0)].into());
        assert_eq!(slowest(cycles.iter()), Some(1));
        assert_eq!(slowest([].iter()), None);
    }
    #[test]
    fn objects_of_one_method_add_up() {
        let class = Class::of("", "f", "Host");
        let key = |name: &str| (1, "Host".to_owned(), name.to_owned(), class);
        let none = f64::NAN;
        let of = |durs: [f64; 3]| {
            [durs, [1.0; 3], [none; 3], durs, durs, [1.0, none, 1.0]].map(|values| values.to_vec())
        };
        let functions: BTreeMap<FunctionKey, Series> = [
            (key("<m of T object at 0x7f01>"), of([1.0, none, none])),
            (key("<m of T object at 0x7f02>"), of([2.0, 4.0, none])),
            (key("g"), of([8.0; 3])),
        ]
        .into();
        let plain = by_plain_name(functions);
        let [durs, calls, bytes, shortest, longest, at] =
            plain.get(&key("<m of T object at 0x*>")).unwrap();
        assert_eq!((shortest[0], longest[0]), (1.0, 2.0));
        assert!(at[0].is_nan());
        assert_eq!(
            (plain.len(), &durs[..2], &calls[..]),
            (2, &[3.0, 4.0][..], &[2.0; 3][..])
        );
        assert!(durs[2].is_nan() && bytes.iter().all(|b| b.is_nan()));
    }
}
