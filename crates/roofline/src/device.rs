//! Devices: peaks as data, and which device a recording is of.
//!
//! Peaks are those of the vendors at boost clock, dense. The table `data/devices.toml` gives for each number where it was
//! found; numbers without a source are marked.

use std::sync::{LazyLock, OnceLock};

use regex::Regex;
use serde::Deserialize;

use crate::extensions::ExtensionError;

/// Numbers that bound a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum PeakKey {
    /// TFLOP/s of this arithmetic.
    Arithmetic(crate::dtype::Precision),
    /// TFLOP/s of the vector units.
    Vector,
    /// GB/s of the device's memory.
    Hbm,
    /// GB/s of the link between devices, one way.
    Link,
    /// GB/s of the link to the host, one way.
    Pcie,
    /// Least time of a kernel in microseconds.
    Launch,
}

impl PeakKey {
    /// All of them, in the order of tables.
    pub fn all() -> impl Iterator<Item = Self> {
        let arithmetic = crate::dtype::Precision::ALL.into_iter();
        arithmetic.map(Self::Arithmetic).chain([
            Self::Vector,
            Self::Hbm,
            Self::Link,
            Self::Pcie,
            Self::Launch,
        ])
    }

    /// The name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Arithmetic(precision) => precision.name(),
            Self::Vector => "vector",
            Self::Hbm => "hbm",
            Self::Link => "link",
            Self::Pcie => "pcie",
            Self::Launch => "launch",
        }
    }

    /// The unit of its numbers.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Arithmetic(_) | Self::Vector => "TFLOP/s",
            Self::Hbm | Self::Link | Self::Pcie => "GB/s",
            Self::Launch => "us",
        }
    }

    /// The key of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::all().find(|key| key.name() == name)
    }
}

/// A row of the table of devices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeviceRow {
    key: String,
    name: Option<String>,
    name_regex: String,
    sms: Option<u32>,
    mem_gb: Option<f64>,
    cc: Option<String>,
    fp64: Option<f64>,
    fp32: Option<f64>,
    tf32: Option<f64>,
    fp16: Option<f64>,
    bf16: Option<f64>,
    fp8: Option<f64>,
    fp4: Option<f64>,
    int8: Option<f64>,
    vector: Option<f64>,
    hbm: Option<f64>,
    l2_mb: Option<f64>,
    llc_mb: Option<f64>,
    /// Both directions together, as vendors give it.
    link: Option<f64>,
    /// Both directions together.
    pcie: Option<f64>,
    #[serde(default)]
    source: String,
    #[serde(default)]
    unsourced: Vec<String>,
    #[serde(default)]
    note: String,
}

/// A device and its peaks.
#[derive(Clone, Debug)]
pub struct Device {
    row: DeviceRow,
    /// Compiled when a name is first compared with it.
    pattern: OnceLock<Option<Regex>>,
}

/// Properties of a device, as recorded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DeviceProperties {
    /// Number, as kernels refer to it.
    pub id: i64,
    /// Name; empty in some recordings.
    pub name: String,
    /// Multiprocessors or compute units.
    pub sms: Option<u32>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Compute capability, or the generation of AMD devices.
    pub capability: Option<(u32, u32)>,
}

impl DeviceProperties {
    /// Parses Kineto's `deviceProperties`; what is malformed is left out.
    pub fn parse(text: &str) -> Vec<Self> {
        let Ok(serde_json::Value::Array(all)) = serde_json::from_str(text) else {
            return Vec::new();
        };
        all.iter()
            .filter_map(|one| {
                let number = |key: &str| one.get(key)?.as_u64();
                let small = |key: &str| number(key).and_then(|n| u32::try_from(n).ok());
                Some(Self {
                    id: one.get("id")?.as_i64()?,
                    name: one
                        .get("name")
                        .and_then(|name| name.as_str())
                        .unwrap_or("")
                        .to_owned(),
                    sms: small("numSms"),
                    memory: number("totalGlobalMem"),
                    capability: small("computeMajor").zip(small("computeMinor")),
                })
            })
            .collect()
    }
}

