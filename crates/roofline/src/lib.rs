//! How far each piece of GPU work is from the limit of its device.

pub mod config;
mod device;
mod dtype;
mod extensions;
mod models;
mod numbers;
mod recorded;
mod step_name;

pub use device::{Device, DeviceProperties, Devices, PeakKey, Recognised};
pub use dtype::{Dtype, Precision};
pub use extensions::{ExtensionError, Knowledge, OperatorRows};
pub use models::Models;
pub use numbers::{Answer, Basis, Numbers, UnitKind, Unknown};
pub use recorded::{CollectiveSizes, Context, Recorded};
pub use step_name::{Lengths, Phase, Requests, Sums, captured_size};
