//! Hosts that are unwell, by their counters.
//!
//! The rules are those of the reference's diagnosis (spec section d.5): four that compare a host with the best of at least two, and five with
//! a fixed limit.

use std::collections::BTreeMap;

use crate::analysis::Analysis;
use crate::num::mean_std;

/// What can be wrong with a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Issue {
    /// Its processors run below 0.7 of the clock of the fastest host.
    CpuFrequency,
    /// Its devices run below 0.85 of the clock of the fastest host.
    GpuFrequency,
    /// Its processors are hotter than 90 °C.
    CpuTemperature,
    /// Its devices are hotter than 85 °C.
    GpuTemperature,
    /// Its processors run below 1200 MHz.
    CpuLowFrequency,
    /// Its devices hold 1.2 times as much as those of the host with least, and 2 GB more.
    GpuMemory,
    /// Its links carry 1.5 times as much as those of the host with least, and more than 1 GB/s.
    LinkTraffic,
    /// It has less than 2 GB of memory left.
    HostMemory,
    /// Its disks are busy for more than 80 % of the time.
    DiskUsage,
}

impl Issue {
    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuFrequency => "CPU_FREQUENCY",
            Self::GpuFrequency => "GPU_FREQUENCY",
            Self::CpuTemperature => "CPU_TEMPERATURE",
            Self::GpuTemperature => "GPU_TEMPERATURE",
            Self::CpuLowFrequency => "CPU_LOW_FREQUENCY",
            Self::GpuMemory => "GPU_MEMORY",
            Self::LinkTraffic => "LINK_TRAFFIC",
            Self::HostMemory => "HOST_MEMORY",
            Self::DiskUsage => "DISK_USAGE",
        }
    }

    /// How urgent it is, in tenths: 10 before all else.
    pub fn priority(self) -> u8 {
        match self {
            Self::CpuFrequency
            | Self::GpuFrequency
            | Self::CpuTemperature
            | Self::GpuTemperature => 10,
            Self::CpuLowFrequency => 11,
            Self::GpuMemory | Self::LinkTraffic => 20,
            Self::HostMemory => 21,
            Self::DiskUsage => 30,
        }
    }
}

/// A host that is unwell in a cycle.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ailment {
    /// The host, if the recording names it.
    pub host: Option<String>,
    /// What is wrong.
    pub issue: Issue,
    /// What its counters show, in their unit.
    pub value: f64,
    /// What they may show.
    pub limit: f64,
    /// How far the samples are from the cycle, ns; 0 if they are inside.
    pub sample_age_ns: i64,
}