impl Device {
    pub(crate) fn new(row: DeviceRow) -> Result<Self, ExtensionError> {
        let bad = |what: String| ExtensionError::Device {
            key: row.key.clone(),
            what,
        };
        let numbers = PeakKey::all().map(|key| (key.name(), row.peak(key)));
        for (name, value) in numbers {
            if value.is_some_and(|value| !value.is_finite() || value < 0.0) {
                return Err(bad(format!("{name} is not a number of at least 0")));
            }
        }
        Ok(Self {
            row,
            pattern: OnceLock::new(),
        })
    }

    /// Checks the pattern of a user's row.
    pub(crate) fn check_pattern(&self) -> Result<(), ExtensionError> {
        let compiled = Regex::new(&self.row.name_regex);
        let pattern = compiled.map_err(|error| ExtensionError::Device {
            key: self.row.key.clone(),
            what: format!("name_regex is no regular expression: {error}"),
        })?;
        self.pattern.get_or_init(|| Some(pattern));
        Ok(())
    }

    fn has_name(&self, name: &str) -> bool {
        let pattern = self
            .pattern
            .get_or_init(|| Regex::new(&self.row.name_regex).ok());
        pattern.as_ref().is_some_and(|found| found.is_match(name))
    }

    /// The key on the command line.
    pub fn key(&self) -> &str {
        &self.row.key
    }

    /// Name for people.
    pub fn name(&self) -> &str {
        self.row.name.as_deref().unwrap_or(&self.row.key)
    }

    /// Where its numbers were found.
    pub fn source(&self) -> &str {
        &self.row.source
    }

    /// Remarks.
    pub fn note(&self) -> &str {
        &self.row.note
    }

    /// Returns `true` if a source was found for this number.
    pub fn is_sourced(&self, key: PeakKey) -> bool {
        !self.row.unsourced.iter().any(|name| name == key.name())
    }

    /// The number for `key`, one way for links; `None` if the device has no such units or no such link.
    pub fn peak(&self, key: PeakKey) -> Option<f64> {
        self.row.peak(key)
    }

    /// Multiprocessors or compute units.
    pub fn sms(&self) -> Option<u32> {
        self.row.sms
    }

    /// Memory in GB.
    pub fn memory_gb(&self) -> Option<f64> {
        self.row.mem_gb
    }

    /// Bytes of the last cache before memory.
    pub fn cache_bytes(&self) -> Option<f64> {
        let mb = self.row.llc_mb.into_iter().chain(self.row.l2_mb);
        mb.reduce(f64::max).map(|mb| mb * 1e6)
    }

    /// Returns `true` if a name has the model of this device as a word: the part of its key before the variant.
    fn is_named_in(&self, name: &str) -> bool {
        let model = self.row.key.split('-').next().unwrap_or("");
        let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| word.eq_ignore_ascii_case(model))
    }

    /// Is this the device by its size and capability, where the name tells nothing?
    fn fits(&self, properties: &DeviceProperties) -> bool {
        let (Some(sms), Some(mem), Some(cc)) = (self.row.sms, self.row.mem_gb, &self.row.cc) else {
            return false;
        };
        let capability = properties
            .capability
            .is_some_and(|(a, b)| format!("{a}.{b}") == *cc);
        capability && properties.sms == Some(sms) && fits_memory(properties, mem)
    }
}

/// Returns `true` for names that drivers give to any device.
fn tells_nothing(name: &str) -> bool {
    name.is_empty() || name == "AMD Radeon Graphics"
}

/// Devices report a few percent less than what the package has, or binary units.
#[expect(clippy::cast_precision_loss, reason = "sizes of memory are below 2^52")]
fn fits_memory(properties: &DeviceProperties, mem_gb: f64) -> bool {
    let Some(bytes) = properties.memory else {
        return false;
    };
    let gb = bytes as f64 / 1e9;
    (mem_gb * 0.93..=mem_gb * 1.08).contains(&gb)
}

