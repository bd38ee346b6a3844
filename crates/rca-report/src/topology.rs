//! The machine that probes describe: hosts and components.

use std::collections::BTreeMap;
use std::io::{self, Write};

use report::{Cell, Column, RowSink};
use serde_json::{Value, json};
use serving_logs::Component;

use crate::text::Names;

/// Totals of a host.
#[derive(Default)]
struct Host {
    cores: f64,
    /// Value of the last socket, as in the reference.
    cpu_max_mhz: Option<f64>,
    memory_gib: f64,
    /// Memory in GiB by physical index.
    gpus: BTreeMap<i64, f64>,
    /// Physical index by process.
    processes: BTreeMap<i64, i64>,
}

/// The hosts of a machine, and its components by category.
pub struct Machine<'c> {
    components: &'c [Component],
    hosts: BTreeMap<&'c str, Host>,
    categories: BTreeMap<&'c str, Vec<&'c Component>>,
}

impl<'c> Machine<'c> {
    /// Sums the components up.
    #[must_use]
    pub fn new(components: &'c [Component]) -> Self {
        let mut hosts: BTreeMap<&str, Host> = BTreeMap::new();
        let mut categories: BTreeMap<&str, Vec<&Component>> = BTreeMap::new();
        for c in components {
            let host = hosts.entry(&c.host).or_default();
            host.cores += c.cores.unwrap_or(0.0);
            host.cpu_max_mhz = c.cpu_mhz.or(host.cpu_max_mhz);
            host.memory_gib += c.memory_gb.unwrap_or(0.0);
            host.gpus.extend(c.gpu);
            host.processes.extend(c.process_gpu);
            categories.entry(&c.category).or_default().push(c);
        }
        Self {
            components,
            hosts,
            categories,
        }
    }

    /// Returns the hosts as JSON.
    #[must_use]
    pub fn hosts(&self) -> Vec<Value> {
        self.hosts.iter().map(|(n, h)| of_host(n, h)).collect()
    }

    /// Returns the categories as JSON, with each component if `detailed`.
    #[must_use]
    pub fn categories(&self, detailed: bool) -> Vec<Value> {
        let each = self.categories.iter();
        each.map(|(n, c)| of_category(n, c, detailed)).collect()
    }

    /// Writes a row for each component.
    ///
    /// # Errors
    ///
    /// Those of `sink`.
    pub fn rows(&self, sink: &mut dyn RowSink) -> Result<(), report::Error> {
        sink.begin(&["host", "category", "name", "inventory"].map(Column::text))?;
        for c in self.components {
            let inventory = c.inventory.to_string();
            sink.row(&[&c.host, &c.category, &c.name, &inventory].map(Cell::from))?;
        }
        sink.finish()
    }

    /// Writes the machine for people, with each component if `detailed`.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn text(&self, out: &mut dyn Write, names: Names, detailed: bool) -> io::Result<()> {
        for (name, host) in &self.hosts {
            writeln!(out, "{}", names.fit(name, 78))?;
            let clock = host
                .cpu_max_mhz
                .map_or_else(String::new, |mhz| format!(" up to {mhz} MHz"));
            writeln!(
                out,
                "  {} cores{clock}, {:.0} GiB",
                host.cores, host.memory_gib
            )?;
            let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
            for gib in host.gpus.values() {
                *sizes.entry(format!("{gib:.0} GiB")).or_default() += 1;
            }
            for (size, count) in sizes {
                writeln!(out, "  {count} GPUs of {size}")?;
            }
            for (pid, gpu) in &host.processes {
                writeln!(out, "  process {pid} on GPU {gpu}")?;
            }
        }
        writeln!(out)?;
        for (name, components) in &self.categories {
            writeln!(out, "{:>6}  {}", components.len(), names.fit(name, 70))?;
            for c in components.iter().filter(|_| detailed) {
                writeln!(
                    out,
                    "          {} ({})",
                    names.fit(&c.name, 40),
                    names.fit(&c.host, 24)
                )?;
                for (key, value) in c.inventory.as_object().into_iter().flatten() {
                    let value = value
                        .as_str()
                        .map_or_else(|| value.to_string(), str::to_owned);
                    writeln!(
                        out,
                        "            {}: {}",
                        names.fit(key, 20),
                        names.fit(&value, 44)
                    )?;
                }
            }
        }
        Ok(())
    }
}

fn of_host(name: &str, host: &Host) -> Value {
    json!({
        "host": name,
        "cores": host.cores,
        "cpu_max_mhz": host.cpu_max_mhz,
        "memory_gib": host.memory_gib,
        "gpus": host.gpus.iter().map(|(i, gib)| json!({"index": i, "memory_gib": gib})).collect::<Vec<_>>(),
        "processes": host.processes.iter().map(|(pid, i)| json!({"pid": pid, "gpu_index": i})).collect::<Vec<_>>(),
    })
}

fn of_category(name: &str, components: &[&Component], detailed: bool) -> Value {
    let mut category = json!({"category": name, "count": components.len()});
    if detailed {
        let each = components.iter();
        let list = each.map(|c| json!({"name": c.name, "host": c.host, "inventory": c.inventory}));
        category["components"] = list.collect();
    }
    category
}
