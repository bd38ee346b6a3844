//! Directions and sizes of memcpys.

use crate::trace::{ArgColumn, Slice, Trace};

/// Direction of a memcpy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum CopyDirection {
    /// From the memory of the host to that of a device.
    HostToDevice,
    /// From the memory of a device to that of the host.
    DeviceToHost,
    /// Between devices, or within one.
    DeviceToDevice,
}

impl CopyDirection {
    /// Returns the direction in the name of a memcpy: `Memcpy HtoD (Pinned -> Device)`,
    /// `MEMORY_COPY_DEVICE_TO_HOST`. Names without a direction count as memcpys on devices.
    ///
    /// ```
    /// use trace_model::kernel::CopyDirection;
    /// assert_eq!(CopyDirection::of_name("Memcpy DtoH (Device -> Pinned)"), CopyDirection::DeviceToHost);
    /// ```
    pub fn of_name(name: &str) -> Self {
        let name = name.to_ascii_lowercase().replace(['_', ' '], "");
        if name.contains("htod") || name.contains("hosttodevice") {
            Self::HostToDevice
        } else if name.contains("dtoh") || name.contains("devicetohost") {
            Self::DeviceToHost
        } else {
            Self::DeviceToDevice
        }
    }

    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostToDevice => "h2d",
            Self::DeviceToHost => "d2h",
            Self::DeviceToDevice => "d2d",
        }
    }
}

/// The keys of arguments, without prefix, with which profilers state how much a memcpy or memset moves: Kineto and JSON of rocprofv3
/// `bytes`, rocprofv3's Perfetto files and what is made of rocPD `copy_bytes`, other exports `size`.
pub const COPY_SIZE_KEYS: [&str; 3] = ["bytes", "copy_bytes", "size"];

/// The sizes of memcpys and memsets, under any of [`COPY_SIZE_KEYS`].
#[derive(Clone, Debug)]
pub struct CopySizes([ArgColumn; 3]);

impl CopySizes {
    /// Looks the keys up.
    pub fn new(trace: &Trace) -> Self {
        Self(COPY_SIZE_KEYS.map(|key| trace.arg_column(key)))
    }

    /// Returns the bytes of one, if they are stated.
    pub fn of(&self, slice: Slice<'_>) -> Option<i64> {
        self.0.iter().find_map(|column| column.int(slice))
    }
}
