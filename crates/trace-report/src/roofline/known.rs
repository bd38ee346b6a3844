//! Knowledge besides recordings, and answers from it alone: a step of a model, the devices.

use report::{Align, Cell, Column, Table};
use roofline::config::{self, Config, ConfigError, Request};
use roofline::{CallOptions, Device, Knowledge, Options, PeakKey, Peaks, model_document, text};
use serde_json::Value;

use crate::roofline::VERSION;
use crate::{Document, Error, Result};

/// Operators and devices that are known, and the configuration of the model.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Known {
    /// Operators and devices.
    pub knowledge: Knowledge,
    /// Configuration of the model.
    pub config: Option<Config>,
}

impl Known {
    /// Combines both.
    #[must_use]
    pub fn new(knowledge: Knowledge, config: Option<Config>) -> Self {
        Self { knowledge, config }
    }

    /// Returns the options of an analysis with this knowledge.
    pub(super) fn options(&self, tp: Option<u32>, device: Option<&str>) -> Options<'_> {
        let mut calls = CallOptions::new(&self.knowledge);
        calls.config = self.config.as_ref();
        calls.tp = tp.map(u128::from);
        let mut options = Options::new(calls);
        options.devices.key = device.map(str::to_owned);
        options.is_layer = rca_cycles::engine::is_layer;
        options
    }
}

/// A step of a model that is not recorded.
#[derive(Debug)]
pub struct Forward<'k> {
    config: &'k Config,
    needs: config::Forward,
    ranks: u128,
}

impl<'k> Forward<'k> {
    /// Adds up what a step with these requests needs, on each of `ranks` ranks of tensor parallelism; `cache_bytes` is the size
    /// of a value in the KV cache.
    ///
    /// # Errors
    ///
    /// Returns an error if the model cannot be divided among the ranks.
    pub fn new(
        config: &'k Config,
        requests: &[Request],
        ranks: u32,
        cache_bytes: u32,
    ) -> Result<Self, ConfigError> {
        let ranks = u128::from(ranks);
        config.check_ranks(ranks)?;
        Ok(Self {
            needs: config.forward(ranks, requests, u128::from(cache_bytes)),
            config,
            ranks,
        })
    }

    /// Returns the JSON document.
    #[must_use]
    pub fn json(&self) -> Value {
        model_document(&self.needs)
    }

    /// Returns the document, with the time at the peaks of a device, if given, and at `peaks` in their place.
    ///
    /// # Errors
    ///
    /// Returns an error if the device is not known.
    pub fn document(
        &self,
        knowledge: &Knowledge,
        device: Option<&str>,
        peaks: &[(PeakKey, f64)],
    ) -> Result<Document> {
        let device = match device {
            Some(key) => {
                let found = knowledge.devices.of_key(key);
                Some(found.ok_or_else(|| Error::NoSuchDevice {
                    key: key.to_owned(),
                })?)
            }
            None => None,
        };
        let peaks = Peaks::new(device, None, peaks);
        let name = device.map_or("the given peaks", Device::name);
        let (sentence, lines) = text::forward(self.config, &self.needs, self.ranks, (name, &peaks));
        let mut document = Document::new(VERSION);
        document.push(self.table(Column::text("value"), |value| value.to_string())?);
        document.sentence(sentence);
        for (label, line) in lines {
            document.line(label, line);
        }
        let value = Column::text("value").align(Align::Right);
        document.table("", self.table(value, text::count_of)?);
        Ok(document)
    }

    fn table(&self, value: Column, shown: impl Fn(u128) -> String) -> report::Result<Table> {
        let mut table = Table::new("model", vec![Column::text("quantity"), value])?;
        for (name, value) in text::quantities(&self.needs) {
            let value = shown(value);
            table.push(&[name.into(), value.as_str().into()])?;
        }
        Ok(table)
    }
}

/// Returns the document about the devices that are known: peaks and their sources.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn devices(knowledge: &Knowledge) -> Result<Document> {
    let keys = PeakKey::all().filter(|key| *key != PeakKey::Launch);
    let keys: Vec<PeakKey> = keys.collect();
    let mut document = Document::new(VERSION);
    document.sentence(
        "TFLOP/s dense at boost clock; GB/s of memory, of the link between devices and of that to the host, one way. (?) marks \
         numbers without a vendor's source.",
    );
    document.table("", devices_narrow(knowledge, &keys)?);
    document.push(devices_wide(knowledge, &keys)?);
    Ok(document)
}

fn devices_wide(knowledge: &Knowledge, keys: &[PeakKey]) -> report::Result<Table> {
    let mut columns = vec![Column::text("key"), Column::text("name")];
    columns.extend(keys.iter().map(|key| Column::real(key.name())));
    columns.extend([
        Column::uint("sms"),
        Column::real("mem_gb"),
        Column::text("source"),
        Column::text("unsourced"),
        Column::text("note"),
    ]);
    let mut table = Table::new("devices", columns)?;
    for device in knowledge.devices.iter() {
        let unsourced: Vec<&str> = keys
            .iter()
            .filter(|key| device.peak(**key).is_some() && !device.is_sourced(**key))
            .map(|key| key.name())
            .collect();
        let unsourced = unsourced.join(" ");
        let mut cells = vec![device.key().into(), device.name().into()];
        cells.extend(keys.iter().map(|key| Cell::from(device.peak(*key))));
        cells.extend([
            Cell::from(device.sms()),
            device.memory_gb().into(),
            device.source().into(),
            unsourced.as_str().into(),
            device.note().into(),
        ]);
        table.push(&cells)?;
    }
    Ok(table)
}

fn devices_narrow(knowledge: &Knowledge, keys: &[PeakKey]) -> report::Result<Table> {
    let mut columns = vec![Column::text("key")];
    let right = |key: &PeakKey| Column::text(key.name()).align(Align::Right);
    columns.extend(keys.iter().map(right));
    columns.push(Column::text("source"));
    let mut table = Table::new("devices", columns)?;
    for device in knowledge.devices.iter() {
        let numbers: Vec<String> = keys
            .iter()
            .map(|key| match device.peak(*key) {
                Some(value) if device.is_sourced(*key) => value.to_string(),
                Some(value) => format!("{value} (?)"),
                None => String::new(),
            })
            .collect();
        let mut cells = vec![device.key().into()];
        cells.extend(numbers.iter().map(|n| Cell::from(n.as_str())));
        cells.push(device.source().into());
        table.push(&cells)?;
    }
    Ok(table)
}