impl DeviceRow {
    fn peak(&self, key: PeakKey) -> Option<f64> {
        use crate::dtype::Precision;
        match key {
            PeakKey::Arithmetic(precision) => match precision {
                Precision::Fp64 => self.fp64,
                Precision::Fp32 => self.fp32,
                Precision::Tf32 => self.tf32,
                Precision::Fp16 => self.fp16,
                Precision::Bf16 => self.bf16,
                Precision::Fp8 => self.fp8,
                Precision::Fp4 => self.fp4,
                Precision::Int8 => self.int8,
            },
            PeakKey::Vector => self.vector,
            PeakKey::Hbm => self.hbm,
            PeakKey::Link => self.link.map(|both| both / 2.0),
            PeakKey::Pcie => self.pcie.map(|both| both / 2.0),
            PeakKey::Launch => None,
        }
    }
}

/// The devices that are known, a user's own first.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    all: Vec<Device>,
}

static BUILTIN: LazyLock<Devices> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        device: Vec<DeviceRow>,
    }
    // A test parses the table; without it no device would be known.
    let rows = toml::from_str::<File>(include_str!("../data/devices.toml"));
    let devices = rows.map_or(Vec::new(), |file| file.device);
    Devices {
        all: devices.into_iter().flat_map(Device::new).collect(),
    }
});

/// A device that was recognised, and by what.
#[derive(Clone, Debug)]
pub struct Recognised<'d> {
    /// The device.
    pub device: &'d Device,
    /// Evidence, as a phrase.
    pub how: String,
    /// Share of the multiprocessors that are there, where it is a part of the device.
    pub share: Option<(f64, f64)>,
}

