//! The time that a call takes at the speed of light: the largest of arithmetic, memory traffic and link traffic, each at the
//! device's peak.

use crate::device::{Device, DeviceProperties, Devices, PeakKey};
use crate::dtype::Precision;
use crate::numbers::{Numbers, UnitKind};

/// Least time of a kernel, in microseconds, unless the caller gives another.
pub const LAUNCH_US: f64 = 2.0;

/// A peak, and where it comes from.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
#[non_exhaustive]
pub struct Peak {
    /// The number, in the unit of its key.
    pub value: f64,
    /// Where it was found.
    pub source: String,
}

/// Peaks of one device.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Peaks {
    all: Vec<(PeakKey, Peak)>,
    cache_bytes: Option<f64>,
}

/// Resource that bounds a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Bound {
    /// Arithmetic.
    Compute,
    /// Memory of the device.
    Memory,
    /// The link between devices or to the host.
    Link,
}

impl Bound {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Link => "link",
        }
    }
}

/// The least time of a call.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Limit {
    /// Nanoseconds.
    pub ns: f64,
    /// Resource that bounds it; `None` where nothing is needed.
    pub bound: Option<Bound>,
    /// The arithmetic whose peak was taken, where the device has no units for the call's own.
    pub fallback: Option<Precision>,
}

/// A number of bytes or operations for arithmetic with rates.
#[expect(clippy::cast_precision_loss, reason = "rates have four digits")]
pub(crate) fn real(n: u128) -> f64 {
    n as f64
}

impl Peaks {
    /// The peaks of `device`, of which `share` of the compute units and of the memory is there; `own` numbers go before.
    pub fn new(device: Option<&Device>, share: Option<(f64, f64)>, own: &[(PeakKey, f64)]) -> Self {
        let mut all = Vec::new();
        for key in PeakKey::all() {
            let given = own.iter().rev().find(|(known, _)| *known == key);
            if let Some((_, value)) = given {
                let source = "given by the caller".to_owned();
                all.push((
                    key,
                    Peak {
                        value: *value,
                        source,
                    },
                ));
                continue;
            }
            let Some((device, mut value)) = device.and_then(|d| Some((d, d.peak(key)?))) else {
                if key == PeakKey::Launch {
                    let source = "default".to_owned();
                    all.push((
                        key,
                        Peak {
                            value: LAUNCH_US,
                            source,
                        },
                    ));
                }
                continue;
            };
            let mut source = match device.is_sourced(key) {
                true => device.source().to_owned(),
                false => "no vendor source found".to_owned(),
            };
            if let Some((compute, memory)) = share {
                let by = match key {
                    PeakKey::Arithmetic(_) | PeakKey::Vector => compute,
                    PeakKey::Hbm => memory,
                    _ => 1.0,
                };
                if by < 1.0 {
                    value *= by;
                    source.push_str("; scaled to the part that is there, an estimate");
                }
            }
            all.push((key, Peak { value, source }));
        }
        Self {
            all,
            cache_bytes: device.and_then(Device::cache_bytes),
        }
    }

    /// The number for `key`; 0 counts as none.
    pub fn get(&self, key: PeakKey) -> Option<f64> {
        let found = self.all.iter().find(|(known, _)| *known == key);
        found.map(|(_, peak)| peak.value).filter(|v| *v > 0.0)
    }

    /// All numbers with their sources, in the order of tables.
    pub fn iter(&self) -> impl Iterator<Item = (PeakKey, &Peak)> {
        self.all.iter().map(|(key, peak)| (*key, peak))
    }

    /// Returns `true` if calls have limits: the bandwidth of memory is known.
    pub fn is_known(&self) -> bool {
        self.get(PeakKey::Hbm).is_some()
    }

    /// Least time of a kernel in nanoseconds.
    pub fn launch_ns(&self) -> f64 {
        self.get(PeakKey::Launch).unwrap_or(0.0) * 1e3
    }

    /// Returns `true` if this many bytes fit into the last cache.
    pub fn fits_cache(&self, bytes: u128) -> bool {
        self.cache_bytes.is_some_and(|cache| real(bytes) <= cache)
    }

    /// TFLOP/s of matrix units for `precision`, or of what the device computes with instead.
    pub fn matrix(&self, precision: Precision) -> Option<(f64, Precision)> {
        let mut own = Some(precision);
        while let Some(precision) = own {
            if let Some(peak) = self.get(PeakKey::Arithmetic(precision)) {
                return Some((peak, precision));
            }
            own = precision.falls_back_to();
        }
        None
    }

