//! Reads `topo_component.csv`: the components of the machine.

use serde_json::Value;

use crate::Error;
use crate::csv::{Table, cell};

/// A component of a machine, with the properties that the table states.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Component {
    /// Its name, for example `CPU0`; empty if the table has no names.
    pub name: String,
    /// Host it belongs to.
    pub host: String,
    /// Category as written, for example `CAT_XPU`.
    pub category: String,
    /// Memory of the host, GiB.
    pub memory_gb: Option<f64>,
    /// Physical index and memory of a device, GiB.
    pub gpu: Option<(i64, f64)>,
    /// Maximum clock of a processor, MHz.
    pub cpu_mhz: Option<f64>,
    /// Number of cores of a processor.
    pub cores: Option<f64>,
    /// A process and its physical device.
    pub process_gpu: Option<(i64, i64)>,
    /// Complete inventory of the component: an object, or null.
    pub inventory: Value,
}

/// Components of a topology that belong to a host.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Topology {
    /// Components in file order.
    pub components: Vec<Component>,
    /// Rows without a host.
    pub skipped: usize,
}

/// Reads the text of a `topo_component.csv`.
///
/// # Errors
///
/// Returns an error if the columns `category`, `config` or `inventory` are missing.
pub fn topology(text: &str) -> Result<Topology, Error> {
    let mut table = Table::new(text);
    let name = table.column("name");
    let category = table.needs("category")?;
    let config = table.needs("config")?;
    let inventory = table.needs("inventory")?;
    let mut found = Topology::default();
    while let Some(row) = table.row() {
        // Broken JSON is treated as missing.
        let json =
            |column| serde_json::from_str::<Value>(cell(&row, Some(column))).unwrap_or_default();
        let config = json(config);
        let Some(host) = config["env"]["hostname"].as_str() else {
            found.skipped += 1;
            continue;
        };
        let mut inventory = json(inventory);
        let inventory = inventory["macro"].take();
        let of = &inventory;
        let mut part = Component {
            name: cell(&row, name).to_owned(),
            host: host.to_owned(),
            category: cell(&row, Some(category)).to_owned(),
            ..Component::default()
        };
        match part.category.as_str() {
            "CAT_MEMORY" => part.memory_gb = number(&of["size"]).map(|mb| mb / 1024.0),
            "CAT_XPU" => {
                let bytes = number(&of["memory_capacity"]).unwrap_or(0.0);
                let index = number(&of["index"]).and_then(whole);
                part.gpu = index.map(|i| (i, bytes / (1024.0 * 1024.0 * 1024.0)));
            }
            "CAT_CPU" => {
                part.cpu_mhz = first_number(&of["freq"]);
                part.cores = number(&of["cores"]);
            }
            "CAT_PROCESS" => {
                let pid = number(&of["pid"]).and_then(whole);
                let gpu = number(&of["gpu_index"]).and_then(whole);
                part.process_gpu = pid.zip(gpu);
            }
            _ => {}
        }
        part.inventory = inventory;
        found.components.push(part);
    }
    Ok(found)
}

/// Returns a number, or the number in a text.
fn number(value: &Value) -> Option<f64> {
    value
        .as_f64()
        .or_else(|| value.as_str()?.trim().parse().ok())
}

fn whole(value: f64) -> Option<i64> {
    format!("{value:.0}").parse().ok()
}

/// Returns the first run of digits as a number.
fn first_number(value: &Value) -> Option<f64> {
    if let Some(n) = value.as_f64() {
        return Some(n);
    }
    let text = value.as_str()?;
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let rest = &text[start..];
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_and_rows_without_a_host_counted() {
        let line = |category: &str, inventory: &str| {
            format!(
                "x,{category},\"{{\"\"env\"\":{{\"\"hostname\"\":\"\"h\"\"}}}}\",\"{}\"\n",
                inventory.replace('"', "\"\"")
            )
        };
        let text = format!(
            "name,category,config,inventory\n{}{}{}x,CAT_CPU,{{}},{{}}\n",
            line("CAT_MEMORY", r#"{"macro":{"size":2048}}"#),
            line(
                "CAT_XPU",
                r#"{"macro":{"index":3,"memory_capacity":85899345920}}"#
            ),
            line("CAT_PROCESS", r#"{"macro":{"pid":"4000.0","gpu_index":7}}"#),
        );
        let found = topology(&text).unwrap();
        assert_eq!(found.skipped, 1);
        assert_eq!(found.components[0].memory_gb, Some(2.0));
        assert_eq!(found.components[1].gpu, Some((3, 80.0)));
        assert_eq!(found.components[2].process_gpu, Some((4000, 7)));
        assert_eq!(found.components[0].name, "x");
        assert_eq!(found.components[0].inventory["size"], 2048);
        assert!(topology("a,b\n").is_err());
    }
}