/// The hosts that are unwell in a cycle of `analysis`, most urgent first.
///
/// A counter of a device, core or disk counts with its mean over them, the clock of devices with the highest. A recording that names no host
/// is of one.
pub fn ailments(analysis: &Analysis, cycle: usize) -> Vec<Ailment> {
    let mut hosts: BTreeMap<Option<&str>, (Levels<'_>, i64)> = BTreeMap::new();
    for c in &analysis.counters {
        let at = (c.by_cycle.get(cycle), c.sample_age_ns.get(cycle));
        if let (Some(value), Some(age)) = at
            && value.is_finite()
            && COUNTERS.contains(&c.name.as_str())
        {
            let (levels, oldest) = hosts.entry(c.host.as_deref()).or_default();
            levels.entry(&c.name).or_default().push(*value);
            *oldest = (*oldest).max(*age);
        }
    }
    let names: Vec<(Option<&str>, i64)> = hosts.iter().map(|(h, (_, age))| (*h, *age)).collect();
    let levels: Vec<Levels<'_>> = hosts.into_values().map(|h| h.0).collect();
    let mut found: Vec<Ailment> = issues(&levels)
        .into_iter()
        .map(|i| Ailment {
            host: names[i.host].0.map(str::to_owned),
            issue: i.issue,
            value: i.value,
            limit: i.limit,
            sample_age_ns: names[i.host].1,
        })
        .collect();
    found.sort_by_key(|a| a.issue.priority());
    found
}

/// The counters that the rules look at.
const COUNTERS: [&str; 9] = [
    "cpu_frequency",
    "cpu_temp",
    "gpu_temp",
    "host_mem_available",
    "gpu_mem_used",
    "disk_usage",
    "gpu_frequency",
    "gpu_link_transmit",
    "gpu_link_receive",
];

/// Values of each counter of a host.
pub(crate) type Levels<'e> = BTreeMap<&'e str, Vec<f64>>;
/// Something of a host.
type Of<'f> = &'f dyn Fn(&Levels<'_>) -> Option<f64>;

/// An issue of one of several hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HostIssue {
    pub(crate) host: usize,
    pub(crate) issue: Issue,
    value: f64,
    limit: f64,
}

/// What is wrong with each of the hosts.
pub(crate) fn issues(hosts: &[Levels<'_>]) -> Vec<HostIssue> {
    let mean = |host: &Levels<'_>, name: &str| host.get(name).map(|v| mean_std(v).0);
    let link = |host: &Levels<'_>| {
        let (tx, rx) = (
            mean(host, "gpu_link_transmit"),
            mean(host, "gpu_link_receive"),
        );
        tx.or(rx).map(|_| tx.unwrap_or(0.0) + rx.unwrap_or(0.0))
    };
    let clock = |host: &Levels<'_>| {
        let values = host.get("gpu_frequency")?;
        Some(values.iter().copied().fold(0.0, f64::max))
    };
    let highest = |f: Of<'_>| hosts.iter().filter_map(f).fold(0.0, f64::max);
    let least = |f: Of<'_>| hosts.iter().filter_map(f).fold(f64::INFINITY, f64::min);
    let cpu = 0.7 * highest(&|h| mean(h, "cpu_frequency"));
    let gpu = 0.85 * highest(&clock);
    let used = least(&|h| mean(h, "gpu_mem_used"));
    let used = (1.2 * used).max(used + 2e9);
    let carried = (1.5 * least(&link)).max(1e9);
    let mut found = Vec::new();
    for (at, host) in hosts.iter().enumerate() {
        let mut check = |is_ill: fn(&f64, &f64) -> bool, value: Option<f64>, limit: f64, issue| {
            let ill = value.filter(|value| is_ill(value, &limit));
            found.extend(ill.map(|value| HostIssue {
                host: at,
                issue,
                value,
                limit,
            }));
        };
        let of = |name: &str| mean(host, name);
        if hosts.len() >= 2 {
            check(f64::lt, of("cpu_frequency"), cpu, Issue::CpuFrequency);
            check(f64::lt, clock(host), gpu, Issue::GpuFrequency);
            check(f64::gt, of("gpu_mem_used"), used, Issue::GpuMemory);
            check(f64::gt, link(host), carried, Issue::LinkTraffic);
        }
        check(f64::gt, of("cpu_temp"), 90.0, Issue::CpuTemperature);
        check(f64::gt, of("gpu_temp"), 85.0, Issue::GpuTemperature);
        check(f64::lt, of("cpu_frequency"), 1200.0, Issue::CpuLowFrequency);
        check(f64::lt, of("host_mem_available"), 2e9, Issue::HostMemory);
        check(f64::gt, of("disk_usage"), 80.0, Issue::DiskUsage);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(values: &[(&'static str, f64)]) -> Levels<'static> {
        values.iter().map(|&(n, v)| (n, vec![v])).collect()
    }

    fn names(hosts: &[Levels<'_>]) -> Vec<(usize, &'static str)> {
        let mut list: Vec<(usize, Issue)> =
            issues(hosts).iter().map(|i| (i.host, i.issue)).collect();
        list.sort_unstable();
        list.into_iter().map(|(h, i)| (h, i.name())).collect()
    }

    #[test]
    fn hosts_are_compared_with_the_best() {
        let well = [
            ("cpu_frequency", 2900.0),
            ("gpu_frequency", 1410.0),
            ("gpu_mem_used", 40e9),
            ("gpu_link_transmit", 5e8),
            ("gpu_link_receive", 1e8),
        ];
        let ill = [
            ("cpu_frequency", 2000.0),
            ("gpu_frequency", 1190.0),
            ("gpu_mem_used", 49e9),
            ("gpu_link_transmit", 9e8),
            ("gpu_link_receive", 2e8),
        ];
        let all = [
            (1, "CPU_FREQUENCY"),
            (1, "GPU_FREQUENCY"),
            (1, "GPU_MEMORY"),
            (1, "LINK_TRAFFIC"),
        ];
        assert_eq!(names(&[host(&well), host(&ill)]), all);
        // Alone there is nothing to compare with, and alike nothing to see.
        assert_eq!(names(&[host(&ill)]), []);
        assert_eq!(names(&[host(&ill), host(&ill)]), []);
    }

    #[test]
    fn limits_hold_for_one_host() {
        let at = [
            ("cpu_temp", 90.0),
            ("gpu_temp", 85.0),
            ("cpu_frequency", 1200.0),
            ("host_mem_available", 2e9),
            ("disk_usage", 80.0),
        ];
        assert_eq!(names(&[host(&at)]), []);
        let beyond = [
            ("cpu_temp", 90.5),
            ("gpu_temp", 85.5),
            ("cpu_frequency", 1199.0),
            ("host_mem_available", 1.9e9),
            ("disk_usage", 81.0),
        ];
        let all = [
            (0, "CPU_TEMPERATURE"),
            (0, "GPU_TEMPERATURE"),
            (0, "CPU_LOW_FREQUENCY"),
            (0, "HOST_MEMORY"),
            (0, "DISK_USAGE"),
        ];
        assert_eq!(names(&[host(&beyond)]), all);
    }
}