    /// The same numbers times the fractions that `achievable` gives.
    #[must_use]
    pub fn times(&self, achievable: &[(PeakKey, f64)]) -> Self {
        let mut scaled = self.clone();
        for (key, peak) in &mut scaled.all {
            if let Some((_, by)) = achievable.iter().rev().find(|(known, _)| known == key) {
                peak.value *= by;
            }
        }
        scaled
    }

    /// How many times faster TF32 is than binary32; 1 if either has no peak.
    pub(crate) fn tf32_gain(&self) -> f64 {
        let peak = |precision| self.get(PeakKey::Arithmetic(precision));
        let both = peak(Precision::Tf32).zip(peak(Precision::Fp32));
        both.map_or(1.0, |(tf32, fp32)| tf32 / fp32)
    }

    /// Returns the least time of a call with these numbers, and with `bytes` of them; `None` if a peak that it takes is not
    /// known.
    pub fn limit_with(&self, numbers: &Numbers, bytes: u128) -> Option<Limit> {
        let hbm = self.get(PeakKey::Hbm)?;
        let flops = numbers.flops.unwrap_or(0);
        let (compute, fallback) = match (numbers.unit, numbers.precision) {
            _ if flops == 0 => (0.0, None),
            (UnitKind::Matrix, Some(precision)) => {
                let (peak, used) = self.matrix(precision)?;
                let fallback = (used != precision).then_some(used);
                (real(flops) / (peak * 1e3), fallback)
            }
            _ => (real(flops) / (self.get(PeakKey::Vector)? * 1e3), None),
        };
        let memory = real(bytes) / hbm;
        let link = match numbers.link_bytes {
            0 => 0.0,
            sent => {
                let key = match numbers.to_host {
                    true => PeakKey::Pcie,
                    false => PeakKey::Link,
                };
                // A device without such a link is bound by its memory, which is a lower bound.
                self.get(key).map_or(0.0, |rate| real(sent) / rate)
            }
        };
        let ns = compute.max(memory).max(link);
        let bound = match ns > 0.0 {
            false => None,
            true if compute >= ns => Some(Bound::Compute),
            true if memory >= ns => Some(Bound::Memory),
            true => Some(Bound::Link),
        };
        Some(Limit {
            ns,
            bound,
            fallback,
        })
    }

    /// Returns the least time of a call with these numbers, where they are a lower bound with what is certain; `None` if a
    /// peak that it takes is not known.
    pub fn limit(&self, numbers: &Numbers) -> Option<Limit> {
        self.limit_with(numbers, numbers.sure_bytes())
    }
}

/// A device of a recording with its peaks.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct RecordedDevice {
    /// Its number in the recording.
    pub id: i64,
    /// The key of its row; `None` if no row fits.
    pub key: Option<String>,
    /// Name for people.
    pub name: String,
    /// How it was recognised, or why not.
    pub how: String,
    /// Its peaks.
    pub peaks: Peaks,
    /// The same times the achievable fractions, if any were given.
    pub achievable: Option<Peaks>,
}

impl RecordedDevice {
    /// Is the other of the same make, with the same peaks?
    fn is_like(&self, other: &Self) -> bool {
        let known = (&self.key, &self.name, &self.peaks);
        let is_named = self.key.is_some() || self.how == other.how;
        known == (&other.key, &other.name, &other.peaks) && is_named
    }
}

/// Error in the choice of a device.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no device {key:?}; known are {known}")]
pub struct NoSuchDevice {
    /// Key that was asked for.
    pub key: String,
    /// The keys that there are.
    pub known: String,
}

/// The devices of a recording.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RecordedDevices {
    all: Vec<RecordedDevice>,
    /// They are not all alike.
    differ: bool,
}

/// Devices and peaks stated by the caller.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct DeviceOptions {
    /// The device, whatever the recording states.
    pub key: Option<String>,
    /// Single peaks.
    pub peaks: Vec<(PeakKey, f64)>,
    /// Fractions of peaks that are thought achievable.
    pub achievable: Vec<(PeakKey, f64)>,
}

impl RecordedDevices {
    /// Returns `true` if the devices are not all of one make.
    pub fn differ(&self) -> bool {
        self.differ
    }

    /// The device of the rows of calls on `id`: of different devices each has rows of its own, as their limits do not add up to
    /// one that a reader could compare with.
    pub(crate) fn row_of(&self, id: i64) -> Option<i64> {
        self.differ.then_some(id)
    }

