//! What the machine is made of, for turning raw counters into shares.

use std::collections::BTreeMap;

/// Sizes of hosts and devices, and which device each process uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// Memory of each host, GiB.
    pub memory_gb: BTreeMap<String, f64>,
    /// Memory of each device, GiB, by host and physical index.
    pub gpu_gb: BTreeMap<(String, i64), f64>,
    /// Highest clock of each host's processors, MHz.
    pub cpu_mhz: BTreeMap<String, f64>,
    /// Cores of each host.
    pub cores: BTreeMap<String, f64>,
    /// Physical device of each process, by host and process number.
    pub process_gpu: BTreeMap<(String, i64), i64>,
}

impl Topology {
    /// The device of a process; with one host in all, whatever the host is called.
    pub fn gpu_of(&self, host: &str, pid: i64) -> Option<i64> {
        if let Some(&gpu) = self.process_gpu.get(&(host.to_owned(), pid)) {
            return Some(gpu);
        }
        let mut hosts: Vec<&str> = self.process_gpu.keys().map(|k| k.0.as_str()).collect();
        hosts.dedup();
        if hosts.len() > 1 {
            return None;
        }
        self.process_gpu
            .iter()
            .find(|(k, _)| k.1 == pid)
            .map(|(_, &gpu)| gpu)
    }
}
