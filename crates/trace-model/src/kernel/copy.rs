//! Directions of memcpys.

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