    /// Finds the devices with the numbers `ids` among `properties`.
    ///
    /// # Errors
    /// [`NoSuchDevice`] if the caller names a device that no row has.
    pub fn new(
        known: &Devices,
        properties: &[DeviceProperties],
        ids: &[i64],
        options: &DeviceOptions,
    ) -> Result<Self, NoSuchDevice> {
        let chosen = match &options.key {
            None => None,
            Some(key) => Some(known.of_key(key).ok_or_else(|| NoSuchDevice {
                key: key.clone(),
                known: known.iter().map(Device::key).collect::<Vec<_>>().join(" "),
            })?),
        };
        // Agents of ROCm are numbered with the processors of the host, so that the numbers of kernels are not those of the
        // properties; where all devices are alike that does not matter.
        let first = properties.first();
        let alike = first.filter(|first| {
            let same = |device: &DeviceProperties| {
                (&device.name, device.sms, device.memory) == (&first.name, first.sms, first.memory)
            };
            properties.iter().all(same)
        });
        let all = ids.iter().map(|id| {
            let own = properties.iter().find(|device| device.id == *id).or(alike);
            let found = own.and_then(|own| known.recognise(own));
            let (device, share, how) = match (chosen, own, found) {
                (Some(device), _, _) => (Some(device), None, "chosen by the caller".to_owned()),
                (None, _, Some(found)) => {
                    let mut how = found.how;
                    if found.share.is_some() {
                        how.push_str(", as a part of one");
                    }
                    (Some(found.device), found.share, how)
                }
                (None, Some(own), None) => {
                    let name = match own.name.trim() {
                        "" => "no name",
                        name => name,
                    };
                    (None, None, format!("not known: {name}"))
                }
                (None, None, None) => {
                    let how = "the recording has no properties of this device";
                    (None, None, how.to_owned())
                }
            };
            let peaks = Peaks::new(device, share, &options.peaks);
            let achievable = match options.achievable.is_empty() {
                true => None,
                false => Some(peaks.times(&options.achievable)),
            };
            RecordedDevice {
                id: *id,
                key: device.map(|device| device.key().to_owned()),
                name: device.map_or("unknown device", Device::name).to_owned(),
                how,
                peaks,
                achievable,
            }
        });
        let all: Vec<RecordedDevice> = all.collect();
        let differ = all.iter().any(|device| !device.is_like(&all[0]));
        Ok(Self { all, differ })
    }

    /// The devices, by number.
    pub fn iter(&self) -> impl Iterator<Item = &RecordedDevice> {
        self.all.iter()
    }

    /// The device of this number.
    pub fn get(&self, id: i64) -> Option<&RecordedDevice> {
        self.all.iter().find(|device| device.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Basis;

    fn peaks(own: &[(PeakKey, f64)]) -> Peaks {
        Peaks::new(None, None, own)
    }

    #[test]
    fn the_largest_time_bounds_and_ties_go_to_arithmetic() {
        let own = peaks(&[
            (PeakKey::Arithmetic(Precision::Bf16), 1.0),
            (PeakKey::Hbm, 10.0),
            (PeakKey::Link, 1.0),
        ]);
        let mut numbers = Numbers::matrix(Precision::Bf16, 10_000, 100);
        let limit = own.limit(&numbers).unwrap();
        assert_eq!((limit.ns, limit.bound), (10.0, Some(Bound::Compute)));
        numbers.flops = Some(9_000);
        assert_eq!(own.limit(&numbers).unwrap().bound, Some(Bound::Memory));
        numbers.link_bytes = 11;
        assert_eq!(own.limit(&numbers).unwrap().bound, Some(Bound::Link));
        let nothing = Numbers::moved(0);
        assert_eq!(own.limit(&nothing).unwrap().bound, None);
        assert_eq!(nothing.basis, Basis::Exact);
    }

    #[test]
    fn types_without_units_fall_back() {
        let own = peaks(&[
            (PeakKey::Arithmetic(Precision::Fp16), 2.0),
            (PeakKey::Hbm, 1.0),
        ]);
        assert_eq!(own.matrix(Precision::Fp4), Some((2.0, Precision::Fp16)));
        assert_eq!(own.matrix(Precision::Int8), Some((2.0, Precision::Fp16)));
        assert_eq!(own.matrix(Precision::Tf32), None);
        let numbers = Numbers::matrix(Precision::Fp8, 1, 0);
        assert_eq!(own.limit(&numbers).unwrap().fallback, Some(Precision::Fp16));
    }

    #[test]
    fn an_unknown_device_gives_no_limits() {
        let own = peaks(&[]);
        assert!(!own.is_known());
        assert_eq!(own.limit(&Numbers::moved(1)), None);
        assert!((own.launch_ns() - 2_000.0).abs() < 1e-9);
    }

    #[test]
    fn unknown_keys_are_refused_with_the_known_ones() {
        let options = DeviceOptions {
            key: Some("h999".to_owned()),
            ..DeviceOptions::default()
        };
        let error = RecordedDevices::new(Devices::builtin(), &[], &[0], &options).unwrap_err();
        assert!(error.to_string().contains("h100-sxm"));
    }
}