impl Devices {
    /// Returns the devices that are built in.
    pub fn builtin() -> &'static Self {
        &BUILTIN
    }

    /// Adds devices, which go before those that are there.
    pub(crate) fn extend(&mut self, devices: Vec<Device>) {
        self.all.splice(0..0, devices);
    }

    /// All devices.
    pub fn iter(&self) -> impl Iterator<Item = &Device> {
        self.all.iter()
    }

    /// The device of this key, in any case of letters.
    pub fn of_key(&self, key: &str) -> Option<&Device> {
        let is_it = |device: &&Device| device.key().eq_ignore_ascii_case(key);
        self.all.iter().find(is_it)
    }

    /// Returns the device that has these properties: by its name, else by multiprocessors, memory and capability; `None` if no
    /// row fits. Fewer multiprocessors than the device has make it a part of one (MIG, compute partitions).
    #[expect(clippy::cast_precision_loss, reason = "sizes of memory are below 2^52")]
    pub fn recognise(&self, properties: &DeviceProperties) -> Option<Recognised<'_>> {
        let name = properties.name.trim();
        let named = self
            .all
            .iter()
            .find(|device| !name.is_empty() && device.has_name(name));
        let Some(device) = named else {
            let device = self.all.iter().find(|device| {
                device.fits(properties) && (tells_nothing(name) || device.is_named_in(name))
            })?;
            return Some(Recognised {
                device,
                how: "by multiprocessors, memory and compute capability".to_owned(),
                share: None,
            });
        };
        let share = match (properties.sms, device.row.sms) {
            (Some(has), Some(of)) if has < of && has > 0 => {
                let memory = match (properties.memory, device.row.mem_gb) {
                    (Some(bytes), Some(gb)) if gb > 0.0 && !fits_memory(properties, gb) => {
                        (bytes as f64 / 1e9 / gb).min(1.0)
                    }
                    _ => 1.0,
                };
                Some((f64::from(has) / f64::from(of), memory))
            }
            _ => None,
        };
        let mut how = format!("by its name, {name}");
        // The name of a variant may contain that of another device of the family.
        if let (None, Some(bytes), Some(gb)) = (share, properties.memory, device.row.mem_gb)
            && !fits_memory(properties, gb)
        {
            how.push_str(&format!(
                "; it has {:.0} GB of memory and not {gb:.0} GB, so it may be a variant with other peaks",
                bytes as f64 / 1e9
            ));
        }
        Some(Recognised { device, how, share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(name: &str, sms: u32, gb: f64, cc: (u32, u32)) -> DeviceProperties {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a test"
        )]
        let memory = (gb * 1e9) as u64;
        DeviceProperties {
            id: 0,
            name: name.to_owned(),
            sms: Some(sms),
            memory: Some(memory),
            capability: Some(cc),
        }
    }

    #[test]
    fn all_rows_of_the_table_are_read() {
        let rows = include_str!("../data/devices.toml");
        let count = rows.matches("[[device]]").count();
        assert_eq!(Devices::builtin().iter().count(), count);
        assert!(count > 20);
        let mut keys: Vec<&str> = Devices::builtin().iter().map(Device::key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count, "keys are unique");
        for device in Devices::builtin().iter() {
            device.check_pattern().unwrap();
        }
        let found = Devices::builtin().of_key("H100-SXM").unwrap();
        assert_eq!(found.key(), "h100-sxm");
    }

    #[test]
    fn a_variant_is_marked() {
        let how = |gb| {
            let variant = properties("NVIDIA H20-3e", 78, gb, (9, 0));
            let found = Devices::builtin().recognise(&variant).unwrap();
            (found.device.key().to_owned(), found.how)
        };
        assert_eq!(how(102.0).1, "by its name, NVIDIA H20-3e");
        let (key, how) = how(150.7);
        assert_eq!(key, "h20");
        assert!(how.contains("151 GB of memory and not 96 GB"), "{how}");
    }

    #[test]
    fn devices_are_recognised() {
        let key = |p: DeviceProperties| {
            let found = Devices::builtin().recognise(&p);
            found.map(|found| found.device.key().to_owned())
        };
        for (name, sms, gb, cc, want) in [
            ("NVIDIA H100 80GB HBM3", 132, 85.0, (9, 0), Some("h100-sxm")),
            ("NVIDIA H200", 132, 150.7, (9, 0), Some("h200")),
            ("NVIDIA H20", 78, 102.0, (9, 0), Some("h20")),
            ("NVIDIA A100-SXM4-80GB", 108, 85.0, (8, 0), Some("a100-80")),
            ("NVIDIA A100-PG509-200", 108, 42.3, (8, 0), Some("a100-40")),
            ("AMD Instinct MI300X VF", 304, 205.6, (9, 4), Some("mi300x")),
            ("", 304, 206.1, (9, 4), Some("mi300x")),
            ("AMD Radeon Graphics", 304, 206.1, (9, 4), Some("mi300x")),
            ("AMD Radeon Graphics", 104, 68.7, (9, 0), Some("mi210")),
            ("NVIDIA H100", 132, 85.0, (9, 0), Some("h100-sxm")),
            // A name that tells another product.
            ("NVIDIA L40", 142, 48.0, (8, 9), None),
            ("NVIDIA H800", 132, 85.0, (9, 0), None),
            ("NVIDIA GH200 480GB", 132, 102.0, (9, 0), None),
            ("Acme GPU 9000", 132, 94.0, (9, 0), None),
            ("Some device", 7, 4.0, (1, 0), None),
            ("", 0, 0.0, (0, 0), None),
        ] {
            assert_eq!(
                key(properties(name, sms, gb, cc)).as_deref(),
                want,
                "{name}"
            );
        }
    }

    #[test]
    fn a_part_of_a_device_has_its_share() {
        let part = properties("NVIDIA H100 80GB HBM3", 66, 42.5, (9, 0));
        let found = Devices::builtin().recognise(&part).unwrap();
        let (compute, memory) = found.share.unwrap();
        assert!((compute - 0.5).abs() < 1e-9 && (memory - 0.53).abs() < 0.01);
    }

    #[test]
    fn malformed_properties_are_left_out() {
        assert!(DeviceProperties::parse("[{\"id\": \"x\"}, 3, null]").is_empty());
        assert!(DeviceProperties::parse("nonsense").is_empty());
    }
}
