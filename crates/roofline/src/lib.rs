//! How far each piece of GPU work is from the limit of its device.

mod analysis;
mod calls;
mod capture;
pub mod config;
mod coverage;
mod details;
mod device;
mod dtype;
mod extensions;
mod json;
mod ladder;
mod limit;
mod marks;
mod models;
mod numbers;
mod ops;
mod recorded;
mod step_name;
mod steps;
pub mod tables;
mod views;

pub use analysis::{Analysis, Error, Options, analyse};
pub use calls::{ARG_KEYS, Call, CallList, CallOptions, CaptureCounts, Kind, NO_OPERATOR};
pub use coverage::{Coverage, Missing, Share};
pub use details::{DETAIL_KEYS, KernelDetail, details_table, kernel_details};
pub use device::{Device, DeviceProperties, Devices, PeakKey, Recognised};
pub use dtype::{Dtype, Precision};
pub use extensions::{ExtensionError, Knowledge, OperatorRows};
pub use json::{document, model_document};
pub use ladder::Rung;
pub use limit::{
    Bound, DeviceOptions, LAUNCH_US, Limit, NoSuchDevice, Peak, Peaks, RecordedDevice,
    RecordedDevices,
};
pub use marks::Mark;
pub use models::Models;
pub use numbers::{Answer, Basis, Numbers, UnitKind, Unknown};
pub use ops::{CopyRow, OPS_KEYS, OpRow, OpSort, copies, copies_table, ops, ops_table};
pub use recorded::{CollectiveSizes, Context, Recorded};
pub use step_name::{Lengths, Phase, Requests, Sums, captured_size};
pub use steps::{Needs, StepRow, steps};
pub use views::{By, Origin, Row, Rows, Sort, rows};
