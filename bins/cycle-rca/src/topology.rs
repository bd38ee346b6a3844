//! `cycle-rca topology`.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context as _, bail};
use cli::{Format, Outcome};
use report::{Cell, Column, CsvOptions, CsvWriter, JsonDocument, RowSink as _};
use serde_json::{Value, json};
use serving_logs::Component;

use crate::args::{TopologyArgs, TopologyReport, format_of};
use crate::files::must_exist;
use crate::{document, probes, text};

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

pub(crate) fn run(args: &TopologyArgs) -> anyhow::Result<Outcome> {
    must_exist(&args.file)?;
    let path = match args.file.is_dir() {
        true => args.file.join("topo_component.csv"),
        false => args.file.clone(),
    };
    let found = serving_logs::topology(&probes::text(&path)?)
        .with_context(|| path.display().to_string())?;
    if found.components.is_empty() {
        bail!("{}: no component of a host in it", path.display());
    }
    if found.skipped > 0 {
        let line = format!("{}: {} rows name no host", path.display(), found.skipped);
        args.verbosity.note(line);
    }
    let mut hosts: BTreeMap<&str, Host> = BTreeMap::new();
    let mut categories: BTreeMap<&str, Vec<&Component>> = BTreeMap::new();
    for c in &found.components {
        let host = hosts.entry(&c.host).or_default();
        host.cores += c.cores.unwrap_or(0.0);
        host.cpu_max_mhz = c.cpu_mhz.or(host.cpu_max_mhz);
        host.memory_gib += c.memory_gb.unwrap_or(0.0);
        host.gpus.extend(c.gpu);
        host.processes.extend(c.process_gpu);
        categories.entry(&c.category).or_default().push(c);
    }
    let detailed = args.report == TopologyReport::Detailed;
    let mut out = args.output.open()?;
    match format_of(&args.format, &args.output) {
        Format::Json => {
            let mut document = JsonDocument::new(&mut out, document::VERSION)?;
            let list: Vec<Value> = hosts.iter().map(|(n, h)| of_host(n, h)).collect();
            document.member("hosts", &list)?;
            let each = categories.iter();
            let list: Vec<Value> = each.map(|(n, c)| of_category(n, c, detailed)).collect();
            document.member("categories", &list)?;
            document.member("rows_without_host", &found.skipped)?;
            document.finish()?;
        }
        Format::Csv => {
            let mut sink = CsvWriter::new(&mut out, CsvOptions::default());
            sink.begin(&["host", "category", "name", "inventory"].map(Column::text))?;
            for c in &found.components {
                let inventory = c.inventory.to_string();
                sink.row(&[&c.host, &c.category, &c.name, &inventory].map(Cell::from))?;
            }
            sink.finish()?;
        }
        Format::Text => people(&mut out, &hosts, &categories, detailed)?,
    }
    out.finish()?;
    Ok(Outcome::Fine)
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

fn people(
    out: &mut dyn Write,
    hosts: &BTreeMap<&str, Host>,
    categories: &BTreeMap<&str, Vec<&Component>>,
    detailed: bool,
) -> anyhow::Result<()> {
    for (name, host) in hosts {
        writeln!(out, "{}", text::name(name, 78))?;
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
    for (name, components) in categories {
        writeln!(out, "{:>6}  {}", components.len(), text::name(name, 70))?;
        for c in components.iter().filter(|_| detailed) {
            writeln!(
                out,
                "          {} ({})",
                text::name(&c.name, 40),
                text::name(&c.host, 24)
            )?;
            for (key, value) in c.inventory.as_object().into_iter().flatten() {
                let value = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                writeln!(
                    out,
                    "            {}: {}",
                    text::name(key, 20),
                    text::name(&value, 44)
                )?;
            }
        }
    }
    Ok(())
}
